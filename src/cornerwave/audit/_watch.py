"""What single rows and values show: far and equal rows, noise that follows X, grids.

**Rows.** Copies in the order of their noise are steps of a path, E_k = D_k - D_(k-1),
which are independent if the noise is ours. The covariance of each step and the scale of
X, needed to judge a row as it passes, come from the first block; at the end they are
corrected by those of all rows.

**Grids.** A copy rounded after the noise is Y + R with R uniform over one step and nearly
uncorrelated with Y: its variance grows by step^2 / 12 (Sheppard). That is subtracted
before the noise is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.attack import whitening
from cornerwave.audit._sums import Statistics, covariance_of, without_rounding

# --------------------------------------------------------------------------------------------------
# Rows that a leak in some of them brings together, kept out of all rows in one pass.
#
# A step of the path E_k is whitened by the covariance of the first block, which is nearly right:
# enough to choose rows by, wherever they stand. Of each step are kept
#
#     smallest   the rows of the shortest steps: those that got less noise than others
#     middle     the rows whose length is nearest to the median: rows of one length are kept
#                together, or not at all
#     flat       the rows closest to a plane a'E = 0: with E_i and E_j it holds E_i +- E_j
#
# as they are, so that checks whiten them by what all rows say in the end.


CELLS, FEWEST, MOST = 1 << 20, 1 << 9, 1 << 15
"""As many rows of each kind are kept as these cells of all steps hold, within these bounds."""

FLAT = 3 << 11
"""All pairs of flat rows are looked at, so at most this many are kept."""


@dataclass(frozen=True)
class NearRows:
    """Steps (N, m) of the rows that were kept of all `rows`, for each step of the path."""

    rows: int
    smallest: Sequence[Floats]
    middle: Sequence[Floats]
    flat: Sequence[Floats]

    def of_columns(self, columns: list[int]) -> "NearRows":
        """Return the same for some columns, by their indices."""
        kinds = (self.smallest, self.middle, self.flat)
        return NearRows(self.rows, *([E[columns] for E in kind] for kind in kinds))


class NearRowKeeper:
    """Takes stacked rows with their white steps (`add`), then gives those that are `near`."""

    def __init__(self, *, columns: int, order: Sequence[int], ranks: Sequence[int]) -> None:
        room = int(np.clip(CELLS // max(columns * len(order), 1), FEWEST, MOST))
        self._columns, self._order, self._rows = columns, order, 0
        # Wilson and Hilferty's median of a chi-square
        self._medians = [rank * (1 - 2 / (9 * max(rank, 1))) ** 3 for rank in ranks]
        rooms = (room, room, min(room, FLAT))
        self._kept = [[_Nearest(columns, each) for each in rooms] for _ in order]

    def add(self, stacked: Floats, squares: Floats, widest: Floats) -> None:
        """Take complete rows (groups, P+1, run), 0 last for padding.

        `squares` (groups, M, run) are their squared lengths, `widest` those along the widest axis.
        """
        live = stacked[:, -1] > 0
        self._rows += int(np.count_nonzero(live))
        before = 0  # where the copy before begins; 0 for none
        for k, (i, kept) in enumerate(zip(self._order, self._kept, strict=True)):
            here, length = (1 + i) * self._columns, squares[:, k]
            near = (length, np.abs(length - self._medians[k]), widest[:, k])
            for own, distance in zip(kept, near, strict=True):
                own.add(stacked, here, before, distance, live)
            before = here

    def near(self) -> NearRows:
        """Return what was kept."""
        kinds = [[step[kind].vectors for step in self._kept] for kind in range(3)]
        return NearRows(self._rows, *kinds)


class _Nearest:
    """The vectors of least distance, at most so many as there is room for."""

    def __init__(self, columns: int, room: int) -> None:
        self._columns, self._room, self._bound, self._waiting = columns, room, np.inf, 0
        self._distances, self._vectors = [np.empty(0)], [np.empty((columns, 0))]

    def add(self, stacked: Floats, here: int, before: int, distance: Floats, live: Flags) -> None:
        group, row = np.nonzero((distance <= self._bound) & live)
        if not len(row):
            return
        columns = np.arange(self._columns)[:, None]
        vectors = stacked[group, here + columns, row]
        if before:
            vectors -= stacked[group, before + columns, row]
        self._distances.append(distance[group, row])
        self._vectors.append(vectors)
        self._waiting += len(row)
        if self._waiting > self._room:
            self._thin()

    def _thin(self) -> None:
        distances, vectors = np.concatenate(self._distances), np.hstack(self._vectors)
        if len(distances) > self._room:
            kept = np.argpartition(distances, self._room - 1)[: self._room]
            distances, vectors = distances[kept], vectors[:, kept]
            self._bound = float(distances.max())
        self._distances, self._vectors, self._waiting = [distances], [vectors], 0

    @property
    def vectors(self) -> Floats:
        self._thin()
        return self._vectors[0]


CLIPPED = 3.0
"""X is clipped at this many standard deviations in the check of size: no row dominates."""

DENSE_ROWS, THINNED = 1 << 18, 8
"""The check of size uses this many rows, and of those after them one in THINNED."""

SAMPLE_ROWS = 4096
MOSTLY = 0.5

FINEST = 2.0**-16
"""Steps below this share of the standard deviation are the fine grid of every copy."""

COARSEST = 8.0
"""The coarsest step that is looked for, in standard deviations."""

OFF_GRID = 1e-3
"""How far from a multiple a value may lie, in steps: decimals are not exact in binary."""

TRIAL = 64


@dataclass(frozen=True)
class Watched:
    """What the rows showed; `order` is the copies by noise, entry k of the others is step k.

    `reach`: the largest squared distance of a step, in units of its own covariance
    (`rank` dimensions); `sizes` (M, N+1): correlation of a step's size with each column
    of X and with the distance of X from its mean, over `size_rows` rows; `same`: rows
    in which two copies agree; `sample` (P, n): some rows of [X, D_1 .. D_M]; `near`: rows
    that were kept for the length of their steps.
    """

    order: tuple[int, ...]
    reach: Floats
    rank: tuple[int, ...]
    sizes: Floats
    size_rows: int
    same: dict[tuple[int, int], int]
    sample: Floats
    near: NearRows


class Watch:
    """Looks at every row; the first block says what to expect."""

    def __init__(self, first: list[Floats]) -> None:
        self._N, self._M = len(first[0]), len(first) - 1
        columns = self._N
        found = Statistics.of(first)
        covariance = found.covariance
        variance = np.diag(covariance).reshape(1 + self._M, columns)
        self._unit = np.sqrt(np.where(variance[0] > 0, variance[0], 1.0))
        self._order = tuple(np.argsort((variance[1:] / self._unit**2).sum(axis=1), kind="stable"))
        self._axes = [whitening(self._step(covariance, k)) for k in range(self._M)]
        self._lens = self._make_lens()
        self._reach = np.zeros(self._M)
        self._sizes = np.zeros((self._M + columns + 2,) * 2)
        self._same = dict.fromkeys(_alike(first), 0)
        self._seen = self._kept = 0
        self._every_group = self._every_row = 1
        self._sample = [np.empty((columns * (1 + self._M), 0))]
        ranks = [axes.shape[1] for axes in self._axes]
        self._near = NearRowKeeper(columns=columns, order=self.order, ranks=ranks)

    @property
    def order(self) -> tuple[int, ...]:
        """The copies by their noise in the first block."""
        return tuple(int(i) for i in self._order)

    def add(self, stacked: Floats) -> None:
        """Take complete rows, (groups, P+1, run) with 0 last for padding."""
        white = self._lens @ stacked[:, self._N : -1]
        np.square(white, out=white)
        groups, _, run = stacked.shape
        along = white.reshape(groups, self._M, self._N, run)
        squares = along.sum(axis=2)
        widest = [max(axes.shape[1] - 1, 0) for axes in self._axes]
        self._near.add(stacked, squares, along[:, np.arange(self._M), widest])
        np.maximum(self._reach, squares.max(axis=(0, 2), initial=0.0), out=self._reach)
        thinned = 1 if self._seen < DENSE_ROWS else THINNED
        self._add_sizes(stacked[::thinned], squares[::thinned])
        for i, j in self._same:
            equal = (self._noise(stacked, i) == self._noise(stacked, j)).all(axis=1)
            self._same[i, j] += int((equal & (stacked[:, -1] > 0)).sum())
        self._add_sample(stacked)
        self._seen += groups * run

    def watched(self, found: Statistics) -> Watched:
        """Return what was seen, corrected by the final statistics."""
        # The first block whitened the steps; they may since have grown along some axis.
        grown = [
            np.linalg.eigvalsh(axes.T @ self._step(found.covariance, k) @ axes).max(initial=1.0)
            for k, axes in enumerate(self._axes)
        ]
        squares = np.diag(self._sizes)[:-1] / max(float(self._sizes[-1, -1]), 1.0)
        covariance = without_rounding(covariance_of(self._sizes), squares)
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        correlation = covariance / np.outer(spread, spread)
        return Watched(
            order=self.order,
            reach=self._reach / np.array(grown),
            rank=tuple(axes.shape[1] for axes in self._axes),
            sizes=correlation[: self._M, self._M :],
            size_rows=round(float(self._sizes[-1, -1])),
            same=self._same,
            sample=np.hstack(self._sample),
            near=self._near.near(),
        )

    def _noise(self, stacked: Floats, i: int) -> Floats:
        return stacked[:, (1 + i) * self._N : (2 + i) * self._N]

    def _step(self, covariance: Floats, k: int) -> Floats:
        """Return the covariance of step k, (N, N)."""
        N = self._N
        here = slice((1 + self._order[k]) * N, (2 + self._order[k]) * N)
        if k == 0:
            return covariance[here, here]
        last = slice((1 + self._order[k - 1]) * N, (2 + self._order[k - 1]) * N)
        cross = covariance[here, last]
        return np.asarray(covariance[here, here] + covariance[last, last] - cross - cross.T)

    def _make_lens(self) -> Floats:
        """Return the matrix that turns [D_1 .. D_M] into white steps E_k."""
        N = self._N
        lens = np.zeros((self._M, N, self._M, N))
        for k, axes in enumerate(self._axes):
            lens[k, : axes.shape[1], self._order[k]] += axes.T
            if k > 0:
                lens[k, : axes.shape[1], self._order[k - 1]] -= axes.T
        return lens.reshape(self._M * N, self._M * N)

    def _add_sizes(self, stacked: Floats, squares: Floats) -> None:
        live = stacked[:, -1].ravel() > 0
        X = stacked[:, : self._N].transpose(1, 0, 2).reshape(self._N, -1)
        X = np.clip(X / self._unit[:, None], -CLIPPED, CLIPPED)
        away = np.sqrt((X**2).sum(axis=0))
        # The cube root of a chi-square is close to normal (Wilson and Hilferty).
        size = np.cbrt(squares.transpose(1, 0, 2).reshape(self._M, -1))
        rows = np.vstack([size, X, away, np.ones_like(away)])
        rows = rows if live.all() else rows[:, live]
        self._sizes += rows @ rows.T

    def _add_sample(self, stacked: Floats) -> None:
        """Keep rows at even distances, and half of them whenever there are too many."""
        rows = stacked[:: self._every_group, :, :: self._every_row]
        rows = rows.transpose(1, 0, 2).reshape(stacked.shape[1], -1)
        self._sample.append(rows[:-1, rows[-1] > 0])
        self._kept += self._sample[-1].shape[1]
        if self._kept > 4 * SAMPLE_ROWS:
            kept = np.hstack(self._sample)[:, ::2].copy()
            self._sample, self._kept = [kept], kept.shape[1]
            if 2 * self._every_group <= len(stacked):
                self._every_group *= 2
            else:
                self._every_row *= 2


def _alike(first: list[Floats]) -> list[tuple[int, int]]:
    """Return the pairs of copies that agree in most rows of the first block."""
    pairs = combinations(range(len(first) - 1), 2)
    return [(i, j) for i, j in pairs if (first[1 + i] == first[1 + j]).all(axis=0).mean() > MOSTLY]


def step_of(values: Any, finest: float = FINEST) -> float:
    """Return the coarsest step that all values are multiples of; 0 if there is none.

    Steps are 1, 2 and 5 times powers of ten, and powers of two, above the `finest` share of the
    deviation.

    >>> step_of(np.array([3.0, -7.0, 12.0, 5.0])), step_of(np.array([0.25, 1.5, 3.75]))
    (1.0, 0.25)
    >>> step_of(np.random.default_rng(1).normal(size=100))
    0.0
    """
    values = values[~np.isnan(values)]
    spread = float(values.std()) if len(values) else 0.0
    if spread == 0.0:
        return 0.0
    for step in _candidates(spread, finest):
        if _on_grid(values[:TRIAL], step) and _on_grid(values, step):
            return step
    return 0.0


def steps_of(copies: list[Floats], finest: float = FINEST) -> Floats:
    """Return the step of each column (M, N) of each copy (N, rows)."""
    return np.array([[step_of(column, finest) for column in copy] for copy in copies])


def steps_still(steps: Floats, copies: list[Floats]) -> Floats:
    """Return the steps that later rows agree with; a finer one, or 0, if they do not."""
    kept = steps.copy()
    for i, n in np.argwhere(steps > 0):
        column = copies[i][n]
        column = column[~np.isnan(column)]
        if not _on_grid(column, steps[i, n]):
            finer = step_of(column)
            kept[i, n] = finer if finer < steps[i, n] else 0.0
    return kept


def _candidates(spread: float, finest: float) -> list[float]:
    low, high = finest * spread, COARSEST * spread
    tens = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    twos = range(int(np.floor(np.log2(low))), int(np.ceil(np.log2(high))) + 1)
    steps = {float(f"{lead}e{power}") for power in tens for lead in (1, 2, 5)}
    steps |= {2.0**power for power in twos}
    return sorted((step for step in steps if low < step <= high), reverse=True)


def _on_grid(values: Floats, step: float) -> bool:
    multiples = values / step
    return bool((np.abs(multiples - np.rint(multiples)) < OFF_GRID).all())
