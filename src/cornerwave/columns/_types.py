"""What the type of a column states: its kind, its name, its numbers and its values.

kind     a number (dates and times too), text, or neither; dictionary-encoded or not
name     as Arrow prints it: how a schema and a copy's metadata store it
floats   dates are days since 1970-01-01, timestamps seconds since 1970-01-01 UTC, times
         of day and durations seconds: the same values give the same floats in any type
values   whole multiples of a step between two ends; rounding takes the nearest one
"""

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import _core
from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError

EXACT = 2**53
"""Whole numbers beyond this are not exact in double precision."""

DAYS = "days since 1970-01-01"

DAY = 86_400
"""Seconds of a day."""

_types = pa.types
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: Python and pandas have no other dates."""

_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=\w+, ordered=\d>")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")

# --- kinds and names --------------------------------------------------------------------


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, dictionary-encoded or not.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string())), plain_type(pa.int64())
    (DataType(string), DataType(int64))
    """
    return type_.value_type if _types.is_dictionary(type_) else type_


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which values are compared: large text for views, singles for halves.

    Arrow computes little with either.
    """
    plain = plain_type(type_)
    if _types.is_float16(plain):
        return pa.float32()
    return pa.large_string() if _types.is_string_view(plain) else plain


def category_type(type_: pa.DataType, values: Iterable[Any] = ()) -> pa.DataType:
    """Return the type of a category's values: floats that are not encoded are whole numbers.

    Unless there are others among the values, as of grades.
    """
    if not _types.is_floating(type_):
        return value_type(type_)
    return pa.float64() if any(isinstance(value, float) for value in values) else pa.int64()


def is_text(type_: pa.DataType) -> bool:
    """Return whether a column holds text, of any width or view."""
    return value_type(type_) in (pa.string(), pa.large_string())


def is_number(type_: pa.DataType) -> bool:
    """Return whether a column of this type can be perturbed as a number."""
    type_ = plain_type(type_)
    tests = (_types.is_integer, _types.is_floating, _types.is_decimal)
    return any(test(type_) for test in tests) or unit_of(type_) is not None


def unit_of(type_: pa.DataType) -> str | None:
    """Return the unit of dates and times as floats; None for plain numbers."""
    type_ = plain_type(type_)
    if _types.is_date(type_):
        return DAYS
    if _types.is_timestamp(type_):
        return "seconds since 1970-01-01 UTC"
    return "seconds" if _types.is_time(type_) or _types.is_duration(type_) else None


def type_named(name: str) -> pa.DataType | None:
    """Return the plain type that prints as `name`; None for nested and unknown ones.

    >>> type_named("decimal128(5, 2)"), type_named("timestamp[us, tz=UTC]"), type_named("no such")
    (Decimal128Type(decimal128(5, 2)), TimestampType(timestamp[us, tz=UTC]), None)
    """
    if match := _DICTIONARY.fullmatch(name):
        return type_named(match[1])
    try:
        if match := _DECIMAL.fullmatch(name):
            return getattr(pa, f"decimal{match[1]}")(int(match[2]), int(match[3]))
        if match := _ZONED.fullmatch(name):
            return pa.timestamp(match[1], tz=match[2])
        return pa.type_for_alias(name)
    except (ValueError, OverflowError):  # no such type, or digits that none has
        return None


# --- a column as floats -----------------------------------------------------------------


MISSING_BITS = np.uint64(0x7FF8_0000_0000_0000)
"""The bits of a missing number: those of every NaN, whatever its payload."""


def to_floats(array: pa.Array, name: str) -> Floats:
    """Return a numeric column as float64, with one NaN for all that is missing.

    Raises ColumnError for another type, an infinite value or a whole number beyond 2^53.
    """
    return fill_floats(array, name, np.empty(len(array)))


def fill_floats(array: pa.Array, name: str, out: Floats) -> Floats:
    """Fill `out` with what `to_floats` returns."""
    if not is_number(array.type):
        raise ColumnError(f"{name!r} holds no numbers: its type is {array.type}")
    if _types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _core.settle_floats(_plain_numbers(array, name).to_numpy(zero_copy_only=False), out):
        raise ColumnError(f"{name!r} holds infinite values; remove them or make them missing")
    return out


def _plain_numbers(array: pa.Array, name: str) -> pa.Array:
    type_ = array.type
    if _types.is_integer(type_) or (_types.is_decimal(type_) and type_.scale <= 0):
        return _whole_numbers(array, name)
    if _types.is_floating(type_) or _types.is_decimal(type_):
        return array.cast(pa.float64())
    if _types.is_date(type_):
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
    if unit_of(type_) is None:
        raise ColumnError(f"{name!r}: a column of type {type_} holds no numbers")
    return _seconds(array)


def _whole_numbers(whole: pa.Array, name: str) -> pa.Array:
    # Compared before the cast: 2^53 + 1 is 2^53 afterwards.
    ends = pc.min_max(whole).as_py()
    if ends["min"] is not None and not -EXACT <= ends["min"] <= ends["max"] <= EXACT:
        raise ColumnError(
            f"{name!r} holds whole numbers beyond 2^53, which floating point cannot represent "
            "exactly; they are probably identifiers: drop the column, or make it the key"
        )
    return whole.cast(pa.float64(), safe=False)


def _seconds(array: pa.Array) -> pa.Array:
    """Return timestamps, times or durations as seconds."""
    parts = _PER_SECOND[array.type.unit]
    ticks = array.view(_stored(array.type)).cast(pa.int64()).fill_null(0).to_numpy()
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if -EXACT <= ticks.min(initial=0) <= ticks.max(initial=0) <= EXACT:
        return pa.array(ticks / parts, mask=missing)
    seconds = ticks // parts + (ticks % parts) / parts
    # A count that is exact as a double, in its own unit or in microseconds, needs one
    # division, which rounds once: nanoseconds give the same float as microseconds.
    for step in {1, max(parts // _PER_SECOND["us"], 1)}:
        exact = (ticks % step == 0) & (np.abs(ticks // step) <= EXACT)
        seconds[exact] = (ticks[exact] // step) / (parts // step)
    return pa.array(seconds, mask=missing)


def _stored(type_: pa.DataType) -> pa.DataType:
    """Return the whole numbers that a type of times is stored as."""
    return pa.int32() if type_.bit_width == 32 else pa.int64()


# --- the values of a type ---------------------------------------------------------------


def step_of(type_: pa.DataType) -> Fraction | None:
    """Return the distance between neighbouring values, in the unit of floats; None for floats."""
    if _types.is_floating(type_):
        return None
    if _types.is_decimal(type_):
        return Fraction(10) ** -int(type_.scale)
    if unit_of(type_) is None or _types.is_date(type_):
        return Fraction(1)
    return Fraction(1, _PER_SECOND[type_.unit])


def ends_of(type_: pa.DataType, low: float | None, high: float | None) -> tuple[Any, Any]:
    """Return the least and the greatest value of a type within bounds, in its steps.

    A bound means what is written: 0.1 is a tenth, not the double beside it.
    """
    step = step_of(type_)
    if step is None:
        return _float_ends(type_, low, high)
    least, most = _range(type_)
    if low is not None:
        least = max(least, math.ceil(Fraction(repr(low)) / step))
    if high is not None:
        most = min(most, math.floor(Fraction(repr(high)) / step))
    return least, most


def _float_ends(type_: pa.DataType, low: float | None, high: float | None) -> tuple[float, float]:
    kind = type_.to_pandas_dtype()
    largest = float(np.finfo(kind).max)
    low = -largest if low is None else max(low, -largest)
    high = largest if high is None else min(high, largest)
    with np.errstate(over="ignore"):
        least, most = kind(low), kind(high)
    # A bound that a narrow float cannot hold is rounded; step back inside if it went out.
    if float(least) < low:
        least = np.nextafter(least, kind(np.inf))
    if float(most) > high:
        most = np.nextafter(most, kind(-np.inf))
    return float(least), float(most)


def _range(type_: pa.DataType) -> tuple[int, int]:
    """Return the ends of a type, in its steps."""
    if _types.is_integer(type_):
        bounds = np.iinfo(type_.to_pandas_dtype())
        return int(bounds.min), int(bounds.max)
    if _types.is_decimal(type_):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    if _types.is_date(type_):
        return _FIRST_DAY, _LAST_DAY
    day = DAY * _PER_SECOND[type_.unit]
    if _types.is_time(type_):
        return 0, day - 1
    least, most = -(2**63), 2**63 - 1
    if _types.is_timestamp(type_):
        zone = 1 if type_.tz else 0  # a local clock may be a day ahead or behind
        least = max(least, (_FIRST_DAY + zone) * day)
        most = min(most, (_LAST_DAY + 1 - zone) * day - 1)
    return least, most


def nearest(
    values: Floats, type_: pa.DataType, low: float | None = None, high: float | None = None
) -> pa.Array:
    """Round floats to the nearest value of a type within bounds."""
    least, most = ends_of(type_, low, high)
    if _types.is_floating(type_):
        return pa.array(np.clip(values, least, most), from_pandas=True).cast(type_)
    if _types.is_integer(type_):
        return _whole(values, least, most, type_)
    if _types.is_decimal(type_):
        return _decimals(values, least, most, type_)
    if _types.is_date(type_):
        return _whole(values, least, most, pa.int32()).view(pa.date32()).cast(type_)
    values = np.clip(values, -1e19, 1e19)  # beyond every type, and far from an overflow
    whole = _whole(values * _PER_SECOND[type_.unit], least, most, _stored(type_))
    return whole.view(type_)


def decimal_type(decimals: int) -> pa.DataType:
    """Return the widest type whose step is the last of so many decimals."""
    return pa.decimal128(38, decimals)


def nearest_decimals(
    values: Floats, decimals: int, low: float | None = None, high: float | None = None
) -> Floats:
    """Round floats to so many decimals, within bounds; NaN stays.

    >>> nearest_decimals(np.array([56.98, 0.05, np.nan]), 1, low=0.05)
    array([57. ,  0.1,  nan])
    """
    least, most = ends_of(decimal_type(decimals), low, high)
    # a whole number over a power of ten is the double nearest to the decimal, as text is read
    steps = np.clip(np.rint(values * 10.0**decimals), float(least), float(most))
    return np.asarray(steps / 10.0**decimals)


def _whole(values: Floats, least: int, most: int, type_: pa.DataType) -> pa.Array:
    missing = np.isnan(values)
    rounded = np.rint(np.where(missing, 0.0, values))
    # 2^63 - 1 has no double: the clip must end at the last double inside the type.
    rounded = np.clip(rounded, _at_least(Fraction(least)), _at_most(Fraction(most)))
    whole = rounded.astype(np.uint64 if least >= 0 else np.int64)
    return pa.array(whole, mask=missing).cast(type_)


def _decimals(values: Floats, least: int, most: int, type_: pa.DataType) -> pa.Array:
    step = step_of(type_) or Fraction(1)
    low, high = _rounding_to(least * step, step), _rounding_to(most * step, step)
    rounded = pc.round(pa.array(np.clip(values, low, high), from_pandas=True), ndigits=type_.scale)
    return rounded.cast(type_, safe=False)


def _rounding_to(value: Fraction, step: Fraction) -> float:
    """Return the double nearest to a decimal if it rounds to it; else the next one inwards."""
    near = float(value)
    if abs(Fraction(near) - value) * 2 < step:
        return near
    return _at_most(value) if value > 0 else _at_least(value)


def _at_most(value: Fraction) -> float:
    """Return the largest double that is not above."""
    near = float(value)
    return near if near <= value else float(np.nextafter(near, -math.inf))


def _at_least(value: Fraction) -> float:
    return -_at_most(-value)
