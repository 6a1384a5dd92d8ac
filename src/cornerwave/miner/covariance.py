"""Mean, covariance and correlation of the original from the moments of a copy.

    Y = X + W, W ~ N(0, v K):     E mean(Y) = mean(X),     E Cov(Y) = C = (1 + v) K

so K = C / (1 + v) between two perturbed columns and C where one of them was kept.
Variances that grew by rounding are taken back first (`rounding`). K is the table's own
sample covariance, so given the table S = Cov(Y) is unbiased for (1 + v) K exactly, and

    n Cov(S_ab, S_cd | table) = g_abcd(C) - g_abcd(K),   g_abcd(M) = M_ac M_bd + M_ad M_bc

whatever the distribution of X: the noise is normal. A table of n rows adds
(k_abcd + g_abcd(K)) / n with the fourth cumulant k of X, which is that of Y: normal
noise has none. (A negative k, which shortens intervals, is believed only where it is
two standard errors below 0: under much noise it is known badly.) Treating the rows of Y
as independent and their noise as known would count Var(S_X) / (1 + v)^2 instead of
Var(S_X), and intervals would be too short.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner.columns import Column
from cornerwave.miner.estimate import Estimates, Of, estimates
from cornerwave.miner.rounding import unrounded, warn_of_coarse
from cornerwave.moments import Moments


def gather(blocks: Iterable[Floats], names: Sequence[str]) -> Moments:
    """Return the moments of blocks of rows; raise ColumnError if a column is empty."""
    moments = reduce(add, map(Moments.of, blocks), Moments.of(np.empty((0, len(names)))))
    few = [name for name, count in zip(names, moments.present, strict=True) if count < 2]
    if few:
        raise ColumnError(f"{', '.join(map(repr, few))}: fewer than two rows have a value")
    return moments


def growth(columns: Sequence[Column]) -> Floats:
    """Return by which factor (N x N) noise grew each covariance."""
    perturbed = np.array([column.noise > 0 for column in columns])
    noise = max((column.noise for column in columns), default=0.0)
    return np.where(np.outer(perturbed, perturbed), 1.0 + noise, 1.0)


def undo(covariance: Floats, columns: Sequence[Column]) -> Floats:
    """Return the original's covariance K (N x N) from that of the copy.

    >>> undo(np.array([[8.0, 2.0], [2.0, 4.0]]), [Column("a", True, 1.0), Column("b", True, 1.0)])
    array([[4., 1.],
           [1., 2.]])
    """
    return np.asarray(unrounded(covariance, columns) / growth(columns))


def mean(moments: Moments, columns: Sequence[Column], of: Of) -> Estimates:
    """Return the mean of each column."""
    observed = np.diag(moments.covariance)
    original = np.diag(undo(moments.covariance, columns))
    variance = observed - (original if of == "table" else 0.0)
    return estimates((_names(columns),), moments.mean, variance / moments.present)


@dataclass(frozen=True)
class Fourth:
    """Fourth moments of standardised columns u, N x N: E u_i^2 u_j^2 and E u_i^3 u_j."""

    two_two: Floats
    three_one: Floats

    @classmethod
    def of(cls, blocks: Iterable[Floats], moments: Moments) -> "Fourth":
        """Average over the rows that have both columns."""
        scale = np.where(moments.deviation > 0, moments.deviation, 1.0)
        two_two = np.zeros_like(moments.count)
        three_one = np.zeros_like(moments.count)
        for block in blocks:
            u = np.nan_to_num((block - moments.mean) / scale)
            two_two += (u**2).T @ u**2
            three_one += (u**3).T @ u
        rows = np.maximum(moments.count, 1)
        return cls(two_two / rows, three_one / rows)


def covariance(
    moments: Moments, fourth: Fourth | None, columns: Sequence[Column], of: Of
) -> Estimates:
    """Return the covariance matrix; `fourth` is needed for a population alone."""
    warn_of_coarse(moments.covariance, columns, moments.rows)
    spread = _Spread.of(moments, fourth, columns, of)
    scale = np.outer(spread.scale, spread.scale)
    one, zero = np.ones_like(scale), np.zeros_like(scale)
    variance = spread.variance(one, zero, zero) * scale**2
    names = _names(columns)
    return estimates((names, names), undo(moments.covariance, columns), variance)


def correlation(
    moments: Moments, fourth: Fourth | None, columns: Sequence[Column], of: Of
) -> Estimates:
    """Return the correlation matrix; a constant column has none, and gets NaN.

    d r = d K_ij - r/2 (d K_ii + d K_jj) for columns of variance 1.
    """
    warn_of_coarse(moments.covariance, columns, moments.rows)
    spread = _Spread.of(moments, fourth, columns, of)
    variances = np.diag(spread.original)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(np.outer(variances, variances))
        r = spread.original / size
        own, other = np.broadcast_arrays(variances[:, None], variances[None, :])
        variance = spread.variance(1 / size, -r / 2 / own, -r / 2 / other)
    np.fill_diagonal(r, np.where(variances > 0, 1.0, np.nan))
    np.fill_diagonal(variance, np.where(variances > 0, 0.0, np.nan))
    names = _names(columns)
    return estimates((names, names), r, variance)


@dataclass(frozen=True)
class _Spread:
    """How (K_ij, K_ii, K_jj) vary together, for all pairs, in units of the copy's deviations."""

    scale: Floats
    copy: Floats
    original: Floats
    growth: Floats
    rows: Floats
    fourth: Fourth | None

    @classmethod
    def of(
        cls, moments: Moments, fourth: Fourth | None, columns: Sequence[Column], of: Of
    ) -> "_Spread":
        scale = np.where(moments.deviation > 0, moments.deviation, 1.0)
        units = np.outer(scale, scale)
        return cls(
            scale,
            moments.covariance / units,
            undo(moments.covariance, columns) / units,
            growth(columns),
            np.maximum(moments.count, 1),
            fourth if of == "population" else None,
        )

    def variance(self, both: Floats, own: Floats, other: Floats) -> Floats:
        """Return the variance of both * K_ij + own * K_ii + other * K_jj, for all i, j."""
        alone = np.diag(self.growth)
        weights = (both / self.growth, own / alone[:, None], other / alone[None, :])
        noise = _normal(self.copy, *weights) - _normal(self.original, *weights)
        if self.fourth is None:
            return noise / self.rows
        cumulant = self._cumulant(both, own, other)
        # Var(cumulant) = 24/n in one normal column of variance 1, whose S has variance 2/n
        error = np.sqrt(6 / self.rows) * _normal(self.copy, both, own, other)
        believed = np.where(cumulant < -2 * error, cumulant, np.maximum(cumulant, 0.0))
        table = believed + _normal(self.original, both, own, other)
        return (noise + np.maximum(table, 0.0)) / self.rows

    def _cumulant(self, both: Floats, own: Floats, other: Floats) -> Floats:
        assert self.fourth is not None
        C, first = self.copy, np.diag(self.copy)[:, None]
        two_two = self.fourth.two_two - first * first.T - 2 * C**2
        three_one = self.fourth.three_one - 3 * first * C
        four = np.diag(two_two)
        return np.asarray(
            both**2 * two_two
            + own**2 * four[:, None]
            + other**2 * four[None, :]
            + 2 * both * (own * three_one + other * three_one.T)
            + 2 * own * other * two_two
        )


def _normal(M: Floats, both: Floats, own: Floats, other: Floats) -> Floats:
    """Return Var(both * S_ij + own * S_ii + other * S_jj) n for normal rows of covariance M."""
    i, j = np.diag(M)[:, None], np.diag(M)[None, :]
    return np.asarray(
        both**2 * (i * j + M**2)
        + 2 * (own * i) ** 2
        + 2 * (other * j) ** 2
        + 4 * both * M * (own * i + other * j)
        + 4 * own * other * M**2
    )


def _names(columns: Sequence[Column]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
