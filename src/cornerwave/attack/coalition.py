"""What a coalition holds, and every attack as a function of it.

An attack turns evidence into an estimate of X. Its gain is what pooling brings over
a single copy; the learned one is held to a single holder who makes noisier copies of its own.
Attacks on the shape of the noise (filtering) or on how the scheme was
run (generator, repeats, scaled, resorted) are held against the plain estimate of a
single copy, mu + (Y - mu) / (1 + v): what the owner promised for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import filtering, generator, nonlinear, slips
from cornerwave.attack.knowledge import Knowledge
from cornerwave.attack.llse import Llse
from cornerwave.moments import factor

REPEATS = 8
"""How often the repeated request is made."""

SIMULATED = 2
"""Noisier copies that a single holder makes for itself before it learns."""


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
        """Return the evidence of some of the copies."""
        return replace(
            self,
            copies=[self.copies[i] for i in which],
            resorted=[self.resorted[i] for i in which],
            known=self.known.of_copies(which),
        )

    @property
    def noise(self) -> Floats:
        """The noise of each copy, (M,)."""
        return np.diag(self.known.across)

    @property
    def least_noisy(self) -> int:
        """The index of the copy with the least noise."""
        return int(self.noise.argmin())


@dataclass(frozen=True)
class Attack:
    """An attack by name; `alone` is what a single copy is held to, by default itself."""

    name: str
    estimate: Callable[[Evidence], Floats]
    alone: Callable[[Evidence], Floats] | None = None
    asks: Callable[[Sequence[float]], list[float]] = list


def plain(evidence: Evidence) -> Floats:
    """Estimate by one weight per copy, whatever the shape of the noise."""
    known = evidence.known
    return Llse.of(known.mean, known.covariance, across=known.across).estimate(evidence.copies)


def _linear(evidence: Evidence) -> Floats:
    return evidence.known.llse.estimate(evidence.copies)


def _posterior(evidence: Evidence) -> Floats:
    return nonlinear.posterior_mean(
        evidence.copies, known=evidence.known, reference=evidence.reference
    )


def _learned(evidence: Evidence) -> Floats:
    return nonlinear.learned(
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
    stripped = generator.strip(
        evidence.copies[best],
        noise=float(evidence.noise[best]),
        covariance=evidence.known.covariance,
        leaked=evidence.leaked,
        truth=evidence.truth,
    )
    if stripped.estimate is None:
        return plain(evidence.of_copies([best]))
    return stripped.estimate


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


def _again(noise: Sequence[float]) -> list[float]:
    return [min(noise)] * REPEATS


ATTACKS: tuple[Attack, ...] = (
    Attack("llse", _linear),
    Attack("posterior", _posterior),
    Attack("learned", _learned, alone=_learned_alone),
    Attack("spectral", _filtered(filtering.spectral), alone=plain),
    Attack("pca", _filtered(filtering.pca), alone=plain),
    Attack("bayes", _filtered(filtering.bayes), alone=plain),
    Attack("generator", _stripped, alone=plain),
    Attack("repeats", _averaged, alone=plain, asks=_again),
    Attack("scaled", _unscaled, alone=plain),
    Attack("resorted", _unsorted, alone=plain),
    Attack("float32 bits", _float_bits(np.float32), alone=_float_bits(None)),
    Attack("float64 bits", _float_bits(np.float64), alone=_float_bits(None)),
)
"""Every attack on the bench."""
