"""The best estimate of any kind, on a sample of rows: do all copies beat the best one?

A linear estimate could miss what a cleverer one finds. So the posterior mean under the
distribution of X itself (attack/nonlinear.py) is run with all copies and with the least
noisy one alone, on rows that are not part of that distribution's sample.
"""

from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.attack.knowledge import Knowledge
from cornerwave.attack.nonlinear import posterior_mean
from cornerwave.attack.score import Measured, error, gain
from cornerwave.audit.chance import share
from cornerwave.audit.statistics import Statistics
from cornerwave.audit.watch import SAMPLE_ROWS


@dataclass(frozen=True)
class Posterior:
    """What the best possible estimate leaves hidden, over all columns, and the gain."""

    rows: int
    alone: Measured
    together: Measured
    gain: Measured


def attack_sample(found: Statistics, sample: Floats) -> Posterior | None:
    """Attack rows of [X, D_1 .. D_M], given as (P, n); None if there is nothing to pool."""
    N, M = found.columns, found.copies
    rows = sample[:, :SAMPLE_ROWS].T if sample.shape[1] <= SAMPLE_ROWS else _spread(sample)
    if M < 2 or len(rows) < 40 or not (found.noise > 0).all():
        return None
    reference, attacked = rows[::2, :N], rows[1::2]
    X = attacked[:, :N]
    copies = [X + attacked[:, (1 + i) * N : (2 + i) * N] for i in range(M)]
    known = _known(found, reference)
    best = int(found.noise.argmin())
    together = posterior_mean(copies, known=known, reference=reference)
    alone = posterior_mean([copies[best]], known=known.of_copies([best]), reference=reference)
    spread = np.where(found.variance > 0, found.variance, 1.0)
    confidence = 1 - share(1)
    return Posterior(
        rows=len(X),
        alone=error(X, alone, variance=spread, confidence=confidence),
        together=error(X, together, variance=spread, confidence=confidence),
        gain=gain(X, alone=alone, together=together, variance=spread, confidence=confidence),
    )


def _known(found: Statistics, reference: Floats) -> Knowledge:
    """Return what the copies' noise was found to be, with its own shape."""
    N, best = found.columns, int(found.noise.argmin())
    here = slice((1 + best) * N, (2 + best) * N)
    shape = found.covariance[here, here] / found.noise[best]
    return Knowledge(reference.mean(axis=0), found.K, found.across, shape)


def _spread(sample: Floats) -> Floats:
    chosen = np.linspace(0, sample.shape[1] - 1, SAMPLE_ROWS).astype(int)
    return np.asarray(sample[:, chosen].T)
