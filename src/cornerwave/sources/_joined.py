"""Several sources read one after the other as one table: what was registered, then each batch."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cornerwave.columns import is_text, plain_type
from cornerwave.sources._parquet import ENCODED_TEXT, Batches
from cornerwave.sources._sources import Source


def in_a_row(parts: Sequence[Source], *, unique: Collection[str] = ()) -> Source:
    """Return sources with the same columns as one; columns in `unique` hardly repeat a value."""
    if len(parts) == 1:
        return parts[0]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in part.batches(columns):
                yield _alike(batch, unique)

    kind, first = parts[0].frame_kind, parts[0].first
    return Source(parts[0].schema, read, frame_kind=kind, first=first, parts=tuple(parts))


def _alike(batch: pa.RecordBatch, unique: Collection[str]) -> pa.RecordBatch:
    """Return a batch in types that no file decides: text may come with its values apart."""
    fields = [pa.field(field.name, _type(field, unique)) for field in batch.schema]
    wanted = pa.schema(fields)
    return batch if batch.schema.equals(wanted) else batch.cast(wanted)


def _type(field: pa.Field, unique: Collection[str]) -> pa.DataType:
    plain = plain_type(field.type)
    return ENCODED_TEXT if is_text(plain) and field.name not in unique else plain


# --------------------------------------------------------------------------------------------------
# Columns of a source, read once and held in a file, to be read again and again.
#
# A source may be slow to read: text, a database, another machine. Who asks it many questions holds
# it first, in a folder that nobody else can read.


_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


def hold(source: Source, columns: Sequence[str], folder: Path) -> Source:
    """Return a source of the same rows, with some columns, that reads a file in this folder."""
    path = folder / "held.arrows"
    schema = _write(source, columns, path)

    def read(wanted: Sequence[str]) -> Batches:
        some = pa.ipc.IpcReadOptions(included_fields=[schema.names.index(n) for n in wanted])
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file, options=some) as stream:
            for batch in stream:
                yield batch.select(list(wanted))

    return replace(source, schema=schema, open=read, database=None)


def _write(source: Source, columns: Sequence[str], path: Path) -> pa.Schema:
    """Write a stream, in which every batch can have its own dictionaries."""
    batches = source.batches(columns)
    first = next(batches)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, first.schema, options=_PACKED) as stream,
    ):
        stream.write_batch(first)
        for batch in batches:
            # files of one table may differ in how text is encoded
            stream.write_batch(batch if batch.schema == first.schema else batch.cast(first.schema))
    return first.schema
