"""A cell as a keyed hash that is the same in every form in which the value could come again.

    numbers         3, 3.0, single precision, '3', '3.00', true: rounded to 24 bits of mantissa
    dates, times    seconds since 1970: a date, its midnight, and their ISO text
    other text      itself; bytes too
    missing         0

The hash of a number is a multiplicative one, made of secret constants: a tenth of what AES
would take. It spreads values as evenly as chance would, and reveals nothing since it never
leaves: a ledger keeps the few hashes of its sample encrypted, and they are compared inside.

Rounding to single precision in any type costs little: two values that it makes equal are a
repeated value, which is never taken for evidence.
"""

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import _core
from cornerwave.arrays import LARGEST_WORD, Flags, Floats, Ints, Words
from cornerwave.columns import (
    DAY,
    DAYS,
    Encoded,
    hash_texts,
    is_number,
    is_text,
    to_floats,
    unit_of,
)
from cornerwave.keyed import Secrets
from cornerwave.reuse._bottom import Bottom, empty_slots, first_limit

NONE = np.empty(0, dtype=np.uint64)

_U = np.uint64
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?$"

# those beyond ASCII may begin a space of another alphabet
_BEGINS = np.isin(np.arange(256), list(b"0123456789+-.tTfF \t\n\v\f\r\x1c\x1d\x1e\x1f"))
_BEGINS |= np.arange(256) >= 128


@dataclass(frozen=True, repr=False)
class HashKey(Secrets):
    """Secret constants of the hash of numbers; `drop` is how many bits are rounded off."""

    words: Words
    drop: int

    @classmethod
    def of(cls, secret: bytes, *, exact: bool) -> "HashKey":
        """Return the key of dates and times, which are exact, or of other numbers."""
        words = np.array(struct.unpack("<QQQ", secret[:24]), dtype=np.uint64)
        return cls(words, 0 if exact else 29)


@dataclass(frozen=True)
class Cells:
    """The cells of a column: what they are as numbers, NaN if they are none, and their hashes.

    The hashes of numbers are made when they are asked for, with a key. `values` is a sketch of
    them, if their column came with its distinct values apart.
    """

    numbers: Floats
    made: Words | HashKey
    values: Bottom | None = None

    @classmethod
    def of_numbers(cls, values: Floats, secret: bytes, *, unit: str | None) -> "Cells":
        """Return the cells of a perturbed column, given the unit of its floats."""
        values = np.ascontiguousarray(values * DAY if unit == DAYS else values)
        return cls(values, HashKey.of(secret, exact=unit is not None))

    @classmethod
    def of_encoded(cls, column: Encoded, *, numbers: bytes, texts: bytes) -> "Cells":
        """Return the cells of a category or a kept column."""
        distinct = cls.of_array(column.values, numbers=numbers, texts=texts)
        hashes = np.append(distinct.hashes, _U(0))[column.codes]
        floats = np.append(distinct.numbers, np.nan)[column.codes]
        values = Bottom.of_counted(distinct.hashes, column.counts, distinct.numbers)
        return cls(floats, hashes, values)

    @classmethod
    def of_places(cls, places: Ints, secret: bytes) -> "Cells":
        """Return the places of rows as cells."""
        # by their bits, which are no NaN below 2^62, and differ where large floats do not
        bits = np.ascontiguousarray(places, dtype=np.int64).view(np.float64)
        return cls(places.astype(np.float64), _hashes(bits, HashKey.of(secret, exact=True)))

    @cached_property
    def hashes(self) -> Words:
        """The hash of each cell."""
        return _hashes(self.numbers, self.made) if isinstance(self.made, HashKey) else self.made

    @classmethod
    def of_array(cls, values: pa.Array, *, numbers: bytes, texts: bytes) -> "Cells":
        """Return the cells of an array of any type that has a text, given a secret for each."""
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        floats, exact = _numbers(values)
        hashes = _hashes(floats, HashKey.of(numbers, exact=exact))
        others = np.isnan(floats) & values.is_valid().to_numpy(zero_copy_only=False)
        others &= not is_number(values.type)  # a float's NaN is missing
        if others.any():
            hashes[others] = hash_texts(values.filter(pa.array(others)), texts)[:, 0]
        return cls(floats, hashes)

    def take(self, rows: Ints | slice) -> "Cells":
        """Return the cells of some rows, in memory of their own and without a key."""
        numbers, made = np.array(self.numbers[rows]), self.made
        hashes = _hashes(numbers, made) if isinstance(made, HashKey) else np.array(made[rows])
        return Cells(numbers, hashes)

    def then(self, other: "Cells") -> "Cells":
        """Return these cells and those that follow."""
        hashes = np.concatenate([self.hashes, other.hashes])
        return Cells(np.concatenate([self.numbers, other.numbers]), hashes)


_NO_KEY = HashKey(np.zeros(3, dtype=np.uint64), 0)


@dataclass(frozen=True)
class SeenCells:
    """What one pass over consecutive cells finds: how many there are, the sum of their hashes,
    how many equal the one before, and sketches of values and of windows."""

    present: int
    total: np.uint64
    alike: int
    values: Bottom
    windows: Bottom

    @classmethod
    def of(
        cls,
        cells: Cells,
        rows: Words,
        below: np.uint64 = LARGEST_WORD,
        windows_below: np.uint64 = LARGEST_WORD,
    ) -> "SeenCells":
        """Look at all cells; add their hashes to those of their rows, unless `rows` is empty.

        Sketches hold no hash above `below`, that of windows none above `windows_below`.
        """
        size, made = len(cells.numbers), cells.made
        key, hashes = (made, NONE) if isinstance(made, HashKey) else (_NO_KEY, made)
        values, windows, counts = empty_slots(), empty_slots(), np.zeros(4, dtype=np.uint64)
        one, two = first_limit(size, below), first_limit(size, windows_below)
        _core.look_at_cells(
            cells.numbers,
            hashes,
            key.words,
            key.drop,
            int(one) if cells.values is None else 0,
            int(two),
            rows,
            values[0],
            values[1],
            values[2],
            windows[0],
            windows[1],
            windows[2],
            counts,
        )
        whole = not counts[3]
        within, across = Bottom.of_slots(*values), Bottom.of_slots(*windows)
        if cells.values is not None:
            within = cells.values
        elif not (whole and within.suffices(one, below)):
            within = Bottom.of(cells.hashes, cells.numbers, below=below)
        if not (whole and across.suffices(two, windows_below)):
            across = Bottom.of(cells.hashes, windows=True, below=windows_below)
        return cls(int(counts[0]), counts[1], int(counts[2]), within, across)


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
    numbers = np.full(len(texts), np.nan)
    candidates = np.flatnonzero(_may_spell(texts))
    if not len(candidates):
        return numbers, False
    every = len(candidates) == len(texts) - texts.null_count
    chosen = texts if len(candidates) == len(texts) else texts.take(pa.array(candidates))
    numbers[candidates], dates = _parsed(chosen, dates=every)
    return numbers, dates


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


def _hashes(values: Floats, key: HashKey) -> Words:
    """Return the keyed hashes of numbers; 0 where there is none."""
    hashes = np.empty(len(values), dtype=np.uint64)
    _core.fill_number_hashes(np.ascontiguousarray(values), key.words, key.drop, hashes)
    return hashes
