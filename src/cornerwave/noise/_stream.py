"""From a secret key to white noise (noise format 1).

    stream key = HKDF(dataset key, noise of the level)
    bits       = AES-256 under the stream key, of (128-bit row id xor column pair)
    normals    = Box-Muller of the two 64-bit halves: one for each column of the pair

So the noise of a cell is a function of the key, the level, the row's id and the
column: nothing about chunks, threads or order enters, and whoever sees the noise
of some rows learns nothing about that of others. The stream hangs on the level's
noise itself, so that no two levels share one whatever becomes of the ledger.

The arithmetic is strict: the same bits on every machine. A change to it is a new noise
format.
"""

import math
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ids
from cornerwave.keyed import (
    BlockFunction,
    cos_sin_of,
    expand,
    room_for,
    sine_of,
    square_of,
    strict,
    widest_vectors,
)
from cornerwave.noise._shape import TILE_ROWS

NOISE_FORMAT = 1


def position_ids(start: int, rows: int) -> Ids:
    """Return the ids of rows that are known by their position in the table."""
    ids = np.empty((rows, 2), dtype=np.uint64)
    fill_positions(start, ids)
    return ids


class WhiteStreams:
    """The white noise of some levels, for blocks of at most `rows` rows.

    Each thread needs its own. Memory is asked for once: touching fresh pages costs
    more than the noise itself. What a method returns is valid until its next call.

    >>> streams = WhiteStreams(bytes(32), [0.5, 1.0], columns=3, rows=4)
    >>> streams.place(streams.positions(0, 4))
    >>> streams.normals(0.5).shape
    (3, 4)
    """

    def __init__(self, key: bytes, noise: Iterable[float], *, columns: int, rows: int) -> None:
        self.columns = columns
        self._functions = {
            level: BlockFunction(expand(key, "white", struct.pack("<d", level))) for level in noise
        }
        self._ids = np.empty((rows, 2), dtype=np.uint64)
        self._cells = np.empty((rows * ((columns + 1) // 2), 2), dtype=np.uint64)
        self._words = room_for(len(self._cells))
        self._normals = np.empty(columns * rows)
        self.rows = 0

    def positions(self, start: int, rows: int) -> Ids:
        """Return the ids of rows known by their position."""
        fill_positions(start, self._ids[:rows])
        return self._ids[:rows]

    def place(self, ids: Ids) -> None:
        """Go to the rows with these ids."""
        self.rows = len(ids)
        fill_cell_ids(ids, self._placed)

    def normals(self, level: float) -> Floats:
        """Return standard normals of a level at the current rows, shape (columns, rows)."""
        normals = self._normals[: self.columns * self.rows].reshape(self.columns, self.rows)
        self.fill(level, normals)
        return normals

    def fill(self, level: float, out: Floats) -> None:
        """Fill (columns, rows) with standard normals of a level at the current rows."""
        fill_normals(self._functions[level](self._placed, self._words), out)

    @property
    def _placed(self) -> Ids:
        return self._cells[: self.rows * ((self.columns + 1) // 2)]


@strict
def fill_normals(words: Any, out: Any) -> None:
    """Fill (columns, rows) with standard normals from two words per pair and row."""
    columns, rows = out.shape
    for start in range(0, rows, TILE_ROWS):
        stop = min(start + TILE_ROWS, rows)
        for column in range(0, columns, 2):
            w = words[column * rows + 2 * start : column * rows + 2 * stop]
            first = out[column, start:stop]
            _fill_squares(w, first)
            if column + 1 < columns:
                _turn(w, first, out[column + 1, start:stop])
            else:
                _turn_alone(w, first)


# Each step is a loop of its own: in one loop they wait for each other, and it takes half as
# long again.
@strict
def _fill_squares(words: Any, out: Any) -> None:
    widest_vectors()
    for row in range(out.shape[0]):
        out[row] = square_of(words[2 * row])


@strict
def _turn(words: Any, first: Any, second: Any) -> None:
    widest_vectors()
    for row in range(first.shape[0]):
        cosine, sine = cos_sin_of(words[2 * row + 1])
        radius = math.sqrt(first[row])
        first[row] = radius * cosine
        second[row] = radius * sine


@strict
def _turn_alone(words: Any, out: Any) -> None:
    widest_vectors()
    for row in range(out.shape[0]):
        out[row] = math.sqrt(out[row]) * sine_of(words[2 * row + 1])


@strict
def fill_cell_ids(ids: Any, out: Any) -> None:
    """Fill out[pair * rows + row] with the row's id, its high half xor the pair."""
    rows = ids.shape[0]
    for pair in range(out.shape[0] // rows):
        for row in range(rows):
            out[pair * rows + row, 0] = ids[row, 0]
            out[pair * rows + row, 1] = ids[row, 1] ^ np.uint64(pair)


@strict
def fill_positions(start: int, out: Any) -> None:
    """Fill out[row] with the position start + row."""
    for row in range(out.shape[0]):
        out[row, 0] = start + row
        out[row, 1] = 0
