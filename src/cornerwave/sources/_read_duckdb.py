"""Rows of DuckDB through its own Arrow interface."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from cornerwave.errors import SourceError
from cornerwave.sources._databases import (
    ROWS_AT_A_TIME,
    SCHEMA_ROWS,
    Selected,
    Session,
    missing,
    quoted,
)
from cornerwave.sources._places import DatabaseAddress


@contextmanager
def reading(place: DatabaseAddress) -> Iterator[Session]:
    """Read a file in one snapshot, and nothing else."""
    try:
        import duckdb
    except ImportError:
        raise missing(f"reading {place.name}", "duckdb") from None
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
        statement = f"SELECT * FROM {rows} {SCHEMA_ROWS}"  # noqa: S608
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
