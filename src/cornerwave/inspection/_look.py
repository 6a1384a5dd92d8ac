"""A look at one table: its columns, sampled rows, and which of them seem to belong together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from cornerwave import sizes
from cornerwave.columns import Distinct
from cornerwave.inspection._columns import ColumnReport, Columns
from cornerwave.inspection._disclosure import SampledRows
from cornerwave.inspection._unit_draft import units_in
from cornerwave.privacy import Unit
from cornerwave.sources import Progress, Source, silent


@dataclass(frozen=True)
class Look:
    """What one pass over a table showed: `rows` are sampled, of `total`.

    `values` are the distinct values of each column, `units` the columns whose values group rows
    that agree.
    """

    schema: pa.Schema
    columns: tuple[ColumnReport, ...]
    rows: pa.Table
    total: int
    values: Mapping[str, Distinct]
    units: Sequence[Unit]

    @classmethod
    def at(cls, source: Source, progress: Progress = silent) -> "Look":
        """Look at every column of a source. Raises SourceError if it cannot be read."""
        seen, sample = Columns(source), SampledRows(source.schema)
        for table in source.groups(source.schema.names, sizes.INSPECTED_ROWS):
            seen.take(table)
            sample.add(table)
            progress(table.num_rows)
        columns = tuple(seen.reports(sample.rows))
        units = units_in(sample.rows, seen.rows, {each.name: each.do for each in columns})
        return cls(source.schema, columns, sample.rows, seen.rows, seen.values, tuple(units))

    def column(self, name: str) -> ColumnReport:
        """Return what was found in a column."""
        return next(each for each in self.columns if each.name == name)

    def is_unique(self, name: str) -> bool:
        """Whether every row has a value of its own, and none is missing."""
        values = self.values[name]
        return (
            not self.column(name).missing
            and values.held_by_fewer_than(2) == values.number
            and (not values.exact or values.number == self.total)
        )
