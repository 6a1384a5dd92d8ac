"""Rows of a table as somebody who looks for a person knows them, and as copies show them.

Who knows a row knows its values. On the scale of ranks a value that many rows hold spans many
scores, of which copies show the noise about one that is drawn by a key: what is known is the middle
one. What copies show without noise (kept columns, gaps) is one number, the same for rows that show
the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack._joint_posterior import KnownCells


@dataclass(frozen=True)
class RowsAtRisk:
    """Some rows of a table of `count` rows, in random order; or blocks of rows, one of a person.

    `share` is the part of all that is at risk that they represent.

    `known` (N, rows) are the numbers on their scales as they are known, NaN where they are not;
    `exact` (N, rows) those that get noise, of covariance v `shape`. `cells` are refreshed,
    `shown` (rows,) is alike in rows that show the same without noise.
    """

    names: tuple[str, ...]
    known: Floats
    exact: Floats
    mean: Floats
    covariance: Floats
    shape: Floats
    cells: tuple[KnownCells, ...]
    shown: Ints
    count: int
    share: float = 1.0

    @property
    def rows(self) -> int:
        """How many rows there are here."""
        return len(self.shown)

    def by(self, columns: Sequence[str]) -> "RowsAtRisk":
        """Return the same as known to somebody who knows these columns, and nothing else.

        Not of what is shown without noise: `shown` states that of the chosen columns already.
        """
        known = self.known.copy()
        known[[name not in columns for name in self.names]] = np.nan
        cells = tuple(each for each in self.cells if each.name in columns)
        return replace(self, known=known, cells=cells)

    def codes_of(self, places: Ints) -> list[Ints]:
        """Return the codes of each category in some rows."""
        return [each.codes[places] for each in self.cells]
