"""Two editions of a table, row by row, by their keys, in bounded memory.

    old ── groups ──┐                              ┌── pairs of rows that differ
                    ├── rows that have met by key ─┤
    new ── groups ──┘   others wait, or in a file  └── rows that came, rows that went

Both tables are read side by side. Rows in about the same order meet while they are in memory.
If many wait, all of them go to a file without a name, in buckets by the hash of their key, and
the buckets are joined one by one. Of a row there are its id, its place in the table and 64 bits for
each value: a number itself, a keyed hash of any other cell.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Flags, Floats, Ids, Ints, Words
from cornerwave.engines.local import _in_order
from cornerwave.errors import ColumnError
from cornerwave.keyed import strict
from cornerwave.neighbours import RowOrder
from cornerwave.rows import Group, RowSecrets, numbered, row_ids
from cornerwave.table import Fingerprint, Progress, Schema, Source, silent

WAITING_WORDS = 1 << 24
"""Words of rows that wait in memory for their counterpart."""
BUCKETS = 256
SCATTERED, FEW = 0.25, 4096
"""Fewer rows than this share of so many that have met: the tables are in different orders."""


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

    def packed(self) -> Words:
        """Return each row as words that follow each other."""
        places = self.places.astype(np.uint64)[:, None]
        return np.concatenate([self.ids, places, self.words.T], axis=1)

    @classmethod
    def unpacked(cls, rows: Words) -> "RowWords":
        """Return what `packed` made."""
        places = rows[:, 2].astype(np.int64)
        return cls(rows[:, :2].copy(), places, np.ascontiguousarray(rows[:, 3:].T))


@dataclass(frozen=True)
class Differing:
    """Some rows that differ: pairs of rows that changed, rows that came and rows that went."""

    old: RowWords
    new: RowWords
    came: RowWords
    went: RowWords


class Differences:
    """Reads two editions, and yields what differs; afterwards it has their fingerprints."""

    def __init__(
        self,
        schema: Schema,
        secrets: RowSecrets,
        folder: Path,
        order: RowOrder,
        progress: Progress = silent,
    ) -> None:
        """`folder` is for files with rows in them; `order` looks at the rows of the new table."""
        self._schema, self._secrets, self._folder = schema, secrets, folder
        self._order, self._progress = order, progress
        self.old = self.new = Fingerprint.nothing()
        values = len(schema.perturbed) + len(schema.encoded)
        self._nothing = RowWords.unpacked(np.empty((0, 3 + values), dtype=np.uint64))
        self._most = max(1024, WAITING_WORDS // (3 + values))
        self._scattered = False

    def between(self, old: Source, new: Source) -> Iterator[Differing]:
        """Yield what differs between two sources, in no particular order."""

        def work(item: tuple[bool, int, pa.Table]) -> tuple[bool, RowWords, Fingerprint]:
            is_new, start, table = item
            rows, part = RowWords.with_fingerprint(start, table, self._schema, self._secrets)
            return is_new, rows, part

        waiting = {False: self._nothing, True: self._nothing}
        items = self._both(old, new)
        with _Waiting(self._folder) as apart, _in_order(work, items, None) as read:
            for is_new, rows, part in read:
                if is_new:
                    self.new = self.new + part
                else:
                    self.old = self.old + part
                self._progress(len(rows))
                waiting[is_new] = waiting[is_new].then(rows)
                if is_new and not self._scattered:
                    yield self._met(waiting)
                if self._scattered or max(map(len, waiting.values())) > self._most:
                    apart.add(waiting)
                    waiting = {False: self._nothing, True: self._nothing}
            apart.add(waiting, last=True)
            for both in apart.buckets(self._nothing):
                yield self._met(both)
                yield Differing(self._nothing, self._nothing, came=both[True], went=both[False])

    def _both(self, old: Source, new: Source) -> Iterator[tuple[bool, int, pa.Table]]:
        """Yield (whether it is new, first row, rows) of both tables in turns."""
        before = numbered(old, self._schema)
        after = self._order.passing(numbered(new, self._schema))
        for pair in zip_longest(before, after):
            for is_new, group in zip((False, True), pair, strict=True):
                if group is not None:
                    yield is_new, *group

    def _met(self, waiting: dict[bool, RowWords]) -> Differing:
        """Return the rows that have met and differ; leave those that have not."""
        old, new = waiting[False], waiting[True]
        nothing = self._nothing
        if not len(old) or not len(new):
            return Differing(nothing, nothing, nothing, nothing)
        if len(old) == len(new) and np.array_equal(old.ids, new.ids):
            waiting[False] = waiting[True] = nothing
            rows = _differing(old.words, new.words)
            return Differing(old.take(rows), new.take(rows), nothing, nothing)
        matches = _matches(old.ids, new.ids)
        here = np.flatnonzero(matches >= 0)
        there = matches[here]
        # in another order hardly any rows meet by chance: then looking for them is in vain
        self._scattered = len(here) < SCATTERED * min(len(old), len(new)) and len(new) > FEW
        alone = np.ones(len(new), dtype=bool)
        alone[there] = False
        waiting[False], waiting[True] = old.take(matches < 0), new.take(alone)
        rows = _differing_at(old.words, new.words, here, there)
        return Differing(old.take(here[rows]), new.take(there[rows]), nothing, nothing)


class _Waiting:
    """Rows that have not met, in buckets by their ids: in memory if few, else in a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._held: dict[bool, list[Words]] = {False: [], True: []}
        self._cuts: list[tuple[bool, int, Ints]] = []

    def __enter__(self) -> "_Waiting":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, waiting: dict[bool, RowWords], *, last: bool = False) -> None:
        """Take the rows that wait; the `last` stay in memory if nothing was written before."""
        if last and self._file is None:
            for is_new, rows in waiting.items():
                self._held[is_new].append(rows.packed())
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        for is_new, rows in waiting.items():
            bucket = (rows.ids[:, 0] >> np.uint64(56)).astype(np.uint8)
            order = np.argsort(bucket, kind="stable")
            cuts = np.searchsorted(bucket[order], np.arange(BUCKETS + 1))
            packed = rows.take(order).packed()
            self._cuts.append((is_new, self._file.tell(), cuts * packed.shape[1] * 8))
            self._file.write(packed.tobytes())

    def buckets(self, nothing: RowWords) -> Iterator[dict[bool, RowWords]]:
        """Yield the old and the new rows of each bucket."""
        if self._file is None:
            yield {
                is_new: RowWords.unpacked(np.concatenate([nothing.packed(), *rows]))
                for is_new, rows in self._held.items()
            }
            return
        width = nothing.packed().shape[1]
        for bucket in range(BUCKETS):
            found: dict[bool, list[Words]] = {False: [], True: []}
            for is_new, start, cuts in self._cuts:
                self._file.seek(start + int(cuts[bucket]))
                content = self._file.read(int(cuts[bucket + 1] - cuts[bucket]))
                found[is_new].append(np.frombuffer(content, np.uint64).reshape(-1, width))
            yield {n: RowWords.unpacked(np.concatenate(parts)) for n, parts in found.items()}


def _matches(old: Ids, new: Ids) -> Ints:
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


def _differing(old: Words, new: Words) -> Ints:
    """Return the rows in which a value differs."""
    differ = np.zeros(old.shape[1], dtype=bool)
    for one, two in zip(old, new, strict=True):
        differ |= one != two
    return np.flatnonzero(differ)


def _differing_at(old: Words, new: Words, here: Ints, there: Ints) -> Ints:
    """Return which pairs of rows differ in a value."""
    differ = np.zeros(len(here), dtype=bool)
    for one, two in zip(old, new, strict=True):
        differ |= one[here] != two[there]
    return np.flatnonzero(differ)
