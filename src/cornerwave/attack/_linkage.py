"""Who knows a row looks for it in a copy: how often is the row that fits best the right one?

For a known row, with s the score of its own row in the copy and t(s) the probability that another
row of the table has a higher score, n - 1 others leave it the highest with

    P = E (1 - t(s))^(n - 1)        over the noise of its own row

Others are sampled rows with simulated noise, so that t is counted. If the sample is the table,
this is the attack itself. If the table is larger, t is too small to be counted where it matters.
There, since scores are WEIGHED by how common a row is, m, and others are distributed by it,

    t(s) = P_m(score > s) = E[exp(-r) ; score > s]        over the row's own noise, r = log p / m

is measured on the row's own copies, up to a factor that makes it right where ANCHOR others are
above s. Where rows are not distributed as m, the figure was too high in tests, not too low.

Known rows are taken along the order of how much a copy tells about them, the most telling rows more
often, with weights: row j of m has the place n (j/m)^2. So a few unusual rows are not missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack._fit_scores import ADVERSARIES, LIKELIHOOD, WEIGHED, Axes, FitScores
from cornerwave.attack._joint_posterior import KnownCells
from cornerwave.attack._rows_at_risk import RowsAtRisk
from cornerwave.levels import retention
from cornerwave.noise import MISSING
from cornerwave.passes import in_threads
from cornerwave.risks import Linkage

KNOWN, OWN, PAIRS = 128, 128, 1 << 21
"""Rows that somebody knows, copies of each, and pairs of these rows with others, at a level."""
OWN_OF_ALL = 64
"""Copies of each if all rows are there: nothing is extrapolated from them."""
LEAST_KNOWN = 4
"""Rows of a part that are looked for."""
COUNTED, ANCHOR, BLOCKS = 64, 8, 32
"""Others above a row are counted up to the first; the tail begins at the second. The highest are
looked for in blocks of the third."""
LEAST_ROWS = 20
"""Of fewer rows nothing is measured."""
FEW = 10
"""Among so many likeliest rows somebody who knows more may find the right one."""
TENTH = 0.1
HALF = 0.5
"""A row stands out if somebody who knows it is more often right than wrong."""
WITHIN = 1.96
"""Standard errors to both sides of an interval of 95 %."""
TYPICAL = 1.0
"""Rows are ordered by what copies at this noise tell about them."""
ROUNDING = 1e-9
TIES = 1e-4
"""Rows with equal scores are taken in random order."""


def measure_linkage(parts: Sequence[RowsAtRisk], noise: Sequence[float]) -> list[Linkage]:
    """Return how often rows are found in copies at some noise, from sampled rows.

    Rows of several parts are told apart by what is known and shown of them, as blocks of several
    sizes are. Empty for too few rows.
    """
    if sum(each.rows for each in parts) < LEAST_ROWS:
        return []
    looked_for = [_LookedFor.among(each) for each in parts]
    weights = np.concatenate([each.weights * each.rows.share for each in looked_for])

    def found_at(v: float) -> tuple[Floats, Floats]:
        alone, among = zip(*(each.found_at(v) for each in looked_for), strict=True)
        return np.concatenate(alone, axis=1), np.concatenate(among, axis=1)

    with in_threads(found_at, noise, None) as measured:
        return [figures(weights, *each) for each in measured]


def figures(weights: Floats, alone: Floats, among: Floats) -> Linkage:
    """Return the figures of known rows, given their weights (m,) and how often each is found.

    alone, among: (2, m), by each adversary; the better of the two counts.
    """
    means = alone @ weights
    best = WEIGHED if means[WEIGHED] >= means[LIKELIHOOD] else LIKELIHOOD
    chance = alone[best]
    error = WITHIN * _standard_error(weights, chance)
    order = np.argsort(-chance)
    before = np.cumsum(weights[order]) - weights[order]
    in_tenth = np.clip(TENTH - before, 0.0, weights[order])
    mean = float(means[best])
    return Linkage(
        linked=mean,
        low=max(0.0, mean - error),
        high=min(1.0, mean + error),
        worst=float(chance[order] @ in_tenth / in_tenth.sum()),
        standing_out=float(weights[chance > HALF].sum()),
        among_ten=float((among @ weights).max()),
        by_likelihood=float(means[LIKELIHOOD]),
    )


def _standard_error(weights: Floats, chance: Floats) -> float:
    """Return that of a weighted mean over rows in an order in which neighbours are alike."""
    # of neighbours, the difference has twice the variance of one
    steps = np.diff(chance) ** 2 / 2
    each = np.append(steps[:1], (np.append(steps[:1], steps)[1:] + steps) / 2)
    return float(np.sqrt((weights**2 * each).sum()))


@dataclass(frozen=True)
class _LookedFor:
    """Known rows, and the others that copies show beside them."""

    rows: RowsAtRisk
    places: Ints
    weights: Floats

    @classmethod
    def among(cls, rows: RowsAtRisk) -> "_LookedFor":
        """Choose rows to look for, in the order of what copies tell about them."""
        places, weights = chosen(telling(rows), max(LEAST_KNOWN, round(KNOWN * rows.share)))
        return cls(rows, places, weights)

    @cached_property
    def groups(self) -> "list[_Group]":
        """Known rows that show the same without noise and are known in the same numbers."""
        room = max(LEAST_ROWS, PAIRS // len(self.places))
        return [
            _Group.of(self.rows, self.places, members, room)
            for members in alike(self.rows, self.places)
        ]

    def found_at(self, noise: float) -> tuple[Floats, Floats]:
        """Return how often each row is found, alone and among FEW, by each adversary (2, m)."""
        alone, among = np.empty((2, len(ADVERSARIES), len(self.places)))
        for group in self.groups:
            alone[:, group.members], among[:, group.members] = group.found_at(noise)
        return alone, among


def telling(rows: RowsAtRisk) -> Floats:
    """Return by how much a copy at a TYPICAL noise tells rows from others, in expectation."""
    axes = Axes.of(rows.mean, rows.covariance, rows.shape)
    away = axes.along(np.where(np.isnan(rows.known), rows.mean[:, None], rows.known))
    q = retention(TYPICAL)
    # E log p(y | x) / m(y) over y, but for what is the same for every row
    told = 0.5 * (away**2) @ (1 / (axes.spread + TYPICAL))
    for each in rows.cells:
        pi = np.maximum(each.pi, 1e-12)
        told += np.where(each.codes == MISSING, 0.0, -q * np.log(pi[each.codes]))
    shares = np.bincount(rows.shown) / rows.rows
    return np.asarray(told - np.log(shares[rows.shown]))


def alike(rows: RowsAtRisk, places: Ints) -> list[Ints]:
    """Return which of some rows show the same without noise and are known in the same numbers."""
    pattern = np.isnan(rows.known[:, places]).T
    keys = np.column_stack([rows.shown[places], pattern])
    _, which = np.unique(keys, axis=0, return_inverse=True)
    return [np.flatnonzero(which.ravel() == k) for k in range(int(which.max(initial=-1)) + 1)]


def chosen(telling: Floats, most: int) -> tuple[Ints, Floats]:
    """Return the places of rows to look for, the most telling more often, and their weights.

    >>> places, weights = chosen(np.arange(1000.0), 5)
    >>> places.tolist(), weights.round(3).tolist()
    ([979, 899, 739, 499, 179], [0.04, 0.12, 0.2, 0.28, 0.36])
    """
    order, n = np.argsort(-telling, kind="stable"), len(telling)
    edges = n * (np.arange(most + 1) / most) ** 2
    middle = np.minimum(((edges[1:] + edges[:-1]) / 2).astype(np.int64), n - 1)
    # of few rows, several steps are one row
    at, first = np.unique(middle, return_index=True)
    return order[at], np.add.reduceat(np.diff(edges) / n, first)


@dataclass(frozen=True)
class _Group:
    """Known rows, by their `members` among all, and rows that show the same without noise.

    Everything is along axes of the numbers that are known. The own copies of the rows have the
    noise `white` (m, R, d), and the others one of their own.
    """

    members: Ints
    axes: Axes
    cells: tuple[KnownCells, ...]
    known: Floats
    exact: Floats
    codes: list[Ints]
    white: Floats
    own_draws: "list[_Draws]"
    others: Floats
    white_of_others: Floats
    codes_of_others: list[Ints]
    draws_of_others: "list[_Draws]"
    same: Flags
    share: float
    count: int

    @classmethod
    def of(cls, rows: RowsAtRisk, places: Ints, members: Ints, room: int) -> "_Group":
        """Return what is needed to look for some rows, beside at most so many others."""
        rng = np.random.default_rng(0)
        mine = places[members]
        observed = ~np.isnan(rows.known[:, mine[0]])
        axes = Axes.within(rows, observed)
        same = np.flatnonzero(rows.shown == rows.shown[mine[0]])
        # rows are in random order: the first ones are a sample
        pool = same[:room]
        own = OWN if rows.count > rows.rows or len(pool) < len(same) else OWN_OF_ALL
        known = axes.along(rows.known[np.ix_(observed, mine)])
        exact = axes.along(rows.exact[np.ix_(observed, mine)])
        others = axes.along(rows.exact[np.ix_(observed, pool)])
        codes, codes_of_others = rows.codes_of(mine), rows.codes_of(pool)
        return cls(
            members=members,
            axes=axes,
            cells=rows.cells,
            known=known,
            exact=exact,
            codes=codes,
            white=rng.normal(size=(len(mine), own, known.shape[1])),
            own_draws=[_Draws.of(each, (len(mine), own), rng) for each in rows.cells],
            others=others,
            white_of_others=rng.normal(size=others.shape),
            codes_of_others=codes_of_others,
            draws_of_others=[_Draws.of(each, (len(pool),), rng) for each in rows.cells],
            same=mine[:, None] == pool,
            share=(len(same) - 1) / max(rows.rows - 1, 1),
            count=rows.count,
        )

    def found_at(self, noise: float) -> tuple[Floats, Floats]:
        """Return how often each row is found at a noise, alone and among FEW (2, m) each."""
        scores = FitScores.at(noise, self.axes, self.cells)
        q, size, rng = retention(noise), np.sqrt(noise), np.random.default_rng(1)
        copy = self.others + size * self.white_of_others
        cells = zip(self.draws_of_others, self.codes_of_others, strict=True)
        codes = [draws.at(q, codes) for draws, codes in cells]
        own_copy = self.exact[:, None] + size * self.white
        own_cells = zip(self.own_draws, self.codes, strict=True)
        own_codes = [draws.at(q, codes[:, None]) for draws, codes in own_cells]

        pairs = scores.pairs(self.known, self.codes, copy, codes)
        pairs[self.same] = -np.inf
        own = scores.own(self.known, self.codes, own_copy, own_codes)
        own = own + scores.offsets(own_copy, own_codes)
        own += TIES * rng.random(own.shape)
        ratio = own[WEIGHED] + scores.ratio(self.known)[:, None]
        beside = scores.offsets(copy, codes).astype(np.float32)
        beside += TIES * rng.random(beside.shape, dtype=np.float32)
        found, before = [], np.zeros_like(beside[0])
        for a in ADVERSARIES:
            pairs += beside[a] - before  # in place: there are many pairs
            before = beside[a]
            found.append(self._chances(own[a], ratio, _highest(pairs)))
        alone, among = zip(*found, strict=True)
        return np.array(alone), np.array(among)

    def _chances(self, own: Floats, ratio: Floats, top: Floats) -> tuple[Floats, Floats]:
        """Return how often own scores (m, R) are the highest, and among the FEW highest.

        `top` (m, COUNTED) are the highest scores of others, descending.
        """
        order = np.argsort(-own, axis=1)
        own, ratio = (np.take_along_axis(each, order, axis=1) for each in (own, ratio))
        above = (top[:, None, :] > own[:, :, None]).sum(axis=2)
        pool = len(self.others) - int(self.same.any())
        # how many others of the table each other of the pool represents
        times = (self.count - 1) * self.share / max(pool, 1)
        if times < 1 + ROUNDING:
            alone, among = _thinned(min(times, 1.0))
            return alone[above].mean(axis=1), among[above].mean(axis=1)
        expected = times * _tail(above, own, ratio, top, pool)
        alone = np.exp(-expected)
        # of a Poisson variable, in Horner's form: 1 + x (1 + x/2 (1 + ...))
        among = np.ones_like(expected)
        for k in range(FEW - 1, 0, -1):
            among = 1 + expected / k * among
        return alone.mean(axis=1), (alone * among).mean(axis=1)


def _tail(above: Ints, own: Floats, ratio: Floats, top: Floats, pool: int) -> Floats:
    """Return how many of a pool are expected above own scores, descending (m, R)."""
    weight = np.exp(-np.clip(ratio, -700.0, 700.0))
    # E[exp(-r) ; score > s]: half of the one at s itself counts
    beyond = pool * (np.cumsum(weight, axis=1) - weight / 2) / own.shape[1]
    if pool < ANCHOR:
        return np.asarray(np.minimum(beyond, above + 1.0))
    anchor = top[:, ANCHOR - 1, None]
    rare = own > anchor
    at_anchor = pool * (weight * rare).sum(axis=1, keepdims=True) / own.shape[1]
    # if nearly all own copies are above it, they do not show what lies between it and them
    shown = rare.mean(axis=1, keepdims=True) < 1 - 1 / own.shape[1]
    factor = np.where(shown & (at_anchor > 0), ANCHOR / np.maximum(at_anchor, 1e-300), 1.0)
    return np.asarray(np.where(rare, np.minimum(beyond * factor, ANCHOR), above))


def _thinned(share: float) -> tuple[Floats, Floats]:
    """Return how often none, and fewer than FEW, of 0, 1, ... COUNTED are in a share of them."""
    chances = np.zeros((COUNTED + 1, FEW))
    chances[0, 0] = 1.0
    for count in range(COUNTED):
        chances[count + 1] = chances[count] * (1 - share)
        chances[count + 1, 1:] += chances[count, :-1] * share
    return chances[:, 0], chances.sum(axis=1)


def _highest(scores: Any) -> Floats:
    """Return the COUNTED highest scores of each row (m, M), descending; -inf beside few others."""
    rows, columns = scores.shape
    if columns >= BLOCKS * COUNTED:
        # as many are above the COUNTED-th highest of the highest of blocks, and few more
        whole = columns // BLOCKS * BLOCKS
        blocks = scores[:, :whole].reshape(rows, BLOCKS, -1).max(axis=1)
        limit = np.partition(blocks, blocks.shape[1] - COUNTED, axis=1)[:, -COUNTED]
        above = np.flatnonzero(scores >= limit[:, None])
        row = above // columns
        first = np.searchsorted(row, np.arange(rows))
        few = np.full((rows, int(np.bincount(row).max())), -np.inf, dtype=scores.dtype)
        few[row, np.arange(len(row)) - first[row]] = scores.ravel()[above]
        scores = few
    top = -np.sort(-scores, axis=1)[:, :COUNTED]
    return np.pad(top, ((0, 0), (0, COUNTED - top.shape[1])), constant_values=-np.inf)


@dataclass(frozen=True)
class _Draws:
    """One path of refreshes of a category: what copies at any noise show."""

    chance: Floats
    fresh: Ints

    @classmethod
    def of(cls, cells: KnownCells, shape: tuple[int, ...], rng: np.random.Generator) -> "_Draws":
        base = cells.pi if cells.drawn is None else cells.drawn
        bounds = np.cumsum(base / base.sum())
        fresh = np.searchsorted(bounds, rng.random(shape)).clip(max=len(base) - 1)
        return cls(rng.random(shape), fresh)

    def at(self, q: float, codes: Ints) -> Ints:
        """Return the codes of a copy."""
        shown = np.where(self.chance < q, codes, self.fresh)
        return np.where(codes == MISSING, MISSING, shown)
