"""The noise of the kept rows in several directions, each standard normal if it is honest.

**Copies.** D_i, column by column. If a copy is rounded to a step s, it shows only that its
noise lay in D_i +- s/2: a normal drawn from there is exactly normal, whatever X is.

**Steps.** E_k = D_k - D_(k-1) along the path, column by column, along the axes of its
covariance, and each column without what those before it explain (Cholesky): noise of
another law may look normal in one of them, but not in all. A rounded copy is blurred by
one step, which hides the grid as long as the step is small beside the noise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import whitening
from cornerwave.audit._kept_rows import KeptRows
from cornerwave.audit._repeats import Repeated, step_covariance
from cornerwave.audit._sums import COARSE, Statistics
from cornerwave.audit._watch import NearRows, Watched, step_of

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
    """Directions of the noise of kept rows; `order` is the copies by their noise."""

    found: Statistics
    rows: KeptRows
    logarithmic: tuple[bool, ...]

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
        blur = (self.found.steps[[i, *last]][:, columns] ** 2).sum(axis=0) / 6
        return np.asarray(size * self.found.definite[np.ix_(columns, columns)] + np.diag(blur))

    def columns_of_step(self, k: int) -> Ints:
        """Return the columns that the views of a step show."""
        return self._moving(k)

    def _sizes(self, i: int) -> Floats:
        """Return the standard deviation of a copy's noise, unrounded, (N,)."""
        N = self.found.columns
        own = np.diag(self.found.covariance)[(1 + i) * N : (2 + i) * N]
        return np.asarray(np.sqrt(np.maximum(own - self.found.steps[i] ** 2 / 12, 0.0)))

    def _even(self, i: int) -> Any:
        """Return which columns are not rounded on another scale than they are compared on."""
        even = np.ones(self.found.columns, dtype=bool)
        for n in np.flatnonzero(self.logarithmic):
            shown = self.rows.raw[1 + i, n]
            finest = float(np.min(1 + shown[~np.isnan(shown)], initial=np.inf))
            even[n] = step_of(shown) <= UNEVEN * self._sizes(i)[n] * finest
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
    share = least + random.random(len(least)) * (most - least)
    return _normal(np.clip(share, 1e-300, 1 - 1e-16))


def normal_shares(z: Floats) -> Floats:
    """Return P(N(0, 1) < z)."""
    return np.array([math.erfc(-x / math.sqrt(2)) / 2 for x in z.tolist()])


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
        own = float(rest[j, j])
        if own <= 1e-9:
            continue
        rows.append(turn[j] / math.sqrt(own))
        ratio = rest[j + 1 :, j] / own
        turn[j + 1 :] -= np.outer(ratio, turn[j])
        rest = rest - np.outer(rest[:, j], rest[j]) / own
    return np.array(rows) / size


# --------------------------------------------------------------------------------------------------
# What the checks of numbers look at.


@dataclass(frozen=True)
class NumberEvidence:
    """Sums over the judged columns, what rows showed, some of the rows, and statements.

    `found` are all rows that could be completed, `attacked` those `complete` in the files, if they
    are enough to attack, with a `sample` of them. `watched`, `sample` and `everything` know all
    columns by `names`, the rest only those in `used`.
    `logarithmic` says which of the judged columns are compared on the scale log(1+x).
    """

    found: Statistics
    attacked: Statistics
    complete: int
    everything: Statistics
    watched: Watched
    sample: Floats
    repeated: Repeated
    rows: KeptRows
    noise: Sequence[float | None]
    privacy: Sequence[float | None]
    names: Sequence[str]
    used: Sequence[int]
    logarithmic: tuple[bool, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the judged columns."""
        return [self.names[n] for n in self.used]

    @cached_property
    def directions(self) -> Directions:
        """The noise of the kept rows in several directions."""
        return Directions(self.found, self.rows, self.logarithmic)

    @cached_property
    def near(self) -> NearRows:
        """The rows that were kept for the length of their steps, in the judged columns."""
        return self.watched.near.of_columns(list(self.used))

    def step(self, k: int) -> tuple[int, ...]:
        """Return the copies that step k of the path lies between."""
        return self.directions.order[max(k - 1, 0) : k + 1]

    def names_of(self, k: int) -> list[str]:
        """Return the names of the columns in which step k can be judged."""
        return [self.columns[n] for n in self.directions.columns_of_step(k)]

    @cached_property
    def fine(self) -> list[int]:
        """The copies that are not rounded to steps larger than their noise."""
        found = self.found
        size = np.sqrt(np.maximum(found.noise, 0.0))[:, None] * np.sqrt(found.variance)
        return np.flatnonzero(~(found.steps > COARSE * size).any(axis=1)).tolist()

    @cached_property
    def alike(self) -> dict[tuple[int, int], int]:
        """Pairs of copies that agree in most rows, and in how many rows they differ."""
        steps, complete = self.found.steps, self.found.complete
        return {
            pair: complete - rows
            for pair, rows in sorted(self.watched.same.items())
            if rows == complete or not (steps[list(pair)] > 0).any()  # rounding makes equal rows
        }
