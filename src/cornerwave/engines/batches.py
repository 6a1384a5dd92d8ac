"""Rows that come to a registered table: surveyed on its scales, their keys sorted."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Flags, Ids, Words
from cornerwave.engines._passes import check_order, ordered_columns
from cornerwave.engines.local import _in_order
from cornerwave.errors import ColumnError
from cornerwave.neighbours import RowOrder
from cornerwave.rows import RowSecrets, numbered, row_ids
from cornerwave.survey import Survey, Surveyor, no_rows
from cornerwave.table import Progress, Schema, Source, silent

IDS_AT_ONCE, IDS_IN_MEMORY = 1 << 23, 1 << 20
"""Row ids that are sorted at once, and those that do not need a file."""

KeepKeys = Callable[[Iterator[Words]], None]
"""Takes 64 bits of the id of each row, ascending."""


class BatchSurveyor(Surveyor):
    """Surveys new rows: what all columns tell of each other was measured at registration."""

    @property
    def joint_rows(self) -> int:
        """How many rows are sampled of all columns."""
        return SAMPLED


SAMPLED = 1 << 13


def survey_batch(
    source: Source, surveyor: Surveyor, keep_keys: KeepKeys, *, progress: Progress = silent
) -> Survey:
    """Survey new rows of a table; `keep_keys` is called if the rows have a key.

    Raises SourceError, also if two rows have one key, or if their order tells a column.
    """
    schema, survey = surveyor.schema, no_rows(surveyor)
    order = batch_order(schema)

    def work(group: tuple[int, pa.Table]) -> tuple[Ids, Survey]:
        start, table = group
        ids = row_ids(start, table, schema, surveyor.secrets)
        return ids, surveyor.of(ids, table, np.arange(start, start + len(ids)))

    with (
        _in_order(work, order.passing(numbered(source, schema)), None) as parts,
        SortedKeys(schema.key) as keys,
    ):
        for ids, part in parts:
            survey = survey + part
            keys.add(ids)
            progress(len(ids))
        if schema.key is not None:
            keep_keys(keys.ascending())
    check_batch_order(order, schema)
    return survey


def batch_order(schema: Schema) -> RowOrder:
    """Return what looks at the order of new rows: at fewer than of a table that is registered."""
    return RowOrder(ordered_columns(schema), cells=0)


def check_batch_order(order: RowOrder, schema: Schema) -> None:
    """Raise ColumnError if the order of new rows tells a column, and copies show the order."""
    try:
        check_order(order, schema)
    except ColumnError as error:
        why = str(error).partition(". Shuffle")[0]
        raise ColumnError(f"{why}. Put the rows into a random order") from None


def survey_some(
    source: Source, surveyor: Surveyor, chosen: Sequence[Flags], look: Callable[[pa.Table], None]
) -> list[Survey]:
    """Survey sets of rows of a source, each by its places; `look` sees them too."""
    schema = surveyor.schema
    before = [np.cumsum(places) - places for places in chosen]

    def of_set(start: int, table: pa.Table, number: int) -> Survey | None:
        own = chosen[number][start : start + table.num_rows]
        if not own.any():
            return None
        rows = table.filter(pa.array(own))
        look(rows)
        # as if they were neighbours: what lies between them is known already
        places = before[number][start] + np.arange(rows.num_rows)
        return surveyor.of(row_ids(start, rows, schema, surveyor.secrets), rows, places)

    def work(group: tuple[int, pa.Table]) -> list[Survey | None]:
        return [of_set(*group, number) for number in range(len(chosen))]

    surveys = [no_rows(surveyor) for _ in chosen]
    with _in_order(work, numbered(source, schema), None) as parts:
        for found in parts:
            for number, part in enumerate(found):
                surveys[number] = surveys[number] if part is None else surveys[number] + part
    return surveys


def sorted_keys(source: Source, schema: Schema, secrets: RowSecrets) -> Iterator[Words]:
    """Yield 64 bits of the id of each row of a table with a key, ascending."""
    assert schema.key is not None
    with SortedKeys(schema.key) as keys:
        for table in source.groups([schema.key], IDS_AT_ONCE):
            keys.add(row_ids(0, table, schema, secrets))
        yield from keys.ascending()


class SortedKeys:
    """The ids of rows with a key: in memory if they are few, else in a file without a name."""

    def __init__(self, column: str | None, folder: Path | None = None) -> None:
        self._column, self._folder = column, folder
        self._held: list[Ids] = []
        self._file: BinaryIO | None = None
        self.count = 0

    def __enter__(self) -> "SortedKeys":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, ids: Ids) -> None:
        """Take the ids of some rows."""
        if self._column is None:
            return
        self._held.append(ids)
        self.count += len(ids)
        if sum(map(len, self._held)) > IDS_IN_MEMORY:
            self._file = self._file or tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            for each in self._held:
                self._file.write(each.tobytes())
            self._held = []

    def ascending(self) -> Iterator[Words]:
        """Yield the first words of all ids, ascending. Raises ColumnError if two are the same."""
        for ids in self._parts():
            words = np.sort(ids[:, 0])
            if repeated := _repeated(ids, words):
                raise ColumnError(
                    f"the key column {self._column!r} is not unique: {repeated} rows repeat a key"
                )
            yield words

    def _parts(self) -> Iterator[Ids]:
        """Yield the ids by ranges of their first word, ascending; few enough to be sorted."""
        held = np.concatenate([np.empty((0, 2), dtype=np.uint64), *self._held])
        if self._file is None:
            yield held
            return
        self._file.write(held.tobytes())
        self._file.flush()
        self._held = []
        ids = np.memmap(self._file, dtype=np.uint64, mode="r").reshape(-1, 2)
        parts = -(-self.count // IDS_AT_ONCE)
        for part in range(parts):
            chosen = [
                chunk[(chunk[:, 0] >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32) == part]
                for chunk in np.array_split(ids, max(1, len(ids) // IDS_AT_ONCE))
            ]
            yield np.concatenate(chosen)


def _repeated(ids: Ids, words: Words) -> int:
    """Return how many ids are there already. Few have the first word of another."""
    twice = words[1:][words[1:] == words[:-1]]
    if not len(twice):
        return 0
    some = ids[np.isin(ids[:, 0], twice)].view("V16")
    return len(some) - len(np.unique(some))
