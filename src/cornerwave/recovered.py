"""What an adversary who knows how rows are distributed left of each column, at any level."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.levels import LATTICE, THOUSANDTHS, Level

PLACES = (100, 200, 300, 400, 500, 600, 700, 800, 900, 970, 999)
"""The levels at which it is measured, in thousandths; between them shares rise linearly."""


@dataclass(frozen=True)
class JointShares:
    """The share of each column's variance that was left at the levels PLACES.

    Empty if it was not measured.
    """

    shares: Mapping[str, tuple[float, ...]]

    def at(self, level: Level) -> dict[str, float]:
        """Return what is left at a level of the lattice."""
        return {
            name: float(_between(known, level.thousandths)) for name, known in self.shares.items()
        }

    def place_of(self, thousandths: int) -> int | None:
        """Return the least level, in thousandths, at which so many of each column are left.

        >>> known = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
        >>> JointShares({"wage": known}).place_of(500)
        600
        """
        if not self.shares:
            return None
        places = np.arange(1, 1 + len(LATTICE))
        least = np.min([_between(known, places) for known in self.shares.values()], axis=0)
        enough = np.flatnonzero(least >= thousandths / THOUSANDTHS - 1e-9)
        return int(places[enough[0]]) if len(enough) else None


def _between(known: Sequence[float], places: Any) -> Any:
    """Return shares at some levels, from those at PLACES."""
    return np.interp(places, (0, *PLACES), (0.0, *known))
