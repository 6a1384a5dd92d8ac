"""What rounding to a step h does to a copy's variances, and where it can be undone.

A column is rounded to the type of its source, so its original lies on whole steps. Then
rounding X + W gives X + D, where D is W rounded, independent of X. With s the deviation
of the noise W and q = exp(-2 pi^2 s^2 / h^2),

    Var(D) = s^2 + h^2/12 + sum_j (-1)^j q^(j^2) (4 s^2 + h^2 / (pi j)^2)

by the Fourier series of the rounding error. For s > h the sum is below 2e-8 s^2, and what
is left is Sheppard's correction. For less noise D is mostly 0 and Var(D) is added up
directly; K solves K + Var(D) = Var(copy).

Noise shared by two columns shrinks too, by at most 4 q of its covariance. That, and the
kurtosis of D, are not undone: where they are not negligible a BiasWarning says so.
"""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import BiasWarning
from cornerwave.miner.columns import Column

NEGLIGIBLE = 0.1
"""A bias of this share of a standard error takes 0.1 % off what a 95 % interval covers:
b^2 z phi(z) with z = 1.96. The standard error of a correlation is about 1 / sqrt(rows)."""


def rounded_variance(deviation: float, step: float) -> float:
    """Return Var(D): of normal noise of this deviation, rounded to multiples of the step.

    >>> rounded_variance(2.0, 1.0) - 2.0**2, round(rounded_variance(0.1, 1.0), 9)
    (0.08333333333333304, 5.73e-07)
    """
    if deviation == 0.0:
        return 0.0
    if deviation > step:
        return deviation**2 + step**2 / 12
    # E[D^2] = h^2 sum_j (2j - 1) P(|D| >= j h); 40 deviations are beyond a double
    least = step / deviation / math.sqrt(2)
    terms = range(1, 2 + math.ceil(40 / least))
    return step**2 * math.fsum((2 * j - 1) * math.erfc((j - 0.5) * least) for j in terms)


def original_variance(copy: float, noise: float, step: float) -> float:
    """Return K with K + Var(D) = the copy's variance, where W has the variance noise * K."""
    low, high = 0.0, max(copy, 0.0)
    for _ in range(60):  # each halves the interval
        K = (low + high) / 2
        if K + rounded_variance(math.sqrt(noise * K), step) > copy:
            high = K
        else:
            low = K
    return (low + high) / 2


def unrounded(covariance: Floats, columns: Sequence[Column]) -> Floats:
    """Return the copy's covariance (N x N) as it would be had the columns not been rounded."""
    before = covariance.copy()
    for i, column in enumerate(columns):
        if column.step:
            K = original_variance(float(covariance[i, i]), column.noise, column.step)
            before[i, i] = (1 + column.noise) * K
    return before


def warn_of_coarse(covariance: Floats, columns: Sequence[Column], rows: float) -> None:
    """Warn of columns rounded so coarsely that their covariances are biased; by name."""
    before = np.diag(unrounded(covariance, columns))
    coarse = [
        column.name
        for column, variance in zip(columns, before, strict=True)
        if _is_coarse(column, float(variance) / (1 + column.noise), rows)
    ]
    if coarse:
        warnings.warn(
            f"{', '.join(map(repr, coarse))}: rounded to steps that are wide beside the noise, so "
            "covariances are biased and their errors too small; ask for a copy without rounding",
            BiasWarning,
            stacklevel=4,
        )


def _is_coarse(column: Column, variance: float, rows: float) -> bool:
    if not column.step:
        return False
    q = math.exp(-2 * math.pi**2 * column.noise * variance / column.step**2)
    return 4 * q > NEGLIGIBLE / math.sqrt(rows)
