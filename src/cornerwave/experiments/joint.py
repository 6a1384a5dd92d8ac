"""Errors of linear estimates, for any number of copies, from one pass over the rows.

    Xhat = c + A Y         mean of (Xhat - X)^2 = diag(B J B') + (B m + c)^2,  B = [-I A]

m and J are the mean and covariance of the row [X, Y_1, ..., Y_M], so an average over
all rows is a quadratic form. The adversary's knowledge enters through A and c:

    perfect      one weight per copy, w = (11' + Sigma)^-1 1, and the true mean
    sampled      K_XY and K_Y of the stacked copies, measured on n rows
    structured   the mean measured on n rows; w, which needs no K at all
    hindsight    the best A and c for these very rows: no linear estimate does better
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import combination


@dataclass(frozen=True, eq=False)
class Joint:
    """Moments of the rows [X, Y_1, ..., Y_M]; errors are shares of each column's variance."""

    columns: int
    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, X: Floats, copies: Sequence[Floats]) -> "Joint":
        """Return the moments of X (T, N) beside its copies."""
        stacked = np.hstack([X, *copies])
        return cls(X.shape[1], stacked.mean(axis=0), np.cov(stacked.T))

    @property
    def variance(self) -> Floats:
        """The variance of each column of X, (N,)."""
        return np.diag(self.covariance)[: self.columns]

    def error(self, A: Floats, c: Floats) -> Floats:
        """Return the error of c + A Y per column, for A (N, m N) on the first m copies."""
        size = self.columns + A.shape[1]
        B = np.hstack([-np.eye(self.columns), A])
        spread = ((B @ self.covariance[:size, :size]) * B).sum(axis=1)
        return np.asarray((spread + (B @ self.mean[:size] + c) ** 2) / self.variance)

    def weighted(self, weights: Floats, mean: Floats) -> Floats:
        """Return the error of mean + sum w_i (Y_i - mean), for one weight per copy."""
        A = np.asarray(np.kron(weights[None, :], np.eye(self.columns)), dtype=np.float64)
        return self.error(A, (1 - weights.sum()) * mean)

    def perfect(self, across: Floats) -> Floats:
        """Return the error of who knows the moments of X and the noise `across` (m, m)."""
        return self.weighted(combination(across).weights, self.mean[: self.columns])

    def alone(self, copy: int, noise: float) -> Floats:
        """Return the error from one copy."""
        weights = np.zeros(copy + 1)
        weights[copy] = 1 / (1 + noise)
        return self.weighted(weights, self.mean[: self.columns])

    def hindsight(self, copies: int) -> Floats:
        """Return the least error that any linear estimate has on these rows."""
        N, size = self.columns, self.columns * (copies + 1)
        K_XY, K_Y = self.covariance[:N, N:size], self.covariance[N:size, N:size]
        A = np.asarray(np.linalg.solve(K_Y, K_XY.T).T, dtype=np.float64)
        return self.error(A, self.mean[:N] - A @ self.mean[N:size])

    def sampled(self, sample: "Sample", noise: Floats) -> Floats:
        """Return the error of who measures the moments of m copies at `noise` (m,)."""
        N, m = self.columns, len(noise)
        K_Y = sample.covariance[: m * N, : m * N]
        A = np.asarray(
            np.linalg.solve(K_Y, np.tile(_shrunk_back(K_Y, noise, N), (m, 1))).T, np.float64
        )
        mean = sample.mean[: m * N].reshape(m, N).mean(axis=0)
        return self.error(A, mean - A @ np.tile(mean, m))

    def structured(self, sample: "Sample", across: Floats) -> Floats:
        """Return the error of who measures the mean only, and knows how the noise is made."""
        N, m, worth = self.columns, len(across), combination(across)
        means = sample.mean[: m * N].reshape(m, N)
        return self.weighted(worth.weights, worth.coefficients @ means)


@dataclass(frozen=True, eq=False)
class Sample:
    """Moments of the stacked copies [Y_1, ..., Y_M], measured on some of the rows."""

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, copies: Sequence[Floats], rows: Ints) -> "Sample":
        """Measure the copies on the rows at these positions."""
        stacked = np.hstack([copy[rows] for copy in copies])
        return cls(stacked.mean(axis=0), np.cov(stacked.T))


def _shrunk_back(K_Y: Floats, noise: Floats, columns: int) -> Floats:
    """Return K as the mean of each copy's own covariance over 1 + v."""
    blocks = [slice(i * columns, (i + 1) * columns) for i in range(len(noise))]
    shrunk = [K_Y[b, b] / (1 + v) for b, v in zip(blocks, noise, strict=True)]
    return np.asarray(np.mean(shrunk, axis=0))


def spread_of_error(weights: Floats, across: Floats, *, rows: int) -> float:
    """Return the standard deviation of a measured error, as a share of the variance.

    The table is fixed and the noise g ~ N(0, q K) is not: the error's mean square has
    variance (2 q^2 + 4 (1 - s)^2 q) / T, with s = sum w, q = w' Sigma w.
    """
    s, q = float(weights.sum()), float(weights @ across @ weights)
    return float(np.sqrt((2 * q**2 + 4 * (1 - s) ** 2 * q) / rows))
