"""Covariances of sampled coordinates: of pairs that are present, without chance, semidefinite."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.privacy._joint_sample import NUMBERS, Coordinate

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
