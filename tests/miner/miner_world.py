"""Known tables, copies of them, and the test that all miner tests share.

`refresh` is the refresh of categories at one level, written down straight from its
definition: keep with probability q, else draw anew from the base.
"""

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.algorithms import parallel
from cornerwave.miner import Estimates

ALPHA = 1e-5
"""The chance that a right estimator fails one of these tests, for a random seed."""


def normal_reach(comparisons: int, alpha: float = ALPHA) -> float:
    return NormalDist().inv_cdf(1 - alpha / comparisons / 2)


def agrees(estimates: Estimates, truth: Any) -> bool:
    """Say whether all values lie within their errors of the truth, at ALPHA together."""
    away = np.abs(estimates.value - truth)
    exact = away <= 1e-9 * (1 + np.abs(truth))
    within = away <= normal_reach(away.size) * estimates.standard_error
    return bool((exact | within).all())


def noisy(X: Any, *, noise: float, seed: int) -> Any:
    return parallel(X, noise=[noise], unsafe_seed=seed)[0]


def refresh(codes: Any, *, retention: float, base: str, categories: int, rng: Any) -> Any:
    """Codes (rows,), or (rows, columns) refreshed together."""
    rows = len(codes)
    if base == "marginal":
        drawn = codes[rng.integers(0, rows, rows)]
    else:
        drawn = rng.integers(0, categories, codes.shape)
    kept = rng.random(rows) < retention
    return np.where(kept.reshape(-1, *[1] * (codes.ndim - 1)), codes, drawn)


def coverage(
    one: Callable[[int], tuple[Estimates, Any]], tables: int, confidence: float = 0.95
) -> Any:
    """Return in which share of tables each interval holds the truth."""
    hits = []
    for seed in range(tables):
        estimates, truth = one(seed)
        low, high = estimates.interval(confidence)
        hits.append((low - 1e-9 <= truth) & (truth <= high + 1e-9))
    return np.mean(hits, axis=0)


def covers(shares: Any, tables: int, confidence: float = 0.95) -> bool:
    """Say whether shares are what `confidence` gives, by the binomial law at ALPHA together."""
    error = np.sqrt(confidence * (1 - confidence) / tables)
    shares = np.asarray(shares)
    return bool((np.abs(shares - confidence) <= normal_reach(shares.size) * error).all())
