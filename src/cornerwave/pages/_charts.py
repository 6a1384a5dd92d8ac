"""The charts of the pages: shares on a scale from 0 to 1, histograms, bars and meters."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.pages._canvas import LETTER, WIDTH, Canvas
from cornerwave.pages._tallies import Axis, tick

LEFT, RIGHT = 230.0, 180.0
"""Margins beside the scale, for names and for words."""
NEAR = 16.0
"""Dots closer than this share one number."""

PANELS, GAP = 5, 22.0
"""Small multiples in a line, at most, and the space between them."""
TALL = 96.0
UNSEEN = 0.005
"""A share of the rows that is worth mentioning when a histogram does not show it."""
BAR_STEP, BAR_LEFT, BAR_RIGHT = 22.0, 160.0, 44.0


@dataclass(frozen=True)
class ShareRow:
    """A line of a share chart: a name, marks at shares from 0 to 1, and words beside it."""

    name: str
    dots: Sequence[tuple[float, str]] = ()
    """Shares, each with a title; numbered from 1 where there are several."""
    diamond: float | None = None
    ring: float | None = None
    gap: tuple[float, float] | None = None
    words: str = ""
    kind: str = "good"
    """Class of the diamond, and of the words where it is "bad"."""


def share_chart(rows: Sequence[ShareRow], label: str) -> str:
    """Draw what stays hidden in each row: 0 is fully known, 1 fully hidden."""
    numbered = any(len(row.dots) > 1 for row in rows)
    step, top = 46.0 if numbered else 32.0, 30.0
    height = top + step * len(rows) + 8
    canvas = Canvas(height, label)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        word = {0.0: "0: fully known", 1.0: "1: fully hidden"}.get(share, f"{share:g}")
        canvas.line(_x(share), top - 4, _x(share), height - 6, "grid")
        canvas.text(_x(share), top - 12, word, "small middle")
    for i, row in enumerate(rows):
        _draw_row(canvas, row, top + step * (i + 0.5) + (4 if numbered else 0))
    return canvas.svg()


def _draw_row(canvas: Canvas, row: ShareRow, y: float) -> None:
    canvas.text(LEFT - 14, y + 5, row.name, "end", room=LEFT - 20)
    canvas.line(_x(0), y, _x(1), y, "rail")
    _draw_marks(canvas, row, _x, y)
    if len(row.dots) > 1:
        for x, text in _numbers([share for share, _ in row.dots]):
            canvas.text(x, y - 14, text, "small middle")
    kind = "bad" if row.kind == "bad" else ""
    canvas.text(_x(1) + 18, y + 5, row.words, kind, room=RIGHT - 20)


def _numbers(shares: Sequence[float]) -> list[tuple[float, str]]:
    """Return where the numbers of dots go; dots that overlap share a label."""
    labels: list[tuple[float, list[int]]] = []
    for i in np.argsort(shares, kind="stable"):
        x = _x(shares[i])
        if labels and x - labels[-1][0] < NEAR:
            labels[-1][1].append(int(i) + 1)
        else:
            labels.append((x, [int(i) + 1]))
    return [(x, ", ".join(map(str, sorted(numbers)))) for x, numbers in labels]


def _x(share: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


RAIL, RAIL_END, SMALL = 480.0, 12.0, 330.0
"""Width of a rail, the space at either end of its scale, and the width of a small histogram."""


def share_rail(row: ShareRow) -> str:
    """Draw the marks of one row on a slim scale from 0 to 1 that fits on a phone."""
    canvas, y = Canvas(30.0, f"{row.name}: {row.words}", width=RAIL), 15.0

    def x(share: float) -> float:
        return RAIL_END + (RAIL - 2 * RAIL_END) * min(max(share, 0.0), 1.0)

    canvas.line(x(0), y, x(1), y, "rail")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        canvas.line(x(share), y - 5, x(share), y + 5, "grid")
    _draw_marks(canvas, row, x, y)
    return canvas.svg()


def _draw_marks(canvas: Canvas, row: ShareRow, x: Callable[[float], float], y: float) -> None:
    if row.gap is not None:
        low, high = map(x, row.gap)
        canvas.bar(low, y - 5, max(high - low, 2), 10, "gap")
    if row.diamond is not None:
        canvas.diamond(x(row.diamond), y, 10.5, row.kind)
    if row.ring is not None:
        canvas.dot(x(row.ring), y, 5, "ring")
    for share, title in row.dots:
        canvas.dot(x(share), y, 6, "dot", title=title)


@dataclass(frozen=True)
class Panel:
    """One of several small charts: a title, and the share of the rows in each bin or bar."""

    title: str
    shares: Floats
    is_original: bool = False

    @property
    def kind(self) -> str:
        """The class that fills it."""
        return "original" if self.is_original else "copy"


class _Multiples:
    """Where small charts of one height go: in lines of equal length, as far as possible."""

    def __init__(self, panels: int, height: float, left: float = 0.0) -> None:
        lines = math.ceil(panels / PANELS)
        self.per_line = max(math.ceil(panels / lines), 3)
        self.left, self._height = left + 8, height
        self.width = (WIDTH - left - 16 - GAP * (self.per_line - 1)) / self.per_line
        self.height = 8 + height * lines

    def corner(self, i: int) -> tuple[float, float]:
        line, column = divmod(i, self.per_line)
        return self.left + column * (self.width + GAP), 4 + line * self._height


def histograms(panels: Sequence[Panel], axis: Axis, unit: str | None, label: str) -> str:
    """Draw histograms in the same bins and to the same height, with the original's outline."""
    unseen = [1 - float(panel.shares.sum()) for panel in panels]
    head = 38 if max(unseen) >= UNSEEN else 26
    places = _Multiples(len(panels), head + TALL + 30)
    canvas = Canvas(places.height, label)
    top = _highest(panels)
    original = next((panel for panel in panels if panel.is_original), None)
    ends = [tick(float(end), unit) for end in (axis.edges[0], axis.edges[-1])]
    for i, panel in enumerate(panels):
        x, y = places.corner(i)
        right, floor = x + places.width, y + head + TALL
        canvas.text(x, y + 16, panel.title)
        if unseen[i] >= UNSEEN:
            canvas.text(x, y + 31, f"{unseen[i]:.0%} not shown", "small")
        canvas.polygon(_steps(panel.shares / top, x, floor, places.width), panel.kind)
        if original is not None and not panel.is_original:
            canvas.curve(_steps(original.shares / top, x, floor, places.width), "outline")
        canvas.line(x, floor, right, floor, "base")
        canvas.text(x, floor + 16, ends[0], "small")
        canvas.text(right, floor + 16, ends[1], "small end")
    return canvas.svg()


def overlay(original: Floats, copy: Floats, axis: Axis, unit: str | None, label: str) -> str:
    """Draw the histogram of a copy with the original's outline, small enough for a phone."""
    width, floor = SMALL, 8 + TALL
    canvas = Canvas(floor + 22, label, width=width)
    top = max(float(original.max(initial=0)), float(copy.max(initial=0))) or 1.0
    canvas.polygon(_steps(copy / top, 4, floor, width - 8), "copy")
    canvas.curve(_steps(original / top, 4, floor, width - 8), "outline")
    canvas.line(4, floor, width - 4, floor, "base")
    canvas.text(4, floor + 17, tick(float(axis.edges[0]), unit), "small")
    canvas.text(width - 4, floor + 17, tick(float(axis.edges[-1]), unit), "small end")
    return canvas.svg()


def _steps(heights: Floats, x: float, floor: float, width: float) -> list[tuple[float, float]]:
    """Return the corners of a histogram of heights from 0 to 1."""
    edges = np.repeat(np.linspace(x, x + width, len(heights) + 1), 2)
    tops = np.concatenate([[floor], np.repeat(floor - TALL * heights, 2), [floor]])
    return list(zip(edges.tolist(), tops.tolist(), strict=True))


def bars(panels: Sequence[Panel], names: Sequence[str], label: str) -> str:
    """Draw a bar for each name in each panel, with a mark at the original's share."""
    places = _Multiples(len(panels), 36 + BAR_STEP * len(names), BAR_LEFT)
    canvas = Canvas(places.height, label)
    scale = (places.width - BAR_RIGHT) / _highest(panels)
    original = next((panel for panel in panels if panel.is_original), None)
    for i, panel in enumerate(panels):
        x, y = places.corner(i)
        canvas.text(x, y + 16, panel.title)
        for k, share in enumerate(panel.shares):
            line, end = y + 26 + BAR_STEP * k, x + scale * float(share)
            if i % places.per_line == 0:
                canvas.text(x - 10, line + 14, names[k], "end", room=BAR_LEFT - 12)
            canvas.bar(x, line, end - x, 16, panel.kind)
            if original is not None and not panel.is_original:
                at = x + scale * float(original.shares[k])
                canvas.line(at, line - 2, at, line + 18, "mark")
                end = max(end, at)
            canvas.text(end + 6, line + 13, f"{share:.1%}", "small")
    return canvas.svg()


def _highest(panels: Iterable[Panel]) -> float:
    return max(float(panel.shares.max(initial=0)) for panel in panels) or 1.0


@dataclass(frozen=True)
class Meter:
    """How far a value came towards its limit, as a share of it."""

    share: float
    passed: bool
    title: str


def meters(
    names: Sequence[str], header: Sequence[str], rows: Sequence[Sequence[Meter | None]], label: str
) -> str:
    """Draw a meter in each cell, a dash where there is none."""
    left, step, top = 200.0, 34.0, 30.0
    width = (WIDTH - left - 10) / max(len(header), 7)
    canvas = Canvas(top + step * len(names) + 4, label)
    for k, word in enumerate(header):
        canvas.text(left + width * (k + 0.5), 20, word, "small middle")
    for i, (name, row) in enumerate(zip(names, rows, strict=True)):
        y = top + step * i
        canvas.text(left - 10, y + 19, name, "end", room=left - 2 * LETTER)
        for k, meter in enumerate(row):
            x = left + width * k + 8
            if meter is None:
                canvas.text(x + width / 2 - 8, y + 19, "–", "small middle")
                continue
            filled = max((width - 16) * min(meter.share, 1.0), 3)
            canvas.bar(x, y + 8, width - 16, 14, "trough", title=meter.title)
            canvas.bar(x, y + 8, filled, 14, "good" if meter.passed else "bad", title=meter.title)
    return canvas.svg()


def curves(lines: Mapping[str, Sequence[tuple[float, float]]], label: str, axis: str) -> str:
    """Draw lines over a share from 0 to 1, on a logarithmic scale that begins at 1."""
    left, right, top, tall = 60.0, RIGHT, 16.0, 220.0
    canvas = Canvas(top + tall + 40, label)
    highest = math.log(max((y for line in lines.values() for _, y in line), default=2.0)) or 1.0

    def place(share: float, multiple: float) -> tuple[float, float]:
        return left + (WIDTH - left - right) * share, top + tall * (
            1 - math.log(multiple) / highest
        )

    for line in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if math.log(line) <= highest:
            x, y = place(0.0, line)
            canvas.line(x, y, place(1.0, 1)[0], y, "grid")
            canvas.text(x - 8, y + 5, f"{line:g}", "small end")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        canvas.text(place(share, 1)[0], top + tall + 20, f"{share:g}", "small middle")
    canvas.text(place(0.5, 1)[0], top + tall + 36, axis, "small middle")
    for name, known in lines.items():
        points = [place(*point) for point in known]
        canvas.curve(points, "outline")
        for (x, y), (share, multiple) in zip(points, known, strict=True):
            canvas.dot(x, y, 4, "dot", title=f"{axis} {share:g}: {multiple:.3g}")
        canvas.text(points[-1][0] + 12, points[-1][1] + 5, name, room=RIGHT - 20)
    return canvas.svg()
