"""What the machines of a cluster run: a job over the parts that they are given.

    parts ── rows, some at a time ── work ──> what it found, as (bucket, kind, bytes)

A job is all that travels to them: the columns, what is frozen, and secrets that were derived
for this one purpose. What they return is either what they found, or an error in our words: an
error of Python or Arrow would show its message, and a cell in it, in the cluster's pages.
"""

import json
import pickle
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.engines._packed import (
    packed,
    packed_error,
    packed_runs,
    packed_table,
    unpacked,
    unpacked_table,
)
from cornerwave.engines._passes import SampleWork, SurveyWork, ordered_columns, repeated_ids
from cornerwave.engines._shuffle import (
    bucket_cuts,
    id_column,
    ids_in,
    in_order,
    name_apart,
    plain_table,
)
from cornerwave.errors import ClusterError, CornerwaveError, Fault, SourceChanged, SourceError
from cornerwave.frozen import Frozen
from cornerwave.neighbours import CELLS, RUN, RowOrder
from cornerwave.recipe import NoiseSecrets, Recipe, Wanted
from cornerwave.rows import RowSecrets, group_rows, row_ids
from cornerwave.survey import Sampler, Survey, Surveyor
from cornerwave.table import (
    CopyFile,
    Fingerprint,
    ParquetPart,
    Scale,
    Schema,
    Source,
    plain_type,
)
from cornerwave.version import __version__

Batches = Iterable[pa.RecordBatch]
Rows = Iterator[tuple[int, pa.Table]]
Note = tuple[int, int, bytes]
"""A bucket, a kind, and bytes."""

ERROR, FOUND, IDS, ROWS = range(4)
NOTES = pa.schema([("bucket", pa.int64()), ("kind", pa.int32()), ("found", pa.binary())])
ID_BUCKETS, SUMS = 1 << 8, 16
"""Buckets of ids that are compared with each other; sums that surveys are added up to."""
LARGE = 1 << 20
"""Bytes of a note that is sent by itself."""
RUN_CELLS = CELLS >> 4
"""Cells of a part without positions of which the order is looked at."""


@dataclass(frozen=True, repr=False)
class Table:
    """How to read parts: the columns with their types, and what tells rows apart.

    `rows` is how many the table has where parts are row groups of Parquet: their positions are
    known. Otherwise parts are rows of a frame.
    """

    schema: Schema
    types: pa.Schema
    secrets: Mapping[str, bytes]
    rows: int | None

    @property
    def row_secrets(self) -> RowSecrets:
        """The secrets that recognise rows."""
        return RowSecrets(**self.secrets)

    def parts(self, batches: Batches) -> Iterator[tuple[int | None, Rows]]:
        """Yield the rows of each part with its number, if it has one."""
        if self.rows is None:
            yield None, self._of_frame(batches)
            return
        for batch in batches:
            for content in batch.column(0).to_pylist():
                part: ParquetPart = pickle.loads(content)  # noqa: S301  the driver sent it
                yield part.number, self._of_part(part)

    def groups(self, batches: Batches) -> Rows:
        """Yield the rows of all parts."""
        for _, rows in self.parts(batches):
            yield from rows

    def _of_part(self, part: ParquetPart) -> Rows:
        _check_seen(Path(part.file))
        start = part.first
        for table in part.source(self.types).groups(self.schema.used, group_rows(self.schema)):
            yield start, table
            start += table.num_rows

    def _of_frame(self, batches: Batches) -> Rows:
        """Yield rows; their numbers are none of the table's, but no two have the same."""
        source = Source(self.types, lambda _: (self._typed(batch) for batch in batches))
        start = 0
        for table in source.groups(self.schema.used, group_rows(self.schema)):
            if not start:
                [[word, _]] = row_ids(0, table.slice(0, 1), self.schema, self.row_secrets)
                start = (int(word) >> 2) // RUN * RUN
            yield start, table
            start += table.num_rows

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows in the types of the source: a frame has them in those of Spark."""
        columns = []
        for name, column in zip(self.schema.used, batch.columns, strict=True):
            try:
                columns.append(column.cast(plain_type(self.types.field(name).type)))
            except pa.ArrowException:  # its words may quote a cell
                raise SourceError(f"column {name!r} no longer holds values of its kind") from None
        return pa.RecordBatch.from_arrays(columns, names=self.schema.used)


def _check_seen(place: Path) -> None:
    if not place.exists():
        raise ClusterError(
            f"a machine of the cluster does not see {place}; tables and copies must lie where all "
            "of its machines see them, under the same path"
        )


class Job(Protocol):
    """What a machine does with the parts that it is given."""

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield what is found."""


def sent(job: Job) -> bytes:
    """Return a job as it travels."""
    return zlib.compress(pickle.dumps((__version__, job), protocol=5))


def on_worker(content: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run a job over parts. What goes wrong is either told in our words, or by its place alone."""
    held: list[Note] = []
    try:
        for note in _run(content, batches):
            held.append(note)
            if len(held) == ID_BUCKETS or len(note[2]) > LARGE:
                yield _batch(held)
                held = []
    except Fault:
        raise
    except CornerwaveError as error:
        held = [(0, ERROR, packed_error(error))]
    if held:
        yield _batch(held)


def _batch(notes: Sequence[Note]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, type_)
            for column, type_ in zip(zip(*notes, strict=True), NOTES.types, strict=True)
        ],
        schema=NOTES,
    )


def _run(content: bytes, batches: Batches) -> Iterator[Note]:
    try:
        version, job = pickle.loads(zlib.decompress(content))  # noqa: S301  the driver sent it
        if version != __version__:
            raise ClusterError(
                f"the machines have Cornerwave {__version__}, and this is {version}: install the "
                "same version on all of them"
            )
        yield from job.run(batches)
    except CornerwaveError:
        raise
    except Exception as error:
        fault = Fault(f"internal fault ({type(error).__name__})")
        raise fault.with_traceback(error.__traceback__) from None


# --- registration -----------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class SampleJob:
    """Samples the columns whose scale depends on their distribution."""

    table: Table

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the sample of all parts."""
        work = SampleWork(Sampler(self.table.schema, self.table.row_secrets))
        found = None
        for start, rows in self.table.groups(batches):
            own = work(start, rows)
            found = own if found is None else found + own
        if found is not None:
            yield _some_bucket(found.parts[0].hashes), FOUND, packed(found)


@dataclass(frozen=True, repr=False)
class SampleSum:
    """Adds up samples."""

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the sum of all samples."""
        found = []
        for note in _notes(batches):
            if note[1] == FOUND:
                found.append(unpacked(note[2]))
            else:
                yield note
        if found:
            yield 0, FOUND, packed(reduce(add, found))


@dataclass(frozen=True, repr=False)
class SurveyJob:
    """Surveys rows; their ids go by buckets to where they are compared."""

    table: Table
    scales: tuple[Scale, ...]

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield ids, and the survey of all parts."""
        table, keyed = self.table, self.table.schema.key is not None
        surveyor = Surveyor(table.schema, self.scales, table.row_secrets)
        work, total, bucket = SurveyWork(surveyor), None, 0
        order = _order_of(table.schema, table.rows)
        for start, rows in table.groups(batches):
            found = work(start, rows)
            order.add(start, rows)
            total = found.survey if total is None else total + found.survey
            bucket = bucket or _some_bucket(found.ids[:, 0])
            surveyor.check(total)
            if keyed:
                yield from _by_bucket(found.ids)
        if total is not None:
            yield bucket, FOUND, _packed_survey(total, order)


@dataclass(frozen=True, repr=False)
class SurveySum:
    """Adds up surveys, and counts ids that are repeated."""

    schema: Schema
    rows: int | None

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield how many rows have the key of another, and the sum of all surveys."""
        ids, surveys, order = [], [], _order_of(self.schema, self.rows)
        for note in _notes(batches):
            if note[1] == IDS:
                ids.append(np.frombuffer(note[2], dtype=np.uint64).reshape(-1, 2))
            elif note[1] == FOUND:
                survey, runs = unpacked(note[2])
                surveys.append(survey)
                for start, rows in runs:
                    order.add(start, unpacked_table(rows))
            else:
                yield note
        if ids:
            yield 0, IDS, str(repeated_ids(np.concatenate(ids))).encode()
        if surveys:
            yield 0, FOUND, _packed_survey(reduce(add, surveys), order)


def _packed_survey(survey: Survey, order: RowOrder) -> bytes:
    sample, joint = survey.sample.trimmed(), survey.joint.trimmed()
    return packed((replace(survey, sample=sample, joint=joint), packed_runs(order.runs)))


def _order_of(schema: Schema, rows: int | None) -> RowOrder:
    cells = RUN_CELLS if rows is None else CELLS
    return RowOrder(ordered_columns(schema), rows=rows, cells=cells)


def _some_bucket(hashes: Any) -> int:
    """Return one of few buckets, by chance but always the same for the same rows."""
    return int(hashes[0]) % SUMS if len(hashes) else 0


def _by_bucket(ids: Ids) -> Iterator[Note]:
    """Yield ids in buckets: equal ones are in the same bucket, wherever they come from."""
    which = ids[:, 1].astype(np.uint8)  # its last bits: sorted by counting
    order = np.argsort(which, kind="stable")
    buckets, firsts = np.unique(which[order], return_index=True)
    for bucket, part in zip(buckets, np.split(ids[order], firsts[1:]), strict=True):
        yield int(bucket), IDS, part.tobytes()


def _notes(batches: Batches) -> Iterator[Note]:
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in NOTES.names]
        yield from zip(*columns, strict=True)


# --- release ----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class CopyPlan:
    """How copies are made, and where machines write them: a folder for each copy."""

    dataset: str
    frozen: str
    wanted: tuple[Wanted, ...]
    rows: Mapping[str, bytes]
    noise: Mapping[str, bytes]
    folders: tuple[str, ...]
    metadata: tuple[Mapping[str, Any], ...]

    def recipe(self) -> Recipe:
        """Return the recipe of the copies."""
        frozen = Frozen.from_json(self.frozen)
        secret_rows, secret_noise = RowSecrets(**self.rows), NoiseSecrets(**self.noise)
        return Recipe(self.dataset, frozen, self.wanted, rows=secret_rows, noise=secret_noise)

    def write(
        self, recipe: Recipe, part: int | None, groups: Iterable[tuple[Ids, pa.Table]]
    ) -> Iterator[Note]:
        """Write copies of rows to new files; yield the receipt, unless there are no rows."""
        with ExitStack() as hidden:
            files: list[CopyFile] = []
            found = Fingerprint.nothing()
            for ids, table in groups:
                if not files:
                    files = list(self._files(recipe, hidden))
                own, copies = recipe.copies(ids, table)
                for file, copy in zip(files, copies, strict=True):
                    file.write(copy)
                found = found + own
            for file in files:
                file.finish()
                file.publish()
        if files:
            yield 0, FOUND, _receipt(part, found, [file.path.name for file in files])

    def _files(self, recipe: Recipe, hidden: ExitStack) -> Iterator[CopyFile]:
        name = f"{secrets.token_hex(16)}.parquet"  # of this attempt alone
        for folder, wanted, told in zip(self.folders, self.wanted, self.metadata, strict=True):
            _check_seen(Path(folder))
            file = CopyFile(Path(folder) / name, recipe.schema(wanted), told)
            hidden.callback(file.discard)
            yield file


@dataclass(frozen=True, repr=False)
class CopyJob:
    """Makes copies of rows where they are."""

    table: Table
    plan: CopyPlan

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield a receipt for each part."""
        recipe, schema, known = self.plan.recipe(), self.table.schema, self.table.row_secrets
        for number, rows in self.table.parts(batches):
            groups = ((row_ids(start, table, schema, known), table) for start, table in rows)
            try:
                yield from self.plan.write(recipe, number, groups)
            except SourceError as error:
                raise SourceChanged(f"this is not the registered table: {error}") from None


@dataclass(frozen=True, repr=False)
class BucketJob:
    """Sends rows by buckets to where they are put in the order of their places."""

    table: Table
    plan: CopyPlan
    buckets: int

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the rows of each bucket, with their ids."""
        recipe, schema, known = self.plan.recipe(), self.table.schema, self.table.row_secrets
        mark = name_apart(schema.used)
        try:
            for start, table in self.table.groups(batches):
                ids = row_ids(start, table, schema, known)
                table = plain_table(table).append_column(mark, id_column(ids))
                places = recipe.places(ids)
                order = in_order(places)
                table, cuts = table.take(pa.array(order)), bucket_cuts(places[order], self.buckets)
                for bucket in np.flatnonzero(np.diff(cuts)).tolist():
                    part = table.slice(cuts[bucket], cuts[bucket + 1] - cuts[bucket])
                    yield bucket, ROWS, packed_table(part)
        except SourceError as error:
            raise SourceChanged(f"this is not the registered table: {error}") from None


@dataclass(frozen=True, repr=False)
class OrderedCopyJob:
    """Makes copies of the rows of some buckets, each in the order of its rows' places."""

    schema: Schema
    plan: CopyPlan

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield a receipt for each bucket."""
        buckets: dict[int, list[pa.Table]] = {}
        for note in _notes(batches):
            if note[1] == ROWS:
                buckets.setdefault(note[0], []).append(unpacked_table(note[2]))
            else:
                yield note
        recipe = self.plan.recipe()
        for bucket in sorted(buckets):
            groups = self._groups(pa.concat_tables(buckets.pop(bucket)), recipe)
            yield from self.plan.write(recipe, bucket, groups)

    def _groups(self, table: pa.Table, recipe: Recipe) -> Iterator[tuple[Ids, pa.Table]]:
        names, rows = self.schema.used, group_rows(self.schema)
        mark = name_apart(names)
        table = table.take(pa.array(in_order(recipe.places(ids_in(table, mark)))))
        for start in range(0, table.num_rows, rows):
            part = table.slice(start, rows)
            yield ids_in(part, mark), part.select(names)


def _receipt(part: int | None, found: Fingerprint, files: Sequence[str]) -> bytes:
    sums = [int(word) for word in found.sums]
    return json.dumps({"part": part, "rows": found.rows, "sums": sums, "files": files}).encode()
