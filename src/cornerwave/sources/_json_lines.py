"""JSON lines: one object for each row, streamed, its cells as text, then like those of a CSV file.

    {"id": 7, "born": "1980-02-29", "home": {"city": "Ulm"}, "tags": ["a", 1]}
    id = 7    born = 1980-02-29    home.city = Ulm    tags = ["a", 1]

Columns are the names of all objects, in the order of their first appearance; a row without one, and
null, are missing. An object in an object gives a column for each of its values; a list is text, as
it would be written in JSON. What is text in JSON never becomes a number, and whole numbers are
whole, however long. The types of columns are found from all rows.
"""

import codecs
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import sizes
from cornerwave.choices import POINT, ReadingSettings
from cornerwave.errors import SourceError
from cornerwave.sources._csv import buffered, text_stream
from cornerwave.sources._csv_spelling import SAMPLE_ROWS, spelled
from cornerwave.sources._stores import File
from cornerwave.sources._text_cells import BOOLEAN, NUMBERS, TEXT, TypeGuess, present
from cornerwave.sources._text_columns import Inferred, values_of

JSON_ENDINGS = tuple(
    text + packed for packed in ("", ".gz", ".zip") for text in (".jsonl", ".ndjson")
)
MOST_NAMES = 10_000
"""Names of a file's objects; of more, they are values (a count by person's name, say)."""


Row = Mapping[str, Any]
"""The cells of a line, by the names of their columns."""


class _NotAnObject(Exception):
    """A line that is not a row."""


def _object(pairs: list[tuple[str, Any]]) -> Row:
    """Return an object. Raises _NotAnObject if a name is there twice: readers differ in which."""
    cells = dict(pairs)
    if len(cells) < len(pairs):
        raise _NotAnObject("has a name twice")
    return cells


_decode = json.JSONDecoder(object_pairs_hook=_object).decode


def _row(line: bytes) -> Row:
    """Return the cells of a line. Raises _NotAnObject."""
    cells: Any
    try:
        cells = _decode(line.removeprefix(codecs.BOM_UTF8).decode())
    except UnicodeDecodeError:
        raise _NotAnObject("is not UTF-8") from None
    except (ValueError, RecursionError):
        raise _NotAnObject("is not valid JSON") from None
    if type(cells) is not dict:
        raise _NotAnObject("is not an object in braces")
    row: Row = cells
    while dict in map(type, row.values()):
        row = _object([pair for name, cell in row.items() for pair in _inner(name, cell)])
    return row


def _inner(name: str, cell: Any) -> Iterator[tuple[str, Any]]:
    if type(cell) is dict:
        yield from ((f"{name}.{inner}", each) for inner, each in cell.items())
    else:
        yield name, cell


def _text(cell: Any) -> str | None:
    """Return a cell as it would be written in a CSV file."""
    if cell is None or isinstance(cell, str):
        return cell
    return repr(cell) if type(cell) is float else json.dumps(cell, ensure_ascii=False)


_NULL = type(None)
_PLAIN: dict[str, set[type]] = {
    "double": {float, int, _NULL},
    "int64": {int, _NULL},
    "bool": {bool, _NULL},
}
"""Cells that are values of a type as they are."""


@dataclass(frozen=True)
class JsonFile:
    """A file of JSON lines."""

    path: File

    @property
    def label(self) -> str:
        """What to call it in a message."""
        return self.path.name

    def rows(self) -> Iterator[list[Row]]:
        """Yield some rows at a time. Raises SourceError."""
        held: list[Row] = []
        size = 0
        for number, line in self._lines():
            try:
                held.append(_row(line))
            except (_NotAnObject, RecursionError) as error:
                what = str(error) if isinstance(error, _NotAnObject) else "is nested too deeply"
                raise SourceError(
                    f"{self.label}: line {number} {what}; each line must be one JSON object"
                ) from None
            size += len(line)
            if size >= sizes.JSON_BLOCK:
                yield held
                held, size = [], 0
        if held:
            yield held

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not empty, with their numbers."""
        with text_stream(self.path) as stream:
            lines, number = buffered(stream), 0
            while line := lines.readline(sizes.JSON_LINE + 1):
                number += 1
                if len(line) > sizes.JSON_LINE:
                    raise SourceError(
                        f"{self.label}: line {number} has more than {sizes.JSON_LINE:,} bytes; "
                        "JSON lines have one row on each line"
                    )
                if not line.isspace():
                    yield number, line

    def text(self, cells: list[Any]) -> pa.Array:
        """Return cells as text. Raises SourceError."""
        try:
            if {str, _NULL}.issuperset(map(type, cells)):
                return pa.array(cells, TEXT)
            return pa.array([_text(cell) for cell in cells], TEXT)
        except (UnicodeError, pa.ArrowException):  # half of a character: "\ud800"
            raise SourceError(f"{self.label}: a cell holds what is not text") from None


class _JsonColumn:
    """What the cells of a column are, given those seen so far."""

    def __init__(self, reading: ReadingSettings) -> None:
        self._reading = reading
        self._guess = TypeGuess(reading)
        self._texts = self._lists = 0
        self.markers = self._guess.markers

    def take(self, cells: list[Any], file: JsonFile) -> None:
        """Look at some more cells."""
        self._guess.take(file.text(cells))
        self.markers = self._guess.markers
        kinds = list(map(type, cells))
        self._lists += kinds.count(list)
        if str in kinds:
            texts = [cell for cell in cells if type(cell) is str]
            self._texts += len(present(pa.array(texts, TEXT), self._reading))

    @property
    def type(self) -> pa.DataType:
        """The narrowest type that fits all cells; what is text in JSON is no number."""
        found = self._guess.type
        return TEXT if self._texts and found in (*NUMBERS, BOOLEAN) else found

    @property
    def note(self) -> str | None:
        """A note on a column that holds lists, or numbers as text."""
        if self._lists:
            return f"{self._lists:,} of its cells are lists: they are read as text"
        if self.type != self._guess.type:
            return "its numbers or booleans are in quotes: they are read as text"
        return self._guess.note


@dataclass(frozen=True)
class JsonTable:
    """The rows of a file of JSON lines, with the types of its columns."""

    file: JsonFile
    inferred: Inferred
    reading: ReadingSettings

    @classmethod
    def open(
        cls, path: File, types: Mapping[str, pa.DataType] | None, reading: ReadingSettings
    ) -> "JsonTable":
        """Open a file with known types; without any, read all rows once to infer them."""
        file = JsonFile(path)
        if types is not None:
            return cls(file, Inferred(types), reading)
        names = _names(file)
        reading = replace(reading, missing=reading.missing or ()).for_columns(names)
        if reading.date_format is None:
            reading = replace(reading, date_format=_date_formats(file, names, reading))
        seen = {name: _JsonColumn(reading.of_column(name)) for name in names}
        for rows in file.rows():
            for name, each in seen.items():
                each.take([row.get(name) for row in rows], file)
        types = {name: each.type for name, each in seen.items()}
        notes = {name: note for name, each in seen.items() if (note := each.note)}
        marks = {name: each.markers for name, each in seen.items() if each.markers}
        return cls(file, Inferred(types, notes, (), marks), reading)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        wanted = list(columns) or list(self.inferred.types)[:1]
        for rows in self.file.rows():
            cells = [self._values(name, [row.get(name) for row in rows]) for name in wanted]
            yield pa.record_batch(cells, names=wanted).select(list(columns))

    def _values(self, name: str, cells: list[Any]) -> pa.Array:
        type_, missing = self.inferred.types[name], self.reading.of_column(name).missing
        if not missing and _PLAIN.get(str(type_), set()).issuperset(map(type, cells)):
            with suppress(pa.ArrowException, OverflowError):  # of which there are other words
                return pa.array(cells, type_, from_pandas=True)  # NaN is missing
        texts = pa.record_batch([self.file.text(cells)], names=[name])
        return values_of(texts, self.inferred.types, self.reading, self.file.label).column(0)


def _names(file: JsonFile) -> list[str]:
    """Return the names of all objects, in the order of their first appearance."""
    names: dict[str, None] = {}
    rows = 0
    for some in file.rows():
        rows += len(some)
        for row in some:
            if not names.keys() >= row.keys():
                names |= dict.fromkeys(row)
        if len(names) > MOST_NAMES:
            raise SourceError(
                f"{file.label}: its objects have more than {MOST_NAMES:,} different names; if "
                "names are values, write them as values"
            )
    if not names:
        raise SourceError(f"{file.label} has no rows" + (" with a value" if rows else ""))
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise SourceError(f"{file.label}: a name holds what is not text") from None
    return list(names)


def _date_formats(
    file: JsonFile, names: Sequence[str], reading: ReadingSettings
) -> tuple[str, ...] | None:
    """Return the formats of dates that the first rows have."""
    rows = next(file.rows())[:SAMPLE_ROWS]
    texts = [[cell if type(cell := row.get(n)) is str else None for row in rows] for n in names]
    try:
        cells = [pc.if_else(pc.equal(t, ""), None, t) for t in (pa.array(t, TEXT) for t in texts)]
    except (UnicodeError, pa.ArrowException):
        return ()  # what is wrong is reported by the pass that reads all rows
    sample = pa.record_batch(cells, names=list(names))
    plain = replace(reading, decimal=POINT, thousands="")
    return spelled(sample, plain)[0].date_format
