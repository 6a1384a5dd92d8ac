"""Rows of SQLite through the standard library: a column's type is that of all its cells."""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from cornerwave.sources._databases import ROWS_AT_A_TIME, SCHEMA_ROWS, Selected, Session, quoted
from cornerwave.sources._places import DatabaseAddress


@contextmanager
def reading(place: DatabaseAddress) -> Iterator[Session]:
    """Read a file in one snapshot, and nothing else."""
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
