"""The first two moments of a table: `Moments`, which add up exactly, and a `factor` of K."""

from cornerwave.moments._exact import Moments
from cornerwave.moments._factor import Factor, factor, noise_shape

__all__ = ["Factor", "Moments", "factor", "noise_shape"]
