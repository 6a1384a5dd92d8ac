"""Reading a source: CSV (also .gz), Parquet, Arrow/Feather, a directory of Parquet, a frame.

Files are streamed in groups of a fixed number of rows, so that a table larger than
memory is read in little of it, and so that the rows of a group, and with them the
bytes of a copy, do not depend on how the file was cut. An error names a column or
a line, never what stands there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.parquet as papq

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table.csv_types import infer_types
from cornerwave.table.schema import check_distinct

BATCH_ROWS = 1 << 16
CSV_BLOCK_BYTES = 1 << 23

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Text whose distinct values stand apart: quicker to read, refresh and write."""

PARQUET, ARROW, CSV = (".parquet", ".pq"), (".arrow", ".feather", ".ipc"), (".csv", ".csv.gz")
ENDINGS = (*CSV, *PARQUET, *ARROW)


@dataclass(frozen=True)
class Source:
    """A table that can be read again and again, always in the same order.

    `path` is where it lies (None for a frame in memory), `frame_kind` what a frame
    should be turned back into.
    """

    schema: pa.Schema
    open: Callable[[Sequence[str]], Iterator[pa.RecordBatch]] = field(repr=False)
    path: Path | None = None
    frame_kind: Any = None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns, batch by batch; raise SourceError if they cannot be read."""
        if missing := [name for name in columns if name not in self.schema.names]:
            raise ColumnError(f"the table has no column {', '.join(map(repr, missing))}")
        try:
            yield from self.open(columns)
        except (pa.ArrowException, UnicodeDecodeError, EOFError):
            # Arrow's own words quote cells; they must not be seen, not even as a cause.
            raise SourceError(f"{self.name} cannot be read to its end: it is damaged") from None
        except OSError as error:
            raise _unreadable(self.name, error) from None

    def groups(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield tables of exactly `rows` rows, the last one of what is left."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in self.batches(columns):
            while count + batch.num_rows >= rows:
                take = rows - count
                yield pa.Table.from_batches([*held, batch.slice(0, take)])
                held, count, batch = [], 0, batch.slice(take)
            if batch.num_rows:
                held.append(batch)
                count += batch.num_rows
        if held:
            yield pa.Table.from_batches(held)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.path.name if self.path else "the frame"


def _unreadable(name: str, error: OSError) -> SourceError:
    return SourceError(f"{name} cannot be read: {error.strerror or 'it is damaged'}")


def open_source(what: Any, types: Mapping[str, pa.DataType] | None = None) -> Source:
    """Open a path or a frame (pandas, polars, pyarrow, anything that speaks Arrow).

    `types` fixes the types of a CSV's columns, as they were at registration; without
    it the whole file is read once to infer them. Raises SourceError.
    """
    if not isinstance(what, str | Path):
        return _open_frame(what)
    path = Path(what).absolute()
    try:
        exists, is_directory = path.exists(), path.is_dir()
    except OSError as error:
        raise _unreadable(str(path), error) from None
    if not exists:
        raise SourceError(f"there is no file {path}")
    name = path.name.lower()
    if is_directory:
        return _open_parquet(path, sorted(path.rglob("*.parquet")))
    if name.endswith(PARQUET):
        return _open_parquet(path, [path])
    if name.endswith(ARROW):
        return _open_arrow(path)
    if name.endswith(CSV):
        return _open_csv(path, types)
    raise SourceError(
        f"{path.name}: the ending must be one of {', '.join(ENDINGS)}, or a directory"
    )


def _open_parquet(path: Path, files: list[Path]) -> Source:
    if not files:
        raise SourceError(f"{path} holds no .parquet file")
    try:
        check_distinct(papq.read_schema(files[0]).names)
        dataset = pads.dataset(
            [str(file) for file in files],
            format="parquet",
            partitioning=pads.partitioning(flavor="hive") if path.is_dir() else None,
            partition_base_dir=str(path) if path.is_dir() else None,
        )
    except (pa.ArrowException, OSError):
        raise SourceError(f"{path.name} cannot be read as Parquet, or is damaged") from None

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for fragment in dataset.get_fragments():
            yield from _read_fragment(fragment, dataset.schema, columns)

    return Source(dataset.schema, read, path)


def _read_fragment(
    fragment: Any, schema: pa.Schema, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read one Parquet file batch by batch; scanners and pre-buffering hold all of it."""
    folders = pads.get_partition_keys(fragment.partition_expression)
    texts = [name for name in columns if schema.field(name).type == pa.string()]
    with papq.ParquetFile(fragment.path, pre_buffer=False, read_dictionary=texts) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
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
        return array if pa.types.is_dictionary(array.type) else array.cast(ENCODED_TEXT)
    return array.cast(type_)


def _repeated(value: Any, rows: int, type_: pa.DataType) -> pa.Array:
    if type_ == pa.string() or pa.types.is_dictionary(type_):
        encoded = pa.repeat(pa.scalar(value, _plain(type_)), rows).dictionary_encode()
        return encoded if type_ == pa.string() else encoded.cast(type_)
    return pa.repeat(pa.scalar(value, type_), rows)


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _open_arrow(path: Path) -> Source:
    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(path)) as content:
            file = pa.ipc.open_file(content)
            for index in range(file.num_record_batches):
                yield file.get_batch(index).select(list(columns))

    try:
        with pa.memory_map(str(path)) as content:
            schema = pa.ipc.open_file(content).schema
    except (pa.ArrowException, OSError):
        raise SourceError(f"{path.name} cannot be read as an Arrow file, or is damaged") from None
    check_distinct(schema.names)
    return Source(schema, read, path)


def _open_csv(path: Path, types: Mapping[str, pa.DataType] | None) -> Source:
    if types is None:
        names = _csv_names(path)
        check_distinct(names)
        texts = dict.fromkeys(names, pa.string())
        types = infer_types(lambda: _read_csv(path, texts, names), names)
    fixed = types
    return Source(
        pa.schema(list(fixed.items())), lambda columns: _read_csv(path, fixed, columns), path
    )


def _csv_names(path: Path) -> list[str]:
    # A broken line is told, with its number, by the pass that reads them all.
    lenient = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    try:
        with pacsv.open_csv(path, parse_options=lenient) as csv:
            return list(csv.schema.names)
    except pa.ArrowException:
        raise SourceError(f"{path.name} is empty, malformed or not UTF-8 text") from None
    except (OSError, UnicodeDecodeError, EOFError):
        raise SourceError(f"{path.name} cannot be read") from None


def _read_csv(
    path: Path, types: Mapping[str, pa.DataType], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read text and all else side by side: they spell missing values differently."""
    texts = [name for name in columns if pa.types.is_string(types[name])]
    others = [name for name in columns if name not in texts]
    parts = [
        *([_csv_batches(path, types, texts, _TEXT_NULLS)] if texts else []),
        *([_csv_batches(path, types, others, {})] if others else []),
    ]
    for batches in zip(*parts, strict=True):
        arrays = {name: batch.column(name) for batch in batches for name in batch.schema.names}
        yield pa.record_batch([arrays[name] for name in columns], names=list(columns))


_TEXT_NULLS = {
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}
"""A text is missing where nothing stands; where quotes stand with nothing between, it is empty."""


def _csv_batches(
    path: Path,
    types: Mapping[str, pa.DataType],
    columns: Sequence[str],
    nulls: Mapping[str, Any],
) -> Iterator[pa.RecordBatch]:
    broken: list[int] = []

    def on_invalid_row(row: Any) -> str:
        broken.append(row.number)
        return "error"

    try:
        reader = pacsv.open_csv(
            path,
            read_options=pacsv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
            parse_options=pacsv.ParseOptions(
                newlines_in_values=True, invalid_row_handler=on_invalid_row
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict(types), include_columns=list(columns), **nulls
            ),
        )
        yield from reader
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SourceError(_csv_fault(path, broken, str(error))) from None
    except OSError as error:
        raise _unreadable(path.name, error) from None


def _csv_fault(path: Path, broken: list[int], text: str) -> str:
    if broken:
        where = f"{path.name}: record {broken[0]}, counting the header"
        return f"{where}, has more or fewer fields than it"
    if "UTF8" in text or "utf-8" in text:
        return f"{path.name} is not UTF-8 text; convert it first (for example with iconv)"
    if "conversion error" in text.lower():
        return f"{path.name}: a column no longer holds the kind of value that it held before"
    return f"{path.name} is not a well-formed CSV file"


def _open_frame(frame: Any) -> Source:
    try:
        table, kind = _arrow_of(frame)
    except ColumnError:
        raise
    except Exception:  # whatever a library says may quote a cell
        raise SourceError(
            f"a {type(frame).__name__} is neither a path nor a table: give a file, or a frame "
            "of pandas, polars, pyarrow or another library that speaks Arrow"
        ) from None
    return Source(
        table.schema,
        lambda columns: iter(table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS)),
        frame_kind=kind,
    )


def _arrow_of(frame: Any) -> tuple[pa.Table, Any]:
    """Return any frame as an Arrow table, with the library it should go back to."""
    try:
        native = nw.from_native(frame, eager_only=True, pass_through=True)
        if isinstance(native, nw.DataFrame):
            return native.to_arrow(), native.implementation
    except nw.exceptions.DuplicateError:
        raise ColumnError("more than one column of the frame has the same name") from None
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        raise ColumnError(
            "a column of the frame mixes kinds of values, or holds numbers beyond 64 bits"
        ) from None
    return pa.table(frame), nw.Implementation.PYARROW
