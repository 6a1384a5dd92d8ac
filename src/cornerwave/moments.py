"""Mean and covariance of a table in one pass, and a factor of the covariance.

    K = 1/(n-1) sum (x - mean)(x - mean)'           K = L L'

Each block is centred on its own mean and blocks are merged by the update of Chan,
Golub and LeVeque, so data far from zero lose nothing. Missing values (NaN) are
left out pair by pair: entry (i, j) rests on the rows that have both. L is lower
triangular also where K is singular: a constant column has a zero row, a column
that follows from those before it a zero on the diagonal.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.errors import SingularCovariance, SourceError, spelled

RANK_TOLERANCE = 1e-10
"""A column follows from others if less than this share of its variance is its own."""
LARGEST = 1e140
"""Sums of squares of values beyond this overflow."""


@dataclass(frozen=True)
class Moments:
    """What one pass keeps of a table; `a + b` are the moments of both tables together.

    For N columns, all N x N: entry (i, j) of `count` is the number of rows that have
    both columns, of `centre` the mean of column i over these rows, of `scatter` the
    sum of products of the two deviations. `lowest` and `highest` are per column.

    >>> X = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]])
    >>> both = Moments.of(X[:1]) + Moments.of(X[1:])
    >>> both.mean.tolist(), both.covariance.tolist()
    ([3.0, 3.0], [[4.0, -1.0], [-1.0, 7.0]])
    """

    rows: int
    count: Floats
    centre: Floats
    scatter: Floats
    lowest: Floats
    highest: Floats

    @classmethod
    def of(cls, X: Any, names: Sequence[str] | None = None) -> "Moments":
        """Return the moments of a (rows, columns) array; NaN is missing.

        Raises SourceError if a value is infinite, or so large that its square overflows;
        `names` are those of the columns, to say which.
        """
        X = np.asarray(X, dtype=np.float64)
        if np.isinf(X).any():
            raise SourceError("infinite values have no mean; remove them or make them missing")
        present = ~np.isnan(X)
        lowest = np.where(present, X, np.inf).min(axis=0, initial=np.inf)
        highest = np.where(present, X, -np.inf).max(axis=0, initial=-np.inf)
        _check_squares(np.maximum(-lowest, highest), names)
        known = present.astype(np.float64)
        alone = np.maximum(known.sum(axis=0), 1)
        shift = np.where(present, X, 0.0).sum(axis=0) / alone
        deviation = np.where(present, X - shift, 0.0)
        count = known.T @ known
        offset = (deviation.T @ known) / np.maximum(count, 1)
        return cls(
            rows=len(X),
            count=count,
            centre=np.where(count > 0, shift[:, None] + offset, 0.0),
            scatter=deviation.T @ deviation - count * offset * offset.T,
            lowest=lowest,
            highest=highest,
        )

    def __add__(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.centre - self.centre
        return Moments(
            rows=self.rows + other.rows,
            count=count,
            centre=self.centre + share * apart,
            scatter=self.scatter + other.scatter + self.count * share * apart * apart.T,
            lowest=np.minimum(self.lowest, other.lowest),
            highest=np.maximum(self.highest, other.highest),
        )

    @property
    def present(self) -> Ints:
        """How many rows have a value, per column."""
        return np.diag(self.count).astype(np.int64)

    @property
    def largest(self) -> Floats:
        """The largest |x| of each column, 0 if it has no value."""
        ends = np.maximum(np.abs(self.lowest), np.abs(self.highest))
        return np.where(np.isfinite(ends), ends, 0.0)

    @property
    def mean(self) -> Floats:
        """The mean of each column over the rows that have it."""
        return np.diag(self.centre).copy()

    @cached_property
    def covariance(self) -> Floats:
        """The sample covariance K; 0 where fewer than two rows have both columns."""
        covariance = self.scatter / np.maximum(self.count - 1, 1)
        return (covariance + covariance.T) / 2

    @property
    def deviation(self) -> Floats:
        """The standard deviation of each column."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


@dataclass(frozen=True)
class Factor:
    """A lower triangular L with K = L L', and the columns that make K singular."""

    lower: Floats
    constant: tuple[int, ...]
    dependent: tuple[int, ...]

    def warn(self, columns: list[str]) -> None:
        """Warn by name about columns that are constant or follow from others."""
        if self.constant:
            warnings.warn(
                f"{_names(columns, self.constant)}: constant, so noise shaped like the table "
                "leaves the value as it is; drop the column if nobody should see it",
                SingularCovariance,
                stacklevel=3,
            )
        if self.dependent:
            warnings.warn(
                f"{_names(columns, self.dependent)}: a linear function of the columns before; "
                "its noise is the same function of theirs",
                SingularCovariance,
                stacklevel=3,
            )


def _names(columns: list[str], which: tuple[int, ...]) -> str:
    names = ", ".join(spelled(columns[i]) for i in which)
    return ("column " if len(which) == 1 else "columns ") + names


def _check_squares(largest: Floats, names: Sequence[str] | None) -> None:
    if (beyond := np.flatnonzero(largest > LARGEST)).size:
        what = spelled(names[beyond[0]]) if names else f"{beyond[0] + 1} of the numbers"
        raise SourceError(
            f"column {what} holds values beyond {LARGEST:g}, whose squares overflow: divide "
            "them, perturb them on a logarithmic scale (log1p), or drop the column"
        )


def factor(covariance: Any) -> Factor:
    """Factor a covariance matrix, singular or not.

    A matrix that is not quite positive semidefinite, as missing values can make it,
    is first brought to the nearest one with the same variances in the sense of its
    clipped spectrum.

    >>> factor([[4.0, 4.0], [4.0, 4.0]])
    Factor(lower=array([[2., 0.],
           [2., 0.]]), constant=(), dependent=(1,))
    """
    covariance = np.asarray(covariance, dtype=np.float64)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise SourceError(f"a covariance is a square matrix, not of shape {covariance.shape}")
    if not np.isfinite(covariance).all():
        raise SourceError("the covariance overflows: values this large cannot be perturbed")
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    divisor = np.where(scale > 0, scale, 1.0)
    correlation = _semidefinite(covariance / np.outer(divisor, divisor))
    lower, dependent = _cholesky(correlation, scale > 0)
    constant = tuple(int(i) for i in np.flatnonzero(scale == 0))
    return Factor(lower * scale[:, None], constant, dependent)


def _semidefinite(correlation: Floats) -> Floats:
    values, vectors = np.linalg.eigh(correlation)
    if values.min(initial=0.0) >= -RANK_TOLERANCE:
        return correlation
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = np.sqrt(np.diag(clipped))
    size[np.diag(correlation) == 0] = 1.0  # a constant column has nothing to restore
    return np.asarray(clipped / np.outer(size, size))


def _cholesky(correlation: Floats, varies: Flags) -> tuple[Floats, tuple[int, ...]]:
    lower = np.zeros_like(correlation)
    dependent = []
    for j in np.flatnonzero(varies):
        own = correlation[j, j] - lower[j, :j] @ lower[j, :j]
        if own <= RANK_TOLERANCE:
            dependent.append(int(j))
            lower[j] /= np.sqrt(lower[j, :j] @ lower[j, :j])
            continue
        lower[j, j] = np.sqrt(own)
        below = correlation[j + 1 :, j] - lower[j + 1 :, :j] @ lower[j, :j]
        lower[j + 1 :, j] = np.where(varies[j + 1 :], below / lower[j, j], 0.0)
    return lower, tuple(dependent)
