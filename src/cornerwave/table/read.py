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

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table.csv_types import infer_types
from cornerwave.table.schema import check_distinct

BATCH_ROWS = 1 << 16
CSV_BLOCK_BYTES = 1 << 23

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
            raise SourceError(
                f"{self.name} cannot be read: {error.strerror or 'I/O error'}"
            ) from None

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


def open_source(what: Any, types: Mapping[str, pa.DataType] | None = None) -> Source:
    """Open a path or a frame (pandas, polars, pyarrow, anything that speaks Arrow).

    `types` fixes the types of a CSV's columns, as they were at registration; without
    it the whole file is read once to infer them. Raises SourceError.
    """
    if not isinstance(what, str | Path):
        return _open_frame(what)
    path = Path(what).absolute()
    if not path.exists():
        raise SourceError(f"there is no file {path}")
    name = path.name.lower()
    if path.is_dir():
        return _open_dataset(path, sorted(path.rglob("*.parquet")), "parquet")
    if name.endswith(PARQUET):
        return _open_dataset(path, [path], "parquet")
    if name.endswith(ARROW):
        return _open_dataset(path, [path], "ipc")
    if name.endswith(CSV):
        return _open_csv(path, types)
    raise SourceError(
        f"{path.name}: the ending must be one of {', '.join(ENDINGS)}, or a directory"
    )


def _open_dataset(path: Path, files: list[Path], kind: str) -> Source:
    if not files:
        raise SourceError(f"{path} holds no .parquet file")
    partitioning = pads.partitioning(flavor="hive") if path.is_dir() else None
    try:
        dataset = pads.dataset(
            [str(file) for file in files],
            format=kind,
            partitioning=partitioning,
            partition_base_dir=str(path) if path.is_dir() else None,
        )
    except pa.ArrowException:
        raise SourceError(f"{path.name} is not a {kind} file, or it is damaged") from None
    except OSError:
        raise SourceError(f"{path.name} cannot be read, or is not a {kind} file") from None

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(
            dataset.to_batches(
                columns=list(columns),
                batch_size=BATCH_ROWS,
                batch_readahead=4,
                fragment_readahead=1,
            )
        )

    return Source(dataset.schema, read, path)


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
                column_types=dict(types), include_columns=list(columns)
            ),
        )
        yield from reader
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise SourceError(_csv_fault(path, broken, str(error))) from None


def _csv_fault(path: Path, broken: list[int], text: str) -> str:
    if broken:
        return f"{path.name}: line {broken[0]} has more or fewer fields than the header"
    if "UTF8" in text or "utf-8" in text:
        return f"{path.name} is not UTF-8 text; convert it first (for example with iconv)"
    if "conversion error" in text.lower():
        return f"{path.name}: a column no longer holds the kind of value that it held before"
    return f"{path.name} is not a well-formed CSV file"


def _open_frame(frame: Any) -> Source:
    try:
        table, kind = _arrow_of(frame)
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
    native = nw.from_native(frame, eager_only=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return native.to_arrow(), native.implementation
    return pa.table(frame), nw.Implementation.PYARROW
