"""Columns of a source, read once and held in a file, to be read again and again.

A source may be slow to read: text, a database, another machine. Who asks it many questions holds
it first, in a folder that nobody else can read.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from cornerwave.table._parquet import Batches
from cornerwave.table._sources import Source

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
