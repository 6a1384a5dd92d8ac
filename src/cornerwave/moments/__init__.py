"""The first two moments of a table: `Moments`, which add up exactly, and a `factor` of K.

`noise_shape`, `absolute` and `positive` make definite what is not.
"""

from cornerwave.moments._exact import Moments
from cornerwave.moments._factor import Factor, absolute, factor, noise_shape, positive

__all__ = ["Factor", "Moments", "absolute", "factor", "noise_shape", "positive"]
