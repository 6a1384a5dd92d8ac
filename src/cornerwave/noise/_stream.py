"""From a secret key to white noise (noise format 1).

    stream key = HKDF(dataset key, noise of the level)
    bits       = AES-256 under the stream key, of (128-bit row id xor column pair)
    normals    = Box-Muller of the two 64-bit halves: one for each column of the pair

So the noise of a cell is a function of the key, the level, the row's id and the
column: nothing about chunks, threads or order enters, and anyone who sees the noise
of some rows learns nothing about that of others. The stream hangs on the level's
noise itself, so that no two levels share one whatever becomes of the ledger.

The arithmetic is strict (`_core/strict.hpp`): the same bits on every machine. A change to it is a
new noise format.
"""

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ids, Words
from cornerwave.errors import LevelError
from cornerwave.keyed import BlockFunction, expand, masks, room_for
from cornerwave.levels import LATTICE, checked_noise, lattice_order

NOISE_FORMAT = 1


def position_ids(start: int, rows: int) -> Ids:
    """Return the ids of rows that are known by their position in the table."""
    ids = np.empty((rows, 2), dtype=np.uint64)
    _core.fill_positions(start, ids)
    return ids


class WhiteStreams:
    """The white noise of some levels, for blocks of at most `rows` rows.

    Each thread needs its own. Memory is asked for once: touching fresh pages costs
    more than the noise itself. What `words` returns is valid until its next call.

    >>> streams = WhiteStreams(bytes(32), [0.5, 1.0], columns=3, rows=4)
    >>> streams.place(streams.positions(0, 4))
    >>> streams.normals(0.5).shape
    (3, 4)
    """

    def __init__(self, key: bytes, noise: Iterable[float], *, columns: int, rows: int) -> None:
        self.columns = columns
        self._functions = {
            level: BlockFunction(expand(key, "white", struct.pack("<d", level)), masked=True)
            for level in noise
        }
        self._ids = np.empty((rows, 2), dtype=np.uint64)
        self._cells = np.empty((rows * ((columns + 1) // 2), 2), dtype=np.uint64)
        self._placed, self._words = self._cells[:0], room_for(len(self._cells))
        self._masks = masks(len(self._cells))
        self.rows = 0

    def positions(self, start: int, rows: int) -> Ids:
        """Return the ids of rows known by their position."""
        _core.fill_positions(start, self._ids[:rows])
        return self._ids[:rows]

    def place(self, ids: Ids) -> None:
        """Go to the rows with these ids."""
        self.rows = len(ids)
        self._placed = self._cells[: self.rows * ((self.columns + 1) // 2)]
        _core.fill_cell_ids(np.ascontiguousarray(ids), self._masks, self._placed)

    def normals(self, level: float) -> Floats:
        """Return standard normals of a level at the current rows, shape (columns, rows)."""
        normals = np.empty((self.columns, self.rows))
        _core.fill_normals(*self.words(level), normals)
        return normals

    def words(self, level: float) -> tuple[Words, Words]:
        """Return the random words that the normals of a level are made of, and their masks."""
        return self._functions[level](self._placed, self._words), self._masks


# --------------------------------------------------------------------------------------------------
# From levels, in the order in which they are entered, to steps on the path.
#
#     W(0) = 0,   Cov(W(u), W(v)) = min(u, v) K                    (corner-wave property)
#
# The path is Markov, so a new level v needs only its nearest neighbours a < v < b
# among the levels read before it (a = 0 counts), and fresh noise xi ~ N(0, K):
#
#     no b:  W(v) = W(a) + sqrt(v - a) xi
#     else:  W(v) = (b-v)/(b-a) W(a) + (v-a)/(b-a) W(b) + sqrt((v-a)(b-v)/(b-a)) xi
#
# This is Algorithm 3 of the paper without its matrix inverse; read upwards it is
# Algorithm 2. Unrolled, row j holds the coefficients of W(v_j) on the fresh noise
# of levels 1..j: the Cholesky factor of the min-matrix in that order.
#
# For a vault the order is a constant, that of the lattice, so that a level's noise
# never depends on what was released before it.


ORIGIN = -1
"""The index of W(0) = 0, which every path starts from."""


@dataclass(frozen=True, slots=True)
class Step:
    """How one level is reached: weights on two earlier levels, and on fresh noise."""

    noise: float
    below: int
    above: int
    weight_below: float
    weight_above: float
    weight_fresh: float


def steps(noise: Sequence[float]) -> tuple[Step, ...]:
    """Return one step per level, for distinct levels in the order of their entry.

    Raises LevelError for a duplicate level: it is the same copy.

    >>> [(s.below, s.above, s.weight_fresh) for s in steps([1.0, 4.0, 2.0])]
    [(-1, -1, 1.0), (0, -1, 1.7320508075688772), (0, 1, 0.816496580927726)]
    """
    ordered: list[float] = []
    index_at: list[int] = []
    result = []
    for index, level in enumerate(map(checked_noise, noise)):
        place = bisect_left(ordered, level)
        if place < len(ordered) and ordered[place] == level:
            raise LevelError(f"duplicate noise level {level!r}")
        below = index_at[place - 1] if place > 0 else ORIGIN
        above = index_at[place] if place < len(ordered) else ORIGIN
        result.append(_step(level, below, above, noise))
        ordered.insert(place, level)
        index_at.insert(place, index)
    return tuple(result)


@cache
def lattice_path() -> tuple[Step, ...]:
    """Return the steps of all 999 levels of the lattice, in its fixed order."""
    return steps(lattice_order())


def lattice_index(noise: float) -> int:
    """Return the place of a lattice level in `lattice_path`."""
    return _lattice_places()[noise]


@cache
def _lattice_places() -> dict[float, int]:
    return {noise: place for place, noise in enumerate(lattice_order())}


def _step(level: float, below: int, above: int, noise: Sequence[float]) -> Step:
    low = float(noise[below]) if below != ORIGIN else 0.0
    if above == ORIGIN:
        return Step(level, below, above, 1.0, 0.0, math.sqrt(level - low))
    high = float(noise[above])
    weight_below = (high - level) / (high - low)
    weight_above = (level - low) / (high - low)
    fresh = math.sqrt((level - low) * weight_below)
    return Step(level, below, above, weight_below, weight_above, fresh)


def ancestors(path: Sequence[Step], wanted: Iterable[int]) -> list[int]:
    """Return the levels that must be read to reach `wanted`, in the order of their entry.

    For levels asked for in random order these are about 2 ln M of M.

    >>> ancestors(steps([4.0, 1.0, 2.0, 9.0]), [3])
    [0, 3]
    """
    needed: set[int] = set()
    pending = list(wanted)
    while pending:
        index = pending.pop()
        if index != ORIGIN and index not in needed:
            needed.add(index)
            pending += (path[index].below, path[index].above)
    return sorted(needed)


LITTLE = 0.005
"""A level of up to this share more noise is as good, if it is read through fewer others."""


@cache
def level_nearby(thousandths: int) -> int:
    """Return the level that is read through fewest others, of one and those of little more noise.

    One thousandth is little between privacy 0.277 and 0.723: v = p / (1 - p) rises by less than
    LITTLE, as dv / v = dp / (p (1 - p)).

    >>> level_nearby(499), level_nearby(500), level_nearby(899)
    (500, 500, 899)
    """
    path, most = lattice_path(), LATTICE[thousandths - 1] * (1 + LITTLE)
    near = range(thousandths, bisect_left(LATTICE, most) + 1)
    return min(near, key=lambda k: len(ancestors(path, [lattice_index(LATTICE[k - 1])])))


def coefficients(path: Sequence[Step]) -> Floats:
    """Return the M x M rows of W(v_j) on the fresh noise of each level.

    >>> coefficients(steps([1.0, 4.0])).round(4).tolist()
    [[1.0, 0.0], [1.0, 1.7321]]
    """
    rows = np.zeros((len(path) + 1, len(path)))  # the last row is W(0) = 0: index ORIGIN
    for index, step in enumerate(path):
        rows[index] = step.weight_below * rows[step.below] + step.weight_above * rows[step.above]
        rows[index, index] = step.weight_fresh
    return rows[:-1]
