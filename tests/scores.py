"""Statistical tests that practically never fail by chance, and what they cannot miss.

A test names its ALPHA and the number of comparisons; the bound for each is a normal
quantile at ALPHA / comparisons.
"""

import math
from statistics import NormalDist

import numpy as np

ALPHA = 1e-9
"""The chance that a right scheme fails a whole test."""


def z_bound(comparisons):
    """Return the two-sided bound on a standard normal statistic."""
    return -NormalDist().inv_cdf(ALPHA / comparisons / 2)


def worst_covariance_score(samples, expected):
    """Return the largest |z| of sample second moments, in units of the bound.

    `samples`: (n, d), of mean zero. Under N(0, expected) a product x_i x_j has mean
    expected_ij and variance expected_ii expected_jj + expected_ij^2. Below 1 passes.
    """
    samples = np.asarray(samples)
    n, size = samples.shape
    found = samples.T @ samples / n
    variance = np.diag(expected)
    error = np.sqrt((np.outer(variance, variance) + expected**2) / n)
    scores = np.abs(found - expected) / error
    return float(scores.max() / z_bound(size * (size + 1) // 2))


def worst_correlation_score(left, right):
    """Return the largest |z| of correlations between columns, in units of the bound."""
    left = (left - left.mean(axis=0)) / left.std(axis=0)
    right = (right - right.mean(axis=0)) / right.std(axis=0)
    scores = np.abs(left.T @ right) / math.sqrt(len(left))
    return float(scores.max() / z_bound(scores.size))


def normal_distance_score(samples):
    """Return the Kolmogorov distance from the standard normal, in units of its bound.

    Massart's inequality: P(D > x) <= 2 exp(-2 n x^2) for every n.
    """
    ordered = np.sort(np.asarray(samples).ravel())
    n = len(ordered)
    expected = 0.5 * (1 + np.array([math.erf(x / math.sqrt(2)) for x in ordered]))
    steps = np.arange(n + 1) / n
    distance = max((expected - steps[:-1]).max(), (steps[1:] - expected).max())
    return float(distance / math.sqrt(math.log(2 / ALPHA) / (2 * n)))


def worst_cell_score(counts, expected):
    """Return how far counts are from their expectation, in units of the bound, cell by cell.

    Bernstein's inequality, for every n: a binomial count is farther than t from its
    expectation with probability at most 2 exp(-t^2 / (2 variance + 2 t / 3)).
    """
    counts, expected = np.ravel(counts), np.ravel(expected)
    n = counts.sum()
    variance = expected * (1 - expected / n)
    log = math.log(2 * len(counts) / ALPHA)
    bound = log / 3 + np.sqrt(log**2 / 9 + 2 * log * variance)
    return float((np.abs(counts - expected) / bound).max())
