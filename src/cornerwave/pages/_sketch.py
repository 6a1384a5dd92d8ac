"""What each level makes of the columns, drawn from a sample of the rows.

For the owner alone: the noise is drawn afresh for the picture, so no copy need be made, and a
slider can be moved. The copies themselves have other noise of the same covariance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.dataset import Dataset
from cornerwave.frozen import Frozen
from cornerwave.levels import Level
from cornerwave.miner import CopyColumn, number_blocks
from cornerwave.pages._charts import overlay
from cornerwave.pages._comparison import MOST_COLUMNS, shown_of
from cornerwave.pages._tallies import FEW, Axis, axis_of
from cornerwave.table import Source, Thinned

ROWS, CELLS = 1 << 14, 1 << 21
"""At most so many rows are drawn, and so many cells of noise."""


@dataclass(frozen=True)
class ColumnSketch:
    """Some rows of a dataset's numbers on their scales, and noise of one table's size for them.

    `shown` are places among the perturbed columns; rows, noise and axes are in their order.
    """

    frozen: Frozen
    shown: tuple[int, ...]
    rows: Floats
    noise: Floats
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "ColumnSketch":
        """Read a dataset's table once. Raises SourceError if it is not there."""
        frozen, columns = dataset.frozen, shown_of(dataset)
        names = columns.numbers[:MOST_COLUMNS]
        places = tuple(frozen.schema.perturbed.index(name) for name in names)
        sample = _sample(dataset.source, names, CELLS // max(len(frozen.scales), 1))
        draws = partial(_even, sample.shape[1] if names else 0)
        rows = np.array(
            [
                frozen.scales[place].forward(row, name, draws)
                for place, name, row in zip(places, names, sample, strict=True)
            ]
        )
        white = np.random.default_rng(0).standard_normal((len(frozen.scales), sample.shape[1]))
        noise = frozen.factor[list(places)] @ white[: frozen.factor.shape[1]]
        made = cls(frozen, places, rows, noise, ())
        copies = made._copies(Level(1.0))
        axes = [
            axis_of([copy], whole=name in columns.whole)
            for copy, name in zip(copies, names, strict=True)
        ]
        return cls(frozen, places, rows, noise, tuple(axes))

    def drawings(self, level: Level) -> Mapping[str, str]:
        """Return the picture of each number at a level, with the original's outline."""
        found = {}
        names = [self.frozen.schema.perturbed[place] for place in self.shown]
        both = zip(names, self.axes, self._copies(None), self._copies(level), strict=True)
        for name, axis, original, copy in both:
            unit = self.frozen.schema.column(name).unit
            before, after = (_shares(axis, x) for x in (original, copy))
            found[name] = overlay(before, after, axis, unit, f"Histogram of {name} in a copy")
        return found

    def _copies(self, level: Level | None) -> list[Floats]:
        """Return the rows at a level on the columns' own scales; without noise for None."""
        size = 0.0 if level is None else np.sqrt(level.noise)
        noisy = self.rows + size * self.noise
        scales = [self.frozen.scales[place] for place in self.shown]
        return [scale.backward(row) for scale, row in zip(scales, noisy, strict=True)]


def _shares(axis: Axis, values: Floats) -> Floats:
    """Return the share of the rows in each bin; bins that few rows hold are left out."""
    counts = axis.count(values)
    return np.where(counts >= FEW, counts, 0) / max(len(values), 1)


def _sample(source: Source, names: tuple[str, ...], most: int) -> Floats:
    """Return some rows (columns, rows) of a table's numbers; NaN is missing."""
    if not names:
        return np.empty((0, 0))
    kept = Thinned(len(names), most=min(ROWS, most))
    for block in number_blocks(source, [CopyColumn(name, is_number=True) for name in names]):
        kept.add(list(np.ascontiguousarray(block.T)))
    return np.array([kept.column(i) for i in range(len(names))])


def _even(rows: int, column: str) -> Floats:
    """Return draws for ranks of equal values, the same for every column."""
    return np.random.default_rng(0).random(rows)
