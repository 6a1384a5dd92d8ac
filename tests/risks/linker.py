"""Somebody who knows rows looks for them in a released file, with NumPy and nothing of ours.

The likelihood of the noise: normal numbers of covariance v S, and categories that are retained with
probability q, else drawn from their frequencies. Weighed by how common a row is in the copy.
"""

import numpy as np


def found(X, Y, K, noise, categories=(), weighed=True, pool=None):
    """Which rows of X (n, N) are the best match of their own row in Y, and of no other.

    categories: pairs of codes (n,) of the table and of the copy. `pool`: which rows may be looked
    for, by their places; all of them otherwise.
    """
    n, _columns = X.shape
    rows = np.arange(n) if pool is None else pool
    centre, inverse = X.mean(axis=0), np.linalg.inv(noise * K)
    x, y = X[rows] - centre, Y - centre
    fit = -0.5 * (
        np.einsum("ij,jk,ik->i", x, inverse, x)[:, None]
        - 2 * x @ inverse @ y.T
        + np.einsum("ij,jk,ik->i", y, inverse, y)
    )
    if weighed:
        common = np.linalg.inv((1 + noise) * K)
        fit += 0.5 * np.einsum("ij,jk,ik->i", y, common, y)
    q = 1 / np.sqrt(1 + noise)
    for truth, shown in categories:
        pi = np.bincount(truth, minlength=shown.max() + 1) / n
        chance = q * (truth[rows][:, None] == shown) + (1 - q) * pi[shown]
        fit += np.log(chance) - (np.log(pi[shown]) if weighed else 0.0)
    own = fit[np.arange(len(rows)), rows].copy()
    fit[np.arange(len(rows)), rows] = -np.inf
    return own > fit.max(axis=1)


def normal_rows(rng, rows, columns, correlation=0.0):
    """Normal rows, each pair of columns with one correlation."""
    common = rng.normal(size=(rows, 1))
    own = rng.normal(size=(rows, columns))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own
