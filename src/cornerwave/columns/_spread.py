"""The same spread: a copy whose columns vary as much as the table's, and not more.

    Z = c + f (Y - c),    f = sqrt(K_jj / (K_jj + v S_jj)),    S the shape of the noise, K or more

on the scale on which a column is perturbed. With S = K the factor is 1/sqrt(1 + v), and Z has the
covariance of the table. On the scale of ranks, T and Y are normal scores, and so is Z with c = 0:
mapped back it is distributed as the column is, so that no copy has a negative age.

Z determines Y and Y determines Z, so a set of copies reveals the same with either, if c and f give
nothing exact away: from Y and Z of one level follow c and f, and from an exact mean the last row,
for someone who knows all others. So c is the mean to a multiple of a power of two, of at least two
standard errors, and S_jj / K_jj, where it is not 1, to a multiple of two of its own. Both are the
same in all copies of a dataset.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats

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
