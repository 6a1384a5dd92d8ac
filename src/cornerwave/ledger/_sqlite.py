"""The ledger in an SQLite file that only its owner can read."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote
from weakref import WeakValueDictionary

from cornerwave.errors import VaultError, VaultExists
from cornerwave.ledger import _database
from cornerwave.ledger._database import Connection, Database, Schema, create_tables

_MADE = "SELECT type, tbl_name, name, sql FROM sqlite_master"
_MODES, _COUNT = slice(18, 20), slice(24, 28)
"""Where a file's header states how it is written and read, and its count of commits."""
_WITH_JOURNAL = b"\x01\x01"
_STATISTICS = frozenset(
    ("table", f"sqlite_stat{number}", f"sqlite_stat{number} CREATE TABLE sqlite_stat{columns}")
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
    SQLite's connections too. So one descriptor is kept for all users of a file, as long as
    there is one of them.
    """

    _lock = threading.Lock()
    _known: ClassVar[MutableMapping[tuple[int, int] | None, "_Header"]] = WeakValueDictionary()

    def __init__(self, descriptor: int, file: tuple[int, int]) -> None:
        self._descriptor, self.file = descriptor, file
        # Not at the end of the process: a thread may still be writing then, and needs its locks.
        weakref.finalize(self, os.close, descriptor).atexit = False

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
            opened = os.fstat(descriptor)
            made = cls(descriptor, (opened.st_dev, opened.st_ino))
            cls._known[made.file] = made
            return made

    def count(self) -> int | None:
        """Return how often something was committed; None if the header does not state it.

        In WAL mode, to which anybody who can write the file may turn it, commits go to another
        file. Turning is a commit too, so of both that are read at once neither is outdated.
        """
        try:
            header = os.pread(self._descriptor, _COUNT.stop, 0)
        except OSError:  # the read that follows reports what is wrong
            return None
        if header[_MODES] != _WITH_JOURNAL:
            return None
        return int.from_bytes(header[_COUNT], "big")


class SQLite(Database):
    """A ledger in a file; writers wait for each other."""

    failures = sqlite3.Error

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path.absolute()
        self._header: _Header | None = None
        self._sure: _Counted | None = None
        self._noted: _Counted | None = None
        self._confirming = threading.Lock()

    def connect(self) -> Connection:
        """Open the file; any thread may use the connection, one at a time."""
        file = _file_at(self._path)  # before: one that replaces it now is opened again later
        opened = sqlite3.connect(
            f"file:{quote(str(self._path))}?mode=rw",  # a missing ledger is not made by opening it
            uri=True,
            timeout=_database.WAIT_SECONDS,
            isolation_level=None,  # transactions begin and end by statements of ours
            check_same_thread=False,
        )
        return Connection(opened, file=file)

    def is_usable(self, connection: Connection) -> bool:
        """Compare files: one that was replaced, as by a backup, still has its rows."""
        return bool(connection.file == _file_at(self._path))

    def version(self) -> Any:
        """Return which file it is, and its count of commits, in its header.

        A count that was confirmed once, by a reader while nobody committed, shows by itself
        that nothing was committed since: this takes no lock, and does not wait. Without a count
        nothing is known, so that every answer is read from the file.
        """
        now = self._count()
        if now is None:
            return None
        if now in (self._sure, self._noted):
            return self._sure
        with self._confirming:
            return self._confirmed()

    def _confirmed(self) -> Any:
        try:
            with self.reader() as connection:
                connection.run("PRAGMA busy_timeout = 0")  # one at a time comes here: none waits
                connection.run("BEGIN")
                connection.run("PRAGMA data_version")  # from here on nobody else can commit
                self._sure = self._count()
                connection.commit()
                connection.run(f"PRAGMA busy_timeout = {_database.WAIT_SECONDS * 1000:.0f}")
        except sqlite3.Error:  # the read that follows reports what is wrong
            self._sure = None
        return self._sure

    @contextmanager
    def noting(self) -> Iterator[Connection]:
        """Write what nobody peeks at: all that was read before is still current."""
        with ExitStack() as after:
            with self.writing() as connection:  # nobody else can commit meanwhile
                after.enter_context(self._confirming)
                before = self._count()
                if before is not None and self._sure == before:
                    after.callback(setattr, self, "_noted", None)
                    self._noted = _one_more(before)  # the header's count while this is committed
                yield connection
            if before is not None:
                self._keep(before)

    def _keep(self, before: "_Counted") -> None:
        """Treat what was read before a commit as current, if no other commit came since."""
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

    def refuse_existing(self, connection: Connection) -> None:
        """Raise VaultExists if another process has made the tables meanwhile."""
        if connection.run(_MADE):
            raise self._exists()

    def begin(self, connection: Connection, *, write: bool) -> None:
        """Begin; a writer locks first, so that it never has to give up what it has read."""
        self._count()  # so that nobody else in this process closes the file meanwhile
        if write:
            # The deletion of the journal is on the disk too before a commit returns. Otherwise a
            # power loss could bring the journal back, and undo a holding whose bytes have left.
            connection.run("PRAGMA synchronous = EXTRA")
        connection.run("BEGIN IMMEDIATE" if write else "BEGIN")

    def exclude_others(self, connection: Connection) -> None:
        """Nothing to do: there is one writer at a time."""

    def schema(self, connection: Connection) -> Schema:
        """Return everything in the file's schema but what ANALYZE adds."""
        return _schema_of(connection) - _STATISTICS

    @cached_property
    def expected(self) -> Schema:
        """The schema of a file with our tables alone."""
        with closing(Connection(sqlite3.connect(":memory:"))) as connection:
            create_tables(connection)
            return _schema_of(connection)

    def translated(self, error: Any) -> VaultError:
        """Return our error for an error code of SQLite."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the upper bits are details
        if code == sqlite3.SQLITE_CANTOPEN and _is_missing(self._path):
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


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


def _is_missing(path: Path) -> bool:
    try:
        return not path.exists()
    except OSError:  # its directory cannot be read
        return False


def _schema_of(connection: Connection) -> Schema:
    rows = connection.run(_MADE)
    # White space differs in ledgers made earlier; our statements quote no blank, so that it has
    # no meaning there.
    return frozenset(
        (kind, table, " ".join(f"{name} {sql or ''}".split())) for kind, table, name, sql in rows
    )
