"""The covariance of a row's noise across editions, exactly.

    Cov(W_e(u), W_f(v)) = min(u, v) S_ef

    S_00 = K,   S_ef = M_e S_{e-1,f}  for f < e,   S_ee = M_e S_{e-1,e-1} M_e' + B_e B_e'

M_e is the identity, and B_e is 0, in the columns that edition e did not change.
"""

from collections.abc import Sequence

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.history._transition import Transition


def noise_across(covariance: Floats, rules: Sequence[Transition | None]) -> Floats:
    """Return S, (E N, E N), for E = 1 + len(rules), edition after edition.

    covariance: K, the noise's shape in the first edition; rules: that of the row in each later
    edition, None where it did not change. It is in units of the level's noise.

    >>> step = Transition((0,), np.eye(1), np.eye(1))
    >>> noise_across(np.eye(1), [step, None]).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 2.0]]
    """
    columns = len(covariance)
    across = np.array(covariance, dtype=np.float64)
    for rule in rules:
        carry, fresh = np.eye(columns), np.zeros((columns, columns))
        if rule is not None:
            here = list(rule.columns)
            carry[here] = rule.carry
            fresh[np.ix_(here, here)] = rule.fresh
        past = carry @ across[-columns:]
        now = past[:, -columns:] @ carry.T + fresh @ fresh.T
        across = np.block([[across, past.T], [past, now]])
    return across
