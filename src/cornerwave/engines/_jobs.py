"""What machines of a cluster do to release copies: they write files, and say which they wrote.

rows ── recipe ──> files in the folder of each copy, a receipt for each part
rows ── by place, where copies are shuffled ── sorted ── recipe ──> the same
"""

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.columns import Fingerprint, Scale, Schema
from cornerwave.editions import Ranges
from cornerwave.engines._on_worker import (
    FOUND,
    IDS,
    KEYS,
    ROWS,
    Batches,
    Note,
    Table,
    check_seen,
    notes_in,
    packed,
    packed_runs,
    packed_table,
    unpacked,
    unpacked_table,
)
from cornerwave.engines._passes import (
    SampleWork,
    SurveyWork,
    order_of,
    registered_rows,
    repeated_ids,
)
from cornerwave.engines._shuffle import (
    bucket_cuts,
    id_column,
    ids_in,
    in_order,
    name_apart,
    plain_table,
)
from cornerwave.noise import Past
from cornerwave.outputs import StoredPart, Written, WrittenFile
from cornerwave.privacy import CELLS, RowOrder, SeenOrder
from cornerwave.sources import Address
from cornerwave.spine.freeze import Frozen
from cornerwave.spine.recipe import NoiseSecrets, Recipe, Wanted
from cornerwave.spine.rows import RowSecrets, group_rows, row_ids
from cornerwave.spine.survey import Sampler, Survey, Surveyor


@dataclass(frozen=True, repr=False)
class CopyPlan:
    """How copies are made, and where machines write them: a folder for each copy."""

    dataset: str
    frozen: str
    wanted: tuple[Wanted, ...]
    rows: Mapping[str, bytes]
    noise: Mapping[str, bytes]
    folders: tuple[Path | Address, ...]
    metadata: tuple[Mapping[str, Any], ...]
    edition: int
    batch: int | None
    past: Past | None

    def recipe(self) -> Recipe:
        """Return the recipe of the copies."""
        frozen = Frozen.from_json(self.frozen)
        secret_rows, secret_noise = RowSecrets(**self.rows), NoiseSecrets(**self.noise)
        return Recipe(
            self.dataset,
            frozen,
            self.wanted,
            rows=secret_rows,
            noise=secret_noise,
            edition=self.edition,
            batch=self.batch,
            past=self.past,
        )

    def write(
        self, recipe: Recipe, part: int | None, groups: Iterable[tuple[Ids, pa.Table]]
    ) -> Iterator[Note]:
        """Write copies of rows to new files; yield the receipt, unless there are no rows."""
        with ExitStack() as hidden:
            files: list[WrittenFile | StoredPart] = []
            found = Fingerprint.nothing()
            for ids, table in groups:
                if not files:
                    files = list(self._files(recipe, part, hidden))
                own, copies = recipe.copies(ids, table)
                for file, copy in zip(files, copies, strict=True):
                    file.write(copy)
                found = found + own
            for file in files:
                file.finish()
                file.publish()
        if files:
            yield 0, FOUND, _receipt(part, found, [file.written for file in files])

    def _files(
        self, recipe: Recipe, part: int | None, hidden: ExitStack
    ) -> Iterator[WrittenFile | StoredPart]:
        attempt, number = f"{secrets.token_hex(16)}.parquet", _number(part)
        for folder, wanted, told in zip(self.folders, self.wanted, self.metadata, strict=True):
            schema = recipe.schema(wanted)
            if isinstance(folder, Path):
                check_seen(folder)
                file: WrittenFile | StoredPart = WrittenFile(folder / attempt, schema, told)
            else:
                name = f"{folder.path.rstrip('/')}/part-{number}.parquet"
                file = StoredPart(folder.below(name), schema, told)
            hidden.callback(file.discard)
            yield file


def _number(part: int | None) -> str:
    """Return the number of a part; of a frame's that of Spark, else one of chance."""
    if part is None:
        from pyspark import TaskContext  # only machines of a cluster have one

        task = TaskContext.get()
        part = None if task is None else task.partitionId()
    return secrets.token_hex(8) if part is None else f"{part:05d}"


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
            with registered_rows():
                yield from self.plan.write(recipe, number, groups)


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
        with registered_rows():
            for start, table in self.table.groups(batches):
                ids = row_ids(start, table, schema, known)
                table = plain_table(table).append_column(mark, id_column(ids))
                places = recipe.places(ids)
                order = in_order(places)
                table, cuts = table.take(pa.array(order)), bucket_cuts(places[order], self.buckets)
                for bucket in np.flatnonzero(np.diff(cuts)).tolist():
                    part = table.slice(cuts[bucket], cuts[bucket + 1] - cuts[bucket])
                    yield bucket, ROWS, packed_table(part)


@dataclass(frozen=True, repr=False)
class OrderedCopyJob:
    """Makes copies of the rows of some buckets, each in the order of its rows' places."""

    schema: Schema
    plan: CopyPlan

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield a receipt for each bucket."""
        buckets: dict[int, list[pa.Table]] = {}
        for note in notes_in(batches):
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


def _receipt(part: int | None, found: Fingerprint, files: Sequence[Written]) -> bytes:
    sums, said = [int(word) for word in found.sums], [asdict(file) for file in files]
    return json.dumps({"part": part, "rows": found.rows, "sums": sums, "files": said}).encode()


# --------------------------------------------------------------------------------------------------
# What machines of a cluster do to register a table: samples, surveys and keys, which add up.
#
# rows ── survey, ids ── by bucket ──> the sum of some surveys, ascending keys of a range


SUMS = 16
"""Sums that surveys are added up to."""
KEY_RANGES = 1 << 8
"""Ranges of ids, by their first bits."""
RUN_CELLS = CELLS >> 4
"""Cells of a part without positions of which the order is looked at."""


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
        for note in notes_in(batches):
            if note[1] == FOUND:
                found.append(unpacked(note[2]))
            else:
                yield note
        if found:
            yield 0, FOUND, packed(reduce(add, found))


@dataclass(frozen=True, repr=False)
class SurveyJob:
    """Surveys rows; their ids go by ranges to where they are sorted and compared."""

    table: Table
    scales: tuple[Scale, ...]
    surveyor: type[Surveyor]
    ranges: Ranges | None

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield ids, and the survey of all parts."""
        table, keyed = self.table, self.table.schema.key is not None
        surveyor = self.surveyor(table.schema, self.scales, table.row_secrets)
        work, total, bucket = SurveyWork(surveyor, self.ranges), None, 0
        order, outside = _order_of(table.schema, table.rows), Counter[str]()
        for start, rows in table.groups(batches):
            found = work(start, rows)
            order.add(start, rows)
            outside.update(found.outside)
            work.known = total = found.survey if total is None else total + found.survey
            bucket = bucket or _some_bucket(found.ids[:, 0])
            surveyor.check(total)
            if keyed:
                yield from _by_range(found.ids)
        if total is not None:
            yield bucket, FOUND, _packed_survey(total, order, outside)


@dataclass(frozen=True, repr=False)
class SurveySum:
    """Adds up surveys, sorts keys, and counts those that are repeated."""

    schema: Schema
    rows: int | None

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the keys of each range, how many are repeated, and the sum of all surveys."""
        ids: dict[int, list[Ids]] = {}
        surveys, order, outside = [], _order_of(self.schema, self.rows), Counter[str]()
        for note in notes_in(batches):
            if note[1] == IDS:
                own = np.frombuffer(note[2], dtype=np.uint64).reshape(-1, 2)
                ids.setdefault(note[0], []).append(own)
            elif note[1] == FOUND:
                survey, seen, beyond = unpacked_survey(note[2])
                surveys.append(survey)
                outside.update(beyond)
                order.take(seen)
            else:
                yield note
        for bucket in sorted(ids):
            yield from _sorted(bucket, np.concatenate(ids.pop(bucket)))
        if surveys:
            yield 0, FOUND, _packed_survey(reduce(add, surveys), order, outside)


def _packed_survey(survey: Survey, order: RowOrder, outside: Counter[str]) -> bytes:
    sample, joint = survey.sample.trimmed(), survey.joint.trimmed()
    survey = replace(survey, sample=sample, joint=joint, units=survey.units.trimmed())
    seen = order.seen
    return packed((survey, packed_runs(seen.runs), list(seen.distant), outside))


def _order_of(schema: Schema, rows: int | None) -> RowOrder:
    cells = RUN_CELLS if rows is None else CELLS
    # the rows of a frame have no places: none of them lie a known number of rows apart
    return order_of(schema, is_placed=rows is not None, rows=rows, cells=cells)


def unpacked_survey(content: bytes) -> tuple[Survey, SeenOrder, Counter[str]]:
    """Return what a job sent: a survey, what was seen of the rows' order, numbers far out."""
    survey, runs, distant, outside = unpacked(content)
    seen = SeenOrder([(start, unpacked_table(rows)) for start, rows in runs], distant)
    return survey, seen, outside


def _some_bucket(hashes: Any) -> int:
    """Return one of few buckets, by chance but always the same for the same rows."""
    return int(hashes[0]) % SUMS if len(hashes) else 0


def _by_range(ids: Ids) -> Iterator[Note]:
    """Yield ids by the first bits of their first word: equal ones meet, and ranges ascend."""
    which = (ids[:, 0] >> np.uint64(56)).astype(np.uint8)  # a byte: sorted by counting
    order = np.argsort(which, kind="stable")
    buckets, firsts = np.unique(which[order], return_index=True)
    for bucket, part in zip(buckets, np.split(ids[order], firsts[1:]), strict=True):
        yield int(bucket), IDS, part.tobytes()


def _sorted(bucket: int, ids: Ids) -> Iterator[Note]:
    """Yield the first words of the ids of a range, ascending, and how many ids are repeated."""
    words = np.sort(ids[:, 0])
    yield bucket, KEYS, words.tobytes()
    if repeated := repeated_ids(ids, words):
        yield bucket, IDS, str(repeated).encode()
