"""What the values of a column that copies show reveal beside being equal: order, and their parts.

A text is looked at by how it begins and ends, its length, its words and the number it ends in; a
number by its last digits; a date or time by the calendar. A part is a word for each row: the bits
of a number, or the keyed hash of a text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.columns._encoded import hash_texts
from cornerwave.columns._types import DAY, is_number, plain_type, to_floats, unit_of, value_type
from cornerwave.errors import ColumnError

_TAIL = r"[-_/ .:|#][^-_/ .:|#]*$"
"""The last part of an identifier such as P00012-03, with what separates it."""
SHORT_TAIL, MOST_DIGITS = 2, 15
_HOUR, _MINUTE = 3_600, 60


def taken(column: pa.Array, rows: Ints) -> pa.Array:
    """Return some rows of a column."""
    places = pa.array(rows)
    try:
        return column.take(places)
    except pa.ArrowNotImplementedError:  # views of texts
        return column.cast(value_type(column.type)).take(places)


def heads(texts: pa.Array) -> pa.Array:
    """Return texts without their last part, or without the last two letters if they have none.

    >>> heads(pa.array(["P00012-03", "AB1234"])).to_pylist()
    ['P00012', 'AB12']
    """
    spelled = _spelled(texts)
    without = pc.replace_substring_regex(spelled, _TAIL, "")
    shorter = pc.utf8_slice_codeunits(spelled, 0, -SHORT_TAIL)
    return pc.if_else(pc.equal(without, spelled), shorter, without)


def shown_numbers(column: pa.Array) -> Floats:
    """Return a column as numbers: of a text its digits, NaN where there are none.

    >>> shown_numbers(pa.array(["P00012-03", "none", None])).tolist()
    [1203.0, nan, nan]
    """
    if is_number(plain_type(column.type)):
        return _floats(column)
    return _digits(pc.replace_substring_regex(_spelled(column), r"[^0-9]+", ""))


# ---- parts ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShownPart:
    """A part of the values of a column, by what it is called; as numbers if it has an order."""

    name: str
    of: "Callable[[_Shown], pa.Array | Floats]"
    is_number: bool = False


class _Shown:
    """Some values of a column, and what several of their parts are made of."""

    def __init__(self, column: pa.Array) -> None:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        self.column = column

    @cached_property
    def texts(self) -> pa.Array:
        return _spelled(self.column).fill_null("")

    @cached_property
    def _words(self) -> pa.ListArray:
        return pc.split_pattern_regex(self.texts, r"[^\pL\pN]+")

    def word(self, place: int) -> pa.Array:
        """Return a word of each text, counted from the front or, below 0, from the back."""
        starts = self._words.offsets.to_numpy()
        at = starts[:-1] + place if place >= 0 else starts[1:] + place
        there = (at >= starts[:-1]) & (at < starts[1:])
        return self._words.values.take(pa.array(at, mask=~there)).fill_null("")

    def slice(self, start: int, stop: int | None = None) -> pa.Array:
        """Return characters of each text."""
        return pc.utf8_slice_codeunits(self.texts, start, stop)

    @cached_property
    def whole(self) -> tuple[Words, Floats]:
        """The sizes of numbers without what follows the point, and 0, or NaN if one is missing."""
        missing = np.where(self.column.is_null().to_numpy(zero_copy_only=False), np.nan, 0.0)
        if pa.types.is_integer(self.column.type):
            numbers = self.column.fill_null(0).to_numpy(zero_copy_only=False)
            if numbers.dtype == np.uint64:
                return numbers, missing
            return np.abs(numbers.astype(np.int64)).astype(np.uint64), missing
        floats = _floats(self.column)
        size = np.minimum(np.floor(np.abs(np.nan_to_num(floats))), 2.0**63)
        return size.astype(np.uint64), np.where(np.isnan(floats), np.nan, 0.0)

    def last_digits(self, number: int) -> Floats:
        """Return the last digits before the point."""
        whole, missing = self.whole
        return np.asarray((whole % np.uint64(10**number)).astype(np.float64) + missing)

    def hundredths(self) -> Floats:
        """Return the two digits after the point."""
        size = np.abs(_floats(self.column))
        return np.asarray(np.rint((size - np.floor(size)) * 100) % 100)

    def number_at_end(self) -> Floats:
        """Return the last number in a text."""
        match = pc.extract_regex(self.texts, r"(?P<last>[0-9]+)[^0-9]*$")
        return _digits(pc.struct_field(match, "last").fill_null(""))

    def length(self) -> Floats:
        """Return the number of characters."""
        return np.asarray(pc.utf8_length(self.texts).to_numpy(zero_copy_only=False) * 1.0)


def _word(place: int) -> ShownPart:
    return ShownPart("a word", lambda shown: shown.word(place))


def _end(length: int) -> ShownPart:
    return ShownPart("end", lambda shown: shown.slice(-length))


def _beginning(length: int) -> ShownPart:
    return ShownPart("beginning", lambda shown: shown.slice(0, length))


def _inside(start: int, stop: int) -> ShownPart:
    return ShownPart("inside", lambda shown: shown.slice(start, stop))


def _last_digits(number: int) -> ShownPart:
    return ShownPart("last digits", lambda shown: shown.last_digits(number), is_number=True)


TEXT_PARTS = (
    ShownPart("beginning", lambda shown: heads(shown.texts)),
    _word(-1),
    ShownPart("length", _Shown.length, is_number=True),
    _end(2),
    ShownPart("number at the end", _Shown.number_at_end, is_number=True),
    *(_word(0), _end(3), _word(1), _word(-2), _beginning(2), _end(1), _beginning(1), _end(4)),
    *(_word(2), _beginning(3), _word(-3), _word(3), _beginning(4), _inside(4, 8), _inside(4, 9)),
    *(_inside(2, 4), _beginning(6), _end(6), _inside(8, 12), _word(4), _word(-4)),
)
WHOLE_PARTS = (_last_digits(2), _last_digits(1), _last_digits(3))
FRACTION_PARTS = (
    *(_last_digits(2), ShownPart("hundredths", _Shown.hundredths, is_number=True)),
    *(_last_digits(1), _last_digits(3)),
)
"""What is looked at, the first first where a table has many columns that copies show."""


def shown_parts(type_: pa.DataType | None, room: int) -> Sequence[ShownPart]:
    """Return the parts of a column that are sampled, so many at most; dates have a calendar."""
    if type_ is None or not is_number(type_):
        return TEXT_PARTS[:room]
    plain = plain_type(type_)
    if unit_of(plain) is not None:
        return ()
    return (WHOLE_PARTS if pa.types.is_integer(plain) else FRACTION_PARTS)[:room]


def part_words(column: pa.Array, parts: Sequence[ShownPart], secret: bytes) -> Iterator[Words]:
    """Yield each part of a column: bits of numbers, or hashes of texts."""
    shown = _Shown(column)
    for part in parts:
        values = part.of(shown)
        if part.is_number:
            yield np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
        else:
            yield hash_texts(values, secret)[:, 0]


def calendar_parts(numbers: Floats, type_: pa.DataType) -> Iterator[tuple[str, Floats]]:
    """Yield the parts of the calendar of dates and times as floats: NaN where they are missing.

    >>> dict(calendar_parts(np.array([0.0]), pa.date32()))["weekday"].tolist()  # a Thursday
    [3.0]
    """
    type_, missing = plain_type(type_), np.where(np.isnan(numbers), np.nan, 0.0)
    if unit_of(type_) is None or pa.types.is_duration(type_):
        return
    is_date = pa.types.is_date(type_)
    seconds = _local(np.nan_to_num(numbers) * (DAY if is_date else 1), type_)
    if not is_date:
        yield "hour", seconds // _HOUR % 24 + missing
        yield "minute", seconds // _MINUTE % 60 + missing
    if pa.types.is_time(type_):
        return
    days = (seconds // DAY).astype("M8[D]")
    months, years = days.astype("M8[M]"), days.astype("M8[Y]")
    places = {
        "weekday": (days.astype(np.int64) + 3) % 7,
        "day of the month": (days - months.astype("M8[D]")).astype(np.int64) + 1,
        "month": months.astype(np.int64) % 12 + 1,
        "days to the month's end": ((months + 1).astype("M8[D]") - days).astype(np.int64) - 1,
        "day of the year": (days - years.astype("M8[D]")).astype(np.int64) + 1,
    }
    for name, place in places.items():
        yield name, np.asarray(place.astype(np.float64) + missing)


def _local(seconds: Floats, type_: pa.DataType) -> Floats:
    """Return whole seconds by the clock of a column's time zone; by UTC if that is unknown."""
    whole = np.floor(np.clip(seconds, -6e10, 2.5e11))
    if not pa.types.is_timestamp(type_) or type_.tz is None:
        return whole
    try:
        zoned = pa.array(whole.astype(np.int64)).cast(pa.timestamp("s", tz=type_.tz))
        local = pc.local_timestamp(zoned).cast(pa.int64()).to_numpy()
    except pa.ArrowException:
        return whole
    return np.asarray(local).astype(np.float64)


def _digits(digits: pa.Array) -> Floats:
    """Return texts of digits as numbers, of long ones their first digits; NaN if there are none."""
    digits = pc.utf8_slice_codeunits(digits, 0, MOST_DIGITS)
    number = pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.float64())
    return np.asarray(number.fill_null(np.nan).to_numpy(zero_copy_only=False))


def _floats(column: pa.Array) -> Floats:
    """Return numbers: the nearest that a float holds, NaN where one is infinite."""
    try:
        return to_floats(column, "")
    except ColumnError:
        floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.where(np.isfinite(floats), floats, np.nan)


def _spelled(column: pa.Array) -> pa.Array:
    """Return a column as texts; empty where it has none."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # such as bytes that are not text
        return pa.nulls(len(column), pa.string())
