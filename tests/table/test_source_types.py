"""Which types survive the way in and out, for every kind of source: the tables of docs/sources.md.

`python -m tests.table.test_source_types` writes them anew.
"""

import datetime as dt
import json
import re
import sqlite3
import sys
import tempfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as paft
import pyarrow.parquet as papq

from cornerwave.choices import ReadingSettings
from cornerwave.columns import plain_type
from cornerwave.outputs import copy_at
from cornerwave.sources import open_source, place_of
from cornerwave.spec import CopyMetadata
from tests import postgresql

PAGE = Path(__file__).parents[2] / "docs" / "sources.md"
KEY, STRANGE = "row", 'a "b", ä'
DAY, CLOCK = dt.date(2024, 2, 29), dt.time(12, 30, 15, 250000)
MOMENT = dt.datetime(2024, 3, 31, 2, 30, 0, 123456)
ZONED = MOMENT.replace(tzinfo=ZoneInfo("Europe/Berlin"))
# what it is: its values, its type in Arrow, and in PostgreSQL, DuckDB and SQLite
COLUMNS = {
    "boolean": ([True, False], pa.bool_(), "boolean", "BOOLEAN", "BOOLEAN"),
    "8-bit integer": ([-7, 100], pa.int8(), None, "TINYINT", None),
    "16-bit integer": ([-7, 30000], pa.int16(), "smallint", "SMALLINT", None),
    "32-bit integer": ([-7, 2**30], pa.int32(), "integer", "INTEGER", None),
    "64-bit integer": ([-7, 2**52], pa.int64(), "bigint", "BIGINT", "INTEGER"),
    "32-bit float": ([0.5, -3.25], pa.float32(), "real", "FLOAT", None),
    "64-bit float": ([0.1, -3e99], pa.float64(), "double precision", "DOUBLE", "REAL"),
    "decimal(10, 2)": (
        [Decimal("1.50"), Decimal("-12345678.25")],
        *(pa.decimal128(10, 2), "numeric(10, 2)", "DECIMAL(10, 2)", None),
    ),
    "text": (["ä \U0001f600", 'x, "y"\n'], pa.string(), "text", "VARCHAR", "TEXT"),
    "encoded text": (
        ["x", "y"],
        *(pa.dictionary(pa.int32(), pa.string()), "type_enum", "ENUM ('x', 'y')", None),
    ),
    "date": ([DAY, dt.date(1890, 1, 1)], pa.date32(), "date", "DATE", "DATE"),
    "time of day": ([CLOCK, dt.time()], pa.time64("us"), "time", "TIME", "TIME"),
    "timestamp": ([MOMENT, MOMENT], pa.timestamp("us"), "timestamp", "TIMESTAMP", "TIMESTAMP"),
    "timestamp in a zone": (
        [ZONED, ZONED],
        *(pa.timestamp("us", "Europe/Berlin"), "timestamptz", "TIMESTAMPTZ", None),
    ),
    "duration": (
        [dt.timedelta(days=2, microseconds=5), -dt.timedelta(hours=30)],
        *(pa.duration("us"), "interval", "INTERVAL", None),
    ),
    f"the name `{STRANGE}`": ([1, 2], pa.int64(), "bigint", "BIGINT", "INTEGER"),
}
WAYS_IN = ("Parquet", "Arrow", "CSV", "JSON lines", "PostgreSQL", "DuckDB", "SQLite")
WAYS_OUT = ("Parquet", "Arrow", "CSV", "Excel", "Stata", "SPSS", "PostgreSQL")
ENDINGS = {"Excel": "xlsx", "Stata": "dta", "SPSS": "sav"}
STEPS = {"Excel": 1000, "SPSS": 2}
"""Microseconds between two moments that are read back, where it is not one."""


def table_of(chosen):
    """Three rows: two values and a missing one in each column."""
    columns = {
        name_of(what): pa.array([*COLUMNS[what][0], None], COLUMNS[what][1]) for what in chosen
    }
    return pa.table({KEY: pa.array([1, 2, 3]), **columns})


def name_of(what):
    return STRANGE if "name" in what else what.replace(" ", "_").partition("(")[0]


def written(way, folder, server):
    """Write a table in the way of other programs; return it, its place and what is in it."""
    databases = ("PostgreSQL", "DuckDB", "SQLite")
    if way in databases:
        kinds = {what: kinds[2 + databases.index(way)] for what, kinds in COLUMNS.items()}
        kinds = {what: kind for what, kind in kinds.items() if kind is not None}
        return table_of(kinds), _in_database(table_of(kinds), way, kinds, folder, server), kinds
    if way == "JSON lines":
        path = folder / "types.jsonl"
        rows = table_of(COLUMNS).to_pylist()
        path.write_text("".join(f"{json.dumps(row, default=_json)}\n" for row in rows))
        return table_of(COLUMNS), str(path), COLUMNS
    table, path = table_of(COLUMNS), folder / f"types.{way.lower()}"
    write = {"Parquet": papq.write_table, "Arrow": paft.write_feather, "CSV": pacsv.write_csv}
    write[way](table, path)
    return table, str(path), COLUMNS


def _in_database(table, way, kinds, folder, server):
    names = [name_of(what).replace('"', '""') for what in kinds]
    columns = [f'"{name}" {kind}' for name, kind in zip(names, kinds.values(), strict=True)]
    make = f'CREATE TABLE types ("{KEY}" bigint PRIMARY KEY, {", ".join(columns)})'
    rows = [tuple(row.values()) for row in table.to_pylist()]
    if way == "PostgreSQL":
        with psycopg.connect(server) as connection:
            connection.execute("CREATE TYPE type_enum AS ENUM ('x', 'y')")
            connection.execute(make)
            marks = ", ".join(["%s"] * len(rows[0]))
            connection.cursor().executemany(f"INSERT INTO types VALUES ({marks})", rows)
        return f"{server}#types"
    path = folder / f"types.{way.lower()}"
    with closing(duckdb.connect(path) if way == "DuckDB" else sqlite3.connect(path)) as connection:
        connection.execute(make)
        if way == "SQLite":
            rows = [tuple(map(_sqlite, row)) for row in rows]
        connection.executemany(f"INSERT INTO types VALUES ({', '.join('?' * len(rows[0]))})", rows)
        connection.commit()
    return f"{path}#types"


def _sqlite(value):
    """SQLite has no dates: they are text."""
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


def _json(value):
    """JSON has neither dates nor decimals: they are text and numbers."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1)
    return value.isoformat()


def copied(way, folder, server):
    """Write a copy; return it, its place and what is in it."""
    table = table_of(COLUMNS)
    place = str(folder / f"copy.{ENDINGS.get(way, way.lower())}")
    if way in ("Stata", "SPSS"):
        table = table.rename_columns(["v_" + re.sub(r"\W", "_", n) for n in table.column_names])
    if way == "PostgreSQL":
        place = f"{server}#copy"
    with copy_at(place_of(place), table.schema, CopyMetadata(), force=True) as copy:
        copy.write(table)
        copy.finish()
        copy.publish()
    return table, place, COLUMNS


def came_through(table, place, what, way):
    """The types that columns have here; an error unless names and values are the same."""
    is_table = "#copy" in place
    source = open_source(place, reading=ReadingSettings(order_by=(KEY,)) if is_table else None)
    assert source.schema.names == table.schema.names
    found = pa.concat_tables(source.groups(source.schema.names, 100))
    types = {}
    for name, each in zip(table.schema.names[1:], what, strict=True):
        type_, wanted, unit = source.schema.field(name).type, table[name], ""
        if pa.types.is_duration(wanted.type) and pa.types.is_integer(type_):
            wanted, unit = wanted.cast(pa.int64()), " (microseconds)"  # all that text can say
        if pa.types.is_timestamp(wanted.type) and (step := STEPS.get(way)):
            unit = f" ({step:,} µs)" if way == "SPSS" else " (milliseconds)"
        if pa.types.is_timestamp(wanted.type) and wanted.type.tz and not type_.tz:
            wanted = wanted.cast(pa.timestamp("us"))  # the moment in UTC
        off = [
            a != b if way not in STEPS or None in (a, b) or not isinstance(a, dt.datetime)
            else abs(a - b) >= dt.timedelta(microseconds=STEPS[way])
            for a, b in zip(found[name].to_pylist(), wanted.to_pylist(), strict=True)
        ]  # fmt: skip
        assert not any(off), (place, name)
        types[each] = "refused" if name.startswith("v_a_") else f"{plain_type(type_)}{unit}"
    return types


def made(folder, server, way_in):
    """One table: a line for each type, a column for each way."""
    ways = WAYS_IN if way_in else WAYS_OUT
    make = written if way_in else copied
    found = [came_through(*make(way, folder, server), way) for way in ways]
    lines = [f"| | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for what in COLUMNS:
        lines.append(f"| {what} | {' | '.join(types.get(what, '–') for types in found)} |")
    return "\n".join(lines) + "\n"


def page(folder, server):
    """docs/sources.md with tables of today."""
    text = PAGE.read_text(encoding="utf-8")
    for way_in, name in ((True, "in"), (False, "out")):
        block = rf"(<!-- types {name} -->\n).*?(<!-- end -->)"
        new = made(folder, server, way_in)
        text, count = re.subn(block, lambda m, n=new: m[1] + n + m[2], text, flags=re.DOTALL)
        assert count == 1
    return text


def test_the_tables_of_the_docs_are_what_comes_through(postgresql_server, tmp_path):
    assert page(tmp_path, postgresql_server.fresh()) == PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    with postgresql.server() as running, tempfile.TemporaryDirectory() as made_in:
        PAGE.write_text(page(Path(made_in), running.fresh()), encoding="utf-8")
    sys.exit()
