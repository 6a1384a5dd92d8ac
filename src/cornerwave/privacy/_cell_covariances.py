"""What the best linear estimate leaves in each cell of F, where its coefficients may differ.

In a cell c, with C_c the covariance of what F leaves there (see `_joint`),

    left_j = [C_c - q^2 C_c (q^2 C_c + D_c)^-1 C_c]_jj
    D_c = blockdiag((1 - q^2) S, ...),  for a category  (1 - q) (q E_c[(z - m)(z - m)'] + B)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.privacy._covariances import VANISHING, Covariances, semidefinite
from cornerwave.privacy._joint_sample import NUMBERS
from cornerwave.privacy._revealed import Residuals
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
class Cell:
    """What F leaves in one of its cells (C_c), and mean and covariance of Z there.

    `weight` is the share of each coordinate's values that are in it: it has no gaps to hide;
    `everywhere` is what F leaves in all rows.
    """

    weight: Floats
    rows: int
    covariance: Floats
    everywhere: Floats
    mean: Floats
    inside: Floats

    @cached_property
    def covariances(self) -> tuple[Floats, Floats]:
        """Those that F leaves here, and those of Z: a fit to all of F may be worse in some cell."""
        return self._shrunk(self.covariance), self._shrunk(self.inside)

    def _shrunk(self, covariance: Floats) -> Floats:
        """Return a covariance whose correlations are shrunk to those that are left everywhere.

        As if d of all rows were in the cell. Its variances are not shrunk: those of a column with
        heavy tails are small in most cells.
        """
        n, d = self.rows, len(covariance)
        ratio = np.diag(covariance) / np.maximum(np.diag(self.everywhere), 1e-300)
        size = np.sqrt(np.maximum(ratio, 0.0))
        mixed = n * covariance + d * np.outer(size, size) * self.everywhere
        return semidefinite(mixed / (n + d))

    def of(self, coordinates: Sequence[int]) -> "Cell":
        """Return it for some coordinates."""
        at = np.ix_(coordinates, coordinates)
        return Cell(
            self.weight[coordinates],
            self.rows,
            self.covariance[at],
            self.everywhere[at],
            self.mean[coordinates],
            self.inside[at],
        )

    def left(self, q2: float, drawn: Drawn) -> Floats:
        """Return what is left of each coordinate by the best linear estimate here."""
        q, away = float(np.sqrt(q2)), self.mean - drawn.m
        moments = self.inside + np.outer(away, away)  # E_c[(z - m)(z - m)']
        D = np.where(drawn.is_block, (1 - q) * (q * moments + drawn.B), 0.0)
        D = np.where(drawn.is_number, (1 - q2) * drawn.B, D)
        D[np.diag_indices_from(D)] += VANISHING  # what does not vary here would be singular
        return np.asarray(np.min([_left_of(C, D, q2) for C in self.covariances], axis=0))


def _left_of(C: Floats, D: Floats, q2: float) -> Floats:
    gain = np.linalg.solve(q2 * C + D, C)
    return np.asarray(np.diag(C) - q2 * (C * gain).sum(axis=0))


@dataclass(frozen=True)
class CellCovariances:
    """The cells of F; the two halves of the rows whose cells they are; cells drawn by chance.

    `rows` is how many rows they are measured on.
    """

    cells: tuple[Cell, ...] = ()
    halves: tuple[Cell, ...] = ()
    chance: tuple[Cell, ...] = ()
    rows: int = 0

    @classmethod
    def of(cls, Z: Floats, revealed: Residuals, left: Floats) -> "CellCovariances":
        """Measure what F leaves of Z; `left` is the covariance of that in all rows."""
        cells = revealed.cells
        return cls(
            _measured(Z, revealed, cells, left),
            _measured(Z, revealed, half_of(cells), left),
            _measured(Z, revealed, shuffled(cells), left),
            Z.shape[1],
        )

    def __bool__(self) -> bool:
        return bool(self.cells)

    def only(self, coordinates: Sequence[int]) -> "CellCovariances":
        """Return them for some coordinates."""
        cells, halves, chance = (
            tuple(cell.of(coordinates) for cell in each)
            for each in (self.cells, self.halves, self.chance)
        )
        return CellCovariances(cells, halves, chance, self.rows)

    def gain(self, q2: float, drawn: Drawn) -> Floats:
        """Return what coefficients that depend on the cell recover in addition, beyond chance."""
        together, apart, by_chance = (
            np.sum([cell.weight * cell.left(q2, drawn) for cell in each], axis=0)
            for each in (self.halves, self.cells, self.chance)
        )
        # d coefficients in each of k cells of n rows seem to recover d k / n of what is left
        most = together * min(1.0, len(drawn.m) * len(self.cells) / self.rows)
        chance = np.minimum(np.maximum(together - by_chance, 0.0), most)
        return np.asarray(np.maximum(together - apart - chance, 0.0))


def _measured(Z: Floats, revealed: Residuals, cells: Ints, left: Floats) -> tuple[Cell, ...]:
    made, present = [], ~np.isnan(Z)
    for cell in np.unique(cells).tolist():
        rows = cells == cell
        residual, inside = (Covariances.of(z[:, rows]) for z in (revealed.residuals, Z))
        weight = present[:, rows].sum(axis=1) / np.maximum(present.sum(axis=1), 1)
        count = int(np.count_nonzero(rows))
        made.append(Cell(weight, count, residual.covariance, left, inside.mean, inside.covariance))
    return tuple(made)
