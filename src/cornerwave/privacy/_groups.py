"""How much rows agree that are equal in something: intraclass correlations, and what chance does.

Let z be a column in rank scores of mean 0 and variance 1, or the indicators of a category over
sqrt(1 - s), s = sum of pi^2. In groups of n rows with sums S of z

    r = 1 - MSW / Var,      MSW = sum over groups of (sum z^2 - S^2 / n) / sum of (n - 1)

is the mean of z z' over pairs of rows of a group, each weighted by 1 / n: so every row counts
once, and a sample of rows estimates what all rows have. Rows of neighbouring groups have the
correlation

    near = sum of w S S' / sum of w n n',      w = 1 / (n + n')

If rows do not belong together, the weighted sum T of products has the variance
V = spread^2 sum of (n - 1) / (2 n), W = sum of (n - 1) / 2 is its weight, and
T > sqrt(2 u V) + u (1 + rare) has about the probability exp(-u): the quadratic form of Laurent
and Massart, with Bernstein's term for rare values.

Were the values of a column drawn row by row, the sizes of its groups would vary at least as
those of a Poisson distribution do, of which a group is seen if it is not empty:

    mean of n  <=  g / (1 - exp(-g)),      g = sum of n (n - 1) / sum of n

A larger mean is that of values that were given out, so many rows each.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, lengths_of

MONOTONE_RUNS = 256
"""So many runs of neighbouring groups are looked at for a monotone dependence."""
EVEN_SIZES, DEVIATIONS = 0.3, 3.0
"""By how much sizes must vary less than chance makes them: at least, and in standard errors."""
MOST_ROWS = 500
"""A value that more rows hold is a kind of rows, not a unit."""
MOST_KINDS = 8
"""So many values of a category are looked at for a monotone dependence."""
MOST_CELLS = 8
"""So many cells of groups and values for each row are counted at once."""
EVEN = 3.0
"""The largest square of an evenly distributed score of variance 1."""


@dataclass(frozen=True)
class Agreement:
    """How much the rows of a group agree in a column, and beyond rows of neighbouring groups.

    `chance` gives what r exceeds with probability exp(-u).
    """

    r: float
    near: float
    spread: float
    weight: float
    rare: float

    @property
    def beyond(self) -> float:
        """The part of r that is not there among neighbours."""
        return self.r - max(self.near, 0.0)

    def chance(self, u: float) -> float:
        """Return what chance exceeds with probability exp(-u)."""
        return (self.spread * math.sqrt(2 * u) + u * (1 + self.rare)) / self.weight


class Groups:
    """Rows that are equal in something, value by value; those that too many rows hold left out.

    `codes` number the values of all rows, -1 for none; where they are `ordered`, values of
    neighbouring codes are neighbours, unless a `block` of the rows ends between them. Each of
    these rows stands for `scale` rows of the table.
    """

    def __init__(
        self, codes: Ints, *, scale: float, ordered: bool, blocks: Ints | None = None
    ) -> None:
        rows = np.flatnonzero(codes >= 0)
        rows = rows[_in_order(codes[rows])]
        own = codes[rows]
        starts = np.flatnonzero(np.append(True, own[1:] != own[:-1])[: len(own)])
        sizes = lengths_of(starts, len(own))
        fits = 1 + (sizes - 1) * scale <= MOST_ROWS
        self.rows, self.sizes = rows[np.repeat(fits, sizes)], sizes[fits]
        self.covered = len(self.rows) / max(1, len(codes))
        self._scale = scale
        beside = fits[1:] & fits[:-1] if ordered else np.zeros(max(0, len(fits) - 1), dtype=bool)
        if blocks is not None and len(starts):
            firsts = blocks[rows[starts]]
            beside = beside & (firsts[1:] == firsts[:-1])
        # the numbers, among those that fit, of groups whose next one is their neighbour
        self.beside = (np.cumsum(fits) - 1)[:-1][beside]

    @property
    def repeated(self) -> int:
        """How many groups have more than one row."""
        return int(np.count_nonzero(self.sizes > 1))

    @cached_property
    def rows_each(self) -> float:
        """How many rows of the table the group of a row has, on average over rows."""
        pairs = float((self.sizes * (self.sizes - 1)).sum())
        return 1 + self._scale * pairs / max(1, int(self.sizes.sum()))

    @cached_property
    def mean_rows(self) -> float:
        """How many rows of the table a group has, on average over groups; at most, of a sample."""
        each = self._scale * float(self.sizes.sum()) / max(1, len(self.sizes))
        return min(each, self.rows_each)

    @property
    def largest(self) -> int | None:
        """How many rows the largest group has; None if only a sample is seen."""
        return int(self.sizes.max(initial=0)) if self._scale == 1 else None

    @cached_property
    def is_given_out(self) -> bool:
        """Whether sizes vary less than if values were drawn row by row; of all rows only."""
        if self._scale > 1 or not len(self.sizes):
            return False
        pairs = self.rows_each - 1
        # g / (1 - exp(-g)): the mean of a Poisson distribution without its zeros
        by_chance = pairs / -math.expm1(-pairs) if pairs > 0 else 1.0
        error = DEVIATIONS * math.sqrt(2 / len(self.sizes))
        return self.mean_rows - by_chance > max(EVEN_SIZES, error)

    @cached_property
    def which(self) -> Ints:
        """The group of each row."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def monotone(self, signal: "Scores | Kinds") -> float:
        """Return the share of what differs between groups that only rises or falls with the value.

        By isotonic regression of the means of groups, or of runs of neighbouring ones.
        """
        n = _sums(self.which, signal.here[self.rows], len(self.sizes))
        ends = np.cumsum(n)
        # a group of many rows is a run of its own
        runs = (
            np.floor((ends - n / 2) / max(ends[-1], 1.0) * MONOTONE_RUNS)
            if len(n) > MONOTONE_RUNS
            else None
        )
        explained = total = 0.0
        for z in signal.parts():
            S = _sums(self.which, z[self.rows], len(self.sizes))
            seen = n > 0
            means, weights = S[seen] / n[seen], n[seen]
            mean = float(S.sum()) / max(float(n.sum()), 1.0)
            total += float((weights * (means - mean) ** 2).sum())
            if runs is not None:
                _, block = np.unique(runs[seen], return_inverse=True)
                count = int(block.max()) + 1
                heavy = _sums(block, weights, count)
                means, weights = _sums(block, weights * means, count) / heavy, heavy
            explained += _explained(means - mean, weights)
        return min(explained / total, 1.0) if total > 0 else 0.0

    def agreement(self, signal: "Scores | Kinds") -> Agreement | None:
        """Return how much the rows of a group agree; None if there is nothing to compare."""
        return signal.within(self)


class Meetings(Groups):
    """Groups of the rows of two tables, `is_new` those of the second, that are compared with
    those of the first alone. Each of these stands for `scale` rows.
    """

    def __init__(
        self,
        codes: Ints,
        is_new: Flags,
        *,
        scale: float,
        ordered: bool,
        blocks: Ints | None = None,
    ) -> None:
        super().__init__(codes, scale=scale, ordered=ordered, blocks=blocks)
        self.is_new, count = is_new[self.rows], len(self.sizes)
        self.new = _sums(self.which, self.is_new, count)
        self.old = self.sizes - self.new
        met = float(self.new[self.old > 0].sum())
        # of sampled rows few meet: how many do, if each row of the first table was there
        self.covered = min(1.0, scale * met / max(1, int(is_new.sum())))

    @property
    def repeated(self) -> int:
        """How many groups have rows of both."""
        return int(np.count_nonzero((self.new > 0) & (self.old > 0)))

    @cached_property
    def rows_each(self) -> float:
        """How many rows the group of a new row has that meets others: itself, and these."""
        every = self._scale * float((self.new * self.old).sum())
        return 1 + every / max(1.0, self.covered * float(self.new.sum()))

    def agreement(self, signal: "Scores | Kinds") -> Agreement | None:
        """Return how much new rows agree with old ones; None if there is nothing to compare."""
        return signal.across(self)


@dataclass(frozen=True)
class Scores:
    """A column of numbers as rank scores; 0 where missing."""

    values: Floats
    present: Floats
    largest: float

    @classmethod
    def of(cls, codes: Ints) -> "Scores | None":
        """Return the scores of numbers, given codes that ascend with them, -1 for missing.

        None if they do not vary.
        """
        here = codes >= 0
        counts = np.bincount(codes[here])
        if np.count_nonzero(counts) < 2:
            return None
        ranks = (np.cumsum(counts) - counts / 2)[codes[here]]
        scores = np.zeros(len(codes))
        scores[here] = (ranks - ranks.mean()) / ranks.std()
        return cls(scores, here.astype(np.float64), float((scores**2).max()))

    @property
    def here(self) -> Floats:
        """1 where there is a value."""
        return self.present

    def parts(self) -> list[Floats]:
        """Return the scores."""
        return [self.values]

    def within(self, groups: Groups) -> Agreement | None:
        """Return how much the rows of groups agree."""
        z, here, size = self.values[groups.rows], self.present[groups.rows], len(groups.sizes)
        n, S = _sums(groups.which, here, size), _sums(groups.which, z, size)
        weight, known = _weight(n), float(n.sum())
        variance = float(z @ z) / max(known, 1.0) - (float(S.sum()) / max(known, 1.0)) ** 2
        if not weight or variance < 1e-9:
            return None
        # MSW = sum over groups of (sum z^2 - S^2 / n) / sum of (n - 1); 2 W is that sum
        within = float(z @ z) - float((S**2 / np.maximum(n, 1.0)).sum())
        mean = float(S.sum()) / known
        near = _neighbours(groups, n, (S - n * mean)[:-1] * (S - n * mean)[1:]) / variance
        r = 1 - within / (2 * weight) / variance
        return Agreement(r, near, _deviation(n), weight, _rare(self.largest / variance))

    def across(self, groups: Meetings) -> Agreement | None:
        """Return how much new rows agree with old ones, each about the mean of its table."""
        z, here, size = self.values[groups.rows], self.present[groups.rows], len(groups.sizes)
        z = z - here * np.where(groups.is_new, _mean(z, groups.is_new), _mean(z, ~groups.is_new))
        sums = [
            [_sums(groups.which, power * table, size) for power in (here, z, z * z)]
            for table in (~groups.is_new, groups.is_new)
        ]
        (n, S, Q), (m, T, R) = sums
        w = 1 / np.maximum(n + m, 1.0)
        weight, variance = float((w * n * m).sum()), float(z @ z) / max(1.0, float(here.sum()))
        if not weight or variance < 1e-9:
            return None
        # half the weighted mean of (z - z')^2 over pairs of an old and a new row
        apart = float((w * (m * Q + n * R - 2 * S * T)).sum()) / (2 * weight)
        beside = S[:-1] * T[1:] + S[1:] * T[:-1]
        near = _meeting(groups, n, m, beside) / variance
        spread = math.sqrt(float((w * w * n * m).sum()))
        return Agreement(1 - apart / variance, near, spread, weight, _rare(self.largest / variance))


@dataclass(frozen=True)
class Kinds:
    """A category as codes, -1 where missing."""

    codes: Ints

    @classmethod
    def of(cls, codes: Ints) -> "Kinds | None":
        """Return a category; None if it does not vary."""
        return cls(codes) if len(np.unique(codes[codes >= 0])) > 1 else None

    @property
    def here(self) -> Floats:
        """1 where there is a value."""
        return (self.codes >= 0).astype(np.float64)

    def parts(self) -> list[Floats]:
        """Return the indicators of the most frequent values, about their means."""
        counts, here = np.bincount(self.codes[self.codes >= 0]), self.here
        most = np.argsort(-counts, kind="stable")[:MOST_KINDS]
        return [here * ((self.codes == k) - counts[k] / counts.sum()) for k in most]

    def within(self, groups: Groups) -> Agreement | None:
        """Return how much the rows of groups agree."""
        codes = self.codes[groups.rows]
        here, size, values = codes >= 0, len(groups.sizes), int(self.codes.max()) + 1
        n = np.bincount(groups.which[here], minlength=size).astype(np.float64)
        pi = np.bincount(codes[here], minlength=values) / max(1, int(here.sum()))
        weight, alike = _weight(n), float((pi**2).sum())
        if not weight or alike > 1 - 1e-9:
            return None
        # how many rows of each group hold each value
        both = groups.which[here] * values + codes[here]
        if size * values <= MOST_CELLS * len(both):  # counted without sorting them
            m = np.bincount(both)
            cells = np.flatnonzero(m)
            m = m[cells]
        else:
            cells, m = np.unique(both, return_counts=True)
        at = cells // values
        within = float(n.sum()) - float((m**2 / n[at]).sum())
        r = 1 - within / (2 * weight) / (1 - alike)
        near = 0.0
        if len(groups.beside):
            equal = _equal((cells, m), (cells, m), values, 1, size)[:-1]
            near = _neighbours(groups, n, equal - alike * n[:-1] * n[1:]) / (1 - alike)
        spread, rare = _chance(pi)
        return Agreement(r, near, spread * _deviation(n), weight, rare)

    def across(self, groups: Meetings) -> Agreement | None:
        """Return how much new rows agree with old ones."""
        codes = self.codes[groups.rows]
        size, values = len(groups.sizes), int(self.codes.max()) + 1
        pi = np.bincount(codes[codes >= 0], minlength=values) / max(1, int((codes >= 0).sum()))
        alike = float((pi**2).sum())
        counts, cells = [], []
        for table in (~groups.is_new, groups.is_new):
            known = (codes >= 0) & table
            counts.append(np.bincount(groups.which[known], minlength=size).astype(np.float64))
            cells.append(
                np.unique(groups.which[known] * values + codes[known], return_counts=True),
            )
        (n, m), (old, new) = counts, cells
        w = 1 / np.maximum(n + m, 1.0)
        weight = float((w * n * m).sum())
        if not weight or alike > 1 - 1e-9:
            return None
        equal = _equal(old, new, values, 0, size)
        r = (float((w * equal).sum()) / weight - alike) / (1 - alike)
        beside = _equal(old, new, values, 1, size)[:-1] + _equal(new, old, values, 1, size)[:-1]
        by_chance = alike * (n[:-1] * m[1:] + n[1:] * m[:-1])
        near = _meeting(groups, n, m, beside - by_chance) / (1 - alike)
        spread, rare = _chance(pi)
        return Agreement(r, near, spread * math.sqrt(float((w * w * n * m).sum())), weight, rare)


def _in_order(codes: Ints) -> Ints:
    """Return the order by codes, none of them negative; of equal ones as they are."""
    # numbers of 16 bits are sorted in linear time
    small = codes.astype(np.uint16) if codes.max(initial=0) < 1 << 16 else codes
    return np.argsort(small, kind="stable")


def _sums(which: Ints, weights: Floats | Flags, groups: int) -> Floats:
    """Return the sum of each group."""
    return np.asarray(np.bincount(which, weights, groups), dtype=np.float64)


def _mean(z: Floats, table: Flags) -> float:
    return float(z[table].mean()) if table.any() else 0.0


def category_spread(pi: Floats) -> tuple[float, float]:
    """Return the deviation of [a = b] for rows a, b of a category, and its largest size over that.

    [a = b] - pi_a - pi_b + s has mean 0 given a, or b, and the same sum over all pairs.
    """
    alike = float((pi**2).sum())  # s
    spread = math.sqrt(max(alike - 2 * float((pi**3).sum()) + alike**2, 1e-300))
    return spread, (1 - 2 * float(pi[pi > 0].min()) + alike) / spread


def _chance(pi: Floats) -> tuple[float, float]:
    """Return the deviation of [a = b] over 1 - s, and what rare values add to its tail."""
    spread, largest = category_spread(pi)
    return spread / (1 - float((pi**2).sum())), _rare(largest)


def _equal(
    old: tuple[Ints, Ints], new: tuple[Ints, Ints], values: int, step: int, groups: int
) -> Floats:
    """Return how many pairs of rows are equal, one of each group, one so many groups on."""
    (cells, n), (others, m) = old, new
    if not len(others):
        return np.zeros(groups)
    sought = cells + step * values
    at = np.minimum(np.searchsorted(others, sought), len(others) - 1)
    met = np.flatnonzero(others[at] == sought)
    return _sums(cells[met] // values, (n[met] * m[at[met]]).astype(np.float64), groups)


def _meeting(groups: Groups, n: Floats, m: Floats, products: Floats) -> float:
    """Return the mean product of old and new rows of neighbouring groups."""
    if not len(groups.beside):
        return 0.0
    one, two = groups.beside, groups.beside + 1
    pairs = n[one] * m[two] + n[two] * m[one]
    weights = 1 / np.maximum(n[one] + n[two] + m[one] + m[two], 1.0)
    total = float((weights * pairs).sum())
    return float((weights * products[groups.beside]).sum()) / total if total else 0.0


def _explained(means: Floats, weights: Floats) -> float:
    """Return the sum of squares of the best monotone fit to means, rising or falling."""
    from scipy.optimize import isotonic_regression

    fits = (isotonic_regression(side * means, weights=weights).x for side in (1, -1))
    return max(float((weights * fit**2).sum()) for fit in fits)


def _weight(n: Floats) -> float:
    """Return the weight W of all pairs within groups of n rows."""
    return float(n[n > 0].sum() - np.count_nonzero(n)) / 2


def _deviation(n: Floats) -> float:
    """Return the deviation of the sum of products of pairs, each of deviation 1."""
    # V = spread^2 sum of (n - 1) / (2 n)
    several = n[n > 1]
    return math.sqrt(float(((several - 1) / several).sum()) / 2)


def _rare(largest: float) -> float:
    return 2 / 3 * max(largest - EVEN, 0.0)


def _neighbours(groups: Groups, n: Floats, products: Floats) -> float:
    """Return the mean product of rows of neighbouring groups."""
    if not len(groups.beside):
        return 0.0
    one, two = n[groups.beside], n[groups.beside + 1]
    weights = 1 / np.maximum(one + two, 1.0)
    total = float((weights * one * two).sum())
    return float((weights * products[groups.beside]).sum()) / total if total else 0.0


# --------------------------------------------------------------------------------------------------
# What a copy of all rows of a unit leaves hidden.
#
# If g rows have the intraclass correlation r in a column of variance 1, their covariance has the
# eigenvalue a = 1 + (g - 1) r once, for their mean, and b = 1 - r otherwise. The noise v is
# independent from row to row, so the best linear estimate from all of them leaves
#
#     of a value       v/g (a / (a + v) + (g - 1) b / (b + v))     <= v / (1 + v), equal if r = 0
#     of their mean    v / (a + v)


PRIVACY = 0.5
"""The privacy at which it is stated what is given away."""


def left_of_value(r: float, rows: float, noise: float) -> float:
    """Return the share of a value that stays hidden.

    >>> round(left_of_value(0.5, 10, 1.0), 2), round(left_of_value(0.9, 10, 1.0), 2)
    (0.38, 0.17)
    """
    r = min(max(r, 0.0), 1.0)
    mean, rest = 1 + (rows - 1) * r, 1 - r  # the eigenvalues a and b
    return noise / rows * (mean / (mean + noise) + (rows - 1) * rest / (rest + noise))


def left_of_mean(r: float, rows: float, noise: float) -> float:
    """Return the share of the mean of a unit's rows that stays hidden.

    >>> round(left_of_mean(0.5, 10, 1.0), 2), round(left_of_mean(0.9, 50, 1.0), 2)
    (0.15, 0.02)
    """
    return noise / (1 + (rows - 1) * min(max(r, 0.0), 1.0) + noise)
