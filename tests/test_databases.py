"""Tables of databases: one snapshot, a stable order, nothing written; copies in one transaction."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import product

import duckdb
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.choices import ReadingSettings
from cornerwave.errors import (
    ColumnError,
    CornerwaveError,
    ExtraMissing,
    OutputError,
    OutputExists,
    SourceChanged,
    SourceError,
    SourceLost,
)
from cornerwave.outputs import _table_copies
from cornerwave.sources import _database_sessions, open_source
from tests.conftest import ledger_lines, make_people
from tests.postgresql import run

PEOPLE = make_people(400)
COLUMNS = ["id", "age", "wage", "height"]
KINDS = ["postgresql", "duckdb", "sqlite"]
OTHERS = [pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[1:]]
mostly_postgresql = pytest.mark.parametrize("place", ["postgresql", *OTHERS], indirect=True)


class Place:
    """A database for one test."""

    def __init__(self, kind, where):
        self.kind, self.where = kind, where

    def run(self, *statements):
        if self.kind == "postgresql":
            return run(self.where, *statements)
        connect = duckdb.connect if self.kind == "duckdb" else sqlite3.connect
        with closing(connect(self.where)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        return None

    def fill(self, table="people", people=PEOPLE, key="PRIMARY KEY"):
        rows = ", ".join(
            f"('{r['id']}', {r['age']}, {r['wage']}, {r['height'] or 'NULL'})"
            for r in people.to_pylist()
        )
        columns = (
            f"id varchar(20) {key}, age bigint, wage double precision, height double precision"
        )
        self.run(f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES {rows}")
        return f"{self.where}#{table}"


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    if request.param == "postgresql":
        return Place("postgresql", request.getfixturevalue("postgresql_server").fresh())
    return Place(request.param, str(tmp_path / f"data.{request.param}"))


@pytest.fixture
def server(postgresql_server):
    return Place("postgresql", postgresql_server.fresh())


def rows(source, columns=None):
    return pa.concat_tables(source.groups(columns or source.schema.names, 150)).to_pydict()


def by_key(table):
    return table.take(pa.compute.sort_indices(table["id"])).to_pydict()


def read(place, **reading):
    return open_source(place.where, reading=ReadingSettings.of(**reading))


def test_a_table_is_read_in_the_order_of_its_primary_key(place):
    assert rows(open_source(place.fill())) == by_key(PEOPLE)


def test_a_query_is_read(place):
    place.fill()
    query = "SELECT id, age + 1 AS older FROM people WHERE age < 60; -- the young"
    found = rows(read(place, query=query.split(";")[0] + " -- the young", order_by=["id"]))
    young = PEOPLE.filter(pa.compute.less(PEOPLE["age"], 60))
    assert found["id"] == sorted(young["id"].to_pylist())
    assert list(found) == ["id", "older"]


@mostly_postgresql
def test_the_same_rows_are_the_same_dataset_and_the_same_copy(place, vault, tmp_path):
    papq.write_table(pa.table(by_key(PEOPLE)), tmp_path / "people.parquet")
    first = vault.register(
        "people", tmp_path / "people.parquet", key="id", drop=["id"], few_rows=True
    )
    again = vault.register("people", place.fill(), key="id", drop=["id"], few_rows=True)
    assert first.id == again.id
    copy = again.release(to="a", privacy=0.5).to_arrow()
    assert copy == first.release(to="a", privacy=0.5).to_arrow()


@mostly_postgresql
def test_a_release_reads_the_table_again_and_refuses_a_changed_one(place, vault, tmp_path):
    dataset = vault.register("people", place.fill(), drop=["id"], few_rows=True)
    assert dataset._entry.source.endswith("#people")
    first = vault.dataset("people").release(to="a", privacy=0.5).write(tmp_path / "1.parquet")
    again = vault.dataset("people").release(to="a", privacy=0.5).write(tmp_path / "2.parquet")
    assert first.read_bytes() == again.read_bytes()
    place.run("UPDATE people SET wage = wage + 1 WHERE id = 'p7'")
    before = ledger_lines(vault.path / "ledger.db")
    with pytest.raises(SourceChanged):
        vault.dataset("people").release(to="b", privacy=0.5).write(tmp_path / "3.parquet")
    assert not (tmp_path / "3.parquet").exists()
    assert ledger_lines(vault.path / "ledger.db") == before


@mostly_postgresql
def test_rows_without_an_order_are_refused(place, vault):
    place.fill(key="")
    with pytest.raises(SourceError, match="no order of their own") as refused:
        vault.register("people", f"{place.where}#people", drop=["id"], few_rows=True)
    assert refused.value.use == ("key", "order_by")
    with pytest.raises(SourceError, match="share a value of 'age'"):
        vault.register(
            "people",
            f"{place.where}#people",
            drop=["id"],
            reading={"order_by": ["age"]},
            few_rows=True,
        )
    with pytest.raises(ColumnError, match="'ages' to order"):
        read(place, table="people", order_by="ages")
    ordered = {"drop": ["id"], "keep_order": True, "reading": {"order_by": ["age", "id"]}}
    dataset = vault.register("people", f"{place.where}#people", **ordered, few_rows=True)
    assert dataset.frozen.reading.order_by == ("age", "id")
    assert (
        vault.register("people", f"{place.where}#people", **ordered, few_rows=True).id == dataset.id
    )
    dataset.release(to="a", privacy=0.5).to_arrow()


def test_registration_sees_one_moment(server, vault, monkeypatch):
    """The table changes after the first pass of two; the second pass sees what the first saw."""
    address = server.fill()
    batches, passes = _database_sessions._PostgreSQLSession.batches, []

    def watched(self, statement):
        yield from batches(self, statement)
        passes.append(statement)
        if len(passes) == 1:
            server.run("UPDATE people SET wage = wage * 2 WHERE age < 50")

    monkeypatch.setattr(_database_sessions._PostgreSQLSession, "batches", watched)
    dataset = vault.register(
        "people", address, drop=["id"], transform={"wage": "rank"}, few_rows=True
    )
    assert len(passes) == 2
    with pytest.raises(SourceChanged):
        vault.dataset("people").release(to="a", privacy=0.5).to_arrow()
    server.run("UPDATE people SET wage = wage / 2 WHERE age < 50")
    assert dataset.release(to="a", privacy=0.5).to_arrow().num_rows == len(PEOPLE)


def test_a_name_is_a_name_and_no_statement(place):
    place.fill()
    for name in (
        *('people"; DROP TABLE people; --', "people; DROP TABLE people", "people WHERE false --"),
        *("nothing", "a.b.c", ".", "people) x; DELETE FROM people; --"),
    ):
        with pytest.raises(SourceError):
            read(place, table=name)
    assert rows(read(place, table="people")) == by_key(PEOPLE)


def test_strange_names_are_read(place):
    place.run('CREATE TABLE "or""der; --" ("a ""b""; --" bigint PRIMARY KEY, "ä,é" bigint)',
              'INSERT INTO "or""der; --" VALUES (1, 2), (2, 3)')  # fmt: skip
    assert rows(read(place, table='or"der; --')) == {'a "b"; --': [1, 2], "ä,é": [2, 3]}


def test_a_query_that_writes_or_is_none_is_refused(place):
    place.fill()
    for query in (
        *("DELETE FROM people", "DELETE FROM people RETURNING *", "SELECT 1; DELETE FROM people"),
        "SELECT 1) x; DELETE FROM people; SELECT * FROM (SELECT 1",
        "WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone",
        *("SELECT * FROM nothing", "SELECT nothing FROM people", "", ";", "--"),
    ):
        with pytest.raises(SourceError):
            rows(read(place, query=query))
    assert rows(read(place, table="people")) == by_key(PEOPLE)


def test_a_function_that_writes_is_refused(server):
    server.fill()
    server.run(
        "CREATE FUNCTION sly() RETURNS bigint LANGUAGE sql AS "
        "'DELETE FROM people; SELECT 1::bigint'"
    )
    with pytest.raises(SourceError, match="the query writes"):
        rows(read(server, query="SELECT sly() AS one"))
    with pytest.raises(SourceError):
        rows(read(server, query="SELECT set_config('transaction_read_only', 'off', false)"))
    assert len(rows(read(server, table="people"))["id"]) == len(PEOPLE)


def test_a_query_reads_its_database_alone(tmp_path):
    place = Place("duckdb", str(tmp_path / "data.duckdb"))
    place.fill()
    (tmp_path / "other.csv").write_text("a\n1\n")
    with pytest.raises(SourceError, match="more than this database"):
        read(place, query=f"SELECT * FROM read_csv('{tmp_path}/other.csv')")


def test_a_server_that_dies_halfway_is_told(server, monkeypatch):
    server.fill()
    source = read(server, query="SELECT i, repeat('x', 900) AS x FROM generate_series(1, 200000) i",
                  order_by="i")  # fmt: skip
    batches = source.batches(["i", "x"])
    next(batches)
    run(server.where, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")  # fmt: skip
    with pytest.raises(SourceLost, match="cannot be read"):
        list(batches)


def test_no_password_reaches_a_message_or_the_ledger(server, vault, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "xyzzy-plugh")
    locked = server.where.replace("postgres@", "locked@", 1)
    with pytest.raises(SourceError, match="PGPASSWORD") as refused:
        open_source(f"{locked}#people")
    assert "xyzzy" not in str(refused.value)
    dataset = vault.register("people", server.fill(), drop=["id"], few_rows=True)
    assert "xyzzy" not in "".join(ledger_lines(vault.path / "ledger.db")) + repr(dataset._entry)


def test_what_is_not_there_is_told(place, tmp_path):
    place.fill()
    with pytest.raises(SourceError, match="name a table"):
        open_source(place.where)
    with pytest.raises(SourceError, match="name a table"):
        read(place, table="people", query="SELECT 1")
    with pytest.raises(SourceError, match="no such table"):
        read(place, table="nothing")
    with pytest.raises(SourceError, match="does not apply"):
        read(place, table="people", decimal=",")
    with pytest.raises(SourceError, match="there is no file"):
        open_source(tmp_path / "nothing.sqlite")
    (tmp_path / "broken.sqlite").write_bytes(b"not a database at all, but long enough" * 100)
    with pytest.raises(SourceError, match="damaged"):
        open_source(f"{tmp_path}/broken.sqlite#people")


@pytest.mark.parametrize("place", KINDS[:2], indirect=True)
def test_infinite_dates_are_refused(place):
    kinds = product(("date", "timestamp", "timestamptz"), ("infinity", "-infinity"))
    for number, (kind, value) in enumerate(kinds):
        place.run(f"CREATE TABLE t{number} (i int PRIMARY KEY, d {kind})",
                  f"INSERT INTO t{number} VALUES (1, '2020-01-01'), (2, '{value}')")  # fmt: skip
        with pytest.raises(ColumnError, match="infinite"):
            rows(read(place, table=f"t{number}"))


@pytest.mark.parametrize(
    ("package", "address"),
    [("adbc_driver_postgresql", "postgresql://localhost/db#t"), ("duckdb", "data.duckdb#people")],
)
def test_a_missing_package_is_named(package, address, tmp_path, monkeypatch):
    Place("duckdb", str(tmp_path / "data.duckdb")).fill()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ExtraMissing, match=r"cornerwave\[databases\]"):
        open_source(address)


def test_cells_of_sqlite_decide_about_types(tmp_path):
    place = Place("sqlite", str(tmp_path / "cells.db"))
    place.run(
        "CREATE TABLE t (i INTEGER PRIMARY KEY, mixed, day DATE, late DATE, yes BOOLEAN, b BOOL)",
        "INSERT INTO t VALUES (1, 1, '2020-02-29', '2020-02-29', 1, 1)",
        "INSERT INTO t VALUES (2, 'x', '2020-03-01', 'soon', 0, 7)",
    )
    source = read(place, table="t")
    kinds = [pa.int64(), pa.string(), pa.date32(), pa.string(), pa.bool_(), pa.int64()]
    assert source.schema.types == kinds
    assert list(source.notes) == ["mixed"]


# --- copies -----------------------------------------------------------------------------


@pytest.fixture
def dataset(vault, tmp_path):
    papq.write_table(PEOPLE, tmp_path / "people.parquet")
    return vault.register("people", tmp_path / "people.parquet", key="id", few_rows=True)


def tables(server):
    source = read(server, query="SELECT c.relname::text AS name FROM pg_class c "
                  "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'",
                  order_by="name")  # fmt: skip
    found = list(source.batches(["name"]))
    return [name for batch in found for name in batch["name"].to_pylist()]


def test_a_copy_becomes_a_table(dataset, server):
    release = dataset.release(to="partner", privacy=0.5)
    place = release.write(f"{server.where}#partner")
    assert str(place).endswith("#partner")
    copy = release.to_arrow()
    found = rows(read(server, table="partner", order_by="id"))
    assert found == copy.take(pa.compute.sort_indices(copy["id"])).to_pydict()
    assert tables(server) == ["partner"]
    assert {held.spec.format for held in dataset.holdings} == {"frame", "postgresql"}
    comment = rows(read(server, query="SELECT obj_description('partner'::regclass) AS said"))
    assert '"cornerwave"' in comment["said"][0]
    with pytest.raises(OutputExists):
        release.write(f"{server.where}#partner")
    dataset.release(to="partner", privacy=0.6).write(f"{server.where}#partner", force=True)
    assert rows(read(server, table="partner", order_by="id")) != found
    assert tables(server) == ["partner"]


@pytest.mark.parametrize("name", ['x"; DROP TABLE keep; --', "x); DROP TABLE keep; --", "Ü 1"])
def test_the_name_of_a_copy_is_a_name(dataset, server, name):
    server.fill("keep")
    dataset.release(to="a", privacy=0.5).write(f"{server.where}#{name}")
    assert tables(server) == sorted([name, "keep"])


def test_the_ledger_speaks_before_the_commit(dataset, server, monkeypatch):
    seen, publish = [], _table_copies.TableCopy.publish

    def watched(self):
        seen.append(([held.recipient for held in dataset.holdings], tables(server)))
        publish(self)

    monkeypatch.setattr(_table_copies.TableCopy, "publish", watched)
    dataset.release(to="a", privacy=0.5).write(f"{server.where}#copy")
    assert seen == [(["a"], [])]
    assert tables(server) == ["copy"]


def test_a_refused_copy_leaves_no_table_and_the_old_one_as_it_was(dataset, server, tmp_path, vault):
    dataset.release(to="a", privacy=0.5).write(f"{server.where}#copy")
    before = rows(read(server, table="copy", order_by="id")), ledger_lines(vault.path / "ledger.db")
    papq.write_table(PEOPLE.slice(1), tmp_path / "people.parquet")
    with pytest.raises(SourceChanged):
        vault.dataset("people").release(to="b", privacy=0.6).write(
            f"{server.where}#copy", force=True
        )
    after = rows(read(server, table="copy", order_by="id")), ledger_lines(vault.path / "ledger.db")
    assert before == after
    assert tables(server) == ["copy"]


def test_a_server_that_dies_before_the_commit_keeps_nothing(dataset, server, monkeypatch):
    publish = _table_copies.TableCopy.publish

    def cut(self):
        run(server.where, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")  # fmt: skip
        publish(self)

    monkeypatch.setattr(_table_copies.TableCopy, "publish", cut)
    with pytest.raises(OutputError, match="cannot be written"):
        dataset.release(to="a", privacy=0.5).write(f"{server.where}#copy")
    monkeypatch.undo()
    assert tables(server) == []
    dataset.release(to="a", privacy=0.5).write(f"{server.where}#copy")
    assert tables(server) == ["copy"]


def test_copies_that_cannot_be_are_refused(dataset, server, tmp_path):
    release = dataset.release(to="a", privacy=0.5)
    for out in (server.where, f"{server.where}#no.such.table", f"{server.where}#nowhere.table",
                f"{tmp_path}/copy.sqlite#people", f"{tmp_path}/copy.duckdb"):  # fmt: skip
        with pytest.raises(CornerwaveError):
            release.write(out)
    assert dataset.holdings == []
    assert not list(tmp_path.glob("copy.*"))


def test_force_drops_no_table_that_is_not_a_copy(dataset, server):
    server.fill("precious")
    with pytest.raises(OutputExists, match="never dropped"):
        dataset.release(to="a", privacy=0.5).write(f"{server.where}#precious", force=True)
    assert tables(server) == ["precious"]
    assert rows(read(server, table="precious")) == by_key(PEOPLE)


def test_names_that_postgresql_would_cut_are_refused(vault, server, tmp_path):
    name = "ä" * 32
    table = PEOPLE.rename_columns(["id", "age", "wage", name])
    dataset = vault.register("people", table, drop=["id"], few_rows=True)
    with pytest.raises(OutputError, match="63 bytes"):
        dataset.release(to="a", privacy=0.5).write(f"{server.where}#copy")
    assert tables(server) == []


def test_a_copy_is_not_written_into_the_registered_table(vault, server):
    dataset = vault.register("people", server.fill(), key="id", few_rows=True)
    with pytest.raises(OutputError, match="registered table itself"):
        dataset.release(to="a", privacy=0.5).write(f"{server.where}#people", force=True)


CHILD = """
import sys, time
from cornerwave.vault import Vault
from cornerwave.outputs import _table_copies
def slow(self):
    print("held", flush=True)
    time.sleep(60)
_table_copies.TableCopy.publish = slow
Vault.open(sys.argv[1]).dataset("people").release(to="a", privacy=0.5).write(sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_process_leaves_no_table(dataset, server, vault, counted):
    command = [sys.executable, "-c", CHILD, str(vault.path), f"{server.where}#copy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "held\n"
        os.kill(child.pid, signal.SIGKILL)
    assert tables(server) == []
    assert [held.recipient for held in vault.dataset("people").holdings] == ["a"]
    dataset.release(to="a", privacy=0.5).write(f"{server.where}#copy")
    assert tables(server) == ["copy"]
    counted("kills")


# --- the command line -------------------------------------------------------------------


def run_command(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "cornerwave", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_command_line_registers_and_releases_in_databases(server, tmp_path):
    server.fill(key="")
    assert run_command(tmp_path, "init").returncode == 0
    said = ["--table", "people", "--key", "id"]
    done = run_command(tmp_path, "inspect", server.where, *said[:2], "--out", "schema.toml")
    assert done.returncode == 0, done.stderr
    assert 'table = "people"' in (tmp_path / "schema.toml").read_text()
    refused = run_command(tmp_path, "register", "people", server.where, "--table", "people",
                          "--drop", "id", "--few-rows")  # fmt: skip
    assert refused.returncode == 2
    assert "(--key, --order-by)" in refused.stderr
    done = run_command(tmp_path, "register", "people", server.where, *said, "--few-rows")
    assert done.returncode == 0, done.stderr
    (tmp_path / "levels.toml").write_text(
        f'[[copy]]\nto = "b"\nprivacy = 0.6\nout = "{server.where}#second"\n'
        '[[copy]]\nto = "c"\nprivacy = 0.7\nout = "third.csv"\n'
    )
    for arguments in (
        ("--to", "a", "--privacy", "0.5", "--out", f"{server.where}#first"),
        ("--levels", "levels.toml"),
    ):
        done = run_command(tmp_path, "release", "people", *arguments)
        assert done.returncode == 0, done.stderr
    assert tables(server) == ["first", "people", "second"]
    assert (tmp_path / "third.csv").is_file()
    again = run_command(tmp_path, "again", "people", "a")
    assert again.returncode == 2
    assert "--out" in again.stderr
    assert run_command(tmp_path, "again", "people", "a", "--out", "a.csv").returncode == 2
    done = run_command(tmp_path, "again", "people", "a", "--out", f"{server.where}#again")
    assert done.returncode == 0, done.stderr
    first = rows(read(server, table="first", order_by="id"))
    assert rows(read(server, table="again", order_by="id")) == first
    refused = run_command(tmp_path, "release", "people", "--to", "d", "--privacy", "0.5",
                          "--dictionary", "--out", f"{server.where}#d")  # fmt: skip
    assert refused.returncode == 2
    assert "--dictionary" in refused.stderr
    refused = run_command(
        tmp_path, "register", "x", "postgresql://a:xyzzy@localhost/db#t", "--few-rows"
    )
    assert refused.returncode == 2
    assert "xyzzy" not in refused.stderr + refused.stdout
