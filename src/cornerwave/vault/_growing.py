"""Appending: new rows are read once, checked, and recorded as an edition.

batch ── survey ── same columns? new keys? new values? drift? ── chain: an edition ── keys
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave import sizes
from cornerwave.columns import Schema
from cornerwave.editions import (
    APPENDED,
    AllRows,
    Edition,
    Ranges,
    check_all_rows,
    check_moves,
    measure_drift,
    next_edition,
    shows_something,
)
from cornerwave.engines import BatchSurveyor, engine_for, survey_batch
from cornerwave.errors import AlreadyRegistered, ColumnError, OutputError, discreet
from cornerwave.ledger import Key, Ledger
from cornerwave.outputs import make_directory, sync_directory
from cornerwave.privacy import FirstRows, Unit, UnitRows
from cornerwave.reuse import TableMarks, grown
from cornerwave.sources import Progress, Source, open_source, silent
from cornerwave.spine.freeze import Frozen
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import Survey, Surveyor
from cornerwave.vault._parts import KeptKeys

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
        dataset.frozen,
        survey,
        brought.ranges,
        earlier,
        surveyor=brought.surveyor,
        came=brought.newcomers,
    )
    check_moves(edition, dataset.editions, brought.advancing)
    of_batch = brought.surveyor.marks(survey).to_json()
    kept = {**(attachments or {}), **_compared(dataset, edition, brought, of_batch, ledger)}
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
            found = there.meetings(new, brought.surveyor.unit_columns)
            if found and found[0].is_repeat:
                ledger.check_rows(entry, of_batch)  # the same rows again: a clearer message
            _check_meetings(found)
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
    return kept


def kept_beside(surveyor: Surveyor, survey: Survey, frozen: Frozen) -> dict[str, bytes]:
    """Return what is kept beside the chain at registration."""
    kept = {}
    if surveyor.unit_columns.count:
        kept[UNITS] = _sampled(survey).fewest.to_bytes()
    if surveyor.schema.order is None:
        rows = survey.first.ordered
        kept[FIRST] = FirstRows.of(rows.numbers, rows.cells).to_bytes()
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
        survey = survey_batch(engine, surveyor, ranges, progress=progress)
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


def keep_batch(dataset: "Dataset", batch: Any, folder: str | Path | None) -> Any:
    """Write a batch of a stream to a Parquet file named after its edition, if there is a folder."""
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    if folder is None:
        return batch
    path = Path(folder).absolute() / f"{dataset.name}-{len(dataset.editions) + 1:06}.parquet"
    part = path.with_suffix(".part")
    try:
        make_directory(path.parent)
        source = open_source(batch)
        with part.open("wb") as file:
            papq.write_table(pa.Table.from_batches(source.batches(source.schema.names)), file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_directory(path.parent)  # the ledger is about to name it
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the disk failed"
        raise OutputError(f"the batch cannot be kept in {folder}: {reason}") from None
    return path
