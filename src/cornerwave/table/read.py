"""Reading a source: CSV (also .gz), Parquet, Arrow/Feather, a directory of Parquet, a frame.

Files are streamed in groups of a fixed number of rows, so that a table larger than
memory is read in little of it, and so that the rows of a group, and with them the
bytes of a copy, do not depend on how the file was cut. An error names a column or
a line, never what stands there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table.read_csv import open_csv
from cornerwave.table.read_parquet import BATCH_ROWS, ENCODED_TEXT, open_parquet
from cornerwave.table.schema import check_distinct
from cornerwave.table.source import Batches, Source, unreadable

__all__ = ["ARROW", "CSV", "ENCODED_TEXT", "ENDINGS", "PARQUET", "Source", "open_source"]

PARQUET, ARROW, CSV = (".parquet", ".pq"), (".arrow", ".feather", ".ipc"), (".csv", ".csv.gz")
ENDINGS = (*CSV, *PARQUET, *ARROW)


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
        raise unreadable(str(path), error) from None
    if not exists:
        raise SourceError(f"there is no file {path}")
    name = path.name.lower()
    if is_directory or name.endswith(PARQUET):
        return open_parquet(path, types)
    if name.endswith(ARROW):
        return _open_arrow(path)
    if name.endswith(CSV):
        return open_csv(path, types)
    raise SourceError(
        f"{path.name}: the ending must be one of {', '.join(ENDINGS)}, or a directory"
    )


def _open_arrow(path: Path) -> Source:
    def read(columns: Sequence[str]) -> Batches:
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
    native: Any = None
    try:
        native = nw.from_native(frame, eager_only=True, pass_through=True)
        if isinstance(native, nw.DataFrame):
            return native.to_arrow(), native.implementation
    except nw.exceptions.DuplicateError:
        raise ColumnError("more than one column of the frame has the same name") from None
    except _NO_COLUMN:
        raise ColumnError(
            f"{_mixed(native)} mixes kinds of values, or holds numbers beyond 64 bits; "
            "make it one kind, or leave it out of the frame"
        ) from None
    return pa.table(frame), nw.Implementation.PYARROW


_NO_COLUMN = (TypeError, ValueError, OverflowError, pa.ArrowException)


def _mixed(frame: Any) -> str:
    """Name the first column of a frame that is no column of Arrow."""
    for name in frame.columns if isinstance(frame, nw.DataFrame) else ():
        try:
            frame.select(name).to_arrow()
        except _NO_COLUMN:
            return f"column {name!r} of the frame"
    return "a column of the frame"
