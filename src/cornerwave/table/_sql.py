"""What tables of all databases have in common: names, columns, and errors in our words."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from cornerwave.errors import ColumnError, ExtraMissing, SourceError
from cornerwave.table._places import WHERE_SECRETS_ARE
from cornerwave.table._types import ends_of

SCHEMA_ROWS = "LIMIT 0"
ROWS_AT_A_TIME = 1 << 14


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


def missing(what: str, package: str) -> ExtraMissing:
    """Return the error of a package that is not installed."""
    return ExtraMissing(
        f"{what} needs {package}, which is not installed: pip install 'cornerwave[databases]'"
    )
