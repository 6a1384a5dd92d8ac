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

SIZE = 384
"""Distinct values in a sketch: 77 of them are those of a fifth of the rows; 30 must be seen."""

ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_U = np.uint64
_SLOTS = 2048

WIDTH = 8
"""Consecutive cells in a window."""

BLOCK = 256
"""Cells that are dealt with at a time: they stay in the nearest cache."""


@dataclass(frozen=True)
class Bottom:
    """The smallest distinct hashes, ascending, how many rows hold each, and its number."""

    hashes: Words
    counts: Ints
    numbers: Floats

    @classmethod
    def of(
        cls,
        hashes: Words,
        numbers: Floats | None = None,
        *,
        windows: bool = False,
        below: np.uint64 = ALL,
    ) -> "Bottom":
        """Sketch the cells of some rows, or each WIDTH consecutive ones; a hash of 0 is none.

        Hashes above `below` are of no interest.
        """
        hashes = np.ascontiguousarray(hashes)
        numbers = hashes.view(np.float64) if numbers is None else np.ascontiguousarray(numbers)
        limit = first_limit(len(hashes), below)
        while True:
            found = cls._up_to(limit, hashes, numbers, windows)
            if found.suffices(limit, below):
                return found
            limit = found.next_limit(limit, below)

    @classmethod
    def of_counted(cls, hashes: Words, counts: Ints, numbers: Floats) -> "Bottom":
        """Sketch values of which it is known how many rows hold each."""
        held = np.flatnonzero((hashes != 0) & (counts > 0))
        found = held[np.argsort(hashes[held], kind="stable")]
        repeated = cls(hashes[found], counts[found], numbers[found])
        return cls.nothing() + repeated

    @classmethod
    def _up_to(cls, limit: np.uint64, hashes: Words, numbers: Floats, windows: bool) -> "Bottom":
        found, start, rows = cls.nothing(), 0, len(hashes) - (WIDTH - 1 if windows else 0)
        while start < rows:
            slots = empty_slots()
            start = _collect(hashes, numbers, windows, start, rows, limit, *slots)
            found = found + cls.of_slots(*slots)
            limit = min(limit, found.below)
        return found

    @classmethod
    def of_slots(cls, keys: Words, counts: Ints, values: Floats) -> "Bottom":
        """Sketch what was counted in slots."""
        full = np.flatnonzero(keys)
        full = full[np.argsort(keys[full])][:SIZE]
        return cls(keys[full], counts[full], values[full])

    @classmethod
    def nothing(cls) -> "Bottom":
        """Return the sketch of no rows."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0))

    def __add__(self, other: "Bottom") -> "Bottom":
        hashes, counts, numbers = _room(SIZE)
        one, two = ((b.hashes, b.counts, b.numbers) for b in (self, other))
        size = _merge(*one, *two, hashes, counts, numbers)
        return Bottom(hashes[:size].copy(), counts[:size].copy(), numbers[:size].copy())

    def suffices(self, limit: np.uint64, below: np.uint64 = ALL) -> bool:
        """Whether this sketch of the hashes up to a limit is that of all up to `below`."""
        return bool(limit >= below) or len(self.hashes) == SIZE

    def next_limit(self, limit: np.uint64, below: np.uint64 = ALL) -> np.uint64:
        """Return up to which hash to look, if this sketch of those up to a limit is too small."""
        return min(_share(2 * SIZE * float(limit) * 2.0**-64 / max(len(self.hashes), 1)), below)

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


def empty_slots() -> tuple[Words, Ints, Floats]:
    """Return room to count hashes in, and the number of each."""
    return _room(_SLOTS)


def first_limit(rows: int, below: np.uint64 = ALL) -> np.uint64:
    """Return up to which hash to look first: if all differ, there are twice as many as wanted."""
    return min(_share(2 * SIZE / max(rows, 1)), below)


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
    used, room = 0, np.empty(2 * BLOCK, dtype=np.uint64)
    for first in range(start, rows, BLOCK):
        size = min(BLOCK, rows - first)
        if windows:
            fill_windows(hashes[first : first + size + WIDTH - 1], room)
            words = room[:size]
        else:
            words = hashes[first : first + size]
        if least(words) < limit:
            done, used = count_block(words, numbers[first:], limit, keys, counts, values, used)
            if done < size:
                return first + done
    return rows


@strict
def count_block(
    words: Any, numbers: Any, limit: Any, keys: Any, counts: Any, values: Any, used: int
) -> Any:
    """Count the words of a block up to a limit in slots, so many of which are used.

    Return how many words were dealt with, all unless the slots are half full, and how many
    slots are used now.
    """
    mask = _U(keys.shape[0] - 1)
    for row in range(words.shape[0]):
        word = words[row]
        if word - _U(1) >= limit:
            continue
        slot = word & mask
        while keys[slot] != word and keys[slot] != _U(0):
            slot = (slot + _U(1)) & mask
        if keys[slot] == _U(0):
            if 2 * used == keys.shape[0]:
                return row, used
            keys[slot], values[slot] = word, numbers[row]
            used += 1
        counts[slot] += 1
    return words.shape[0], used


@strict
def least(words: Any) -> Any:
    """Return the smallest of some words, less 1: none, 0, becomes the largest."""
    least = ALL
    for row in range(words.shape[0]):
        least = min(least, words[row] - _U(1))
    return least


@strict
def fill_windows(cells: Any, out: Any) -> None:
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
