"""The ledger: which datasets there are, and who holds which copy since when.

    the vault's chain        a line per dataset: id and name; and if it is renamed or removed
    a dataset's chain        line 1: what registration froze; then a line per holding, and for
                             a new edition, a new place of a source, a new name, the end of
                             releases
    both                     after them what an owner did who has stated a name: `acts`

A copy depends on source, key and level alone. Losing the ledger loses the record of who holds
what, and never changes the noise. Appending checks the chain's row and its last line and
costs one line; only what reads a whole chain checks the whole of it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from cornerwave.errors import (
    AlreadyRegistered,
    DatasetClosed,
    DatasetReleased,
    NoSuchDataset,
    VaultError,
    WrongKey,
    nearest,
)
from cornerwave.kinds import canonical
from cornerwave.ledger._chain import Chain, Draft, attach
from cornerwave.ledger._chains import (
    EDITION,
    MARKS,
    MOVED,
    RENAMED,
    UNREGISTERED,
    VAULT_CHAIN,
    Act,
    Chains,
    EditionLine,
    Entry,
    Held,
    Holding,
    act_draft,
    check_named,
    check_new,
    check_rows_new,
    holding_drafts,
    holdings_in,
    late,
)
from cornerwave.ledger._database import CHAIN, LEDGER_FORMAT, VAULT, Connection, Database
from cornerwave.ledger._key import Key
from cornerwave.ledger._postgresql import PostgreSQL
from cornerwave.ledger._records import Records
from cornerwave.ledger._sqlite import SQLite


@dataclass(frozen=True)
class State:
    """What the row of a dataset's chain states: its name, since when it is closed, and its end."""

    name: str
    closed: str
    length: int
    head: str


class Ledger:
    """The ledger of a vault, in an SQLite file or a PostgreSQL database.

    Make one with `Ledger.create`, open it with `Ledger.open`. Every method is a transaction.
    All raise LedgerDamaged if what they read was changed by anyone without the key.
    """

    def __init__(self, database: Database, key: Key, who: str = "") -> None:
        """`who` is the owner whose name stands with what is written; '' for none."""
        self._database = database
        self._key = key
        self.who = who

    @classmethod
    def create(cls, place: Path | str, key: Key) -> "Ledger":
        """Make an empty ledger: `place` is a file, or postgresql://USER@HOST/DATABASE.

        Raises VaultExists if there is one already.
        """
        ledger = cls(_database_at(place), key)
        with ledger._database.creating() as connection:
            connection.insert(VAULT, [(LEDGER_FORMAT, _check_value(key), _now())])
            connection.insert(CHAIN, [Chain(key, VAULT_CHAIN, "").row])
        return ledger

    @classmethod
    def open(cls, place: Path | str, key: Key) -> "Ledger":
        """Open a ledger. Raises LedgerDamaged, or WrongKey if it belongs to another key.

        Raises VaultError if another version of Cornerwave made it.
        """
        ledger = cls(_database_at(place), key)
        with ledger._database.reading() as connection:
            ledger._database.refuse_other_format(connection)
            checks = [check for _, check, _ in connection.select(VAULT)]
        if len(checks) != 1:
            raise ledger._database.damaged()
        if checks != [_check_value(key)]:
            raise WrongKey(
                "this key does not belong to this ledger: copies made with another key would "
                "have independent noise, which recipients could average. Use this vault's key"
            )
        return ledger

    @contextmanager
    def _reading(self) -> Iterator[Chains]:
        with self._database.reading() as connection:
            yield Chains(connection, self._database, self._key)

    @contextmanager
    def _writing(self) -> Iterator[Chains]:
        with self._database.writing() as connection:
            yield Chains(connection, self._database, self._key)

    def under(self, who: str) -> "Ledger":
        """Return this ledger, for what an owner of this name does."""
        return Ledger(self._database, self._key, who)

    def disconnect(self) -> None:
        """Close the connections that are kept open for `states` and `records`."""
        self._database.close()

    @property
    def records(self) -> Records:
        """What is kept beside the chains."""
        return Records(self._database, self._key.child("records", b""), note=self._note)

    def _note(self, connection: Connection, what: str) -> None:
        """Write what the owner does about the vault, in the transaction in which it is done."""
        if self.who:
            chains = Chains(connection, self._database, self._key)
            chains.append(chains.vault(lock=True), act_draft(self.who, what))

    def acts(self) -> list[Act]:
        """Return what owners did under their names, the oldest first."""
        with self._reading() as chains:
            vault = chains.vault()
            chains.lines(vault)
            known = [vault, *chains.datasets(vault)]
            return sorted((act for c in known for act in chains.acts(c)), key=lambda act: act.at)

    def register(
        self,
        entry: Entry,
        attachments: Mapping[str, bytes] | None = None,
        *,
        instead: str = "",
    ) -> Entry:
        """Record a dataset, and return the entry that the ledger has from now on.

        `attachments` are kept beside the chain. The dataset with the id `instead`, of which nothing
        was released, is forgotten in the same transaction.

        The same id under the same name is recorded once. Raises AlreadyRegistered if the name
        or the id belongs to another dataset, or if another has some of the values.
        """
        with self._writing() as chains:
            if instead:
                self._unregister(chains, instead)
            return self._register(chains, entry, attachments or {})

    def register_all(self, entries: Sequence[tuple[Entry, Mapping[str, bytes]]]) -> list[Entry]:
        """Record several datasets, all or none, each with what is kept beside its chain."""
        with self._writing() as chains:
            return [self._register(chains, entry, kept) for entry, kept in entries]

    def _register(self, chains: Chains, entry: Entry, kept: Mapping[str, bytes]) -> Entry:
        # Registrations wait here for each other: names and marks are compared with all.
        vault = chains.vault(lock=True)
        if there := self._there(chains, vault, entry, lock=True):
            return there
        at = _now()
        chain = Chain(self._key, entry.id, entry.name)
        chains.add(chain)
        macs = {name: attach(chains.connection, chain, name, c) for name, c in kept.items()}
        entry = replace(entry, macs=macs)
        stated = {name: value for name, value in asdict(entry).items() if name != "editions"}
        done = act_draft(self.who, "registered")
        chains.append(chain, [Draft(at, "registration", None, canonical(stated)), *done])
        listed = canonical({"id": entry.id, "name": entry.name})
        chains.append(vault, [Draft(at, "dataset", None, listed)])
        return entry

    def rehearse(self, entry: Entry, *, instead: str = "") -> Entry:
        """Do what `register` does, but record nothing."""
        with self._reading() as chains:
            known = self._there(chains, chains.vault(), entry, lock=False, without=instead)
            return known or entry

    def _there(
        self, chains: Chains, vault: Chain, entry: Entry, *, lock: bool, without: str = ""
    ) -> Entry | None:
        """Return the entry that the ledger has already. Raises AlreadyRegistered.

        The dataset with the id `without` counts as one that is not there.
        """
        if not entry.name or entry.id in ("", VAULT_CHAIN):
            raise VaultError(
                "a dataset needs a name and an id, and the id cannot be that of the vault's chain"
            )
        known = [each for each in chains.datasets(vault, lock=lock) if each.id != without]
        entries = [chains.entry(chain) for chain in known]
        for there in entries:
            if (there.id, there.name) == (entry.id, entry.name):
                return there
        for chain, there in zip(known, entries, strict=True):
            check_named(entry, there)
            if there.id not in entry.unrelated:
                check_new(entry.marks, chains.marks(chain, there), there.name)
        return None

    def add_edition(
        self,
        dataset: str,
        line: EditionLine,
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
        with self._writing() as chains:
            vault = chains.vault(lock=True)
            chain = chains.chain(dataset, lock=True)
            if chain.closed:
                raise DatasetClosed(closed_message(chain.name, chain.closed))
            chains.lines(chain, first=chain.length)
            there = chains.entry(chain)
            if line["edition"] != len(there.editions) + 2:
                raise late(chain)
            if is_new:
                check_rows_new(of_batch, chains.marks(chain, there))
            for other in chains.datasets(vault, lock=True):
                known = chains.entry(other)
                if other.id not in (chain.id, *there.unrelated) and chain.id not in known.unrelated:
                    check_new(of_batch, chains.marks(other, known), other.name)
            contents = {**attachments, MARKS: canonical(list(marks)).encode()}
            macs = {name: attach(chains.connection, chain, name, c) for name, c in contents.items()}
            at = _now()
            done = act_draft(self.who, f"added edition {line['edition']} ({line['kind']})")
            chains.append(
                chain, [Draft(at, EDITION, None, canonical({**line, "macs": macs})), *done]
            )
            added: EditionLine = {**line, "macs": macs, "at": at}
            return replace(there, editions=(*there.editions, added))

    def marks(self, entry: Entry) -> list[str]:
        """Return the marks of a dataset as the entry has it: what it is now, then what it was.

        Raises LedgerDamaged if they are lost or were changed.
        """
        if not entry.editions:
            return [entry.marks]
        with self._reading() as chains:
            return chains.marks(chains.chain(entry.id), entry)

    def check_rows(self, entry: Entry, of_batch: str) -> None:
        """Raise AlreadyRegistered if a dataset has the values of new rows, given their marks."""
        check_rows_new(of_batch, self.marks(entry))

    def attachment(self, entry: Entry, name: str) -> bytes | None:
        """Return what the last edition that has it keeps beside the chain, if any: the first too.

        Raises LedgerDamaged if it is lost or was changed.
        """
        return self.attachments(entry, [name]).get(name)

    def attachments(self, entry: Entry, names: Collection[str]) -> dict[str, bytes]:
        """Return what there is of several, as `attachment` does, in one transaction."""
        kept = [entry.macs, *(line["macs"] for line in entry.editions)]
        macs = {name: each[name] for each in kept for name in each.keys() & set(names)}
        if not macs:
            return {}
        with self._reading() as chains:
            chain = chains.chain(entry.id)
            return {name: chains.attached(chain, entry, name, macs[name]) for name in sorted(macs)}

    def unregister(self, dataset: str) -> None:
        """Forget a dataset of which nothing was released. Raises DatasetReleased otherwise.

        Its lines go, and its marks with them; the vault's chain states that it was there.
        """
        with self._writing() as chains:
            self._unregister(chains, dataset)

    def _unregister(self, chains: Chains, dataset: str) -> None:
        vault = chains.vault(lock=True)
        chain = chains.chain(dataset, lock=True)
        lines = chains.lines(chain)
        if recipients := {each.recipient for each in holdings_in(chain, lines)}:
            raise DatasetReleased(
                f"{chain.name!r} was released to {len(recipients)} "
                f"recipient{'s' * (len(recipients) > 1)}, so the ledger keeps it; close it to "
                "end its releases",
                use=("close",),
            )
        chains.remove(chain)
        gone = {"id": chain.id, "name": chain.name, "macs": [line.mac for line in lines]}
        done = act_draft(self.who, f"unregistered {chain.name}")
        chains.append(vault, [Draft(_now(), UNREGISTERED, None, canonical(gone)), *done])

    def close(self, dataset: str) -> str:
        """End the releases of a dataset, and return since when; what was released stays."""
        with self._writing() as chains:
            chain = chains.chain(dataset, lock=True)
            if not chain.closed:
                chain = replace(chain, closed=_now())
                done = act_draft(self.who, "closed")
                chains.append(chain, [Draft(chain.closed, "closing", None, "{}"), *done])
            return chain.closed

    def rename(self, dataset: str, name: str) -> None:
        """Give a dataset another name. Raises AlreadyRegistered if it is taken."""
        self.rename_all({dataset: name})

    def rename_all(self, names: Mapping[str, str]) -> None:
        """Give datasets other names, all or none. Raises AlreadyRegistered if one is taken."""
        with self._writing() as chains:
            taken = {chain.name for chain in chains.datasets(chains.vault(lock=True))}
            if known := sorted(taken & set(names.values())):
                raise AlreadyRegistered(
                    f"there is a dataset {known[0]!r} already; choose another name"
                )
            for dataset, name in sorted(names.items()):
                old = chains.chain(dataset, lock=True)
                chain = replace(old, name=name)
                done = act_draft(self.who, f"renamed, from {old.name}")
                renamed = Draft(_now(), RENAMED, None, canonical({"name": name}))
                chains.append(chain, [renamed, *done])
                listed = canonical({"id": chain.id, "name": name})
                chains.append(chains.vault(lock=True), [Draft(_now(), RENAMED, None, listed)])

    def move(self, dataset: str, source: str, *, edition: int = 1) -> None:
        """Record where the table of a dataset, or what an edition brought, lies now."""
        moved = canonical({"source": source, "edition": edition})
        with self._writing() as chains:
            chain = chains.chain(dataset, lock=True)
            chains.append(chain, [Draft(_now(), MOVED, None, moved)])

    def datasets(self) -> list[Entry]:
        """Return all datasets by name."""
        with self._reading() as chains:
            vault = chains.vault()
            entries = [chains.entry(c) for c in chains.datasets(vault)]
        return sorted(entries, key=lambda entry: entry.name)

    def names(self) -> list[str]:
        """Return the names of all datasets."""
        with self._reading() as chains:
            return sorted(chain.name for chain in chains.datasets(chains.vault()))

    def states(self, datasets: Collection[str]) -> dict[str, "State"]:
        """Return what the ledger states of some datasets, by id, from sealed rows alone.

        As long as the state of a dataset is the same, so is its entry, and who holds it.
        """
        ids = sorted(set(datasets) - {VAULT_CHAIN})
        chains = self._database.peek(CHAIN, partial(Chain.of_row, self._key), id=ids)
        return {c.id: State(c.name, c.closed, c.length, c.head) for c in chains}

    def dataset(self, name: str) -> Entry:
        """Return one dataset. Raises NoSuchDataset, which lists what there is."""
        with self._reading() as chains:
            vault = chains.vault()
            known = {chain.name: chain for chain in chains.datasets(vault)}
            if name in known:
                return chains.entry(known[name])
        others = f"it has {', '.join(sorted(known))}" if known else "it is empty; register first"
        raise NoSuchDataset(f"the vault has no dataset {name!r}; {others}{nearest(name, known)}")

    def hold(
        self,
        dataset: str,
        copies: Iterable[Held],
        *,
        permit: Callable[[Records], None] | None = None,
    ) -> None:
        """Record who is about to hold copies of a dataset, given by its id.

        A copy that is recorded already (same recipient, same canonical JSON of its spec) is not
        written again, unless it is held on other terms from now on.
        """
        self.hold_all({dataset: copies}, permit=permit)

    def hold_all(
        self,
        copies: Mapping[str, Iterable[Held]],
        *,
        permit: Callable[[Records], None] | None = None,
    ) -> None:
        """Record who is about to hold copies of several datasets, all or none of them.

        `permit` looks at the records in the same transaction, and raises what is in the way.
        """
        with self._writing() as chains:
            if permit is not None:
                permit(self.records.within(chains.connection))
            for dataset in sorted(copies):  # one order, so that none waits for another
                self._hold(chains, dataset, copies[dataset])

    def _hold(self, chains: Chains, dataset: str, copies: Iterable[Held]) -> None:
        wanted = list(copies)
        chain = chains.chain(dataset, lock=True)
        chains.lines(chain, first=chain.length)
        lines = chains.lines_of(chain, {recipient for recipient, *_ in wanted})
        drafts = holding_drafts(chain, lines, wanted, _now())
        if drafts and chain.closed:
            raise DatasetClosed(closed_message(chain.name, chain.closed))
        if drafts:
            to = dict.fromkeys(draft.recipient for draft in drafts)
            done = act_draft(self.who, f"released to {', '.join(map(str, to))}")
            chains.append(chain, [*drafts, *done])

    def holdings(self, dataset: str) -> list[Holding]:
        """Return who holds copies of a dataset, given by its id, in the order of the chain."""
        with self._reading() as chains:
            chain = chains.chain(dataset)
            return holdings_in(chain, chains.lines(chain))

    def held(self, dataset: str, *recipients: str) -> list[Holding]:
        """Return what some recipients hold of a dataset, given by its id.

        Reads and checks these recipients' lines alone, so that it costs the same in a large
        ledger. Lines that were deleted show in `holdings`.
        """
        with self._reading() as chains:
            chain = chains.chain(dataset)
            return holdings_in(chain, chains.lines_of(chain, set(recipients)))

    def spelled(self, dataset: str, recipients: Collection[str]) -> set[str]:
        """Return how recipients are spelled who hold copies, of names that differ only in case."""
        with self._reading() as chains:
            chain = chains.chain(dataset)
            lines = chains.lines_alike(chain, recipients)
            return {line.recipient for line in lines if line.recipient is not None}

    def holders_without(self, dataset: str, kind: str, *, most: int) -> list[Holding]:
        """Return what those hold of whom there is no record of a kind: the first of them by name.

        The lines that are returned are checked; whose they are not is found by an index.
        """
        with self._reading() as chains:
            chain = chains.chain(dataset)
            names = chains.names_without(chain, kind, most=most)
            return holdings_in(chain, chains.lines_alike(chain, names)) if names else []

    def heads(self) -> dict[str, str]:
        """Return 'id:number:mac' of each chain's last line by dataset name, '' for the vault's.

        Kept elsewhere, they show later whether an older ledger was restored (`check_since`).
        """
        with self._reading() as chains:
            vault = chains.vault()
            chains.lines(vault)
            known = [vault, *chains.datasets(vault)]
        return {chain.name: f"{chain.id}:{chain.length}:{chain.head}" for chain in known}

    def check_since(self, heads: Mapping[str, str]) -> None:
        """Raise LedgerDamaged unless each head is a line of its chain and all since verifies."""
        with self._reading() as chains:
            vault = chains.vault()
            known = {c.id: c for c in [vault, *chains.datasets(vault)]}
            gone = chains.gone(vault)
            for name, head in heads.items():
                id, number, mac = _parsed(head)
                chain = known.get(id)
                if (id, number, mac) in gone:
                    continue
                if chain is None or chain.length < number:
                    raise Chain(self._key, id, name).damaged(f"it has no line {number} of {id}")
                lines = chains.lines(chain, first=max(number, 1))
                if number and lines[0].mac != mac:
                    raise chain.damaged(f"line {number} is not that of the head given")

    def __repr__(self) -> str:
        return f"Ledger({self._database.place!r})"


def _database_at(place: Path | str) -> Database:
    if isinstance(place, str) and "://" in place:
        return PostgreSQL(place)
    return SQLite(Path(place))


def closed_message(name: str, closed: str) -> str:
    """State that a dataset takes no more releases, and what can still be done."""
    return (
        f"{name!r} was closed at {closed}: no more copies of it are released. Copies that are "
        "held can be made again"
    )


def _parsed(head: str) -> tuple[str, int, str]:
    parts = re.fullmatch(r"(.+):([0-9]{1,18}):([0-9a-f]*)", head)
    if parts is None:
        raise VaultError(
            "this is not a head of a ledger: it reads ID:NUMBER:MAC, as the ledger gave it"
        )
    return parts[1], int(parts[2]), parts[3]


def _check_value(key: Key) -> str:
    return key.derive("check").hex()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
