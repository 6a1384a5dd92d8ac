"""All chains of a ledger, as one transaction reads and extends them."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict

from cornerwave import sizes
from cornerwave.columns import listed
from cornerwave.errors import AlreadyRegistered, LedgerDamaged, NoSuchDataset, VaultError
from cornerwave.kinds import canonical
from cornerwave.ledger._chain import Chain, Draft, Line, attached, detach
from cornerwave.ledger._database import CHAIN, LINE, RECORD, Connection, Database, among
from cornerwave.ledger._files import KeyRun
from cornerwave.ledger._key import Key
from cornerwave.ledger._terms import NO_TERMS, Terms
from cornerwave.reuse import Relation, Repeat, TableMarks, related, repeated
from cornerwave.spec import CopySpec

VAULT_CHAIN = "vault"
HOLDING, UNREGISTERED, RENAMED, MOVED, EDITION, ACT = (
    "holding",
    "unregistration",
    "renaming",
    "move",
    "edition",
    "act",
)
MARKS = "marks"
MANY = 4
"""Of the lines of more than a quarter of all recipients the whole chain is read, line by line."""
NOBODY = ""
"""The recipient of lines about owners, which an index finds apart from what a dataset is."""
# Each line, and the mac of the one before it.
_LINES = (
    f"SELECT {', '.join(f'line.{name}' for name in LINE.columns)}, previous.mac "
    f"FROM {LINE.name} line LEFT JOIN {LINE.name} previous "
    "ON previous.chain = line.chain AND previous.number = line.number - 1 WHERE line.chain = ? AND"
)
_WITHOUT = (
    f"SELECT alike FROM {LINE.name} line WHERE chain = ? AND alike > '' AND NOT EXISTS "
    f"(SELECT 1 FROM {RECORD.name} WHERE kind = ? AND \"of\" = line.alike AND about = '') "
    "GROUP BY alike ORDER BY alike LIMIT ?"
)
# Updated in place, not deleted and inserted: others wait in PostgreSQL for the lock of this row.
_RESTATE = (
    f"UPDATE {CHAIN.name} SET name = ?, length = ?, head = ?, closed = ?, stated = ?, "
    "seal = ? WHERE id = ?"
)


LinePart = Mapping[str, Any]
"""An object in a line: the JSON of a value that `editions` writes and reads."""


class EditionLine(TypedDict):
    """What a line of the chain states of an edition after the first, with the MACs of what is
    kept beside it; the ledger adds when it came, and where its rows lie now."""

    edition: int
    kind: str
    at: NotRequired[str]
    source: str | None
    brought: str
    whole: str
    first: int
    begins: int
    content: str
    keys: LinePart | None
    drift: LinePart | None
    changes: LinePart | None
    macs: NotRequired[Mapping[str, str]]


@dataclass(frozen=True)
class Entry:
    """A registered dataset.

    `frozen` is what registration fixed, `marks` by what its values are recognised, as text;
    `keys` states how the file of its keys is recognised, None without a key; `unrelated` are the
    ids of datasets that the owner has declared unrelated; `closed` is when releases ended, '' if
    they did not; `editions` are the lines of those after the first; `macs` are those of what
    registration keeps beside the chain.
    """

    id: str
    name: str
    source: str | None
    registered_at: str
    frozen: str
    marks: str
    keys: KeyRun | None = None
    unrelated: tuple[str, ...] = ()
    closed: str = ""
    editions: tuple[EditionLine, ...] = ()
    macs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Holding:
    """A recipient holds a copy since a time; the spec is everything that made its bytes."""

    recipient: str
    spec: CopySpec
    since: str
    terms: Terms = NO_TERMS


@dataclass(frozen=True)
class Act:
    """What an owner did, when and under which name; `about` is a dataset, '' for the vault."""

    at: str
    who: str
    what: str
    about: str


class Chains:
    """The chains of a ledger within one transaction; all that is read of them is checked."""

    def __init__(self, connection: Connection, database: Database, key: Key) -> None:
        self.connection, self._database, self._key = connection, database, key

    def vault(self, *, lock: bool = False) -> Chain:
        """Return the chain of the vault itself."""
        chain = self._stated(VAULT_CHAIN, lock=lock)
        if chain is None:
            raise self._database.damaged("the list of datasets is missing")
        return chain

    def chain(self, dataset: str, *, lock: bool = False) -> Chain:
        """Return the chain of a dataset. Raises NoSuchDataset."""
        chain = self._stated(dataset, lock=lock)
        if chain is None or dataset == VAULT_CHAIN:
            raise NoSuchDataset(f"the vault has no dataset with the id {dataset!r}")
        return chain

    def _stated(self, id: str, *, lock: bool) -> Chain | None:
        """Return a chain as its sealed row states it; locked until the transaction ends."""
        where = f"id = ? {self._database.locking if lock else ''}"
        rows = self.connection.select(CHAIN, where, id)
        return Chain.of_row(self._key, rows[0]) if rows else None

    def datasets(self, vault: Chain, *, lock: bool = False) -> list[Chain]:
        """Return the chains of all datasets: those that the vault's chain lists, no others.

        A writer whose next statements read lines of them locks them: each of its statements sees
        what was committed before, and a line after the end that a row states looks like damage.
        """
        names: dict[str, str] = {}
        self.lines(vault, first=max(vault.length, 1))
        for line in self.lines_of(vault, None):  # not what owners did, which may be very many
            stated = json.loads(vault.read(line))
            if line.kind == UNREGISTERED:
                del names[stated["id"]]
            else:
                names[stated["id"]] = stated["name"]
        where = f"TRUE {self._database.locking if lock else ''}"
        every = [Chain.of_row(self._key, row) for row in self.connection.select(CHAIN, where)]
        chains = {chain.id: chain for chain in every if chain.id != VAULT_CHAIN}
        if {chain.id: chain.name for chain in chains.values()} != names:
            raise vault.damaged("the datasets are not those that were registered")
        return [chains[id] for id in names]

    def gone(self, vault: Chain) -> set[tuple[str, int, str]]:
        """Return id, number and mac of each line of datasets that are no longer registered."""
        lines = [line for line in self.lines(vault) if line.kind == UNREGISTERED]
        stated = [json.loads(vault.read(line)) for line in lines]
        return {(of["id"], n, mac) for of in stated for n, mac in enumerate(of["macs"], start=1)}

    def entry(self, chain: Chain) -> Entry:
        """Return what a dataset's chain states of it, in its lines of no recipient."""
        lines = self.lines_of(chain, None)
        if not lines or lines[0].number != 1:
            raise chain.damaged("its registration is missing")
        stated = json.loads(chain.read(lines[0]))
        editions: list[EditionLine] = []
        for line in lines[1:]:
            if line.kind == EDITION:
                edition: EditionLine = json.loads(chain.read(line))
                edition["at"] = line.at
                editions.append(edition)
            elif line.kind == MOVED:
                moved = json.loads(chain.read(line))
                of = stated if moved["edition"] == 1 else editions[moved["edition"] - 2]
                of["source"] = moved["source"]
        stated |= {"name": chain.name, "closed": chain.closed, "editions": tuple(editions)}
        stated |= {"unrelated": tuple(stated["unrelated"])}
        stated |= {"keys": KeyRun(**stated["keys"]) if stated["keys"] else None}
        return Entry(**stated)

    def lines(self, chain: Chain, *, first: int = 1) -> list[Line]:
        """Return a chain's lines from number `first` to its end, checked."""
        where = "chain = ? AND number >= ? ORDER BY number"
        rows = self.connection.select(LINE, where, chain.id, first - 1)
        lines, before = [Line._make(row) for row in rows], ""
        if first > 1:
            if not lines or lines[0].number != first - 1:
                raise chain.damaged(f"line {first - 1} is missing")
            before = lines.pop(0).mac
        chain.check(lines, after=first - 1, before=before)
        return lines

    def lines_of(self, chain: Chain, recipients: Collection[str] | None) -> list[Line]:
        """Return the lines of some recipients, each checked against its predecessor's mac.

        Without recipients, return the lines of none: all that state what the chain is.
        """
        lines = self.lines_alike(chain, recipients)
        if recipients is None and len(lines) != chain.stated:
            raise chain.damaged("lines that state what it is are missing, or were added")
        return [line for line in lines if recipients is None or line.recipient in recipients]

    def lines_alike(self, chain: Chain, recipients: Collection[str] | None) -> list[Line]:
        """Return the lines of some recipients, in any spelling by upper and lower case."""
        names, lines = sorted({name.casefold() for name in recipients or ()}), []
        if len(names) > max(chain.length // MANY, 1):  # sooner read and checked in one walk
            wanted = set(names)
            return [line for line in self.lines(chain) if line.alike in wanted]
        most = sizes.STATEMENT_NAMES
        some = [names[i : i + most] for i in range(0, len(names), most)]
        of_some = [among({"line.alike": few}) for few in some]
        for where, *few in [["line.alike IS NULL"]] if recipients is None else of_some:
            for *fields, before in self.connection.run(f"{_LINES} {where}", chain.id, *few):
                line = Line._make(fields)
                chain.check_line(line, "" if line.number == 1 else before)
                if line.number > chain.length:
                    raise chain.damaged("it has lines after its end")
                lines.append(line)
        return sorted(lines, key=lambda line: line.number)

    def names_without(self, chain: Chain, kind: str, *, most: int) -> list[str]:
        """Return names in a chain, in lower case, of whom there is no record of a kind."""
        return [name for (name,) in self.connection.run(_WITHOUT, chain.id, kind, most)]

    def add(self, chain: Chain) -> None:
        """Begin a chain."""
        self.connection.insert(CHAIN, [chain.row])

    def remove(self, chain: Chain) -> None:
        """Remove a chain, its lines and all that is beside it."""
        detach(self.connection, chain)
        self.connection.delete(LINE, "chain = ?", chain.id)
        self.connection.delete(CHAIN, "id = ?", chain.id)

    def append(self, chain: Chain, drafts: Iterable[Draft]) -> None:
        """Append lines to a chain."""
        lines, longer = chain.extend(drafts)
        self.connection.insert(LINE, lines)
        _, *stated = longer.row
        self.connection.run(_RESTATE, *stated, chain.id)

    def acts(self, chain: Chain) -> Iterator[Act]:
        """Yield what owners did, as a chain states it."""
        for line in self.lines_of(chain, {NOBODY}):
            stated = json.loads(chain.read(line))
            yield Act(line.at, stated["who"], stated["what"], chain.name)

    def attached(self, chain: Chain, entry: Entry, name: str, mac: str) -> bytes:
        """Return a content as an entry knows it. Raises VaultError if it was replaced since."""
        try:
            return attached(self.connection, chain, name, mac)
        except LedgerDamaged:
            if len(self.entry(chain).editions) > len(entry.editions):
                raise late(chain) from None
            raise

    def marks(self, chain: Chain, entry: Entry) -> list[str]:
        """Return the marks of a dataset: those of registration, or of its last edition."""
        if not entry.editions:
            return [entry.marks]
        mac = entry.editions[-1]["macs"][MARKS]
        marks: list[str] = json.loads(self.attached(chain, entry, MARKS, mac))
        return marks


def act_draft(who: str, what: str) -> list[Draft]:
    """Return the line of what an owner did now; none without a name."""
    # Acts of several chains are shown in the order of their times, which need fine ones.
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    stated = json.dumps({"who": who, "what": what}, sort_keys=True)
    return [Draft(at, ACT, NOBODY, stated)] if who else []


Held = tuple[str, CopySpec] | tuple[str, CopySpec, Terms]
"""Who is about to hold a copy, which one, and on which terms if there are any."""


def holdings_in(chain: Chain, lines: Iterable[Line]) -> list[Holding]:
    """Return the holdings among a chain's lines, each on the terms that were stated last."""
    found: dict[tuple[str, str], Holding] = {}
    read: dict[str, tuple[str, CopySpec, Terms]] = {}
    for line in lines:
        if line.kind == HOLDING and line.recipient is not None:
            text = chain.read(line)
            if text not in read:  # many hold the same copy, which is parsed once
                copy, terms = _copy_in(text)
                read[text] = copy, CopySpec.of_json(json.loads(copy)), terms
            copy, spec, terms = read[text]
            key = line.recipient, copy
            if key in found:
                found[key] = replace(found[key], terms=terms)
            else:
                found[key] = Holding(line.recipient, spec, line.at, terms)
    return list(found.values())


def holding_drafts(
    chain: Chain, lines: Iterable[Line], copies: Iterable[Held], at: str
) -> list[Draft]:
    """Return the lines for copies that are not among a chain's lines, or are there on other terms.

    A copy without terms is the same as one on any.
    """
    standing = {
        (line.recipient, copy): terms
        for line in lines
        if line.kind == HOLDING
        for copy, terms in [_copy_in(chain.read(line))]
    }
    drafts = []
    for recipient, spec, *stated in copies:
        terms = stated[0] if stated else NO_TERMS
        content = spec.to_json()
        key = recipient, canonical(content)
        if key not in standing or (terms and terms != standing[key]):
            standing[key] = terms
            text = canonical({**content, "terms": terms.to_json()}) if terms else key[1]
            drafts.append(Draft(at, HOLDING, recipient, text))
    return drafts


def _copy_in(text: str) -> tuple[str, Terms]:
    """Return the canonical JSON of the copy that a line states, and its terms."""
    if '"terms"' not in text:  # so that lines of many holders need not be parsed
        return text, NO_TERMS
    kept = json.loads(text)
    terms = Terms.of_json(kept.pop("terms", {}))
    return canonical(kept), terms


def late(chain: Chain) -> VaultError:
    """State that another edition was added before this one."""
    return VaultError(
        f"another edition of {chain.name!r} was added concurrently, so this one was not recorded; "
        "repeat the command"
    )


# --------------------------------------------------------------------------------------------------
# Refusals of what a vault has already: names, tables, values.


def check_named(entry: Entry, there: Entry) -> None:
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


def check_new(marks: str, known: Iterable[str], dataset: str) -> None:
    """Raise AlreadyRegistered if a dataset has or had these values, or functions of them."""
    new = TableMarks.from_json(marks)
    for old in map(TableMarks.from_json, known):
        if repeat := repeated(new, old):
            raise AlreadyRegistered(_what_repeats(repeat, dataset), use=("unrelated",))
        if relation := related(new, old):
            raise AlreadyRegistered(_what_follows(relation, dataset), use=("unrelated",))


def check_rows_new(marks: str, known: Sequence[str]) -> None:
    """Raise AlreadyRegistered if new rows of a dataset hold values that it has already."""
    if repeat := repeated(TableMarks.from_json(marks), TableMarks.from_json(known[0])):
        raise AlreadyRegistered(_what_comes_again(repeat))


def _what_comes_again(repeat: Repeat) -> str:
    """State which values of a dataset come again in new rows, and what to do."""
    what = "rows" if repeat.column is None else f"values of {repeat.column!r}"
    return (
        f"the batch holds {what} that the dataset has already: new rows get independent noise, "
        "which recipients could average with the old one. Leave out what is there already; for "
        "rows that changed, make a new edition of the whole table"
    )


def _what_repeats(repeat: Repeat, dataset: str) -> str:
    """State what another dataset has already, why that matters and what to do."""
    if repeat.column is None:
        how = "are" if repeat.same else "are an edition or a part of"
        what = f"the rows of this table {how} those of dataset {dataset!r}, in any order"
        return f"{what}: {_WHY} Release from {dataset!r}. {_UNLESS}"
    how = "the same values as" if repeat.same else "an edition or a part of the values of"
    what = f"column {repeat.column!r} holds {how} {repeat.of!r} of dataset {dataset!r}"
    return f"{what}: {_WHY} {_remedy([repeat.column], dataset)}. {_TOGETHER} {_UNLESS}"


def _what_follows(relation: Relation, dataset: str) -> str:
    """State which columns are computed from those of another dataset, and what to do."""
    mine, theirs = listed(relation.columns), listed(relation.of)
    if len(relation.columns) == len(relation.of) == 1:
        what = f"column {mine} is a function of {theirs} of dataset {dataset!r}, or the reverse"
    else:
        what = f"a combination of {mine} is one of {theirs} of dataset {dataset!r}"
    return f"{what}: {_WHY} {_remedy(relation.columns, dataset)}. {_UNLESS}"


def _remedy(columns: Sequence[str], dataset: str) -> str:
    what = f"the column {columns[0]!r}" if len(columns) == 1 else "one of these columns"
    return f"Release from {dataset!r}, or drop {what} here"


_WHY = "two datasets have independent noise, which colluding recipients could average."
_TOGETHER = (
    "Tables of the same persons, such as patients and their visits, are registered together, as "
    "TABLE=SOURCE for each: what they repeat then has the same noise."
)
_UNLESS = (
    "If the tables agree by chance alone, declare this one unrelated to it; if they do not, copies "
    "of both reveal more than either states"
)
