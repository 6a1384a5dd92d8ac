"""The SVG kit: a canvas for labels, lines, bars and marks.

A canvas of a `width` scales as a whole. One without is a strip: as wide as its place on the
page, of a fixed height, with places along it in percent, so that words and marks keep their
size on every screen. Colours and fonts are classes of the page's style sheet (`kind`), so
that a drawing follows light and dark pages.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from cornerwave import times
from cornerwave.arrays import Floats
from cornerwave.documents import _document as kit
from cornerwave.documents._tallies import Axis


class Canvas:
    """A drawing of which `label` is the description for those who cannot see it."""

    def __init__(self, height: float, label: str, *, width: float | None = None) -> None:
        self._height, self._width, self._label = height, width, label
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words at (x, y)."""
        self._add("text", kind, escape(words), x=self._along(x), y=y)

    def line(self, x: float, y: float, x_end: float, y_end: float, kind: str) -> None:
        """Draw a straight line."""
        self._add("line", kind, x1=self._along(x), y1=y, x2=self._along(x_end), y2=y_end)

    def bar(
        self, x: float, y: float, width: float, height: float, kind: str, *, title: str = ""
    ) -> None:
        """Draw a filled rectangle from its upper left corner."""
        along, wide = self._along(x), self._along(max(width, 0.0))
        self._add("rect", kind, title=title, x=along, y=y, width=wide, height=height)

    def dot(self, x: float, y: float, radius: float, kind: str, *, title: str = "") -> None:
        """Draw a circle around (x, y)."""
        self._add("circle", kind, title=title, cx=self._along(x), cy=y, r=radius)

    def diamond(self, x: float, y: float, radius: float, kind: str) -> None:
        """Draw a square on its corner around (x, y)."""
        corners = [(0.0, -radius), (radius, 0.0), (0.0, radius), (-radius, 0.0)]
        drawn = _element("polygon", kind, points=_points(corners))
        self._add("svg", "", drawn, x=self._along(x), y=y)

    def polygon(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Fill the area that points enclose."""
        self._shape("polygon", points, kind)

    def curve(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Connect points by lines."""
        self._shape("polyline", points, kind)

    def svg(self) -> str:
        """Return the drawing as part of a page."""
        size = f'height="{_number(self._height)}"' if self._width is None else self._view_box
        label, body = escape(self._label), "".join(self._parts)
        return f'<svg {size} role="img" aria-label="{label}">{body}</svg>'

    def file(self, style: str) -> str:
        """Return the drawing as a file of its own with its own style sheet."""
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {self._view_box}>'
            f"<title>{escape(self._label)}</title><style>{style}</style>\n{body}\n</svg>\n"
        )

    @property
    def _view_box(self) -> str:
        width = 100.0 if self._width is None else self._width
        return f'viewBox="0 0 {_number(width)} {_number(self._height)}"'

    def _along(self, x: float) -> float | str:
        return f"{round(x, 2):g}%" if self._width is None else x

    def _shape(self, tag: str, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Draw a shape; on a strip in a box of 100 units that is stretched to its width."""
        shape = _element(tag, kind, points=_points(points))
        if self._width is None:
            shape = f'<svg {self._view_box} preserveAspectRatio="none">{shape}</svg>'
        self._parts.append(shape)

    def _add(
        self, tag: str, kind: str, inner: str = "", *, title: str = "", **places: float | str
    ) -> None:
        inner += f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(_element(tag, kind, inner, **places))


def _element(tag: str, kind: str, inner: str = "", **places: float | str) -> str:
    given = {"class": kind, **places} if kind else places
    attributes = "".join(f' {name}="{_number(at)}"' for name, at in given.items())
    return f"<{tag}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{attributes}/>"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{round(x, 2):g},{_number(y)}" for x, y in points)


# --------------------------------------------------------------------------------------------------
# The charts of the pages: shares on a scale from 0 to 1, histograms, bars, meters and curves.
#
# Words stand beside the drawings as text of the page, so that they wrap and are never cut off;
# the drawings are strips, as wide as there is room.


NEAR = 0.035
"""Dots whose shares are closer than this have one number in common."""
TALL = 96.0
IN_LINE = ("one", "two", "three", "four", "five")
"""How many small charts stand in a line, at most five."""
UNSEEN = 0.005
"""A share of the rows that is worth mentioning when a histogram does not show it."""


@dataclass(frozen=True)
class ShareRow:
    """A line of a share chart: a name, marks at shares from 0 to 1, and words beside it."""

    name: str
    dots: Sequence[tuple[float, str]] = ()
    """Shares, each with a title; numbered from 1 where there are several."""
    diamond: float | None = None
    ring: float | None = None
    hollow: float | None = None
    gap: tuple[float, float] | None = None
    words: str = ""
    kind: str = "good"
    """Class of the diamond, and of the words where it is "bad"."""


def share_chart(rows: Sequence[ShareRow], label: str) -> str:
    """Draw what stays hidden in each row: 0 is fully known, 1 fully hidden."""
    axis = Canvas(18, "0 is fully known, 1 is fully hidden")
    axis.text(0, 13, "0: fully known", "small")
    axis.text(50, 13, "0.5", "small middle")
    axis.text(100, 13, "1: fully hidden", "small end")
    lines = [_line("", axis.svg(), "", "")]
    lines += [
        _line(row.name, share_strip(row), row.words, "bad" if row.kind == "bad" else "")
        for row in rows
    ]
    return f'<figure class="shares" aria-label="{escape(label)}">{"".join(lines)}</figure>'


def _line(name: str, drawing: str, words: str, kind: str) -> str:
    return (
        f'<div class="row"><span class="name">{escape(name)}</span>{drawing}'
        f'<span class="words {kind}">{escape(words)}</span></div>'
    )


def share_strip(row: ShareRow) -> str:
    """Draw the marks of one row on a scale from 0 to 1, as wide as there is room."""
    several = len(row.dots) > 1
    height, y = (44.0, 28.0) if several else (30.0, 15.0)
    canvas = Canvas(height, f"{row.name}: {row.words}")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        canvas.line(100 * share, 0, 100 * share, height, "grid")
    canvas.line(0, y, 100, y, "rail")
    if row.gap is not None:
        low, high = map(_x, row.gap)
        canvas.bar(low, y - 5, max(high - low, 0.3), 10, "gap")
    if row.diamond is not None:
        canvas.diamond(_x(row.diamond), y, 10.5, row.kind)
    for at, kind in ((row.ring, "ring"), (row.hollow, "hollow")):
        if at is not None:
            canvas.dot(_x(at), y, 5, kind)
    for share, title in row.dots:
        canvas.dot(_x(share), y, 6, "dot", title=title)
    for share, text in _numbers([share for share, _ in row.dots]) if several else ():
        canvas.text(_x(share), y - 14, text, "small middle")
    return canvas.svg()


def _numbers(shares: Sequence[float]) -> list[tuple[float, str]]:
    """Return where the numbers of dots go; dots that overlap share a label."""
    labels: list[tuple[float, list[int]]] = []
    for i in np.argsort(shares, kind="stable"):
        if labels and shares[i] - labels[-1][0] < NEAR:
            labels[-1][1].append(int(i) + 1)
        else:
            labels.append((shares[i], [int(i) + 1]))
    return [(share, ", ".join(map(str, sorted(numbers)))) for share, numbers in labels]


def _x(share: float) -> float:
    return 100 * min(max(share, 0.0), 1.0)


@dataclass(frozen=True)
class Panel:
    """One of several small charts: a title, and the share of the rows in each bin or bar.

    `kept` is the part of each bar whose cells were not redrawn, if that is known.
    """

    title: str
    shares: Floats
    is_original: bool = False
    kept: Floats | None = None

    @property
    def kind(self) -> str:
        """The class that fills it."""
        return "original" if self.is_original else "copy"


def histograms(panels: Sequence[Panel], axis: Axis, unit: str | None, label: str) -> str:
    """Draw histograms in the same bins and to the same height, with the original's outline."""
    top = _highest(panels)
    original = next((panel for panel in panels if panel.is_original), None)
    ends = times.ends(axis.ends, unit)
    drawn = [_histogram(panel, original, top, ends, label) for panel in panels]
    lines = math.ceil(len(panels) / len(IN_LINE))
    kind = IN_LINE[math.ceil(len(panels) / lines) - 1]
    return f'<div class="panels {kind}">{"".join(drawn)}</div>'


def overlay(original: Floats, copy: Floats, axis: Axis, unit: str | None, label: str) -> str:
    """Draw the histogram of a copy with the original's outline."""
    panels = [Panel("original", original, is_original=True), Panel("copy", copy)]
    return _drawn(panels[1], panels[0], _highest(panels), times.ends(axis.ends, unit), label)


def _histogram(
    panel: Panel, original: Panel | None, top: float, ends: Sequence[str], label: str
) -> str:
    drawing = _drawn(panel, original, top, ends, f"{label}, {panel.title}")
    return f"<figure><figcaption>{escape(panel.title)}</figcaption>{drawing}</figure>"


def _drawn(
    panel: Panel, original: Panel | None, top: float, ends: Sequence[str], label: str
) -> str:
    canvas = Canvas(TALL + 2, label)
    canvas.polygon(_steps(panel.shares / top), panel.kind)
    if original is not None and not panel.is_original:
        canvas.curve(_steps(original.shares / top), "outline")
    canvas.line(0, TALL + 1, 100, TALL + 1, "base")
    unseen = 1 - float(panel.shares.sum())
    note = f'<span class="note">{unseen:.0%} not shown</span>' if unseen >= UNSEEN else ""
    words = "".join(f"<span>{escape(end)}</span>" for end in ends) + note
    return f'{canvas.svg()}<div class="ends">{words}</div>'


def _steps(heights: Floats) -> list[tuple[float, float]]:
    """Return the corners of a histogram of heights from 0 to 1."""
    edges = np.repeat(np.linspace(0, 100, len(heights) + 1), 2)
    floor = TALL + 1
    tops = np.concatenate([[floor], np.repeat(floor - TALL * heights, 2), [floor]])
    return list(zip(edges.tolist(), tops.tolist(), strict=True))


def bars(panels: Sequence[Panel], names: Sequence[str], what: str) -> str:
    """Draw a bar for each name in each panel, with a mark at the original's share."""
    top = _highest(panels)
    original = next((panel for panel in panels if panel.is_original), None)
    rows = [
        (name, *(_bar(panel, original, k, top, name) for panel in panels))
        for k, name in enumerate(names)
    ]
    return kit.table((what, *(panel.title for panel in panels)), rows)


def _bar(panel: Panel, original: Panel | None, k: int, top: float, name: str) -> kit.Html:
    share = float(panel.shares[k])
    canvas = Canvas(16, f"{name}, {panel.title}: {share:.1%}")
    canvas.bar(0, 2, 100 * share / top, 12, panel.kind if panel.kept is None else "redrawn")
    if panel.kept is not None:
        kept = min(max(float(panel.kept[k]), 0.0), share)
        canvas.bar(0, 2, 100 * kept / top, 12, panel.kind, title=f"{kept:.1%} not redrawn")
    if original is not None and not panel.is_original:
        at = 100 * float(original.shares[k]) / top
        canvas.line(at, 0, at, 16, "mark")
    return kit.Html(f"{canvas.svg()}<span>{share:.1%}</span>")


def _highest(panels: Iterable[Panel]) -> float:
    return max(float(panel.shares.max(initial=0)) for panel in panels) or 1.0


@dataclass(frozen=True)
class Meter:
    """How far a value came towards its limit, as a share of it."""

    share: float
    passed: bool
    title: str


def meters(
    names: Sequence[str], header: Sequence[str], rows: Sequence[Sequence[Meter | None]], what: str
) -> str:
    """Draw a meter for each name (a column) and each word of the header (a line)."""
    lines = [
        (word, *(_meter(row[k]) if row[k] else "–" for row in rows))  # type: ignore[arg-type]
        for k, word in enumerate(header)
    ]
    return kit.table((what, *names), lines)


def _meter(meter: Meter) -> kit.Html:
    canvas = Canvas(14, meter.title)
    canvas.bar(0, 0, 100, 14, "trough", title=meter.title)
    filled = max(100 * min(meter.share, 1.0), 1.5)
    canvas.bar(0, 0, filled, 14, "good" if meter.passed else "bad", title=meter.title)
    return kit.Html(canvas.svg())


def curves(lines: Mapping[str, Sequence[tuple[float, float]]], label: str, axis: str) -> str:
    """Draw lines over a share from 0 to 1, on a logarithmic scale that begins at 1."""
    top, tall = 16.0, 220.0
    canvas = Canvas(top + tall + 42, label)
    highest = math.log(max((y for line in lines.values() for _, y in line), default=2.0)) or 1.0

    def height(multiple: float) -> float:
        return top + tall * (1 - math.log(multiple) / highest)

    for line in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if math.log(line) <= highest:
            canvas.line(0, height(line), 100, height(line), "grid")
            canvas.text(0, height(line) - 4, f"{line:g} times", "small")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        kind = {0.0: "small", 1.0: "small end"}.get(share, "small middle")
        canvas.text(100 * share, top + tall + 20, f"{share:g}", kind)
    canvas.text(50, top + tall + 38, axis, "small middle")
    for name, known in lines.items():
        canvas.curve([(100 * share, height(multiple)) for share, multiple in known], "outline")
        for share, multiple in known:
            title = f"{axis} {share:g}: {multiple:.3g}"
            canvas.dot(100 * share, height(multiple), 4, "dot", title=title)
        share, multiple = known[-1]
        canvas.text(100 * share - 2, height(multiple) + 4, name, "end")
    return f'<figure class="curves">{canvas.svg()}</figure>'
