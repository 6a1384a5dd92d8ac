"""The engine of one machine: groups of rows side by side in threads, results in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from cornerwave.arrays import Ids, Words
from cornerwave.columns import SHUFFLE, Fingerprint, Schema
from cornerwave.engines._passes import Found, Surveyed, Work, registered_rows, seen_in, survey_rows
from cornerwave.engines._shuffle import plain_table, shuffled
from cornerwave.engines.sorted_keys import KeepKeys, SortedKeys
from cornerwave.noise import available_threads
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.recipe import Recipe
from cornerwave.spine.rows import RowSecrets, numbered, row_ids
from cornerwave.spine.survey import Survey, Surveyor

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
    keep_keys: KeepKeys | None = None,
    progress: Progress = silent,
) -> tuple[Surveyor, Survey]:
    """Survey a whole table in threads. Raises SourceError as `survey_rows` does.

    `keep_keys` is called if the rows have a key.
    """
    engine = Threads(source, schema, threads, keep_keys)
    return survey_rows(engine, schema, secrets, progress)


@dataclass(frozen=True)
class Threads:
    """The groups of a source side by side in threads; what they found comes in order."""

    source: Source
    schema: Schema
    threads: int | None = None
    keep_keys: KeepKeys | None = None
    rows: int | None = None

    @contextmanager
    def run(self, work: Work[Found]) -> Iterator[Iterator[Found]]:
        """Run this work over all rows; give what it found in each group, in order."""
        columns = seen_in(self.source, self.schema)
        groups = numbered(self.source, self.schema, self.rows, columns)
        with in_threads(lambda group: work(*group), groups, self.threads) as found:
            yield found

    def repeated(self, found: Iterator[Surveyed], key: str | None) -> Iterator[Surveyed]:
        """Pass on what a survey found; raise ColumnError at the end if rows have one key."""
        with SortedKeys(key) as keys:
            for part in found:
                keys.add(part.ids)
                yield part
            if key is not None:
                (self.keep_keys or _look_at)(keys.ascending())


def _look_at(keys: Iterator[Words]) -> None:
    """Compare all keys, and keep none."""
    deque(keys, maxlen=0)


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
    with registered_rows(), in_threads(work, groups, threads) as made:
        for part, encoded in made:
            for output, rows in zip(outputs, encoded, strict=True):
                output.append(rows)
            found = part if found is None else found + part
            progress(part.rows)
    recipe.check(found)


def rows_as_copied(source: Source, recipe: Recipe) -> Iterator[pa.Table]:
    """Yield the rows of a table in the order of its copies, with their pseudonyms."""
    key = recipe.frozen.schema.pseudonym
    for ids, table in _identified(source, recipe):
        if key is not None:
            place = table.schema.get_field_index(key)
            table = table.set_column(place, key, recipe.pseudonyms(ids))
        yield table


def _identified(source: Source, recipe: Recipe) -> Iterator[tuple[Ids, pa.Table]]:
    """Yield (ids, rows) in the order of copies."""
    schema = recipe.frozen.schema
    if schema.order == SHUFFLE:
        yield from shuffled(source, recipe)
        return
    for start, table in numbered(source, schema):
        yield row_ids(start, table, schema, recipe.row_secrets), plain_table(table)


@contextmanager
def in_threads(
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
