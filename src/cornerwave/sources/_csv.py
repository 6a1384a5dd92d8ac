"""A CSV file: how it is spelled, names from its first line, types from all of its rows, batches.

Its bytes are read in a stream: out of a .gz or a .zip, and from any encoding into UTF-8.
"""

import io
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv as pacsv

from cornerwave import sizes
from cornerwave.choices import COMMAS, UTF_8, ReadingSettings
from cornerwave.errors import SourceError
from cornerwave.sources._csv_spelling import (
    SAMPLE_BYTES,
    delimiter_of,
    encoding_at_start,
    encoding_of_lines,
    sample_of,
    spelled,
)
from cornerwave.sources._stores import File, folders_of, opened, readable
from cornerwave.sources._text_columns import Inferred, infer, named, unlike_before, values_of

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class NotInEncoding(SourceError):
    """The bytes of a file are not text of its encoding."""


@dataclass(frozen=True)
class CsvFile:
    """A CSV file with a known reading: names as they are written, and cells of text."""

    path: File
    reading: ReadingSettings
    header: tuple[str, ...]
    blank: int = 0
    """Empty lines above the header."""
    folders: Mapping[str, str | None] = field(default_factory=dict)
    """Columns that the file's folders name, as in year=2024, and their one value."""

    @classmethod
    def open(cls, path: File, reading: ReadingSettings, base: Any = None) -> "CsvFile":
        """Open a file; find the encoding and the delimiter unless they are known.

        `base` is the directory below which folders name columns.
        """
        sample, whole = _start(path)
        encoding = reading.encoding or encoding_at_start(sample)
        text = _decoded(sample, encoding)
        delimiter = reading.delimiter or delimiter_of(text, whole=whole, name=path.name)
        blank = len(re.split("\r\n|\r|\n", text[: len(text) - len(text.lstrip("\r\n"))])) - 1
        file = cls(path, replace(reading, encoding=encoding, delimiter=delimiter), (), blank)
        file = replace(file, header=file._header())
        names, folders = named(file.header), named_by_folders(path, base)
        return replace(file, folders={n: v for n, v in folders.items() if n not in names})

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each column: those of the header, then those of the folders."""
        return (*named(self.header), *self.folders)

    @property
    def label(self) -> str:
        """What to call it in a message."""
        return self.path.name

    def sample(self) -> pa.RecordBatch:
        """Return the cells of the first records as text."""
        assert self.reading.encoding
        assert self.reading.delimiter
        start, whole = _start(self.path)
        return sample_of(
            _decoded(start, self.reading.encoding),
            delimiter=self.reading.delimiter,
            names=named(self.header),
            whole=whole,
        )

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of columns as text; null is an empty field. Raises SourceError."""
        types = dict.fromkeys(columns, pa.string())
        in_file = [name for name in columns if name not in self.folders]
        for batch in self._batches(in_file or self.names[:1], types, texts=True):
            cells = dict(zip(batch.schema.names, batch.columns, strict=True))
            for name, value in self.folders.items():
                cells[name] = pa.repeat(pa.scalar(value, pa.string()), batch.num_rows)
            yield pa.record_batch([cells[name] for name in columns], names=list(columns))

    def read(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[pa.RecordBatch]:
        """Yield values. Raises SourceError."""
        # Text and everything else side by side: they spell missing values differently.
        present = [name for name in columns if name in self.names]
        texts = [name for name in present if name in self.folders or self._is_spelled(name, types)]
        others = [name for name in present if name not in texts]
        parts = [self._values(texts, types)] if texts else []
        parts += [self._batches(others, types)] if others or not texts else []
        for batches in zip(*parts, strict=True):
            arrays = {name: batch.column(name) for batch in batches for name in batch.schema.names}
            rows = batches[0].num_rows
            cells = [arrays.get(name, pa.nulls(rows, types[name])) for name in columns]
            yield pa.record_batch(cells, names=list(columns))

    def _is_spelled(self, name: str, types: Mapping[str, pa.DataType]) -> bool:
        """Return whether a column is read as text first, as Arrow does not know its spelling."""
        type_ = types[name]
        if pa.types.is_string(type_) or self.reading.of_column(name).missing:
            return True
        if pa.types.is_temporal(type_):
            return bool(self.reading.date_format)
        return self.reading.spells_numbers and not pa.types.is_boolean(type_)

    def _values(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType]
    ) -> Iterator[pa.RecordBatch]:
        for batch in self.texts(columns):
            yield values_of(batch, types, self.reading, self.label)

    def _batches(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], *, texts: bool = False
    ) -> Iterator[pa.RecordBatch]:
        # Text is missing where the field is empty; a pair of quotes is an empty text.
        nulls = {"null_values": [""], "quoted_strings_can_be_null": False} if texts else {}
        names = named(self.header)
        renamed = names != self.header
        try:
            with text_stream(self.path) as stream:
                yield from pacsv.open_csv(
                    stream,
                    read_options=pacsv.ReadOptions(
                        block_size=sizes.CSV_BLOCK,
                        use_threads=False,
                        encoding=_arrow_name(self.reading.encoding),
                        column_names=names if renamed else None,
                        skip_rows_after_names=self.blank + 1 if renamed else 0,
                    ),
                    parse_options=self._parsing(ignore_empty_lines=len(names) > 1),
                    convert_options=pacsv.ConvertOptions(
                        column_types={name: types[name] for name in columns if name in types},
                        include_columns=list(columns),
                        strings_can_be_null=texts,
                        **nulls,
                    ),
                )
        except (pa.ArrowException, UnicodeError) as error:
            raise self._fault(str(error), is_decoding=isinstance(error, UnicodeError)) from None

    def _parsing(self, **options: Any) -> pacsv.ParseOptions:
        delimiter = self.reading.delimiter or COMMAS
        return pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, **options)

    def _header(self) -> tuple[str, ...]:
        # A broken line is reported, with its number, by the pass that reads them all.
        lenient = self._parsing(invalid_row_handler=lambda _: "skip")
        reading = pacsv.ReadOptions(encoding=_arrow_name(self.reading.encoding))
        try:
            with (
                _unheard(),
                text_stream(self.path) as stream,
                pacsv.open_csv(stream, read_options=reading, parse_options=lenient) as csv,
            ):
                return tuple(csv.schema.names)
        except UnicodeError:
            raise self._undecodable() from None
        except pa.ArrowException as error:
            if "UTF8" in str(error):
                raise self._undecodable() from None
            raise SourceError(
                f"{self.label} is empty, or no record has as many fields as the first line",
                use=("delimiter",),
            ) from None

    def _undecodable(self) -> NotInEncoding:
        encoding = "UTF-8" if self.reading.encoding == UTF_8 else self.reading.encoding
        message = f"{self.label} is not {encoding} text; convert it, or name its encoding"
        return NotInEncoding(message, use=("encoding",))

    def _fault(self, text: str, *, is_decoding: bool) -> SourceError:
        """Return what is wrong with a file, without Arrow's own words, which quote cells."""
        if broken := re.match(r"CSV parse error: Row #(\d+): Expected \d+ columns", text):
            return SourceError(
                f"{self.label}: record {broken[1]}, counting the header, has more or fewer fields "
                "than the header",
                use=("delimiter",) if len(self.header) == 1 else (),
            )
        if is_decoding or "UTF8" in text or "utf-8" in text:
            return self._undecodable()
        if converted := re.match(r"In CSV column #(\d+):.*conversion error", text):
            column = named(self.header)[int(converted[1])]
            return SourceError(unlike_before(self.label, column))
        return SourceError(f"{self.label} is not a well-formed CSV file")


@dataclass(frozen=True)
class CsvTable:
    """The rows of one or more CSV files, with the types of their columns."""

    files: tuple[CsvFile, ...]
    inferred: Inferred
    reading: ReadingSettings = field(default_factory=ReadingSettings)

    @classmethod
    def open(
        cls,
        paths: Sequence[File],
        types: Mapping[str, pa.DataType] | None,
        reading: ReadingSettings,
        base: Any = None,
    ) -> "CsvTable":
        """Open files with known types; without any, read all rows once to infer them.

        What the reading leaves open is found in the first file, and holds for all of them;
        folders below `base` name columns.
        """
        if types is not None:
            plain = ReadingSettings(delimiter=COMMAS, encoding=UTF_8)
            files = _opened(paths, reading if reading.stated else plain, base)
            names = {name for file in files for name in file.names}
            known = {name: type_ for name, type_ in types.items() if name in names}
            return cls(files, Inferred(known), files[0].reading)
        try:
            return cls._of_text(paths, reading, base)
        except NotInEncoding:
            if reading.encoding is not None:
                raise
            encoding = _encoding_of(paths)
            remark = f"{paths[0].name} is not UTF-8; it is read as {encoding}"
            made = cls._of_text(paths, replace(reading, encoding=encoding), base)
            remarks = (remark, *made.inferred.remarks)
            return replace(made, inferred=replace(made.inferred, remarks=remarks))

    @classmethod
    def _of_text(cls, paths: Sequence[File], reading: ReadingSettings, base: Any) -> "CsvTable":
        files = _opened(paths, reading, base)
        first = files[0]
        names = tuple(dict.fromkeys(name for file in files for name in file.names))
        reading, notes = spelled(first.sample(), first.reading.for_columns(names))
        reading = replace(reading, missing=reading.missing or ())
        files = tuple(replace(file, reading=reading) for file in files)
        return cls(files, infer(files, reading, notes), reading)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        for file in self.files:
            yield from file.read(columns, self.inferred.types)


def _opened(paths: Sequence[File], reading: ReadingSettings, base: Any) -> tuple[CsvFile, ...]:
    first = CsvFile.open(paths[0], reading, base)
    return (first, *(CsvFile.open(path, first.reading, base) for path in paths[1:]))


def named_by_folders(file: File, base: Any) -> dict[str, str | None]:
    """Return the columns that folders below a base name, in the way of Hive."""
    if base is None:
        return {}
    pairs = [part.split("=", 1) for part in folders_of(file, base) if "=" in part]
    return {unquote(n): None if v == _NO_VALUE else unquote(v) for n, v in pairs if n}


def _encoding_of(paths: Sequence[File]) -> str:
    """Return the encoding of the first file that is not UTF-8."""
    for path in paths:
        with text_stream(path) as stream:
            try:
                for line in buffered(stream):
                    line.decode(UTF_8)
            except UnicodeDecodeError:
                break
    with text_stream(path) as stream:
        return encoding_of_lines(buffered(stream), path.name)


def buffered(stream: Any) -> io.BufferedReader:
    """Return a stream that yields lines; Arrow's own files cannot."""
    return io.BufferedReader(stream)


def _start(path: File) -> tuple[bytes, bool]:
    """Return the first bytes of a file, and whether they are all of it."""
    with text_stream(path) as stream:
        sample = stream.read(SAMPLE_BYTES + 1)
    return sample[:SAMPLE_BYTES], len(sample) <= SAMPLE_BYTES


def _decoded(sample: bytes, encoding: str) -> str:
    """Return the text of a file's first bytes, however they end."""
    return sample.decode(encoding, errors="replace").lstrip("\ufeff")


@contextmanager
def text_stream(path: File) -> Iterator[IO[bytes]]:
    """Open the bytes of a file, also of one in a .gz or alone in a .zip."""
    if not path.name.lower().endswith(".zip"):
        packed = "gzip" if path.name.lower().endswith(".gz") else None
        with pa.input_stream(readable(path), compression=packed) as stream:
            yield stream
        return
    try:
        with opened(path) as raw, zipfile.ZipFile(raw) as archive:
            members = [each for each in archive.namelist() if not _is_beside(each)]
            if len(members) != 1:
                raise SourceError(
                    f"{path.name} holds {len(members)} files, and one is needed: unpack it"
                )
            with archive.open(members[0]) as stream:
                yield stream
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError):
        raise SourceError(
            f"{path.name} cannot be read: it is damaged, encrypted or not a .zip file"
        ) from None


def _is_beside(member: str) -> bool:
    """Return whether a member is a folder, or what a desktop adds to an archive."""
    return member.endswith("/") or member.startswith("__MACOSX/")


def _arrow_name(encoding: str | None) -> str:
    return "utf8" if encoding in (None, UTF_8) else encoding


@contextmanager
def _unheard() -> Iterator[None]:
    """Do not print that Arrow could not decode a broken line for its handler."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook
