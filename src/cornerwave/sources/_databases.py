"""Tables of databases as sources: rows in one snapshot, in an order that will be the same again.

postgresql    through ADBC, which copies rows in binary form into Arrow
duckdb        through its own Arrow interface
sqlite        through the standard library; a column's type is that of all its cells

A table has no order of its own. So rows come ordered by columns that the owner names, by the
key, or by the table's primary key. Nothing is ever written: the transaction, or the connection,
is read-only, and the server refuses a query that writes. Errors are
recognised by their code and reported in our words, since those of a database quote the query, the
password and the cells.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import pyarrow as pa

from cornerwave.choices import ReadingSettings
from cornerwave.errors import ColumnError, CornerwaveError, SourceError, SourceLost
from cornerwave.sources._database_sessions import READERS, Selected, Session, table_name
from cornerwave.sources._places import WHERE_SECRETS_ARE, DatabaseAddress

METADATA_KEY = b"cornerwave"
"""Where a table states how it was made: in its Arrow schema, the attributes of a frame, or the
comment of a table of a database."""


def is_of_database(error: Exception) -> bool:
    """Whether a database, or the way to it, raised an error."""
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in _LIBRARIES


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
    code = re.search(r"SQLSTATE:? (\w{5})", str(error))  # all that is left of it in a stream
    state = getattr(error, "sqlstate", None) or (code and code[1])
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


_LOST = "server|connection"


@dataclass(frozen=True)
class DatabaseTable:
    """The rows of a table or a query, in an order if one is known.

    `stated` is what a table that is a copy states about itself.
    """

    place: DatabaseAddress
    rows: str
    columns: Mapping[str, Selected]
    order: tuple[str, ...]
    reading: ReadingSettings
    session: Session | None = field(default=None, repr=False)
    stated: bytes | None = field(default=None, repr=False)

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
        query = (reading.query or "").strip().rstrip(";").rstrip()
        rows = table_name(table) if table else f"(\n{query}\n) AS rows_of_query"
        place, reading = replace(place, table=table), replace(reading, table=table)
        with session(place) as opened, _asking(place):
            columns = opened.columns(rows, table)
            order = reading.order_by or (tuple(opened.primary_key(table)) if table else ())
            stated = in_comment(opened.comment(table) if table else None)
        if not columns:
            raise SourceError(f"{place.name} has no columns")
        if unknown := [name for name in order if name not in columns]:
            raise ColumnError(f"{place.name} has no column {unknown[0]!r} to order its rows by")
        return cls(place, rows, columns, order, reading, stated=stated)

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types, with what a copy states about itself."""
        stated = None if self.stated is None else {METADATA_KEY: self.stated}
        return pa.schema([(name, column.type) for name, column in self.columns.items()], stated)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns, all of one snapshot. Raises SourceError."""
        chosen = [self.columns[name] for name in columns]
        listed = ", ".join(column.select for column in chosen) or "1"
        by = ", ".join(self.columns[name].order for name in self.order)
        statement = f"SELECT {listed} FROM {self.rows}" + (f" ORDER BY {by}" if by else "")  # noqa: S608 - names are quoted
        here = session(self.place) if self.session is None else nullcontext(self.session)
        with here as opened, _asking(self.place):
            for batch in opened.batches(statement):
                arrays = [c.values(cells) for c, cells in zip(chosen, batch.columns, strict=False)]
                if arrays:
                    yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

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


@contextmanager
def tables_in_schema(
    place: DatabaseAddress,
) -> Iterator[list[tuple[str, DatabaseTable]]]:
    """Give the tables of a schema of PostgreSQL that have a comment, with it: all of one snapshot.

    Raises SourceError.
    """
    with session(place) as opened, _asking(place):
        commented = [
            (str(comment), f"{place.table}.{name}")
            for batch in opened.batches(_COMMENTS)
            for schema, name, comment in zip(*(c.to_pylist() for c in batch.columns), strict=True)
            if schema == place.table
        ]
        yield [
            (comment, _within(opened, replace(place, table=table))) for comment, table in commented
        ]


def in_comment(comment: str | None) -> bytes | None:
    """Return the metadata in the comment of a table, if it has some."""
    try:
        return json.dumps(json.loads(comment or "")[METADATA_KEY.decode()]).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


_COMMENTS = (
    "SELECT nspname::text, relname::text, obj_description(pg_class.oid, 'pg_class')::text "
    "FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relkind = 'r' "
    "AND obj_description(pg_class.oid, 'pg_class') IS NOT NULL ORDER BY relname"
)


def _within(opened: Session, place: DatabaseAddress) -> DatabaseTable:
    """Return a table as a part of a snapshot."""
    rows = table_name(str(place.table))
    columns = opened.columns(rows, place.table)
    return DatabaseTable(place, rows, columns, (), ReadingSettings(table=place.table), opened)


@contextmanager
def session(place: DatabaseAddress) -> Iterator[Session]:
    """Connect, and stay in one snapshot. Raises SourceError."""
    with ExitStack() as stack:
        with _asking(place):
            opened = stack.enter_context(READERS[place.kind](place))
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
        meaning = meaning_of(error)
        kind = SourceLost if re.search(_LOST, meaning) else SourceError
        raise kind(f"{place} cannot be read: {meaning}") from None
