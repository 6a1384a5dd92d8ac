"""What a copy leaves hidden of a column, beside what it states.

    h = sum L / sum V         L squared errors of an estimate, V squares about the mean

Its error is that of a ratio of sums, over rows, or over persons whose rows belong together.
"""

import math
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._attacks import ATTACKS, Target
from cornerwave.audit._chance import t_limit

TOLERANCE = 0.95
"""What a copy states is measured when it is registered, in other rows: a copy that leaves this
share of it hidden keeps its promise."""


@dataclass(frozen=True)
class Left:
    """What a whole copy leaves hidden of a column, as a share of its variance, from one attack.

    `stated` is the share that the copy states, None if it states none; an honest copy falls
    below TOLERANCE of that by more than `margin` only as often as ALPHA allows. If it is short,
    `reveals` names what reveals most without noise, and how.
    """

    column: str
    hidden: float
    error: float
    margin: float
    stated: float | None
    attack: str = "linear"
    reveals: str | None = None

    @property
    def off(self) -> float:
        """How much less is hidden than stated, in margins."""
        return (TOLERANCE * (self.stated or 0.0) - self.hidden) / self.margin

    @property
    def is_measured(self) -> bool:
        """Whether a hidden share, which lies between 0 and 1, is known better than that.

        >>> Left("wage", 0.51, 0.01, 0.04, 0.5).is_measured
        True
        >>> Left("wage", 1.4, 2.6, 10.5, 0.5).is_measured
        False
        """
        return self.margin < 1

    @property
    def short(self) -> bool:
        """Whether less is hidden than stated, beyond chance."""
        return self.stated is not None and self.off > 1

    def __str__(self) -> str:
        attack = ATTACKS.get(self.attack, f"all attacks together on {self.attack}")
        mostly = f", mostly {self.reveals}" if self.reveals else ""
        return (
            f"{self.hidden:.3f} of {self.column} stays hidden from {attack}{mostly}, "
            f"and it states {self.stated or 0.0:.3f}"
        )


@dataclass(frozen=True)
class Loss:
    """The hidden share h of a column, its error, and the rows that this rests on."""

    hidden: float
    error: float
    freedom: int
    rows: float
    category: bool
    variance: float

    @classmethod
    def of(
        cls,
        target: Target,
        L: Floats,
        *,
        sampled: bool,
        clusters: Ints | None = None,
        weights: Floats | None = None,
    ) -> "Loss":
        values = target.values[:, target.present]
        w = np.ones(len(L)) if weights is None else weights[target.present]
        w = w / w.mean()
        # L and V are sums over coordinates: h = mean L / mean V
        V = w * ((values - (w * values).mean(axis=1, keepdims=True)) ** 2).sum(axis=0)
        n, variance, L = len(L), float(V.mean()), w * L
        h = float(L.mean()) / variance
        # control variate b V: b = h^2 for given X, b = h for sampled rows
        u = (L - (h if sampled else h * h) * V) / variance
        off = u - u.mean()
        if clusters is not None:  # rows of one strip count as one
            off = np.bincount(clusters[target.present], off)
        squares = off**2
        # twice the variance in a sample: what is stated stems from another
        error = math.sqrt(float(squares.sum()) * (1 + sampled)) / n
        # If few rows have most of the error, it is known no better than from so many rows.
        # effective rows, (sum of squares)^2 / sum of fourth powers
        freedom = float(squares.sum()) ** 2 / max(float((squares**2).sum()), 1e-300)
        # as many rows of equal weight
        rows = n / float((w**2).mean())
        return cls(h, error, max(int(freedom), 1), rows, target.category, variance)

    def beside(self, name: str, stated: float | None, alpha: float, attack: str) -> Left:
        """Return it beside what is stated: a change that rows do not show may be a chance."""
        p = self.hidden if stated is None else stated
        error = max(self.error, self.least_error(min(p, 1.0)), 1e-9)
        # one-sided: only too little hidden is a fault
        margin = t_limit(2 * alpha, self.freedom) * error
        return Left(name, self.hidden, error, margin, stated, attack)

    def least_error(self, p: float) -> float:
        """Return the error of honest noise that hides p (as in `promise`), or of a fair refresh."""
        if self.category:  # of two values with even shares, 2 p (1 - p) / variance
            return math.sqrt(2 * p * (1 - p) / self.rows / self.variance)
        # v sqrt((4 v + 2) / n) / (1 + v)^2 with v = p / (1 - p)
        return p * math.sqrt(2 * (1 - p * p) / self.rows)
