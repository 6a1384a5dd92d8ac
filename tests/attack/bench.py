"""The bench: every attack against every scheme, in one table.

    schemes -> copies, knowledge, leaked rows = evidence ─> an attack ─> Xhat ─> error, gain

An attack runs once on each copy alone and once on all of them together. The gain is
what pooling brought over the best single copy: paired differences of squared errors,
row by row, on rows that had not leaked. Attacks on the shape of the noise (filters) or
on how the scheme was run (generator, repeats, scaled, resorted) are compared with the
plain estimate from a single copy, mu + (Y - mu) / (1 + v): what the owner promised for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import cornerwave_reproduction as slips
import numpy as np
from cornerwave_reproduction import Scheme

from cornerwave import attack as tools
from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.attack import Knowledge, Llse, Measured, error, gain
from cornerwave.noise import factor

REPEATS = 8  # how often the repeated request is made
SIMULATED = 2  # noisier copies that a single holder makes before it learns


@dataclass(frozen=True)
class Evidence:
    """What a coalition holds: copies, knowledge, the law of X, and rows that leaked."""

    copies: list[Floats]
    known: Knowledge
    reference: Floats
    leaked: Ints
    truth: Floats
    order: Ints
    resorted: list[Floats]

    def of_copies(self, which: Sequence[int]) -> "Evidence":
        return replace(
            self,
            copies=[self.copies[i] for i in which],
            resorted=[self.resorted[i] for i in which],
            known=self.known.of_copies(which),
        )

    @property
    def noise(self) -> Floats:
        return np.diag(self.known.across)

    @property
    def least_noisy(self) -> int:
        return int(self.noise.argmin())


@dataclass(frozen=True)
class Attack:
    """An attack by name; `alone` is what a single copy is compared with, by default itself."""

    name: str
    estimate: Callable[[Evidence], Floats]
    alone: Callable[[Evidence], Floats] | None = None
    asks: Callable[[Sequence[float]], list[float]] = list


def plain(evidence: Evidence) -> Floats:
    """Estimate by one weight per copy, for any shape of the noise."""
    known = evidence.known
    return Llse.of(known.mean, known.covariance, across=known.across).estimate(evidence.copies)


def _linear(evidence: Evidence) -> Floats:
    return evidence.known.llse.estimate(evidence.copies)


def _posterior(evidence: Evidence) -> Floats:
    return tools.posterior_mean(evidence.copies, known=evidence.known, reference=evidence.reference)


def _learned(evidence: Evidence) -> Floats:
    return tools.learned(
        evidence.copies, leaked=evidence.leaked, truth=evidence.truth, unsafe_seed=0
    )


def _learned_alone(evidence: Evidence) -> Floats:
    """Learn from one copy and noisier ones made from it, which any single holder can do.

    More noisy features steady a model that few rows train; that is no gain from pooling.
    """
    rng = np.random.default_rng(0)
    [copy], [level] = evidence.copies, evidence.noise
    lower = factor(evidence.known.noise_shape).lower
    steps = [np.sqrt(level) * rng.standard_normal(copy.shape) @ lower.T for _ in range(SIMULATED)]
    noisier = [copy + sum(steps[: n + 1]) for n in range(SIMULATED)]
    return _learned(replace(evidence, copies=[copy, *noisier]))


def _filtered(method: Callable[..., Floats]) -> Callable[[Evidence], Floats]:
    def estimate(evidence: Evidence) -> Floats:
        worth = evidence.known.worth
        combined = worth.of(evidence.copies)
        if worth.noise == 0:
            return combined
        return method(combined, variance=worth.noise * np.diag(evidence.known.covariance))

    return estimate


def _stripped(evidence: Evidence) -> Floats:
    best = evidence.least_noisy
    stripped = slips.strip_twister(
        evidence.copies[best],
        noise=float(evidence.noise[best]),
        covariance=evidence.known.covariance,
        leaked=evidence.leaked,
        truth=evidence.truth,
    )
    return plain(evidence.of_copies([best])) if stripped is None else stripped


def _averaged(evidence: Evidence) -> Floats:
    """Average, believing that every request had fresh noise."""
    known, level = evidence.known, float(evidence.noise.min())
    averaged = slips.average(evidence.copies)
    across = [[level / len(evidence.copies)]]
    return Llse.of(known.mean, known.covariance, across=across).estimate([averaged])


def _unscaled(evidence: Evidence) -> Floats:
    low, high = evidence.least_noisy, int(evidence.noise.argmax())
    if evidence.noise[low] == evidence.noise[high]:
        return plain(evidence)
    levels = (float(evidence.noise[low]), float(evidence.noise[high]))
    return slips.solve_scaled(evidence.copies[low], evidence.copies[high], noise=levels)


def _unsorted(evidence: Evidence) -> Floats:
    best = evidence.least_noisy
    before, after = evidence.copies[best], evidence.resorted[best]
    return slips.undo_resort(before, after, order=evidence.order, mean=evidence.known.mean)


def _float_bits(precision: type | None) -> Callable[[Evidence], Floats]:
    def estimate(evidence: Evidence) -> Floats:
        best = evidence.least_noisy
        variance = evidence.noise[best] * np.diag(evidence.known.noise_shape)
        columns = []
        for column, reference, size in zip(
            evidence.copies[best].T, evidence.reference.T, variance, strict=True
        ):
            values, counts = np.unique(reference, return_counts=True)
            columns.append(
                slips.read_float_bits(
                    column, candidates=values, counts=counts, variance=size, precision=precision
                )
            )
        return np.column_stack(columns)

    return estimate


ATTACKS: tuple[Attack, ...] = (
    Attack("llse", _linear),
    Attack("posterior", _posterior),
    Attack("learned", _learned, alone=_learned_alone),
    Attack("spectral", _filtered(tools.spectral), alone=plain),
    Attack("pca", _filtered(tools.pca), alone=plain),
    Attack("bayes", _filtered(tools.bayes), alone=plain),
    Attack("generator", _stripped, alone=plain),
    Attack("repeats", _averaged, alone=plain, asks=lambda noise: [min(noise)] * REPEATS),
    Attack("scaled", _unscaled, alone=plain),
    Attack("resorted", _unsorted, alone=plain),
    Attack("float32 bits", _float_bits(np.float32), alone=_float_bits(None)),
    Attack("float64 bits", _float_bits(np.float64), alone=_float_bits(None)),
)


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
    X: Floats,
    *,
    noise: Sequence[float],
    schemes: Sequence[Scheme] = slips.SCHEMES,
    attacks: Sequence[Attack] = ATTACKS,
    coalitions: Sequence[Sequence[int]] | None = None,
    leaked: Ints | None = None,
    confidence: float = 0.99,
    unsafe_seed: int,
) -> list[Outcome]:
    """Run every attack against every scheme on the copies of X (T, N) at `noise` (M,).

    coalitions: index sets into the copies, by default all copies together. leaked: (n,)
    ascending positions of rows that the adversary knows, by default a tenth of the table.
    The adversary knows the law of X exactly: its reference is X itself.
    """
    rng = np.random.default_rng(unsafe_seed)
    if leaked is None:
        leaked = np.sort(rng.choice(len(X), size=len(X) // 10, replace=False))
    order = rng.permutation(len(X))
    outcomes = []
    for scheme in schemes:
        published: dict[tuple[float, ...], Evidence] = {}
        for attack in attacks:
            levels = tuple(attack.asks(noise))
            if levels not in published:
                published[levels] = _evidence(scheme, X, levels, leaked, order, unsafe_seed)
            everyone = [range(len(levels))]
            held_by = coalitions if coalitions and levels == tuple(noise) else everyone
            duel = _Duel.of(X, attack, published[levels])
            for coalition in held_by:
                scores = duel.scores(list(coalition), confidence)
                outcomes.append(Outcome(scheme.name, attack.name, tuple(coalition), *scores))
    return outcomes


def _evidence(
    scheme: Scheme, X: Floats, levels: Sequence[float], leaked: Ints, order: Ints, seed: int
) -> Evidence:
    return Evidence(
        copies=scheme.copies(X, noise=levels, unsafe_seed=seed),
        known=scheme.known(X, noise=levels),
        reference=X,
        leaked=leaked,
        truth=X[leaked],
        order=order,
        resorted=scheme.resorted(X, order=order, noise=levels, unsafe_seed=seed),
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
        units = {"variance": self.variance, "confidence": confidence}
        errors = {i: error(self.truth, self.alone[i], **units) for i in coalition}
        best = min(errors, key=lambda i: errors[i].value)
        together = self.attack.estimate(self.evidence.of_copies(coalition))[self.hidden]
        return (
            errors[best],
            error(self.truth, together, **units),
            gain(self.truth, alone=self.alone[best], together=together, **units),
        )
