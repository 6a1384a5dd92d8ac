"""The engine of one machine: groups of rows side by side in threads, results in order."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cornerwave.arrays import Ids, Words
from cornerwave.choices import KEY, SHUFFLE
from cornerwave.columns import Schema
from cornerwave.engines._passes import Block, registered_rows, seen_in, survey_rows
from cornerwave.engines._shuffle import plain_table, shuffled
from cornerwave.engines.sorted_keys import KeepKeys, SortedKeys
from cornerwave.errors import discreet
from cornerwave.outputs import stating
from cornerwave.passes import Found, Pass, Result_co, add_up, in_threads
from cornerwave.sources import Progress, Source, silent
from cornerwave.spec import ColumnMetadata, CopyMetadata
from cornerwave.spine.recipe import Fingerprints, Recipe
from cornerwave.spine.rows import RowSecrets, numbered, outer_ids, row_ids, unit_ids
from cornerwave.spine.survey import Survey, Surveyor


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
    is_placed = True

    @property
    def all_rows(self) -> int | None:
        """How many rows the table has, if its file states it."""
        return self.source.rows

    def run(self, pass_: Pass[Block, Found, Result_co], progress: Progress = silent) -> Result_co:
        """Run a pass over all rows. Raises ColumnError if it compares keys, and rows have one."""
        columns = seen_in(self.source, self.schema)
        if pass_.reads is not None:
            columns = [name for name in columns if name in pass_.reads]
        groups = numbered(self.source, self.schema, self.at_once, columns)
        key = self.schema.key if pass_.compares_keys else None
        with SortedKeys(key) as keys:

            def seen(block: Block) -> None:
                keys.add(block.ids)
                progress(len(block.ids))

            total = add_up(pass_, groups, self._block, seen=seen, threads=self.threads)
            if key is not None:
                (self.keep_keys or _look_at)(keys.ascending())
        return pass_.finish(total)

    def _block(self, group: tuple[int, pa.Table]) -> Block:
        return Block.of(*group, self.schema, self.secrets)


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
    schema, prints = recipe.frozen.schema, Fingerprints()
    is_shuffled = schema.order == SHUFFLE

    def work(group: tuple[Any, pa.Table]) -> tuple[Fingerprints, list[Any]]:
        first, table = group  # the ids of shuffled rows, else the number of the first row
        ids = first if is_shuffled else row_ids(first, table, schema, recipe.row_secrets)
        part, copies = recipe.copies(ids, table)
        return part, [out.encode(copy) for out, copy in zip(outputs, copies, strict=True)]

    groups = shuffled(source, recipe) if is_shuffled else numbered(source, schema)
    with registered_rows(), in_threads(work, groups, threads) as made:
        for part, encoded in made:
            for output, rows in zip(outputs, encoded, strict=True):
                output.append(rows)
            prints = prints + part
            progress(part.table.rows)
    recipe.check(prints)


def rows_as_copied(source: Source, recipe: Recipe) -> Iterator[pa.Table]:
    """Yield the rows of a table in the order of its copies, with their pseudonyms."""
    schema, secrets = recipe.frozen.schema, recipe.row_secrets
    key = schema.pseudonym
    for ids, table in _identified(source, recipe):
        shown = table
        if schema.unit_pseudonyms:
            units, outers = (of(ids, table, schema, secrets) for of in (unit_ids, outer_ids))
            for unit, pseudonyms in recipe.unit_pseudonyms(units, outers).items():
                place = table.schema.get_field_index(unit)
                shown = shown.set_column(place, unit, pseudonyms.dictionary_decode())
        if key is not None:
            place = table.schema.get_field_index(key)
            shown = shown.set_column(place, key, recipe.pseudonyms(ids))
        yield shown


def write_as_copied(source: Source, recipe: Recipe, path: Path) -> None:
    """Write the rows of a table to an Arrow file, in the order of its copies."""
    key = recipe.frozen.schema.pseudonym
    columns = {} if key is None else {key: ColumnMetadata(role=KEY, pseudonym=True)}
    stated = CopyMetadata(order=recipe.frozen.schema.order, columns=columns)
    with discreet(), pa.OSFile(str(path), "wb") as file, ExitStack() as closing:
        writer = None
        for table in rows_as_copied(source, recipe):
            if writer is None:
                schema = stating(table.schema, stated)
                writer = closing.enter_context(pa.ipc.new_file(file, schema))
            writer.write_table(table)


def _identified(source: Source, recipe: Recipe) -> Iterator[tuple[Ids, pa.Table]]:
    """Yield (ids, rows) in the order of copies."""
    schema = recipe.frozen.schema
    if schema.order == SHUFFLE:
        yield from shuffled(source, recipe)
        return
    for start, table in numbered(source, schema):
        yield row_ids(start, table, schema, recipe.row_secrets), plain_table(table)
