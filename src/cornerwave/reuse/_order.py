"""What is known of a column's order: windows of consecutive cells, neighbours, steps.

    window   WIDTH cells in a row, hashed as one: few values alone show little, their order much.
             One row more or less changes the WIDTH windows around it and no other
    alike    how many cells equal the one before: many in a sorted column
    steps    the different differences between neighbours: few in row numbers and calendars

Rows come in any parts. Each part keeps the ends of its runs of consecutive rows, and where two
runs meet, the windows across the seam are made up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ints, Words
from cornerwave.reuse._bottom import WIDTH, Bottom
from cornerwave.reuse._cells import Cells, SeenCells

_ENDS = WIDTH - 1
_U = np.uint64

FEW_STEPS = 16
"""Row numbers, and calendars of days, working days, weeks, months, take no more different steps."""
MANY_STEPS = np.arange(FEW_STEPS + 1, dtype=np.uint64)
"""What represents any more of them."""

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
        return cls(start, start + len(rows[0].numbers), head, tail)

    def then(self, other: "Run") -> "Run":
        """Return this run and the one that follows as one."""
        # a run shorter than the window has all of its rows at either end
        head = _cut(_joined(self.head, other.head), slice(None, _ENDS))
        tail = _cut(_joined(self.tail, other.tail), slice(-_ENDS, None))
        return Run(self.start, other.stop, head, tail)


@dataclass(frozen=True)
class Order:
    """What is known of the order of some columns; `a + b` of the rows of both."""

    windows: tuple[Bottom, ...]
    steps: tuple[Words, ...]
    alike: Ints
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, places: Ints, columns: Sequence[Cells], seen: Sequence[SeenCells]) -> "Order":
        """Learn the order of some cells, given their rows' places in the table.

        `seen` is what was seen of them, which is all if they are neighbours.
        """
        columns = tuple(columns)
        runs = list(_runs(places, columns))
        ends = tuple(Run.of(*run) for run in runs)
        if len(runs) != 1 or runs[0][1] is not columns:
            rows = [stretch for _, stretch in runs]
            return cls._of(len(columns), rows, rows, ends)
        return cls(
            windows=tuple(each.windows for each in seen),
            steps=tuple(_steps(cells.numbers) for cells in columns),
            alike=np.array([each.alike for each in seen], dtype=np.int64),
            runs=ends,
        )

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
        alike = [
            sum(np.count_nonzero((h := s[c].hashes)[1:] == h[:-1]) for s in pairs) for c in which
        ]
        return cls(
            windows=tuple(_windows([s[c].hashes for s in rows]) for c in which),
            steps=tuple(_union([_steps(s[c].numbers) for s in pairs]) for c in which),
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
            windows=tuple(
                a + b + c
                for a, b, c in zip(self.windows, other.windows, seams.windows, strict=True)
            ),
            steps=tuple(
                _union(parts) for parts in zip(self.steps, other.steps, seams.steps, strict=True)
            ),
            alike=self.alike + other.alike + seams.alike,
            runs=tuple(runs),
        )


def _runs(places: Ints, columns: Stretch) -> Iterator[tuple[int, Stretch]]:
    """Yield (first place, rows) of all runs of consecutive places."""
    if not len(places):
        return
    if (np.diff(places) == 1).all():
        yield int(places[0]), columns
        return
    columns = tuple(Cells(cells.numbers, cells.hashes) for cells in columns)  # hashed at once
    # rows in the order of their places, cut where the next place is not the next row
    order = np.argsort(places)
    cuts = [0, *np.flatnonzero(np.diff(places[order]) != 1) + 1, len(order)]
    for start, stop in pairwise(cuts):
        rows = order[start:stop]
        yield int(places[rows[0]]), tuple(column.take(rows) for column in columns)


def _cut(rows: Stretch, part: slice) -> Stretch:
    return tuple(cells.take(part) for cells in rows)


def _joined(one: Stretch, two: Stretch) -> Stretch:
    return tuple(a.then(b) for a, b in zip(one, two, strict=True))


def _windows(stretches: Sequence[Words]) -> Bottom:
    bottom = Bottom.nothing()
    for cells in stretches:
        bottom = bottom + Bottom.of(cells, windows=True)
    return bottom


def _steps(numbers: Floats) -> Words:
    """Return the different steps between neighbours, if they are few, in single precision."""
    out = np.empty(FEW_STEPS, dtype=np.uint64)
    count = _core.find_steps(np.ascontiguousarray(numbers), out)
    return MANY_STEPS if count > FEW_STEPS else np.sort(out[:count])


def _union(parts: Sequence[Words]) -> Words:
    """Return the steps that occur in any part, if they are few."""
    if any(len(part) > FEW_STEPS for part in parts):
        return MANY_STEPS
    # as few as that distinguish record numbers and calendars from measurements
    union = np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *parts]))
    return union if len(union) <= FEW_STEPS else MANY_STEPS
