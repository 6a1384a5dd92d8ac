"""What the checks of numbers look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._directions import Directions
from cornerwave.audit._kept_rows import KeptRows
from cornerwave.audit._near_rows import NearRows
from cornerwave.audit._repeats import Repeated
from cornerwave.audit._sums import COARSE, Statistics
from cornerwave.audit._watch import Watched


@dataclass(frozen=True)
class NumberEvidence:
    """Sums over the judged columns, what rows showed, some of the rows, and statements.

    `found` are all rows that could be completed, `attacked` those `complete` in the files, if they
    are enough to attack, with a `sample` of them. `watched`, `sample` and `everything` know all
    columns by `names`, the rest only those in `used`.
    `logarithmic` says which of the judged columns are compared on the scale log(1+x).
    """

    found: Statistics
    attacked: Statistics
    complete: int
    everything: Statistics
    watched: Watched
    sample: Floats
    repeated: Repeated
    rows: KeptRows
    noise: Sequence[float | None]
    privacy: Sequence[float | None]
    names: Sequence[str]
    used: Sequence[int]
    logarithmic: tuple[bool, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the judged columns."""
        return [self.names[n] for n in self.used]

    @cached_property
    def directions(self) -> Directions:
        """The noise of the kept rows in several directions."""
        return Directions(self.found, self.rows, self.logarithmic)

    @cached_property
    def near(self) -> NearRows:
        """The rows that were kept for the length of their steps, in the judged columns."""
        return self.watched.near.of_columns(list(self.used))

    def step(self, k: int) -> tuple[int, ...]:
        """Return the copies that step k of the path lies between."""
        return self.directions.order[max(k - 1, 0) : k + 1]

    def names_of(self, k: int) -> list[str]:
        """Return the names of the columns in which step k can be judged."""
        return [self.columns[n] for n in self.directions.columns_of_step(k)]

    @cached_property
    def fine(self) -> list[int]:
        """The copies that are not rounded to steps larger than their noise."""
        found = self.found
        size = np.sqrt(np.maximum(found.noise, 0.0))[:, None] * np.sqrt(found.variance)
        return np.flatnonzero(~(found.steps > COARSE * size).any(axis=1)).tolist()

    @cached_property
    def alike(self) -> dict[tuple[int, int], int]:
        """Pairs of copies that agree in most rows, and in how many rows they differ."""
        steps, complete = self.found.steps, self.found.complete
        return {
            pair: complete - rows
            for pair, rows in sorted(self.watched.same.items())
            if rows == complete or not (steps[list(pair)] > 0).any()  # rounding makes equal rows
        }
