"""The ledger in an SQLite file that only its owner can read."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote
from weakref import WeakValueDictionary

import sqlalchemy as sa

from cornerwave.errors import VaultError, VaultExists
from cornerwave.ledger import _database
from cornerwave.ledger._database import TABLES, VAULT, Database

_MADE = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_MODES, _COUNT = slice(18, 20), slice(24, 28)
"""Where a file's header says how it is written and read, and its count of commits."""
_WITH_JOURNAL = b"\x01\x01"
_STATISTICS = frozenset(
    ("table", f"sqlite_stat{number}", f"sqlite_stat{number}", f"CREATE TABLE sqlite_stat{columns}")
    for number, columns in (
        (1, "1(tbl,idx,stat)"),
        (3, "3(tbl,idx,neq,nlt,ndlt,sample)"),
        (4, "4(tbl,idx,neq,nlt,ndlt,sample)"),
    )
)
"""What ANALYZE and PRAGMA optimize add: how to look for rows, not what they hold."""


class _Header:
    """The header of a database's file, read past SQLite.

    Closing any descriptor of a file drops all locks that the process has on it, those of
    SQLite's own connections too. So one descriptor is kept for all who use a file, as long as
    there is one of them.
    """

    _lock = threading.Lock()
    _known: ClassVar[MutableMapping[tuple[int, int] | None, "_Header"]] = WeakValueDictionary()

    def __init__(self, descriptor: int, file: tuple[int, int]) -> None:
        self._descriptor, self.file = descriptor, file
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def of(cls, path: Path) -> "_Header | None":
        """Return the header of the file at a path, None if it cannot be read."""
        with cls._lock:
            file = _file_at(path)
            if file in cls._known:
                return cls._known[file]
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return None
            found = os.fstat(descriptor)
            made = cls(descriptor, (found.st_dev, found.st_ino))
            cls._known[made.file] = made
            return made

    def count(self) -> int | None:
        """Return how often something was committed; None if the header does not say.

        In WAL mode, to which anybody who can write the file may turn it, commits go to another
        file. Turning is a commit too, so of both that are read at once neither is outdated.
        """
        header = os.pread(self._descriptor, _COUNT.stop, 0)
        if header[_MODES] != _WITH_JOURNAL:
            return None
        return int.from_bytes(header[_COUNT], "big")


class SQLite(Database):
    """A ledger in a file; writers wait for each other."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        # mode=rw: a missing ledger is never made by opening it.
        url = sa.URL.create(
            "sqlite",
            database="file:" + quote(str(self._path)),
            query={"mode": "rw", "uri": "true"},
        )
        make = partial(
            sa.create_engine,
            url,
            connect_args={"timeout": _database.WAIT_SECONDS, "isolation_level": None},
            hide_parameters=True,
        )
        pooled = make(isolation_level="AUTOCOMMIT", max_overflow=-1)
        sa.event.listen(pooled, "connect", partial(_remember_file, self._path))
        sa.event.listen(pooled, "checkout", partial(_refuse_other_file, self._path))
        written = make(poolclass=sa.NullPool)
        sa.event.listen(written, "connect", _sync_everything)
        super().__init__(str(path), written, pooled)
        self._header: _Header | None = None
        self._watch: sqlite3.Connection | None = None
        self._watched: tuple[int, int] | None = None
        self._sure: Any = None
        self._noted: Any = None
        self._confirming = threading.Lock()

    def version(self) -> Any:
        """Return which file it is, and its own count of commits, in its header.

        A count that was confirmed once, by a reader that waited for whoever was writing, says by
        itself that nothing was committed since: this takes no lock, and waits for nobody. Without
        a count nothing is known without reading it, so that every answer is.
        """
        now = self._count()
        if now is None:
            return None
        if now in (self._sure, self._noted):
            return self._sure
        self.may_wait()
        with self._confirming:
            return self._confirmed()

    def _confirmed(self) -> Any:
        file = _file_at(self._path)
        try:
            if self._watch is None or self._watched != file:
                self._watch, self._watched = self._opened(), file
            self._watch.execute("BEGIN")
            try:
                self._watch.execute("PRAGMA data_version").fetchone()  # from here on, a reader
                self._sure = self._count()
            finally:
                self._watch.execute("COMMIT")
        except sqlite3.Error:  # whoever reads now says what is wrong
            self._watch = self._sure = None
        return self._sure

    @contextmanager
    def noting(self) -> Iterator[sa.Connection]:
        """Write what nobody peeks at: all that was read before stays as good as it was."""
        with ExitStack() as after:
            with self.writing() as connection:  # nobody else can commit meanwhile
                after.enter_context(self._confirming)
                before = self._count()
                if before is not None and self._sure == before:
                    after.callback(setattr, self, "_noted", None)
                    self._noted = _one_more(before)  # so the file says while this is committed
                yield connection
            if before is not None:
                self._keep(before)

    def _keep(self, before: "_Counted") -> None:
        """Take what was read before a commit for current, if no other commit came since."""
        with self._lock:
            if self._version == self._sure == before and self._count() == _one_more(before):
                self._version = self._sure = _one_more(before)

    def _count(self) -> "_Counted | None":
        """Return which file it is, and its count of commits; None if that is not known."""
        header, file = self._header, _file_at(self._path)
        if header is None or header.file != file:
            header = self._header = _Header.of(self._path)
        count = None if header is None else header.count()
        return None if header is None or count is None else (header.file, count)

    def _opened(self) -> sqlite3.Connection:
        place = f"file:{quote(str(self._path))}?mode=ro"
        watch = sqlite3.connect(place, uri=True, check_same_thread=False, isolation_level=None)
        weakref.finalize(self, watch.close)
        return watch

    def prepare(self) -> None:
        """Make an empty file with mode 0600; SQLite gives its journal the same mode."""
        if self._path.is_file() and self._path.stat().st_size:
            raise self._exists()
        try:
            file = os.open(self._path, os.O_CREAT | os.O_WRONLY, 0o600)
        except OSError as error:
            raise VaultError(f"no ledger can be made in {self.place}: {error.strerror}") from None
        try:
            os.fchmod(file, 0o600)
        finally:
            os.close(file)

    def refuse_existing(self, connection: sa.Connection) -> None:
        """Raise VaultExists if another process has made the tables meanwhile."""
        if connection.exec_driver_sql(_MADE).first():
            raise self._exists()

    def begin(self, connection: sa.Connection, *, write: bool) -> None:
        """Begin; a writer locks first, so that it never has to give up what it has read."""
        self._count()  # so that nobody else in this process closes the file meanwhile
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    def exclude_others(self, connection: sa.Connection) -> None:
        """Nothing to do: whoever writes is alone."""

    def refuse_planted(self, connection: sa.Connection) -> None:
        """Compare everything in the file's schema with what this version makes."""
        found = _schema_of(connection) - _STATISTICS
        if not found:
            raise self.damaged()
        if found != _expected() and _of_vault(found) == _of_vault(_expected()):
            self.refuse_other_format(connection)
        if planted := found - _expected():
            kind, name, *_ = min(planted)
            raise self.damaged(f"its file holds a {kind} {name!r} that Cornerwave did not make")
        if found != _expected():
            raise self.damaged("a table or an index is missing")

    def translated(self, error: sa.exc.DBAPIError) -> VaultError:
        """Return our error for an error code of SQLite."""
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF  # the rest says which kind
        if code == sqlite3.SQLITE_CANTOPEN and not self._path.exists():
            return self.damaged("the file is missing")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
            return VaultError(
                f"the ledger {self.place} cannot be opened or written; check its permissions"
            )
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return VaultError(f"the ledger {self.place} is busy; try again")
        if code == sqlite3.SQLITE_FULL:
            return VaultError(f"the ledger {self.place} cannot be written: the disk is full")
        if code == sqlite3.SQLITE_IOERR:
            return VaultError(f"the ledger {self.place} cannot be read or written: I/O error")
        return self.damaged()

    def _exists(self) -> VaultExists:
        return VaultExists(f"the file {self.place} exists already; a ledger is never replaced")


_Counted = tuple[tuple[int, int], int]


def _one_more(counted: _Counted) -> _Counted:
    file, count = counted
    return file, count + 1


def _sync_everything(connection: sqlite3.Connection, _record: Any) -> None:
    """Have the journal's end on the disk too before a commit returns.

    Otherwise a power loss could bring the journal back, which would undo a holding whose bytes
    have left.
    """
    connection.execute("PRAGMA synchronous = EXTRA")


def _of_vault(schema: frozenset[tuple[Any, ...]]) -> frozenset[tuple[Any, ...]]:
    return frozenset(row for row in schema if row[2] == VAULT.name)


def _remember_file(path: Path, _connection: Any, record: Any) -> None:
    record.info["file"] = _file_at(path)


def _refuse_other_file(path: Path, _connection: Any, record: Any, _proxy: Any) -> None:
    """Open again if the file was replaced, as by a backup: the old one still has its rows."""
    if record.info["file"] != _file_at(path):
        raise sa.exc.DisconnectionError


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _schema_of(connection: sa.Connection) -> frozenset[tuple[Any, ...]]:
    rows = connection.exec_driver_sql(_MADE)
    # White space differs between versions of SQLAlchemy; our own statements quote nothing,
    # so that it means nothing there.
    return frozenset((*row[:3], _database.spaced_once(str(row[3] or ""))) for row in rows)


@cache
def _expected() -> frozenset[tuple[Any, ...]]:
    engine = sa.create_engine("sqlite://", poolclass=sa.NullPool)
    with engine.connect() as connection:
        TABLES.create_all(connection)
        return _schema_of(connection)
