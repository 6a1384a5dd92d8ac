"""What machines of a cluster do: they run passes, or write files of copies and report which.

rows ── recipe ──> files in the folder of each copy, a receipt for each part
rows ── by place, where copies are shuffled ── sorted ── recipe ──> the same
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.columns import Fingerprint, Schema
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
    packed_table,
    unpacked,
    unpacked_table,
)
from cornerwave.engines._passes import Block, registered_rows, repeated_ids
from cornerwave.engines._shuffle import (
    bucket_cuts,
    id_column,
    ids_in,
    in_order,
    name_apart,
    plain_table,
)
from cornerwave.noise import Past
from cornerwave.outputs import CopyFile, Written
from cornerwave.passes import Pass
from cornerwave.sources import Address
from cornerwave.spec import CopyMetadata, CopySpec
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.histories import Histories
from cornerwave.spine.person_gaps import FilledGaps
from cornerwave.spine.recipe import Fingerprints, NoiseSecrets, Recipe
from cornerwave.spine.rows import RowSecrets, group_rows, row_ids


@dataclass(frozen=True, repr=False)
class CopyPlan:
    """How copies are made, and where machines write them: a folder for each copy."""

    dataset: str
    frozen: str
    wanted: tuple[CopySpec, ...]
    rows: RowSecrets
    noise: NoiseSecrets
    folders: tuple[Path | Address, ...]
    metadata: tuple[CopyMetadata, ...]
    edition: int
    batch: int | None
    past: Past | None
    histories: Histories | None
    histories_taken: Fingerprint | None
    filled: FilledGaps | None

    def recipe(self) -> Recipe:
        """Return the recipe of the copies."""
        recipe = Recipe(
            self.dataset,
            Frozen.from_json(self.frozen),
            self.wanted,
            rows=self.rows,
            noise=self.noise,
            edition=self.edition,
            batch=self.batch,
            past=self.past,
        )
        recipe.histories, recipe.histories_taken = self.histories, self.histories_taken
        recipe.filled = self.filled
        return recipe

    def write(
        self, recipe: Recipe, part: int | None, groups: Iterable[tuple[Ids, pa.Table]]
    ) -> Iterator[Note]:
        """Write copies of rows to new files; yield the receipt, unless there are no rows."""
        with ExitStack() as hidden:
            files: list[CopyFile] = []
            prints = Fingerprints()
            for ids, table in groups:
                if not files:
                    files = [hidden.enter_context(file) for file in self._files(recipe, part)]
                part_prints, copies = recipe.copies(ids, table)
                for file, copy in zip(files, copies, strict=True):
                    file.write(copy)
                prints = prints + part_prints
            for file in files:
                file.finish()
            written = [file.hand_over() for file in files]
        if files:
            yield 0, FOUND, _receipt(part, prints, written)

    def _files(self, recipe: Recipe, part: int | None) -> Iterator[CopyFile]:
        attempt, number = f"{secrets.token_hex(16)}.parquet", _number(part)
        for folder, wanted, metadata in zip(self.folders, self.wanted, self.metadata, strict=True):
            if isinstance(folder, Path):
                check_seen(folder)
                place: Path | Address = folder / attempt
            else:
                place = folder.below(f"{folder.path.rstrip('/')}/part-{number}.parquet")
            yield CopyFile(place, recipe.schema(wanted), metadata, force=True)


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
        recipe, schema, known = self.plan.recipe(), self.table.schema, self.table.secrets
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
        recipe, schema, known = self.plan.recipe(), self.table.schema, self.table.secrets
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


def _receipt(part: int | None, prints: Fingerprints, files: Sequence[Written]) -> bytes:
    receipt = {
        "part": part,
        "table": str(prints.table),
        "histories": str(prints.histories),
        "files": [asdict(file) for file in files],
    }
    return json.dumps(receipt).encode()


# --------------------------------------------------------------------------------------------------
# What machines of a cluster do in a pass over a table: what they find adds up, keys are compared.
#
# rows ── found, ids ── by bucket ──> the sum of some parts, ascending keys of a range


SUMS = 16
"""Sums that parts are added up to."""
KEY_RANGES = 1 << 8
"""Ranges of ids, by their first bits."""


@dataclass(frozen=True, repr=False)
class PassJob:
    """Runs a pass over rows; their ids go by ranges to where they are sorted and compared."""

    table: Table
    pass_: Pass[Block, Any, Any]

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield ids, and what all parts show."""
        schema, known = self.table.schema, self.table.secrets
        is_keyed = self.pass_.compares_keys and schema.key is not None
        total, rows, bucket = self.pass_.nothing(), 0, 0
        for start, table in self.table.groups(batches):
            block = Block.of(start, table, schema, known)
            total = total + self.pass_.of(block, total)
            rows += len(block.ids)
            bucket = bucket or _some_bucket(block.ids[:, 0])
            if is_keyed:
                yield from _by_range(block.ids)
        if rows:
            yield bucket, FOUND, packed((rows, total.trimmed()))


@dataclass(frozen=True, repr=False)
class PassSum:
    """Adds up what parts show, sorts keys, and counts those that are repeated."""

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the keys of each range, how many are repeated, and the sum of all parts."""
        ids: dict[int, list[Ids]] = {}
        parts_seen = []
        for note in notes_in(batches):
            if note[1] == IDS:
                words = np.frombuffer(note[2], dtype=np.uint64).reshape(-1, 2)
                ids.setdefault(note[0], []).append(words)
            elif note[1] == FOUND:
                parts_seen.append(unpacked(note[2]))
            else:
                yield note
        for bucket in sorted(ids):
            yield from _sorted(bucket, np.concatenate(ids.pop(bucket)))
        if parts_seen:
            rows, parts = zip(*parts_seen, strict=True)
            yield 0, FOUND, packed((sum(rows), reduce(add, parts).trimmed()))


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
