"""The smallest of many keyed hashes, and how many rows hold each: a sketch that adds up.

A value is in the sketch of a table, with its exact count, if fewer than SIZE distinct values of
the table have a smaller hash. So two tables sample the same values, wherever these stand, and
the sketch of a whole is that of its parts.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.keyed import strict

SIZE = 256
"""Distinct values in a sketch: 51 of them are those of a fifth of the rows."""

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_U = np.uint64
_SLOTS = 2048
_BLOCK = 256

WIDTH = 8
"""Consecutive cells in a window."""


@dataclass(frozen=True)
class Bottom:
    """The smallest distinct hashes, ascending, how many rows hold each, and its number."""

    hashes: Words
    counts: Ints
    numbers: Floats

    @classmethod
    def of(cls, hashes: Words, numbers: Floats | None = None, *, windows: bool = False) -> "Bottom":
        """Sketch the cells of some rows, or each WIDTH consecutive ones; a hash of 0 is none."""
        hashes = np.ascontiguousarray(hashes)
        numbers = hashes.view(np.float64) if numbers is None else np.ascontiguousarray(numbers)
        # If all values differ, twice as many as are wanted lie below the first limit.
        share = 2 * SIZE / max(len(hashes), 1)
        while True:
            found = cls._below(_share(share), hashes, numbers, windows)
            if share >= 1 or len(found.hashes) == SIZE:
                return found
            share *= 2 * SIZE / max(len(found.hashes), 1)

    @classmethod
    def of_counted(cls, hashes: Words, counts: Ints, numbers: Floats) -> "Bottom":
        """Sketch values of which it is known how many rows hold each."""
        held = np.flatnonzero((hashes != 0) & (counts > 0))
        found = held[np.argsort(hashes[held], kind="stable")]
        repeated = cls(hashes[found], counts[found], numbers[found])
        return cls.nothing() + repeated

    @classmethod
    def _below(cls, limit: np.uint64, hashes: Words, numbers: Floats, windows: bool) -> "Bottom":
        found, start, rows = cls.nothing(), 0, len(hashes) - (WIDTH - 1 if windows else 0)
        while start < rows:
            keys, counts, values = _room(_SLOTS)
            start = _collect(hashes, numbers, windows, start, rows, limit, keys, counts, values)
            full = np.flatnonzero(keys)
            full = full[np.argsort(keys[full])]
            found = found + cls(keys[full], counts[full], values[full])
            limit = min(limit, found.below)
        return found

    @classmethod
    def nothing(cls) -> "Bottom":
        """Return the sketch of no rows."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0))

    def __add__(self, other: "Bottom") -> "Bottom":
        hashes, counts, numbers = _room(SIZE)
        one, two = ((b.hashes, b.counts, b.numbers) for b in (self, other))
        size = _merge(*one, *two, hashes, counts, numbers)
        return Bottom(hashes[:size].copy(), counts[:size].copy(), numbers[:size].copy())

    @property
    def below(self) -> np.uint64:
        """The largest hash up to which the sketch holds everything."""
        return ALL if len(self.hashes) < SIZE else self.hashes[-1]

    @cached_property
    def distinct(self) -> float:
        """About how many distinct values there are: exact if they all fit."""
        if len(self.hashes) < SIZE:
            return float(len(self.hashes))
        return (SIZE - 1) / (float(self.below) / 2.0**64)

    @property
    def single(self) -> float:
        """The share of the distinct values that one row alone holds."""
        return float(np.mean(self.counts == 1)) if len(self.counts) else 0.0


def _room(size: int) -> tuple[Words, Ints, Floats]:
    return np.zeros(size, np.uint64), np.zeros(size, np.int64), np.empty(size)


@strict
def mixed(word: Any) -> Any:
    """Return a word with its bits spread, so that near inputs have far images."""
    word = (word ^ (word >> _U(33))) * _U(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> _U(33))) * _U(0xC4CEB9FE1A85EC53)
    return word ^ (word >> _U(33))


def _share(share: float) -> np.uint64:
    """Return the hash below which a share of all hashes lies."""
    return ALL if share >= 1 else np.uint64(int(share * 2.0**64))


@strict
def _collect(
    hashes: Any,
    numbers: Any,
    windows: bool,
    start: int,
    rows: int,
    limit: Any,
    keys: Any,
    counts: Any,
    values: Any,
) -> Any:
    """Count words up to a limit in a table of slots; return the row at which it was half full.

    Few rows are that low once the limit is: blocks without one are passed over at once.
    """
    mask, used = _U(keys.shape[0] - 1), 0
    room = np.empty(2 * _BLOCK, dtype=np.uint64)
    for first in range(start, rows, _BLOCK):
        size = min(_BLOCK, rows - first)
        if windows:
            _fill_windows(hashes[first : first + size + WIDTH - 1], room)
            words = room[:size]
        else:
            words = hashes[first : first + size]
        least = ALL
        for row in range(size):
            least = min(least, words[row] - _U(1))  # none, 0, becomes the largest
        if least >= limit:
            continue
        for row in range(size):
            word = words[row]
            if word - _U(1) >= limit:
                continue
            slot = word & mask
            while keys[slot] != word and keys[slot] != _U(0):
                slot = (slot + _U(1)) & mask
            if keys[slot] == _U(0):
                if 2 * used == keys.shape[0]:
                    return first + row
                keys[slot], values[slot] = word, numbers[first + row]
                used += 1
            counts[slot] += 1
    return rows


@strict
def _fill_windows(cells: Any, out: Any) -> None:
    """Fill out[i] with the sum of cells[i : i + WIDTH], each turned by another number of bits.

    By doubling: the sum of 2 neighbours, of 2 such, of 2 of these.
    """
    size = cells.shape[0] - 1
    for row in range(size):
        out[row] = _turned(cells[row], 7) + cells[row + 1]
    for row in range(size - 2):
        out[row] = _turned(out[row], 14) + out[row + 2]
    for row in range(size - 6):
        out[row] = _turned(out[row], 28) + out[row + 4]


@strict
def _turned(word: Any, bits: int) -> Any:
    return (word << _U(bits)) | (word >> _U(64 - bits))


@strict
def _merge(
    a: Any, m: Any, x: Any, b: Any, n: Any, y: Any, hashes: Any, counts: Any, numbers: Any
) -> int:
    """Merge two ascending lists, adding the counts of what is equal; return how many there are."""
    i, j, size, last = 0, 0, -1, _U(0)
    while i < a.shape[0] or j < b.shape[0]:
        mine = j == b.shape[0] or (i < a.shape[0] and a[i] <= b[j])
        word, count, number = (a[i], m[i], x[i]) if mine else (b[j], n[j], y[j])
        i, j = (i + 1, j) if mine else (i, j + 1)
        if word != last:
            if size + 1 == hashes.shape[0]:
                break
            size += 1
            hashes[size], counts[size], numbers[size], last = word, 0, number, word
        counts[size] += count
    return size + 1
