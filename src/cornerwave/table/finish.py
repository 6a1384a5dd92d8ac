"""What is done to a copy after the noise: rounding to the source's type, clipping to a domain.

Both are functions of the copy alone, chosen copy by copy. A set of rounded or clipped
copies never says more than the raw copy at the least noise in the set.

A type's values are whole multiples of its step between two ends. Rounding goes to the
nearest of those within the bounds, so what lies beyond piles up at the outermost one.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError, CornerwaveWarning
from cornerwave.table.kinds import plain_type
from cornerwave.table.numbers import unit_of
from cornerwave.table.scale import Scale
from cornerwave.table.schema import Column, Schema, listed
from cornerwave.table.type_names import type_named
from cornerwave.table.type_values import ends_of, nearest, rounding_step, step_of

Bound = float | date | None
"""Where a clipped column ends: a number, a date or a datetime; None leaves it open."""

REACH = 12.0
"""No value of a copy lies this many of its standard deviations from the mean: normal noise
gets there once in 10^33 cells."""

_DAY = 86_400


@dataclass(frozen=True)
class Finish:
    """Which numeric columns get their type back, and which are kept within bounds."""

    round: frozenset[str] = frozenset()
    clip: Mapping[str, tuple[Bound, Bound]] = field(default_factory=dict)

    def counted(self, schema: Schema) -> "Finish":
        """Return the same with bounds as numbers, as copies count: days, seconds, or plain."""
        known = {column.name: column.unit for column in schema.columns}
        return replace(
            self, clip={name: _bounds(self.clip, name, known.get(name)) for name in self.clip}
        )

    def check(self, schema: Schema) -> None:
        """Raise ColumnError unless all named columns are perturbed numbers, within bounds."""
        named = sorted({*self.round, *self.clip})
        if wrong := [name for name in named if name not in schema.perturbed]:
            raise ColumnError(
                f"{listed(wrong)}: only perturbed numbers can be rounded or clipped; these are "
                f"{listed(schema.perturbed)}"
            )
        columns = [schema.column(name) for name in named]
        for column in columns:
            self._check_bounds(column)
        idle = [c.name for c in columns if c.name in self.round and _type_of(c) == pa.float64()]
        if idle:
            warnings.warn(
                f"{listed(idle)}: floats in the source, so rounding leaves them as they are",
                CornerwaveWarning,
                stacklevel=3,
            )

    def _check_bounds(self, column: Column) -> None:
        low, high = _bounds(self.clip, column.name, column.unit)
        if column.name in self.clip and low is None and high is None:
            raise ColumnError(f"{column.name!r}: clip names no bound; say at least one")
        if any(bound is not None and not np.isfinite(bound) for bound in (low, high)):
            raise ColumnError(
                f"{column.name!r}: clip takes finite bounds; leave one out to open it"
            )
        if low is not None and high is not None and low > high:
            raise ColumnError(
                f"{column.name!r}: clipped from {low:g} to {high:g}; say the lower first"
            )
        type_ = _type_of(column)
        if column.name in self.round and type_ is not None:
            least, most = ends_of(type_, low, high)
            if least > most:
                raise ColumnError(
                    f"{column.name!r}: no value of type {type_} lies within the bounds; widen them"
                )

    def type_of(self, name: str, source: pa.DataType) -> pa.DataType:
        """Return the type of a perturbed column in the copy."""
        return plain_type(source) if name in self.round else pa.float64()

    def apply(self, name: str, values: Floats, source: pa.DataType) -> pa.Array:
        """Return a perturbed column as it leaves; NaN is missing."""
        low, high = _bounds(self.clip, name, unit_of(source))
        if name in self.round:
            return nearest(values, plain_type(source), low, high)
        if low is not None or high is not None:
            values = np.clip(values, low, high)
        return pa.array(values, from_pandas=True)

    def describe(
        self, name: str, source: pa.DataType, *, mean: float, deviation: float, scale: Scale
    ) -> dict[str, Any]:
        """Return what the copy's metadata says of it.

        `mean` and `deviation` are the copy's, on the column's scale. The ends of a type
        that is given back are told as bounds where values of the copy can reach them.
        """
        low, high = _bounds(self.clip, name, unit_of(source))
        if name not in self.round:
            return {"rounded": None, "clipped": _told(low, high)}
        type_ = plain_type(source)
        step = step_of(type_) or Fraction(1)
        least, most = (float(end * step) for end in ends_of(type_, low, high))
        far = REACH * deviation
        lowest, highest = scale.backward(np.array([mean - far, mean + far]))
        return {
            "rounded": rounding_step(type_),
            "clipped": _told(
                least if low is not None or least > lowest else None,
                most if high is not None or most < highest else None,
            ),
        }


def _told(low: float | None, high: float | None) -> list[float | None] | None:
    return None if low is None and high is None else [low, high]


def _type_of(column: Column) -> pa.DataType | None:
    return type_named(column.type)


def _bounds(
    clip: Mapping[str, tuple[Bound, Bound]], name: str, unit: str | None
) -> tuple[float | None, float | None]:
    """Return the bounds of a column as its copies count. Raises ColumnError for what is none."""
    try:
        low, high = clip.get(name, (None, None))
    except (TypeError, ValueError):
        raise ColumnError(
            f"{name!r}: clip takes a pair (low, high), None for an open end"
        ) from None
    return _counted(low, name, unit), _counted(high, name, unit)


def _counted(bound: Any, name: str, unit: str | None) -> float | None:
    if bound is None:
        return None
    if isinstance(bound, date) and unit is not None and "1970" in unit:
        if isinstance(bound, datetime):
            seconds = bound.replace(tzinfo=bound.tzinfo or UTC).timestamp()
        else:
            seconds = float((bound - date(1970, 1, 1)).days * _DAY)
        return seconds / _DAY if unit.startswith("days") else seconds
    if not isinstance(bound, Real) or isinstance(bound, bool):
        kinds = "numbers, dates or datetimes" if unit and "1970" in unit else "numbers"
        raise ColumnError(f"{name!r}: clip takes {kinds} as bounds, not {type(bound).__name__}")
    return float(bound)
