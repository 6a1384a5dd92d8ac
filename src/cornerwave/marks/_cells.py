"""A cell as a keyed hash that is the same in every form in which the value could come again.

    numbers         3, 3.0, single precision, '3', '3.00', true: rounded to 24 bits of mantissa
    dates, times    seconds since 1970: a date, its midnight, and their ISO text
    other text      itself; bytes too
    missing         0

Rounding to single precision in any type costs little: two values that it makes equal are a
repeated value, which is never taken for evidence.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.keyed import BlockFunction, bits_of, room_for, strict
from cornerwave.table import DAYS, Encoded, hash_texts, is_number, is_text, to_floats, unit_of

CHUNK = 8192
DAY = 86_400.0

_U = np.uint64
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?$"


@dataclass(frozen=True)
class Cells:
    """The cells of a column: their hashes, and what they are as numbers, NaN if they are none."""

    hashes: Words
    numbers: Floats

    @classmethod
    def of_numbers(cls, values: Floats, secret: bytes, *, unit: str | None) -> "Cells":
        """Return the cells of a perturbed column, given the unit of its floats."""
        values = values * DAY if unit == DAYS else values
        return cls(_hashes(values, secret, exact=unit is not None), values)

    @classmethod
    def of_encoded(cls, column: Encoded, *, numbers: bytes, texts: bytes) -> "Cells":
        """Return the cells of a category or a kept column."""
        distinct = cls.of_array(column.values, numbers=numbers, texts=texts)
        hashes = np.append(distinct.hashes, _U(0))[column.codes]
        return cls(hashes, np.append(distinct.numbers, np.nan)[column.codes])

    @classmethod
    def of_array(cls, values: pa.Array, *, numbers: bytes, texts: bytes) -> "Cells":
        """Return the cells of an array of any type that has a text, given a secret for each."""
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        found, exact = _numbers(values)
        hashes = _hashes(found, numbers, exact=exact)
        others = np.isnan(found) & values.is_valid().to_numpy(zero_copy_only=False)
        others &= not is_number(values.type)  # a float's NaN is missing
        if others.any():
            hashes[others] = hash_texts(values.filter(pa.array(others)), texts)[:, 0]
        return cls(hashes, found)

    def take(self, rows: Ints | slice) -> "Cells":
        """Return the cells of some rows."""
        return Cells(self.hashes[rows], self.numbers[rows])

    def then(self, other: "Cells") -> "Cells":
        """Return these cells and those that follow."""
        hashes = np.concatenate([self.hashes, other.hashes])
        return Cells(hashes, np.concatenate([self.numbers, other.numbers]))


def _numbers(values: pa.Array) -> tuple[Floats, bool]:
    """Return values as numbers, NaN where they are none; and whether these are dates or times."""
    kind = values.type
    if unit := unit_of(kind):
        seconds = to_floats(values, "")
        return (seconds * DAY if unit == DAYS else seconds), True
    if is_number(kind) or pa.types.is_boolean(kind):
        floats = values.cast(pa.float64(), safe=False)
        return floats.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0, False
    if not is_text(kind) or not len(values):
        return np.full(len(values), np.nan), False
    return _spelled(values.cast(pa.string()))


def _spelled(texts: pa.Array) -> tuple[Floats, bool]:
    """Return texts as the numbers or dates that they spell; a column of dates has no numbers."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if pc.all(pc.match_substring_regex(trimmed, _DATE)).as_py():
        try:
            return to_floats(trimmed.cast(pa.timestamp("us")), ""), True
        except pa.ArrowInvalid:  # the thirtieth of February
            return np.full(len(texts), np.nan), False
    none = pa.scalar(None, pa.string())
    spelled = pc.if_else(pc.match_substring_regex(trimmed, _NUMBER), trimmed, none)
    spelled = pc.if_else(pc.equal(pc.utf8_lower(trimmed), "true"), "1", spelled)
    spelled = pc.if_else(pc.equal(pc.utf8_lower(trimmed), "false"), "0", spelled)
    floats = pc.replace_substring_regex(spelled, r"^\+", "").cast(pa.float64())
    return floats.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0, False


def _hashes(values: Floats, secret: bytes, *, exact: bool) -> Words:
    """Return the keyed hashes of numbers; 0 where there is none."""
    encipher, room = BlockFunction(secret), room_for(CHUNK)
    blocks = np.zeros((CHUNK, 2), dtype=np.uint64)
    hashes = np.empty(len(values), dtype=np.uint64)
    for start in range(0, len(values), CHUNK):
        part = values[start : start + CHUNK]
        _fill_values(part, exact, blocks)
        images = encipher(blocks[: len(part)], room)
        _take_hashes(part, images, hashes[start : start + CHUNK])
    return hashes


@strict
def _fill_values(values: Any, exact: bool, out: Any) -> None:
    for row in range(values.shape[0]):
        bits = bits_of(values[row])
        if not exact:
            # to 24 bits, half to even, as a cast to single precision does
            bits = (bits + _U(0x0FFF_FFFF) + ((bits >> _U(29)) & _U(1))) & ~_U(0x1FFF_FFFF)
        out[row, 0] = bits


@strict
def _take_hashes(values: Any, images: Any, out: Any) -> None:
    for row in range(values.shape[0]):
        out[row] = _U(0) if np.isnan(values[row]) else images[2 * row]
