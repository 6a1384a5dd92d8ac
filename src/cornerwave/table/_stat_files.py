"""Files of Stata, SPSS and SAS, through ReadStat: some rows at a time.

A column whose values all have a label becomes text, its labels; one of which only some have one
(99 = "99 or older") stays a number. Values that the file itself declares as missing are missing,
and so is an empty text, as these programs mean it. Whole numbers are whole, though the formats
keep them as floats. Types are found from all rows. ReadStat runs in a process of its own, since
of some damaged files it dies.
"""

import base64
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.errors import ExtraMissing, SourceError
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._types import is_text

_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
STAT_ENDINGS = tuple(_READERS)
CELLS_AT_A_TIME, LEAST_ROWS = 1 << 19, 1 << 10
MOST_WHOLE = 2.0**53


@dataclass(frozen=True)
class StatFile:
    """A file of a statistics program, and the types of its columns."""

    path: Path
    reading: ReadingSettings
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open(
        cls, path: Path, types: Mapping[str, pa.DataType] | None, reading: ReadingSettings
    ) -> "StatFile":
        """Open a file with known types; without any, read all rows once to infer them."""
        file = cls(path, reading)
        names = file.columns
        if types is not None:
            return cls(path, reading, {n: type_ for n, type_ in types.items() if n in names})
        reading = reading.for_columns(names)
        seen = {name: _Seen(file.labels.get(name, {})) for name in names}
        for rows in file._chunks(names):
            for name, each in seen.items():
                each.take(rows[name])
        if not all(each.rows for each in seen.values()):
            raise SourceError(f"{path.name} has no rows")
        notes = {name: note for name, each in seen.items() if (note := each.note)}
        return cls(path, reading, {name: each.type for name, each in seen.items()}, notes)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the columns. Raises SourceError."""
        for rows in self._chunks(columns):
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

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._about[0]

    @property
    def labels(self) -> Mapping[str, Mapping[Any, str]]:
        """The labels of values, by column."""
        return self._about[1]

    @cached_property
    def _about(self) -> tuple[list[str], Mapping[str, Mapping[Any, str]]]:
        [(names, labels)] = self._parts(0)
        if not all(isinstance(name, str) for name in names):
            raise self._damaged()
        return names, labels

    def _chunks(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        if columns:
            many = max(LEAST_ROWS, CELLS_AT_A_TIME // len(columns))
            yield from self._parts(many, usecols=list(columns))

    def _parts(self, many: int, **options: Any) -> Iterator[Any]:
        """Read so many rows at a time, or what the file says of itself, in another process."""
        if find_spec("pyreadstat") is None:
            raise ExtraMissing(
                f"reading {self.path.name} needs pyreadstat, which is not installed: "
                "pip install 'cornerwave[stat]'"
            )
        ending = next(each for each in _READERS if self.path.name.lower().endswith(each))
        if self.reading.encoding:
            options["encoding"] = self.reading.encoding
        work = pickle.dumps((_READERS[ending], str(self.path), options, many))
        script = Path(__file__).with_name("_stat_reader.py")
        command = [sys.executable, "-P", str(script), base64.b64encode(work).decode()]
        # what it says of an error may quote a cell
        with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL) as child:  # noqa: S603
            try:
                yield from _pickles(child.stdout)
                if child.wait() != 0:
                    raise self._damaged()
            finally:
                child.kill()  # nobody may have wanted all of it

    def _damaged(self) -> SourceError:
        return SourceError(
            f"{self.path.name} cannot be read: it is damaged, or not the kind of file that its "
            "ending says, or its encoding is another",
            use=("encoding",),
        )


def _pickles(stream: Any) -> Iterator[Any]:
    """Yield what a process of ours wrote, until it ends or dies."""
    with suppress(EOFError, pickle.UnpicklingError):
        while True:
            yield pickle.load(stream)  # noqa: S301


class _Seen:
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
        """What to say about a column of which only some values have labels."""
        if not self._labels or not self._without or is_text(self.type):
            return None
        return "some of its values have labels and others have none: it is read as numbers"


def _kind(cells: list[Any]) -> pa.DataType:
    found = pa.array(cells, from_pandas=True).type
    if pa.types.is_floating(found):
        whole = all(cell.is_integer() and abs(cell) < MOST_WHOLE for cell in cells)
        return pa.int64() if whole else pa.float64()
    return found


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
