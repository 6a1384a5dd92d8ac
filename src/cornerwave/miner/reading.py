"""Reading a copy, block by block: numbers on the scale they were perturbed on, and codes.

A file larger than memory is read in little of it; what asks twice reads twice.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cornerwave.miner.columns import LOG1P, Column
from cornerwave.miner.regression import Feature
from cornerwave.moments import Moments
from cornerwave.table.numbers import to_floats
from cornerwave.table.read import Source

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Dictionaries = Mapping[str, pa.Array]
"""The labels of each category column, in order."""

REACH = 6.0
"""How many standard deviations from the mean a histogram covers."""


def number_blocks(source: Source, columns: Sequence[Column]) -> Iterator[Floats]:
    """Yield blocks (rows, columns) of numbers; NaN is missing."""
    for batch in source.batches([column.name for column in columns]):
        yield np.column_stack([_numbers(batch, column) for column in columns])


def code_blocks(source: Source, columns: Sequence[Column], labels: Dictionaries) -> Iterator[Codes]:
    """Yield blocks (rows, columns) of places among the labels; -1 is missing."""
    for batch in source.batches([column.name for column in columns]):
        yield np.column_stack([_codes(batch, column, labels) for column in columns])


def group_blocks(
    source: Source, number: Column, category: Column, labels: Dictionaries
) -> Iterator[tuple[Floats, Codes]]:
    """Yield blocks of a number and the codes of a category."""
    for batch in source.batches([number.name, category.name]):
        yield _numbers(batch, number), _codes(batch, category, labels)


def feature_blocks(
    source: Source, features: Sequence[Feature], labels: Dictionaries
) -> Iterator[Floats]:
    """Yield blocks (rows, features) of the rows in which no column is missing."""
    columns = {feature.column.name: feature.column for feature in features}
    for batch in source.batches(list(columns)):
        values = {
            name: _numbers(batch, column) if column.is_number else _codes(batch, column, labels)
            for name, column in columns.items()
        }
        block = np.column_stack([_feature(feature, values, labels) for feature in features])
        yield block[~np.isnan(block).any(axis=1)]


def reach(source: Source, column: Column, moments: Moments) -> tuple[float, float]:
    """Return between which numbers a column lies, but for its far tails."""
    low, high = math.inf, -math.inf
    for block in number_blocks(source, [column]):
        low = min(low, float(np.nanmin(block, initial=math.inf)))
        high = max(high, float(np.nanmax(block, initial=-math.inf)))
    middle, far = float(moments.mean[0]), REACH * float(moments.deviation[0])
    return max(low, middle - far), min(high, middle + far)


def histogram(source: Source, column: Column, bins: Floats) -> Floats:
    """Return counts (B,) between `bins` (B + 1,); what lies beyond counts in the last one."""
    counts = np.zeros(len(bins) - 1)
    for block in number_blocks(source, [column]):
        values = np.clip(block[~np.isnan(block)], bins[0], bins[-1])
        counts += np.histogram(values, bins)[0]
    return counts


def find_labels(source: Source, columns: Sequence[Column]) -> dict[str, pa.Array]:
    """Return the distinct values of each column, sorted; missing is one where it is hidden."""
    found = {column.name: pa.array([], _plain(source, column)) for column in columns}
    for batch in source.batches(list(found)):
        for name, known in found.items():
            values = _decoded(batch.column(name)).unique()
            found[name] = pa.concat_arrays([known, values.cast(known.type)]).unique()
    for column in columns:
        known = found[column.name]
        known = known.take(pc.sort_indices(known))
        found[column.name] = known if column.hides_missing else known.drop_null()
    return found


def _numbers(batch: pa.RecordBatch, column: Column) -> Floats:
    values = to_floats(batch.column(column.name), column.name)
    if column.transform != LOG1P:
        return values
    # only rounding or clipping can bring a value to -1, where there is no logarithm
    return np.log1p(np.where(values > -1, values, np.nan))


def _codes(batch: pa.RecordBatch, column: Column, labels: Dictionaries) -> Codes:
    known = labels[column.name]
    values = _decoded(batch.column(column.name)).cast(known.type)
    places = pc.index_in(values, value_set=known).fill_null(-1)
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def _feature(
    feature: Feature, values: Mapping[str, NDArray[np.generic]], labels: Dictionaries
) -> Floats:
    of_column = values[feature.column.name]
    if feature.column.is_number:
        return np.asarray(of_column, dtype=np.float64)
    place = labels[feature.column.name].to_pylist().index(feature.label)
    return np.where(of_column == -1, np.nan, (of_column == place).astype(np.float64))


def _plain(source: Source, column: Column) -> pa.DataType:
    type_ = source.schema.field(column.name).type
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
