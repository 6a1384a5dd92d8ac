"""Cells of F: the parts in which what F leaves of the coordinates varies most differently.

Where F decides how columns vary together, an estimate may use other coefficients there (DESIGN.md,
'What stands without noise'). A tree splits bins of one column of F where squares and products of
residuals differ most. Each half of the rows gets the cells that the other half chose, so that what
they gain is no artefact of the choice. It counts if rows there vary differently beyond chance.

In a cell c, with C_c the covariance of what F leaves there (see `_joint`), the best linear estimate
leaves

    left_j = [C_c - q^2 C_c (q^2 C_c + D_c)^-1 C_c]_jj
    D_c = blockdiag((1 - q^2) S, ...),  for a category  (1 - q) (q E_c[(z - m)(z - m)'] + B)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Flags, Floats, Ints, lengths_of
from cornerwave.privacy._anova import ALPHA, within
from cornerwave.privacy._joint_sample import NUMBERS, VANISHING, Covariances, semidefinite
from cornerwave.privacy._open_columns import (
    MOST_KNOTS,
    MOST_VALUES,
    OpenColumn,
    all_values,
    second_moments,
)

LEAVES = 64
"""Cells of each half at most."""

LEAST_LEAF, LEAF_ROWS = 100, 10
"""The least rows of a cell, and rows for each coordinate: its covariance must be estimated."""

CELL_VALUES = 256
"""Values of a column by which cells may differ; of a number with more, MOST_KNOTS bands."""

LEAST_VALUE = 10
"""Rows of a value by which cells may differ, of several columns as one."""

CONFIRMED = 0.1
"""The probability, at most, that the rows of cells made by chance are taken for different ones."""

SIGNALS_TRIED = 4
"""Signals by whose means bins are sorted: those that differ most between bins."""


def cell_bins(features: Sequence[OpenColumn]) -> Ints:
    """Return columns of F in bins (columns, rows), and all of those with few values as one."""
    bins = [binned(each) for each in features]
    coarse = [each for each in features if each.values <= MOST_VALUES]
    if len(coarse) > 1:
        bins.append(_frequent(all_values(coarse).codes))
    return np.array(bins)


def variance_cells(left: Floats, bins: Ints) -> Ints:
    """Return the cell of each row; those of the second half are numbered from LEAVES on."""
    n = left.shape[1]
    least = max(LEAST_LEAF, LEAF_ROWS * len(left)) // 2
    signals = second_moments(np.nan_to_num(left))
    cells = crossed_cells(signals, bins, np.arange(n) % 2, least)
    # heavy tails make trees of chance; no row has a part in the choice of its cell
    confirmed = within(signals, cells, comparisons=ALPHA / CONFIRMED).any()
    return cells if confirmed else half_of(cells) * LEAVES


def crossed_cells(signals: Floats, bins: Ints, half: Ints, least: int) -> Ints:
    """Return the cell of each row by signals and bins: in each `half` those that the other chose.

    Cells of the second half are numbered from LEAVES on.
    """
    cells = np.zeros(bins.shape[1], dtype=np.int64)
    for side in (0, 1):
        grow, other = np.flatnonzero(half == side), np.flatnonzero(half != side)
        leaves = _tree(signals[:, grow], bins[:, grow], bins[:, other], least)
        cells[other] = leaves + side * LEAVES
    return cells


def half_of(cells: Ints) -> Ints:
    """Return which half of the rows each cell is of."""
    return np.asarray(cells // LEAVES)


def shuffled(cells: Ints) -> Ints:
    """Return as many rows in each cell of each half, drawn by chance."""
    mixed, draw = cells.copy(), np.random.default_rng(1)
    for half in np.unique(half_of(cells)).tolist():
        rows = half_of(cells) == half
        mixed[rows] = draw.permutation(cells[rows])
    return mixed


def binned(feature: OpenColumn) -> Ints:
    """Return the bins of a column by which cells may differ."""
    smooth = feature.numbers is not None and feature.values > CELL_VALUES
    return feature.binned(MOST_KNOTS if smooth else CELL_VALUES)


def _frequent(codes: Ints) -> Ints:
    """Return the most frequent values by number; all others, and those of few rows, are the last.

    Values of one row each, sorted by what they have, would seem to explain all of it.
    """
    counts = np.bincount(codes)
    place = np.argsort(np.argsort(-counts, kind="stable"))
    rare = (place >= CELL_VALUES - 1) | (counts < LEAST_VALUE)
    return np.asarray(np.where(rare, CELL_VALUES - 1, place)[codes])


@dataclass(frozen=True)
class _Split:
    """Which values of a column leave a leaf, and by how much that exceeds chance."""

    gain: float = 0.0
    column: int = 0
    values: Ints | tuple[()] = ()


def _tree(signals: Floats, bins: Ints, apply: Ints, least: int) -> Ints:
    """Return the leaf of each column of `apply`, by a tree grown on signals over bins.

    Of all leaves the one is split whose best split explains most of the signals.
    """
    leaf, where = np.zeros(bins.shape[1], dtype=np.int64), np.zeros(apply.shape[1], dtype=np.int64)
    splits = {0: _best_split(signals, bins, leaf == 0, least)}
    for new in range(1, LEAVES):
        at = max(splits, key=lambda node: splits[node].gain)
        split = splits[at]
        if split.gain <= 0:
            break
        for codes, leaves in ((bins, leaf), (apply, where)):
            leaves[(leaves == at) & np.isin(codes[split.column], split.values)] = new
        for node in (at, new):
            splits[node] = _best_split(signals, bins, leaf == node, least)
    return where


def _best_split(signals: Floats, bins: Ints, rows: Flags, least: int) -> _Split:
    """Return the split that explains most; no gain if that is chance.

    For each signal, bins sorted by its mean are cut in two, which is best for that signal.
    """
    some, best = signals[:, rows], _Split()
    n = some.shape[1]
    if n < 2 * least:
        return best
    some = some - some.mean(axis=1, keepdims=True)
    by_row = np.ascontiguousarray(some.T)
    for column, codes in enumerate(bins[:, rows]):
        here = np.bincount(codes)
        values = np.flatnonzero(here)
        # bins that are sorted by one signal explain of it what all of them do by chance, at most:
        # chi-square with d degrees of freedom, by Laurent and Massart (see `_anova`)
        d, u = len(some) + len(values), log(1 / ALPHA)
        chance = d + 2 * sqrt(d * u) + 2 * u
        of_codes = np.zeros((len(here), len(some)))
        _core.add_by_code(by_row, np.ascontiguousarray(codes, dtype=np.int64), of_codes)
        sums = np.ascontiguousarray(of_codes[values].T)
        counts = here[values]
        strongest = np.argsort(-(sums**2 / counts).sum(axis=1), kind="stable")[:SIGNALS_TRIED]
        for key in (np.arange(len(values)), *(sums[s] / counts for s in strongest.tolist())):
            order = np.argsort(key, kind="stable")
            left, total = np.cumsum(sums[:, order], axis=1), np.cumsum(counts[order])
            fits = (total >= least) & (n - total >= least)
            # S^2/m + S^2/(n - m): the sum of squares between both sides, as all sums are 0
            gains = (left**2).sum(axis=0) * (1 / total + 1 / np.maximum(n - total, 1)) - chance
            gains = np.where(fits, gains, 0.0)
            cut = int(gains.argmax())
            if gains[cut] > best.gain:
                best = _Split(float(gains[cut]), column, values[order[: cut + 1]])
    return best


# --------------------------------------------------------------------------------------------------
# What is left in each cell.


@dataclass(frozen=True)
class Drawn:
    """B and m, covariance and mean of what replaces coordinates, in standard units; their blocks.

    For the numbers B is the shape S of their noise.
    """

    B: Floats
    m: Floats
    blocks: tuple[str, ...]

    @cached_property
    def is_number(self) -> Flags:
        """Where both coordinates of a pair are numbers."""
        numbers = np.array(self.blocks) == NUMBERS
        return np.asarray(np.logical_and.outer(numbers, numbers))

    @cached_property
    def is_block(self) -> Flags:
        """Where both coordinates of a pair get one noise."""
        return np.asarray(np.equal.outer(np.array(self.blocks), np.array(self.blocks)))


@dataclass(frozen=True)
class MeasuredCells:
    """What F leaves in some of its cells (C_c), and mean and covariance of Z there.

    `weight` (cells, coordinates) is the share of each coordinate's values that are in a cell: it
    has no gaps to hide; `rows` are those of each cell; `covariance` and `inside` have the shape
    (cells, coordinates, coordinates); `everywhere` is what F leaves in all rows.
    """

    weight: Floats
    rows: Ints
    covariance: Floats
    everywhere: Floats
    mean: Floats
    inside: Floats

    @classmethod
    def of(cls, Z: Floats, residuals: Floats, cells: Ints, left: Floats) -> "MeasuredCells":
        """Measure coordinates and residuals in each cell."""
        order = np.argsort(cells, kind="stable")
        starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        parts = np.split(order, starts[1:])
        inside = [Covariances.of(Z[:, rows]) for rows in parts]
        present = ~np.isnan(Z[:, order])
        counts = np.add.reduceat(present, starts, axis=1, dtype=np.int64).T
        return cls(
            counts / np.maximum(counts.sum(axis=0), 1),
            lengths_of(starts, len(order)),
            np.array([Covariances.of(residuals[:, rows]).covariance for rows in parts]),
            left,
            np.array([each.mean for each in inside]),
            np.array([each.covariance for each in inside]),
        )

    @cached_property
    def covariances(self) -> tuple[Floats, Floats]:
        """Those that F leaves here, and those of Z: a fit to all of F may be worse in some cell."""
        return self._shrunk(self.covariance), self._shrunk(self.inside)

    def _shrunk(self, covariance: Floats) -> Floats:
        """Return covariances whose correlations are shrunk to those that are left everywhere.

        As if d of all rows were in the cell. Its variances are not shrunk: those of a column with
        heavy tails are small in most cells.
        """
        n, d = self.rows[:, None, None], len(self.everywhere)
        # correlations of all rows with the deviations of this cell
        ratio = _diagonals(covariance) / np.maximum(np.diag(self.everywhere), 1e-300)
        size = np.sqrt(np.maximum(ratio, 0.0))
        # a cell of d rows has half of the correlations of its own: fewer rows cannot know d of them
        mixed = n * covariance + d * size[:, :, None] * size[:, None, :] * self.everywhere
        return semidefinite(mixed / (n + d))

    def only(self, coordinates: Sequence[int]) -> "MeasuredCells":
        """Return them for some coordinates."""
        at = np.ix_(coordinates, coordinates)
        return MeasuredCells(
            self.weight[:, coordinates],
            self.rows,
            self.covariance[:, at[0], at[1]],
            self.everywhere[at],
            self.mean[:, coordinates],
            self.inside[:, at[0], at[1]],
        )

    def left(self, q2: float, drawn: Drawn) -> Floats:
        """Return what is left of each coordinate by the best linear estimate in each cell."""
        q, away = float(np.sqrt(q2)), self.mean - drawn.m
        moments = self.inside + away[:, :, None] * away[:, None, :]  # E_c[(z - m)(z - m)']
        # equation (2) of _whole_copy; of numbers (1 - q^2) S
        D = np.where(drawn.is_block, (1 - q) * (q * moments + drawn.B), 0.0)
        D = np.where(drawn.is_number, (1 - q2) * drawn.B, D)
        D += VANISHING * np.eye(len(drawn.m))  # what does not vary here would be singular
        # each is what some linear estimate leaves, so the best leaves no more than the smaller one
        least = np.min([_left_of(C, D, q2) for C in self.covariances], axis=0)
        return np.asarray((self.weight * least).sum(axis=0))


def _left_of(C: Floats, D: Floats, q2: float) -> Floats:
    # the diagonal of C - q^2 C (q^2 C + D)^-1 C: equation (3)
    gain = np.linalg.solve(q2 * C + D, C)
    return np.asarray(_diagonals(C) - q2 * (C * gain).sum(axis=1))


def _diagonals(matrices: Floats) -> Floats:
    return np.diagonal(matrices, axis1=1, axis2=2)


@dataclass(frozen=True)
class CellCovariances:
    """The cells of F; the two halves of the rows whose cells they are; cells drawn by chance."""

    cells: MeasuredCells
    halves: MeasuredCells
    chance: MeasuredCells

    @classmethod
    def of(cls, Z: Floats, residuals: Floats, cells: Ints, left: Floats) -> "CellCovariances":
        """Measure what F leaves of Z in cells; `left` is the covariance of that in all rows."""
        return cls(
            *(
                MeasuredCells.of(Z, residuals, c, left)
                for c in (cells, half_of(cells), shuffled(cells))
            )
        )

    @property
    def differ(self) -> bool:
        """Whether there are more cells than one in a half."""
        return len(self.cells.rows) > len(self.halves.rows)

    def only(self, coordinates: Sequence[int]) -> "CellCovariances":
        """Return them for some coordinates."""
        return CellCovariances(
            *(each.only(coordinates) for each in (self.cells, self.halves, self.chance))
        )

    def gain(self, q2: float, drawn: Drawn) -> Floats:
        """Return what coefficients that depend on the cell recover in addition, beyond chance."""
        together, apart, by_chance = (
            each.left(q2, drawn) for each in (self.halves, self.cells, self.chance)
        )
        # d coefficients in each of k cells of n rows seem to recover d k / n of what is left
        rows = self.cells.rows
        most = together * min(1.0, len(drawn.m) * len(rows) / int(rows.sum()))
        chance = np.minimum(np.maximum(together - by_chance, 0.0), most)
        return np.asarray(np.maximum(together - apart - chance, 0.0))


@dataclass(frozen=True)
class CellsOfSome:
    """Cells that were chosen for some coordinates, by their places among all."""

    at: tuple[int, ...]
    cells: CellCovariances

    def only(self, stay: Sequence[int]) -> "CellsOfSome":
        """Return them if only some of all coordinates stay, by their places among these."""
        here = [i for i, place in enumerate(self.at) if place in stay]
        return CellsOfSome(tuple(stay.index(self.at[i]) for i in here), self.cells.only(here))
