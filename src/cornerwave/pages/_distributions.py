"""How each column is distributed, in the copies and in the original: a panel for each."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.miner import CopyColumn
from cornerwave.pages import _charts as charts
from cornerwave.pages import _document as kit
from cornerwave.pages._charts import Panel
from cornerwave.pages._comparison import Copies, title_of
from cornerwave.pages._tallies import FEW, Tally, most_frequent, not_redrawn, pooled, same_share

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
