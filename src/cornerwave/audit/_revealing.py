"""Which column without noise, or part of it, reveals most of a target, and by which estimate.

Each of them is added by itself to a linear estimate from what has noise, fitted to some rows and
scored in others; the one that leaves least is named. Only columns that fail are looked at.
"""

from collections.abc import Iterator

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._attacks import Adversary, Target
from cornerwave.audit._fits import FOLDS, encode, refine, ridge, standard
from cornerwave.audit._noise_free import EVERY, moving, nearest

FEW_COORDINATES = 4
"""Coordinates of a category that are averaged."""

AT_LEAST, BETTER = 0.98, 0.95
"""A column is named if it leaves at most this share of what the noisy part alone does, and all
together in place of it if they leave at most this share of what it does."""


def most_revealing(adversary: Adversary, target: Target) -> str | None:
    """Return the name of what reveals most, and how; None if nothing does by itself."""
    present, part = target.present, adversary.part[target.present]
    T = target.values[:, present]
    alone = ridge(adversary.noisy[:, present], T, part)
    before = float(((T - alone) ** 2).sum())
    left = {
        (name, how): float(((T - estimate) ** 2).sum())
        for name, how, estimate in _estimates(adversary, target, alone)
    }
    single = {each: error for each, error in left.items() if each[0] != EVERY}
    best = min(single or left, key=lambda each: left[each], default=None)
    every = min(left, key=lambda each: left[each], default=None)
    if every is None or best is None or left[every] > AT_LEAST * before:
        return None
    name, how = best if left[best] <= left[every] / BETTER else every
    return f"{name} ({how})"


def _estimates(
    adversary: Adversary, target: Target, alone: Floats
) -> Iterator[tuple[str, str, Floats]]:
    """Yield a name, a kind and the estimates (k, n) of each source by itself."""
    free, present = adversary.free, target.present
    T, part, N = target.values[:, present], adversary.part[present], adversary.noisy[:, present]
    shown = standard(adversary.shown[target.name])[:FEW_COORDINATES]

    def fit(*more: Floats) -> Floats:
        return ridge(standard(np.vstack([alone, *more])), T, part)

    for name, row in free.numbers.items():
        yield name, "a linear fit", fit(row[None, present])
    for name, code in free.groups.items():
        yield name, "means of rows that share it", fit(encode(code[present], T, part))
    for name, order in free.lines.items():
        means = [mean[present] for row in shown for mean in moving(row, order)]
        yield name, "moving averages in its order", fit(*means)
    for name, near in free.near.items():
        means = [mean[present] for row in shown for mean in nearest(row, near)]
        yield name, "means of nearest neighbours", fit(*means)
    for name, code in free.few.items():
        cells = [[code[present]]] * FOLDS
        yield name, "a fit for each of its values", refine(alone, N, T, part, cells)
    for name, way in adversary.many(target, T - alone):
        cells = [[np.zeros(len(part), dtype=np.int64)]] * FOLDS
        yield name, "a fit for each of its values", refine(alone, N, T, part, cells, [way])
    yield EVERY, "boosting and means", fit(adversary.revealed.of(target)[:, present])
