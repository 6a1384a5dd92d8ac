"""Some rows of source and copies, evenly spread, for checks that sort and count rows.

Every row is kept, or every second, fourth, eighth, so that memory is bounded. Categories keep
theirs by the same rule: their common rows are those of the wider distance. Rows with missing values
are completed. The noise of the kept rows is seen in several directions, each standard normal if it
is honest:

**Copies.** D_i, column by column. If a copy is rounded to a step s, it shows only that its noise
lay in D_i +- s/2: a normal drawn from there is exactly normal, whatever X is.

**Steps.** E_k = D_k - D_(k-1) along the path, column by column, along the axes of its covariance,
and each column without what those before it explain (Cholesky): noise of another distribution may
look normal in one of them, but not in all. A rounded copy is blurred by one step, which hides the
grid as long as the step is small beside the noise.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any
from zlib import crc32

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, normal_shares
from cornerwave.attack import whitening
from cornerwave.audit._steps import step_covariance
from cornerwave.audit._sums import COARSE, Statistics, step_of
from cornerwave.noise import factor

# --------------------------------------------------------------------------------------------------
# Rows with missing values, completed so that every check can look at them.
#
# The noise does not know which cells are missing. In a row that has the cells o and misses the
# cells m, honest steps of the path E_k are N(0, s_k S) over all cells, so with U ~ N(0, s_k S)
#
#     E_m = U_m + B (E_o - U_o),      B = S_mo S_oo^-1
#
# completes them (Matheron's rule): if what is seen is honest, the whole row is N(0, s_k S) again,
# exactly, and all limits hold; if it is not, the cells that are seen still show it. X is completed
# in the same way, by its own covariance as far as S is; given X, any value would do.
#
# S is what the noise should be shaped like, s_k what the copies state or, if they state nothing,
# what was measured. A cell counts as missing if it is in any of the files.


COMPLETION_RIDGE = 1e-9
"""Columns may follow from others: this share of each variance is added before solving."""

MOST_PATTERNS, MOST_WORK = 2048, 1e10
"""Patterns of missing values completed in a block, the most frequent first, and their products."""


@dataclass(frozen=True)
class Completion:
    """What rows are completed by: the mean of X, the shape S (N, N), which is 0 for columns
    without noise, the noise and the rounding steps of each copy.
    """

    mean: Floats
    shape: Floats
    noise: Floats
    steps: Floats
    lower: Floats = field(repr=False)

    @classmethod
    def of(cls, statistics: Statistics, noise: Any) -> "Completion":
        """Take what one pass measured, and the noise that copies state, None for silent ones."""
        noisy: Flags = np.asarray((statistics.spread > 0).any(axis=0))
        shape = np.where(noisy & noisy[:, None], statistics.shape, 0.0)
        lower = factor(shape).lower
        stated = [
            v if v is not None else measured
            for v, measured in zip(noise, statistics.pairwise_noise, strict=True)
        ]
        return cls(statistics.mean, lower @ lower.T, np.array(stated), statistics.steps, lower)

    def complete(self, block: list[Floats], seed: int) -> list[Floats]:
        """Return source and copies (N, rows) with every row complete that could be completed."""
        missing: Flags = np.asarray(np.isnan(np.stack(block)).any(axis=0))
        rows = np.flatnonzero(missing.any(axis=0))
        if not len(rows):
            return block
        random = np.random.default_rng([seed, len(rows)])
        X, *Y = (part[:, rows] for part in block)
        steps = list(self._steps(X, Y))
        whole = np.where(missing[:, rows], np.nan, X)
        for pattern, here in _patterns(missing[:, rows], np.diag(self.shape) > 0):
            # B = S_mo S_oo^-1, shared by all rows of a pattern
            B = self._weights(pattern, np.zeros(len(X)))
            away = X[:, here] - self.mean[:, None]
            whole[:, here] = self.mean[:, None] + self._filled(pattern, B, away, random)
            for step, size, blur in steps:
                if size > 0:  # as it is on the scale of S
                    part = step[:, here] / np.sqrt(size)
                    coarse = self._weights(pattern, blur / size) if blur.any() else B
                    filled = self._filled(pattern, coarse, part, random, blur / size)
                    step[:, here] = np.sqrt(size) * filled
                else:
                    step[:, here] = np.where(pattern[:, None], 0.0, step[:, here])
        return self._together(block, rows, whole, [step for step, _, _ in steps], missing[:, rows])

    def _steps(self, X: Floats, Y: list[Floats]) -> Iterator[tuple[Floats, float, Floats]]:
        """Yield E_k, its noise s_k and the variance that rounding added, in the order of noise."""
        before, level, grid = X, 0.0, np.zeros(len(X))
        for i in self._order:
            blur = (self.steps[i] ** 2 + grid**2) / 12
            yield Y[i] - before, max(float(self.noise[i]) - level, 0.0), blur
            before, level, grid = Y[i], float(self.noise[i]), self.steps[i]

    @property
    def _order(self) -> list[int]:
        return [int(i) for i in np.argsort(self.noise, kind="stable")]

    def _cells(self, missing: Flags) -> tuple[Ints, Ints]:
        """Return the columns with noise that a pattern shows, and those that it misses."""
        noisy = np.diag(self.shape) > 0
        return np.flatnonzero(noisy & ~missing), np.flatnonzero(noisy & missing)

    def _weights(self, missing: Flags, blur: Floats) -> Floats:
        """Return B of a pattern, if rounding adds the variance `blur` to each column of noise 1."""
        seen, wanted = self._cells(missing)
        S = self.shape[np.ix_(seen, seen)]
        S[np.diag_indices(len(seen))] += COMPLETION_RIDGE * np.diag(S) + blur[seen]
        return np.asarray(np.linalg.solve(S, self.shape[np.ix_(seen, wanted)])).T

    def _filled(
        self, missing: Flags, B: Floats, E: Floats, random: Any, blur: Floats | None = None
    ) -> Floats:
        """Return noise 1 (N, n) with draws for the cells that are missing."""
        seen, wanted = self._cells(missing)
        # U ~ N(0, S)
        U = self.lower @ random.standard_normal(E.shape)
        if blur is not None and blur.any():
            spread = np.sqrt(12 * blur[seen])[:, None]
            U[seen] += spread * random.uniform(-0.5, 0.5, (len(seen), E.shape[1]))
        filled = np.where(missing[:, None], 0.0, E)
        # Matheron: E_m = U_m + B (E_o - U_o)
        filled[wanted] = U[wanted] + B @ (E[seen] - U[seen])
        return np.asarray(filled)

    def _together(
        self, block: list[Floats], rows: Ints, whole: Floats, steps: list[Floats], drawn: Flags
    ) -> list[Floats]:
        """Return the block with these rows completed; cells that were `drawn` are rounded too."""
        out = [part.copy() for part in block]
        out[0][:, rows] = whole
        noise: Any = 0.0
        for i, step in zip(self._order, steps, strict=True):
            # D_k is the sum of the steps up to it
            noise = noise + step
            grid = np.where(self.steps[i] > 0, self.steps[i], 1.0)[:, None]
            coarse = drawn & (self.steps[i][:, None] > 0)
            shown = np.where(coarse, np.rint(noise / grid) * grid, noise)
            out[1 + i][:, rows] = whole + shown
        return out


def _patterns(missing: Flags, noisy: Flags) -> Iterator[tuple[Flags, Ints]]:
    """Yield patterns of missing cells (N,) with their rows, the most frequent first.

    Rows without any noise to be seen are left out, and so are those of the rarest patterns if
    there are too many.
    """
    packed = np.ascontiguousarray(np.packbits(missing, axis=0).T)
    keys = packed.view([("", packed.dtype)] * packed.shape[1]).ravel()
    _, first, which, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    order, starts = np.argsort(which, kind="stable"), np.cumsum(counts) - counts
    most = int(min(MOST_PATTERNS, MOST_WORK / max(len(noisy), 1) ** 3))
    for k in np.argsort(-counts, kind="stable")[: max(most, 1)]:
        pattern = missing[:, first[k]]
        if (noisy & ~pattern).any():
            yield pattern, order[starts[k] : starts[k] + counts[k]]


KEPT_CELLS = 1 << 21
FEWEST_KEPT, MOST_KEPT = 1 << 12, 1 << 15
"""As many rows of numbers are kept as these cells hold, within these bounds."""

KEPT_SEED = 1 << 32
"""Rows kept are completed apart from the blocks of all rows, which count from 0."""


def room_for(columns: int, tables: int) -> int:
    """Return how many rows of so many columns are kept."""
    return int(np.clip(KEPT_CELLS // max(columns * tables, 1), FEWEST_KEPT, MOST_KEPT))


@dataclass(frozen=True)
class Kept:
    """The rows whose number is a multiple of `every`, of all that were `seen`; parts add up.

    `runs` are cells (tables, columns, n) by the number of their first row. The distance is the
    least power of two at which there is `room`, so it does not depend on how parts came.
    """

    room: int
    seen: int = 0
    every: int = 1
    runs: tuple[tuple[int, Any], ...] = field(default=(), repr=False)

    def of(self, start: int, cells: Sequence[Any]) -> "Kept":
        """Return the rows to be kept, beside these, of those that begin at `start`."""
        first = -start % self.every
        part = np.stack([table[:, first :: self.every] for table in cells])
        runs = ((start + first, part),) if part.shape[2] else ()
        return replace(self, seen=cells[0].shape[1], runs=runs)

    def __add__(self, other: "Kept") -> "Kept":
        every = max(self.every, other.every)
        runs = [*self._thinned(every), *other._thinned(every)]
        total = Kept(self.room, self.seen + other.seen, every, tuple(sorted(runs, key=_first)))
        while total.count > self.room:
            total = replace(total, every=2 * total.every, runs=total._thinned(2 * total.every))
        return total

    def _thinned(self, every: int) -> tuple[tuple[int, Any], ...]:
        if every == self.every:
            return self.runs
        runs, ratio = [], every // self.every
        for first, cells in self.runs:
            skipped = -(first // self.every) % ratio
            if (rest := cells[:, :, skipped::ratio]).shape[2]:
                runs.append((first + skipped * self.every, rest.copy()))
        return tuple(runs)

    def mapped(self, places: Sequence[Any]) -> "Kept":
        """Return codes as the numbers that each column's `places` give them."""
        runs = []
        for first, cells in self.runs:
            columns = zip(places, cells.transpose(1, 0, 2), strict=True)
            runs.append((first, np.stack([numbers[codes] for numbers, codes in columns], axis=1)))
        return replace(self, runs=tuple(runs))

    @property
    def count(self) -> int:
        """How many rows are kept."""
        return sum(cells.shape[2] for _, cells in self.runs)

    @property
    def cells(self) -> Any:
        """All kept rows in their order, (tables, columns, n)."""
        return np.concatenate([cells for _, cells in self.runs], axis=2)


def _first(run: tuple[int, Any]) -> int:
    return run[0]


@dataclass(frozen=True)
class KeptRows:
    """The kept rows that are or could be completed, in random order; `places` are their numbers.

    `raw` (1 + M, N, n) is as the files have them, source first, NaN for missing; `scaled` on the
    scales that they are compared on, completed. Ties are broken at random by sorting stably: the
    order is random.
    """

    raw: Floats
    scaled: Floats
    places: Ints
    every: int

    @property
    def source(self) -> Floats:
        """The source on its scales, (N, n)."""
        return np.asarray(self.scaled[0])

    @property
    def truth(self) -> Floats:
        """The source on its scales as the file has it, (N, n), NaN for missing."""
        return np.where(np.isnan(self.raw[0]), np.nan, self.source)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.scaled.shape[2])

    @classmethod
    def of(
        cls,
        kept: Kept,
        used: Sequence[int],
        scaled: Callable[[list[Floats]], list[Floats]],
        completion: Completion | None = None,
    ) -> "KeptRows":
        """Take the kept rows that have all of the used columns, or were given them."""
        blocks = scaled(list(kept.cells))
        whole = completion.complete(blocks, KEPT_SEED) if completion else blocks
        on_scale = np.stack(whole)[:, list(used)]
        complete = np.flatnonzero(np.isfinite(on_scale).all(axis=(0, 1)))
        # Chance that depends on the values alone: the same audit twice has the same result.
        seed = crc32(on_scale[:, :, complete].tobytes())
        chosen = np.random.default_rng(seed).permutation(complete)
        raw = kept.cells[:, list(used)][:, :, chosen]
        return cls(raw, on_scale[:, :, chosen], chosen * kept.every, kept.every)


BLURRED = 0.25
"""A step of the path is judged if copies are rounded to less than this share of it."""

SAME = 1e-12
"""Copies whose difference is below this share of the noise are the same copy, retyped."""

ROWS_PER_COLUMN = 50
"""With fewer rows the covariance that is found fits them so well that distances are too alike."""

UNEVEN = 1 / 16
"""Rounding on the column's own scale, in deviations of the noise on the logarithmic one."""


@dataclass(frozen=True)
class View:
    """Some directions of a step's noise (r, n), with X and the noise before it in the same."""

    name: str
    step: Floats
    source: Floats
    before: Floats | None


@dataclass(frozen=True)
class Directions:
    """Directions of the noise of kept rows; `order` is the copies by their noise.

    `factors` (M, N) are those by which copies drew columns together.
    """

    found: Statistics
    rows: KeptRows
    logarithmic: tuple[bool, ...]
    factors: Floats

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The copies, the least noisy first."""
        return tuple(int(i) for i in np.argsort(self.found.noise, kind="stable"))

    @cached_property
    def copies(self) -> list[tuple[Ints, Floats]]:
        """The columns of each copy that can be judged, and their noise as normals."""
        return [self._of_copy(i) for i in range(self.found.copies)]

    def _of_copy(self, i: int) -> tuple[Ints, Floats]:
        sizes, steps = self._sizes(i), self.found.steps[i]
        usable = (sizes > 0) & (steps <= COARSE * sizes) & self._even(i)
        columns = np.flatnonzero(usable)
        noise = self.rows.scaled[1 + i] - self.rows.source
        random = np.random.default_rng([self.rows.count, i])
        # a normal from where rounded noise must have been
        drawn = [_within(noise[n], steps[n], sizes[n], random) for n in columns]
        return columns, np.array(drawn).reshape(len(columns), self.rows.count)

    def of_step(self, k: int) -> list[View]:
        """Return the views of step k; none if it cannot be judged."""
        columns = self._moving(k)
        if not len(columns):
            return []
        here, last = self._blurred(k)[columns], None if k == 0 else self._blurred(k - 1)[columns]
        step = here if last is None else here - last
        covariance = self._covariance(k, columns, step)
        X = self.rows.source[columns]
        axes = {"": np.diag(1 / np.sqrt(np.diag(covariance)))}
        if len(columns) > 1:
            copies = list(self.order[max(k - 1, 0) : k + 1])
            blur = (self.found.steps[copies][:, columns] ** 2).sum(axis=0) / 6
            axes["an axis"] = sharp(whitening(covariance).T, blur)
            axes["what other columns leave of a column"] = sharp(_triangular(covariance), blur)
        return [
            View(name, turn @ step, turn @ X, None if last is None else turn @ last)
            for name, turn in axes.items()
            if len(turn)
        ]

    def _covariance(self, k: int, columns: Ints, step: Floats) -> Floats:
        """Return the covariance of a step: as found, or in a wide table as it should be."""
        if step.shape[1] >= ROWS_PER_COLUMN * len(columns):
            return np.atleast_2d(np.cov(step))
        i, *last = self.order[k : k - 2 if k > 1 else None : -1]
        size = self.found.noise[i] - (self.found.noise[last[0]] if last else 0.0)
        # rounding adds step^2 / 12 to each of two copies, blurring as much again
        blur = (self.found.steps[[i, *last]][:, columns] ** 2).sum(axis=0) / 6
        return np.asarray(size * self.found.definite[np.ix_(columns, columns)] + np.diag(blur))

    def columns_of_step(self, k: int) -> Ints:
        """Return the columns that the views of a step show."""
        return self._moving(k)

    def _sizes(self, i: int) -> Floats:
        """Return the standard deviation of a copy's noise, unrounded, (N,)."""
        N = self.found.columns
        variances = np.diag(self.found.covariance)[(1 + i) * N : (2 + i) * N]
        return np.asarray(np.sqrt(np.maximum(variances - self.found.steps[i] ** 2 / 12, 0.0)))

    def _even(self, i: int) -> Any:
        """Return which columns are not rounded on another scale than they are compared on."""
        even = np.ones(self.found.columns, dtype=bool)
        for n in np.flatnonzero(self.logarithmic):
            shown = self.rows.raw[1 + i, n]
            finest = float(np.min(1 + shown[~np.isnan(shown)], initial=np.inf))
            size = self._sizes(i)[n] * self.factors[i, n]
            even[n] = step_of(shown) <= UNEVEN * size * finest
        return even

    def _moving(self, k: int) -> Ints:
        """Return the columns in which a step has noise that can be judged."""
        order = self.order
        size = np.sqrt(np.maximum(np.diag(step_covariance(self.found, order, k)), 0.0))
        copies = order[max(k - 1, 0) : k + 1]
        usable = size > math.sqrt(SAME) * self._sizes(order[k])
        for i in copies:
            usable &= (self.found.steps[i] <= BLURRED * size) & self._even(i)
        return np.flatnonzero(usable)

    def _blurred(self, k: int) -> Floats:
        """Return the noise of the k-th copy with its grid hidden, (N, n)."""
        i = self.order[k]
        random = np.random.default_rng([self.rows.count, i, 1])
        noise = self.rows.scaled[1 + i] - self.rows.source
        blur = random.uniform(-0.5, 0.5, noise.shape)
        return np.asarray(noise + blur * self.found.steps[i][:, None])


def sharp(turn: Floats, blur: Floats) -> Floats:
    """Return those directions of noise 1 in which rounding and blurring, of these variances in
    each column, are no more than in a column that is judged.
    """
    return turn[(turn**2 @ blur) <= BLURRED**2 / 3]


def _within(noise: Floats, step: float, size: float, random: Any) -> Floats:
    """Return noise in its deviations; if it is rounded, drawn from where it must have been."""
    if step == 0:
        return np.asarray(noise / size)
    return from_within((noise - step / 2) / size, (noise + step / 2) / size, random)


def from_within(low: Floats, high: Floats, random: Any) -> Floats:
    """Return normals from the intervals that each of them is known to lie in."""
    return within(normal_shares(low), normal_shares(high), random)


def within(least: Floats, most: Floats, random: Any) -> Floats:
    """Return normals from between the shares of all normals that lie below and above each."""
    # F(low) + U (F(high) - F(low)), U uniform
    share = least + random.random(len(least)) * (most - least)
    return _normal(np.clip(share, 1e-300, 1 - 1e-16))


def _normal(p: Floats) -> Floats:
    """Return z with P(N(0, 1) < z) = p."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(x) for x in p.tolist()])


def _triangular(covariance: Floats) -> Floats:
    """Return the rows of L^-1, C = L L', of the columns that do not follow from others."""
    size = np.sqrt(np.diag(covariance))
    C = covariance / np.outer(size, size)
    rest, turn, rows = C.copy(), np.eye(len(C)), []
    for j in range(len(C)):
        variance = float(rest[j, j])
        if variance <= 1e-9:
            continue
        rows.append(turn[j] / math.sqrt(variance))
        # elimination by rows: turn becomes L^-1
        ratio = rest[j + 1 :, j] / variance
        turn[j + 1 :] -= np.outer(ratio, turn[j])
        rest = rest - np.outer(rest[:, j], rest[j]) / variance
    return np.array(rows) / size
