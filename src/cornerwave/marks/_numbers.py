"""The numbers of a column in some rows, chosen by the hashes of their keys, or of their places.

Two tables choose the same rows. So it shows that one table is computed from the other, though
no value of it is the same: see `_relations`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats, Ints

PRESENT = 0.5
"""Of the sampled cells, at least so many must be numbers."""
DIFFERENT = 8
"""Different numbers in the sample, at least: flags and codes agree by design, as the years of a
panel do."""


@dataclass(frozen=True)
class Numbers:
    """A column in the sampled rows, less `centre` and over `scale`: NaN where it has no number.

    `keyed` is None without a key.
    """

    centre: float
    scale: float
    keyed: Floats | None
    placed: Floats

    @classmethod
    def of(cls, keyed: Floats | None, placed: Floats) -> "Numbers | None":
        """Return what is kept of a column; None if it has too few numbers."""
        known = placed[np.isfinite(placed)]
        if len(known) < PRESENT * len(placed) or len(np.unique(known)) < DIFFERENT:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # then the scale is not finite
            centre, scale = float(np.median(known)), float(known.std())
        if not (math.isfinite(centre) and 0 < scale < math.inf):
            return None
        made = cls(centre, scale, None, np.empty(0))
        own = None if keyed is None else made._on(keyed)
        return replace(made, keyed=own, placed=made._on(placed))

    def with_rows(
        self, keyed: Floats | None, placed: Floats, by_key: Ints | None, by_place: Ints
    ) -> "Numbers":
        """Return the column with further rows, given which of all the samples have now."""
        own, placed = self.keyed, np.concatenate([self.placed, self._on(placed)])[by_place]
        if own is not None and keyed is not None and by_key is not None:
            own = np.concatenate([own, self._on(keyed)])[by_key]
        return replace(self, keyed=own, placed=placed)

    def _on(self, numbers: Floats) -> Floats:
        finite = np.where(np.isfinite(numbers), numbers, np.nan)
        return (finite - self.centre) / self.scale
