"""The engine of one machine: groups of rows side by side in threads, results in order."""

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.errors import ColumnError, SourceChanged, SourceError
from cornerwave.noise import available_threads
from cornerwave.recipe import Recipe
from cornerwave.rows import RowSecrets, numbered, row_ids
from cornerwave.survey import Sample, Sampler, Survey, Surveyor, no_rows
from cornerwave.table import Fingerprint, Progress, Scale, Schema, Source, silent

IDS_IN_MEMORY = 1 << 23
"""Row ids that are compared at once when looking for duplicates."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Output(Protocol):
    """Where a copy goes, group by group."""

    def write(self, group: pa.Table) -> None:
        """Take the next rows."""


def survey_table(
    source: Source,
    schema: Schema,
    secrets: RowSecrets,
    *,
    threads: int | None = None,
    progress: Progress = silent,
) -> tuple[Surveyor, Survey]:
    """Survey a whole table. Raises SourceError, also if two rows have one key."""
    surveyor = Surveyor(schema, _scales(source, schema, secrets, threads), secrets)
    survey = no_rows(surveyor)

    def work(group: tuple[int, pa.Table]) -> tuple[Ids, Survey]:
        start, table = group
        ids = row_ids(start, table, schema, secrets)
        return ids, surveyor.of(ids, table, np.arange(start, start + len(ids)))

    with ThreadPoolExecutor(threads or available_threads()) as pool, _Keys(schema.key) as keys:
        for ids, part in _in_order(pool, work, numbered(source, schema)):
            survey = survey + part
            surveyor.check(survey)
            keys.add(ids)
            progress(len(ids))
        keys.check()
    return surveyor, survey


def _scales(
    source: Source, schema: Schema, secrets: RowSecrets, threads: int | None
) -> tuple[Scale, ...]:
    """Return the scales of the numbers; reads the table if one depends on its distribution."""
    sampler, sample = Sampler(schema, secrets), None
    if sampler.columns:

        def work(group: tuple[int, pa.Table]) -> Sample:
            start, table = group
            return sampler.of(row_ids(start, table, schema, secrets), table)

        with ThreadPoolExecutor(threads or available_threads()) as pool:
            for part in _in_order(pool, work, numbered(source, schema)):
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

    def work(group: tuple[int, pa.Table]) -> tuple[Fingerprint, list[pa.Table]]:
        start, table = group
        return recipe.copies(row_ids(start, table, schema, recipe.row_secrets), table)

    try:
        with ThreadPoolExecutor(threads or available_threads()) as pool:
            writes: list[Future[None]] = []
            for part, copies in _in_order(pool, work, numbered(source, schema)):
                _finish(writes)  # each output takes its groups one after the other
                pairs = zip(outputs, copies, strict=True)
                writes = [pool.submit(output.write, copy) for output, copy in pairs]
                found = part if found is None else found + part
                progress(part.rows)
            _finish(writes)
    except SourceError as error:
        raise SourceChanged(f"this is not the registered table: {error}") from None
    recipe.check(found)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield work(item) for each item, in order, a few of them under way at a time."""
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > pool._max_workers:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for waiting in under_way:
            waiting.cancel()


def _finish(writes: Iterable[Future[None]]) -> None:
    for write in writes:
        write.result()


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
