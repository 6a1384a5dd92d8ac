"""Mean, covariance and correlation of the original from the moments of a copy.

    Y = X + W, W ~ N(0, v K):     E mean(Y) = mean(X),     E Cov(Y) = C = (1 + v) K

so K = C / (1 + v) between two perturbed columns, and K = C if one of them was kept. K is
the table's own sample covariance, so given the table S = Cov(Y) is exactly unbiased for
(1 + v) K, and because the noise is normal, for any distribution of X

    n Cov(S_ab, S_cd | table) = g_abcd(C) - g_abcd(K),   g_abcd(M) = M_ac M_bd + M_ad M_bc

A sample of n rows adds (k_abcd + g_abcd(K)) / n with the fourth cumulant k of X, which
equals that of Y: normal noise has none. Treating the rows of Y as independent and their
noise as known would use Var(S_X) / (1 + v)^2 instead of Var(S_X): intervals too short.
With missing values all of this is of the rows that have both columns (`_pairs`).

Rounding. A column is rounded to the step h of its source, so its original is a multiple of
h, and rounding X + W gives X + D where D is W rounded, independent of X. With s the
standard deviation of W and q = exp(-2 pi^2 s^2 / h^2), the Fourier series of the rounding
error gives

    Var(D) = s^2 + h^2/12 + sum_j (-1)^j q^(j^2) (4 s^2 + h^2 / (pi j)^2)

For s > h the sum is below 2e-8 s^2 and only Sheppard's correction h^2/12 remains. For less
noise D is mostly 0 and Var(D) is summed directly. K solves K + Var(D) = Var(copy).
A column that was drawn together by a factor f before it was rounded is asked as it was before,
with the step h / f. Its original lies on no such steps: h^2 / 12 f^2 is right for s > h / f only.
Rounding also shrinks the covariance of two columns' noise, by at most the factor 4 q. That
and the kurtosis of D are not corrected; where they matter, a BiasWarning states it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner._estimates import Estimates, Of
from cornerwave.miner._metadata import CopyColumn, quoted, warn_biased
from cornerwave.moments import Moments

# --------------------------------------------------------------------------------------------------
# Moments of each pair of columns over the rows that have both, for tables with gaps.
#
# Rows with both values may differ from the others: a correlation divides by the deviations of
# these rows, not by those of the whole columns. Entry (i, j) is about column i in the rows that
# also have column j, centred there, in units of the copy's standard deviations.
#
# The noise does not know the gaps, so it has the same variance n_i in any rows. If P is the
# variance of all values of a column in the copy, n_i = p P with p = v / (1 + v), and
#
#     K_ii in these rows = C_ii in these rows - p P
#
# A figure that weighs K_ij, K_ii, K_jj by (both, own, other) is a sum over rows, of
#
#     both y_i y_j + own (1 - p r_i) y_i^2 + other (1 - p r_j) y_j^2 - 2 own p r_i d_i y_i - ...
#
# in rows that have both, r_i their share of those that have i and d_i how far their mean is
# from the column's; and of -own p r_i y_i^2 in rows that have i alone.


Weights = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Pairs:
    """Moments of pairs (N, N) each: `rows` that have both, `share` of those that have i, `away`
    the mean, `own` the variance, and the fourth moments E i^2 j^2, E i^3 j and E i^4.
    """

    rows: Floats
    share: Floats
    away: Floats
    own: Floats
    two_two: Floats
    three_one: Floats
    four: Floats

    @classmethod
    def of(cls, blocks: Iterable[Floats], moments: Moments) -> "Pairs":
        """Take blocks (rows, columns) of a copy; NaN is missing."""
        scale = np.where(moments.deviation > 0, moments.deviation, 1.0)
        sums = np.zeros((8, *moments.count.shape))
        for block in blocks:
            u = (block - moments.mean) / scale
            known = (~np.isnan(u)).astype(np.float64)
            u = np.nan_to_num(u)
            left, right = (known, u, u**2, u**3, u**4), (known, u, u**2)
            sums += [left[a].T @ right[b] for a, b in _POWERS]
        rows = np.maximum(moments.count, 1).astype(np.float64)
        d, m2, m3, m4, m11, m21, m22, m31 = sums / rows
        e, m12 = d.T, m21.T
        return cls(
            rows=rows,
            share=rows / np.maximum(moments.present, 1)[:, None],
            away=d,
            own=(m2 - d**2) * rows / np.maximum(rows - 1, 1),
            two_two=m22
            - 2 * e * m21
            - 2 * d * m12
            + e**2 * m2
            + d**2 * m2.T
            + 4 * d * e * m11
            - 3 * d**2 * e**2,
            three_one=m31 - e * m3 - 3 * d * m21 + 3 * d * e * m2 + 3 * d**2 * m11 - 3 * d**3 * e,
            four=m4 - 4 * d * m3 + 6 * d**2 * m2 - 3 * d**4,
        )

    def cumulant(self, C: Floats, weights: Weights) -> Floats:
        """Return the fourth cumulant of the weighted sum, the same in the copy and the original."""
        both, first, other = weights
        two_two = self.two_two - self.own * self.own.T - 2 * C**2
        three_one = self.three_one - 3 * self.own * C
        four = self.four - 3 * self.own**2
        return np.asarray(
            both**2 * two_two
            + first**2 * four
            + other**2 * four.T
            + 2 * both * (first * three_one + other * three_one.T)
            + 2 * first * other * two_two
        )

    def noise(self, K: Floats, added: Floats, share: Floats, weights: Weights) -> Floats:
        """Return n Var of the weighted sum given the table.

        K (N, N) is the original's, with all values of each column on its diagonal, `added` the
        covariance of the noise, `share` (N,) that of the noise in a column's variance.
        """
        both, first, other = weights
        taken = share[:, None] * first * self.share, share[None, :] * other * self.share.T
        inner = both, first - taken[0], other - taken[1]
        alone = np.diag(added)[:, None]
        within = self.own - alone
        noise = normal(self.own, K + added, inner) - normal(within, K, inner)
        lean = -2 * taken[0] * self.away, -2 * taken[1] * self.away.T
        noise += lean[0] ** 2 * alone + lean[1] ** 2 * alone.T + 2 * lean[0] * lean[1] * added
        # rows that have one of the two alone, by what the others leave of the column's variance
        rest = np.diag(K)[:, None] - self.share * (within + self.away**2)
        outside = np.maximum(4 * alone * rest + 2 * (1 - self.share) * alone**2, 0.0)
        size = taken[0] ** 2 * outside, taken[1] ** 2 * outside.T
        return np.asarray(noise + size[0] / self.share + size[1] / self.share.T)


_POWERS = ((1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 1), (2, 2), (3, 1))
"""Of column i and of column j."""


def normal(variances: Floats, M: Floats, weights: Weights) -> Floats:
    """Return n Var(both * S_ij + own * S_ii + other * S_jj) for normal rows of covariance M, whose
    variances are `own` (i) and its transpose (j).
    """
    both, first, second = weights
    i, j = variances, variances.T
    return np.asarray(
        both**2 * (i * j + M**2)
        + 2 * (first * i) ** 2
        + 2 * (second * j) ** 2
        + 4 * both * M * (first * i + second * j)
        + 4 * first * second * M**2
    )


NEGLIGIBLE = 0.1
"""A bias of b = 0.1 standard errors lowers the coverage of a 95 % interval by 0.1 %:
b^2 z phi(z) at z = 1.96. The standard error of a correlation is about 1 / sqrt(rows)."""


def gather(blocks: Iterable[Floats], names: Sequence[str]) -> Moments:
    """Return the moments of blocks of rows. Raises ColumnError if a column has < 2 values."""
    moments = reduce(add, map(Moments.of, blocks), Moments.of(np.empty((0, len(names)))))
    if few := [n for n, count in zip(names, moments.present, strict=True) if count < 2]:
        raise ColumnError(f"{quoted(few)}: fewer than two rows have a value")
    return moments


def growth(columns: Sequence[CopyColumn]) -> Floats:
    """Return the factor (N x N) by which noise increased each covariance.

    It is 1 where the covariance of the noise is known, and taken out before.
    """
    noise = np.array([column.noise for column in columns])
    known = [[b.name in a.noise_with for b in columns] for a in columns]
    shaped = np.outer(noise > 0, noise > 0) & ~np.array(known, dtype=np.bool_).reshape(
        len(columns), len(columns)
    )
    return np.where(shaped, 1.0 + noise.max(initial=0.0), 1.0)


def undo(covariance: Floats, columns: Sequence[CopyColumn]) -> Floats:
    """Return the original's covariance K (N x N) from that of the copy.

    >>> columns = [CopyColumn("a", True, noise=1.0), CopyColumn("b", True, noise=1.0)]
    >>> undo(np.array([[8.0, 2.0], [2.0, 4.0]]), columns).tolist()
    [[4.0, 1.0], [1.0, 2.0]]
    """
    return np.asarray(unrounded(covariance, columns) / growth(columns))


def mean(moments: Moments, columns: Sequence[CopyColumn], of: Of) -> Estimates:
    """Return the mean of each column: Var = (C - K) / n given the table, C / n otherwise."""
    variance = np.diag(moments.covariance)
    if of == "table":
        variance = variance - np.diag(undo(moments.covariance, columns))
    return Estimates.of((_names(columns),), moments.mean, variance / moments.present)


@np.errstate(over="ignore", invalid="ignore")  # of numbers beyond floating point nothing is known
def covariance(moments: Moments, pairs: Pairs, columns: Sequence[CopyColumn], of: Of) -> Estimates:
    """Return the covariance matrix, each entry over the rows that have both columns."""
    warn_of_coarse(moments.covariance, columns, moments.rows)
    units = np.outer(_scale(moments), _scale(moments))
    one, zero = np.ones_like(units), np.zeros_like(units)
    variance = _variance(moments, pairs, columns, (one, zero, zero), of) * units**2
    names = _names(columns)
    return Estimates.of((names, names), undo(moments.covariance, columns), variance)


@np.errstate(over="ignore", invalid="ignore")
def correlation(moments: Moments, pairs: Pairs, columns: Sequence[CopyColumn], of: Of) -> Estimates:
    """Return the correlation matrix over the rows that have both, NaN for a constant column."""
    warn_of_coarse(moments.covariance, columns, moments.rows)
    C, K = _standardised(moments, columns)
    variances = pairs.own - np.diag(C - K)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        size = np.sqrt(variances * variances.T)
        r = K / size
        # delta method: d r = d K_ij / size - r/2 (d K_ii / K_ii + d K_jj / K_jj)
        weights = (1 / size, -r / 2 / variances, -r / 2 / variances.T)
        variance = _variance(moments, pairs, columns, weights, of)
    np.fill_diagonal(r, np.where(np.diag(K) > 0, 1.0, np.nan))
    np.fill_diagonal(variance, np.where(np.diag(K) > 0, 0.0, np.nan))
    names = _names(columns)
    return Estimates.of((names, names), r, variance)


def _standardised(moments: Moments, columns: Sequence[CopyColumn]) -> tuple[Floats, Floats]:
    """Return C and K in units of the copy's standard deviations."""
    units = np.outer(_scale(moments), _scale(moments))
    return moments.covariance / units, undo(moments.covariance, columns) / units


def _variance(
    moments: Moments, pairs: Pairs, columns: Sequence[CopyColumn], weights: Weights, of: Of
) -> Floats:
    """Return the variance of both * K_ij + own * K_ii + other * K_jj, standardised, for all i, j.

    The weights (both, own, other) are N x N each.
    """
    C, K = _standardised(moments, columns)
    grown = growth(columns)
    in_copy = weights[0] / grown, weights[1], weights[2]
    noise = pairs.noise(K, C - K, 1 - 1 / np.diag(grown), in_copy)
    if of == "table":
        return noise / pairs.rows
    # Much noise makes the cumulant uncertain, and a negative one shortens intervals: use it
    # only if it is two standard errors below 0. In a normal column of variance 1 its error
    # is sqrt(24/n), and `normal` is 2.
    cumulant = pairs.cumulant(C, weights)
    error = np.sqrt(6 / pairs.rows) * normal(pairs.own, C, weights)
    cumulant = np.where(cumulant < -2 * error, cumulant, np.maximum(cumulant, 0.0))
    variances = pairs.own - np.diag(C - K)[:, None]
    return (noise + np.maximum(cumulant + normal(variances, K, weights), 0.0)) / pairs.rows


def rounded_variance(deviation: float, step: float) -> float:
    """Return Var(D): of normal noise of this deviation, rounded to multiples of the step.

    >>> rounded_variance(2.0, 1.0) - 2.0**2, round(rounded_variance(0.1, 1.0), 9)
    (0.08333333333333304, 5.73e-07)
    """
    if deviation == 0.0:
        return 0.0
    if deviation > step:
        return deviation**2 + step**2 / 12
    # E[D^2] = h^2 sum_j (2j - 1) P(|D| >= j h); beyond 40 deviations P is 0 as a double
    least = step / deviation / math.sqrt(2)
    terms = range(1, 2 + math.ceil(40 / least))
    return step**2 * math.fsum((2 * j - 1) * math.erfc((j - 0.5) * least) for j in terms)


def original_variance(copy: float, noise: float, step: float) -> float:
    """Return K with K + Var(D) = the copy's variance, where W has the variance noise * K."""
    low, high = 0.0, max(copy, 0.0)
    for _ in range(60):  # bisection: the left side increases with K
        K = (low + high) / 2
        if K + rounded_variance(math.sqrt(noise * K), step) > copy:
            high = K
        else:
            low = K
    return (low + high) / 2


def unrounded(covariance: Floats, columns: Sequence[CopyColumn]) -> Floats:
    """Return the copy's covariance (N x N) as noise of exactly the table's shape would make it.

    Takes out rounding, the excess that noise has where the table misses values, and all noise
    whose covariance is known.
    """
    more = [
        [a.noise * a.noise_with.get(b.name, a.excess.get(b.name, 0.0)) for b in columns]
        for a in columns
    ]
    before: Floats = covariance - np.array(more, dtype=np.float64).reshape(covariance.shape)
    for i, column in enumerate(columns):
        if column.step and column.name in column.noise_with:
            added = math.sqrt(max(more[i][i], 0.0))
            before[i, i] = covariance[i, i] - rounded_variance(added, column.step)
        elif column.step and column.spread:
            before[i, i] -= column.step**2 / 12
        elif column.step:
            K = original_variance(float(before[i, i]), column.noise, column.step)
            before[i, i] = (1 + column.noise) * K
    if any(column.parts for column in columns):
        before -= _shared_rounding(columns)
    return before


def _shared_rounding(columns: Sequence[CopyColumn]) -> Floats:
    """Return what the rounding of summands adds to covariances (N x N) of the columns made of them.

    A column that has no parts is a summand itself, whose own variance is dealt with by itself.
    """
    added = np.zeros((len(columns), len(columns)))
    for i, one in enumerate(columns):
        for j, other in enumerate(columns):
            if i != j or one.parts:
                steps = {part.name: part.step for part in one.summands}
                added[i, j] = sum(steps.get(p.name, 0.0) ** 2 / 12 for p in other.summands)
    return added


def warn_of_coarse(covariance: Floats, columns: Sequence[CopyColumn], rows: float) -> None:
    """Warn about columns rounded so coarsely that their covariances are biased, by name."""
    variances = np.diag(undo(covariance, columns))
    coarse = [
        column.name
        for column, variance in zip(columns, variances, strict=True)
        if column.step and _shrinkage(column, float(variance)) > NEGLIGIBLE / math.sqrt(rows)
    ]
    warn_biased(
        coarse,
        "the rounding step is too wide for the noise, so covariances are biased and their "
        "standard errors too small; ask for a copy without rounding",
    )


def _shrinkage(column: CopyColumn, variance: float) -> float:
    """Return 4 q, the bound on how much rounding shrinks a covariance of the noise."""
    return 4 * math.exp(-2 * math.pi**2 * column.noise * variance / column.step**2)


def _scale(moments: Moments) -> Floats:
    """Return the copy's standard deviations, 1 for constant columns."""
    return np.where(moments.deviation > 0, moments.deviation, 1.0)


def _names(columns: Sequence[CopyColumn]) -> tuple[str, ...]:
    return tuple(column.name for column in columns)
