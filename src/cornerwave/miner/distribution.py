"""The distribution of one numeric column, reconstructed from its copy.

EM of Agrawal and Aggarwal, PODS 2001, on a grid: the copy falls into bins j, the
original into cells i of probability theta_i, and the noise is normal with the known
variance s^2 = v/(1+v) Var(Y), plus step^2/12 where the copy was rounded:

    A_ji = P(Y in bin j | X uniform in cell i),   theta_i <- theta_i sum_j n_j/n A_ji / (A theta)_j

Each step raises the likelihood. It stops at the first step that raises the
log-likelihood of the whole copy by less than `tolerance`: what a further step could
gain is then less than chance, and following the copy's own accidents is what makes
such estimates rough. More rows mean more steps and finer detail, but slowly:
deconvolution from normal noise is logarithmic in the number of rows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cornerwave.errors import ColumnError

Floats = NDArray[np.float64]

CELLS = 120
BINS = 400
TOLERANCE = 0.005
"""A step must raise the log-likelihood of the whole copy by this to be followed by another."""
MOST_STEPS = 20_000


@dataclass(frozen=True, eq=False)
class Distribution:
    """A histogram with point masses: what the original column looks like.

    `edges` (cells + 1,) and `probability` (cells,) are the spread-out part, `atoms` and
    `mass` the values that many rows share. All probabilities sum to 1.

    >>> flat = Distribution(np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.25]),
    ...                     np.array([0.0]), np.array([0.5]), steps=1, converged=True)
    >>> flat.cdf([-1.0, 0.0, 1.0]).tolist(), flat.quantile([0.25, 0.75]).tolist()
    ([0.0, 0.5, 0.75], [0.0, 1.0])
    """

    edges: Floats
    probability: Floats
    atoms: Floats
    mass: Floats
    steps: int
    converged: bool

    @property
    def density(self) -> Floats:
        """Probability per unit in each cell."""
        return np.asarray(self.probability / np.diff(self.edges))

    @property
    def mean(self) -> float:
        """The mean of the reconstructed distribution."""
        middle = (self.edges[1:] + self.edges[:-1]) / 2
        return float(middle @ self.probability + self.atoms @ self.mass)

    def cdf(self, x: Sequence[float] | Floats | float) -> Floats:
        """Return P(X <= x), elementwise."""
        at = np.asarray(x, dtype=np.float64)
        spread = np.interp(at, self.edges, self._cumulative)
        points = (self.mass * (self.atoms <= at[..., None])).sum(axis=-1)
        return np.asarray(spread + points)

    def quantile(self, p: Sequence[float] | Floats | float) -> Floats:
        """Return the smallest x with P(X <= x) >= p, elementwise, up to interpolation."""
        x = np.unique(np.concatenate([self.edges, self.atoms]))
        right = self.cdf(x)
        at_x = (self.mass * (self.atoms == x[:, None])).sum(axis=-1)
        heights = np.column_stack([right - at_x, right]).ravel()
        return np.asarray(np.interp(np.asarray(p, dtype=np.float64), heights, np.repeat(x, 2)))

    def on_scale(self, back: Callable[[Floats], Floats]) -> "Distribution":
        """Return the distribution of an increasing function of X: probabilities stay."""
        return replace(self, edges=back(self.edges), atoms=back(self.atoms))

    @property
    def _cumulative(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.probability)])


def reconstruct(
    counts: Floats,
    bins: Floats,
    *,
    deviation: float,
    edges: Floats,
    atoms: Sequence[float] = (),
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
) -> Distribution:
    """Return the distribution of X from counts (B,) of X + noise between `bins` (B + 1,).

    `deviation` is the noise's standard deviation; `edges` (cells + 1,) is where X may
    lie. The outermost bins reach to infinity. Raises ColumnError if nothing was counted.
    """
    rows = counts.sum()
    if rows < 1:
        raise ColumnError("no row has a value: there is no distribution to reconstruct")
    points = np.asarray(atoms, dtype=np.float64)
    A = np.hstack([_spread_out(bins, edges, deviation), _point(bins, points, deviation)])
    cells = len(edges) - 1
    start = np.concatenate([_share(cells, bool(len(points))), _share(len(points), True)])
    theta, steps, converged = _climb(A, counts / rows, start, tolerance / rows, most_steps)
    return Distribution(edges, theta[:cells], points, theta[cells:], steps, converged)


def _share(parts: int, halved: bool) -> Floats:
    """Return the start: nothing is known, so atoms, where there are any, get half."""
    return np.full(parts, (0.5 if halved else 1.0) / max(parts, 1))


def _climb(
    A: Floats, shares: Floats, start: Floats, tolerance: float, most_steps: int
) -> tuple[Floats, int, bool]:
    seen = shares > 0
    A, shares = A[seen] + np.finfo(float).tiny, shares[seen]
    theta, before = start, -math.inf
    for step in range(1, most_steps + 1):
        fit = A @ theta
        likelihood = float(shares @ np.log(fit))
        if likelihood - before < tolerance:
            return theta / theta.sum(), step, True
        before = likelihood
        theta = theta * (A.T @ (shares / fit))
    return theta / theta.sum(), most_steps, False


def _point(bins: Floats, values: Floats, deviation: float) -> Floats:
    """Return P(value + noise in bin j) (B, values)."""
    below = _phi((bins[:, None] - values[None, :]) / deviation)
    return _between(below)


def _spread_out(bins: Floats, edges: Floats, deviation: float) -> Floats:
    """Return P(X + noise in bin j | X uniform in cell i) (B, cells).

    The mean over the cell of Phi(b - x) is a difference of G(z) = z Phi(z) + phi(z).
    """
    z = (bins[:, None] - edges[None, :]) / deviation
    G = z * _phi(z) + np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = (G[:, :-1] - G[:, 1:]) * deviation / np.diff(edges)
    return _between(below)


def _between(below: Floats) -> Floats:
    below = below.copy()
    below[0], below[-1] = 0.0, 1.0
    return np.maximum(np.diff(below, axis=0), 0.0)


def _phi(z: Floats) -> Floats:
    erf = np.asarray(np.frompyfunc(math.erf, 1, 1)(z / math.sqrt(2)), dtype=np.float64)
    return (1 + erf) / 2
