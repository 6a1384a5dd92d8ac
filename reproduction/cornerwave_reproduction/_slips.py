"""Attacks on mistakes that an owner may make around the noise.

average           repeated requests get fresh noise: average them
solve_scaled      one noise, scaled to each level: two copies solve for X
undo_resort       noise by position on re-ordered rows: subtract
read_float_bits   only some values can have led to this very double: leave out the rest
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.errors import SourceError
from cornerwave.levels import checked_noise


def average(repeats: Sequence[Any]) -> Floats:
    """Return the mean of repeated requests for one level, (T, N) from n times (T, N).

    With fresh noise each time its noise is v / n; with the same bytes each time, v.

    >>> average([[[1.0]], [[3.0]]]).tolist()
    [[2.0]]
    """
    return np.asarray(np.mean([np.asarray(copy, dtype=np.float64) for copy in repeats], axis=0))


def solve_scaled(first: Any, second: Any, *, noise: tuple[float, float]) -> Floats:
    """Return (s2 Y1 - s1 Y2) / (s2 - s1), s = sqrt(noise): X itself if noise is scaled.

    Raises SourceError if both copies have the same noise.

    >>> x, z = np.array([[5.0]]), np.array([[0.3]])
    >>> solve_scaled(x + z, x + 2 * z, noise=(1.0, 4.0)).round(12).tolist()
    [[5.0]]
    """
    s1, s2 = (np.sqrt(checked_noise(level)) for level in noise)
    if s1 == s2:
        raise SourceError("both copies have the same noise; give copies of two different levels")
    return np.asarray((s2 * np.asarray(first) - s1 * np.asarray(second)) / (s2 - s1))


def undo_resort(before: Any, after: Any, *, order: Any, mean: Any) -> Floats:
    """Return X from a copy and its reissue on re-ordered rows, noise by position.

    before: copy of X, after: copy of X[order], both (T, N); mean: (N,). Their
    difference is x[t] - x[order[t]]: summed along each cycle of the order it gives
    every row but for one constant, which the mean supplies.

    >>> x, z = np.array([[1.0], [4.0], [7.0]]), np.array([[0.5], [-0.2], [0.1]])
    >>> undo_resort(x + z, x[[1, 2, 0]] + z, order=[1, 2, 0], mean=[4.0]).round(12).tolist()
    [[1.0], [4.0], [7.0]]
    """
    steps = np.asarray(before, dtype=np.float64) - np.asarray(after, dtype=np.float64)
    estimate = np.empty_like(steps)
    for cycle in _cycles(np.asarray(order)):
        # x[order[t]] = x[t] - steps[t]
        fallen = np.vstack([np.zeros(steps.shape[1]), np.cumsum(steps[cycle[:-1]], axis=0)])
        estimate[cycle] = fallen.mean(axis=0) - fallen + np.asarray(mean)
    return estimate


def _cycles(order: Ints) -> list[Ints]:
    seen = np.zeros(len(order), dtype=bool)
    cycles = []
    for start in range(len(order)):
        cycle, at = [], start
        while not seen[at]:
            seen[at] = True
            cycle.append(at)
            at = int(order[at])
        if cycle:
            cycles.append(np.array(cycle))
    return cycles


def read_float_bits(
    column: Any, *, candidates: Any, counts: Any, variance: float, precision: type | None
) -> Floats:
    """Return E[x | y] over the values that could have led to this very double, shape (T,).

    column: (T,), one column of a copy; candidates, counts: (C,), the values that x
    takes and how often; variance: that of the noise; precision: the float type that
    the noise was drawn in, or None to leave the bits unread. x could have led to y if
    x plus the nearest such float to y - x is y again; where no value could, the bits
    are ignored.

    >>> y = [0.01, 0.02] + np.array([0.3, -0.7], dtype=np.float32).astype(float)
    >>> cents = np.array([0.0, 0.01, 0.02])
    >>> law = {"candidates": cents, "counts": np.ones(3), "variance": 1.0}
    >>> read_float_bits(y, **law, precision=np.float32).tolist()
    [0.01, 0.02]
    """
    column, candidates = np.asarray(column, dtype=np.float64), np.asarray(candidates, float)
    estimate = np.empty(len(column))
    size = max(1, (1 << 20) // len(candidates))
    for start in range(0, len(column), size):
        y = column[start : start + size, None]
        apart = y - candidates
        # Bayes: prior counts times the Gaussian density of the noise y - x.
        log_weights = np.log(counts) - apart**2 / (2 * variance)
        if precision is not None:
            possible = candidates + apart.astype(precision).astype(np.float64) == y
            possible |= ~possible.any(axis=1, keepdims=True)
            log_weights[~possible] = -np.inf
        weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        estimate[start : start + size] = weights @ candidates / weights.sum(axis=1)
    return estimate
