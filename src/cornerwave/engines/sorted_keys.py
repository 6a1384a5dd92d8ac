"""The keys of a table's rows, ascending, in little memory; none may be there twice."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cornerwave import sizes
from cornerwave.arrays import Ids, Words, places_among
from cornerwave.columns import Schema
from cornerwave.engines._checks import not_unique
from cornerwave.engines._passes import repeated_ids
from cornerwave.sources import Source
from cornerwave.spine.rows import RowSecrets, row_ids

KeepKeys = Callable[[Iterator[Words]], None]
"""Takes 64 bits of the id of each row, ascending."""


def sorted_keys(source: Source, schema: Schema, secrets: RowSecrets) -> Iterator[Words]:
    """Yield 64 bits of the id of each row of a table with a key, ascending."""
    assert schema.key is not None
    with SortedKeys(schema.key) as keys:
        for table in source.groups([schema.key], sizes.IDS_AT_ONCE):
            keys.add(row_ids(0, table, schema, secrets))
        yield from keys.ascending()


def check_once(source: Source, schema: Schema, secrets: RowSecrets, hashes: Words) -> None:
    """Raise ColumnError if a key is there twice, given ascending 64 bits of the ids of some."""
    if not len(hashes):
        return
    assert schema.key is not None
    known = 0
    for table in source.groups([schema.key], sizes.IDS_AT_ONCE):
        ids = row_ids(0, table, schema, secrets)
        known += int((places_among(hashes, ids[:, 0]) >= 0).sum())
    if known > len(hashes):
        raise not_unique(schema.key, known - len(hashes))


class SortedKeys:
    """The ids of rows with a key: in memory if they are few, else in a file without a name."""

    def __init__(self, column: str | None, folder: Path | None = None) -> None:
        self._column, self._folder = column, folder
        self._held: list[Ids] = []
        self._file: BinaryIO | None = None
        self.count = 0

    def __enter__(self) -> "SortedKeys":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, ids: Ids) -> None:
        """Take the ids of some rows."""
        if self._column is None:
            return
        self._held.append(ids)
        self.count += len(ids)
        if sum(map(len, self._held)) > sizes.IDS_IN_MEMORY:
            self._file = self._file or tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            for each in self._held:
                self._file.write(each.tobytes())
            self._held = []

    def ascending(self) -> Iterator[Words]:
        """Yield the first words of all ids, ascending; in the end raise ColumnError for repeats."""
        repeated = 0
        for ids in self._parts():
            words = np.sort(ids[:, 0])
            repeated += repeated_ids(ids, words)
            yield words
        if repeated:
            raise not_unique(self._column, repeated)

    def _parts(self) -> Iterator[Ids]:
        """Yield the ids by ranges of their first word, ascending; few enough to be sorted."""
        held = np.concatenate([np.empty((0, 2), dtype=np.uint64), *self._held])
        if self._file is None:
            yield held
            return
        self._file.write(held.tobytes())
        self._file.flush()
        self._held = []
        ids = np.memmap(self._file, dtype=np.uint64, mode="r").reshape(-1, 2)
        parts = -(-self.count // sizes.IDS_AT_ONCE)
        for part in range(parts):
            chosen = [
                chunk[(chunk[:, 0] >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32) == part]
                for chunk in np.array_split(ids, max(1, len(ids) // sizes.IDS_AT_ONCE))
            ]
            yield np.concatenate(chosen)


class KeyRanges:
    """Ascending keys that come range by range, the ranges in any order."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._ranges: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> "KeyRanges":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, number: int, keys: bytes) -> None:
        """Take the keys of a range."""
        self._ranges[number] = (self._file.tell(), len(keys))
        self._file.write(keys)

    def ascending(self) -> Iterator[Words]:
        """Yield all keys, ascending."""
        for _, (start, size) in sorted(self._ranges.items()):
            self._file.seek(start)
            yield np.frombuffer(self._file.read(size), dtype=np.uint64)
