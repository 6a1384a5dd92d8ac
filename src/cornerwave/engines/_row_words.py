"""Rows of two editions as words, and which of them belong together.

Of a row there are its id, its place in the table and 64 bits for each value: a number itself, a
keyed hash of any other cell. Packed, a row's words follow each other: id, place, values.
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
BEFORE_VALUES = 3
"""Words of a packed row before its values: two of the id, one of the place."""


@dataclass(frozen=True)
class RowWords:
    """Some rows: ids (rows, 2), places in their table, and words (values, rows)."""

    ids: Ids
    places: Ints
    words: Words

    @classmethod
    def with_fingerprint(
        cls, start: int, table: pa.Table, schema: Schema, secrets: RowSecrets
    ) -> "tuple[RowWords, Fingerprint]":
        """Return the rows of a group and their fingerprint."""
        ids = row_ids(start, table, schema, secrets)
        group = Group.of(ids, table, schema)
        fingerprint = group.fingerprint(secrets)
        return cls(ids, np.arange(start, start + len(ids)), group.words), fingerprint

    @classmethod
    def nothing(cls, values: int) -> "RowWords":
        """Return no rows, of so many values."""
        return cls.unpacked(np.empty((0, BEFORE_VALUES + values), dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, count: int) -> Floats:
        """Return the first `count` values of each row, which are numbers."""
        return self.words[:count].view(np.float64)

    def take(self, rows: Ints | Flags) -> "RowWords":
        """Return some of the rows."""
        return RowWords(self.ids[rows], self.places[rows], self.words[:, rows])

    def then(self, other: "RowWords") -> "RowWords":
        """Return these rows and others."""
        if not len(self) or not len(other):
            return other if not len(self) else self
        return RowWords(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.places, other.places]),
            np.concatenate([self.words, other.words], axis=1),
        )

    def in_buckets(self) -> tuple[Words, Ints]:
        """Return the rows packed, in buckets by their ids, and where each bucket begins."""
        packed = np.empty((len(self), BEFORE_VALUES + len(self.words)), dtype=np.uint64)
        cuts = np.zeros(BUCKETS + 1, dtype=np.int64)
        _spread(self.ids, self.places, np.ascontiguousarray(self.words), packed, cuts)
        return packed, cuts

    @classmethod
    def unpacked(cls, rows: Words) -> "RowWords":
        """Return packed rows as they were."""
        places = rows[:, 2].astype(np.int64)
        words = np.ascontiguousarray(rows[:, BEFORE_VALUES:].T)
        return cls(rows[:, :2].copy(), places, words)


@dataclass(frozen=True)
class Differing:
    """Some rows that differ: pairs of rows that changed, rows that came and rows that went."""

    old: RowWords
    new: RowWords
    came: RowWords
    went: RowWords


def joined(old: Words, new: Words) -> Differing:
    """Return how all packed rows of some buckets differ."""
    matches = matching(old[:, :2].copy(), new[:, :2].copy())
    alone, differ = np.ones(len(new), dtype=bool), np.zeros(len(old), dtype=bool)
    _compare(old, new, matches, differ, alone)
    return Differing(
        RowWords.unpacked(old[differ]),
        RowWords.unpacked(new[matches[differ]]),
        came=RowWords.unpacked(new[alone]),
        went=RowWords.unpacked(old[matches < 0]),
    )


def matching(old: Ids, new: Ids) -> Ints:
    """Return for each old row which new one has its id; -1 for none."""
    size = 1 << max(4, (2 * len(new)).bit_length())
    slots, out = np.full(size, -1, dtype=np.int64), np.empty(len(old), dtype=np.int64)
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
            for word in range(BEFORE_VALUES, old.shape[1]):
                if old[row, word] != new[other, word]:
                    differ[row] = True


@strict
def _spread(ids: Any, places: Any, words: Any, packed: Any, cuts: Any) -> None:
    """Pack rows in the order of their buckets; fill in where each begins, and the end."""
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
        packed[at, 0], packed[at, 1] = ids[row, 0], ids[row, 1]
        packed[at, 2] = np.uint64(places[row])
        for word in range(words.shape[0]):
            packed[at, BEFORE_VALUES + word] = words[word, row]
