"""Checks of the noise that sums of products cannot make: they sort and count single rows.

    fit          counts below fixed quantiles, and between them, are binomial; so are those of
                 the squared distance of a row, a chi-square
    dependence   X, the noise before a step, and the step are unrelated in every way: a table
                 of their ranks (chi-square), and the distance of neighbours' ranks, which
                 finds any function however it jumps (Chatterjee 2021)
    repeats, untouched      no noise came twice, no cell stayed as it was (_repeats)

Given X, honest noise is drawn row by row, so every order of the rows is as likely as any
other: limits hold for any distribution of X.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._chance import (
    Check,
    bernstein,
    chi_square_limit,
    divergences,
    sure_limit,
    z_limit,
)
from cornerwave.audit._directions import View
from cornerwave.audit._evidence import NumberEvidence
from cornerwave.audit._ranks import Ranks, morton
from cornerwave.audit._repeats import log_odds, step_covariance

BINS = 64
TAILS = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3)
"""Noise is counted in so many bins of equal probability, and in tails on both sides."""

CROSSED = 6
"""Up to this many columns each is compared with every other; beyond, each with itself."""

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
    """Compare the noise of each copy, and each step, with the normal law, in many directions."""
    seen = [*_copies_seen(evidence), *_steps_seen(evidence)]
    limit = sure_limit(alpha / _comparisons(seen))
    for copies, found in seen:
        worst = max(found, key=lambda own: own.value)
        note = f"the noise is not normal in {worst.where}: an estimate may undo much of it"
        yield Check.of(copies, worst.value, limit, note)


def _comparisons(seen: Sequence[Seen]) -> int:
    return max(sum(own.comparisons for _, found in seen for own in found), 1)


def _copies_seen(evidence: NumberEvidence) -> Iterator[Seen]:
    for i, (columns, noise) in enumerate(evidence.directions.copies):
        names = [evidence.columns[n] for n in columns]
        if names:
            yield (i,), [normal_fit(z, name) for z, name in zip(noise, names, strict=True)]


def _steps_seen(evidence: NumberEvidence) -> Iterator[Seen]:
    for k in range(evidence.found.copies):
        found: list[Found] = []
        for view in evidence.directions.of_step(k):
            names = evidence.names_of(k) if not view.name else [view.name] * len(view.step)
            found += [normal_fit(z, name) for z, name in zip(view.step, names, strict=True)]
            if view.name == "an axis" or len(view.step) == 1:
                squares = (view.step**2).sum(axis=0)
                edges = _distance_edges(len(view.step))
                found.append(_counted(squares, edges, "the distance of rows"))
        if found:
            yield evidence.step(k), found


def normal_fit(z: Floats, name: str) -> Found:
    """Compare values with the standard normal law."""
    return _counted(z, _normal_edges(), name)


def _counted(values: Floats, edges: Floats, name: str) -> Found:
    """Compare counts below each edge, and between bins' edges, with their probabilities."""
    n, shares = len(values), _shares()
    below = np.searchsorted(np.sort(values), edges)
    inner = below[len(TAILS) : -len(TAILS)]
    within = np.diff(inner, prepend=0, append=n)
    scores = [*divergences(below, n, shares), *divergences(within, n, 1 / BINS)]
    return Found(float(max(scores)), name, len(scores))


@cache
def _shares() -> Any:
    bins = np.arange(1, BINS) / BINS
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
    for copies, found in seen:
        worst = max(found, key=lambda own: own.value)
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
        found: list[Found] = []
        for view in evidence.directions.of_step(k):
            names = evidence.names_of(k) if not view.name else [view.name] * len(view.step)
            if view.name or k > 0:  # the first step by columns is a copy's noise
                found += _ranked(view.source, view.step, names)
            if view.before is not None:
                what = [f"the noise before in {name}" for name in names]
                found += _ranked(view.before, view.step, what)
                found += _curved(view, names)
        if found:
            yield evidence.step(k), found


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
    found = []
    for X, before, step, name in zip(view.source, view.before, view.step, names, strict=True):
        curve = Ranks.of(morton(Ranks.of(X).ranks, Ranks.of(before).ranks))
        where = f"{name} and the noise before in {name} together"
        found.append(Found(curve.neighbours(Ranks.of(step)), where))
    return found


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
        found = np.array([*seen.still[k], seen.bare[k]])
        share = np.array([*by_chance, whole])
        judged = (share < 1) & (found > seen.rows * share)
        if not evidence.directions.columns_of_step(k).size and k > 0:
            continue  # the same copy twice
        scores = np.where(judged, divergences(found, seen.rows, np.minimum(share, 0.5)), 0.0)
        at = int(scores.argmax())
        what = "rows" if at == len(by_chance) else f"values of {evidence.columns[at]}"
        note = f"{found[at]:,} {what} have no noise"
        step = seen.order[max(k - 1, 0) : k + 1]
        if k > 0:
            note = f"{found[at]:,} {what} are the same in both"
        yield Check.of(step, float(scores[at]), limit, note)
