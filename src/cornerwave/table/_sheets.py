"""A sheet of a workbook (Excel, OpenDocument): cells as text, then like a CSV file.

Cells of a sheet have types one by one, and people mix them. So every cell is spelled plainly
(numbers 1.5, dates 2020-12-31), and a column gets the type that fits all of it. A workbook is
read as a whole by its reader; it holds at most 1,048,576 rows.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from cornerwave.errors import CornerwaveError, ExtraMissing, SourceError
from cornerwave.table._csv_found import spelled
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._text_columns import Inferred, check_names, infer, named, values_of

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
        names = tuple(_text(cell) or "" for cell in first)
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
            cells = [pa.array([_text(row[at]) for row in some], pa.string()) for at in places]
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
            raise ExtraMissing(
                f"reading {self._path.name} needs python-calamine, which is not installed: "
                "pip install 'cornerwave[stat]'"
            ) from None
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
    found: Inferred

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
        found = infer([sheet], reading, notes)
        return cls(sheet, replace(found, remarks=(*remarks, *found.remarks)))

    @property
    def reading(self) -> ReadingSettings:
        """How the cells are spelled."""
        return self.sheet.reading

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        for batch in self.sheet.texts(columns):
            yield values_of(batch, self.found.types, self.reading, self.sheet.label)


def _chosen(path: Path, wanted: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the sheet that is read, and what to say about it: the first that is not empty."""
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


def _text(cell: Any) -> str | None:
    """Return a cell as it would be written in a CSV file; None if it is empty."""
    if cell == "" or cell is None:
        return None
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 1e15 else repr(cell)
    if isinstance(cell, dt.datetime):
        return cell.isoformat(" ")
    if isinstance(cell, dt.timedelta):
        return repr(cell.total_seconds())
    return cell if isinstance(cell, str) else str(cell)
