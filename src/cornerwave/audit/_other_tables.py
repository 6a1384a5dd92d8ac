"""What copies of other tables show of the same persons, to estimate a table from all of them.

Anyone who holds copies of linked tables joins them by what names a person there. Of each person
they have the row, or the mean of the rows, that the copy of every other table shows: numbers as
they are, categories by how often each value occurs, and how many rows there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.choices import KEY, UNIT
from cornerwave.columns import is_category, is_number, one_chunk, to_floats
from cornerwave.sources import Source
from cornerwave.spec import CopyMetadata

MOST_VALUES = 8
"""Values of a category that count by themselves: the most frequent ones."""


@dataclass(frozen=True)
class PersonsBeside:
    """What names persons in copies, and what other tables show of them (k, persons)."""

    persons: pa.Array
    shown: Floats

    @classmethod
    def of(cls, tables: Sequence[tuple[Source, CopyMetadata]]) -> "PersonsBeside":
        """Read copies of tables; those that do not name persons add nothing."""
        parts = [part for each in tables if (part := _of_table(*each)) is not None]
        if not parts:
            return cls(pa.array([], pa.string()), np.empty((0, 0)))
        every = pc.unique(pa.chunked_array([names for names, _ in parts]))
        shown = []
        for names, means in parts:
            at = _places(every, names)
            shown.append(np.where(at >= 0, means[:, at], np.nan))
        return cls(every, np.vstack(shown))

    def at(self, persons: pa.Array) -> Floats:
        """Return what is shown of some persons (k, n), NaN where nothing is."""
        if not len(self.persons):
            return np.empty((0, len(persons)))
        at = _places(persons, self.persons)
        return np.where(at >= 0, self.shown[:, at], np.nan)


def _places(values: pa.Array, among: pa.Array) -> Ints:
    """Return where values are among others; -1 for those that are not."""
    places = pc.index_in(values, value_set=among).fill_null(-1)
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def _of_table(source: Source, stated: CopyMetadata) -> tuple[pa.Array, Floats] | None:
    """Return the persons of a copy, and the means (k, persons) of what it shows of them."""
    roles = {name: about.role for name, about in stated.columns.items()}
    names = source.schema.names
    unit = next((n for n in names if roles.get(n) == UNIT or n == stated.unit), None)
    if unit is None:
        return None
    columns = [name for name in names if name != unit and roles.get(name) != KEY]
    table = pa.Table.from_batches(source.batches([unit, *columns]))
    encoded = one_chunk(table[unit]).cast(pa.string()).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    known = codes >= 0
    who, persons = codes[known], len(encoded.dictionary)
    count = np.maximum(np.bincount(who, minlength=persons), 1)
    rows = [row[known] for name in columns for row in _coordinates(one_chunk(table[name]), name)]
    means = [np.bincount(who, np.nan_to_num(row), minlength=persons) / count for row in rows]
    return encoded.dictionary, np.vstack([*means, np.log(count), 1 / count])


def _coordinates(column: pa.Array, name: str) -> list[Floats]:
    """Return a column as numbers: a number less its mean, or a category value by value."""
    if is_number(column.type):
        values = to_floats(column, name)
        return [values - np.nanmean(values)] if np.isfinite(values).any() else []
    if not is_category(column.type):
        return []
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    frequent = sorted(pc.value_counts(plain).to_pylist(), key=lambda each: -each["counts"])
    return [
        pc.equal(plain, pa.scalar(each["values"], plain.type))
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
        .astype(np.float64)
        for each in frequent[:MOST_VALUES]
        if each["values"] is not None
    ]
