"""From what an edition changed to the frozen numbers of its rule.

    y = A x + e,   A = I + pull old^-1,   Q = Cov(e)            measured over the changed rows

    W_e = M W_{e-1} + B P_e,    M = I + diag(w) (A - I),  w_i = 1 / (1 + sqrt(A_ii)),  BB' = 1.4 Q

P_e is a fresh path over the levels. Noise shaped like the row's history would hide every
function of it exactly, but one step of a history does not show its shape: values that drift
(autoregressive) forget where they were, those that fluctuate about a person's own level do not.
For a single column w makes M = sqrt(r): half as fast to forget as the first kind, and 1.4 is
enough to hide what the second kind remembers. docs/editions.md has the figures.

Where few rows changed, their regression would fit them all too well: pull is shrunk, which
leads to W_e = W_{e-1} + sqrt(1.4 d^2) P_e, and the mean change counts as unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.history._changes import Changes
from cornerwave.moments import absolute, factor, positive

EXCESS = 1.4
"""How much fresh noise there is for the part of a change that the old values do not explain."""

ROWS_PER_COLUMN = 10
"""Rows per column at which what was measured and what is assumed of few rows weigh the same."""


RANK_TOLERANCE = 1e-9
"""Directions with less than this share of the variance are left out of the regression."""


@dataclass(frozen=True)
class Transition:
    """How an edition renews the noise of a changed row: M and the lower triangular B, (N, N).

    >>> Transition.from_json(Transition(np.eye(1), np.eye(1)).to_json()).carry.tolist()
    [[1.0]]
    """

    carry: Floats
    fresh: Floats

    def to_json(self) -> dict[str, list[list[float]]]:
        """Return what the chain keeps; a double is written so that the same double comes back."""
        return {"carry": self.carry.tolist(), "fresh": self.fresh.tolist()}

    @classmethod
    def from_json(cls, kept: Mapping[str, Sequence[Sequence[float]]]) -> "Transition":
        """Return what `to_json` wrote."""
        return cls(_square(kept["carry"]), _square(kept["fresh"]))


def transition(changes: Changes, covariance: Floats) -> Transition:
    """Return the rule of an edition; `covariance` is the frozen shape of the noise, (N, N).

    A column that changed in no row has the rule W_e = W_{e-1}.
    """
    prior = ROWS_PER_COLUMN * changes.columns
    rows, count = changes.rows, np.diag(changes.count)
    known = count / (count + prior)
    unknown = np.sqrt(1 - known) * changes.mean
    return exact_transition(
        old=(rows * changes.old + prior * covariance) / (rows + prior),
        pull=known[:, None] * changes.pull,
        change=changes.change + np.where(changes.count > 0, np.outer(unknown, unknown), 0.0),
        covariance=covariance,
    )


def exact_transition(
    *, old: Floats, pull: Floats, change: Floats, covariance: Floats
) -> Transition:
    """Return the rule for changes whose covariances, (N, N) each as in `Changes`, are known.

    >>> r = np.array([[0.81]])  # between one edition and the next, of variance 1
    >>> rule = exact_transition(old=r**0, pull=r - 1, change=2 * (1 - r), covariance=r**0)
    >>> rule.carry.round(6).tolist(), (rule.fresh**2 / (1 - r**2)).round(6).tolist()
    ([[0.9]], [[1.4]])
    """
    deviation = np.sqrt(np.diag(covariance))
    scale = np.where(deviation > 0, deviation, 1.0)  # columns have units
    unit = np.outer(scale, scale)
    K, old, pull, change = (part / unit for part in (covariance, old, pull, change))
    step = np.linalg.lstsq(old, pull.T, rcond=RANK_TOLERANCE)[0].T  # A - I
    rest = change - pull @ step.T - step @ pull.T + step @ old @ step.T  # Q
    kept = np.sqrt(np.maximum(1 + np.diag(step), 0.0))
    carry = np.eye(len(K)) + step / (1 + kept)[:, None]
    fresh = _covering(EXCESS * rest, K - carry @ K @ carry.T, changed=np.diag(change) > 0)
    return Transition(carry * scale[:, None] / scale, factor(fresh * unit).lower)


def _covering(wanted: Floats, needed: Floats, *, changed: Flags) -> Floats:
    """Return fresh noise that covers what is wanted, and what keeps every edition's at K."""
    both = np.outer(changed, changed)
    shape = absolute(np.where(both, wanted, 0.0))
    return shape + positive(np.where(both, needed, 0.0) - shape)


def _square(kept: Sequence[Sequence[float]]) -> Floats:
    return np.array(kept, dtype=np.float64).reshape(len(kept), len(kept))
