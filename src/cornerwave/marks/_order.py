"""What is known of a column's order: windows of consecutive cells, neighbours, steps.

    window   WIDTH cells in a row, hashed as one: few values alone say little, their order much.
             One row more or less changes the WIDTH windows around it and no other
    alike    how many cells equal the one before: many in a sorted column
    steps    differences between neighbours: few distinct ones in row numbers and calendars

Rows come in any parts. Each part keeps the ends of its runs of consecutive rows, and where two
runs meet, the windows across the seam are made up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.keyed import bits_of, strict
from cornerwave.marks._bottom import Bottom, mixed
from cornerwave.marks._cells import Cells

WIDTH = 8
_ENDS = WIDTH - 1
_U = np.uint64
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing

Stretch = tuple[Cells, ...]
"""Some consecutive rows: their cells, column by column."""


@dataclass(frozen=True)
class Run:
    """Consecutive rows: from where to where, and the WIDTH - 1 rows at either end."""

    start: int
    stop: int
    head: Stretch
    tail: Stretch

    @classmethod
    def of(cls, start: int, rows: Stretch) -> "Run":
        """Return the run of some rows."""
        head, tail = _cut(rows, slice(None, _ENDS)), _cut(rows, slice(-_ENDS, None))
        return cls(start, start + len(rows[0].hashes), head, tail)

    def then(self, other: "Run") -> "Run":
        """Return this run and the one that follows as one."""
        head = _cut(_joined(self.head, other.head), slice(None, _ENDS))
        tail = _cut(_joined(self.tail, other.tail), slice(-_ENDS, None))
        return Run(self.start, other.stop, head, tail)


@dataclass(frozen=True)
class Order:
    """What is known of the order of some columns; `a + b` of the rows of both."""

    windows: tuple[Bottom, ...]
    steps: tuple[Bottom, ...]
    alike: Ints
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, places: Ints, columns: Sequence[Cells]) -> "Order":
        """Learn the order of some cells, given their rows' places in the table."""
        runs = list(_runs(places, tuple(columns)))
        rows = [stretch for _, stretch in runs]
        return cls._of(len(columns), rows, rows, tuple(Run.of(*run) for run in runs))

    @classmethod
    def nothing(cls, columns: int) -> "Order":
        """Return what is known of no rows."""
        return cls._of(columns, [], [], ())

    @classmethod
    def _of(
        cls, columns: int, rows: list[Stretch], pairs: list[Stretch], runs: tuple[Run, ...]
    ) -> "Order":
        """Learn windows from some stretches, and what neighbours are from others."""
        which = range(columns)
        alike = [sum(_alike(each[column].hashes) for each in pairs) for column in which]
        return cls(
            windows=tuple(Bottom.of(_all([_windows(s[c].hashes) for s in rows])) for c in which),
            steps=tuple(Bottom.of(_all([_steps(s[c].numbers) for s in pairs])) for c in which),
            alike=np.array(alike, dtype=np.int64),
            runs=runs,
        )

    def __add__(self, other: "Order") -> "Order":
        runs: list[Run] = []
        across: list[Stretch] = []
        pairs: list[Stretch] = []
        for run in sorted([*self.runs, *other.runs], key=lambda run: run.start):
            if runs and runs[-1].stop == run.start:
                before = runs.pop()
                # no window fits into one side of the seam: all that are found are across it
                across.append(_joined(before.tail, run.head))
                pairs.append(_joined(_cut(before.tail, slice(-1, None)), _cut(run.head, slice(1))))
                runs.append(before.then(run))
            else:
                runs.append(run)
        seams = Order._of(len(self.alike), across, pairs, ())
        return Order(
            windows=_added(self.windows, other.windows, seams.windows),
            steps=_added(self.steps, other.steps, seams.steps),
            alike=self.alike + other.alike + seams.alike,
            runs=tuple(runs),
        )


def _runs(places: Ints, columns: Stretch) -> Iterator[tuple[int, Stretch]]:
    """Yield (first place, rows) of all runs of consecutive places."""
    if not len(places):
        return
    if len(places) == 1 or (np.diff(places) == 1).all():
        yield int(places[0]), columns
        return
    order = np.argsort(places)
    cuts = [0, *np.flatnonzero(np.diff(places[order]) != 1) + 1, len(order)]
    for start, stop in pairwise(cuts):
        rows = order[start:stop]
        yield int(places[rows[0]]), tuple(column.take(rows) for column in columns)


def _cut(rows: Stretch, part: slice) -> Stretch:
    return tuple(Cells(c.hashes[part].copy(), c.numbers[part].copy()) for c in rows)


def _joined(one: Stretch, two: Stretch) -> Stretch:
    return tuple(a.then(b) for a, b in zip(one, two, strict=True))


def _added(*parts: tuple[Bottom, ...]) -> tuple[Bottom, ...]:
    return tuple(a + b + c for a, b, c in zip(*parts, strict=True))


def _all(parts: list[Words]) -> Words:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _alike(cells: Words) -> int:
    return int(np.count_nonzero(cells[1:] == cells[:-1]))


def _windows(cells: Words) -> Words:
    """Return a hash of each WIDTH consecutive cells."""
    out = np.empty(max(len(cells) - WIDTH + 1, 0), dtype=np.uint64)
    _fill_windows(np.ascontiguousarray(cells), out)
    return out


def _steps(numbers: Floats) -> Words:
    """Return a hash of each difference between neighbours; 0 where one is no number."""
    out = np.empty(max(len(numbers) - 1, 0), dtype=np.uint64)
    _fill_steps(np.ascontiguousarray(numbers), out)
    return out


@strict
def _fill_windows(cells: Any, out: Any) -> None:
    """Fill out[i] with the hash of cells[i : i + WIDTH], which rolls: sum of cell * BASE^place."""
    first = _U(1)
    for _ in range(WIDTH - 1):
        first *= _BASE
    word = _U(0)
    for row in range(cells.shape[0]):
        word = word * _BASE + cells[row]
        if row >= WIDTH - 1:
            at = row - WIDTH + 1
            out[at] = mixed(word)
            word -= cells[at] * first


@strict
def _fill_steps(numbers: Any, out: Any) -> None:
    for row in range(out.shape[0]):
        step = np.float64(np.float32(numbers[row + 1] - numbers[row])) + 0.0
        out[row] = _U(0) if np.isnan(step) else mixed(bits_of(step) + _BASE)
