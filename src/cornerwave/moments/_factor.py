"""A lower triangular factor of a covariance, singular or not.

    K = L L'

A constant column has a zero row in L, a column that follows from those before it a zero on
the diagonal. The arithmetic is strict: the noise depends on every bit of L.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import SingularCovariance, SourceError, spelled
from cornerwave.keyed import strict

RANK_TOLERANCE = 2.0**-46
"""A column follows from others if less than this share of its variance is its own: about two
steps of the grid of copies. What is larger, such as the duration between two timestamps of
which each varies over years, gets noise of its own size."""

INDEFINITE = 1e-12
"""An eigenvalue of a correlation matrix below minus this is not one of rounding."""

SWEEPS = 30
"""Jacobi's method converges quadratically: ten sweeps are ample for any matrix."""


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
    if (np.diag(covariance) < 0).any():
        raise SourceError("a covariance has no negative variances")
    scale = np.sqrt(np.diag(covariance))
    divisor = np.where(scale > 0, scale, 1.0)
    correlation = covariance / np.outer(divisor, divisor)
    if np.linalg.eigvalsh(correlation).min(initial=0.0) < -INDEFINITE:
        correlation = _semidefinite(correlation)
    lower = np.zeros_like(correlation)
    follows = _cholesky(correlation, scale > 0, lower)
    return Factor(
        lower * scale[:, None],
        constant=tuple(np.flatnonzero(scale == 0).tolist()),
        dependent=tuple(np.flatnonzero(follows).tolist()),
    )


@strict
def _cholesky(correlation: Any, varies: Any, lower: Any) -> Any:
    """Fill in the factor of a correlation matrix; return which columns follow from others."""
    size = correlation.shape[0]
    follows = np.zeros(size, dtype=np.bool_)
    for j in range(size):
        if not varies[j]:
            continue
        told = 0.0  # the share of its variance that the columns before it tell
        for k in range(j):
            told += lower[j, k] * lower[j, k]
        own = correlation[j, j] - told
        follows[j] = own <= RANK_TOLERANCE
        if follows[j]:
            for k in range(j):
                lower[j, k] /= np.sqrt(told)
            continue
        lower[j, j] = np.sqrt(own)
        for i in range(j + 1, size):
            rest = correlation[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            lower[i, j] = rest / lower[j, j] if varies[i] else 0.0
    return follows


def _semidefinite(correlation: Floats) -> Floats:
    """Return the matrix with its negative eigenvalues cut off, and its diagonal restored."""
    values, vectors = np.ascontiguousarray(correlation.copy()), np.eye(len(correlation))
    _diagonalise(values, vectors)
    clipped = np.zeros_like(correlation)
    _compose(np.maximum(np.diag(values), 0.0), vectors, clipped)
    size = np.sqrt(np.diag(clipped))
    size[np.diag(correlation) == 0] = 1.0  # a constant column has nothing to restore
    return np.asarray(clipped / np.outer(size, size))


@strict
def _diagonalise(matrix: Any, vectors: Any) -> None:
    """Turn a symmetric matrix into its eigenvalues, in place, by Jacobi's rotations."""
    size = matrix.shape[0]
    for _ in range(SWEEPS):
        turned = False
        for p in range(size):
            for q in range(p + 1, size):
                if abs(matrix[p, q]) < 1e-17 * np.sqrt(abs(matrix[p, p] * matrix[q, q])) + 1e-300:
                    continue
                turned = True
                # the rotation that makes entry (p, q) zero
                slope = (matrix[q, q] - matrix[p, p]) / (2.0 * matrix[p, q])
                sign = 1.0 if slope >= 0.0 else -1.0
                t = sign / (abs(slope) + np.sqrt(slope * slope + 1.0))
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(size):
                    a, b = matrix[k, p], matrix[k, q]
                    matrix[k, p], matrix[k, q] = c * a - s * b, s * a + c * b
                for k in range(size):
                    a, b = matrix[p, k], matrix[q, k]
                    matrix[p, k], matrix[q, k] = c * a - s * b, s * a + c * b
                    a, b = vectors[k, p], vectors[k, q]
                    vectors[k, p], vectors[k, q] = c * a - s * b, s * a + c * b
        if not turned:
            return


@strict
def _compose(values: Any, vectors: Any, out: Any) -> None:
    """Fill in vectors diag(values) vectors'."""
    size = out.shape[0]
    for i in range(size):
        for j in range(size):
            total = 0.0
            for k in range(size):
                total += vectors[i, k] * values[k] * vectors[j, k]
            out[i, j] = total
