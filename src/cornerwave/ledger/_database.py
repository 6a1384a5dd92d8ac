"""The tables of a ledger, and the database that holds them.

    vault       one row: the format, and a check value of the key
    chain       one row per chain: its name, length, head, whether it is closed, and how many of its
                lines state what it is, sealed
    line        the lines of all chains
    attachment  contents of a chain that are too large for a line, in pieces
    record      beside the chains: recipients, grants, tokens and requests, each row sealed
    access      who fetched what, when and with what outcome; rows are only ever added

    reading, writing   a transaction, on a connection that it opens and closes
    peek               what a service asks all the time: on connections that stay open, and only
                       if someone may have committed something since the last time

Statements are written in the SQL that SQLite and PostgreSQL share. Values never enter their text:
each is a `?` there. Every transaction first refuses a database that contains anything this version
does not make itself: a trigger or a view would act within the owner's transactions.
"""

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from cornerwave.errors import LedgerDamaged, VaultError

PREFIX = "cornerwave_"
Row = tuple[Any, ...]


@dataclass(frozen=True)
class LedgerTable:
    """A table: its columns with their types, its primary key, one unique column, indexes."""

    name: str
    columns: dict[str, str]
    key: str = ""
    unique: str = ""
    indexes: tuple[tuple[str, str], ...] = ()

    @property
    def statements(self) -> list[str]:
        """The statements that create it."""
        parts = [f"{name} {kind}" for name, kind in self.columns.items()]
        parts += [f"PRIMARY KEY ({self.key})"] if self.key else []
        parts += [f"UNIQUE ({self.unique})"] if self.unique else []
        # The blanks inside the parentheses are those of ledgers that are there already.
        table = f"CREATE TABLE {self.name} ( {', '.join(parts)} )"
        indexes = [f"CREATE INDEX {n} ON {self.name} ({columns})" for n, columns in self.indexes]
        return [table, *indexes]


_TEXT, _NUMBER = "TEXT NOT NULL", "BIGINT NOT NULL"

VAULT = LedgerTable(
    f"{PREFIX}vault", {"format": "INTEGER NOT NULL", "key_check": _TEXT, "made_at": _TEXT}
)
CHAIN = LedgerTable(
    f"{PREFIX}chain",
    {
        "id": _TEXT,
        "name": _TEXT,
        "length": _NUMBER,
        "head": _TEXT,
        "closed": _TEXT,
        "stated": _NUMBER,
        "seal": _TEXT,
    },
    key="id",
    unique="name",
)
LINE = LedgerTable(
    f"{PREFIX}line",
    {
        "chain": _TEXT,
        "number": _NUMBER,
        "at": _TEXT,
        "kind": _TEXT,
        "recipient": "TEXT",
        "alike": "TEXT",  # the recipient's name, the same for all spellings by upper and lower case
        "content": _TEXT,
        "mac": _TEXT,
    },
    key="chain, number",
    # Not WITHOUT ROWID: SQLite would then walk the whole chain rather than use this index.
    indexes=((f"{PREFIX}line_recipient", "chain, alike"),),
)
ATTACHMENT = LedgerTable(
    f"{PREFIX}attachment",
    {"chain": _TEXT, "name": _TEXT, "number": _NUMBER, "content": "BLOB NOT NULL"},
    key="chain, name, number",
)
RECORD = LedgerTable(
    f"{PREFIX}record",
    {
        "kind": _TEXT,
        "id": _TEXT,
        '"of"': _TEXT,
        "at": _TEXT,
        "content": _TEXT,
        "about": _TEXT,
        "seal": _TEXT,
    },
    key="kind, id",
    # One for whose, one for what about: a page of a list reads its rows alone.
    indexes=(
        (f"{PREFIX}record_of", 'kind, "of", about'),
        (f"{PREFIX}record_about", "kind, about, at"),
    ),
)
ACCESS = LedgerTable(
    f"{PREFIX}access",
    {"id": _TEXT, "at": _TEXT, "who": _TEXT, "what": _TEXT, "outcome": _TEXT, "bytes": _NUMBER},
    key="id",
    indexes=((f"{PREFIX}access_who", "who, at"),),
)
TABLES = (VAULT, CHAIN, LINE, ATTACHMENT, RECORD, ACCESS)


class Connection:
    """A connection of sqlite3 or of psycopg; it commits only when it is asked to.

    `mark` is what the driver has in place of `?`; `file` is which file was opened, if it is one.
    """

    def __init__(self, driver: Any, mark: str = "?", file: Any = None) -> None:
        self.driver, self.file, self._mark = driver, file, mark
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Whether a process that forked this one has opened it, and still uses it."""
        return self._process != os.getpid()

    def run(self, statement: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows, if it has any."""
        cursor = self.driver.execute(statement.replace("?", self._mark), values)
        return cursor.fetchall() if cursor.description else []

    def select(self, table: LedgerTable, where: str = "TRUE", *values: Any) -> list[Row]:
        """Return the rows of a table for which a condition holds; ORDER BY may follow it."""
        names = ", ".join(table.columns)
        return self.run(f"SELECT {names} FROM {table.name} WHERE {where}", *values)

    def insert(self, table: LedgerTable, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows, each with a value for every column."""
        names, marks = ", ".join(table.columns), ", ".join([self._mark] * len(table.columns))
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
        self.driver.cursor().executemany(statement, list(rows))

    def delete(self, table: LedgerTable, where: str, *values: Any) -> None:
        """Remove the rows of a table for which a condition holds."""
        self.run(f"DELETE FROM {table.name} WHERE {where}", *values)

    def commit(self) -> None:
        """End the transaction, and keep what was written."""
        self.run("COMMIT")

    def close(self) -> None:
        """Close the connection; what was not committed is undone."""
        if not self.is_inherited:  # else the server would end it for the other process too
            self.driver.close()


def create_tables(connection: Connection, binary: str = "BLOB") -> None:
    """Create the tables of a ledger; `binary` is the type of bytes."""
    for table in TABLES:
        for statement in table.statements:
            connection.run(statement.replace("BLOB", binary))


def among(wanted: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Return the condition that each column has one of some values, and all the values."""
    # Without values it is false: nothing equals NULL.
    conditions = [
        f"{name} IN ({', '.join('?' * len(few)) or 'NULL'})" for name, few in wanted.items()
    ]
    return [" AND ".join(conditions), *(value for few in wanted.values() for value in few)]


# --------------------------------------------------------------------------------------------------
# Transactions, quick reads, errors in our words.


WAIT_SECONDS = 120
LEDGER_FORMAT = 7
_MOST_READ = 10_000
_MOST_READERS, _MOST_SPARE = 15, 5
"""Connections that peek at one time, and those of them that stay open for the next."""
Read = TypeVar("Read")
Schema = frozenset[tuple[str, str, str]]
"""Everything in a database that could change what our statements do: what, table, detail."""


class Database(ABC):
    """One database with a ledger in it."""

    failures: type[Exception]
    """What its driver raises."""
    binary: ClassVar[str] = "BLOB"
    """Its type of bytes."""
    locking: ClassVar[str] = ""
    """The end of a SELECT whose rows nobody else may write until the transaction ends."""

    def __init__(self, place: str) -> None:
        self.place = place
        """Where it is, as it may be shown: without a password."""
        self._spare: deque[Connection] = deque()
        self._readers = threading.BoundedSemaphore(_MOST_READERS)
        weakref.finalize(self, _close_all, self._spare)
        self._lock = threading.Lock()
        self._version: Any = None
        self._known: dict[Any, Sequence[Any]] = {}

    def reading(self) -> AbstractContextManager[Connection]:
        """Read in one snapshot."""
        return self._transaction(self.refuse_planted, write=False)

    def writing(self) -> AbstractContextManager[Connection]:
        """Write all or nothing."""
        return self._transaction(self.refuse_planted, write=True)

    def noting(self) -> AbstractContextManager[Connection]:
        """Write what nobody peeks at: the access log."""
        return self.writing()

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """Write into a database in which this makes the tables. Raises VaultExists."""
        self.prepare()
        with self._transaction(self.refuse_existing, write=True) as connection:
            create_tables(connection, self.binary)
            yield connection

    @contextmanager
    def _transaction(
        self, check: Callable[[Connection], None], *, write: bool
    ) -> Iterator[Connection]:
        with self._translating(), closing(self.connect()) as connection:
            self.begin(connection, write=write)
            check(connection)
            yield connection
            connection.commit()

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except self.failures as error:
            # Not chained: the database's message may quote values, SQL or the address.
            raise self.translated(error) from None
        except UnicodeDecodeError:  # SQLite quotes what it cannot read of a damaged file
            raise self.damaged() from None
        except UnicodeError:
            raise VaultError("the ledger cannot hold text that is not valid Unicode") from None

    def peek(
        self, table: LedgerTable, read: Callable[[Row], Read], **wanted: Sequence[str]
    ) -> Sequence[Read]:
        """Return, quickly, what `read` makes of the rows that have one of the values each.

        It checks their seals. The schema is not compared: no trigger acts on what only reads,
        and a view could show only rows that are sealed, which its author could also write.
        """
        key = table.name, *((name, *values) for name, values in wanted.items())
        with self._translating():
            version = self.version()
            with self._lock:
                if version is None or version != self._version or len(self._known) > _MOST_READ:
                    self._version, self._known = version, {}
                elif key in self._known:
                    return self._known[key]
                known = self._known
            with self.reader() as connection:
                rows = [read(row) for row in connection.select(table, *among(wanted))]
            with self._lock:
                known[key] = rows  # read after the version, so at least as new
            return rows

    def version(self) -> Any:
        """Return what changes whenever anybody commits something; None if nothing does."""
        return None

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """Give a connection that stays open for the next reader."""
        with self._readers:
            connection = self._still_open() or self.connect()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            if len(self._spare) < _MOST_SPARE:
                self._spare.append(connection)
            else:
                connection.close()

    def _still_open(self) -> Connection | None:
        while self._spare:
            with suppress(IndexError):  # another thread took the last one
                connection = self._spare.pop()
                if not connection.is_inherited and self.is_usable(connection):
                    return connection
                connection.close()
        return None

    def close(self) -> None:
        """Close the connections that are kept open; the next reader opens one again."""
        _close_all(self._spare)

    def damaged(self, what: str = "it is empty or damaged") -> LedgerDamaged:
        """Return the error for a database that is not a ledger as it should be."""
        return LedgerDamaged(
            f"the ledger {self.place} cannot be used: {what}. Restore the latest backup"
        )

    def refuse_planted(self, connection: Connection) -> None:
        """Raise LedgerDamaged unless the database contains exactly what this version makes."""
        there, expected = self.schema(connection), self.expected
        if not there:
            raise self.damaged("there is no ledger in this database")
        if there == expected:
            return
        if _of_vault(there) == _of_vault(expected):
            self.refuse_other_format(connection)
        if planted := there - expected:
            what, table, _ = min(planted)
            raise self.damaged(f"it contains a {what} that Cornerwave did not make ({table!r})")
        raise self.damaged("a table, a column or an index is missing")

    def refuse_other_format(self, connection: Connection) -> None:
        """Raise VaultError for a ledger of another version, which may have other tables.

        The table that states the format is the same in all of them.
        """
        formats = [row[0] for row in connection.select(VAULT)]
        if len(formats) != 1 or formats[0] == LEDGER_FORMAT:
            return
        is_newer = isinstance(formats[0], int) and formats[0] > LEDGER_FORMAT
        other = "a newer version of Cornerwave; upgrade"
        other = other if is_newer else "another version of Cornerwave; use that one"
        raise VaultError(
            f"the ledger {self.place} was made by {other}. Its format is not {LEDGER_FORMAT}, "
            "which this version reads; nothing was changed"
        )

    @abstractmethod
    def connect(self) -> Connection:
        """Open a connection, outside of any transaction."""

    @abstractmethod
    def is_usable(self, connection: Connection) -> bool:
        """Return whether a connection that was kept open still leads to the ledger."""

    @abstractmethod
    def prepare(self) -> None:
        """Make a place for a new ledger. Raises VaultExists if it is taken."""

    @abstractmethod
    def refuse_existing(self, connection: Connection) -> None:
        """Raise VaultExists if there are tables of ours already; one process at a time."""

    @abstractmethod
    def begin(self, connection: Connection, *, write: bool) -> None:
        """Begin a transaction; one that reads has one snapshot."""

    @abstractmethod
    def exclude_others(self, connection: Connection) -> None:
        """Let nobody else write records until the end of this transaction.

        Then what was read stays true until what follows from it is written.
        """

    @abstractmethod
    def schema(self, connection: Connection) -> Schema:
        """Return everything in the database that could change what our statements do."""

    @property
    @abstractmethod
    def expected(self) -> Schema:
        """The schema of a database with our tables alone."""

    @abstractmethod
    def translated(self, error: Any) -> VaultError:
        """Return our error for one of the database, without values."""


def _of_vault(schema: Schema) -> Schema:
    return frozenset(row for row in schema if row[1] == VAULT.name)


def _close_all(connections: deque[Connection]) -> None:
    while connections:
        with suppress(IndexError):  # a reader took the last one
            connections.pop().close()
