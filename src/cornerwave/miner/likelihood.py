"""The greatest likelihood of a mixture, with proof, and what it leaves open about one part.

A copy's counts n_j fall into bins with probabilities f = A theta, theta_i >= 0 the weights
of the parts and A_ji = P(bin j | part i). The log-likelihood sum_j n_j log f_j is concave,
so with its gradient g no weights of the same sum do better than

    max_i g_i sum(theta) - g'theta

above theta: the gap, which proves how near the greatest is. It is found by Newton's method
on the log-likelihood plus mu sum log theta_i, for mu falling to 0 (an interior point
method; EM would take 10^5 steps).

Parts that the noise makes alike can stand for each other. What the copy says of one weight
is the interval of all values m with 2 (greatest - greatest given theta_i = m) below the
quantile of chi^2 with one degree of freedom (profile likelihood).
"""

from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.miner.estimate import normal_quantile

GAP = 0.01
"""How far below the greatest log-likelihood is near enough: an interval asks for 1.9."""
SHRINK = 5.0
"""By what the barrier falls from one centre to the next."""
MOST_STEPS = 50
HALVINGS = 8
"""An interval's end is found to 2^-8 of where it may lie."""


@dataclass(frozen=True)
class Mixture:
    """Counts (B,), all above 0, and the parts A (B, m) that they are a mixture of.

    >>> coin = Mixture(np.array([30.0, 70.0]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> coin.greatest()[0].round(3).tolist(), [round(end, 2) for end in coin.interval(0, 0.95)]
    ([0.25, 0.75], [0.14, 0.37])
    """

    counts: Floats
    A: Floats

    def greatest(
        self, *, offset: Floats | float = 0.0, total: float = 1.0
    ) -> tuple[Floats, float, float]:
        """Return weights of this total, their log-likelihood, and the gap to the greatest.

        `offset` (B,) is what other parts give to the bins.
        """
        theta = np.full(self.A.shape[1], total / self.A.shape[1])
        barrier = self.counts.sum() / self.A.shape[1]
        while True:
            barrier /= SHRINK
            theta = self._centre(theta, offset, barrier, total)
            f = offset + self.A @ theta
            gradient = self.A.T @ (self.counts / f)
            gap = float(total * gradient.max() - gradient @ theta)
            if gap <= GAP or barrier < GAP / SHRINK / len(theta):
                return theta, float(self.counts @ np.log(f)), gap

    def interval(self, part: int, confidence: float) -> tuple[float, float]:
        """Return between which weights of a part the likelihood says nothing of weight."""
        theta, greatest, _ = self.greatest()
        others = Mixture(self.counts, np.delete(self.A, part, axis=1))
        limit = normal_quantile(confidence) ** 2 / 2

        def is_likely(m: float) -> bool:
            _, given, _ = others.greatest(offset=m * self.A[:, part], total=1 - m)
            return greatest - given <= limit

        def end(inside: float, outside: float) -> float:
            if is_likely(outside):
                return outside
            for _ in range(HALVINGS):
                middle = (inside + outside) / 2
                inside, outside = (middle, outside) if is_likely(middle) else (inside, middle)
            return outside

        found = float(theta[part])
        return end(found, 0.0), end(found, 1 - 1e-9)

    def _centre(
        self, theta: Floats, offset: Floats | float, barrier: float, total: float
    ) -> Floats:
        """Climb counts'log(f) + barrier * sum log theta by Newton steps, the total held."""

        def height(weights: Floats) -> float:
            f = offset + self.A @ weights
            return float(self.counts @ np.log(f) + barrier * np.log(weights).sum())

        for _ in range(MOST_STEPS):
            step, rise = self._newton(theta, offset, barrier)
            size = min(1.0, 0.99 / max(float(-step.min()), 1e-300))
            before = height(theta)
            while size > 1e-12 and height(theta * (1 + size * step)) < before + 1e-4 * size * rise:
                size /= 2
            theta = theta * (1 + size * step)
            theta = theta * (total / theta.sum())
            if rise < barrier / 2:
                break
        return theta

    def _newton(
        self, theta: Floats, offset: Floats | float, barrier: float
    ) -> tuple[Floats, float]:
        """Return Newton's step as shares of theta, and the rise that it promises."""
        B = self.A * theta / (offset + self.A @ theta)[:, None]
        gradient = B.T @ self.counts + barrier
        H = (B.T * self.counts) @ B + barrier * np.eye(len(theta))
        plain, level = np.linalg.solve(H, np.column_stack([gradient, theta])).T
        step = plain - (theta @ plain) / (theta @ level) * level
        return step, float(step @ gradient)
