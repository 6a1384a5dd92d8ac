"""A Parquet source in parts that machines read on their own: some row groups of one file each.

Footers say how many rows each row group has, so the rows keep the positions that they have
when one machine reads all files in the order of their paths.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave import sizes
from cornerwave.errors import SourceError
from cornerwave.sources._csv import named_by_folders
from cornerwave.sources._parquet import read_parquet, repeating
from cornerwave.sources._sources import Source, kind_of


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of a file, with the columns that its folders name; rows begin at `first`."""

    number: int
    file: str
    folders: Mapping[str, Any]
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


def _pieces(path: Path, most: int) -> Iterator[tuple[str, Mapping[str, Any], tuple[int, ...], int]]:
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


def _files(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
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
