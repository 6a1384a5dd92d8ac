"""What a table of the file needs: to be registered, or new editions; and where the two differ.

An edition of the file is one of the ledger if it lies where that did, or, after it was moved, if
its rows have that edition's fingerprint. New ones follow those that are there.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from cornerwave.choices import Choices, ReadingSettings, toml_text
from cornerwave.columns import decide, listed, settled
from cornerwave.editions import UPDATED, Edition
from cornerwave.errors import spelled
from cornerwave.project._actions import NEW, Action, Findings, PlanLine
from cornerwave.project._project_file import StatedEdition, StatedPlace, StatedTable, is_there
from cornerwave.schema_file import (
    InlineSchema,
    column_keys,
    read_choices,
    read_linked,
    schema_reading,
    table_keys,
)
from cornerwave.sources import Place, Progress, place_of, resolved
from cornerwave.vault import Dataset, LinkedDataset, Registration, Vault

WITHOUT_MEANING = ("few_rows",)
"""Choices that change nothing once a table is registered."""


@dataclass
class TableOfProject:
    """A table of the file, and what the vault has of it: nothing until it is registered."""

    stated: StatedTable
    vault: Vault
    recipients: tuple[str, ...] = ()
    """The recipients of the file: others that it names stand for anybody."""
    registered: Dataset | LinkedDataset | None = None
    is_changing: bool = False
    """Whether it will have another edition before its copies are made."""

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self.stated.name

    @property
    def known(self) -> Dataset | LinkedDataset:
        """What the vault has of it, once it is registered."""
        assert self.registered is not None, "actions come in order"
        return self.registered

    @property
    def members(self) -> dict[str, Dataset]:
        """The tables that are registered, by name; a single one by ''."""
        if isinstance(self.registered, LinkedDataset):
            return dict(self.registered.tables)
        return {} if self.registered is None else {"": self.registered}

    def register(self, progress: Progress, *, dry_run: bool = False) -> None:
        """Register it."""
        stated = self.stated
        how = Registration(
            Choices(),
            schema=stated.schema,
            unrelated=stated.unrelated,
            dry_run=dry_run,
            progress=progress,
        )
        places = {table: each.place for table, each in stated.sources.items()}
        if stated.is_linked:
            made: Dataset | LinkedDataset
            made = self.vault.register_linked_as(stated.name, places, how)
        else:
            made = self.vault.register_as(stated.name, places[""], how)
        self.registered = None if dry_run else made

    def add(self, edition: StatedEdition, progress: Progress) -> None:
        """Append new rows, or update the table."""
        dataset = self.members[edition.table]
        if edition.kind == UPDATED:
            place = edition.at.place
            dataset.update(place, advancing=edition.advancing, progress=progress)
        else:
            dataset.append(edition.at.place, progress=progress)


def plan_table(
    table: TableOfProject,
    found: Findings,
    names: Collection[str],
    *,
    look: bool,
    progress: Progress,
) -> None:
    """Find what a table needs, and open what the vault has of it.

    `names` are those of the vault's datasets. Unless `look`, rows are read only of tables that lie
    elsewhere than they did.
    """
    stated, vault = table.stated, table.vault
    if schema_is_missing(stated):
        found.refuse(stated.name, f"there is no schema file {stated.schema}")
        return
    there = stated.name in names or vault.has_linked(stated.name)
    if there and stated.is_linked != vault.has_linked(stated.name):
        what = "one table has" if stated.is_linked else "several linked tables have"
        found.refuse(
            stated.name,
            f"{what} this name in the vault. State it as it is registered, or give these another "
            "name",
        )
    elif there:
        with found.refusing(stated.name):
            _compare(table, found, look=look, progress=progress)
    else:
        _plan_new(table, found)


def schema_is_missing(stated: StatedTable) -> bool:
    """Whether a table is to have the choices of a file that is not there."""
    return isinstance(stated.schema, Path) and not is_there(stated.schema)


def _plan_new(table: TableOfProject, found: Findings) -> None:
    stated = table.stated
    places = {stated.dataset_name(name): at for name, at in stated.sources.items()}
    added = {stated.dataset_name(each.table): each.at for each in stated.editions}
    for name, at in [*places.items(), *added.items()]:
        if at.is_missing:
            found.refuse(name, f"there is no {at.written}")
    sources = ", ".join(
        f"{name}={at.written}" if name else at.written for name, at in stated.sources.items()
    )
    line = PlanLine(
        NEW,
        f"register {stated.name}: {sources}{_by(stated)}",
        {
            "action": "register",
            "table": stated.name,
            "sources": {name: at.written for name, at in stated.sources.items()},
        },
    )
    rehearse = partial(table.register, dry_run=True)
    found.actions.append(Action((line,), table.register, rehearse, stated.name))
    for name in stated.sources:
        own = [each for each in stated.editions if each.table == name]
        _plan_editions(table, list(enumerate(own, start=2)), found)


def _by(stated: StatedTable) -> str:
    if isinstance(stated.schema, InlineSchema):
        return ", as this file states"
    return "" if stated.schema is None else f", by {Path(stated.schema).name}"


def _plan_editions(
    table: TableOfProject, editions: Sequence[tuple[int, StatedEdition]], found: Findings
) -> None:
    for number, each in editions:
        name = table.stated.dataset_name(each.table)
        act = "update" if each.kind == UPDATED else "append"
        line = PlanLine(
            NEW,
            f"{act} {name}: {each.at.written}, edition {number}",
            {"action": act, "table": name, "source": each.at.written, "edition": number},
        )
        found.actions.append(Action((line,), partial(table.add, each), table=table.name))
        table.is_changing = True


# --------------------------------------------------------------------------------------------------
# A table that is registered: its choices, its rows, its editions.


def _compare(table: TableOfProject, found: Findings, *, look: bool, progress: Progress) -> None:
    stated, refused = table.stated, len(found.cannot)
    opened = table.vault.linked(stated.name) if stated.is_linked else None
    members = opened.tables if opened else {"": table.vault.dataset(stated.name)}
    if set(members) != set(stated.sources):
        differ = listed(sorted(set(members) ^ set(stated.sources)))
        found.refuse(
            stated.name,
            f"the registered tables and those of the file differ in {differ}. Linked tables are "
            "registered together: restore the list, or register all under another name",
        )
        return
    moved = dict[str, list[StatedPlace]]()
    for name, dataset in members.items():
        for difference in schema_differences(dataset, stated, name):
            found.refuse(dataset.name, f"{difference}. {_remedy(dataset)}")
        own = [each for each in stated.editions if each.table == name]
        pairs = _paired(dataset, stated.sources[name], own, found)
        places = _check_rows(dataset, pairs.there, found, look=look, progress=progress)
        if places:
            moved[name] = places
        last = len(dataset.editions)
        _plan_editions(table, list(enumerate(pairs.new, start=last + 1)), found)
    if len(found.cannot) > refused:
        return
    given = {name: [each.place for each in places] for name, places in moved.items()}
    if opened:
        table.registered = table.vault.linked(stated.name, sources=given) if given else opened
    else:
        table.registered = table.vault.dataset(stated.name, source=given.get(""))


def _remedy(dataset: Dataset) -> str:
    if dataset.holdings:
        return "What registration fixed cannot change; restore it in the file"
    return (
        "What registration fixed cannot change; restore it in the file, or, as no copy was "
        "released, unregister the table and run again"
    )


@dataclass
class _PairedEditions:
    """The editions of the file that the ledger has, by number, and those that it has not."""

    there: dict[int, StatedPlace]
    new: list[StatedEdition] = field(default_factory=list)


def _paired(
    dataset: Dataset, source: StatedPlace, stated: Sequence[StatedEdition], found: Findings
) -> _PairedEditions:
    known, pairs, last = dataset.editions, _PairedEditions({1: source}), 1
    named = {resolved(each.at.place) for each in stated}
    for each in stated:
        number = _number_of(dataset, each, known[last:], named)
        if number is not None and pairs.new:
            found.refuse(
                dataset.name,
                f"edition {number}, {each.at.written}, follows {pairs.new[0].at.written}, which is "
                "new. State editions in the order in which they came",
            )
        if number is not None:
            pairs.there[number], last = each.at, number
        else:
            pairs.new.append(each)
            if each.at.is_missing:
                found.refuse(dataset.name, f"there is no {each.at.written}")
    for edition in known[known[-1].begins - 1 :]:  # those before are no part of the table any more
        if edition.number not in pairs.there:
            act = "update" if edition.kind == UPDATED else "append"
            found.refuse(
                dataset.name,
                f"the vault has edition {edition.number}, {edition.kind} from {edition.source}, "
                f"and the file has not. State it: a [[table.edition]] with {act}",
            )
    return pairs


def _number_of(
    dataset: Dataset, stated: StatedEdition, known: Sequence[Edition], named: Collection[Place]
) -> int | None:
    """Return which of some editions a stated one is: by its place, or by its rows if it moved."""
    alike = [each for each in known if each.kind == stated.kind]
    lay = {each.number: resolved(place_of(each.source)) for each in alike if each.source}
    here = resolved(stated.at.place)
    for number, place in lay.items():
        if place == here:
            return number
    for each in alike:
        if lay.get(each.number) not in named and not stated.at.is_missing:
            return each.number if dataset.is_edition(each.number, stated.at.place) else None
    return None


def _check_rows(
    dataset: Dataset,
    pairs: Mapping[int, StatedPlace],
    found: Findings,
    *,
    look: bool,
    progress: Progress,
) -> list[StatedPlace]:
    """Refuse parts of the last edition with other rows; return all parts if some were moved."""
    last = dataset.editions[-1]
    parts = {number: at for number, at in pairs.items() if number >= last.begins}
    moved = False
    for number, at in parts.items():
        edition = dataset.editions[number - 1]
        is_elsewhere = edition.source is None or resolved(at.place) != resolved(
            place_of(edition.source)
        )
        moved = moved or is_elsewhere
        if at.is_missing and (look or is_elsewhere):
            found.refuse(dataset.name, f"there is no {at.written}; restore it, or state its place")
        elif (look or is_elsewhere) and not dataset.is_edition(number, at.place, progress=progress):
            which = "was registered" if number == 1 else f"is edition {number}"
            found.refuse(
                dataset.name,
                f"{at.written} has other rows than what {which}. Restore it, and state its new "
                "rows as a [[table.edition]] of their own: append or update",
            )
    whole = all(n in parts for n in range(last.begins, last.number + 1))
    return list(parts.values()) if moved and whole else []


def schema_differences(dataset: Dataset, stated: StatedTable, table: str) -> Iterator[str]:
    """Yield how the choices of the file differ from those that are registered."""
    frozen, choices, reading = dataset.frozen, Choices(), None
    names, schema = frozen.source_types.names, stated.schema
    if schema is not None and table:
        own = read_linked(schema, list(stated.sources))[table]
        choices, reading = own.choices(names), own.reading
    elif schema is not None:
        choices, reading = read_choices(schema, names), schema_reading(schema)
    decided = settled(decide(frozen.source_types, choices))
    here, there = dict(table_keys(decided)), dict(table_keys(frozen.schema))
    yield from _differences("", here, there)
    for column, registered in zip(decided.columns, frozen.schema.columns, strict=True):
        where = f"{spelled(column.name)}: "
        yield from _differences(where, dict(column_keys(column)), dict(column_keys(registered)))
    if reading is not None and frozen.reading is not None:
        yield from _reading_differences(reading.for_columns(names), frozen.reading)


def _reading_differences(here: ReadingSettings, there: ReadingSettings) -> Iterator[str]:
    yield from _differences(
        "reading, ",
        {name: getattr(here, name) for name in here.stated},
        {name: getattr(there, name) for name in here.stated},
    )


def _differences(
    where: str, here: Mapping[str, object], there: Mapping[str, object]
) -> Iterator[str]:
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key) and key not in WITHOUT_MEANING:
            values = [_written(known.get(key)) for known in (there, here)]
            yield f"{where}{key} is {values[0]} in the vault and {values[1]} in the file"


def _written(value: object) -> str:
    if value is None:
        return "not stated"
    return str(dict(value)) if isinstance(value, Mapping) else toml_text(value)
