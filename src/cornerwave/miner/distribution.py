"""The distribution of one numeric column, reconstructed from its copy.

EM of Agrawal and Aggarwal, PODS 2001, on a grid: the copy falls into bins j, the
original into cells i of probability theta_i, and the noise is normal with the known
variance s^2 = v/(1+v) Var(Y), plus step^2/12 where the copy was rounded:

    A_ji = P(Y in bin j | X uniform in cell i),   theta_i <- theta_i sum_j n_j/n A_ji / (A theta)_j

Each step raises the likelihood. It stops at the first step that raises the
log-likelihood of the whole copy by less than `tolerance`: following the copy's own
accidents further is what makes such estimates rough. `shortfall` says how much is left to
the greatest likelihood, which is known exactly (`likelihood`); a few units are chance.
More rows mean more steps and finer detail, but slowly: deconvolution from normal noise is
logarithmic in the number of rows.

Through the noise an atom looks like a narrow hill beside it, so the copy leaves open which
of the two it is: `mass_interval` holds all masses with which some histogram fits. `mass` is
the one with which the stopped EM fits best: it starts flat, so it is what no smooth
histogram accounts for. (EM with a free mass would stop near the mass that it started with.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner.likelihood import Mixture

CELLS = 120
BINS = 400
CONFIDENCE = 0.95
TOLERANCE = 0.005
"""A step must raise the log-likelihood of the whole copy by this to be followed by another."""
MOST_STEPS = 20_000
GOLDEN = (math.sqrt(5) - 1) / 2
SECTIONS = 9
"""Steps of the search for a mass, each of which leaves 0.62 of where it may lie."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A histogram with point masses: what the original column looks like.

    `edges` (cells + 1,) and `probability` (cells,) are the spread-out part, `atoms` and
    `mass` the values that many rows share, with a `mass_interval` (atoms, 2) each. All
    probabilities sum to 1. `shortfall` is how far the log-likelihood of the copy lies below
    the greatest; `converged` says whether EM stopped by its rule.

    >>> flat = Distribution(np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.25]),
    ...                     np.array([0.0]), np.array([0.5]), np.array([[0.4, 0.6]]),
    ...                     steps=1, converged=True, shortfall=0.0)
    >>> flat.cdf([-1.0, 0.0, 1.0]).tolist(), flat.quantile([0.25, 0.75]).tolist()
    ([0.0, 0.5, 0.75], [0.0, 1.0])
    """

    edges: Floats
    probability: Floats
    atoms: Floats
    mass: Floats
    mass_interval: Floats
    steps: int
    converged: bool
    shortfall: float

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
    confidence: float = CONFIDENCE,
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
    seen, cells = counts > 0, len(edges) - 1
    parts = Mixture(counts[seen], A[seen] + np.finfo(float).tiny)
    best, greatest, _ = parts.greatest()
    intervals = [parts.interval(cells + i, confidence) for i in range(len(points))]

    def climb(mass: Floats) -> tuple[Floats, float, int, bool]:
        return _climb(parts, mass, tolerance, most_steps)

    mass = _masses(lambda mass: climb(mass)[1], best[cells:], intervals)
    theta, height, steps, converged = climb(mass)
    return Distribution(
        edges,
        theta,
        points,
        mass,
        np.array(intervals).reshape(-1, 2),
        steps,
        converged,
        max(greatest - height, 0.0),
    )


def _masses(
    height: Callable[[Floats], float], start: Floats, intervals: Sequence[tuple[float, float]]
) -> Floats:
    """Return the masses of greatest height, each sought within its interval by golden section."""
    mass = start.copy()
    for i, (low, high) in enumerate(intervals):
        others = mass.sum() - mass[i]

        def at(m: float, i: int = i) -> float:
            return height(np.where(np.arange(len(mass)) == i, m, mass))

        high = min(high, 1 - others)
        inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
        heights = [at(m) for m in inner]
        for _ in range(SECTIONS):
            if heights[0] >= heights[1]:
                high, inner, heights = inner[1], [0.0, inner[0]], [0.0, heights[0]]
                inner[0] = high - GOLDEN * (high - low)
                heights[0] = at(inner[0])
            else:
                low, inner, heights = inner[0], [inner[1], 0.0], [heights[1], 0.0]
                inner[1] = low + GOLDEN * (high - low)
                heights[1] = at(inner[1])
        mass[i] = (low + high) / 2
    return mass


def _climb(
    parts: Mixture, mass: Floats, tolerance: float, most_steps: int
) -> tuple[Floats, float, int, bool]:
    """Return the cells' probabilities by EM from a flat start, the atoms' masses held."""
    rows, cells = parts.counts.sum(), parts.A.shape[1] - len(mass)
    A, offset, total = parts.A[:, :cells], parts.A[:, cells:] @ mass, 1 - mass.sum()
    theta, before = np.full(cells, total / cells), -math.inf
    for step in range(1, most_steps + 1):
        fit = A @ theta + offset
        height = float(parts.counts @ np.log(fit))
        if height - before < tolerance:
            return theta, height, step, True
        before = height
        theta = theta * (A.T @ (parts.counts / fit)) / rows
        theta = theta * (total / theta.sum())
    return theta, float(parts.counts @ np.log(A @ theta + offset)), most_steps, False


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
