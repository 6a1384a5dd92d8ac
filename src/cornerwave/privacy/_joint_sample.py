"""Sampled rows of a table as coordinates Z of what gets noise, and as columns F of what does not.

A number is a coordinate itself, on its scale; of a category the indicators of its frequent values
are, and one of all others together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.privacy._open_columns import LEAST_HOLDERS, OpenColumn

NUMBERS = "numbers"
"""The block of all numbers: one noise of the shape S hides them."""
MOST_REFRESHED = 64
"""A category has so many indicators at most; a column of F with more values is not tried as one."""


@dataclass(frozen=True)
class Coordinate:
    """One coordinate of Z over the sampled rows; NaN is missing.

    `column` names its column, or those refreshed together; coordinates of one `block` get one
    noise: NUMBERS, or a category by its name. `drawn` is the probability of its value in an even
    draw, None for draws from the table's frequencies. `column` is None for a function of a category
    beside its indicators, what its rare values reveal of another coordinate; its `reach` is by how
    much chance in the few rows of each value lowers its correlations.
    """

    column: str | None
    block: str
    values: Floats
    drawn: float | None = None
    reach: float = 1.0


@dataclass(frozen=True)
class Computed:
    """What copies show of a `column` that they compute from noisy ones, over the sampled rows.

    It has no noise of its own: `sources` are the columns that it is computed from, by the names of
    their coordinates; `number` is the one that it follows, if it is one.
    """

    column: str
    values: Floats
    sources: tuple[str, ...]
    number: Floats | None = None

    def first(self, rows: int) -> "Computed":
        """Return the first rows of the sample."""
        number = None if self.number is None else self.number[:rows]
        return replace(self, values=self.values[:rows], number=number)


@dataclass(frozen=True)
class JointSample:
    """A sample of a table's rows: coordinates that get noise, the numbers first, and F.

    `excess` (N, N) is by how much the shape of the noise exceeds the covariance of the numbers,
    on the scale of their deviations; the table has `rows` rows. `computed` follows from the
    coordinates.
    """

    coordinates: Sequence[Coordinate]
    excess: Floats
    features: Sequence[OpenColumn] = ()
    rows: int | None = None
    computed: Sequence[Computed] = ()

    def first(self, rows: int) -> "JointSample":
        """Return the first rows of the sample."""
        return replace(
            self,
            coordinates=[replace(each, values=each.values[:rows]) for each in self.coordinates],
            features=[each.first(rows) for each in self.features],
            computed=[each.first(rows) for each in self.computed],
        )


def indicators(
    column: str,
    block: str,
    codes: Ints,
    missing: Flags,
    *,
    most: int = MOST_REFRESHED,
    values: int | None = None,
) -> Iterator[Coordinate]:
    """Yield the indicators of a category's frequent values, by codes of its rows.

    Values of few rows share the last one. Where cells are `missing`, indicators are too;
    `values` is the number of its values if draws are even.
    """
    counts = np.bincount(codes, minlength=1)
    by_count = np.argsort(-counts, kind="stable")[:most].tolist()
    frequent = [code for code in by_count if counts[code] >= LEAST_HOLDERS]
    chance = None if values is None else 1 / values
    for code in frequent:
        yield Coordinate(column, block, np.where(missing, np.nan, codes == code), chance)
    rest = None if values is None else 1 - len(frequent) / values
    yield Coordinate(column, block, np.where(missing, np.nan, ~np.isin(codes, frequent)), rest)
