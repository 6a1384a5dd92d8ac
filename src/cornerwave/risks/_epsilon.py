"""Differential privacy, for owners who meet its assumptions: a copy alone does not.

If the values of every row, in units in which the noise is v I, lie in a ball of radius D, whoever
replaces a row moves it by 2 D at most. With the shape of the noise and that ball chosen without the
table, the numbers of a copy are Gaussian differentially private (Dong, Roth and Su 2022) with

    mu = 2 D / sqrt(v),    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

A category that is retained with probability q, else drawn from frequencies of at least pi that are
not those of the table, has eps = ln(1 + q / ((1-q) pi)). Epsilons of columns add up. A coalition
has that of its least noisy copy. The same noise in units of the data, released gradually:
Koufogiannis et al. 2016, Whitehouse et al. 2022, Andersson et al. 2025.
"""

import math
from collections.abc import Sequence

from cornerwave.errors import LevelError
from cornerwave.levels import retention

FAR = 35.0
"""Beyond so many deviations the tail of a normal is its asymptote."""
STEPS = 200
"""Halvings of an interval: more than a double has bits."""


def epsilon(*, radius: float, noise: float, shares: Sequence[float] = (), delta: float) -> float:
    """Return the epsilon of a copy at delta, for rows within a radius and least shares of values.

    Rows are clipped to the `radius` in whitened units; `shares` are the least probability of a
    value of each category in its draws. Raises LevelError.

    >>> round(epsilon(radius=3.0, noise=1.0, delta=1e-6), 1)
    45.8
    """
    if not (radius >= 0 and 0 < delta < 1):
        raise LevelError(
            f"epsilon needs a radius of at least 0 and a delta between 0 and 1, not {radius:g} and "
            f"{delta:g}"
        )
    # mu = 2 D / sqrt(v)
    of_numbers = _of_gaussian(2 * radius / math.sqrt(noise), delta)
    return of_numbers + sum(_of_category(share, noise) for share in shares)


def _of_category(share: float, noise: float) -> float:
    if not 0 < share <= 1:
        raise LevelError(f"the least share of a value lies between 0 and 1, not {share:g}")
    q = retention(noise)
    return math.log1p(q / ((1 - q) * share))


def _of_gaussian(mu: float, delta: float) -> float:
    """Return the least eps with delta(eps) at most delta."""
    if mu == 0 or _delta(0.0, mu) <= delta:
        return 0.0
    # of mu^2/2 + mu z with Phi(-z) = delta or less
    low, high = 0.0, mu * mu / 2 + mu * (1 + math.sqrt(-2 * math.log(delta)))
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(middle, mu) > delta else (low, middle)
    return high


def _delta(eps: float, mu: float) -> float:
    """Return delta(eps), the second term by its logarithm: e^eps overflows."""
    return math.exp(_log_tail(eps / mu - mu / 2)) - math.exp(eps + _log_tail(eps / mu + mu / 2))


def _log_tail(z: float) -> float:
    """Return ln Phi(-z)."""
    if z < FAR:
        return math.log(math.erfc(z / math.sqrt(2)) / 2)
    return -z * z / 2 - math.log(z * math.sqrt(2 * math.pi))
