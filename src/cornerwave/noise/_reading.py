"""Reading the path: the noise of a block of rows, at the wanted levels.

    U(v_j) = weight_below U(v_a) + weight_above U(v_b) + weight_fresh z_j     (white)
    W(v_j) = L U(v_j),  K = L L'                                              (shaped like K)

The recurrence runs on white noise, for the wanted levels and those that they
descend from; the factor L is applied once to each copy that is wanted. Every cell
is computed by the same operations in the same order however the rows are cut into
blocks, and a block is small enough to stay in the processor's cache.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import sched_getaffinity
from typing import TypeVar

import numpy as np

from cornerwave import _core, sizes
from cornerwave.arrays import Floats, Ids
from cornerwave.noise._stream import ORIGIN, Step, WhiteStreams, ancestors

Worker = TypeVar("Worker")


def available_threads() -> int:
    """Return how many threads this process may run at once."""
    return len(sched_getaffinity(0))


def rows_of_block(columns: int) -> int:
    """Return how many rows are computed at a time."""
    return max(sizes.BLOCK_ROWS, sizes.BLOCK_CELLS // columns)


@dataclass(frozen=True, slots=True)
class _Move:
    """One step of the recurrence with the places in memory that it reads and writes."""

    index: int
    step: Step
    below: int
    above: int
    target: int


class Reading:
    """The wanted levels of a path, and the order in which they can be computed."""

    def __init__(self, path: Sequence[Step], wanted: Sequence[int]) -> None:
        self.wanted = frozenset(wanted)
        self.moves, self.places = _plan(path, wanted)

    @property
    def noise(self) -> list[float]:
        """The levels whose white noise this reading takes."""
        return [move.step.noise for move in self.moves]


class Reader:
    """Computes U(v) for blocks of at most `rows` rows. Each thread needs its own."""

    def __init__(self, reading: Reading, key: bytes, *, columns: int, rows: int) -> None:
        self._reading = reading
        self.wanted = reading.wanted
        self._streams = WhiteStreams(key, reading.noise, columns=columns, rows=rows)
        # The last place is W(0) = 0: index ORIGIN.
        self._levels = np.zeros((reading.places + 1, columns * rows))

    def white(self, ids: Ids) -> Iterator[tuple[int, Floats]]:
        """Yield (index, U) for each wanted level; U (columns, rows) lives until the next."""
        self._streams.place(ids)
        shape = (self._streams.columns, len(ids))
        levels = self._levels[:, : shape[0] * shape[1]].reshape(-1, *shape)
        for move in self._reading.moves:
            step, target = move.step, levels[move.target]
            _core.fill_level(
                step.weight_below,
                levels[move.below],
                step.weight_above,
                levels[move.above],
                step.weight_fresh,
                *self._streams.words(step.noise),
                target,
            )
            if move.index in self._reading.wanted:
                yield move.index, target


def _plan(path: Sequence[Step], wanted: Sequence[int]) -> tuple[list[_Move], int]:
    """Order the steps, and give each a place in memory that nobody still needs."""
    order = ancestors(path, wanted)
    # a level can be forgotten after the last step that bridges between it and another
    last_use = {index: index for index in order}
    for index in order:
        last_use[path[index].below] = last_use[path[index].above] = index
    place_of: dict[int, int] = {}
    free: list[int] = []
    moves, places = [], 0
    for index in order:
        step = path[index]
        if not free:
            free.append(places)
            places += 1
        target = place_of[index] = free.pop()
        below, above = (place_of.get(n, ORIGIN) for n in (step.below, step.above))
        moves.append(_Move(index, step, below, above, target))
        done = {n for n in (step.below, step.above, index) if last_use[n] == index}
        free += (place_of.pop(n) for n in done - {ORIGIN})
    return moves, places


def over_blocks(
    make_worker: Callable[[int], Worker],
    work: Callable[[Worker, slice], None],
    *,
    rows: int,
    columns: int,
    threads: int | None = None,
    block_rows: int | None = None,
) -> None:
    """Call `work(worker, slice)` for every block; each thread makes its worker(block rows)."""
    threads = threads or available_threads()
    # no block is larger than a thread's share: a small table keeps all threads busy
    size = min(block_rows or rows_of_block(columns), -(-rows // threads))
    parts = iter([slice(at, min(at + size, rows)) for at in range(0, rows, size)])

    def run(_thread: int) -> None:
        worker = make_worker(size)
        for part in parts:
            work(worker, part)

    if threads == 1:
        run(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, range(threads)))
