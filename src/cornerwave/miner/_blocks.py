"""A copy as blocks of rows: numbers on the scale they were perturbed on, categories as codes.

Blocks are streamed, so a file may be larger than memory. A second pass reads it again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.errors import ColumnError
from cornerwave.miner._metadata import LOG1P, RANK, UNKNOWN_BIAS, CopyColumn, warn_biased
from cornerwave.table import LOG1P_ENDS, Source, plain_type, to_floats, value_type

LARGEST = 1e70
"""Standard errors of variances need fourth powers, which no double holds beyond this."""

ColumnLabels = Mapping[str, pa.Array]
"""The sorted labels of each category column."""


def column_blocks(
    source: Source, columns: Sequence[CopyColumn], labels: ColumnLabels
) -> Iterator[dict[str, Any]]:
    """Yield blocks by column name: numbers (rows,) with NaN, or codes (rows,) with -1, if missing.

    A code is a position among the column's labels.
    """
    at_end: Counter[str] = Counter()
    for batch in source.batches([column.name for column in columns]):
        yield {
            column.name: _numbers(batch, column, at_end)
            if column.is_number
            else _codes(batch, column.name, labels[column.name])
            for column in columns
        }
    for name, cells in (+at_end).items():  # + drops the zeros
        warn_biased(
            [name],
            f"{cells:,} cells are at the end of what a log1p copy can hold, {UNKNOWN_BIAS}",
        )


def number_blocks(source: Source, columns: Sequence[CopyColumn]) -> Iterator[Floats]:
    """Yield blocks (rows, columns) of numeric columns; NaN is missing."""
    for block in column_blocks(source, columns, {}):
        yield np.column_stack([block[column.name] for column in columns])


def code_blocks(
    source: Source, columns: Sequence[CopyColumn], labels: ColumnLabels
) -> Iterator[Ints]:
    """Yield blocks (rows, columns) of codes of category columns; -1 is missing."""
    for block in column_blocks(source, columns, labels):
        yield np.column_stack([block[column.name] for column in columns])


def find_labels(source: Source, columns: Sequence[CopyColumn]) -> dict[str, pa.Array]:
    """Return the distinct values of each column, sorted; missing is one of them if hidden."""
    found = {
        column.name: pa.array([], value_type(source.schema.field(column.name).type))
        for column in columns
    }
    for batch in source.batches(list(found)) if columns else ():
        for name, known in found.items():
            values = _plain(batch.column(name)).cast(known.type).unique()
            found[name] = pa.concat_arrays([known, values]).unique()
    for column in columns:
        known = found[column.name]
        known = known.take(pc.sort_indices(known))
        found[column.name] = known if column.hides_missing else known.drop_null()
    return found


def _numbers(batch: pa.RecordBatch, column: CopyColumn, at_end: Counter[str]) -> Floats:
    values = to_floats(batch.column(column.name), column.name)
    if column.transform == RANK:
        return values
    if column.transform != LOG1P:
        return _bounded(values, column.name)
    low, high = LOG1P_ENDS
    at_end[column.name] += int(((values <= low) | (values >= high)).sum())
    return np.log1p(np.clip(values, low, high))


def _bounded(values: Floats, name: str) -> Floats:
    if (np.abs(values) > LARGEST).any():
        raise ColumnError(
            f"{name!r} holds values beyond {LARGEST:g}, whose fourth powers overflow; "
            "divide them, or leave the column out"
        )
    return values


def _codes(batch: pa.RecordBatch, name: str, labels: pa.Array) -> Ints:
    values = _plain(batch.column(name)).cast(labels.type)
    places = pc.index_in(values, value_set=labels).fill_null(-1)
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(plain_type(array.type))
