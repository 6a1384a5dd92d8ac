"""What an edition changed, summed over the rows that changed; parts add up.

For a row with old values x and new values y, on the scales that columns are perturbed on, the
moments of the columns (x, y - x) are kept: of rows that changed in the same columns together,
as long as these are few kinds, and of all further rows together.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from cornerwave.arrays import Flags, Floats
from cornerwave.moments import Moments

MOST_KINDS = 16
"""Sets of changed columns whose rows are told apart; each takes memory as a survey does."""

Columns = tuple[int, ...]
OTHERS: Columns = ()
"""Stands for all sets of columns beyond the first MOST_KINDS."""


@dataclass(frozen=True)
class Changes:
    """Moments of (x, y - x) by the columns that changed; `a + b` are those of both sets of rows.

    >>> old, new = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[1.0, 3.0, 3.0, 2.0]])
    >>> found = Changes.of(old, new)
    >>> found.rows, {columns: part.mean.tolist() for columns, part in found.kinds.items()}
    (2, {(0,): [3.0, -0.5]})
    """

    kinds: Mapping[Columns, Moments]

    @classmethod
    def of(cls, old: Floats, new: Floats) -> "Changes":
        """Return what rows teach, from (columns, rows) before and after; NaN is missing."""
        changed = changed_cells(old, new)
        rows = np.flatnonzero(changed.any(axis=0))
        bits = np.ascontiguousarray(np.packbits(changed[:, rows], axis=0).T)
        sets = bits.view(np.dtype((np.void, bits.shape[1]))).reshape(-1)
        _, first, kind = np.unique(sets, return_index=True, return_inverse=True)
        found = cls({})
        for number, row in enumerate(rows[first]):
            own = rows[kind == number]
            pairs = np.concatenate([old[:, own], new[:, own] - old[:, own]])
            columns = tuple(np.flatnonzero(changed[:, row]).tolist())
            found += cls({columns: Moments.of_columns(pairs)})
        return found

    def __add__(self, other: "Changes") -> "Changes":
        kinds = dict(self.kinds)
        for columns, part in other.kinds.items():
            known = columns in kinds or len(kinds.keys() - {OTHERS}) < MOST_KINDS
            here = columns if known else OTHERS
            kinds[here] = kinds[here] + part if here in kinds else part
        return Changes(kinds)

    @property
    def rows(self) -> int:
        """How many rows changed in at least one column."""
        return sum(part.rows for part in self.kinds.values())


def changed_cells(old: Floats, new: Floats) -> Flags:
    """Return which cells hold one number before and another one after.

    Gaps do not count: of a value that comes back after one, another rule takes care.
    """
    return np.asarray((old != new) & ~np.isnan(old) & ~np.isnan(new))


def together(parts: list[Moments]) -> Moments:
    """Return the moments of all parts."""
    return reduce(add, parts)
