"""Connections to a ledger: forks, files that are replaced, and what others write meanwhile."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cornerwave.errors import LedgerDamaged, VaultError
from cornerwave.ledger import Key, Ledger, Record, check_address
from cornerwave.ledger._chains import Chains
from cornerwave.ledger._database import Connection
from cornerwave.ledger._postgresql import PostgreSQL
from cornerwave.ledger._sqlite import SQLite
from tests.vault.outside import connect, entry, used

PEOPLE, OTHERS = "a1" * 16, "b2" * 16


def at_once(works):
    """Do all of it in threads, and return the errors."""
    errors = []

    def run(work):
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("work", ["registration", "edition"])
def test_a_line_that_another_dataset_gets_meanwhile_is_not_damage(ledger_place, monkeypatch, work):
    key = used(ledger_place)
    ledger, other = Ledger.open(ledger_place, key), Ledger.open(ledger_place, key)
    moving = threading.Thread(target=other.move, args=(OTHERS, "elsewhere"))
    read = Chains.datasets

    def interrupted(*args, **kwargs):
        found = read(*args, **kwargs)
        moving.start()
        moving.join(0.5)  # it waits for the writer, or is done
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Chains, "datasets", interrupted)
        new = entry("new", ["cc\tlength"])
        if work == "registration":
            ledger.register(new)
        else:
            marks = {"of_batch": new.marks, "marks": [new.marks]}
            line = {"edition": 2, "kind": "appended"}
            ledger.add_edition(PEOPLE, line, **marks, attachments={}, is_new=True)
    moving.join()
    assert ledger.dataset("others").source == "elsewhere"


def test_a_record_that_is_put_twice_at_once_is_put(ledger_place, monkeypatch):
    """Each removes what is there before it writes; neither may see the other half done."""
    ledger = Ledger.open(ledger_place, used(ledger_place))
    delete, records = Connection.delete, ledger.records

    def slow(*args):
        delete(*args)
        time.sleep(0.2)

    monkeypatch.setattr(Connection, "delete", slow)
    record = Record("recipient", "ann", "", "2030", {})
    assert at_once([lambda: records.put(record)] * 3) == []
    assert records.find("recipient") == [record]


def test_a_fork_shares_no_connection(ledger_place):
    ledger = Ledger.open(ledger_place, used(ledger_place))
    state = ledger.states([PEOPLE])
    [kept] = ledger._database._spare
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with ledger._database.reader() as connection:
                assert connection is not kept
            kept.close()
            assert ledger.states([PEOPLE]) == state
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with ledger._database.reader() as connection:
        assert connection is kept
        assert connection.run("SELECT 1") == [(1,)]


def test_a_file_replaced_while_it_is_opened_is_opened_again(tmp_path, monkeypatch):
    place, newer = tmp_path / "ledger.db", tmp_path / "newer.db"
    key = used(place)
    newer.write_bytes(place.read_bytes())
    Ledger.open(newer, key).close(PEOPLE)
    ledger, opened = Ledger.open(place, key), sqlite3.connect

    def replaced(*args, **kwargs):
        connection = opened(*args, **kwargs)
        if newer.exists():
            newer.replace(place)
        return connection

    monkeypatch.setattr(sqlite3, "connect", replaced)
    ledger.states([PEOPLE])
    assert ledger.states([PEOPLE])[PEOPLE].closed


AT_THE_END = """
import atexit, subprocess, sys
from pathlib import Path

WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"

def try_to_write():
    done = subprocess.run([sys.executable, "-c", WRITE, sys.argv[1]], capture_output=True)
    print(done.stderr.decode())

atexit.register(try_to_write)  # before all others, so that it is called last

from cornerwave.ledger import Key, Ledger

ledger = Ledger.open(Path(sys.argv[1]), Key.read(Path(sys.argv[2])))
writing = ledger._database.writing()  # as a thread does that nobody waits for
writing.__enter__()
"""


def test_the_end_of_a_process_drops_no_lock_of_its_writers(tmp_path):
    place, key = tmp_path / "ledger.db", Key.generate()
    key.write(tmp_path / "key")
    Ledger.create(place, key)
    command = [sys.executable, "-c", AT_THE_END, place, tmp_path / "key"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "locked" in done.stdout, done.stderr


def test_a_header_that_cannot_be_read_is_no_obstacle(tmp_path, monkeypatch):
    ledger = Ledger.open(tmp_path / "ledger.db", used(tmp_path / "ledger.db"))

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    ledger.move(PEOPLE, "elsewhere")
    before = ledger.states([PEOPLE])
    ledger.close(PEOPLE)
    assert ledger.states([PEOPLE]) != before


def test_a_schema_that_is_not_text_is_damage(tmp_path):
    place = tmp_path / "ledger.db"
    key = used(place)
    content = place.read_bytes()
    assert b"PRIMARY KEY" in content
    place.write_bytes(content.replace(b"PRIMARY KEY", b"PRIMARY \xffEY"))
    with pytest.raises(LedgerDamaged, match="empty or damaged"):
        Ledger.open(place, key)


def test_a_directory_that_cannot_be_read_is_said(tmp_path, monkeypatch):
    database = SQLite(tmp_path / "ledger.db")
    error = SimpleNamespace(sqlite_errorcode=sqlite3.SQLITE_CANTOPEN)
    assert "missing" in str(database.translated(error))

    def forbidden(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", forbidden)
    assert "check its permissions" in str(database.translated(error))


def test_those_who_wait_for_a_locked_file_wait_at_the_same_time(tmp_path, monkeypatch):
    place = tmp_path / "ledger.db"
    key = used(place)
    monkeypatch.setattr("cornerwave.ledger._database.WAIT_SECONDS", 1)
    ledger, other = Ledger.open(place, key), connect(place)
    other.execute("BEGIN EXCLUSIVE")
    start = time.monotonic()
    errors = at_once([lambda: ledger.states([PEOPLE])] * 5)
    assert time.monotonic() - start < 3  # one after the other it would be six
    assert ["busy; try again" in str(error) for error in errors] == [True] * 5
    other.close()
    assert ledger.states([PEOPLE])


def test_a_transaction_that_the_server_ends_is_not_damage(postgresql_server):
    place = postgresql_server.fresh()
    limit = "%20-cidle_in_transaction_session_timeout%3D100"
    ledger = Ledger.open(place + limit, used(place))

    def slow():
        with ledger._writing() as chains:
            time.sleep(0.5)
            chains.vault()

    with pytest.raises(VaultError, match="took too long; try again") as refusal:
        slow()
    assert not isinstance(refusal.value, LedgerDamaged)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://host:5432/db?password=s3c@ret/x", "postgresql://host:5432/db"),
        ("postgresql://me:s3c/ret@host/db", "postgresql://me@host/db"),
        ("postgresql://me:s3c?ret@host/db", "postgresql://me@host/db"),
    ],
)
def test_no_part_of_a_password_is_shown(address, shown):
    assert PostgreSQL(address).place == shown


def test_a_host_that_cannot_be_looked_up_is_named():
    with pytest.raises(VaultError, match=r"no connection to the ledger .*//me@a\.\.b/db"):
        Ledger.open("postgresql://me:s3cret@a..b/db", Key.generate())


def test_an_address_that_is_not_valid_unicode_is_refused():
    with pytest.raises(VaultError, match="not the address"):
        check_address("postgresql://me:s3cret\udcff@host/db")


def test_those_who_read_do_not_wait_for_ever(postgresql_server, monkeypatch):
    place = postgresql_server.fresh()
    key = used(place)
    monkeypatch.setattr("cornerwave.ledger._database.WAIT_SECONDS", 0.2)
    ledger, other = Ledger.open(place, key), connect(place)
    other.execute("BEGIN")
    other.execute("LOCK TABLE cornerwave_chain")
    end = threading.Timer(10, other.close)  # else a test that fails would not end
    end.start()
    for read in (ledger.datasets, lambda: ledger.states([PEOPLE])):
        with pytest.raises(VaultError, match="busy; try again"):
            read()
    end.cancel()
    other.close()
    assert ledger.states([PEOPLE])


@pytest.mark.parametrize(("stated", "used_by_writers"), [("off", "on"), ("remote_apply",) * 2])
def test_a_server_that_may_lose_commits_keeps_ours(postgresql_server, stated, used_by_writers):
    place = postgresql_server.fresh()
    key = used(place)
    database = Ledger.open(place + f"%20-csynchronous_commit%3D{stated}", key)._database
    with database.reading() as connection:  # the control
        assert connection.run("SHOW synchronous_commit") == [(stated,)]
    with database.writing() as connection:
        assert connection.run("SHOW synchronous_commit") == [(used_by_writers,)]
