"""Sources made of sources: several as one table, one held in a file, one cut into parts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave import sizes
from cornerwave.columns import is_text, plain_type
from cornerwave.errors import SourceError
from cornerwave.sources._csv import named_by_folders
from cornerwave.sources._parquet import ENCODED_TEXT, Batches, read_parquet, repeating
from cornerwave.sources._sources import Source, kind_of

# --------------------------------------------------------------------------------------------------
# Several sources read one after the other: what was registered, then each batch.


def in_a_row(parts: Sequence[Source], *, unique: Collection[str] = ()) -> Source:
    """Return sources with the same columns as one; columns in `unique` hardly repeat a value."""
    if len(parts) == 1:
        return parts[0]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in part.batches(columns):
                yield _alike(batch, unique)

    kind, first = parts[0].frame_kind, parts[0].first
    return Source(parts[0].schema, read, frame_kind=kind, first=first, parts=tuple(parts))


def _alike(batch: pa.RecordBatch, unique: Collection[str]) -> pa.RecordBatch:
    """Return a batch in types that no file decides: text may come with its values apart."""
    fields = [pa.field(field.name, _type(field, unique)) for field in batch.schema]
    wanted = pa.schema(fields)
    return batch if batch.schema.equals(wanted) else batch.cast(wanted)


def _type(field: pa.Field, unique: Collection[str]) -> pa.DataType:
    plain = plain_type(field.type)
    return ENCODED_TEXT if is_text(plain) and field.name not in unique else plain


# --------------------------------------------------------------------------------------------------
# Columns of a source, read once and held in a file, to be read again and again.
#
# A source may be slow to read: text, a database, another machine. If many questions are asked of
# it, it is held first, in a folder that nobody else can read.


_PACKED = pa.ipc.IpcWriteOptions(compression="lz4")


def hold(source: Source, columns: Sequence[str], folder: Path) -> Source:
    """Return a source of the same rows, with some columns, that reads a file in this folder."""
    path = folder / "held.arrows"
    schema = _write(source, columns, path)

    def read(wanted: Sequence[str]) -> Batches:
        some = pa.ipc.IpcReadOptions(included_fields=[schema.names.index(n) for n in wanted])
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file, options=some) as stream:
            for batch in stream:
                yield batch.select(list(wanted))

    return replace(source, schema=schema, open=read, database=None)


def _write(source: Source, columns: Sequence[str], path: Path) -> pa.Schema:
    """Write a stream, in which every batch can have its own dictionaries."""
    batches = source.batches(columns)
    first = next(batches)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, first.schema, options=_PACKED) as stream,
    ):
        stream.write_batch(first)
        for batch in batches:
            # files of one table may differ in how text is encoded
            stream.write_batch(batch if batch.schema == first.schema else batch.cast(first.schema))
    return first.schema


# --------------------------------------------------------------------------------------------------
# A Parquet source in parts that machines read on their own: some row groups of one file each.
#
# Footers state how many rows each row group has, so the rows keep the positions that they have
# when one machine reads all files in the order of their paths.


Folders = Mapping[str, str | None]
"""Columns that the folders of a file name, each with its one value."""


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of a file, with the columns that its folders name; rows begin at `first`."""

    number: int
    file: str
    folders: Folders
    groups: tuple[int, ...]
    first: int
    rows: int

    def source(self, schema: pa.Schema) -> Source:
        """Return the rows of the part; `schema` are the columns of the whole source."""
        texts = [column.name for column in schema if column.type == pa.string()]

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            apart = repeating(texts, [papq.read_metadata(self.file)])
            yield from read_parquet(
                Path(self.file), self.folders, schema, columns, apart, list(self.groups)
            )

        return Source(schema, read, Path(self.file))


def parquet_parts(source: Source, columns: int) -> list[ParquetPart]:
    """Return the parts of a Parquet file or directory, of which so many columns are read.

    Raises SourceError for any other source.
    """
    parts: list[ParquetPart] = []
    for each in source.parts or (source,):
        path = each.path
        if not isinstance(path, Path) or not _is_parquet(path):
            raise SourceError(
                f"{each.name} is not Parquet: machines cannot read parts of it. Write it as "
                "Parquet, or give a frame of Spark with a key column"
            )
        first = each.first
        for file, folders, groups, rows in _pieces(
            path, max(1, sizes.PARQUET_PART_CELLS // max(1, columns))
        ):
            parts.append(ParquetPart(len(parts), file, folders, groups, first, rows))
            first += rows
    return parts


def _pieces(path: Path, most: int) -> Iterator[tuple[str, Folders, tuple[int, ...], int]]:
    """Yield row groups of files that make a part of at most so many rows, and their rows."""
    for file, folders in _files(path):
        footer = papq.read_metadata(file)
        rows = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
        for groups in _cut(rows, most):
            yield file, folders, groups, sum(rows[n] for n in groups)


def _is_parquet(path: Path) -> bool:
    if path.is_dir():
        return kind_of(path) == "typed"
    return path.name.lower().endswith((".parquet", ".pq"))


def _files(path: Path) -> list[tuple[str, Folders]]:
    if not path.is_dir():
        return [(str(path), {})]
    files = sorted(f for f in path.rglob("*.parquet") if not f.name.startswith("."))
    return [(str(file), named_by_folders(file, path)) for file in files]


def _cut(rows: Sequence[int], most: int) -> Iterator[tuple[int, ...]]:
    """Yield row groups that follow each other, together of at most so many rows if they can be."""
    held: list[int] = []
    for number, count in enumerate(rows):
        if held and sum(rows[n] for n in held) + count > most:
            yield tuple(held)
            held = []
        if count:
            held.append(number)
    if held:
        yield tuple(held)
