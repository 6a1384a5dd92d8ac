"""An audit on Spark: the passes that an audit measures by, over frames matched by a key.

    source, copies ── joined by the key, placed in its order ── by block ──> what blocks show

The place of a row is that of its key among all keys in order. So blocks hold the same rows, under
the same numbers, as those of an audit of tables sorted by the key on one machine; only sums are
added up in another order. No secret travels: an auditor has none.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.audit import (
    BLOCK_ROWS,
    Aligned,
    AlignedCategories,
    AlignedRows,
    Audit,
    BlockReading,
    audit_aligned,
    refuse_overflow,
    with_metadata,
)
from cornerwave.columns import plain_type
from cornerwave.engines._on_worker import (
    FOUND,
    ROWS,
    Batches,
    Note,
    packed,
    packed_table,
    unpacked_table,
)
from cornerwave.engines.spark import found_in, in_our_words, notes_of, of_frame, quoted
from cornerwave.errors import ColumnError, SourceError
from cornerwave.passes import Found, Pass, Result
from cornerwave.sources import Progress, Source, silent

KEY, PLACE, BLOCK = "cornerwave_key", "cornerwave_place", "cornerwave_block"
"""The columns of joined rows; those of table i are called `i_name`."""
BLOCKS_AT_ONCE = 16
"""Blocks that are brought here together, where a pass cannot run on the cluster."""


def audit_spark(
    source: Any,
    copies: Sequence[Any],
    *,
    key: str,
    privacy: Sequence[float] | None = None,
    metadata: Sequence[Mapping[str, object] | None] | None = None,
    progress: Progress = silent,
) -> Audit:
    """Audit copies of a source, all of them frames of Spark with a key column.

    Frames hold no metadata: `metadata` is what each copy states, as `Release.metadata` has it.
    Without it they are taken for raw copies, and `privacy` is what each should hide of every
    column. Raises SourceError or ColumnError if they are not copies of the same rows, LevelError
    if `privacy` does not fit, ClusterError if the cluster fails.
    """
    frames = [source, *copies]
    tables = [of_frame(frame) for frame in frames]
    for number, table in enumerate(tables):
        if key not in table.schema.names:
            raise ColumnError(f"{_called(number)} has no column {key!r} to align the rows by")
    with in_our_words():
        count = _count(frames, key)
        rows = _joined(frames, [table.schema.names for table in tables], key)
        if rows.count() != count:
            raise _other_keys(key)
    opened = [
        replace(table, open=_reader(rows, count, number, table.schema))
        for number, table in enumerate(tables)
    ]
    held = with_metadata(opened[1:], metadata)
    aligned = AlignedOnSpark.of(opened[0], held, key=key, privacy=privacy, is_matched=True)
    return audit_aligned(replace(aligned, rows=rows, count=count), progress)


@dataclass(frozen=True)
class AlignedOnSpark(Aligned):
    """Source and copies in one frame, of `count` rows: passes run where its rows are."""

    rows: Any = field(default=None, repr=False)
    count: int = 0

    def run(
        self,
        plan: Callable[[AlignedRows], Pass[AlignedRows, Found, Result]],
        tables: Sequence[Source] | None = None,
        *,
        progress: Progress = silent,
    ) -> Result:
        """Run a pass over the numbers of tables, by default all, planned by their first rows."""
        if not self.count:
            raise SourceError(f"{self.source.name} holds no rows")
        every = (self.source, *self.copies)
        wanted = every if tables is None else tables
        types = {
            number: _types(table.schema, self.reading.read)
            for number, table in enumerate(every)
            if any(table is each for each in wanted)
        }
        reading = self.reading_of([every[number] for number in types])
        # the block that an audit of files plans by too
        pass_ = plan(_numbers(reading, 0, _brought(self.rows, types, 0, 1), types))
        return pass_.finish(self._added_up(BlockJob(pass_, reading, types, _numbers), progress))

    def run_categories(
        self,
        pass_: Pass[AlignedCategories, Found, Result],
        progress: Progress = silent,
        places: Any = None,
    ) -> Result:
        """Run a pass over the categories; those at some `places` are brought here."""
        if places is not None:
            return super().run_categories(pass_, progress, places)
        names = list(self.reading.categories)
        every = enumerate((self.source, *self.copies))
        types = {number: _types(table.schema, names) for number, table in every}
        job = BlockJob(pass_, self.reading, types, _categories)
        return pass_.finish(self._added_up(job, progress))

    def _added_up(self, job: "BlockJob", progress: Progress) -> Any:
        total = job.pass_.nothing()
        blocks = -(-self.count // BLOCK_ROWS)
        frame = self.rows.select(*_selected(job.types)).repartition(blocks, BLOCK)
        for _, _, content in notes_of(frame, job):
            rows, part = found_in(content, type(total))
            total = total + part
            progress(rows)
        return total


# --------------------------------------------------------------------------------------------------
# What machines do.


Types = Mapping[int, pa.Schema]
"""The columns that are read of each table, by its number."""


@dataclass(frozen=True, repr=False)
class BlockJob:
    """Runs a pass over the blocks that a machine is given, each of them whole."""

    pass_: Pass[Any, Any, Any]
    reading: BlockReading
    types: Types
    block_of: Callable[[BlockReading, int, pa.Table, Types], Any]

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield what these blocks show."""
        held = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        if not held:
            return
        rows, total = pa.concat_tables(held), self.pass_.nothing()
        with refuse_overflow():
            for number in sorted(pc.unique(rows.column(BLOCK)).to_pylist()):
                table = rows.filter(pc.equal(rows.column(BLOCK), number)).sort_by(PLACE)
                block = self.block_of(self.reading, number, table, self.types)
                total = total + self.pass_.of(block, total)
        yield 0, FOUND, packed((rows.num_rows, total.trimmed()))


def _numbers(reading: BlockReading, number: int, rows: pa.Table, types: Types) -> AlignedRows:
    matrices = [reading.matrix(_table(rows, i, schema)) for i, schema in types.items()]
    return reading.rows((number, number * BLOCK_ROWS, matrices))


def _categories(
    reading: BlockReading, number: int, rows: pa.Table, types: Types
) -> AlignedCategories:
    tables = [reading.encodings(_table(rows, i, schema)) for i, schema in types.items()]
    return AlignedCategories(number * BLOCK_ROWS, tables)


def _table(rows: pa.Table, number: int, types: pa.Schema) -> pa.Table:
    """Return the rows of one table, in its types: a frame has them in those of Spark."""
    columns = []
    for column in types:
        try:
            columns.append(rows.column(f"{number}_{column.name}").cast(plain_type(column.type)))
        except pa.ArrowException:  # its words may quote a cell
            raise SourceError(
                f"column {column.name!r} no longer holds values of its kind"
            ) from None
    return pa.table(columns, names=types.names)


@dataclass(frozen=True, repr=False)
class ReadJob:
    """Sends rows as they are."""

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield rows."""
        for batch in batches:
            yield 0, ROWS, packed_table(pa.Table.from_batches([batch]))


# --------------------------------------------------------------------------------------------------
# What the driver asks for: one frame of all tables, and some of its rows in order.


def _count(frames: Sequence[Any], key: str) -> int:
    """Return how many rows every frame has. Raises ColumnError if two of them have one key."""
    counts = []
    for number, frame in enumerate(frames):
        [[rows, keys]] = frame.selectExpr(
            "count(*) as n", f"count(distinct {quoted(key)}) as k"
        ).collect()
        if keys < rows:
            raise ColumnError(
                f"{_called(number)}: {key!r} has duplicate or missing values; align by a column of "
                "unique keys"
            )
        counts.append(rows)
    if len(set(counts)) > 1:
        raise _other_keys(key)
    return int(counts[0])


def _joined(frames: Sequence[Any], names: Sequence[Sequence[str]], key: str) -> Any:
    """Return one row for each key that all frames have, with its place and block."""
    # one task sorts the keys; it sees no other column
    place = f"row_number() over (order by {quoted(key)}) - 1"
    keys = frames[0].selectExpr(f"{quoted(key)} as {KEY}", f"{place} as {PLACE}")
    placed = keys.selectExpr(KEY, PLACE, f"cast({PLACE} div {BLOCK_ROWS} as bigint) as {BLOCK}")
    tables = [
        frame.selectExpr(
            f"{quoted(key)} as {KEY}",
            *(f"{quoted(name)} as {quoted(f'{number}_{name}')}" for name in held),
        )
        for number, (frame, held) in enumerate(zip(frames, names, strict=True))
    ]
    return reduce(lambda rows, table: rows.join(table, KEY), tables, placed)


def _reader(
    rows: Any, count: int, number: int, schema: pa.Schema
) -> Callable[[Sequence[str]], Iterator[pa.RecordBatch]]:
    """Return what brings columns of a table here, in the order of the keys, some at a time."""

    def read(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        types = {number: _types(schema, names)}
        for first in range(0, -(-count // BLOCK_ROWS), BLOCKS_AT_ONCE):
            table = _brought(rows, types, first, BLOCKS_AT_ONCE)
            yield from _table(table, number, types[number]).to_batches()

    return read


def _brought(rows: Any, types: Types, first: int, blocks: int) -> pa.Table:
    """Return the rows of some blocks in their order: a cluster promises none."""
    some = rows.where(f"{BLOCK} >= {first} and {BLOCK} < {first + blocks}")
    notes = notes_of(some.select(*_selected(types)), ReadJob())
    return pa.concat_tables(unpacked_table(content) for _, _, content in notes).sort_by(PLACE)


def _types(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _selected(types: Types) -> list[str]:
    columns = [quoted(f"{i}_{name}") for i, schema in types.items() for name in schema.names]
    return [PLACE, BLOCK, *columns]


def _called(number: int) -> str:
    return f"the frame of copy {number}" if number else "the frame of the source"


def _other_keys(key: str) -> SourceError:
    return SourceError(
        f"the frames do not have the same keys in {key!r}: they are not copies of the same rows"
    )
