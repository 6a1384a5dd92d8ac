"""Columns of a copy that lie on a coarse grid: rounded after the noise, by choice.

A rounded copy is Y + R with R uniform over one step and nearly uncorrelated with Y,
so its variance has grown by step^2 / 12 (Sheppard). That is taken off again before
the noise is judged, and a coalition of rounded copies is held against the raw copy
at its least noise: rounding may hide less of that together than alone.
"""

from typing import Any

import numpy as np

from cornerwave.arrays import Floats

FINEST = 2.0**-16
"""Steps below this share of the standard deviation are the fine grid that copies have anyway."""

COARSEST = 8.0
"""The coarsest step that is looked for, in standard deviations."""

OFF_GRID = 1e-3
"""How far from a multiple a value may lie, in steps: decimals are not exact in binary."""

TRIAL = 64


def step_of(values: Any) -> float:
    """Return the coarsest step that all values are multiples of; 0 if none is coarse.

    Steps are 1, 2 and 5 times powers of ten, and powers of two.

    >>> step_of(np.array([3.0, -7.0, 12.0, 5.0])), step_of(np.array([0.25, 1.5, 3.75]))
    (1.0, 0.25)
    >>> step_of(np.random.default_rng(1).normal(size=100))
    0.0
    """
    values = values[~np.isnan(values)]
    spread = float(values.std()) if len(values) else 0.0
    if spread == 0.0:
        return 0.0
    for step in _candidates(spread):
        if _on_grid(values[:TRIAL], step) and _on_grid(values, step):
            return step
    return 0.0


def steps_of(copies: list[Floats]) -> Floats:
    """Return the step of each column (M, N) of each copy (N, rows)."""
    return np.array([[step_of(column) for column in copy] for copy in copies])


def still(steps: Floats, copies: list[Floats]) -> Floats:
    """Return the steps that later rows agree with; a finer one, or 0, where they do not."""
    kept = steps.copy()
    for i, n in np.argwhere(steps > 0):
        column = copies[i][n]
        column = column[~np.isnan(column)]
        if not _on_grid(column, steps[i, n]):
            finer = step_of(column)
            kept[i, n] = finer if finer < steps[i, n] else 0.0
    return kept


def _candidates(spread: float) -> list[float]:
    low, high = FINEST * spread, COARSEST * spread
    tens = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    twos = range(int(np.floor(np.log2(low))), int(np.ceil(np.log2(high))) + 1)
    steps = {float(f"{lead}e{power}") for power in tens for lead in (1, 2, 5)}
    steps |= {2.0**power for power in twos}
    return sorted((step for step in steps if low < step <= high), reverse=True)


def _on_grid(values: Floats, step: float) -> bool:
    multiples = values / step
    return bool((np.abs(multiples - np.rint(multiples)) < OFF_GRID).all())
