"""The mean of a column on its own scale, though it was perturbed as log(1 + x).

With x = log(1 + X), y = x + w and w ~ N(0, v k), k = Var(x):

    E[e^y] = E[e^x] exp(v k / 2)      so      E[1 + X] = E[e^y] exp(-v k / 2),  k = Var(y)/(1+v)

The influence of a row is h = e^y exp(-v k/2) - c y^2 with c = E[1 + X] v / (2 (1 + v)) (y and
x centred), its mean given the original row is A = e^x - c x^2, and that of the table's own
mean is e^x. So Var(estimate | table) = (Var(h) - Var(A)) / n, and a population adds
Var(e^x) / n. Consistent, not exactly unbiased: k is estimated. The moments of x follow from
those of y by tilting: E[e^y f(y)] is a normal mean of f, shifted by v k.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornerwave.miner.estimate import Estimate, Of
from cornerwave.moments import Moments

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tilted:
    """Means over the copy's rows, y centred on `centre`.

    `tilt` holds E[e^y y^j] for j = 0, 1, 2; `double` is E[e^2y], `second` and `fourth`
    are E[y^2] and E[y^4].
    """

    rows: int
    centre: float
    tilt: Floats
    double: float
    second: float
    fourth: float

    @classmethod
    def of(cls, blocks: Iterable[Floats], moments: Moments) -> "Tilted":
        """Average over blocks (rows, 1) of y; NaN is missing."""
        sums = np.zeros(6)
        for block in blocks:
            y = block[~np.isnan(block)] - moments.mean[0]
            e = np.exp(y)
            sums += [e.sum(), e @ y, e @ y**2, e @ e, y @ y, (y**4).sum()]
        rows = int(moments.present[0])
        means = sums / rows
        return cls(rows, float(moments.mean[0]), means[:3], *map(float, means[3:]))


def original_mean(tilted: Tilted, noise: float, of: Of) -> Estimate:
    """Return the mean of X from moments of the copy of log(1 + X)."""
    k = tilted.second / (1 + noise)
    added = noise * k
    shrink = np.exp(-added / 2)
    level = tilted.tilt[0] * shrink
    c = level * noise / (2 * (1 + noise))
    first = tilted.tilt[1] * shrink - added * level
    second = tilted.tilt[2] * shrink - 2 * added * first - (added + added**2) * level
    table = max(tilted.double * np.exp(-2 * added) - level**2, 0.0)
    in_copy = (
        (tilted.double - tilted.tilt[0] ** 2) * shrink**2
        - 2 * c * (tilted.tilt[2] - tilted.tilt[0] * tilted.second) * shrink
        + c**2 * (tilted.fourth - tilted.second**2)
    )
    squares = tilted.fourth - 3 * tilted.second**2 + 2 * k**2
    given_row = table - 2 * c * (second - level * k) + c**2 * squares
    variance = max(in_copy - given_row, 0.0) + (table if of == "population" else 0.0)
    scale = np.exp(tilted.centre)
    error = scale * np.sqrt(variance / tilted.rows)
    return Estimate(float(scale * level - 1), float(error))
