"""The formats of a copy: groups of rows are encoded in any thread, and appended in order.

parquet   row groups; zstd, and noisy floats with their bytes split
csv       text; csv.gz is a gzip member for each group, which every reader takes as one file
arrow     record batches; Arrow compresses their columns side by side itself
"""

import base64
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.ipc as paipc

from cornerwave.table._row_groups import RowGroups
from cornerwave.table._types import plain_type


class Writer(Protocol):
    """Puts a file together from groups of rows."""

    def encode(self, group: pa.Table) -> Any:
        """Return a group as it is written: a pure function, for any thread."""

    def append(self, encoded: Any) -> None:
        """Write an encoded group."""

    def close(self) -> None:
        """Write what follows the last group."""


def writer_of(format_: str, file: BinaryIO, schema: pa.Schema) -> Writer:
    """Return the writer of a format; `schema` is that of `written_schema`."""
    if format_ == "parquet":
        # Dictionary-encoded text is written as it comes, but read as text: the schema says so.
        read_as = base64.b64encode(plain_schema(schema).serialize())
        metadata = {**schema.metadata, "ARROW:schema": read_as}
        return RowGroups(file, schema, parquet_settings(schema), metadata)
    return _Batches(file, schema) if format_ == "arrow" else _Lines(file, schema, format_)


def written_schema(format_: str, schema: pa.Schema) -> pa.Schema:
    """Return the columns as the writer of a format takes them."""
    return plain_schema(schema) if format_ == "arrow" else schema


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns as recipients see them: none is dictionary-encoded."""
    columns = [column.with_type(plain_type(column.type)) for column in schema]
    return pa.schema(columns, metadata=schema.metadata)


def parquet_settings(schema: pa.Schema) -> dict[str, Any]:
    """Return the writer's settings: noisy floats compress best with their bytes split.

    What is left then is either noise or the same in every row, so that more than the least
    effort of zstd takes a fifth longer for half a per cent of the size.

    Refreshed text has no least and greatest value: every group of rows holds nearly all of them,
    so that no reader could skip one, and finding them takes as long as encoding the column.
    """
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    refreshed = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return {
        "compression": "zstd",
        "compression_level": -1,
        "use_dictionary": [name for name in schema.names if name not in floats],
        "use_byte_stream_split": floats,
        "write_statistics": [name for name in schema.names if name not in refreshed],
        "write_batch_size": 1 << 14,  # by 1,024 rows, its default, a whole number takes a half more
    }


class _Lines:
    """CSV, compressed or not."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, format_: str) -> None:
        self._file = file
        self._packed: Callable[[Any], Any] = _gzipped if format_ == "csv.gz" else memoryview
        # not on import: it takes Numba, and most commands need none
        from cornerwave.table._csv_text import csv_header

        self._file.write(self._packed(csv_header(schema.names)))

    def encode(self, group: pa.Table) -> Any:
        from cornerwave.table._csv_text import csv_text

        return self._packed(csv_text(group))

    def append(self, encoded: Any) -> None:
        self._file.write(encoded)

    def close(self) -> None:
        pass


def _gzipped(text: Any) -> bytes:
    return zlib.compress(text, wbits=31)  # a header without name or time


class _Batches:
    """An Arrow file."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        options = paipc.IpcWriteOptions(compression="zstd")
        self._writer = paipc.new_file(file, schema, options=options)

    def encode(self, group: pa.Table) -> pa.Table:
        return group

    def append(self, encoded: pa.Table) -> None:
        self._writer.write_table(encoded)

    def close(self) -> None:
        self._writer.close()
