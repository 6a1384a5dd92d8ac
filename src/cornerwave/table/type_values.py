"""The values that a numeric type has: multiples of a step between two ends, and the nearest one."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats

_types = pa.types
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: Python and pandas hold no other dates."""


def rounding_step(type_: pa.DataType) -> float | None:
    """Return the distance of neighbouring values of a type, in the unit of its copies."""
    step = step_of(type_)
    return None if step is None else float(step)


def step_of(type_: pa.DataType) -> Fraction | None:
    """Return the exact step of a type; None for floats."""
    if _types.is_floating(type_):
        return None
    if _types.is_decimal(type_):
        return Fraction(10) ** -int(type_.scale)
    if _types.is_timestamp(type_) or _types.is_duration(type_) or _types.is_time(type_):
        return Fraction(1, _PER_SECOND[type_.unit])
    return Fraction(1)


def ends_of(type_: pa.DataType, low: float | None, high: float | None) -> tuple[Any, Any]:
    """Return the least and the greatest value of a type within bounds, in its steps."""
    step = step_of(type_)
    if step is None:
        return _float_ends(type_, low, high)
    least, most = _range(type_)
    if low is not None:
        least = max(least, math.ceil(_said(low) / step))
    if high is not None:
        most = min(most, math.floor(_said(high) / step))
    return least, most


def _said(bound: float) -> Fraction:
    """Return the bound as it is written: 0.1 means a tenth, not the double beside it."""
    return Fraction(repr(bound))


def _float_ends(type_: pa.DataType, low: float | None, high: float | None) -> tuple[float, float]:
    kind = type_.to_pandas_dtype()
    largest = np.finfo(kind).max
    with np.errstate(over="ignore"):
        least = -largest if low is None else kind(np.maximum(low, -float(largest)))
        most = largest if high is None else kind(np.minimum(high, float(largest)))
    if low is not None and float(least) < low:
        least = np.nextafter(least, largest)
    if high is not None and float(most) > high:
        most = np.nextafter(most, -largest)
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
    per_second = _PER_SECOND[type_.unit]
    if _types.is_time(type_):
        return 0, _DAY * per_second - 1
    least, most = -(2**63), 2**63 - 1
    if _types.is_timestamp(type_):
        zone = 1 if type_.tz else 0  # a clock elsewhere may be a day ahead or behind
        least = max(least, (_FIRST_DAY + zone) * _DAY * per_second)
        most = min(most, (_LAST_DAY + 1 - zone) * _DAY * per_second - 1)
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
        return _whole(values, least, most, pa.int32()).cast(pa.date32()).cast(type_)
    values = np.clip(values, -1e19, 1e19)  # beyond every type, and far from an overflow
    whole = _whole(values * _PER_SECOND[type_.unit], least, most, pa.int64())
    if _types.is_time(type_):
        return whole.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    if _types.is_timestamp(type_):
        return whole.cast(pa.timestamp(type_.unit)).cast(type_)
    return whole.cast(type_)


def _whole(values: Floats, least: int, most: int, type_: pa.DataType) -> pa.Array:
    missing = np.isnan(values)
    rounded = np.rint(np.where(missing, 0.0, values))
    rounded = np.clip(rounded, _at_least(Fraction(least)), _at_most(Fraction(most)))
    whole = rounded.astype(np.uint64 if least >= 0 else np.int64)
    return pa.array(whole, mask=missing).cast(type_)


def _decimals(values: Floats, least: int, most: int, type_: pa.DataType) -> pa.Array:
    step = step_of(type_) or Fraction(1)
    # the outermost doubles that are rounded to a value within, not beyond it
    low, high = _nearest(least * step, step), _nearest(most * step, step)
    rounded = pc.round(pa.array(np.clip(values, low, high), from_pandas=True), ndigits=type_.scale)
    return rounded.cast(type_, safe=False)


def _nearest(value: Fraction, step: Fraction) -> float:
    near = float(value)
    if abs(Fraction(near) - value) * 2 < step:
        return near
    return _at_most(value) if value > 0 else _at_least(value)


def _at_most(value: Fraction) -> float:
    """Return the largest double that is not above."""
    near = float(value)
    return near if near <= value else float(np.nextafter(near, -math.inf))


def _at_least(value: Fraction) -> float:
    near = float(value)
    return near if near >= value else float(np.nextafter(near, math.inf))
