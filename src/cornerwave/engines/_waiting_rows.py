"""Rows of two editions that have not met: in memory if few, else in a file without a name.

file    rows in brief, 32 bytes each, in buckets by their ids; and beside them, as they came,
        their places and values, of which only those of rows that differ are read again
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np

from cornerwave.arrays import Ints, Words
from cornerwave.engines._row_words import BRIEF, BUCKETS, Differing, RowWords, joined
from cornerwave.engines.local import in_threads

AT_ONCE = 1 << 18
"""Rows that differ and are read from the file at once, if one bucket does not have more."""
HELD = 1 << 28
"""Bytes of rows that stay in memory before a file is needed."""
FEW = 1 << 16
"""So many rows are joined in one bucket."""
_PAGE = mmap.ALLOCATIONGRANULARITY

Brief = tuple[Words, Words, Words, Words]
"""Rows in brief: old and new ones of pairs that changed, those that came, those that went."""


@dataclass(frozen=True)
class _Part:
    """Some rows of one table: their buckets, and where they are."""

    is_new: bool
    first: int
    cuts: Ints
    held: tuple[Words, RowWords] | None
    start: int = 0
    place: int | None = None
    """That of the first row, if the others follow it; else places are in the file."""

    @property
    def rows(self) -> int:
        return int(self.cuts[-1])


class WaitingRows:
    """Takes rows of both tables, from any thread, then says which differ."""

    def __init__(self, folder: Path, values: int) -> None:
        self._folder, self._values = folder, values
        self._file: IO[bytes] | None = None
        self._parts: list[_Part] = []
        self._rows, self._held, self._end, self._lock = 0, 0, 0, Lock()

    def __enter__(self) -> "WaitingRows":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def take(self, is_new: bool, rows: RowWords) -> None:
        """Take rows; called in any thread."""
        if not len(rows):
            return
        size = 8 * len(rows) * (BRIEF + BRIEF + self._values)
        with self._lock:
            first, self._rows = self._rows, self._rows + len(rows)
            is_held = self._held + size <= HELD
            self._held += size if is_held else 0
        brief, cuts = rows.in_buckets(first)
        if is_held:
            self._parts.append(_Part(is_new, first, cuts, (brief, rows)))
        else:
            self._write(_Part(is_new, first, cuts, None, place=_place_of(rows)), brief, rows)

    def _write(self, part: _Part, brief: Words, rows: RowWords) -> None:
        contents = [np.ascontiguousarray(rows.words), brief]
        if part.place is None:
            contents.insert(0, rows.places.view(np.uint64))
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            start = self._end
            self._end += -(-sum(each.nbytes for each in contents) // _PAGE) * _PAGE
            self._parts.append(replace(part, start=start))
        for each in contents:
            content = each.reshape(-1).view(np.uint8)
            while len(content):
                written = os.pwrite(self._file.fileno(), content.data, start)
                content, start = content[written:], start + written

    def differing(self) -> Iterator[Differing]:
        """Yield the rows that differ, some buckets at a time."""
        if not self._parts:
            return
        self._parts.sort(key=lambda part: part.first)
        found: list[Brief] = []
        with in_threads(self._joined, range(self._buckets), None) as buckets:
            for one in buckets:
                found.append(one)
                if sum(len(rows) for each in found for rows in each) > AT_ONCE:
                    yield self._read(found)
                    found = []
        if found:
            yield self._read(found)

    @property
    def _buckets(self) -> int:
        return BUCKETS if self._rows > FEW else 1

    def _joined(self, bucket: int) -> Brief:
        """Return which rows of a bucket differ."""
        old, new = (
            np.concatenate(
                [
                    np.empty((0, BRIEF), dtype=np.uint64),
                    *(self._brief(part, bucket) for part in self._parts if part.is_new == is_new),
                ]
            )
            for is_new in (False, True)
        )
        return joined(old, new)

    def _brief(self, part: _Part, bucket: int) -> Words:
        """Return the rows of a bucket in brief."""
        one = self._buckets == 1
        first, end = (0, part.rows) if one else part.cuts[bucket : bucket + 2].tolist()
        if part.held:
            return part.held[0][first:end]
        assert self._file is not None
        start = part.start + 8 * part.rows * self._before(part)
        content = os.pread(
            self._file.fileno(), 8 * BRIEF * (end - first), start + 8 * BRIEF * first
        )
        return np.frombuffer(content, dtype=np.uint64).reshape(-1, BRIEF)

    def _before(self, part: _Part) -> int:
        """Return how many words there are of each row before the rows in brief."""
        return self._values + (part.place is None)

    def _read(self, found: list[Brief]) -> Differing:
        """Return rows in brief with all that is known of them."""
        return Differing(*(self._whole(np.concatenate(each)) for each in zip(*found, strict=True)))

    def _whole(self, brief: Words) -> RowWords:
        places = np.empty(len(brief), dtype=np.int64)
        words = np.empty((self._values, len(brief)), dtype=np.uint64)
        numbers = brief[:, 3].astype(np.int64)
        order = np.argsort(numbers)
        cuts = np.searchsorted(numbers[order], [part.first for part in self._parts])
        for part, own in zip(self._parts, np.split(order, cuts[1:]), strict=True):
            if len(own):
                self._take(part, numbers[own] - part.first, own, places, words)
        return RowWords(brief[:, :2].copy(), places, brief[:, 2].copy(), words)

    def _take(self, part: _Part, rows: Ints, to: Ints, places: Ints, words: Words) -> None:
        """Fill in places and words of some rows of a part."""
        if part.held:
            places[to], words[:, to] = part.held[1].places[rows], part.held[1].words[:, rows]
            return
        assert self._file is not None
        size = 8 * part.rows * self._before(part)
        with mmap.mmap(
            self._file.fileno(), max(size, 1), access=mmap.ACCESS_READ, offset=part.start
        ) as content:
            table = np.frombuffer(content, np.uint64, size // 8).reshape(-1, part.rows)
            places[to] = rows + part.place if part.place is not None else table[0, rows]
            words[:, to] = table[self._before(part) - self._values :, rows]
            del table  # a map that something looks at cannot be closed


def _place_of(rows: RowWords) -> int | None:
    """Return the place of the first row if the others follow it."""
    first, last = rows.places[[0, -1]].tolist()
    return first if last - first == len(rows) - 1 else None
