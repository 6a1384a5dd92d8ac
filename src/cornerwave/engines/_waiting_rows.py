"""Rows of two editions that have not met: in memory if few, else in a file without a name.

file    rows in brief, 32 bytes each, in buckets by their ids; and beside them, as they came,
        their places and values, of which only those of rows that differ are read again
"""

import mmap
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np

from cornerwave.arrays import Ints, Words
from cornerwave.engines._row_words import BRIEF, BUCKETS, Differing, RowWords, joined
from cornerwave.engines.local import in_threads

AT_ONCE = 1 << 18
"""Rows that differ and are read from the file at once, if one bucket does not have more."""
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

    @property
    def rows(self) -> int:
        return int(self.cuts[-1])


class WaitingRows:
    """Takes rows of both tables, from any thread, then says which differ."""

    def __init__(self, folder: Path, values: int) -> None:
        self._folder, self._values = folder, values
        self._file: IO[bytes] | None = None
        self._parts: list[_Part] = []
        self._rows, self._end, self._lock = 0, 0, Lock()

    def __enter__(self) -> "WaitingRows":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def hold(self, is_new: bool, rows: RowWords) -> None:
        """Take the last rows, which stay in memory."""
        first = self._number(len(rows))
        brief, cuts = rows.in_buckets(first)
        self._parts.append(_Part(is_new, first, cuts, (brief, rows)))

    def write(self, is_new: bool, rows: RowWords) -> None:
        """Take rows into the file; called in any thread."""
        first = self._number(len(rows))
        brief, cuts = rows.in_buckets(first)
        contents = (rows.places, np.ascontiguousarray(rows.words), brief)
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            start = self._end
            self._end += -(-sum(each.nbytes for each in contents) // _PAGE) * _PAGE
            self._parts.append(_Part(is_new, first, cuts, None, start))
        for each in contents:
            content = each.reshape(-1).view(np.uint8)
            while len(content):
                written = os.pwrite(self._file.fileno(), content.data, start)
                content, start = content[written:], start + written

    def _number(self, rows: int) -> int:
        with self._lock:
            first, self._rows = self._rows, self._rows + rows
        return first

    def differing(self) -> Iterator[Differing]:
        """Yield the rows that differ, some buckets at a time."""
        self._parts.sort(key=lambda part: part.first)
        found: list[Brief] = []
        with in_threads(self._joined, range(BUCKETS if self._file else 1), None) as buckets:
            for one in buckets:
                found.append(one)
                if sum(len(rows) for each in found for rows in each) > AT_ONCE:
                    yield self._read(found)
                    found = []
        if found:
            yield self._read(found)

    def _joined(self, bucket: int) -> Brief:
        """Return which rows of a bucket differ; all rows are one bucket if there is no file."""
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
        first, end = part.cuts[bucket : bucket + 2].tolist() if self._file else (0, part.rows)
        if part.held:
            return part.held[0][first:end]
        assert self._file is not None
        start = part.start + 8 * part.rows * (1 + self._values)
        content = os.pread(
            self._file.fileno(), 8 * BRIEF * (end - first), start + 8 * BRIEF * first
        )
        return np.frombuffer(content, dtype=np.uint64).reshape(-1, BRIEF)

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
        size = 8 * part.rows * (1 + self._values)
        with mmap.mmap(
            self._file.fileno(), size, access=mmap.ACCESS_READ, offset=part.start
        ) as content:
            table = np.frombuffer(content, dtype=np.uint64).reshape(1 + self._values, part.rows)
            places[to], words[:, to] = table[0, rows].astype(np.int64), table[1:, rows]
            del table  # a map that something looks at cannot be closed
