"""Types of columns as Delta Lake knows them, and a copy in these types.

Delta has no unsigned integers, no time of day, no durations and no nanoseconds: such columns
are offered in the next larger type that holds the same values.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cornerwave.errors import OutputError

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}
_INSTEAD = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def offered_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a column is offered to clients of Delta Sharing."""
    types = pa.types
    if types.is_dictionary(type_):
        return offered_type(type_.value_type)
    if types.is_timestamp(type_):
        return pa.timestamp("us", "UTC")
    if types.is_time(type_):
        return pa.string()
    if types.is_duration(type_):
        return pa.int64()
    if types.is_decimal(type_):
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    if types.is_fixed_size_binary(type_):
        return pa.binary()
    return _INSTEAD.get(type_, type_)


def offered_schema(schema: pa.Schema) -> pa.Schema:
    """Return a copy's columns in the types in which they are offered."""
    return pa.schema([part.with_type(offered_type(part.type)) for part in schema])


def schema_string(schema: pa.Schema) -> str:
    """Return the columns as Delta writes them down."""
    fields = [
        {"name": part.name, "type": _name(part.type), "nullable": True, "metadata": {}}
        for part in offered_schema(schema)
    ]
    return json.dumps({"type": "struct", "fields": fields})


def _name(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES.get(type_, "string")


def is_offered(copy: Path) -> bool:
    """Return whether a Parquet copy has no other types than those that are offered."""
    schema = pq.read_schema(copy)
    return bool(offered_schema(schema).equals(schema))


def write_offered(copy: Path, out: Path, progress: Callable[[int], None]) -> None:
    """Write a Parquet copy in the types in which it is offered, row group by row group."""
    file = pq.ParquetFile(copy)
    schema = offered_schema(file.schema_arrow)
    try:
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            for group in range(file.num_row_groups):
                table = file.read_row_group(group)
                columns = [_cast(table.column(part.name), part.type) for part in schema]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                progress(table.num_rows)
    except OSError as error:
        raise OutputError(f"a copy cannot be written: {error.strerror}") from None


def _cast(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_duration(column.type):
        column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if pa.types.is_timestamp(type_) and column.type.tz is None:
        column = pc.assume_timezone(column.cast(pa.timestamp("us"), safe=False), "UTC")
    return column.cast(type_, safe=False)
