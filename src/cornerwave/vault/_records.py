"""Rows beside the chains: what may change, as recipients, grants, tokens and requests.

Each row is sealed, so that whoever can only write to the database cannot make one. An old
row that was kept from before is not recognised as old: a database restored from a backup
has the grants of that day.
"""

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from cornerwave.errors import LedgerDamaged
from cornerwave.vault._database import ACCESS, RECORD, Database, rows_with
from cornerwave.vault._key import Key

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
