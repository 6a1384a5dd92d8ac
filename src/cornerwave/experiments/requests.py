"""Copies asked for one by one, as in the paper's first experiment.

M requests arrive at noise drawn uniformly from [0.25, 1]. Ours are generated on
demand, each given the copies before it (Algorithm 3); the others independently.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cornerwave.algorithms import corner_wave, on_demand
from cornerwave.arrays import Floats
from cornerwave.attack import Independent
from cornerwave.experiments.setting import Setting

LOWEST, HIGHEST = 0.25, 1.0


@dataclass(frozen=True, eq=False)
class Requests:
    """The noise (M,) of each request in order, and the copies of both schemes, M times (T, N)."""

    noise: Floats
    ours: list[Floats]
    independent: list[Floats]

    @property
    def across_ours(self) -> Floats:
        """The covariance of our copies' noise, in units of K."""
        return corner_wave(self.noise.tolist())

    @property
    def across_independent(self) -> Floats:
        """The covariance of independent noise, in units of K."""
        return np.diag(self.noise)


@lru_cache(maxsize=1)
def asked(setting: Setting) -> Requests:
    """Return the copies of a setting; the figures of one run share them."""
    rng = np.random.default_rng([setting.seed, 2])
    noise = rng.uniform(LOWEST, HIGHEST, setting.effort.copies)
    X, seed = setting.table.rows, setting.seed
    ours = one_by_one(X, noise, seed=seed)
    independent = Independent().copies(X, noise=noise.tolist(), unsafe_seed=seed)
    return Requests(noise, ours, independent)


def one_by_one(X: Floats, noise: Floats, *, seed: int) -> list[Floats]:
    """Return copies of X (T, N), each generated on demand given all before it."""
    given: dict[float, Floats] = {}
    for level in noise.tolist():
        [given[level]] = on_demand(X, noise=[level], given=given, unsafe_seed=seed)
    return list(given.values())
