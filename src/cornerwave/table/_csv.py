"""A CSV file: names from its first line, types from all of its rows, then batches.

A file without a line of names would publish its first record, as names, in every copy.
So a name that could be a cell is counted: one that occurs in its own column, a number
with a decimal point, a date, or nothing. Whole numbers alone can be names, such as
the years of a wide table. Every message names a column or a record, never a cell, and
not even a name where it may be one.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table._csv_types import MOMENT, NUMBER, TypeGuess

CSV_BLOCK_BYTES = 1 << 21
"""Text of a batch, and so the longest record; Arrow reads some 40 batches ahead."""

_SEPARATORS = {";": "semicolons", "\t": "tabs"}
_TEXT_NULLS = {
    "null_values": [""],
    "strings_can_be_null": True,
    "quoted_strings_can_be_null": False,
}
"""Text is missing where the field is empty; a pair of quotes is an empty text."""


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, the types of its columns, and notes on what is odd about some of them."""

    path: Path
    types: Mapping[str, pa.DataType]
    notes: Mapping[str, str] = field(default_factory=dict)
    is_single: bool = False
    """Whether the file has one column: a missing value in it is an empty line."""

    @classmethod
    def open(cls, path: Path, types: Mapping[str, pa.DataType] | None) -> "CsvFile":
        """Open a file with known types; without any, read all rows once to infer them."""
        names = _names(path)
        single = len(names) == 1
        if types is not None:
            known = {name: type_ for name, type_ in types.items() if name in names}
            return cls(path, known, is_single=single)
        _check_repeated(names, path.name)
        return _inferred(cls(path, dict.fromkeys(names, pa.string()), is_single=single))

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        # Text and everything else side by side: they spell missing values differently.
        texts = [name for name in columns if pa.types.is_string(self.types[name])]
        others = [name for name in columns if name not in texts]
        parts = [
            self._batches(names, nulls)
            for names, nulls in ((texts, _TEXT_NULLS), (others, {}))
            if names
        ]
        for batches in zip(*parts, strict=True):
            arrays = {name: batch.column(name) for batch in batches for name in batch.schema.names}
            yield pa.record_batch([arrays[name] for name in columns], names=list(columns))

    def _batches(
        self, columns: Sequence[str], nulls: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from pacsv.open_csv(
                self.path,
                read_options=pacsv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
                parse_options=pacsv.ParseOptions(
                    newlines_in_values=True, ignore_empty_lines=not self.is_single
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict(self.types), include_columns=list(columns), **nulls
                ),
            )
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise SourceError(_fault(self.path, str(error))) from None


def _names(path: Path) -> list[str]:
    # A broken line is reported, with its number, by the pass that reads them all.
    lenient = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    try:
        with _unheard(), pacsv.open_csv(path, parse_options=lenient) as csv:
            return list(csv.schema.names)
    except (pa.ArrowException, UnicodeDecodeError):
        raise SourceError(f"{path.name} is empty, malformed or not UTF-8 text") from None


@contextmanager
def _unheard() -> Iterator[None]:
    """Do not print that Arrow could not decode a broken line for its handler."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook


def _inferred(text: CsvFile) -> CsvFile:
    """Return a file with the types of its columns. Raises SourceError for no rows or names."""
    file, names = text.path.name, [name.strip() for name in text.types]
    guesses = [TypeGuess() for _ in names]
    like_cells = {place for place, name in enumerate(names) if _is_value(name)}
    separator, rows = _separator_of(list(text.types)), 0
    for batch in text.read(list(text.types)):
        rows += batch.num_rows
        for place, (cells, guess) in enumerate(zip(batch.columns, guesses, strict=True)):
            all_numbers = guess.take(cells)
            if place in like_cells or (all_numbers and not re.match(NUMBER, names[place])):
                continue
            if _occurs(names[place], cells):
                like_cells.add(place)
        if separator and not pc.all(pc.match_substring(batch.column(0), separator)).as_py():
            separator = None
    if rows == 0:
        raise SourceError(f"{file} has no rows, only a line of column names")
    if separator:
        raise SourceError(_separated(file, separator))
    if len(like_cells) >= max(2, len(names) / 2):
        raise SourceError(
            f"{file} seems to have no line of column names: its first line looks like a record. "
            "Add a line with a name for each column; if there is one, make sure that it "
            "does not occur again among the rows"
        )
    found = dict(zip(text.types, guesses, strict=True))
    notes = {name: guess.note for name, guess in found.items() if guess.note}
    types = {name: guess.type for name, guess in found.items()}
    return CsvFile(text.path, types, notes, text.is_single)


def _occurs(name: str, cells: pa.Array) -> bool:
    return bool(pc.any(pc.equal(pc.utf8_trim_whitespace(cells), name)).as_py())


def _is_value(name: str) -> bool:
    decimal = re.match(NUMBER, name) and "." in name
    return bool(not name or decimal or re.match(MOMENT, name))


def _check_repeated(names: Sequence[str], file: str) -> None:
    [(repeated, count)] = Counter(names).most_common(1)
    if count > 1:  # the name may be a cell, and is not shown
        places = [str(place) for place, name in enumerate(names, start=1) if name == repeated]
        raise ColumnError(
            f"{file}: more than one column has the same name (columns {' and '.join(places)}); "
            "rename them, or add a line of column names if there is none"
        )


def _separator_of(names: Sequence[str]) -> str | None:
    """Return what may separate the fields of a file with only one column, if not commas."""
    [name] = names if len(names) == 1 else [""]
    return next((separator for separator in _SEPARATORS if separator in name), None)


def _separated(file: str, separator: str) -> str:
    return (
        f"{file}: the fields seem to be separated by {_SEPARATORS[separator]}; "
        "save the file with commas instead"
    )


def _fault(path: Path, text: str) -> str:
    """Say what is wrong with a file, without Arrow's own words, which quote cells."""
    if broken := re.match(r"CSV parse error: Row #(\d+): Expected \d+ columns", text):
        if separator := _separator_of(_names(path)):
            return _separated(path.name, separator)
        where = f"{path.name}: record {broken[1]}, counting the header"
        return f"{where}, has more or fewer fields than the header"
    if "UTF8" in text or "utf-8" in text:
        return f"{path.name} is not UTF-8 text; convert it first (for example with iconv)"
    if converted := re.match(r"In CSV column #(\d+):.*conversion error", text):
        column = _names(path)[int(converted[1])]
        return f"{path.name}: column {column!r} no longer holds the kind of values it held before"
    return f"{path.name} is not a well-formed CSV file"
