"""A first look at a table, and a draft of the schema file to register it with.

    inspect   one pass over a source; the draft is registered for trial on a sample of its rows
    draft     the schema file, with what was found as comments

Names and counts are shown, never a value.

    _columns  what each column is, and what to watch for
    _how_read how the cells of a text file are spelled
    _telling  which columns tell which, and which to refresh together
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from cornerwave.inspection._columns import ColumnReport, Columns
from cornerwave.inspection._how_read import how_read
from cornerwave.inspection._telling import SampledRows, Telling, telling
from cornerwave.table import Progress, Source, silent

__all__ = ["ColumnReport", "Inspection", "draft", "how_read", "inspect"]

GROUP_ROWS = 1 << 17


@dataclass(frozen=True)
class Inspection:
    """What was found in each column, and what columns tell of each other."""

    columns: tuple[ColumnReport, ...]
    telling: Telling


def inspect(source: Source, *, progress: Progress = silent) -> Inspection:
    """Look at every column of a source. Raises SourceError if it cannot be read."""
    seen, sample = Columns(source), SampledRows(source.schema)
    for table in source.groups(source.schema.names, GROUP_ROWS):
        seen.take(table)
        sample.add(table)
        progress(table.num_rows)
    columns = tuple(seen.reports())
    proposed = {each.name: each.do for each in columns}
    return Inspection(columns, telling(sample.rows, source.schema, proposed))


_ORDER = (
    'order = "shuffle"    # the order of the rows tells columns: shuffle the rows of copies, or',
    '                     # "keep" their order if recipients need it, as in a time series',
)


def draft(found: Inspection) -> str:
    """Return a schema file that says what would happen, for the owner to edit."""
    groups = ", ".join(f"[{', '.join(map(_quoted, names))}]" for names in found.telling.together)
    lines = [
        "# Edit this schema file, then register the table with it.",
        "min_count = 0    # pool category values that are held by fewer rows than this",
        f'together = [{groups}]    # categories to refresh as one, as in [["city", "district"]]',
        *(_ORDER if any(report.told for report in found.columns) else ()),
        *(f"# {_comment(line)}" for line in found.telling.sentences),
        *(line for report in found.columns for line in _column(report)),
    ]
    return "\n".join(lines) + "\n"


def _column(report: ColumnReport) -> Iterator[str]:
    about = "" if report.exact else "about "
    number = report.distinct if report.exact else float(f"{report.distinct:.1e}")
    values = "value" if number == 1 else "values"
    yield ""
    yield "[[column]]"
    yield f"name = {_quoted(report.name)}"
    yield f"do = {_quoted(report.do)}    # perturb, category, key, keep or drop"
    yield (
        f"# {_comment(report.type)}, {about}{number:,.0f} distinct {values}, "
        f"{report.missing:.1%} missing"
    )
    for warning in report.warnings:
        yield f"# note: {_comment(warning)}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: str) -> str:
    """Return text that cannot end a comment's line."""
    return _quoted(text)[1:-1].replace('\\"', '"')
