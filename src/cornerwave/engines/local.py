"""The engine of one machine: groups of rows side by side in threads, results in order."""

import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.engines._shuffle import shuffled
from cornerwave.errors import ColumnError, CornerwaveWarning, SourceChanged, SourceError, SourceLost
from cornerwave.neighbours import RowOrder
from cornerwave.noise import available_threads
from cornerwave.recipe import Recipe
from cornerwave.rows import RowSecrets, numbered, row_ids
from cornerwave.survey import Sample, Sampler, Survey, Surveyor, no_rows
from cornerwave.table import (
    KEEP_ORDER,
    KEPT,
    KEY,
    SHUFFLE,
    Fingerprint,
    Progress,
    Scale,
    Schema,
    Source,
    listed,
    silent,
)

IDS_IN_MEMORY = 1 << 23
"""Row ids that are compared at once when looking for duplicates."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Output(Protocol):
    """Where a copy goes, group by group."""

    def encode(self, group: pa.Table) -> Any:
        """Return rows as they are kept; called in any thread and any order."""

    def append(self, encoded: Any) -> None:
        """Take the next rows."""


def survey_table(
    source: Source,
    schema: Schema,
    secrets: RowSecrets,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> tuple[Surveyor, Survey]:
    """Survey a whole table.

    Raises SourceError, also if two rows have one key, or if the order of the rows tells a
    column and the schema does not say what happens to it.
    """
    surveyor = Surveyor(schema, _scales(source, schema, secrets, threads), secrets)
    survey, order = no_rows(surveyor), RowOrder(_ordered(schema))

    def work(group: tuple[int, pa.Table]) -> tuple[Ids, Survey]:
        start, table = group
        ids = row_ids(start, table, schema, secrets)
        return ids, surveyor.of(ids, table, np.arange(start, start + len(ids)))

    groups = order.passing(numbered(source, schema))
    with _in_order(work, groups, threads) as parts, _Keys(schema.key) as keys:
        for ids, part in parts:
            survey = survey + part
            surveyor.check(survey)
            keys.add(ids)
            progress(len(ids))
        keys.check()
    _check_order(order, schema)
    return surveyor, survey


def _ordered(schema: Schema) -> list[str]:
    """Return the columns to look at in the order of the rows."""
    categories = [name for group in schema.categories for name in group]
    return [] if schema.order == KEEP_ORDER else [*schema.perturbed, *categories, *_open(schema)]


def _open(schema: Schema) -> list[str]:
    """Return the columns that leave as they are, key and kept, by which copies can be sorted."""
    return [column.name for column in schema.shown if column.role in (KEY, KEPT)]


def _check_order(order: RowOrder, schema: Schema) -> None:
    """Raise ColumnError if the order of the rows tells a column, unless that is dealt with."""
    if schema.order == KEEP_ORDER:
        return
    categories = [name for group in schema.categories for name in group]
    hidden = [name for name in categories if schema.column(name).hide_missing]
    told = order.told(schema.perturbed, categories, hide_missing=hidden)
    if not told:
        return
    if schema.order != SHUFFLE:
        raise ColumnError(
            f"the order of the rows tells {listed([each.column for each in told])}: {told[0]}. "
            "Shuffle the rows of the copies or, if recipients need the order as in a time "
            "series, keep it",
            use=("shuffle", "keep_order"),
        )
    for name in _open(schema):
        if again := order.told(schema.perturbed, categories, hide_missing=hidden, sorted_by=name):
            warnings.warn(
                f"{name!r} is released unchanged, and rows sorted by it tell "
                f"{listed([each.column for each in again])}: {again[0]}. Shuffling does not help "
                "against that; drop the column (a dropped key still identifies the rows)",
                CornerwaveWarning,
                stacklevel=4,
            )


def _scales(
    source: Source, schema: Schema, secrets: RowSecrets, threads: int | None
) -> tuple[Scale, ...]:
    """Return the scales of the numbers; reads the table if one depends on its distribution."""
    sampler, sample = Sampler(schema, secrets), None
    if sampler.columns:

        def work(group: tuple[int, pa.Table]) -> Sample:
            start, table = group
            return sampler.of(row_ids(start, table, schema, secrets), table)

        with _in_order(work, numbered(source, schema), threads) as parts:
            for part in parts:
                sample = part if sample is None else sample + part
    return sampler.scales(sample)


def make_copies(
    source: Source,
    recipe: Recipe,
    outputs: Sequence[Output],
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> None:
    """Write each wanted copy to its output, in one pass over the source.

    Raises SourceChanged if the table is not the registered one: then nothing of what was
    written may be shown to anybody.
    """
    schema, found = recipe.frozen.schema, None
    is_shuffled = schema.order == SHUFFLE

    def work(group: tuple[Any, pa.Table]) -> tuple[Fingerprint, list[Any]]:
        first, table = group  # the ids of shuffled rows, else the number of the first row
        ids = first if is_shuffled else row_ids(first, table, schema, recipe.row_secrets)
        part, copies = recipe.copies(ids, table)
        return part, [out.encode(copy) for out, copy in zip(outputs, copies, strict=True)]

    groups = shuffled(source, recipe) if is_shuffled else numbered(source, schema)
    try:
        with _in_order(work, groups, threads) as made:
            for part, encoded in made:
                for output, rows in zip(outputs, encoded, strict=True):
                    output.append(rows)
                found = part if found is None else found + part
                progress(part.rows)
    except SourceLost:
        raise
    except SourceError as error:
        raise SourceChanged(f"this is not the registered table: {error}") from None
    recipe.check(found)


def shuffled_rows(source: Source, recipe: Recipe) -> Iterator[pa.Table]:
    """Yield the rows of a table in the order of its shuffled copies."""
    return (table for _, table in shuffled(source, recipe))


@contextmanager
def _in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int | None
) -> Iterator[Iterator[Result]]:
    """Give work(item) for each item, in order, a few of them under way at a time."""
    count = threads or available_threads()
    under_way: deque[Future[Result]] = deque()

    def results() -> Iterator[Result]:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > count:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()

    with ThreadPoolExecutor(count) as pool:
        try:
            yield results()
        finally:
            for waiting in under_way:
                waiting.cancel()


class _Keys:
    """Looks for two rows with one key, in little memory: ids wait in a file without a name."""

    def __init__(self, column: str | None) -> None:
        self._column = column
        self._file: BinaryIO | None = None
        self._count = 0

    def __enter__(self) -> "_Keys":
        if self._column is not None:
            self._file = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, ids: Ids) -> None:
        """Take the ids of some rows."""
        if self._file:
            self._file.write(ids.tobytes())
            self._count += len(ids)

    def check(self) -> None:
        """Raise ColumnError if two rows have the same id."""
        if not self._file or not self._count:
            return
        self._file.flush()
        ids = np.memmap(self._file, dtype=np.uint64, mode="r").reshape(-1, 2)
        parts = -(-self._count // IDS_IN_MEMORY)
        repeated = sum(self._repeated(ids, part, parts) for part in range(parts))
        if repeated:
            raise ColumnError(
                f"the key column {self._column!r} is not unique: {repeated} rows repeat a key"
            )

    def _repeated(self, ids: Ids, part: int, parts: int) -> int:
        chosen = [
            chunk[chunk[:, 0] % np.uint64(parts) == part]
            for chunk in np.array_split(ids, max(1, len(ids) // IDS_IN_MEMORY))
        ]
        mine = np.concatenate(chosen).view("V16")
        return len(mine) - len(np.unique(mine))
