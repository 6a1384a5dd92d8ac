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


@dataclass(frozen=True)
class Bottom:
    """The smallest distinct hashes, ascending, how many rows hold each, and its number."""

    hashes: Words
    counts: Ints
    numbers: Floats

    @classmethod
    def of(cls, hashes: Words, numbers: Floats | None = None) -> "Bottom":
        """Sketch the cells of some rows; a hash of 0 is none."""
        given = np.ascontiguousarray(hashes.view(np.float64) if numbers is None else numbers)
        hashes = np.ascontiguousarray(hashes)
        found, start, limit = cls.nothing(), 0, ALL
        while start < len(hashes):
            keys, counts, values = _slots()
            start = _collect(hashes, given, start, limit, keys, counts, values)
            full = keys != 0
            found = found + cls(keys[full], counts[full], values[full])
            limit = found.below
        return found

    @classmethod
    def nothing(cls) -> "Bottom":
        """Return the sketch of no rows."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0))

    def __add__(self, other: "Bottom") -> "Bottom":
        hashes = np.concatenate([self.hashes, other.hashes])
        counts = np.concatenate([self.counts, other.counts])
        numbers = np.concatenate([self.numbers, other.numbers])
        distinct, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, group, counts)
        return Bottom(distinct[:SIZE], total[:SIZE], numbers[first[:SIZE]])

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


def _slots() -> tuple[Words, Ints, Floats]:
    return np.zeros(_SLOTS, np.uint64), np.zeros(_SLOTS, np.int64), np.empty(_SLOTS)


@strict
def mixed(word: Any) -> Any:
    """Return a word with its bits spread, so that near inputs have far images."""
    word = (word ^ (word >> _U(33))) * _U(0xFF51AFD7ED558CCD)
    word = (word ^ (word >> _U(33))) * _U(0xC4CEB9FE1A85EC53)
    return word ^ (word >> _U(33))


@strict
def _collect(
    hashes: Any, numbers: Any, start: Any, limit: Any, keys: Any, counts: Any, values: Any
) -> Any:
    """Count hashes up to a limit in a table of slots; return the row at which it was half full."""
    mask, used = _U(keys.shape[0] - 1), 0
    for row in range(start, hashes.shape[0]):
        word = hashes[row]
        if word > limit or word == _U(0):
            continue
        slot = word & mask
        while keys[slot] != word and keys[slot] != _U(0):
            slot = (slot + _U(1)) & mask
        if keys[slot] == _U(0):
            if 2 * used == keys.shape[0]:
                return row
            keys[slot], values[slot] = word, numbers[row]
            used += 1
        counts[slot] += 1
    return hashes.shape[0]
