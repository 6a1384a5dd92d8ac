"""The ledger: which datasets there are, and who holds which copy since when.

    the vault's own chain    a line per dataset: id and name; and if it is renamed or removed
    a dataset's chain        line 1: what registration froze; then a line per holding, and for
                             a new edition, a new place of a source, a new name, the end of
                             releases

A copy depends on source, key and level alone. Losing the ledger loses the record of who holds
what, and never changes the noise. Appending checks the chain's row and its last line and
costs one line; only what reads a whole chain checks the whole of it.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from cornerwave.errors import (
    AlreadyRegistered,
    DatasetClosed,
    DatasetReleased,
    LedgerDamaged,
    NoSuchDataset,
    VaultError,
    WrongKey,
    nearest,
)
from cornerwave.marks import Repeat, TableMarks, repeated
from cornerwave.vault._attachments import attach, attached, detach
from cornerwave.vault._chain import Chain, Draft, Line
from cornerwave.vault._database import CHAIN, LINE, VAULT, Database
from cornerwave.vault._key import Key
from cornerwave.vault._postgresql import PostgreSQL
from cornerwave.vault._records import Records
from cornerwave.vault._sqlite import SQLite

LEDGER_FORMAT = 4
_VAULT_CHAIN = "vault"
UNREGISTERED, RENAMED, MOVED, EDITION = "unregistration", "renaming", "move", "edition"
_MARKS = "marks"
_PARAMETERS = 5_000  # SQLite takes 32,766 in a statement, PostgreSQL 65,535


@dataclass(frozen=True)
class Entry:
    """A registered dataset.

    `frozen` is what registration fixed, `marks` by what its values are recognised, as text;
    `keys` says how the file of its keys is known, None without a key; `closed` is when releases
    ended, '' if they did not; `editions` are the lines of those after the first.
    """

    id: str
    name: str
    source: str | None
    registered_at: str
    frozen: str
    marks: str
    keys: Mapping[str, Any] | None = None
    closed: str = ""
    editions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class State:
    """What the row of a dataset's chain states: its name, since when it is closed, and its end."""

    name: str
    closed: str
    length: int
    head: str


@dataclass(frozen=True)
class Holding:
    """A recipient holds a copy since a time; `made` says everything that made its bytes."""

    recipient: str
    made: Mapping[str, Any]
    since: str


class Ledger:
    """The ledger of a vault, in an SQLite file or a PostgreSQL database.

    Make one with `Ledger.create`, open it with `Ledger.open`. Every method is a transaction.
    All raise LedgerDamaged if what they read was changed by anyone without the key.
    """

    def __init__(self, database: Database, key: Key) -> None:
        self._database = database
        self._key = key

    @classmethod
    def create(cls, place: Path | str, key: Key) -> "Ledger":
        """Make an empty ledger: `place` is a file, or postgresql://USER@HOST/DATABASE.

        Raises VaultExists if there is one already.
        """
        ledger = cls(_database_at(place), key)
        with ledger._database.creating() as connection:
            check = {"format": LEDGER_FORMAT, "key_check": _check_value(key), "made_at": _now()}
            connection.execute(VAULT.insert().values(check))
            connection.execute(CHAIN.insert().values(Chain(key, _VAULT_CHAIN, "").row))
        return ledger

    @classmethod
    def open(cls, place: Path | str, key: Key) -> "Ledger":
        """Open a ledger. Raises LedgerDamaged, or WrongKey if it belongs to another key."""
        ledger = cls(_database_at(place), key)
        with ledger._database.reading() as connection:
            rows = connection.execute(sa.select(VAULT)).all()
        if len(rows) != 1:
            raise ledger._database.damaged()
        if rows[0].format != LEDGER_FORMAT:
            raise ledger._database.damaged(
                f"this version of Cornerwave reads format {LEDGER_FORMAT}"
            )
        if rows[0].key_check != _check_value(key):
            raise WrongKey(
                "this key does not belong to this ledger: copies made with another key would "
                "have independent noise, which recipients could average. Use this vault's key"
            )
        return ledger

    @property
    def records(self) -> Records:
        """What is kept beside the chains."""
        return Records(self._database, self._key.child("records", b""))

    def register(self, entry: Entry) -> Entry:
        """Record a dataset, and return the entry that the ledger has from now on.

        The same id under the same name is recorded once. Raises AlreadyRegistered if the name
        or the id belongs to another dataset, or if another has some of the values.
        """
        with self._database.writing() as connection:
            # Registrations wait here for each other: names and marks are compared with all.
            vault = self._vault(connection, lock=True)
            if there := self._there(connection, vault, entry):
                return there
            at = _now()
            chain = Chain(self._key, entry.id, entry.name)
            connection.execute(CHAIN.insert().values(chain.row))
            said = {name: said for name, said in asdict(entry).items() if name != "editions"}
            self._append(connection, chain, [Draft(at, "registration", None, _json(said))])
            listed = _json({"id": entry.id, "name": entry.name})
            self._append(connection, vault, [Draft(at, "dataset", None, listed)])
        return entry

    def rehearse(self, entry: Entry) -> Entry:
        """Do what `register` does, but record nothing."""
        with self._database.reading() as connection:
            return self._there(connection, self._vault(connection), entry) or entry

    def _there(self, connection: sa.Connection, vault: Chain, entry: Entry) -> Entry | None:
        """Return the entry that the ledger has already. Raises AlreadyRegistered."""
        if not entry.name or entry.id in ("", _VAULT_CHAIN):
            raise VaultError("a dataset needs a name and an id of its own")
        chains = self._datasets(connection, vault)
        entries = [self._entry(connection, chain) for chain in chains]
        for there in entries:
            if (there.id, there.name) == (entry.id, entry.name):
                return there
        for chain, there in zip(chains, entries, strict=True):
            _check_named(entry, there)
            _check_new(entry.marks, self._marks(connection, chain, there), there.name)
        return None

    def add_edition(
        self,
        dataset: str,
        line: Mapping[str, Any],
        *,
        of_batch: str,
        marks: Sequence[str],
        attachments: Mapping[str, bytes],
        is_new: bool,
    ) -> Entry:
        """Record the next edition of a dataset, and return the entry that it has from now on.

        `of_batch` are the marks of the rows that came, `marks` those of the dataset from now on.
        Raises AlreadyRegistered if another dataset has their values or, if they must all be new
        (`is_new`), this one; VaultError if another edition was added since `line` was made.
        """
        with self._database.writing() as connection:
            vault = self._vault(connection, lock=True)
            chain = self._chain(connection, dataset, lock=True)
            if chain.closed:
                raise DatasetClosed(closed_message(chain.name, chain.closed))
            self._lines(connection, chain, first=chain.length)
            there = self._entry(connection, chain)
            if line["edition"] != len(there.editions) + 2:
                raise _late(chain)
            if is_new and (
                found := repeated(
                    TableMarks.from_json(of_batch), _current(self._marks(connection, chain, there))
                )
            ):
                raise AlreadyRegistered(_what_comes_again(found))
            for other in self._datasets(connection, vault):
                if other.id != chain.id:
                    known = self._marks(connection, other, self._entry(connection, other))
                    _check_new(of_batch, known, other.name)
            contents = {**attachments, _MARKS: _json(list(marks)).encode()}
            macs = {name: attach(connection, chain, name, c) for name, c in contents.items()}
            added, at = {**line, "macs": macs}, _now()
            self._append(connection, chain, [Draft(at, EDITION, None, _json(added))])
            return replace(there, editions=(*there.editions, {**added, "at": at}))

    def marks(self, entry: Entry) -> list[str]:
        """Return the marks of a dataset as the entry has it: what it is now, then what it was.

        Raises LedgerDamaged if they are lost or were changed.
        """
        if not entry.editions:
            return [entry.marks]
        with self._database.reading() as connection:
            return self._marks(connection, self._chain(connection, entry.id), entry)

    def attachment(self, entry: Entry, name: str) -> bytes | None:
        """Return what the last of the editions that have it keeps beside the chain, if any.

        Raises LedgerDamaged if it is lost or was changed.
        """
        macs = [line["macs"][name] for line in entry.editions if name in line["macs"]]
        if not macs:
            return None
        with self._database.reading() as connection:
            chain = self._chain(connection, entry.id)
            return self._attached(connection, chain, entry, name, macs[-1])

    def _attached(
        self, connection: sa.Connection, chain: Chain, entry: Entry, name: str, mac: str
    ) -> bytes:
        """Return a content as an entry knows it. Raises VaultError if it was replaced since."""
        try:
            return attached(connection, chain, name, mac)
        except LedgerDamaged:
            if len(self._entry(connection, chain).editions) > len(entry.editions):
                raise _late(chain) from None
            raise

    def _marks(self, connection: sa.Connection, chain: Chain, entry: Entry) -> list[str]:
        """Return the marks of a dataset: those of registration, or of its last edition."""
        if not entry.editions:
            return [entry.marks]
        mac = entry.editions[-1]["macs"][_MARKS]
        found: list[str] = json.loads(self._attached(connection, chain, entry, _MARKS, mac))
        return found

    def unregister(self, dataset: str) -> None:
        """Forget a dataset of which nothing was released. Raises DatasetReleased otherwise.

        Its lines go, and its marks with them; the vault's chain says that it was there.
        """
        with self._database.writing() as connection:
            vault = self._vault(connection, lock=True)
            chain = self._chain(connection, dataset, lock=True)
            lines = self._lines(connection, chain)
            if recipients := {each.recipient for each in _holdings(chain, lines)}:
                raise DatasetReleased(
                    f"{chain.name!r} was released to {len(recipients)} "
                    f"recipient{'s' * (len(recipients) > 1)}, so the ledger keeps it; close it to "
                    "end its releases",
                    use=("close",),
                )
            detach(connection, chain)
            connection.execute(LINE.delete().where(LINE.c.chain == chain.id))
            connection.execute(CHAIN.delete().where(CHAIN.c.id == chain.id))
            gone = {"id": chain.id, "name": chain.name, "macs": [line.mac for line in lines]}
            self._append(connection, vault, [Draft(_now(), UNREGISTERED, None, _json(gone))])

    def close(self, dataset: str) -> str:
        """End the releases of a dataset, and return since when; what was released stays."""
        with self._database.writing() as connection:
            chain = self._chain(connection, dataset, lock=True)
            if not chain.closed:
                chain = chain.changed(closed=_now())
                self._append(connection, chain, [Draft(chain.closed, "closing", None, "{}")])
            return chain.closed

    def rename(self, dataset: str, name: str) -> None:
        """Give a dataset another name. Raises AlreadyRegistered if it is taken."""
        with self._database.writing() as connection:
            vault = self._vault(connection, lock=True)
            if name in {chain.name for chain in self._datasets(connection, vault)}:
                raise AlreadyRegistered(f"there is a dataset {name!r} already; choose another name")
            chain = self._chain(connection, dataset, lock=True).changed(name=name)
            self._append(connection, chain, [Draft(_now(), RENAMED, None, _json({"name": name}))])
            listed = _json({"id": chain.id, "name": name})
            self._append(connection, vault, [Draft(_now(), RENAMED, None, listed)])

    def move(self, dataset: str, source: str, *, edition: int = 1) -> None:
        """Record where the table of a dataset, or what an edition brought, lies now."""
        said = _json({"source": source, "edition": edition})
        with self._database.writing() as connection:
            chain = self._chain(connection, dataset, lock=True)
            self._append(connection, chain, [Draft(_now(), MOVED, None, said)])

    def datasets(self) -> list[Entry]:
        """Return all datasets by name."""
        with self._database.reading() as connection:
            vault = self._vault(connection)
            entries = [self._entry(connection, c) for c in self._datasets(connection, vault)]
        return sorted(entries, key=lambda entry: entry.name)

    def without_waiting(self) -> AbstractContextManager[None]:
        """Raise WouldWait in this thread for all that the database has to be asked for."""
        return self._database.without_waiting()

    def states(self, datasets: Collection[str]) -> dict[str, "State"]:
        """Return what the ledger states of some datasets, by id, from sealed rows alone.

        As long as the state of a dataset is the same, so is its entry, and who holds it.
        """
        ids = sorted(set(datasets) - {_VAULT_CHAIN})
        chains = self._database.peek(CHAIN, partial(Chain.of_row, self._key), id=ids)
        return {c.id: State(c.name, c.closed, c.length, c.head) for c in chains}

    def dataset(self, name: str) -> Entry:
        """Return one dataset. Raises NoSuchDataset, which says what there is."""
        with self._database.reading() as connection:
            vault = self._vault(connection)
            chains = {chain.name: chain for chain in self._datasets(connection, vault)}
            if name in chains:
                return self._entry(connection, chains[name])
        known = f"it has {', '.join(sorted(chains))}" if chains else "it is empty; register first"
        raise NoSuchDataset(f"the vault has no dataset {name!r}; {known}{nearest(name, chains)}")

    def hold(self, dataset: str, copies: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Record who is about to hold copies of a dataset, given by its id.

        `copies` are (recipient, made). A copy that is recorded already (same recipient,
        same canonical JSON of `made`) is not written again.
        """
        wanted = list(dict.fromkeys((recipient, _json(made)) for recipient, made in copies))
        with self._database.writing() as connection:
            chain = self._chain(connection, dataset, lock=True)
            self._lines(connection, chain, first=chain.length)
            lines = self._lines_of(connection, chain, {recipient for recipient, _ in wanted})
            standing = {(line.recipient, chain.read(line)) for line in lines}
            at = _now()
            drafts = [Draft(at, "holding", *copy) for copy in wanted if copy not in standing]
            if drafts and chain.closed:
                raise DatasetClosed(closed_message(chain.name, chain.closed))
            if drafts:
                self._append(connection, chain, drafts)

    def holdings(self, dataset: str) -> list[Holding]:
        """Return who holds copies of a dataset, given by its id, in the order of the chain."""
        with self._database.reading() as connection:
            chain = self._chain(connection, dataset)
            return list(_holdings(chain, self._lines(connection, chain)))

    def held(self, dataset: str, recipient: str) -> list[Holding]:
        """Return what one recipient holds of a dataset, given by its id.

        Reads and checks this recipient's lines alone, so that it costs the same in a large
        ledger. Lines that were deleted show in `holdings`.
        """
        with self._database.reading() as connection:
            chain = self._chain(connection, dataset)
            return list(_holdings(chain, self._lines_of(connection, chain, {recipient})))

    def heads(self) -> dict[str, str]:
        """Return 'id:number:mac' of each chain's last line by dataset name, '' for the vault's.

        Kept elsewhere, they show later whether an older ledger was restored (`check_since`).
        """
        with self._database.reading() as connection:
            vault = self._vault(connection)
            chains = [vault, *self._datasets(connection, vault)]
        return {chain.name: f"{chain.id}:{chain.length}:{chain.head}" for chain in chains}

    def check_since(self, heads: Mapping[str, str]) -> None:
        """Raise LedgerDamaged unless each head is a line of its chain and all since verifies."""
        with self._database.reading() as connection:
            vault = self._vault(connection)
            chains = {c.id: c for c in [vault, *self._datasets(connection, vault)]}
            gone = self._gone(connection, vault)
            for name, head in heads.items():
                id, number, mac = _parsed(head)
                chain = chains.get(id)
                if _was_known(gone, id, number, mac):
                    continue
                if chain is None or chain.length < number:
                    raise Chain(self._key, id, name).damaged(f"it has no line {number} of {id}")
                lines = self._lines(connection, chain, first=max(number, 1))
                if number and lines[0].mac != mac:
                    raise chain.damaged(f"line {number} is not that of the head given")

    def _vault(self, connection: sa.Connection, *, lock: bool = False) -> Chain:
        """Return the vault's own chain."""
        chain = self._stated(connection, _VAULT_CHAIN, lock=lock)
        if chain is None:
            raise self._database.damaged("the list of datasets is missing")
        return chain

    def _chain(self, connection: sa.Connection, dataset: str, *, lock: bool = False) -> Chain:
        """Return the chain of a dataset. Raises NoSuchDataset."""
        chain = self._stated(connection, dataset, lock=lock)
        if chain is None or dataset == _VAULT_CHAIN:
            raise NoSuchDataset(f"the vault has no dataset with the id {dataset!r}")
        return chain

    def _stated(self, connection: sa.Connection, id: str, *, lock: bool) -> Chain | None:
        """Return a chain as its sealed row states it; locked until the transaction ends."""
        query = sa.select(CHAIN).where(CHAIN.c.id == id)
        row = connection.execute(query.with_for_update() if lock else query).first()
        return None if row is None else Chain.of_row(self._key, row)

    def _datasets(self, connection: sa.Connection, vault: Chain) -> list[Chain]:
        """Return the chains of all datasets: those that the vault's chain lists, no others."""
        names: dict[str, str] = {}
        for line in self._lines(connection, vault):
            said = json.loads(vault.read(line))
            if line.kind == UNREGISTERED:
                del names[said["id"]]
            else:
                names[said["id"]] = said["name"]
        query = sa.select(CHAIN).where(CHAIN.c.id != _VAULT_CHAIN)
        chains = {row.id: Chain.of_row(self._key, row) for row in connection.execute(query)}
        if {c.id: c.name for c in chains.values()} != names:
            raise vault.damaged("the datasets are not those that were registered")
        return [chains[id] for id in names]

    def _gone(self, connection: sa.Connection, vault: Chain) -> list[dict[str, Any]]:
        """Return what the vault's chain says about datasets that are no longer registered."""
        lines = self._lines(connection, vault)
        return [json.loads(vault.read(line)) for line in lines if line.kind == UNREGISTERED]

    def _entry(self, connection: sa.Connection, chain: Chain) -> Entry:
        """Return what a dataset's chain says about it, by its lines of no recipient."""
        lines = self._lines_of(connection, chain, None)
        if not lines or lines[0].number != 1:
            raise chain.damaged("its registration is missing")
        said = json.loads(chain.read(lines[0]))
        editions: list[dict[str, Any]] = []
        for line in lines[1:]:
            if line.kind == EDITION:
                editions.append({**json.loads(chain.read(line)), "at": line.at})
            elif line.kind == MOVED:
                moved = json.loads(chain.read(line))
                of = said if moved["edition"] == 1 else editions[moved["edition"] - 2]
                of["source"] = moved["source"]
        now = {"name": chain.name, "closed": chain.closed, "editions": tuple(editions)}
        return Entry(**{**said, **now})

    def _lines(self, connection: sa.Connection, chain: Chain, *, first: int = 1) -> list[Line]:
        """Return a chain's lines from number `first` to its end, checked."""
        query = sa.select(LINE).where(LINE.c.chain == chain.id, LINE.c.number >= first - 1)
        rows = connection.execute(query.order_by(LINE.c.number)).all()
        lines, before = [Line._make(row) for row in rows], ""
        if first > 1:
            if not lines or lines[0].number != first - 1:
                raise chain.damaged(f"line {first - 1} is missing")
            before = lines.pop(0).mac
        chain.check(lines, after=first - 1, before=before)
        return lines

    def _lines_of(
        self, connection: sa.Connection, chain: Chain, recipients: Collection[str] | None
    ) -> list[Line]:
        """Return the lines of some recipients, each checked against its predecessor's mac.

        Without recipients, return those of none: all that are no holdings.
        """
        previous = LINE.alias()
        query = (
            sa.select(LINE, previous.c.mac)
            .outerjoin(
                previous,
                sa.and_(previous.c.chain == LINE.c.chain, previous.c.number == LINE.c.number - 1),
            )
            .where(LINE.c.chain == chain.id)
        )
        found = []
        names = sorted(recipients or ())
        some = [names[i : i + _PARAMETERS] for i in range(0, len(names), _PARAMETERS)]
        wanted = [LINE.c.recipient.in_(few) for few in some]
        for condition in [LINE.c.recipient.is_(None)] if recipients is None else wanted:
            for *fields, before in connection.execute(query.where(condition)):
                line = Line._make(fields)
                chain.check_line(line, "" if line.number == 1 else before)
                if line.number > chain.length:
                    raise chain.damaged("it has lines after its end")
                found.append(line)
        return sorted(found, key=lambda line: line.number)

    def _append(self, connection: sa.Connection, chain: Chain, drafts: Iterable[Draft]) -> None:
        lines, longer = chain.extend(drafts)
        connection.execute(LINE.insert(), [line._asdict() for line in lines])
        connection.execute(CHAIN.update().where(CHAIN.c.id == chain.id).values(longer.row))

    def __repr__(self) -> str:
        return f"Ledger({self._database.place!r})"


def _database_at(place: Path | str) -> Database:
    if isinstance(place, str) and "://" in place:
        return PostgreSQL(place)
    return SQLite(Path(place))


def _holdings(chain: Chain, lines: Iterable[Line]) -> Iterator[Holding]:
    for line in lines:
        if line.kind == "holding" and line.recipient is not None:
            yield Holding(line.recipient, json.loads(chain.read(line)), line.at)


def _late(chain: Chain) -> VaultError:
    return VaultError(
        f"{chain.name!r} has got another edition meanwhile, so this one was not recorded; repeat "
        "the command"
    )


def closed_message(name: str, closed: str) -> str:
    """Say that a dataset takes no more releases, and what can still be done."""
    return (
        f"{name!r} was closed at {closed}: no more copies of it are released. Copies that are "
        "held can be made again"
    )


def _was_known(gone: Iterable[Mapping[str, Any]], id: str, number: int, mac: str) -> bool:
    """Whether a head belongs to a dataset that was unregistered later."""
    return any(s["id"] == id and number > 0 and mac in s["macs"][number - 1 : number] for s in gone)


def _check_named(entry: Entry, there: Entry) -> None:
    """Raise AlreadyRegistered if a dataset has this name or this id."""
    if there.name == entry.name:
        raise AlreadyRegistered(
            f"a dataset {entry.name!r} is registered already, with another table or other "
            "choices; release from it, or register under another name"
        )
    if there.id == entry.id:
        raise AlreadyRegistered(
            f"this table is registered already, with the same choices, as {there.name!r}; "
            "release from it"
        )


def _check_new(marks: str, known: Iterable[str], dataset: str) -> None:
    """Raise AlreadyRegistered if a dataset has some of these values, or had them."""
    new = TableMarks.from_json(marks)
    for old in known:
        if found := repeated(new, TableMarks.from_json(old)):
            raise AlreadyRegistered(_what_repeats(found, dataset))


def _current(marks: Sequence[str]) -> TableMarks:
    return TableMarks.from_json(marks[0])


def _what_comes_again(found: Repeat) -> str:
    """Say which of a dataset's own values come again in new rows, and what to do."""
    what = "rows" if found.column is None else f"values of {found.column!r}"
    return (
        f"the batch holds {what} that the dataset has already: new rows get noise of their own, "
        "which recipients could average with the old one. Leave out what is there already; for "
        "rows that changed, make a new edition of the whole table"
    )


def _what_repeats(found: Repeat, dataset: str) -> str:
    """Say what another dataset has already, why that matters and what to do."""
    why = (
        "two datasets have independent noise, which colluding recipients could average. "
        f"Release from {dataset!r}"
    )
    if found.column is None:
        how = "are" if found.same else "are an edition or a part of"
        return f"the rows of this table {how} those of dataset {dataset!r}, in any order: {why}"
    how = "the same values as" if found.same else "an edition or a part of the values of"
    return (
        f"column {found.column!r} holds {how} {found.of!r} of dataset {dataset!r}: {why}, "
        f"or drop the column {found.column!r} here"
    )


def _parsed(head: str) -> tuple[str, int, str]:
    parts = re.fullmatch(r"(.+):([0-9]{1,18}):([0-9a-f]*)", head)
    if parts is None:
        raise VaultError(
            "this is not a head of a ledger: it reads ID:NUMBER:MAC, as the ledger gave it"
        )
    return parts[1], int(parts[2]), parts[3]


def _json(value: Any) -> str:
    """Return the canonical JSON of a value: equal values have one text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_value(key: Key) -> str:
    return key.derive("check").hex()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
