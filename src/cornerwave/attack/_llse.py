"""The best linear estimate of X from any set of copies (LLSE), with its exact error.

    Y_i = X + Z_i,   Cov(Z) = Sigma (x) S           Sigma: across copies, S: across columns

A set of copies is worth one copy: with a = argmin a'Sigma a over sum(a) = 1,

    sum_i a_i Y_i = X + noise of covariance t S,    t = a'Sigma a

and, for Gaussian noise, nothing else in the set reveals more about X. If the noise is
shaped like the table, S = K, this gives one weight per copy:

    w = (11' + Sigma)^-1 1 = a / (1 + t),   Xhat = mu + sum w_i (Y_i - mu),   error (1 - w'1) K.

Independent noise has 1/t = sum 1/v_i (Theorem 3 of the paper), the corner wave
t = min v_i with all weight on that copy (Theorem 4), scaled noise t = 0. Noise of any
other covariance C over all cells of a row takes the general form, with H = 1 (x) I:

    Xhat = mu + K H' (H K H' + C)^-1 (Y - H mu),    error K - K H' (H K H' + C)^-1 H K.

The adversary knows everything except the key and X: `Knowledge` holds mu, K and the
covariance of the noise. It may have measured mu and K on a sample of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.errors import SourceError
from cornerwave.privacy import REPEATED

NO_COEFFICIENT = 1e-9
"""A coefficient below this is a rounded zero."""

ROUNDED_ZERO = 1e-13
"""A sum below this share of its terms is a rounded zero."""

PAPER_SAMPLES = (100, 200, 300)
"""Rows per entry of K that the paper's adversaries estimate it from."""


@dataclass(frozen=True)
class Combination:
    """The one copy that a set of copies is worth: coefficients (M,) that sum to 1."""

    coefficients: Floats
    noise: float

    @property
    def weights(self) -> Floats:
        """The LLSE weight of each copy if the noise is shaped like the table."""
        return self.coefficients / (1 + self.noise)

    def of(self, copies: Sequence[Any]) -> Floats:
        """Return the combined copy of a block of rows, (T, N) from M times (T, N).

        Copies with coefficient 0 are not read.
        """
        _check_count(len(self.coefficients), copies)
        counted = [(a, Y) for a, Y in zip(self.coefficients, copies, strict=True) if a != 0]
        combined = counted[0][0] * np.asarray(counted[0][1], dtype=np.float64)
        for coefficient, copy in counted[1:]:
            combined += coefficient * np.asarray(copy, dtype=np.float64)
        return np.asarray(combined)


def combination(across: Any) -> Combination:
    """Return what copies with noise `across` (M, M), in units of K, are worth together.

    `across` may be singular. Raises SourceError if it is not a square matrix.

    >>> combination([[1, 1], [1, 4]])
    Combination(coefficients=array([1., 0.]), noise=1.0)
    >>> combination([[1, 2], [2, 4]]).noise
    0.0
    """
    across = _square(across, "the noise across copies")
    weights = _inverse(1 + across).sum(axis=1)
    coefficients = weights / weights.sum()
    # Exact zeros matter: a copy without weight must not be read.
    coefficients[np.abs(coefficients) < NO_COEFFICIENT] = 0.0
    coefficients /= coefficients.sum()
    noise = float(coefficients @ across @ coefficients)
    terms = float(np.abs(coefficients) @ np.abs(across) @ np.abs(coefficients))
    return Combination(coefficients, noise if noise > ROUNDED_ZERO * terms else 0.0)


@dataclass(frozen=True)
class Llse:
    """A linear estimator that knows its exact error; apply it to blocks of any size.

    `weights`: (M,), one per copy, or (M, N, N), one matrix per copy. `error`: (N, N),
    the covariance of Xhat - X.

    >>> alice_and_bob = Llse.of([10.0], [[1.0]], across=[[1, 0], [0, 4]])
    >>> alice_and_bob.error.round(6).tolist(), alice_and_bob.weights.round(6).tolist()
    ([[0.444444]], [0.444444, 0.111111])
    """

    mean: Floats
    weights: Floats
    error: Floats

    @classmethod
    def of(cls, mean: Any, covariance: Any, *, across: Any, shape: Any = None) -> "Llse":
        """Return the LLSE for noise of covariance `across` (x) `shape`.

        mean: (N,); covariance: K (N, N); across: Sigma (M, M); shape: (N, N), by default
        K itself, which gives one weight per copy.

        >>> Llse.of([10.0], [[1.0]], across=[[1, 1], [1, 4]]).error.tolist()
        [[0.5]]
        """
        mean, covariance = _moments(mean, covariance)
        worth = combination(across)
        if shape is None:
            left = worth.noise / (1 + worth.noise)
            return cls(mean, worth.weights, left * covariance)
        # All copies are worth one copy with noise t S, so invert (N, N), not (M N, M N).
        noise = worth.noise * _square(shape, "the noise's shape")
        one = cls.general(mean, covariance, noise=noise)
        return cls(mean, worth.coefficients[:, None, None] * one.weights, one.error)

    @classmethod
    def general(cls, mean: Any, covariance: Any, *, noise: Any) -> "Llse":
        """Return the LLSE for noise of any covariance (M N, M N), copy after copy.

        Cell (i N + n) is column n of copy i. Raises SourceError if the size of `noise`
        is not a multiple of N.

        >>> Llse.general([10.0], [[1.0]], noise=[[1, 0], [0, 4]]).error.round(6).tolist()
        [[0.444444]]
        """
        mean, covariance = _moments(mean, covariance)
        noise = _square(noise, "the noise of all copies")
        columns = len(mean)
        copies, rest = divmod(len(noise), columns)
        if rest or not copies:
            raise SourceError(
                f"the noise covariance has {len(noise)} rows; give N rows per copy, N = {columns}"
            )
        stacked = np.tile(covariance, (copies, 1))  # H K
        gain = stacked.T @ _inverse(np.tile(covariance, (copies, copies)) + noise)
        weights = gain.reshape(columns, copies, columns).transpose(1, 0, 2)
        return cls(mean, weights, covariance - gain @ stacked)

    def estimate(self, copies: Sequence[Any]) -> Floats:
        """Return Xhat of a block of rows: (T, N) from M copies of shape (T, N).

        Raises SourceError unless there are as many copies as weights.
        """
        _check_count(len(self.weights), copies)
        estimate: Any = self.mean
        for weight, copy in zip(self.weights, copies, strict=True):
            away = np.asarray(copy, dtype=np.float64) - self.mean
            estimate = estimate + (weight * away if weight.ndim == 0 else away @ weight.T)
        return np.asarray(estimate)


@dataclass(frozen=True)
class Knowledge:
    """Mean (N,) and K (N, N) of the table, and its copies' noise: across (x) shape.

    `across` is (M, M) in units of `shape` (N, N); `shape` is None if the noise is
    shaped like the table.

    >>> Knowledge(np.zeros(1), np.eye(1), np.array([[1, 1], [1, 4]])).llse.error.tolist()
    [[0.5]]
    """

    mean: Floats
    covariance: Floats
    across: Floats
    shape: Floats | None = None

    @property
    def worth(self) -> Combination:
        """The one copy that all copies together are worth."""
        return combination(self.across)

    @property
    def noise_shape(self) -> Floats:
        """The covariance of noise 1 across columns, (N, N)."""
        return self.covariance if self.shape is None else self.shape

    @property
    def llse(self) -> Llse:
        """The best linear estimator from all copies."""
        return Llse.of(self.mean, self.covariance, across=self.across, shape=self.shape)

    def of_copies(self, which: Sequence[int]) -> "Knowledge":
        """Return the same knowledge for some of the copies, in the order given."""
        return replace(self, across=self.across[np.ix_(which, which)])


def sample_size(columns: int, *, per_entry: int) -> int:
    """Return how many rows the paper's adversary samples: per_entry N^2.

    >>> [sample_size(2, per_entry=n) for n in PAPER_SAMPLES]
    [400, 800, 1200]
    """
    return per_entry * columns**2


def sample_rows(rows: int, *, size: int, unsafe_seed: int) -> Ints:
    """Return `size` of `rows` positions at random, ascending; all if `size` is larger."""
    generator = np.random.default_rng(unsafe_seed)
    return np.sort(generator.choice(rows, size=min(size, rows), replace=False))


def whitening(covariance: Floats) -> Floats:
    """Return A (N, rank) with A'KA = I; directions without variance are left out.

    >>> whitening(np.diag([4.0, 0.0])).tolist()
    [[0.5], [0.0]]
    """
    # On the correlation scale, or a column in large units drowns the others.
    scale = np.sqrt(np.where(np.diag(covariance) > 0, np.diag(covariance), 1.0))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 2.0**-44 * values.max(initial=0.0)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None])


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse, or pseudo-inverse, of a covariance in any units."""
    size = np.diag(matrix)
    scale = np.sqrt(np.outer(*[np.where(size > 0, size, 1.0)] * 2))
    return np.linalg.pinv(matrix / scale, rcond=REPEATED, hermitian=True) / scale


def _moments(mean: Any, covariance: Any) -> tuple[Floats, Floats]:
    mean = np.atleast_1d(np.asarray(mean, dtype=np.float64))
    covariance = _square(covariance, "the covariance")
    if mean.shape != (len(covariance),):
        raise SourceError(
            f"the mean has shape {mean.shape}, the covariance {covariance.shape}; "
            "both must have one entry per column"
        )
    return mean, covariance


def _square(matrix: Any, what: str) -> Floats:
    matrix = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise SourceError(f"{what} must be a square matrix, not of shape {matrix.shape}")
    return np.asarray(matrix)


def _check_count(known: int, copies: Sequence[Any]) -> None:
    if known != len(copies):
        raise SourceError(f"got {len(copies)} copies; this estimator needs {known}")


# --------------------------------------------------------------------------------------------------
# How good an estimate is: squared error as a share of each column's variance.
#
#     error = 1/T sum_t (xhat_t - x_t)^2 / Var(x)          1: knows only the mean; 0: knows X
#
# Every figure has a normal confidence interval from the spread of the rows' own errors.
# A gain is the mean of paired differences, row by row, so that what two estimates have
# in common cancels before the interval is taken.


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
