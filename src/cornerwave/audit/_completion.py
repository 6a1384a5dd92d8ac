"""Rows with missing values, completed so that every check can look at them.

The noise does not know which cells are missing. In a row that has the cells o and misses the
cells m, honest steps of the path E_k are N(0, s_k S) over all cells, so with U ~ N(0, s_k S)

    E_m = U_m + B (E_o - U_o),      B = S_mo S_oo^-1

completes them (Matheron's rule): if what is seen is honest, the whole row is N(0, s_k S) again,
exactly, and all limits hold; if it is not, the cells that are seen still show it. X is completed
in the same way, by its own covariance as far as S is; given X, any value would do.

S is what the noise should be shaped like, s_k what the copies state or, if they state nothing,
what was measured. A cell counts as missing if it is in any of the files.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._sums import Statistics
from cornerwave.noise import factor

COMPLETION_RIDGE = 1e-9
"""Columns may follow from others: this share of each variance is added before solving."""

MOST_PATTERNS, MOST_WORK = 2048, 1e10
"""Patterns of missing values completed in a block, the most frequent first, and their products."""


@dataclass(frozen=True)
class Completion:
    """What rows are completed by: the mean of X, the shape S (N, N), which is 0 for columns
    without noise, the noise and the rounding steps of each copy.
    """

    mean: Floats
    shape: Floats
    noise: Floats
    steps: Floats
    lower: Floats = field(repr=False)

    @classmethod
    def of(cls, statistics: Statistics, noise: Any) -> "Completion":
        """Take what one pass measured, and the noise that copies state, None for silent ones."""
        noisy: Flags = np.asarray((statistics.spread > 0).any(axis=0))
        shape = np.where(noisy & noisy[:, None], statistics.shape, 0.0)
        lower = factor(shape).lower
        stated = [
            v if v is not None else measured
            for v, measured in zip(noise, statistics.pairwise_noise, strict=True)
        ]
        return cls(statistics.mean, lower @ lower.T, np.array(stated), statistics.steps, lower)

    def complete(self, block: list[Floats], seed: int) -> list[Floats]:
        """Return source and copies (N, rows) with every row complete that could be completed."""
        missing: Flags = np.asarray(np.isnan(np.stack(block)).any(axis=0))
        rows = np.flatnonzero(missing.any(axis=0))
        if not len(rows):
            return block
        random = np.random.default_rng([seed, len(rows)])
        X, *Y = (part[:, rows] for part in block)
        steps = list(self._steps(X, Y))
        whole = np.where(missing[:, rows], np.nan, X)
        for pattern, here in _patterns(missing[:, rows], np.diag(self.shape) > 0):
            # B = S_mo S_oo^-1, shared by all rows of a pattern
            B = self._weights(pattern, np.zeros(len(X)))
            away = X[:, here] - self.mean[:, None]
            whole[:, here] = self.mean[:, None] + self._filled(pattern, B, away, random)
            for step, size, blur in steps:
                if size > 0:  # as it is on the scale of S
                    part = step[:, here] / np.sqrt(size)
                    coarse = self._weights(pattern, blur / size) if blur.any() else B
                    filled = self._filled(pattern, coarse, part, random, blur / size)
                    step[:, here] = np.sqrt(size) * filled
                else:
                    step[:, here] = np.where(pattern[:, None], 0.0, step[:, here])
        return self._together(block, rows, whole, [step for step, _, _ in steps], missing[:, rows])

    def _steps(self, X: Floats, Y: list[Floats]) -> Iterator[tuple[Floats, float, Floats]]:
        """Yield E_k, its noise s_k and the variance that rounding added, in the order of noise."""
        before, level, grid = X, 0.0, np.zeros(len(X))
        for i in self._order:
            blur = (self.steps[i] ** 2 + grid**2) / 12
            yield Y[i] - before, max(float(self.noise[i]) - level, 0.0), blur
            before, level, grid = Y[i], float(self.noise[i]), self.steps[i]

    @property
    def _order(self) -> list[int]:
        return [int(i) for i in np.argsort(self.noise, kind="stable")]

    def _cells(self, missing: Flags) -> tuple[Ints, Ints]:
        """Return the columns with noise that a pattern shows, and those that it misses."""
        noisy = np.diag(self.shape) > 0
        return np.flatnonzero(noisy & ~missing), np.flatnonzero(noisy & missing)

    def _weights(self, missing: Flags, blur: Floats) -> Floats:
        """Return B of a pattern, if rounding adds the variance `blur` to each column of noise 1."""
        seen, wanted = self._cells(missing)
        S = self.shape[np.ix_(seen, seen)]
        S[np.diag_indices(len(seen))] += COMPLETION_RIDGE * np.diag(S) + blur[seen]
        return np.asarray(np.linalg.solve(S, self.shape[np.ix_(seen, wanted)])).T

    def _filled(
        self, missing: Flags, B: Floats, E: Floats, random: Any, blur: Floats | None = None
    ) -> Floats:
        """Return noise 1 (N, n) with draws for the cells that are missing."""
        seen, wanted = self._cells(missing)
        # U ~ N(0, S)
        U = self.lower @ random.standard_normal(E.shape)
        if blur is not None and blur.any():
            spread = np.sqrt(12 * blur[seen])[:, None]
            U[seen] += spread * random.uniform(-0.5, 0.5, (len(seen), E.shape[1]))
        filled = np.where(missing[:, None], 0.0, E)
        # Matheron: E_m = U_m + B (E_o - U_o)
        filled[wanted] = U[wanted] + B @ (E[seen] - U[seen])
        return np.asarray(filled)

    def _together(
        self, block: list[Floats], rows: Ints, whole: Floats, steps: list[Floats], drawn: Flags
    ) -> list[Floats]:
        """Return the block with these rows completed; cells that were `drawn` are rounded too."""
        out = [part.copy() for part in block]
        out[0][:, rows] = whole
        noise: Any = 0.0
        for i, step in zip(self._order, steps, strict=True):
            # D_k is the sum of the steps up to it
            noise = noise + step
            grid = np.where(self.steps[i] > 0, self.steps[i], 1.0)[:, None]
            coarse = drawn & (self.steps[i][:, None] > 0)
            shown = np.where(coarse, np.rint(noise / grid) * grid, noise)
            out[1 + i][:, rows] = whole + shown
        return out


def _patterns(missing: Flags, noisy: Flags) -> Iterator[tuple[Flags, Ints]]:
    """Yield patterns of missing cells (N,) with their rows, the most frequent first.

    Rows without any noise to be seen are left out, and so are those of the rarest patterns if
    there are too many.
    """
    packed = np.ascontiguousarray(np.packbits(missing, axis=0).T)
    keys = packed.view([("", packed.dtype)] * packed.shape[1]).ravel()
    _, first, which, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    order, starts = np.argsort(which, kind="stable"), np.cumsum(counts) - counts
    most = int(min(MOST_PATTERNS, MOST_WORK / max(len(noisy), 1) ** 3))
    for k in np.argsort(-counts, kind="stable")[: max(most, 1)]:
        pattern = missing[:, first[k]]
        if (noisy & ~pattern).any():
            yield pattern, order[starts[k] : starts[k] + counts[k]]
