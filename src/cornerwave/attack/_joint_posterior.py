"""What a whole copy leaves to an adversary who knows other rows of the same kind.

Around each known row x_i lies a component of width h: its numbers are normal about
m_i = sqrt(1 - h^2) x_i with covariance h^2 K, and each of its categories is that of the row with
probability 1 - h^2, else a draw from pi. In coordinates where the noise is v I and K is diag(l),

    log w_i = - sum of (y - m_i)^2 / (2 (h^2 l + v)) + sum over categories of log P(y | x_i)
    E[x | copy] = sum over i of w_i (m_i + h^2 l / (h^2 l + v) (y - m_i))

is the exact posterior mean under this mixture, and so for categories (`_Refreshed`). A width near
0 takes the known rows themselves for the distribution; width 1 is the linear estimate. Between
them is what can be learned of a distribution from so many rows: in several columns they are few.

The figures are what this attack recovered of rows that it did not know, each column with the width
that did best in the other half of the rows. They are not a bound: who knows more recovers more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack._estimators import left_by_posterior
from cornerwave.attack._llse import whitening
from cornerwave.levels import LATTICE, retention
from cornerwave.noise import MISSING
from cornerwave.passes import in_threads
from cornerwave.privacy import PLACES, JointShares, hidden_shares

WIDTHS = (0.15, 0.5)
"""Widths h that are tried beside 1, the linear estimate: near the known rows, and between both."""
KNOWN, ATTACKED, LEAST_KNOWN = 8192, 512, 200
"""Rows that are known at most, rows that are attacked, and the rows of the least table."""
BLOCK_ROWS = 32
"""Rows whose weights are held at once, in the same memory: 1 MB, which the cache has room for."""
KNOWN_CELLS = 1 << 18
"""Fewer rows are known of a wide table, but a quarter of them at least: the time is bounded."""
SAMPLE, PIECES = 1 << 13, 16
"""Values from which the distribution of a single column is known, and pieces of it: shares differ
by less than 0.001 from those of 256 pieces."""


@dataclass(frozen=True)
class KnownCells:
    """A column of categories: codes (rows,), -1 where missing, and their distribution pi.

    `drawn` is the distribution of what copies draw; None for a column that they show as it is.
    """

    name: str
    codes: Ints
    pi: Floats
    drawn: Floats | None

    def take(self, rows: slice) -> "KnownCells":
        """Return some of the rows."""
        return KnownCells(self.name, self.codes[rows], self.pi, self.drawn)


@dataclass(frozen=True)
class KnownRows:
    """Rows as an adversary knows them: numbers (N, rows), NaN where missing, and cells.

    `covariance` is that of the numbers, `shape` that of noise 1.
    """

    names: tuple[str, ...]
    numbers: Floats
    mean: Floats
    covariance: Floats
    shape: Floats
    cells: tuple[KnownCells, ...] = ()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.numbers.shape[1])

    def take(self, rows: slice) -> "KnownRows":
        """Return some of them."""
        cells = tuple(each.take(rows) for each in self.cells)
        numbers = self.numbers[:, rows]
        return KnownRows(self.names, numbers, self.mean, self.covariance, self.shape, cells)


def measure_joint(rows: KnownRows) -> JointShares:
    """Attack simulated copies of some rows by an adversary who knows the others.

    The rows are in random order; the first are attacked. Too few rows are not measured, nor are
    tables without a column that this adversary looks at.
    """
    if rows.count < LEAST_KNOWN or not (rows.names or rows.cells):
        return JointShares({})
    attacked = min(ATTACKED, rows.count // 4)
    truth, mixture = rows.take(slice(attacked)), _known(rows, attacked)
    noise = [LATTICE[place - 1] for place in PLACES]
    left = {name: np.array(shares) for name, shares in mixture.measured(truth, noise).items()}
    for row, name in zip(rows.numbers, rows.names, strict=True):
        if name in left:  # the column by itself may show more than among many others
            left[name] = np.minimum(
                left[name], left_by_posterior(row[:SAMPLE], noise, pieces=PIECES)
            )
    # who has less noise may add some: what a noisier copy shows, a better one does too
    rising = {n: np.minimum.accumulate(shares[::-1])[::-1].round(4) for n, shares in left.items()}
    return JointShares({name: tuple(shares.tolist()) for name, shares in rising.items()})


def attack_rows(rows: KnownRows, copy: Floats, noise: float) -> Floats:
    """Return what is left of each number of some rows, given their copy (N, rows) and the others.

    The rows are in random order; the first are attacked. NaN for a column without variance.
    """
    attacked = min(ATTACKED, rows.count // 4)
    return _known(rows, attacked).left_of(rows.numbers[:, :attacked], copy[:, :attacked], noise)


def _known(rows: KnownRows, attacked: int) -> "JointPosterior":
    """Return the mixture about the rows after those that are attacked."""
    width = len(rows.names) + sum(_sizes(rows.cells))
    most = max(KNOWN // 4, min(KNOWN, KNOWN_CELLS // max(width, 1)))
    return JointPosterior.of(rows.take(slice(attacked, attacked + most)))


@dataclass(frozen=True)
class JointPosterior:
    """Known rows, along axes on which the noise is v I and the covariance diag(spread)."""

    rows: KnownRows
    axes: Floats
    back: Floats
    spread: Floats
    points: Floats
    indicators: Floats

    @classmethod
    def of(cls, rows: KnownRows) -> "JointPosterior":
        """Return the mixture about some known rows."""
        white = whitening(rows.shape) if rows.names else np.empty((0, 0))
        spread, turned = np.linalg.eigh(white.T @ rows.covariance @ white)
        axes = white @ turned
        back = turned.T @ white.T @ rows.shape  # the inverse of the axes where there is noise
        points = _filled(rows.numbers, rows) @ axes
        indicators = [np.eye(len(each.pi))[each.codes] for each in rows.cells]
        for indicator, each in zip(indicators, rows.cells, strict=True):
            indicator[each.codes == MISSING] = 0.0
        together = np.concatenate([np.empty((rows.count, 0)), *indicators], axis=1)
        return cls(rows, axes, back, np.maximum(spread, 0.0), points, together)

    def measured(self, truth: KnownRows, noise: Sequence[float]) -> dict[str, Floats]:
        """Return what is left of each column of other rows, at each noise, from simulated copies.

        As a share of what the column's own kind leaves to the linear estimate, times what that
        leaves by theory: both meet the same noise, so that chance cancels.
        """
        rng = np.random.default_rng(0)
        exact = _filled(truth.numbers, truth) @ self.axes
        white = rng.normal(size=exact.shape)
        draws = [_Redrawn.of(each, rng) for each in truth.cells]

        def left(v: float) -> dict[str, float]:
            seen, copy = [column.at(v) for column in draws], exact + np.sqrt(v) * white
            errors = [self._errors(truth, copy, seen, v, width) for width in (1.0, *WIDTHS)]
            return {
                name: usual * _ratio(np.array([each[name] for each in errors]))
                for name, usual in self._by_theory(v).items()
            }

        with in_threads(left, noise, None) as measured:
            shares = list(measured)
        return {name: np.array([each[name] for each in shares]) for name in shares[0]}

    def left_of(self, truth: Floats, copy: Floats, noise: float) -> Floats:
        """Return what is left of each number of other rows (N, rows), given their copy.

        The share of their own variance; NaN for a column without any.
        """
        alone = replace(self.rows, numbers=truth, cells=())
        seen = _filled(copy, alone) @ self.axes
        errors = [self._errors(alone, seen, [], noise, width) for width in (1.0, *WIDTHS)]
        shares = np.full(len(truth), np.nan)
        for place, name in enumerate(self.rows.names):
            if name in errors[0]:
                known = truth[place][~np.isnan(truth[place])]
                column = np.array([each[name] for each in errors])
                shares[place] = _ratio(column) * column[0].mean() / known.var()
        return shares

    def _by_theory(self, noise: float) -> dict[str, float]:
        """Return what the linear estimate from its own kind leaves of each column that varies."""
        # l v / (l + v) in the coordinates where K is diag(l), turned back
        hidden = (self.spread * noise / (self.spread + noise)) @ self.back**2
        variance = np.diag(self.rows.covariance)
        pairs = zip(self.rows.names, hidden, variance, strict=True)
        usual = {name: float(error / size) for name, error, size in pairs if size > 0}
        q = retention(noise)
        for each in self.rows.cells:
            if each.drawn is not None and np.count_nonzero(each.pi) > 1:
                usual[each.name] = hidden_shares(each.pi, each.drawn, q).of_all
        return usual

    def _errors(
        self, truth: KnownRows, copy: Floats, seen: Sequence[Ints], noise: float, width: float
    ) -> dict[str, Floats]:
        """Return the squared error of each column in each row that has a value."""
        numbers, chances = self._estimate(copy, seen, noise, width)
        varies = np.diag(truth.covariance) > 0
        errors = {}
        for place, name in enumerate(truth.names):
            known = ~np.isnan(truth.numbers[place])
            if varies[place] and known.any():
                errors[name] = (truth.numbers[place] - numbers[:, place])[known] ** 2
        for each, guessed in zip(truth.cells, chances, strict=bool(chances)):
            if each.drawn is not None:
                known = each.codes != MISSING
                aim = np.eye(len(each.pi))[each.codes[known]]
                errors[each.name] = ((aim - guessed[known]) ** 2).sum(axis=1)
        return errors

    def _estimate(
        self, copy: Floats, seen: Sequence[Ints], noise: float, width: float
    ) -> tuple[Floats, list[Floats]]:
        """Return the posterior mean of numbers (rows, N), and the chances of each category."""
        spread = width**2 * self.spread + noise
        cells = self.rows.cells if seen else ()
        refreshed = [
            _Refreshed.of(each, codes, noise, width)
            for each, codes in zip(cells, seen, strict=True)
        ]
        one = slice(1 if width == 1 else None)  # all components are the same
        centres = np.sqrt(1 - width**2) * self.points[one]
        # |y - m|^2 = |y|^2 - 2 y'm + |m|^2, and |y|^2 is the same for every m: it cancels
        offsets = -(centres**2) @ (0.5 / spread)
        known = _single(centres, *([self.indicators[one]] if refreshed else []))
        asked = _single(copy / spread, *(category.favour for category in refreshed))
        held = _held(asked, known, _single(offsets[:, None]))
        mean, *shares = np.split(held, np.cumsum([len(self.spread), *_sizes(cells)])[:-1], axis=1)
        # sum over i of w_i (m_i + h^2 l / (h^2 l + v) (y - m_i)), and sum of w_i is 1
        mean = mean + width**2 * self.spread / spread * (copy - mean)
        chances = [category.chances(at) for category, at in zip(refreshed, shares, strict=True)]
        return self.rows.mean + mean @ self.back, chances


@dataclass(frozen=True)
class _Refreshed:
    """What a category of a copy shows: y of some rows, refreshed with retention q from b.

    In a component about a row with value a, x has P(x) = r [x = a] + (1 - r) pi_x, and y has
    Z_a = q P(y) + (1 - q) b_y: one number if a = y, `met`, another, `missed`, if not.
    """

    cells: KnownCells
    seen: Ints
    q: float
    r: float

    @classmethod
    def of(cls, cells: KnownCells, seen: Ints, noise: float, width: float) -> "_Refreshed":
        q = 1.0 if cells.drawn is None else retention(noise)
        return cls(cells, seen, q, 1 - width**2)

    @property
    def _drawn(self) -> Floats:
        base = self.cells.pi if self.cells.drawn is None else self.cells.drawn
        return np.asarray((1 - self.q) * base[self.seen])

    @property
    def _missed(self) -> Floats:
        floor = 1e-12  # of a value that no known row has
        return np.asarray(self.q * (1 - self.r) * self.cells.pi[self.seen] + self._drawn + floor)

    @property
    def favour(self) -> Floats:
        """By how much the log weight of a component exceeds others: (rows, values)."""
        more = np.log1p(self.q * self.r / self._missed)
        aim = np.eye(len(self.cells.pi))[self.seen] * more[:, None]
        return np.where((self.seen == MISSING)[:, None], 0.0, aim)

    def chances(self, held: Floats) -> Floats:
        """Return P(x | copy), given the weight of the components about each value."""
        missed = self._missed[:, None]
        shown = np.eye(len(self.cells.pi))[self.seen]
        share = held / (missed + self.q * self.r * shown)
        likely = self.q * shown + self._drawn[:, None]
        chances = likely * (
            self.r * share + (1 - self.r) * self.cells.pi * share.sum(axis=1)[:, None]
        )
        return np.asarray(chances / np.maximum(chances.sum(axis=1, keepdims=True), 1e-300))


@dataclass(frozen=True)
class _Redrawn:
    """One path of refreshes of a category: what copies at any noise show."""

    cells: KnownCells
    chance: Floats
    fresh: Ints

    @classmethod
    def of(cls, cells: KnownCells, rng: np.random.Generator) -> "_Redrawn":
        rows = len(cells.codes)
        base = cells.pi if cells.drawn is None else cells.drawn
        fresh = rng.choice(len(base), rows, p=base / base.sum())
        return cls(cells, rng.random(rows), fresh)

    def at(self, noise: float) -> Ints:
        """Return the codes of a copy."""
        if self.cells.drawn is None:
            return self.cells.codes
        shown = np.where(self.chance < retention(noise), self.cells.codes, self.fresh)
        return np.where(self.cells.codes == MISSING, MISSING, shown)


def _ratio(errors: Floats) -> float:
    """Return what the best width leaves of the first one's error (widths, rows), cross-fitted."""
    halves = errors[:, ::2], errors[:, 1::2]
    left = 0.0
    for half, other in (halves, halves[::-1]):
        left += float(half[other.sum(axis=1).argmin()].sum())
    return left / max(float(errors[0].sum()), 1e-300)


def _filled(numbers: Floats, rows: KnownRows) -> Floats:
    """Return numbers less their mean (rows, N); what is missing follows linearly from the rest."""
    away = (numbers - rows.mean[:, None]).T
    missing = np.isnan(away)
    if not missing.any():
        return away
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    for place, pattern in enumerate(patterns):
        at, K = np.flatnonzero(which.ravel() == place), rows.covariance
        if pattern.any():
            known = np.linalg.pinv(K[np.ix_(~pattern, ~pattern)], rcond=1e-9, hermitian=True)
            follow = K[np.ix_(pattern, ~pattern)] @ known
            away[np.ix_(at, pattern)] = away[np.ix_(at, ~pattern)] @ follow.T
    return away


def _single(*parts: Floats) -> Any:
    """Return columns side by side in single precision, which log weights can do with."""
    return np.concatenate(parts, axis=1).astype(np.float32)


def _held(asked: Any, known: Any, offsets: Any) -> Floats:
    """Return the weighted mean of what is known, by weights of logarithms asked'known + offsets."""
    # one more column adds the offset to each product, and one the weights to their mean
    towards = np.concatenate([known, offsets], axis=1).T.copy()
    asked = np.concatenate([asked, np.ones_like(asked[:, :1])], axis=1)
    known = np.concatenate([known, np.ones_like(offsets)], axis=1)
    sums = np.empty(asked.shape, dtype=asked.dtype)
    memory = np.empty((BLOCK_ROWS, len(known)), dtype=known.dtype)
    with np.errstate(all="ignore"):  # products in vector units may flag what no number shows
        for start in range(0, len(asked), BLOCK_ROWS):
            part = asked[start : start + BLOCK_ROWS]
            weights = np.matmul(part, towards, out=memory[: len(part)])
            weights -= weights.max(axis=1, keepdims=True)
            np.exp(weights, out=weights)
            np.matmul(weights, known, out=sums[start : start + BLOCK_ROWS])
    return np.asarray(sums[:, :-1] / sums[:, -1:], dtype=np.float64)


def _sizes(cells: Sequence[KnownCells]) -> list[int]:
    return [len(each.pi) for each in cells]
