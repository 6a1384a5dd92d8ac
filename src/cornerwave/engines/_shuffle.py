"""The rows of a table in the order of a keyed hash of their ids, in bounded memory.

    source ── groups ── sorted, cut into buckets by place ──> one file without a name
    bucket by bucket ── sorted ── groups of the usual size ──> recipe

Nothing of the source's order is left, and the order of the copies depends on the ids and the
key alone. The file holds cells of the table, so it has no name from the moment it is made:
nobody else can open it, and nothing of it is left behind, even by a process that is killed.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from cornerwave import sizes
from cornerwave.arrays import Ids, Ints, Words
from cornerwave.columns import one_chunk, plain_type
from cornerwave.errors import OutputError, SourceChanged
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
