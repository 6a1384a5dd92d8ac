"""The SVG kit: a canvas for labels, lines, bars and marks.

A canvas of a `width` scales as a whole. One without is a strip: as wide as its place on the
page, of a fixed height, with places along it in percent, so that words and marks keep their
size on every screen. Colours and fonts are classes of the page's style sheet (`kind`), so
that a drawing follows light and dark pages.
"""

from collections.abc import Sequence
from html import escape


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
