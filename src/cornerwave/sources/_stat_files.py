"""Files of Stata, SPSS and SAS, through ReadStat: some rows at a time.

A column whose values all have a label becomes text, its labels; one of which only some have one
(99 = "99 or older") stays a number. Values that the file itself declares as missing are missing,
and so is an empty text, as these programs mean it. Whole numbers are whole, though the formats
keep them as floats. Types are found from all rows. ReadStat runs in a process of its own, since
of some damaged files it dies.
"""

import datetime as dt
import json
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import sizes
from cornerwave.choices import DESCRIPTION, ReadingSettings
from cornerwave.columns import is_text
from cornerwave.errors import CornerwaveError, ExtraMissing, SourceError
from cornerwave.sources._csv_spelling import spelled
from cornerwave.sources._text_columns import Inferred, check_names, infer, named, values_of

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
STAT_ENDINGS = tuple(_READERS)
MOST_WHOLE = 2.0**53
MOST_LETTERS = DESCRIPTION.most


@dataclass(frozen=True)
class StatFile:
    """A file of a statistics program: its labels, and the types of its columns.

    `labels` are those of values, `descriptions` those of columns.
    """

    path: Path
    reading: ReadingSettings
    labels: Mapping[str, Mapping[Any, str]]
    types: Mapping[str, pa.DataType]
    notes: Mapping[str, str]
    descriptions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls, path: Path, types: Mapping[str, pa.DataType] | None, reading: ReadingSettings
    ) -> "StatFile":
        """Open a file with known types; without any, read all rows once to infer them."""
        parts = _parts(path, reading, None if types is None else ())
        names, labels, stated = next(parts)
        described = {n: text for n, label in stated.items() if (text := _one_line(label))}
        if not all(isinstance(name, str) for name in names):
            raise _damaged(path)
        if types is not None:
            types = {name: type_ for name, type_ in types.items() if name in names}
            return cls(path, reading, labels, types, {}, described)
        reading = reading.for_columns(names)
        seen = {name: _SeenCells(labels.get(name, {})) for name in names}
        for rows in parts:
            for name, each in seen.items():
                each.take(rows[name])
        if not all(each.rows for each in seen.values()):
            raise SourceError(f"{path.name} has no rows")
        types = {name: each.type for name, each in seen.items()}
        notes = {name: note for name, each in seen.items() if (note := each.note)}
        return cls(path, reading, labels, types, notes, described)

    @property
    def codes(self) -> Mapping[str, Mapping[str, float]]:
        """Of columns that are read as labels, the number that each label stands for."""
        found = {}
        for name, labels in self.labels.items():
            if name in self.types and is_text(self.types[name]):
                codes = {label: code for code, label in labels.items()}
                numbers = all(isinstance(code, int | float) for code in labels)
                if numbers and len(codes) == len(labels):  # no two have one label
                    found[name] = codes
        return found

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        parts = _parts(self.path, self.reading, columns)
        next(parts)
        for rows in parts:
            yield pa.record_batch([self._array(n, rows[n]) for n in columns], names=list(columns))

    def _array(self, name: str, cells: list[Any]) -> pa.Array:
        type_ = self.types[name]
        if is_text(type_):
            labels = self.labels.get(name, {})
            texts = [labels.get(cell, cell) for cell in cells]
            array = pa.array([None if t in (None, "") else _text(t) for t in texts], type_)
        else:
            array = pa.array(cells, from_pandas=True).cast(type_)
        return _unmarked(array, self.reading.of_column(name).missing or ())


def _parts(path: Path, reading: ReadingSettings, columns: Sequence[str] | None) -> Iterator[Any]:
    """Yield what another process reads: names and labels, then rows of these columns, or of all."""
    if find_spec("pyreadstat") is None:
        raise ExtraMissing.of(f"reading {path.name}", "pyreadstat", extra="stat")
    work = {
        "read": next(read for end, read in _READERS.items() if path.name.lower().endswith(end)),
        "path": str(path),
        "options": {"encoding": reading.encoding} if reading.encoding else {},
        "columns": None if columns is None else list(columns),
        "cells": sizes.STATISTICS_CELLS,
        "least_rows": sizes.STATISTICS_ROWS,
    }
    script = Path(__file__).with_name("_stat_reader.py")
    command = [sys.executable, "-P", str(script), json.dumps(work)]
    # its messages may quote a cell
    with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL) as child:  # noqa: S603
        try:
            yield from _pickles(child.stdout)
            if child.wait() != 0:
                raise _damaged(path)
        finally:
            child.kill()  # nobody may have wanted all of it


def _pickles(stream: Any) -> Iterator[Any]:
    """Yield what a process of ours wrote, until it ends or dies."""
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            yield pickle.load(stream)  # noqa: S301


def _damaged(path: Path) -> SourceError:
    return SourceError(
        f"{path.name} cannot be read: it is damaged, or not the kind of file that its ending "
        "states, or its encoding is another",
        use=("encoding",),
    )


def _one_line(label: str) -> str:
    """Return a label as a description can be: printable, in one line, of some length."""
    return "".join(c for c in " ".join(str(label).split()) if c.isprintable())[:MOST_LETTERS]


class _SeenCells:
    """What the cells of a column are, given those seen so far."""

    def __init__(self, labels: Mapping[Any, str]) -> None:
        self._labels = labels
        self._kinds: dict[pa.DataType, None] = {}
        self._without = 0
        self.rows = 0

    def take(self, cells: list[Any]) -> None:
        """Look at some more cells."""
        self.rows += len(cells)
        present = [cell for cell in cells if cell not in (None, "")]
        if self._labels:
            self._without += sum(cell not in self._labels for cell in present)
        if present:
            self._kinds[_kind(present)] = None

    @property
    def type(self) -> pa.DataType:
        """The type that fits all cells."""
        if not self._kinds:
            return pa.null()
        if self._labels and not self._without:
            return pa.string()
        kinds = list(self._kinds)
        if len(kinds) == 1:
            return kinds[0]
        return pa.float64() if {*kinds} == {pa.int64(), pa.float64()} else pa.string()

    @property
    def note(self) -> str | None:
        """A note on a column of which only some values have labels."""
        if not self._labels or not self._without or is_text(self.type):
            return None
        return "some of its values have labels and others have none: it is read as numbers"


def _kind(cells: list[Any]) -> pa.DataType:
    type_ = pa.array(cells, from_pandas=True).type
    if pa.types.is_floating(type_):
        whole = all(cell.is_integer() and abs(cell) < MOST_WHOLE for cell in cells)
        return pa.int64() if whole else pa.float64()
    return type_


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unmarked(array: pa.Array, marks: Sequence[str]) -> pa.Array:
    """Return cells without those that the owner declared as missing."""
    if not marks:
        return array
    if not is_text(array.type):
        values = [float(mark) for mark in marks if _is_float(mark)]
        if not pa.types.is_integer(array.type) and not pa.types.is_floating(array.type):
            return array
        there = pc.is_in(pc.cast(array, pa.float64()), value_set=pa.array(values, pa.float64()))
        return pc.if_else(there, None, array)
    return pc.if_else(pc.is_in(array, value_set=pa.array(marks, pa.string())), None, array)


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --------------------------------------------------------------------------------------------------
# A sheet of a workbook (Excel, OpenDocument): cells as text, then like a CSV file.
#
# Cells of a sheet have types one by one, and people mix them. So every cell is spelled plainly
# (numbers 1.5, dates 2020-12-31), and a column gets the type that fits all of it. A workbook is
# read as a whole by its reader; it holds at most 1,048,576 rows.


SHEET_ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
ROWS_AT_A_TIME = 1 << 14


@dataclass(frozen=True)
class Sheet:
    """A sheet with a known reading; its first row has the names."""

    path: Path
    reading: ReadingSettings

    @property
    def label(self) -> str:
        """What to call it in a message."""
        return self.path.name

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The names of the columns, as they are written."""
        first = next(self._rows(), [])
        names = tuple(_sheet_text(cell) or "" for cell in first)
        check_names(names, self.label)
        return names

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each column."""
        return named(self.header)

    def texts(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of columns as text."""
        names = self.names
        places = [names.index(name) for name in columns]
        rows = self._rows()
        next(rows, None)
        while some := [row for _, row in zip(range(ROWS_AT_A_TIME), rows, strict=False)]:
            cells = [pa.array([_sheet_text(row[at]) for row in some], pa.string()) for at in places]
            yield pa.record_batch(cells, names=list(columns))

    def _rows(self) -> Iterator[list[Any]]:
        """Yield the rows that are not empty."""
        with workbook(self.path) as book:
            sheet = book.get_sheet_by_name(self.reading.sheet)
            for row in sheet.to_python(skip_empty_area=True):
                if any(cell != "" for cell in row):
                    yield row


class workbook:  # noqa: N801 - a context manager that reads as a function
    """Open a workbook; errors are in our words, since those of a library may quote a cell."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Any:
        try:
            from python_calamine import CalamineWorkbook
        except ImportError:
            what = f"reading {self._path.name}"
            raise ExtraMissing.of(what, "python-calamine", extra="stat") from None
        try:
            self._book = CalamineWorkbook.from_path(str(self._path))
        except Exception as error:
            raise self._damaged(error) from None
        return self._book

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, CornerwaveError):
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> SourceError:
        secret = "it is encrypted" if type(error).__name__ == "PasswordError" else "it is damaged"
        return SourceError(f"{self._path.name} cannot be read: {secret}, or not a workbook")


@dataclass(frozen=True)
class SheetTable:
    """The rows of a sheet, with the types of its columns."""

    sheet: Sheet
    inferred: Inferred

    @classmethod
    def open(
        cls, path: Path, types: Mapping[str, pa.DataType] | None, reading: ReadingSettings
    ) -> "SheetTable":
        """Open a sheet with known types; without any, read all rows once to infer them."""
        name, remarks = _chosen(path, reading.sheet)
        reading = replace(reading, sheet=name)
        if types is not None:
            sheet = Sheet(path, reading)
            names = sheet.names
            return cls(sheet, Inferred({n: type_ for n, type_ in types.items() if n in names}))
        reading = replace(reading, missing=reading.missing or ())
        reading = reading.for_columns(Sheet(path, reading).names)
        sheet = Sheet(path, reading)
        sample, notes = next(sheet.texts(sheet.names), None), dict[str, str]()
        if sample is not None:
            reading, notes = spelled(sample, reading)
        sheet = Sheet(path, reading)
        inferred = infer([sheet], reading, notes)
        return cls(sheet, replace(inferred, remarks=(*remarks, *inferred.remarks)))

    @property
    def reading(self) -> ReadingSettings:
        """How the cells are spelled."""
        return self.sheet.reading

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        for batch in self.sheet.texts(columns):
            yield values_of(batch, self.inferred.types, self.reading, self.sheet.label)


def _chosen(path: Path, wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the sheet that is read, and a remark on it: the first that is not empty."""
    with workbook(path) as book:
        names = list(book.sheet_names)
        if wanted is not None:
            if wanted not in names:
                raise SourceError(f"{path.name} has no sheet {wanted!r}", use=("sheet",))
            return wanted, ()
        filled = [name for name in names if book.get_sheet_by_name(name).height]
    if not filled:
        raise SourceError(f"{path.name} is empty")
    if len(filled) == 1:
        return filled[0], ()
    return filled[0], (f"{path.name} has {len(filled)} sheets; the first is read, {filled[0]!r}",)


def _sheet_text(cell: Any) -> str | None:
    """Return a cell as it would be written in a CSV file; None if it is empty."""
    if cell == "" or cell is None:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) <= MOST_WHOLE else repr(cell)
    if isinstance(cell, dt.datetime):
        return cell.isoformat(" ")
    if isinstance(cell, dt.timedelta):
        return repr(cell.total_seconds())
    return cell if isinstance(cell, str) else str(cell)
