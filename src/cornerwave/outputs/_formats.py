"""The formats of a copy: groups of rows are encoded in any thread, and appended in order.

parquet   row groups; zstd, and noisy floats with their bytes split
csv       text; csv.gz is a gzip member for each group, which every reader takes as one file
arrow     record batches; Arrow compresses their columns side by side itself
"""

import base64
import io
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, BinaryIO, Protocol, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as paipc
import pyarrow.parquet as papq

from cornerwave import _core
from cornerwave.arrays import Ints, Words
from cornerwave.columns import is_text, one_chunk, plain_type

# --------------------------------------------------------------------------------------------------
# A Parquet file put together from row groups that were encoded side by side.
#
#     group ── Arrow's writer ──> a file of one row group in memory     (any thread)
#     pages ── appended as they are ──> the copy                        (in order)
#     footers ── offsets moved to the pages' new place ──> one footer
#
# Arrow's writer is one thread, and encoding is the longest step of a release. Pages do not know
# where in a file they lie: only the footer does, a Thrift structure in the compact protocol. So
# the result is, byte for byte, what one writer gives for the same groups; a test compares them.


MAGIC = b"PAR1"

Struct = dict[int, tuple[int, Any]]
"""The fields of a Thrift structure: id -> (type, value)."""

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

# Fields of the footer, https://github.com/apache/parquet-format/blob/master/src/main/thrift
_ROWS, _GROUPS = 3, 4  # of FileMetaData
_CHUNKS, _GROUP_OFFSET, _ORDINAL = 1, 5, 7  # of RowGroup
_CHUNK_OFFSET, _COLUMN = 2, 3  # of ColumnChunk
_PAGE_OFFSETS = (9, 10, 11)  # of ColumnMetaData: data, index and dictionary pages


class RowGroups:
    """A Parquet file in the making; `settings` are those of Arrow's writer."""

    def __init__(
        self, file: BinaryIO, schema: pa.Schema, settings: "ParquetSettings", metadata: Any
    ) -> None:
        self._file, self._schema = file, schema
        self._settings, self._metadata = settings, metadata
        self._footer = _footer_of(self.encode(schema.empty_table()))
        self._groups: list[Struct] = []
        self._rows, self._size = 0, file.write(MAGIC)

    def encode(self, group: pa.Table) -> memoryview:
        """Return a group as a Parquet file of its own; any thread may do so."""
        sink = io.BytesIO()  # grows in place, where a buffer of Arrow's is copied again and again
        with papq.ParquetWriter(sink, self._schema, store_schema=False, **self._settings) as writer:
            writer.add_key_value_metadata(self._metadata)
            if len(group):
                writer.write_table(group, row_group_size=len(group))
        return sink.getbuffer()

    def append(self, encoded: memoryview) -> None:
        """Append an encoded group."""
        footer = _footer_of(encoded)
        for group in footer[_GROUPS][1][1]:
            _move(group, self._size - len(MAGIC))
            self._groups.append(group)
        self._rows += footer[_ROWS][1]
        end = _footer_start(encoded)
        self._size += self._file.write(encoded[len(MAGIC) : end])

    def close(self) -> None:
        """Write the footer."""
        self._footer[_ROWS] = (_I64, self._rows)
        self._footer[_GROUPS] = (_LIST, (_STRUCT, self._groups))
        footer = bytearray()
        _put_struct(footer, self._footer)
        self._file.write(bytes(footer) + len(footer).to_bytes(4, "little") + MAGIC)


def _move(group: Struct, by: int) -> None:
    """Say that the pages of a row group lie further back in their file."""
    _add(group, _GROUP_OFFSET, by)
    for chunk in group[_CHUNKS][1][1]:
        if chunk[_CHUNK_OFFSET][1]:  # 0 where there is nothing
            _add(chunk, _CHUNK_OFFSET, by)
        for offset in _PAGE_OFFSETS:
            _add(chunk[_COLUMN][1], offset, by)
    group.pop(_ORDINAL, None)  # optional, and the same for each file of one group


def _add(struct: Struct, field: int, by: int) -> None:
    if field in struct:
        type_, value = struct[field]
        struct[field] = (type_, value + by)


def _footer_start(file: memoryview) -> int:
    return len(file) - 8 - int.from_bytes(file[-8:-4], "little")


def _footer_of(file: memoryview) -> Struct:
    return _Reader(bytes(file[_footer_start(file) : -8])).struct()


# --- Thrift's compact protocol ----------------------------------------------------------


class _Reader:
    """Reads values one after the other; the bytes are Arrow's own, and not checked."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> Struct:
        fields: Struct = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            fields[field] = (head & 15, self._value(head & 15))
        return fields

    def _value(self, type_: int) -> Any:
        if type_ in (_TRUE, _FALSE):
            return None  # the type is the value
        if type_ in (_I16, _I32, _I64):
            return self._signed()
        if type_ == _STRUCT:
            return self.struct()
        if type_ == _LIST:
            return self._list()
        return self._bytes({_BYTE: 1, _DOUBLE: 8}[type_] if type_ != _BINARY else self._unsigned())

    def _list(self) -> tuple[int, list[Any]]:
        head = self._byte()
        size, type_ = head >> 4, head & 15
        size = self._unsigned() if size == 15 else size
        read = self._byte if type_ in (_TRUE, _FALSE) else lambda: self._value(type_)
        return type_, [read() for _ in range(size)]

    def _bytes(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def _put_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for field, (type_, value) in sorted(struct.items()):
        if field - before < 16:
            out.append((field - before) << 4 | type_)
        else:
            out.append(type_)
            _put_signed(out, field)
        _put_value(out, type_, value)
        before = field
    out.append(0)


def _put_value(out: bytearray, type_: int, value: Any) -> None:
    if type_ in (_I16, _I32, _I64):
        _put_signed(out, value)
    elif type_ == _STRUCT:
        _put_struct(out, value)
    elif type_ == _LIST:
        _put_list(out, *value)
    elif type_ not in (_TRUE, _FALSE):
        if type_ == _BINARY:
            _put_unsigned(out, len(value))
        out += value


def _put_list(out: bytearray, type_: int, values: list[Any]) -> None:
    out.append(min(len(values), 15) << 4 | type_)
    if len(values) >= 15:
        _put_unsigned(out, len(values))
    for value in values:
        if type_ in (_TRUE, _FALSE):
            out.append(value)
        else:
            _put_value(out, type_, value)


def _put_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _put_signed(out: bytearray, value: int) -> None:
    _put_unsigned(out, value << 1 if value >= 0 else (-value << 1) - 1)


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
        # Dictionary-encoded text is written as it comes, but read as text: the schema states that.
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


class ParquetSettings(TypedDict):
    """Settings of Arrow's writer of Parquet."""

    compression: str
    compression_level: int
    use_dictionary: Sequence[str]
    use_byte_stream_split: Sequence[str]
    write_statistics: Sequence[str]
    write_batch_size: int


def parquet_settings(schema: pa.Schema) -> ParquetSettings:
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
        self._file.write(self._packed(csv_header(schema.names)))

    def encode(self, group: pa.Table) -> Any:
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


# --------------------------------------------------------------------------------------------------
# Rows as CSV text: what Arrow's writer gives, but doubles in a third of its time.
#
# Text is quoted, and a missing value is an empty field without quotes. A double is the shortest
# number that is read back as the same one; only beyond 1e-6 and 1e15 it has an exponent.


LONGEST, SPARE = 25, 32
"""Letters of the longest double, -0.0000012345678901234567, and bytes that writing it may touch."""


@cache
def _powers() -> Words:
    """Return 10^-292 to 10^324 as 128 bits each, rounded up, the first of them 1."""
    return np.array([_power(k) for k in range(-292, 325)], dtype=np.uint64)


def _power(k: int) -> tuple[int, int]:
    shift = 127 - (k * 1741647 >> 19)
    top: int = 10 ** max(k, 0) << max(shift, 0)
    bottom: int = 10 ** max(-k, 0) << max(-shift, 0)
    return divmod(-(-top // bottom), 1 << 64)


def csv_header(names: Sequence[str]) -> bytes:
    """Return the line of column names."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    return (",".join(quoted) + "\n").encode()


def csv_text(table: pa.Table) -> Any:
    """Return the bytes of the rows' text. Raises ArrowException for a type that has none."""
    doubles = [pa.types.is_float64(kind) for kind in table.schema.types]
    columns = [one_chunk(column) for column in table.columns]
    numbers = [c.to_numpy(zero_copy_only=False) for c, d in zip(columns, doubles, strict=True) if d]
    texts = [_cells(c) for c, double in zip(columns, doubles, strict=True) if not double]
    floats = np.stack(numbers) if numbers else np.empty((0, len(table)))
    starts, ends, content = _side_by_side(texts, len(table))
    room = len(table) * len(columns) + LONGEST * floats.size + SPARE + int((ends - starts).sum())
    out = np.empty(room, dtype=np.uint8)
    are_doubles = np.array(doubles, dtype=np.bool_)
    return out[: _core.write_csv(are_doubles, floats, starts, ends, content, _powers(), out)]


def _cells(column: pa.Array) -> tuple[Ints, Ints, Any]:
    """Return where the text of each cell begins and ends, and all of it; values of a
    dictionary are there once."""
    if pa.types.is_dictionary(column.type):
        begins, closes, content = _cells(column.dictionary)
        codes = column.indices.fill_null(len(begins)).to_numpy(zero_copy_only=False)
        return np.append(begins, 0)[codes], np.append(closes, 0)[codes], content
    texts = column.cast(pa.large_string())
    if is_text(column.type) or "binary" in str(column.type):
        texts = _quoted(texts)
    texts = texts.fill_null("")
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return bounds[:-1], bounds[1:], content


def _quoted(texts: pa.Array) -> pa.Array:
    quote = pa.scalar('"', pa.large_string())
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.binary_join_element_wise(quote, doubled, quote, pa.scalar("", pa.large_string()))


def _side_by_side(columns: Sequence[tuple[Ints, Ints, Any]], rows: int) -> tuple[Ints, Ints, Any]:
    """Return the bounds of the cells of all columns, (columns, rows), and one text of them all.

    It is 8 bytes longer, since it is read by words.
    """
    starts, ends = np.empty((2, len(columns), rows), dtype=np.int64)
    before = 0
    for place, (begins, closes, content) in enumerate(columns):
        starts[place], ends[place] = begins + before, closes + before
        before += len(content)
    contents = [content for _, _, content in columns]
    return starts, ends, np.concatenate([*contents, np.zeros(8, np.uint8)])
