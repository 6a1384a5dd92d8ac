"""The distribution of one numeric column, reconstructed from its copy.

On a grid: the copy falls into bins j, the original into cells i of probability theta_i, and
the noise is normal with the known variance s^2 = v/(1+v) Var(Y):

    A_ji = P(Y in bin j | X uniform in cell i)

theta is estimated by EM (Agrawal and Aggarwal, PODS 2001), see `_mixture`. EM stops at the
first step that raises the log-likelihood of the whole copy by less than 0.005; further
steps would fit the copy's random fluctuations. `shortfall` is how much is left to the
greatest likelihood; a few units are chance. More rows give more steps and finer detail, but
slowly: deconvolution from normal noise converges logarithmically.

Through the noise an atom looks like a narrow peak beside it, so the copy does not determine
which of the two it is. `mass_interval` holds all masses with which some histogram fits;
`mass` is the one with which the smooth estimate fits best. (EM with a free mass would stop
near its starting value.)

A rounded column is counted in bins whose edges lie halfway between its steps. Rounding
moves no value to another bin, so it needs no correction here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from cornerwave.arrays import Floats, normal_shares
from cornerwave.errors import ColumnError
from cornerwave.miner._covariance import undo
from cornerwave.miner._estimates import normal_quantile, number_blocks
from cornerwave.miner._metadata import LOG1P, CopyColumn
from cornerwave.moments import Moments
from cornerwave.sources import Source

# --------------------------------------------------------------------------------------------------
# Weights of a mixture from counts: the smooth estimate, the greatest likelihood, intervals.
#
# Counts n_j fall into bins with probabilities f = A theta, where theta_i >= 0 are the weights
# of the parts and A_ji = P(bin j | part i). The log-likelihood sum_j n_j log f_j is concave.
#
# Smooth estimate: EM (Richardson-Lucy) from equal weights, stopped early,
#
#     theta_i <- theta_i sum_j n_j A_ji / (A theta)_j          scaled to the given total
#
# Greatest likelihood: a primal-dual interior point method (Boyd and Vandenberghe, Convex
# Optimization, 11.7). It solves, for mu -> 0,
#
#     g_i(theta) + z_i = nu,   theta_i z_i = mu,   sum theta = total      g: the gradient
#
# in about 20 Newton steps. EM would need more than 20,000 steps to come within 0.5 of it.
# Concavity proves how close it is: no weights of the same total exceed theta by more than the
# gap, max_i g_i total - g'theta.
#
# Interval of one weight: the values m for which 2 (greatest - greatest given theta_i = m) is
# below the quantile of chi^2 with one degree of freedom (profile likelihood). It is wide if
# the noise makes the part look like a mixture of others.


TOLERANCE = 0.005
"""EM stops when a step raises the log-likelihood of all counts by less."""
MOST_STEPS = 20_000
GAP = 0.01
"""A gap that is small enough: a 95 % interval is a difference of 1.9."""
CENTRING = 0.2
"""The factor by which each Newton step aims to reduce mu."""
TO_BOUNDARY = 0.95
"""The share of the way to theta = 0 or z = 0 that a step may go."""
MOST_NEWTON_STEPS = 100
HALVINGS = 8
"""An end of an interval is exact to 2^-8 of its range."""


@dataclass(frozen=True)
class MixtureWeights:
    """Weights (m,), their log-likelihood, and whether they met the stopping rule."""

    theta: Floats
    height: float
    converged: bool


@dataclass(frozen=True)
class Mixture:
    """Counts (B,), all above 0, and the parts A (B, m).

    In all methods `offset` (B,) is what other parts contribute to f, and `total` the sum
    of the weights.

    >>> coin = Mixture(np.array([30.0, 70.0]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> coin.best.theta.round(3).tolist(), [round(end, 2) for end in coin.interval(0, 0.95)]
    ([0.25, 0.75], [0.14, 0.37])
    """

    counts: Floats
    A: Floats

    @cached_property
    def best(self) -> MixtureWeights:
        """The weights of greatest likelihood."""
        return self.greatest()

    def smooth(
        self,
        offset: Floats | float = 0.0,
        total: float = 1.0,
        *,
        tolerance: float = TOLERANCE,
        most_steps: int = MOST_STEPS,
    ) -> MixtureWeights:
        """Climb by EM until a step raises the log-likelihood by less than `tolerance`."""
        theta, before = self._equal(total), -math.inf
        for _ in range(most_steps):
            f = offset + self.A @ theta
            height = float(self.counts @ np.log(f))
            if height - before < tolerance:
                return MixtureWeights(theta, height, converged=True)
            before = height
            theta = theta * (self.A.T @ (self.counts / f))
            theta = theta * (total / theta.sum())
        height = float(self.counts @ np.log(offset + self.A @ theta))
        return MixtureWeights(theta, height, converged=False)

    def greatest(self, offset: Floats | float = 0.0, total: float = 1.0) -> MixtureWeights:
        """Maximise the likelihood, up to GAP."""
        theta = self._equal(total)
        z = np.full_like(theta, self.counts.sum() / total)
        for _ in range(MOST_NEWTON_STEPS):
            f = offset + self.A @ theta
            gradient = self.A.T @ (self.counts / f)
            gap = total * gradient.max() - gradient @ theta
            if gap <= GAP:
                break
            mu = CENTRING * (theta @ z) / len(theta)
            change = self._newton(theta, z, f, theta * gradient + mu)
            z_change = mu / (theta * z) - change - 1
            theta = theta * (1 + _reach(change) * change)
            theta = theta * (total / theta.sum())  # removes rounding errors only
            z = z * (1 + _reach(z_change) * z_change)
        return MixtureWeights(theta, float(self.counts @ np.log(f)), converged=bool(gap <= GAP))

    def interval(self, part: int, confidence: float) -> tuple[float, float]:
        """Return the interval of one part's weight, all other weights being free."""
        others = Mixture(self.counts, np.delete(self.A, part, axis=1))
        least = self.best.height - normal_quantile(confidence) ** 2 / 2

        def is_likely(m: float) -> bool:
            return others.greatest(m * self.A[:, part], 1 - m).height >= least

        def end(inside: float, outside: float) -> float:
            if is_likely(outside):
                return outside
            for _ in range(HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if is_likely(middle) else (inside, middle)
            return outside

        estimate = float(self.best.theta[part])
        return end(estimate, 0.0), end(estimate, 1 - 1e-9)

    def _newton(self, theta: Floats, z: Floats, f: Floats, right: Floats) -> Floats:
        """Return the Newton step relative to theta.

        Eliminating z leaves H step = theta g + mu - nu theta, H = B' diag(n) B + diag(theta z),
        and nu follows from theta'step = 0, which keeps the total.
        """
        B = self.A * theta / f[:, None]
        H = (B.T * self.counts) @ B + np.diag(theta * z)
        plain, per_nu = np.linalg.solve(H, np.column_stack([right, theta])).T
        return np.asarray(plain - (theta @ plain) / (theta @ per_nu) * per_nu)

    def _equal(self, total: float) -> Floats:
        return np.full(self.A.shape[1], total / self.A.shape[1])


def _reach(change: Floats) -> float:
    """Return how much of a relative change leaves every value above 0; 1 at most."""
    lowest = float(change.min())
    return min(1.0, TO_BOUNDARY / -lowest) if lowest < 0 else 1.0


CELLS = 120
VALUE_BINS = 400
CONFIDENCE = 0.95
FINEST = 0.25
"""The narrowest bin in standard deviations of the noise: finer bins add 0.5 % of information."""
REACH = 6.0
"""How many standard deviations from the mean a histogram covers."""
SHARPEST = 1e-3
"""The least standard deviation of the noise, in cells: a kept column has none."""
GRID, ROUNDS = 7, 3
"""A mass is sought on a grid of so many points, so many times, each around the last best."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """A histogram with point masses: the reconstructed distribution of a column.

    `edges` (cells + 1,) and `probability` (cells,) are the continuous part, `atoms` and
    `mass` the values that many rows share, `mass_interval` (atoms, 2) the confidence
    intervals of the masses. All probabilities sum to 1. `shortfall` is the difference from
    the greatest log-likelihood; `converged` is whether EM met its stopping rule.

    >>> flat = Distribution(np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.25]),
    ...                     np.array([0.0]), np.array([0.5]), np.array([[0.4, 0.6]]),
    ...                     converged=True, shortfall=0.0)
    >>> flat.cdf([-1.0, 0.0, 1.0]).tolist(), flat.quantile([0.25, 0.75]).tolist()
    ([0.0, 0.5, 0.75], [0.0, 1.0])
    """

    edges: Floats
    probability: Floats
    atoms: Floats
    mass: Floats
    mass_interval: Floats
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
        cumulative = np.concatenate([[0.0], np.cumsum(self.probability)])
        points = (self.mass * (self.atoms <= at[..., None])).sum(axis=-1)
        return np.asarray(np.interp(at, self.edges, cumulative) + points)

    def quantile(self, p: Sequence[float] | Floats | float) -> Floats:
        """Return the smallest x with P(X <= x) >= p, elementwise, interpolated in a cell."""
        x = np.unique(np.concatenate([self.edges, self.atoms]))
        right = self.cdf(x)
        at_x = (self.mass * (self.atoms == x[:, None])).sum(axis=-1)
        # the cdf as a line through (x, left limit) and (x, right limit): atoms are vertical
        heights = np.column_stack([right - at_x, right]).ravel()
        return np.asarray(np.interp(np.asarray(p, dtype=np.float64), heights, np.repeat(x, 2)))


def distribution_of(
    source: Source,
    column: CopyColumn,
    moments: Moments,
    *,
    support: tuple[float, float] | None,
    atoms: Sequence[float],
    cells: int,
    confidence: float,
) -> Distribution:
    """Return the reconstructed distribution of a column, on its original scale."""
    is_log = column.transform == LOG1P
    forward: Callable[[Floats], Floats] = np.log1p if is_log else np.asarray
    middle, far = float(moments.mean[0]), REACH * float(moments.deviation[0])
    seen = max(float(moments.lowest[0]), middle - far), min(float(moments.highest[0]), middle + far)
    low, high = map(float, forward(np.array(support))) if support else seen
    if not low < high:
        raise ColumnError(
            f"{column.name!r}: the column is constant, or the lower end of its support is not "
            "below the upper one"
        )
    edges = np.linspace(low, high, cells + 1)
    variance = column.noise * float(undo(moments.covariance, [column])[0, 0])
    deviation = max(math.sqrt(max(variance, 0.0)), SHARPEST * (edges[1] - edges[0]))
    bins = bins_of(seen, column.step, FINEST * deviation, column.origin)
    mixture = reconstruct(
        _histogram(source, column, bins),
        bins,
        deviation=deviation,
        edges=edges,
        atoms=forward(np.array(atoms, dtype=np.float64)).tolist(),
        confidence=confidence,
    )
    # an increasing transform keeps the probabilities of cells and atoms
    back = np.expm1 if is_log else np.asarray
    return replace(mixture, edges=back(mixture.edges), atoms=back(mixture.atoms))


def reconstruct(
    counts: Floats,
    bins: Floats,
    *,
    deviation: float,
    edges: Floats,
    atoms: Sequence[float] = (),
    confidence: float = CONFIDENCE,
) -> Distribution:
    """Return the distribution of X from counts (B,) of X + noise between `bins` (B + 1,).

    `deviation` is the noise's standard deviation; `edges` (cells + 1,) is the grid of X.
    The first and last bin extend to infinity.
    """
    points = np.asarray(atoms, dtype=np.float64)
    seen, cells = counts > 0, len(edges) - 1
    A = np.hstack([cell_kernel(bins, edges, deviation), _atom_kernel(bins, points, deviation)])
    A = A[seen] + np.finfo(float).tiny  # a log-likelihood that is low, but finite
    whole, spread = Mixture(counts[seen], A), Mixture(counts[seen], A[:, :cells])
    intervals = [whole.interval(cells + i, confidence) for i in range(len(points))]

    def smooth(mass: Floats) -> MixtureWeights:
        return spread.smooth(A[:, cells:] @ mass, 1 - mass.sum())

    mass = _best_masses(smooth, whole.best.theta[cells:], intervals)
    smoothed = smooth(mass)
    return Distribution(
        edges,
        smoothed.theta,
        points,
        mass,
        np.array(intervals).reshape(-1, 2),
        smoothed.converged,
        max(whole.best.height - smoothed.height, 0.0),
    )


def _best_masses(
    smooth: Callable[[Floats], MixtureWeights],
    start: Floats,
    intervals: Sequence[tuple[float, float]],
) -> Floats:
    """Return the masses with which the smooth estimate fits best, each within its interval."""
    mass = start.copy()
    for i, (low, high) in enumerate(intervals):
        high = min(high, 1 - (mass.sum() - mass[i]))
        for _ in range(ROUNDS):
            tried = np.linspace(low, high, GRID)
            heights = [smooth(np.where(np.arange(len(mass)) == i, m, mass)).height for m in tried]
            best = int(np.argmax(heights))
            low, high = tried[max(best - 1, 0)], tried[min(best + 1, GRID - 1)]
        mass[i] = tried[best]
    return mass


def bins_of(
    seen: tuple[float, float], step: float, finest: float = 0.0, origin: float = 0.0
) -> Floats:
    """Return the edges of at most VALUE_BINS bins, none narrower than `finest`.

    The bins of a rounded column hold whole numbers of steps, its values in the middle: they are
    whole steps away from the `origin`.

    >>> bins_of((0.0, 3.0), 1.0)
    array([-0.5,  0.5,  1.5,  2.5,  3.5])
    """
    low, high = seen[0] - origin, seen[1] - origin
    most = min(VALUE_BINS, max(math.floor((high - low) / finest), 1)) if finest else VALUE_BINS
    # beyond 2^53 steps doubles no longer hold every multiple of it
    if not step or max(abs(low), abs(high)) / step > 2.0**53:
        return origin + np.linspace(low, high, most + 1)
    first, last = round(low / step), round(high / step)
    width = math.ceil((last - first + 1) / most)
    number = math.ceil((last - first + 1) / width)
    return np.asarray(origin + (first - 0.5 + width * np.arange(number + 1)) * step)


def _histogram(source: Source, column: CopyColumn, bins: Floats) -> Floats:
    """Return counts (B,) between `bins` (B + 1,); values beyond count in the outermost bins."""
    counts = np.zeros(len(bins) - 1)
    for block in number_blocks(source, [column]):
        values = np.clip(block[~np.isnan(block)], bins[0], bins[-1])
        counts += np.histogram(values, bins)[0]
    return counts


def cell_kernel(bins: Floats, edges: Floats, deviation: float) -> Floats:
    """Return P(X + noise in bin j | X uniform in cell i) (B, cells).

    The mean over the cell of Phi(b - x) is a difference of G(z) = z Phi(z) + phi(z).
    """
    z = (bins[:, None] - edges[None, :]) / deviation
    G = z * normal_shares(z) + np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return _between((G[:, :-1] - G[:, 1:]) * deviation / np.diff(edges))


def _atom_kernel(bins: Floats, values: Floats, deviation: float) -> Floats:
    """Return P(value + noise in bin j) (B, values)."""
    return _between(normal_shares((bins[:, None] - values[None, :]) / deviation))


def _between(below: Floats) -> Floats:
    below[0], below[-1] = 0.0, 1.0  # the outermost bins extend to infinity
    return np.maximum(np.diff(below, axis=0), 0.0)
