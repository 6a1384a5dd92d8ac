"""Tables of databases as sources: rows in one snapshot, in an order that will be the same again.

postgresql    through ADBC, which copies rows in binary form into Arrow
duckdb        through its own Arrow interface
sqlite        through the standard library; a column's type is that of all its cells

A table has no order of its own. So rows come ordered by columns that the owner names, by the
key, or by the table's primary key. Nothing is ever written: the transaction, or the connection,
is read-only, and the server refuses a query that writes. Errors are told by their code, in our
words, since those of a database quote the query, the password and the cells.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from cornerwave.errors import ColumnError, CornerwaveError, ExtraMissing, SourceError, SourceLost
from cornerwave.table._places import WHERE_SECRETS_ARE, DatabaseAddress
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._types import ends_of

ROWS_AT_A_TIME = 1 << 14
_SCHEMA_ROWS = "LIMIT 0"


class Session(Protocol):
    """A connection in one snapshot."""

    def columns(self, rows: str, table: str | None) -> "Mapping[str, Selected]":
        """Return the columns of a table or a query, and how each is selected."""

    def primary_key(self, table: str) -> list[str]:
        """Return the columns of a table's primary key."""

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


@dataclass(frozen=True)
class DatabaseTable:
    """The rows of a table or a query, in an order if one is known."""

    place: DatabaseAddress
    rows: str
    columns: Mapping[str, Selected]
    order: tuple[str, ...]
    reading: ReadingSettings
    session: Session | None = field(default=None, repr=False)

    @classmethod
    def open(cls, place: DatabaseAddress, reading: ReadingSettings) -> "DatabaseTable":
        """Look at a table or a query. Raises SourceError."""
        if place.file is not None and not place.file.is_file():
            raise SourceError(f"there is no file {place.file}")
        if place.table and reading.table not in (None, place.table):
            raise SourceError("the address names one table, and the reading another; name one")
        table = place.table or reading.table
        if (table is None) == (reading.query is None):
            raise SourceError(
                f"{place.name}: name a table of the database, or a query, and not both",
                use=("table", "query"),
            )
        rows = table_name(table) if table else f"(\n{_one_query(reading.query)}\n) AS rows_of_query"
        place, reading = replace(place, table=table), replace(reading, table=table)
        with session(place) as opened, _asking(place):
            columns = opened.columns(rows, table)
            order = reading.order_by or (tuple(opened.primary_key(table)) if table else ())
        if not columns:
            raise SourceError(f"{place.name} has no columns")
        if unknown := [name for name in order if name not in columns]:
            raise ColumnError(f"{place.name} has no column {unknown[0]!r} to order its rows by")
        return cls(place, rows, columns, order, reading)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return pa.schema([(name, column.type) for name, column in self.columns.items()])

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns, all of one snapshot. Raises SourceError."""
        chosen = [self.columns[name] for name in columns]
        listed = ", ".join(column.select for column in chosen) or "1"
        by = ", ".join(self.columns[name].order for name in self.order)
        statement = f"SELECT {listed} FROM {self.rows}" + (f" ORDER BY {by}" if by else "")  # noqa: S608 - names are quoted
        with self._session() as opened, _asking(self.place):
            for batch in opened.batches(statement):
                arrays = [c.values(cells) for c, cells in zip(chosen, batch.columns, strict=False)]
                if arrays:
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _session(self) -> AbstractContextManager[Session]:
        return session(self.place) if self.session is None else nullcontext(self.session)

    @contextmanager
    def snapshot(self, key: str | None) -> Iterator["DatabaseTable"]:
        """Give the rows of one moment, in an order that no two rows share. Raises SourceError."""
        order = self.order or ((key,) if key else ())
        if not order:
            raise SourceError(
                f"the rows of {self.place.name} have no order of their own. Name a key, or columns "
                "to order them by that no two rows share",
                use=("key", "order_by"),
            )
        with session(self.place) as opened:
            if self.reading.order_by and self._repeats(opened):
                raise SourceError(
                    f"rows of {self.place.name} share a value of {', '.join(map(repr, order))}, so "
                    "that their order is open; name more columns to order them by",
                    use=("order_by",),
                )
            reading = replace(self.reading, order_by=order)
            yield replace(self, order=order, reading=reading, session=opened)

    def _repeats(self, opened: Session) -> bool:
        by = ", ".join(self.columns[name].order for name in self.order)
        statement = f"SELECT 1 FROM {self.rows} GROUP BY {by} HAVING count(*) > 1 LIMIT 1"  # noqa: S608
        with _asking(self.place):
            return any(batch.num_rows for batch in opened.batches(statement))


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


def _one_query(query: str | None) -> str:
    return (query or "").strip().rstrip(";").rstrip()


@contextmanager
def session(place: DatabaseAddress) -> Iterator[Session]:
    """Connect, and stay in one snapshot. Raises SourceError."""
    opening = {"postgresql": _postgresql, "duckdb": _duckdb, "sqlite": _sqlite}[place.kind]
    with ExitStack() as stack:
        with _asking(place):
            opened = stack.enter_context(opening(place))
        yield opened


@contextmanager
def _asking(place: DatabaseAddress) -> Iterator[None]:
    """Report what a database refuses, in our own words: its own quote cells and passwords."""
    try:
        yield
    except (CornerwaveError, GeneratorExit):
        raise
    except Exception as error:
        if not is_of_database(error):
            raise
        said = meaning_of(error)
        kind = SourceLost if re.search(_LOST, said) else SourceError
        raise kind(f"{place} cannot be read: {said}") from None


def is_of_database(error: Exception) -> bool:
    """Whether a database, or the way to it, raised an error."""
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in _LIBRARIES


_LOST = "server|connection"
_LIBRARIES = ("adbc_driver_manager", "_duckdb", "duckdb", "sqlite3", "pyarrow")
_MEANINGS = {
    "28": "the server refuses this user or password",
    "3D": "there is no such database",
    "42501": "this user has no permission",
    "42P01": "there is no such table",
    "42703": "there is no such column",
    "42": "the query is not valid",
    "25006": "the query writes, or the database is read-only",
    "53100": "the disk is full",
    "22": "the query meets a value that it cannot use",
    "53": "the server is short of connections or memory; try again",
    "57": "the server is stopping, or stopped the query; try again",
    "40": "the server is busy; try again",
    "08": "the connection was lost; try again",
}


_INVALID = ("ParserException", "BinderException", "InvalidInputException")


def meaning_of(error: Exception) -> str:
    """Return what an error of a database means, without its words."""
    told = re.search(r"SQLSTATE:? (\w{5})", str(error))  # all that is left of it in a stream
    state = getattr(error, "sqlstate", None) or (told and told[1])
    for length in (5, 2):
        if state and (meaning := _MEANINGS.get(state[:length])):
            return meaning
    if state:
        return f"the database reports SQLSTATE {state}"
    if "read-only transaction" in str(error):
        return _MEANINGS["25006"]
    kind = type(error).__name__
    if kind == "CatalogException" or "no such table" in str(error):
        return "there is no such table"
    if kind in _INVALID or re.search("syntax error|no such|one statement", str(error)):
        return "the query is not valid"
    if kind == "PermissionException":
        return "the query asks for more than this database"
    if type(error).__module__.startswith("adbc"):
        return (
            "no connection; check that the server is running, that the database exists, and the "
            f"user and password ({WHERE_SECRETS_ARE['postgresql']})"
        )
    if isinstance(error, OSError):  # of a stream of Arrow
        return _MEANINGS["08"]
    return "it is damaged, busy or not this kind of database"


def _missing(what: str, package: str) -> ExtraMissing:
    return ExtraMissing(
        f"{what} needs {package}, which is not installed: pip install 'cornerwave[databases]'"
    )


# --- PostgreSQL -------------------------------------------------------------------------

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
        raise _missing("a table in PostgreSQL", "adbc-driver-postgresql") from None
    where = place.where
    if "connect_timeout=" not in where:
        where += ("&" if "?" in where else "?") + "connect_timeout=10"
    return dbapi.connect(where)


@contextmanager
def _postgresql(place: DatabaseAddress) -> Iterator[Session]:
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
            cursor.execute(f"SELECT * FROM {rows} {_SCHEMA_ROWS}")  # noqa: S608 - names are quoted
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


# --- DuckDB -----------------------------------------------------------------------------


@contextmanager
def _duckdb(place: DatabaseAddress) -> Iterator[Session]:
    try:
        import duckdb
    except ImportError:
        raise _missing(f"reading {place.name}", "duckdb") from None
    # a query reads this database alone: no other file, no address, no extension
    alone: dict[str, Any] = {
        "enable_external_access": "false",
        "autoload_known_extensions": "false",
    }
    with duckdb.connect(place.where, read_only=True, config=alone) as connection:
        connection.execute("BEGIN TRANSACTION")
        yield _DuckDBSession(connection)


class _DuckDBSession:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def columns(self, rows: str, _table: str | None) -> Mapping[str, Selected]:
        found = self._relation(f"DESCRIBE SELECT * FROM {rows}").fetchall()  # noqa: S608
        statement = f"SELECT * FROM {rows} {_SCHEMA_ROWS}"  # noqa: S608
        schema = self._relation(statement).to_arrow_reader(1).schema
        kinds = {name: kind for name, kind, *_ in found}
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
        schema, _, own = table.rpartition(".")
        found = self._connection.execute(
            "SELECT constraint_column_names FROM duckdb_constraints() WHERE "
            "constraint_type = 'PRIMARY KEY' AND table_name = ? AND schema_name = ?",
            [own, schema or "main"],
        ).fetchone()
        return list(found[0]) if found else []

    def batches(self, statement: str) -> Iterator[pa.RecordBatch]:
        yield from self._relation(statement).to_arrow_reader(ROWS_AT_A_TIME)

    def _relation(self, statement: str) -> Any:
        if len(self._connection.extract_statements(statement)) != 1:
            raise SourceError("a query is one statement")
        return self._connection.sql(statement)


# --- SQLite -----------------------------------------------------------------------------


@contextmanager
def _sqlite(place: DatabaseAddress) -> Iterator[Session]:
    import sqlite3
    from urllib.parse import quote

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
        names = self._names(f"SELECT * FROM {rows} {_SCHEMA_ROWS}")  # noqa: S608
        declared = self._declared(table) if table else {}
        return {name: self._selected(name, rows, declared.get(name, "")) for name in names}

    def _names(self, statement: str) -> list[str]:
        return [part[0] for part in self._connection.execute(statement).description]

    def _declared(self, table: str) -> dict[str, str]:
        schema, _, own = table.rpartition(".")
        within = f"{quoted(schema)}." if schema else ""
        found = self._connection.execute(f"PRAGMA {within}table_info({quoted(own)})")
        return {name: kind.upper() for _, name, kind, *_ in found}

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
        schema, _, own = table.rpartition(".")
        within = f"{quoted(schema)}." if schema else ""
        found = self._connection.execute(f"PRAGMA {within}table_info({quoted(own)})").fetchall()
        keys = sorted((place, name) for _, name, _, _, _, place in found if place)
        return [name for _, name in keys]

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
