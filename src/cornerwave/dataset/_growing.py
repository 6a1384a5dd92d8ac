"""Appending: new rows are read once, checked, and recorded as an edition.

batch ── survey ── same columns? new keys? new values? drift? ── chain: an edition ── keys
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.dataset._keys import KeptKeys
from cornerwave.dataset._recording import Brought, record_edition
from cornerwave.editions import Edition, Ranges, next_edition
from cornerwave.engines import engine_for
from cornerwave.engines.batches import AT_ONCE, BatchSurveyor, survey_batch
from cornerwave.errors import AlreadyRegistered, OutputError, discreet
from cornerwave.rows import RowSecrets
from cornerwave.survey import Survey
from cornerwave.table import Progress, make_directory, open_source, silent, sync_directory
from cornerwave.vault import Key, Ledger

if TYPE_CHECKING:
    from cornerwave.dataset._dataset import Dataset


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
        surveyor = BatchSurveyor(frozen.schema, frozen.scales, secrets)
        engine = engine_for(
            source,
            frozen.schema,
            types,
            secrets,
            keep_keys=keys.write,
            spark=spark,
            rows=AT_ONCE,
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
