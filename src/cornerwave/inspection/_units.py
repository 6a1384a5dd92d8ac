"""Which columns name units: people, firms, places, of which the table has several rows each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cornerwave.inspection._columns import ColumnReport
from cornerwave.inspection._telling import KNOWN
from cornerwave.table import CATEGORY, DROPPED, PERTURBED, Column, Schema
from cornerwave.units import WAYS_OUT, Unit, UnitColumns, find_units

_ROLES = {"perturb": PERTURBED, "category": CATEGORY}


def units_in(rows: pa.Table, total: int, proposed: Mapping[str, str]) -> list[Unit]:
    """Return which columns name units, by sampled rows of `total`, as registration would find."""
    columns = tuple(
        Column(part.name, str(part.type), _ROLES.get(proposed[part.name], DROPPED))
        for part in rows.schema
    )
    if not any(column.role != DROPPED for column in columns):
        return []
    looked = UnitColumns.of(Schema(columns))
    numbers, cells = looked.of_rows(rows, np.arange(rows.num_rows), KNOWN)
    return find_units(looked.looked(np.array(numbers), np.array(cells)), rows=total)


def left_to_owner(reports: Sequence[ColumnReport], units: Sequence[Unit]) -> Iterator[ColumnReport]:
    """Yield what was found, with columns that name units left for the owner to decide."""
    names = {r.name for r in reports if r.type.endswith("string") or "int" in r.type}
    naming = {u.columns[0]: u for u in units if len(u.columns) == 1 and u.columns[0] in names}
    most = max((len(unit.agreeing) for unit in naming.values()), default=0)
    for report in reports:
        unit = naming.get(report.name)
        if unit is None or len(unit.agreeing) < most:  # others agree with what names the units
            yield report
            continue
        reason = (
            f"names units, such as people: {unit.units:,} values of {unit.sizes}, "
            "which agree; noise hides each row, not all rows of a unit together"
        )
        yield replace(report, do="decide", from_zero=False, warnings=(reason, *report.warnings))


def said_of(units: Sequence[Unit]) -> Iterator[str]:
    """Yield what to know about rows that belong together."""
    for unit in units[:1]:
        refused = "Registration refuses that unless independent_rows is true"
        yield f"units: {unit}. {refused}. {WAYS_OUT}"
