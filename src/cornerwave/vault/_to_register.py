"""A table on its way into the ledger: read, surveyed, fixed, and then one entry.

    read_table ── survey ── frozen ── entry, with what is kept beside it

Linked tables are all surveyed before the first of them is fixed.
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from cornerwave.choices import Choices, ReadingSettings
from cornerwave.columns import (
    Categories,
    Scale,
    Schema,
    check_rows,
    chosen_in,
    decide,
    settled,
    warn_of,
)
from cornerwave.document import count
from cornerwave.engines import opened_frame, survey_source
from cornerwave.errors import ColumnError, in_table, warn
from cornerwave.ledger import Entry, Key
from cornerwave.risks import LinkageCurve
from cornerwave.schema_file import ALONE, SchemaPlace, read_choices, read_linked, schema_reading
from cornerwave.sources import Progress, Source, open_source, silent
from cornerwave.spine.freeze import freeze
from cornerwave.spine.frozen import Frozen, TableFamily
from cornerwave.spine.linked import Linked
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import Survey, Surveyor
from cornerwave.vault._editions import kept_beside
from cornerwave.vault._parts import KeptKeys


@dataclass(frozen=True)
class Registration:
    """How a table, or several linked ones, are registered.

    By choices, or by those in a `schema` file; not compared with the datasets in `unrelated`; a
    `dry_run` records nothing; `spark` is the session of a cluster that reads the rows. The dataset
    of the name `instead`, of which nothing was released, is forgotten in the same transaction.
    """

    choices: Choices
    schema: SchemaPlace | None = None
    reading: ReadingSettings | None = None
    unrelated: Sequence[str] = ()
    instead: str = ""
    dry_run: bool = False
    spark: Any = None
    progress: Progress = silent


def read_table(source: Any, how: Registration) -> tuple[Source, Schema]:
    """Open a table, and decide its columns by choices, or by those in a schema file."""
    choices, schema, reading = how.choices, how.schema, how.reading
    if schema is not None:
        reading = schema_reading(schema, reading)
    opened = open_source(opened_frame(source), reading=reading)
    if schema is not None:
        if choices != Choices():
            raise ColumnError(ALONE)
        choices = read_choices(schema, opened.schema.names)
    return opened, decided_by(choices, opened)


def read_tables(
    tables: Mapping[str, object], how: Registration
) -> dict[str, tuple[Source, Schema]]:
    """Open linked tables, and decide the columns of each."""
    choices, schema, reading = how.choices, how.schema, how.reading
    tables_read = dict[str, tuple[Source, Schema]]()
    if schema is not None:
        if choices != Choices() or (reading is not None and reading.stated):
            raise ColumnError(ALONE)
        stated = read_linked(schema, list(tables))
        for table, source in tables.items():
            table_choices = stated[table]
            opened = open_source(opened_frame(source), reading=table_choices.reading)
            with in_table(table):
                tables_read[table] = (
                    opened,
                    decided_by(table_choices.choices(opened.schema.names), opened),
                )
        return tables_read
    opened_all = {t: open_source(opened_frame(s), reading=reading) for t, s in tables.items()}
    chosen = choices.for_tables({t: opened.schema.names for t, opened in opened_all.items()})
    for table, opened in opened_all.items():
        with in_table(table):
            tables_read[table] = opened, decided_by(chosen[table], opened)
    return tables_read


def decided_by(choices: Choices, opened: Source) -> Schema:
    """Return what happens to the columns of a source."""
    decided = settled(decide(opened.schema, choices))
    warn_of(opened.notes, decided, opened.remarks)
    if opened.descriptions and not chosen_in(decided).descriptions:
        warn(
            f"the file states what {count(len(opened.descriptions), 'column')} mean; copies carry "
            "that only of columns that you describe: inspect drafts the descriptions",
            stacklevel=4,
        )
    return decided


class TableToRegister:
    """A table that is being registered: its rows stay as they are until it is recorded."""

    def __init__(self, opened: Source, decided: Schema, home: Path, key: Key) -> None:
        self.opened, self.decided, self._key = opened, decided, key
        self.keys = KeptKeys(home, key)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(self.keys)
            self.rows = opening.enter_context(self.opened.snapshot(self.decided.key))
            self._open = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def survey(self, how: Registration, scales: Mapping[str, Scale] | None = None) -> None:
        """Read the whole table; `scales` are those of columns that a linked table has, too."""
        self.surveyor: Surveyor
        self.surveyed: Survey
        self.surveyor, self.surveyed = survey_source(
            self.rows,
            self.decided,
            RowSecrets.of(self._key.derive),
            keep_keys=self.keys.write,
            spark=how.spark,
            progress=how.progress,
            scales=scales,
        )
        check_rows(self.surveyed.moments.rows, self.decided)

    def scale(self, name: str) -> Scale:
        """Return the scale of a column of numbers."""
        return self.surveyor.scales[self.decided.perturbed.index(name)]

    def frozen(self, linked: Linked | None = None) -> Frozen:
        """Fix what registration fixes, as one of several tables if it is linked."""
        from cornerwave.spine.adversary import measure_adversary  # few commands need it
        from cornerwave.spine.at_risk import measure_linkage_of

        frozen = freeze(self.surveyor, self.surveyed, self.rows.schema, linked)
        codes = labelled(frozen.categories, self.opened.codes)
        frozen = replace(frozen, reading=self.rows.reading, label_codes=codes)
        joint = measure_adversary(frozen, self.surveyor, self.surveyed)
        # who knows a person knows the rows in all linked tables: one alone would say too little
        is_alone = linked is None or frozen.persons is None
        linkage = (
            measure_linkage_of(frozen, self.surveyor, self.surveyed) if is_alone else LinkageCurve()
        )
        return replace(frozen, joint=joint, linkage=linkage)

    def entry(self, name: str, frozen: Frozen, *, unrelated: tuple[str, ...] = ()) -> Entry:
        """Return what the ledger states of the table."""
        return Entry(
            id=dataset_id(self._key, frozen),
            name=name,
            source=str(self.opened.path) if self.opened.path else None,
            registered_at=datetime.now(UTC).isoformat(timespec="seconds"),
            frozen=frozen.to_json(),
            marks=self.surveyor.marks(self.surveyed).to_json(),
            keys=self.keys.run,
            unrelated=unrelated,
        )

    def beside(self, frozen: Frozen) -> dict[str, bytes]:
        """Return what is kept beside the entry."""
        return kept_beside(self.surveyor, self.surveyed, frozen)


def labelled(
    categories: Sequence[Categories], codes: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    """Return the numbers of the values that copies can show, of columns that are labels.

    Those of other values, which no row holds or too few, are left out; a pool gets the next one.
    """
    found = {}
    for group in categories:
        for name, values in zip(group.columns, group.values, strict=True):
            if known := codes.get(name):
                shown = values.to_pylist()
                numbers = {label: known[label] for label in shown if label in known}
                free = itertools.count(int(max(known.values())) + 1)
                numbers |= {label: next(free) for label in shown if label not in known}
                found[name] = numbers
    return found


def dataset_id(key: Key, frozen: Frozen) -> str:
    """Return a dataset's id: a keyed hash of all that its noise depends on."""
    return key.derive("identity", hashlib.sha256(frozen.identity()).digest())[:16].hex()


def in_family(key: Key, tables: dict[str, Frozen]) -> dict[str, Frozen]:
    """Return linked tables with the id of all: the key of their persons is derived from it."""
    whole = hashlib.sha256()
    for name, frozen in tables.items():
        whole.update(hashlib.sha256(name.encode()).digest())
        whole.update(hashlib.sha256(frozen.identity()).digest())
    family = key.derive("family", whole.digest())[:16].hex()
    return {
        name: replace(frozen, family=TableFamily(family, name, tuple(tables)))
        for name, frozen in tables.items()
    }
