"""The scale on which a column is perturbed: its own, or one that draws its tail in.

    own     t = x
    log1p   t = log(1 + x)                        back: x = exp(t) - 1
    rank    t = normal score of x's rank          back: the quantile function

On its own scale a record far out in the tail is not hidden by noise of the
population's size. On a transformed scale it is hidden in proportion. The knots of the
rank scale are averages over equal shares of the rows, of at least 50 each: a cell is in one
only where a whole share has that value. The outermost share at each end goes to its knot before
the noise: no record stands out from its share.

Copies reveal the knots: of much noise the most part lies beyond the outermost ones, which are
nearly level. An exact average gives away a row to who knows the others. So knots are those of a
Bayesian bootstrap (Rubin 1981): each row has a keyed weight -ln U, the same in every copy, and
shares are equal by weight. So knots vary by the standard error that they have anyway, as if the
rows were another sample, stay in order, and leave values as they are that whole shares have. The
row that is looked for has a weight that nobody knows.

After the noise the way back is a slope throughout, so that no two scores become one value (as
finely as doubles distinguish them), and a set of copies reveals no more than its best member on the
own scale either.

A value that many rows hold, as zero among wages, spans many ranks. Each of its rows gets
one of them by a keyed draw, the same in every copy. So scores are normal whatever the
column is (up to the outermost shares), and normal scores T with normal noise W have the
property that

    Var E[f(T) | T + W]  <=  Var f(T) / (1 + v)        for every function f     (Gebelein)

A value is a function of its score. So anyone who has this column of a copy, and any knowledge
of its distribution, fails to recover v/(1+v) of the variance of the value, of whether it is
zero, of anything that depends on it.
Both directions use strict arithmetic: the same bits on every machine.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError

KNOTS = 255
ROWS_PER_KNOT = 50
FEWEST = 3 * ROWS_PER_KNOT
"""Of so many values two knots have their rows, however these are weighted, but for bad luck."""

SAMPLE = 1 << 20


Knots = tuple[tuple[float, float], ...]
"""Values and their scores, both increasing, values perhaps in level stretches."""

RankDraws = Callable[[str], Floats]
"""Numbers from (0, 1], one for each row, for the column of a name."""

FAR = 1e6
"""A score beyond the reach of any noise."""

LOG1P_ENDS = (float(np.nextafter(-1.0, 0.0)), 1e304)
"""The range of a log1p copy: 1 + x is 0 below it, and does not fit in a double beyond it."""

RISE = 2.0**-20
"""On the way back a level stretch of values rises so far towards its neighbours, and the
ends rise on with this share of their slope: so little that cents, rounded, are still level."""


@dataclass(frozen=True)
class Scale:
    """How a column is transformed before the noise, and back after it.

    Values up to the first of `ends`, or from the second on, are in the outermost shares.
    """

    name: str | None = None
    knots: Knots = ()
    ends: tuple[float, float] | None = None

    def forward(self, x: Floats, column: str, draws: RankDraws | None = None) -> Floats:
        """Return x on this scale; NaN stays. Raises ColumnError for what it cannot take.

        `draws` choose one of the ranks that a value spans; without them it is the middle one.
        """
        if self.name is None:
            return x
        out = np.empty_like(x)
        if self.name == "log1p":
            if (x <= -1).any():
                raise ColumnError(f"{column!r}: log1p needs values above -1; use rank instead")
            _core.fill_log1p(np.ascontiguousarray(x), out)
        else:
            values, scores = np.array(self.knots).T.copy()
            distinct, first, count = np.unique(values, return_index=True, return_counts=True)
            chosen = np.full(len(x), 0.5) if draws is None else np.ascontiguousarray(draws(column))
            ends = self.ends or (-math.inf, math.inf)
            _core.fill_rank_scores(
                np.ascontiguousarray(x), chosen, distinct, first, count, scores, *ends, out
            )
        return out

    def undone(self, x: Floats) -> Floats:
        """Return the scores that `backward` takes to x, on the scale of ranks."""
        scores, values = _sloping(self.knots)
        return np.where(np.isnan(x), np.nan, np.interp(x, values, scores))

    def backward(self, t: Floats) -> Floats:
        """Return t on the column's own scale."""
        if self.name is None:
            return t
        out = np.empty_like(t)
        if self.name == "log1p":
            _core.fill_expm1(np.ascontiguousarray(t), out)
        else:
            _core.fill_interpolated(np.ascontiguousarray(t), *_sloping(self.knots), out)
        return out


def interpolate(scores: Floats, knots: Knots) -> Floats:
    """Return the values of scores, by the quantiles that knots are."""
    out = np.empty_like(scores)
    _core.fill_interpolated(np.ascontiguousarray(scores), *_sloping(knots), out)
    return out


def _sloping(knots: Knots) -> tuple[Floats, Floats]:
    """Return scores and values without a level stretch, the ends rising on but slowly."""
    values, scores = np.array(knots).T.copy()
    distinct, first, counts = np.unique(values, return_index=True, return_counts=True)
    gaps = np.diff(distinct)
    below, above = np.append(gaps[:1], gaps), np.append(gaps, gaps[-1:])
    rise = RISE * np.minimum(below, above)
    for start, count, step in zip(first, counts, rise, strict=True):
        if count > 1:
            part = np.arange(count) / (count - 1)
            lowest, highest = start == 0, start + count == len(values)
            shift = 0.0 if lowest else 1.0 if highest else 0.5
            values[start : start + count] += (part - shift) * step
    for place in range(1, len(values)):  # where a rise is lost in rounding
        values[place] = max(values[place], np.nextafter(values[place - 1], np.inf))
    ends = [
        values[at]
        + RISE * (values[at] - values[by]) / (scores[at] - scores[by]) * (end - scores[at])
        for at, by, end in ((0, 1, -FAR), (-1, -2, FAR))
    ]
    return np.array([-FAR, *scores, FAR]), np.array([ends[0], *values, ends[1]])


def rank_scale(
    sample: Floats, column: str, weights: Floats | None = None, *, coarse: bool = False
) -> Scale:
    """Return the rank scale of a column from a sample of its values. Raises ColumnError.

    `weights` are those of the rows; without any, the knots are exact. The number of `coarse`
    knots is a power of two, so that it hardly reveals how many values there are.
    """
    knots = quantiles(sample, weights, coarse=coarse)
    if not knots:
        raise ColumnError(
            f"{column!r}: rank needs at least {FEWEST} values; use log1p, no transform, or drop "
            "the column"
        )
    if knots[0][0] == knots[-1][0]:
        raise ColumnError(f"{column!r}: constant, or nearly so; rank cannot order it")
    return Scale("rank", knots, share_ends(sample, len(knots)))


def share_ends(sample: Floats, count: int) -> tuple[float, float]:
    """Return the last value of the first of equal shares, and the first of the last."""
    shares = np.array_split(np.sort(sample[~np.isnan(sample)]), count)
    return float(shares[0][-1]), float(shares[-1][0])


def quantiles(sample: Floats, weights: Floats | None = None, *, coarse: bool = False) -> Knots:
    """Return the means of equal shares of the values, with normal scores; none of too few."""
    present = np.flatnonzero(~np.isnan(sample))
    if len(present) < FEWEST:
        return ()
    order = present[np.argsort(sample[present], kind="stable")]
    values, count = sample[order], min(KNOTS, len(order) // ROWS_PER_KNOT)
    if weights is None:
        means = share_means(values, count)
    else:
        means = _weighted_means(values, weights[order], count, coarse=coarse)
    return tuple(zip(means, knot_scores(len(means)), strict=True))


HUGE, SHRUNK = 1e290, 2.0**64
"""Larger values are divided by this power of two, which is exact, before they are added up."""


def share_means(ascending: Floats, count: int) -> list[float]:
    """Return the means of so many equal shares of ascending values."""
    parts = np.array_split(ascending, count)
    # the mean of equal values, computed in floating point, may lie beside them
    return [float(np.clip(math.fsum(part) / len(part), part[0], part[-1])) for part in parts]


def _weighted_means(ascending: Floats, weights: Floats, most: int, *, coarse: bool) -> list[float]:
    """Return the means of shares that are equal by weight, at most so many.

    As many as leave ROWS_PER_KNOT rows in each, of which the first and the last may be in part.
    """
    if max(abs(float(ascending[0])), abs(float(ascending[-1]))) > HUGE:  # sums would overflow
        means = _weighted_means(ascending / SHRUNK, weights, most, coarse=coarse)
        return [mean * SHRUNK for mean in means]
    below = np.append(0.0, np.cumsum(weights))
    centre = ascending[len(ascending) // 2]  # far from 0 sums would lose digits
    sums = np.append(0.0, np.cumsum(weights * (ascending - centre)))
    for count in range(most, 1, -1):
        edges = below[-1] * np.arange(count + 1) / count
        first = np.searchsorted(below, edges[:-1], side="right") - 1
        last = np.minimum(np.searchsorted(below, edges[1:]), len(ascending)) - 1
        if count == 2 or (
            (last - first + 1).min() >= ROWS_PER_KNOT and not (coarse and count & (count - 1))
        ):
            break
    upto = np.empty(count + 1)
    _core.fill_interpolated(edges, below, sums, upto)
    means = np.clip(centre + np.diff(upto) / np.diff(edges), ascending[first], ascending[last])
    return [float(mean) for mean in np.maximum.accumulate(means)]


def exponentials(uniforms: Floats) -> Floats:
    """Return -ln of numbers from (0, 1]: weights of a Bayesian bootstrap."""
    out = np.empty_like(uniforms)
    _core.fill_minus_log(np.ascontiguousarray(uniforms), out)
    return out


def knot_scores(count: int) -> list[float]:
    """Return the scores of the knots of a rank scale."""
    # rounded, since the last bit of a logarithm differs from machine to machine
    return [round(NormalDist().inv_cdf((k + 0.5) / count), 12) for k in range(count)]


class Thinned:
    """Some values of each column, evenly spread over a table of unknown length."""

    def __init__(self, columns: int, *, most: int | None = None) -> None:
        self._most = SAMPLE if most is None else most
        self._parts: list[list[Floats]] = [[] for _ in range(columns)]
        self._stride, self._seen = 1, 0

    def add(self, columns: Sequence[Floats]) -> None:
        """Take every stride-th row."""
        first = -self._seen % self._stride
        for parts, column in zip(self._parts, columns, strict=True):
            parts.append(column[first :: self._stride].copy())
        self._seen += len(columns[0])
        while self._seen // self._stride > self._most:
            self._parts = [[self.column(i)[::2]] for i in range(len(self._parts))]
            self._stride *= 2

    def column(self, index: int) -> Floats:
        """Return what was kept of a column."""
        return np.concatenate(self._parts[index])
