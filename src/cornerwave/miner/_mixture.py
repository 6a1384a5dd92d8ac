"""Weights of a mixture from counts: the smooth estimate, the greatest likelihood, intervals.

Counts n_j fall into bins with probabilities f = A theta, where theta_i >= 0 are the weights
of the parts and A_ji = P(bin j | part i). The log-likelihood sum_j n_j log f_j is concave.

Smooth estimate: EM (Richardson-Lucy) from equal weights, stopped early,

    theta_i <- theta_i sum_j n_j A_ji / (A theta)_j          scaled to the given total

Greatest likelihood: a primal-dual interior point method (Boyd and Vandenberghe, Convex
Optimization, 11.7). It solves, for mu -> 0,

    g_i(theta) + z_i = nu,   theta_i z_i = mu,   sum theta = total      g: the gradient

in about 20 Newton steps. EM would need more than 20,000 steps to come within 0.5 of it.
Concavity proves how close it is: no weights of the same total exceed theta by more than the
gap, max_i g_i total - g'theta.

Interval of one weight: the values m for which 2 (greatest - greatest given theta_i = m) is
below the quantile of chi^2 with one degree of freedom (profile likelihood). It is wide if
the noise makes the part look like a mixture of others.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.miner._estimates import normal_quantile

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

        found = float(self.best.theta[part])
        return end(found, 0.0), end(found, 1 - 1e-9)

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
