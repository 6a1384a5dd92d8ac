"""How far chance reaches: the quantiles and tails that the checks are held to."""

import math
from statistics import NormalDist

ALPHA = 0.01
"""How often an audit of honest copies may raise an alarm, all its comparisons together."""

NUMBER_CHECKS = ("mean", "independence", "size", "shape", "corner wave", "level", "outliers")
CATEGORY_CHECKS = ("retention", "draws", "path")
FAMILIES = (*NUMBER_CHECKS, "gain", "nonlinear", *CATEGORY_CHECKS)
"""What shares ALPHA equally; each divides its share by its comparisons."""


def share(comparisons: int) -> float:
    """Return the chance of a false alarm that one of a family's comparisons may take.

    >>> round(share(10), 7)
    8.33e-05
    """
    return ALPHA / len(FAMILIES) / max(comparisons, 1)


def z_limit(alpha: float) -> float:
    """Return how far from 0 a standard normal lies with probability alpha, either side.

    >>> round(z_limit(0.05), 3)
    1.96
    """
    return -NormalDist().inv_cdf(alpha / 2)


def sure_limit(comparisons: int) -> float:
    """Return z with 2 exp(-z^2 / 2) = the share of one comparison.

    So far reach sums of bounded parts at most, by Chernoff's and Bernstein's bounds, and be
    they few.

    >>> round(sure_limit(1), 2)
    3.95
    """
    return math.sqrt(2 * math.log(2 / share(comparisons)))


def t_limit(alpha: float, freedom: int) -> float:
    """Return the same for Student's t, by the Cornish-Fisher expansion.

    >>> round(t_limit(0.05, 63), 3), round(t_limit(0.01, 9), 2)
    (1.998, 3.25)
    """
    z = z_limit(alpha)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def chi_square_tail(x: float, freedom: int) -> float:
    """Return the probability that a chi-square exceeds x.

    >>> round(chi_square_tail(3.841459, 1), 6), round(chi_square_tail(9.487729, 4), 6)
    (0.05, 0.05)
    """
    half = x / 2
    if half <= 0:
        return 1.0
    odd = freedom % 2
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    for step in range(freedom // 2):
        power = step + odd / 2
        tail += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
    return min(tail, 1.0)


def chi_square_limit(alpha: float, freedom: int) -> float:
    """Return what a chi-square exceeds with probability alpha.

    >>> round(chi_square_limit(0.05, 4), 3)
    9.488
    """
    low, high = 0.0, 10.0 * freedom + 2000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if chi_square_tail(middle, freedom) > alpha else (low, middle)
    return high
