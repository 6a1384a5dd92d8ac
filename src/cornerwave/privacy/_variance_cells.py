"""Cells of F: the parts in which what F leaves of the coordinates varies most differently.

Where F decides how columns vary together, an estimate may use other coefficients there (DESIGN.md,
'What stands without noise'). A tree splits bins of one column of F where squares and products of
residuals differ most. Each half of the rows gets the cells that the other half chose, so that what
they gain is no artefact of the choice. It counts if rows there vary differently beyond chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.privacy._anova import ALPHA, within
from cornerwave.privacy._open_columns import (
    MOST_KNOTS,
    MOST_VALUES,
    OpenColumn,
    all_values,
    second_moments,
)

LEAVES = 64
"""Cells of each half at most."""
LEAST_LEAF, LEAF_ROWS = 100, 10
"""The least rows of a cell, and rows for each coordinate: its covariance must be estimated."""
CELL_VALUES = 256
"""Values of a column by which cells may differ; of a number with more, MOST_KNOTS bands."""
LEAST_VALUE = 10
"""Rows of a value by which cells may differ, of several columns as one."""
CONFIRMED = 0.1
"""The probability, at most, that the rows of cells made by chance are taken for different ones."""
SIGNALS_TRIED = 4
"""Signals by whose means bins are sorted: those that differ most between bins."""


def cell_bins(features: Sequence[OpenColumn]) -> Ints:
    """Return columns of F in bins (columns, rows), and all of those with few values as one."""
    bins = [binned(each) for each in features]
    coarse = [each for each in features if each.values <= MOST_VALUES]
    if len(coarse) > 1:
        bins.append(_frequent(all_values(coarse).codes))
    return np.array(bins)


def variance_cells(left: Floats, bins: Ints) -> Ints:
    """Return the cell of each row; those of the second half are numbered from LEAVES on."""
    n = left.shape[1]
    least = max(LEAST_LEAF, LEAF_ROWS * len(left)) // 2
    signals = second_moments(np.nan_to_num(left))
    cells = crossed_cells(signals, bins, np.arange(n) % 2, least)
    # heavy tails make trees of chance; no row has a part in the choice of its cell
    confirmed = within(signals, cells, comparisons=ALPHA / CONFIRMED).any()
    return cells if confirmed else half_of(cells) * LEAVES


def crossed_cells(signals: Floats, bins: Ints, half: Ints, least: int) -> Ints:
    """Return the cell of each row by signals and bins: in each `half` those that the other chose.

    Cells of the second half are numbered from LEAVES on.
    """
    cells = np.zeros(bins.shape[1], dtype=np.int64)
    for side in (0, 1):
        grow, other = np.flatnonzero(half == side), np.flatnonzero(half != side)
        leaves = _tree(signals[:, grow], bins[:, grow], bins[:, other], least)
        cells[other] = leaves + side * LEAVES
    return cells


def half_of(cells: Ints) -> Ints:
    """Return which half of the rows each cell is of."""
    return np.asarray(cells // LEAVES)


def shuffled(cells: Ints) -> Ints:
    """Return as many rows in each cell of each half, drawn by chance."""
    mixed, draw = cells.copy(), np.random.default_rng(1)
    for half in np.unique(half_of(cells)).tolist():
        rows = half_of(cells) == half
        mixed[rows] = draw.permutation(cells[rows])
    return mixed


def binned(feature: OpenColumn) -> Ints:
    """Return the bins of a column by which cells may differ."""
    smooth = feature.numbers is not None and feature.values > CELL_VALUES
    return feature.binned(MOST_KNOTS if smooth else CELL_VALUES)


def _frequent(codes: Ints) -> Ints:
    """Return the most frequent values by number; all others, and those of few rows, are the last.

    Values of one row each, sorted by what they have, would seem to explain all of it.
    """
    counts = np.bincount(codes)
    place = np.argsort(np.argsort(-counts, kind="stable"))
    rare = (place >= CELL_VALUES - 1) | (counts < LEAST_VALUE)
    return np.asarray(np.where(rare, CELL_VALUES - 1, place)[codes])


@dataclass(frozen=True)
class _Split:
    """Which values of a column leave a leaf, and by how much that exceeds chance."""

    gain: float = 0.0
    column: int = 0
    values: Ints | tuple[()] = ()


def _tree(signals: Floats, bins: Ints, apply: Ints, least: int) -> Ints:
    """Return the leaf of each column of `apply`, by a tree grown on signals over bins.

    Of all leaves the one is split whose best split explains most of the signals.
    """
    leaf, where = np.zeros(bins.shape[1], dtype=np.int64), np.zeros(apply.shape[1], dtype=np.int64)
    splits = {0: _best_split(signals, bins, leaf == 0, least)}
    for new in range(1, LEAVES):
        at = max(splits, key=lambda node: splits[node].gain)
        split = splits[at]
        if split.gain <= 0:
            break
        for codes, leaves in ((bins, leaf), (apply, where)):
            leaves[(leaves == at) & np.isin(codes[split.column], split.values)] = new
        for node in (at, new):
            splits[node] = _best_split(signals, bins, leaf == node, least)
    return where


def _best_split(signals: Floats, bins: Ints, rows: Flags, least: int) -> _Split:
    """Return the split that explains most; no gain if that is chance.

    For each signal, bins sorted by its mean are cut in two, which is best for that signal.
    """
    some, best = signals[:, rows], _Split()
    n = some.shape[1]
    if n < 2 * least:
        return best
    some = some - some.mean(axis=1, keepdims=True)
    by_row = np.ascontiguousarray(some.T)
    for column, codes in enumerate(bins[:, rows]):
        here = np.bincount(codes)
        values = np.flatnonzero(here)
        # bins that are sorted by one signal explain of it what all of them do by chance, at most:
        # chi-square with d degrees of freedom, by Laurent and Massart (see `_anova`)
        d, u = len(some) + len(values), log(1 / ALPHA)
        chance = d + 2 * sqrt(d * u) + 2 * u
        of_codes = np.zeros((len(here), len(some)))
        _core.add_by_code(by_row, np.ascontiguousarray(codes, dtype=np.int64), of_codes)
        sums = np.ascontiguousarray(of_codes[values].T)
        counts = here[values]
        strongest = np.argsort(-(sums**2 / counts).sum(axis=1), kind="stable")[:SIGNALS_TRIED]
        for key in (np.arange(len(values)), *(sums[s] / counts for s in strongest.tolist())):
            order = np.argsort(key, kind="stable")
            left, total = np.cumsum(sums[:, order], axis=1), np.cumsum(counts[order])
            fits = (total >= least) & (n - total >= least)
            # S^2/m + S^2/(n - m): the sum of squares between both sides, as all sums are 0
            gains = (left**2).sum(axis=0) * (1 / total + 1 / np.maximum(n - total, 1)) - chance
            gains = np.where(fits, gains, 0.0)
            cut = int(gains.argmax())
            if gains[cut] > best.gain:
                best = _Split(float(gains[cut]), column, values[order[: cut + 1]])
    return best
