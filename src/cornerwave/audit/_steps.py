"""What a pass keeps of single rows: far and equal ones, noise that follows X or came twice.

Copies in the order of their noise are steps of a path, E_k = D_k - D_(k-1), which are independent
if the noise is honest. The covariance of each step and the scale of X, needed to judge a row as it
passes, come from the first block; at the end they are corrected by those of all rows.

Steps are also rounded to cells of size q per column, to find noise that came twice. Two rows of
honest noise of covariance C fall into the same cell, by Cauchy and Schwarz, with a probability of
at most  q_1 .. q_r / ((4 pi)^(r/2) sqrt(det C)),  and one row into the cell of 0 with at most
q_1 .. q_r / ((2 pi)^(r/2) sqrt(det C)),  for any r of the columns. Cells are identified by a hash.
The smallest hashes are kept with their counts: equal rows are kept together or not at all, wherever
they are in the table. A vector and its negative, which average out, share a hash.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack import whitening
from cornerwave.audit._sums import Statistics, covariance_of, steps_of, without_rounding
from cornerwave.keyed import strict

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


KEPT = 1 << 16
"""Hashes that are kept of each step."""

BITS_ALONE, BITS = 21, 16
"""A cell is 2^-bits of the noise: finer for a single column, where more rows meet by chance."""

FINE = 2.0**-26
"""Steps of rounding down to this share of a copy's deviation are looked for: whole numbers meet
more often than noise does in cells that hold now one of them and now two."""

PRECISION = 2.0**-45
"""Cells are no finer than this share of the largest value: doubles end there."""

FULL = 2.0**64


@dataclass(frozen=True)
class Repeated:
    """Per step of the path, in the order of noise: what came twice, and what stood still.

    `cell` (M, N): the size of cells; `still` (M, N): rows whose cell is 0 in a column;
    `bare` (M,): rows whose cells are all 0; `pairs` (M,): pairs of other rows with the same
    cells, among the share `part` (M,) of all possible cells.
    """

    order: tuple[int, ...]
    rows: int
    cell: Floats
    still: Ints
    bare: Ints
    pairs: Floats
    part: Floats

    def of_columns(self, columns: list[int]) -> "Repeated":
        """Return the same for some columns, by their indices; the others have no noise."""
        return replace(self, cell=self.cell[:, columns], still=self.still[:, columns])


class RepeatWatch:
    """Takes stacked rows [X, D_1 .. D_M, 1] (`add`), then gives what was `repeated`."""

    def __init__(self, first: list[Floats], steps: Floats, order: tuple[int, ...]) -> None:
        self._order, self._N = order, len(first[0])
        self._cell = _cells(first, steps, order)
        self._sketches = [_Sketch() for _ in order]
        self._still = np.zeros((len(order), self._N), dtype=np.int64)
        self._bare = np.zeros(len(order), dtype=np.int64)
        self._rows = 0

    def add(self, stacked: Floats) -> None:
        """Take complete rows, (groups, P+1, run) with 0 last for padding."""
        self._rows += int(np.count_nonzero(stacked[:, -1] > 0))
        hashes = np.empty(stacked.shape[0] * stacked.shape[2], dtype=np.uint64)
        before = 0  # where the copy before begins; X for none, which counts as 0
        for k, i in enumerate(self._order):
            here, sketch = (1 + i) * self._N, self._sketches[k]
            bare, kept = _fill_hashes(
                stacked, (here, before), self._cell[k], sketch.last, self._still[k], hashes
            )
            self._bare[k] += bare
            sketch.add(hashes[:kept].copy())
            before = here

    def repeated(self) -> Repeated:
        """Return what was found."""
        return Repeated(
            order=self._order,
            rows=self._rows,
            cell=self._cell,
            still=self._still,
            bare=self._bare,
            pairs=np.array([sketch.pairs for sketch in self._sketches]),
            part=np.array([sketch.bound / FULL for sketch in self._sketches]),
        )


class _Sketch:
    """The smallest hashes of all, each with its count."""

    def __init__(self) -> None:
        self._values = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._new: list[Any] = []
        self._waiting = 0
        self.bound = FULL

    @property
    def last(self) -> np.uint64:
        """The largest hash below the bound."""
        return np.uint64(int(self.bound) - 1)

    def add(self, hashes: Any) -> None:
        """Take hashes below the bound."""
        self._new.append(hashes)
        self._waiting += len(hashes)
        if self._waiting > KEPT:
            self._count()

    def _count(self) -> None:
        """Add those that are waiting; keep the smallest."""
        values = np.concatenate([self._values, *self._new])
        new = np.ones(len(values) - len(self._counts), dtype=np.int64)
        counts = np.concatenate([self._counts, new])
        self._new, self._waiting = [], 0
        self._values, which = np.unique(values, return_inverse=True)
        self._counts = np.bincount(which, counts, len(self._values)).astype(np.int64)
        if len(self._values) > 2 * KEPT:
            self.bound = float(self._values[KEPT] & np.uint64(0xFFFFFFFFFFFFF800))
            kept = self._values < np.uint64(self.bound)
            self._values, self._counts = self._values[kept], self._counts[kept]

    @property
    def pairs(self) -> float:
        """How many pairs of kept rows have the same hash."""
        self._count()
        counts = self._counts.astype(np.float64)
        return float((counts * (counts - 1) / 2).sum())


def _cells(first: list[Floats], steps: Floats, order: tuple[int, ...]) -> Floats:
    """Return the size of cells of each step and column, (M, N)."""
    bits = BITS_ALONE if len(first[0]) == 1 else BITS
    largest = np.max([np.nanmax(np.abs(np.nan_to_num(part)), axis=1) for part in first], axis=0)
    fine = np.maximum(steps_of(first[1:], FINE), steps)
    sizes, before, coarse = [], first[0], np.zeros(len(first[0]))
    for i in order:
        spread = np.nanstd(_finite(first[1 + i] - before), axis=1)
        size = np.maximum(2.0**-bits * spread, np.maximum(PRECISION * largest, 1e-300))
        sizes.append(_odd_multiple(size, np.maximum(coarse, fine[i])))
        before, coarse = first[1 + i], fine[i]
    return np.array(sizes)


def _odd_multiple(size: Floats, step: Floats) -> Floats:
    """Return the next odd multiple of a step, so that every cell holds as many multiples."""
    whole = np.where(step > 0, step, 1.0)
    many = 2 * np.ceil(np.maximum(size / whole - 1, 0) / 2) + 1
    return np.where(step > 0, many * whole, size)


def _finite(values: Floats) -> Floats:
    """Return values with a 0 in every row first, so that a column is never all missing."""
    clean = np.where(np.isfinite(values), values, np.nan)
    return np.column_stack([np.zeros(len(values)), clean])


@strict
def _fill_hashes(
    stacked: Any, places: Any, cell: Any, last: Any, still: Any, out: Any
) -> tuple[int, int]:
    """Fill out with the hashes of rows' cells up to `last`, the same for cells and their negatives.

    `places` is where the noise begins, and that before it, if not 0. Count in `still` the cells
    that are 0; return how many rows have no other, and how many hashes there are.
    """
    groups, _, run = stacked.shape
    bare, kept, padding = 0, 0, 0
    cells, signs = np.empty((cell.shape[0], run)), np.empty(run)
    found = np.empty(run, dtype=np.uint64)
    for group in range(groups):
        _fill_cells(stacked[group], places, cell, cells, signs, still)
        _hash_cells(cells, signs, found)
        for row in range(run):
            padding += stacked[group, -1, row] == 0  # its cells are all 0
            bare += signs[row] == 0
        for row in range(run):
            if found[row] <= last and signs[row] != 0:
                out[kept] = found[row]
                kept += 1
    still -= padding
    return bare - padding, kept


@strict
def _fill_cells(rows: Any, places: Any, cell: Any, cells: Any, signs: Any, still: Any) -> None:
    """Fill in the cells of a step, and the sign of the first of a row that is not 0."""
    here, before = places
    signs[:] = 0.0
    for column in range(cells.shape[0]):
        noise, size, own, zeros = rows[here + column], cell[column], cells[column], 0
        if before:
            for row in range(signs.shape[0]):
                own[row] = np.rint((noise[row] - rows[before + column, row]) / size)
        else:
            for row in range(signs.shape[0]):
                own[row] = np.rint(noise[row] / size)
        for row in range(signs.shape[0]):
            sign = 1.0 if own[row] > 0 else -1.0 if own[row] < 0 else 0.0
            signs[row] = sign if signs[row] == 0 else signs[row]
            zeros += own[row] == 0
        still[column] += zeros


@strict
def _hash_cells(cells: Any, signs: Any, found: Any) -> None:
    """Fill in a 64-bit hash of each row's cells times its sign: splitmix64."""
    found[:] = np.uint64(0)
    for column in range(cells.shape[0]):
        for row in range(found.shape[0]):
            whole = min(max(cells[column, row] * signs[row], -(2.0**62)), 2.0**62)
            word = (found[row] ^ np.uint64(np.int64(whole))) + np.uint64(0x9E3779B97F4A7C15)
            word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found[row] = word ^ (word >> np.uint64(31))


def step_covariance(found: Statistics, order: tuple[int, ...], k: int) -> Floats:
    """Return the covariance of step k of the path, (N, N), without rounding."""
    N, C = found.columns, found.covariance
    here = slice((1 + order[k]) * N, (2 + order[k]) * N)
    rounding = found.steps[order[k]] ** 2 / 12
    covariance = C[here, here]
    if k > 0:
        last = slice((1 + order[k - 1]) * N, (2 + order[k - 1]) * N)
        covariance = covariance + C[last, last] - C[here, last] - C[last, here]
        rounding = rounding + found.steps[order[k - 1]] ** 2 / 12
    return np.asarray(covariance - np.diag(rounding))


def log_odds(cell: Floats, covariance: Floats, around: float) -> float:
    """Return log of the product of cell_j / sqrt(around pi Var(E_j | those before)).

    Over the columns that make it smaller, the widest first in cells.
    """
    rest, total = covariance.copy(), 0.0
    for j in np.argsort(-np.diag(covariance) / cell**2, kind="stable"):
        own = float(rest[j, j])
        if own <= 1e-9 * covariance[j, j]:  # follows from the columns before
            continue
        factor = math.log(cell[j] / math.sqrt(around * math.pi * own))
        if factor < 0:
            total += factor
            rest = rest - np.outer(rest[:, j], rest[j]) / own
    return total
