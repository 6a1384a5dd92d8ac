"""Sampled rows of a table as coordinates Z of what gets noise, and as columns F of what does not.

A number is a coordinate itself, on its scale; of a category the indicators of its frequent values
are, and one of all others together. Their covariances are those of pairs that are present, without
what chance explains, and positive semidefinite.
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
    their coordinates; `number` is the one that it follows, if it is one. `alone` is what copies of
    the sources alone reveal, where that is known.
    """

    column: str
    values: Floats
    sources: tuple[str, ...]
    number: Floats | None = None
    alone: Floats | None = None

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


# --------------------------------------------------------------------------------------------------
# Covariances of coordinates.


VANISHING = 1e-9
"""Directions with less than this share of the largest variance are rounding: indicators of a
category add up to 1."""

ROWS_TO_TRUST = 100
"""With fewer rows than this for each coordinate, what columns reveal of each other is tested."""

CHANCE = 4.0
"""Standard deviations above its mean, up to which a chi-square counts as chance."""


@dataclass(frozen=True)
class Covariances:
    """Means and covariances of coordinates, over the rows that have both."""

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, Z: Floats) -> "Covariances":
        """Measure coordinates (coordinates, rows), NaN where missing."""
        present = ~np.isnan(Z)
        if present.all():
            mean = Z.mean(axis=1)
            centred = Z - mean[:, None]
            return cls(mean, np.asarray(centred @ centred.T / max(Z.shape[1] - 1, 1)))
        known = present.astype(np.float64)
        mean = np.where(present, Z, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        centred = np.where(present, Z - mean[:, None], 0.0)
        count = known @ known.T
        # about the means of just the rows that have both
        offset = (centred @ known.T) / np.maximum(count, 1)
        scatter = centred @ centred.T - count * offset * offset.T
        return cls(mean, np.asarray(scatter / np.maximum(count - 1, 1)))


def with_reach(C: Floats, known: Sequence[Coordinate]) -> Floats:
    """Return C with the correlations that coordinates would have without the chance in them."""
    reach = np.array([each.reach for each in known])
    if (reach == 1).all():
        return C
    deviation = np.sqrt(np.maximum(np.diag(C), 0.0))
    raised = C * np.outer(reach, reach)
    most = np.outer(deviation, deviation)  # no correlation exceeds 1
    raised = np.clip(raised, -most, most)
    np.fill_diagonal(raised, np.diag(C))
    return raised


def significant(C: Floats, known: Sequence[Coordinate], rows: int) -> Floats:
    """Return C without what chance explains between columns, if the rows are few for its size.

    In n rows, d coordinates that reveal nothing seem to reveal d/n. Of two independent columns
    with a and b coordinates, n times the trace of C_aa^-1 C_ab C_bb^-1 C_ba is chi-square with
    about a b degrees of freedom; a pair below its mean and CHANCE deviations counts as such.
    """
    if rows >= ROWS_TO_TRUST * len(C):
        return C
    named = [each.column or f"rest of {each.block}" for each in known]
    names, blocks = np.array(named), dict(zip(named, (each.block for each in known), strict=True))
    P, rank = np.empty_like(C), []
    for name in blocks:
        inverse = pseudo_inverse(C[np.ix_(names == name, names == name)])
        P[names == name] = inverse @ C[names == name]
        rank.append(np.linalg.matrix_rank(inverse))
    # with P_ab = C_aa^-1 C_ab, the trace for a pair is the sum of P_ab times P_ba' by elements
    belongs = np.equal.outer(names, np.array(list(blocks))).astype(np.float64)
    traces, freedom = rows * (belongs.T @ (P * P.T) @ belongs), np.outer(rank, rank)
    # chi-square of f degrees of freedom has the mean f and the variance 2 f
    chance = traces < freedom + CHANCE * (1 + np.sqrt(2 * freedom))
    # numbers get noise of the shape of their covariance, which hides whatever it is
    numbers = np.array([block == NUMBERS for block in blocks.values()])
    chance[np.ix_(numbers, numbers)] = False
    np.fill_diagonal(chance, False)
    place = belongs.argmax(axis=1)
    return np.where(chance[np.ix_(place, place)], 0.0, C)


def semidefinite(C: Floats) -> Floats:
    """Return C, or each of several, without negative eigenvalues, which missing values cause."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray(
        (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    )


def pseudo_inverse(C: Floats) -> Floats:
    """Return the inverse of C where it varies."""
    return np.asarray(np.linalg.pinv(C, rcond=VANISHING, hermitian=True))
