"""Ways to make copies at several levels: the ones that must fall, and ours.

                       across copies       across columns   how it falls
    independent        diag(v)             K                a coalition has 1/t = sum 1/v
    scaled             sqrt(u v)           K                any two copies give X
    per-column         min(u, v)           diag(K)          filters by the spectrum
    mersenne-twister   min(u, v)           K                known rows give the generator
    single-precision   min(u, v)           K                the low bits give the value
    ours               min(u, v)           K                -

Each has the right variance at each level. Per-column noise and the two below it
are corner waves across copies, so that each has exactly one flaw. All but ours draw
from NumPy generators with the seed given; ours reads `algorithms.parallel` and puts
each column on a grid, as released files are.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from cornerwave.algorithms import corner_wave, parallel
from cornerwave.arrays import Floats
from cornerwave.attack import Knowledge
from cornerwave.levels import checked_noise
from cornerwave.moments import Moments
from cornerwave.noise import factor, grid_of
from cornerwave_reproduction._twister import normals


class Scheme(ABC):
    """One way to make copies, and the covariance of their noise: across (x) shape."""

    name: ClassVar[str]

    @abstractmethod
    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return one copy of X (T, N) for each noise; levels may repeat."""

    def across(self, noise: Sequence[float]) -> Floats:
        """Return the (M, M) covariance of the copies' noise."""
        return corner_wave(noise)

    def shape(self, covariance: Floats) -> Floats | None:
        """Return the (N, N) covariance of noise 1, or None for K itself."""
        return None

    def resorted(
        self, X: Any, *, order: Any, noise: Sequence[float], unsafe_seed: int
    ) -> list[Floats]:
        """Return the copies that the scheme later makes of X[order]: noise goes by position."""
        return self.copies(np.asarray(X)[order], noise=noise, unsafe_seed=unsafe_seed)

    def known(self, X: Any, *, noise: Sequence[float]) -> Knowledge:
        """Return what an adversary with perfect knowledge of X's moments knows."""
        moments = Moments.of(X)
        shape = self.shape(moments.covariance)
        return Knowledge(moments.mean, moments.covariance, self.across(noise), shape)


class Independent(Scheme):
    """Fresh noise for every copy, and for every request."""

    name = "independent"

    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return X plus independent noise of covariance v K for each v."""
        X, lower = _prepared(X)
        generator = np.random.default_rng(unsafe_seed)
        white = generator.standard_normal((len(noise), *X.shape))
        return [X + np.sqrt(v) * z @ lower.T for v, z in zip(noise, white, strict=True)]

    def across(self, noise: Sequence[float]) -> Floats:
        """Return diag(v)."""
        return np.diag([checked_noise(v) for v in noise])


class Scaled(Scheme):
    """One noise, scaled to each level: linearly dependent copies."""

    name = "scaled"

    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return X + sqrt(v) Z for each v, with one Z."""
        X, lower = _prepared(X)
        shaped = np.random.default_rng(unsafe_seed).standard_normal(X.shape) @ lower.T
        return [X + np.sqrt(v) * shaped for v in noise]

    def across(self, noise: Sequence[float]) -> Floats:
        """Return sqrt(u v)."""
        deviation = np.sqrt([checked_noise(v) for v in noise])
        return np.outer(deviation, deviation)


class PerColumn(Scheme):
    """Noise of the right variance in each column, uncorrelated between columns."""

    name = "per-column"

    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return a corner wave of noise v diag(K)."""
        X, lower = _prepared(X)
        deviation = np.diag(np.sqrt((lower**2).sum(axis=1)))
        generator = np.random.default_rng(unsafe_seed)
        return _corner_wave_copies(X, deviation, noise, lambda: generator.standard_normal(X.shape))

    def shape(self, covariance: Floats) -> Floats:
        """Return diag(K)."""
        return np.diag(np.diag(covariance))


class MersenneTwister(Scheme):
    """A corner wave whose normals are quantiles of MT19937's 53-bit doubles."""

    name = "mersenne-twister"

    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return a corner wave; the least noisy copy is drawn first, row by row."""
        X, lower = _prepared(X)
        generator = np.random.Generator(np.random.MT19937(unsafe_seed))
        return _corner_wave_copies(X, lower, noise, lambda: normals(generator.random(X.shape)))


class SinglePrecision(Scheme):
    """A corner wave whose noise is rounded to 32-bit floats and added without a grid."""

    name = "single-precision"

    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return X plus the 32-bit value of each corner-wave noise."""
        X, lower = _prepared(X)
        generator = np.random.default_rng(unsafe_seed)
        blank = np.zeros_like(X)
        waves = _corner_wave_copies(blank, lower, noise, lambda: generator.standard_normal(X.shape))
        return [X + wave.astype(np.float32) for wave in waves]


class Ours(Scheme):
    """The corner wave shaped like K, from a keyed function, on a grid; noise goes by row id."""

    name = "ours"

    def copies(self, X: Any, *, noise: Sequence[float], unsafe_seed: int) -> list[Floats]:
        """Return the copies of Algorithm 1, each column on its grid."""
        X = np.asarray(X, dtype=np.float64)
        moments = Moments.of(X)
        grid = grid_of(deviation=moments.deviation, largest=moments.largest)
        step = np.where(grid > 0, grid, 1.0)
        whole = np.rint(X / step)
        raw = parallel(X, noise=noise, unsafe_seed=unsafe_seed)
        # Value and noise are rounded apart: the rounding of the noise then depends on no value.
        rounded = [(whole + np.rint((copy - X) / step)) * step for copy in raw]
        return [np.where(grid > 0, copy, X) for copy in rounded]

    def resorted(
        self, X: Any, *, order: Any, noise: Sequence[float], unsafe_seed: int
    ) -> list[Floats]:
        """Return the same copies in the new order: a row has an id, and its noise with it."""
        return [copy[order] for copy in self.copies(X, noise=noise, unsafe_seed=unsafe_seed)]


SCHEMES: tuple[Scheme, ...] = (
    Independent(),
    Scaled(),
    PerColumn(),
    MersenneTwister(),
    SinglePrecision(),
    Ours(),
)
"""All schemes, ours last."""


def _prepared(X: Any) -> tuple[Floats, Floats]:
    X = np.asarray(X, dtype=np.float64)
    return X, factor(Moments.of(X).covariance).lower


def _corner_wave_copies(
    X: Floats, lower: Floats, noise: Sequence[float], draw: Any
) -> list[Floats]:
    """Read a path upwards: each level is the last one plus an independent increment."""
    # Increments have variance level - at, so that Cov(W(u), W(v)) = min(u, v).
    reached, wave, at = {}, np.zeros_like(X), 0.0
    for level in sorted({checked_noise(v) for v in noise}):
        wave = wave + np.sqrt(level - at) * draw() @ lower.T
        reached[level], at = X + wave, level
    return [reached[float(v)] for v in noise]
