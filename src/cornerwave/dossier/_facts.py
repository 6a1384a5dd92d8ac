"""What a dossier states, as values: who has what, why, until when, and what copies leave hidden.

    ledger, what registration fixed ──facts_of──┐
    table, copies made again ──measured_of──────┴──> DossierFacts ──> a page, signed JSON

Shares have three digits after the point: more would be statistics of the table without noise. No
field is a cell of the table, and none depends on who asks or when, but for `made_at`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from cornerwave.access import ANYBODY, ANYBODY_KNOWN, Sharing, people
from cornerwave.choices import CATEGORY, DERIVED, DROPPED, KEPT, KEY, PERTURBED, UNIT
from cornerwave.columns import Column, Schema
from cornerwave.dossier._measured import MeasuredTable, figure
from cornerwave.errors import NoSuchRecipient, nearest
from cornerwave.kinds import JsonObject
from cornerwave.ledger import Holding, Terms, written
from cornerwave.levels import Level
from cornerwave.outlook import half_width, outlook_at
from cornerwave.vault import Dataset, LinkedDataset, Vault, below_in

FORMAT = "cornerwave dossier 1"
NOISE, DRAWN, AS_IT_IS, PSEUDONYM, FOLLOWS, LEFT_OUT = (
    "noise",
    "partly redrawn",
    "unchanged",
    "pseudonym",
    "computed from another column",
    "left out",
)
"""What happens to a column."""


@dataclass(frozen=True)
class CopyHeld:
    """A copy that a recipient holds since a time, and on which terms."""

    table: str
    recipient: str
    privacy: float
    noise: float
    edition: str
    format: str | None
    since: str
    purpose: str = ""
    contract: str = ""
    until: str | None = None


@dataclass(frozen=True)
class Permission:
    """What a recipient may fetch, and whether they still may: live, expired or ended."""

    table: str
    recipient: str
    privacy: float
    since: str
    state: str
    purpose: str = ""
    contract: str = ""
    until: str | None = None


@dataclass(frozen=True)
class ColumnFacts:
    """A column, and what happens to it; `gaps` is how missing values show: visible or hidden."""

    name: str
    type: str
    what: str
    scale: str | None = None
    gaps: str | None = None
    means: str | None = None


@dataclass(frozen=True)
class ColumnRisk:
    """What a copy at a level leaves hidden of a column.

    `hidden` is what registration computed, `measured` what attacks on the copy left, `joint` what
    an adversary left who knows how rows are distributed. Of a number, 9 of 10 values are known to
    `within` that much, and `blind` without a copy; of a category, guesses are `right` that often.
    """

    column: str
    hidden: float
    measured: float | None = None
    joint: float | None = None
    within: float | None = None
    within_blind: float | None = None
    unit: str | None = None
    right: float | None = None
    right_blind: float | None = None


@dataclass(frozen=True)
class PersonRisk:
    """What a copy says about a person, to somebody who knows all of their row, and to anybody.

    `found`: how often the row is found, of all rows, between `low` and `high`, of the tenth that is
    easiest to find (`worst`), and among ten; None where it was not measured. `bits` of a row at
    most, for anybody; with a unit those of a person of `person_rows` rows.
    """

    found: float | None
    low: float | None
    high: float | None
    worst: float | None
    among_ten: float | None
    bits: float
    person_bits: float | None = None
    person_rows: int | None = None


@dataclass(frozen=True)
class LevelRisk:
    """What copies at a level leave hidden, and what they cost those who compute with them."""

    privacy: float
    noise: float
    recipients: tuple[str, ...]
    columns: tuple[ColumnRisk, ...]
    person: PersonRisk
    stand_out: int | None
    mean_error: float
    regression_error: float


@dataclass(frozen=True)
class Pooling:
    """Recipients who pool their copies: what stays hidden then, and from the best of them alone.

    `hidden` is None where nothing bounds it; `independent` is what would stay hidden if each copy
    had noise of its own. The names of `everybody` are not stated.
    """

    members: tuple[str, ...]
    number: int
    everybody: bool
    hidden: float | None
    alone: float
    independent: float | None
    person: PersonRisk


@dataclass(frozen=True)
class TableFacts:
    """A table: its columns, its levels, coalitions, and what was measured on its copies."""

    name: str
    id: str
    rows: int
    registered_at: str
    closed: str
    editions: int
    order: str | None
    unit: tuple[str, ...]
    independent_rows: bool
    persons: tuple[str, ...]
    min_count: int
    unrelated: int
    highest: float
    columns: tuple[ColumnFacts, ...]
    levels: tuple[LevelRisk, ...]
    groups: tuple[Pooling, ...]
    measured: MeasuredTable


@dataclass(frozen=True)
class DossierFacts:
    """All that a dossier states; `only` are the recipients that it is limited to, () for all."""

    name: str
    made_at: str
    only: tuple[str, ...]
    coalitions: tuple[tuple[str, ...], ...]
    holders: int
    copies: tuple[CopyHeld, ...]
    permissions: tuple[Permission, ...]
    tables: tuple[TableFacts, ...]
    heads: Mapping[str, str]
    roles: Mapping[str, int]
    second_person_below: float | None
    key: str
    versions: Mapping[str, str]

    def to_json(self) -> JsonObject:
        """Return it as it is signed, but for the promises."""
        stated: dict[str, Any] = {"format": FORMAT, **asdict(self)}
        return stated

    def titled(self, table: TableFacts, title: str) -> str:
        """Return the title of a part about one of the tables."""
        return f"{table.name}: {title}" if len(self.tables) > 1 else title

    @property
    def least(self) -> float | None:
        """The share that stays hidden of every column from everybody together; None: no bound."""
        pooled = [group.hidden for table in self.tables for group in table.groups[-1:]]
        known = [each for each in pooled if each is not None]
        return None if len(known) < len(pooled) else min(known, default=None)


def released_of(known: Dataset | LinkedDataset) -> list[Dataset]:
    """Return a table, or those of linked ones, of which somebody holds a copy.

    Raises NoSuchRecipient if nobody does.
    """
    tables = [known] if isinstance(known, Dataset) else known.tables.values()
    released = [each for each in tables if each.holdings]
    if not released:
        raise NoSuchRecipient(
            f"no copy of {known.name!r} has been released, so there is nothing to state; release "
            "a copy first"
        )
    return released


def check_recipients(tables: Sequence[Dataset], names: Sequence[str]) -> None:
    """Raise NoSuchRecipient unless each of these holds a copy of one of the tables."""
    holders = {held.recipient for each in tables for held in each.holdings}
    if unknown := sorted(set(names) - holders):
        raise NoSuchRecipient(
            f"{unknown[0]!r} holds no copy; it was released to {', '.join(sorted(holders))}"
            f"{nearest(unknown[0], holders)}"
        )


def facts_of(
    vault: Vault,
    name: str,
    tables: Sequence[Dataset],
    measured: Mapping[str, MeasuredTable],
    *,
    only: Sequence[str] = (),
    coalitions: Sequence[Sequence[str]] = (),
    at: datetime,
    key: str,
    versions: Mapping[str, str],
) -> DossierFacts:
    """Return what a dossier states of a table, or of linked ones, at a time."""
    sharing = Sharing(vault, clock=lambda: at)
    heads = vault.heads()
    owners = [each.role for each in people(vault.records).values()]
    chosen = set(only)
    return DossierFacts(
        name=name,
        made_at=written(at),
        only=tuple(dict.fromkeys(only)),
        coalitions=tuple(tuple(each) for each in coalitions),
        holders=len({held.recipient for each in tables for held in each.holdings}),
        copies=tuple(
            _held(each, held, _terms(sharing, held))
            for each in tables
            for held in each.holdings
            if not chosen or held.recipient in chosen
        ),
        permissions=tuple(
            permission
            for each in tables
            for permission in _permissions(sharing, each, at)
            if not chosen or permission.recipient in {*chosen, ANYBODY, ANYBODY_KNOWN}
        ),
        tables=tuple(_table(each, measured[each.name], set(only), coalitions) for each in tables),
        heads={name: heads[name] for name in ("", *(each.name for each in tables))},
        roles={role: owners.count(role) for role in sorted(set(owners))},
        second_person_below=below_in(vault.records),
        key=key,
        versions=versions,
    )


def _terms(sharing: Sharing, held: Holding) -> Terms:
    """Return on which terms a copy is held: its own, and where it has none its recipient's."""
    try:
        return held.terms.beside(sharing.recipient(held.recipient).terms)
    except NoSuchRecipient:  # copies may be released to somebody the service does not know
        return held.terms


def _held(dataset: Dataset, held: Holding, terms: Terms) -> CopyHeld:
    return CopyHeld(
        table=dataset.name,
        recipient=held.recipient,
        privacy=dataset.privacy_of(held.spec.level),
        noise=figure(held.spec.level.noise),
        edition=held.spec.rows,
        format=held.spec.format,
        since=held.since,
        purpose=terms.purpose,
        contract=terms.contract,
        until=terms.until,
    )


def _permissions(sharing: Sharing, dataset: Dataset, at: datetime) -> Iterator[Permission]:
    """Yield what was granted of a table; the end of a recipient ends what they were granted."""
    for grant in sharing.grants(dataset=dataset.id):
        terms, state = grant.terms, grant.state(at)
        if grant.recipient not in (ANYBODY, ANYBODY_KNOWN):
            recipient = sharing.recipient(grant.recipient)
            terms = terms.beside(recipient.terms)
            state = recipient.state(at) if state == "live" else state
        yield Permission(
            table=dataset.name,
            recipient=grant.recipient,
            privacy=dataset.privacy_of(grant.spec.level),
            since=grant.at,
            state=state,
            purpose=terms.purpose,
            contract=terms.contract,
            until=terms.until,
        )


def _table(
    dataset: Dataset, measured: MeasuredTable, only: set[str], coalitions: Sequence[Sequence[str]]
) -> TableFacts:
    frozen, schema = dataset.frozen, dataset.frozen.schema
    holders: dict[Level, list[str]] = {}
    for held in dataset.holdings:
        names = holders.setdefault(held.spec.level, [])
        if held.recipient not in names and (not only or held.recipient in only):
            names.append(held.recipient)
    return TableFacts(
        name=dataset.name,
        id=dataset.id,
        rows=dataset.rows,
        registered_at=dataset.registered_at,
        closed=dataset.closed,
        editions=len(dataset.editions),
        order=schema.order,
        unit=tuple(schema.units),
        independent_rows=schema.independent_rows,
        persons=tuple(frozen.people.sentences(schema)) if frozen.people else (),
        min_count=schema.min_count,
        unrelated=len(dataset.entry.unrelated),
        highest=frozen.hidden.highest,
        columns=tuple(_column(column, schema, frozen.missing) for column in schema.columns),
        levels=tuple(
            _level(dataset, level, measured, tuple(names))
            for level, names in holders.items()
            if names
        ),
        groups=tuple(_groups(dataset, only, coalitions)),
        measured=measured,
    )


def _column(column: Column, schema: Schema, gaps: Sequence[str]) -> ColumnFacts:
    is_gap = column.hide_missing or column.name in gaps
    return ColumnFacts(
        name=column.released_as or column.name,
        type=column.type,
        what=_what(column, schema),
        scale=column.transform,
        gaps=("hidden" if column.hide_missing else "visible") if is_gap else None,
        means=column.describe,
    )


def _what(column: Column, schema: Schema) -> str:
    if column.role == DROPPED or not column.shown:
        return LEFT_OUT
    if column.role in (KEY, UNIT):
        return AS_IT_IS if column.as_is else PSEUDONYM
    return {PERTURBED: NOISE, CATEGORY: DRAWN, KEPT: AS_IT_IS, DERIVED: FOLLOWS}[column.role]


def _level(
    dataset: Dataset, level: Level, measured: MeasuredTable, recipients: tuple[str, ...]
) -> LevelRisk:
    seen = outlook_at(dataset.frozen, level)
    blind = {name: half_width(dataset.frozen, name, 1.0) or 0.0 for name in seen.within}
    found = measured.at(level)
    columns = []
    for name, hidden in seen.hidden.items():
        columns.append(
            ColumnRisk(
                column=name,
                hidden=_share(hidden),
                measured=found.hidden.get(name),
                joint=_share(seen.bayes[name]) if name in seen.bayes else None,
                within=figure(seen.within[name]) if name in seen.within else None,
                within_blind=figure(blind[name]) if name in blind else None,
                unit=seen.units.get(name),
                right=_share(seen.right[name]) if name in seen.right else None,
                right_blind=_share(seen.blind[name]) if name in seen.blind else None,
            )
        )
    return LevelRisk(
        privacy=dataset.privacy_of(level),
        noise=figure(level.noise),
        recipients=recipients,
        columns=tuple(columns),
        person=_person(dataset, level),
        stand_out=found.stand_out,
        mean_error=_share(seen.mean_error),
        regression_error=_share(seen.regression_error),
    )


def _groups(
    dataset: Dataset, only: set[str], coalitions: Sequence[Sequence[str]]
) -> Iterator[Pooling]:
    """Yield each recipient alone, the stated coalitions, those that are named, and everybody."""
    holders = list(dict.fromkeys(held.recipient for held in dataset.holdings))
    if len(holders) == 1:
        yield _group(dataset, holders, tuple(holders), everybody=True)
        return
    named = [name for name in holders if not only or name in only]
    wanted: list[tuple[str, ...]] = [(name,) for name in named]
    wanted += [tuple(n for n in holders if n in each) for each in coalitions]
    wanted += [tuple(named)] if only and len(named) > 1 else []
    for members in dict.fromkeys(each for each in wanted if each):
        yield _group(dataset, members, members)
    yield _group(dataset, holders, () if only else tuple(holders), everybody=True)


def _group(
    dataset: Dataset, members: Sequence[str], shown: tuple[str, ...], *, everybody: bool = False
) -> Pooling:
    found = dataset.coalition(members)
    hidden, independent = found.joint_privacy, found.independent_privacy
    return Pooling(
        members=shown,
        number=len(members),
        everybody=everybody,
        hidden=None if hidden is None else _share(hidden),
        alone=_share(found.best_privacy),
        independent=None if independent is None else _share(independent),
        person=_person(dataset, min(level for _, level in found.members)),
    )


def _person(dataset: Dataset, level: Level) -> PersonRisk:
    """Return what a copy at a level says about a person; of a coalition its least noisy one."""
    risks = dataset.risks_at(level)
    known = risks.linkage
    return PersonRisk(
        found=figure(known.linked) if known else None,
        low=figure(known.low) if known else None,
        high=figure(known.high) if known else None,
        worst=figure(known.worst) if known else None,
        among_ten=figure(known.among_ten) if known else None,
        bits=figure(risks.bits),
        person_bits=None if risks.person_bits is None else figure(risks.person_bits),
        person_rows=risks.person_rows,
    )


def _share(value: float) -> float:
    return round(float(value), 3)
