"""The best linear estimate of X from any set of copies (LLSE), with its exact error.

    Y_i = X + Z_i,   Cov(Z) = Sigma (x) S           Sigma: across copies, S: across columns

A set of copies is worth one copy: with a = argmin a'Sigma a over sum(a) = 1,

    sum_i a_i Y_i = X + noise of covariance t S,    t = a'Sigma a

and, for Gaussian noise, nothing else in the set says more about X. Where noise is
shaped like the table, S = K, this is the weight per copy

    w = (11' + Sigma)^-1 1 = a / (1 + t),   Xhat = mu + sum w_i (Y_i - mu),   error (1 - w'1) K.

Independent noise has 1/t = sum 1/v_i (Theorem 3 of the paper), the corner wave
t = min v_i with all weight on that copy (Theorem 4), scaled noise t = 0. Noise of any
other covariance C over all cells of a row takes the general form, with H = 1 (x) I:

    Xhat = mu + K H' (H K H' + C)^-1 (Y - H mu),    error K - K H' (H K H' + C)^-1 H K.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import SourceError

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest are none: copies that repeat each other."""

NEGLIGIBLE = 1e-9
"""A coefficient below this is the rounding of a zero."""

ROUNDING = 1e-13
"""A sum below this share of its terms is the rounding of a zero."""


@dataclass(frozen=True)
class Combination:
    """The one copy that a set of copies is worth: coefficients (M,) that sum to 1."""

    coefficients: Floats
    noise: float

    @property
    def weights(self) -> Floats:
        """The LLSE weight of each copy where noise is shaped like the table."""
        return self.coefficients / (1 + self.noise)

    def of(self, copies: Sequence[Any]) -> Floats:
        """Return the combined copy of a block of rows, (T, N) from M times (T, N).

        Copies that count for nothing are not read.
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
    coefficients[np.abs(coefficients) < NEGLIGIBLE] = 0.0
    coefficients /= coefficients.sum()
    noise = float(coefficients @ across @ coefficients)
    terms = float(np.abs(coefficients) @ np.abs(across) @ np.abs(coefficients))
    return Combination(coefficients, noise if noise > ROUNDING * terms else 0.0)


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
        noise = worth.noise * _square(shape, "the noise's shape")
        one = cls.general(mean, covariance, noise=noise)
        return cls(mean, worth.coefficients[:, None, None] * one.weights, one.error)

    @classmethod
    def general(cls, mean: Any, covariance: Any, *, noise: Any) -> "Llse":
        """Return the LLSE for noise of any covariance (M N, M N), copy after copy.

        Cell (i N + n) is column n of copy i. Raises SourceError if the size of `noise`
        is no multiple of N.

        >>> Llse.general([10.0], [[1.0]], noise=[[1, 0], [0, 4]]).error.round(6).tolist()
        [[0.444444]]
        """
        mean, covariance = _moments(mean, covariance)
        noise = _square(noise, "the noise of all copies")
        columns = len(mean)
        copies, rest = divmod(len(noise), columns)
        if rest or not copies:
            raise SourceError(f"noise of {len(noise)} cells does not fit {columns} columns")
        stacked = np.tile(covariance, (copies, 1))
        gain = stacked.T @ _inverse(np.tile(covariance, (copies, copies)) + noise)
        weights = gain.reshape(columns, copies, columns).transpose(1, 0, 2)
        return cls(mean, weights, covariance - gain @ stacked)

    def estimate(self, copies: Sequence[Any]) -> Floats:
        """Return Xhat of a block of rows: (T, N) from M copies of shape (T, N).

        Raises SourceError if there are not as many copies as weights.
        """
        _check_count(len(self.weights), copies)
        estimate: Any = self.mean
        for weight, copy in zip(self.weights, copies, strict=True):
            away = np.asarray(copy, dtype=np.float64) - self.mean
            estimate = estimate + (weight * away if weight.ndim == 0 else away @ weight.T)
        return np.asarray(estimate)

    def stream(self, blocks: Iterable[Sequence[Any]]) -> Iterator[Floats]:
        """Yield the estimate of one block after another; a block is one array per copy."""
        return map(self.estimate, blocks)


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse, or pseudo-inverse, of a covariance in any units."""
    size = np.diag(matrix)
    scale = np.sqrt(np.outer(*[np.where(size > 0, size, 1.0)] * 2))
    return np.linalg.pinv(matrix / scale, rcond=RANK_TOLERANCE, hermitian=True) / scale


def _moments(mean: Any, covariance: Any) -> tuple[Floats, Floats]:
    mean = np.atleast_1d(np.asarray(mean, dtype=np.float64))
    covariance = _square(covariance, "the covariance")
    if mean.shape != (len(covariance),):
        raise SourceError(f"a mean of shape {mean.shape}, a covariance of {covariance.shape}")
    return mean, covariance


def _square(matrix: Any, what: str) -> Floats:
    matrix = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise SourceError(f"{what} must be a square matrix, not of shape {matrix.shape}")
    return np.asarray(matrix)


def _check_count(known: int, copies: Sequence[Any]) -> None:
    if known != len(copies):
        raise SourceError(f"{len(copies)} copies were given, the estimator is for {known}")
