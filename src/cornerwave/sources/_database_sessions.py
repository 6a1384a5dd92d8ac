"""Connections to databases, each in one snapshot that only reads: columns, keys, batches of rows.

    postgresql    ADBC, which copies rows in binary form into Arrow
    duckdb        its own Arrow interface
    sqlite        the standard library; a column's type is that of all its cells

Names reach a statement quoted only. To add a database: a `Session`, and its entry in `READERS`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import pyarrow as pa

from cornerwave.columns import ends_of
from cornerwave.errors import ColumnError, ExtraMissing, SourceError
from cornerwave.sources._places import DatabaseAddress

SCHEMA_ROWS = "LIMIT 0"
ROWS_AT_A_TIME = 1 << 14


class Session(Protocol):
    """A connection in one snapshot."""

    def columns(self, rows: str, table: str | None) -> "Mapping[str, Selected]":
        """Return the columns of a table or a query, and how each is selected."""

    def primary_key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key."""

    def comment(self, table: str) -> str | None:
        """Return the comment on a table, if it has one."""

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement."""


@dataclass(frozen=True)
class Selected:
    """A column: its type here, the expression that selects it, and the one that orders by it.

    `convert` makes the values of the type from what the database gives.
    """

    type: pa.DataType
    select: str
    order: str
    convert: Callable[[pa.Array], pa.Array] | None = None
    note: str = ""

    def values(self, cells: pa.Array) -> pa.Array:
        """Return cells as values."""
        cells = cells if self.convert is None else self.convert(cells)
        cells = cells if cells.type == self.type else cells.cast(self.type)
        if pa.types.is_date(self.type) or pa.types.is_timestamp(self.type):
            _check_ends(cells, self.select)
        return cells


def _check_ends(moments: pa.Array, name: str) -> None:
    """Raise ColumnError for dates that no calendar has: databases spell infinity so."""
    import pyarrow.compute as pc

    whole = moments.view(pa.int32() if moments.type == pa.date32() else pa.int64())
    ends, (least, most) = pc.min_max(whole).as_py(), ends_of(moments.type, None, None)
    if ends["min"] is not None and not least <= ends["min"] <= ends["max"] <= most:
        raise ColumnError(
            f"{name} holds dates that are infinite, or outside of the years 1 to 9999; make them "
            "missing in a query"
        )


def quoted(name: str) -> str:
    """Return a name as SQL writes it, whatever it holds.

    >>> print(quoted('a"; DROP TABLE b; --'))
    "a""; DROP TABLE b; --"
    """
    if "\0" in name:
        raise SourceError("a name in a database cannot hold a NUL character")
    return '"' + name.replace('"', '""') + '"'


def table_name(table: str) -> str:
    """Return the name of a table, which may name its schema first.

    >>> table_name("public.people")
    '"public"."people"'
    """
    parts = table.split(".")
    if len(parts) > 2 or not all(parts):
        raise SourceError("the name of a table is TABLE or SCHEMA.TABLE")
    return ".".join(map(quoted, parts))


# --------------------------------------------------------------------------------------------------
# PostgreSQL.


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
        what = "a table in PostgreSQL"
        raise ExtraMissing.of(what, "adbc-driver-postgresql", extra="databases") from None
    where = place.where
    if "connect_timeout=" not in where:
        where += ("&" if "?" in where else "?") + "connect_timeout=10"
    return dbapi.connect(where)


@contextmanager
def read_postgresql(place: DatabaseAddress) -> Iterator[Session]:
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
                return {part.name: _postgresql_column(part) for part in reader.schema}

    def primary_key(self, table: str) -> list[str]:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
                "AND attnum = ANY (indkey) WHERE indisprimary AND indrelid = to_regclass($1) "
                "ORDER BY array_position(indkey::int2[], attnum)",
                parameters=(table_name(table),),
            )
            return [name for (name,) in cursor.fetchall()]

    def comment(self, table: str) -> str | None:
        with self._connection.cursor() as cursor:
            cursor.execute(
                "SELECT obj_description(to_regclass($1), 'pg_class')::text",
                parameters=(table_name(table),),
            )
            ((comment,),) = cursor.fetchall()
            return None if comment is None else str(comment)

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            with cursor.fetch_record_batch() as reader:
                yield from reader


def _postgresql_column(part: pa.Field) -> Selected:
    """Return how a column of PostgreSQL is selected: what Arrow does not have becomes text."""
    stated = {key.decode(): value.decode() for key, value in (part.metadata or {}).items()}
    kind, name = stated.get("POSTGRESQL:type", ""), quoted(part.name)
    order = f'{name} COLLATE "C"' if kind in _COLLATED else name
    if kind == "numeric":
        type_ = _numeric(int(stated.get("POSTGRESQL:typmod", -1)))
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
    """Return the type of numeric(precision, scale); floats where neither is stated."""
    if modifier < 0:
        return pa.float64()
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale >= 0x400 else scale
    if scale < 0 or scale > precision or precision > 76:
        return pa.float64()
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)


def _numbers(texts: pa.Array) -> pa.Array:
    """Return the texts of numbers without NaN."""
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(texts, "NaN"), None, texts)


# --------------------------------------------------------------------------------------------------
# DuckDB.


@contextmanager
def read_duckdb(place: DatabaseAddress) -> Iterator[Session]:
    """Read a file in one snapshot, and nothing else."""
    try:
        import duckdb
    except ImportError:
        raise ExtraMissing.of(f"reading {place.name}", "duckdb", extra="databases") from None
    # a query reads this database alone: no other file, no address, no extension
    with duckdb.connect(
        place.where,
        read_only=True,
        config={"enable_external_access": "false", "autoload_known_extensions": "false"},
    ) as connection:
        connection.execute("BEGIN TRANSACTION")
        yield _DuckDBSession(connection)


class _DuckDBSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, rows: str, _table: str | None) -> Mapping[str, Selected]:
        described = self._relation(f"DESCRIBE SELECT * FROM {rows}").fetchall()  # noqa: S608
        statement = f"SELECT * FROM {rows} {SCHEMA_ROWS}"  # noqa: S608
        schema = self._relation(statement).to_arrow_reader(1).schema
        kinds = {name: kind for name, kind, *_ in described}
        return {part.name: self._selected(part, kinds[part.name]) for part in schema}

    def _selected(self, part: pa.Field, kind: str) -> Selected:
        name = quoted(part.name)
        if kind == "INTERVAL":
            microseconds = f"epoch_us({name})"
            type_ = pa.duration("us")
            return Selected(type_, microseconds, name, lambda a: a.cast(pa.int64()).view(type_))
        if kind == "TIMESTAMP WITH TIME ZONE":
            return Selected(pa.timestamp("us", tz="UTC"), name, name)
        if kind in ("UUID", "HUGEINT", "UHUGEINT", "TIME WITH TIME ZONE", "JSON"):
            return Selected(pa.string(), f"{name}::VARCHAR", name)
        return Selected(part.type, name, name)

    def primary_key(self, table: str) -> list[str]:
        schema, _, name = table.rpartition(".")
        key = self._connection.execute(
            "SELECT constraint_column_names FROM duckdb_constraints() WHERE "
            "constraint_type = 'PRIMARY KEY' AND table_name = ? AND schema_name = ?",
            [name, schema or "main"],
        ).fetchone()
        return list(key[0]) if key else []

    def comment(self, table: str) -> str | None:
        schema, _, name = table.rpartition(".")
        row = self._connection.execute(
            "SELECT comment FROM duckdb_tables() WHERE table_name = ? AND schema_name = ?",
            [name, schema or "main"],
        ).fetchone()
        return row[0] if row else None

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        yield from self._relation(statement).to_arrow_reader(ROWS_AT_A_TIME)

    def _relation(self, statement: str) -> Any:
        if len(self._connection.extract_statements(statement)) != 1:
            raise SourceError("a query is one statement")
        return self._connection.sql(statement)


# --------------------------------------------------------------------------------------------------
# SQLite.


@contextmanager
def read_sqlite(place: DatabaseAddress) -> Iterator[Session]:
    """Read a file in one snapshot, and nothing else."""
    import sqlite3

    connection = sqlite3.connect(
        f"file:{quote(place.where)}?mode=ro", uri=True, isolation_level=None,
        check_same_thread=False,
    )  # fmt: skip
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("BEGIN")
        yield _SqliteSession(connection)
    finally:
        connection.close()


_CLASSES = ("integer", "real", "text", "blob")
_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
_CLOCK = "[0-9][0-9]:[0-9][0-9]:[0-9][0-9]"
_SHAPES: dict[str, tuple[str, pa.DataType]] = {
    "DATE": (_DAY, pa.date32()),
    "DATETIME": (f"{_DAY}[ T]{_CLOCK}*", pa.timestamp("us")),
    "TIMESTAMP": (f"{_DAY}[ T]{_CLOCK}*", pa.timestamp("us")),
    "TIME": (f"{_CLOCK}*", pa.time64("us")),
}
"""How dates and times are spelled in columns that are declared so."""


class _SqliteSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, rows: str, table: str | None) -> Mapping[str, Selected]:
        names = self._names(f"SELECT * FROM {rows} {SCHEMA_ROWS}")  # noqa: S608
        declared = self._declared(table) if table else {}
        return {name: self._selected(name, rows, declared.get(name, "")) for name in names}

    def _names(self, statement: str) -> list[str]:
        return [part[0] for part in self._connection.execute(statement).description]

    def _declared(self, table: str) -> dict[str, str]:
        return {name: kind.upper() for _, name, kind, *_ in self._table_info(table)}

    def _table_info(self, table: str) -> list[tuple[Any, ...]]:
        """Return number, name, type, NOT NULL, default and place in the key of each column."""
        schema, _, name = table.rpartition(".")
        within = f"{quoted(schema)}." if schema else ""
        info = self._connection.execute(f"PRAGMA {within}table_info({quoted(name)})")
        return list(info.fetchall())

    def _selected(self, name: str, rows: str, declared: str) -> Selected:
        """Return a column by the classes of all its cells, which need not be what was declared."""
        cell, kind = quoted(name), re.split(r"[ (]", declared)[0]
        shape, type_ = _SHAPES.get(kind, ("", pa.string()))
        tests = [f"max(typeof({cell}) = '{each}')" for each in _CLASSES]
        tests += [f"max({cell} NOT IN (0, 1))", f"max({cell} NOT GLOB '{shape}')"]
        tests += [f"max({cell} GLOB '*[+Zz]*')"]
        *classes, not_bool, unshaped, zoned = self._connection.execute(
            f"SELECT {', '.join(tests)} FROM {rows}"  # noqa: S608 - names are quoted
        ).fetchone()
        present = {each for each, is_there in zip(_CLASSES, classes, strict=True) if is_there}
        order = f"{cell} COLLATE BINARY"
        if present <= {"integer"} and present:
            is_bool = kind.startswith("BOOL") and not not_bool
            return Selected(pa.bool_() if is_bool else pa.int64(), cell, order)
        if present and present <= {"integer", "real"}:
            return Selected(pa.float64(), f"CAST({cell} AS REAL)", order)
        if present == {"blob"}:
            return Selected(pa.binary(), cell, order)
        if present == {"text"} and shape and not unshaped and not zoned:
            if kind == "TIME":  # which Arrow reads as part of a timestamp alone
                return Selected(type_, f"'1970-01-01 ' || {cell}", order, _moments)
            return Selected(type_, cell, order)
        if not present and declared:
            return Selected(_by_declaration(declared), cell, order)
        note = "its cells are of several kinds: it is read as text" if len(present) > 1 else ""
        return Selected(pa.string(), f"CAST({cell} AS TEXT)", order, note=note)

    def primary_key(self, table: str) -> list[str]:
        keys = sorted((place, name) for _, name, *_, place in self._table_info(table) if place)
        return [name for _, name in keys]

    def comment(self, _table: str) -> str | None:
        return None

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        cursor = self._connection.execute(statement)
        names = [str(number) for number, _ in enumerate(cursor.description)]
        while rows := cursor.fetchmany(ROWS_AT_A_TIME):
            cells = [pa.array(column) for column in zip(*rows, strict=True)]
            yield pa.RecordBatch.from_arrays(cells, names=names)


def _moments(texts: pa.Array) -> pa.Array:
    return texts.cast(pa.timestamp("us"))


def _by_declaration(declared: str) -> pa.DataType:
    """Return the type of a column without a cell, by SQLite's own rules."""
    if "INT" in declared:
        return pa.int64()
    return pa.string() if re.search("CHAR|CLOB|TEXT", declared) else pa.float64()


READERS: dict[str, Callable[[DatabaseAddress], AbstractContextManager[Session]]] = {
    "postgresql": read_postgresql,
    "duckdb": read_duckdb,
    "sqlite": read_sqlite,
}
"""What connects to each kind of database; libraries are imported only there."""
