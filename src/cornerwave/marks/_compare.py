"""Are these values registered already? Two tables by their marks, with a stated error.

By values, windows and rows. Suppose that the tables are independent, and look at the values
that exactly two rows hold, of both tables together. Such a value has a row in either table
with probability 2 t (1 - t) <= q = 1/2, where t is one table's share of the rows that lie there,
whatever that is: given the values, which rows are whose is a shuffle. (The share of all rows
says nothing: of 3,000 delays above five hours among 300,000, few share a value, and they meet the
values of a column of 1,000 that all lie there.) The same table twice has all of them in both.
With `pairs` such values, `crossing` of which are in both, Chernoff's bound

    P(crossing or more) <= exp(-pairs D(crossing / pairs || q)),   D: Kullback and Leibler's

must be below CHANCE. So ages and categories are never matched by values, since more than two
rows hold each; wages in cents only beyond what their repeats within a table explain.

Values that a table holds once by design (numbers of members, of years) have no repeats that
would explain anything. So the single values of either table must be met in the other more often
than the share of places explains that this one's fill, where they lie: by the same bound.

By key. In the rows that both tables have, independent columns agree with probability
sum_v a_v b_v, with the shares of each value in these rows. The agreement must be beyond that by
the same bound, and Cohen's kappa large: columns about the same people may well be correlated.

Beyond chance is not enough where a part is shared by design (ids from one pool, an experiment's
plan), so a share of the smaller table's own values must be found, too: see the constants.
"""

import math
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Ints, Words, places_among
from cornerwave.marks._kept import LOG_CHANCE, ColumnMarks, Sketch, TableMarks

SHARE = 0.25
"""Of the smaller table's values, or windows, at least so many are in the other."""

SHARE_OF_ROWS = 0.8
"""Of the smaller table's rows: a calendar and the weather have rows in common by chance."""

ANYWHERE = 0.5
"""The chance that a value of two rows is in both tables is not larger, wherever it lies."""

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
    by_value = _crossing(one.values, two.values, least=SHARE, met=_chances(one, two))
    if by_value is not None:
        return by_value
    # chance matches come in clumps: a window's neighbour matches with the chance of one cell
    clump = max(one.repeats, two.repeats)
    return _crossing(one.windows, two.windows, least=SHARE, clump=clump)


def _chances(one: ColumnMarks, two: ColumnMarks) -> tuple[float, float]:
    """Return the chance that a single value of each column is one of the other's, too."""
    if one.density is None or two.density is None:
        return 0.0, 0.0
    return two.density.met_by(one.density), one.density.met_by(two.density)


def _crossing(
    one: Sketch | None,
    two: Sketch | None,
    *,
    least: float,
    clump: float = 0.0,
    met: tuple[float, float] = (0.0, 0.0),
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
    chances = [(crossing + within, max(ANYWHERE, clump)), *zip(map(len, singles), met, strict=True)]
    beyond = all(_log_tail(crossing, trials, q) < LOG_CHANCE for trials, q in chances)
    return share if beyond else None


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
    found, q = hits / trials, max(q, 1e-300)
    missed = 0.0 if hits == trials else (1 - found) * math.log((1 - found) / (1 - q))
    return -trials * (found * math.log(found / q) + missed)
