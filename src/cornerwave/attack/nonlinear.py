"""The best estimates there are when more than two moments are known.

    E[X | Y] = sum_r p_r x_r / sum_r p_r,    p_r = n_r exp(-|s - x_r|^2 / 2t)

is the posterior mean where the adversary knows the distribution of X, as a sample
of its rows x_r: no estimate of any kind has less squared error. s is the one copy
that all copies are worth and t its noise (`llse.combination`, sufficient for
Gaussian noise of covariance Sigma (x) S), both measured along the axes of S.

The learned estimate knows no distribution, only rows whose truth leaked; it needs
scikit-learn, from the extra `cornerwave[attack]`. It is far from the posterior mean
when few rows leaked, and another training gives another model: an interval over
rows (`score`) is that of the model at hand and leaves this spread out.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.attack.knowledge import Knowledge
from cornerwave.errors import SourceError

BLOCK_CELLS = 1 << 20
"""Weights held at once: 8 MB, whatever the size of the table and of the sample."""


def posterior_mean(copies: Sequence[Any], *, known: Knowledge, reference: Any) -> Floats:
    """Return E[X | copies] under the empirical distribution of `reference`, shape (T, N).

    copies: M times (T, N); reference: (R, N). Memory does not grow with T times R;
    call it block by block for a table larger than memory.

    >>> coins = np.array([[0.0], [1.0]])
    >>> known = Knowledge.perfect(coins, across=[[0.01]])
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
    # |s|^2 is the same for every r and cancels.
    offsets = np.log(counts) - (points**2).sum(axis=1) / 2
    estimate = np.empty_like(combined)
    size = max(1, BLOCK_CELLS // len(values))
    for start in range(0, len(combined), size):
        part = slice(start, start + size)
        log_weights = (combined[part] - centre) @ axes @ points.T + offsets
        estimate[part] = _weighted_mean(log_weights, values)
    return estimate


def _weighted_mean(log_weights: Floats, values: Floats) -> Floats:
    log_weights -= log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights, out=log_weights)
    return np.asarray((weights @ values) / weights.sum(axis=1, keepdims=True))


def whitening(shape: Floats) -> Floats:
    """Return A (N, rank) with A'SA = I; directions without noise are left out.

    >>> whitening(np.diag([4.0, 0.0])).tolist()
    [[0.5], [0.0]]
    """
    scale = np.sqrt(np.where(np.diag(shape) > 0, np.diag(shape), 1.0))
    values, vectors = np.linalg.eigh(shape / np.outer(scale, scale))
    kept = values > 1e-10 * values.max(initial=0.0)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / scale[:, None])


def learned(
    copies: Sequence[Any], *, leaked: Any, truth: Any, unsafe_seed: int, rounds: int = 60
) -> Floats:
    """Return what gradient boosting makes of all copies after training on leaked rows.

    copies: M times (T, N); leaked: (n,) positions; truth: (n, N) rows of X. Returns
    (T, N). Raises SourceError if scikit-learn is missing or fewer than 20 rows leaked.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise SourceError(
            "the learned attack needs scikit-learn; install cornerwave[attack]"
        ) from None
    if len(leaked) < 20:
        raise SourceError(f"{len(leaked)} leaked rows are too few to learn from; 20 at least")
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
