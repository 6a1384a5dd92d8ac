"""How many different values a column has, and how many rows hold each, in little memory.

Values are known by a hash. Up to `MOST_VALUES` of them are all followed, and every
count is exact. Beyond that every second, fourth, eighth... value is followed, chosen
by its hash, through all of its rows: a sample of values, not of rows, so that one
which occurs twice is never taken for one that occurs once.
"""

from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.table._encoded import Encoded, hash_texts
from cornerwave.table._rare import MOST_CATEGORIES

MOST_VALUES = MOST_CATEGORIES
_ANY_KEY = bytes(16)


class Distinct:
    """The values seen so far; one in `share` of them is followed."""

    def __init__(self) -> None:
        self.share = 1
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)

    @property
    def exact(self) -> bool:
        """Whether all values are followed."""
        return self.share == 1

    @property
    def followed(self) -> int:
        """How many values are followed."""
        return len(self._hashes)

    @property
    def number(self) -> int:
        """How many different values there are; an estimate if not all are followed."""
        return self.followed * self.share

    def held_by_fewer_than(self, rows: int) -> int:
        """How many values so few rows hold; an estimate if not all are followed."""
        return int((self._counts < rows).sum()) * self.share

    def add_numbers(self, values: Floats) -> None:
        """Take some more cells of a column of numbers, none missing."""
        hashes = _mixed(values.view(np.uint64))
        self._add(hashes, np.ones(len(hashes), dtype=np.int64))

    def add_encoded(self, column: Encoded) -> None:
        """Take some more cells of any other column. Raises ColumnError for what has no text."""
        counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
        self._add(hash_texts(column.values, _ANY_KEY)[:, 0], counts)

    def _add(self, hashes: Words, counts: Ints) -> None:
        mine = (hashes % np.uint64(self.share) == 0) & (counts > 0)
        both = np.concatenate([self._hashes, hashes[mine]])
        weights = np.concatenate([self._counts, counts[mine]])
        self._hashes, places = np.unique(both, return_inverse=True)
        self._counts = _sums(places, weights, len(self._hashes))
        while self.followed > MOST_VALUES:
            self.share *= 2
            stay = self._hashes % np.uint64(self.share) == 0
            self._hashes, self._counts = self._hashes[stay], self._counts[stay]


def _sums(places: Any, weights: Ints, length: int) -> Ints:
    return np.bincount(places, weights=weights, minlength=length).astype(np.int64)


def _mixed(bits: Words) -> Words:
    """Spread the bits of numbers over 64 (the finalizer of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
