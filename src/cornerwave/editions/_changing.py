"""What copies of several editions leave hidden of rows that changed.

A row's values in all editions are one long row of covariance H, which nobody knows: each H that
fits the measured rules is tried, and the least share counts (`privacy.hidden_in_history`).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.levels import Level
from cornerwave.noise import Rules, Transition, drifting_history, noise_across, personal_history
from cornerwave.privacy import hidden_in_history, history_functions
from cornerwave.spine.freeze import Frozen

HALF = 500
"""Measured at the level that hides so many thousandths of the first edition."""
PLAUSIBLE = 0.5
"""A history whose changes are smaller than this share of those measured is not considered."""


def hidden_after(frozen: Frozen, rules: Sequence[Transition]) -> dict[str, float]:
    """Return what copies of an edition and the one before, at privacy 0.5, hide of changed rows."""
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    return hidden_of_changing(frozen, [(0, level.noise), (1, level.noise)], [rules])


def hidden_of_changing(
    frozen: Frozen, held: Sequence[tuple[int, float]], editions: Sequence[Sequence[Transition]]
) -> dict[str, float]:
    """Return what copies hide of rows that changed in each edition, by its rules.

    `held` are copies: after how many of the `editions`, and their noise. The least share of each
    value, of the mean of all editions and of each change.
    """
    shape, least = frozen.covariance + frozen.excess, dict[str, float]()
    for rules in _sequences(editions):
        # only questions about columns that changed: the others hide what they always did
        moving = sorted({column for rule in rules if rule for column in rule.columns})
        noise = noise_across(shape, rules)
        for history in _histories(shape, rules, moving):
            for name, weights in history_functions(1 + len(rules), len(shape)).items():
                # value, mean and change of each column, as weights on the long row
                own = weights[np.abs(weights).sum(axis=1)[:, moving].any(axis=1)]
                shares = hidden_in_history(own, held, history=history, noise=noise)
                least[name] = round(float(np.clip(shares.min(), 0.0, least.get(name, 1.0))), 4)
    return least


def _sequences(editions: Sequence[Sequence[Transition]]) -> Iterator[Rules]:
    """Yield by which rules a row may have changed: in the same columns each time, or in turn."""
    for columns in sorted({rule.columns for own in editions for rule in own}):
        yield [next((rule for rule in own if rule.columns == columns), None) for own in editions]
    for kind in range(max(map(len, editions), default=0)):
        yield [own[min(kind, len(own) - 1)] if own else None for own in editions]


def _histories(shape: Floats, rules: Rules, moving: Sequence[int]) -> Iterator[Floats]:
    """Yield the covariances that a row's values may have: drifting, and of a level of its own.

    The latter only if it fits what was measured: the same columns change each time, and of values
    that grow it leaves no change at all.
    """
    drifting, personal = drifting_history(shape, rules), personal_history(shape, rules)
    yield drifting
    if len({rule.columns for rule in rules if rule}) > 1:
        return
    weights = history_functions(1 + len(rules), len(shape))["change"].reshape(-1, len(drifting))
    # w' H w of each change, for both histories
    sizes = [np.einsum("qi,ij,qj->q", weights, H, weights) for H in (drifting, personal)]
    changes = np.reshape(sizes, (2, -1, len(shape)))[:, :, list(moving)].sum(axis=1)
    if (changes[1] >= PLAUSIBLE * changes[0]).all():
        yield personal
