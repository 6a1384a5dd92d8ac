"""How well a row of a copy fits a person whose row is known: the exact likelihood of the noise.

Of numbers x with noise N(0, v S), and of a category x that is retained with q = 1/sqrt(1+v), else
drawn from b,

    log p(y | x) = -(y - x)' S^-1 (y - x) / (2v)  +  sum of log(q [y = x] + (1-q) b_y)

LIKELIHOOD scores by this alone, WEIGHED by log p(y | x) - log m(y), with m how common such rows are
in the copy: normal of covariance K + v S, and by the categories' frequencies. If that is what rows
are like, it orders them by the probability of being the person's, and no attack is better (Neyman
and Pearson). Along axes on which S is I and K is diag(l), with w = l / (v (l + v)), both are

    sum of x y / v + sum of [y = x] log(1 + q / ((1-q) b_x))        of the pair
  - sum of y^2 / (2v) + ... or - sum of w y^2 / 2 + ...              of the row of the copy
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack._joint_posterior import KnownCells
from cornerwave.attack._llse import whitening
from cornerwave.attack._rows_at_risk import RowsAtRisk
from cornerwave.levels import retention
from cornerwave.noise import MISSING

LIKELIHOOD, WEIGHED = ADVERSARIES = (0, 1)
"""Who takes the likeliest row, and who weighs how common it is: places in arrays of scores."""

MOST_VALUES = 40
"""Categories of up to so many values are compared by a product."""

RAREST = 1e-12
"""The least probability of a value."""


@dataclass(frozen=True)
class Axes:
    """Axes of some columns on which noise 1 is I and the table's covariance diag(`spread`)."""

    axes: Floats
    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, mean: Floats, covariance: Floats, shape: Floats) -> "Axes":
        """Return those of some columns; directions without noise are left out."""
        white = whitening(shape) if len(shape) else np.empty((0, 0))
        spread, turned = np.linalg.eigh(white.T @ covariance @ white)
        return cls(white @ turned, mean, np.maximum(spread, 0.0))

    @classmethod
    def within(cls, rows: RowsAtRisk, observed: Flags) -> "Axes":
        """Return those of the columns that are observed."""
        square = np.ix_(observed, observed)
        return cls.of(rows.mean[observed], rows.covariance[square], rows.shape[square])

    def along(self, numbers: Floats) -> Floats:
        """Return numbers (N, rows) along the axes (rows, directions)."""
        return np.asarray((numbers - self.mean[:, None]).T @ self.axes)


@dataclass(frozen=True)
class RefreshedCells:
    """A category at one level, by its values: what equal values add, and what a row has anyway."""

    cells: KnownCells
    q: float

    @property
    def base(self) -> Floats:
        """What copies draw from."""
        drawn = self.cells.pi if self.cells.drawn is None else self.cells.drawn
        return np.maximum(drawn, RAREST)

    @property
    def favour(self) -> Floats:
        """What the score of a pair has more if both have a value."""
        return np.asarray(np.log1p(self.q / ((1 - self.q) * self.base)))

    @property
    def offsets(self) -> Floats:
        """What a row of the copy with a value has anyway, for each adversary (2, values)."""
        other = (1 - self.q) * self.base
        common = self.q * self.cells.pi + other
        return np.stack([np.log(other), np.log(other) - np.log(common)])


@dataclass(frozen=True)
class FitScores:
    """Scores of rows of a copy at noise v, of whatever rows are known."""

    axes: Axes
    cells: tuple[RefreshedCells, ...]
    noise: float

    @classmethod
    def at(
        cls,
        noise: float,
        axes: Axes,
        cells: Sequence[KnownCells],
        retained: Sequence[float] = (),
    ) -> "FitScores":
        """Return how copies at a noise are scored; categories are `retained` as it states."""
        q = retained or [retention(noise)] * len(cells)
        refreshed = map(RefreshedCells, cells, np.clip(q, RAREST, 1 - RAREST).tolist())
        return cls(axes, tuple(refreshed), noise)

    def pairs(
        self, known: Floats, of_known: Sequence[Ints], copy: Floats, codes: Sequence[Ints]
    ) -> Any:
        """Return what pairs of known rows (m, d) and rows of a copy (M, d) add, as (m, M)."""
        left, right, rest = [known / self.noise], [copy], []
        for each, mine, theirs in zip(self.cells, of_known, codes, strict=True):
            more = np.where(mine == MISSING, 0.0, each.favour[mine])
            if len(each.favour) <= MOST_VALUES:  # a product is faster than comparing
                values = np.arange(len(each.favour))
                left.append(np.where(mine[:, None] == values, more[:, None], 0.0))
                right.append(theirs[:, None] == values)
            else:
                rest.append((more.astype(np.float32), mine, theirs))
        made = _single(left) @ _single(right).T
        for more, mine, theirs in rest:
            np.add(made, more[:, None], out=made, where=mine[:, None] == theirs)
        return made

    def own(
        self, known: Floats, of_known: Sequence[Ints], copy: Floats, codes: Sequence[Ints]
    ) -> Floats:
        """Return what known rows (m, d) add with their own copies (m, R, d), as (m, R)."""
        made = (copy @ known[:, :, None])[:, :, 0] / self.noise
        for each, mine, theirs in zip(self.cells, of_known, codes, strict=True):
            more = np.where(mine == MISSING, 0.0, each.favour[mine])
            made += np.where(mine[:, None] == theirs, more[:, None], 0.0)
        return np.asarray(made)

    def offsets(self, copy: Floats, codes: Sequence[Ints]) -> Floats:
        """Return what rows of a copy (..., d) have anyway, for each adversary (2, ...)."""
        v, spread = self.noise, self.axes.spread
        squares = copy**2
        made = -0.5 * np.stack([squares.sum(axis=-1) / v, squares @ (spread / (v * (spread + v)))])
        for each, theirs in zip(self.cells, codes, strict=True):
            made += np.where(theirs == MISSING, 0.0, each.offsets[:, theirs])
        return np.asarray(made)

    def ratio(self, known: Floats) -> Floats:
        """Return what makes WEIGHED scores of known rows (m, d) log p(y | x) - log m(y)."""
        v = self.noise
        return np.asarray(
            0.5 * np.log1p(self.axes.spread / v).sum() - (known**2).sum(axis=1) / (2 * v)
        )


def _single(parts: Sequence[Any]) -> Any:
    """Return columns side by side in single precision, which differences of scores can do with."""
    return np.concatenate([each.astype(np.float32) for each in parts], axis=1)
