"""The SVG kit: a canvas for labels, lines, bars and marks, and the drawings of a Document.

A canvas of a `width` scales as a whole. One without is a strip: as wide as its place on the
page, of a fixed height, with places along it in percent, so that words and marks keep their
size on every screen. Colours and fonts are classes of the page's style sheet (`kind`), so
that a drawing follows light and dark pages.
"""

import math
from base64 import b64encode
from collections.abc import Sequence
from html import escape

from cornerwave import document as doc
from cornerwave.document import BAD


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
# The drawings: shares on a scale from 0 to 1, histograms, curves, bars and meters.
#
# Words are text of the page beside the drawings, so that they wrap and are never cut off;
# the drawings are strips, as wide as there is room.


NEAR = 0.035
"""Dots whose shares are closer than this have one number in common."""
TALL = 96.0
IN_LINE = ("one", "two", "three", "four", "five")
"""How many small charts are in a line, at most five."""
UNSEEN = 0.005
"""A share of the rows that is worth mentioning when a histogram does not show it."""


def drawn(drawing: doc.Shares | doc.Histograms | doc.Curves | doc.Image) -> str:
    """Return a drawing as part of a page."""
    match drawing:
        case doc.Shares():
            return _share_chart(drawing)
        case doc.Histograms():
            return _histograms(drawing)
        case doc.Curves():
            return _curves(drawing)
        case doc.Image(svg, caption):
            source = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
            words = escape(caption)
            image = f'<img src="{source}" alt="{words}">'
            return f"<figure>{image}<figcaption>{words}</figcaption></figure>"


def _share_chart(chart: doc.Shares) -> str:
    axis = Canvas(18, "0 is fully known, 1 is fully hidden")
    axis.text(0, 13, "0: fully known", "small")
    axis.text(50, 13, "0.5", "small middle")
    axis.text(100, 13, "1: fully hidden", "small end")
    lines = [_line("", axis.svg(), "", "")]
    lines += [
        _line(row.name, share_strip(row), row.words, BAD if row.kind == BAD else "")
        for row in chart.rows
    ]
    return f'<figure class="shares" aria-label="{escape(chart.label)}">{"".join(lines)}</figure>'


def _line(name: str, drawing: str, words: str, kind: str) -> str:
    return (
        f'<div class="row"><span class="name">{escape(name)}</span>{drawing}'
        f'<span class="words {kind}">{escape(words)}</span></div>'
    )


def share_strip(row: doc.ShareRow) -> str:
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
    for number, share in sorted(enumerate(shares, start=1), key=lambda each: each[1]):
        if labels and share - labels[-1][0] < NEAR:
            labels[-1][1].append(number)
        else:
            labels.append((share, [number]))
    return [(share, ", ".join(map(str, sorted(numbers)))) for share, numbers in labels]


def _x(share: float) -> float:
    return 100 * min(max(share, 0.0), 1.0)


def _histograms(chart: doc.Histograms) -> str:
    """Draw histograms to the same height, with the original's outline."""
    original = next((panel for panel in chart.panels if panel.is_original), None)
    lines = math.ceil(len(chart.panels) / len(IN_LINE))
    kind = IN_LINE[math.ceil(len(chart.panels) / lines) - 1]
    figures = [
        f"<figure><figcaption>{escape(panel.title)}</figcaption>"
        f"{_histogram(panel, original, chart)}</figure>"
        for panel in chart.panels
    ]
    return f'<div class="panels {kind}">{"".join(figures)}</div>'


def overlay(chart: doc.Histograms) -> str:
    """Draw the histogram of a copy, the second of two, with the outline of the first."""
    original, copy = chart.panels
    return _histogram(copy, original, chart)


def _histogram(panel: doc.Panel, original: doc.Panel | None, chart: doc.Histograms) -> str:
    top = max(max(each.shares, default=0.0) for each in chart.panels) or 1.0
    canvas = Canvas(TALL + 2, f"{chart.label}, {panel.title}")
    canvas.polygon(_steps(panel.shares, top), "original" if panel.is_original else "copy")
    if original is not None and not panel.is_original:
        canvas.curve(_steps(original.shares, top), "outline")
    canvas.line(0, TALL + 1, 100, TALL + 1, "base")
    unseen = 1 - sum(panel.shares)
    note = f'<span class="note">{unseen:.0%} not shown</span>' if unseen >= UNSEEN else ""
    words = "".join(f"<span>{escape(end)}</span>" for end in chart.ends) + note
    return f'{canvas.svg()}<div class="ends">{words}</div>'


def _steps(shares: Sequence[float], top: float) -> list[tuple[float, float]]:
    """Return the corners of a histogram."""
    floor, width = TALL + 1, 100 / len(shares)
    corners = [(0.0, floor)]
    for i, share in enumerate(shares):
        height = floor - TALL * share / top
        corners += [(i * width, height), ((i + 1) * width, height)]
    return [*corners, (100.0, floor)]


def bar(cell: doc.Bar) -> str:
    """Draw a share of the rows as a bar, with a mark at the share to compare with."""
    kind, long = ("original" if cell.is_original else "copy"), 100 / cell.top
    canvas = Canvas(16, f"{cell.title}: {cell.text}")
    canvas.bar(0, 2, long * cell.share, 12, kind if cell.kept is None else "redrawn")
    if cell.kept is not None:
        kept = min(max(cell.kept, 0.0), cell.share)
        canvas.bar(0, 2, long * kept, 12, kind, title=f"{kept:.1%} not redrawn")
    if cell.mark is not None:
        canvas.line(long * cell.mark, 0, long * cell.mark, 16, "mark")
    return f"{canvas.svg()}<span>{cell.text}</span>"


def meter(cell: doc.Meter) -> str:
    """Draw how far a value came towards its limit."""
    canvas = Canvas(14, cell.title)
    canvas.bar(0, 0, 100, 14, "trough", title=cell.title)
    filled = max(100 * min(cell.share, 1.0), 1.5)
    canvas.bar(0, 0, filled, 14, "good" if cell.passed else "bad", title=cell.title)
    return canvas.svg()


def _curves(chart: doc.Curves) -> str:
    """Draw lines over a share from 0 to 1, on a logarithmic scale that begins at 1."""
    top, tall = 16.0, 220.0
    canvas = Canvas(top + tall + 42, chart.label)
    multiples = [y for line in chart.lines.values() for _, y in line]
    highest = math.log(max(multiples, default=2.0)) or 1.0

    def height(multiple: float) -> float:
        return top + tall * (1 - math.log(multiple) / highest)

    for line in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if math.log(line) <= highest:
            canvas.line(0, height(line), 100, height(line), "grid")
            canvas.text(0, height(line) - 4, f"{line:g} times", "small")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        kind = {0.0: "small", 1.0: "small end"}.get(share, "small middle")
        canvas.text(100 * share, top + tall + 20, f"{share:g}", kind)
    canvas.text(50, top + tall + 38, chart.axis, "small middle")
    for name, known in chart.lines.items():
        canvas.curve([(100 * share, height(multiple)) for share, multiple in known], "outline")
        for share, multiple in known:
            title = f"{chart.axis} {share:g}: {multiple:.3g}"
            canvas.dot(100 * share, height(multiple), 4, "dot", title=title)
        share, multiple = known[-1]
        canvas.text(100 * share - 2, height(multiple) + 4, name, "end")
    return f'<figure class="curves">{canvas.svg()}</figure>'
