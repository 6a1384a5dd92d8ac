"""At which lags and mirrors rows of a column correlate, beyond chance, and what that reveals.

Let x be the scores of a column (uniform ranks; of a category its frequent values, and random
scores of all values), mean 0 and variance 1, and S their sums over blocks of B rows. Of all lags
k and all mirrors s at once, by Fourier transform,

    A(k) = sum over i of S_i S_(i+k)          C(s) = sum over i of S_i S_(s-i)

In a random order A / B is a quadratic form of white noise with |A|_F^2 = pairs / 2 and |A| = 1,
that of C has twice the pairs: it exceeds sqrt(2 pairs u) + 2u, or sqrt(4 pairs u) + 2u, with
probability exp(-u) (Laurent and Massart; ranks are sub-Gaussian), and rare values add
Bernstein's term. u is for ALPHA divided by all lags, columns, scores and both kinds. Multiples
of a lag are also taken together. Lags are found modulo the length, then measured row by row.

What they give away is what the best linear smoother over the row and the rows found this way
leaves, with the covariance R that follows from the correlations (see `_row_order`).

Blocks keep it cheap: a lag that is no multiple of B keeps at least half of its correlation, and
B grows only where pairs abound. Of rows that are a share f of all, f^2 of all pairs are left at
every lag.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.privacy._groups import EVEN

PAIRS = 1 << 17
"""Blocks are as long as leaves so many pairs of them,"""
LONGEST = 1 << 24
"""and long enough that there are no more than this."""
LONG = 1 << 19
"""So many blocks are transformed by SciPy: in a quarter of the time, but it has to be loaded."""
COMBS = (4, 16, 64)
"""So many multiples of a lag are taken together."""
MOST_LAGS, MULTIPLES = 32, 128
"""Lags of a column that are measured row by row, and multiples of the strongest."""
RANK_BINS, SOME = 1 << 16, 1 << 14
"""Values are ranked by so many bins, whose scale is that of so many rows."""
FREQUENT = 4
"""Values of a category that are looked at one by one."""
ASKED = 64
"""Rows for which a smoother is worked out."""

GONE = np.uint32(0xFFFFFFFF)
"""A missing cell: as a number it is NaN."""
_U = np.uint64
Cells = np.ndarray[Any, np.dtype[np.uint32]]
"""Cells in four bytes: numbers in single precision, of all else hashes."""


@dataclass(frozen=True)
class Ties:
    """How rows of a column correlate that lie so many rows apart, or whose places have a sum."""

    lags: dict[int, float]
    mirrors: dict[int, float]

    def __bool__(self) -> bool:
        return bool(self.lags or self.mirrors)

    @property
    def where(self) -> str:
        """Which rows reveal the column, in words."""
        most, turned = (max(map(abs, r.values()), default=0.0) for r in (self.lags, self.mirrors))
        if 0.9 * most < turned:
            return "rows in mirrored order"
        lag = min(lag for lag, r in self.lags.items() if abs(r) >= 0.9 * most)
        return f"rows {lag:,} rows apart"


@dataclass(frozen=True)
class Blocks:
    """Rows in blocks of `each`: where they lie, and how many pairs of blocks there are at a lag."""

    rows: Ints
    each: int
    length: int
    total: int
    pairs: Any
    mirrored: Any

    @classmethod
    def of(cls, rows: Ints, total: int) -> "Blocks":
        """Return blocks of these of the `total` rows of a table."""
        share = len(rows) / total
        # share^2 total pairs are left at a lag; blocks of `each` rows leave PAIRS of them
        each = max(1, 1 << max(0, int(share**2 * total / PAIRS).bit_length() - 1))
        each = max(each, -(-total // LONGEST))
        length = _smooth(-(-total // each))
        if len(rows) == total:
            most = total / each  # no lag has more pairs
            return cls(rows, each, length, total, most, most)
        held = np.bincount(rows // each, minlength=length) / each
        pairs, mirrored = (np.maximum(p, 1.0) for p in _products(held))
        return cls(rows, each, length, total, pairs, mirrored)

    def sums(self, scores: Floats) -> Floats:
        """Return the sums of blocks, of variance 1 if they are full."""
        sums = np.bincount(self.rows // self.each, weights=scores, minlength=self.length)
        return np.asarray(sums / math.sqrt(self.each))


def _smooth(least: int) -> int:
    """Return a length of at least so much that transforms well: no prime factor above 5."""
    size = 1 << max(1, (least - 1).bit_length())
    for three in (3, 5, 9, 15, 25, 27, 45, 75, 81, 135, 225):
        two = max(1, 1 << max(0, (-(-least // three) - 1).bit_length()))
        if least <= two * three < size:
            size = two * three
    return size


def _products(sums: Floats) -> tuple[Floats, Floats]:
    """Return A at each lag up to half of the length, and C at each sum of places; circular."""
    # A is the transform of |f|^2, C that of f^2; in single precision, whose error of A is some
    # 1e-7 A(0) = 1e-7 length, far below the sqrt(length) of chance
    fft = import_module("scipy" if len(sums) >= LONG else "numpy").fft
    f = fft.rfft(sums.astype(np.float32))
    lags = fft.irfft(f.real**2 + f.imag**2, len(sums))
    return lags[: len(sums) // 2 + 1], fft.irfft(f * f, len(sums))


def find_ties(cells: Cells, hides_missing: bool | None, blocks: Blocks, alpha: float) -> Ties:
    """Return at which lags and mirrors rows of a column correlate, and how much."""
    scores = _scores(cells, hides_missing)
    combs = COMBS if blocks.each == 1 else ()
    tests = max(1, len(scores)) * blocks.length * (2 + len(combs))
    u = math.log(2 * tests / alpha)
    ties = Ties({}, {})
    for rows_scores in scores:
        lags, mirrors = _beyond_chance(blocks.sums(rows_scores), blocks, u, combs)
        if lags or mirrors:
            rows = _Placed.of(rows_scores, blocks)
            ties.lags.update(rows.lags(lags, u))
            ties.mirrors.update(rows.mirrors(mirrors, u))
    if hides_missing is None or not ties:
        return ties
    alike = _Alike.of(cells, blocks, hides_missing=hides_missing)
    return Ties(
        {lag: alike.correlation(blocks.rows + lag) for lag in ties.lags},
        {mirror: alike.correlation(mirror - blocks.rows) for mirror in ties.mirrors},
    )


def _beyond_chance(
    sums: Floats, blocks: Blocks, u: float, combs: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the lags and the mirrors of blocks that correlate beyond chance, most first."""
    # sqrt(2 pairs u) + 2 u of the header, of mirrors sqrt(4 pairs u) + 4 u; Bernstein's rare / 3
    rare = max(float((sums**2).max()) - EVEN * blocks.each, 0.0)
    beyond = 2 * u * (1 + rare / 3)
    lags, mirrors = _products(sums)
    over = np.abs(lags) - np.sqrt(2 * blocks.pairs * u) - beyond
    over[0] = -1.0
    turned = np.abs(mirrors) - 2 * np.sqrt(blocks.mirrored * u) - 2 * beyond
    together = _combs(lags, blocks.pairs, u, rare, combs)
    return list(dict.fromkeys([*_strongest(over), *together])), _strongest(turned)


def _strongest(over: Floats) -> list[int]:
    """Return where something is over its limit, most first."""
    places = np.flatnonzero(over > 0)
    return [int(p) for p in places[np.argsort(-over[places])][:MOST_LAGS]]


def _combs(lags: Floats, pairs: Any, u: float, rare: float, combs: Sequence[int]) -> list[int]:
    """Return lags whose multiples, taken together, correlate beyond chance, and these multiples.

    A sum over M lags has |A|_F^2 = M pairs / 2 and |A| <= M.
    """
    places: list[int] = []
    for many in combs:
        most = (len(lags) - 1) // many
        if most < 1:
            break
        bases = np.arange(1, most + 1)
        total, held = np.zeros(most), np.zeros(most)
        for m in range(1, many + 1):
            total += lags[m * bases]
            held += np.broadcast_to(pairs, lags.shape)[m * bases]
        over = total - np.sqrt(2 * held * u) - 2 * u * many * (1 + rare / 3)
        for base in _strongest(over)[:1]:
            places += [base * m for m in range(1, many + 1)]
    return places


@dataclass(frozen=True)
class _Placed:
    """Scores of rows by their place, 0 where there are none, to measure single lags."""

    scores: Any
    some: Ints
    blocks: Blocks

    @classmethod
    def of(cls, scores: Floats, blocks: Blocks) -> "_Placed":
        """Return scores by place; of many rows some are the first of pairs."""
        dense = np.zeros(blocks.total, dtype=np.float32)
        dense[blocks.rows] = scores
        step = max(1, len(blocks.rows) // PAIRS)
        return cls(dense, blocks.rows[::step], blocks)

    def lags(self, slots: Sequence[int], u: float) -> dict[int, float]:
        """Return the lags of rows that lags of blocks stand for, with their correlations."""
        each, total, lags = self.blocks.each, self.blocks.total, dict[int, float]()
        for at in [way for slot in slots for way in (slot, self.blocks.length - slot)]:
            near = range(max(1, (at - 1) * each + 1), min((at + 1) * each, total))
            lags |= _best({lag: self._correlation(self.some + lag, u) for lag in near})
        if lags:
            strongest = max(lags, key=lambda lag: abs(lags[lag]))
            more = range(2 * strongest, min(total, MULTIPLES * strongest), strongest)
            known = {lag: self._correlation(self.some + lag, u) for lag in more}
            lags |= {lag: r for lag, r in known.items() if r}
        return lags

    def mirrors(self, slots: Sequence[int], u: float) -> dict[int, float]:
        """Return the sums of places of rows that those of blocks stand for."""
        each, total, mirrors = self.blocks.each, self.blocks.total, dict[int, float]()
        for at in [way for slot in slots for way in (slot, self.blocks.length + slot)]:
            near = range(at * each, min((at + 2) * each - 1, 2 * total))
            mirrors |= _best({place: self._correlation(place - self.some, u) for place in near})
        return mirrors

    def _correlation(self, others: Ints, u: float) -> float:
        """Return how some rows correlate with others; 0 if chance explains it."""
        here = (others >= 0) & (others < self.blocks.total) & (others != self.some)
        one, two = self.scores[self.some[here]], self.scores[others[here]]
        both = (one != 0) & (two != 0)
        one, two = one[both].astype(np.float64), two[both].astype(np.float64)
        size = math.sqrt(float(one @ one) * float(two @ two))
        if not size:
            return 0.0
        r, rare = float(one @ two) / size, max(float(np.max(np.abs(one * two))) - EVEN, 0.0)
        limit = math.sqrt(2 * u / len(one)) + 2 * u * (1 + rare / 3) / len(one)
        return r if abs(r) > limit else 0.0


def _best(known: dict[int, float]) -> dict[int, float]:
    best = max(known, key=lambda each: abs(known[each]), default=None)
    return {} if best is None or not known[best] else {best: known[best]}


@dataclass(frozen=True)
class _Alike:
    """Values of a category by their place, to measure (P(equal) - s) / (1 - s), s = sum of pi^2."""

    cells: Cells
    there: Any
    rows: Ints
    alike: float

    @classmethod
    def of(cls, cells: Cells, blocks: Blocks, *, hides_missing: bool) -> "_Alike":
        """Return values by place."""
        dense = np.full(blocks.total, GONE)
        there = np.zeros(blocks.total, dtype=bool)
        dense[blocks.rows] = cells
        there[blocks.rows] = True if hides_missing else cells != GONE
        counts = np.unique(dense[there], return_counts=True)[1]
        return cls(dense, there, blocks.rows, float(((counts / counts.sum()) ** 2).sum()))

    def correlation(self, others: Ints) -> float:
        """Return how much more often rows are equal to others than by chance."""
        here = (others >= 0) & (others < len(self.cells)) & (others != self.rows)
        one, two = self.rows[here], others[here]
        both = self.there[one] & self.there[two]
        equal = float((self.cells[one[both]] == self.cells[two[both]]).mean())
        return (equal - self.alike) / (1 - self.alike)


# ---- scores ------------------------------------------------------------------------------


def _scores(cells: Cells, hides_missing: bool | None) -> list[Floats]:
    """Return a column as scores of mean 0 and variance 1, 0 where missing; none if constant."""
    if hides_missing is None:
        return _standard(*_ranks(cells.view(np.float32)))
    here = np.ones(len(cells), dtype=bool) if hides_missing else cells != GONE
    values, counts = np.unique(cells[:: max(1, len(cells) // SOME)], return_counts=True)
    some = values[np.argsort(-counts, kind="stable")]
    some = some if hides_missing else some[some != GONE]
    frequent = some[: min(FREQUENT, len(some) - 1)]
    scores = [score for v in frequent for score in _standard((cells == v).astype(float), here)]
    if len(some) > FREQUENT:  # what the rest reveals: a random score of each value
        words = mixed(cells.astype(np.uint64))
        for shift in (0, 32):
            part = ((words >> _U(shift)) & _U(GONE)).astype(np.float64)
            scores += _standard(part, here)
    return scores


def _ranks(values: Any) -> tuple[Floats, Any]:
    """Return ranks, values of one bin in the middle of theirs, and which are there.

    Bins are even on the scale of arcsinh((x - median) / quartiles): sorting would take longer.
    """
    here = ~np.isnan(values)
    some = np.sort(values[:: max(1, len(values) // SOME)])
    some = some[: np.count_nonzero(~np.isnan(some))]
    if not len(some):
        return np.zeros(len(values)), here
    low, middle, high = some[[len(some) // 4, len(some) // 2, 3 * len(some) // 4]]
    with np.errstate(all="ignore"):  # of infinite numbers
        size = next((x for x in (high - low, some[-1] - some[0]) if 0 < x < np.inf), 1.0)
        scaled = np.arcsinh((values - middle) / np.float32(size))
        ends = np.nan_to_num(np.arcsinh((some[[0, -1]] - middle) / np.float32(size)))
        step = np.float32((RANK_BINS - 1) / max(float(ends[1] - ends[0]), 1e-30))
        places = np.clip((scaled - ends[0]) * step, 0, RANK_BINS - 1)
    bins = np.where(here, np.nan_to_num(places), 0).astype(np.int32)
    counts = np.bincount(bins[here] if not here.all() else bins, minlength=RANK_BINS)
    return (np.cumsum(counts) - counts / 2)[bins], here


def _standard(scores: Floats, here: Any) -> list[Floats]:
    """Return scores with mean 0 and variance 1 among those that are there; none if constant."""
    every = bool(here.all())
    known = scores if every else scores[here]
    if not len(known) or known.min() == known.max():
        return []
    scores = (scores - known.mean()) / known.std()
    return [scores if every else np.where(here, scores, 0.0)]


def mixed(words: Words) -> Words:
    """Return words whose bits depend on all bits of others."""
    # the finalizer of MurmurHash3
    words = (words ^ (words >> _U(33))) * _U(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> _U(33))) * _U(0xC4CEB9FE1A85EC53)
    return np.asarray(words ^ (words >> _U(33)))


# ---- what they give away -----------------------------------------------------------------


def left_by_ties(ties: Ties, total: int, privacy: Floats) -> Floats:
    """Return the share that the best smoother over tied rows leaves, on average over rows."""
    noise, rows = privacy / (1 - privacy), np.linspace(0, total - 1, ASKED)
    return np.asarray(np.mean([_left_of(row, ties, total, noise) for row in rows], axis=0))


def _left_of(at: float, ties: Ties, total: int, noise: Floats) -> Floats:
    """Return what is left of one row: the copy of it, and those of the rows it correlates with."""
    row = int(at)
    others = [row + sign * lag for lag in ties.lags for sign in (-1, 1)]
    others += [mirror - row for mirror in ties.mirrors]
    rows = np.array([row, *{each for each in others if 0 <= each < total and each != row}])
    apart, sums = np.abs(rows[:, None] - rows), rows[:, None] + rows
    known = np.eye(len(rows))
    for places, correlations in ((apart, ties.lags), (sums, ties.mirrors)):
        for place, r in correlations.items():
            known[(places == place) & (apart > 0)] = r
    spectrum, axes = np.linalg.eigh(known)
    spectrum = np.maximum(spectrum, 0.0)  # some correlations counted as none
    # sum over i of U_0i^2 v S_i / (S_i + v), see `_row_order`; the row's variance is 1
    weights = axes[0] ** 2 / float(axes[0] ** 2 @ spectrum)
    return np.array([float(weights @ (v * spectrum / (spectrum + v))) for v in noise])
