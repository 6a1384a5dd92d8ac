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
from cornerwave.engines._passes import (
    Block,
    Found,
    Pass,
    Result_co,
    registered_rows,
    seen_in,
    survey_rows,
)
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
    engine = Threads(source, schema, secrets, threads, keep_keys)
    return survey_rows(engine, schema, secrets, progress)


@dataclass(frozen=True)
class Threads:
    """The blocks of a source side by side in threads; what they show is added up in order.

    `at_once` are the rows of a block.
    """

    source: Source
    schema: Schema
    secrets: RowSecrets
    threads: int | None = None
    keep_keys: KeepKeys | None = None
    at_once: int | None = None
    all_rows = None
    is_placed = True

    def run(self, pass_: Pass[Found, Result_co], progress: Progress = silent) -> Result_co:
        """Run a pass over all rows. Raises ColumnError if it compares keys, and rows have one."""
        total = pass_.nothing()
        columns = seen_in(self.source, self.schema)
        groups = numbered(self.source, self.schema, self.at_once, columns)
        # this thread alone adds up: each block takes along what is known when it is handed out
        handed_out = ((start, table, total) for start, table in groups)

        def look(given: tuple[int, pa.Table, Found]) -> tuple[Ids, Found]:
            start, table, known = given
            block = Block.of(start, table, self.schema, self.secrets)
            return block.ids, pass_.of(block, known)

        key = self.schema.key if pass_.compares_keys else None
        with SortedKeys(key) as keys, in_threads(look, handed_out, self.threads) as parts:
            for ids, found in parts:
                keys.add(ids)
                total = total + found
                progress(len(ids))
            if key is not None:
                (self.keep_keys or _look_at)(keys.ascending())
        return pass_.finish(total)


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
