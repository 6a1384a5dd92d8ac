"""Sources of rows: text (CSV and its kin), JSON lines, Parquet, Arrow/Feather, a workbook, a file
of a statistics program, a directory of Parquet or of CSV, a frame; on disk or in a store.

Files are read in groups of a fixed number of rows, so that a table larger than memory
needs little of it, and so that the rows of a group, and with them the bytes of a copy,
do not depend on how the file was cut. An error names a column or a line, never a cell.

Nothing that comes from outside is trusted: one wrong offset in an Arrow buffer would be read
as an address. So every batch is validated in full, offsets, indices and UTF-8, before anything
looks into it, and no file is mapped into memory: a file that shrinks would kill the process.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cornerwave.choices import ReadingSettings
from cornerwave.columns import check_distinct, is_text
from cornerwave.errors import ColumnError, OutputError, SourceError, nearest
from cornerwave.sources._csv import CsvTable
from cornerwave.sources._databases import METADATA_KEY, DatabaseTable
from cornerwave.sources._json_lines import JSON_ENDINGS, JsonTable
from cornerwave.sources._parquet import Batches, Types, batch_rows, open_parquet
from cornerwave.sources._places import Address, DatabaseAddress, Place, place_of
from cornerwave.sources._stat_files import SHEET_ENDINGS, STAT_ENDINGS, SheetTable, StatFile
from cornerwave.sources._stores import File, readable, stored_files
from cornerwave.sources._text_cells import LEVELS

FORMATS = {
    ".csv": "csv",
    ".csv.gz": "csv.gz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".xlsx": "xlsx",
    ".dta": "dta",
    ".sav": "sav",
}
"""The endings of file names, and the format that each names."""

TEXT_ENDINGS = tuple(
    text + packed for packed in ("", ".gz", ".zip") for text in (".csv", ".tsv", ".tab", ".txt")
)

Progress = Callable[[int], None]
"""Called with the number of rows that have been processed since the last call."""


def silent(_rows: int) -> None:
    """Report no progress."""


def format_of(path: str | Place) -> str:
    """Return the format of a file by its ending. Raises OutputError for what cannot be one.

    >>> format_of("copy.CSV.gz"), format_of("copy.feather")
    ('csv.gz', 'arrow')
    """
    if isinstance(path, DatabaseAddress):
        return path.kind
    name = path.name if isinstance(path, Address) else Path(path).name
    if "\0" in str(path):
        raise OutputError("the name of a file cannot hold a NUL character")
    for ending, format_ in FORMATS.items():
        if name.lower().endswith(ending):
            return format_
    raise OutputError(f"{name}: the ending must be one of {', '.join(FORMATS)}")


@dataclass(frozen=True)
class Source:
    """A table that can be read again and again, always in the same order.

    `path` is where it lies (None for a frame in memory), `frame_kind` the library that a copy
    goes back to; `notes` state what is odd about a column, by its name, and `remarks` about the
    file. `reading` is how its cells are spelled; `markers` are, by column, cells that may be marks
    for missing values, and how often they occur. `descriptions` are what the file states that
    columns mean, `codes` the numbers whose labels the texts of a column are. `first` is the
    position of its first row, if it is a part of a table; `parts` are the sources that it reads one
    after the other. `rows` is how many it has, where that is known before they are read.
    """

    schema: pa.Schema
    open: Callable[[Sequence[str]], Batches] = field(repr=False)
    path: Place | None = None
    frame_kind: Any = None
    notes: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    reading: ReadingSettings | None = None
    markers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    codes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    first: int = 0
    parts: tuple["Source", ...] = field(default=(), repr=False)
    rows: int | None = None
    database: DatabaseTable | None = field(default=None, repr=False)

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

    @contextmanager
    def snapshot(self, key: str | None) -> Iterator["Source"]:
        """Give the rows of one moment, for several passes, in an order that they will have again.

        The rows of a file have one; those of a database are ordered by what its owner stated, else
        by the key. Raises SourceError if neither is there.
        """
        if self.database is None:
            yield self
            return
        with self.database.snapshot(key) as table:
            yield _of_database(table)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.path.name if self.path else "the frame"


def open_source(
    what: Any, types: Types | None = None, reading: ReadingSettings | None = None
) -> Source:
    """Open a path or a frame (pandas, polars, pyarrow, or any other that speaks Arrow).

    `types` fixes the types of columns whose file does not state them (text, workbooks), as they
    were at registration; without it the whole file is read once to infer them. `reading` states
    how the cells of such files are spelled; what it leaves open is found. Raises SourceError.
    """
    if isinstance(what, Source):
        return what
    if not isinstance(what, str | Place):
        if types is None:
            _check_applies("a frame", reading, "typed")
        return _open_frame(what)
    place = place_of(what)
    if isinstance(place, DatabaseAddress):
        if types is None:
            _check_applies(place.name, reading, "database")
        settings = (reading or ReadingSettings()).only(_APPLY["database"])
        if types is not None and place.table:  # the table was moved here
            settings = replace(settings, table=None, query=None)
        return _of_database(DatabaseTable.open(place, settings))
    with _reading(place.name):
        files, is_folder = files_of(place)
        return _open_files(place, files, is_folder, types, reading)


def _of_database(table: DatabaseTable) -> Source:
    notes = {name: column.note for name, column in table.columns.items() if column.note}
    return Source(
        table.schema, table.read, table.place, notes=notes, reading=table.reading, database=table
    )


def files_of(place: Path | Address) -> tuple[Sequence[File], bool]:
    """Return the files that are read of a place, and whether it is a folder. Raises SourceError."""
    files, is_folder = _files_at(place)
    if is_folder:
        files = [f for f in files if f.name.endswith(".parquet")] or _texts(files)
        if not files:
            raise SourceError(f"{place} holds no .parquet file and no .csv file")
    return files, is_folder


def _files_at(path: Path | Address) -> tuple[Sequence[File], bool]:
    """Return the file at a place, or those of a folder in the order of their paths."""
    if isinstance(path, Address):
        return stored_files(path)
    if not path.exists():
        raise SourceError(f"there is no file {path}")
    if not path.is_dir():
        return [path], False
    files = (file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return sorted(files), True


def open_to_inspect(what: Any, reading: ReadingSettings | None = None) -> Source:
    """Open a source for a first look: cells that may be marks for missing values are missing.

    Unless the reading states what is missing. The reading of the source names them: those of one
    column alone with it, the others for all columns. Words such as 'none', which may also be a
    value, stand for a missing one only where all other cells are numbers or dates.
    """
    source = open_source(what, reading=reading)
    if not source.markers or source.reading is None or (reading and reading.missing is not None):
        return source
    plain = reading or ReadingSettings()
    opened = open_source(what, reading=_marked(plain, source.markers))
    texts = {part.name for part in opened.schema if is_text(part.type)}
    sure = {
        name: {m: n for m, n in marks.items() if name not in texts or m.lower() not in LEVELS}
        for name, marks in source.markers.items()
    }
    if sure != source.markers:
        opened = open_source(what, reading=_marked(plain, sure))
    return replace(opened, markers=source.markers)


def _marked(reading: ReadingSettings, markers: Mapping[str, Mapping[str, int]]) -> ReadingSettings:
    """Return a reading in which cells that may be marks for missing values do."""
    where: dict[str, list[str]] = {}
    for column, marks in markers.items():
        for mark in marks:
            where.setdefault(mark, []).append(column)
    alone = {columns[0] for columns in where.values() if len(columns) == 1}
    stated = dict(reading.column_missing or ())
    shared = {mark for mark, columns in where.items() if len(columns) > 1}
    words = {mark for mark in shared if mark.lower() in LEVELS}
    levels = {name for name, marks in markers.items() if words - {*marks}}
    proposed = {name: tuple(sorted(markers[name])) for name in markers if name in alone | levels}
    return replace(
        reading,
        missing=tuple(sorted(shared)),
        column_missing=tuple((proposed | stated).items()) or None,
    )


def _open_files(
    place: Path | Address,
    files: Sequence[File],
    is_folder: bool,
    types: Types | None,
    reading: ReadingSettings | None,
) -> Source:
    base, file = (place if is_folder else None), files[0]
    kind = kind_of(file)
    if types is None:
        _check_applies(place.name, reading, kind)
    reading = (reading or ReadingSettings()).only(_APPLY[kind])
    if kind == "text":
        return _of_text(place, CsvTable.open(files, types, reading, base))
    if kind == "json":
        return _of_text(place, JsonTable.open(file, types, reading))
    if kind in ("sheet", "stat"):
        if not isinstance(file, Path):
            raise SourceError(f"{place.name}: such a file is read from a disk; download it first")
        return _open_other(file, kind, types, reading)
    try:
        format_ = format_of(file.name)
    except OutputError:
        raise SourceError(
            f"{place.name}: the ending must be one of {', '.join(SOURCE_ENDINGS)}, or it must be a "
            "directory of .parquet or of .csv files"
        ) from None
    if format_ == "parquet":
        schema, rows, read = open_parquet(place, files, base, types or {})
        return Source(schema, read, place, rows=rows)
    return _open_arrow(place, file)


def _open_other(path: Path, kind: str, types: Types | None, reading: ReadingSettings) -> Source:
    if kind == "sheet":
        return _of_text(path, SheetTable.open(path, types, reading))
    stat = StatFile.open(path, types, reading)
    schema = pa.schema(list(stat.types.items()))
    return Source(
        schema,
        stat.read,
        path,
        notes=stat.notes,
        reading=stat.reading,
        descriptions=stat.descriptions,
        codes=stat.codes,
    )


SOURCE_ENDINGS = (
    *dict.fromkeys((*TEXT_ENDINGS, *JSON_ENDINGS, *FORMATS, *SHEET_ENDINGS, *STAT_ENDINGS)),
)


def kind_of(file: File) -> str:
    """Return what sort of source a file is, by its ending."""
    name = file.name.lower()
    for kind, endings in (
        ("json", JSON_ENDINGS),
        ("text", (*TEXT_ENDINGS, ".zip")),
        ("sheet", SHEET_ENDINGS),
        ("stat", STAT_ENDINGS),
    ):
        if name.endswith(endings):
            return kind
    return "typed"


_SPELLINGS = ("decimal", "thousands", "date_format", "missing", "column_missing")
_APPLY = {
    "text": ("delimiter", "encoding", *_SPELLINGS),
    "json": ("date_format", "missing", "column_missing"),
    "sheet": (*_SPELLINGS, "sheet"),
    "stat": ("encoding", "missing", "column_missing"),
    "typed": (),
    "database": ("table", "query", "order_by"),
}
"""The settings that apply to each sort of source."""


def _check_applies(name: str, reading: ReadingSettings | None, kind: str) -> None:
    """Raise SourceError if a setting is stated that does not apply to a source."""
    for setting in reading.stated if reading else ():
        if setting not in _APPLY[kind]:
            raise SourceError(
                f"{name}: {setting} does not apply to this kind of source; leave it out"
            )


def _texts(files: Sequence[File]) -> list[File]:
    """Return the text files among those of a directory."""
    return [file for file in files if file.name.lower().endswith(TEXT_ENDINGS)]


def _of_text(path: Path | Address, table: CsvTable | SheetTable | JsonTable) -> Source:
    inferred = table.inferred
    return Source(
        pa.schema(list(inferred.types.items())),
        table.read,
        path,
        notes=inferred.notes,
        remarks=inferred.remarks,
        reading=table.reading,
        markers=inferred.markers,
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


_DAMAGED = "it is damaged, or not the kind of file that its ending states"

# --- Arrow files and frames -------------------------------------------------------------


def _open_arrow(place: Path | Address, file: File) -> Source:
    def read(columns: Sequence[str]) -> Batches:
        with _arrow_bytes(file) as content:
            stored = pa.ipc.open_file(content)
            for index in range(stored.num_record_batches):
                yield stored.get_batch(index).select(list(columns))

    return Source(arrow_schema(file), read, place)


def arrow_schema(file: File) -> pa.Schema:
    """Return the columns and the metadata of an Arrow file."""
    with _arrow_bytes(file) as content:
        return pa.ipc.open_file(content).schema


def _arrow_bytes(file: File) -> Any:
    return pa.OSFile(str(file)) if isinstance(file, Path) else readable(file)


def _open_frame(frame: Any) -> Source:
    if type(frame).__module__ == "pyarrow._dataset":
        return _open_dataset(frame)
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


def _open_dataset(dataset: Any) -> Source:
    """Open a dataset of Arrow, such as a Delta table: files that are read some rows at a time."""

    def read(columns: Sequence[str]) -> Batches:
        with_one = list(columns) or dataset.schema.names[:1]
        for batch in dataset.to_batches(
            columns=with_one,
            batch_size=batch_rows(len(columns)),
            batch_readahead=1,
            fragment_readahead=1,
        ):
            yield batch.select(list(columns))

    return Source(dataset.schema, read)


def _arrow_of(frame: Any) -> tuple[pa.Table, Any]:
    """Return any frame as an Arrow table, with the library it should go back to."""
    import narwhals as nw  # files need none of it, and every command would import it

    native: Any = None
    try:
        native = nw.from_native(frame, eager_only=True, pass_through=True)
        if isinstance(native, nw.DataFrame):
            return _stating(native.to_arrow(), frame), native.implementation
    except nw.exceptions.DuplicateError:
        raise ColumnError("more than one column of the frame has the same name") from None
    except _NO_COLUMN:
        raise ColumnError(
            f"{_mixed(native)} mixes kinds of values, or holds numbers beyond 64 bits; "
            "make it one kind, or leave it out of the frame"
        ) from None
    return pa.table(frame), nw.Implementation.PYARROW


def _stating(table: pa.Table, frame: Any) -> pa.Table:
    """Return a table with what a frame states in its attributes; only those of pandas have any."""
    stated = (getattr(frame, "attrs", None) or {}).get(METADATA_KEY.decode())
    if not isinstance(stated, str):
        return table
    known = table.schema.metadata or {}
    return table.replace_schema_metadata({**known, METADATA_KEY: stated.encode()})


_NO_COLUMN = (TypeError, ValueError, OverflowError, pa.ArrowException)


def _mixed(frame: Any) -> str:
    """Name the first column of a frame that Arrow cannot hold."""
    for name in getattr(frame, "columns", ()):
        try:
            frame.select(name).to_arrow()
        except _NO_COLUMN:
            return f"column {name!r} of the frame"
    return "a column of the frame"
