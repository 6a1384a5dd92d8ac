"""The reproduction of the paper as one page: statements with verdicts, figures inlined."""

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

from cornerwave.documents import _document as kit

VERDICTS = {
    "holds": ("✓", "good", "hold"),
    "holds with a remark": ("✓*", "warn", "hold with a remark"),
    "does not hold": ("✗", "bad", "do not hold"),
}
"""Each verdict with its mark, its class and its plural."""

LEAD = (
    "<p>The statements of Y. Li, M. Chen, Q. Li and W. Zhang, <cite>Enabling Multi-level Trust in "
    "Privacy Preserving Data Mining</cite> (IEEE TKDE, 2011), in our words, beside what "
    "Cornerwave measured.</p>"
)


class _Judged(Protocol):
    """A statement with its verdict, a key of VERDICTS, and what was measured."""

    @property
    def source(self) -> str: ...
    @property
    def claim(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def measured(self) -> str: ...
    @property
    def remark(self) -> str: ...


class _Chapter(Protocol):
    """A part of the reproduction; `numbers` are columns by the name of their file."""

    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def statements(self) -> Sequence[_Judged]: ...
    @property
    def numbers(self) -> Mapping[str, Mapping[str, Sequence[Any]]]: ...


@dataclass(frozen=True)
class Picture:
    """A figure as it was written: an SVG."""

    name: str
    caption: str
    svg: bytes


def reproduction_page(
    chapters: Mapping[str, _Chapter],
    pictures: Mapping[str, Sequence[Picture]],
    *,
    data: str,
    paper: Mapping[str, tuple[str, float, float]],
) -> str:
    """Return the page; `data` says what was measured on.

    `paper` gives the paper's own attribute, mean and variance for some of the columns.
    """
    title = "Reproduction of the paper"
    links = "".join(f'<a href="#{n}">{escape(c.title)}</a>' for n, c in chapters.items())
    counts = Counter(str(s.verdict) for c in chapters.values() for s in c.statements)
    found = ", ".join(f"{counts[verdict]} {VERDICTS[verdict][2]}" for verdict in VERDICTS)
    parts = [
        kit.headline(
            title, f"Of {kit.count(counts.total(), 'statement')}, {found}.", data, "plain"
        ),
        f"{LEAD}<nav>{links}</nav>",
        *(_chapter(name, c, pictures[name], paper) for name, c in chapters.items()),
    ]
    footer = "docs/reproduction.md discusses the results."
    return kit.document(title, parts, footer=footer)


def _chapter(
    name: str,
    chapter: _Chapter,
    pictures: Sequence[Picture],
    paper: Mapping[str, tuple[str, float, float]],
) -> str:
    files = [f"{picture.name}.{kind}" for picture in pictures for kind in ("png", "svg")]
    files += [f"{name}.csv" for name in chapter.numbers]
    return kit.section(
        chapter.title,
        f"<p>{escape(chapter.text)}</p>" if chapter.text else "",
        _moments(chapter.numbers["table2"], paper) if name == "table2" else "",
        *map(_figure, pictures),
        _statements(chapter.statements),
        kit.hint(f"Files: {', '.join(files)}") if files else "",
        anchor=name,
    )


def _figure(picture: Picture) -> str:
    source = f"data:image/svg+xml;base64,{b64encode(picture.svg).decode()}"
    caption = escape(picture.caption)
    return (
        f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'
    )


def _statements(statements: Sequence[_Judged]) -> str:
    if not statements:
        return ""
    head = '<th class="claim">statement</th><th>measured</th><th class="judged">verdict</th>'
    return kit.html_table(head, map(_statement, statements))


def _statement(statement: _Judged) -> str:
    mark, kind, _ = VERDICTS[str(statement.verdict)]
    remark = f'<span class="aside">{escape(statement.remark)}</span>' if statement.remark else ""
    return (
        f'<td class="long">{escape(statement.claim)}'
        f'<span class="aside">{escape(statement.source)}</span></td>'
        f'<td class="long" data-label="measured">{escape(statement.measured)}{remark}</td>'
        f'<td class="{kind}" data-label="verdict">{mark} {escape(str(statement.verdict))}</td>'
    )


def _moments(
    numbers: Mapping[str, Sequence[Any]], paper: Mapping[str, tuple[str, float, float]]
) -> str:
    """Return the table of statistics, with the paper's beside ours where it has one."""
    header = ("column", "unit", "mean", "variance", "skewness", "zeros")
    rows = [
        (name, unit, f"{mean:,.2f}", f"{variance:,.2f}", f"{skew:.2f}", f"{zeros:.0%}")
        for name, unit, mean, variance, skew, zeros in zip(*numbers.values(), strict=True)
    ]
    if not any(row[0] in paper for row in rows):
        return kit.table(header, rows)
    theirs = [_theirs(*paper[row[0]]) if row[0] in paper else ("", "", "") for row in rows]
    both = [(*one, *other) for one, other in zip(rows, theirs, strict=True)]
    return kit.table((*header, "in the paper", "its mean", "its variance"), both)


def _theirs(attribute: str, mean: float, variance: float) -> tuple[str, str, str]:
    return attribute, f"{mean:,.2f}", f"{variance:,.2f}"
