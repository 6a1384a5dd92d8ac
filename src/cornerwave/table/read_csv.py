"""Reading a CSV: names from its first line, types from all of its rows, then batches.

Every message names a column or a record, never what stands there.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from cornerwave.errors import SourceError
from cornerwave.table.csv_header import Header, check_names, separated, separator_of
from cornerwave.table.csv_types import Guess
from cornerwave.table.source import Batches, Source, unreadable

CSV_BLOCK_BYTES = 1 << 23

Types = Mapping[str, pa.DataType]


def open_csv(path: Path, types: Types | None) -> Source:
    """Open a CSV with the types that its columns had before; without any, infer them."""
    names = _names(path)
    if types is None:
        return _inferred(path, names)
    known = {name: type_ for name, type_ in types.items() if name in names}
    return _source(path, known, {})


def _source(path: Path, types: Types, notes: Mapping[str, str]) -> Source:
    schema = pa.schema(list(types.items()))
    return Source(schema, lambda columns: _read(path, types, columns), path, notes=notes)


def _inferred(path: Path, names: list[str]) -> Source:
    """Read all rows once, as text. Raises SourceError for no rows, or no line of names."""
    check_names(names, path.name)
    header, guesses, separator = Header(names), [Guess() for _ in names], separator_of(names)
    rows = 0
    for batch in _read(path, dict.fromkeys(names, pa.string()), names):
        for place, (text, guess) in enumerate(zip(batch.columns, guesses, strict=True)):
            header.look(place, text)
            guess.take(text)
        rows += batch.num_rows
        if separator and not pc.all(pc.match_substring(batch.column(0), separator)).as_py():
            separator = None
    if rows == 0:
        raise SourceError(f"{path.name} has no rows, only a line of column names")
    if separator:
        raise SourceError(separated(path.name, separator))
    header.check(path.name)
    found = dict(zip(names, guesses, strict=True))
    notes = {name: guess.note for name, guess in found.items() if guess.note}
    return _source(path, {name: guess.type for name, guess in found.items()}, notes)


def _names(path: Path) -> list[str]:
    # A broken line is told, with its number, by the pass that reads them all.
    lenient = pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip")
    try:
        with pacsv.open_csv(path, parse_options=lenient) as csv:
            return list(csv.schema.names)
    except pa.ArrowException:
        raise SourceError(f"{path.name} is empty, malformed or not UTF-8 text") from None
    except (OSError, UnicodeDecodeError, EOFError):
        raise SourceError(f"{path.name} cannot be read") from None


def _read(path: Path, types: Types, columns: Sequence[str]) -> Batches:
    """Read text and all else side by side: they spell missing values differently."""
    texts = [name for name in columns if pa.types.is_string(types[name])]
    others = [name for name in columns if name not in texts]
    parts = [
        *([_batches(path, types, texts, _TEXT_NULLS)] if texts else []),
        *([_batches(path, types, others, {})] if others else []),
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


def _batches(path: Path, types: Types, columns: Sequence[str], nulls: Mapping[str, Any]) -> Batches:
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
        raise SourceError(_fault(path, broken, str(error))) from None
    except OSError as error:
        raise unreadable(path.name, error) from None


def _fault(path: Path, broken: list[int], text: str) -> str:
    if broken:
        if separator := separator_of(_names(path)):
            return separated(path.name, separator)
        where = f"{path.name}: record {broken[0]}, counting the header"
        return f"{where}, has more or fewer fields than it"
    if "UTF8" in text or "utf-8" in text:
        return f"{path.name} is not UTF-8 text; convert it first (for example with iconv)"
    if converted := re.match(r"In CSV column #(\d+):.*conversion error", text):
        column = _names(path)[int(converted[1])]
        return f"{path.name}: column {column!r} no longer holds the kind of value that it held"
    return f"{path.name} is not a well-formed CSV file"
