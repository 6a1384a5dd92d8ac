"""Sources of rows: text (CSV and its kin), Parquet, Arrow/Feather, a workbook, a file of a
statistics program, a directory of Parquet or of CSV, a frame.

Files are read in groups of a fixed number of rows, so that a table larger than memory
needs little of it, and so that the rows of a group, and with them the bytes of a copy,
do not depend on how the file was cut. An error names a column or a line, never a cell.

Nothing that comes from outside is trusted: one wrong offset in an Arrow buffer would be read
as an address. So every batch is validated in full, offsets, indices and UTF-8, before anything
looks into it, and no file is mapped into memory: a file that shrinks would kill the process.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.errors import ColumnError, OutputError, SourceError, nearest
from cornerwave.table._csv import CsvTable
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._schema import check_distinct
from cornerwave.table._sheets import SHEET_ENDINGS, SheetTable
from cornerwave.table._stat_files import STAT_ENDINGS, StatFile
from cornerwave.table._types import plain_type

BATCH_ROWS, LEAST_BATCH_ROWS = 1 << 16, 1 << 12
BATCH_CELLS = 1 << 20
"""Cells that are read at a time, whatever the width of a table: a wide one would fill memory."""

ENCODED_TEXT = pa.dictionary(pa.int32(), pa.string())
"""Dictionary-encoded text: faster to read, refresh and write."""

_PIECEMEAL = {"pre_buffer": False, "buffer_size": 1 << 16}
"""Whole column chunks of a wide Parquet file would fill memory."""

FORMATS = {
    ".csv": "csv",
    ".csv.gz": "csv.gz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""The endings of file names, and the format that each stands for."""

TEXT_ENDINGS = tuple(
    text + packed for packed in ("", ".gz", ".zip") for text in (".csv", ".tsv", ".tab", ".txt")
)

Batches = Iterator[pa.RecordBatch]
Types = Mapping[str, pa.DataType]
Progress = Callable[[int], None]
"""Called with the number of rows that have been processed since the last call."""


def batch_rows(columns: int) -> int:
    """Return how many rows of so many columns are read at a time."""
    return min(BATCH_ROWS, max(LEAST_BATCH_ROWS, BATCH_CELLS // max(1, columns)))


def silent(_rows: int) -> None:
    """Report no progress."""


def format_of(path: str | Path) -> str:
    """Return the format of a file by its ending. Raises OutputError for what cannot be one.

    >>> format_of("copy.CSV.gz"), format_of("copy.feather")
    ('csv.gz', 'arrow')
    """
    name = Path(path).name
    if "\0" in str(path):
        raise OutputError("the name of a file cannot hold a NUL character")
    for ending, format_ in FORMATS.items():
        if name.lower().endswith(ending):
            return format_
    raise OutputError(f"{name}: the ending must be one of {', '.join(FORMATS)}")


@dataclass(frozen=True)
class Source:
    """A table that can be read again and again, always in the same order.

    `path` is its file (None for a frame in memory), `frame_kind` the library that a copy
    goes back to; `notes` say what is odd about a column, by its name, and `remarks` about the
    file. `reading` is how its cells are spelled; `markers` are those of its cells that may stand
    for missing values, and how often they occur.
    """

    schema: pa.Schema
    open: Callable[[Sequence[str]], Batches] = field(repr=False)
    path: Path | None = None
    frame_kind: Any = None
    notes: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    reading: ReadingSettings | None = None
    markers: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_distinct(self.schema.names)

    def batches(self, columns: Sequence[str]) -> Batches:
        """Yield the named columns, batch by batch; raise SourceError if they cannot be read."""
        if missing := [name for name in columns if name not in self.schema.names]:
            close = nearest(missing[0], self.schema.names)
            raise ColumnError(f"the table has no column {', '.join(map(repr, missing))}{close}")
        with _reading(self.name, _DAMAGED if self.path else "it is damaged"):
            for batch in self.open(columns):
                batch.validate(full=True)
                yield batch

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


def open_source(
    what: Any, types: Types | None = None, reading: ReadingSettings | None = None
) -> Source:
    """Open a path or a frame (pandas, polars, pyarrow, or any other that speaks Arrow).

    `types` fixes the types of columns whose file does not say them (text, workbooks), as they
    were at registration; without it the whole file is read once to infer them. `reading` says
    how the cells of such files are spelled; what it leaves open is found. Raises SourceError.
    """
    if isinstance(what, Source):
        return what
    if not isinstance(what, str | Path):
        if types is None:
            _check_applies("a frame", reading, "typed")
        return _open_frame(what)
    path = Path(what).absolute()
    with _reading(path.name):
        if not path.exists():
            raise SourceError(f"there is no file {path}")
        return _open_file(path, types, reading)


def open_to_inspect(what: Any, reading: ReadingSettings | None = None) -> Source:
    """Open a source for a first look: cells that may stand for missing values are missing.

    Unless the reading says what is missing. The reading of the source names them.
    """
    source = open_source(what, reading=reading)
    if not source.markers or source.reading is None or (reading and reading.missing is not None):
        return source
    missing = tuple(sorted(source.markers))
    opened = open_source(what, reading=replace(reading or ReadingSettings(), missing=missing))
    return replace(opened, markers=source.markers)


def _open_file(path: Path, types: Types | None, reading: ReadingSettings | None) -> Source:
    kind = kind_of(path)
    if types is None:
        _check_applies(path.name, reading, kind)
    reading = (reading or ReadingSettings()).only(_APPLY[kind])
    if kind == "text":
        texts = _text_files(path) if path.is_dir() else [path]
        base = path if path.is_dir() else None
        return _of_text(path, CsvTable.open(texts, types, reading, base))
    if kind == "sheet":
        return _of_text(path, SheetTable.open(path, types, reading))
    if kind == "stat":
        stat = StatFile.open(path, types, reading)
        schema = pa.schema(list(stat.types.items()))
        return Source(schema, stat.read, path, notes=stat.notes, reading=stat.reading)
    try:
        format_ = "parquet" if path.is_dir() else format_of(path)
    except OutputError:
        raise SourceError(
            f"{path.name}: the ending must be one of {', '.join(SOURCE_ENDINGS)}, or it must be a "
            "directory of .parquet or of .csv files"
        ) from None
    return _open_parquet(path, types or {}) if format_ == "parquet" else _open_arrow(path)


SOURCE_ENDINGS = (*dict.fromkeys((*TEXT_ENDINGS, *FORMATS, *SHEET_ENDINGS, *STAT_ENDINGS)),)


def kind_of(path: Path) -> str:
    """Return what sort of source a path is, by its ending or its files."""
    name = path.name.lower()
    if path.is_dir():
        return "text" if _text_files(path) else "typed"
    for kind, endings in (
        ("text", (*TEXT_ENDINGS, ".zip")),
        ("sheet", SHEET_ENDINGS),
        ("stat", STAT_ENDINGS),
    ):
        if name.endswith(endings):
            return kind
    return "typed"


_SPELLINGS = ("decimal", "thousands", "date_format", "missing")
_APPLY = {
    "text": ("delimiter", "encoding", *_SPELLINGS),
    "sheet": (*_SPELLINGS, "sheet"),
    "stat": ("encoding", "missing"),
    "typed": (),
}
"""What can be said about the spelling of each sort of source."""


def _check_applies(name: str, reading: ReadingSettings | None, kind: str) -> None:
    """Raise SourceError if something is said that does not apply to a source."""
    for said in reading.said if reading else ():
        if said not in _APPLY[kind]:
            raise SourceError(f"{name}: {said} does not apply to this kind of source; leave it out")


def _text_files(path: Path) -> list[Path]:
    """Return the files of a directory of CSV, in the order of their paths."""
    if next(path.rglob("*.parquet"), None):
        return []
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return sorted(file for file in files if file.name.lower().endswith(TEXT_ENDINGS))


def _of_text(path: Path, table: CsvTable | SheetTable) -> Source:
    found = table.found
    return Source(
        pa.schema(list(found.types.items())),
        table.read,
        path,
        notes=found.notes,
        remarks=found.remarks,
        reading=table.reading,
        markers=found.markers,
    )


@contextmanager
def _reading(name: str, damaged: str | None = None) -> Iterator[None]:
    """Report a file that cannot be read, in our own words: those of libraries quote cells."""
    damaged = damaged or _DAMAGED
    try:
        yield
    except OSError as error:
        # errors of the system have a number, those of Arrow have none
        reason = os.strerror(error.errno) if error.errno else damaged
        raise SourceError(f"{name} cannot be read: {reason}") from None
    except (pa.ArrowException, UnicodeDecodeError, EOFError):
        raise SourceError(f"{name} cannot be read: {damaged}") from None


_DAMAGED = "it is damaged, or not the kind of file that its ending says"

# --- Arrow files and frames -------------------------------------------------------------


def _open_arrow(path: Path) -> Source:
    def read(columns: Sequence[str]) -> Batches:
        with pa.OSFile(str(path)) as content:
            file = pa.ipc.open_file(content)
            for index in range(file.num_record_batches):
                yield file.get_batch(index).select(list(columns))

    return Source(arrow_schema(path), read, path)


def arrow_schema(path: Path) -> pa.Schema:
    """Return the columns and the metadata of an Arrow file."""
    with pa.OSFile(str(path)) as content:
        return pa.ipc.open_file(content).schema


def _open_frame(frame: Any) -> Source:
    try:
        table, kind = _arrow_of(frame)
    except ColumnError:
        raise
    except Exception:  # the words of a library may quote a cell
        raise SourceError(
            f"a {type(frame).__name__} is neither a path nor a table: give a file, or a frame "
            "of pandas, polars, pyarrow or another library that speaks Arrow"
        ) from None
    return Source(
        table.schema,
        lambda columns: iter(
            table.select(list(columns)).to_batches(max_chunksize=batch_rows(len(columns)))
        ),
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
    """Name the first column of a frame that Arrow cannot hold."""
    for name in frame.columns if isinstance(frame, nw.DataFrame) else ():
        try:
            frame.select(name).to_arrow()
        except _NO_COLUMN:
            return f"column {name!r} of the frame"
    return "a column of the frame"


# --- Parquet: a file, or a directory of them, whose folders may name columns too ---------


def _open_parquet(path: Path, types: Types) -> Source:
    """Open a file or a directory; `types` decide where its files disagree about a column.

    The columns of a directory are those of all its files: a column that only the last
    of them has needs a decision like any other, and is missing in the others.
    """
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise SourceError(f"{path} holds no .parquet file and no .csv file")
    schemas = [papq.read_schema(file) for file in files]
    for schema in schemas:
        check_distinct(schema.names)
    parts: list[tuple[str, Mapping[str, Any]]] = [(str(path), {})]
    if path.is_dir():
        parts, found = _folders(path, files)
        schemas = [found, *schemas]
    union = _union(schemas, types, path)
    apart = _repeating([part.name for part in union if part.type == pa.string()], files)

    def read(columns: Sequence[str]) -> Batches:
        for file, folders in parts:
            yield from _read_parquet(file, folders, union, columns, apart)

    return Source(union, read, path)


def _folders(
    path: Path, files: Sequence[Path]
) -> tuple[list[tuple[str, Mapping[str, Any]]], pa.Schema]:
    """Return each file of a directory with the columns that its folders name, and all columns."""
    import pyarrow.dataset as pads  # imports pandas where it is installed: half a second

    dataset = pads.dataset(
        [str(file) for file in files],
        format="parquet",
        partitioning=pads.partitioning(flavor="hive"),
        partition_base_dir=str(path),
    )
    keys = pads.get_partition_keys
    fragments = list(dataset.get_fragments())
    return [(each.path, keys(each.partition_expression)) for each in fragments], dataset.schema


def _union(schemas: Sequence[pa.Schema], fixed: Types, path: Path) -> pa.Schema:
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
    schemas = [pa.schema([(name, type_)]) for type_ in types]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(name).type
    except pa.ArrowException:
        raise ColumnError(
            f"{path.name}: the files disagree about column {name!r}: it is "
            f"{' and '.join(map(str, types))}; write them with one type"
        ) from None


def _repeating(texts: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Return the text columns whose values stand apart in their files, being fewer than rows.

    Texts that hardly repeat, as keys do, take more bytes than a number into a list of them;
    they are read as they are.
    """
    size, values = dict.fromkeys(texts, 0), dict.fromkeys(texts, 0)
    for found in map(papq.read_metadata, files if texts else ()):
        for group in map(found.row_group, range(found.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                if (name := chunk.path_in_schema) in size:
                    size[name] += chunk.total_uncompressed_size
                    values[name] += chunk.num_values
    return [name for name in texts if size[name] <= 4 * values[name]]


def _read_parquet(
    path: str,
    folders: Mapping[str, Any],
    schema: pa.Schema,
    columns: Sequence[str],
    apart: Sequence[str],
    groups: Sequence[int] | None = None,
) -> Batches:
    """Read one Parquet file batch by batch; scanners and pre-buffering hold all of it.

    All of its row groups, or some.
    """
    own = papq.read_schema(path)
    present = [name for name in columns if name in own.names]
    texts = [name for name in present if name in apart and own.field(name).type == pa.string()]
    rows = batch_rows(len(columns))
    with papq.ParquetFile(path, **_PIECEMEAL, read_dictionary=texts) as file:
        for batch in file.iter_batches(rows, row_groups=groups, columns=present):
            arrays = [
                _as(batch.column(name), schema.field(name).type, apart=name in apart)
                if name in present
                else _repeated(
                    folders.get(name), batch.num_rows, schema.field(name).type, name in apart
                )
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _as(array: pa.Array, type_: pa.DataType, *, apart: bool) -> pa.Array:
    """Return a column as a type; text whose values stand apart stays so."""
    return array.cast(ENCODED_TEXT if apart else type_)


def _repeated(value: Any, rows: int, type_: pa.DataType, apart: bool) -> pa.Array:
    if apart or pa.types.is_dictionary(type_):
        encoded = pa.repeat(pa.scalar(value, plain_type(type_)), rows).dictionary_encode()
        return encoded if apart else encoded.cast(type_)
    return pa.repeat(pa.scalar(value, type_), rows)
