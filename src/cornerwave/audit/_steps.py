"""What a pass keeps of single rows: steps of the path that are far, short or equal.

Copies in the order of their noise are steps of a path, E_k = D_k - D_(k-1), which are independent
if the noise is honest. The covariance of each step and the scale of X, needed to judge a row as it
passes, come from the first block; at the end they are corrected by those of all rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from operator import add

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack import whitening
from cornerwave.audit._repeats import (
    FULL,
    KEPT_HASHES,
    HashCounts,
    Repeated,
    fill_hashes,
    sizes_of_cells,
)
from cornerwave.audit._sums import Statistics, covariance_of, without_rounding

NEAR_CELLS, FEWEST_NEAR, MOST_NEAR = 1 << 20, 1 << 9, 1 << 15
"""As many rows of each kind are kept as these cells of all steps hold, within these bounds."""

FLAT = 3 << 11
"""All pairs of flat rows are looked at, so at most this many are kept."""

CLIPPED = 3.0
"""X is clipped at this many standard deviations in the check of size: no row dominates."""

DENSE_ROWS, THINNED = 1 << 18, 8
"""The check of size uses this many rows, and of those after them one in THINNED."""

MOSTLY = 0.5
"""Two copies that agree in more than this share of the first block may be the same copy."""


def covariance_of_step(C: Floats, columns: int, order: Sequence[int], k: int) -> Floats:
    """Return the covariance of E_k, (N, N), from that of [X, D_1 .. D_M]."""
    here = slice((1 + order[k]) * columns, (2 + order[k]) * columns)
    if k == 0:
        return C[here, here]
    last = slice((1 + order[k - 1]) * columns, (2 + order[k - 1]) * columns)
    # Cov(D_k - D_(k-1)); the cross terms are transposes of each other
    return np.asarray(C[here, here] + C[last, last] - C[here, last] - C[last, here])


def step_covariance(statistics: Statistics, order: Sequence[int], k: int) -> Floats:
    """Return the covariance of step k of the path, (N, N), without rounding."""
    rounding = (statistics.steps[list(order[max(k - 1, 0) : k + 1])] ** 2 / 12).sum(axis=0)
    covariance = covariance_of_step(statistics.covariance, statistics.columns, order, k)
    return np.asarray(covariance - np.diag(rounding))


@dataclass(frozen=True)
class Expected:
    """What the first block lets one expect of all rows, N columns and M copies.

    `order` is the copies by their noise; `axes` (N, rank) make each step white, `cell` (M, N) are
    the sizes of its cells, `unit` (N,) is the scale of X; `pairs` are copies that may be the same.
    """

    order: tuple[int, ...]
    axes: tuple[Floats, ...]
    cell: Floats
    unit: Floats
    pairs: tuple[tuple[int, int], ...]
    hashes: int = KEPT_HASHES

    @classmethod
    def of(cls, first: list[Floats], steps: Floats) -> "Expected":
        """Take the first block, M+1 times (N, rows), and the steps that copies are rounded to."""
        N, C = len(first[0]), Statistics.of(first).covariance
        variance = np.diag(C).reshape(len(first), N)
        unit = np.sqrt(np.where(variance[0] > 0, variance[0], 1.0))
        by_noise = np.argsort((variance[1:] / unit**2).sum(axis=1), kind="stable")
        order = tuple(by_noise.tolist())
        return cls(
            order=order,
            axes=tuple(whitening(covariance_of_step(C, N, order, k)) for k in range(len(order))),
            cell=sizes_of_cells(first, steps, order),
            unit=unit,
            pairs=tuple(
                (i, j)
                for i, j in combinations(range(len(order)), 2)
                if (first[1 + i] == first[1 + j]).all(axis=0).mean() > MOSTLY
            ),
        )

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The dimensions of each step."""
        return tuple(axes.shape[1] for axes in self.axes)

    @cached_property
    def lens(self) -> Floats:
        """The matrix that turns [D_1 .. D_M] into white steps E_k."""
        M, N = self.cell.shape
        lens = np.zeros((M, N, M, N))
        for k, axes in enumerate(self.axes):
            lens[k, : self.ranks[k], self.order[k]] += axes.T
            if k > 0:
                lens[k, : self.ranks[k], self.order[k - 1]] -= axes.T
        return lens.reshape(M * N, M * N)

    def nothing(self) -> "StepsSeen":
        """Return what no rows show."""
        M, N = self.cell.shape
        room = int(np.clip(NEAR_CELLS // max(N * M, 1), FEWEST_NEAR, MOST_NEAR))
        near = (Nearest(N, room), Nearest(N, room), Nearest(N, min(room, FLAT)))
        return StepsSeen(
            expected=self,
            rows=0,
            reach=np.zeros(M),
            sizes=np.zeros((M + N + 2,) * 2),
            same=np.zeros(len(self.pairs), dtype=np.int64),
            near=(near,) * M,
            still=np.zeros((M, N), dtype=np.int64),
            bare=np.zeros(M, dtype=np.int64),
            sketches=(HashCounts(self.hashes),) * M,
        )


@dataclass(frozen=True)
class StepsSeen:
    """What the steps of some rows show; parts add up.

    `reach` (M,) are the largest squared lengths, `sizes` sums of products of [sizes of steps, X,
    its distance, 1], `same` rows in which pairs of copies agree. Of each step, `near` are rows that
    were kept for its length, `still` (M, N) and `bare` (M,) count cells and rows without noise,
    `sketches` are the hashes of its cells.
    """

    expected: Expected
    rows: int
    reach: Floats
    sizes: Floats
    same: Ints
    near: tuple[tuple["Nearest", ...], ...]
    still: Ints
    bare: Ints
    sketches: tuple[HashCounts, ...]

    def __add__(self, other: "StepsSeen") -> "StepsSeen":
        return StepsSeen(
            expected=self.expected,
            rows=self.rows + other.rows,
            reach=np.maximum(self.reach, other.reach),
            sizes=self.sizes + other.sizes,
            same=self.same + other.same,
            near=tuple(
                tuple(map(add, old, new)) for old, new in zip(self.near, other.near, strict=True)
            ),
            still=self.still + other.still,
            bare=self.bare + other.bare,
            sketches=tuple(map(add, self.sketches, other.sketches)),
        )

    def bounds(self) -> "StepsSeen":
        """Return what no rows show beside these: only what is nearer than they are matters."""
        return replace(
            self.expected.nothing(),
            near=tuple(
                tuple(replace(sketch, distances=(), parts=()) for sketch in step)
                for step in self.near
            ),
            sketches=tuple(replace(sketch, values=(), counts=()) for sketch in self.sketches),
        )

    def of(self, stacked: Floats, start: int) -> "StepsSeen":
        """Return what complete rows (groups, P+1, run), 0 last for padding, show beside these."""
        expected, (groups, _, run) = self.expected, stacked.shape
        M, N = expected.cell.shape
        live = stacked[:, -1] > 0
        white = expected.lens @ stacked[:, N:-1]
        along = np.square(white, out=white).reshape(groups, M, N, run)
        squares = along.sum(axis=2)
        widest = along[:, np.arange(M), [max(rank - 1, 0) for rank in expected.ranks]]
        thinned = slice(None, None, 1 if start < DENSE_ROWS else THINNED)
        still, bare, sketches = self._cells_of(stacked)
        return StepsSeen(
            expected=expected,
            rows=int(np.count_nonzero(live)),
            reach=squares.max(axis=(0, 2), initial=0.0),
            sizes=self._sizes_of(stacked[thinned], squares[thinned]),
            same=np.array([self._agree(stacked, *pair) for pair in expected.pairs], dtype=np.int64),
            near=self._near_of(stacked, squares, widest, live),
            still=still,
            bare=bare,
            sketches=sketches,
        )

    def _agree(self, stacked: Floats, i: int, j: int) -> int:
        """Return in how many rows two copies are the same."""
        N = self.expected.cell.shape[1]
        one, other = (stacked[:, (1 + c) * N : (2 + c) * N] for c in (i, j))
        return int(((one == other).all(axis=1) & (stacked[:, -1] > 0)).sum())

    def _sizes_of(self, stacked: Floats, squares: Floats) -> Floats:
        M, N = self.expected.cell.shape
        live = stacked[:, -1].ravel() > 0
        X = stacked[:, :N].transpose(1, 0, 2).reshape(N, -1)
        X = np.clip(X / self.expected.unit[:, None], -CLIPPED, CLIPPED)
        away = np.sqrt((X**2).sum(axis=0))
        # The cube root of a chi-square is close to normal (Wilson and Hilferty).
        size = np.cbrt(squares.transpose(1, 0, 2).reshape(M, -1))
        rows = np.vstack([size, X, away, np.ones_like(away)])
        rows = rows if live.all() else rows[:, live]
        return np.asarray(rows @ rows.T)

    # Rows that a leak in some of them brings together, kept out of all rows. A step is whitened by
    # the covariance of the first block, which only chooses rows. Kept are
    #
    #     smallest   the rows of the shortest steps: those that got less noise than others
    #     middle     the rows whose length is nearest to the median: rows of one length are kept
    #                together, or not at all
    #     flat       the rows closest to a plane a'E = 0: with E_i and E_j it holds E_i +- E_j
    #
    # as they are, so that checks whiten them by what all rows show in the end.

    def _near_of(
        self, stacked: Floats, squares: Floats, widest: Floats, live: Flags
    ) -> tuple[tuple["Nearest", ...], ...]:
        near, N = [], self.expected.cell.shape[1]
        before = 0  # where the copy before begins; 0 for none
        for k, i in enumerate(self.expected.order):
            here, rank = (1 + i) * N, self.expected.ranks[k]
            median = rank * (1 - 2 / (9 * max(rank, 1))) ** 3  # Wilson and Hilferty
            distances = (squares[:, k], np.abs(squares[:, k] - median), widest[:, k])
            pairs = zip(self.near[k], distances, strict=True)
            near.append(tuple(kind.of(stacked, (here, before), d, live) for kind, d in pairs))
            before = here
        return tuple(near)

    def _cells_of(self, stacked: Floats) -> tuple[Ints, Ints, tuple[HashCounts, ...]]:
        """Return how many cells and rows have no noise, and the hashes of the others, by step."""
        M, N = self.expected.cell.shape
        still, bare = np.zeros((M, N), dtype=np.int64), np.zeros(M, dtype=np.int64)
        hashes = np.empty(stacked.shape[0] * stacked.shape[2], dtype=np.uint64)
        sketches, before = [], 0  # where the copy before begins; X for none, which counts as 0
        for k, i in enumerate(self.expected.order):
            here, known = (1 + i) * N, self.sketches[k]
            bare[k], kept = fill_hashes(
                stacked, (here, before), self.expected.cell[k], known.last, still[k], hashes
            )
            sketches.append(known.of(hashes[:kept].copy()))
            before = here
        return still, bare, tuple(sketches)

    def watched(self, statistics: Statistics) -> "Watched":
        """Return what all rows show, corrected by their statistics."""
        expected = self.expected
        M, N = expected.cell.shape
        # The first block whitened the steps; they may since have grown along some axis.
        steps = [covariance_of_step(statistics.covariance, N, expected.order, k) for k in range(M)]
        grown = [
            np.linalg.eigvalsh(axes.T @ step @ axes).max(initial=1.0)
            for axes, step in zip(expected.axes, steps, strict=True)
        ]
        squares = np.diag(self.sizes)[:-1] / max(float(self.sizes[-1, -1]), 1.0)
        covariance = without_rounding(covariance_of(self.sizes), squares)
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        kinds = [[near[kind].vectors for near in self.near] for kind in range(3)]
        return Watched(
            order=expected.order,
            reach=self.reach / np.array(grown),
            rank=expected.ranks,
            sizes=(covariance / np.outer(spread, spread))[:M, M:],
            size_rows=round(float(self.sizes[-1, -1])),
            same=dict(zip(expected.pairs, self.same.tolist(), strict=True)),
            near=NearRows(self.rows, *kinds),
        )

    def repeated(self) -> Repeated:
        """Return what came twice in all rows, or not at all."""
        sketches = [sketch.thinned() for sketch in self.sketches]
        return Repeated(
            order=self.expected.order,
            rows=self.rows,
            cell=self.expected.cell,
            still=self.still,
            bare=self.bare,
            pairs=np.array([sketch.pairs for sketch in sketches]),
            part=np.array([sketch.bound / FULL for sketch in sketches]),
        )


@dataclass(frozen=True)
class Nearest:
    """Vectors (N, m) of least distance, at most so many as there is room for; parts add up."""

    columns: int
    room: int
    bound: float = math.inf
    distances: tuple[Floats, ...] = ()
    parts: tuple[Floats, ...] = field(default=(), repr=False)

    def of(
        self, stacked: Floats, places: tuple[int, int], distance: Floats, live: Flags
    ) -> "Nearest":
        """Return rows that are not too far to be among these; `places` is where a step's noise
        begins, and that before it, if not 0.
        """
        group, row = np.nonzero((distance <= self.bound) & live)
        columns, (here, before) = np.arange(self.columns)[:, None], places
        vectors = stacked[group, here + columns, row]
        if before:
            vectors -= stacked[group, before + columns, row]
        some = (distance[group, row],), (vectors,)
        return Nearest(self.columns, self.room, self.bound, *(some if len(row) else ((), ())))

    def __add__(self, other: "Nearest") -> "Nearest":
        every = replace(
            self,
            bound=min(self.bound, other.bound),
            distances=self.distances + other.distances,
            parts=self.parts + other.parts,
        )
        return every._thinned() if sum(map(len, every.distances)) > 2 * self.room else every

    def _thinned(self) -> "Nearest":
        distances, vectors = np.concatenate([[], *self.distances]), self._joined
        if len(distances) <= self.room:
            return self
        kept = np.argpartition(distances, self.room - 1)[: self.room]
        bound = float(distances[kept].max())
        return replace(self, bound=bound, distances=(distances[kept],), parts=(vectors[:, kept],))

    @property
    def _joined(self) -> Floats:
        return np.hstack([np.empty((self.columns, 0)), *self.parts])

    @property
    def vectors(self) -> Floats:
        """The nearest of all, (N, m)."""
        return self._thinned()._joined


@dataclass(frozen=True)
class Watched:
    """What the rows showed; `order` is the copies by noise, entry k of the others is step k.

    `reach`: the largest squared distance of a step, in units of its own covariance
    (`rank` dimensions); `sizes` (M, N+1): correlation of a step's size with each column
    of X and with the distance of X from its mean, over `size_rows` rows; `same`: rows
    in which two copies agree; `near`: rows that were kept for the length of their steps.
    """

    order: tuple[int, ...]
    reach: Floats
    rank: tuple[int, ...]
    sizes: Floats
    size_rows: int
    same: dict[tuple[int, int], int]
    near: "NearRows"


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
