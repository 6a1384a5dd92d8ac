"""Which of many ways to group rows are worth an estimate: a one-way analysis of variance.

With B the sum of squares between the k groups of a row of values with variance 1,

    F = (B / (k - 1)) / ((n - B) / (n - k))        share = 1 - (n - B) / (n - k)

A way counts if F is larger than chance allows and its share, less three of its errors, is the
largest; what it explains is taken away, and the rest is screened again. What is chosen is only a
candidate: estimates are fitted to some rows and scored in others.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._fits import standard

CHANCE = 1e-6
"""The probability by which chance passes for one way and one column."""

MOST_STEPS, MOST_CHOSEN = 3, 10
"""Ways that are chosen for one column, and for all."""

MOST_CROSSED, ROWS_PER_CELL = 12, 3
"""So many columns are crossed in twos and threes, if a cell has so many rows, as a rule."""


def share_between(code: Ints, rows: Floats) -> tuple[Floats, Floats]:
    """Return the share of each row of values (d, n) that groups explain, three errors lower, and
    the probability of so much by chance.
    """
    from scipy.special import fdtrc

    count = np.bincount(code)
    held = count > 0
    n, k = rows.shape[1], int(held.sum())
    if k < 2 or n <= k:
        return np.zeros(len(rows)), np.ones(len(rows))
    sums = np.array([np.bincount(code, row)[held] for row in rows])
    between = np.minimum((sums**2 / count[held]).sum(axis=1), n)
    within = np.maximum(n - between, 1e-9 * n) / (n - k)
    chance = fdtrc(k - 1, n - k, between / (k - 1) / within)
    return 1 - within - 3 * np.sqrt(2 * k) / n, np.asarray(chance)


def choose(ways: Sequence[Ints], known: Sequence[Ints], truths: Floats) -> list[int]:
    """Return which ways explain what those that are known, or chosen before, do not.

    `truths` (d, n) are columns to be explained, standard.
    """
    if not (len(ways) and len(truths)):
        return []
    every = [*known, *ways]
    found = [share_between(code, truths) for code in every]
    share, chance = (np.array(part) for part in zip(*found, strict=True))
    chosen: list[int] = []
    for c, row in enumerate(truths):
        open_, rest = np.flatnonzero((chance[:, c] < CHANCE) & (share[:, c] > 0)), row
        gain = share[:, c]
        for _ in range(MOST_STEPS + len(known)):
            if not len(open_):
                break
            # of ways that explain as much the first one, which may be known
            best = int(open_[np.argmax(gain[open_] > gain[open_].max() - 1e-3)])
            if best >= len(known) and best not in chosen:
                chosen.append(best)
            rest = _without(rest, every[best])
            gain = np.zeros(len(every))
            again = [share_between(every[k], rest[None]) for k in open_]
            gain[open_] = [float(own[0]) for own, _ in again]
            keep = [float(p[0]) < CHANCE and float(own[0]) > 0 for own, p in again]
            open_ = open_[np.array(keep) & (open_ != best)]
    largest = sorted(chosen, key=lambda k: -float(share[k].max()))
    return sorted(k - len(known) for k in largest[:MOST_CHOSEN])


def _without(row: Floats, code: Ints) -> Floats:
    """Return a row, standard, without the mean of the others in its group."""
    n, sums = np.bincount(code), np.bincount(code, row)
    rest = row - (sums[code] - row) / np.maximum(n[code] - 1, 1)
    found = standard(rest[None])
    return found[0] if len(found) else np.zeros_like(row)


def crosses(codes: Sequence[Ints]) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Yield one code for every two and three of the columns that are not too fine together."""
    codes = codes[:MOST_CROSSED]
    for size in (2, 3):
        for chosen in combinations(range(len(codes)), size):
            crossed = _crossed_if_coarse([codes[k] for k in chosen])
            if crossed is not None:
                yield chosen, crossed


def _crossed_if_coarse(codes: Sequence[Ints]) -> Ints | None:
    found, rows = codes[0], len(codes[0])
    for code in codes[1:]:
        found = found * (int(code.max()) + 1) + code
        if int(found.max()) > 4 * rows:
            found = np.unique(found, return_inverse=True)[1]
        if (np.bincount(found) > 0).sum() > rows / ROWS_PER_CELL:
            return None
    return np.asarray(found, dtype=np.int64)


def binned(row: Floats, bins: int) -> Ints:
    """Return the quantile that each value is in, equal values in one; missing ones come last."""
    _, places, counts = np.unique(row, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2
    code = np.minimum(middle * bins / len(row), bins - 1).astype(np.int64)[places]
    return np.where(np.isnan(row), bins, code)
