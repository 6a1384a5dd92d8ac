"""The covariance of a row's noise across editions, exactly.

    Cov(W_e(u), W_f(v)) = min(u, v) S_ef

    S_00 = K,   S_ef = T_e S_{e-1,f}  for f < e,   S_ee = T_e S_{e-1,e-1} T_e' + R_e

T_e has the rows of `carry` for the columns that changed and those of the identity for the
others; R_e is fresh fresh' in the columns that changed.
"""

from collections.abc import Sequence

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.history._transition import Transition


def noise_across(
    covariance: Floats, transitions: Sequence[Transition], changed: Sequence[Flags]
) -> Floats:
    """Return S, (E N, E N), for E = 1 + the number of transitions, edition after edition.

    covariance: K, the noise's shape in the first edition; changed: which columns (N,) of the
    row each of the later editions changed. It is in units of the level's noise.

    >>> step = Transition(np.eye(1), np.eye(1))
    >>> noise_across(np.eye(1), [step, step], [np.array([True])] * 2).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 3.0]]
    """
    columns = len(covariance)
    across = np.array(covariance, dtype=np.float64)
    for step, cells in zip(transitions, changed, strict=True):
        carry = np.where(cells[:, None], step.carry, np.eye(columns))
        fresh = np.where(cells[:, None], step.fresh, 0.0)
        past = carry @ across[-columns:]
        now = past[:, -columns:] @ carry.T + fresh @ fresh.T
        across = np.block([[across, past.T], [past, now]])
    return across
