"""Every attack against every scheme, in one table.

An attack runs once on each copy alone and once on all of them together. The gain is
what pooling brought over the best single copy: paired differences of squared errors,
row by row, on rows that had not leaked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.attack.coalition import ATTACKS, Attack, Evidence
from cornerwave.attack.schemes import SCHEMES, Scheme
from cornerwave.attack.score import CONFIDENCE, Measured, error, gain

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REFERENCE_ROWS = 4096
"""Rows of X that stand for its distribution, where no reference is given."""


@dataclass(frozen=True)
class Outcome:
    """One row of the table; errors as a share of the variance, with intervals."""

    scheme: str
    attack: str
    coalition: tuple[int, ...]
    alone: Measured
    together: Measured
    gain: Measured


def battery(
    X: Any,
    *,
    noise: Sequence[float],
    schemes: Sequence[Scheme] = SCHEMES,
    attacks: Sequence[Attack] = ATTACKS,
    coalitions: Sequence[Sequence[int]] | None = None,
    reference: Any = None,
    leaked: Any = None,
    confidence: float = CONFIDENCE,
    unsafe_seed: int,
) -> list[Outcome]:
    """Run every attack against every scheme on the copies of X (T, N) at `noise` (M,).

    coalitions: index sets into the copies, by default all copies together. reference:
    (R, N) rows that stand for the law of X, by default rows of X itself. leaked: (n,)
    ascending positions of rows the adversary knows, by default a tenth of the table.

    >>> X = np.random.default_rng(1).standard_normal((500, 1))
    >>> [llse] = battery(X, noise=[1, 4], schemes=SCHEMES[-1:], attacks=ATTACKS[:1], unsafe_seed=1)
    >>> llse.scheme, llse.attack, llse.gain.above_zero
    ('ours', 'llse', False)
    """
    X = np.asarray(X, dtype=np.float64)
    rng = np.random.default_rng(unsafe_seed)
    reference = _some(rng, X, REFERENCE_ROWS) if reference is None else np.asarray(reference)
    if leaked is None:
        leaked = np.sort(rng.choice(len(X), size=len(X) // 10, replace=False))
    order = rng.permutation(len(X))
    outcomes = []
    for scheme in schemes:
        published: dict[tuple[float, ...], Evidence] = {}
        for attack in attacks:
            levels = tuple(attack.asks(noise))
            if levels not in published:
                published[levels] = _evidence(
                    scheme, X, levels, reference, leaked, order, unsafe_seed
                )
            everyone = [range(len(levels))]
            for coalition in (levels == tuple(noise) and coalitions) or everyone:
                held = published[levels].of_copies(list(coalition))
                scores = _scores(X, attack, held, confidence)
                outcomes.append(Outcome(scheme.name, attack.name, tuple(coalition), *scores))
    return outcomes


def _some(rng: np.random.Generator, X: Floats, size: int) -> Floats:
    return X if len(X) <= size else X[rng.choice(len(X), size=size, replace=False)]


def _evidence(
    scheme: Scheme,
    X: Floats,
    levels: Sequence[float],
    reference: Floats,
    leaked: Ints,
    order: Ints,
    unsafe_seed: int,
) -> Evidence:
    return Evidence(
        copies=scheme.copies(X, noise=levels, unsafe_seed=unsafe_seed),
        known=scheme.known(X, noise=levels),
        reference=reference,
        leaked=leaked,
        truth=X[leaked],
        order=order,
        resorted=scheme.resorted(X, order=order, noise=levels, unsafe_seed=unsafe_seed),
    )


def _scores(
    X: Floats, attack: Attack, evidence: Evidence, confidence: float
) -> tuple[Measured, Measured, Measured]:
    """Return the errors alone and together, and the gain, on rows that did not leak."""
    hidden = np.ones(len(X), dtype=bool)
    hidden[evidence.leaked] = False
    variance = np.diag(evidence.known.covariance)
    single = attack.alone or attack.estimate
    alone = [single(evidence.of_copies([i]))[hidden] for i in range(len(evidence.copies))]
    truth = X[hidden]
    best = min(alone, key=lambda estimate: error(truth, estimate, variance=variance).value)
    together = attack.estimate(evidence)[hidden]
    return (
        error(truth, best, variance=variance, confidence=confidence),
        error(truth, together, variance=variance, confidence=confidence),
        gain(truth, alone=best, together=together, variance=variance, confidence=confidence),
    )
