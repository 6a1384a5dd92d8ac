"""What copies tell by themselves. Nothing here has seen the original."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.levels import Level
from cornerwave.miner import LOG1P, Copy, CopyColumn, find_labels, number_blocks
from cornerwave.report.axis import Axis, axes_of
from cornerwave.report.mined import MOST_INDICATORS, Mined, Questions, mine
from cornerwave.report.tally import MOST_COLUMNS, Tally, common, tally


@dataclass(frozen=True)
class Shown:
    """The columns of a report: perturbed numbers that vary, and refreshed categories."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    whole: tuple[str, ...] = ()
    units: Mapping[str, str | None] | None = None
    pooled: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Copies:
    """The copies of a dataset, least noisy first: their levels, spreads and estimates."""

    rows: int
    levels: tuple[Level, ...]
    shown: Shown
    axes: Mapping[str, tuple[CopyColumn, Axis]]
    categories: tuple[CopyColumn, ...]
    labels: Mapping[str, pa.Array]
    tallies: tuple[Tally, ...]
    asked: Questions
    mined: tuple[Mined, ...]

    def title(self, name: str) -> str:
        """Return what a number is called on the scale that it is shown on."""
        return f"log(1 + {name})" if self.axes[name][0].transform == LOG1P else name


def look(copies: Sequence[Copy], shown: Shown) -> Copies:
    """Look at copies, least noisy first."""
    columns = copies[0].columns
    numbers = [columns[name] for name in shown.numbers[:MOST_COLUMNS]]
    categories = [columns[name] for name in shown.categories[:MOST_COLUMNS]]
    axes = dict(zip([c.name for c in numbers], _axes(copies, numbers, shown), strict=True))
    axes_by_name = {column.name: (column, axes[column.name]) for column in numbers}
    labels = _labels(copies, categories)
    tallies = [tally(copy.source, axes_by_name, categories, labels) for copy in copies]
    few = [
        name
        for name, known in labels.items()
        if 2 <= len(known) <= MOST_INDICATORS
        and len(common(tallies, name)) == len(known)
        and name not in shown.pooled  # the original has other labels
    ]
    asked = Questions.of([*numbers, *categories], [c.name for c in numbers], few)
    return Copies(
        rows=tallies[0].rows,
        levels=tuple(copy.level for copy in copies),
        shown=shown,
        axes=axes_by_name,
        categories=tuple(categories),
        labels=labels,
        tallies=tuple(tallies),
        asked=asked,
        mined=tuple(mine(copy, asked) for copy in copies),
    )


def _axes(copies: Sequence[Copy], numbers: Sequence[CopyColumn], shown: Shown) -> list[Axis]:
    if not numbers:
        return []
    whole = [c.name in shown.whole and c.transform != LOG1P for c in numbers]
    ends = [number_blocks(copy.source, numbers) for copy in (copies[0], copies[-1])]
    return axes_of(ends, whole)


def _labels(copies: Sequence[Copy], categories: Sequence[CopyColumn]) -> dict[str, pa.Array]:
    """Return every label that any copy holds, sorted; missing is one where it is hidden."""
    found = [find_labels(copy.source, categories) for copy in copies] if categories else []
    union = {
        column.name: pa.concat_arrays([labels[column.name] for labels in found]).unique()
        for column in categories
    }
    return {name: known.take(pc.sort_indices(known)) for name, known in union.items()}
