"""Reading a copy, block by block: numbers on the scale they were perturbed on, and codes.

A file larger than memory is read in little of it; what asks twice reads twice.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cornerwave.arrays import Floats
from cornerwave.errors import BiasWarning
from cornerwave.miner.columns import LOG1P, Column
from cornerwave.miner.regression import Feature
from cornerwave.table import Source, to_floats, value_type

Codes = NDArray[np.int64]
Dictionaries = Mapping[str, pa.Array]
"""The labels of each category column, in order."""
Ends = Counter[str]
"""How many cells of a column lie at an end of its scale."""

LOG1P_ENDS = (float(np.nextafter(-1.0, 0.0)), 1e304)
"""Where copies end that went through the logarithm: beyond, a double has no 1 + x to hold."""


def number_blocks(source: Source, columns: Sequence[Column]) -> Iterator[Floats]:
    """Yield blocks (rows, columns) of numbers; NaN is missing."""
    ends: Ends = Counter()
    for batch in source.batches([column.name for column in columns]):
        yield np.column_stack([_numbers(batch, column, ends) for column in columns])
    _warn_of_ends(ends)


def code_blocks(source: Source, columns: Sequence[Column], labels: Dictionaries) -> Iterator[Codes]:
    """Yield blocks (rows, columns) of places among the labels; -1 is missing."""
    for batch in source.batches([column.name for column in columns]):
        yield np.column_stack([_codes(batch, column, labels) for column in columns])


def group_blocks(
    source: Source, number: Column, category: Column, labels: Dictionaries
) -> Iterator[tuple[Floats, Codes]]:
    """Yield blocks of a number and the codes of a category."""
    ends: Ends = Counter()
    for batch in source.batches([number.name, category.name]):
        yield _numbers(batch, number, ends), _codes(batch, category, labels)
    _warn_of_ends(ends)


def feature_blocks(
    source: Source, features: Sequence[Feature], labels: Dictionaries
) -> Iterator[Floats]:
    """Yield blocks (rows, features) of the rows in which no column is missing."""
    columns = {feature.column.name: feature.column for feature in features}
    ends: Ends = Counter()
    for batch in source.batches(list(columns)):
        values = {
            name: _numbers(batch, column, ends)
            if column.is_number
            else _codes(batch, column, labels)
            for name, column in columns.items()
        }
        block = np.column_stack([_feature(feature, values, labels) for feature in features])
        yield block[~np.isnan(block).any(axis=1)]
    _warn_of_ends(ends)


def find_labels(source: Source, columns: Sequence[Column]) -> dict[str, pa.Array]:
    """Return the distinct values of each column, sorted; missing is one where it is hidden."""
    found = {
        column.name: pa.array([], value_type(source.schema.field(column.name).type))
        for column in columns
    }
    for batch in source.batches(list(found)):
        for name, known in found.items():
            values = _decoded(batch.column(name)).cast(known.type).unique()
            found[name] = pa.concat_arrays([known, values]).unique()
    for column in columns:
        known = found[column.name]
        known = known.take(pc.sort_indices(known))
        found[column.name] = known if column.hides_missing else known.drop_null()
    return found


def _numbers(batch: pa.RecordBatch, column: Column, ends: Ends) -> Floats:
    values = to_floats(batch.column(column.name), column.name)
    if column.transform != LOG1P:
        return values
    low, high = LOG1P_ENDS
    ends[column.name] += int(((values <= low) | (values >= high)).sum())
    return np.log1p(np.clip(values, low, high))


def _warn_of_ends(ends: Ends) -> None:
    for name, cells in ends.items():
        if cells:
            warnings.warn(
                f"{name!r}: {cells:,} cells lie at an end of what a log1p copy can hold and count "
                "as lying there, so estimates are biased by an amount that the copy does not tell",
                BiasWarning,
                stacklevel=3,
            )


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


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
