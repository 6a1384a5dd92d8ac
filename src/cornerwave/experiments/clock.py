"""Time and memory of alternatives, measured side by side."""

import time
import tracemalloc
from collections.abc import Callable, Sequence

import numpy as np


def shortest(
    works: Sequence[Callable[[], object]],
    *,
    repeats: int,
    clock: Callable[[], float] = time.process_time,
) -> list[float]:
    """Return the shortest time of each work in seconds, run in turns.

    CPU time leaves out what other programs took, but counts threads one after the other;
    the shortest run is the one that others disturbed least.
    """
    times = [float("inf")] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            start = clock()
            work()
            times[i] = min(times[i], clock() - start)
    return times


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most memory that was allocated at once while `work` ran."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth(size: Sequence[float], cost: Sequence[float]) -> float:
    """Return the exponent of the power law nearest to the costs.

    >>> round(growth([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(size), np.log(cost), 1)[0])


def straightness(size: Sequence[float], cost: Sequence[float]) -> float:
    """Return R squared of the straight line through the costs.

    >>> round(straightness([1, 2, 3], [5, 7, 9]), 6)
    1.0
    """
    costs = np.asarray(cost)
    left = costs - np.polyval(np.polyfit(size, costs, 1), size)
    return float(1 - (left**2).sum() / ((costs - costs.mean()) ** 2).sum())
