"""How the values of a table spread: counts in bins, and rows per label, in one pass."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cornerwave.arrays import Floats
from cornerwave.miner import CopyColumn, code_blocks, number_blocks
from cornerwave.report.axis import Axis
from cornerwave.table.read import Source

Counts = NDArray[np.int64]

FEW = 5
"""A label that fewer rows hold is not shown: it may be a person's own."""
MOST_LABELS = 10
MOST_COLUMNS = 24
"""So many columns of each kind are shown."""


@dataclass(frozen=True)
class Tally:
    """Counts per number column and bin, and per category column and label."""

    rows: int
    numbers: Mapping[str, Counts]
    labels: Mapping[str, Counts]


def tally(
    source: Source,
    axes: Mapping[str, tuple[CopyColumn, Axis]],
    categories: Sequence[CopyColumn],
    labels: Mapping[str, pa.Array],
) -> Tally:
    """Count the rows of a table in the bins of its numbers and under the labels it shares."""
    rows = 0
    numbers = {name: np.zeros(axis.bins, dtype=np.int64) for name, (_, axis) in axes.items()}
    for block in _numbers(source, [column for column, _ in axes.values()]):
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


def common(tallies: Sequence[Tally], name: str) -> list[int]:
    """Return the places of the labels to show, most common first; none is rare in any table."""
    counts = np.array([table.labels[name] for table in tallies])
    often = np.flatnonzero((counts >= FEW).all(axis=0))
    shares = counts.sum(axis=0)
    return sorted((int(i) for i in often), key=lambda i: (-shares[i], i))[:MOST_LABELS]


def _numbers(source: Source, columns: Sequence[CopyColumn]) -> Iterable[Floats]:
    return number_blocks(source, columns) if columns else ()
