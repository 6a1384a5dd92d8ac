"""Some rows of source and copies, evenly spread, for checks that sort and count rows.

Every row is kept, or every second, fourth, eighth, so that memory is bounded. Categories
keep theirs by the same rule: their common rows are those of the wider distance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._completion import Completion

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
