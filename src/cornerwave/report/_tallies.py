"""How the values of a table are distributed: counts in bins and per label, in one pass.

The bins end at round numbers found in the copies: from the 1 % to the 99 % quantile of
the noisiest copy, but at most three times as wide as the same range of the least noisy
one. So no end of an axis is a cell of the original.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import MARGINAL, Thinned
from cornerwave.levels import retention
from cornerwave.miner import CopyColumn, code_blocks, number_blocks
from cornerwave.sources import Source

BINS = 48
WIDEST = 3.0
TAIL = 0.01
SAMPLE = 1 << 14
"""Rows of a copy that its quantiles are taken from."""

FEW = 5
"""A label or a bin that fewer rows hold is not shown by itself: it may identify a person."""
MOST_LABELS = 10


@dataclass(frozen=True)
class Axis:
    """Bins of one width: `edges` are `first`, `first + step`, ..., `bins` of them.

    Bins of `whole` numbers end halfway between two of them, so that each is centred on its own.
    """

    first: float
    step: float
    bins: int
    whole: bool = False

    @property
    def edges(self) -> Floats:
        """The ends of the bins."""
        return self.first + self.step * np.arange(self.bins + 1, dtype=np.float64)

    @property
    def ends(self) -> tuple[float, float]:
        """What is written under the bins: their ends, or the first and last whole number."""
        inside = 0.5 if self.whole else 0.0
        return float(self.edges[0] + inside), float(self.edges[-1] - inside)

    def count(self, values: Floats) -> Ints:
        """Return how many values each bin holds, without missing values and those beyond."""
        places = np.floor((values[~np.isnan(values)] - self.first) / self.step)
        inside = places[(places >= 0) & (places < self.bins)].astype(np.int64)
        return np.bincount(inside, minlength=self.bins)


def axes_of(blocks: Sequence[Iterable[Floats]], whole: Sequence[bool]) -> list[Axis]:
    """Return an axis per column from blocks (rows, columns) of the least and the most noisy copy.

    Columns of `whole` numbers get bins that each hold equally many of them.
    """
    samples = []
    for copy in blocks:
        sample = Thinned(len(whole), most=SAMPLE)
        for block in copy:
            sample.add(list(block.T))
        samples.append(sample)
    return [
        axis_of([sample.column(i) for sample in samples], whole=is_whole)
        for i, is_whole in enumerate(whole)
    ]


def axis_of(copies: Sequence[Floats], *, whole: bool = False) -> Axis:
    """Return the axis of one column from its values in the copies, least noisy first.

    >>> axis_of([np.linspace(0, 100, 1001), np.linspace(-50, 150, 1001)])
    Axis(first=-50.0, step=5.0, bins=40, whole=False)
    >>> axis_of([np.arange(1.0, 7), np.arange(1.0, 7)], whole=True).edges.tolist()
    [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    """
    ranges = [np.nanquantile(values, (TAIL, 1 - TAIL)) for values in (copies[0], copies[-1])]
    middle, reach = ranges[0].mean(), WIDEST / 2 * np.ptp(ranges[0])
    low = max(float(ranges[1][0]), float(middle - reach))
    high = min(float(ranges[1][1]), float(middle + reach))
    step = round_step((high - low) / BINS, least=1.0 if whole else 0.0)
    aside = 0.5 if whole else 0.0
    first = math.floor((low + aside) / step)
    bins = max(math.ceil((high + aside) / step) - first, 1)
    return Axis(first * step - aside, step, bins, whole)


def round_step(width: float, *, least: float = 0.0) -> float:
    """Return the next of 1, 2, 5, 10, ... times a power of ten.

    >>> round_step(0.13), round_step(0.13, least=1.0)
    (0.2, 1.0)
    """
    width = max(width, least, 1e-300)
    power = 10.0 ** math.floor(math.log10(width))
    # 0.999: a width that is round already must not go to the next step by a rounding error
    found = next((m * power for m in (1, 2, 5) if m * power >= width * 0.999), 10 * power)
    return float(f"{found:.1g}")


@dataclass(frozen=True)
class Tally:
    """Counts per number column and bin, and per category column and label."""

    rows: int
    numbers: Mapping[str, Ints]
    labels: Mapping[str, Ints]


def tally(
    source: Source,
    axes: Mapping[str, tuple[CopyColumn, Axis]],
    categories: Sequence[CopyColumn],
    labels: Mapping[str, pa.Array],
) -> Tally:
    """Count the rows of a table in the bins of its numbers and under the labels given."""
    rows = 0
    numbers = {name: np.zeros(axis.bins, dtype=np.int64) for name, (_, axis) in axes.items()}
    columns = [column for column, _ in axes.values()]
    for block in number_blocks(source, columns) if columns else ():
        rows += len(block)
        for i, (name, (_, axis)) in enumerate(axes.items()):
            numbers[name] += axis.count(block[:, i])
    held = {column.name: np.zeros(len(labels[column.name]), np.int64) for column in categories}
    seen = 0
    for codes in code_blocks(source, categories, labels) if categories else ():
        seen += len(codes)
        for i, counts in enumerate(held.values()):
            counts += np.bincount(codes[:, i][codes[:, i] >= 0], minlength=len(counts))
    return Tally(max(rows, seen), numbers, held)


def frequent(tallies: Sequence[Tally], name: str) -> list[int]:
    """Return the places of the labels of a column that are rare in no table, in order."""
    counts = np.array([table.labels[name] for table in tallies])
    return [int(i) for i in np.flatnonzero((counts >= FEW).all(axis=0))]


def most_frequent(tallies: Sequence[Tally], name: str) -> list[int]:
    """Return the places of the labels to show, most frequent first, with no few rows left."""
    held = np.sum([table.labels[name] for table in tallies], axis=0)
    places = sorted(frequent(tallies, name), key=lambda i: (-held[i], i))[:MOST_LABELS]
    while places and any(0 < _left(table, name, places) < FEW for table in tallies):
        places.pop()
    return places


def _left(table: Tally, name: str, places: list[int]) -> int:
    """Return how many rows hold none of these labels."""
    return table.rows - int(table.labels[name][places].sum())


def pooled(counts: Ints) -> Floats:
    """Return counts without any below FEW: few rows count with the next full bin, or as the mean
    over a stretch of bins that holds enough; the last few count with the stretch before them.

    >>> pooled(np.array([1, 0, 5, 9, 2])).tolist(), pooled(np.array([0, 4])).tolist()
    ([0.0, 0.0, 6.0, 11.0, 0.0], [0.0, 0.0])
    >>> pooled(np.array([90, 0, 0, 2, 1, 3, 0])).tolist()
    [90.0, 0.0, 0.0, 2.0, 2.0, 2.0, 0.0]
    """
    shown, start, held, last = np.zeros(len(counts)), 0, 0, slice(0)
    for place, count in enumerate(counts.tolist()):
        if not held or count >= FEW:
            start = place
        held += count
        if held >= FEW:
            last = slice(start, place + 1)
            shown[last] = held / (place + 1 - start)
            held = 0
    shown[last] += held / max(last.stop - (last.start or 0), 1)
    return shown


def not_redrawn(
    shares: Floats, column: CopyColumn, noise: float, *, others: bool = False
) -> Floats | None:
    """Return the share of cells under each label that were retained, from the copy's shares.

    A cell is redrawn with probability 1 - q, from the base pi: so q P = P_copy - (1 - q) pi. The
    last share may be that of all `others`. None where the base of one column is not known.

    >>> sex = CopyColumn("sex", is_number=False)
    >>> not_redrawn(np.array([0.75, 0.25]), sex, noise=3.0).tolist()
    [0.375, 0.125]
    """
    base = _base(shares, column, others=others)
    return None if base is None else shares - (1 - retention(noise)) * base


def same_share(shares: Floats, column: CopyColumn, noise: float) -> float | None:
    """Return the share of cells that hold their own value: retained, or redrawn as what they were.

    `shares` are those of all labels. None where the base of one column is not known.

    >>> same_share(np.array([0.5, 0.5]), CopyColumn("sex", is_number=False), noise=3.0)
    0.75
    """
    base, q = _base(shares, column), retention(noise)
    if base is None:
        return None
    return float(q + (base * (shares - (1 - q) * base)).sum() * (1 - q) / q)


def _base(shares: Floats, column: CopyColumn, *, others: bool = False) -> Floats | None:
    """Return what redrawn cells are drawn from, by label."""
    if column.base == MARGINAL:
        return shares
    if column.together or not column.categories:
        return None
    base = np.full(len(shares), 1 / column.categories)
    if others:
        base[-1] = 1 - base[:-1].sum()
    return base
