"""Rows of two editions as words, and which of them belong together.

Of a row there are its id, its place in the table, its MAC and 64 bits for each value: a number
itself, a keyed hash of any other cell. Two rows of one id are equal if their MACs are: others
have the same with probability 2^-63 (table/_fingerprint). So to find the rows that differ, a row
is four words: id, MAC, and a number by which the rest of it is found.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Flags, Floats, Ids, Ints, Words
from cornerwave.errors import ColumnError
from cornerwave.keyed import strict
from cornerwave.rows import Group, RowSecrets, row_ids
from cornerwave.table import Fingerprint, Schema

BUCKETS = 256
BRIEF = 4
"""Words of a row in brief: two of the id, the MAC, the number."""


@dataclass(frozen=True)
class RowWords:
    """Some rows: ids (rows, 2), places in their table, MACs, and words (values, rows)."""

    ids: Ids
    places: Ints
    macs: Words
    words: Words

    @classmethod
    def with_fingerprint(
        cls, start: int, table: pa.Table, schema: Schema, secrets: RowSecrets
    ) -> "tuple[RowWords, Fingerprint]":
        """Return the rows of a group and their fingerprint."""
        ids = row_ids(start, table, schema, secrets)
        group = Group.of(ids, table, schema)
        fingerprint, macs = group.recognised(secrets)
        return cls(ids, np.arange(start, start + len(ids)), macs, group.words), fingerprint

    @classmethod
    def nothing(cls, values: int) -> "RowWords":
        """Return no rows, of so many values."""
        words = np.empty((values, 0), dtype=np.uint64)
        none = np.empty(0, dtype=np.uint64)
        return cls(none.reshape(0, 2), none.astype(np.int64), none, words)

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, count: int) -> Floats:
        """Return the first `count` values of each row, which are numbers."""
        return self.words[:count].view(np.float64)

    def take(self, rows: Ints | Flags) -> "RowWords":
        """Return some of the rows."""
        return RowWords(self.ids[rows], self.places[rows], self.macs[rows], self.words[:, rows])

    def then(self, other: "RowWords") -> "RowWords":
        """Return these rows and others."""
        if not len(self) or not len(other):
            return other if not len(self) else self
        return RowWords(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.places, other.places]),
            np.concatenate([self.macs, other.macs]),
            np.concatenate([self.words, other.words], axis=1),
        )

    def in_buckets(self, first: int) -> tuple[Words, Ints]:
        """Return the rows in brief, numbered from `first` on, in buckets by their ids.

        And where each bucket begins.
        """
        brief = np.empty((len(self), BRIEF), dtype=np.uint64)
        cuts = np.zeros(BUCKETS + 1, dtype=np.int64)
        _spread(self.ids, self.macs, first, brief, cuts)
        return brief, cuts


@dataclass(frozen=True)
class Differing:
    """Some rows that differ: pairs of rows that changed, rows that came and rows that went."""

    old: RowWords
    new: RowWords
    came: RowWords
    went: RowWords


def joined(old: Words, new: Words) -> tuple[Words, Words, Words, Words]:
    """Return which rows of some buckets changed, came and went: (old, new, came, went) in brief."""
    matches = matching(old, new)
    alone, differ = np.ones(len(new), dtype=bool), np.zeros(len(old), dtype=bool)
    _compare(old, new, matches, differ, alone)
    return old[differ], new[matches[differ]], new[alone], old[matches < 0]


def matching(old: Ids, new: Ids) -> Ints:
    """Return for each old row which new one has its id, two words in front; -1 for none."""
    size = 1 << max(4, (2 * len(new)).bit_length())
    slots, out = np.full(size, -1, dtype=np.int32), np.empty(len(old), dtype=np.int64)
    if not _match(old, new, slots, out):
        raise ColumnError("the key column of the new table is not unique: a key is there twice")
    return out


@strict
def _match(old: Any, new: Any, slots: Any, out: Any) -> bool:
    """Fill in the matches, by a table with open addressing: ids are evenly spread already.

    Return whether all new ids are different.
    """
    mask = slots.shape[0] - 1
    for row in range(new.shape[0]):
        slot = np.int64(new[row, 0] & np.uint64(mask))
        while slots[slot] >= 0:
            other = slots[slot]
            if new[other, 0] == new[row, 0] and new[other, 1] == new[row, 1]:
                return False
            slot = (slot + 1) & mask
        slots[slot] = row
    for row in range(old.shape[0]):
        slot, out[row] = np.int64(old[row, 0] & np.uint64(mask)), -1
        while slots[slot] >= 0:
            other = slots[slot]
            if new[other, 0] == old[row, 0] and new[other, 1] == old[row, 1]:
                out[row] = other
                break
            slot = (slot + 1) & mask
    return True


@strict
def _compare(old: Any, new: Any, matches: Any, differ: Any, alone: Any) -> None:
    """Mark the old rows that differ from their match, and the new rows that have none left."""
    for row in range(old.shape[0]):
        other = matches[row]
        if other >= 0:
            alone[other] = False
            differ[row] = old[row, 2] != new[other, 2]


@strict
def _spread(ids: Any, macs: Any, first: int, brief: Any, cuts: Any) -> None:
    """Put rows in brief in the order of their buckets; fill in where each begins, and the end."""
    shift = np.uint64(56)  # the first byte of an id is its bucket
    free = np.zeros(BUCKETS + 1, dtype=np.int64)
    for row in range(ids.shape[0]):
        free[np.int64(ids[row, 0] >> shift) + 1] += 1
    for bucket in range(BUCKETS):
        free[bucket + 1] += free[bucket]
    cuts[:] = free
    for row in range(ids.shape[0]):
        own = np.int64(ids[row, 0] >> shift)
        at, free[own] = free[own], free[own] + 1
        brief[at, 0], brief[at, 1] = ids[row, 0], ids[row, 1]
        brief[at, 2], brief[at, 3] = macs[row], np.uint64(first + row)
