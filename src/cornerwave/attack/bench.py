"""Every attack against every scheme, in one table.

An attack runs once on each copy alone and once on all of them together. The gain is
what pooling brought over the best single copy: paired differences of squared errors,
row by row, on rows that had not leaked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack.coalition import ATTACKS, Attack, Evidence
from cornerwave.attack.schemes import SCHEMES, Scheme
from cornerwave.attack.score import CONFIDENCE, Measured, error, gain

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
            held_by = coalitions if coalitions and levels == tuple(noise) else everyone
            duel = _Duel.of(X, attack, published[levels])
            for coalition in held_by:
                scores = duel.scores(list(coalition), confidence)
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


@dataclass(frozen=True)
class _Duel:
    """One attack on one scheme: what it makes of each copy alone, on rows that did not leak."""

    truth: Floats
    variance: Floats
    hidden: Flags
    attack: Attack
    evidence: Evidence
    alone: list[Floats]

    @classmethod
    def of(cls, X: Floats, attack: Attack, evidence: Evidence) -> "_Duel":
        hidden = np.ones(len(X), dtype=bool)
        hidden[evidence.leaked] = False
        single = attack.alone or attack.estimate
        alone = [single(evidence.of_copies([i]))[hidden] for i in range(len(evidence.copies))]
        variance = np.diag(evidence.known.covariance)
        return cls(X[hidden], variance, hidden, attack, evidence, alone)

    def scores(
        self, coalition: list[int], confidence: float
    ) -> tuple[Measured, Measured, Measured]:
        """Return the error of the best single copy, that of the coalition, and the gain."""
        units: dict[str, Any] = {"variance": self.variance, "confidence": confidence}
        errors = {i: error(self.truth, self.alone[i], **units) for i in coalition}
        best = min(errors, key=lambda i: errors[i].value)
        together = self.attack.estimate(self.evidence.of_copies(coalition))[self.hidden]
        return (
            errors[best],
            error(self.truth, together, **units),
            gain(self.truth, alone=self.alone[best], together=together, **units),
        )
