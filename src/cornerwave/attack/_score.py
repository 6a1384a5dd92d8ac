"""How good an estimate is: squared error as a share of each column's variance.

    error = 1/T sum_t (xhat_t - x_t)^2 / Var(x)          1: knows only the mean; 0: knows X

Every figure has a normal confidence interval from the spread of the rows' own errors.
A gain is the mean of paired differences, row by row, so that what two estimates have
in common cancels before the interval is taken.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import SourceError

CONFIDENCE = 0.99
"""Default coverage of an interval."""

NEGLIGIBLE = 1e-9
"""A gain below this share of the variance is rounding."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean over rows, and the half width of its confidence interval.

    >>> Measured(0.5, 0.1).low, Measured(0.5, 0.1).above_zero
    (0.4, True)
    """

    value: float
    margin: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - self.margin

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.value + self.margin

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above zero, rounding aside."""
        return self.low > NEGLIGIBLE

    @classmethod
    def of(cls, rows: Floats, *, confidence: float = CONFIDENCE) -> "Measured":
        """Return the mean of one number per row, shape (T,), with its interval."""
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        spread = float(rows.std(ddof=1)) if len(rows) > 1 else float("inf")
        return cls(float(rows.mean()), quantile * spread / len(rows) ** 0.5)


def _row_errors(X: Any, estimate: Any, variance: Any) -> Floats:
    """Return each cell's squared error as a share of its column's variance, shape (T, N)."""
    X, estimate = np.asarray(X, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    if X.ndim != 2 or X.shape != estimate.shape:
        raise SourceError(
            f"the truth has shape {X.shape}, the estimate {estimate.shape}; "
            "both must be (rows, columns)"
        )
    variance = X.var(axis=0, ddof=1) if variance is None else np.asarray(variance)
    # A constant column has no variance to divide by: its errors count as they are.
    return np.asarray((estimate - X) ** 2 / np.where(variance > 0, variance, 1.0))


def column_errors(
    X: Any, estimate: Any, *, variance: Any = None, confidence: float = CONFIDENCE
) -> list[Measured]:
    """Return the normalised error of each column of (T, N) arrays, with its interval.

    variance: (N,), by default that of X. Raises SourceError if the shapes differ.

    >>> X = np.array([[0.0], [2.0]])
    >>> [e.value for e in column_errors(X, np.array([[1.0], [1.0]]))]
    [0.5]
    """
    errors = _row_errors(X, estimate, variance)
    return [Measured.of(column, confidence=confidence) for column in errors.T]


def error(
    X: Any, estimate: Any, *, variance: Any = None, confidence: float = CONFIDENCE
) -> Measured:
    """Return the normalised error, each column with the same weight.

    >>> X = np.array([[0.0, 1.0], [2.0, 5.0]])
    >>> error(X, X).value
    0.0
    """
    rows = _row_errors(X, estimate, variance).mean(axis=1)
    return Measured.of(rows, confidence=confidence)


def gain(
    X: Any, *, alone: Any, together: Any, variance: Any = None, confidence: float = CONFIDENCE
) -> Measured:
    """Return by how much the error of `together` is below that of `alone`, row by row.

    >>> X = np.array([[0.0], [2.0]])
    >>> gain(X, alone=np.ones((2, 1)), together=X).value
    0.5
    """
    difference = _row_errors(X, alone, variance) - _row_errors(X, together, variance)
    return Measured.of(difference.mean(axis=1), confidence=confidence)
