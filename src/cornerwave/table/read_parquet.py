"""Reading Parquet: a file, or a directory of them, whose folders may name columns too.

The columns of a directory are those of all its files: what only the last of them has
needs a decision like any other, and is missing in the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as papq

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table.kinds import plain_type
from cornerwave.table.schema import check_distinct
from cornerwave.table.source import Batches, Source

BATCH_ROWS = 1 << 16

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Text whose distinct values stand apart: quicker to read, refresh and write."""


def open_parquet(path: Path, types: Mapping[str, pa.DataType] | None) -> Source:
    """Open a file or a directory; `types` decide where its files disagree about a column."""
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise SourceError(f"{path} holds no .parquet file")
    try:
        schemas = [papq.read_schema(file) for file in files]
        for schema in schemas:
            check_distinct(schema.names)
        dataset = pads.dataset(
            [str(file) for file in files],
            format="parquet",
            partitioning=pads.partitioning(flavor="hive") if path.is_dir() else None,
            partition_base_dir=str(path) if path.is_dir() else None,
        )
    except (pa.ArrowException, OSError):
        raise SourceError(f"{path.name} cannot be read as Parquet, or is damaged") from None
    union = _union([dataset.schema, *schemas], types or {}, path)

    def read(columns: Sequence[str]) -> Batches:
        for fragment in dataset.get_fragments():
            yield from _read_fragment(fragment, union, columns)

    return Source(union, read, path)


def _union(schemas: Sequence[pa.Schema], fixed: Mapping[str, pa.DataType], path: Path) -> pa.Schema:
    """Return the columns of all schemas, in the order of their first appearance."""
    found: dict[str, dict[pa.DataType, None]] = {}
    for schema in schemas:
        for part in schema:
            found.setdefault(part.name, {})[part.type] = None
    return pa.schema(
        [
            (name, fixed[name] if len(types) > 1 and name in fixed else _joined(name, types, path))
            for name, types in found.items()
        ]
    )


def _joined(name: str, types: Iterable[pa.DataType], path: Path) -> pa.DataType:
    try:
        joined = pa.unify_schemas(
            [pa.schema([(name, type_)]) for type_ in types], promote_options="permissive"
        )
    except pa.ArrowException:
        raise ColumnError(
            f"{path.name}: the files disagree about column {name!r}: it is "
            f"{' and '.join(map(str, types))}; write them with one type"
        ) from None
    return joined.field(name).type


def _read_fragment(fragment: Any, schema: pa.Schema, columns: Sequence[str]) -> Batches:
    """Read one Parquet file batch by batch; scanners and pre-buffering hold all of it."""
    folders = pads.get_partition_keys(fragment.partition_expression)
    own = papq.read_schema(fragment.path)
    present = [name for name in columns if name in own.names]
    texts = [name for name in present if own.field(name).type == pa.string()]
    with papq.ParquetFile(fragment.path, pre_buffer=False, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=present):
            arrays = [
                _as(batch.column(name), schema.field(name).type)
                if name in present
                else _repeated(folders.get(name), batch.num_rows, schema.field(name).type)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column as a type; text may keep its distinct values apart, which is quicker."""
    if type_ == pa.string():
        return array if array.type == ENCODED_TEXT else array.cast(ENCODED_TEXT)
    return array.cast(type_)


def _repeated(value: Any, rows: int, type_: pa.DataType) -> pa.Array:
    if type_ == pa.string() or pa.types.is_dictionary(type_):
        encoded = pa.repeat(pa.scalar(value, plain_type(type_)), rows).dictionary_encode()
        return encoded if type_ == pa.string() else encoded.cast(type_)
    return pa.repeat(pa.scalar(value, type_), rows)
