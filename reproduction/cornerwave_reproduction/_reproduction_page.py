"""The reproduction of the paper as one page: statements with verdicts, figures inlined."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cornerwave.document import (
    BAD,
    GOOD,
    WARN,
    Content,
    DataTable,
    Document,
    Image,
    MarkedCell,
    Paragraph,
    Part,
    Picture,
    Section,
    count,
)
from cornerwave_reproduction._part import Result, Statement

VERDICTS = {
    "holds": ("✓", GOOD, "hold"),
    "holds with a remark": ("✓*", WARN, "hold with a remark"),
    "does not hold": ("✗", BAD, "do not hold"),
}
"""Each verdict with its mark, its class and its plural."""

LEAD = (
    "The statements of Y. Li, M. Chen, Q. Li and W. Zhang, Enabling Multi-level Trust in Privacy "
    "Preserving Data Mining (IEEE TKDE, 2011), in our words, beside what Cornerwave measured on"
)


@dataclass(frozen=True)
class Figure:
    """A figure as it was written: an SVG."""

    name: str
    caption: str
    svg: bytes


def reproduction_document(
    chapters: Mapping[str, Result],
    figures: Mapping[str, Sequence[Figure]],
    *,
    data: str,
    paper: Mapping[str, tuple[str, float, float]],
) -> Document:
    """Return the document; `data` is the table that was measured on.

    `paper` gives the paper's attribute, mean and variance for some of the columns.
    """
    counts = Counter(str(s.verdict) for c in chapters.values() for s in c.statements)
    found = ", ".join(f"{counts[verdict]} {VERDICTS[verdict][2]}" for verdict in VERDICTS)
    return Document(
        title="Reproduction of the paper",
        verdict=f"Of {count(counts.total(), 'statement')}, {found}.",
        facts=f"{LEAD} {data}",
        sections=[_section(name, c, figures[name], paper) for name, c in chapters.items()],
        footer="docs/reproduction.md discusses the results.",
        contents=True,
    )


def _section(
    name: str,
    chapter: Result,
    figures: Sequence[Figure],
    paper: Mapping[str, tuple[str, float, float]],
) -> Section:
    files = [f"{figure.name}.{kind}" for figure in figures for kind in ("png", "svg")]
    files += [f"{name}.csv" for name in chapter.numbers]
    parts: list[Part] = [Paragraph(chapter.text)] if chapter.text else []
    parts += [_moments(chapter.numbers["table2"], paper)] if name == "table2" else []
    parts += [Picture(Image(each.svg, each.caption), each.caption) for each in figures]
    parts += [_statements(chapter.statements)] if chapter.statements else []
    parts += [Paragraph(f"Files: {', '.join(files)}")] if files else []
    return Section(chapter.title, parts)


def _statements(statements: Sequence[Statement]) -> DataTable:
    return DataTable(("statement", "measured", "verdict"), [*map(_statement, statements)])


def _statement(statement: Statement) -> tuple[Content, ...]:
    mark, kind, _ = VERDICTS[str(statement.verdict)]
    return (
        MarkedCell(statement.claim, statement.source),
        MarkedCell(statement.measured, statement.remark),
        MarkedCell(f"{mark} {statement.verdict}", kind=kind),
    )


def _moments(
    numbers: Mapping[str, Sequence[Any]], paper: Mapping[str, tuple[str, float, float]]
) -> DataTable:
    """Return the table of statistics, with the paper's beside ours where it has one."""
    header = ("column", "unit", "mean", "variance", "skewness", "zeros")
    rows = [
        (name, unit, f"{mean:,.2f}", f"{variance:,.2f}", f"{skew:.2f}", f"{zeros:.0%}")
        for name, unit, mean, variance, skew, zeros in zip(*numbers.values(), strict=True)
    ]
    if not any(row[0] in paper for row in rows):
        return DataTable(header, rows)
    theirs = [_theirs(*paper[row[0]]) if row[0] in paper else ("", "", "") for row in rows]
    both = [(*one, *other) for one, other in zip(rows, theirs, strict=True)]
    return DataTable((*header, "in the paper", "its mean", "its variance"), both)


def _theirs(attribute: str, mean: float, variance: float) -> tuple[str, str, str]:
    return attribute, f"{mean:,.2f}", f"{variance:,.2f}"
