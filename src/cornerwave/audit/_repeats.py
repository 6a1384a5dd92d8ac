"""Noise that came twice, or not at all: every row is looked at, in bounded memory.

The steps of the path, E_k = D_k - D_(k-1), are rounded to cells of size q per column. Two
rows of honest noise of covariance C fall into the same cell, by Cauchy and Schwarz, with a
probability of at most  q_1 .. q_r / ((4 pi)^(r/2) sqrt(det C)),  and one row into the cell
of 0 with at most  q_1 .. q_r / ((2 pi)^(r/2) sqrt(det C)),  for any r of the columns.

Cells are known by a hash. The smallest hashes are kept with their counts: equal rows are
kept together or not at all, wherever they stand in the table. A vector and its negative,
which average out, share a hash.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._sums import Statistics
from cornerwave.audit._watch import steps_of

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
        live = stacked[:, -1].ravel() > 0
        rows = stacked.transpose(1, 0, 2).reshape(stacked.shape[1], -1)
        rows = rows if live.all() else rows[:, live]
        self._rows += rows.shape[1]
        before: Any = 0.0
        for k, i in enumerate(self._order):
            noise = rows[(1 + i) * self._N : (2 + i) * self._N]
            cells = np.rint((noise - before) / self._cell[k][:, None])
            still = cells == 0
            bare = still.all(axis=0)
            self._still[k] += still.sum(axis=1)
            self._bare[k] += int(bare.sum())
            self._sketches[k].add(_hashes(cells if not bare.any() else cells[:, ~bare]))
            before = noise

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

    def add(self, hashes: Any) -> None:
        if self.bound < FULL:
            hashes = hashes[hashes < np.uint64(self.bound)]
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


def _hashes(cells: Floats) -> Any:
    """Return a 64-bit hash of each column of cells (N, n), the same for its negative."""
    # the sign of the first cell that is not 0
    first = np.take_along_axis(cells, (cells != 0).argmax(axis=0)[None], axis=0)
    whole = np.clip(cells * np.sign(first), -(2.0**62), 2.0**62).astype(np.int64)
    found = np.zeros(cells.shape[1], dtype=np.uint64)
    for row in whole.view(np.uint64):
        found = (found ^ row) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(31)
    return found


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
