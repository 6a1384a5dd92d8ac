"""What colluding brings for numbers, column by column, with an interval.

    gain = (error of the best single copy - error of all copies in the set) / Var(X)

Errors are of the best linear estimate from all columns of the copies. Its weights are
fitted to all groups of rows but one and tested on that one, in turn; the paired
differences of the groups give a t interval. If nothing is gained, fitted weights on
further copies only hurt: the gain is a little below 0, and an interval above 0 is an alarm.
A coalition is compared with the unrounded form of its best copy: rounded copies may show
more together than each alone, but not more than that one. A table with few rows for its
columns cannot fit a weight for each column of each copy: it fits one weight for each copy,
which is the best estimate if noise is shaped like the table.

A linear estimate could miss what another finds. So the posterior mean under the
distribution of X itself runs with all copies and with the least noisy one alone, on rows
that are not part of that distribution's sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.attack import NEGLIGIBLE, Knowledge, Measured, error, gain, posterior_mean
from cornerwave.audit._chance import t_limit
from cornerwave.audit._sums import Statistics, covariance_of

Members = tuple[int, ...]

SAMPLE_ROWS, LEAST_SAMPLE = 4096, 40
"""Rows of the nonlinear attack, at most and at least."""

EVERY_SUBSET = 12
"""Up to this many copies every subset is attacked; beyond, every pair and the whole set."""

INTERVALS = 128
"""Up to this many sets all get an interval; beyond, the pairs, the whole set and the worst."""

ROWS_PER_WEIGHT = 4
"""With fewer complete rows for each column of each copy, each copy has a single weight."""

WORST = 16
FIT_RIDGE = 1e-12
LEAST_UNROUNDED = 0.05
"""The least share of a direction's variance in a rounded copy that is not taken for rounding."""
STILL = 1e-9
"""A share of a column's variance that is rounding."""
PERFECT = 1e-4
"""A coalition that leaves less than this share of the variance hidden has the table."""


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
        """Whether the set recovers some column completely, which no single copy does."""
        return bool((self.gains & (self.together < PERFECT) & (self.alone > 10 * PERFECT)).any())


def measure_gains(statistics: Statistics, alpha: float) -> tuple[list[Gain], int]:
    """Return the gain of sets of copies, and how many sets were attacked in all."""
    sets = coalitions(statistics.copies)
    if not sets:
        return [], 0
    # all sets count in the limit, also those without an interval
    tested = sets if len(sets) <= INTERVALS else _worth_an_interval(statistics, sets)
    folds = _Folds.of(statistics)
    margin = t_limit(
        alpha / (len(sets) * statistics.columns), max(int((folds.share > 0).sum()) - 1, 1)
    )
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


def hidden(statistics: Statistics, sets: Sequence[Members]) -> Floats:
    """Return what stays hidden from each set, per column, fitted to all rows at once."""
    folds = _Folds.of(statistics, whole=True)
    return np.array([folds.errors(members)[1][0] for members in sets])


@dataclass(frozen=True)
class Alone:
    """What one copy alone leaves hidden of each column (N,), with its standard error."""

    hidden: Floats
    error: Floats
    groups: int


def measure_alone(statistics: Statistics, i: int) -> Alone:
    """Measure what a copy leaves hidden, on rows that its estimate was not fitted to.

    If some rows are incomplete, the complete ones may vary less than all or more: the share
    is of the smaller variance, so that a choice of rows is not taken for a leak. Of a column
    that is constant in the complete rows they reveal nothing; the whole copy is tested in all rows.
    """
    folds = _Folds.of(statistics)
    shares = folds.errors((i,))[1]
    variances = np.diag(statistics.covariance)[: statistics.columns]
    vary = variances > STILL * statistics.variance
    # the smaller variance: a choice of rows is not taken for a leak
    variance = np.where(vary, np.minimum(variances, statistics.variance), 1.0)
    mean, error, groups = folds.average(shares * folds.variance / variance)
    return Alone(np.where(vary, mean, 1.0), np.where(vary, error, 0.0), groups)


def _worth_an_interval(statistics: Statistics, sets: list[Members]) -> list[Members]:
    """Return the pairs, the whole set and the sets that gain most at first sight."""
    always = [members for members in sets if len(members) == 2] + [sets[-1]]
    singles = hidden(statistics, [(i,) for i in range(statistics.copies)])
    scores = [
        float((singles[list(members)].min(axis=0) - shares).max())
        for members, shares in zip(sets, hidden(statistics, sets), strict=True)
    ]
    worst = [sets[k] for k in np.argsort(scores)[::-1][:WORST]]
    return [*always, *(members for members in worst if members not in always)]


@dataclass(frozen=True)
class _Folds:
    """Sums of [X, Y_1 .. Y_M, 1] to test on, and means and covariances to fit to.

    `share` is how much of the complete rows each group has, `few` means that they do not suffice
    for a weight of each column.
    """

    tests: Floats
    share: Floats
    mean: Floats
    covariance: Floats
    variance: Floats
    rounding: Floats
    few: bool

    @classmethod
    def of(cls, statistics: Statistics, *, whole: bool = False) -> "_Folds":
        N, M = statistics.columns, statistics.copies
        # [X, D_1 .. D_M, 1] -> [X, Y_1 .. Y_M, 1], since Y_i = X + D_i
        turn = np.eye(N * (1 + M) + 1)
        turn[N:-1, :N] = np.tile(np.eye(N), (M, 1))
        tests = turn @ (statistics.total[None] if whole else statistics.sums) @ turn.T
        # leave one group out: fitted to the others, tested on it
        fits = tests if whole else tests.sum(axis=0) - tests
        return cls(
            tests=tests,
            share=tests[:, -1, -1] / max(float(tests[:, -1, -1].sum()), 1.0),
            mean=fits[:, :-1, -1] / fits[:, -1:, -1],
            covariance=covariance_of(fits),
            variance=np.where(statistics.variance > 0, statistics.variance, 1.0),
            rounding=statistics.steps**2 / 12,
            few=statistics.complete < ROWS_PER_WEIGHT * N * M,
        )

    def gain(self, members: Members, t: float) -> Gain:
        singles = [self.errors((i,), unrounded=True) for i in members]
        fitted = np.array([fit for fit, _ in singles])
        tested = np.array([test for _, test in singles])
        alone = np.take_along_axis(tested, fitted.argmin(axis=0)[None], axis=0)[0]
        together = self.errors(members)[1]
        mean, spread, _ = self.average(alone - together)
        best = int(fitted.mean(axis=(1, 2)).argmin())
        return Gain(
            members=members,
            best=members[best],
            alone=self.share @ alone,
            together=self.share @ together,
            gain=mean,
            margin=t * spread,
        )

    def average(self, values: Floats) -> tuple[Floats, Floats, int]:
        """Return the mean of groups' values (G, N), its standard error, and how many groups."""
        # Groups may differ in size: the variance is that of a weighted mean.
        mean, groups = self.share @ values, int((self.share > 0).sum())
        variance = self.share**2 @ (values - mean) ** 2 * groups / max(groups - 1, 1)
        return mean, np.sqrt(variance), groups

    def errors(self, members: Members, *, unrounded: bool = False) -> tuple[Floats, Floats]:
        """Return the error of a set in each fold and column (G, N): as fitted, as tested."""
        N = len(self.variance)
        cells = np.concatenate([np.arange(N) + (1 + i) * N for i in members])
        extra = np.concatenate([self.rounding[i] for i in members]) if unrounded else 0.0
        # weights = (C - rounding)^-1 Cov(Y, X): those for the copy as it was before rounding
        C = self.covariance[:, cells][:, :, cells]
        diagonal = np.arange(len(cells))
        C[:, diagonal, diagonal] *= 1 + FIT_RIDGE
        C[:, diagonal, diagonal] += 1e-300
        if np.any(extra):
            C = _without(C, np.asarray(extra))
        cross = self.covariance[:, cells, :N]
        weights = np.asarray(
            self._one_each(C, cross) if self.few else np.linalg.solve(C, cross), dtype=np.float64
        )
        variances = np.einsum("gnn->gn", self.covariance[:, :N, :N])
        # Var(X) - 2 w'Cov(Y, X) + w'C w
        fitted = variances - np.einsum("gkn,gkn->gn", 2 * cross - C @ weights, weights)
        tested = self._tested(cells, weights)
        if unrounded:  # the rounding in the copy adds w^2 step^2 / 12 to the tested error
            tested = tested - np.einsum("gkn,k->gn", weights**2, extra * np.ones(len(cells)))
        return fitted / self.variance, np.maximum(tested, 0.0) / self.variance

    def _one_each(self, C: Floats, cross: Floats) -> Floats:
        """Return the weights (G, k, N) if each copy has one, fitted over all columns alike."""
        groups, N = len(C), len(self.variance)
        copies = C.shape[1] // N
        parts = np.einsum("ginjn->gijn", C.reshape(groups, copies, N, copies, N)) / self.variance
        cross_each = np.einsum("ginn->gin", cross.reshape(groups, copies, N, N)) / self.variance
        each = np.linalg.solve(parts.sum(axis=3), cross_each.sum(axis=2)[:, :, None])
        return np.asarray((each[:, :, :, None] * np.eye(N)).reshape(groups, copies * N, N))

    def _tested(self, cells: Floats, weights: Floats) -> Floats:
        """Return the mean square of X - estimate over the rows of each fold's own group."""
        N = len(self.variance)
        error = np.zeros((len(self.tests), self.tests.shape[1], N))
        error[:, np.arange(N), np.arange(N)] = 1.0
        error[:, cells] = -weights
        error[:, -1] = -np.einsum("gp,gpn->gn", self.mean, error[:, :-1])
        # c'S c for the coefficients c of X - Xhat, over the group that was not fitted
        squares = np.einsum("gpn,gpn->gn", error, self.tests @ error)
        return np.asarray(squares / np.maximum(self.tests[:, -1:, -1], 1))


def _without(C: Floats, rounding: Floats) -> Floats:
    """Return covariances (G, k, k) less what rounding added.

    Where columns nearly determine each other, rounding may be almost all that there is in a
    direction: it stays there, or weights that chance fitted to it would be many times too large.
    """
    unit = np.sqrt(np.maximum(np.einsum("gkk->gk", C), 1e-300))
    each = unit[:, :, None] * unit[:, None, :]
    lower = np.linalg.cholesky(C / each + FIT_RIDGE * np.eye(C.shape[1]))
    blur = np.linalg.solve(lower, (rounding / unit**2)[:, :, None] * np.eye(C.shape[1]))
    shares, turn = np.linalg.eigh(np.linalg.solve(lower, blur.transpose(0, 2, 1)))
    kept = np.where(1 - shares < LEAST_UNROUNDED, 1.0, 1 - shares)
    left = lower @ turn * np.sqrt(kept)[:, None, :]
    return np.asarray(left @ left.transpose(0, 2, 1) * each)


@dataclass(frozen=True)
class Posterior:
    """What the best possible estimate leaves hidden, over all columns, and the gain.

    `rounding` is what the rounding of the best copy may have added to its error: several
    rounded copies may undo that, and no more.
    """

    rows: int
    rounding: float
    alone: Measured
    together: Measured
    gain: Measured


def attack_sample(statistics: Statistics, sample: Floats, alpha: float) -> Posterior | None:
    """Attack rows of source and copies (1 + M, N, n); None if there is nothing to pool."""
    sample = sample - statistics.mean[:, None]
    if (rows := sample.shape[2]) > SAMPLE_ROWS:
        sample = sample[:, :, np.linspace(0, rows - 1, SAMPLE_ROWS).astype(int)]
    if statistics.copies < 2 or rows < LEAST_SAMPLE or not (statistics.noise > 0).all():
        return None
    # Every other row is the distribution of X that the adversary knows; the rest are attacked.
    reference = sample[0, :, ::2].T
    X, *copies = sample[:, :, 1::2].transpose(0, 2, 1)
    best, N = int(statistics.noise.argmin()), statistics.columns
    here = slice((1 + best) * N, (2 + best) * N)
    shape = (
        statistics.covariance[here, here] / statistics.noise[best]
    )  # as found, whether like K or not
    known = Knowledge(reference.mean(axis=0), statistics.K, statistics.across, shape)
    together = posterior_mean(copies, known=known, reference=reference)
    alone = posterior_mean([copies[best]], known=known.of_copies([best]), reference=reference)
    variance = np.where(statistics.variance > 0, statistics.variance, 1.0)
    confidence = 1 - alpha
    return Posterior(
        rows=len(X),
        rounding=float((statistics.steps[best] ** 2 / 12 / variance).mean()),
        alone=error(X, alone, variance=variance, confidence=confidence),
        together=error(X, together, variance=variance, confidence=confidence),
        gain=gain(X, alone=alone, together=together, variance=variance, confidence=confidence),
    )
