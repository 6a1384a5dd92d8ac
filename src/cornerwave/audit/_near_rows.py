"""Rows that a leak in some of them brings together, kept out of all rows in one pass.

A step of the path E_k is whitened by the covariance of the first block, which is nearly right:
enough to choose rows by, wherever they stand. Of each step are kept

    smallest   the rows of the shortest steps: those that got less noise than others
    middle     the rows whose length is nearest to the median: rows of one length are kept
               together, or not at all
    flat       the rows closest to a plane a'E = 0: with E_i and E_j it holds E_i +- E_j

as they are, so that checks whiten them by what all rows say in the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Flags, Floats

CELLS, FEWEST, MOST = 1 << 20, 1 << 9, 1 << 15
"""As many rows of each kind are kept as these cells of all steps hold, within these bounds."""

FLAT = 3 << 11
"""All pairs of flat rows are looked at, so at most this many are kept."""


@dataclass(frozen=True)
class NearRows:
    """Steps (N, m) of the rows that were kept of all `rows`, for each step of the path."""

    rows: int
    smallest: Sequence[Floats]
    middle: Sequence[Floats]
    flat: Sequence[Floats]

    def of_columns(self, columns: list[int]) -> "NearRows":
        """Return the same for some columns, by their indices."""
        kinds = (self.smallest, self.middle, self.flat)
        return NearRows(self.rows, *([E[columns] for E in kind] for kind in kinds))


class NearRowKeeper:
    """Takes stacked rows with their white steps (`add`), then gives those that are `near`."""

    def __init__(self, *, columns: int, order: Sequence[int], ranks: Sequence[int]) -> None:
        room = int(np.clip(CELLS // max(columns * len(order), 1), FEWEST, MOST))
        self._columns, self._order, self._rows = columns, order, 0
        # Wilson and Hilferty's median of a chi-square
        self._medians = [rank * (1 - 2 / (9 * max(rank, 1))) ** 3 for rank in ranks]
        rooms = (room, room, min(room, FLAT))
        self._kept = [[_Nearest(columns, each) for each in rooms] for _ in order]

    def add(self, stacked: Floats, squares: Floats, widest: Floats) -> None:
        """Take complete rows (groups, P+1, run), 0 last for padding.

        `squares` (groups, M, run) are their squared lengths, `widest` those along the widest axis.
        """
        live = stacked[:, -1] > 0
        self._rows += int(np.count_nonzero(live))
        before = 0  # where the copy before begins; 0 for none
        for k, (i, kept) in enumerate(zip(self._order, self._kept, strict=True)):
            here, length = (1 + i) * self._columns, squares[:, k]
            near = (length, np.abs(length - self._medians[k]), widest[:, k])
            for own, distance in zip(kept, near, strict=True):
                own.add(stacked, here, before, distance, live)
            before = here

    def near(self) -> NearRows:
        """Return what was kept."""
        kinds = [[step[kind].vectors for step in self._kept] for kind in range(3)]
        return NearRows(self._rows, *kinds)


class _Nearest:
    """The vectors of least distance, at most so many as there is room for."""

    def __init__(self, columns: int, room: int) -> None:
        self._columns, self._room, self._bound, self._waiting = columns, room, np.inf, 0
        self._distances, self._vectors = [np.empty(0)], [np.empty((columns, 0))]

    def add(self, stacked: Floats, here: int, before: int, distance: Floats, live: Flags) -> None:
        group, row = np.nonzero((distance <= self._bound) & live)
        if not len(row):
            return
        columns = np.arange(self._columns)[:, None]
        vectors = stacked[group, here + columns, row]
        if before:
            vectors -= stacked[group, before + columns, row]
        self._distances.append(distance[group, row])
        self._vectors.append(vectors)
        self._waiting += len(row)
        if self._waiting > self._room:
            self._thin()

    def _thin(self) -> None:
        distances, vectors = np.concatenate(self._distances), np.hstack(self._vectors)
        if len(distances) > self._room:
            kept = np.argpartition(distances, self._room - 1)[: self._room]
            distances, vectors = distances[kept], vectors[:, kept]
            self._bound = float(distances.max())
        self._distances, self._vectors, self._waiting = [distances], [vectors], 0

    @property
    def vectors(self) -> Floats:
        self._thin()
        return self._vectors[0]
