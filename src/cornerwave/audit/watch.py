"""What single rows show while they pass by: far ones, equal ones, noise that follows X.

Copies in the order of their noise are steps of a path, E_k = D_k - D_(k-1), which are
independent where the path is ours. What is needed to judge a row at once, the
covariance of each step and the scale of X, comes from the first block; a final look
corrects for what later blocks changed.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit.statistics import Statistics, covariance_of, whitening

CLIPPED = 3.0
"""X enters the check of noise size up to this many standard deviations: no row dominates."""

DENSE_ROWS, THINNED = 1 << 18, 8
"""So many rows are all looked at for noise size; of those after them one in THINNED."""

SAMPLE_ROWS = 4096
MOSTLY = 0.5


@dataclass(frozen=True)
class Watched:
    """What was seen; `order` are the copies by noise, entry k of the others is step k.

    `reach`: the largest squared distance of a step, in units of its own covariance
    (`rank` dimensions); `sizes` (M, N+1): correlation of a step's size with each column
    of X and with the distance of X from its mean, over `size_rows` rows; `same`: rows
    in which two copies agree; `sample` (P, n): some rows of [X, D_1 .. D_M].
    """

    order: tuple[int, ...]
    reach: Floats
    rank: tuple[int, ...]
    sizes: Floats
    size_rows: int
    same: dict[tuple[int, int], int]
    sample: Floats


class Watch:
    """Looks at every block after the first one has told it what to expect."""

    def __init__(self, first: list[Floats]) -> None:
        self._N, self._M = len(first[0]), len(first) - 1
        columns = self._N
        found = Statistics.of(first)
        covariance = found.covariance
        variance = np.diag(covariance).reshape(1 + self._M, columns)
        self._unit = np.sqrt(np.where(variance[0] > 0, variance[0], 1.0))
        self._order = tuple(np.argsort((variance[1:] / self._unit**2).sum(axis=1), kind="stable"))
        self._axes = [whitening(self._step(covariance, k)) for k in range(self._M)]
        self._lens = self._make_lens()
        self._reach = np.zeros(self._M)
        self._sizes = np.zeros((self._M + columns + 2,) * 2)
        self._same = dict.fromkeys(_alike(first), 0)
        self._seen = self._kept = 0
        self._every_group = self._every_row = 1
        self._sample = [np.empty((columns * (1 + self._M), 0))]

    def add(self, stacked: Floats) -> None:
        """Take complete rows, (groups, P+1, run) with 0 last for padding."""
        white = self._lens @ stacked[:, self._N : -1]
        np.square(white, out=white)
        groups, _, run = stacked.shape
        squares = white.reshape(groups, self._M, self._N, run).sum(axis=2)
        np.maximum(self._reach, squares.max(axis=(0, 2), initial=0.0), out=self._reach)
        thinned = 1 if self._seen < DENSE_ROWS else THINNED
        self._add_sizes(stacked[::thinned], squares[::thinned])
        for i, j in self._same:
            equal = (self._noise(stacked, i) == self._noise(stacked, j)).all(axis=1)
            self._same[i, j] += int((equal & (stacked[:, -1] > 0)).sum())
        self._add_sample(stacked)
        self._seen += groups * run

    def watched(self, found: Statistics) -> Watched:
        """Return what was seen, in the light of the final statistics."""
        grown = [
            np.linalg.eigvalsh(axes.T @ self._step(found.covariance, k) @ axes).max(initial=1.0)
            for k, axes in enumerate(self._axes)
        ]
        covariance = covariance_of(self._sizes)
        spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
        correlation = covariance / np.outer(spread, spread)
        return Watched(
            order=tuple(int(i) for i in self._order),
            reach=self._reach / np.array(grown),
            rank=tuple(axes.shape[1] for axes in self._axes),
            sizes=correlation[: self._M, self._M :],
            size_rows=round(float(self._sizes[-1, -1])),
            same=self._same,
            sample=np.hstack(self._sample),
        )

    def _noise(self, stacked: Floats, i: int) -> Floats:
        return stacked[:, (1 + i) * self._N : (2 + i) * self._N]

    def _step(self, covariance: Floats, k: int) -> Floats:
        """Return the covariance of step k, (N, N)."""
        N = self._N
        here = slice((1 + self._order[k]) * N, (2 + self._order[k]) * N)
        if k == 0:
            return covariance[here, here]
        last = slice((1 + self._order[k - 1]) * N, (2 + self._order[k - 1]) * N)
        cross = covariance[here, last]
        return np.asarray(covariance[here, here] + covariance[last, last] - cross - cross.T)

    def _make_lens(self) -> Floats:
        """Return the matrix that turns [D_1 .. D_M] into white steps."""
        N = self._N
        lens = np.zeros((self._M, N, self._M, N))
        for k, axes in enumerate(self._axes):
            lens[k, : axes.shape[1], self._order[k]] += axes.T
            if k > 0:
                lens[k, : axes.shape[1], self._order[k - 1]] -= axes.T
        return lens.reshape(self._M * N, self._M * N)

    def _add_sizes(self, stacked: Floats, squares: Floats) -> None:
        live = stacked[:, -1].ravel() > 0
        X = stacked[:, : self._N].transpose(1, 0, 2).reshape(self._N, -1)
        X = np.clip(X / self._unit[:, None], -CLIPPED, CLIPPED)
        away = np.sqrt((X**2).sum(axis=0))
        # the cube root of a chi-square is close to normal
        size = np.cbrt(squares.transpose(1, 0, 2).reshape(self._M, -1))
        rows = np.vstack([size, X, away, np.ones_like(away)])
        rows = rows if live.all() else rows[:, live]
        self._sizes += rows @ rows.T

    def _add_sample(self, stacked: Floats) -> None:
        """Keep rows at even distances, ever fewer as more come."""
        rows = stacked[:: self._every_group, :, :: self._every_row]
        rows = rows.transpose(1, 0, 2).reshape(stacked.shape[1], -1)
        self._sample.append(rows[:-1, rows[-1] > 0])
        self._kept += self._sample[-1].shape[1]
        if self._kept > 4 * SAMPLE_ROWS:
            kept = np.hstack(self._sample)[:, ::2].copy()
            self._sample, self._kept = [kept], kept.shape[1]
            if 2 * self._every_group <= len(stacked):
                self._every_group *= 2
            else:
                self._every_row *= 2


def _alike(first: list[Floats]) -> list[tuple[int, int]]:
    """Return the pairs of copies that agree in most rows of the first block."""
    pairs = combinations(range(len(first) - 1), 2)
    return [(i, j) for i, j in pairs if (first[1 + i] == first[1 + j]).all(axis=0).mean() > MOSTLY]
