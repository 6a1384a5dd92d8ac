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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any
from zlib import crc32

import numpy as np

from cornerwave.arrays import Floats, Ints, normal_shares
from cornerwave.attack import whitening
from cornerwave.audit._completion import Completion
from cornerwave.audit._steps import step_covariance
from cornerwave.audit._sums import COARSE, Statistics, step_of

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
