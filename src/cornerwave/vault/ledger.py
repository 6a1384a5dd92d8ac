"""The ledger: who holds which level since when, in the order that the noise depends on.

    dataset   what registration fixed, sealed
    mark      one per perturbed column, to find values that were registered before
    level     the path's levels in order of first release; each seal covers all before it
    holding   a recipient, a level and a time

A release is two short transactions: before its noise is made, its levels get their
place in the order (reserve); before a byte of it is visible, its holdings are written
(confirm). Lines are added and never changed. A level that nobody holds may be taken
back while it is the last; an unread level harms nobody.

One more seal, on the vault's line, covers every line there is: without it a line could
be deleted from outside, and the order of the levels would begin anew.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from cornerwave.errors import AlreadyRegistered, LedgerDamaged, NoSuchDataset, VaultError, WrongKey
from cornerwave.levels import Level
from cornerwave.vault.key import Key
from cornerwave.vault.lines import (
    DATASET,
    HOLDING,
    LEVEL,
    MARK,
    TABLES,
    VAULT,
    all_lines,
    dataset_content,
    holding_content,
    level_content,
)

LEDGER_FORMAT = 1
_WAIT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered dataset, as it stands in the ledger."""

    id: str
    name: str
    source: str | None
    registered_at: str
    frozen: str


@dataclass(frozen=True, slots=True)
class Holding:
    """A recipient holds the copy at a level since a time."""

    recipient: str
    level: Level
    since: str


class Ledger:
    """The ledger of a vault, in an SQLite file."""

    def __init__(self, path: Path, key: Key) -> None:
        self._key = key
        self._path = path
        self._engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(path)),
            connect_args={"timeout": _WAIT_SECONDS, "isolation_level": None},
            poolclass=sa.NullPool,
        )

    @classmethod
    def create(cls, path: Path, key: Key) -> "Ledger":
        """Make an empty ledger that belongs to a key."""
        ledger = cls(path, key)
        with ledger._transaction(check=False) as connection:
            TABLES.create_all(connection)
            connection.execute(
                VAULT.insert().values(
                    format=LEDGER_FORMAT, key_check=_check_value(key), made_at=_now(), seal=""
                )
            )
        return ledger

    @classmethod
    def open(cls, path: Path, key: Key) -> "Ledger":
        """Open a ledger. Raises LedgerDamaged, or WrongKey before any noise could be made."""
        if not path.is_file():
            raise LedgerDamaged(f"the ledger {path} is missing; restore the latest backup")
        ledger = cls(path, key)
        with ledger._transaction(write=False, check=False) as connection:
            line = connection.execute(sa.select(VAULT)).one()
        if line.format != LEDGER_FORMAT:
            raise LedgerDamaged(
                f"the ledger has format {line.format}, this version reads {LEDGER_FORMAT}"
            )
        if line.key_check != _check_value(key):
            raise WrongKey(
                "this key does not belong to this ledger: with another key the noise would be "
                "other noise, and copies could be averaged. Use the key of this vault"
            )
        return ledger

    def datasets(self) -> list[Entry]:
        """Return all datasets by name."""
        with self._transaction(write=False) as connection:
            lines = connection.execute(sa.select(DATASET).order_by(DATASET.c.name)).all()
        return [self._entry(line) for line in lines]

    def dataset(self, name: str) -> Entry:
        """Return one dataset. Raises NoSuchDataset."""
        with self._transaction(write=False) as connection:
            line = connection.execute(sa.select(DATASET).where(DATASET.c.name == name)).first()
            names = connection.execute(sa.select(DATASET.c.name)).scalars().all()
        if line is None:
            known = f"it has {', '.join(sorted(names))}" if names else "it is empty; register first"
            raise NoSuchDataset(f"the vault has no dataset {name!r}; {known}")
        return self._entry(line)

    def add_dataset(self, entry: Entry, marks: Sequence[tuple[str, str]]) -> None:
        """Record a registration; `marks` are (mark, column). Raises AlreadyRegistered."""
        with self._transaction() as connection:
            check_free_name(connection, entry.name)
            _check_new_values(connection, marks)
            connection.execute(
                DATASET.insert().values(
                    id=entry.id,
                    name=entry.name,
                    source=entry.source,
                    registered_at=entry.registered_at,
                    frozen=entry.frozen,
                    seal=self._key_of(entry.id).seal(dataset_content(entry.id, entry.frozen)),
                )
            )
            for mark, column in marks:
                connection.execute(MARK.insert().values(mark=mark, dataset=entry.id, column=column))

    def refuse_taken(self, name: str) -> None:
        """Raise AlreadyRegistered if a dataset has this name."""
        with self._transaction(write=False) as connection:
            check_free_name(connection, name)

    def noise(self, dataset: str) -> tuple[float, ...]:
        """Return the levels of a dataset in ledger order."""
        with self._transaction(write=False) as connection:
            return self._levels(connection, dataset)

    def reserve(self, dataset: str, levels: Iterable[Level]) -> tuple[float, ...]:
        """Give levels their place in the order, and return the whole of it.

        New levels of one request are entered from the middle outwards, so that each
        later descends from few others.
        """
        with self._transaction() as connection:
            noise = self._levels(connection, dataset)
            new = sorted({level.noise for level in levels} - set(noise))
            return self._append(connection, dataset, noise, middle_first(new))

    def confirm(
        self, dataset: str, noise: Sequence[float], copies: Iterable[tuple[str, Level]]
    ) -> None:
        """Write who is about to hold copies that were made with this order of levels.

        Raises VaultError if the order is not this one (any more).
        """
        copies = list(copies)
        made_with = tuple(noise[: 1 + max(noise.index(level.noise) for _, level in copies)])
        with self._transaction() as connection:
            present = self._levels(connection, dataset)
            if present[: len(made_with)] != made_with[: len(present)]:
                raise VaultError("the order of levels has changed meanwhile; release once more")
            self._append(connection, dataset, present, made_with[len(present) :])
            held = {(h.recipient, h.level.noise) for h in self._holdings(connection, dataset)}
            for recipient, level in dict.fromkeys(copies):
                if (recipient, level.noise) not in held:
                    self._hold(connection, dataset, recipient, level.noise)

    def take_back(self, dataset: str, levels: Iterable[Level]) -> None:
        """Remove those of these levels that come last and that nobody holds."""
        removable = {level.noise for level in levels}
        with self._transaction() as connection:
            removable -= {h.level.noise for h in self._holdings(connection, dataset)}
            noise = self._levels(connection, dataset)
            while noise and noise[-1] in removable:
                noise = noise[:-1]
                connection.execute(
                    LEVEL.delete().where(LEVEL.c.dataset == dataset, LEVEL.c.position == len(noise))
                )

    def holdings(self, dataset: str) -> list[Holding]:
        """Return who holds what, least noise first."""
        with self._transaction(write=False) as connection:
            return self._holdings(connection, dataset)

    def _levels(self, connection: sa.Connection, dataset: str) -> tuple[float, ...]:
        lines = connection.execute(
            sa.select(LEVEL).where(LEVEL.c.dataset == dataset).order_by(LEVEL.c.position)
        ).all()
        key, before = self._key_of(dataset), ""
        for position, line in enumerate(lines):
            content = level_content(before, position, line.noise)
            if line.position != position or not key.fits(line.seal, content):
                raise LedgerDamaged(
                    f"line {position + 1} of the dataset's levels does not fit its seal: the "
                    "ledger was changed from outside. Restore the latest backup"
                )
            before = line.seal
        return tuple(line.noise for line in lines)

    def _append(
        self,
        connection: sa.Connection,
        dataset: str,
        noise: tuple[float, ...],
        new: Iterable[float],
    ) -> tuple[float, ...]:
        last = sa.select(LEVEL.c.seal).where(
            LEVEL.c.dataset == dataset, LEVEL.c.position == len(noise) - 1
        )
        seal = connection.execute(last).scalar() or ""
        for position, level in enumerate(new, start=len(noise)):
            seal = self._key_of(dataset).seal(level_content(seal, position, level))
            connection.execute(
                LEVEL.insert().values(dataset=dataset, position=position, noise=level, seal=seal)
            )
            noise = (*noise, level)
        return noise

    def _hold(self, connection: sa.Connection, dataset: str, recipient: str, noise: float) -> None:
        since = _now()
        seal = self._key_of(dataset).seal(holding_content(recipient, noise, since))
        connection.execute(
            HOLDING.insert().values(
                dataset=dataset, recipient=recipient, noise=noise, since=since, seal=seal
            )
        )

    def _holdings(self, connection: sa.Connection, dataset: str) -> list[Holding]:
        lines = connection.execute(
            sa.select(HOLDING)
            .where(HOLDING.c.dataset == dataset)
            .order_by(HOLDING.c.noise, HOLDING.c.recipient)
        ).all()
        key = self._key_of(dataset)
        for line in lines:
            if not key.fits(line.seal, holding_content(line.recipient, line.noise, line.since)):
                raise LedgerDamaged(
                    "a line about who holds a copy does not fit its seal: the ledger was changed "
                    "from outside. Restore the latest backup"
                )
        return [Holding(line.recipient, Level(line.noise), line.since) for line in lines]

    def _entry(self, line: sa.Row[tuple[str, ...]]) -> Entry:
        if not self._key_of(line.id).fits(line.seal, dataset_content(line.id, line.frozen)):
            raise LedgerDamaged(
                f"the registration of {line.name!r} does not fit its seal: the ledger was changed "
                "from outside. Restore the latest backup"
            )
        return Entry(line.id, line.name, line.source, line.registered_at, line.frozen)

    def _key_of(self, dataset: str) -> Key:
        return dataset_key(self._key, dataset)

    @contextmanager
    def _transaction(self, *, write: bool = True, check: bool = True) -> Iterator[sa.Connection]:
        """Run one transaction; writers wait for each other, so that lines have one order."""
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
                if check:
                    self._check_all(connection)
                yield connection
                if write:
                    seal = self._key.seal(all_lines(connection))
                    connection.execute(VAULT.update().values(seal=seal))
                connection.commit()
        except sa.exc.DatabaseError as error:
            raise _told(self._path, error) from None
        except sa.exc.InvalidRequestError:
            raise LedgerDamaged(f"the ledger {self._path} is empty or damaged") from None

    def _check_all(self, connection: sa.Connection) -> None:
        seal = connection.execute(sa.select(VAULT.c.seal)).scalar_one()
        if not self._key.fits(seal, all_lines(connection)):
            raise LedgerDamaged(
                f"a line of the ledger {self._path} was changed or deleted from outside; "
                "restore the latest backup"
            )


def dataset_key(key: Key, dataset: str) -> Key:
    """Return the key of a dataset."""
    return key.child("dataset", bytes.fromhex(dataset))


def middle_first(levels: Sequence[float]) -> Iterator[float]:
    """Yield sorted levels from the middle outwards, as a balanced tree is filled.

    >>> list(middle_first([1, 2, 3, 4, 5, 6, 7]))
    [4, 2, 6, 1, 3, 5, 7]
    """
    parts = [levels]
    while parts:
        part = parts.pop(0)
        if part:
            middle = len(part) // 2
            yield part[middle]
            parts += [part[:middle], part[middle + 1 :]]


def check_free_name(connection: sa.Connection, name: str) -> None:
    """Raise AlreadyRegistered if a dataset has this name."""
    if connection.execute(sa.select(DATASET.c.id).where(DATASET.c.name == name)).first():
        raise AlreadyRegistered(
            f"a dataset {name!r} is registered already; release from it, or choose another name"
        )


def _check_new_values(connection: sa.Connection, marks: Iterable[tuple[str, str]]) -> None:
    for mark, column in marks:
        known = sa.select(DATASET.c.name, MARK.c.column).join_from(MARK, DATASET)
        if line := connection.execute(known.where(MARK.c.mark == mark)).first():
            raise AlreadyRegistered(
                f"column {column!r} holds the same values as {line.column!r} of dataset "
                f"{line.name!r}: two datasets have independent noise, which colluding recipients "
                f"could average. Release from {line.name!r}, or --drop {column!r} here"
            )


def _told(path: Path, error: sa.exc.DatabaseError) -> VaultError:
    code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return VaultError(f"the ledger {path} cannot be written: no permission")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return VaultError(f"the ledger {path} is busy; try again")
    if code == sqlite3.SQLITE_FULL:
        return VaultError(f"the ledger {path} cannot be written: the disk is full")
    if code == sqlite3.SQLITE_IOERR:
        return VaultError(f"the ledger {path} cannot be read or written: I/O error")
    return LedgerDamaged(f"the ledger {path} is damaged; restore the latest backup")


def _check_value(key: Key) -> str:
    return key.derive("check").hex()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
