"""How each column is distributed, in the copies and in the original: a panel for each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from cornerwave import document as doc
from cornerwave.arrays import Floats, Ints
from cornerwave.choices import MARGINAL
from cornerwave.columns import Finish, Thinned
from cornerwave.levels import Level, retention
from cornerwave.miner import RANK, CopyColumn, number_blocks
from cornerwave.report._comparison import (
    FEW,
    MOST_COLUMNS,
    Axis,
    Copies,
    Tally,
    axis_of,
    most_frequent,
    shown_of,
    title_of,
)
from cornerwave.sources import Source
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.look import same_spread
from cornerwave.vault import Dataset

MOST_OPEN = 6
"""So many columns are shown at once; those of a longer report open at a click."""


EXPLAINED = (
    "Share of the rows, to the same height in every panel. Missing values and values beyond "
    f"the axis are not shown. Neighbouring bins with fewer than {FEW} rows are drawn as one, "
    "at their mean height. All copies of a category have about the same shares; what differs "
    "is how many cells still hold their original value."
)


def distributions(copies: Copies, original: Tally | None) -> doc.Section:
    """Return the section: a part for each column that is shown."""
    tallies = all_tallies(copies, original)
    shown: list[tuple[str, list[doc.Part]]] = [
        *(_histograms(copies, original, name) for name in copies.axes),
        *(_bars(copies, original, column, tallies) for column in copies.categories),
    ]
    folds = [doc.Fold(title, parts, i < MOST_OPEN) for i, (title, parts) in enumerate(shown)]
    numbers, categories = bool(copies.axes), bool(copies.categories)
    marks = [
        *[("original", "original")] * bool(original),
        ("copy", "copy"),
        *[("redrawn", "cells of a category that were redrawn")] * categories,
        *[("outline", "original, over a copy")] * bool(original and numbers),
        *[("mark", "original, over a copy of a category")] * bool(original and categories),
    ]
    return doc.Section(
        "Distribution of each column", [doc.Paragraph(EXPLAINED), doc.Legend(marks), *folds]
    )


@dataclass(frozen=True)
class ShownShares:
    """The shares of a table's rows in bins or under labels; the original has no level."""

    title: str
    shares: Floats
    level: Level | None


def _shares_of(
    copies: Copies, original: Tally | None, counts: Callable[[Tally], Floats | Ints]
) -> list[ShownShares]:
    """Return the shares of each copy, after the original's if it is given."""
    tables: list[tuple[str, Tally, Level | None]] = [
        (copies.named(level), tally, level)
        for level, tally in zip(copies.levels, copies.tallies, strict=True)
    ]
    if original is not None:
        tables.insert(0, ("original", original, None))
    return [ShownShares(name, counts(t) / max(t.rows, 1), level) for name, t, level in tables]


def _histograms(copies: Copies, original: Tally | None, name: str) -> tuple[str, list[doc.Part]]:
    column, axis = copies.axes[name]
    title = title_of(column)
    shown = _shares_of(copies, original, lambda tally: pooled(tally.numbers[name]))
    panels = [doc.Panel(each.title, each.shares.tolist(), each.level is None) for each in shown]
    on_its_own = column.transform in (None, RANK)  # copies on ranks are shown as the table is
    unit = copies.shown.units.get(name) if on_its_own else None
    label = f"Histogram of {title}"
    return title, [
        doc.Picture(doc.Histograms(panels, doc.axis_ends(axis.ends, unit), label), label)
    ]


def _bars(
    copies: Copies, original: Tally | None, column: CopyColumn, tallies: Sequence[Tally]
) -> tuple[str, list[doc.Part]]:
    name = column.name
    places = most_frequent(tallies, name)
    if not places:
        return name, [doc.Paragraph("No value is frequent enough to be shown.")]
    labels = [copies.labels[name][place].as_py() for place in places]
    rest = any(tally.labels[name][places].sum() < tally.rows for tally in tallies)
    names = ["missing" if label is None else str(label) for label in labels]
    names += ["other or missing"] * rest

    def counts(tally: Tally) -> Ints:
        shown = tally.labels[name][places]
        return np.append(shown, tally.rows - shown.sum()) if rest else shown

    shown = _shares_of(copies, original, counts)
    return name, [*_same(copies, column), bar_table(names, shown, column, others=rest)]


def bar_table(
    names: Sequence[str], shown: Sequence[ShownShares], column: CopyColumn, *, others: bool = False
) -> doc.DataTable:
    """Return a bar for each value in each table, with a mark at the original's share.

    The last name may be that of all `others`.
    """
    top = max(float(each.shares.max(initial=0)) for each in shown) or 1.0
    original = next((each.shares for each in shown if each.level is None), None)
    columns = []
    for each in shown:
        level, kept, marks = each.level, None, None
        if level is not None:
            kept = not_redrawn(each.shares, column, level.noise, others=others)
            marks = original
        columns.append(
            [
                doc.Bar(
                    share,
                    top,
                    f"{name}, {each.title}",
                    is_original=level is None,
                    kept=None if kept is None else float(kept[k]),
                    mark=None if marks is None else float(marks[k]),
                )
                for k, (name, share) in enumerate(zip(names, each.shares.tolist(), strict=True))
            ]
        )
    header = ("value", *(each.title for each in shown))
    return doc.DataTable(header, list(zip(names, *columns, strict=True)))


def _same(copies: Copies, column: CopyColumn) -> list[doc.Paragraph]:
    """Return how many cells of a category hold the value that they have in the original."""
    known = []
    for level, tally in zip(copies.levels, copies.tallies, strict=True):
        counts = tally.labels[column.name]
        share = same_share(counts / max(counts.sum(), 1), column, level.noise)
        if share is not None:
            cells = round(share * float(counts.sum()))
            known.append(f"{cells:,} at {copies.named(level)} ({share:.0%})")
    total = int(copies.tallies[0].labels[column.name].sum())
    words = f"Of {total:,} cells, about so many hold their original value: {', '.join(known)}."
    return [doc.Paragraph(words)] if known else []


def all_tallies(copies: Copies, original: Tally | None) -> list[Tally]:
    """Return the tallies of the copies, and of the original if it is given."""
    return [*copies.tallies, *([original] if original else [])]


def pooled(counts: Ints) -> Floats:
    """Return counts without any below FEW: few rows count with the next full bin, or as the mean
    over a stretch of bins that holds enough; the last few count with the stretch before them.

    >>> pooled(np.array([1, 0, 5, 9, 2])).tolist(), pooled(np.array([0, 4])).tolist()
    ([0.0, 0.0, 6.0, 11.0, 0.0], [0.0, 0.0])
    >>> pooled(np.array([90, 0, 0, 2, 1, 3, 0])).tolist()
    [90.0, 0.0, 0.0, 2.0, 2.0, 2.0, 0.0]
    """
    shown, start, held, last = np.zeros(len(counts)), 0, 0, slice(0)
    for place, count in enumerate(counts.tolist()):
        if not held or count >= FEW:
            start = place
        held += count
        if held >= FEW:
            last = slice(start, place + 1)
            shown[last] = held / (place + 1 - start)
            held = 0
    shown[last] += held / max(last.stop - (last.start or 0), 1)
    return shown


def not_redrawn(
    shares: Floats, column: CopyColumn, noise: float, *, others: bool = False
) -> Floats | None:
    """Return the share of cells under each label that were retained, from the copy's shares.

    A cell is redrawn with probability 1 - q, from the base pi: so q P = P_copy - (1 - q) pi. The
    last share may be that of all `others`. None where the base of one column is not known.

    >>> sex = CopyColumn("sex", is_number=False)
    >>> not_redrawn(np.array([0.75, 0.25]), sex, noise=3.0).tolist()
    [0.375, 0.125]
    """
    base = _base(shares, column, others=others)
    # q P = P_copy - (1 - q) pi
    return None if base is None else shares - (1 - retention(noise)) * base


def same_share(shares: Floats, column: CopyColumn, noise: float) -> float | None:
    """Return the share of cells that hold their own value: retained, or redrawn as what they were.

    `shares` are those of all labels. None where the base of one column is not known.

    >>> same_share(np.array([0.5, 0.5]), CopyColumn("sex", is_number=False), noise=3.0)
    0.75
    """
    base, q = _base(shares, column), retention(noise)
    if base is None:
        return None
    # q + (1 - q) sum pi P: a redrawn cell of share P gets its value back with probability pi,
    # and P = (P_copy - (1 - q) pi) / q
    return float(q + (base * (shares - (1 - q) * base)).sum() * (1 - q) / q)


def _base(shares: Floats, column: CopyColumn, *, others: bool = False) -> Floats | None:
    """Return what redrawn cells are drawn from, by label."""
    if column.base == MARGINAL:
        return shares  # pi is the original's distribution, which redrawing leaves as it is
    if column.together or not column.categories:
        return None
    base = np.full(len(shares), 1 / column.categories)
    if others:
        base[-1] = 1 - base[:-1].sum()
    return base


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
        # W(1) = L Z with L L' = K: noise of one table's size, scaled by sqrt(v) for each level.
        # It is for a picture on the owner's screen alone; a fixed seed keeps the slider smooth.
        white = np.random.default_rng(0).standard_normal((len(frozen.scales), sample.shape[1]))
        noise = frozen.factor[list(places)] @ white[: frozen.factor.shape[1]]
        made = cls(frozen, places, rows, noise, ())
        copies = made._copies(Level(1.0))  # axes as wide as a copy at privacy 0.5 needs
        axes = [
            axis_of([copy], whole=name in columns.whole)
            for copy, name in zip(copies, names, strict=True)
        ]
        return cls(frozen, places, rows, noise, tuple(axes))

    def drawings(self, level: Level) -> Mapping[str, doc.Histograms]:
        """Return the histograms of each number, of the original and of a copy at a level."""
        drawn = {}
        names = [self.frozen.schema.perturbed[place] for place in self.shown]
        both = zip(names, self.axes, self._copies(None), self._copies(level), strict=True)
        for name, axis, original, copy in both:
            unit = self.frozen.schema.column(name).unit
            panels = [
                doc.Panel("original", _shares(axis, original), is_original=True),
                doc.Panel("copy", _shares(axis, copy)),
            ]
            drawn[name] = doc.Histograms(
                panels, doc.axis_ends(axis.ends, unit), f"Histogram of {name}"
            )
        return drawn

    def _copies(self, level: Level | None) -> list[Floats]:
        """Return the rows at a level on the columns' own scales; without noise for None."""
        scales = [self.frozen.scales[place] for place in self.shown]
        rows = self.rows
        if level is not None:
            names = [self.frozen.schema.perturbed[place] for place in self.shown]
            drawn = Finish(spread=same_spread(self.frozen, level))
            rows = drawn.drawn_together(names, rows + np.sqrt(level.noise) * self.noise)
        return [scale.backward(row) for scale, row in zip(scales, rows, strict=True)]


def _shares(axis: Axis, values: Floats) -> list[float]:
    """Return the share of the rows in each bin; bins that few rows hold are left out."""
    counts = axis.count(values)
    return list((np.where(counts >= FEW, counts, 0) / max(len(values), 1)).tolist())


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
