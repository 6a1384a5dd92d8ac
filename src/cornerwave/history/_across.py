"""The covariance of a row's noise across editions, exactly, and of values that it may have.

    Cov(W_e(u), W_f(v)) = min(u, v) S_ef

S follows from the coefficients of W_e and its lasting part Z_e on independent noise: that of the
first edition and the fresh paths of the editions that changed the row.

Of the values only one step at a time was measured, y = A x + e with Q = Cov(e). Two histories
with these steps: in a drifting one e is independent of all that was before. In a personal one a
level of covariance U stays, and the rest is drawn anew at each change: H_ef = K if no edition
between e and f changed the row, else U.
"""

from collections.abc import Callable, Sequence

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.history._transition import LASTING, LASTING_FIRST, Transition

Rules = Sequence[Transition | None]
"""By which rule each edition after the first changed a row; None if it did not."""


def noise_across(covariance: Floats, rules: Rules) -> Floats:
    """Return S, (E N, E N), for E = 1 + len(rules), edition after edition.

    covariance: K, the noise's shape in the first edition. S is in units of the level's noise.

    >>> one = np.eye(1)
    >>> step = Transition((0,), carry=one, recall=0 * one, fresh=one, remainder=one)
    >>> noise_across(one, [step, None]).round(6).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [1.0, 2.0, 2.0]]
    """
    return _across(covariance, rules, lambda rule: (rule.carry, rule.recall, rule.fresh))


def drifting_history(covariance: Floats, rules: Rules) -> Floats:
    """Return the covariance of values, (E N, E N), that keep nothing but what A keeps."""
    return _across(covariance, rules, lambda rule: (rule.carry, 0 * rule.recall, rule.remainder))


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
        regression[list(step.columns)] = step.carry
        cross += regression @ covariance / len(steps)
    root = _root(covariance)
    white = np.linalg.pinv(root) @ (cross + cross.T) / 2 @ np.linalg.pinv(root).T
    shares, axes = np.linalg.eigh(white)
    axes = root @ axes
    return np.asarray(axes * np.clip(shares, 0.0, 1.0) @ axes.T)


def _root(covariance: Floats) -> Floats:
    """Return X with XX' = K, without the directions that do not vary."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    kept = values > 1e-9 * len(values)
    return np.asarray(scale[:, None] * vectors[:, kept] * np.sqrt(values[kept]))


def _across(
    covariance: Floats,
    rules: Rules,
    matrices: Callable[[Transition], tuple[Floats, Floats, Floats]],
) -> Floats:
    now = _root(covariance)  # coefficients of W_e on independent noise, a row per column
    lasting = LASTING_FIRST * now
    editions = [now]
    for rule in rules:
        if rule is not None:
            carry, recall, fresh = matrices(rule)
            here, new = list(rule.columns), np.zeros((len(covariance), len(fresh)))
            new[here] = fresh
            recalled, carried, kept = recall @ lasting, carry @ now, carry @ lasting
            now, lasting = now.copy(), lasting.copy()
            now[here], lasting[here] = carried + recalled, kept + recalled
            now, lasting = np.hstack([now, new]), np.hstack([lasting, LASTING * new])
        editions.append(now)
    sources = now.shape[1]
    wide = [np.hstack([w, np.zeros((len(w), sources - w.shape[1]))]) for w in editions]
    every = np.concatenate(wide)
    return np.asarray(every @ every.T)
