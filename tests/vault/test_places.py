"""Where a ledger lies: who may read it, and what goes wrong with either database."""

import os
import sqlite3
import stat
import sys
import traceback
from types import SimpleNamespace

import psycopg
import pytest

from cornerwave.columns import Finish
from cornerwave.errors import ExtraMissing, LedgerDamaged, VaultError, VaultExists
from cornerwave.ledger import Key, Ledger
from cornerwave.ledger._chains import Chains
from cornerwave.ledger._postgresql import PostgreSQL
from cornerwave.ledger._sqlite import SQLite
from tests.copies import at
from tests.vault.outside import connect, content, edit, entry, used

PEOPLE = "a1" * 16


def refused(work, error, match):
    """See an error that shows neither a password nor SQL nor a value."""
    with pytest.raises(error, match=match) as refusal:
        work()
    message = "".join(traceback.format_exception_only(refusal.value))
    assert not any(secret in message for secret in ("s3cret", "SELECT", "INSERT", "Zanzibar"))
    # Nor does the database's own error show in a traceback.
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None
    return message


def hold(ledger):
    return lambda: ledger.hold(PEOPLE, [("Zanzibar", at(1))])


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


class TestFile:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
    def test_only_its_owner_can_read_it_and_its_journal(self, tmp_path, umask):
        before = os.umask(umask)
        try:
            key = used(tmp_path / "ledger.db")
            database = Ledger.open(tmp_path / "ledger.db", key)._database
            with database.writing() as connection:
                connection.run("UPDATE cornerwave_vault SET made_at = 'x'")
                modes = {
                    file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()
                }
        finally:
            os.umask(before)
        assert modes == {"ledger.db": 0o600, "ledger.db-journal": 0o600}

    @pytest.mark.parametrize("name", ["we?ird #%41é&mode=ro.db", "file:x", ":memory:"])
    def test_any_name_will_do(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        used(tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_no_file_is_replaced(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("mine")
        path.chmod(0o644)
        refused(lambda: Ledger.create(path, Key.generate()), VaultExists, "never replaced")
        assert path.read_text() == "mine"
        assert mode_of(path) == 0o644

    def test_what_a_crash_left_empty_can_be_used(self, tmp_path):
        path = tmp_path / "ledger.db"
        path.touch(0o644)
        used(path)
        assert mode_of(path) == 0o600

    def test_no_file_appears_where_a_ledger_is_missing(self, tmp_path):
        path = tmp_path / "ledger.db"
        refused(lambda: Ledger.open(path, Key.generate()), LedgerDamaged, "missing")
        assert not path.exists()

    @pytest.mark.parametrize("place", ["none/ledger.db", "."])
    def test_a_place_that_can_hold_no_file_is_refused(self, tmp_path, place):
        refused(lambda: Ledger.create(tmp_path / place, Key.generate()), VaultError, "can be made")

    @pytest.mark.parametrize(
        ("pragma", "says"),
        [("max_page_count = 1", "disk is full"), ("query_only = ON", "check its permissions")],
    )
    def test_what_cannot_be_written_is_said(self, tmp_path, monkeypatch, pragma, says):
        ledger = Ledger.open(tmp_path / "ledger.db", used(tmp_path / "ledger.db"))
        before = content(tmp_path / "ledger.db")

        connect = ledger._database.connect

        def limited():
            connection = connect()
            connection.run(f"PRAGMA {pragma}")
            return connection

        monkeypatch.setattr(ledger._database, "connect", limited)
        made = at(1, finish=Finish(names={"a": "x" * 100_000}))
        refused(lambda: ledger.hold(PEOPLE, [("Zanzibar", made)]), VaultError, says)
        assert content(tmp_path / "ledger.db") == before

    def test_a_directory_in_its_place_is_said(self, tmp_path):
        refused(lambda: Ledger.open(tmp_path, Key.generate()), VaultError, "cannot be opened")

    def test_an_io_error_is_said(self, tmp_path):
        error = SimpleNamespace(sqlite_errorcode=sqlite3.SQLITE_IOERR_READ)
        assert "I/O error" in str(SQLite(tmp_path / "ledger.db").translated(error))


class TestServer:
    @pytest.fixture
    def server(self, postgresql_server):
        return postgresql_server

    def test_what_cannot_be_reached_is_said_without_the_password(self, server):
        server.run("DROP ROLE IF EXISTS locked", "CREATE ROLE locked LOGIN PASSWORD 'other'")
        for address in (
            "postgresql://owner:s3cret@127.0.0.1:1/db",
            "postgresql://owner@/db?host=/nowhere&password=s3cret",
            server.place("nonesuch", user="postgres:s3cret"),
            server.place(user="locked:s3cret"),
        ):
            for work in (Ledger.open, Ledger.create):
                message = refused(
                    lambda work=work, address=address: work(address, Key.generate()),
                    VaultError,
                    "no connection to the ledger postgresql://.*user and password",
                )
                assert "host=" not in message

    @pytest.mark.parametrize(
        "address",
        [
            "mysql://owner:s3cret@host/db",
            "postgres://owner:s3cret@host/db",
            "postgresql+asyncpg://owner:s3cret@host/db",
            "postgresql://owner:s3cret@host:port/db",
            "postgresql://owner:s3cret@host",
            "sqlite://",
        ],
    )
    def test_what_is_no_address_of_one_is_refused(self, address):
        refused(lambda: Ledger.open(address, Key.generate()), VaultError, "postgresql://USER")

    def test_a_ledger_shows_its_place_without_the_password(self):
        database = PostgreSQL("postgresql://owner:s3cret@host:99/db?password=s3cret")
        assert repr(Ledger(database, Key.generate())) == "Ledger('postgresql://owner@host:99/db')"

    def test_a_database_that_is_read_only(self, server):
        place = server.fresh()
        key = used(place)
        read_only = place + "%20-cdefault_transaction_read_only%3Don"
        ledger = Ledger.open(read_only, key)
        assert len(ledger.holdings(PEOPLE)) == 3
        refused(hold(ledger), VaultError, "read-only")

    def test_a_user_without_permission(self, server):
        place = server.fresh()
        key = used(place)
        server.run("DROP ROLE IF EXISTS stranger", "CREATE ROLE stranger LOGIN")
        schema = place.rpartition("%3D")[2]
        server.run(f"GRANT USAGE ON SCHEMA {schema} TO stranger")
        theirs = place.replace("//postgres@", "//stranger@")
        refused(lambda: Ledger.open(theirs, key), VaultError, "no permission")
        server.run("DROP OWNED BY stranger", "DROP ROLE stranger")

    @pytest.mark.parametrize(
        ("state", "says"),
        [
            ("53100", "disk is full"),
            ("53300", "short of connections"),
            ("40P01", "busy"),
            ("57P01", "stopping"),
            ("08006", "connection was lost"),
            ("58030", "I/O error"),
            ("XX001", "backup"),
        ],
    )
    def test_errors_have_our_words(self, state, says):
        error = psycopg.errors.lookup("53100")()
        error.sqlstate = state
        assert says in str(PostgreSQL("postgresql://host/db").translated(error))

    def test_a_text_that_it_cannot_hold(self, server):
        place = server.fresh()
        ledger = Ledger.open(place, used(place))
        work = lambda: ledger.hold(PEOPLE, [("Zanzibar\0", at(1))])  # noqa: E731
        refused(work, VaultError, "cannot hold this text")

    def test_a_session_that_was_ended(self, server, monkeypatch):
        place = server.fresh()
        ledger = Ledger.open(place, used(place))
        chain = Chains.chain

        def ended(chains, *args, **kwargs):
            [(process,)] = chains.connection.run("SELECT pg_backend_pid()")
            server.run(f"SELECT pg_terminate_backend({process})")
            return chain(chains, *args, **kwargs)

        monkeypatch.setattr(Chains, "chain", ended)
        refused(hold(ledger), VaultError, "try again|no connection")

    def test_no_connection_stays_open(self, server):
        server.run("CREATE DATABASE closed")
        used(server.place("closed"))
        server.run("DROP DATABASE closed")  # the server refuses while anyone is connected

    def test_connections_that_stay_open_are_closed_on_request(self, server):
        server.run("CREATE DATABASE kept")
        ledger = Ledger.open(server.place("kept"), used(server.place("kept")))
        assert ledger.states([PEOPLE])
        with pytest.raises(psycopg.errors.ObjectInUse):  # the control
            server.run("DROP DATABASE kept")
        ledger.disconnect()
        assert ledger.states([PEOPLE])  # opens one again
        ledger.disconnect()
        server.run("DROP DATABASE kept WITH (FORCE)")

    def test_a_connection_that_the_server_has_ended_is_replaced(self, server):
        place = server.fresh()
        ledger = Ledger.open(place, used(place))
        before = ledger.states([PEOPLE])
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        server.run(f"{ended} AND backend_type = 'client backend'")
        assert ledger.states([PEOPLE]) == before

    def test_a_commit_between_two_reads_is_not_seen(self, server, monkeypatch):
        """Negative control: if each statement has its own snapshot, it looks like damage."""
        place = server.fresh()
        key = used(place)
        reader, writer = Ledger.open(place, key), Ledger.open(place, key)
        read, levels = Chains.lines, iter(range(1, 9))

        def interrupted(chains, chain, **kwargs):
            if not kwargs:  # not while the writer itself looks at the last line
                writer.hold(PEOPLE, [("zoe", at(next(levels)))])
            return read(chains, chain, **kwargs)

        monkeypatch.setattr(Chains, "lines", interrupted)
        assert len(reader.holdings(PEOPLE)) == 3
        assert len(reader.holdings(PEOPLE)) == 4
        begin = PostgreSQL.begin
        monkeypatch.setattr(
            reader._database, "begin", lambda c, write: begin(reader._database, c, write=True)
        )
        with pytest.raises(LedgerDamaged):
            reader.holdings(PEOPLE)

    def test_it_needs_its_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        refused(
            lambda: Ledger.open("postgresql://host/db", Key.generate()),
            ExtraMissing,
            r"pip install 'cornerwave\[postgresql\]'",
        )


def test_a_ledger_is_never_replaced(ledger_place):
    used(ledger_place)
    before = content(ledger_place)
    refused(lambda: Ledger.create(ledger_place, Key.generate()), VaultExists, "never replaced")
    assert content(ledger_place) == before


def test_a_busy_ledger_says_so(ledger_place, monkeypatch):
    monkeypatch.setattr("cornerwave.ledger._database.WAIT_SECONDS", 0.05)
    ledger = Ledger.open(ledger_place, used(ledger_place))
    other = connect(ledger_place)
    try:
        other.execute("BEGIN")
        other.execute("UPDATE cornerwave_chain SET name = name")
        refused(hold(ledger), VaultError, "busy; try again")
        refused(lambda: ledger.register(entry()), VaultError, "busy; try again")
        other.execute("ROLLBACK")
    finally:
        other.close()
    hold(ledger)()


def test_a_writer_that_gives_up_leaves_nothing(ledger_place):
    ledger = Ledger.open(ledger_place, used(ledger_place))
    before = content(ledger_place)

    def give_up():
        with ledger._database.writing() as connection:
            connection.run("DELETE FROM cornerwave_line")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        give_up()
    assert content(ledger_place) == before
    edit(ledger_place, "UPDATE cornerwave_vault SET made_at = 'not locked'")
