"""A first look at a table, and a draft of the schema file to register it with.

    inspect   one pass over a source; the draft is registered for trial on a sample of its rows
    draft     the schema file, with what was found as comments

Names and counts are shown, never a value.

    _columns    what each column is, and what to watch for
    _recognise  what must not leave by default, and numbers that are codes; _words: by name
    _scales     a number on its own scale, or on that of its ranks
    _disclosure    which columns reveal which, and what copies will look like
    _unit_draft columns that name people, firms, places
    _draft      the text; risks, each with a number
"""

from dataclasses import dataclass, field

from cornerwave import sizes
from cornerwave.columns import SAFE_ROWS
from cornerwave.inspection._columns import ColumnReport, Columns
from cornerwave.inspection._disclosure import Disclosure, SampledRows, disclosure
from cornerwave.inspection._draft import how_read, risks, written
from cornerwave.inspection._unit_draft import (
    outer_warnings,
    repeated_identifier,
    time_to_propose,
    unit_to_propose,
    unit_warnings,
    units_in,
    with_time,
    with_units,
)
from cornerwave.privacy import Unit
from cornerwave.sources import Progress, Source, silent

__all__ = [
    "ColumnReport",
    "Inspection",
    "draft",
    "how_read",
    "inspect",
]


@dataclass(frozen=True)
class Inspection:
    """What was found in each column, what columns reveal of each other, and what to beware of."""

    columns: tuple[ColumnReport, ...]
    disclosure: Disclosure = field(default_factory=Disclosure)
    warnings: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()
    asks: frozenset[str] = frozenset()
    """The choices about the table that registration asks the owner for."""
    time: str | None = None
    """The column that states when a person's rows were, if there is one."""


def inspect(source: Source, *, progress: Progress = silent) -> Inspection:
    """Look at every column of a source. Raises SourceError if it cannot be read."""
    seen, sample = Columns(source), SampledRows(source.schema)
    for table in source.groups(source.schema.names, sizes.INSPECTED_ROWS):
        seen.take(table)
        sample.add(table)
        progress(table.num_rows)
    columns = tuple(seen.reports(sample.rows))
    units = units_in(sample.rows, seen.rows, {each.name: each.do for each in columns})
    unit = unit_to_propose(columns, units) or repeated_identifier(columns, sample.rows, seen.rows)
    time = time_to_propose(sample.rows, unit)
    columns = tuple(with_units(columns, units, unit, sample.rows))
    columns = tuple(with_time(columns, sample.rows, unit, time))
    proposed = {each.name: each.do for each in columns}
    ranked = [each.name for each in columns if each.is_ranked]
    disclosed = disclosure(sample.rows, source.schema, proposed, ranked)
    warnings = (
        *unit_warnings(columns, units, unit),
        *outer_warnings(sample.rows, proposed, columns, unit),
        *risks(sample.rows, seen.rows, proposed, disclosed.frozen),
    )
    asks = {
        "time": time is not None,
        "shuffle": any(report.by_order for report in columns),
        "keep_order": any(report.by_order for report in columns),
        "independent_rows": bool(units),
        "few_rows": seen.rows < SAFE_ROWS,
    }
    asked = frozenset(name for name, is_asked in asks.items() if is_asked)
    return Inspection(columns, disclosed, warnings, tuple(units), asked, time)


def draft(inspection: Inspection) -> str:
    """Return a schema file that states what would happen, for the owner to edit."""
    return written(
        inspection.columns,
        inspection.disclosure,
        inspection.warnings,
        inspection.asks,
        inspection.time,
    )
