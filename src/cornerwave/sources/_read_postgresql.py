"""Rows of PostgreSQL through ADBC, which copies them in binary form into Arrow."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from cornerwave.sources._databases import (
    SCHEMA_ROWS,
    Selected,
    Session,
    missing,
    quoted,
    table_name,
)
from cornerwave.sources._places import DatabaseAddress

_NATIVE = (
    *("int2", "int4", "int8", "float4", "float8", "text", "varchar", "bool"),
    *("date", "time", "timestamp", "timestamptz", "bytea"),
)
_COLLATED = ("text", "varchar", "bpchar", "name")


def connect(place: DatabaseAddress) -> Any:
    """Return an ADBC connection to PostgreSQL, in a transaction. Raises ExtraMissing."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise missing("a table in PostgreSQL", "adbc-driver-postgresql") from None
    where = place.where
    if "connect_timeout=" not in where:
        where += ("&" if "?" in where else "?") + "connect_timeout=10"
    return dbapi.connect(where)


@contextmanager
def reading(place: DatabaseAddress) -> Iterator[Session]:
    """Read in one snapshot, and nothing else."""
    connection = connect(place)
    try:
        opened = _PostgreSQLSession(connection)
        opened.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield opened
    finally:
        for end in (connection.rollback, connection.close):
            with suppress(Exception):  # the server may be gone
                end()


class _PostgreSQLSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def columns(self, rows: str, _table: str | None) -> Mapping[str, Selected]:
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {rows} {SCHEMA_ROWS}")  # noqa: S608 - names are quoted
            with cursor.fetch_record_batch() as reader:
                return {part.name: _selected(part) for part in reader.schema}

    def primary_key(self, table: str) -> list[str]:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
                "AND attnum = ANY (indkey) WHERE indisprimary AND indrelid = to_regclass($1) "
                "ORDER BY array_position(indkey::int2[], attnum)",
                parameters=(table_name(table),),
            )
            return [name for (name,) in cursor.fetchall()]

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            with cursor.fetch_record_batch() as reader:
                yield from reader


def _selected(part: pa.Field) -> Selected:
    """Return how a column of PostgreSQL is selected: what Arrow does not have becomes text."""
    told = {key.decode(): value.decode() for key, value in (part.metadata or {}).items()}
    kind, name = told.get("POSTGRESQL:type", ""), quoted(part.name)
    order = f'{name} COLLATE "C"' if kind in _COLLATED else name
    if kind == "numeric":
        type_ = _numeric(int(told.get("POSTGRESQL:typmod", -1)))
        return Selected(type_, f"{name}::text", order, _numbers)
    if kind == "money":
        return Selected(pa.decimal128(20, 2), f"{name}::numeric::text", order, _numbers)
    if kind == "interval":
        microseconds = f"(extract(epoch FROM {name}) * 1000000)::int8"
        return Selected(pa.duration("us"), microseconds, order, lambda a: a.view(pa.duration("us")))
    if kind in _NATIVE:
        return Selected(part.type, name, order)
    return Selected(pa.string(), f"{name}::text", order)


def _numeric(modifier: int) -> pa.DataType:
    """Return the type of numeric(precision, scale); floats where neither is said."""
    if modifier < 0:
        return pa.float64()
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale >= 0x400 else scale
    if scale < 0 or scale > precision or precision > 76:
        return pa.float64()
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)


def _numbers(texts: pa.Array) -> pa.Array:
    """Return the texts of numbers without those that are none."""
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(texts, "NaN"), None, texts)
