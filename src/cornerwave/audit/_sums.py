"""What one pass over the numbers of source and copies keeps: enough for checks and attacks.

With D_i = Y_i - X, each row is the vector [X, D_1 .. D_M, 1]. The sums of products of
its entries, for each of GROUPS groups of rows, determine the noise of every copy, its
covariance between copies and the error of any linear estimate on any group:

    error of sum_k c_k row_k   =   c' S c / n

Rows are dealt out to groups in short runs, so that a sorted file makes no group special.
Sums are about the first block's mean of X and about 0 for D, so that data far from zero
lose no digits. A row with a missing value counts for K only, pair by pair as at registration,
and for the size of the noise; a second pass completes it (_rows).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.attack import whitening
from cornerwave.noise import factor
from cornerwave.passes import Bounded

GROUPS = 64
LEAST_PER_GROUP = 8
DEALS = 8
LONGEST_RUN = 128
"""A table is dealt out at least DEALS times, in runs of at most this many rows per group."""

MOST_SUM_CELLS, FEWEST_GROUPS = 1 << 22, 8
"""Cells of the sums of all groups together: wide tables have fewer groups, down to these."""


COARSE = 1.0
"""A copy rounded to steps above this share of the noise's size cannot be judged."""


@dataclass(frozen=True)
class Statistics:
    """Sums over complete rows, (G, P+1, P+1) with P = N (1 + M), and K from all rows.

    `mean` and `K` are those of X as at registration, `present` (N,) the rows that have a value,
    `spread` (M, N) the variance of each copy's noise by column, all with incomplete rows; `steps`
    (M, N) are the coarse grids that copies lie on. Noise has the shape K + `excess`, which is 0
    unless missing values leave K uncertain and a copy states it.

    >>> X = np.random.default_rng(1).normal(size=(1, 1000))
    >>> found = Statistics.of([X, X + 0.5])
    >>> found.noise_means.round(6).tolist(), found.across.round(6).tolist()
    ([[0.5]], [[0.0]])
    """

    rows: int
    sums: Floats
    mean: Floats
    K: Floats
    steps: Floats
    present: Floats
    spread: Floats
    excess: Floats | float = 0.0

    @classmethod
    def of(cls, block: list[Floats]) -> "Statistics":
        """Return the statistics of source and copies, (N, rows) each, held in memory."""
        layout = Layout.of(block)
        total = sum((sums for _, sums in layout.deals(block)), layout.nothing())
        return total.statistics(layout.shift, np.zeros((layout.copies, len(layout.shift))))

    @property
    def columns(self) -> int:
        """N, the number of columns."""
        return len(self.K)

    @property
    def copies(self) -> int:
        """M, the number of copies."""
        return int(self.sums.shape[1] - 1) // self.columns - 1

    @cached_property
    def total(self) -> Floats:
        """The sums over all groups, (P+1, P+1)."""
        return np.asarray(self.sums.sum(axis=0))

    @property
    def complete(self) -> int:
        """How many rows have every value."""
        return round(float(self.total[-1, -1]))

    @cached_property
    def covariance(self) -> Floats:
        """The covariance of [X, D_1 .. D_M] over complete rows, (P, P)."""
        return covariance_of(self.total)

    @property
    def noise_means(self) -> Floats:
        """The mean of each D_i, (M, N)."""
        centre = self.total[-1, :-1] / max(self.complete, 1)
        return np.asarray(centre[self.columns :].reshape(self.copies, self.columns))

    @cached_property
    def definite(self) -> Floats:
        """The shape S of the noise, (N, N), positive semidefinite."""
        # K from pairs of columns may be indefinite: take the one that noise is shaped like.
        lower = factor(self.shape).lower
        return np.asarray(lower @ lower.T)

    @cached_property
    def axes(self) -> Floats:
        """A (N, rank) with A'SA = I for the shape S of the noise."""
        return whitening(self.definite)

    @cached_property
    def whitening(self) -> Floats:
        """Those of the axes, turned within their span, in which rounding is less than the noise.

        Where columns nearly determine each other, their noise does too, and rounding may be all
        that is left between them.
        """
        size = np.sqrt(self.pairwise_noise)[:, None] * np.sqrt(np.diag(self.shape))
        fine = (self.steps <= COARSE * size).all(axis=1)
        if not self.steps[fine].any():
            return self.axes
        # variance of rounding over the noise, column by column
        shares = self.steps[fine] ** 2 / 12 / self.pairwise_noise[fine, None]
        rounding, turn = np.linalg.eigh(self.axes.T @ (self.axes * shares.sum(axis=0)[:, None]))
        sharp = rounding <= 1
        return np.asarray(self.axes @ turn[:, sharp]) if sharp.any() else self.axes

    @cached_property
    def whitened(self) -> Floats:
        """Covariances along the axes of the noise, (1 + M, 1 + M, rank, rank); 0 is X."""
        N, parts = self.columns, 1 + self.copies
        blocks = self.covariance.reshape(parts, N, parts, N).transpose(0, 2, 1, 3)
        return np.asarray(self.whitening.T @ blocks @ self.whitening)

    @cached_property
    def rounding(self) -> Floats:
        """What rounding added to the whitened covariance of each D_i, (M, rank, rank)."""
        A = self.whitening  # rounding to a step adds step^2 / 12 (Sheppard)
        return np.stack([A.T @ (A * (steps**2 / 12)[:, None]) for steps in self.steps])

    @cached_property
    def across(self) -> Floats:
        """Sigma (M, M): noise covariance between copies as multiples of its shape, unrounded."""
        blocks = self.whitened[1:, 1:]
        across = np.trace(blocks, axis1=2, axis2=3)
        across = across - np.diag(np.trace(self.rounding, axis1=1, axis2=2))
        return np.asarray(across / max(self.whitening.shape[1], 1))

    @property
    def noise(self) -> Floats:
        """The noise of each copy, (M,)."""
        return np.maximum(np.diag(self.across), 0.0)

    @property
    def pairwise_noise(self) -> Floats:
        """The noise of each copy as its columns have it on average, incomplete rows too, (M,)."""
        variances, noisy = np.diag(self.shape), (self.spread > 0).any(axis=0)
        shares = (self.spread - self.steps**2 / 12)[:, noisy] / np.where(
            variances > 0, variances, 1.0
        )[noisy]
        return np.maximum(shares.mean(axis=1) if noisy.any() else np.zeros(self.copies), 0.0)

    @property
    def shape(self) -> Floats:
        """What noise should be a multiple of: K, and the stated excess."""
        return self.K + self.excess

    @property
    def variance(self) -> Floats:
        """The variance of each column of X, (N,)."""
        return np.diag(self.K)

    def of_columns(self, columns: list[int]) -> "Statistics":
        """Return the statistics of some columns, by their indices."""
        parts = np.arange(1 + self.copies)[:, None] * self.columns
        cells = np.append((parts + columns).ravel(), self.sums.shape[1] - 1)
        return replace(
            self,
            sums=self.sums[:, cells][:, :, cells],
            mean=self.mean[columns],
            K=self.K[np.ix_(columns, columns)],
            steps=self.steps[:, columns],
            present=self.present[columns],
            spread=self.spread[:, columns],
        )

    def with_excess(self, stated: Floats) -> "Statistics":
        """Return the statistics if noise exceeds K. Only more noise is excused: eigenvalues below
        0, on the scale of deviations, are left out.
        """
        if not stated.any():
            return self
        unit = np.sqrt(np.where(self.variance > 0, self.variance, 1.0))
        values, vectors = np.linalg.eigh((stated + stated.T) / 2 / np.outer(unit, unit))
        more = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return replace(self, excess=more * np.outer(unit, unit))


@dataclass(frozen=True)
class Layout:
    """How rows are dealt out to `groups`, in runs of `run` rows; X is taken about `shift` (N,)."""

    shift: Floats
    copies: int
    groups: int
    run: int

    @classmethod
    def of(cls, first: list[Floats]) -> "Layout":
        """Return the layout for tables whose first block is M+1 times (N, rows)."""
        shift, rows = means(first[0]), first[0].shape[1]
        size = len(first) * len(shift) + 1
        most = int(np.clip(MOST_SUM_CELLS // size**2, FEWEST_GROUPS, GROUPS))
        groups = int(np.clip(rows // LEAST_PER_GROUP, 2, most))
        run = int(np.clip(rows // (DEALS * groups), 1, LONGEST_RUN))
        return cls(shift, len(first) - 1, groups, run)

    def nothing(self) -> "Sums":
        """Return the sums of no rows."""
        N, size = len(self.shift), (1 + self.copies) * len(self.shift) + 1
        return Sums(
            rows=0,
            products=np.zeros((self.groups, size, size)),
            pairs=np.zeros((3, N, N)),
            noise=np.zeros((3, self.copies * N)),
        )

    def deals(self, block: list[Floats]) -> Iterator[tuple[Floats, "Sums"]]:
        """Yield the complete rows of a block, M+1 times (N, rows), and the sums over all its rows.

        Rows come as (groups, P+1, run); their last entry is 1, and 0 for padding and for rows that
        miss a value.
        """
        at_once = self.groups * self.run
        for start in range(0, block[0].shape[1], at_once):
            deal = [part[:, start : start + at_once] for part in block]
            stacked = stack(deal, self)
            products = stacked @ stacked.transpose(0, 2, 1)
            # A missing value is NaN and shows in the sums: only then look for complete rows.
            if np.isfinite(products).all():
                total, N = products.sum(axis=0), len(self.shift)
                pairs, noise = _pairwise_of(total, N), _each_of(total)[:, N:]
            else:
                pairs = _pairwise(deal[0] - self.shift[:, None])
                none = deal[0][:0]  # there may be no copy whose noise has one covariance
                noise = _each(np.concatenate([none, *(part - deal[0] for part in deal[1:])]))
                # where they are: every group keeps its share of the rest
                missing = ~np.isfinite(stacked).all(axis=1, keepdims=True)
                np.copyto(stacked, 0.0, where=missing)
                products = stacked @ stacked.transpose(0, 2, 1)
            yield stacked, Sums(deal[0].shape[1], products, pairs, noise)


@dataclass(frozen=True)
class Sums(Bounded):
    """Sums over some rows, which add up: `products` (G, P+1, P+1) of complete ones; of all, counts,
    sums and sums of squares by `pairs` of columns of X (3, N, N), and of the `noise` (3, M N).
    """

    rows: int
    products: Floats
    pairs: Floats
    noise: Floats

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.rows + other.rows,
            self.products + other.products,
            self.pairs + other.pairs,
            self.noise + other.noise,
        )

    def moments(self, shift: Floats) -> tuple[Floats, Floats]:
        """Return the mean (N,) and the covariance K (N, N) of X, whose sums are about `shift`."""
        # K_jk = (sum x_j x_k - n m_j m_k) / (n - 1), over the rows that have both
        count, linear, cross = self.pairs
        centre = linear / np.maximum(count, 1)
        scatter = cross - count * centre * centre.T
        K = scatter / np.maximum(count - 1, 1)
        squares = np.diag(cross) / np.maximum(np.diag(count), 1)
        return shift + np.diag(centre), without_rounding((K + K.T) / 2, squares)

    def statistics(self, shift: Floats, steps: Floats) -> Statistics:
        """Return what they show, of X about `shift` (N,) and copies rounded to `steps` (M, N)."""
        mean, K = self.moments(shift)
        present, total, squares = self.noise
        centred = (squares - total**2 / np.maximum(present, 1)) / np.maximum(present - 1, 1)
        return Statistics(
            rows=self.rows,
            sums=self.products,
            mean=mean,
            K=K,
            steps=steps,
            present=present.reshape(steps.shape).min(axis=0),
            spread=np.maximum(centred, 0.0).reshape(steps.shape),
        )


def stack(block: list[Floats], layout: Layout) -> Floats:
    """Return [X - shift, D_1 .. D_M, 1] of some rows, run by run, (groups, P+1, run)."""
    groups, run = layout.groups, layout.run
    columns, rows = block[0].shape
    if rows < groups * run:
        block = [np.pad(part, ((0, 0), (0, groups * run - rows))) for part in block]
    parts = [part.reshape(columns, groups, run).transpose(1, 0, 2) for part in block]
    out = np.empty((groups, len(block) * columns + 1, run))
    np.subtract(parts[0], layout.shift[:, None], out=out[:, :columns])
    for i, part in enumerate(parts[1:], start=1):
        np.subtract(part, parts[0], out=out[:, i * columns : (i + 1) * columns])
    live = (np.arange(groups * run) < rows).reshape(groups, run)
    out[:, -1] = live
    if rows < groups * run:
        out *= live[:, None]
    return out


def covariance_of(sums: Floats) -> Floats:
    """Return covariances from sums (..., P+1, P+1) whose last entry is the count."""
    count = sums[..., -1:, -1:]
    totals = sums[..., :-1, -1:]
    # sum of products less n times the product of means
    centred = sums[..., :-1, :-1] - totals * np.swapaxes(totals, -1, -2) / np.maximum(count, 1)
    return np.asarray(centred / np.maximum(count - 1, 1))


def _pairwise(X: Floats) -> Floats:
    known = (~np.isnan(X)).astype(np.float64)
    filled = np.nan_to_num(X)
    return np.stack([known @ known.T, filled @ known.T, filled @ filled.T])


def _pairwise_of(total: Floats, columns: int) -> Floats:
    count = np.full((columns, columns), total[-1, -1])
    linear = np.repeat(total[:columns, -1:], columns, axis=1)
    return np.stack([count, linear, total[:columns, :columns]])


def _each(D: Floats) -> Floats:
    """Return count, sum and sum of squares of each row, without missing values, (3, rows)."""
    filled = np.nan_to_num(D)
    counts = (~np.isnan(D)).sum(axis=1)
    return np.stack([counts.astype(np.float64), filled.sum(axis=1), (filled**2).sum(axis=1)])


def _each_of(total: Floats) -> Floats:
    count = np.full(len(total) - 1, total[-1, -1])
    return np.stack([count, total[-1, :-1], np.diag(total)[:-1]])


def without_rounding(K: Floats, squares: Floats) -> Floats:
    """Return K with the variance of constants, which is rounding, set to 0."""
    # 45 times the precision of doubles: a variance below that may be rounding alone
    constant = np.diag(K) <= 1e-14 * squares
    return np.where(constant[:, None] | constant, 0.0, K)


def means(X: Floats) -> Floats:
    """Return the mean of each column of X (N, rows) over the values present, (N,)."""
    present = ~np.isnan(X)
    return np.asarray(np.where(present, X, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1))


# --------------------------------------------------------------------------------------------------
# Grids: a copy rounded after the noise is Y + R with R uniform over one step and nearly
# uncorrelated with Y. Its variance grows by step^2 / 12 (Sheppard), which is subtracted before
# the noise is judged.


FINEST_STEP = 2.0**-16
"""Steps below this share of the standard deviation are the fine grid of every copy."""

COARSEST_STEP = 8.0
"""The coarsest step that is looked for, in standard deviations."""

OFF_GRID = 1e-3
"""How far from a multiple a value may lie, in steps: decimals are not exact in binary."""

TRIAL = 64


def step_of(values: Any, finest: float = FINEST_STEP) -> float:
    """Return the coarsest step that all values are multiples of; 0 if there is none.

    Steps are 1, 2 and 5 times powers of ten, and powers of two, above the `finest` share of the
    deviation.

    >>> step_of(np.array([3.0, -7.0, 12.0, 5.0])), step_of(np.array([0.25, 1.5, 3.75]))
    (1.0, 0.25)
    >>> step_of(np.random.default_rng(1).normal(size=100))
    0.0
    """
    values = values[~np.isnan(values)]
    spread = float(values.std()) if len(values) else 0.0
    if spread == 0.0:
        return 0.0
    for step in _candidates(spread, finest):
        if _on_grid(values[:TRIAL], step) and _on_grid(values, step):
            return step
    return 0.0


def steps_of(copies: list[Floats], finest: float = FINEST_STEP) -> Floats:
    """Return the step of each column (M, N) of each copy (N, rows)."""
    return np.array([[step_of(column, finest) for column in copy] for copy in copies])


def steps_still(steps: Floats, copies: list[Floats]) -> Floats:
    """Return the steps that other rows agree with; a finer one, or 0, if they do not."""
    kept = steps.copy()
    for i, n in np.argwhere(steps > 0):
        column = copies[i][n]
        column = column[~np.isnan(column)]
        if not _on_grid(column, steps[i, n]):
            finer = step_of(column)
            kept[i, n] = finer if finer < steps[i, n] else 0.0
    return kept


def _candidates(spread: float, finest: float) -> list[float]:
    low, high = finest * spread, COARSEST_STEP * spread
    # decimal and binary grids: how numbers are written, and how they are held
    tens = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    twos = range(int(np.floor(np.log2(low))), int(np.ceil(np.log2(high))) + 1)
    steps = {float(f"{lead}e{power}") for power in tens for lead in (1, 2, 5)}
    steps |= {2.0**power for power in twos}
    return sorted((step for step in steps if low < step <= high), reverse=True)


def _on_grid(values: Floats, step: float) -> bool:
    multiples = values / step
    return bool((np.abs(multiples - np.rint(multiples)) < OFF_GRID).all())
