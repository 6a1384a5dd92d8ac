"""Is a set of category copies one path? The corner wave of categories, pair by pair.

Where a noisier copy Y' is the better one Y with further refreshes, it says nothing about
the truth X beyond Y. So among rows in which Y shows the same, whether Y shows the truth
and whether Y' agrees with Y have nothing to do with each other, in one column or in two:

    [X_c = Y_c]  and  [Y'_d = Y_d]     are independent given Y_c, Y_d
    [X_c = Y_c]  and  [Y'_c = Y''_c]   are independent given Y_c

Given its margins, each such fourfold table is hypergeometric, a sum of independent steps
of at most 1. Over all tables of a pair (Cochran, Mantel and Haenszel) the deviation t,
of variance V, exceeds its limit with a probability of at most 2 exp(-z^2 / 2), with
z = t / sqrt(V + t / 3) (Bernstein): for few rows as for many, for rare values as for common.
Which of two copies is the better is not believed but tried: a set passes if one order does.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from cornerwave.arrays import Flags
from cornerwave.audit.chance import sure_limit
from cornerwave.audit.checks import Check
from cornerwave.audit.shown import ABSENT, Shown

MOST_COLUMNS = 24
"""Up to so many categories every one is held against every other; beyond, each by itself."""


def check_paths(categories: Sequence[Shown]) -> list[Check]:
    """Return a check of every pair of copies, and of every three."""
    copies = len(categories[0].codes) - 1 if categories else 0
    sets = [*combinations(range(copies), 2), *combinations(range(copies), 3)]
    columns = len(categories)
    crossed = columns * columns if columns <= MOST_COLUMNS else columns
    pairs, threes = math.comb(copies, 2), math.comb(copies, 3)
    limit = sure_limit(2 * pairs * crossed + 3 * threes * columns)
    return [_check(categories, members, limit) for members in sets]


def _check(categories: Sequence[Shown], members: tuple[int, ...], limit: float) -> Check:
    tried = [max(_scores(categories, best, members), default=(0.0, "")) for best in members]
    value, where = min(tried)
    passed = value <= limit
    note = f"{where} of the noisier copy tells where the better one shows the truth"
    return Check("path", members, value, limit, passed, "" if passed else note)


def _scores(
    categories: Sequence[Shown], best: int, members: tuple[int, ...]
) -> Iterator[tuple[float, str]]:
    """Yield the score of every comparison, with the column that tells, if `best` is best."""
    others = [i for i in members if i != best]
    for truth in categories:
        known = truth.truth == truth.codes[1 + best]
        if len(others) == 2:
            one, other = (truth.codes[1 + i] for i in others)
            yield _score([(truth, best)], known, one == other), truth.name
            continue
        for shown in categories if len(categories) <= MOST_COLUMNS else [truth]:
            agrees = shown.codes[1 + others[0]] == shown.codes[1 + best]
            given = [(truth, best)] if shown is truth else [(truth, best), (shown, best)]
            yield _score(given, known, agrees), shown.name


def _score(given: Sequence[tuple[Shown, int]], one: Flags, other: Flags) -> float:
    """Return z of the association of two flags, in rows where the copies given show the same."""
    held = np.logical_and.reduce([shown.truth != ABSENT for shown, _ in given])
    strata = np.zeros(int(held.sum()), dtype=np.int64)
    for shown, copy in given:
        strata = strata * len(shown.values) + shown.codes[1 + copy][held]
    _, strata = np.unique(strata, return_inverse=True)
    one, other = one[held], other[held]
    n = np.bincount(strata).astype(np.float64)
    first, second = (np.bincount(strata, flags, len(n)) for flags in (one, other))
    both = np.bincount(strata, one & other, len(n))
    t = abs(float((both - first * second / n).sum()))
    spread = first * second * (n - first) * (n - second) / (n * n * np.maximum(n - 1, 1))
    return t / math.sqrt(max(float(spread.sum()) + t / 3, 1e-300))
