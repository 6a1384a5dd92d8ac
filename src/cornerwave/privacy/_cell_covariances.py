"""What the best linear estimate leaves in each cell of F, where its coefficients may differ.

In a cell c, with C_c the covariance of what F leaves there (see `_joint`),

    left_j = [C_c - q^2 C_c (q^2 C_c + D_c)^-1 C_c]_jj
    D_c = blockdiag((1 - q^2) S, ...),  for a category  (1 - q) (q E_c[(z - m)(z - m)'] + B)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, lengths_of
from cornerwave.privacy._covariances import VANISHING, Covariances, semidefinite
from cornerwave.privacy._joint_sample import NUMBERS
from cornerwave.privacy._variance_cells import half_of, shuffled


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
