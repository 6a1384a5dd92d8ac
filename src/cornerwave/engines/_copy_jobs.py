"""What machines of a cluster do to release copies: they write files, and say which they wrote.

rows ── recipe ──> files in the folder of each copy, a receipt for each part
rows ── by place, where copies are shuffled ── sorted ── recipe ──> the same
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.engines._on_worker import FOUND, ROWS, Batches, Note, Table, check_seen, notes_in
from cornerwave.engines._packed import packed_table, unpacked_table
from cornerwave.engines._passes import registered_rows
from cornerwave.engines._shuffle import (
    bucket_cuts,
    id_column,
    ids_in,
    in_order,
    name_apart,
    plain_table,
)
from cornerwave.frozen import Frozen
from cornerwave.history import Past
from cornerwave.recipe import NoiseSecrets, Recipe, Wanted
from cornerwave.rows import RowSecrets, group_rows, row_ids
from cornerwave.table import Address, Fingerprint, Schema, StoredPart, Written, WrittenFile


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
