"""The covariance of a row's noise across editions, exactly, and of values that it may have.

    Cov(W_e(u), W_f(v)) = min(u, v) S_ef

    S_00 = K,   S_ef = M_e S_{e-1,f}  for f < e,   S_ee = M_e S_{e-1,e-1} M_e' + B_e B_e'

M_e is the identity, and B_e is 0, in the columns that edition e did not change.

Of the values only one step at a time was measured, y = A x + e with Q = Cov(e). Two histories
with these steps: in a drifting one e is independent of all that was before, so that A and a
factor of Q take the places of M and B. In a personal one a level of covariance U stays, and the
rest is drawn anew at each change: H_ef = K if no edition between e and f changed the row, else U.
"""

from collections.abc import Callable, Sequence

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.history._transition import Transition

Rules = Sequence[Transition | None]
"""By which rule each edition after the first changed a row; None if it did not."""


def noise_across(covariance: Floats, rules: Rules) -> Floats:
    """Return S, (E N, E N), for E = 1 + len(rules), edition after edition.

    covariance: K, the noise's shape in the first edition. S is in units of the level's noise.

    >>> one = np.eye(1)
    >>> step = Transition((0,), carry=one, fresh=one, regression=one, remainder=one)
    >>> noise_across(one, [step, None]).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 2.0]]
    """
    return _across(covariance, rules, lambda rule: rule.of_noise)


def drifting_history(covariance: Floats, rules: Rules) -> Floats:
    """Return the covariance of values, (E N, E N), that keep nothing but what A keeps."""
    return _across(covariance, rules, lambda rule: rule.of_values)


def personal_history(covariance: Floats, rules: Rules) -> Floats:
    """Return the covariance of values, (E N, E N), with a level that stays for ever."""
    steps = [rule for rule in rules if rule is not None]
    level = _level(covariance, steps) if steps else covariance
    changes = np.cumsum([0, *(rule is not None for rule in rules)])
    same = (changes[:, None] == changes).astype(np.float64)
    return np.asarray(np.kron(same, covariance) + np.kron(1 - same, level))


def _level(covariance: Floats, steps: Sequence[Transition]) -> Floats:
    """Return U: the covariance of values before and after a change, on average; 0 <= U <= K."""
    cross = np.zeros_like(covariance)
    for step in steps:
        regression = np.eye(len(covariance))
        regression[list(step.columns)] = step.regression
        cross += regression @ covariance / len(steps)
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 1e-9 * len(values)
    root = scale[:, None] * vectors[:, kept] * np.sqrt(values[kept])
    white = np.linalg.pinv(root) @ (cross + cross.T) / 2 @ np.linalg.pinv(root).T
    shares, axes = np.linalg.eigh(white)
    axes = root @ axes
    return np.asarray(axes * np.clip(shares, 0.0, 1.0) @ axes.T)


def _across(
    covariance: Floats, rules: Rules, matrices: Callable[[Transition], tuple[Floats, Floats]]
) -> Floats:
    size = len(covariance)
    across = np.array(covariance, dtype=np.float64)
    for rule in rules:
        carry, fresh = np.eye(size), np.zeros((size, size))
        if rule is not None:
            here = list(rule.columns)
            carry[here], fresh[np.ix_(here, here)] = matrices(rule)
        past = carry @ across[-size:]
        now = past[:, -size:] @ carry.T + fresh @ fresh.T
        across = np.block([[across, past.T], [past, now]])
    return across
