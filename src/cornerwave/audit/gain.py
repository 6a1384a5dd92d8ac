"""What colluding brings, column by column, with an interval: the diversity gain.

    gain = (error of the best single copy - error of all copies in the set) / Var(X)

Errors are of the best linear estimate from all columns of the copies. Its weights come
from all groups of rows but one and the error from that one, in turn, so that no
estimate is judged by rows that it was fitted to; the paired differences of the groups
give a t interval. Where nothing is gained the fitted weights on further copies only
hurt: the gain is a little below 0, and an interval above 0 is an alarm.

A rounded copy alone is held to what it would be unrounded (see rounding.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit.chance import share, t_limit
from cornerwave.audit.statistics import Statistics, covariance_of

Members = tuple[int, ...]

EVERY_SUBSET = 12
"""Up to so many copies every subset is attacked; beyond, every pair and the whole set."""

INTERVALS = 128
"""Up to so many sets all get an interval; beyond, the pairs, the whole set and the worst."""

WORST = 16
RIDGE = 1e-12
PERFECT = 1e-4
"""A coalition that leaves less than this share of the variance hidden has the table."""

NEGLIGIBLE = 1e-9
"""A gain below this share of the variance is rounding, not a gain."""


@dataclass(frozen=True)
class Gain:
    """What a set of copies hides, per column (N,), as shares of the column's variance.

    `alone`: from its best single copy; `together`: from all; `gain` is the difference,
    within `margin`; `best` names the single copy that is best over all columns.
    """

    members: Members
    best: int
    alone: Floats
    together: Floats
    gain: Floats
    margin: Floats

    @property
    def low(self) -> Floats:
        """The lower ends of the intervals."""
        return self.gain - self.margin

    @property
    def gains(self) -> bool:
        """Whether the set gains in any column, beyond chance."""
        return bool((self.low > NEGLIGIBLE).any())

    @property
    def perfect(self) -> bool:
        """Whether the set has the table in some column, while no single copy has."""
        return bool((self.gains & (self.together < PERFECT) & (self.alone > 10 * PERFECT)).any())


def measure_gains(found: Statistics) -> tuple[list[Gain], int]:
    """Return the gain of sets of copies, and how many sets were attacked in all."""
    sets = coalitions(found.copies)
    if not sets:
        return [], 0
    tested = sets if len(sets) <= INTERVALS else _worth_an_interval(found, sets)
    margin = t_limit(share(len(sets) * found.columns), len(found.sums) - 1)
    folds = _Folds.of(found)
    return [folds.gain(members, margin) for members in tested], len(sets)


def coalitions(copies: int) -> list[Members]:
    """Return the sets of two or more copies to attack.

    >>> coalitions(3)
    [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    """
    if copies < 2:
        return []
    if copies > EVERY_SUBSET:
        return [*combinations(range(copies), 2), tuple(range(copies))]
    sizes = range(2, copies + 1)
    return list(chain.from_iterable(combinations(range(copies), size) for size in sizes))


def hidden(found: Statistics, sets: Sequence[Members]) -> Floats:
    """Return what stays hidden from each set, per column, fitted to all rows at once."""
    folds = _Folds.of(found, whole=True)
    return np.array([folds.errors(members)[1][0] for members in sets])


def _worth_an_interval(found: Statistics, sets: list[Members]) -> list[Members]:
    """Return the pairs, the whole set and the sets that gain most at first sight."""
    always = [members for members in sets if len(members) == 2] + [sets[-1]]
    singles = hidden(found, [(i,) for i in range(found.copies)])
    scores = [
        float((singles[list(members)].min(axis=0) - shares).max())
        for members, shares in zip(sets, hidden(found, sets), strict=True)
    ]
    worst = [sets[k] for k in np.argsort(scores)[::-1][:WORST]]
    return [*always, *(members for members in worst if members not in always)]


@dataclass(frozen=True)
class _Folds:
    """Sums of [X, Y_1 .. Y_M, 1] to test on, and means and covariances to fit to."""

    tests: Floats
    mean: Floats
    covariance: Floats
    variance: Floats
    rounding: Floats

    @classmethod
    def of(cls, found: Statistics, *, whole: bool = False) -> "_Folds":
        N, M = found.columns, found.copies
        turn = np.eye(N * (1 + M) + 1)
        turn[N:-1, :N] = np.tile(np.eye(N), (M, 1))
        tests = turn @ (found.total[None] if whole else found.sums) @ turn.T
        fits = tests if whole else tests.sum(axis=0) - tests
        return cls(
            tests=tests,
            mean=fits[:, :-1, -1] / fits[:, -1:, -1],
            covariance=covariance_of(fits),
            variance=np.where(found.variance > 0, found.variance, 1.0),
            rounding=found.steps**2 / 12,
        )

    def gain(self, members: Members, t: float) -> Gain:
        singles = [self.errors((i,), unrounded=True) for i in members]
        fitted = np.array([fit for fit, _ in singles])
        tested = np.array([test for _, test in singles])
        alone = np.take_along_axis(tested, fitted.argmin(axis=0)[None], axis=0)[0]
        together = self.errors(members)[1]
        difference = alone - together
        groups = len(difference)
        best = int(fitted.mean(axis=(1, 2)).argmin())
        return Gain(
            members=members,
            best=members[best],
            alone=alone.mean(axis=0),
            together=together.mean(axis=0),
            gain=difference.mean(axis=0),
            margin=t * difference.std(axis=0, ddof=1) / np.sqrt(groups),
        )

    def errors(self, members: Members, *, unrounded: bool = False) -> tuple[Floats, Floats]:
        """Return the error of a set in each fold and column (G, N): as fitted, as tested."""
        N = len(self.variance)
        cells = np.concatenate([np.arange(N) + (1 + i) * N for i in members])
        extra = np.concatenate([self.rounding[i] for i in members]) if unrounded else 0.0
        C = self.covariance[:, cells][:, :, cells]  # a copy
        diagonal = np.arange(len(cells))
        C[:, diagonal, diagonal] -= extra
        C[:, diagonal, diagonal] *= 1 + RIDGE
        C[:, diagonal, diagonal] += 1e-300
        cross = self.covariance[:, cells, :N]
        weights = np.asarray(np.linalg.solve(C, cross), dtype=np.float64)
        own = np.einsum("gnn->gn", self.covariance[:, :N, :N])
        fitted = own - np.einsum("gkn,gkn->gn", cross, weights)
        tested = self._tested(cells, weights)
        if unrounded:
            tested = tested - np.einsum("gkn,k->gn", weights**2, extra * np.ones(len(cells)))
        return fitted / self.variance, np.maximum(tested, 0.0) / self.variance

    def _tested(self, cells: Floats, weights: Floats) -> Floats:
        """Return the mean square of X - estimate over the rows of each fold's own group."""
        N = len(self.variance)
        error = np.zeros((len(self.tests), self.tests.shape[1], N))
        error[:, np.arange(N), np.arange(N)] = 1.0
        error[:, cells] = -weights
        error[:, -1] = -np.einsum("gp,gpn->gn", self.mean, error[:, :-1])
        squares = np.einsum("gpn,gpn->gn", error, self.tests @ error)
        return np.asarray(squares / np.maximum(self.tests[:, -1:, -1], 1))


def alarms(gains: Sequence[Gain]) -> Iterator[Gain]:
    """Yield the sets that gain, the largest gain first."""
    yield from sorted((g for g in gains if g.gains), key=lambda g: -float(g.gain.max()))
