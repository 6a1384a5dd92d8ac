"""What is done to a copy after the noise: the same spread, rounding, clipping, other names.

All are functions of the copy alone, chosen copy by copy. A set of rounded or clipped
copies never reveals more than the raw copy at the least noise in the set.

First comes the same spread: the columns of a copy vary as much as the table's, and not more:

    Z = c + f (Y - c),    f = sqrt(K_jj / (K_jj + v S_jj)),    S the shape of the noise, K or more

on the scale on which a column is perturbed. With S = K the factor is 1/sqrt(1 + v), and Z has the
covariance of the table. On the scale of ranks, T and Y are normal scores, and so is Z with c = 0:
mapped back it is distributed as the column is, so that no copy has a negative age.

Z determines Y and Y determines Z, so a set of copies reveals the same with either, if c and f give
nothing exact away: from Y and Z of one level follow c and f, and from an exact mean the last row,
for someone who knows all others. So c is the mean to a multiple of a power of two, of at least two
standard errors, and S_jj / K_jj, where it is not 1, to a multiple of two of its own. Both are the
same in all copies of a dataset.

Rounding takes the nearest value of the type within the bounds, so that whatever lies
beyond becomes the outermost one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.choices import DECLARED
from cornerwave.columns._schema import Column, Schema, listed
from cornerwave.columns._types import (
    DAY,
    decimal_type,
    ends_of,
    is_number,
    nearest,
    nearest_decimals,
    plain_type,
    step_of,
    type_named,
    unit_of,
)
from cornerwave.errors import ColumnError, warn

if TYPE_CHECKING:
    from cornerwave.columns._scale import Scale


BITS = 44
"""Bits of a number that is undone: doubles have 53, and undoing loses those of the factor. The grid
of copies is coarser, so that the very number comes back."""

FINEST_RATIO = 2.0**-6
"""S_jj / K_jj is known no better than to multiples of this."""

LEAST_FACTOR = 1e-6
"""Columns are not drawn together more than this."""


@dataclass(frozen=True)
class SameSpread:
    """Around which `centre` a column of a copy is drawn together, and by which `factor`."""

    centre: float
    factor: float

    def applied(self, t: Floats, out: Floats | None = None) -> Floats:
        """Return what is released of numbers, on their scale; in `out`, if it is given.

        >>> SameSpread(10.0, 0.5).applied(np.array([10.0, 14.0])).tolist()
        [10.0, 12.0]
        """
        drawn = np.subtract(t, self.centre, out=out)
        np.multiply(drawn, self.factor, out=drawn)
        return np.asarray(np.add(drawn, self.centre, out=drawn))

    def undone(self, z: Floats) -> Floats:
        """Return the numbers that are released as z, on their scale, to BITS bits.

        >>> third = SameSpread(0.1, 1 / 3)
        >>> third.undone(third.applied(np.array([0.5, -7.25]))).tolist()
        [0.5, -7.25]
        """
        value = self.centre + (z - self.centre) / self.factor
        mantissa, exponent = np.frexp(value)
        return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS))

    def step(self, step: float) -> float:
        """Return how far apart numbers lie that are released with this step between them."""
        return step / self.factor


AsLeft = Mapping[str, SameSpread]
"""How the columns of a copy were drawn together; those that are not named show what the noise
left."""


def centre_of(mean: float, error: float) -> float:
    """Return a mean to a power of two of at least two standard errors.

    >>> centre_of(38.6, 0.1), centre_of(38.6, 3.0)
    (38.5, 40.0)
    """
    if not error > 0:  # a constant, which has no noise
        return 0.0
    step = 2.0 ** math.ceil(math.log2(2 * error))
    return round(mean / step) * step


def ratio_of(variance: float, excess: float, *, rows: int) -> float:
    """Return S_jj / K_jj, from K_jj and S_jj - K_jj, to a multiple of two of its own errors.

    >>> ratio_of(1.0, 0.0, rows=100), ratio_of(1.0, 0.3333, rows=10**6)
    (1.0, 1.328125)
    """
    if not (variance > 0 and excess > 0):
        return 1.0
    # the ratio of two variances of `rows` normals has the relative error sqrt(2 / rows)
    error = max(FINEST_RATIO, 2 * math.sqrt(2 / max(rows, 1)))
    return 1 + round(excess / variance / error) * error


def spreads_of(
    columns: Mapping[str, tuple[float, float]], *, noise: float, variance: Floats
) -> AsLeft:
    """Return how columns, by name, are drawn together at a noise; a constant one is not.

    `columns` have a centre and S_jj / K_jj each, `variance` (N,) is K_jj.

    >>> spreads_of({"x": (2.0, 1.0)}, noise=3.0, variance=np.ones(1))
    {'x': SameSpread(centre=2.0, factor=0.5)}
    """
    each = zip(columns.items(), variance.tolist(), strict=True)
    return {
        name: SameSpread(centre, max(math.sqrt(1 / (1 + noise * ratio)), LEAST_FACTOR))
        for (name, (centre, ratio)), K_jj in each
        if K_jj > 0 and noise > 0
    }


Bound = float | date | None
"""Where a clipped column ends: a number, a date or a datetime; None leaves it open."""

_Bounds = tuple[float | None, float | None]

REACH = 12.0
"""No value of a copy is this many standard deviations from the mean: normal noise exceeds
it once in 10^33 cells."""


@dataclass(frozen=True)
class Limits:
    """To which step the values of a column are rounded, and at which bounds they are clipped."""

    rounded: float | None
    clipped: _Bounds | None


@dataclass(frozen=True)
class Finish:
    """Which numeric columns are rounded, and which are clipped to bounds.

    A rounded column has its source's type, or the one in `types`; one of floats with so many
    `decimals` stays one of floats. `names` are what columns are
    called in the copy, of those that have another name there. Columns in `spread` vary as much as
    those of the table; bounds are those of what is released. `descriptions` are what the owner
    states that columns mean: metadata carry them.
    """

    round: frozenset[str] = frozenset()
    clip: Mapping[str, tuple[Bound, Bound]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    decimals: Mapping[str, int] = field(default_factory=dict)
    spread: AsLeft = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, column: str) -> str:
        """Return what a column is called in the copy."""
        return self.names.get(column, column)

    def counted(self, schema: Schema) -> "Finish":
        """Return the same with bounds as numbers, as copies count: days, seconds, or plain."""
        return replace(
            self, clip={name: self._bounds(name, schema.column(name).unit) for name in self.clip}
        )

    def check(self, schema: Schema) -> None:
        """Raise ColumnError unless all named columns are perturbed numbers, within bounds."""
        of_sums = schema.totals.keys() & self.decimals.keys()
        named = sorted({*self.round, *self.clip, *self.types, *(self.decimals.keys() - of_sums)})
        if wrong := [name for name in named if name not in schema.perturbed]:
            raise ColumnError(
                f"{listed(wrong)}: only perturbed numbers can be rounded or clipped; these are "
                f"{listed(schema.perturbed)}"
            )
        if wrong := [name for name in self.clip if name in schema.relative]:
            raise ColumnError(
                f"{listed(wrong)}: a column that is relative to another is not clipped, which "
                "would break their order; clip the other one"
            )
        columns = [schema.column(name) for name in named]
        for column in columns:
            self._check_bounds(column)
        self._check_descriptions([column.name for column in schema.shown])
        columns += [schema.column(name) for name in of_sums]
        floats = [c.name for c in columns if pa.types.is_floating(type_named(c.type))]
        if wrong := [n for n in self.decimals if n not in floats or n in self.types]:
            raise ColumnError(
                f"{listed(wrong)}: 'decimals' are for floats that stay floats; columns of another "
                "type are rounded to its step"
            )
        doubles = [c.name for c in columns if type_named(c.type) == pa.float64()]
        free = [name for name in doubles if schema.column(name).decimals is None]
        if idle := [name for name in free if name in self.round and name not in self.types]:
            warn(
                f"{listed(idle)}: floats in the source, so rounding does not change them",
                stacklevel=3,
            )

    def _check_descriptions(self, shown: Sequence[str]) -> None:
        for name, text in self.descriptions.items():
            if name not in shown:
                raise ColumnError(
                    f"{name!r} is not a column of copies, so it has no description there; they "
                    f"have {listed(shown)}"
                )
            DECLARED["describe"].check(text, f"{name!r}: ")

    def _check_bounds(self, column: Column) -> None:
        name, type_ = column.name, type_named(self.types.get(column.name, column.type))
        _check_type(column, type_)
        low, high = self._bounds(name, column.unit)
        if name in self.clip and low is None and high is None:
            raise ColumnError(f"{name!r}: clip has no bound; give at least one")
        if any(bound is not None and not np.isfinite(bound) for bound in (low, high)):
            raise ColumnError(f"{name!r}: clip takes finite bounds; leave one out to open it")
        if low is not None and high is not None and low > high:
            raise ColumnError(f"{name!r}: clip from {low:g} to {high:g}; give the lower first")
        if name in self.round and type_ is not None:
            least, most = ends_of(type_, low, high)
            if least > most:
                raise ColumnError(
                    f"{name!r}: no value of type {type_} lies within the bounds; widen them"
                )

    def type_of(self, name: str, source: pa.DataType) -> pa.DataType:
        """Return the type of a perturbed column in the copy."""
        if name not in self.round or name in self.decimals:
            return pa.float64()
        return type_named(self.types[name]) if name in self.types else plain_type(source)

    def drawn_together(
        self,
        columns: Sequence[str],
        numbers: Floats,
        room: Callable[[tuple[int, int]], Floats] = np.empty,
    ) -> Floats:
        """Return perturbed columns (N, rows), on their scales, as widely spread as is released."""
        if not self.spread:
            return numbers
        out = room((len(numbers), numbers.shape[1]))
        for row, name, values in zip(out, columns, numbers, strict=True):
            if name in self.spread:
                self.spread[name].applied(values, row)
            else:
                row[:] = values
        return out

    def apply(
        self, name: str, values: Floats, source: pa.DataType, *, complete: bool = False
    ) -> pa.Array:
        """Return a perturbed column as it is released; NaN is missing, unless it is `complete`.

        A complete column of floats is not copied, so the values must not change any more.
        """
        low, high = self._bounds(name, unit_of(source))
        if name in self.round and name in self.decimals:
            rounded = nearest_decimals(values, self.decimals[name], low, high)
            return pa.array(rounded, from_pandas=not complete)
        if name in self.round:
            return nearest(values, self.type_of(name, source), low, high)
        if low is not None or high is not None:
            values = np.clip(values, low, high)
        return pa.array(values, from_pandas=not complete)

    def limits(self, name: str, source: pa.DataType, *, reach: tuple[float, float]) -> "Limits":
        """Return what the copy's metadata states about a column.

        The ends of a rounded column's type count as bounds where values of the copy can `reach`
        them.
        """
        low, high = self._bounds(name, unit_of(source))
        if name not in self.round:
            return Limits(None, _clipped(low, high))
        decimals = self.decimals.get(name)
        type_ = self.type_of(name, source) if decimals is None else decimal_type(decimals)
        step = step_of(type_)
        least, most = (float(end * (step or Fraction(1))) for end in ends_of(type_, low, high))
        lowest, highest = reach
        return Limits(
            None if step is None else float(step),
            _clipped(
                least if low is not None or least > lowest else None,
                most if high is not None or most < highest else None,
            ),
        )

    def reach(
        self, name: str, *, mean: float, deviation: float, scale: "Scale"
    ) -> tuple[float, float]:
        """Return between which numbers all of a copy's lie, before they are rounded or clipped.

        `mean` and `deviation` are the copy's as the noise left it, on the column's scale.
        """
        far = REACH * deviation
        ends = np.array([mean - far, mean + far])
        if name in self.spread:
            ends = self.spread[name].applied(ends)
        lowest, highest = scale.backward(ends).tolist()
        return lowest, highest

    def _bounds(self, name: str, unit: str | None) -> _Bounds:
        """Return a column's bounds in the unit of its copies. Raises ColumnError."""
        try:
            low, high = self.clip.get(name, (None, None))
        except (TypeError, ValueError):
            raise ColumnError(
                f"{name!r}: clip takes a pair (low, high), with None for an open end"
            ) from None
        return _in_unit(low, name, unit), _in_unit(high, name, unit)


def _check_type(column: Column, type_: pa.DataType | None) -> None:
    """Raise ColumnError unless copies of a column can have this type."""
    if type_ is None or not is_number(type_) or unit_of(type_) != column.unit:
        raise ColumnError(
            f"{column.name!r}: copies of a column of type {column.type} cannot have another kind "
            "of type; use one such as int64, decimal128(9, 2), date32[day] or timestamp[s]"
        )


def wide_type(type_: pa.DataType) -> pa.DataType:
    """Return a type of the same step whose ends noise does not reach, if there is one.

    >>> wide_type(pa.uint8()), wide_type(pa.decimal128(5, 2)), wide_type(pa.time32("s"))
    (DataType(int64), Decimal128Type(decimal128(38, 2)), Time32Type(time32[s]))
    """
    types = pa.types
    if types.is_integer(type_):
        return pa.int64()
    if types.is_decimal(type_) and not types.is_decimal256(type_):
        return pa.decimal128(38, type_.scale)
    return type_


def settled(schema: Schema) -> Schema:
    """Return a schema whose bounds are numbers, as copies count. Raises ColumnError."""
    chosen = chosen_in(schema)
    chosen.check(schema)
    counted = chosen.counted(schema).clip
    columns = (replace(c, clip=counted.get(c.name, c.clip)) for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def chosen_in(schema: Schema) -> Finish:
    """Return what the owner chose at registration about the looks of copies."""
    types = {c.name: c.released_type for c in schema.columns if c.released_type}
    return Finish(
        round=frozenset({c.name for c in schema.columns if c.round} | types.keys()),
        clip={c.name: c.clip for c in schema.columns if c.clip is not None},
        types=types,
        names={c.name: c.released_as for c in schema.columns if c.released_as},
        decimals={c.name: c.decimals for c in schema.columns if c.decimals is not None},
        descriptions={c.name: c.describe for c in schema.shown if c.describe},
    )


def _clipped(low: float | None, high: float | None) -> _Bounds | None:
    return None if low is None and high is None else (low, high)


def _in_unit(bound: Any, name: str, unit: str | None) -> float | None:
    if bound is None:
        return None
    has_dates = unit is not None and "1970" in unit
    if has_dates and isinstance(bound, date):
        if isinstance(bound, datetime):
            seconds = bound.replace(tzinfo=bound.tzinfo or UTC).timestamp()
        else:
            seconds = float((bound - date(1970, 1, 1)).days * DAY)
        return seconds / DAY if str(unit).startswith("days") else seconds
    if not isinstance(bound, Real) or isinstance(bound, bool):
        kinds = "numbers, dates or datetimes" if has_dates else "numbers"
        raise ColumnError(f"{name!r}: clip takes {kinds} as bounds, not {type(bound).__name__}")
    return float(bound)
