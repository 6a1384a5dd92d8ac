"""The ledger's tables, and what SQLite and PostgreSQL have in common.

    vault   one row: the format, and whose key this is
    chain   one row per chain: its name, length, head and whether it is closed, sealed
    line    the lines of all chains
    attachment  contents of a chain that are too large for a line, in pieces
    record  beside the chains: recipients, grants, tokens and requests, each row sealed
    access  who fetched what, when and with what outcome; only ever appended to

Every transaction first refuses a database with anything in it that this version does not
make itself: a trigger or a view would act within the owner's own transactions.
"""

import json
import re
import secrets
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from cornerwave.errors import LedgerDamaged, VaultError
from cornerwave.ledger._key import Key

WAIT_SECONDS = 120
PREFIX = "cornerwave_"
LEDGER_FORMAT = 5
_MOST_SEEN = 10_000
Read = TypeVar("Read")

TABLES = sa.MetaData()
VAULT = sa.Table(
    f"{PREFIX}vault",
    TABLES,
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("key_check", sa.Text, nullable=False),
    sa.Column("made_at", sa.Text, nullable=False),
)
CHAIN = sa.Table(
    f"{PREFIX}chain",
    TABLES,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("length", sa.BigInteger, nullable=False),
    sa.Column("head", sa.Text, nullable=False),
    sa.Column("closed", sa.Text, nullable=False),
    sa.Column("seal", sa.Text, nullable=False),
)
LINE = sa.Table(
    f"{PREFIX}line",
    TABLES,
    sa.Column("chain", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("recipient", sa.Text, nullable=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("mac", sa.Text, nullable=False),
    # Not WITHOUT ROWID: SQLite would then walk the whole chain rather than use this index.
    sa.Index(f"{PREFIX}line_recipient", "chain", "recipient"),
)
ATTACHMENT = sa.Table(
    f"{PREFIX}attachment",
    TABLES,
    sa.Column("chain", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
RECORD = sa.Table(
    f"{PREFIX}record",
    TABLES,
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("of", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("seal", sa.Text, nullable=False),
    sa.Index(f"{PREFIX}record_of", "kind", "of"),
)
ACCESS = sa.Table(
    f"{PREFIX}access",
    TABLES,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Index(f"{PREFIX}access_who", "who", "at"),
)


class WouldWait(Exception):
    """Something has to be read or written, which may take a while."""


class Database(ABC):
    """One database with a ledger in it; no connection stays open between transactions.

    Only `peek`, which a service does all the time, takes its connections from a pool, and
    reads again only what may have changed.
    """

    def __init__(self, place: str, engine: sa.Engine, pooled: sa.Engine) -> None:
        self.place = place
        """Where it is, as it may be shown: without a password."""
        self._engine, self._pooled = engine, pooled
        weakref.finalize(self, pooled.dispose)
        self._lock, self._hurry = threading.Lock(), threading.local()
        self._version: Any = None
        self._seen: dict[Any, Sequence[Any]] = {}

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Raise WouldWait in this thread for all that cannot be answered from what was seen."""
        self._hurry.on = True
        try:
            yield
        finally:
            self._hurry.on = False

    def may_wait(self) -> None:
        """Raise WouldWait within `without_waiting`."""
        if getattr(self._hurry, "on", False):
            raise WouldWait

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Read in one snapshot."""
        with self._transaction(write=False) as connection:
            self.refuse_planted(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Write all or nothing."""
        with self._transaction(write=True) as connection:
            self.refuse_planted(connection)
            yield connection

    def peek(
        self, table: sa.Table, read: Callable[[Any], Read], **wanted: Sequence[str]
    ) -> Sequence[Read]:
        """Return, quickly, what `read` makes of the rows that have one of the values each.

        It checks their seals. The schema is not compared: no trigger acts on what only reads,
        and a view could show no row but a sealed one, as its planter could write it.
        """
        key = table.name, *((name, *values) for name, values in wanted.items())
        with self._translating():
            version = self.version()
            with self._lock:
                if version is None or version != self._version or len(self._seen) > _MOST_SEEN:
                    self._version, self._seen = version, {}
                elif key in self._seen:
                    return self._seen[key]
                seen = self._seen
            self.may_wait()
            with self._pooled.connect() as connection:
                found = [read(row) for row in connection.execute(rows_with(table, wanted))]
            seen[key] = found  # read after the version, so at least as new
            return found

    @contextmanager
    def noting(self) -> Iterator[sa.Connection]:
        """Write what nobody peeks at: the access log."""
        with self.writing() as connection:
            yield connection

    def version(self) -> Any:
        """Return what changes whenever anybody commits something; None if nothing does."""
        return None

    @contextmanager
    def creating(self) -> Iterator[sa.Connection]:
        """Write into a database in which this makes the tables. Raises VaultExists."""
        self.prepare()
        with self._transaction(write=True) as connection:
            self.refuse_existing(connection)
            TABLES.create_all(connection, checkfirst=False)
            yield connection

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        self.may_wait()
        with self._translating(), self._engine.connect() as connection:
            self.begin(connection, write=write)
            yield connection
            connection.commit()

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            # Not chained: the database's own words may quote values, SQL or the address.
            raise self.translated(error) from None
        except UnicodeError:
            raise VaultError("the ledger takes no text that is not valid Unicode") from None

    def damaged(self, what: str = "it is empty or damaged") -> LedgerDamaged:
        """Return the error for a database that is not a ledger as it should be."""
        return LedgerDamaged(
            f"the ledger {self.place} cannot be used: {what}. Restore the latest backup"
        )

    def refuse_other_format(self, connection: sa.Connection) -> None:
        """Raise VaultError for a ledger of another version, which may have other tables.

        The table that says so is the same in all of them.
        """
        formats = connection.execute(sa.select(VAULT.c.format)).scalars().all()
        if len(formats) != 1 or formats[0] == LEDGER_FORMAT:
            return
        newer = isinstance(formats[0], int) and formats[0] > LEDGER_FORMAT
        what = (
            "a newer version of Cornerwave; upgrade"
            if newer
            else ("another version of Cornerwave; use that one")
        )
        raise VaultError(
            f"the ledger {self.place} was made by {what}. It has another format than "
            f"{LEDGER_FORMAT}, which this version reads, and was left as it is"
        )

    @abstractmethod
    def prepare(self) -> None:
        """Make a place for a new ledger. Raises VaultExists if it is taken."""

    @abstractmethod
    def refuse_existing(self, connection: sa.Connection) -> None:
        """Raise VaultExists if there are tables of ours already; one process at a time."""

    @abstractmethod
    def begin(self, connection: sa.Connection, *, write: bool) -> None:
        """Begin a transaction; one that reads has one snapshot."""

    @abstractmethod
    def exclude_others(self, connection: sa.Connection) -> None:
        """Let nobody else write records until the end of this transaction.

        Then what was read stays true until what follows from it is written.
        """

    @abstractmethod
    def refuse_planted(self, connection: sa.Connection) -> None:
        """Raise LedgerDamaged unless the database holds exactly what this version makes."""

    @abstractmethod
    def translated(self, error: sa.exc.DBAPIError) -> VaultError:
        """Return our error for one of the database, without values."""


def rows_with(table: sa.Table, wanted: Mapping[str, Sequence[str]]) -> sa.Select[Any]:
    """Return the query for rows whose columns have one of the wanted values each."""
    return sa.select(table).where(*(table.c[name].in_(few) for name, few in wanted.items()))


def spaced_once(text: str) -> str:
    """Return text with each stretch of white space as one blank."""
    return re.sub(r"\s+", " ", text).strip()


# --------------------------------------------------------------------------------------------------
# Rows beside the chains: what may change, as recipients, grants, tokens and requests.
#
# Each row is sealed, so that whoever can only write to the database cannot make one. An old
# row that was kept from before is not recognised as old: a database restored from a backup
# has the grants of that day.


_FIELDS = ("kind", "id", "of", "at", "content")


@dataclass(frozen=True)
class Record:
    """A row: its kind and id, whom it belongs to, since when, and what it says."""

    kind: str
    id: str
    of: str
    at: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Access:
    """One line of the access log: who did what, when, with what outcome and how many bytes."""

    at: str
    who: str
    what: str
    outcome: str
    bytes: int


class Records:
    """The records of a vault; every method is a transaction unless within `together`."""

    def __init__(
        self, database: Database, key: Key, connection: sa.Connection | None = None
    ) -> None:
        """`key` is their own; within a `connection`, all that is done is one transaction."""
        self._database, self._key, self._open = database, key, connection

    @contextmanager
    def together(self) -> Iterator["Records"]:
        """Yield the records within one transaction: all is written, or nothing.

        Nobody else writes meanwhile, in this or another process: what is found stays as it is.
        """
        with self._database.writing() as connection:
            self._database.exclude_others(connection)
            yield Records(self._database, self._key, connection)

    def find(
        self, kind: str, *, id: str | None = None, of: str | Sequence[str] | None = None
    ) -> list[Record]:
        """Return records of a kind, the oldest first; `of` is whose, one name or several.

        Raises LedgerDamaged for a false one.
        """
        wanted: dict[str, Sequence[str]] = {"kind": [kind]}
        wanted |= {} if id is None else {"id": [id]}
        wanted |= {} if of is None else {"of": [of] if isinstance(of, str) else of}
        if self._open is None:
            found = self._database.peek(RECORD, self._checked, **wanted)
        else:
            found = [self._checked(row) for row in self._open.execute(rows_with(RECORD, wanted))]
        return sorted(found, key=lambda each: (each.at, each.id))

    def put(self, record: Record) -> None:
        """Write a record, in place of the one of its kind and id if there is one."""
        row = {**asdict(record), "content": _json(record.content)}
        row["seal"] = self._seal(row)
        own = sa.and_(RECORD.c.kind == record.kind, RECORD.c.id == record.id)
        with self._writing() as connection:
            connection.execute(RECORD.delete().where(own))
            connection.execute(RECORD.insert().values(row))

    def remove(self, kind: str, id: str) -> None:
        """Remove a record; nothing happens if there is none."""
        with self._writing() as connection:
            connection.execute(
                RECORD.delete().where(sa.and_(RECORD.c.kind == kind, RECORD.c.id == id))
            )

    def log(self, lines: Iterable[Access]) -> None:
        """Append to the access log."""
        rows = [
            {**vars(line), "id": f"{time.time_ns():020d}-{secrets.token_hex(6)}"} for line in lines
        ]
        if rows:
            with self._database.noting() as connection:
                connection.execute(ACCESS.insert(), rows)

    def accesses(self, *, who: str | None = None, most: int | None = None) -> list[Access]:
        """Return the access log, the newest first."""
        query = sa.select(ACCESS).order_by(ACCESS.c.id.desc())
        query = query if who is None else query.where(ACCESS.c.who == who)
        query = query if most is None else query.limit(most)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [Access(row.at, row.who, row.what, row.outcome, row.bytes) for row in rows]

    def last_access(self, who: str) -> str | None:
        """Return when somebody was here last."""
        found = self.accesses(who=who, most=1)
        return found[0].at if found else None

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        if self._open is not None:
            yield self._open
        else:
            with self._database.reading() as connection:
                yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        if self._open is not None:
            yield self._open
        else:
            with self._database.writing() as connection:
                yield connection

    def _checked(self, row: Any) -> Record:
        if not self._key.fits(row.seal, _sealed(row._mapping)):
            raise LedgerDamaged(
                f"a {row.kind} in the ledger was changed from outside; restore the latest backup"
            )
        return Record(row.kind, row.id, row.of, row.at, json.loads(row.content))

    def _seal(self, row: Mapping[str, Any]) -> str:
        return self._key.seal(_sealed(row))


def _sealed(row: Mapping[str, Any]) -> bytes:
    return _json([row[name] for name in _FIELDS]).encode()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)
