"""Whether the first line of a CSV holds the names of its columns.

A file without such a line would publish its first record, as names, in every copy. So
a name that could be a cell is counted: one that occurs in its own column, a number
with a decimal point, a date, or nothing. Whole numbers alone are names too, such as
the years of a wide table. What is said of such a file shows no name.
"""

import re
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table.csv_types import MOMENT, NUMBER

SEPARATORS = {";": "semicolons", "\t": "tabs"}


class Header:
    """The names of a CSV's columns, and which of them look like values."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name.strip() for name in names]
        self._values = {place for place, name in enumerate(self._names) if _is_value(name)}

    def look(self, place: int, text: pa.Array) -> None:
        """Look for a column's name among some of its cells."""
        if place not in self._values:
            cells = pc.utf8_trim_whitespace(text)
            if pc.any(pc.equal(cells, self._names[place])).as_py():
                self._values.add(place)

    def check(self, file: str) -> None:
        """Raise SourceError if the names look like a record."""
        if len(self._values) >= max(2, len(self._names) / 2):
            raise SourceError(
                f"{file} seems to have no line of column names: its first line looks like a "
                "record. Put a line with a name for each column before it; if there is one, see "
                "that it does not stand among the rows again"
            )


def _is_value(name: str) -> bool:
    decimal = re.match(NUMBER, name) and "." in name
    return bool(not name or decimal or re.match(MOMENT, name))


def check_names(names: Sequence[str], file: str) -> None:
    """Raise ColumnError if two columns have one name; it may be a cell, and is not shown."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        places = [str(i) for i, name in enumerate(names, start=1) if name == repeated[0]]
        raise ColumnError(
            f"{file}: more than one column has the same name (columns {' and '.join(places)}); "
            "rename them, or put a line of column names first if there is none"
        )


def separator_of(names: Sequence[str]) -> str | None:
    """Return what may separate the fields of a file with but one column, if not commas."""
    [name] = names if len(names) == 1 else [""]
    return next((separator for separator in SEPARATORS if separator in name), None)


def separated(file: str, separator: str) -> str:
    """Say what to do with a file whose fields are separated by something else."""
    return (
        f"{file}: its fields seem to be separated by {SEPARATORS[separator]}; "
        "save it with commas between them"
    )
