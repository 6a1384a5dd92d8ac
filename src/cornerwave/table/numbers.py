"""Any numeric column as floats, and what one unit of it means.

Whole numbers, floats, decimals, dates (days since 1970-01-01), timestamps (seconds
since 1970-01-01 UTC), times of day and durations (seconds). The same values give
the same floats whatever file and type they came in.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.table.kinds import plain_type

EXACT = 2**53
"""Whole numbers beyond this are not exact in double precision."""


_types = pa.types
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def is_number(type_: pa.DataType) -> bool:
    """Say whether a column of this type can be perturbed as a number."""
    type_ = plain_type(type_)
    return bool(
        _types.is_integer(type_)
        or _types.is_floating(type_)
        or _types.is_decimal(type_)
        or unit_of(type_) is not None
    )


def unit_of(type_: pa.DataType) -> str | None:
    """Return what one unit means for dates and times; None for plain numbers."""
    type_ = plain_type(type_)
    if _types.is_date(type_):
        return "days since 1970-01-01"
    if _types.is_timestamp(type_):
        return "seconds since 1970-01-01 UTC"
    if _types.is_time(type_) or _types.is_duration(type_):
        return "seconds"
    return None


def to_floats(array: pa.Array, name: str) -> Floats:
    """Return a numeric column as float64, with NaN for missing.

    Raises ColumnError for an infinite value or a whole number beyond 2^53.
    """
    if _types.is_dictionary(array.type):
        array = array.dictionary_decode()
    floats = _plain_numbers(array, name)
    # -0.0 and 0.0 are one value; adding 0.0 makes them one pattern of bits
    values = floats.to_numpy(zero_copy_only=False) + 0.0
    if np.isinf(values).any():
        raise ColumnError(f"{name!r} holds infinite values; remove them or make them missing")
    return np.asarray(values, dtype=np.float64)


def _plain_numbers(array: pa.Array, name: str) -> pa.Array:
    type_ = array.type
    if _types.is_floating(type_):
        return array.cast(pa.float64())
    if _types.is_decimal(type_):
        return _checked(array, name) if type_.scale <= 0 else array.cast(pa.float64())
    if _types.is_integer(type_):
        return _checked(array, name)
    if _types.is_date(type_):
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
    return _seconds(array)


def _seconds(array: pa.Array) -> pa.Array:
    """Return timestamps, times or durations as seconds.

    What a double can count, in its own unit or in microseconds, is divided, and so
    correctly rounded; the rest is whole seconds and their fraction.
    """
    parts = _PER_SECOND[array.type.unit]
    whole = array.cast(pa.int32()) if array.type.bit_width == 32 else array
    ticks = whole.cast(pa.int64()).fill_null(0).to_numpy()
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if -EXACT <= ticks.min(initial=0) <= ticks.max(initial=0) <= EXACT:
        return pa.array(ticks / parts, mask=missing)
    seconds = ticks // parts + (ticks % parts) / parts
    for step in {1, max(parts // _PER_SECOND["us"], 1)}:
        exact = (ticks % step == 0) & (np.abs(ticks // step) <= EXACT)
        seconds[exact] = (ticks[exact] // step) / (parts // step)
    return pa.array(seconds, mask=missing)


def _checked(whole: pa.Array, name: str) -> pa.Array:
    """Return whole numbers as floats. They are compared before: 2^53 + 1 is 2^53 afterwards."""
    ends = pc.min_max(whole).as_py()
    if ends["min"] is not None and not -EXACT <= ends["min"] <= ends["max"] <= EXACT:
        raise ColumnError(
            f"{name!r} holds whole numbers beyond 2^53, which floating point cannot tell apart; "
            "they are likely identifiers: --drop the column, or make it the --key"
        )
    return whole.cast(pa.float64(), safe=False)
