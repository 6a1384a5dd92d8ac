"""A column that was perturbed on ranks: what the original was, from the copy alone.

The copy shows Y = Q(S) with S = T + W: T is the normal score of a row's rank, W ~ N(0, v k) the
noise with k = Var T, and Q the original's quantile function by scores, which only the owner has.
But how often scores occur is known before any row is seen, so the copy reveals Q itself:

    P(X <= y) = C(P(Y <= y)),      C(p) = F_T(f F_S^-1(p))

with f = 1, or the factor by which scores were drawn together, Y = Q(f S).

The mean of X is that of Y with rows weighted by C' at their rank: a sum over the sorted copy, with
the influence of a row h(y) = -integral (1{y <= u} - F_Y(u)) C'(F_Y(u)) du. T is fixed by the table,
so given Q the mean has the variance E[Var(h | T)] / n. Q is that of the table but for a standard
error (columns/_scale), so that scores do not occur quite as often as they should: where the noise
leaves g = E[h | T] of X, that adds Var(X - g) / n, n at most the rows that Q is taken from. A
population adds Var(X) / n.

F_T puts the outermost share of the rows at each end on one score, e. Beyond e the function Q hardly
rises, so that this share may be spread over scores beyond e, and C has a slope everywhere.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, normal_shares
from cornerwave.columns import SAMPLE, Scale, Thinned, knot_scores
from cornerwave.errors import ColumnError
from cornerwave.miner._distribution import Distribution
from cornerwave.miner._estimates import Estimate, Of, number_blocks
from cornerwave.miner._metadata import RANK, CopyColumn
from cornerwave.sources import Source

SORTED_PARTS = 1024
"""The sorted copy is summed up in so many parts."""

FEWEST = 100
"""With fewer rows the distribution of a copy is not known well enough to undo it."""


@dataclass(frozen=True)
class RankScores:
    """How often scores occur: P(T <= t) by lines through `at` and `below`, and S = T + noise."""

    at: Floats
    below: Floats
    deviation: float
    unsure: float = 0.0
    """The variance of a mean because it is not known which values some shares have."""
    factor: float = 1.0
    """By what scores with noise were drawn together."""

    @classmethod
    def of(cls, column: CopyColumn) -> "RankScores":
        """Return the distributions of T and S, as the copy's column states them."""
        count = column.scores
        scores = np.array(knot_scores(count))
        ranks = (np.arange(count) + 0.5) / count
        # the outermost shares lie on the outermost scores: spread beyond them; the rows next to
        # them reach a part of the way there
        first, last = float(scores[0]), float(scores[-1])
        (low, edge), share = np.diff(scores)[[0, -1]], 1 / count
        near = _reach(np.array(column.knots)) if len(column.knots) == count else np.ones(2)
        inner = [scores[1] - near[0] * low, *scores[1:-1], scores[-2] + near[1] * edge]
        at = np.array([first - edge, first, *inner, last, last + edge])
        below = np.array([0.0, share, share, *ranks[1:-1], 1 - share, 1 - share, 1.0])
        at, below = _without_mixed(at, below, np.array(column.knots), count)
        middle = np.array([first, *((at[1:-2] + at[2:-1]) / 2), last])
        # k = Var T, with what gaps add to the shape of the noise
        k = float(np.diff(below) @ middle**2) + column.excess.get(column.name, 0.0)
        deviation = math.sqrt(column.noise * max(k, 0.0))
        unsure = _unsure(np.array(column.knots), count)
        factor = 1.0 if column.spread is None else column.spread.factor
        return cls(at, below, deviation, unsure, factor)

    def kernel(self, ends: Floats) -> Floats:
        """Return P(S <= end | T in a part) (ends, parts), for the parts between `at`."""
        middle = (self.at[:-1] + self.at[1:]) / 2
        middle[[0, -1]] = self.at[[1, -2]]
        if not self.deviation:
            return np.asarray(ends[:, None] >= middle, dtype=np.float64)
        return normal_shares((ends[:, None] - middle) / self.deviation)

    def scores(self, p: Floats) -> Floats:
        """Return F_S^-1(p)."""
        # F_S on a fine grid, beyond which a normal deviate is not seen, turned round
        reach = self.at[-1] + 8 * self.deviation
        s = np.linspace(-reach, reach, 2 * SORTED_PARTS)
        return np.asarray(np.interp(p, self.kernel(s) @ np.diff(self.below), s))

    def undone(self, scores: Floats) -> Floats:
        """Return the share of rows X below what the copy shows for scores S: F_T(f S)."""
        return np.asarray(np.interp(self.factor * scores, self.at, self.below))


def _reach(knots: Floats) -> Floats:
    """Return how far towards the first and the last knot the rows of the shares beside them reach.

    Half a share further on, if the distances of knots go on to grow or shrink as they do before.
    """
    reach = []
    for gaps in (np.diff(knots)[::-1], np.diff(knots)):
        before, last, beyond = (0.0, 0.0, *gaps)[-3:]
        growth = (last / before) ** 0.75 if before > 0 else 1.0
        reach.append(min(last * growth / 2 / beyond, 1.0) if beyond > 0 and last > 0 else 1.0)
    return np.array(reach)


def _without_mixed(at: Floats, below: Floats, knots: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the distribution of scores without those that only knots have.

    Between two values that whole shares have, a and b, a share has rows of both, and its knot is
    their mean m. No row is there: the share (b - m) / (b - a) of it is at the scores of a, spread
    over them as the others are, and the rest at those of b.
    """
    if len(knots) != count or count < 5:
        return at, below
    # lines through the middles between knots too: shares end there
    points = np.insert(at, np.arange(4, len(at) - 3), (at[3:-4] + at[4:-3]) / 2)
    mass = np.diff(np.interp(points, at, below))
    begins, counts = _level_stretches(knots)
    # the parts of share j are the two beside its knot, which is at 2 j + 1
    parts = [2 * j + np.arange(2) for j in range(count)]
    for i in range(len(begins) - 2):
        j = begins[i + 1]
        if counts[i] > 1 and counts[i + 1] == 1 and counts[i + 2] > 1:
            a, m, b = knots[begins[i]], knots[j], knots[begins[i + 2]]
            moved = mass[parts[j]].sum()
            mass[parts[j]] = 0.0
            for place, share in ((i, (b - m) / (b - a)), (i + 2, (m - a) / (b - a))):
                own_part = np.concatenate(parts[begins[place] : begins[place] + counts[place]])
                mass[own_part] += share * moved * mass[own_part] / mass[own_part].sum()
    return points, np.append(0.0, np.cumsum(mass))


def _unsure(knots: Floats, count: int) -> float:
    """Return the variance of a mean that shares beside a value of whole shares cause.

    If only one of the neighbours of a knot is such a value, its rows may be anywhere from one
    neighbour to the other: evenly distributed, the share of 1 / count is off by a twelfth of that.
    """
    if len(knots) != count:
        return 0.0
    begins, counts = _level_stretches(knots)
    values = knots[begins]
    beside = [
        float(values[i + 1] - values[i - 1])
        for i in range(1, len(values) - 1)
        if counts[i] == 1 and (counts[i - 1] > 1) != (counts[i + 1] > 1)
    ]
    return sum((each / count) ** 2 for each in beside) / 12


def _level_stretches(knots: Floats) -> tuple[list[int], list[int]]:
    """Return where values of knots begin, and how many knots have each."""
    _, begins, counts = np.unique(knots, return_index=True, return_counts=True)
    return begins.tolist(), counts.tolist()


@dataclass(frozen=True)
class SortedCopy:
    """A copy's column in order, in parts: how many rows each has, and their mean."""

    edges: Floats
    count: Floats
    mean: Floats

    @classmethod
    def of(cls, read: Callable[[], Iterable[Floats]], name: str) -> "SortedCopy":
        """Sum up blocks (rows, 1), read twice; NaN is missing."""
        some = Thinned(1)
        for block in read():
            some.add([block[:, 0]])
        values = some.column(0)
        values = values[~np.isnan(values)]
        if len(values) < FEWEST:
            raise ColumnError(f"{name!r}: at least {FEWEST} rows must have a value")
        edges = np.unique(np.quantile(values, np.linspace(0, 1, SORTED_PARTS + 1)))
        count, total = np.zeros(len(edges)), np.zeros(len(edges))
        for block in read():
            present = block[~np.isnan(block)]
            place = np.searchsorted(edges, present).clip(max=len(edges) - 1)
            count += np.bincount(place, minlength=len(edges))
            total += np.bincount(place, weights=present, minlength=len(edges))
        seen = count > 0
        return cls(edges[seen], count[seen], total[seen] / count[seen])

    @property
    def below(self) -> Floats:
        """The share of rows up to the end of each part."""
        return np.asarray(np.cumsum(self.count) / self.count.sum())


def original_mean(copy: SortedCopy, ranks: RankScores, of: Of) -> Estimate:
    """Return the mean of the original column."""
    # rows are weighted by C' at their rank: C(p) = F_T(F_S^-1(p)), in differences
    rows, scores = copy.count.sum(), ranks.scores(copy.below)
    weight = np.diff(ranks.undone(scores), prepend=0.0)
    mean = float(copy.mean @ weight)
    spread = float(((copy.mean - mean) ** 2) @ weight)
    noise, unlike = _variances(copy, ranks, weight, scores)
    knots, sampled = unlike / min(rows, SAMPLE), 0.0 if of == "table" else spread / rows
    return Estimate(mean, math.sqrt(max(noise / rows + knots + sampled + ranks.unsure, 0.0)))


def _variances(
    copy: SortedCopy, ranks: RankScores, weight: Floats, scores: Floats
) -> tuple[float, float]:
    """Return E[Var(h | T)] and Var(X - E[h | T]), with h and T in parts."""
    share = np.diff(copy.below, prepend=0.0)
    # h falls by C' times the distance to the next value: between parts C' is that of both
    slope = weight / share
    between = (slope[1:] + slope[:-1]) / 2
    h = np.concatenate([[0.0], np.cumsum(between * np.diff(copy.mean))])
    # P(a part of S | a part of T), by which h and h^2 are averaged given T
    parts = np.diff(ranks.kernel(scores[:-1]), axis=0, prepend=0.0, append=1.0)
    first, second, often = h @ parts, (h**2) @ parts, np.diff(ranks.below)
    middle = (ranks.below[:-1] + ranks.below[1:]) / 2
    lost = np.interp(middle, np.cumsum(weight) - weight / 2, copy.mean) - first
    return float((second - first**2) @ often), float((lost - lost @ often) ** 2 @ often)


def distribution_of_sum(source: Source, column: CopyColumn, cells: int) -> Distribution:
    """Return the distribution of a column that is the sum of others on ranks.

    Drawn together, the scores of its parts have the table's own distribution if these are jointly
    normal, and so has the sum of what they show.
    """
    back = [_drawn_together(part) for part in column.parts]

    def read() -> Iterator[Floats]:
        for block in number_blocks(source, column.parts):
            yield np.sum([f(row) for f, row in zip(back, block.T, strict=True)], axis=0)[:, None]

    copy = SortedCopy.of(read, column.name)
    return _in_cells(copy, np.concatenate([[0.0], copy.below]), cells)


def _drawn_together(part: CopyColumn) -> Callable[[Floats], Floats]:
    """Return what takes a part on ranks to what it would be in a copy that varies as the table."""
    if part.spread is not None or not part.noise or len(part.knots) != part.scores:
        return lambda values: values
    scale = Scale(RANK, tuple(zip(part.knots, knot_scores(part.scores), strict=True)))
    more = part.excess.get(part.source, 0.0)  # of scores, whose variance is about 1
    factor = 1 / math.sqrt(1 + part.noise * (1 + more))
    return lambda values: scale.backward(factor * scale.undone(values))


def distribution_of(copy: SortedCopy, ranks: RankScores, cells: int) -> Distribution:
    """Return the distribution of the original column, in cells of about equal probability."""
    return _in_cells(copy, np.concatenate([[0.0], ranks.undone(ranks.scores(copy.below))]), cells)


def _in_cells(copy: SortedCopy, below: Floats, cells: int) -> Distribution:
    """Return a distribution with the shares `below` the edges of a copy's parts."""
    edges = np.concatenate([copy.mean[:1], copy.edges])
    chosen = np.unique(
        np.searchsorted(below, np.linspace(0, 1, cells + 1)).clip(max=len(edges) - 1)
    )
    none = np.empty(0)
    return Distribution(
        edges[chosen],
        np.diff(below[chosen]),
        none,
        none,
        np.empty((0, 2)),
        converged=True,
        shortfall=0.0,
    )
