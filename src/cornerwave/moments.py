"""Mean and covariance of a table in one pass, exactly.

    K = 1/(n-1) sum (x - mean)(x - mean)'

The noise depends on K to the last bit, so K must not depend on how the rows were cut into
parts, in which order the parts were added, or which machine added them. Floating-point sums
do; so the sums here are exact. A value is cut into digits of 22 bits at fixed places,

    x = sum over d of digit_d 2^(22 (top - d)),   |digit| <= 2^21,  d = 0..2

so that products of digits are whole numbers up to 2^42, and the Gram matrix of a tile of 2^11
rows is exact in double precision, in whatever order vector units sum it. Tiles add up as
integers; mean and K are rounded once, at the end. `top` belongs to the largest |x| of
a column: what lies 45 bits or more below it is rounded off, by the same rule for every
partition.

Missing values (NaN) are left out pair by pair: entry (i, j) rests on the rows that have both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.errors import SourceError, spelled

LARGEST = 1e140
"""Sums of squares of values beyond this overflow."""

LARGEST_COMPARED = 1e70
"""Fourth powers of larger values overflow: standard errors of variances need them."""

LEAST_VARIANCE = 1e-290
"""Below this the variance of a column, or its covariances, lose digits to underflow."""

BITS, DIGITS = 22, 3
"""2 (BITS - 1) + 11 = 53: sums of products of digits over a tile of 2^11 rows are exact doubles."""
MOST_ROWS = 1 << 20
"""Rows whose sums of products of digits, each up to 2^42, stay below 2^63. In two limbs those
of 2^39 rows do."""
_LOWEST_TOP = -45
_LIMB = 32


@dataclass(frozen=True)
class Moments:
    """What one pass keeps of a table; `a + b` are the moments of both tables together.

    For N columns: `count` (N, N) is how many rows have both columns, `sums` (DIGITS, N, N)
    the sums of digits of column i over these rows, `high` and `low` (DIGITS, DIGITS, N, N)
    those of products of digits, in two limbs of 32 bits. `top` is the place of a column's
    first digit; `lowest` and `highest` are its ends.

    >>> X = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]])
    >>> both = Moments.of(X[:1]) + Moments.of(X[1:])
    >>> both.mean.tolist(), both.covariance.tolist()
    ([3.0, 3.0], [[4.0, -1.0], [-1.0, 7.0]])
    """

    rows: int
    top: Ints
    count: Ints
    sums: Ints
    high: Ints
    low: Ints
    lowest: Floats
    highest: Floats

    @classmethod
    def of(cls, X: Any, names: Sequence[str] | None = None) -> "Moments":
        """Return the moments of a (rows, columns) array; NaN is missing.

        Raises SourceError if a value is infinite, or so large that its square overflows;
        `names` are those of the columns, for messages.
        """
        return cls.of_columns(np.asarray(X, dtype=np.float64).T, names)

    @classmethod
    def of_columns(cls, columns: Floats, names: Sequence[str] | None = None) -> "Moments":
        """Return the moments of a (columns, rows) array."""
        number, rows = columns.shape
        if rows > MOST_ROWS:
            parts = [columns[:, at : at + MOST_ROWS] for at in range(0, rows, MOST_ROWS)]
            return reduce(add, (cls.of_columns(part, names) for part in parts))
        columns = np.ascontiguousarray(columns)
        lowest, highest, gaps = ends_of(columns)
        if (lowest == -np.inf).any() or (highest == np.inf).any():
            raise SourceError("infinite values have no mean; remove them or make them missing")
        # top: the least place with |x| <= 2^(22 (top + 1) - 1), so that no digit exceeds 2^21
        largest = _largest(lowest, highest)
        _check_squares(largest, names)
        top = np.where(largest > 0, -(-(np.frexp(largest)[1] + 1) // BITS) - 1, _LOWEST_TOP)
        top = np.maximum(top, _LOWEST_TOP).astype(np.int64)
        gram, sums = _gram(columns, top, gaps=gaps)
        size = DIGITS * number
        # (digit, column) x (digit, column) -> (digit, digit, column, column)
        products = gram[:size, :size].reshape(DIGITS, number, DIGITS, number).transpose(0, 2, 1, 3)
        # without gaps every row has every column
        count = gram[size:, size:] if gaps else np.full((number, number), rows)
        kept = gram[:size, size:] if gaps else np.repeat(sums, number)
        return cls(
            rows=rows,
            top=top,
            count=count.astype(np.int64),
            sums=kept.reshape(DIGITS, number, number).copy(),
            high=products >> _LIMB,
            low=products & ((1 << _LIMB) - 1),
            lowest=lowest,
            highest=highest,
        )

    def __add__(self, other: "Moments") -> "Moments":
        top = np.maximum(self.top, other.top)
        one, two = self._raised(top), other._raised(top)
        return Moments(
            rows=self.rows + other.rows,
            top=top,
            count=self.count + other.count,
            sums=one.sums + two.sums,
            high=one.high + two.high,
            low=one.low + two.low,
            lowest=np.minimum(self.lowest, other.lowest),
            highest=np.maximum(self.highest, other.highest),
        )

    def _raised(self, top: Ints) -> "Moments":
        """Return the same moments by digits that begin at higher places; low ones fall off."""
        if np.array_equal(self.top, top):
            return self
        # digit d of the result is digit d - shift of this, or nothing
        number, place = len(top), np.arange(DIGITS)[:, None] - (top - self.top)
        here, i = np.maximum(place, 0), np.arange(number)
        sums = np.where(place[:, :, None] >= 0, self.sums[here, i], 0)
        whole = (place[:, None, :, None] >= 0) & (place[None, :, None, :] >= 0)
        at = (here[:, None, :, None], here[None, :, None, :], i[:, None], i[None, :])
        high, low = np.where(whole, self.high[at], 0), np.where(whole, self.low[at], 0)
        return Moments(self.rows, top, self.count, sums, high, low, self.lowest, self.highest)

    @property
    def present(self) -> Ints:
        """How many rows have a value, per column."""
        return np.diag(self.count).copy()

    @property
    def largest(self) -> Floats:
        """The largest |x| of each column, 0 if it has no value."""
        return _largest(self.lowest, self.highest)

    @property
    def mean(self) -> Floats:
        """The mean of each column over the rows that have it, rounded once."""
        # sums of a column in units of 2^(22 (top - 2)): whole numbers, of any size
        top, middle, low = (np.diag(digit).astype(object) for digit in self.sums)
        total = (((top << BITS) + middle) << BITS) + low
        quotient = (total / np.maximum(self.present, 1).astype(object)).astype(np.float64)
        return np.asarray(np.ldexp(quotient, BITS * (self.top - DIGITS + 1)))

    @cached_property
    def covariance(self) -> Floats:
        """The sample covariance K, rounded once; 0 where fewer than two rows have both."""
        # n sum x_i x_j - sum x_i sum x_j over n (n - 1), whole numbers that are rounded once
        number, places = len(self.top), self.top - DIGITS + 1
        quotient, shape = np.empty((number, number)), (DIGITS * DIGITS, number, number)
        high, low = (np.ascontiguousarray(limb).reshape(shape) for limb in (self.high, self.low))
        _core.round_covariance(self.count, self.sums, high, low, quotient)
        return np.asarray(np.ldexp(quotient, BITS * np.add.outer(places, places)))

    @property
    def vanishing(self) -> Flags:
        """Which columns vary, but so little that floating point cannot hold their variance."""
        return (np.diag(self.covariance) < LEAST_VARIANCE) & (self.lowest < self.highest)

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each column."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def _largest(lowest: Floats, highest: Floats) -> Floats:
    ends = np.maximum(np.abs(lowest), np.abs(highest))
    return np.where(np.isfinite(ends), ends, 0.0)


def ends_of(columns: Floats) -> tuple[Floats, Floats, bool]:
    """Return the least and the largest value of each column, and whether one is missing.

    columns: (columns, rows), contiguous. Of a column without a value the ends are inf and -inf.
    """
    lowest, highest = np.empty(len(columns)), np.empty(len(columns))
    gaps = _core.find_ends(columns, lowest, highest)
    return lowest, highest, gaps


def _gram(columns: Floats, top: Ints, *, gaps: bool) -> tuple[Ints, Ints]:
    """Return the exact Gram matrix of all digits, and their sums.

    Its last rows state which columns are present, if one of them has gaps.
    """
    size = (DIGITS + (1 if gaps else 0)) * len(columns)
    total, sums = np.zeros((size, size), dtype=np.int64), np.zeros(size, dtype=np.int64)
    _core.add_digit_products(columns, np.ldexp(1.0, -BITS * top), gaps, total, sums)
    return total + np.tril(total, -1).T, sums  # the kernel fills in the lower triangle


def _check_squares(largest: Floats, names: Sequence[str] | None) -> None:
    if (beyond := np.flatnonzero(largest > LARGEST)).size:
        what = spelled(names[beyond[0]]) if names else f"{beyond[0] + 1} of the numbers"
        raise SourceError(
            f"column {what} holds values beyond {LARGEST:g}, whose squares overflow: divide "
            "them, perturb them on a logarithmic scale (log1p), or drop the column"
        )
