"""Attacks on noise that is not shaped like the table: filtering by the spectrum.

With the noise of each column scaled to 1, white noise has the spectrum of chance,
between (1 - sqrt(N/T))^2 and (1 + sqrt(N/T))^2, while correlated data pile their
variance on few axes:

    spectral   keep the axes above that bound (Kargupta, Datta, Wang, Sivakumar 2003)
    pca        keep the axes above the widest gap of Cov(Y) - I (Huang, Du, Chen 2005)
    bayes      shrink each axis by l / (l + 1), l its share of Cov(Y) - I (the same, BE)

All three assume noise of known variance that is white across columns and take the
rest from the copy itself. Where noise is proportional to K there is no axis with
more signal than another, and none of them can do better than 1/(1+v) on each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import SourceError
from cornerwave.moments import Moments


@dataclass(frozen=True)
class _Spectrum:
    """A copy along the axes of its covariance, in units of the noise of its columns."""

    mean: Floats
    noise: Floats
    values: Floats
    axes: Floats
    rows: int

    @classmethod
    def of(cls, copy: Floats, variance: Any) -> "_Spectrum":
        noise = np.sqrt(np.asarray(variance, dtype=np.float64))
        if noise.shape != copy.shape[1:] or not (noise > 0).all():
            raise SourceError("filtering needs the noise variance of each column, positive")
        moments = Moments.of(copy)
        values, axes = np.linalg.eigh(moments.covariance / np.outer(noise, noise))
        return cls(moments.mean, noise, values, axes, moments.rows)

    def shrink(self, copy: Floats, factors: Any) -> Floats:
        """Multiply the copy along each axis by a factor, about its mean."""
        along = (self.axes * np.asarray(factors)) @ self.axes.T
        return np.asarray(((copy - self.mean) / self.noise) @ along * self.noise + self.mean)

    @property
    def signal(self) -> Floats:
        """The variance of the data along each axis, in units of the noise."""
        return np.maximum(self.values - 1, 0.0)


def spectral(copy: Any, *, variance: Any) -> Floats:
    """Return the copy (T, N) on the axes whose variance noise alone cannot reach.

    variance: (N,), that of each column's noise. Raises SourceError unless positive.

    >>> x = np.arange(8.0) ** 2
    >>> spectral(np.column_stack([x, x + [1, -1] * 4]), variance=[1.0, 1.0]).shape
    (8, 2)
    """
    copy = np.asarray(copy, dtype=np.float64)
    spectrum = _Spectrum.of(copy, variance)
    bound = (1 + np.sqrt(len(spectrum.values) / spectrum.rows)) ** 2
    return spectrum.shrink(copy, spectrum.values > bound)


def pca(copy: Any, *, variance: Any) -> Floats:
    """Return the copy (T, N) on its principal axes, those above the widest gap.

    variance: (N,), that of each column's noise. Raises SourceError unless positive.
    """
    copy = np.asarray(copy, dtype=np.float64)
    spectrum = _Spectrum.of(copy, variance)
    gaps = np.diff(spectrum.signal)
    first_kept = int(gaps.argmax()) + 1 if len(gaps) else 0
    return spectrum.shrink(copy, np.arange(len(spectrum.values)) >= first_kept)


def bayes(copy: Any, *, variance: Any) -> Floats:
    """Return the Bayes estimate of Gaussian data under white noise, shape (T, N).

    variance: (N,), that of each column's noise. Raises SourceError unless positive.
    """
    copy = np.asarray(copy, dtype=np.float64)
    spectrum = _Spectrum.of(copy, variance)
    return spectrum.shrink(copy, spectrum.signal / (spectrum.signal + 1))
