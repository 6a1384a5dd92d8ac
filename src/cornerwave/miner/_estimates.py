"""Estimates: a value, its standard error, and the confidence interval they make.

    value ± z(confidence) * standard error          z: the normal quantile

Every estimate here is a smooth function of means over rows, so it is approximately normal
for many rows. `of` is what the interval should cover: "table", the figure that the owner
would compute from the original rows, or "population", the figure of the population that
these rows are a sample of. Given the table only the noise is random; the population's
interval adds the table's own sampling error:

    Var(estimate) = E[Var(estimate | table)] + Var(E[estimate | table])
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import LOG1P_ENDS, places_of, plain_type, to_floats, value_type
from cornerwave.errors import ColumnError, LevelError
from cornerwave.miner._metadata import LOG1P, RANK, UNKNOWN_BIAS, CopyColumn, warn_biased
from cornerwave.moments import LARGEST_COMPARED
from cornerwave.sources import Source

Of = Literal["table", "population"]
Labels = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated number and its standard error.

    >>> low, high = Estimate(value=10.0, standard_error=1.0).interval(0.95)
    >>> round(low, 2), round(high, 2)
    (8.04, 11.96)
    """

    value: float
    standard_error: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return (low, high). Raises LevelError unless 0 < confidence < 1."""
        reach = normal_quantile(confidence) * self.standard_error
        return self.value - reach, self.value + reach


@dataclass(frozen=True, eq=False)
class Estimates:
    """An array of estimates, with one tuple of labels per axis.

    Index it by a label, or by a pair of labels if there are two axes.

    >>> means = Estimates((("age", "wage"),), np.array([40.0, 52.0]), np.array([0.5, 1.5]))
    >>> means["wage"]
    Estimate(value=52.0, standard_error=1.5)
    """

    labels: tuple[Labels, ...]
    value: Floats
    standard_error: Floats

    @classmethod
    def of(cls, labels: tuple[Labels, ...], value: Floats, variance: Floats) -> "Estimates":
        """Make estimates from variances; a variance that came out negative counts as 0."""
        return cls(labels, value, np.sqrt(np.maximum(variance, 0.0)))

    def __getitem__(self, key: Any) -> Estimate:
        wanted = (key,) if len(self.labels) == 1 else key
        if not (isinstance(wanted, tuple) and len(wanted) == len(self.labels)):
            raise ColumnError(
                "these estimates have two axes: give a pair of labels, as in estimates['a', 'b']"
            )
        for label, known in zip(wanted, self.labels, strict=True):
            if label not in known:
                raise ColumnError(
                    f"no label {label!r} among {len(known)}; see .labels. A column that the copy's "
                    "metadata does not describe, such as a computed one, is not estimated: its "
                    "noise is unknown. Estimate the columns that it is computed from"
                )
        place = tuple(known.index(label) for label, known in zip(wanted, self.labels, strict=True))
        return Estimate(float(self.value[place]), float(self.standard_error[place]))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), arrays of the same shape."""
        reach = normal_quantile(confidence) * self.standard_error
        return self.value - reach, self.value + reach


def check_of(of: str) -> None:
    """Raise ColumnError unless `of` is "table" or "population"."""
    if of not in get_args(Of):
        raise ColumnError(f"of must be 'table' or 'population', not {of!r}")


def normal_quantile(confidence: float) -> float:
    """Return z with P(|N(0, 1)| <= z) = confidence. Raises LevelError unless in (0, 1)."""
    if not 0 < confidence < 1:
        raise LevelError(f"confidence must be strictly between 0 and 1, not {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)


# --------------------------------------------------------------------------------------------------
# A copy as blocks of rows: numbers on the scale they were perturbed on, categories as codes.
#
# Blocks are streamed, so a file may be larger than memory. A second pass reads it again.


ColumnLabels = Mapping[str, pa.Array]
"""The sorted labels of each category column."""
ColumnBlock = Mapping[str, NDArray[Any]]
"""Some rows, by the name of a column: numbers (rows,), or codes (rows,) of categories."""


def column_blocks(
    source: Source, columns: Sequence[CopyColumn], labels: ColumnLabels
) -> Iterator[ColumnBlock]:
    """Yield blocks by column name: numbers (rows,) with NaN, or codes (rows,) with -1, if missing.

    A code is a position among the column's labels.
    """
    at_end: Counter[str] = Counter()
    for batch in source.batches(list(dict.fromkeys(n for c in columns for n in c.reads))):
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
    """Yield blocks (rows, columns) of numeric columns as the noise left them; NaN is missing.

    On the scale that they were perturbed on, but for ranks, which are as the copy has them.
    """
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
    labels = {
        column.name: pa.array([], value_type(source.schema.field(column.name).type))
        for column in columns
    }
    for batch in source.batches(list(labels)) if columns else ():
        for name, known in labels.items():
            values = _plain(batch.column(name)).cast(known.type).unique()
            labels[name] = pa.concat_arrays([known, values]).unique()
    for column in columns:
        known = labels[column.name]
        known = known.take(pc.sort_indices(known))
        labels[column.name] = known if column.hides_missing else known.drop_null()
    return labels


def _numbers(batch: pa.RecordBatch, column: CopyColumn, at_end: Counter[str]) -> Floats:
    if column.parts:
        return np.asarray(sum(_numbers(batch, part, at_end) for part in column.parts))
    values = to_floats(batch.column(column.source), column.source)
    if column.away_from is not None:
        values = values - to_floats(batch.column(column.away_from), column.away_from)
    if column.transform == RANK:
        return values
    if column.transform != LOG1P:
        return _bounded(column.as_left(values), column.name)
    low, high = LOG1P_ENDS
    at_end[column.name] += int(((values <= low) | (values >= high)).sum())
    return column.as_left(np.log1p(np.clip(values, low, high)))


def _bounded(values: Floats, name: str) -> Floats:
    if (np.abs(values) > LARGEST_COMPARED).any():
        raise ColumnError(
            f"{name!r} holds values beyond {LARGEST_COMPARED:g}, whose fourth powers overflow; "
            "divide them, or leave the column out"
        )
    return values


def _codes(batch: pa.RecordBatch, name: str, labels: pa.Array) -> Ints:
    values = _plain(batch.column(name)).cast(labels.type)
    return places_of(values, labels)


def _plain(array: pa.Array) -> pa.Array:
    return array.cast(plain_type(array.type))
