"""A copy as a table of a PostgreSQL database: one transaction, so that it appears whole.

    create, by a name of its own ── copy rows ── fingerprint? ── rename, comment ── ledger ── commit

Nobody sees a row before the commit, which comes after the ledger's line; a process or a server
that dies before it leaves nothing. What the copy states about itself is the table's comment.
"""

import json
import secrets
from contextlib import suppress
from typing import Any

import pyarrow as pa

from cornerwave.errors import OutputError, OutputExists
from cornerwave.outputs._destination import RowDestination, exists, writing
from cornerwave.outputs._formats import plain_schema
from cornerwave.sources import DatabaseAddress, Place, connect, quoted, table_name
from cornerwave.spec import CopyMetadata

_types = pa.types
_MARK = '{"cornerwave": '
_LONGEST_NAME = 63  # bytes; PostgreSQL cuts longer ones
_KINDS: tuple[tuple[Any, str, pa.DataType | None], ...] = (
    (_types.is_boolean, "boolean", None),
    (_types.is_int8, "smallint", pa.int16()),
    (_types.is_uint8, "smallint", pa.int16()),
    (_types.is_int16, "smallint", None),
    (_types.is_uint16, "integer", pa.int32()),
    (_types.is_int32, "integer", None),
    (_types.is_uint32, "bigint", pa.int64()),
    (_types.is_int64, "bigint", None),
    (_types.is_uint64, "bigint", pa.int64()),
    (_types.is_float16, "real", pa.float32()),
    (_types.is_float32, "real", None),
    (_types.is_float64, "double precision", None),
    (_types.is_date, "date", pa.date32()),
    (_types.is_time, "time", pa.time64("us")),
    (_types.is_duration, "interval", pa.duration("us")),
    (_types.is_null, "text", pa.string()),
)


def column_kind(type_: pa.DataType) -> tuple[str, pa.DataType]:
    """Return a column's type in PostgreSQL, and the type in which its values are sent.

    Raises OutputError for a type that has none.
    """
    if _types.is_decimal(type_):
        return f"numeric({type_.precision}, {max(0, type_.scale)})", type_
    if _types.is_timestamp(type_):
        return f"timestamp{' with time zone' if type_.tz else ''}", pa.timestamp("us", type_.tz)
    if _types.is_string(type_) or _types.is_large_string(type_) or _types.is_string_view(type_):
        return "text", pa.string()
    for is_one, kind, sent in _KINDS:
        if is_one(type_):
            return kind, sent or type_
    raise OutputError(f"PostgreSQL has no column of type {type_}; write the copy to a file")


def _check_length(name: str) -> None:
    if len(name.encode()) > _LONGEST_NAME:
        raise OutputError(
            f"the name {name!r} is longer than the {_LONGEST_NAME} bytes that PostgreSQL keeps; "
            "name the column otherwise in copies",
            use=("as",),
        )


class TableCopy(RowDestination):
    """A copy as a table."""

    place: DatabaseAddress
    format = "postgresql"
    _connection: Any = None
    _is_shared = False

    def within(self, connection: Any) -> "TableCopy":
        """Return the copy as a part of a transaction that is ended elsewhere."""
        self._connection, self._is_shared = connection, True
        return self

    def check(self) -> None:
        """Raise OutputError unless the copy can become this table."""
        if self.place.kind != self.format:
            raise OutputError(
                f"{self.place}: a copy becomes a table of PostgreSQL, or a file that other "
                "databases read, such as .parquet"
            )
        if self.place.table is None:
            raise OutputError("name the table of the copy, as in postgresql://HOST/DATABASE#TABLE")
        if self._is_shared:  # the schema may be made by the same transaction
            return
        with writing(self.place), connect(self.place) as connection:
            schema, name = _named(connection, self.place)
            if not self.force and _is_there(connection, f"{quoted(schema)}.{quoted(name)}"):
                raise exists(self.place)

    def open(self) -> None:
        """Make a table by a name of its own, which no other transaction sees."""
        self._plain = plain_schema(self.schema).remove_metadata()
        kinds = {part.name: column_kind(part.type) for part in self._plain}
        for name in (*kinds, *(self.place.table or "").split(".")):
            _check_length(name)
        self._sent = pa.schema([(name, sent) for name, (_, sent) in kinds.items()])
        with writing(self.place):
            self._connection = self._connection or connect(self.place)
            self._home, self._name = _named(self._connection, self.place)
            self._part = f"cornerwave_{secrets.token_hex(8)}"
            columns = ", ".join(f"{quoted(n)} {kind}" for n, (kind, _) in kinds.items())
            self._run(f"CREATE TABLE {self._called(self._part)} ({columns})")

    def encode(self, group: pa.Table) -> pa.Table:
        """Return a group of rows as it will be sent; threads may do so side by side."""
        try:
            return group.cast(self._plain).cast(self._sent)
        except pa.ArrowException:
            raise OutputError(
                f"{self.place} cannot be written: a column does not fit a type of PostgreSQL; "
                "write the copy to a file"
            ) from None

    def append(self, encoded: pa.Table) -> None:
        """Send an encoded group after those before it."""
        with writing(self.place), self._connection.cursor() as cursor:
            cursor.adbc_ingest(self._part, encoded, mode="append", db_schema_name=self._home)

    def finish(self) -> None:
        """Give the table its name. Raises OutputExists for another one."""
        target = self._called(self._name)
        with writing(self.place):
            if _is_there(self._connection, target):
                if not self.force:
                    raise exists(self.place)
                self._check_ours(target)
                self._run(f"DROP TABLE {target}")
            self._run(f"ALTER TABLE {self._called(self._part)} RENAME TO {quoted(self._name)}")
            self._run("SET LOCAL standard_conforming_strings = on")
            self._run(comment_on(target, self.metadata))

    def publish(self) -> None:
        """Make the finished copy visible."""
        with writing(self.place):
            self._connection.commit()

    def discard(self) -> None:
        """Leave no trace of a copy that was not published."""
        if self._connection is None or self._is_shared:
            return
        for end in (self._connection.rollback, self._connection.close):
            with suppress(Exception):  # the server may be gone, and with it the transaction
                end()

    def _check_ours(self, table: str) -> None:
        """Raise OutputExists for a table that is not a copy: force replaces copies alone."""
        statement = "SELECT obj_description(to_regclass($1), 'pg_class')"
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters=(table,))
            ((comment,),) = cursor.fetchall()
        if not (comment or "").startswith(_MARK):
            raise OutputExists(
                f"{self.place} is a table that Cornerwave did not make; it is never dropped. "
                "Choose another name"
            )

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _called(self, table: str) -> str:
        return f"{quoted(self._home)}.{quoted(table)}"


def _named(connection: Any, place: DatabaseAddress) -> tuple[str, str]:
    """Return the schema, by default the first of the search path, and the name of a table."""
    table_name(place.table or "")  # raises for a name that is not valid
    schema, _, name = (place.table or "").rpartition(".")
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_schema()")
        ((current,),) = cursor.fetchall()
    if not schema and current is None:
        raise OutputError(f"{place} cannot be written: name the schema too, as in #SCHEMA.TABLE")
    return schema or current, name


def _is_there(connection: Any, table: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass($1) IS NOT NULL", parameters=(table,))
        ((is_there,),) = cursor.fetchall()
    return bool(is_there)


class SharedSession:
    """One transaction for several tables of a schema, which is made if there is none."""

    format = TableCopy.format

    def __init__(self, place: DatabaseAddress, schema: str) -> None:
        if place.kind != self.format:
            raise OutputError(
                f"{place}: linked tables become a schema of PostgreSQL, or a .duckdb file"
            )
        _check_length(schema)
        self._place, self._schema = place, schema

    def __enter__(self) -> "SharedSession":
        with writing(self._place):
            self._connection = connect(self._place)
            with self._connection.cursor() as cursor:
                cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._schema)}")
        return self

    def copy_at(
        self, place: Place, schema: pa.Schema, metadata: CopyMetadata, *, force: bool = False
    ) -> RowDestination:
        """Return a copy that becomes one of the tables."""
        assert isinstance(place, DatabaseAddress)
        return TableCopy(place, schema, metadata, force=force).within(self._connection)

    def commit(self) -> None:
        """Make all tables visible."""
        with writing(self._place):
            self._connection.commit()

    def __exit__(self, *_: object) -> None:
        for end in (self._connection.rollback, self._connection.close):
            with suppress(Exception):  # the server may be gone, and with it the transaction
                end()


def comment_on(table: str, metadata: CopyMetadata) -> str:
    """Return the statement that keeps a copy's metadata in the comment of its (quoted) table."""
    comment = f"{_MARK}{json.dumps(metadata.to_json())}}}".replace("'", "''")
    return f"COMMENT ON TABLE {table} IS '{comment}'"
