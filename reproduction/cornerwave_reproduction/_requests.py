"""Copies requested one by one (Experiment 1), and errors of linear estimates from them.

M requests arrive at noise drawn uniformly from [0.25, 1]. Our copies are generated on
demand, each given the copies before it (Algorithm 3); the others independently. The
average error over all rows of an estimate from the first m copies is a quadratic form,

    Xhat = c + A Y         mean of (Xhat - X)^2 = diag(B J B') + (B mu + c)^2,  B = [-I A]

with the mean mu and covariance J of the rows [X, Y_1, ..., Y_M], so one pass over the
rows serves every m and every adversary. What the adversary knows decides A and c:

    perfect      one weight per copy, w = (11' + Sigma)^-1 1, and the true mean
    sampled      K_XY and K_Y of the stacked copies, measured on n rows
    structured   the mean measured on n rows; w, which does not depend on K
    hindsight    the best A and c for these very rows: the lower bound of all linear estimates
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cornerwave.algorithms import corner_wave, on_demand
from cornerwave.arrays import Floats
from cornerwave.attack import combination
from cornerwave_reproduction._input_table import InputTable
from cornerwave_reproduction._part import Setting
from cornerwave_reproduction._schemes import Independent

LOWEST, HIGHEST = 0.25, 1.0


@dataclass(frozen=True, eq=False)
class Issued:
    """Copies of one scheme, M times (T, N); their noise has covariance across (M, M) (x) K."""

    copies: list[Floats]
    across: Floats

    def first(self, m: int) -> "Issued":
        """Return the first m copies."""
        return Issued(self.copies[:m], self.across[:m, :m])


@dataclass(frozen=True, eq=False)
class Requests:
    """The noise (M,) of each request in order, and the copies of both schemes."""

    noise: Floats
    ours: Issued
    independent: Issued

    @property
    def schemes(self) -> dict[str, Issued]:
        """Both schemes by name."""
        return {"ours": self.ours, "independent": self.independent}


def requested(setting: Setting) -> Requests:
    """Return the copies of a setting; the parts of one run share them."""
    return _requested(setting.table, setting.seed, setting.effort.copies)


@lru_cache(maxsize=1)
def _requested(table: InputTable, seed: int, copies: int) -> Requests:
    X, rng = table.rows, np.random.default_rng([seed, 2])
    noise = rng.uniform(LOWEST, HIGHEST, copies)
    independent = Independent().copies(X, noise=noise.tolist(), unsafe_seed=seed)
    return Requests(
        noise,
        Issued(one_by_one(X, noise, seed=seed), corner_wave(noise.tolist())),
        Issued(independent, np.diag(noise)),
    )


def one_by_one(X: Floats, noise: Floats, *, seed: int) -> list[Floats]:
    """Return copies of X (T, N), each generated on demand given all before it."""
    given: dict[float, Floats] = {}
    for level in noise.tolist():
        [given[level]] = on_demand(X, noise=[level], given=given, unsafe_seed=seed)
    return list(given.values())


@dataclass(frozen=True, eq=False)
class StackedMoments:
    """Mean and covariance of several tables side by side, row by row."""

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, tables: Sequence[Floats]) -> "StackedMoments":
        """Measure tables of the same number of rows."""
        rows = np.hstack(tables)
        return cls(rows.mean(axis=0), np.cov(rows.T))


@dataclass(frozen=True, eq=False)
class Joint:
    """Moments of the rows [X, Y_1, ..., Y_M]; errors are shares of each column's variance."""

    columns: int
    moments: StackedMoments

    @classmethod
    def of(cls, X: Floats, copies: Sequence[Floats]) -> "Joint":
        """Measure X (T, N) beside its copies."""
        return cls(X.shape[1], StackedMoments.of([X, *copies]))

    @property
    def mean(self) -> Floats:
        """The mean of X, (N,)."""
        return self.moments.mean[: self.columns]

    def error(self, A: Floats, c: Floats) -> Floats:
        """Return the error of c + A Y per column, for A (N, m N) on the first m copies."""
        N, size = self.columns, self.columns + A.shape[1]
        J, mu = self.moments.covariance[:size, :size], self.moments.mean[:size]
        B = np.hstack([-np.eye(N), A])
        spread = ((B @ J) * B).sum(axis=1)  # diag(B J B'), without the rest of the matrix
        return np.asarray((spread + (B @ mu + c) ** 2) / np.diag(J)[:N])

    def weighted(self, weights: Floats, mean: Floats) -> Floats:
        """Return the error of mean + sum w_i (Y_i - mean), for one weight per copy."""
        A = np.asarray(np.kron(weights[None, :], np.eye(self.columns)), dtype=np.float64)
        return self.error(A, (1 - weights.sum()) * mean)

    def perfect(self, across: Floats) -> Floats:
        """Return the error if the moments of X and the noise `across` (m, m) are known."""
        return self.weighted(combination(across).weights, self.mean)

    def alone(self, copy: int, noise: float) -> Floats:
        """Return the error from one copy."""
        weights = np.zeros(copy + 1)
        weights[copy] = 1 / (1 + noise)
        return self.weighted(weights, self.mean)

    def hindsight(self, copies: int) -> Floats:
        """Return the least error of any linear estimate on these rows."""
        N, size = self.columns, self.columns * (copies + 1)
        J, mu = self.moments.covariance, self.moments.mean
        # Least squares on these rows: A = K_XY K_Y^-1, with the moments of the rows themselves.
        A = np.asarray(np.linalg.solve(J[N:size, N:size], J[N:size, :N]).T, dtype=np.float64)
        return self.error(A, self.mean - A @ mu[N:size])

    def sampled(self, sample: StackedMoments, noise: Floats) -> Floats:
        """Return the error if the moments of m copies at `noise` (m,) come from a sample."""
        N, m = self.columns, len(noise)
        K_Y = sample.covariance[: m * N, : m * N]
        # Cov(X, Y_i) = K for every copy; Cov(Y_i) = (1 + v_i) K gives an estimate of K each.
        blocks = [K_Y[i * N : (i + 1) * N, i * N : (i + 1) * N] for i in range(m)]
        K = np.mean([block / (1 + v) for block, v in zip(blocks, noise, strict=True)], axis=0)
        A = np.asarray(np.linalg.solve(K_Y, np.tile(K, (m, 1))).T, dtype=np.float64)
        mean = sample.mean[: m * N].reshape(m, N).mean(axis=0)
        return self.error(A, mean - A @ np.tile(mean, m))

    def structured(self, sample: StackedMoments, across: Floats) -> Floats:
        """Return the error if the noise `across` is known and only the mean is sampled."""
        N, m, worth = self.columns, len(across), combination(across)
        means = sample.mean[: m * N].reshape(m, N)
        return self.weighted(worth.weights, worth.coefficients @ means)


def spread_of_error(across: Floats, *, rows: int) -> float:
    """Return the standard deviation of the measured error of the best linear estimate.

    As a share of the variance. The table is fixed, the noise g ~ N(0, q K) is random: the
    mean square of (1 - s) (x - mu) + g has variance (2 q^2 + 4 (1 - s)^2 q) / T, with
    s = sum w, q = w' Sigma w.
    """
    weights = combination(across).weights
    s, q = float(weights.sum()), float(weights @ across @ weights)
    return float(np.sqrt((2 * q**2 + 4 * (1 - s) ** 2 * q) / rows))
