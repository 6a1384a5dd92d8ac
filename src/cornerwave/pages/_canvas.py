"""The SVG kit: a canvas for labels, lines, bars and marks.

Positions are in units of the view box, which is WIDTH wide. Colours and fonts are classes
of the page's style sheet (`kind`), so that a drawing follows light and dark pages.
"""

from collections.abc import Sequence
from html import escape

WIDTH = 960.0

LETTER, CAPITAL = 8.2, 10.2
"""Width of an average character, and of a capital, at 14 px in the widest of the usual fonts."""


class Canvas:
    """A drawing of which `label` is the description for those who cannot see it."""

    def __init__(self, height: float, label: str, *, width: float = WIDTH) -> None:
        self._box = f"0 0 {_number(width)} {_number(height)}"
        self._label = label
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "", *, room: float = 0) -> None:
        """Write words at (x, y); what needs more than `room` is shortened, with a tooltip."""
        shown = shortened(words, _fitting(words, room)) if room else words
        title = words if shown != words else ""
        self._add("text", kind, escape(shown), title=title, x=x, y=y)

    def line(self, x: float, y: float, x_end: float, y_end: float, kind: str) -> None:
        """Draw a straight line."""
        self._add("line", kind, x1=x, y1=y, x2=x_end, y2=y_end)

    def bar(
        self, x: float, y: float, width: float, height: float, kind: str, *, title: str = ""
    ) -> None:
        """Draw a filled rectangle from its upper left corner."""
        self._add("rect", kind, title=title, x=x, y=y, width=max(width, 0), height=height)

    def dot(self, x: float, y: float, radius: float, kind: str, *, title: str = "") -> None:
        """Draw a circle around (x, y)."""
        self._add("circle", kind, title=title, cx=x, cy=y, r=radius)

    def diamond(self, x: float, y: float, radius: float, kind: str) -> None:
        """Draw a square on its corner around (x, y)."""
        points = [(x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)]
        self._add("polygon", kind, points=_points(points))

    def polygon(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Fill the area that points enclose."""
        self._add("polygon", kind, points=_points(points))

    def curve(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Connect points by lines."""
        self._add("polyline", kind, points=_points(points))

    def svg(self) -> str:
        """Return the drawing as part of a page."""
        return (
            f'<svg viewBox="{self._box}" role="img" aria-label="{escape(self._label)}">'
            f"{''.join(self._parts)}</svg>"
        )

    def file(self, style: str) -> str:
        """Return the drawing as a file of its own with its own style sheet."""
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{self._box}">'
            f"<title>{escape(self._label)}</title><style>{style}</style>\n{body}\n</svg>\n"
        )

    def _add(
        self, tag: str, kind: str, inner: str = "", *, title: str = "", **places: float | str
    ) -> None:
        given = {"class": kind, **places} if kind else places
        attributes = "".join(f' {name}="{_number(at)}"' for name, at in given.items())
        inner += f"<title>{escape(title)}</title>" if title else ""
        self._parts.append(
            f"<{tag}{attributes}>{inner}</{tag}>" if inner else f"<{tag}{attributes}/>"
        )


def shortened(text: str, letters: int) -> str:
    """Return at most so many letters of a text: its beginning and its end.

    >>> shortened("Department of Transport", 12)
    'Depart…sport'
    """
    if len(text) <= letters:
        return text
    return f"{text[: letters // 2]}…{text[len(text) - (letters - letters // 2 - 1) :]}"


def _fitting(words: str, room: float) -> int:
    """Return how many letters like those of a text fit.

    >>> _fitting("Ulm", 100.0), _fitting("ULM", 100.0)
    (11, 9)
    """
    capitals = sum(map(str.isupper, words)) / max(len(words), 1)
    return int(room / (LETTER + capitals * (CAPITAL - LETTER)))


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)
