"""A cell as a keyed hash that is the same in every form in which the value could come again.

    numbers         3, 3.0, single precision, '3', '3.00', true: rounded to 24 bits of mantissa
    dates, times    seconds since 1970: a date, its midnight, and their ISO text
    other text      itself; bytes too
    missing         0

The hash of a number is a multiplicative one, made of secret constants: a tenth of what AES
would take. It spreads values as evenly as chance would, and tells nothing since it never
leaves: a ledger keeps the few hashes of its sample encrypted, and they are compared inside.

Rounding to single precision in any type costs little: two values that it makes equal are a
repeated value, which is never taken for evidence.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Flags, Floats, Ints, Words
from cornerwave.keyed import bits_of, strict
from cornerwave.marks._bottom import Bottom
from cornerwave.table import DAYS, Encoded, hash_texts, is_number, is_text, to_floats, unit_of

DAY = 86_400.0

_U = np.uint64
_ANY = _U(0x9E3779B97F4A7C15)  # or under a key of zeros 0.0 would be missing
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?$"

# those beyond ASCII may begin a space of another alphabet
_BEGINS = np.isin(np.arange(256), list(b"0123456789+-.tTfF \t\n\v\f\r\x1c\x1d\x1e\x1f"))
_BEGINS |= np.arange(256) >= 128


@dataclass(frozen=True)
class Cells:
    """The cells of a column: their hashes, and what they are as numbers, NaN if they are none.

    `values` is a sketch of them, if their column came with its distinct values apart.
    """

    hashes: Words
    numbers: Floats
    values: Bottom | None = None

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
        found = np.append(distinct.numbers, np.nan)[column.codes]
        values = Bottom.of_counted(distinct.hashes, column.counts, distinct.numbers)
        return cls(hashes, found, values)

    @property
    def sketch(self) -> Bottom:
        """The sketch of the values."""
        return Bottom.of(self.hashes, self.numbers) if self.values is None else self.values

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
    found = np.full(len(texts), np.nan)
    candidates = np.flatnonzero(_may_spell(texts))
    if not len(candidates):
        return found, False
    every = len(candidates) == len(texts) - texts.null_count
    chosen = texts if len(candidates) == len(texts) else texts.take(pa.array(candidates))
    found[candidates], dates = _parsed(chosen, dates=every)
    return found, dates


def _may_spell(texts: pa.Array) -> Flags:
    """Return which texts begin as numbers, dates, true and false do, or with a space."""
    _, offsets, content = texts.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if content is None or not len(texts):
        return np.zeros(len(texts), dtype=np.bool_)
    begins = np.append(np.frombuffer(content, dtype=np.uint8), np.uint8(0))[starts[:-1]]
    may = _BEGINS[begins] & (starts[1:] > starts[:-1])
    return np.asarray(may & texts.is_valid().to_numpy(zero_copy_only=False))


def _parsed(texts: pa.Array, *, dates: bool) -> tuple[Floats, bool]:
    """Return the numbers that texts spell, or the dates if all of them do, and which it was."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if dates and pc.all(pc.match_substring_regex(trimmed, _DATE)).as_py():
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
    hashes = np.empty(len(values), dtype=np.uint64)
    key = np.array(struct.unpack("<QQQ", secret[:24]), dtype=np.uint64)
    _fill_hashes(np.ascontiguousarray(values), key, _U(0 if exact else 29), hashes)
    return hashes


@strict
def _fill_hashes(values: Any, key: Any, drop: Any, out: Any) -> None:
    """Fill out with xor-shift-multiply rounds of the values' bits, the last `drop` rounded off."""
    start, one, two = key[0] + _ANY, key[1] | _U(1), key[2] | _U(1)
    last = (_U(1) << drop) - _U(1)  # half to even, as a cast to single precision does
    half = last >> _U(1)
    for row in range(values.shape[0]):
        x = values[row]
        bits = bits_of(x)
        odd = (bits >> drop) & (last >> (drop - _U(1)) if drop else _U(0))
        word = ((bits + half + odd) & ~last) ^ start
        word = (word ^ (word >> _U(32))) * one
        word = (word ^ (word >> _U(29))) * two
        word ^= word >> _U(32)
        out[row] = word if x == x else _U(0)
