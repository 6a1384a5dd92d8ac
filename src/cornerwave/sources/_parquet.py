"""Parquet: a file, or a directory of them, whose folders may name columns too.

A file is read some rows and some bytes at a time, so that it may be larger than memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave import sizes
from cornerwave.columns import check_distinct, plain_type
from cornerwave.errors import ColumnError
from cornerwave.sources._csv import named_by_folders
from cornerwave.sources._places import Address
from cornerwave.sources._stores import File, readable

BATCH_ROWS, LEAST_BATCH_ROWS = 1 << 16, 1 << 12
BATCH_CELLS = 1 << 20
"""Cells that are read at a time, whatever the width of a table: a wide one would fill memory."""

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Dictionary-encoded text: faster to read, refresh and write."""

PIECE, STORED_PIECE, STORED_PIECES = 1 << 16, 1 << 22, 1 << 27
"""Bytes of a column chunk that are read at once: whole ones of a wide Parquet file would fill
memory. From a store they are more, as each is a request, but no more than that in total."""

STRIP = 8
"""Columns of a row group that are read at once, where it has few cells."""

Batches = Iterator[pa.RecordBatch]
Types = Mapping[str, pa.DataType]


def batch_rows(columns: int) -> int:
    """Return how many rows of so many columns are read at a time."""
    return min(BATCH_ROWS, max(LEAST_BATCH_ROWS, BATCH_CELLS // max(1, columns)))


def open_parquet(
    place: Path | Address, files: Sequence[File], base: Path | Address | None, types: Types
) -> tuple[pa.Schema, int, Callable[[Sequence[str]], Batches]]:
    """Return the columns of a file or a directory, its number of rows, and what reads some columns.

    `types` decide where its files disagree about a column.

    The columns of a directory are those of all its files: a column that only the last
    of them has needs a decision like any other, and is missing in the others.
    """
    footers = [papq.read_metadata(readable(file)) for file in files]
    schemas = [footer.schema.to_arrow_schema() for footer in footers]
    for schema in schemas:
        check_distinct(schema.names)
    folders = [named_by_folders(file, base) for file in files]
    union = _union([*schemas, _folder_types(folders)], types, place)
    apart = repeating([part.name for part in union if part.type == pa.string()], footers)

    def read(columns: Sequence[str]) -> Batches:
        for file, named in zip(files, folders, strict=True):
            yield from read_parquet(file, named, union, columns, apart)

    return union, sum(footer.num_rows for footer in footers), read


def _folder_types(folders: Sequence[Mapping[str, str | None]]) -> pa.Schema:
    """Return the columns that folders name: whole numbers if all are, else text."""
    columns: dict[str, list[str | None]] = {}
    for each in folders:
        for name, value in each.items():
            columns.setdefault(name, []).append(value)
    return pa.schema([(name, _folder_type(values)) for name, values in columns.items()])


def _folder_type(values: Sequence[str | None]) -> pa.DataType:
    try:
        return pa.array(values, pa.string()).cast(pa.int32()).type
    except pa.ArrowException:
        return pa.string()


def _union(schemas: Sequence[pa.Schema], fixed: Types, path: Path | Address) -> pa.Schema:
    """Return the columns of all schemas, in the order of their first appearance."""
    columns: dict[str, dict[pa.DataType, None]] = {}
    for schema in schemas:
        for part in schema:
            columns.setdefault(part.name, {})[part.type] = None
    return pa.schema(
        [
            (name, fixed[name] if len(types) > 1 and name in fixed else _joined(name, types, path))
            for name, types in columns.items()
        ]
    )


def _joined(name: str, types: Iterable[pa.DataType], path: Path | Address) -> pa.DataType:
    schemas = [pa.schema([(name, type_)]) for type_ in types]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except pa.ArrowException:
        raise ColumnError(
            f"{path.name}: the files disagree about column {name!r}: it is "
            f"{' and '.join(map(str, types))}; write them with one type"
        ) from None


def repeating(texts: Sequence[str], footers: Sequence[papq.FileMetaData]) -> list[str]:
    """Return the text columns whose values are kept apart in their files, being fewer than rows.

    Texts that hardly repeat, as keys do, take more bytes than a number into a list of them;
    they are read as they are.
    """
    size, values = dict.fromkeys(texts, 0), dict.fromkeys(texts, 0)
    for footer in footers if texts else ():
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                if (name := chunk.path_in_schema) in size:
                    size[name] += chunk.total_uncompressed_size
                    values[name] += chunk.num_values
    return [name for name in texts if size[name] <= 4 * values[name]]


def read_parquet(
    file: File,
    folders: Mapping[str, str | None],
    schema: pa.Schema,
    columns: Sequence[str],
    apart: Sequence[str],
    groups: Sequence[int] | None = None,
) -> Batches:
    """Read one Parquet file batch by batch; scanners and pre-buffering hold all of it.

    All of its row groups, or some.
    """
    in_file = papq.read_schema(readable(file))
    present = [name for name in columns if name in in_file.names]
    texts = [name for name in present if name in apart and in_file.field(name).type == pa.string()]
    rows, piece = batch_rows(len(columns)), _piece(file, len(present))
    with papq.ParquetFile(
        readable(file), pre_buffer=False, buffer_size=piece, read_dictionary=texts
    ) as content:
        chosen = range(content.num_row_groups) if groups is None else groups
        by_strips = _are_strips_smaller(content, present, chosen)
        for batch in (
            _by_strips(content, present, chosen, rows)
            if by_strips
            else content.iter_batches(batch_size=rows, row_groups=chosen, columns=present)
        ):
            arrays = [
                _as(batch.column(name), schema.field(name).type, apart=name in apart)
                if name in present
                else _repeated(
                    folders.get(name), batch.num_rows, schema.field(name).type, name in apart
                )
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _are_strips_smaller(
    content: papq.ParquetFile, columns: Sequence[str], groups: Sequence[int]
) -> bool:
    """Return whether all cells of a row group take less memory than reading its columns at once.

    For each column that it reads, Arrow keeps a page, and the column's distinct values twice: some
    megabytes, however few the rows of a batch.
    """
    types = [content.schema_arrow.field(name).type for name in columns]
    fixed = all(pa.types.is_primitive(each) or pa.types.is_dictionary(each) for each in types)
    rows = max((content.metadata.row_group(group).num_rows for group in groups), default=0)
    return len(columns) > 4 * STRIP and fixed and rows * len(columns) <= sizes.STRIP_CELLS


def _by_strips(
    content: papq.ParquetFile, columns: Sequence[str], groups: Sequence[int], rows: int
) -> Batches:
    """Read whole row groups, some columns at a time, and yield them batch by batch."""
    for group in groups:
        starts = range(0, content.metadata.row_group(group).num_rows, rows)
        batches: list[list[pa.Array]] = [[] for _ in starts]
        for at in range(0, len(columns), STRIP):
            strip = content.read_row_group(group, columns=columns[at : at + STRIP])
            for start, batch in zip(starts, batches, strict=True):
                # copied, so that a batch that was used leaves memory without the others
                some = strip.slice(start, rows)
                batch += [pa.concat_arrays(some.column(name).chunks) for name in some.column_names]
        for place, arrays in enumerate(batches):
            batches[place] = []
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _piece(file: File, columns: int) -> int:
    if isinstance(file, Path):
        return PIECE
    return max(PIECE, min(STORED_PIECE, STORED_PIECES // max(1, columns)))


def _as(array: pa.Array, type_: pa.DataType, *, apart: bool) -> pa.Array:
    """Return a column as a type; text whose values are kept apart stays so."""
    return array.cast(ENCODED_TEXT if apart else type_)


def _repeated(value: str | None, rows: int, type_: pa.DataType, apart: bool) -> pa.Array:
    """Return a column of one value, that of a folder, or of none."""
    cells = pa.repeat(pa.scalar(value, pa.string()).cast(plain_type(type_)), rows)
    if apart or pa.types.is_dictionary(type_):
        encoded = cells.dictionary_encode()
        return encoded if apart else encoded.cast(type_)
    return cells
