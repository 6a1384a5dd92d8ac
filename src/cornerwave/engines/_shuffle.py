"""Rows in buckets, in bounded memory: those of one table shuffled, those of two compared.

The rows of a table in the order of a keyed hash of their ids:

    source ── groups ── sorted, cut into buckets by place ──> one file without a name
    bucket by bucket ── sorted ── groups of the usual size ──> recipe

Nothing of the source's order is left, and the order of the copies depends on the ids and the
key alone. The file holds cells of the table, so it has no name from the moment it is made:
nobody else can open it, and nothing of it is left behind, even by a process that is killed.

Of two tables, a row is some words; the first is evenly spread, and its highest byte is the row's
bucket. So rows that have it in common are found bucket by bucket. Few rows are kept in memory, many
in a file without a name.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa

from cornerwave import sizes
from cornerwave.arrays import Ids, Ints, Words
from cornerwave.columns import one_chunk, plain_type
from cornerwave.errors import OutputError, SourceChanged
from cornerwave.passes import in_threads
from cornerwave.sources import Source
from cornerwave.spine.recipe import Recipe
from cornerwave.spine.rows import group_rows, numbered, row_ids


def shuffled(source: Source, recipe: Recipe) -> Iterator[tuple[Ids, pa.Table]]:
    """Yield (ids, rows) in groups of the usual size, in the order of the rows' places."""
    schema, names = recipe.frozen.schema, recipe.frozen.schema.used
    mark = name_apart(names)
    with _Buckets(recipe.frozen.rows, len(names)) as buckets:
        for start, table in numbered(source, schema):
            ids = row_ids(start, table, schema, recipe.row_secrets)
            table = plain_table(table).append_column(mark, id_column(ids))
            buckets.add(table, recipe.places(ids))

        def in_places(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            for part in filter(len, buckets.tables()):
                order = in_order(recipe.places(ids_in(part, mark)))
                yield from part.take(pa.array(order)).select(list(columns)).to_batches()

        if not buckets.rows:
            return
        sorted_rows = Source(buckets.schema, in_places, source.path)
        for table in sorted_rows.groups([*names, mark], group_rows(schema)):
            yield ids_in(table, mark), table.select(names)


_ID = pa.binary(16)


def name_apart(names: Sequence[str]) -> str:
    """Return a name that no column has."""
    return "id" + "_" * max(map(len, names), default=0)


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries, which would be written with every few rows.

    And without views of text or bytes, whose rows Arrow cannot take in another order.
    """
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    types = [(part.name, plain_type(part.type)) for part in table.schema]
    return table.cast(pa.schema([(name, plain.get(type_, type_)) for name, type_ in types]))


def bucket_cuts(places: Words, buckets: int) -> Ints:
    """Return where each bucket begins among places in their order, and where the last one ends."""
    # the upper 32 bits times the number of buckets: buckets are in the order of places
    which = (places[:, 0] >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
    return np.searchsorted(which, np.arange(buckets + 1, dtype=np.uint64))


def bucket_count(rows: int, columns: int) -> int:
    """Return how many buckets a table is sorted in."""
    return max(1, -(-rows * columns // sizes.SHUFFLE_CELLS))


def id_column(ids: Ids) -> pa.Array:
    """Return ids as a column."""
    return pa.FixedSizeBinaryArray.from_buffers(_ID, len(ids), [None, pa.py_buffer(ids)])


def ids_in(table: pa.Table, name: str) -> Ids:
    """Return the ids in a column."""
    column = one_chunk(table.column(name))
    words = np.frombuffer(column.buffers()[1], dtype=np.uint64).reshape(-1, 2)
    return np.ascontiguousarray(words[column.offset : column.offset + len(column)])


def in_order(places: Words) -> Ints:
    """Return the rows in the order of their places."""
    return np.lexsort((places[:, 1], places[:, 0]))


class _Buckets:
    """Rows by their place, in buckets small enough to be sorted in memory.

    A single bucket stays in memory. Several lie in one file, each in pieces: those of a
    group follow each other, so their offsets are all that is needed to find them.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self._expected, self.rows = rows, 0
        self._count = bucket_count(rows, columns)
        self._held: list[pa.Table] = []
        self._file: BinaryIO | None = None
        self._offsets: list[Ints] = []
        self.schema = pa.schema([])

    def __enter__(self) -> "_Buckets":
        if self._count > 1:
            self._file = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, table: pa.Table, places: Words) -> None:
        """Take some rows with their places. Raises SourceChanged for more than expected."""
        self.rows += table.num_rows
        if self.rows > self._expected:
            raise SourceChanged(
                "this is not the registered table: it has more rows than the "
                f"{self._expected:,} that were registered. Restore the registered table"
            )
        self.schema = table.schema
        if self._file is None:
            self._held.append(table)
            return
        order = in_order(places)
        cuts = bucket_cuts(places[order], self._count)
        table = table.take(pa.array(order))
        try:
            self._offsets.append(np.array([*self._write(self._file, table, cuts)]))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "the disk failed"
            raise OutputError(
                f"the rows cannot be shuffled: the folder for temporary files: {reason}"
            ) from None

    def _write(self, file: BinaryIO, table: pa.Table, cuts: Ints) -> Iterator[int]:
        """Write the rows of each bucket; yield where each begins, and where the last ends."""
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            yield file.tell()
            for batch in table.slice(first, last - first).to_batches():
                file.write(batch.serialize())
        yield file.tell()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows of each bucket, in the order of the buckets."""
        if self._file is None:
            yield pa.concat_tables(self._held)
            return
        self._file.flush()
        for bucket in range(self._count):
            batches = [b for offsets in self._offsets for b in self._read(offsets, bucket)]
            yield pa.Table.from_batches(batches, self.schema)

    def _read(self, offsets: Ints, bucket: int) -> Iterator[pa.RecordBatch]:
        assert self._file is not None
        first, last = int(offsets[bucket]), int(offsets[bucket + 1])
        self._file.seek(first)
        content = pa.BufferReader(self._file.read(last - first))
        while content.tell() < last - first:
            yield pa.ipc.read_record_batch(pa.ipc.read_message(content), self.schema)


# --------------------------------------------------------------------------------------------------
# Two tables.


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
