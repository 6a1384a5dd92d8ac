"""Whether a number is drafted for its own scale or for that of its ranks, and why.

A copy at noise v, with the same spread, is on the column's own scale

    Z = m + (x - m + sqrt(v) s g) / sqrt(1 + v),      g ~ N(0, 1),     m, s^2 mean and variance of x

and so closer to a normal distribution than the column is: entirely at much noise. On ranks it is
distributed as the column at every noise (columns/_scale.py), and what is promised holds for every
function of a value alone. But regressions and correlations are linear in a column's own scale. So
a column that is about normal keeps it, and others are drafted for ranks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import (
    KNOTS,
    ROWS_PER_KNOT,
    nearest_decimals,
    plain_type,
    step_of,
    to_floats,
    unit_of,
)
from cornerwave.errors import SourceError
from cornerwave.inspection._recognise import ZERO_HEAVY

RANK = "rank"
BEYOND = 0.01
"""A copy at privacy 0.5 with a larger share of cells beyond the column's range looks broken to
everybody who plots it: of 100 rows, one shows it."""
FROM_NORMAL = 0.02
"""How far the distribution functions of a column and of its copies may lie apart. At much noise it
is how far that of the column lies from a normal one."""
BY_CHANCE = 0.886
"""Over the root of n: one of 20 samples of n normal values lies further than this from the normal
distribution of their own mean and variance (Lilliefors)."""
SKEWED = 1.0
"""A distribution of a larger skewness is highly skewed (Bulmer); an exponential one has 2."""
LEAST_KNOTS = 10
"""Fewer rows than these knots need leave a tenth of a copy, or more, at the outermost ones, which
is no better than its own scale."""
LEAST_APART = 10
"""So many rows differ from the value of all others, or copies on ranks would show that value."""
MOST_DECIMALS = 6
"""Numbers with more decimals were computed, and their digits are nobody's to keep."""
MOST_LOOKED_AT = 4096
"""So many quantiles stand for a column."""


@dataclass(frozen=True)
class DraftedScale:
    """The transform that is drafted for a number, None for its own scale, and why.

    `whole` is whether floats hold whole numbers alone, `decimals` how many they have if few;
    `seconds` whether times of a finer unit are those of whole seconds.
    """

    transform: str | None
    reason: str
    whole: bool = False
    decimals: int | None = None
    seconds: bool = False


def drafted_scale(cells: pa.ChunkedArray, name: str) -> DraftedScale | None:
    """Return the scale to draft for a number, by sampled cells; None if they do not show it."""
    x = _ascending(cells, name)
    if not _has_ranks(x):
        return None
    type_ = plain_type(cells.type)
    whole = pa.types.is_floating(type_) and bool((x == np.rint(x)).all())
    decimals = None if whole or not pa.types.is_floating(type_) else _decimals(x)
    seconds = _is_finer(type_) and bool((x == np.rint(x)).all())
    step, rows = 1.0 if whole else float(step_of(type_) or 0), len(x)
    x = x[np.linspace(0, len(x) - 1, min(len(x), MOST_LOOKED_AT)).astype(np.int64)]
    kind = "dates" if unit_of(type_) else "whole numbers" if step == 1.0 else "numbers"
    if why := [*_against_own(x, step, kind, BY_CHANCE / math.sqrt(rows))]:
        reason = f"{why[0]}; on ranks copies are distributed as the table"
        return DraftedScale(RANK, reason, whole, decimals, seconds)
    about = f"{kind} about normal: they keep their own scale, on which regressions are linear"
    return DraftedScale(None, about, decimals=decimals, seconds=seconds)


def _is_finer(type_: pa.DataType) -> bool:
    """Whether a type of points in time without a zone is finer than seconds."""
    return pa.types.is_timestamp(type_) and type_.tz is None and type_.unit != "s"


def _decimals(x: Floats) -> int | None:
    """Return how many decimals the numbers of a column have, if at most MOST_DECIMALS."""
    # a decimal with more digits than doubles distinguish would be any number
    most = min(MOST_DECIMALS, 14 - math.ceil(math.log10(max(float(np.abs(x).max()), 1.0))))
    return next((d for d in range(1, most + 1) if (x == nearest_decimals(x, d)).all()), None)


def can_be_ranked(cells: pa.ChunkedArray, name: str) -> bool:
    """Whether there are values enough for ranks, and not nearly all the same one."""
    return _has_ranks(_ascending(cells, name))


def _ascending(cells: pa.ChunkedArray, name: str) -> Floats:
    """Return the values of a column in order; none if it is refused as numbers."""
    try:
        values = to_floats(cells.combine_chunks(), name)
    except SourceError:
        return np.empty(0)
    return np.sort(values[np.isfinite(values)])


def _has_ranks(ascending: Floats) -> bool:
    """Whether there are values enough, and not nearly all the same one."""
    knots = min(KNOTS, len(ascending) // ROWS_PER_KNOT)
    if knots < LEAST_KNOTS:
        return False
    # of the outermost shares: nearly all zeros have some other rows in the last of them
    few = min(len(ascending) // knots // 2, LEAST_APART - 1)
    return bool(ascending[few] < ascending[-1 - few])


def _against_own(x: Floats, step: float, kind: str, chance: float) -> Iterator[str]:
    """Yield what speaks against the own scale of ascending values, which vary.

    Normal ones lie up to `chance` from a normal distribution.
    """
    zeros = float(np.mean(x == 0.0))
    if zeros > ZERO_HEAVY and x[0] >= 0:
        yield f"{zeros:.0%} of the values are 0"
    deviation = float(x.std())
    x = (x - x.mean()) / deviation
    if (beyond := _beyond(x)) > BEYOND:
        yield f"on its own scale {beyond:.0%} of a copy at privacy 0.5 would leave its range"
    if abs(skewness := float(np.mean(x**3))) > SKEWED:
        yield f"skewed ({skewness:.1f})"
    if (away := _from_normal(x, step / deviation)) > max(FROM_NORMAL, chance):
        yield f"{kind} that are not normal (off by {away:.2f})"


def _beyond(x: Floats) -> float:
    """Return which share of a copy with as much noise as values lies beyond standard values."""
    # Z = (x + g) / sqrt(2): below the least value where g < sqrt(2) x_0 - x
    reach = math.sqrt(2) * x[[0, -1]]
    return float(_normal(reach[0] - x).mean() + _normal(x - reach[1]).mean())


def _from_normal(x: Floats, step: float) -> float:
    """Return how far ascending standard values lie from a normal distribution, rounded to a step.

    >>> _from_normal(np.array([-1.0, 1.0]), 2.0), _from_normal(np.array([-1.0, 1.0]), 0.0)
    (0.0227..., 0.341...)
    """
    values, counts = np.unique(x, return_counts=True)
    upto = np.cumsum(counts) / len(x)
    above = np.abs(upto - _normal(values + step / 2))
    below = np.abs(upto - counts / len(x) - _normal(values - step / 2))
    return float(max(above.max(), below.max()))


def _normal(z: Floats) -> Floats:
    """Return the distribution function of a normal variable."""
    return np.array([(1 + math.erf(each / math.sqrt(2))) / 2 for each in z.tolist()])
