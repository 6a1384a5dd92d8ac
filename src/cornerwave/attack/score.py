"""How well an estimate does: squared error as a share of each column's variance.

    error = 1/T sum_t (xhat_t - x_t)^2 / Var(x)          1: knows only the mean; 0: knows X

Every number carries its interval: normal, from the spread of the rows' own errors.
A gain is the mean of paired differences, row by row, so that what two estimates
share cancels before the interval is taken.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import SourceError

CONFIDENCE = 0.99
"""How often the interval covers the truth, unless the caller says otherwise."""

ROUNDING = 1e-9
"""A difference of errors below this share of the variance is rounding, not a gain."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A mean over rows, and the half width of its interval.

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
        return self.low > ROUNDING

    @classmethod
    def of(cls, rows: Floats, *, confidence: float = CONFIDENCE) -> "Measured":
        """Return the mean of one number per row, shape (T,), with its interval."""
        quantile = NormalDist().inv_cdf((1 + confidence) / 2)
        spread = float(rows.std(ddof=1)) if len(rows) > 1 else float("inf")
        return cls(float(rows.mean()), quantile * spread / len(rows) ** 0.5)


def row_errors(X: Any, estimate: Any, *, variance: Any = None) -> Floats:
    """Return each cell's squared error as a share of its column's variance, shape (T, N).

    X, estimate: (T, N); variance: (N,), by default that of X. A constant column
    counts as it is, in squared units. Raises SourceError if the shapes differ.
    """
    X, estimate = np.asarray(X, dtype=np.float64), np.asarray(estimate, dtype=np.float64)
    if X.ndim != 2 or X.shape != estimate.shape:
        raise SourceError(f"truth of shape {X.shape} against an estimate of {estimate.shape}")
    variance = X.var(axis=0, ddof=1) if variance is None else np.asarray(variance)
    return np.asarray((estimate - X) ** 2 / np.where(variance > 0, variance, 1.0))


def column_errors(
    X: Any, estimate: Any, *, variance: Any = None, confidence: float = CONFIDENCE
) -> list[Measured]:
    """Return the normalised error of each column, with its interval.

    >>> X = np.array([[0.0], [2.0]])
    >>> [e.value for e in column_errors(X, np.array([[1.0], [1.0]]))]
    [0.5]
    """
    errors = row_errors(X, estimate, variance=variance)
    return [Measured.of(column, confidence=confidence) for column in errors.T]


def error(
    X: Any, estimate: Any, *, variance: Any = None, confidence: float = CONFIDENCE
) -> Measured:
    """Return the normalised error, each column with the same weight.

    >>> X = np.array([[0.0, 1.0], [2.0, 5.0]])
    >>> error(X, X).value
    0.0
    """
    rows = row_errors(X, estimate, variance=variance).mean(axis=1)
    return Measured.of(rows, confidence=confidence)


def gain(
    X: Any, *, alone: Any, together: Any, variance: Any = None, confidence: float = CONFIDENCE
) -> Measured:
    """Return by how much the second estimate's error is below the first's, row by row.

    >>> X = np.array([[0.0], [2.0]])
    >>> gain(X, alone=np.ones((2, 1)), together=X).value
    0.5
    """
    before = row_errors(X, alone, variance=variance)
    after = row_errors(X, together, variance=variance)
    return Measured.of((before - after).mean(axis=1), confidence=confidence)
