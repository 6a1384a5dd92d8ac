"""What is known of a column's order: windows of consecutive cells, neighbours, steps.

    window   WIDTH cells in a row, hashed as one: few values alone say little, their order much.
             One row more or less changes the WIDTH windows around it and no other
    alike    how many cells equal the one before: many in a sorted column
    steps    differences between neighbours: few distinct ones in row numbers and calendars

Rows come in any parts. Each part keeps the ends of its runs of consecutive rows, and where two
runs meet, the windows across the seam are made up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.keyed import bits_of, strict
from cornerwave.marks._bottom import Bottom, mixed
from cornerwave.marks._cells import Cells

WIDTH = 8
_U = np.uint64
_BASE = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing


@dataclass(frozen=True)
class Run:
    """Consecutive rows: from where to where, and the WIDTH - 1 cells at either end."""

    start: int
    stop: int
    head: tuple[Words, Floats]
    tail: tuple[Words, Floats]

    @classmethod
    def of(cls, start: int, columns: Sequence[Cells]) -> "Run":
        """Return the run of some columns."""
        head, tail = slice(None, WIDTH - 1), slice(-(WIDTH - 1), None)
        stop = start + len(columns[0].hashes)
        return cls(start, stop, _ends(columns, head), _ends(columns, tail))

    def then(self, other: "Run") -> "Run":
        """Return this run and the one that follows as one."""
        heads, tails = _joined(self.head, other.head), _joined(self.tail, other.tail)
        ends = WIDTH - 1
        head = (heads[0][:, :ends], heads[1][:, :ends])
        tail = (tails[0][:, -ends:], tails[1][:, -ends:])
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
        if not len(places):
            return cls.nothing(len(columns))
        if len(places) > 1 and not (np.diff(places) == 1).all():
            return cls._of_scattered(places, columns)
        return cls._of_run(int(places[0]), columns)

    @classmethod
    def nothing(cls, columns: int) -> "Order":
        """Return what is known of no rows."""
        none = (Bottom.nothing(),) * columns
        return cls(none, none, np.zeros(columns, dtype=np.int64), ())

    @classmethod
    def _of_scattered(cls, places: Ints, columns: Sequence[Cells]) -> "Order":
        order = np.argsort(places)
        cuts = [0, *np.flatnonzero(np.diff(places[order]) != 1) + 1, len(order)]
        total = cls.nothing(len(columns))
        for start, stop in pairwise(cuts):
            rows = order[start:stop]
            total = total + cls._of_run(int(places[rows[0]]), [c.take(rows) for c in columns])
        return total

    @classmethod
    def _of_run(cls, start: int, columns: Sequence[Cells]) -> "Order":
        return cls(
            windows=tuple(Bottom.of(_windows(c.hashes)) for c in columns),
            steps=tuple(Bottom.of(_steps(c.numbers)) for c in columns),
            alike=np.array([np.count_nonzero(c.hashes[1:] == c.hashes[:-1]) for c in columns]),
            runs=(Run.of(start, columns),),
        )

    def __add__(self, other: "Order") -> "Order":
        total = Order(
            windows=_added(self.windows, other.windows),
            steps=_added(self.steps, other.steps),
            alike=self.alike + other.alike,
            runs=(),
        )
        runs, seams = _meet(sorted([*self.runs, *other.runs], key=lambda run: run.start))
        for hashes, numbers in seams:
            total = total._with_seam(hashes, numbers)
        return Order(total.windows, total.steps, total.alike, tuple(runs))

    def _with_seam(self, hashes: tuple[Words, Words], numbers: tuple[Floats, Floats]) -> "Order":
        """Add what two runs that meet have together: no window fits into one side of the seam."""
        across = np.concatenate(hashes, axis=1)
        pair = np.stack([numbers[0][:, -1], numbers[1][:, 0]], axis=1)
        return Order(
            windows=_added(self.windows, [Bottom.of(_windows(row)) for row in across]),
            steps=_added(self.steps, [Bottom.of(_steps(row)) for row in pair]),
            alike=self.alike + (hashes[0][:, -1] == hashes[1][:, 0]),
            runs=(),
        )


Seam = tuple[tuple[Words, Words], tuple[Floats, Floats]]


def _meet(runs: Sequence[Run]) -> tuple[list[Run], list[Seam]]:
    """Join runs, in their order, that follow one another; return them and the seams."""
    joined: list[Run] = []
    seams: list[Seam] = []
    for run in runs:
        if joined and joined[-1].stop == run.start:
            before = joined.pop()
            seams.append(((before.tail[0], run.head[0]), (before.tail[1], run.head[1])))
            run = before.then(run)
        joined.append(run)
    return joined, seams


def _added(one: Sequence[Bottom], two: Sequence[Bottom]) -> tuple[Bottom, ...]:
    return tuple(a + b for a, b in zip(one, two, strict=True))


def _ends(columns: Sequence[Cells], rows: slice) -> tuple[Words, Floats]:
    cut = [column.take(rows) for column in columns]
    return np.stack([c.hashes for c in cut]), np.stack([c.numbers for c in cut])


def _joined(one: tuple[Words, Floats], two: tuple[Words, Floats]) -> tuple[Words, Floats]:
    return (
        np.concatenate([one[0], two[0]], axis=1),
        np.concatenate([one[1], two[1]], axis=1),
    )


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
