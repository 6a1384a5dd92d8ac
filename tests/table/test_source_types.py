"""Which types survive the way in and out, for every kind of source: the tables of docs/sources.md.

`python -m tests.table.test_source_types` writes them anew.
"""

import datetime as dt
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

from cornerwave.errors import OutputError
from cornerwave.table import copy_at, open_source, place_of, plain_type
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
WAYS_IN = ("Parquet", "Arrow", "CSV", "PostgreSQL", "DuckDB", "SQLite")
WAYS_OUT = {"Parquet": "parquet", "Arrow": "arrow", "CSV": "csv", "PostgreSQL": "postgresql"}


def table_of(what):
    """Three rows of one column: two values and a missing one."""
    values, type_, *_ = COLUMNS[what]
    name = STRANGE if "name" in what else "x"
    return pa.table({KEY: pa.array([1, 2, 3]), name: pa.array([*values, None], type_)})


def written(table, way, what, folder, server):
    """Write a table in the way of other programs; return its place, or None if that cannot be."""
    number = list(COLUMNS).index(what)
    kinds = dict(zip(("PostgreSQL", "DuckDB", "SQLite"), COLUMNS[what][2:], strict=True))
    if way in kinds:
        return _in_database(table, way, kinds[way], folder, server, number)
    path = folder / f"{number}.{way.lower()}"
    try:
        if way == "Parquet":
            papq.write_table(table, path)
        elif way == "Arrow":
            paft.write_feather(table, path)
        else:
            pacsv.write_csv(table, path)
    except pa.ArrowException:
        return None
    return str(path)


def _in_database(table, way, kind, folder, server, number):
    if kind is None:
        return None
    name = table.column_names[1].replace('"', '""')
    rows = [tuple(row.values()) for row in table.to_pylist()]
    make = f'CREATE TABLE t{number} ("{KEY}" bigint PRIMARY KEY, "{name}" {kind})'
    if way == "PostgreSQL":
        with psycopg.connect(server) as connection:
            connection.execute("DROP TYPE IF EXISTS type_enum CASCADE")
            connection.execute("CREATE TYPE type_enum AS ENUM ('x', 'y')")
            connection.execute(make)
            connection.cursor().executemany(f"INSERT INTO t{number} VALUES (%s, %s)", rows)
        return f"{server}#t{number}"
    path = folder / f"types.{way.lower()}"
    with closing(duckdb.connect(path) if way == "DuckDB" else sqlite3.connect(path)) as connection:
        connection.execute(make)
        if way == "SQLite":
            rows = [(key, _sqlite(value)) for key, value in rows]
        connection.executemany(f"INSERT INTO t{number} VALUES (?, ?)", rows)
        connection.commit()
    return f"{path}#t{number}"


def _sqlite(value):
    """SQLite has no dates: they are text."""
    return value.isoformat() if isinstance(value, dt.date | dt.time) else value


def came_through(table, place):
    """The type that a column has here; an error unless its name and its values are the same."""
    source = open_source(place)
    name = table.column_names[1]
    found = pa.concat_tables(source.groups([KEY, name], 100))
    type_, wanted, unit = source.schema.field(name).type, table[name], ""
    if pa.types.is_duration(wanted.type) and pa.types.is_integer(type_):
        wanted, unit = wanted.cast(pa.int64()), " (microseconds)"  # all that a text file can say
    assert found[name].to_pylist() == wanted.to_pylist(), (place, name)
    return f"{plain_type(type_)}{unit}"


def copied(table, way, what, folder, server):
    """Write a copy; return its place, or None where there is no such column."""
    ending, number = WAYS_OUT[way], list(COLUMNS).index(what)
    place = f"{server}#copy{number}" if way == "PostgreSQL" else str(folder / f"c{number}.{ending}")
    try:
        copy = copy_at(place_of(place), table.schema, {})
    except OutputError:
        return None
    try:
        copy.append(copy.encode(table))
        copy.finish()
        copy.publish()
    finally:
        copy.discard()
    return place


def made(folder, server, way_in):
    """One table: a line for each type, a column for each way."""
    ways = WAYS_IN if way_in else tuple(WAYS_OUT)
    lines = [f"| | {' | '.join(ways)} |", "|---" * (len(ways) + 1) + "|"]
    for what in COLUMNS:
        table, cells = table_of(what), []
        for way in ways:
            place = (written if way_in else copied)(table, way, what, folder, server)
            if place is not None and way == "PostgreSQL" and not way_in:
                psycopg.connect(server, autocommit=True).execute(
                    f'ALTER TABLE {place.split("#")[1]} ADD PRIMARY KEY ("{KEY}")'
                ).connection.close()
            cells.append("–" if place is None else came_through(table, place))
        lines.append(f"| {what} | {' | '.join(cells)} |")
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
