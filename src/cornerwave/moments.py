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

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.errors import SourceError, spelled
from cornerwave.keyed import bits_of, strict, whole_sums, widest_vectors

LARGEST = 1e140
"""Sums of squares of values beyond this overflow."""

LEAST_VARIANCE = 1e-290
"""Below this the variance of a column, or its covariances, lose digits to underflow."""

BITS, DIGITS, TILE_ROWS = 22, 3, 1 << 11
"""2 (BITS - 1) + 11 = 53: sums of products of digits over a tile are exact doubles."""
MOST_ROWS = 1 << 20
"""Rows whose sums of products of digits, each up to 2^42, stay below 2^63. In two limbs those
of 2^39 rows do."""
TILE_CELLS, LEAST_ROWS, STRIP = 24_576, 256, 64
"""Digits in a tile, few enough for the nearest caches, but at least so many rows: of these a
loop makes the most, more than BLAS does. Rows turned into columns at a time."""
_LOWEST_TOP = -45
_LIMB = 32
_NO_END = np.int64(0x7FFF_FFFF_FFFF_FFFF)


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
        if not columns.T.flags.c_contiguous:
            columns = np.ascontiguousarray(columns)
        lowest, highest, gaps = _ends(columns)
        if (lowest == -np.inf).any() or (highest == np.inf).any():
            raise SourceError("infinite values have no mean; remove them or make them missing")
        largest = _largest(lowest, highest)
        _check_squares(largest, names)
        top = np.where(largest > 0, -(-(np.frexp(largest)[1] + 1) // BITS) - 1, _LOWEST_TOP)
        top = np.maximum(top, _LOWEST_TOP).astype(np.int64)
        gram, sums = _gram(columns, top, gaps=gaps)
        size = DIGITS * number
        products = gram[:size, :size].reshape(DIGITS, number, DIGITS, number).transpose(0, 2, 1, 3)
        # without gaps every row has every column
        count = gram[size:, size:] if gaps else np.full((number, number), rows)
        found = gram[:size, size:] if gaps else np.repeat(sums, number)
        return cls(
            rows=rows,
            top=top,
            count=count.astype(np.int64),
            sums=found.reshape(DIGITS, number, number).copy(),
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
        """Sums of column i over the rows that have j, in units of 2^(22 (top - 2)): whole."""
        top, middle, low = self.sums
        return _whole([low, middle], top)

    @property
    def mean(self) -> Floats:
        """The mean of each column over the rows that have it, rounded once."""
        count = np.maximum(self.present, 1).astype(object)
        quotient = (np.diag(self._totals) / count).astype(np.float64)
        return np.asarray(np.ldexp(quotient, BITS * (self.top - DIGITS + 1)))

    @cached_property
    def covariance(self) -> Floats:
        """The sample covariance K, rounded once; 0 where fewer than two rows have both."""
        number = len(self.top)
        here = np.tril_indices(number)
        digits, above = [], np.zeros(len(here[0]), dtype=np.int64)
        for place in range(2 * DIGITS - 2, -1, -1):  # of digits d and e with d + e = place
            pairs = [(d, place - d) for d in range(DIGITS) if 0 <= place - d < DIGITS]
            high, low = (sum(limb[pair][here] for pair in pairs) for limb in (self.high, self.low))
            digits.append(low + above)
            above = high << (_LIMB - BITS)
        products = _whole([*digits, above], np.zeros_like(above))
        count = self.count[here].astype(object)
        scatter = count * products - self._totals[here] * self._totals.T[here]
        quotient = (scatter / np.maximum(count * (count - 1), 1)).astype(np.float64)
        places = self.top - DIGITS + 1
        K = np.zeros((number, number))
        K[here] = K.T[here] = np.ldexp(quotient, BITS * (places[here[0]] + places[here[1]]))
        return K

    @property
    def vanishing(self) -> Flags:
        """Which columns vary, but so little that floating point cannot hold their variance."""
        return (np.diag(self.covariance) < LEAST_VARIANCE) & (self.lowest < self.highest)

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each column."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def _whole(digits: Sequence[Ints], top: Ints) -> Any:
    """Return the sum of digits[k] 2^(22 k), their number even, and the top beyond: Python's own.

    Few operations are on these, two digits at a time: each takes as long as fifty on words.
    """
    words, carry = [], np.zeros_like(top)
    for digit in digits:
        carried = digit + carry
        words.append(carried & ((1 << BITS) - 1))
        carry = carried >> BITS
    whole = (top + carry).astype(object)
    for k in range(len(words) - 2, -1, -2):
        whole = (whole << (2 * BITS)) + ((words[k + 1] << BITS) + words[k])
    return whole


def _largest(lowest: Floats, highest: Floats) -> Floats:
    ends = np.maximum(np.abs(lowest), np.abs(highest))
    return np.where(np.isfinite(ends), ends, 0.0)


def _ends(columns: Floats) -> tuple[Floats, Floats, bool]:
    """Return the least and the largest value of each column, and whether one is missing."""
    ends = np.full((2, len(columns)), _NO_END)
    by_columns = columns.flags.c_contiguous
    find, values = (_find_ends, columns) if by_columns else (_find_ends_by_rows, columns.T)
    gaps = find(values, *ends)
    ends[1] = ~ends[1]
    ends ^= (ends >> 63) & _NO_END
    lowest, highest = ends.view(np.float64)
    none = np.isnan(lowest)  # of a column without a value, both
    return np.where(none, np.inf, lowest), np.where(none, -np.inf, highest), gaps


def _gram(columns: Floats, top: Ints, *, gaps: bool) -> tuple[Ints, Ints]:
    """Return the exact Gram matrix of all digits, and their sums.

    Its last rows say which columns are present, if one of them has gaps.
    """
    number, rows = columns.shape
    size = (DIGITS + (1 if gaps else 0)) * number
    total, sums = np.zeros((size, size), dtype=np.int64), np.zeros(size, dtype=np.int64)
    by_rows = not columns.flags.c_contiguous
    tile_rows = min(TILE_ROWS, max(LEAST_ROWS, TILE_CELLS // max(size, 1)))
    tile, turned = np.zeros((size, tile_rows)), np.empty((number, tile_rows))
    values, unit = (columns.T if by_rows else columns), np.ldexp(1.0, -BITS * top)
    _add_tiles(values, rows, unit, gaps, by_rows, turned, tile, total, sums)
    _mirror(total)
    return total, sums


@strict
def _mirror(total: Any) -> None:
    """Fill in the upper triangle from the lower."""
    for i in range(total.shape[0]):
        for j in range(i):
            total[j, i] = total[i, j]


@strict
def _add_tiles(
    values: Any,
    rows: int,
    unit: Any,
    gaps: bool,
    by_rows: bool,
    turned: Any,
    tile: Any,
    total: Any,
    sums: Any,
) -> None:
    """Add the products and sums of all digits, tile by tile."""
    used = np.ones(tile.shape[0], dtype=np.bool_)
    for start in range(0, rows, tile.shape[1]):
        stop = min(start + tile.shape[1], rows)
        _cut(values, start, stop, unit, gaps, by_rows, turned, tile, used)
        # most tables are whole numbers, or decimals, of few digits: the others are all zero
        some = np.flatnonzero(used)
        _add_products(tile, some, stop - start, total)
        _add_sums(tile, some, stop - start, sums)


@strict
def _find_ends(columns: Any, lowest: Any, highest: Any) -> bool:
    """Fill in the least rank of each column, and of its values upside down; say whether one is
    missing."""
    gaps = False
    for i in range(columns.shape[0]):
        lowest[i], highest[i], missing = _ends_of(columns[i])
        gaps |= missing > 0
    return gaps


@strict
def _ends_of(values: Any) -> Any:
    low, high, missing = _NO_END, _NO_END, 0
    for row in range(values.shape[0]):
        rank = _rank(values[row])
        low, high = min(low, rank), min(high, ~rank if rank != _NO_END else rank)
        missing += rank == _NO_END
    return low, high, missing


@strict
def _rank(x: Any) -> Any:
    """Return a whole number that rises with x; _NO_END if it is missing.

    Vector units find the least of whole numbers; that of floats, some missing, they do not.
    """
    bits = np.int64(bits_of(x + 0.0))  # one 0, not two
    return bits ^ ((bits >> 63) & _NO_END) if x == x else _NO_END


@strict
def _find_ends_by_rows(X: Any, lowest: Any, highest: Any) -> bool:
    """Do the same for an array of (rows, columns)."""
    missing = 0
    for row in range(X.shape[0]):
        values = X[row]
        for i in range(values.shape[0]):
            rank = _rank(values[i])
            lowest[i] = min(lowest[i], rank)
            highest[i] = min(highest[i], ~rank if rank != _NO_END else rank)
            missing += rank == _NO_END
    return missing > 0


@strict
def _cut(
    values: Any,
    start: int,
    stop: int,
    unit: Any,
    gaps: bool,
    by_rows: bool,
    turned: Any,
    tile: Any,
    used: Any,
) -> None:
    """Fill a tile with the digits of some rows, and with what is present if there are gaps.

    `used` says which rows of the tile have a digit that is not 0.
    """
    number, rows = turned.shape[0], stop - start
    if by_rows:
        _turn(values, start, stop, turned)
    for i in range(number):
        column = turned[i, :rows] if by_rows else values[i, start:stop]
        one, two, three = tile[i, :rows], tile[number + i, :rows], tile[2 * number + i, :rows]
        ones, twos, threes = _cut_column(column, unit[i], one, two, three)
        used[i], used[number + i], used[2 * number + i] = ones > 0, twos > 0, threes > 0
        if gaps:
            present = tile[3 * number + i, :rows]
            for row in range(rows):
                present[row] = 1.0 if column[row] == column[row] else 0.0


@strict
def _turn(X: Any, start: int, stop: int, columns: Any) -> None:
    """Fill in some rows of X, column by column; a few rows at a time, which stay in cache."""
    for first in range(start, stop, STRIP):
        last = min(first + STRIP, stop)
        for i in range(X.shape[1]):
            for row in range(first, last):
                columns[i, row - start] = X[row, i]


@strict
def _cut_column(values: Any, unit: Any, one: Any, two: Any, three: Any) -> Any:
    """Fill in three digits of each value; return how many of each place are not 0."""
    widest_vectors()
    base, ones, twos, threes = 2.0**BITS, 0, 0, 0
    for row in range(values.shape[0]):
        x = values[row]
        r = (x if x == x else 0.0) * unit
        high = np.rint(r)
        r = (r - high) * base
        middle = np.rint(r)
        low = np.rint((r - middle) * base)
        one[row], two[row], three[row] = high, middle, low
        ones, twos, threes = ones + (high != 0.0), twos + (middle != 0.0), threes + (low != 0.0)
    return ones, twos, threes


@whole_sums
def _add_products(tile: Any, some: Any, rows: int, total: Any) -> None:
    """Add the products of some rows of a tile, three by three, to the lower triangle."""
    widest_vectors()
    size, nothing = some.shape[0], np.zeros(rows)
    for i in range(0, size, 3):
        a = tile[some[i], :rows]
        b = tile[some[i + 1], :rows] if i + 1 < size else nothing
        c = tile[some[i + 2], :rows] if i + 2 < size else nothing
        for j in range(0, i + 1, 3):
            d = tile[some[j], :rows]
            e = tile[some[j + 1], :rows] if j + 1 < size else nothing
            f = tile[some[j + 2], :rows] if j + 2 < size else nothing
            ad = ae = af = bd = be = bf = cd = ce = cf = 0.0
            for row in range(rows):
                ad += a[row] * d[row]
                ae += a[row] * e[row]
                af += a[row] * f[row]
                bd += b[row] * d[row]
                be += b[row] * e[row]
                bf += b[row] * f[row]
                cd += c[row] * d[row]
                ce += c[row] * e[row]
                cf += c[row] * f[row]
            found = ((ad, ae, af), (bd, be, bf), (cd, ce, cf))
            for p in range(min(3, size - i)):
                for q in range(min(3, size - j)):
                    if j + q <= i + p:
                        total[some[i + p], some[j + q]] += np.int64(found[p][q])


@whole_sums
def _add_sums(tile: Any, some: Any, rows: int, sums: Any) -> None:
    widest_vectors()
    for i in some:
        total = 0.0
        for row in range(rows):
            total += tile[i, row]
        sums[i] += np.int64(total)


def _check_squares(largest: Floats, names: Sequence[str] | None) -> None:
    if (beyond := np.flatnonzero(largest > LARGEST)).size:
        what = spelled(names[beyond[0]]) if names else f"{beyond[0] + 1} of the numbers"
        raise SourceError(
            f"column {what} holds values beyond {LARGEST:g}, whose squares overflow: divide "
            "them, perturb them on a logarithmic scale (log1p), or drop the column"
        )
