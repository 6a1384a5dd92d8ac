"""The next edition of a table: drift is measured, then all is recorded at once.

    append   batch ── survey ── same columns? new keys? new values? drift? ── chain: an edition

Until the line is in the chain, nothing has happened; after it, all has: the file of keys that is
put in its place last can be made again from the rows. _updates.py compares whole tables.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cornerwave import sizes
from cornerwave.columns import Schema, listed
from cornerwave.editions import (
    APPENDED,
    AllPersons,
    AllRows,
    Edition,
    Ranges,
    RowsReplaced,
    check_all_persons,
    check_all_rows,
    check_moves,
    measure_drift,
    next_edition,
    shows_something,
)
from cornerwave.engines import BatchSurveyor, engine_for, survey_batch
from cornerwave.errors import AlreadyRegistered, ColumnError, discreet
from cornerwave.ledger import Key, Ledger
from cornerwave.privacy import FirstRows, Unit, UnitRows
from cornerwave.reuse import TableMarks, grown
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.person_counts import Nesting
from cornerwave.spine.person_values import PersonValues
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import Survey, Surveyor
from cornerwave.vault._parts import KeptKeys

if TYPE_CHECKING:
    from cornerwave.vault._dataset import Dataset

SPREAD = "spread"
"""The name beside the chain of what is known about all rows that came since registration."""
UNITS = "units"
"""The name of some rows of all editions, by which rows that belong to the same units are known."""
FIRST = "first"
"""The name of the first rows of editions, by which rows that come in their order are known."""
PERSONS = "persons"
"""The name of the values that are constant in each person, by which to see that they stay so."""
OUTERS, NESTING = "outers", "nesting"
"""The names of the values that are constant in each household, and of which persons are in each."""
PEOPLE = "people"
"""The name of some persons of all editions, by which to see what copies hide of them."""
ROWS = "rows"
"""The name of some rows of all editions, by which to see what they reveal together."""


@dataclass(frozen=True)
class Brought:
    """What is known about the rows of an edition that were not there before, or not like this.

    `newcomers` are those that are not there for another value: by default all. `replaced` are the
    hashes of rows that went or changed. Categories that are `advancing` may move by a rule.
    """

    surveyor: Surveyor
    survey: Survey
    ranges: Ranges
    newcomers: Survey | None = None
    replaced: RowsReplaced = field(default_factory=RowsReplaced)
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
    who = "rows" if dataset.frozen.persons is None else "persons"
    check_moves(edition, dataset.editions, brought.advancing, who=who)
    of_batch = brought.surveyor.marks(survey).to_json()
    kept = {**(attachments or {}), **_compared(dataset, edition, brought, of_batch, ledger)}
    if dataset.frozen.persons and (content := ledger.attachment(dataset.entry, PEOPLE)):
        people, came = AllPersons.read(content).after(brought.replaced), brought.newcomers or survey
        if came.persons is not None:
            people, less = check_all_persons(dataset.registered, brought.surveyor, people, came)
            drift = replace(drift, persons=less)
        kept[PEOPLE] = people.to_bytes()
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
        hiding = [name for name in survey.constants.columns if _hides_gaps(dataset.frozen, name)]
        kept[PERSONS] = _still_constant(content, survey.constants, hiding=hiding).to_bytes()
    if survey.outer_constants is not None and (content := ledger.attachment(entry, OUTERS)):
        kept[OUTERS] = _still_constant(content, survey.outer_constants, "household").to_bytes()
    if survey.nesting is not None and (content := ledger.attachment(entry, NESTING)):
        nesting = Nesting.read(content) + survey.nesting
        nesting.check(dataset.frozen.schema)
        kept[NESTING] = nesting.to_bytes()
    return kept


def person_constant(frozen: Frozen) -> list[str]:
    """Return the columns that are constant in each person, if rows belong to some."""
    return frozen.persons.named(frozen.schema.perturbed) if frozen.persons else []


def outer_constant(frozen: Frozen) -> list[str]:
    """Return the columns that are constant in each household, if persons belong to some."""
    if frozen.persons is None:
        return []
    shape = frozen.persons.shape
    return [frozen.schema.perturbed[i] for i in frozen.persons.outer_constant if shape[i, i] > 0]


def _hides_gaps(frozen: Frozen, name: str) -> bool:
    return frozen.schema.column(name).hide_missing


def _still_constant(
    content: bytes, new: PersonValues, who: str = "person", hiding: Sequence[str] = ()
) -> PersonValues:
    """Return the constants of old and new rows. Raises ColumnError if one is none any more.

    Or if persons without a value get one in a column whose gaps are hidden: so far a draw is
    there, in all of their rows.
    """
    known = PersonValues.read(content).only(new.columns)
    both = known + new
    for name in hiding:
        if filled := known.only([name]).filled_by(new.only([name])):
            raise ColumnError(
                f"{name!r}: new rows have a value for {filled:,} persons who had none so far, and "
                "copies hide that: a draw is in their rows, and the value would reveal it. "
                "Leave these cells empty, or register the table anew"
            )
    if both.varying:
        raise ColumnError(
            f"{listed(sorted(both.varying))}: so far the same in all rows of a {who}, so that "
            "copies have the same noise in all of them, and a change would be visible; new rows "
            "have another value. Leave such rows out, or register the table anew"
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
    if survey.outer_constants is not None:
        kept[OUTERS] = survey.outer_constants.to_bytes()
    if survey.nesting is not None:
        kept[NESTING] = survey.nesting.to_bytes()
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
            "appending more, or register the table anew and state that its rows are independent"
        )


def _check_first(rows: FirstRows, schema: Schema) -> None:
    """Raise ColumnError if rows that come are in the order of rows that are there."""
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
        survey = survey_batch(
            engine,
            surveyor,
            ranges,
            constant=person_constant(frozen),
            outer_constant=outer_constant(frozen),
            progress=progress,
        )
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
