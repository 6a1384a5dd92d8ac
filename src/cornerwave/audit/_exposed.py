"""Records that noise of the population's size does not hide: far out, alone or in combination.

A copy's column has standard deviation s sqrt(1 + v). Of T Gaussian rows fewer than one lies
beyond z_T of these, P(|N(0,1)| > z_T) = 1/T. A record whose value lies beyond is
alone in the copy, and anyone who knows that it is extreme finds it.

A record may be ordinary in each column and odd in their combination. The copy's covariance
is (1 + v) K, so such a record is alone if

    (x - mu)' K^-1 (x - mu)  >  (1 + v) c_T,      P(chi-square with rank K > c_T) = 1/T

over the numbers that the record has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import whitening
from cornerwave.audit._blocks import AlignedRows
from cornerwave.audit._chance import chi_square_limit, z_limit
from cornerwave.passes import Adding, Bounded

PATTERNS = 64
"""So many patterns of missing values, the most frequent of a block, are looked at."""


@dataclass(frozen=True)
class Exposed(Bounded):
    """How many rows are alone: per copy and column (M, N), in combination, in any way (M,)."""

    columns: Ints
    combined: Ints
    rows: Ints

    def __add__(self, other: "Exposed") -> "Exposed":
        return Exposed(
            self.columns + other.columns,
            self.combined + other.combined,
            self.rows + other.rows,
        )


@dataclass(frozen=True)
class ExposurePass(Adding[AlignedRows, Exposed]):
    """Counts the rows that the noise of each copy leaves alone, in the columns `used` of X."""

    used: Sequence[int]
    rows: int
    mean: Floats
    covariance: Floats
    noise: Floats

    def nothing(self) -> Exposed:
        """Return the counts of no rows."""
        M, N = len(self.noise), len(self.mean)
        return Exposed(*(np.zeros(size, dtype=np.int64) for size in ((M, N), (M,), (M,))))

    def of(self, block: AlignedRows, known: Exposed) -> Exposed:
        """Count some rows of the source."""
        return self.count(block.scaled[0][list(self.used)])

    def count(self, X: Floats) -> Exposed:
        """Count rows (N, n)."""
        K = self.covariance
        spread = np.sqrt(1 + self.noise)
        scale = np.where(np.diag(K) > 0, np.sqrt(np.maximum(np.diag(K), 0.0)), np.inf)
        limits = z_limit(1 / max(self.rows, 2)) * spread  # z_T sqrt(1 + v)
        away = X - self.mean[:, None]
        apart = _distances(away, K, self.rows)
        # few rows are far out at the least noise: the others are not at any
        far = (np.abs(away) > limits.min(initial=np.inf) * scale[:, None]).any(axis=0)
        far |= apart > spread.min(initial=np.inf)
        out = np.abs(away[:, far]) / scale[:, None] > limits[:, None, None]
        odd = apart[far] > spread[:, None]
        return Exposed(out.sum(axis=2), odd.sum(axis=1), (out.any(axis=1) | odd).sum(axis=1))


def count_exposed(
    blocks: Iterable[Floats], *, rows: int, mean: Floats, covariance: Floats, noise: Sequence[float]
) -> Exposed:
    """Count the rows of X, given as blocks (N, n), that are alone at each noise.

    >>> X = np.append(np.zeros(999), 40.0)[None]
    >>> found = count_exposed([X], rows=1000, mean=[0.04], covariance=[[1.6]], noise=[1, 400])
    >>> found.columns.tolist(), found.combined.tolist(), found.rows.tolist()
    ([[1], [0]], [1, 0], [1, 0])
    """
    centre, K, v = (np.asarray(each, dtype=np.float64) for each in (mean, covariance, noise))
    pass_ = ExposurePass(range(len(centre)), rows, centre, K, v)
    return sum(map(pass_.count, blocks), pass_.nothing())


def _distances(away: Floats, K: Floats, rows: int) -> Floats:
    """Return each row's distance from the mean, over the largest expected of Gaussian rows."""
    known = ~np.isnan(away)
    if known.all():
        return _from_mean(away, K, rows)
    patterns, which = np.unique(known, axis=1, return_inverse=True)
    distances = np.zeros(away.shape[1])
    # rows with other gaps: distances over the numbers that they have
    for k in np.argsort(-np.bincount(which), kind="stable")[:PATTERNS]:
        used, here = np.flatnonzero(patterns[:, k]), np.flatnonzero(which == k)
        distances[here] = _from_mean(away[np.ix_(used, here)], K[np.ix_(used, used)], rows)
    return distances


def _from_mean(away: Floats, K: Floats, rows: int) -> Floats:
    axes = whitening(K)
    if not axes.shape[1]:
        return np.zeros(away.shape[1])
    # (x - mu)' K^-1 (x - mu), over c_T
    squares = ((axes.T @ away) ** 2).sum(axis=0)
    return np.asarray(np.sqrt(squares / chi_square_limit(1 / max(rows, 2), axes.shape[1])))
