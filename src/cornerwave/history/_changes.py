"""What an edition changed, summed over all rows that changed; parts add up to the bit.

For a row with old values x and new values y, on the scales that columns are perturbed on, d is
y - x in the columns that changed. Three covariances are kept:

    old    of x_i and x_j,  over all changed rows
    pull   of d_i and x_j,  over the rows whose column i changed
    change of d_i and d_j,  over the rows whose columns i and j both changed

They are the moments of the columns (x, d), in which d is missing where nothing changed.
"""

from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.moments import Moments


@dataclass(frozen=True)
class Changes:
    """What is learned from changed rows; `a + b` is what both sets of rows teach.

    >>> old, new = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[1.0, 3.0, 3.0, 2.0]])
    >>> found = Changes.of(old, new)
    >>> found.rows, found.count.tolist(), found.mean.tolist()
    (2, [[2]], [-0.5])
    """

    moments: Moments

    @classmethod
    def of(cls, old: Floats, new: Floats) -> "Changes":
        """Return what rows teach, from (columns, rows) before and after; NaN is missing."""
        changed = changed_cells(old, new)
        rows = changed.any(axis=0)
        difference = np.where(changed, new - old, np.nan)
        return cls(Moments.of_columns(np.concatenate([old, difference])[:, rows]))

    def __add__(self, other: "Changes") -> "Changes":
        return Changes(self.moments + other.moments)

    @property
    def rows(self) -> int:
        """How many rows changed in at least one column."""
        return self.moments.rows

    @property
    def columns(self) -> int:
        """How many columns a row has."""
        return len(self.moments.top) // 2

    @property
    def count(self) -> Ints:
        """In how many rows both of two columns changed, (N, N)."""
        return self.moments.count[self.columns :, self.columns :]

    @property
    def mean(self) -> Floats:
        """The mean change of each column, over the rows in which it changed."""
        return self.moments.mean[self.columns :]

    @property
    def old(self) -> Floats:
        """The covariance of the old values, (N, N)."""
        return self.moments.covariance[: self.columns, : self.columns]

    @property
    def pull(self) -> Floats:
        """The covariance of changes (rows) with old values (columns), (N, N)."""
        return self.moments.covariance[self.columns :, : self.columns]

    @property
    def change(self) -> Floats:
        """The covariance of the changes, (N, N)."""
        return self.moments.covariance[self.columns :, self.columns :]


def changed_cells(old: Floats, new: Floats) -> Flags:
    """Return which cells hold one number before and another one after.

    A value that goes missing, or was missing, keeps its noise: only one of the two is shown.
    """
    return np.asarray((old != new) & ~np.isnan(old) & ~np.isnan(new))
