"""The next edition of a table: appended rows, or a new state of the whole table.

append   batch ── survey ── same columns? new keys? new values? drift? ── chain: an edition

update   old ── is it the last edition? ──┐
                                          ├── came, went, changed ── rules ── chain: an edition
         new ── the same columns? drift? ─┘
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerwave import sizes
from cornerwave.arrays import Flags, Floats, Words
from cornerwave.columns import Schema, listed
from cornerwave.editions import (
    APPENDED,
    AllPersons,
    AllRows,
    Edition,
    Moved,
    Moves,
    Ranges,
    RowChanges,
    accepted_moves,
    check_all_persons,
    check_all_rows,
    check_moves,
    hidden_after,
    measure_drift,
    next_edition,
    shows_something,
    updated_edition,
)
from cornerwave.engines import (
    BatchSurveyor,
    batch_order,
    check_order,
    constants_of,
    engine_for,
    is_here,
    survey_batch,
)
from cornerwave.engines.differences import Differing, DifferingRows, RowWords, compare
from cornerwave.engines.sorted_keys import SortedKeys, check_once
from cornerwave.errors import AlreadyRegistered, ColumnError, SourceChanged, SourceError, discreet
from cornerwave.ledger import Key, Ledger, work_folder
from cornerwave.noise import (
    ChangedRows,
    Changes,
    MovedCells,
    changed_cells,
    for_persons,
    moves_key,
    returning_transitions,
    transitions,
)
from cornerwave.privacy import FirstRows, Unit, UnitRows
from cornerwave.reuse import TableMarks, grown
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.missing import fill_missing
from cornerwave.spine.person_sample import PersonValues
from cornerwave.spine.recipe import NoiseSecrets
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.sample import rank_draws
from cornerwave.spine.survey import Survey, Surveyor
from cornerwave.vault._parts import WORK, KeptKeys

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset

# --------------------------------------------------------------------------------------------------
# An edition enters the chain: drift is measured, then all is recorded at once.
#
# Until the line stands in the chain, nothing has happened; after it, all has: the file of keys
# that is put in its place last can be made again from the rows.


SPREAD = "spread"
"""The name beside the chain of what is known about all rows that came since registration."""


UNITS = "units"
"""The name of some rows of all editions, by which rows that belong to the same units are known."""


FIRST = "first"
"""The name of the first rows of editions, by which rows that come in their order are known."""


PERSONS = "persons"
"""The name of the values that are constant in each person, by which to see that they stay so."""


PEOPLE = "people"
"""The name of some persons of all editions, by which to see what copies hide of them."""


ROWS = "rows"
"""The name of some rows of all editions, by which to see what they reveal together."""


@dataclass(frozen=True)
class Brought:
    """What is known about the rows of an edition that were not there before, or not like this.

    `newcomers` are those that are not there for another value: by default all. Categories that
    are `advancing` may move by a rule.
    """

    surveyor: Surveyor
    survey: Survey
    ranges: Ranges
    newcomers: Survey | None = None
    advancing: Collection[str] = ()


def record_edition(
    dataset: "Dataset",
    edition: Edition,
    source: Source,
    brought: Brought,
    keys: KeptKeys,
    ledger: Ledger,
    attachments: Mapping[str, bytes] | None = None,
) -> Edition:
    """Record the next edition, and return it as the dataset has it.

    Raises Drifted, and ColumnError if rows that come belong to units that are there.
    """
    survey = brought.survey
    earlier = ledger.attachment(dataset.entry, SPREAD)
    drift, since = measure_drift(
        dataset.registered,
        survey,
        brought.ranges,
        earlier,
        surveyor=brought.surveyor,
        came=brought.newcomers,
    )
    check_moves(edition, dataset.editions, brought.advancing)
    of_batch = brought.surveyor.marks(survey).to_json()
    kept = {**(attachments or {}), **_compared(dataset, edition, brought, of_batch, ledger)}
    came = brought.newcomers or survey
    if came.persons is not None and (content := ledger.attachment(dataset.entry, PEOPLE)):
        people, less = check_all_persons(
            dataset.registered, brought.surveyor, AllPersons.read(content), came
        )
        drift, kept[PEOPLE] = replace(drift, persons=less), people.to_bytes()
    now, *before = ledger.marks(dataset.entry)
    entry = ledger.add_edition(
        dataset.id,
        replace(edition, keys=keys.run, drift=drift).line(),
        of_batch=of_batch,
        marks=[grown(TableMarks.from_json(now), survey.marks).to_json(), *before],
        attachments={SPREAD: since.to_bytes(), **kept},
        is_new=edition.kind == APPENDED,
    )
    keys.publish()
    return dataset.took(entry, source)


def _compared(
    dataset: "Dataset", edition: Edition, brought: Brought, of_batch: str, ledger: Ledger
) -> dict[str, bytes]:
    """Compare rows that come with those that are there, and return what is kept of all of them.

    Raises ColumnError or Drifted for rows that were appended and belong to these.
    """
    survey, entry, kept = brought.survey, dataset.entry, dict[str, bytes]()
    is_new = edition.kind == APPENDED
    if (content := ledger.attachment(entry, UNITS)) is not None:
        there = UnitRows.read(content)
        new = _sampled(brought.newcomers or survey, there)
        if is_new:
            meetings = there.meetings(new, brought.surveyor.unit_columns)
            if meetings and meetings[0].is_repeat:
                ledger.check_rows(entry, of_batch)  # the same rows again: a clearer message
            _check_meetings(meetings)
        kept[UNITS] = (there + new).fewest.to_bytes()
    if is_new and (content := ledger.attachment(entry, FIRST)) is not None:
        rows = survey.first.ordered
        first = FirstRows.read(content).with_edition(rows.numbers, rows.cells)
        _check_first(first, dataset.frozen.schema)
        kept[FIRST] = first.to_bytes()
    if is_new and (content := ledger.attachment(entry, ROWS)) is not None:
        known = AllRows.read(content).with_rows(survey)
        if known.are_many_more:
            check_all_rows(dataset.frozen, brought.surveyor, known, survey)
            known = known.as_measured
        kept[ROWS] = known.to_bytes()
    if survey.constants is not None and (content := ledger.attachment(entry, PERSONS)) is not None:
        kept[PERSONS] = _still_constant(content, survey.constants).to_bytes()
    return kept


def _still_constant(content: bytes, new: PersonValues) -> PersonValues:
    """Return the constants of old and new rows. Raises ColumnError if one is none any more."""
    known = PersonValues.read(content).only(new.columns)
    both = known + new
    if both.varying:
        raise ColumnError(
            f"{listed(sorted(both.varying))}: so far the same in all rows of a person, so that "
            "copies have the same noise in all of them, and a change would lie bare; new rows have "
            "another value. Leave such rows out, or register the table anew"
        )
    return both


def kept_beside(surveyor: Surveyor, survey: Survey, frozen: Frozen) -> dict[str, bytes]:
    """Return what is kept beside the chain at registration."""
    kept = {}
    if surveyor.unit_columns.count and surveyor.schema.unit is None:
        kept[UNITS] = _sampled(survey).fewest.to_bytes()
    if surveyor.schema.order is None:
        rows = survey.first.ordered
        kept[FIRST] = FirstRows.of(rows.numbers, rows.cells).to_bytes()
    if survey.constants is not None:
        kept[PERSONS] = survey.constants.to_bytes()
    if survey.persons is not None:
        kept[PEOPLE] = AllPersons.of(survey, surveyor.schema).to_bytes()
    if shows_something(frozen):
        kept[ROWS] = AllRows.of(survey, surveyor.schema).to_bytes()
    return kept


def _sampled(survey: Survey, like: UnitRows | None = None) -> UnitRows:
    some, rows = survey.units.ordered, survey.moments.rows
    return UnitRows.of(some.hashes, some.numbers, some.cells, rows=rows, like=like)


def _check_meetings(units: Sequence[Unit]) -> None:
    """Raise ColumnError if rows that come belong to units that are there."""
    if units:
        raise ColumnError(
            f"new rows belong to rows that are there: {units[0]}. Update these rows instead of "
            "appending more, or register the table anew and say that its rows are independent"
        )


def _check_first(rows: FirstRows, schema: Schema) -> None:
    """Raise ColumnError if rows that come stand in the order of rows that are there."""
    categories = [name for names in schema.categories for name in names]
    for revealed in rows.revealed(schema.perturbed, categories):
        raise ColumnError(
            "new rows come in the order of rows that are in the table already, so that copies of "
            f"all editions show which belong together: {revealed}. If they are new values of these "
            "rows, update the table instead of appending them; else put them into a random order"
        )


def grow(
    dataset: "Dataset",
    batch: Any,
    ledger: Ledger,
    key: Key,
    *,
    spark: Any = None,
    progress: Progress = silent,
) -> Edition:
    """Append new rows, and return the edition that they make."""
    dataset.check_open()
    frozen, source = dataset.frozen, dataset.parts.batch(batch)
    ranges = Ranges(frozen)
    with KeptKeys(dataset.home, key) as keys, discreet():
        secrets, types = RowSecrets.of(key.derive), frozen.source_types
        surveyor = BatchSurveyor(frozen.schema, frozen.scales, secrets, source.first)
        engine = engine_for(
            source,
            frozen.schema,
            types,
            secrets,
            keep_keys=keys.write,
            spark=spark,
            at_once=sizes.BATCH_ROWS,
        )
        constant = frozen.persons.named(frozen.schema.perturbed) if frozen.persons else ()
        survey = survey_batch(engine, surveyor, ranges, constant=constant, progress=progress)
        edition = next_edition(
            dataset.editions,
            survey.fingerprint,
            source=str(source.path) if source.path else None,
            content=content_of(survey, key),
        )
        _check_once(dataset, edition)
        keys.check_new(dataset)
        brought = Brought(surveyor, survey, ranges)
        return record_edition(dataset, edition, source, brought, keys, ledger)


def content_of(survey: Survey, key: Key) -> str:
    """Return what recognises these rows if they come again, whatever their order and place."""
    learned = survey.marks
    parts = (learned.present.astype("<i8"), learned.sums.astype("<u8"), learned.row_sum)
    return key.derive("batch", b"".join(part.tobytes() for part in parts))[:16].hex()


def _check_once(dataset: "Dataset", edition: Edition) -> None:
    """Raise AlreadyRegistered for a batch that was appended before."""
    for known in dataset.editions:
        if known.content == edition.content:
            raise AlreadyRegistered(
                f"this batch was appended to {dataset.name!r} already, as edition {known.number}; "
                "nothing was changed"
            )


# --------------------------------------------------------------------------------------------------
# A new state of the whole table: compared with the last one, row by row, by the keys.
#
# The rules state what the noise of changed rows becomes; which rows changed is kept beside the
# chain.


def changes_name(edition: int) -> str:
    """Return what the changes of an edition are called beside the chain."""
    return f"changes:{edition}"


def moves_name(edition: int) -> str:
    """Return what the rows in which an edition changed a category are called beside the chain."""
    return f"moves:{edition}"


def update_table(
    dataset: "Dataset",
    new: Any,
    old: Any,
    ledger: Ledger,
    key: Key,
    own_key: Key,
    *,
    advancing: Collection[str] = (),
    progress: Progress = silent,
) -> Edition:
    """Record a new edition of a table, and return it."""
    frozen, last = dataset.frozen, dataset.editions[-1]
    dataset.check_open()
    accepted = accepted_moves(advancing, frozen.categories)
    _check_persons_can_change(dataset)
    if frozen.schema.key is None:
        raise ColumnError(
            f"{dataset.name!r} has no key column, so nobody can say which row of the new table is "
            "which of the old; append new rows, or register with a key"
        )
    source = replace(dataset.parts.batch(new), first=0)
    before = dataset.source if old is None else dataset.parts.of_last(old)
    if not (is_here(source) and is_here(before)):
        raise SourceError(
            "two editions are compared on one machine, which cannot read a frame of Spark; give "
            "both as files",
            use=("old",),
        )
    secrets = RowSecrets.of(key.derive)
    with (
        KeptKeys(dataset.home, key) as keys,
        work_folder(dataset.home / WORK) as folder,
        discreet(),
        SortedKeys(frozen.schema.key, folder) as came,
    ):
        order = batch_order(frozen.schema)
        compared = compare(before, source, frozen.schema, secrets, folder, order, progress)
        _check_old(dataset, str(compared.old))
        if str(compared.new) == last.whole:
            raise AlreadyRegistered(
                f"this is edition {last.number} of {dataset.name!r} already; nothing was changed"
            )
        check_order(order, frozen.schema, is_batch=True)
        changed = _Changed(dataset, secrets, NoiseSecrets.of(own_key.derive))
        ranges, surveyor = Ranges(frozen), BatchSurveyor(frozen.schema, frozen.scales, secrets)
        with DifferingRows(surveyor, folder, progress) as differing:
            differing.read_old(before, compared.alone[0])
            moved, newcomers = differing.survey_new(source, compared.alone[1], ranges.look)
            for differs in differing.joined():
                changed.take(differs)
                came.add(differs.came.ids)
        if changed.came:
            keys.write(_new_keys(dataset, keys, came, changed))
            # else one may be that of a row that stayed
            check_once(source, frozen.schema, secrets, changed.returned)
        rows, moves = changed.rows(), changed.moves.moved()
        edition = updated_edition(
            last,
            whole=str(compared.new),
            source=str(source.path) if source.path else None,
            changes=changed.counted(hides=hidden_after(frozen, rows.followed), moves=moves),
        )
        survey = replace(moved + newcomers, constants=_constants(source, frozen, secrets))
        brought = Brought(surveyor, survey, ranges, newcomers, accepted)
        moved_rows = changed.moves.rows(moves_key(changed.noise.noise, edition.number))
        beside = {
            changes_name(edition.number): rows.to_bytes(),
            moves_name(edition.number): moved_rows.to_bytes(),
        }
        return record_edition(dataset, edition, source, brought, keys, ledger, beside)


def _constants(source: Source, frozen: Frozen, secrets: RowSecrets) -> PersonValues | None:
    """Return the values of a table in columns that were constant in each person."""
    constant = frozen.persons.named(frozen.schema.perturbed) if frozen.persons else ()
    types = frozen.source_types
    engine = engine_for(source, frozen.schema, types, secrets, keep_keys=None)
    return constants_of(engine, constant, frozen.schema, secrets)


def _check_persons_can_change(dataset: "Dataset") -> None:
    """Raise ColumnError for a table of persons whose rows have to stay as they are."""
    frozen = dataset.frozen
    if frozen.schema.unit is None:
        return
    if frozen.family is not None:
        raise ColumnError(
            f"{dataset.name!r} is linked with other tables: new rows can be appended, but rows "
            "that are there cannot be changed, since other tables may repeat their noise. Append"
        )
    if frozen.categories:
        names = [name for group in frozen.categories for name in group.columns]
        raise ColumnError(
            f"{dataset.name!r} has categories of persons ({listed(names)}): a person's history is "
            "replaced by that of another one in the table, and if rows that are there changed, "
            "copies would show who was replaced. Append new rows, or register without categories"
        )


def _new_keys(
    dataset: "Dataset", keys: KeptKeys, came: SortedKeys, changed: "_Changed"
) -> Iterator[Words]:
    """Yield the keys of rows that came and are new; those of an earlier edition come back."""
    for hashes in came.ascending():
        seen = keys.seen(dataset, hashes)
        changed.came_back(hashes[seen])
        yield hashes[~seen]


def _check_old(dataset: "Dataset", fingerprint: str) -> None:
    """Raise SourceChanged unless this is the fingerprint of the last edition."""
    if fingerprint == dataset.editions[-1].whole:
        return
    known = [each.number for each in dataset.editions if each.whole == fingerprint]
    what = f"it is edition {known[-1]}" if known else "a value or a row differs"
    raise SourceChanged(
        f"the old table is not the last edition, {len(dataset.editions)}, of {dataset.name!r}: "
        f"{what}. Restore the last edition, or name its place",
        use=("old",),
    )


class _Changed:
    """What differs between two editions: counts, places, and what changed rows teach."""

    def __init__(self, dataset: "Dataset", secrets: RowSecrets, noise: NoiseSecrets) -> None:
        self._frozen, self._secrets, self.noise = dataset.frozen, secrets, noise
        self.changes = Changes({})
        past = dataset.past(len(dataset.editions))
        self.moves = Moves(
            self._frozen.categories,
            self._frozen.schema.encoded,
            secrets.texts,
            MovedCells(past.moved if past else {}, noise.noise),
        )
        self.came = self.went = self.changed = 0
        self.returned = np.empty(0, dtype=np.uint64)
        self._columns: Counter[str] = Counter()
        self._hashes: list[Words] = [np.empty(0, dtype=np.uint64)]
        self._cells: list[Flags] = []
        self._back: list[Flags] = [np.empty(0, dtype=bool)]

    def take(self, differing: Differing) -> None:
        """Take some rows that differ."""
        self.came += len(differing.came)
        self.went += len(differing.went)
        self.changed += len(differing.new)
        schema = self._frozen.schema
        numbers = len(schema.perturbed)
        came, went = differing.came, differing.went
        self.moves.take_came(came.ids[:, 0], came.words[numbers:])
        self.moves.take_went(went.ids[:, 0], went.words[numbers:])
        if not len(differing.new):
            return
        self._check_persons(differing)
        differ = np.count_nonzero(differing.old.words != differing.new.words, axis=1)
        self._columns.update(
            dict(zip((*schema.perturbed, *schema.encoded), differ.tolist(), strict=True))
        )
        self.moves.take(
            differing.new.ids[:, 0], differing.old.words[numbers:], differing.new.words[numbers:]
        )
        old, new = self._filled(differing.old), self._filled(differing.new)
        shown = np.isnan(old) & ~np.isnan(new)  # after a gap: what was before it is not known
        cells, back = changed_cells(old, new) | shown, np.logical_or.reduce(shown)
        self.changes = self.changes + Changes.of(old[:, ~back], new[:, ~back])
        rows = cells.any(axis=0)
        self._keep(differing.new.ids[rows, 0], cells[:, rows], back[rows])

    def _check_persons(self, differing: Differing) -> None:
        """Raise ColumnError for rows that went to another person, or to another time."""
        schema = self._frozen.schema
        names = [*schema.perturbed, *schema.encoded]
        for name in filter(None, (schema.unit, schema.time)):
            place = names.index(name) if name in names else None
            if place is None:
                continue
            moved = differing.old.words[place] != differing.new.words[place]
            if moved.any():
                raise ColumnError(
                    f"{name!r} changed in {np.count_nonzero(moved):,} rows: a row keeps its person "
                    "and its time, on which its noise depends. Restore them, or leave these rows "
                    "out"
                )

    def came_back(self, hashes: Words) -> None:
        """Take rows of an earlier edition that come back: all of their values do."""
        vary = np.asarray(self._frozen.grid > 0)[:, None]
        if self._frozen.persons is not None:  # what is constant in a person has one noise
            vary[list(self._frozen.persons.constant)] = False
        self.returned = np.append(self.returned, hashes)
        self._keep(hashes, np.tile(vary, len(hashes)), np.ones(len(hashes), dtype=bool))

    def _keep(self, hashes: Words, cells: Flags, back: Flags) -> None:
        self._hashes.append(hashes)
        self._cells.append(cells)
        self._back.append(back)

    def _filled(self, rows: RowWords) -> Floats:
        """Return the numbers as they get their noise: on their scales, hidden gaps filled in."""
        numbers = rows.numbers(len(self._frozen.schema.perturbed))
        frozen = self._frozen
        scaled = frozen.scaled(numbers, rank_draws(self._secrets, rows.ids))
        return fill_missing(scaled, rows.ids, frozen.schema, frozen.draws, self.noise.missing)

    def rows(self) -> ChangedRows:
        """Return which rows changed, and the rules for their noise."""
        frozen = self._frozen
        columns = len(frozen.schema.perturbed)
        cells = np.concatenate([np.zeros((columns, 0), dtype=bool), *self._cells], axis=1)
        hashes, back = np.concatenate(self._hashes), np.concatenate(self._back)
        if not columns:
            return ChangedRows.of(hashes, cells, (), back=back)
        shape = frozen.covariance + frozen.excess
        returning = returning_transitions(cells[:, back], shape)
        rules = transitions(self.changes, shape)
        if frozen.persons is not None:
            rules, returning = (tuple(map(for_persons, each)) for each in (rules, returning))
        return ChangedRows.of(hashes, cells, rules, back=back, returning=returning)

    def counted(self, *, hides: Mapping[str, float], moves: Mapping[str, Moved]) -> RowChanges:
        """Return how many rows came, went and changed, with what is known of these."""
        return RowChanges(
            came=self.came,
            returned=len(self.returned),
            went=self.went,
            changed=self.changed,
            columns={name: count for name, count in self._columns.items() if count},
            hides=hides,
            moves=moves,
        )
