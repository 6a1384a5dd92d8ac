"""Rows beside the chains, which may change: recipients, grants, tokens, requests; the access log.

Each record is sealed, so that nobody who can write to the database but has no key can make one.
An earlier version of a record that is put back is not detected: a database restored from a backup
has the grants of that day.
"""

import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

from cornerwave.errors import LedgerDamaged, VaultError
from cornerwave.ledger._database import ACCESS, RECORD, Connection, Database, Row, among
from cornerwave.ledger._key import Key


@dataclass(frozen=True)
class Record:
    """A row: its kind and id, whom it belongs to, since when, its content, and what it is about.

    `of` and `about` are what lists are looked up by.
    """

    kind: str
    id: str
    of: str
    at: str
    content: Mapping[str, Any]
    about: str = ""


Item = TypeVar("Item")
MOST_ON_PAGE = 100


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Some of many, the number of the page, counted from 1, and how many there are in all."""

    items: Sequence[Item]
    number: int
    total: int

    @property
    def last(self) -> int:
        """The number of the last page."""
        return max(1, -(-self.total // MOST_ON_PAGE))

    def of(self, read: Callable[[Item], "Other"]) -> "Page[Other]":
        """Return the same page of what is read from each."""
        return Page([read(each) for each in self.items], self.number, self.total)


Other = TypeVar("Other")


def page_of(items: Sequence[Item], number: int) -> Page[Item]:
    """Return a page of what is in memory.

    >>> page_of(range(250), 3).items, page_of([], 1).last
    (range(200, 250), 1)
    """
    begin = (number - 1) * MOST_ON_PAGE
    return Page(items[begin : begin + MOST_ON_PAGE], number, len(items))


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
        self,
        database: Database,
        key: Key,
        connection: Connection | None = None,
        *,
        note: Callable[[Connection, str], None],
    ) -> None:
        """`key` is used for records alone; within a `connection`, all is one transaction.

        `note` writes to the vault's chain what an owner does, if the owner has a name.
        """
        self._database, self._key, self._open = database, key, connection
        self._note = note

    @contextmanager
    def together(self) -> Iterator["Records"]:
        """Yield the records within one transaction: all is written, or nothing.

        Nobody else writes meanwhile, in this or another process: what was read stays true.
        """
        with self._writing() as connection:
            yield self.within(connection)

    def within(self, connection: Connection) -> "Records":
        """Return the records as part of a transaction of the ledger."""
        return Records(self._database, self._key, connection, note=self._note)

    def find(
        self,
        kind: str,
        *,
        id: str | None = None,
        of: str | Sequence[str] | None = None,
        about: Sequence[str] | None = None,
    ) -> list[Record]:
        """Return records of a kind, the oldest first; `of` is whose, one name or several.

        Raises LedgerDamaged for a false one.
        """
        wanted: dict[str, Sequence[str]] = {"kind": [kind]}
        wanted |= {} if id is None else {"id": [id]}
        wanted |= {} if of is None else {"of": [of] if isinstance(of, str) else of}
        wanted |= {} if about is None else {"about": about}
        if self._open is None:
            records = self._database.peek(RECORD, self._checked, **wanted)
        else:
            records = [self._checked(row) for row in self._open.select(RECORD, *among(wanted))]
        return sorted(records, key=lambda each: (each.at, each.id))

    def page(
        self,
        kind: str,
        *,
        of: str | None = None,
        about: Sequence[str] | None = None,
        part: str = "",
        by_name: bool = False,
        number: int = 1,
    ) -> Page[Record]:
        """Return MOST_ON_PAGE records of a kind at most, the newest first, or by whose they are.

        `part` is a part of whose they are. Reads and checks the rows of the page alone.
        Raises LedgerDamaged for a false one.
        """
        wanted: dict[str, Sequence[str]] = {"kind": [kind]}
        wanted |= {} if of is None else {"of": [of]}
        wanted |= {} if about is None else {"about": about}
        where, *values = among(wanted)
        if part:
            where += " AND \"of\" LIKE ? ESCAPE '\\'"
            values.append(f"%{re.sub(_WILD, _ESCAPED, part)}%")
        order = '"of", id' if by_name else "at DESC, id"
        # The rows that are skipped are counted in the index.
        skipped = f"LIMIT {MOST_ON_PAGE} OFFSET {(max(number, 1) - 1) * MOST_ON_PAGE:d}"
        with self._reading() as connection:
            count = f"SELECT count(*) FROM {RECORD.name} WHERE {where}"
            [(total,)] = connection.run(count, *values)
            rows = connection.select(RECORD, f"{where} ORDER BY {order} {skipped}", *values)
        return Page([self._checked(row) for row in rows], max(number, 1), total)

    def tally(self, kind: str) -> dict[str, int]:
        """Return how many records of a kind there are about what; no row is read or checked."""
        count = f"SELECT about, count(*) FROM {RECORD.name} WHERE kind = ? GROUP BY about"
        with self._reading() as connection:
            return dict(connection.run(count, kind))

    def put(self, record: Record) -> None:
        """Write a record, in place of the one of its kind and id if there is one."""
        row = (record.kind, record.id, record.of, record.at, _json(record.content), record.about)
        with self._writing() as connection:
            connection.delete(RECORD, "kind = ? AND id = ?", record.kind, record.id)
            connection.insert(RECORD, [(*row, self._key.seal(_sealed(row)))])

    def remove(self, kind: str, id: str) -> None:
        """Remove a record; nothing happens if there is none."""
        with self._writing() as connection:
            connection.delete(RECORD, "kind = ? AND id = ?", kind, id)

    def note(self, what: str) -> None:
        """Write to the vault's chain what the owner does by this transaction, in words."""
        with self._writing() as connection:
            self._note(connection, what)

    def log(self, lines: Iterable[Access]) -> None:
        """Append to the access log."""
        # Ids ascend with time, so that the newest lines are read first without sorting them all.
        rows = [(f"{time.time_ns():020d}-{secrets.token_hex(6)}", *astuple(line)) for line in lines]
        if rows:
            with self._database.noting() as connection:
                connection.insert(ACCESS, rows)

    def accesses(self, *, who: str | None = None, most: int | None = None) -> list[Access]:
        """Return the access log, or what someone did, the newest first."""
        # An index has the lines of each by their time, so that no others are read.
        wanted = ["TRUE ORDER BY id DESC"] if who is None else ["who = ? ORDER BY at DESC", who]
        limit = "" if most is None else f" LIMIT {most:d}"
        with self._reading() as connection:
            rows = connection.select(ACCESS, wanted[0] + limit, *wanted[1:])
        return [Access(*line) for _, *line in rows]

    def visitors(self) -> list[str]:
        """Return all who are in the access log, from its index: one step for each, not a line."""
        statement = (
            f"WITH RECURSIVE known(name) AS (SELECT min(who) FROM {ACCESS.name} UNION ALL "
            f"SELECT (SELECT min(who) FROM {ACCESS.name} WHERE who > name) FROM known "
            "WHERE name IS NOT NULL) SELECT name FROM known WHERE name IS NOT NULL"
        )
        with self._reading() as connection:
            rows = connection.run(statement)
        return [name for (name,) in rows]

    def last_accesses(self, names: Collection[str]) -> dict[str, str]:
        """Return when each of some was here last, who was here at all."""
        where, *values = among({"who": sorted(set(names))})
        statement = f"SELECT who, max(at) FROM {ACCESS.name} WHERE {where} GROUP BY who"
        with self._reading() as connection:
            return dict(connection.run(statement, *values))

    def _reading(self) -> AbstractContextManager[Connection]:
        return nullcontext(self._open) if self._open else self._database.reading()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._open:
            yield self._open
            return
        with self._database.writing() as connection:
            self._database.exclude_others(connection)
            yield connection

    def _checked(self, row: Row) -> Record:
        *stated, seal = row
        if not self._key.fits(seal, _sealed(stated)):
            raise LedgerDamaged(
                f"a {stated[0]} in the ledger was changed from outside; restore the latest backup"
            )
        kind, id, of, at, content, about = stated
        return Record(kind, id, of, at, json.loads(content), about)


_WILD, _ESCAPED = re.compile(r"[%_\\]"), r"\\\g<0>"
"""What stands for other letters in a pattern, and how it stands for itself."""


def _sealed(row: Sequence[Any]) -> bytes:
    # A database edited from outside may return bytes; as an object they fit no seal.
    return _json(row, default=lambda strange: {"bytes": repr(strange)}).encode()


_json = partial(json.dumps, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def check_name(name: str, *, what: str) -> None:
    """Raise VaultError unless a name can stand in the ledger and in a line."""
    if not name or len(name) > 255 or not name.isprintable() or name.strip() != name:
        raise VaultError(f"{what} has 1 to 255 printable characters, no space at either end")
