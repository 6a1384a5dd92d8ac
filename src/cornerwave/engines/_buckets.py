"""Rows of two tables in buckets: in memory if they are few, else in a file without a name.

A row is some words; the first is evenly spread, and its highest byte is the row's bucket. So
rows that have it in common are found bucket by bucket.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, TypeVar

import numpy as np

from cornerwave import sizes
from cornerwave.arrays import Ints, Words
from cornerwave.passes import in_threads

BUCKETS = 256

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Part:
    """Some rows of one table in the order of their buckets, which begin at the cuts.

    They are held in memory, else they are in the file from `start` on.
    """

    is_new: bool
    cuts: Ints
    held: Words | None
    start: int


class Buckets:
    """Takes rows of two tables, the old and the new one; then gives those of each bucket."""

    def __init__(self, folder: Path, words: int) -> None:
        """A row has so many words; the folder is for the file."""
        self._folder, self._words = folder, words
        self._file: IO[bytes] | None = None
        self._parts: list[_Part] = []
        self._rows, self._held, self._end, self._lock = 0, 0, 0, Lock()

    def __enter__(self) -> "Buckets":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the file."""
        if self._file:
            self._file.close()

    def take(self, is_new: bool, columns: Words) -> None:
        """Take rows of one of the tables, (words, rows); called in any thread."""
        if not columns.size:
            return
        buckets = (columns[0] >> np.uint64(56)).astype(np.uint8)
        rows = columns.T[np.argsort(buckets, kind="stable")]
        cuts = np.append(0, np.bincount(buckets, minlength=BUCKETS).cumsum())
        with self._lock:
            self._rows += len(rows)
            is_held, start = self._held + rows.nbytes <= sizes.BUCKET_BYTES, self._end
            if is_held:
                self._held += rows.nbytes
            else:
                self._end += rows.nbytes
            self._parts.append(_Part(is_new, cuts, rows if is_held else None, start))
        if not is_held:
            self._write(rows, start)

    def _write(self, rows: Words, start: int) -> None:
        with self._lock:
            self._file = self._file or tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        content = rows.reshape(-1).view(np.uint8)
        while len(content):
            written = os.pwrite(self._file.fileno(), content.data, start)
            content, start = content[written:], start + written

    def joined(self, join: Callable[[Words, Words], Result]) -> Iterator[Result]:
        """Yield join(old, new) for the rows of each bucket, a few of them at a time."""
        buckets = range(BUCKETS if self._rows > sizes.BUCKET_ROWS else 1)
        with in_threads(lambda each: join(*self._both(each, len(buckets))), buckets, None) as made:
            yield from made

    def _both(self, bucket: int, of: int) -> tuple[Words, Words]:
        none = np.empty((0, self._words), dtype=np.uint64)
        each = BUCKETS // of
        old, new = (
            [
                self._some(part, *part.cuts[[bucket * each, (bucket + 1) * each]].tolist())
                for part in self._parts
                if part.is_new == is_new
            ]
            for is_new in (False, True)
        )
        return np.concatenate([none, *old]), np.concatenate([none, *new])

    def _some(self, part: _Part, first: int, end: int) -> Words:
        """Return some rows of a part."""
        if part.held is not None:
            return part.held[first:end]
        assert self._file is not None
        rows = np.empty((end - first, self._words), dtype=np.uint64)
        content, start = rows.reshape(-1).view(np.uint8), part.start + 8 * self._words * first
        while len(content):
            read = os.preadv(self._file.fileno(), [content.data], start)
            content, start = content[read:], start + read
        return rows
