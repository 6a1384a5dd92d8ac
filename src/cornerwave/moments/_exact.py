"""Mean and covariance of a table in one pass, exactly.

    K = 1/(n-1) sum (x - mean)(x - mean)'

The noise depends on K to the last bit, so K must not depend on how the rows were cut into
parts, in which order the parts were added, or which machine added them. Floating-point sums
do; so the sums here are exact. A value is cut into digits of 20 bits at fixed places,

    x = sum over d of digit_d 2^(20 (top - d)),   |digit| < 2^20,  d = 0..3

so that products of digits are whole numbers below 2^40, and the Gram matrix of a tile of 2^13
rows is exact in double precision, however BLAS orders it. Tiles add up as integers; mean and K
are rounded once, at the end. `top` belongs to the largest |x| of a column: what lies 60 bits
or more below it is cut off, by the same rule for every partition.

Missing values (NaN) are left out pair by pair: entry (i, j) rests on the rows that have both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.errors import SourceError, spelled
from cornerwave.keyed import strict

LARGEST = 1e140
"""Sums of squares of values beyond this overflow."""

LEAST_VARIANCE = 1e-290
"""Below this the variance of a column, or its covariances, lose digits to underflow."""

BITS, DIGITS, TILE_ROWS = 20, 4, 1 << 13
"""2 BITS + 13 = 53: sums of products of digits over a tile are exact doubles."""
MOST_ROWS = 1 << 22
"""Rows whose sums of products of digits, each below 2^40, stay below 2^63."""
_LOWEST_TOP = -49
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
        `names` are those of the columns, to say which.
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
        lowest, highest = np.full(number, np.inf), np.full(number, -np.inf)
        gaps = _find_ends(columns, lowest, highest)
        if (lowest == -np.inf).any() or (highest == np.inf).any():
            raise SourceError("infinite values have no mean; remove them or make them missing")
        largest = _largest(lowest, highest)
        _check_squares(largest, names)
        top = np.where(largest > 0, -(-np.frexp(largest)[1] // BITS) - 1, _LOWEST_TOP)
        top = np.maximum(top, _LOWEST_TOP).astype(np.int64)
        gram = _gram(columns, top, gaps=gaps)
        digits = gram[: DIGITS * number]
        shape = (DIGITS, number, DIGITS, number)
        products = digits[:, : DIGITS * number].reshape(shape).transpose(0, 2, 1, 3)
        present = digits[:, DIGITS * number :].reshape(DIGITS, number, number if gaps else 1)
        count = gram[DIGITS * number :, DIGITS * number :]
        return cls(
            rows=rows,
            top=top,
            count=np.broadcast_to(count, (number, number)).copy(),
            sums=np.broadcast_to(present, (DIGITS, number, number)).copy(),
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

    @cached_property
    def _totals(self) -> Any:
        """Sums of column i over the rows that have j, in units of 2^(20 (top - 3)): whole."""
        return sum(self.sums[d].astype(object) << (BITS * (DIGITS - 1 - d)) for d in range(DIGITS))

    @property
    def mean(self) -> Floats:
        """The mean of each column over the rows that have it, rounded once."""
        count = np.maximum(self.present, 1).astype(object)
        quotient = (np.diag(self._totals) / count).astype(np.float64)
        return np.asarray(np.ldexp(quotient, BITS * (self.top - DIGITS + 1)))

    @cached_property
    def covariance(self) -> Floats:
        """The sample covariance K, rounded once; 0 where fewer than two rows have both."""
        products: Any = 0
        for d in range(DIGITS):
            for e in range(DIGITS):
                whole = (self.high[d, e].astype(object) << _LIMB) + self.low[d, e].astype(object)
                products = products + (whole << (BITS * (2 * DIGITS - 2 - d - e)))
        count = self.count.astype(object)
        scatter = count * products - self._totals * self._totals.T
        quotient = scatter / np.maximum(count * (count - 1), 1)
        places = self.top - DIGITS + 1
        return np.asarray(np.ldexp(quotient.astype(np.float64), BITS * (places[:, None] + places)))

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


def _gram(columns: Floats, top: Ints, *, gaps: bool) -> Ints:
    """Return the exact Gram matrix of all digits, followed by what is present.

    The last rows say which columns are present; one row of ones if nothing is missing.
    """
    number, rows = columns.shape
    size = DIGITS * number + (number if gaps else 1)
    total = np.zeros((size, size), dtype=np.int64)
    tile_rows = max(512, min(TILE_ROWS, (1 << 18) // size))
    tile, used = np.ones((size, tile_rows)), np.ones(size, dtype=bool)
    unit = np.ldexp(1.0, -BITS * top)
    for start in range(0, rows, tile_rows):
        stop = min(start + tile_rows, rows)
        _cut(columns[:, start:stop], unit, gaps, tile, used)
        # most tables are whole numbers, or decimals, of few digits: the others are all zero
        some = np.flatnonzero(used)
        part = tile[some, : stop - start]
        total[np.ix_(some, some)] += (part @ part.T).astype(np.int64)
    return total


@strict
def _find_ends(columns: Any, lowest: Any, highest: Any) -> bool:
    """Fill in the least and the largest value of each column; say whether one is missing."""
    missing = 0
    for i in range(columns.shape[0]):
        low, high = np.inf, -np.inf
        for row in range(columns.shape[1]):
            x = columns[i, row]
            low = x if x < low else low
            high = x if x > high else high
            missing += x != x
        lowest[i], highest[i] = low, high
    return missing > 0


@strict
def _cut(columns: Any, unit: Any, gaps: bool, tile: Any, used: Any) -> None:
    """Fill a tile with the digits of some rows, and with what is present if there are gaps."""
    number, rows = columns.shape
    base = 2.0**BITS
    for i in range(number):
        rest = 0.0
        for row in range(rows):
            x = columns[i, row]
            r = (0.0 if x != x else x) * unit[i]
            digit = np.trunc(r)
            tile[i, row] = digit
            r = (r - digit) * base
            tile[number + i, row] = r
            rest += r != 0.0
        used[i] = True
        for d in range(1, DIGITS):
            used[d * number + i] = rest > 0.0
            if rest == 0.0:
                continue
            rest = 0.0
            for row in range(rows):
                r = tile[d * number + i, row]
                digit = np.trunc(r)
                tile[d * number + i, row] = digit
                r = (r - digit) * base
                if d + 1 < DIGITS:
                    tile[(d + 1) * number + i, row] = r
                    rest += r != 0.0
        if gaps:
            for row in range(rows):
                x = columns[i, row]
                tile[DIGITS * number + i, row] = 1.0 if x == x else 0.0


def _check_squares(largest: Floats, names: Sequence[str] | None) -> None:
    if (beyond := np.flatnonzero(largest > LARGEST)).size:
        what = spelled(names[beyond[0]]) if names else f"{beyond[0] + 1} of the numbers"
        raise SourceError(
            f"column {what} holds values beyond {LARGEST:g}, whose squares overflow: divide "
            "them, perturb them on a logarithmic scale (log1p), or drop the column"
        )
