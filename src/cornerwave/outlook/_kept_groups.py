"""How many rows agree in all columns that copies show unchanged: no noise parts them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.columns import plain_type
from cornerwave.sources import Source
from cornerwave.spine.frozen import Frozen


@dataclass(frozen=True)
class KeptGroups:
    """The columns that copies show unchanged, and how many rows are in groups of each size.

    With a unit, a group is as large as it has persons.
    """

    columns: tuple[str, ...] = ()
    rows: Mapping[int, int] = field(default_factory=dict)

    def rows_below(self, size: int) -> int:
        """Return how many rows are in smaller groups.

        >>> KeptGroups(("zip",), {1: 2, 4: 8, 20: 400}).rows_below(5)
        10
        """
        return sum(rows for of, rows in self.rows.items() if of < size)


def kept_groups(frozen: Frozen, source: Source) -> KeptGroups:
    """Read a registered table for the groups of its unchanged columns."""
    columns = list(frozen.schema.unchanged)
    if not columns:
        return KeptGroups()
    if frozen.schema.key in columns:  # registration has seen that no key is there twice
        return KeptGroups(tuple(columns), {1: frozen.rows})
    unit = [frozen.schema.unit] if frozen.schema.unit not in (None, *columns) else []
    wanted: list[str] = [*columns, *(name for name in unit if name is not None)]
    counted = _all_counted(source, wanted)
    if unit:
        sums = [("rows", "sum"), ([], "count_all")]
        groups = counted.group_by(columns).aggregate(sums)
        groups = groups.rename_columns([*columns, "rows", "size"])
    else:
        groups = counted.append_column("size", counted["rows"])
    by_size = groups.group_by("size").aggregate([("rows", "sum")])
    pairs = zip(by_size["size"].to_pylist(), by_size["rows_sum"].to_pylist(), strict=True)
    return KeptGroups(tuple(columns), dict(pairs))


def _all_counted(source: Source, names: list[str]) -> pa.Table:
    """Return each combination of values of a table, and how many rows have it."""
    parts: list[pa.Table] = []
    for batch in source.batches(names):
        parts.append(_counted(pa.table(batch), names))
        # as much as the combinations take, not as the rows
        if sum(part.num_rows for part in parts[1:]) > max(AT_ONCE, parts[0].num_rows):
            parts = [_added(parts, names)]
    return _added(parts, names)


AT_ONCE = 1 << 20
"""So many combinations of values are held at least before equal ones are added up."""


def _counted(rows: pa.Table, names: list[str]) -> pa.Table:
    """Return each combination of values of some rows, and how many have it."""
    plain = {name: pc.cast(rows[name], plain_type(rows.schema.field(name).type)) for name in names}
    counted = pa.table(plain).group_by(names).aggregate([([], "count_all")])
    return counted.rename_columns([*names, "rows"])


def _added(parts: list[pa.Table], names: list[str]) -> pa.Table:
    together = pa.concat_tables(parts, promote_options="default")
    return together.group_by(names).aggregate([("rows", "sum")]).rename_columns([*names, "rows"])
