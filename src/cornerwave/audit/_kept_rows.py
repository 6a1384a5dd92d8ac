"""Some rows of source and copies, evenly spread, for checks that sort and count rows.

Every row is kept, or every second, fourth, eighth, so that memory is bounded. Categories
keep theirs by the same rule: their common rows are those of the wider distance.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._sums import Statistics
from cornerwave.noise import factor

# --------------------------------------------------------------------------------------------------
# Rows with missing values, completed so that every check can look at them.
#
# The noise does not know which cells are missing. In a row that has the cells o and misses the
# cells m, honest steps of the path E_k are N(0, s_k S) over all cells, so with U ~ N(0, s_k S)
#
#     E_m = U_m + B (E_o - U_o),      B = S_mo S_oo^-1
#
# completes them (Matheron's rule): if what is seen is honest, the whole row is N(0, s_k S) again,
# exactly, and all limits hold; if it is not, the cells that are seen still say so. X is completed
# in the same way, by its own covariance as far as S is; given X, any value would do.
#
# S is what the noise should be shaped like, s_k what the copies state or, if they state nothing,
# what was measured. A cell counts as missing if it is in any of the files.


RIDGE = 1e-9
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
    def of(cls, found: Statistics, noise: Any) -> "Completion":
        """Take what one pass measured, and the noise that copies state, None for silent ones."""
        noisy: Flags = np.asarray((found.spread > 0).any(axis=0))
        shape = np.where(noisy & noisy[:, None], found.shape, 0.0)
        lower = factor(shape).lower
        stated = [
            v if v is not None else own for v, own in zip(noise, found.pairwise_noise, strict=True)
        ]
        return cls(found.mean, lower @ lower.T, np.array(stated), found.steps, lower)

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
        for pattern, own in _patterns(missing[:, rows], np.diag(self.shape) > 0):
            B = self._weights(pattern, np.zeros(len(X)))
            away = X[:, own] - self.mean[:, None]
            whole[:, own] = self.mean[:, None] + self._filled(pattern, B, away, random)
            for step, size, blur in steps:
                if size > 0:  # as it is on the scale of S
                    part = step[:, own] / np.sqrt(size)
                    coarse = self._weights(pattern, blur / size) if blur.any() else B
                    found = self._filled(pattern, coarse, part, random, blur / size)
                    step[:, own] = np.sqrt(size) * found
                else:
                    step[:, own] = np.where(pattern[:, None], 0.0, step[:, own])
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
        S[np.diag_indices(len(seen))] += RIDGE * np.diag(S) + blur[seen]
        return np.asarray(np.linalg.solve(S, self.shape[np.ix_(seen, wanted)])).T

    def _filled(
        self, missing: Flags, B: Floats, E: Floats, random: Any, blur: Floats | None = None
    ) -> Floats:
        """Return noise 1 (N, n) with draws for the cells that are missing."""
        seen, wanted = self._cells(missing)
        U = self.lower @ random.standard_normal(E.shape)
        if blur is not None and blur.any():
            spread = np.sqrt(12 * blur[seen])[:, None]
            U[seen] += spread * random.uniform(-0.5, 0.5, (len(seen), E.shape[1]))
        found = np.where(missing[:, None], 0.0, E)
        found[wanted] = U[wanted] + B @ (E[seen] - U[seen])
        return np.asarray(found)

    def _together(
        self, block: list[Floats], rows: Ints, whole: Floats, steps: list[Floats], drawn: Flags
    ) -> list[Floats]:
        """Return the block with these rows completed; cells that were `drawn` are rounded too."""
        out = [part.copy() for part in block]
        out[0][:, rows] = whole
        noise: Any = 0.0
        for i, step in zip(self._order, steps, strict=True):
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


KEPT_CELLS = 1 << 21
FEWEST_ROWS, MOST_ROWS = 1 << 12, 1 << 15
"""As many rows are kept as these cells hold, within these bounds."""

KEPT_SEED = 1 << 32
"""Rows kept are completed apart from the blocks of all rows, which count from 0."""

Scaled = Callable[[list[Floats]], list[Floats]]


@dataclass(frozen=True)
class KeptRows:
    """The kept rows that are or could be completed, in random order; `places` are their numbers.

    `raw` (1 + M, N, n) is as the files have them, source first, NaN for missing; `scaled` on the
    scales that they are compared on, completed. Ties are broken at random by sorting stably: the
    order is random.
    """

    raw: Floats
    scaled: Floats
    places: Ints
    every: int

    @property
    def source(self) -> Floats:
        """The source on its scales, (N, n)."""
        return np.asarray(self.scaled[0])

    @property
    def truth(self) -> Floats:
        """The source on its scales as the file has it, (N, n), NaN for missing."""
        return np.where(np.isnan(self.raw[0]), np.nan, self.source)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.scaled.shape[2])


class RowKeeper:
    """Takes blocks of raw rows (`add`), then gives those that it kept."""

    def __init__(self, *, columns: int, tables: int) -> None:
        room = KEPT_CELLS // max(columns * tables, 1)
        self._room = int(np.clip(room, FEWEST_ROWS, MOST_ROWS))
        self._parts: list[Floats] = []
        self.seen = self._kept = 0
        self.every = 1

    def add(self, block: Sequence[Floats]) -> None:
        """Take the same rows of the source and of each copy, (N, rows) each."""
        start = -self.seen % self.every
        part = np.stack([table[:, start :: self.every] for table in block])
        self._parts.append(part)
        self.seen += block[0].shape[1]
        self._kept += part.shape[2]
        while self._kept > self._room:
            self._parts = [np.concatenate(self._parts, axis=2)[:, :, ::2].copy()]
            self._kept, self.every = self._parts[0].shape[2], 2 * self.every

    @property
    def raw(self) -> Floats:
        """All columns of the kept rows, (1 + M, N, n), as the files have them."""
        return np.concatenate(self._parts, axis=2)

    def everything(self, scaled: Scaled) -> Floats:
        """Return all columns of the kept rows, (1 + M, N, n), on their scales."""
        return np.stack(scaled(list(self.raw)))

    def rows(
        self, used: Sequence[int], scaled: Scaled, completion: Completion | None = None
    ) -> KeptRows:
        """Return the kept rows that have all of the used columns, or were given them."""
        raw = self.raw
        blocks = scaled(list(raw))
        whole = completion.complete(blocks, KEPT_SEED) if completion else blocks
        on_scale = np.stack(whole)[:, list(used)]
        complete = np.flatnonzero(np.isfinite(on_scale).all(axis=(0, 1)))
        # Chance that depends on the values alone: the same audit twice says the same.
        seed = crc32(on_scale[:, :, complete].tobytes())
        chosen = np.random.default_rng(seed).permutation(complete)
        raw = raw[:, list(used)][:, :, chosen]
        return KeptRows(raw, on_scale[:, :, chosen], chosen * self.every, self.every)
