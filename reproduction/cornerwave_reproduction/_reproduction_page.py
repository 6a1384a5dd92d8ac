"""The reproduction of the paper as one page: statements with verdicts, figures inlined."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cornerwave import document as doc
from cornerwave.document import BAD, GOOD, WARN, count
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
) -> doc.Document:
    """Return the document; `data` is the table that was measured on.

    `paper` gives the paper's attribute, mean and variance for some of the columns.
    """
    counts = Counter(str(s.verdict) for c in chapters.values() for s in c.statements)
    found = ", ".join(f"{counts[each]} {VERDICTS[each][2]}" for each in VERDICTS if counts[each])
    return doc.Document(
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
) -> doc.Section:
    files = [f"{figure.name}.{kind}" for figure in figures for kind in ("png", "svg")]
    files += [f"{name}.csv" for name in chapter.numbers]
    parts: list[doc.Part] = [doc.Paragraph(chapter.text)] if chapter.text else []
    parts += [_moments(chapter.numbers["table2"], paper)] if name == "table2" else []
    parts += [doc.Picture(doc.Image(each.svg, each.caption), each.caption) for each in figures]
    parts += [_statements(chapter.statements)] if chapter.statements else []
    parts += [doc.Paragraph(f"Files: {', '.join(files)}")] if files else []
    return doc.Section(chapter.title, parts)


def _statements(statements: Sequence[Statement]) -> doc.DataTable:
    return doc.DataTable(("statement", "measured", "verdict"), [*map(_statement, statements)])


def _statement(statement: Statement) -> tuple[doc.Content, ...]:
    mark, kind, _ = VERDICTS[str(statement.verdict)]
    return (
        doc.MarkedCell(statement.claim, statement.source),
        doc.MarkedCell(statement.measured, statement.remark),
        doc.MarkedCell(f"{mark} {statement.verdict}".replace(" ", "\N{NO-BREAK SPACE}"), kind=kind),
    )


def _moments(
    numbers: Mapping[str, Sequence[Any]], paper: Mapping[str, tuple[str, float, float]]
) -> doc.DataTable:
    """Return the table of statistics, with the paper's beside ours where it has one."""
    header = ("column", "unit", "mean", "variance", "skewness", "zeros")
    rows = [
        (name, unit, f"{mean:,.2f}", f"{variance:,.2f}", f"{skew:.2f}", f"{zeros:.0%}")
        for name, unit, mean, variance, skew, zeros in zip(*numbers.values(), strict=True)
    ]
    if not any(row[0] in paper for row in rows):
        return doc.DataTable(header, rows)
    theirs = [_theirs(*paper[row[0]]) if row[0] in paper else ("", "", "") for row in rows]
    both = [(*one, *other) for one, other in zip(rows, theirs, strict=True)]
    return doc.DataTable((*header, "in the paper", "its mean", "its variance"), both)


def _theirs(attribute: str, mean: float, variance: float) -> tuple[str, str, str]:
    return attribute, f"{mean:,.2f}", f"{variance:,.2f}"
