"""Linked tables: several tables of the same persons, registered and released together.

Each is a dataset of its own, called FAMILY.TABLE: it can be appended to, updated, audited and
released by itself. What they share is the noise of a person, one vector over all of them (see
spine/linked.py), its key, and the pseudonyms by which recipients join copies. A table that does not
name persons, such as airports beside flights, has noise by row as if it were alone.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from cornerwave.columns import Scale, Schema, listed, plain_type
from cornerwave.errors import (
    AlreadyRegistered,
    ColumnError,
    LevelError,
    VaultError,
    discreet,
    in_table,
    warn,
)
from cornerwave.ledger import NO_TERMS, Entry, Key, Ledger, Terms, check_name
from cornerwave.levels import LINEAR, Level, Privacy, asked_for
from cornerwave.reuse import TableMarks, related, repeated
from cornerwave.sources import Place, Progress, Source, silent
from cornerwave.spec import CopySpec
from cornerwave.spine.freeze import persons_of, rows_beside
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.linked import (
    Linked,
    TableOfPersons,
    linked_noise,
    noise_with_others,
    shared_grid,
)
from cornerwave.vault._dataset import Dataset, rename_all
from cornerwave.vault._linked_copies import FOLDER, specs_at, write_linked
from cornerwave.vault._release import Release
from cornerwave.vault._to_register import Registration, TableToRegister, in_family


def check_table_names(names: Collection[str]) -> None:
    """Raise VaultError unless tables can be called so."""
    if len(names) < 2:
        raise VaultError("linked tables are at least two; register a single one by itself")
    for name in names:
        check_name(name, what="a table's name")
        if "." in name or "/" in name or len(name) > 63:
            raise VaultError(f"a table's name has at most 63 characters, no . or /: {name!r}")


def register_tables(
    ledger: Ledger,
    key: Key,
    home: Path,
    name: str,
    sources: Mapping[str, tuple[Source, Schema]],
    how: Registration,
    *,
    orphans: bool = False,
) -> list[Entry]:
    """Register several tables of the same persons, all or none, and return their entries.

    Unless `orphans` may be, every person has a row in the table that has one row for each. A table
    that does not name persons is released with the others, its rows hidden as rows.
    """
    _check_units(sources)
    unrelated = tuple(ledger.dataset(each).id for each in how.unrelated)
    with ExitStack() as open_, discreet():
        tables = {
            table: open_.enter_context(TableToRegister(opened, decided, home, key))
            for table, (opened, decided) in sources.items()
        }
        persons = dict[str, TableOfPersons]()
        for table, each in tables.items():
            with in_table(table):
                each.survey(how)
                if each.decided.unit is not None:
                    persons[table] = persons_of(each.surveyor, each.surveyed)
        for table, scales in _shared_scales(tables, persons).items():
            with in_table(table):
                tables[table].survey(how, scales)
                persons[table] = persons_of(tables[table].surveyor, tables[table].surveyed)
        if not orphans:
            _check_orphans(persons, {table: t.decided for table, t in tables.items()})
        persons = _sharing(tables, persons)
        frozen = in_family(key, _frozen(tables, persons))
        entries = [
            each.entry(f"{name}.{table}", frozen[table], unrelated=unrelated)
            for table, each in tables.items()
        ]
        _check_repeats(dict(zip(tables, entries, strict=True)), tables, persons)
        ids = [each.id for each in entries]
        new = [replace(e, unrelated=(*unrelated, *(i for i in ids if i != e.id))) for e in entries]
        if how.dry_run:
            return [ledger.rehearse(each) for each in new]
        beside = [each.beside(frozen[table]) for table, each in tables.items()]
        there = ledger.register_all(list(zip(new, beside, strict=True)))
        if all(replace(e, macs={}) == n for e, n in zip(there, new, strict=True)):
            for each in tables.values():
                each.keys.publish()
        return there


def _check_units(sources: Mapping[str, tuple[Source, Schema]]) -> None:
    """Raise ColumnError unless some table has a unit, and all that have one type of it.

    Warns of tables whose rows are hidden as rows.
    """
    units = sorted({decided.unit for _, decided in sources.values() if decided.unit is not None})
    if not units:
        raise ColumnError(
            f"table {next(iter(sources))!r} has no unit, and no other table has: name the column "
            "that states whose row it is",
            use=("unit",),
        )
    kinds = dict[str, str]()
    for table, (opened, decided) in sources.items():
        if decided.nested:
            raise ColumnError(
                f"table {table!r} has two units, {listed(decided.nested)}, and linked tables share "
                "one; name the one that all tables have"
            )
        hiding = [name for name in decided.perturbed if decided.column(name).hide_missing]
        if hiding and decided.unit is not None:
            raise ColumnError(
                f"{listed(hiding)} in table {table!r}: hide_missing does not go with linked tables "
                "for numbers: what is drawn for a gap follows the columns of the table, not those "
                "of other tables. Let gaps be visible, fill them in before, or drop the column",
                use=("drop",),
            )
        if decided.unit is None:
            warn(
                f"{table!r} has no column {' or '.join(map(repr, units))}, so each of its rows is "
                "hidden as a row: if several rows belong to one person, they are not hidden "
                "together. Copies of it join by columns that are kept",
                stacklevel=5,
            )
            continue
        type_ = plain_type(opened.schema.field(decided.unit).type)
        kinds[table] = (
            "text" if "string" in str(type_) else "whole" if "int" in str(type_) else str(type_)
        )
    if len(set(kinds.values())) > 1:
        stated = ", ".join(
            f"{opened.schema.field(decided.unit or '').type} in {table!r}"
            for table, (opened, decided) in sources.items()
            if decided.unit is not None
        )
        raise ColumnError(f"the unit has not one type, so that tables cannot be joined: {stated}")


def _check_orphans(persons: Mapping[str, TableOfPersons], schemas: Mapping[str, Schema]) -> None:
    """Raise ColumnError for persons without a row in the table that has one row for each."""
    parents = [table for table, each in persons.items() if (each.sample.counts == 1).all()]
    for parent in parents[:1]:
        for table, each in persons.items():
            limit = min(each.sample.limit, persons[parent].sample.limit)
            here = each.persons[each.persons <= limit]
            lone = np.count_nonzero(~np.isin(here, persons[parent].persons))
            if lone:
                raise ColumnError(
                    f"{lone:,} of {len(here):,} persons looked at in {table!r} have no row in "
                    f"{parent!r}. Check that {schemas[table].unit!r} is the same in both; if such "
                    "persons may be, allow them",
                    use=("orphans",),
                )


def _shared_scales(
    tables: Mapping[str, TableToRegister], persons: Mapping[str, TableOfPersons]
) -> dict[str, dict[str, Scale]]:
    """Return the scales that tables take over of columns that are the same in another one.

    The ranks of a column are those among persons, where a table has one row for each: with one
    scale the column has one noise.
    """
    found = dict[str, dict[str, Scale]]()
    for name, having in _same_columns(tables, persons):
        scales = {table: tables[table].scale(name) for table in having}
        if {each.name for each in scales.values()} != {"rank"}:
            continue
        first = scales[_one_row_each(having, persons)]
        for table, scale in scales.items():
            if scale != first:
                found.setdefault(table, {})[name] = first
    return found


def _sharing(
    tables: Mapping[str, TableToRegister], persons: Mapping[str, TableOfPersons]
) -> dict[str, TableOfPersons]:
    """Return the tables with the numbers that are the same, person by person, in several.

    A number that is constant in each person, and has the same values and scale.
    """
    shared = {
        name
        for name, having in _same_columns(tables, persons)
        if len({tables[table].scale(name) for table in having}) == 1
    }
    return {table: replace(each, shared=frozenset(shared)) for table, each in persons.items()}


def _same_columns(
    tables: Mapping[str, TableToRegister], persons: Mapping[str, TableOfPersons]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the numbers that several tables have, the same in all rows of a person, and these."""
    for name in sorted({name for each in persons.values() for name in each.names}):
        having = [table for table, each in persons.items() if name in each.names]
        if len(having) > 1 and _is_same(name, [tables[table] for table in having]):
            yield name, having


def _is_same(name: str, tables: Sequence[TableToRegister]) -> bool:
    values = [each.surveyed.constants for each in tables]
    known = [each for each in values if each is not None and name in each.columns]
    if len(known) < len(tables) or any(name in each.varying for each in known):
        return False
    first, *others = (each.only([name]) for each in known)
    for other in others:
        first = first + other
    return not first.varying


def _frozen(
    tables: Mapping[str, TableToRegister], persons: Mapping[str, TableOfPersons]
) -> dict[str, Frozen]:
    """Fix all tables, with the noise of persons that they share."""
    noise, grid = linked_noise(persons), shared_grid(persons.values())
    noise_with = noise_with_others(persons, noise)
    rows = {
        table: rows_beside(each.surveyor, each.surveyed, each.rows.schema, noise[table])
        for table, each in tables.items()
        if table in persons
    }
    found = {}
    for table, each in tables.items():
        linked = None
        if table in persons:
            known = grid.keys() & set(persons[table].names)
            others = tuple(own.for_others(known) for name, own in rows.items() if name != table)
            linked = Linked(noise[table], grid, others, noise_with[table])
        with in_table(table):
            found[table] = each.frozen(linked)
    return _drawn_together(found, persons)


def _drawn_together(
    frozen: Mapping[str, Frozen], persons: Mapping[str, TableOfPersons]
) -> dict[str, Frozen]:
    """Return the tables with one spread of what they share: copies then show the same numbers.

    That of the table that has one row for each person, else of the first.
    """
    first = _one_row_each(list(persons), persons)
    known = dict[str, tuple[float, float]]()
    for table in (first, *persons):
        own = dict(zip(frozen[table].schema.perturbed, frozen[table].spreads, strict=True))
        known = {name: own[name] for name in own.keys() & persons[table].shared} | known
    return {
        table: replace(
            each,
            spreads=tuple(
                known.get(name, own) if table in persons else own
                for name, own in zip(each.schema.perturbed, each.spreads, strict=True)
            ),
        )
        for table, each in frozen.items()
    }


def _one_row_each(having: Sequence[str], persons: Mapping[str, TableOfPersons]) -> str:
    """Return the table that has one row for each person, else the first."""
    return next((t for t in having if (persons[t].sample.counts == 1).all()), having[0])


def _check_repeats(
    entries: Mapping[str, Entry],
    tables: Mapping[str, TableToRegister],
    persons: Mapping[str, TableOfPersons],
) -> None:
    """Raise AlreadyRegistered if two of the tables have a column in common, row by row.

    What is the same for all rows of a person has one noise, or one donor, in both.
    """
    marks = {table: TableMarks.from_json(entry.marks) for table, entry in entries.items()}
    for i, one in enumerate(marks):
        for two in list(marks)[:i]:
            if one in persons and two in persons:
                same = persons[one].shared | set(_same_categories(tables[one], tables[two]))
                mine = [column for column in marks[one].columns if column.name not in same]
                found = repeated(replace(marks[one], columns=tuple(mine), total=None), marks[two])
                if found is not None and found.column is not None:
                    raise _is_repeated(one, f"{found.column!r}", two, f"{found.of!r}")
                continue
            if (found := repeated(marks[one], marks[two])) is not None:
                what, of = (repr(each) if each else "rows" for each in (found.column, found.of))
                raise _is_repeated(one, what, two, of)
            if (follows := related(marks[one], marks[two])) is not None:
                raise _is_repeated(one, listed(follows.columns), two, listed(follows.of))


def _is_repeated(one: str, what: str, two: str, of: str) -> AlreadyRegistered:
    return AlreadyRegistered(
        f"{what} of table {one!r} holds values of {of} of table {two!r}, or functions of them, "
        "with independent noise in each row: recipients could average it. Drop one of the two; "
        "recipients have it by joining the tables"
    )


def _same_categories(one: TableToRegister, two: TableToRegister) -> Iterator[str]:
    """Yield the categories that are the same for all rows of a person in two tables."""
    mine, theirs = (each.surveyed.persons for each in (one, two))
    assert mine is not None, "linked tables have a unit"
    assert theirs is not None, "linked tables have a unit"
    _, a, b = np.intersect1d(
        mine.units[mine.starts], theirs.units[theirs.starts], return_indices=True
    )
    for name in {*one.decided.encoded} & {*two.decided.encoded}:
        x, y = (
            sample.cells[each.decided.encoded.index(name)]
            for each, sample in ((one, mine), (two, theirs))
        )
        ends = [f.reduceat(x, mine.starts)[a] for f in (np.minimum, np.maximum)]
        ends += [f.reduceat(y, theirs.starts)[b] for f in (np.minimum, np.maximum)]
        if all((each == ends[0]).all() for each in ends):
            yield name


class LinkedDataset:
    """Several tables of the same persons: released all at one level."""

    def __init__(self, name: str, tables: Mapping[str, Dataset]) -> None:
        self.name = name
        self.tables = dict(tables)
        for each in self.tables.values():
            each.siblings.update(self.tables)

    def __getitem__(self, table: str) -> Dataset:
        """Return one of the tables."""
        return self.tables[table]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    @property
    def unit(self) -> str:
        """The column that names persons, in the first table that has one."""
        units = [each.frozen.schema.unit for each in self.tables.values()]
        return next(unit for unit in units if unit is not None)

    def level_of(self, asked: Level | Privacy) -> Level:
        """Return the least level at which every table gives what is asked for."""
        return max(each.level_of(asked) for each in self.tables.values())

    def level_at_most(self, *, linked: float | None = None, bits: float | None = None) -> Level:
        """Return the least level at which copies tell no more of any table than this."""
        return max(each.level_at_most(linked=linked, bits=bits) for each in self.tables.values())

    def privacy_of(self, level: Level) -> float:
        """Return the share of the variance of every column of every table that copies hide."""
        return min(each.privacy_of(level) for each in self.tables.values())

    def release(
        self,
        *,
        to: str,
        privacy: float | None = None,
        noise: float | None = None,
        raw: bool = False,
        dictionary: bool = False,
        against: str = LINEAR,
        purpose: str = "",
        contract: str = "",
        until: str | datetime | None = None,
    ) -> "LinkedRelease":
        """Release a copy of all tables to a recipient, at exactly one of `privacy` and `noise`.

        `purpose`, `contract` and `until` state why they have it and until when.
        """
        asked = asked_for(noise=noise, privacy=privacy, against=against)
        terms = Terms.of(purpose=purpose, contract=contract, until=until)
        return self.release_at(to, asked, raw=raw, dictionary=dictionary, terms=terms)

    def release_at(
        self,
        to: str,
        asked: Level | Privacy,
        *,
        raw: bool = False,
        dictionary: bool = False,
        terms: Terms = NO_TERMS,
    ) -> "LinkedRelease":
        """Release a copy of all tables, at a level or at the least one that gives a privacy."""
        level = self.level_of(asked)
        made = {
            table: each.release_many([(to, level)], raw=raw, dictionary=dictionary, terms=terms)[0]
            for table, each in self.tables.items()
        }
        return LinkedRelease(self, to, made)

    def again(self, recipient: str) -> list["LinkedRelease"]:
        """Return the copies of all tables that a recipient holds, to be made again."""
        held = {
            table: {
                release.spec.part_of: (release, format_)
                for release, format_ in each.again(recipient)
                if release.spec.part_of is not None
            }
            for table, each in self.tables.items()
        }
        [first, *others] = held.values()
        return [
            LinkedRelease(
                self,
                recipient,
                {table: parts[copy][0] for table, parts in held.items()},
                kind=copy.kind,
                format=format_,
            )
            for copy, (_, format_) in first.items()
            if copy is not None and all(copy in parts for parts in others)
        ]

    def rename(self, name: str) -> None:
        """Give all tables another name. Raises AlreadyRegistered if it is taken."""
        check_name(name, what="a dataset's name")
        rename_all({f"{name}.{table}": each for table, each in self.tables.items()})
        self.name = name

    def close(self) -> None:
        """End the releases of all tables."""
        for each in self.tables.values():
            each.close()

    def __repr__(self) -> str:
        return f"LinkedDataset({self.name!r}, {listed(list(self.tables))})"


@dataclass(frozen=True)
class LinkedRelease:
    """A copy of all tables for one recipient: it appears whole, or not at all.

    One that is made again has the `kind` of place that it was written to, folder, zip, duckdb or
    schema, and the `format` of the files in it.
    """

    dataset: LinkedDataset
    recipient: str
    tables: Mapping[str, Release]
    kind: str | None = None
    format: str | None = None

    def __getitem__(self, table: str) -> Release:
        """Return the copy of one table."""
        return self.tables[table]

    @property
    def level(self) -> Level:
        """The level of its noise."""
        levels = {each.level for each in self.tables.values()}
        if len(levels) > 1:
            raise LevelError("the copies of linked tables have one level")
        return levels.pop()

    @property
    def privacy(self) -> float:
        """The share of the variance of every column of every table that the copy hides."""
        return self.dataset.privacy_of(self.level)

    def specs_at(self, place: Place) -> dict[str, CopySpec]:
        """Return what the ledger states of each table once the copy is written to a place."""
        return specs_at(self.tables, place)

    def write(
        self,
        path: str | Place,
        *,
        format: str | None = None,
        force: bool = False,
        progress: Progress = silent,
    ) -> Place:
        """Write the copy to a new folder, or to a .zip of CSV files or a .duckdb file.

        In PostgreSQL it is a schema, postgresql://HOST/DATABASE#SCHEMA. The files of a folder have
        the `format` parquet (if none is given), csv, csv.gz, arrow, xlsx, dta or sav. By
        `force` a copy that is there is replaced in one step. Raises OutputExists unless
        `force`, SourceChanged if a table is not the registered one; then nothing appears.
        """
        format = format or (self.format if self.kind == FOLDER else None) or "parquet"
        return write_linked(self.tables, path, format=format, force=force, progress=progress)
