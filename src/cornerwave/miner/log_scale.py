"""The mean of a column on its own scale, though it was perturbed as log(1 + x).

With x = log(1 + X), y = x + w and w ~ N(0, v k), k = Var(x):

    E[e^y] = E[e^x] exp(v k / 2)      so      E[1 + X] = E[e^y] exp(-v k / 2),  k = Var(y)/(1+v)

The influence of a row is h = e^y exp(-v k/2) - c y^2 with c = E[1 + X] v / (2 (1 + v)) (y and
x centred), its mean given the original row is A = e^x - c x^2, and that of the table's own
mean is e^x. So Var(estimate | table) = (Var(h) - Var(A)) / n, and a population adds
Var(e^x) / n. Consistent, not exactly unbiased: k is estimated. The moments of x follow from
those of y by tilting: E[e^y f(y)] is a normal mean of f, shifted by v k.

Var(h) is itself an average over rows, of squares of e^w, and its relative variance is
E[e^4w] / E[e^2w]^2 / n = exp(4 v k) / n. Where that is large the sum hangs on a row or two
that most tables do not have: value and standard error then come out far too low together.
So a mean is told where at least EFFECTIVE rows carry its error, n exp(-4 v k) of them, and
the mean itself, (sum e^y)^2 / sum e^2y. An interval of normal quantiles then covers about
what it would with 2 EFFECTIVE degrees of freedom: 93.6 % for 95 %.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner.estimate import Estimate, Of
from cornerwave.moments import Moments

EFFECTIVE = 10.0
"""How many rows must carry a standard error for it to be one: it is then known to a sixth."""


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
            with np.errstate(over="ignore", invalid="ignore"):  # then it is refused
                e = np.exp(y)
                sums += [e.sum(), e @ y, e @ y**2, e @ e, y @ y, (y**4).sum()]
        rows = int(moments.present[0])
        means = sums / rows
        return cls(rows, float(moments.mean[0]), means[:3], *map(float, means[3:]))

    def effective_rows(self, noise: float) -> float:
        """Return how many rows carry the standard error, or the mean if these are fewer."""
        error = self.rows * np.exp(-4 * noise / (1 + noise) * self.second)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.rows * self.tilt[0] ** 2 / self.double
        return float(np.nan_to_num(min(error, mean)))


def original_mean(tilted: Tilted, noise: float, of: Of, name: str) -> Estimate:
    """Return the mean of X from moments of the copy of log(1 + X).

    Raises ColumnError where the noise leaves too few rows to tell it.
    """
    if not tilted.effective_rows(noise) >= EFFECTIVE:
        raise ColumnError(
            f"{name!r}: noise of variance {noise / (1 + noise) * tilted.second:.2g} on log(1 + x) "
            f"is too much for {tilted.rows:,} rows to tell the mean of x; ask for mean(), on the "
            "scale of logs, for the distribution, or for a copy with less noise"
        )
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
