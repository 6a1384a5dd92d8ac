"""What noise of a covariance K takes: a lower triangular factor, singular or not, and a grid.

    K = L L'
    copy = (rint(x / g) + rint(w / g)) g,   g a power of two, about 2^-24 of the deviation

A constant column has a zero row in L, a column that follows from those before it a zero on
the diagonal. The arithmetic is strict: the noise depends on every bit of L.

On the grid the low bits of copies reveal nothing (Mironov 2012). The value in steps is whole, so
rounding the noise rounds their sum: a copy on the grid is a function of the raw copy of the table
on the grid. g is the same for every level.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats
from cornerwave.errors import SingularCovariance, SourceError, spelled, warn

RANK_TOLERANCE = 2.0**-48
"""A column follows from others if less than this share of its variance is its own. Copies lie on
a grid of 2^-24 of a deviation, so a larger share shows, and must be hidden."""

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
            warn(
                f"{_names(columns, self.constant)}: constant, so noise shaped like the table "
                "leaves the value as it is; drop the column if nobody should see it",
                kind=SingularCovariance,
                stacklevel=3,
            )
        if self.dependent:
            warn(
                f"{_names(columns, self.dependent)}: a linear function of the columns before; "
                "its noise is the same function of theirs",
                kind=SingularCovariance,
                stacklevel=3,
            )


def _names(columns: list[str], which: tuple[int, ...]) -> str:
    names = ", ".join(spelled(columns[i]) for i in which)
    return ("column " if len(which) == 1 else "columns ") + names


def factor(covariance: Any) -> Factor:
    """Factor a covariance matrix, singular or not.

    A matrix that is not positive semidefinite, as missing values can make it, is replaced by
    its absolute value: a direction without noise would show what it should hide.

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
    # factored as a correlation, so that RANK_TOLERANCE is a share of each column's own variance
    scale, correlation = _standardised(covariance)
    if is_indefinite(correlation):
        correlation = absolute(correlation)
    correlation, lower = np.ascontiguousarray(correlation), np.zeros(correlation.shape)
    follows = np.zeros(len(lower), dtype=np.bool_)
    _core.factor_correlation(correlation, scale > 0, RANK_TOLERANCE, lower, follows)
    return Factor(
        lower * scale[:, None],
        constant=tuple(np.flatnonzero(scale == 0).tolist()),
        dependent=tuple(np.flatnonzero(follows).tolist()),
    )


def noise_shape(pairwise: Floats, complete: Floats | None = None) -> Floats:
    """Return the least noise shape found that covers rows with and without missing values.

    `pairwise` is K by the rows that have both columns, which missing values can make
    indefinite; `complete` is that of the rows that miss nothing. With A >= B if A - B is
    positive semidefinite, noise v S hides v/(1+v) of every column from every linear estimate
    in rows of covariance C if S >= C. So S is an upper bound of both:

        |P| >= P          with the absolute values of P's eigenvalues
        A + (B - A)+      >= A, B          (+: eigenvalues below 0 left out)
    """
    scale, shape = _standardised(pairwise)
    if is_indefinite(shape):
        shape = absolute(shape)
    if complete is not None:
        divisor = np.where(scale > 0, scale, 1.0)
        # A + (B - A)+ is above both: less B it is (B - A)+ - (B - A), less A it is (B - A)+
        shape = shape + positive(complete / np.outer(divisor, divisor) - shape)
    return np.asarray(shape * np.outer(scale, scale))


def _standardised(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the deviations, and the matrix on their scale; a constant column keeps its zeros."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    divisor = np.where(scale > 0, scale, 1.0)
    return scale, covariance / np.outer(divisor, divisor)


def is_indefinite(correlation: Floats) -> bool:
    """Return whether an eigenvalue lies below 0 by more than rounding explains."""
    # the eigenvalues of an n x n correlation sum to n, so what rounding leaves grows with n
    least = np.linalg.eigvalsh(correlation).min(initial=0.0)
    return bool(least < -len(correlation) * RANK_TOLERANCE)


def absolute(matrix: Floats) -> Floats:
    """Return the symmetric matrix with the absolute values of the eigenvalues."""
    return _with_spectrum(matrix, np.abs)


def positive(matrix: Floats) -> Floats:
    """Return the symmetric matrix without its negative eigenvalues."""
    return _with_spectrum(matrix, lambda values: np.maximum(values, 0.0))


def _with_spectrum(matrix: Floats, change: Callable[[Floats], Floats]) -> Floats:
    # V f(l) V' by Jacobi rotations in a fixed order: the same bits on every machine, unlike LAPACK
    values, vectors = np.array(matrix, order="C"), np.eye(len(matrix))
    _core.diagonalise(values, vectors, SWEEPS)
    changed = np.zeros(matrix.shape)
    _core.compose(change(np.diag(values).copy()), vectors, changed)
    return changed


# --------------------------------------------------------------------------------------------------
# The grid.


GRID_BITS = 24
"""Copies lie on a grid of about 2^-24 of a column's standard deviation."""

COARSEST = 2.0**-8
"""A grid coarser than this share of the deviation swallows the noise of the lowest levels."""


def grid_of(*, deviation: Floats, largest: Floats) -> Floats:
    """Return the step of each column's grid, a power of two; 0 for a constant column.

    From its deviation, and coarser where its largest |x| is so far from zero that doubles
    are: then a value and its noise are whole numbers of steps that add up exactly.

    >>> grid_of(deviation=np.array([1.0, 0.0]), largest=np.array([2.0, 5.0])) == [2**-24, 0]
    array([ True,  True])
    """
    fine = np.frexp(deviation)[1] - 1 - GRID_BITS
    coarse = np.frexp(largest)[1] - 51
    return np.where(deviation > 0, np.ldexp(1.0, np.maximum(fine, coarse)), 0.0)


def add_noise_on_grid(x: Floats, noise: Floats, grid: Floats) -> Floats:
    """Return x + noise, both (columns, rows), as whole numbers of each column's grid steps."""
    steps = np.where(grid > 0, grid, 1.0)[:, None]
    per_step = 1.0 / steps
    on_grid = (np.rint(x * per_step) + np.rint(noise * per_step)) * steps
    return np.where(grid[:, None] > 0, on_grid, x)  # a constant column stays as it is
