"""What of a row is looked at to see which rows belong together: all its columns, dropped ones too.

Numbers are compared as numbers, everything else by keyed hashes of its cells. Of a text that
identifies rows, the key or a dropped one, also what stands before its separators counts:
P00012-03 is a row of P00012.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.errors import ColumnError
from cornerwave.table import (
    CATEGORY,
    DROPPED,
    KEY,
    MISSING_BITS,
    PERTURBED,
    Column,
    Encoded,
    Schema,
    is_number,
    is_text,
    one_chunk,
    taken,
    to_floats,
    type_named,
    unit_of,
)
from cornerwave.units._find import Looked

_PARTS = {
    "up to its last separator": r"^(?P<part>.*[^-_./:#| ])[-_./:#| ]+[^-_./:#| ]*$",
    "up to its first separator": r"^(?P<part>[^-_./:#| ]+)[-_./:#| ]+.*$",
    "after its last separator": r"^.*[-_./:#| ](?P<part>[^-_./:#| ]+)$",
    "after its first separator": r"^[^-_./:#| ]*[-_./:#| ]+(?P<part>[^-_./:#| ].*)$",
}
"""What stands before and after the last separator of a text, and the first."""


@dataclass(frozen=True)
class UnitColumns:
    """The columns of a table that are looked at: as numbers, as cells, and parts of texts."""

    numbers: tuple[Column, ...]
    cells: tuple[Column, ...]
    parts: tuple[tuple[Column, str], ...]

    @classmethod
    def of(cls, schema: Schema) -> "UnitColumns":
        """Return those of a table; none if its owner says that rows are independent."""
        if schema.independent_rows:
            return cls((), (), ())
        plain = [column for column in schema.columns if column.role != KEY]
        texts = [c for c in schema.columns if c.role in (KEY, DROPPED) and _is_text(c)]
        return cls(
            tuple(column for column in plain if _is_number(column)),
            tuple(c for c in plain if c.role != PERTURBED and type_named(c.type) is not None),
            tuple((column, which) for column in texts for which in _PARTS),
        )

    @property
    def count(self) -> int:
        """How many words a row has."""
        return len(self.numbers) + len(self.cells) + len(self.parts)

    def of_rows(
        self, table: pa.Table, rows: Ints, secret: bytes
    ) -> tuple[list[Floats], list[Words]]:
        """Return the numbers and the hashed cells of some rows; what is not there is missing."""
        numbers = [_numbers(_column(table, column.name, rows)) for column in self.numbers]
        cells = [_hashed(_column(table, column.name, rows), secret) for column in self.cells]
        cells += [
            _hashed(_part(_column(table, column.name, rows), which), secret)
            for column, which in self.parts
        ]
        gaps = np.full(len(rows), np.nan), np.full(len(rows), MISSING_BITS, dtype=np.uint64)
        return [gaps[0] if each is None else each for each in numbers], [
            gaps[1] if each is None else each for each in cells
        ]

    def looked(self, numbers: Floats, cells: Words) -> list[Looked]:
        """Return the columns of some rows, as `of_rows` gave them."""
        values = dict(zip((c.name for c in self.numbers), numbers, strict=True))
        found = [
            Looked.of_numbers(name, values[name], noisy=True, is_time=is_time(column))
            for column in self.numbers
            if column.role == PERTURBED and (name := column.name)
        ]
        for column, own in zip(self.cells, cells, strict=False):
            noisy, gone = column.role == CATEGORY, own == MISSING_BITS
            each = Looked.of_cells(column.name, own, gone, noisy=noisy, is_time=is_time(column))
            found.append(each.sorted_by(values[each.name]) if each.name in values else each)
        for part, own in zip(self.parts, cells[len(self.cells) :], strict=True):
            found.append(Looked.of_cells(called(*part), own, own == MISSING_BITS, noisy=False))
        return found


def _is_number(column: Column) -> bool:
    type_ = type_named(column.type)
    return type_ is not None and is_number(type_)


def _is_text(column: Column) -> bool:
    type_ = type_named(column.type)
    return type_ is not None and is_text(type_)


def is_time(column: Column) -> bool:
    """Whether a column holds dates or times."""
    type_ = type_named(column.type)
    return type_ is not None and unit_of(type_) is not None


def is_fraction(column: Column) -> bool:
    """Whether a column is of a type that holds fractions."""
    type_ = type_named(column.type)
    return type_ is not None and (pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def called(column: Column, which: str) -> str:
    """Return what a part of a text is called."""
    return f"{column.name} {which}"


def _column(table: pa.Table, name: str, rows: Ints) -> pa.Array | None:
    """Return some rows of a column; None if it is not there."""
    if name not in table.column_names:
        return None
    return taken(one_chunk(table.column(name)), rows)


def _numbers(column: pa.Array | None) -> Floats | None:
    """Return a column as numbers; None if it holds others, or larger ones than a float has."""
    try:
        return None if column is None else to_floats(column, "")
    except ColumnError:
        return None


def _hashed(column: pa.Array | None, secret: bytes) -> Words | None:
    """Return the hashes of cells; None of what has no text, such as a list."""
    if column is None:
        return None
    out = np.empty(len(column), dtype=np.uint64)
    try:
        Encoded.of(column, "").fill_bits(secret, MISSING_BITS, out)
    except (ColumnError, pa.ArrowException):
        return None
    return out


def _part(column: pa.Array | None, which: str) -> pa.Array | None:
    if column is None:
        return None
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return pc.struct_field(pc.extract_regex(column, _PARTS[which]), "part")
    except pa.ArrowException:
        return None
