"""Noise that came twice, or not at all: every row is looked at, in bounded memory.

The steps of the path, E_k = D_k - D_(k-1), are rounded to cells of size q per column. Two rows of
honest noise of covariance C fall into the same cell, by Cauchy and Schwarz, with a probability of
at most  q_1 .. q_r / ((4 pi)^(r/2) sqrt(det C)),  and one row into the cell of 0 with at most
q_1 .. q_r / ((2 pi)^(r/2) sqrt(det C)),  for any r of the columns.

Cells are identified by a hash. The smallest hashes are kept with their counts: equal rows are
kept together or not at all, wherever they are in the table. A vector and its negative, which
average out, share a hash.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ints, Words
from cornerwave.audit._sums import steps_of

KEPT_HASHES = 1 << 16
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
class HashCounts:
    """The smallest hashes of all, with their counts: all that are below the `bound`. Parts add up.

    If there are more than twice as many as there is room for, the smallest of them remain.
    """

    room: int
    bound: float = FULL
    values: tuple[Any, ...] = field(default=(), repr=False)
    counts: tuple[Ints, ...] = field(default=(), repr=False)

    @property
    def last(self) -> np.uint64:
        """The largest hash below the bound."""
        return np.uint64(int(self.bound) - 1)

    def of(self, hashes: Any) -> "HashCounts":
        """Return hashes up to the last, once each, to be added."""
        return replace(self, values=(hashes,), counts=(np.ones(len(hashes), dtype=np.int64),))

    def __add__(self, other: "HashCounts") -> "HashCounts":
        every = replace(
            self,
            bound=min(self.bound, other.bound),
            values=self.values + other.values,
            counts=self.counts + other.counts,
        )
        return every.thinned() if sum(map(len, every.values)) > 3 * self.room else every

    def thinned(self) -> "HashCounts":
        """Return the same, with one count for each hash."""
        values = np.concatenate([np.zeros(0, dtype=np.uint64), *self.values])
        inside, bound = values <= self.last, self.bound
        # equal hashes of both parts become one, with the sum of their counts
        values, which = np.unique(values[inside], return_inverse=True)
        given = np.concatenate([np.zeros(0, dtype=np.int64), *self.counts])[inside]
        counts = np.bincount(which, given, len(values)).astype(np.int64)
        if len(values) > 2 * self.room:
            bound = float(values[self.room] & np.uint64(0xFFFFFFFFFFFFF800))  # exact in a double
            kept = values < np.uint64(bound)
            values, counts = values[kept], counts[kept]
        return replace(self, bound=bound, values=(values,), counts=(counts,))

    @property
    def pairs(self) -> float:
        """How many pairs of rows have one hash, of those that are counted."""
        return sum(float((counts * (counts - 1.0) / 2).sum()) for counts in self.counts)


@dataclass(frozen=True)
class Repeated:
    """Per step of the path, in the order of noise: what came twice, and what has no noise.

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


def sizes_of_cells(first: list[Floats], steps: Floats, order: tuple[int, ...]) -> Floats:
    """Return the size of cells of each step and column, (M, N)."""
    # cells must be fine beside the noise, and coarse beside the last digits of values
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
    # odd: a cell about a multiple of itself has as many steps on both sides
    many = 2 * np.ceil(np.maximum(size / whole - 1, 0) / 2) + 1
    return np.where(step > 0, many * whole, size)


def _finite(values: Floats) -> Floats:
    """Return values with a 0 in every row first, so that a column is never all missing."""
    clean = np.where(np.isfinite(values), values, np.nan)
    return np.column_stack([np.zeros(len(values)), clean])


def fill_hashes(
    stacked: Floats, places: tuple[int, int], cell: Floats, last: np.uint64, still: Ints, out: Words
) -> tuple[int, int]:
    """Fill out with the hashes of rows' cells up to `last`, the same for cells and their negatives.

    `places` is where the noise begins, and that before it, if not 0. Count in `still` the cells
    that are 0; return how many rows have no other, and how many hashes there are.
    """
    counts = np.zeros(2, dtype=np.int64)
    rows = np.ascontiguousarray(stacked)
    _core.fill_cell_hashes(rows, *places, cell, int(last), still, out, counts)
    bare, kept = counts.tolist()
    return bare, kept


def log_odds(cell: Floats, covariance: Floats, around: float) -> float:
    """Return log of the product of cell_j / sqrt(around pi Var(E_j | those before)).

    Over the columns that make it smaller, the widest first in cells.
    """
    rest, total = covariance.copy(), 0.0
    for j in np.argsort(-np.diag(covariance) / cell**2, kind="stable"):
        variance = float(rest[j, j])
        if variance <= 1e-9 * covariance[j, j]:  # follows from the columns before
            continue
        # cell times density at 0: of a row (2 pi Var), of the difference of two (4 pi Var)
        factor = math.log(cell[j] / math.sqrt(around * math.pi * variance))
        if factor < 0:
            total += factor
            # the next columns given this one (Schur complement)
            rest = rest - np.outer(rest[:, j], rest[j]) / variance
    return total
