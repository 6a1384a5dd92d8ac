"""What the adversary knows besides the copies: everything but the key and X.

    perfect   mu, K and the noise of every copy
    partial   the noise of every copy; mu and K from n rows of the copies,
              n = 100 N^2, 200 N^2 or 300 N^2 in the paper's experiment

The mean of a copy is mu and its covariance (1 + v) K. Several copies are worth one
(`llse.combination`), with mean mu and covariance (1 + t) K; that one is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack.llse import Combination, Llse, combination
from cornerwave.errors import SourceError
from cornerwave.moments import Moments

PAPER_SAMPLES = (100, 200, 300)
"""Rows per entry of K that the paper's adversaries estimate it from."""


@dataclass(frozen=True)
class Knowledge:
    """Mean (N,) and K (N, N) of the table, and its copies' noise: across (x) shape.

    `across` is (M, M) in units of `shape` (N, N); `shape` is None where noise is
    shaped like the table.

    >>> Knowledge.perfect([[9.0], [11.0]], across=[[1, 1], [1, 4]]).llse.error.tolist()
    [[1.0]]
    """

    mean: Floats
    covariance: Floats
    across: Floats
    shape: Floats | None = None

    @classmethod
    def perfect(cls, X: Any, *, across: Any, shape: Any = None) -> "Knowledge":
        """Return what an adversary with exact moments of X (T, N) knows."""
        moments = Moments.of(X)
        return cls(moments.mean, moments.covariance, *_noise(across, shape))

    @classmethod
    def partial(cls, sample: Sequence[Any], *, across: Any) -> "Knowledge":
        """Return what can be learned from the same n rows of each copy, M times (n, N).

        Assumes noise shaped like the table. Raises SourceError for fewer than 2 rows.

        >>> sample = [np.array([[1.0], [5.0]])]
        >>> known = Knowledge.partial(sample, across=[[1.0]])
        >>> known.mean.tolist(), known.covariance.tolist()
        ([3.0], [[4.0]])
        """
        worth = combination(across)
        moments = Moments.of(worth.of(sample))
        if moments.rows < 2:
            raise SourceError("a covariance needs at least 2 rows of the copies")
        covariance = moments.covariance / (1 + worth.noise)
        return cls(moments.mean, covariance, *_noise(across, None))

    @property
    def worth(self) -> Combination:
        """The one copy that all copies together are worth."""
        return combination(self.across)

    @property
    def noise_shape(self) -> Floats:
        """The covariance of noise 1 across columns, (N, N)."""
        return self.covariance if self.shape is None else self.shape

    @property
    def llse(self) -> Llse:
        """The best linear estimator from all copies."""
        return Llse.of(self.mean, self.covariance, across=self.across, shape=self.shape)

    def of_copies(self, which: Sequence[int]) -> "Knowledge":
        """Return the same knowledge for some of the copies, in the order given."""
        return replace(self, across=self.across[np.ix_(which, which)])


def sample_size(columns: int, *, per_entry: int) -> int:
    """Return how many rows the paper's adversary samples: per_entry N^2.

    >>> [sample_size(2, per_entry=n) for n in PAPER_SAMPLES]
    [400, 800, 1200]
    """
    return per_entry * columns**2


def sample_rows(rows: int, *, size: int, unsafe_seed: int) -> Ints:
    """Return `size` of `rows` positions at random, ascending; all if there are no more."""
    generator = np.random.default_rng(unsafe_seed)
    return np.sort(generator.choice(rows, size=min(size, rows), replace=False))


def _noise(across: Any, shape: Any) -> tuple[Floats, Floats | None]:
    across = np.atleast_2d(np.asarray(across, dtype=np.float64))
    return across, None if shape is None else np.atleast_2d(np.asarray(shape, dtype=np.float64))
