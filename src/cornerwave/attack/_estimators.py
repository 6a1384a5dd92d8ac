"""Estimates of X that are not linear in the copies, and filters for noise of the wrong shape.

    E[X | Y] = sum_r p_r x_r / sum_r p_r,    p_r = n_r exp(-|s - x_r|^2 / 2t)

is the posterior mean of an adversary who knows the distribution of X, as a sample of
its rows x_r: no estimate of any kind has a smaller squared error. s is the one copy
that all copies are worth and t its noise (`combination`; sufficient for Gaussian noise
of covariance Sigma (x) S), both measured along the axes of S.

`learned` knows no distribution, only rows whose truth leaked; with few of them it is far
from the posterior mean, and another training run gives another model: an interval over
rows (`Measured`) covers this model only.

Filters scale the noise of each column to 1. Noise that is white across columns then has
a spectrum between (1 - sqrt(N/T))^2 and (1 + sqrt(N/T))^2, while correlated data put
their variance on a few axes:

    spectral   keep the axes above that bound (Kargupta, Datta, Wang, Sivakumar 2003)
    pca        keep the axes above the widest gap of Cov(Y) - I (Huang, Du, Chen 2005)
    bayes      shrink each axis by l / (l + 1), l its share of Cov(Y) - I (the same, BE)

If the noise is proportional to K, no axis has more signal than another, and no filter
does better than 1/(1+v) on each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave import sizes
from cornerwave.arrays import Floats
from cornerwave.attack._llse import Knowledge, whitening
from cornerwave.errors import SourceError
from cornerwave.moments import Moments

LEAST_LEAKED = 20
"""Fewer leaked rows than this train nothing."""


def posterior_mean(copies: Sequence[Any], *, known: Knowledge, reference: Any) -> Floats:
    """Return E[X | copies] under the empirical distribution of `reference`, shape (T, N).

    copies: M times (T, N); reference: (R, N). Memory does not grow with T times R;
    call it block by block for a table larger than memory.

    >>> coins = np.array([[0.0], [1.0]])
    >>> known = Knowledge(np.array([0.5]), np.array([[0.5]]), np.array([[0.01]]))
    >>> posterior_mean([np.array([[0.1], [0.9]])], known=known, reference=coins).round(6).tolist()
    [[0.0], [1.0]]
    """
    worth = known.worth
    combined = worth.of(copies)
    if worth.noise == 0:
        return combined
    values, counts = np.unique(np.asarray(reference, float), axis=0, return_counts=True)
    axes = whitening(known.noise_shape) / np.sqrt(worth.noise)
    centre = values.mean(axis=0)
    points = (values - centre) @ axes
    # |s - x_r|^2 = |s|^2 - 2 s'x_r + |x_r|^2, and |s|^2 is the same for every r: it cancels.
    offsets = np.log(counts) - (points**2).sum(axis=1) / 2
    estimate = np.empty_like(combined)
    size = max(1, sizes.ATTACK_WEIGHTS // len(values))
    for start in range(0, len(combined), size):
        part = slice(start, start + size)
        log_weights = (combined[part] - centre) @ axes @ points.T + offsets
        estimate[part] = _weighted_mean(log_weights, values)
    return estimate


PIECES = 256
"""Pieces that a column's distribution is cut into, by its rows and its variance in equal parts."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


def left_by_posterior(values: Any, noise: Sequence[float], *, pieces: int = PIECES) -> Floats:
    """Return the share of a column's variance that its posterior mean leaves, at each noise.

    The adversary has the column of one copy and knows how its values are distributed. The
    distribution is a mixture of normal pieces (m, t^2), whose posterior is known exactly:

        E[X | Y] = sum of w_i (m_i + t_i^2 / (t_i^2 + v s^2) (Y - m_i))

    >>> coin = left_by_posterior([0.0, 1.0], [0.1, 100.0])  # a linear estimate leaves 0.09, 0.99
    >>> coin.round(2).tolist()
    [0.0, 0.99]
    """
    mixture = _Pieces.of(np.asarray(values, dtype=np.float64), pieces)
    if mixture.variance == 0:
        return np.zeros(len(noise))
    return np.array([mixture.left(v * mixture.variance) if v else 0.0 for v in noise])


@dataclass(frozen=True)
class _Pieces:
    """The shares, means (about the mean of all) and variances t^2 of the pieces of a mixture."""

    share: Floats
    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, values: Floats, pieces: int) -> "_Pieces":
        """Cut the distribution of values; one that many rows hold is a piece by itself."""
        distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        share = counts / counts.sum()
        size = (distinct - share @ distinct) ** 2 * share
        # half by rows, half by variance: the middle and the tails have enough pieces
        weight = (share + size / size.sum()) / 2 if size.any() else share
        place = ((np.cumsum(weight) - weight / 2) * pieces).astype(np.int64)
        _, place = np.unique(place, return_inverse=True)
        total: Floats = np.bincount(place, share).astype(np.float64)
        mean = np.bincount(place, share * distinct) / total
        spread = np.bincount(place, share * (distinct - mean[place]) ** 2) / total
        return cls(total, mean - total @ mean, spread)

    @property
    def variance(self) -> float:
        """The variance of the mixture."""
        return float(self.share @ (self.spread + self.mean**2))

    def left(self, noise: float) -> float:
        """Return the share that the posterior mean leaves: 1 - E[E[X | Y]^2] / Var X."""
        whole = self.spread + noise
        # Y of each piece is normal: nine nodes of Gauss and Hermite integrate over it
        Y = (self.mean[:, None] + np.sqrt(whole)[:, None] * _NODES).ravel()
        chance = (self.share[:, None] * (_WEIGHTS / _WEIGHTS.sum())).ravel()
        away = Y[:, None] - self.mean
        log_weights = np.log(self.share) - 0.5 * np.log(whole) - away**2 / (2 * whole)
        log_weights -= log_weights.max(axis=1, keepdims=True)
        weights = np.exp(log_weights)
        weights /= weights.sum(axis=1, keepdims=True)
        estimate = (weights * (self.mean + self.spread / whole * away)).sum(axis=1)
        return float(np.clip(1 - chance @ estimate**2 / self.variance, 0.0, 1.0))


def _weighted_mean(log_weights: Floats, values: Floats) -> Floats:
    # The largest weight of a row becomes 1: no overflow, and never a sum of 0.
    log_weights -= log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights, out=log_weights)
    return np.asarray((weights @ values) / weights.sum(axis=1, keepdims=True))


def learned(
    copies: Sequence[Any], *, leaked: Any, truth: Any, unsafe_seed: int, rounds: int = 60
) -> Floats:
    """Return what gradient boosting makes of all copies after training on leaked rows.

    copies: M times (T, N); leaked: (n,) positions; truth: (n, N) rows of X. Returns
    (T, N). Raises SourceError if fewer than 20 rows leaked.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    if len(leaked) < LEAST_LEAKED:
        raise SourceError(f"got {len(leaked)} leaked rows; learning needs at least {LEAST_LEAKED}")
    features = np.hstack([np.asarray(copy, dtype=np.float64) for copy in copies])
    truth = np.asarray(truth, dtype=np.float64)
    estimate = np.empty((len(features), truth.shape[1]))
    for column in range(truth.shape[1]):
        model = HistGradientBoostingRegressor(
            max_iter=rounds,
            max_leaf_nodes=15,
            min_samples_leaf=10,
            early_stopping=False,
            random_state=unsafe_seed,
        )
        model.fit(features[leaked], truth[:, column])
        estimate[:, column] = model.predict(features)
    return estimate


@dataclass(frozen=True)
class _Spectrum:
    """A copy along the axes of its covariance, in units of the noise of its columns."""

    copy: Floats
    mean: Floats
    noise: Floats
    values: Floats
    axes: Floats

    @classmethod
    def of(cls, copy: Any, variance: Any) -> "_Spectrum":
        copy = np.asarray(copy, dtype=np.float64)
        noise = np.sqrt(np.asarray(variance, dtype=np.float64))
        if noise.shape != copy.shape[1:] or not (noise > 0).all():
            raise SourceError("a filter needs the noise variance of each column, all positive")
        moments = Moments.of(copy)
        values, axes = np.linalg.eigh(moments.covariance / np.outer(noise, noise))
        return cls(copy, moments.mean, noise, values, axes)

    def shrink(self, factors: Any) -> Floats:
        """Multiply the copy along each axis by a factor, about its mean."""
        along = (self.axes * np.asarray(factors)) @ self.axes.T
        return np.asarray(((self.copy - self.mean) / self.noise) @ along * self.noise + self.mean)

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
    spectrum = _Spectrum.of(copy, variance)
    bound = (1 + np.sqrt(len(spectrum.values) / len(spectrum.copy))) ** 2
    return spectrum.shrink(spectrum.values > bound)


def pca(copy: Any, *, variance: Any) -> Floats:
    """Return the copy (T, N) on its principal axes, those above the widest gap.

    variance: (N,), that of each column's noise. Raises SourceError unless positive.
    """
    spectrum = _Spectrum.of(copy, variance)
    gaps = np.diff(spectrum.signal)
    first_kept = int(gaps.argmax()) + 1 if len(gaps) else 0
    return spectrum.shrink(np.arange(len(spectrum.values)) >= first_kept)


def bayes(copy: Any, *, variance: Any) -> Floats:
    """Return the Bayes estimate of Gaussian data under white noise, shape (T, N).

    variance: (N,), that of each column's noise. Raises SourceError unless positive.
    """
    spectrum = _Spectrum.of(copy, variance)
    return spectrum.shrink(spectrum.signal / (spectrum.signal + 1))
