"""The histogram of a column of a copy, and the distribution that it is reconstructed to.

A rounded column is counted in bins whose edges lie between its steps, so that a bin holds
just what the noise brought into it: rounding needs no correction here.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner.columns import LOG1P, Column
from cornerwave.miner.covariance import undo
from cornerwave.miner.distribution import BINS, Distribution, reconstruct
from cornerwave.miner.reading import number_blocks
from cornerwave.moments import Moments
from cornerwave.table import Source

Map = Callable[[Floats], Floats]

REACH = 6.0
"""How many standard deviations from the mean a histogram covers."""
SHARPEST = 1e-3
"""The least noise that is reckoned with, in cells: a kept column has none."""


def distribution_of(
    source: Source,
    column: Column,
    moments: Moments,
    *,
    support: tuple[float, float] | None,
    atoms: Sequence[float],
    cells: int,
    confidence: float,
    tolerance: float,
) -> Distribution:
    """Return the reconstructed distribution of a column, on its original scale."""
    there, back = _scale(column)
    seen = _reach(source, column, moments)
    low, high = map(float, there(np.array(support))) if support else seen
    if not low < high:
        raise ColumnError(f"{column.name!r}: constant, or a support with no lower and higher end")
    bins = bins_of(seen, column.step)
    edges = np.linspace(low, high, cells + 1)
    noise = column.noise * float(undo(moments.covariance, [column])[0, 0])
    found = reconstruct(
        _histogram(source, column, bins),
        bins,
        deviation=max(math.sqrt(max(noise, 0.0)), SHARPEST * (edges[1] - edges[0])),
        edges=edges,
        atoms=there(np.array(atoms, dtype=np.float64)).tolist(),
        confidence=confidence,
        tolerance=tolerance,
    )
    return found.on_scale(back)


def bins_of(seen: tuple[float, float], step: float) -> Floats:
    """Return the edges of at most BINS bins, between the steps of a rounded column.

    >>> bins_of((0.0, 3.0), 1.0)
    array([-0.5,  0.5,  1.5,  2.5,  3.5])
    """
    if not step:
        return np.linspace(*seen, BINS + 1)
    first, last = (round(end / step) for end in seen)
    width = math.ceil((last - first + 1) / BINS)
    number = math.ceil((last - first + 1) / width)
    return np.asarray((first - 0.5 + width * np.arange(number + 1)) * step)


def _reach(source: Source, column: Column, moments: Moments) -> tuple[float, float]:
    """Return between which numbers a column lies, but for its far tails."""
    low, high = math.inf, -math.inf
    for block in number_blocks(source, [column]):
        low = min(low, float(np.nanmin(block, initial=math.inf)))
        high = max(high, float(np.nanmax(block, initial=-math.inf)))
    middle, far = float(moments.mean[0]), REACH * float(moments.deviation[0])
    return max(low, middle - far), min(high, middle + far)


def _histogram(source: Source, column: Column, bins: Floats) -> Floats:
    """Return counts (B,) between `bins` (B + 1,); what lies beyond counts in the last one."""
    counts = np.zeros(len(bins) - 1)
    for block in number_blocks(source, [column]):
        values = np.clip(block[~np.isnan(block)], bins[0], bins[-1])
        counts += np.histogram(values, bins)[0]
    return counts


def _scale(column: Column) -> tuple[Map, Map]:
    if column.transform == LOG1P:
        return np.log1p, np.expm1
    return (lambda x: x), (lambda x: x)
