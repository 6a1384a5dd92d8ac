"""How each column is distributed, in the copies and in the original: a panel for each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import Thinned
from cornerwave.documents import _charts as charts
from cornerwave.documents import _document as kit
from cornerwave.documents._charts import Panel, overlay
from cornerwave.documents._comparison import MOST_COLUMNS, Copies, shown_of, title_of
from cornerwave.documents._tallies import (
    FEW,
    Axis,
    Tally,
    axis_of,
    most_frequent,
    not_redrawn,
    pooled,
    same_share,
)
from cornerwave.levels import Level
from cornerwave.miner import CopyColumn, number_blocks
from cornerwave.sources import Source
from cornerwave.spine.freeze import Frozen
from cornerwave.vault import Dataset

MOST_OPEN = 6
"""So many columns are shown at once; those of a longer report open at a click."""


def distributions(copies: Copies, original: Tally | None) -> str:
    """Return the section: a part for each column that is shown."""
    numbers = [_histogram(copies, original, name) for name in copies.axes]
    tallies = all_tallies(copies, original)
    categories = [_bars(copies, original, column, tallies) for column in copies.categories]
    parts = [*numbers, *categories]
    shown = [
        kit.subsection(title, html)
        if len(parts) <= MOST_OPEN
        else kit.folded(title, html, is_open=i < MOST_OPEN)
        for i, (title, html) in enumerate(parts)
    ]
    explained = kit.hint(
        "Share of the rows, to the same height in every panel. Missing values and values beyond "
        f"the axis are not shown. Neighbouring bins with fewer than {FEW} rows are drawn as one, "
        "at their mean height. All copies of a category have about the same shares; what differs "
        "is how many cells hold their own value still."
    )
    marks = [
        *[("original", "original")] * bool(original),
        ("copy", "copy"),
        *[("redrawn", "cells of a category that were redrawn")] * bool(categories),
        *[("outline", "original, over a copy")] * bool(original and numbers),
        *[("mark", "original, over a copy of a category")] * bool(original and categories),
    ]
    title = "Distribution of each column"
    return kit.section(title, explained, kit.legend(marks), *shown, anchor="distributions")


def _histogram(copies: Copies, original: Tally | None, name: str) -> tuple[str, str]:
    column, axis = copies.axes[name]
    title = title_of(column)
    panels = _panels(copies, original, lambda tally: pooled(tally.numbers[name]))
    unit = copies.shown.units.get(name) if column.transform is None else None
    return title, charts.histograms(panels, axis, unit, f"Histogram of {title}")


def _bars(
    copies: Copies, original: Tally | None, column: CopyColumn, tallies: Sequence[Tally]
) -> tuple[str, str]:
    name = column.name
    places = most_frequent(tallies, name)
    if not places:
        return name, kit.hint("No value is frequent enough to be shown.")
    labels = [copies.labels[name][place].as_py() for place in places]
    names = ["missing" if label is None else str(label) for label in labels]
    rest = any(tally.labels[name][places].sum() < tally.rows for tally in tallies)

    def counts(tally: Tally) -> Ints:
        shown = tally.labels[name][places]
        return np.append(shown, tally.rows - shown.sum()) if rest else shown

    panels = _panels(copies, original, counts)
    drawn = [panels[0]] if original else []
    drawn += [
        replace(panel, kept=not_redrawn(panel.shares, column, level.noise, others=rest))
        for panel, level in zip(panels[len(drawn) :], copies.levels, strict=True)
    ]
    chart = charts.bars(drawn, [*names, *["other or missing"] * rest], "value")
    return name, _same(copies, column) + chart


def _same(copies: Copies, column: CopyColumn) -> str:
    """Say how many cells of a category hold the value that they have in the original."""
    said = []
    for level, tally in zip(copies.levels, copies.tallies, strict=True):
        counts = tally.labels[column.name]
        share = same_share(counts / max(counts.sum(), 1), column, level.noise)
        if share is not None:
            cells = round(share * float(counts.sum()))
            said.append(f"{cells:,} at {copies.named(level)} ({share:.0%})")
    total = int(copies.tallies[0].labels[column.name].sum())
    words = f"Of {total:,} cells, about so many hold their own value: {', '.join(said)}."
    return kit.hint(words) if said else ""


def _panels(
    copies: Copies, original: Tally | None, counts: Callable[[Tally], Floats | Ints]
) -> list[Panel]:
    """Return a panel per copy, after the original's if it is given."""
    panels = [
        Panel(copies.named(level), counts(tally) / max(tally.rows, 1))
        for level, tally in zip(copies.levels, copies.tallies, strict=True)
    ]
    if original is None:
        return panels
    own = counts(original) / max(original.rows, 1)
    return [Panel("original", own, is_original=True), *panels]


def all_tallies(copies: Copies, original: Tally | None) -> list[Tally]:
    """Return the tallies of the copies, and of the original if it is given."""
    return [*copies.tallies, *([original] if original else [])]


# --------------------------------------------------------------------------------------------------
# What each level makes of the columns, drawn from a sample of the rows.
#
# For the owner alone: the noise is drawn afresh for the picture, so no copy need be made, and a
# slider can be moved. The copies themselves have other noise of the same covariance.


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
