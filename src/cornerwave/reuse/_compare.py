"""Are these values registered already? Two tables by their marks, with a stated error.

By values, windows and rows. Suppose that the tables are independent, and look at the values
that exactly two rows hold, of both tables together. Such a value has a row in either table
with probability 2 t (1 - t) <= q = 1/2, where t is one table's share of the rows that lie there,
whatever that is: given the values, which rows are whose is a shuffle. (The share of all rows
shows nothing: of 3,000 delays above five hours among 300,000, few share a value, and they meet the
values of a column of 1,000 that all lie there.) The same table twice has all of them in both.
With `pairs` such values, `crossing` of which are in both, Chernoff's bound

    P(crossing or more) <= exp(-pairs D(crossing / pairs || q)),   D: Kullback and Leibler's

must be below CHANCE. So ages and categories are never matched by values, since more than two
rows hold each; wages in cents only beyond what their repeats within a table explain.

Values that a table holds once by design (numbers of members, of years) have no repeats that
would explain anything. So the single values of either table must be met in the other more often
than the share of places explains that this one's fill, where they lie: by the same bound. That
share q is estimated from m values, a sample at rate r of all: it may be too low by chance. So

    max over p of  exp(-(m / a) D(a || r)) exp(-trials D(hits / trials || p)),   a = r q / p

must be below CHANCE. If the share is p, there are m / a values: the first factor is Chernoff's
bound that no more than m of them are sampled. Of few values all are known: r = 1, p = q.

By key. In the rows that both tables have, independent columns agree with probability
sum_v a_v b_v, with the shares of each value in these rows. The agreement must be beyond that by
the same bound, and Cohen's kappa large: columns about the same people may well be correlated.

Beyond chance is not enough where a part is shared by design (ids from one pool, an experiment's
plan), so a share of the smaller table's own values must be found, too: see the constants.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, Words, places_among
from cornerwave.reuse._kept import LOG_CHANCE, ColumnMarks, Sketch, TableMarks

SHARE = 0.25
"""Of the smaller table's values, or windows, at least so many are in the other."""

SHARE_OF_ROWS = 0.8
"""Of the smaller table's rows: a calendar and the weather have rows in common by chance."""

ANYWHERE = 0.5
"""The chance that a value of two rows is in both tables is not larger, wherever it lies."""

GRID = 200
"""Chances that are tried in place of an estimate: from 0.1 to 1 they are 1.2 % apart."""

KAPPA = 0.8
"""Agreement by key beyond chance, of what there could be: 5 % of changed cells leave 0.95."""


@dataclass(frozen=True)
class Repeat:
    """A column that another dataset has as `of`; both are None if it is the rows as a whole."""

    column: str | None
    of: str | None
    same: bool


def repeated(new: TableMarks, old: TableMarks) -> Repeat | None:
    """Return what a new table repeats of an old one; None if nothing.

    Columns that copies of both show unchanged are no matter.
    """
    common = None
    if new.keys is not None and old.keys is not None:
        _, here, there = np.intersect1d(new.keys, old.keys, return_indices=True)
        common = (here.astype(np.int64), there.astype(np.int64))
    for one in new.columns:
        for two in old.columns:
            if one.shown and two.shown:
                continue
            how = _same_values(one, two) or _same_cells(one, two, common)
            if how is not None:
                return Repeat(one.name, two.name, how >= 1.0 and one.rows == two.rows)
    if new.total is not None and new.total == old.total:
        return Repeat(None, None, True)
    how = _crossing(new.rows, old.rows, least=SHARE_OF_ROWS)
    return None if how is None else Repeat(None, None, False)


def _same_values(one: ColumnMarks, two: ColumnMarks) -> float | None:
    """Return which share of the smaller column the larger has, by values or by their order."""
    if one.total is not None and (one.total, one.rows) == (two.total, two.rows):
        return 1.0
    by_value = _crossing(
        one.values, two.values, least=SHARE, met=(_Met.of(one, two), _Met.of(two, one))
    )
    if by_value is not None:
        return by_value
    # chance matches come in clumps: a window's neighbour matches with the chance of one cell
    clump = max(one.repeats, two.repeats)
    return _crossing(one.windows, two.windows, least=SHARE, clump=clump)


@dataclass(frozen=True)
class _Met:
    """The chance that a value is one of another column's, by `seen` ones in a sample of these."""

    chance: float
    seen: float
    rate: float

    @classmethod
    def of(cls, values: ColumnMarks, others: ColumnMarks) -> "_Met":
        """Return the chance that a single value of a column is one of another's, too."""
        if values.density is None or others.density is None or others.values is None:
            return NEVER
        in_each = len(others.values.ones) / len(others.density.shares)
        bands = others.density.bands_met_by(values.density)
        return cls(
            others.density.met_by(values.density), in_each * bands, others.values.sampling_rate
        )

    def log_tail(self, hits: int, trials: int) -> float:
        """Return a bound on log P(so many hits, and an estimate as low), whatever the chance is."""
        if not self.chance or self.rate >= 1 or hits <= self.chance * trials:
            return _log_tail(hits, trials, self.chance)
        chances = np.geomspace(self.chance, hits / trials, GRID).tolist()
        return max(self._log_low(p) + _log_tail(hits, trials, p) for p in chances)

    def _log_low(self, p: float) -> float:
        """Return a bound on log P(an estimate as low), if the chance is p."""
        a = self.rate * self.chance / p
        rest = (1 / a - 1) * math.log((1 - a) / (1 - self.rate))
        return -self.seen * (math.log(self.chance / p) + rest)


NEVER = _Met(0.0, 0.0, 1.0)


def _crossing(
    one: Sketch | None,
    two: Sketch | None,
    *,
    least: float,
    clump: float = 0.0,
    met: tuple[_Met, _Met] = (NEVER, NEVER),
) -> float | None:
    """Return the share of single values of the smaller that are single in both; or None.

    `met` is with which chance a single value of each is one of the other's.
    """
    if one is None or two is None:
        return None
    below = min(one.below, two.below)
    singles = [sketch.ones[sketch.ones <= below] for sketch in (one, two)]
    doubles = [sketch.twos[sketch.twos <= below] for sketch in (one, two)]
    crossing = _common(singles[0], singles[1])
    share = crossing / max(min(map(len, singles)), 1)
    if share < least:
        return None
    within = sum(
        len(np.setdiff1d(mine, np.concatenate([other.ones, other.twos])))
        for mine, other in ((doubles[0], two), (doubles[1], one))
    )
    tails = [_log_tail(crossing, crossing + within, max(ANYWHERE, clump))]
    tails += [each.log_tail(crossing, len(mine)) for mine, each in zip(singles, met, strict=True)]
    return share if max(tails) < LOG_CHANCE else None


def _common(one: Words, two: Words) -> int:
    """Return how many ascending, distinct hashes two sketches share."""
    return int(np.count_nonzero(places_among(one, two) >= 0))


def _same_cells(
    one: ColumnMarks, two: ColumnMarks, common: tuple[Ints, Ints] | None
) -> float | None:
    """Return the agreement in the rows that both tables have by key; None if it may be chance."""
    if common is None or one.codes is None or two.codes is None:
        return None
    a, b = one.codes[common[0]], two.codes[common[1]]
    known = (a != 0) & (b != 0)
    a, b = a[known], b[known]
    rows, agree = len(a), int((a == b).sum())
    if not agree:
        return None
    q = _chance_agreement(a, b)
    kappa = (agree / rows - q) / max(1 - q, 1e-9)
    if kappa < KAPPA or _log_tail(agree, rows, q) >= LOG_CHANCE:
        return None
    return agree / rows


def _chance_agreement(a: Words, b: Words) -> float:
    values, counts = np.unique(a, return_counts=True)
    others, more = np.unique(b, return_counts=True)
    _, here, there = np.intersect1d(values, others, return_indices=True)
    return float((counts[here] * more[there]).sum()) / len(a) ** 2


def _log_tail(hits: int, trials: int, q: float) -> float:
    """Return a bound on log P(Binomial(trials, q) >= hits)."""
    if not trials or hits <= q * trials:
        return 0.0
    share, q = hits / trials, max(q, 1e-300)
    missed = 0.0 if hits == trials else (1 - share) * math.log((1 - share) / (1 - q))
    return -trials * (share * math.log(share / q) + missed)


# --------------------------------------------------------------------------------------------------
# Is a table computed from another? By canonical correlations in the rows that both have.
#
# Sums and differences, other units, logarithms and ranks have none of the values that they are
# computed from, and noise of their own all the same, which recipients could average with the other.
# With X and Y the columns of either table in the n rows of both samples, less what their places
# explain,
#
#     rho = max over x, y of corr(X x, Y y),   left = (1 - rho^2) (n - d) / (n - d - ranks of X, Y)
#
# `left` is what neither table explains of a combination that the other has: 0 but for rounding if
# it is computed from it. A function that ascends or descends keeps the ranks of one column: of
# pairs of columns the ranks are compared, too.
#
# Unrelated tables agree where both follow the order of their rows, sorted or in the course of time:
# so what the place explains is taken out, by its rank and linear hats (d in all), and a column of
# which little more is left does not count. And where few rows can be distinguished: a rare flag,
# one outlier. If rows with c_1, c_2, ... equal values come in any order, they come in just this one
# with
# probability c_1! c_2! ... / n!, which must be below CHANCE.


LEFT = 1e-3
"""A combination of which less is left unexplained is the same but for rounding."""

ROWS, ROWS_A_HAT = 32, 16
"""Rows that both samples must have at least, and for each hat."""

ORDERED = 0.99
"""A column of which the place explains more is given by the order of the rows."""

GAPS = 0.1
"""Columns of which more is missing are compared in pairs alone."""


@dataclass(frozen=True)
class Relation:
    """Columns of a new table a combination of which some of another dataset's have, too."""

    columns: tuple[str, ...]
    of: tuple[str, ...]


@dataclass(frozen=True)
class _Columns:
    """Some columns (columns, rows) in the rows of both tables."""

    names: tuple[str, ...]
    shown: Flags
    numbers: Floats

    @classmethod
    def of(cls, marks: TableMarks, way: str, rows: Ints) -> "_Columns":
        columns = [(c.name, c.shown, c.numbers) for c in marks.columns if c.numbers is not None]
        cells = [getattr(numbers, way)[rows] for *_, numbers in columns]
        return cls(
            tuple(name for name, *_ in columns),
            np.array([shown for _, shown, _ in columns], dtype=np.bool_),
            np.array(cells).reshape(len(columns), len(rows)),
        )

    def take(self, which: Flags) -> "_Columns":
        names = tuple(np.array(self.names, dtype=object)[which])
        return _Columns(names, self.shown[which], self.numbers[which])


def related(new: TableMarks, old: TableMarks) -> Relation | None:
    """Return by what a new table is computed from an old one, or the reverse; None if it is not.

    Columns that copies of both show unchanged are no matter.
    """
    for one, two, hats in _samples(new, old):
        reused = _same_column(one, two, hats)
        for mine, theirs in ((one.take(~one.shown), two), (one, two.take(~two.shown))):
            reused = reused or _same_combination(mine, theirs, hats)
        if reused:
            return reused
    return None


def _samples(new: TableMarks, old: TableMarks) -> Iterator[tuple[_Columns, _Columns, Floats]]:
    """Yield the columns of both in the rows that both have, by key and by place, and the hats."""
    ways = [("placed", new.places, old.places, [new.placed_at])]
    if new.keys is not None and old.keys is not None:
        at = [each for each in (new.keyed_at, old.keyed_at) if each is not None]
        ways.insert(0, ("keyed", new.keys, old.keys, at))
    for way, mine, theirs, at in ways:
        _, here, there = np.intersect1d(mine, theirs, return_indices=True)
        if len(here) < ROWS:
            continue
        one, two = _Columns.of(new, way, here), _Columns.of(old, way, there)
        if one.names and two.names:
            places = [each[rows] for each, rows in zip(at, (here, there), strict=False)]
            yield one, two, _hats(places)


def _hats(places: Sequence[Floats]) -> Floats:
    """Return functions (d, rows) of the places: their ranks, and hats between some of them."""
    count = max(len(places[0]) // ROWS_A_HAT // len(places), 2)
    hats = [np.ones(len(places[0]))]
    for each in places:
        knots = np.quantile(each, np.linspace(0, 1, count))
        hats += [_ranked(each[None])[0] / len(each)]  # those of any column that rows are sorted by
        hats += [np.interp(each, knots, row) for row in np.eye(count)[1:]]
    return np.array(hats)


def _same_column(one: _Columns, two: _Columns, hats: Floats) -> Relation | None:
    """Return a column of each, if one is a linear or a monotone function of the other."""
    tries, hidden = one.shown.size * two.shown.size, ~(one.shown[:, None] & two.shown)
    for form in (np.asarray, _ranked):
        near = _correlations(form(one.numbers), form(two.numbers)) ** 2 > 1 - 10 * LEFT
        for i, j in np.argwhere(near & hidden):
            known = np.isfinite(one.numbers[i]) & np.isfinite(two.numbers[j])
            mine, theirs = (form(c[None, known]) for c in (one.numbers[i], two.numbers[j]))
            if _shared(mine, theirs, hats[:, known], tries) is not None:
                return Relation((one.names[i],), (two.names[j],))
    return None


def _same_combination(one: _Columns, two: _Columns, hats: Floats) -> Relation | None:
    """Return columns of each a combination of which is the same."""
    one, two = (each.take(np.isnan(each.numbers).mean(axis=1) <= GAPS) for each in (one, two))
    known = np.isfinite(np.concatenate([one.numbers, two.numbers])).all(axis=0)
    mine, theirs = one.numbers[:, known], two.numbers[:, known]
    shared = _shared(mine, theirs, hats[:, known], max(len(mine) * len(theirs), 1))
    if shared is None:
        return None
    return Relation(_parts(one.names, mine, shared[0]), _parts(two.names, theirs, shared[1]))


def _shared(one: Floats, two: Floats, hats: Floats, tries: int) -> tuple[Floats, Floats] | None:
    """Return weights of one's columns and of two's that give the same but for what hats explain."""
    rows = hats.shape[1] - len(hats)
    (mine, weights), (theirs, others) = _basis(one, hats), _basis(two, hats)
    free = rows - len(mine) - len(theirs)
    if hats.shape[1] < ROWS or 2 * free < rows or not (len(mine) and len(theirs)):
        return None
    left, sizes, right = np.linalg.svd(mine @ theirs.T)
    if (1 - min(sizes[0], 1.0) ** 2) * rows / free >= LEFT:
        return None
    shared = left[:, 0] @ weights, right[0] @ others
    telling = _is_telling(shared[0] @ one, tries) and _is_telling(shared[1] @ two, tries)
    return shared if telling else None


def _basis(numbers: Floats, hats: Floats) -> tuple[Floats, Floats]:
    """Return orthonormal combinations (rank, rows) of columns, less what hats explain of them.

    And the weights (rank, columns) that make them.
    """
    rest = numbers - np.linalg.lstsq(hats.T, numbers.T, rcond=None)[0].T @ hats
    size, whole = (each.std(axis=1) for each in (rest, numbers))
    free = size > np.maximum(whole * math.sqrt(1 - ORDERED), 1e-6)  # of the column's deviation
    scales = np.where(free, 1 / np.maximum(size, 1e-6), 0.0)
    left, sizes, right = np.linalg.svd(rest * scales[:, None], full_matrices=False)
    rank = sizes > 1e-4 * max(sizes.max(initial=0.0), 1e-300)
    return right[rank], left.T[rank] * scales / sizes[rank, None]


def _parts(names: Sequence[str], numbers: Floats, weights: Floats) -> tuple[str, ...]:
    """Return the columns that a combination is mostly made of."""
    sizes = np.abs(weights) * numbers.std(axis=1)
    return tuple(name for name, size in zip(names, sizes, strict=True) if size >= sizes.max() / 10)


def _is_telling(numbers: Floats, tries: int) -> bool:
    """Whether an independent table has its rows in just this order with a chance below CHANCE.

    Numbers closer together than what may be left unexplained are taken for equal.
    """
    cells = np.floor((numbers - numbers.min()) / (2 * math.sqrt(LEFT) * numbers.std()))
    counts = np.unique(cells, return_counts=True)[1]
    orders = math.lgamma(len(numbers) + 1) - sum(math.lgamma(count + 1) for count in counts)
    return math.log(tries) - orders < LOG_CHANCE


def _ranked(numbers: Floats) -> Floats:
    """Return the rank of each number in its column; equal ones have their mean rank."""
    ranks = np.full(numbers.shape, np.nan)
    for row, out in zip(numbers, ranks, strict=True):
        known = np.isfinite(row)
        _, places, counts = np.unique(row[known], return_inverse=True, return_counts=True)
        out[known] = (np.cumsum(counts) - (counts - 1) / 2)[places]
    return ranks


def _correlations(one: Floats, two: Floats) -> Floats:
    """Return the correlation of each column of one with each of two, in the rows known of both."""
    here, there = (np.isfinite(each).astype(np.float64) for each in (one, two))
    x, y = (np.nan_to_num(each) for each in (one, two))
    rows = np.maximum(here @ there.T, 1)
    mean_x, mean_y = x @ there.T / rows, here @ y.T / rows
    var_x, var_y = x**2 @ there.T / rows - mean_x**2, here @ (y**2).T / rows - mean_y**2
    size = np.sqrt(np.maximum(var_x * var_y, 1e-30))
    return np.asarray((x @ y.T / rows - mean_x * mean_y) / size)
