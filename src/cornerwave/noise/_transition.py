"""From what an edition changed to the frozen numbers of its rule.

    y = A x + e,   A = I + Cov(y - x, x) Cov(x)^-1,   Q = Cov(e),   C = Cov(y)    of changed rows

    W_e = A W_{e-1} + H Z_{e-1} + B P_e             H = Q C^-1 (3 I - A) / 4,    BB' = 1.33 Q
    Z_e = A Z_{e-1} + H Z_{e-1} + 0.27 B P_e        Z_0 = 0.4 W_0

P_e is a fresh path over the levels. Noise shaped like the row's history would hide every
function of it exactly, but one step of a history does not show its shape: values that drift
(autoregressive) forget e, and W_e = A W_{e-1} + sqrt(Q) P_e would be right; those that fluctuate
about a person's own level come back to it, and noise that forgets would be averaged away. So
the noise has a part Z that lasts, for one column by r + (1 - r^2) (3 - r) / 4, about 1. The more
it lasts, the more copies of drifting values show it, so it is a part only. docs/editions.md has
the figures. What the old row determines, e = 0, has the noise that it determines: constant
columns and sums keep theirs, columns that add up still do, and last year's value has last year's.

BB' is more where an edition would have clearly less noise than K: all balances become 0.

Of n rows with N columns the share n / (n + 10 N) of the covariances is measured. The rest is
what a history around the frozen mean would have: given the columns that did not change, those
that did have covariance D, and change by d D of them, with d from the size of the changes.

Of values that come back, after an edition without the row or with a gap, the old ones are not
known any more: they may be the same, or have nothing to do with them. All is assumed, d = 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TypedDict

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.moments import Moments
from cornerwave.noise._factor import factor

# --------------------------------------------------------------------------------------------------
# What an edition changed, summed over the rows that changed; parts add up.
#
# For a row with old values x and new values y, on the scales that columns are perturbed on, the
# moments of the columns (x, y - x) are kept: of rows that changed in the same columns together,
# as long as these are few kinds, and of all further rows together.


MOST_KINDS = 16
"""Sets of changed columns whose rows are distinguished; each takes memory as a survey does."""

Columns = tuple[int, ...]
OTHERS: Columns = ()
"""Stands for all sets of columns beyond the first MOST_KINDS."""


@dataclass(frozen=True)
class Changes:
    """Moments of (x, y - x) by the columns that changed; `a + b` are those of both sets of rows.

    >>> old, new = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[1.0, 3.0, 3.0, 2.0]])
    >>> found = Changes.of(old, new)
    >>> found.rows, {columns: part.mean.tolist() for columns, part in found.kinds.items()}
    (2, {(0,): [3.0, -0.5]})
    """

    kinds: Mapping[Columns, Moments]

    @classmethod
    def of(cls, old: Floats, new: Floats) -> "Changes":
        """Return what rows teach, from (columns, rows) before and after; NaN is missing."""
        changed = changed_cells(old, new)
        rows = np.flatnonzero(changed.any(axis=0))
        bits = np.ascontiguousarray(np.packbits(changed[:, rows], axis=0).T)
        sets = bits.view(np.dtype((np.void, bits.shape[1]))).reshape(-1)
        _, first, kind = np.unique(sets, return_index=True, return_inverse=True)
        changes = cls({})
        for number, row in enumerate(rows[first]):
            chosen = rows[kind == number]
            pairs = np.concatenate([old[:, chosen], new[:, chosen] - old[:, chosen]])
            columns = tuple(np.flatnonzero(changed[:, row]).tolist())
            changes += cls({columns: Moments.of_columns(pairs)})
        return changes

    def __add__(self, other: "Changes") -> "Changes":
        kinds = dict(self.kinds)
        for columns, part in other.kinds.items():
            known = columns in kinds or len(kinds.keys() - {OTHERS}) < MOST_KINDS
            here = columns if known else OTHERS
            kinds[here] = kinds[here] + part if here in kinds else part
        return Changes(kinds)

    @property
    def rows(self) -> int:
        """How many rows changed in at least one column."""
        return sum(part.rows for part in self.kinds.values())


def changed_cells(old: Floats, new: Floats) -> Flags:
    """Return which cells hold one number before and another one after.

    Gaps do not count: of a value that comes back after one, another rule takes care.
    """
    return np.asarray((old != new) & ~np.isnan(old) & ~np.isnan(new))


def together(parts: list[Moments]) -> Moments:
    """Return the moments of all parts."""
    return reduce(add, parts)


EXCESS, LASTING, LASTING_FIRST = 1.33, 0.27, 0.4
"""How much fresh noise there is for the part of a change that the old row does not determine,
which share of it lasts, and which share of the first edition's noise does. Found by search: over
12 editions they hide the most of both kinds of histories, for all correlations, with noise that
grows less than 2.5 times, and nearly as much over 60."""

ROWS_PER_COLUMN = 10
"""Rows per column at which what was measured weighs as much as what is assumed."""

DOUBT = 2.0
"""Standard errors of a measured variance, sqrt(2/n) of it each, that are added to it."""

SHORT = 0.1
"""An edition's noise may be less than K by this share of it, along any axis."""

RETURNED, RETURNED_EXCESS = 0.5, 2.5
"""The correlation that values which come back are assumed to have with those before, and how much
fresh noise there is for the rest: found by search, so that as much as possible is hidden whether
they are the same, unrelated, or anything between."""

NEGLIGIBLE = 1e-9
"""Directions with less than this share of the variance are left out of regressions."""


class KeptTransition(TypedDict):
    """A `Transition` as the chain keeps it."""

    columns: list[int]
    carry: list[list[float]]
    recall: list[list[float]]
    fresh: list[list[float]]
    remainder: list[list[float]]


@dataclass(frozen=True)
class Transition:
    """How the noise of a row becomes that of the next edition, in the columns that changed.

    For c changed columns of N: carry (c, N) is A, recall (c, N) is H, fresh (c, c) the lower
    triangular B; remainder (c, c), a factor of Q, gives with A how values change.

    >>> one = np.eye(1)
    >>> step = Transition((0,), carry=one, recall=one, fresh=one, remainder=one)
    >>> Transition.from_json(step.to_json()).columns
    (0,)
    """

    columns: tuple[int, ...]
    carry: Floats
    recall: Floats
    fresh: Floats
    remainder: Floats

    def to_json(self) -> KeptTransition:
        """Return what the chain keeps; a double is written so that the same double comes back."""
        return {
            "columns": list(self.columns),
            "carry": self.carry.tolist(),
            "recall": self.recall.tolist(),
            "fresh": self.fresh.tolist(),
            "remainder": self.remainder.tolist(),
        }

    @classmethod
    def from_json(cls, kept: KeptTransition) -> "Transition":
        """Return what `to_json` wrote."""
        return cls(
            tuple(kept["columns"]),
            carry=np.array(kept["carry"], dtype=np.float64),
            recall=np.array(kept["recall"], dtype=np.float64),
            fresh=np.array(kept["fresh"], dtype=np.float64),
            remainder=np.array(kept["remainder"], dtype=np.float64),
        )


@dataclass(frozen=True)
class SecondMoments:
    """Second moments of rows of one kind: of x, of y - x with x, and of y - x, (N, N) each."""

    old: Floats
    pull: Floats
    change: Floats


def transitions(changes: Changes, covariance: Floats) -> tuple[Transition, ...]:
    """Return the rules of an edition; `covariance` is the frozen shape of the noise, (N, N).

    The first is for rows of all kinds that have none of their own: kinds with many rows do.
    """
    enough = ROWS_PER_COLUMN * len(covariance)
    by_kind = {c: part for c, part in changes.kinds.items() if c != OTHERS and part.rows >= enough}
    rest = [part for c, part in changes.kinds.items() if c not in by_kind] or list(by_kind.values())
    kinds = [together(rest), *by_kind.values()] if rest else []
    return tuple(exact_transition(_supported(part, covariance), covariance) for part in kinds)


def returning_transitions(back: Flags, covariance: Floats) -> tuple[Transition, ...]:
    """Return the rules for values that come back; `back` (N, rows) states where.

    The first is for rows of all kinds that have none of their own: the most frequent ones do.
    """
    if not back.any():
        return ()
    sets, counts = np.unique(back, axis=1, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:MOST_KINDS]
    moved = [back.any(axis=1), *sets[:, often].T]
    return tuple(_returning(each, covariance) for each in moved)


def _returning(moved: Flags, covariance: Floats) -> Transition:
    open_ = _given_others(covariance, moved)
    far = 1 - RETURNED
    joint = SecondMoments(old=covariance, pull=-far * open_, change=2 * far * open_)
    return exact_transition(joint, covariance, excess=RETURNED_EXCESS)


def kinds_of(rules: Sequence[Transition], changed: Flags) -> Ints:
    """Return which of an edition's rules each row follows; -1 for a row that did not change.

    changed: which cells did, (N, rows).
    """
    kinds = np.where(changed.any(axis=0), 0, -1)
    for kind, rule in enumerate(rules[1:], 1):
        cells = np.isin(np.arange(len(changed)), rule.columns)
        kinds[(changed == cells[:, None]).all(axis=0)] = kind
    return kinds


def exact_transition(
    joint: SecondMoments, covariance: Floats, *, excess: float = EXCESS
) -> Transition:
    """Return the rule for changes whose second moments are known.

    >>> r = np.array([[0.5]])  # the correlation of one edition with the next
    >>> rule = exact_transition(SecondMoments(old=r**0, pull=r - 1, change=2 * (1 - r)), r**0)
    >>> rule.carry.round(6).tolist(), rule.recall.round(6).tolist()
    ([[0.5]], [[0.46875]])
    """
    columns = np.flatnonzero(np.diag(joint.change) > 0)
    K, scale = _scaled(covariance)  # columns have units
    unit = np.outer(scale, scale)
    old, pull, change = joint.old / unit, (joint.pull / unit)[columns], joint.change / unit
    among = np.eye(len(K))[columns]
    step = _regression(pull, old)  # A - I
    explained = pull @ step.T
    rest = among @ change @ among.T - explained - explained.T + step @ old @ step.T  # Q
    every = np.eye(len(K))
    determined = every + among.T @ step  # A
    new = determined @ old @ determined.T + among.T @ rest @ among  # C
    recall = _regression(rest @ among, new) @ (3 * every - determined) / 4  # H
    fresh = excess * rest
    fresh = fresh + _lacking(_first_noise(among + step, recall, K) + fresh, among @ K @ among.T)
    here = scale[columns]
    unit, turned = np.outer(here, here), here[:, None] / scale
    return Transition(
        columns=tuple(columns.tolist()),
        carry=(among + step) * turned,
        recall=recall * turned,
        fresh=factor(fresh * unit).lower,
        remainder=factor(rest * unit).lower,
    )


def _first_noise(carry: Floats, recall: Floats, covariance: Floats) -> Floats:
    """Return the covariance of A W_0 + H Z_0."""
    both = carry + LASTING_FIRST * recall
    return both @ covariance @ both.T


def _lacking(noise: Floats, wanted: Floats) -> Floats:
    """Return what noise lacks along the axes on which it has clearly less than is wanted."""
    axes = _axes(wanted)
    values, vectors = np.linalg.eigh(np.eye(axes.shape[1]) - axes.T @ noise @ axes)
    short = values > SHORT
    back = wanted @ axes @ vectors[:, short]
    return np.asarray(back * values[short] @ back.T)


def _regression(of: Floats, on: Floats) -> Floats:
    """Return the covariance `of` times the inverse of the covariance `on`, on its range."""
    return np.asarray(of @ np.linalg.pinv(on, NEGLIGIBLE, hermitian=True), dtype=np.float64)


def _supported(part: Moments, covariance: Floats) -> SecondMoments:
    """Return what was measured, as far as there are rows, and else what is assumed."""
    number = len(covariance)
    prior = ROWS_PER_COLUMN * number
    known = part.rows / (part.rows + prior)
    mean, covariances = part.mean[number:], part.covariance
    # of few rows even the mean is not known to others, and the variance may be twice as much
    change = covariances[number:, number:] + (1 - known) * np.outer(mean, mean)
    change = change * (1 + DOUBT * math.sqrt(2 / part.rows))
    moved = np.diag(change) > 0
    open_ = _given_others(covariance, moved)
    size = _size(change, open_)
    return SecondMoments(
        old=known * covariances[:number, :number] + (1 - known) * covariance,
        pull=known * covariances[number:, :number] - (1 - known) * min(size, 2.0) / 2 * open_,
        change=known * change + (1 - known) * size * open_,
    )


def _given_others(covariance: Floats, moved: Flags) -> Floats:
    """Return the covariance of the columns that moved given the others, 0 elsewhere, (N, N)."""
    K, scale = _scaled(covariance)
    cov = np.where(np.outer(moved, moved), K, 0.0)
    across = K[np.ix_(moved, ~moved)]
    explained = across @ np.linalg.pinv(K[np.ix_(~moved, ~moved)], NEGLIGIBLE, True) @ across.T
    cov[np.ix_(moved, moved)] -= explained
    return np.asarray(cov * np.outer(scale, scale))


def _size(change: Floats, open_: Floats) -> float:
    """Return the mean square of changes along the axes of `open_`, in units of its variances."""
    axes = _axes(open_)
    return float(np.trace(axes.T @ change @ axes) / max(1, axes.shape[1]))


def _axes(covariance: Floats) -> Floats:
    """Return X with X'CX = I, for the directions in which C varies."""
    C, scale = _scaled(covariance)
    values, vectors = np.linalg.eigh(C)
    kept = values > NEGLIGIBLE * len(C)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None])


def _scaled(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the matrix on the scale of its deviations, and these; 1 for a constant column."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(deviation > 0, deviation, 1.0)
    return covariance / np.outer(scale, scale), scale
