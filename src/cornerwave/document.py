"""A result as a document: sections of text, tables and pictures, built once for every reader.

    result ──> Document ──documents──> text on a terminal, a page of HTML, JSON

The parts are plain values: they know no HTML, no colours and no widths. An audit, a coalition,
the outlook on privacies, a report and a dictionary build them; `cornerwave.documents` renders them.
To add a kind of part: a class here, in `Part`, and a case in each of the two renderers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

GOOD, BAD, WARN, PLAIN = "good", "bad", "warn", "plain"
"""The kinds of a verdict, a cell or a mark: all is well, a fault, a remark, neither."""


@dataclass(frozen=True)
class MarkedCell:
    """A cell of a table with a remark below its text, or of a kind."""

    text: str
    aside: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Meter:
    """A cell that shows how far a value came towards its limit, as a share of it."""

    share: float
    passed: bool
    title: str

    @property
    def text(self) -> str:
        """The share in words."""
        return f"{min(self.share, 9.99):.0%}{'' if self.passed else ', failed'}"


@dataclass(frozen=True)
class Bar:
    """A cell that shows a share of the rows as a bar; one of the length `top` fills the cell.

    `kept` is the part whose cells were not redrawn, if that is known; `mark` a share to compare
    with; `title` describes the bar to those who cannot see it.
    """

    share: float
    top: float
    title: str
    is_original: bool = False
    kept: float | None = None
    mark: float | None = None

    @property
    def text(self) -> str:
        """The share in words."""
        return f"{self.share:.1%}"


Content = str | MarkedCell | Meter | Bar


def text_of(cell: Content) -> str:
    """Return the text of a cell where nothing can be drawn."""
    return cell if isinstance(cell, str) else cell.text


@dataclass(frozen=True)
class DataTable:
    """A table; its first column names the rows."""

    header: Sequence[str]
    rows: Sequence[Sequence[Content]]
    title: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph that explains what follows."""

    text: str


@dataclass(frozen=True)
class Answer:
    """A question and its answer, in plain words."""

    question: str
    text: str


@dataclass(frozen=True)
class Bullets:
    """A list; on a terminal each line begins with the word `lead`, so that it can be searched."""

    lines: Sequence[str]
    lead: str = ""


@dataclass(frozen=True)
class Code:
    """Lines of a program or of its output."""

    text: str


# --------------------------------------------------------------------------------------------------
# Pictures: what is drawn, not how.


@dataclass(frozen=True)
class ShareRow:
    """A line of a share chart: a name, marks at shares from 0 to 1, and words beside it.

    Dots have a share and a title each, and are numbered from 1 where there are several; `kind` is
    that of the diamond, and of the words where it is BAD.
    """

    name: str
    dots: Sequence[tuple[float, str]] = ()
    diamond: float | None = None
    ring: float | None = None
    hollow: float | None = None
    gap: tuple[float, float] | None = None
    words: str = ""
    kind: str = GOOD


@dataclass(frozen=True)
class Shares:
    """What stays hidden in each row: 0 is fully known, 1 fully hidden."""

    rows: Sequence[ShareRow]
    label: str


@dataclass(frozen=True)
class Panel:
    """A histogram: a title, and the share of the rows in each bin."""

    title: str
    shares: Sequence[float]
    is_original: bool = False


@dataclass(frozen=True)
class Histograms:
    """Histograms in the same bins, from the first to the last of `ends`."""

    panels: Sequence[Panel]
    ends: Sequence[str]
    label: str


@dataclass(frozen=True)
class Curves:
    """Lines over a share from 0 to 1 (`axis`), as multiples from 1 upwards."""

    lines: Mapping[str, Sequence[tuple[float, float]]]
    label: str
    axis: str


@dataclass(frozen=True)
class Image:
    """A figure that is an SVG file already."""

    svg: bytes
    caption: str


@dataclass(frozen=True)
class Picture:
    """A drawing; `text` is what a terminal shows instead.

    That is nothing, if a table beside the picture has the figures.
    """

    drawing: Shares | Histograms | Curves | Image
    text: str = ""


@dataclass(frozen=True)
class Legend:
    """The key to pictures: (kind of mark, meaning) each."""

    marks: Sequence[tuple[str, str]]


# --------------------------------------------------------------------------------------------------
# The whole.


@dataclass(frozen=True)
class Fold:
    """Parts under a heading that opens at a click, and on paper by itself."""

    title: str
    parts: Sequence["Part"]
    is_open: bool = True


Part = Paragraph | Answer | Bullets | Code | DataTable | Picture | Legend | Fold


@dataclass(frozen=True)
class Section:
    """Parts under a heading; one that is `page_only` is too long for a terminal.

    The figures of one that `is_detail` are behind the others: a page shows them at a click, a
    terminal if they are asked for.
    """

    title: str
    parts: Sequence[Part]
    page_only: bool = False
    is_detail: bool = False


@dataclass(frozen=True)
class Document:
    """A result: its title, its verdict in one or two sentences, facts about it, and sections.

    `kind` is that of the verdict: GOOD, BAD or PLAIN. `data` is the result for programs, as
    JSON values. With `contents`, a page begins with links to its sections.
    """

    title: str
    verdict: str
    facts: str = ""
    kind: str = PLAIN
    sections: Sequence[Section] = ()
    footer: str = ""
    data: Any = None
    contents: bool = False


def of_tables(
    title: str, verdict: str, tables: Mapping[str, Document], first: Sequence[Section] = ()
) -> Document:
    """Return the documents about linked tables as one: the sections of each, after some of all.

    Its verdict is as bad as the worst of them; its data are those of each table, by name.
    """
    kinds = {each.kind for each in tables.values()}
    sections = list(first)
    for name, each in tables.items():
        about = [Paragraph(text) for text in (each.verdict, each.facts) if text]
        sections.append(Section(name, about))
        sections += [replace(part, title=f"{name}: {part.title}") for part in each.sections]
    return Document(
        title=title,
        verdict=verdict,
        kind=next((kind for kind in (BAD, PLAIN) if kind in kinds), GOOD),
        sections=sections,
        footer=next((each.footer for each in tables.values()), ""),
        data={name: each.data for name, each in tables.items()},
        contents=any(each.contents for each in tables.values()),
    )


# --------------------------------------------------------------------------------------------------
# How numbers, names, dates and spans of time are written.


def count(number: int, one: str, many: str = "") -> str:
    """Write a number of things.

    >>> count(1, "level"), count(2000, "category", "categories")
    ('1 level', '2,000 categories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """Write a share with one digit after the point, if it has one.

    >>> percent(0.5), percent(0.445)
    ('50%', '44.5%')
    """
    return f"{round(100 * share, 1):g}%"


def one_line(text: str) -> str:
    r"""Return text with control characters spelled out: names may come from foreign files.

    >>> print(one_line("a\nb\x1b[2J"))
    a\nb\x1b[2J
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


# Copies count dates in days or seconds since 1970, and durations in seconds; `unit` states which.

DAY, MINUTE = 86400.0, 60.0
SPANS = (("days", DAY), ("hours", 3600.0), ("minutes", MINUTE), ("seconds", 1.0))


def is_date(unit: str | None) -> bool:
    """Whether values of a unit are points in time."""
    return unit is not None and "1970" in unit


def seconds_of(value: float, unit: str) -> float:
    """Return a value, or a distance between two, in seconds."""
    return value * DAY if unit.startswith("days") else value


def moment(seconds: float, *, within: float = DAY) -> str:
    """Write a point in time, as precisely as something known within so many seconds deserves.

    >>> moment(86400.0 * 365.51), moment(86400.0 * 365.51, within=600.0), moment(1e30)
    ('1971-01-01', '1971-01-01 12:14', '1e+30')
    """
    try:
        when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return f"{seconds:.4g}"
    if within >= DAY:
        return when.date().isoformat()
    return when.strftime("%Y-%m-%d %H:%M" if within >= MINUTE else "%Y-%m-%d %H:%M:%S")


def span_of(seconds: float) -> tuple[str, float]:
    """Return the unit that people would use for so many seconds, and its length."""
    return next((span for span in SPANS if abs(seconds) >= span[1]), SPANS[-1])


_LARGE = (("trillion", 1e12), ("billion", 1e9), ("million", 1e6))


def axis_ends(values: Sequence[float], unit: str | None) -> list[str]:
    """Write the ends of an axis; dates as dates, durations and large numbers in one unit.

    >>> axis_ends([0.0, 12000.0], None), axis_ends([-7200.0, 36000.0], "seconds")
    (['0', '12,000'], ['-2 hours', '10 hours'])
    >>> axis_ends([-105e6, 0.0, 4e8], None)
    ['-105 million', '0', '400 million']
    """
    if unit is None:
        most = max(map(abs, values))
        name, size = next((each for each in _LARGE if each[1] <= most < 1e15), ("", 1.0))
        digits = 4 if name else 6
        return [f"{v / size:,.{digits}g} {name}".rstrip() if v else "0" for v in values]
    seconds = [seconds_of(value, unit) for value in values]
    if is_date(unit):
        return [moment(each, within=max(seconds) - min(seconds)) for each in seconds]
    name, size = span_of(max(seconds, key=abs))
    return [f"{each / size:,.4g} {name}" for each in seconds]
