"""What of a row is looked at to see which rows belong together: all its columns, dropped ones too.

Numbers are compared as numbers, everything else by keyed hashes of its cells. Of a text that
identifies rows, the key or a dropped one, also what is before its separators counts:
P00012-03 is a row of P00012.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cornerwave import _core
from cornerwave.arrays import Floats, Ints, Words, part_ends
from cornerwave.choices import CATEGORY, DERIVED, DROPPED, KEY, PERTURBED, UNIT
from cornerwave.columns import (
    MISSING_BITS,
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
from cornerwave.errors import ColumnError
from cornerwave.keyed import hash_bytes
from cornerwave.privacy._ties import mixed
from cornerwave.privacy._unit import Looked, Unit
from cornerwave.privacy._units import find_meetings

_PARTS = (
    "up to its last separator",
    "up to its first separator",
    "after its last separator",
    "after its first separator",
)
"""Parts of a text by its separators -_./:#| and spaces, in the order of `_core.cut_texts`."""


@dataclass(frozen=True)
class UnitColumns:
    """The columns of a table that are looked at: as numbers, as cells, and parts of texts."""

    numbers: tuple[Column, ...]
    cells: tuple[Column, ...]
    parts: tuple[tuple[Column, str], ...]

    @classmethod
    def of(cls, schema: Schema) -> "UnitColumns":
        """Return those of a table; none if it needs no unit, as its owner states."""
        if schema.independent_rows and schema.unit is None:
            return cls((), (), ())
        # what is derived shows nothing beyond what it follows
        plain = [column for column in schema.columns if column.role not in (KEY, DERIVED)]
        texts = [c for c in schema.columns if c.role in (KEY, UNIT, DROPPED) and _is_text(c)]
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
        self,
        table: pa.Table,
        rows: Ints,
        secret: bytes,
        known: Mapping[str, Words] | None = None,
    ) -> tuple[list[Floats], list[Words]]:
        """Return the numbers and the hashed cells of some rows; what is not there is missing.

        `known` are the words of columns: bits of numbers that get noise, hashes of other cells.
        """
        words = {name: of_all[rows] for name, of_all in (known or {}).items()}
        numbers = [
            words[column.name].view(np.float64)
            if column.name in words and column.role == PERTURBED
            else _numbers(_column(table, column.name, rows))
            for column in self.numbers
        ]
        cells = [
            words[column.name]
            if column.name in words
            else _hashed(_column(table, column.name, rows), secret)
            for column in self.cells
        ]
        texts = {c.name: _text(_column(table, c.name, rows)) for c, _ in self.parts}
        cells += [_hashed_part(texts[c.name], which, secret) for c, which in self.parts]
        gaps = np.full(len(rows), np.nan), np.full(len(rows), MISSING_BITS, dtype=np.uint64)
        return [gaps[0] if each is None else each for each in numbers], [
            gaps[1] if each is None else each for each in cells
        ]

    def looked(self, numbers: Floats, cells: Words) -> list[Looked]:
        """Return the columns of some rows, as `of_rows` gave them."""
        values = dict(zip((c.name for c in self.numbers), numbers, strict=True))
        looked = [
            Looked.of_numbers(name, values[name], noisy=True, is_time=is_time(column))
            for column in self.numbers
            if column.role == PERTURBED and (name := column.name)
        ]
        for column, words in zip(self.cells, cells, strict=False):
            noisy, gone = column.role == CATEGORY, words == MISSING_BITS
            each = Looked.of_cells(column.name, words, gone, noisy=noisy, is_time=is_time(column))
            looked.append(each.sorted_by(values[each.name]) if each.name in values else each)
        seen: list[Words] = []
        for part, words in zip(self.parts, cells[len(self.cells) :], strict=True):
            # of texts with one separator, what is after the first is what is after the last
            if not any(np.array_equal(words, other) for other in seen):
                each = Looked.of_cells(called(*part), words, words == MISSING_BITS, noisy=False)
                looked.append(each)
            seen.append(words)
        return looked


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


def _text(column: pa.Array | None) -> pa.Array | None:
    if column is not None and pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _hashed_part(column: pa.Array | None, which: str, secret: bytes) -> Words | None:
    """Return the hashes of a part of texts, as of cells."""
    if column is None:
        return None
    texts = column.cast(pa.large_string()).fill_null("")
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    ends, parts = np.zeros(len(texts) + 1, dtype=np.int64), np.empty_like(content)
    size = _core.cut_texts(bounds, content, _PARTS.index(which), ends[1:], parts)
    hashes = np.empty((len(texts), 2), dtype=np.uint64)
    hash_bytes(ends, parts[:size], secret, hashes)
    return np.where(ends[1:] > ends[:-1], hashes[:, 0], MISSING_BITS)


# --------------------------------------------------------------------------------------------------
# What a ledger keeps of a table's rows, to see whether rows that come belong to the same units.
#
# Of a sample of rows, 32 bits of a hash of each cell and, of a number, also in which of 256 parts
# of its column it lies: nothing is kept that determines a value more closely. Samples add up.


MOST_ROWS, MOST_CELLS = 1 << 12, 1 << 18
"""Rows that are kept: fewer of a wide table."""
PARTS = 256
_U = np.uint64


@dataclass(frozen=True)
class UnitRows:
    """Some of the `rows` of a table: their hashes, and their words (columns, rows).

    `ends` are those of the parts of each column of numbers. A word has the part in its upper
    half, 0 if there is none, and the hash in its lower; 0 is missing.
    """

    rows: int
    hashes: Words
    words: Words
    ends: Floats

    @classmethod
    def of(
        cls,
        hashes: Words,
        numbers: Floats,
        cells: Words,
        *,
        rows: int,
        like: "UnitRows | None" = None,
    ) -> "UnitRows":
        """Return the sampled rows of a table of `rows`, in parts `like` those of others."""
        ends = like.ends if like else np.array([part_ends(row, PARTS) for row in numbers])
        ends = ends.reshape(len(numbers), PARTS - 1)
        words = [_of_numbers(row, bounds) for row, bounds in zip(numbers, ends, strict=True)]
        words += [np.where(row == MISSING_BITS, _U(0), _short(row)) for row in cells]
        shape = len(words), len(hashes)
        return cls(rows, hashes, np.array(words, dtype=np.uint64).reshape(shape), ends)

    def __add__(self, other: "UnitRows") -> "UnitRows":
        """Return the sampled rows of both tables."""
        hashes = np.concatenate([self.hashes, other.hashes])
        words = np.concatenate([self.words, other.words], axis=1)
        return replace(self, rows=self.rows + other.rows, hashes=hashes, words=words)

    @property
    def fewest(self) -> "UnitRows":
        """As many of the rows as are kept: those of the smallest hashes."""
        most = min(MOST_ROWS, MOST_CELLS // max(1, len(self.words)))
        order = np.argsort(self.hashes, kind="stable")[:most]
        return replace(self, hashes=self.hashes[order], words=self.words[:, order])

    def meetings(self, new: "UnitRows", columns: UnitColumns) -> list[Unit]:
        """Return which columns name units that these rows share with others that come."""
        is_new = np.repeat([False, True], [len(self.hashes), len(new.hashes)])
        words = np.concatenate([self.words, new.words], axis=1)
        return find_meetings(_looked(words, columns), is_new, rows=self.rows)

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps."""
        out = io.BytesIO()
        rows = np.array(self.rows)
        np.savez(out, rows=rows, hashes=self.hashes, words=self.words, ends=self.ends)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "UnitRows":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            return cls(int(kept["rows"]), kept["hashes"], kept["words"], kept["ends"])


def _looked(words: Words, columns: UnitColumns) -> list[Looked]:
    """Return the columns of some rows."""
    numbers = {c.name: word for c, word in zip(columns.numbers, words, strict=False)}
    looked = [
        _sorted(column, numbers[column.name], noisy=True)
        for column in columns.numbers
        if column.role == PERTURBED
    ]
    rest = words[len(columns.numbers) :]
    for column, word in zip(columns.cells, rest, strict=False):
        noisy = column.role == CATEGORY
        if column.name in numbers:
            part = numbers[column.name] >> _U(32) << _U(32)
            word = np.where(word == 0, word, part | word)
            looked.append(replace(_sorted(column, word, noisy=noisy), is_category=True))
        else:
            looked.append(Looked.of_cells(column.name, word, word == 0, noisy=noisy))
    for part, word in zip(columns.parts, rest[len(columns.cells) :], strict=True):
        looked.append(Looked.of_cells(called(*part), word, word == 0, noisy=False))
    return looked


def _sorted(column: Column, words: Words, *, noisy: bool) -> Looked:
    """Return a column of numbers, in the order of their parts."""
    each = Looked.of_cells(column.name, words, words == 0, noisy=noisy, is_time=is_time(column))
    return replace(each, ordered=True, is_category=False, names=not is_fraction(column))


def _of_numbers(numbers: Floats, ends: Floats) -> Words:
    parts = np.searchsorted(ends, numbers, side="left").astype(np.uint64) + _U(1)
    words = (parts << _U(32)) | _short((numbers + 0.0).view(np.uint64))  # -0 is 0
    return np.where(np.isnan(numbers), _U(0), words)


def _short(words: Words) -> Words:
    """Return 32 bits of each word, mixed from all of its bits; never 0."""
    return np.asarray(np.maximum(mixed(words) >> _U(32), _U(1)))
