"""Columns of text cells: their names, their types from all rows, then their values.

What a CSV file and a sheet have in common. A file without a line of names would publish its
first record, as names, in every copy. So a name that could be a cell is counted: one that occurs
in its own column, a number with a decimal point, a date, or nothing. Whole numbers alone can be
names, such as the years of a wide table. Every message names a column or a record, never a cell,
and not even a name where it may be one.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.choices import ReadingSettings
from cornerwave.errors import ColumnError, SourceError
from cornerwave.sources._text_cells import MOMENT, NUMBER, TypeGuess, typed

MOST_REPEATED = 0.5
"""A header in which a larger share of the names repeats another is a record."""


class TextFile(Protocol):
    """A file whose cells are text: names for all of its columns, and their cells."""

    @property
    def label(self) -> str:
        """What to call it in a message."""

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns, as they are written."""

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each column, those of the header first."""

    @property
    def reading(self) -> ReadingSettings:
        """How the cells are spelled."""

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of columns; null is an empty field."""


@dataclass(frozen=True)
class Inferred:
    """What all rows of some files show: types, notes on columns, remarks on the files.

    `markers` are, by column, cells that may mark missing values, and how often they occur.
    """

    types: Mapping[str, pa.DataType]
    notes: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    markers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def named(header: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each column: what has none, or another's, gets one.

    >>> named(["", "wage", "wage", "wage_2"])
    ('column_1', 'wage', 'wage_3', 'wage_2')
    """
    taken, names = set(header), []
    for place, written in enumerate(header, start=1):
        name = written if written.strip() else _free(f"column_{place}", taken, first=True)
        if name in names:
            name = _free(name, taken)
        taken.add(name)
        names.append(name)
    return tuple(names)


def _free(name: str, taken: Iterable[str], *, first: bool = False) -> str:
    if first and name not in taken:
        return name
    return next(each for n in range(2, 1 << 20) if (each := f"{name}_{n}") not in taken)


def infer(
    files: Sequence[TextFile], reading: ReadingSettings, notes: Mapping[str, str]
) -> Inferred:
    """Read all rows of files that make up one table. Raises SourceError, ColumnError.

    A column without a name and without a value in any file is left out.
    """
    guesses: dict[str, TypeGuess] = {}
    remarks: dict[str, None] = {}
    unnamed: set[str] = set()
    for file in files:
        for name in file.names:
            guesses.setdefault(name, TypeGuess(reading.of_column(name)))
        _look(file, guesses)
        pairs = zip(named(file.header), file.header, strict=True)
        unnamed |= {name for name, written in pairs if not written.strip()}
    left_out = {name for name in unnamed if pa.types.is_null(guesses[name].type)}
    for file in files:
        remarks |= dict.fromkeys(_on_names(file, left_out))
    columns = {name: guess for name, guess in guesses.items() if name not in left_out}
    odd = {name: guess.note for name, guess in columns.items() if guess.note}
    texts = {name: note for name, note in notes.items() if pa.types.is_string(columns[name].type)}
    marks = {name: guess.markers for name, guess in columns.items() if guess.markers}
    types = {name: guess.type for name, guess in columns.items()}
    return Inferred(types, texts | odd, tuple(remarks), marks)


def _look(file: TextFile, guesses: Mapping[str, TypeGuess]) -> None:
    """Guess types from the rows of a file. Raises SourceError for no rows, or no names."""
    names = file.names
    written = [name.strip() for name in (*file.header, *names[len(file.header) :])]
    like_cells = {place for place, name in enumerate(written) if name and _is_value(name)}
    nameless = {place for place, name in enumerate(written) if not name}
    rows = 0
    for batch in file.texts(names):
        rows += batch.num_rows
        for place, cells in enumerate(batch.columns):
            all_numbers = guesses[names[place]].take(cells)
            if place in nameless:
                if cells.null_count < len(cells):
                    like_cells.add(place)
            elif place in like_cells or (all_numbers and not re.match(NUMBER, written[place])):
                continue
            elif _occurs(written[place], cells):
                like_cells.add(place)
    if rows == 0:
        raise SourceError(f"{file.label} has no rows, only a line of column names")
    again = len(written) - len(nameless) - len({name for name in written if name})
    if len(like_cells) >= max(2, len(names) / 2) or again > MOST_REPEATED * len(written):
        raise SourceError(
            f"{file.label} seems to have no line of column names: its first line looks like a "
            "record. Add a line with a name for each column; if there is one, make sure that it "
            "does not occur again among the rows"
        )


def _occurs(name: str, cells: pa.Array) -> bool:
    return bool(pc.any(pc.equal(pc.utf8_trim_whitespace(cells), name)).as_py())


def _is_value(name: str) -> bool:
    decimal = re.match(NUMBER, name) and "." in name
    return bool(decimal or re.match(MOMENT, name))


def _on_names(file: TextFile, left_out: Collection[str]) -> Iterator[str]:
    """Say which columns were given a name, or left out; one that is repeated may be a cell."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(file.header, start=1):
        places.setdefault(name.strip() and name, []).append(place)
    names = named(file.header)
    for name, at in places.items():
        if not name:
            empty = [place for place in at if names[place - 1] in left_out]
            if empty:
                yield f"{file.label}: {_columns(empty)} without a name and empty; left out"
            if at := [place for place in at if place not in empty]:
                called = ", ".join(repr(names[place - 1]) for place in at[:20])
                yield f"{file.label}: {_columns(at)} without a name; called {called}"
        elif len(at) > 1:
            yield (
                f"{file.label}: {_columns(at)} with the same name; "
                "the later ones are called by it and a number"
            )


def _columns(places: Sequence[int]) -> str:
    some = " and ".join(map(str, places[:20]))
    return f"column {some}" if len(places) == 1 else f"columns {some}"


def values_of(
    batch: pa.RecordBatch, types: Mapping[str, pa.DataType], reading: ReadingSettings, label: str
) -> pa.RecordBatch:
    """Return cells of text as values of these types. Raises SourceError."""
    arrays = []
    for name, cells in zip(batch.schema.names, batch.columns, strict=True):
        try:
            arrays.append(typed(cells, types[name], reading.of_column(name)))
        except (pa.ArrowException, SourceError):
            raise SourceError(unlike_before(label, name)) from None
    return pa.record_batch(arrays, names=batch.schema.names)


def unlike_before(label: str, column: str) -> str:
    """Say that a column has other values than it had when its type was found."""
    return f"{label}: column {column!r} no longer holds the kind of values it held before"


def check_names(header: Sequence[str], label: str) -> None:
    """Raise ColumnError for a header without any name."""
    if not any(name.strip() for name in header):
        raise ColumnError(f"{label} has no names in its first line")
