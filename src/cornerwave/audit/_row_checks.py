"""Checks of the noise that sums of products cannot make: they sort and count single rows.

    fit          counts below fixed quantiles, and between them, are binomial; so are those of
                 the squared distance of a row, a chi-square
    dependence   X, the noise before a step, and the step are unrelated in every way: a table
                 of their ranks (chi-square), and the distance of neighbours' ranks, which
                 finds any function however it jumps (Chatterjee 2021)
    repeats, untouched      no noise came twice, no cell stayed as it was (_steps)

Given X, honest noise is drawn row by row, so every order of the rows is as likely as any
other: limits hold for any distribution of X.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._blocks import BLOCK_ROWS
from cornerwave.audit._chance import (
    LEAST_AUDITED,
    Check,
    Ranks,
    bernstein,
    chi_square_limit,
    divergences,
    morton,
    sure_limit,
    z_limit,
)
from cornerwave.audit._numbers import NumberEvidence
from cornerwave.audit._repeats import log_odds
from cornerwave.audit._rows import View
from cornerwave.audit._steps import step_covariance
from cornerwave.choices import KEEP_ORDER
from cornerwave.privacy import MATTERS, RowOrder

NORMAL_BINS = 64
TAILS = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3)
"""Noise is counted in so many bins of equal probability, and in tails on both sides."""

CROSSED = 6
"""Up to this many columns each, and its low digits, is compared with every other; beyond, each with
itself."""

CROWDED = 1.0
"""If more pairs per row than this meet by chance, repeated noise is not looked for."""


@dataclass(frozen=True)
class Found:
    """The worst of some comparisons: its score, what it was, and how many there were."""

    value: float
    where: str
    comparisons: int = 1


Seen = tuple[tuple[int, ...], list[Found]]
"""Copies, and the comparisons that were made of them."""


def fit(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the noise of each copy, and each step, with normals, in many directions."""
    seen = [*_copies_seen(evidence), *_steps_seen(evidence)]
    limit = sure_limit(alpha / _comparisons(seen))
    for copies, scores in seen:
        worst = max(scores, key=lambda score: score.value)
        note = f"the noise is not normal in {worst.where}: an estimate may undo much of it"
        yield Check.of(copies, worst.value, limit, note)


def _comparisons(seen: Sequence[Seen]) -> int:
    return max(sum(score.comparisons for _, scores in seen for score in scores), 1)


def _copies_seen(evidence: NumberEvidence) -> Iterator[Seen]:
    for i, (columns, noise) in enumerate(evidence.directions.copies):
        names = [evidence.columns[n] for n in columns]
        if names:
            yield (i,), [normal_fit(z, name) for z, name in zip(noise, names, strict=True)]


def _steps_seen(evidence: NumberEvidence) -> Iterator[Seen]:
    for k in range(evidence.found.copies):
        scores: list[Found] = []
        for view in evidence.directions.of_step(k):
            names = evidence.names_of(k) if not view.name else [view.name] * len(view.step)
            scores += [normal_fit(z, name) for z, name in zip(view.step, names, strict=True)]
            if view.name == "an axis" or len(view.step) == 1:
                squares = (view.step**2).sum(axis=0)
                edges = _distance_edges(len(view.step))
                scores.append(_counted(squares, edges, "the distance of rows"))
        if scores:
            yield evidence.step(k), scores


def normal_fit(z: Floats, name: str) -> Found:
    """Compare values with the standard normal distribution."""
    return _counted(z, _normal_edges(), name)


def _counted(values: Floats, edges: Floats, name: str) -> Found:
    """Compare counts below each edge, and between bins' edges, with their probabilities."""
    n, shares = len(values), _shares()
    below = np.searchsorted(np.sort(values), edges)
    inner = below[len(TAILS) : -len(TAILS)]
    within = np.diff(inner, prepend=0, append=n)
    scores = [*divergences(below, n, shares), *divergences(within, n, 1 / NORMAL_BINS)]
    return Found(float(max(scores)), name, len(scores))


@cache
def _shares() -> Any:
    bins = np.arange(1, NORMAL_BINS) / NORMAL_BINS
    return np.array([*TAILS, *bins, *(1 - np.array(TAILS[::-1]))])


@cache
def _normal_edges() -> Any:
    return np.array([NormalDist().inv_cdf(share) for share in _shares()])


@cache
def _distance_edges(freedom: int) -> Any:
    return np.array([chi_square_limit(1 - float(share), freedom) for share in _shares()])


def dependence(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare ranks of X, and of the noise before a step, with ranks of the noise."""
    seen = [*_noise_beside_source(evidence), *_steps_beside_all(evidence)]
    limit = z_limit(alpha / _comparisons(seen))
    for copies, scores in seen:
        worst = max(scores, key=lambda score: score.value)
        note = f"the noise is not independent of {worst.where}, though it may not be correlated"
        yield Check.of(copies, worst.value, limit, note)


def _noise_beside_source(evidence: NumberEvidence) -> Iterator[Seen]:
    for i, (columns, noise) in enumerate(evidence.directions.copies):
        if len(columns):
            source, names = evidence.rows.source, evidence.columns
            if len(names) > CROSSED:
                source, names = source[columns], [names[n] for n in columns]
            yield (i,), _ranked(source, noise, names)


def _steps_beside_all(evidence: NumberEvidence) -> Iterator[Seen]:
    for k in range(evidence.found.copies):
        scores: list[Found] = []
        for view in evidence.directions.of_step(k):
            names = evidence.names_of(k) if not view.name else [view.name] * len(view.step)
            if view.name or k > 0:  # the first step by columns is a copy's noise
                scores += _ranked(view.source, view.step, names)
            if view.before is not None:
                what = [f"the noise before in {name}" for name in names]
                scores += _ranked(view.before, view.step, what)
                scores += _curved(view, names)
        if scores:
            yield evidence.step(k), scores


def _ranked(features: Floats, noise: Floats, names: list[str]) -> list[Found]:
    """Compare every feature with every direction of the noise, or each with its own."""
    one = [Ranks.of(row, again=True) for row in features]
    other = [Ranks.of(row) for row in noise]
    crossed = len(one) != len(other) or len(one) <= CROSSED
    pairs = [(a, b) for a in range(len(one)) for b in range(len(other)) if crossed or a == b]
    return [Found(max(one[a].scores(other[b])), names[a], 3) for a, b in pairs]


def _curved(view: View, names: list[str]) -> list[Found]:
    """Compare a step with X and the noise before it, both at once."""
    assert view.before is not None, "the first step has no noise before it"
    curved = []
    for X, before, step, name in zip(view.source, view.before, view.step, names, strict=True):
        curve = Ranks.of(morton(Ranks.of(X).ranks, Ranks.of(before).ranks))
        where = f"{name} and the noise before in {name} together"
        curved.append(Found(curve.neighbours(Ranks.of(step)), where))
    return curved


def repeats(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare how many pairs of rows have the same noise with how many meet by chance."""
    seen = evidence.repeated
    limit = sure_limit(alpha / evidence.found.copies)
    for k in range(evidence.found.copies):
        covariance = step_covariance(evidence.found, seen.order, k)
        odds = log_odds(seen.cell[k], covariance, 4.0)
        rows = seen.rows * seen.part[k]
        step = seen.order[max(k - 1, 0) : k + 1]
        # A vector and its negative count as one, so twice as many pairs meet.
        expected = seen.rows * rows * float(np.exp(odds))
        if odds == 0 or expected > CROWDED * rows:
            yield Check.of(step, 0.0, limit, "", "rows with the noise of others")
            continue
        variance = expected + 16 * expected**2 / max(rows, 1.0)
        over = max(float(seen.pairs[k]) - expected, 0.0)
        note = f"{seen.pairs[k] / seen.part[k]:,.0f} pairs of rows have the same noise"
        yield Check.of(step, float(bernstein(over, variance)), limit, note)


def untouched(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare how many cells, and how many rows, have no noise with chance."""
    seen = evidence.repeated
    limit = sure_limit(alpha / (evidence.found.copies * (1 + evidence.found.columns)))
    for k in range(evidence.found.copies):
        covariance = step_covariance(evidence.found, seen.order, k)
        size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        by_chance = seen.cell[k] / (np.sqrt(2 * np.pi) * size)
        whole = float(np.exp(log_odds(seen.cell[k], covariance, 2.0)))
        counts = np.array([*seen.still[k], seen.bare[k]])
        share = np.array([*by_chance, whole])
        judged = (share < 1) & (counts > seen.rows * share)
        if not evidence.directions.columns_of_step(k).size and k > 0:
            continue  # the same copy twice
        scores = np.where(judged, divergences(counts, seen.rows, np.minimum(share, 0.5)), 0.0)
        at = int(scores.argmax())
        what = "rows" if at == len(by_chance) else f"values of {evidence.columns[at]}"
        note = f"{counts[at]:,} {what} have no noise"
        step = seen.order[max(k - 1, 0) : k + 1]
        if k > 0:
            note = f"{counts[at]:,} {what} are the same in both"
        yield Check.of(step, float(scores[at]), limit, note)


# --------------------------------------------------------------------------------------------------
# Do the low digits of a copy reveal the source?
#
# Far below the noise the digits of Y = X + W are those of the noise: for a scale g that is
# small beside it, the remainder of Y / g is uniform and unrelated to X, whatever X is. Rows
# are sorted by that remainder, for each scale, and neighbours must be no closer in X than
# by chance. Scales are powers of ten, as digits are written, and of two, as bits are.
#
# Copies lie on grids of their own, and a scale that does not fit the grid would show where
# on the grid a value lies, and so the value. So scales are multiples of the grid, or so much
# coarser that it does not matter.


REMAINDER_CELLS = 256
"""The remainder is known to so many equal parts."""

SMALL = 0.25
"""The coarsest scale, in standard deviations of the noise."""

COARSER = 4096.0
"""A scale so many times the grid need not be a multiple of it."""

FINEST_SCALE = 2.0**-38
"""The finest scale, as a share of the largest value: what is below may be rounding."""

FINEST_DECIMAL, ON_DECIMALS = 15, 1e-4
BITS_APART = 4


def digits(evidence: NumberEvidence, alpha: float) -> Iterator[Check]:
    """Compare the low digits of every column of every copy with X."""
    columns, statistics = range(evidence.found.columns), evidence.found
    crossed = statistics.columns <= CROSSED
    seen = [[(n, list(_scales(evidence, i, n))) for n in columns] for i in range(statistics.copies)]
    scales = sum(len(steps) for copy in seen for _, steps in copy)
    limit = z_limit(alpha / max(scales * (statistics.columns if crossed else 1), 1))
    for i, copy in enumerate(seen):
        worst = (0.0, 0)
        for n, steps in ((n, steps) for n, steps in copy if steps):
            shown, present = _shown(evidence, i, n)
            against = evidence.rows.source[:, present][columns if crossed else [n]]
            truth = [Ranks.of(row) for row in against]
            for scale in steps:
                order = Ranks.of(_remainder(shown, scale), again=True)
                worst = max(worst, *((order.neighbours(ranks), n) for ranks in truth))
        note = f"the low digits of {evidence.columns[worst[1]]} depend on the source"
        yield Check.of((i,), worst[0], limit, note)


def _remainder(values: Floats, scale: float) -> Floats:
    """Return the remainder by a scale, in cells; those of the scale's multiples in the first."""
    turns = values / scale + 0.5 / REMAINDER_CELLS
    return np.floor((turns - np.floor(turns)) * REMAINDER_CELLS).astype(np.uint8)


def _shown(evidence: NumberEvidence, i: int, n: int) -> tuple[Floats, Ints]:
    """Return what a copy shows of a column, and in which of the kept rows."""
    raw = evidence.rows.raw
    present = np.flatnonzero(np.isfinite(raw[0, n]) & np.isfinite(raw[1 + i, n]))
    return raw[1 + i, n, present], present


def _scales(evidence: NumberEvidence, i: int, n: int) -> Iterator[float]:
    """Yield the scales that suit a column of a copy."""
    statistics, (values, _) = evidence.found, _shown(evidence, i, n)
    variance = statistics.covariance[
        (1 + i) * statistics.columns + n, (1 + i) * statistics.columns + n
    ]
    most = SMALL * float(np.sqrt(max(variance - statistics.steps[i, n] ** 2 / 12, 0.0)))
    most *= float(evidence.factors[i, n])
    if evidence.logarithmic[n]:  # noise is smallest where values are
        most *= float(np.min(1 + values, initial=np.inf)) / 4
    if most > 0 and len(values) >= LEAST_AUDITED:
        yield from scales_of(values, most)


def scales_of(values: Floats, most: float) -> list[float]:
    """Return the scales up to `most` at which the remainders of honest values are uniform.

    >>> values = np.random.default_rng(1).normal(size=1000)
    >>> [g for g in scales_of(values.round(3), 0.5) if g < 0.1]
    [0.01]
    """
    largest = float(np.abs(values).max(initial=0.0))
    least = max(largest * FINEST_SCALE, most * 1e-12, 1e-300)
    binary, decimal = _binary_grid(values), _decimal_grid(values, most, largest)
    tens = range(int(np.floor(np.log10(most))), int(np.floor(np.log10(least))), -1)
    twos = range(int(np.floor(np.log2(most))), int(np.floor(np.log2(least))), -BITS_APART)
    written = [float(f"1e{power}") for power in tens]
    bits = [2.0**power for power in twos]
    if decimal:
        written = [scale for scale in written if scale > 1.5 * decimal]
        bits = [scale for scale in bits if scale >= COARSER * decimal]
    else:
        written = [scale for scale in written if scale >= COARSER * binary]
        bits = [scale for scale in bits if scale > 1.5 * binary]
    return [*written, *bits]


def _binary_grid(values: Floats) -> float:
    """Return the largest power of two that all values are multiples of; 0 for zeros.

    If large values lie on a coarser grid than small ones, as in single precision, return
    what is coarse enough for both.
    """
    held = values[values != 0]
    if not len(held):
        return 0.0
    lowest = _lowest_bits(held)
    size = np.abs(held)
    coarser = float(lowest[size >= np.median(size)].min())
    return coarser * REMAINDER_CELLS if coarser > lowest.min() else coarser


def _lowest_bits(values: Floats) -> Floats:
    """Return the value of the lowest bit that is set in each value."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return np.asarray(np.ldexp(lowest, exponent - 53))


def _decimal_grid(values: Floats, most: float, largest: float) -> float:
    """Return the largest power of ten up to `most` that all values are multiples of, or 0."""
    top = int(np.floor(np.log10(most))) + 1
    for power in range(top, top - FINEST_DECIMAL, -1):
        step = float(f"1e{power}")
        if step < largest * FINEST_SCALE:
            break
        turns = values / step
        if (np.abs(turns - np.rint(turns)) < ON_DECIMALS).all():
            return step
    return 0.0


# --------------------------------------------------------------------------------------------------
# What the order of the rows reveals: a check of the source, whose order the copies show.


def check_order(
    aligned: Aligned,
    *,
    numbers: Sequence[str],
    categories: Sequence[str],
    seen: RowOrder | None = None,
) -> tuple[Check, ...]:
    """Return a failed check of the copies in the source's order, if that reveals a column.

    It is a note, and no fault, if every such copy states that the owner chose to keep the
    order. Value and limit are shares of variance. `seen` are the runs of all numbers of the
    source, if they were looked at already.
    """
    shown = tuple(i for i, name in enumerate(aligned.names) if name not in aligned.sorted_copies)
    if not shown:
        return ()
    order, columns = seen, [*numbers, *categories]
    if order is None or columns != list(aligned.columns):
        order, start = RowOrder(columns), 0
        for table in aligned.source.groups(columns, BLOCK_ROWS):
            order.add(start, table)
            start += table.num_rows
    revealed = order.revealed(numbers, categories)
    if not revealed:
        return ()
    chosen = all(aligned.stated.copies[i].order == KEEP_ORDER for i in shown)
    names = ", ".join(each.column for each in revealed)
    note = f"the order of the rows reveals {names}: {revealed[0]}"
    return (Check(shown, revealed[0].share, MATTERS, chosen, note, "order"),)
