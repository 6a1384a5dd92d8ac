"""What is done to a copy after the noise: rounding to the source's type, clipping to a domain.

Both are functions of the copy alone, chosen copy by copy. A set of rounded or clipped
copies never says more than the raw copy at the least noise in the set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cornerwave.errors import ColumnError
from cornerwave.table.schema import Schema, listed

Floats = NDArray[np.float64]
_types = pa.types
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Finish:
    """Which numeric columns get their type back, and which are kept within bounds."""

    round: frozenset[str] = frozenset()
    clip: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def check(self, schema: Schema) -> None:
        """Raise ColumnError unless all named columns are perturbed numbers."""
        named = sorted({*self.round, *self.clip})
        if wrong := [name for name in named if name not in schema.perturbed]:
            raise ColumnError(
                f"{listed(wrong)}: only perturbed numbers can be rounded or clipped; these are "
                f"{listed(schema.perturbed)}"
            )
        for name, (low, high) in self.clip.items():
            if any(bound is not None and not np.isfinite(bound) for bound in (low, high)):
                raise ColumnError(f"{name!r}: clip takes finite bounds; leave one out to open it")
            if low is not None and high is not None and low > high:
                raise ColumnError(
                    f"{name!r}: clipped from {low:g} to {high:g}; say the lower first"
                )

    def type_of(self, name: str, source: pa.DataType) -> pa.DataType:
        """Return the type of a perturbed column in the copy."""
        return _value_type(source) if name in self.round else pa.float64()

    def apply(self, name: str, values: Floats, source: pa.DataType) -> pa.Array:
        """Return a perturbed column as it leaves; NaN is missing."""
        low, high = self.clip.get(name, (None, None))
        if low is not None or high is not None:
            values = np.clip(values, low, high)
        if name not in self.round:
            return pa.array(values, from_pandas=True)
        return _typed(values, _value_type(source))

    def describe(self, name: str, source: pa.DataType) -> dict[str, Any]:
        """Return what the copy's metadata says of it."""
        rounded = rounding_step(_value_type(source)) if name in self.round else None
        return {"rounded": rounded, "clipped": list(self.clip[name]) if name in self.clip else None}


def rounding_step(type_: pa.DataType) -> float | None:
    """Return the distance of neighbouring values of a type, in the unit of its copies."""
    if _types.is_floating(type_):
        return None
    if _types.is_decimal(type_):
        return float(10.0**-type_.scale)
    if _types.is_timestamp(type_) or _types.is_duration(type_) or _types.is_time(type_):
        return 1.0 / _PER_SECOND[type_.unit]
    return 1.0


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if _types.is_dictionary(type_) else type_


def _typed(values: Floats, type_: pa.DataType) -> pa.Array:
    """Round floats to the nearest value of a type; what lies beyond it goes to its end."""
    if _types.is_floating(type_):
        largest = float(np.finfo(type_.to_pandas_dtype()).max)
        return pa.array(np.clip(values, -largest, largest), from_pandas=True).cast(type_)
    if _types.is_integer(type_):
        bounds = np.iinfo(type_.to_pandas_dtype())
        return _whole(values, int(bounds.min), int(bounds.max), type_)
    if _types.is_decimal(type_):
        return _decimals(values, type_)
    if _types.is_date(type_):
        days = _whole(values, -(2**31), 2**31 - 1, pa.int32())
        return days.cast(pa.date32()).cast(type_)
    per_second = _PER_SECOND[type_.unit]
    values = np.clip(values, -1e19, 1e19)  # beyond every type, and far from an overflow
    if _types.is_time(type_):
        whole = _whole(values * per_second, 0, 86400 * per_second - 1, pa.int64())
        return whole.cast(pa.int32() if type_.bit_width == 32 else pa.int64()).cast(type_)
    whole = _whole(values * per_second, -(2**63), 2**63 - 1, pa.int64())
    return (
        whole.cast(pa.timestamp(type_.unit)).cast(type_)
        if _types.is_timestamp(type_)
        else (whole.cast(type_))
    )


def _whole(values: Floats, low: int, high: int, type_: pa.DataType) -> pa.Array:
    missing = np.isnan(values)
    # the largest double that is not above the bound
    top = float(high) if float(high) <= high else np.nextafter(float(high), 0)
    rounded = np.clip(np.rint(np.where(missing, 0.0, values)), low, top)
    whole = rounded.astype(np.uint64 if low == 0 else np.int64)
    return pa.array(whole, mask=missing).cast(type_)


def _decimals(values: Floats, type_: pa.DataType) -> pa.Array:
    limit = _largest_decimal(type_)
    clipped = np.clip(values, -limit, limit)
    rounded = pc.round(pa.array(clipped, from_pandas=True), ndigits=type_.scale)
    return rounded.cast(type_, safe=False)


def _largest_decimal(type_: pa.DataType) -> float:
    """Return the largest double that is rounded to a value of the type, not beyond it."""
    step = Fraction(10) ** -type_.scale
    largest = (10**type_.precision - 1) * step
    limit = float(largest)
    return limit if limit < largest + step / 2 else float(np.nextafter(limit, 0))
