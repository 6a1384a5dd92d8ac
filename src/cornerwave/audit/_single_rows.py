"""Checks that find a leak in few rows, or noise that some rows have from others.

    inliers    a step e is N(0, I) in each row; in a row with the share w of the noise N(0, w^2 I)
    row wave   given the noise b ~ N(0, c I) before a step, e is N(0, I). In a row whose copies are
               independent it is N(-b, (1 + c) I). In a row with one noise, scaled, e = r b: about
               any point there is at most as much probability as about 0 (Anderson 1955), so
               |e - r b|^2 is below a quantile of a chi-square in no more rows than it should be
    lengths    turning a vector keeps its length. With F(d) pairs of rows whose lengths differ by
               less than d, 2 F(d) - F(2d) is 0 for a flat density, and of order d^3 for a smooth
               one, so 2 F(d) - F(2d) - (2 F(2d) - F(4d)) / 8 is 0 there too (Richardson)
    sums       no row's noise is (E_i +- E_j) / sqrt 2 of two others

With L_i the likelihood of row i if it is such a row, over that if it is honest, the likelihood
that a share t of the rows is, over that none is,

    prod_i (1 - t + t L_i)

has the mean 1 if none is, so it exceeds 1 / alpha with probability alpha at most (Markov).

Rows come from all rows of the table (_steps), those of several copies from the kept rows.
Steps are whitened by K, not by their own covariance: then a turned row has the length of the
other one to the last digits. A rounded copy is blurred by one step.

What a check could not have found is measured by a leak of standard size, and stated with it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats
from cornerwave.attack import whitening
from cornerwave.audit._chance import (
    Check,
    bernstein,
    chi_square_limit,
    chi_square_score,
    divergences,
    sure_limit,
)
from cornerwave.audit._numbers import NumberEvidence
from cornerwave.audit._rows import View, sharp

# --------------------------------------------------------------------------------------------------
# Rows whose noise is the sum of two others', by meeting in the middle.
#
# If z_k = (z_i +- z_j) / sqrt 2, the cell of z_i +- z_j is that of sqrt 2 z_k. All pairs of some
# rows are looked up among the cells of these rows. The rows are those closest to a plane: of n rows
# m are kept, and if z_i and z_j are among them so is z_k, with probability 1 - (2 - sqrt 2)^2 / 4,
# which is 0.91 (distances from the plane are uniform close to it). So of s n such triples about
# s m^2 / n are met, and not s m^3 / n^2. Rounding leaves a sum beside its cell now and then.
#
# By chance, the sum of two rows has the density of N(0, 2) along an axis, at most 1 / sqrt(4 pi),
# and in the plane's direction n / m times as much.


FINEST_CELL, COARSEST_CELL = 2.0**-19, 2.0**-6
PER_BLUR = 16.0
"""Cells are this many times as wide as what rounding does to a value, within these bounds."""

RARE = 0.01
"""As many axes are used as leave fewer matches by chance."""

CLOSED = 0.9
"""The share of the sums of two kept rows that are closer to the plane than those kept."""


@dataclass(frozen=True)
class SumsOfTwo:
    """Rows that were `tried`, those that are the sum of two others, how many are `by_chance`.

    `would_meet` is how many would be found if every row of the table were such a sum.
    """

    tried: int = 0
    matches: int = 0
    by_chance: float = 1.0
    would_meet: float = 0.0


def find_sums(z: Floats, rough: Floats, *, rows: int) -> SumsOfTwo:
    """Look for white rows z (r, m), the closest of all `rows` to a plane, that are sums of others.

    `rough` (r,) is the deviation that rounding adds along each axis.
    """
    m = z.shape[1]
    cells = np.clip(PER_BLUR * rough, FINEST_CELL, None)
    axes = np.argsort(cells, kind="stable")
    axes = axes[cells[axes] <= COARSEST_CELL]
    crowd = 2 * max(rows / m, 1.0)  # of either sign, and in the direction of the plane
    # expected matches by chance: m^2 pairs, m rows, cell times density on each axis
    factors = crowd * m**3 * np.cumprod(cells[axes] / math.sqrt(4 * math.pi))
    if not len(factors):
        return SumsOfTwo()
    used = axes[: int(np.argmax(factors < RARE)) + 1] if (factors < RARE).any() else axes
    chance = float(factors[len(used) - 1])
    if chance > m:
        return SumsOfTwo()
    counts = _core.count_sums(np.ascontiguousarray(z[used] / cells[used, None]))
    # sums that rounding leaves in their cell, on all axes
    inside = CLOSED * math.prod(1 - 1.6 * 2 * rough[used] / cells[used])
    return SumsOfTwo(m, counts, chance, m * (m / max(rows, m)) * inside)


LOW = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Rows that are near what scaled noise would be are counted below these quantiles."""

SHARES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""The shares of the rows that may be of another kind, as likely as each other."""

LENGTH_GAPS = tuple(2.0**-bits for bits in range(6, 28, 2))
"""The differences of lengths that pairs are counted by, in deviations of the length."""

WEAKER = (0.3, 0.1, 0.03, 0.01)
"""The shares of the noise that some rows may have, as likely as each other."""

WEAK_ROWS, WEAK = 0.003, 0.1
LOOSE_ROWS = 0.01
TURNED_ROWS, SUMMED_ROWS = 1 / 2, 1 / 3
"""What a check should find: these shares of the rows, with this share of the noise."""

TRIALS, DRAWN = 20, 1 << 20
"""Leaks that a check must find, each of them, among honest rows that are drawn, up to so many: the
copy's may have such a leak. If it finds one with probability x, then one passes although all of
these are found with probability (1 - x) x^20, which is 0.018 at most."""


@dataclass(frozen=True)
class Frame:
    """The axes (r, N) along which a step is white by K, and what rounding adds to each, (r,)."""

    columns: list[int]
    turn: Floats
    rough: Floats
    steps: Floats

    def white(self, E: Floats, seed: int) -> Floats:
        """Return steps (N, m) along the axes, (r, m), with the grids of copies hidden."""
        steps = E[self.columns]
        if self.steps.any():
            random = np.random.default_rng([E.shape[1], seed])
            for grid in self.steps:
                steps = steps + random.uniform(-0.5, 0.5, steps.shape) * grid[:, None]
        return np.asarray(self.turn @ steps)


def frame_of(evidence: NumberEvidence, k: int) -> Frame | None:
    """Return the frame of step k; None if it cannot be judged."""
    statistics, copies = evidence.found, list(evidence.step(k))
    if tuple(copies) != evidence.watched.order[max(k - 1, 0) : k + 1]:
        return None
    columns = evidence.directions.columns_of_step(k).tolist()
    size = statistics.noise[copies[-1]] - (statistics.noise[copies[0]] if k > 0 else 0.0)
    if not columns or size <= 0:
        return None
    steps = statistics.steps[copies][:, columns]
    blur = (steps**2).sum(axis=0) / 6
    shape = statistics.definite[np.ix_(columns, columns)]
    # (s_k S + blur)^-1/2: white by what noise should be, not by what it is
    turn = sharp(whitening(size * shape + np.diag(blur)).T, blur)
    return Frame(columns, turn, np.sqrt(turn**2 @ blur), steps) if len(turn) else None


def inliers(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Look for rows with less noise than others, in each step and in all of them together."""
    limit = _ratio_limit(alpha / (evidence.found.copies + 1))
    seen = list(ShortRows.of(evidence))
    note = "some rows have far less noise than others"
    for rows in seen:
        yield Check.of(rows.copies, rows.weak, limit, note)
    if not any(_is_seen(rows.leaks(), limit) for rows in seen):
        unseen = f"{WEAK_ROWS:.1%} of the rows with {WEAK:g} of the noise"
        yield Check.of(evidence.directions.order, 0.0, limit, "", unseen)


@dataclass(frozen=True)
class ShortRows:
    """Squared lengths of the shortest of all `rows`, with their degrees of freedom."""

    copies: tuple[int, ...]
    squares: Floats
    freedom: int
    rows: int

    @classmethod
    def of(cls, evidence: NumberEvidence) -> Iterator["ShortRows"]:
        """Yield the shortest rows of each step, and those of all copies together."""
        for k, E in enumerate(evidence.near.smallest):
            if (frame := frame_of(evidence, k)) is not None:
                squares = (frame.white(E, k) ** 2).sum(axis=0)
                yield cls(evidence.step(k), squares, len(frame.turn), evidence.near.rows)
        views = [view for k in range(evidence.found.copies) if (view := _whole(evidence, k))]
        if len(views) > 1:
            squares = np.sum([(view.step**2).sum(axis=0) for view in views], axis=0)
            freedom = sum(len(view.step) for view in views)
            yield cls(evidence.directions.order, squares, freedom, evidence.rows.count)

    @property
    def weak(self) -> float:
        """The evidence that some rows have less noise."""
        # log of N(0, w^2 I) over N(0, I) at a squared length: -r log w - (w^-2 - 1) |e|^2 / 2
        ratios = [-self.freedom * math.log(w) - self.squares * (w**-2 - 1) / 2 for w in WEAKER]
        return _evidence_of(ratios, self.rows - len(self.squares))

    def leaks(self) -> Iterator[float]:
        """Yield the same for honest rows with as many such ones as should be found, drawn anew."""
        random, squares = np.random.default_rng(self.rows), self.squares
        if self.rows <= DRAWN:
            squares = np.sort(random.chisquare(self.freedom, self.rows))[: len(squares)]
            squares = random.permutation(squares)
        while True:
            drawn = WEAK**2 * random.chisquare(self.freedom, round(WEAK_ROWS * self.rows))
            yield replace(self, squares=np.append(squares[len(drawn) :], drawn)).weak


def _is_seen(leaks: Iterator[float], limit: float) -> bool:
    """Whether the evidence of each of some leaks is beyond a limit."""
    return all(score > limit for score in islice(leaks, TRIALS))


def row_wave(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Look for rows whose steps do not follow the noise before them."""
    if evidence.found.copies < 2:
        return
    steps = {k: v for k in range(1, evidence.found.copies) if (v := _whole(evidence, k))}
    limit = _ratio_limit(alpha / 2 / (len(steps) + 1))
    apart = sure_limit(alpha / 2 / max(len(steps) * len(LOW), 1))
    loose = {k: _loose(view, _ratio(evidence, k)) for k, view in steps.items()}
    for k, view in steps.items():
        value, other = _evidence_of([loose[k]]), _scaled(evidence, k, view) * limit / apart
        note = "in some rows the noise of the two is independent: together they reveal more there"
        if other > value:
            note = "in some rows the noise of the two is one noise, scaled: together they reveal X"
        yield Check.of(evidence.step(k), max(value, other), limit, note)
    rows = np.sum([np.zeros(evidence.rows.count), *loose.values()], axis=0)
    would = _is_seen(_loose_leaks([(v, _ratio(evidence, k)) for k, v in steps.items()]), limit)
    note = "in some rows the noise of the copies is independent: together they reveal more there"
    unseen = f"{LOOSE_ROWS:.0%} of the rows with independent noise in each copy"
    every = evidence.directions.order
    yield Check.of(every, _evidence_of([rows]), limit, note, "" if would else unseen)


def _whole(evidence: NumberEvidence, k: int) -> View | None:
    """Return the view of a step along the axes of its covariance."""
    views = evidence.directions.of_step(k)
    return next((view for view in views if view.name == "an axis" or len(view.step) == 1), None)


def _ratio(evidence: NumberEvidence, k: int) -> float:
    """Return c, the noise before a step over that of the step."""
    before, after = evidence.found.noise[list(evidence.step(k))]
    return float(before / max(after - before, 1e-300))


def _loose(view: View, c: float) -> Floats:
    """Return log L of each row: that its two copies are independent, over that they are not."""
    assert view.before is not None, "the first step has no noise before it"
    e, b = view.step, view.before
    squares = (e**2).sum(axis=0) - ((e + b) ** 2).sum(axis=0) / (1 + c)
    return np.asarray((squares - len(e) * math.log1p(c)) / 2)


def _evidence_of(log_ratios: Sequence[Floats], others: int = 0) -> float:
    """Return sqrt(2 log) of the likelihood ratio, 0 if it is below 1.

    It is the mean over SHARES, and over all kinds of leaks. Of `others` nothing is known: a
    ratio is at least 0.
    """
    sums = []
    for rows in log_ratios:
        # log(1 - t + t e^x) = h + log((1 - t) e^-h + t e^(x - h)), h = max(x, 0): none overflows
        high = np.maximum(rows, 0.0)
        honest, leak, total = np.exp(-high), np.exp(rows - high), float(high.sum())
        sums += [
            total + float(np.log((1 - t) * honest + t * leak).sum()) + others * math.log1p(-t)
            for t in SHARES
        ]
    return math.sqrt(2 * max(float(np.logaddexp.reduce(sums)) - math.log(len(sums)), 0.0))


def _ratio_limit(alpha: float) -> float:
    """Return the limit of what `_evidence_of` gives: a ratio of 1 / alpha."""
    return math.sqrt(2 * math.log(1 / alpha))


def _loose_leaks(steps: Sequence[tuple[View, float]]) -> Iterator[float]:
    """Yield the evidence of honest rows with as many loose ones as should be found, drawn anew."""
    if not steps:
        yield 0.0
        return
    count = steps[0][0].step.shape[1]
    random, loose = np.random.default_rng(count), round(LOOSE_ROWS * count)
    rows = np.sum([_drawn(view, c, count - loose, random) for view, c in steps], axis=0)
    while True:
        leak = [_drawn(view, c, loose, random, together=False) for view, c in steps]
        yield _evidence_of([np.concatenate([rows, np.sum(leak, axis=0)])])


def _drawn(
    view: View, c: float, rows: int, random: np.random.Generator, *, together: bool = True
) -> Floats:
    """Return log L of some rows, honest ones or such whose copies are independent."""
    e, b = random.standard_normal((2, len(view.step), rows))
    b *= math.sqrt(c)
    if not together:
        e = e * math.sqrt(1 + c) - b
    return _loose(View("", e, e, b), c)


def _scaled(evidence: NumberEvidence, k: int, view: View) -> float:
    """Return the score of how many rows have one noise in both copies, scaled to each level."""
    before, after = evidence.found.noise[list(evidence.step(k))]
    if not 0 < before < after or view.before is None:
        return 0.0
    away = view.step - (math.sqrt(after / before) - 1) * view.before
    lengths = np.sort((away**2).sum(axis=0))
    edges = [chi_square_limit(1 - share, len(away)) for share in LOW]
    below = np.searchsorted(lengths, edges)
    shares, rows = np.array(LOW), len(lengths)
    return float(np.where(below > rows * shares, divergences(below, rows, shares), 0.0).max())


def lengths(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare how many pairs of rows have noise of nearly one length with how many should."""
    limit = sure_limit(alpha / (evidence.found.copies * len(LENGTH_GAPS)))
    unseen = "half of the rows with the noise of the other half, turned"
    if evidence.found.columns == 1:
        return  # turned is as it is or the other way round: repeats
    for k, E in enumerate(evidence.near.middle):
        frame = frame_of(evidence, k)
        if frame is None or len(frame.turn) < 2:
            yield Check.of(evidence.step(k), 0.0, limit, "", unseen)
            continue
        squares = (frame.white(E, k) ** 2).sum(axis=0)
        score = np.sort(chi_square_score(squares, len(frame.turn)))
        taper, room = _taper(score, every=len(score) == evidence.near.rows)
        # rounding changes a length by as much as a coordinate, its score by sqrt 2 times that,
        # and how far two rows of one length are apart by sqrt 2 times that
        blur = 2 * math.sqrt(float(np.mean(frame.rough**2)))
        caught = {
            gap: share for gap in LENGTH_GAPS if (share := _caught(gap, blur)) > 0 and gap <= room
        }
        pairs = [_pairs(score, taper, gap) for gap in caught] or [PairLengths()]
        scores = [float(bernstein(max(p.over, 0.0), p.variance)) for p in pairs]
        at = int(np.argmax(scores))
        note = (
            f"{pairs[at].over / WEIGHTS[0]:,.0f} pairs of rows have noise of the same length: "
            "turned, not drawn anew"
        )
        # rows that were completed have another length
        half = TURNED_ROWS * _whole_rows(evidence) ** 2
        shares = zip(caught.values(), pairs, strict=False)
        turned = [(share * half * p.rows, p) for share, p in shares]
        would = max((float(bernstein(t, p.variance + t)) for t, p in turned), default=0.0)
        seen = "" if max(would, scores[at]) > limit else unseen
        yield Check.of(evidence.step(k), scores[at], limit, note, seen)


WEIGHTS = (7 / 9, -1.0, 1 / 9)
"""What pairs up to a gap, up to two and up to four count; by chance they are as 1 to 1 to 2."""

SEEN = 0.1
"""A pair of one length that counts less than this among its gaps is not looked for there."""

ROOM = 16
"""Gaps in half of the range that rows were kept in: then its ends do not show. What the taper's
fourth derivative adds to the expected count falls with the fifth power of this; with 8, of 65,536
rows, it was six deviations, and one honest copy of 1e7 rows in seven failed."""


@dataclass(frozen=True)
class PairLengths:
    """Pairs too many, the variance of their number, and the rows that they were counted from."""

    over: float = 0.0
    variance: float = 0.0
    rows: float = 0.0


def _caught(gap: float, blur: float) -> float:
    """Return what a pair of rows of one length counts, if rounding moves them apart by a normal
    of this deviation; 0 if no pair is seen through it.
    """
    inside = [0.0, *(math.erf(w * gap / max(blur, 1e-300) / math.sqrt(2)) for w in (1, 2, 4))]
    counts = float(np.array(WEIGHTS) @ np.diff(inside))
    return counts if counts > SEEN else 0.0


def _taper(ascending: Floats, *, every: bool) -> tuple[Floats, float]:
    """Return the weight of each row, and the largest gap that pairs may be counted by.

    If some rows were kept for their length, their density ends on both sides. A window with an
    edge counts rows beside it from one side only, and they are fewer or more by chance: the
    weights are smooth and end before the rows do.
    """
    if every:
        return np.ones(len(ascending)), math.inf
    low, high = np.quantile(ascending, [0.05, 0.95])
    half = float(high - low) / 2
    away = np.clip((ascending - (low + high) / 2) / max(half, 1e-300), -1, 1)
    return np.asarray(np.cos(np.pi / 2 * away) ** 4), half / ROOM


def _pairs(ascending: Floats, taper: Floats, gap: float) -> PairLengths:
    """Compare how many pairs of values are closer than a gap, than two and than four gaps.

    Each pair is counted from both sides, by the mean of the weights of both.
    """
    within = [np.zeros(len(ascending))]
    for width in (gap, 2 * gap, 4 * gap):
        ends = np.searchsorted(ascending, [ascending - width, ascending + width])
        within.append((ends[1] - ends[0] - 1) / 2)
    # pairs up to a gap, from one to two, from two to four
    rings, weights = np.diff(within, axis=0), np.array(WEIGHTS)
    over, variance = weights @ rings @ taper, weights**2 @ rings @ taper**2
    return PairLengths(float(over), float(variance), float(taper.sum()))


def _whole_rows(evidence: NumberEvidence) -> float:
    """Return the share of the rows that miss no value."""
    return evidence.complete / max(evidence.found.complete, 1)


def sums(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare how many rows have the sum of two others' noise with how many meet it by chance."""
    limit = sure_limit(alpha / evidence.found.copies)
    unseen = "a third of the rows with the sum of two others' noise"
    for k, E in enumerate(evidence.near.flat):
        frame = frame_of(evidence, k)
        total = SumsOfTwo()
        if frame is not None:
            total = find_sums(frame.white(E, k), frame.rough, rows=evidence.near.rows)
        over = max(total.matches - total.by_chance, 0.0)
        value = float(bernstein(over, total.by_chance))
        note = f"{total.matches:,} of {total.tried:,} rows have the sum of two others' noise"
        planted = SUMMED_ROWS * _whole_rows(evidence) ** 3 * total.would_meet
        would = bernstein(planted, total.by_chance) > limit
        yield Check.of(evidence.step(k), value, limit, note, "" if would else unseen)
