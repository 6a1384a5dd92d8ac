"""A look at one table: its columns, sampled rows, and which of them seem to belong together.

And what a draft proposes for it, and what to beware of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cornerwave import sizes
from cornerwave.choices import DOES, DROPPED, UNIT
from cornerwave.columns import SAFE_ROWS, Distinct
from cornerwave.inspection._columns import ColumnReport, Columns
from cornerwave.inspection._disclosure import Disclosure, SampledRows, disclosure
from cornerwave.inspection._distances import with_distances_drafted
from cornerwave.inspection._draft import risks
from cornerwave.inspection._explained_gaps import with_presence_drafted, without_invented
from cornerwave.inspection._followed import with_followers_drafted
from cornerwave.inspection._totals import with_totals_drafted
from cornerwave.inspection._unit_draft import (
    accepted_unit,
    better_unit,
    naming_in,
    outer_warnings,
    repeated_identifier,
    time_to_propose,
    unit_to_propose,
    unit_warnings,
    units_in,
    with_changes,
    with_time,
    with_units,
)
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


def inspected(look: Look) -> Inspection:
    """Return what to propose for a table by itself."""
    units = look.units
    unit = unit_to_propose(look.columns, units) or repeated_identifier(
        look.columns, look.rows, look.total
    )
    proposed = {each.name: each.do for each in look.columns}
    unit = accepted_unit(look.rows, look.total, proposed, unit, naming_in(look.columns))
    columns = tuple(with_units(look.columns, units, unit, look.rows))
    return _inspection(look, columns, unit, linked=False)


def inspected_with(
    look: Look, unit: str | None, changes: Mapping[str, tuple[str, str]]
) -> Inspection:
    """Return what to propose for one of several linked tables, whose unit is known.

    `changes` are the roles of columns that other tables decide, each with the reason.
    """
    known = None if unit is None else _unit_of(look, unit)
    columns = tuple(with_units(look.columns, look.units, known, look.rows))
    return _inspection(look, tuple(with_changes(columns, changes)), known, linked=True)


def _unit_of(look: Look, name: str) -> Unit:
    """Return a column as the unit: what agrees in it, if it was found to."""
    named = next((unit for unit in look.units if unit.columns == (name,)), None)
    distinct = max(look.column(name).distinct, 1)
    each = look.total * (1 - look.column(name).missing) / distinct
    return named or Unit((name,), distinct, each, (), each)


def _inspection(
    look: Look, columns: tuple[ColumnReport, ...], unit: Unit | None, *, linked: bool
) -> Inspection:
    rows, units = look.rows, look.units
    several = unit is not None and not look.is_unique(unit.columns[0])
    time = time_to_propose(rows, unit) if several else None
    plain = tuple(with_time(columns, rows, unit, time))
    columns = _of_each_other(plain, rows, several=several, time=time)
    disclosed = _disclosed(look, columns, time, linked=linked)
    kept = {each.name: each for each in without_invented(columns, disclosed.hide_missing)}
    if dropped := {each.name for each in columns if kept[each.name] != each}:
        plain = tuple(kept[each.name] if each.name in dropped else each for each in plain)
        columns = _of_each_other(plain, rows, several=several, time=time)
        disclosed = _disclosed(look, columns, time, linked=linked)
    left_out = dict.fromkeys(disclosed.left_out, (DOES[DROPPED], LEFT_OUT))
    if left_out:
        left = list(with_changes(plain, left_out))
        columns = _of_each_other(left, rows, several=several, time=time)
    proposed = {each.name: each.do for each in columns}
    warnings = [*unit_warnings(columns, units, unit)] if several or unit is None else []
    better = None
    if unit is not None and several:
        better = better_unit(rows, look.total, proposed, unit.columns[0])
    if better is not None and unit is not None:
        warnings.append(
            f"units: {better}. Registration refuses {unit.columns[0]!r} as the unit for that. If "
            "it is what copies shall hide, and not what these rows share, state independent_rows"
        )
    warnings += outer_warnings(rows, proposed, columns, unit, linked=linked)
    warnings += risks(rows, look.total, proposed, disclosed.frozen)
    asks = {
        "time": time is not None,
        "shuffle": any(report.by_order for report in columns),
        "keep_order": any(report.by_order for report in columns),
        "independent_rows": better is not None if linked and unit is not None else bool(units),
        "few_rows": look.total < SAFE_ROWS,
    }
    asked = frozenset(name for name, is_asked in asks.items() if is_asked)
    return Inspection(columns, disclosed, tuple(warnings), tuple(units), asked, time)


def _of_each_other(
    columns: Sequence[ColumnReport], rows: pa.Table, *, several: bool, time: str | None
) -> tuple[ColumnReport, ...]:
    """Return columns of which some are distances, follow others, or are present by others."""
    if several:  # rows of a person share noise: their numbers have it by themselves
        return with_followers_drafted(columns, rows, time)
    relative = with_distances_drafted(with_totals_drafted(columns, rows), rows)
    return with_presence_drafted(with_followers_drafted(relative, rows), rows)


LEFT_OUT = "proposed to be left out: with it privacy 0.5 cannot be had, see above"


def _disclosed(
    look: Look, columns: Sequence[ColumnReport], time: str | None, *, linked: bool
) -> Disclosure:
    """Register sampled rows for trial as it is proposed."""
    return disclosure(
        look.rows,
        look.schema,
        {each.name: each.do for each in columns},
        [each.name for each in columns if each.is_ranked],
        relative={each.name: each.relative_to[0] for each in columns if each.relative_to},
        present={each.name: each.present_if[0] for each in columns if each.present_if},
        follows={each.name: each.follows[0] for each in columns if each.follows},
        sums={
            each.name: (each.sum_of[0], None if each.scale is None else each.scale.decimals)
            for each in columns
            if each.sum_of
        },
        time=time,
        linked=linked,
    )


def is_unit(report: ColumnReport) -> bool:
    """Whether a column is proposed as the unit."""
    return report.do == DOES[UNIT]


def noisy(rows: pa.Table, inspection: Inspection) -> list[str]:
    """Return the columns of sampled rows that get noise."""
    return [
        each.name
        for each in inspection.columns
        if each.do in ("perturb", "category") and each.name in rows.column_names
    ]
