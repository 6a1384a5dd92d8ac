"""What a report compares: the copies of a dataset, and the original behind them.

    vault ──make again──> copies ──look──────────────────────────────> Copies
    source ──look_behind, with the copies' bins, labels and questions──> Original

`Copies` is made from the copies alone; nothing in it has seen the original.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.audit import Exposed
from cornerwave.columns import Thinned, plain_type
from cornerwave.editions import Edition
from cornerwave.errors import NoSuchRecipient
from cornerwave.ledger import Holding
from cornerwave.levels import Level
from cornerwave.miner import (
    LOG1P,
    MIXED,
    RANK,
    Copy,
    CopyColumn,
    code_blocks,
    find_labels,
    number_blocks,
)
from cornerwave.outlook import Advice, Outlook, advice, outlook_at, see
from cornerwave.privacy import Coalition
from cornerwave.report._answers import Answers, Questions, as_kept, ask
from cornerwave.sources import Progress, Source, hold
from cornerwave.vault import Dataset

# --------------------------------------------------------------------------------------------------
# How the values of a table are distributed: counts in bins and per label, in one pass.
#
# The bins end at round numbers found in the copies: from the 1 % to the 99 % quantile of
# the noisiest copy, but at most three times as wide as the same range of the least noisy
# one. So no end of an axis is a cell of the original.


BINS = 48
"""About so many bins of an axis: fine enough for a second mode, and wide enough to be seen."""
WIDEST, TAIL = 3.0, 0.01
"""An axis leaves out these tails, and is at most so many times as wide as the least noisy copy."""
SAMPLE = 1 << 14
"""Rows of a copy that its quantiles are taken from."""

FEW = 5
"""A label or a bin that fewer rows hold is not shown by itself: it may identify a person."""
MOST_LABELS = 10


@dataclass(frozen=True)
class Axis:
    """Bins of one width: `edges` are `first`, `first + step`, ..., `bins` of them.

    Bins of `whole` numbers end halfway between two of them, so that each is centred on its own.
    """

    first: float
    step: float
    bins: int
    whole: bool = False

    @property
    def edges(self) -> Floats:
        """The ends of the bins."""
        return self.first + self.step * np.arange(self.bins + 1, dtype=np.float64)

    @property
    def ends(self) -> tuple[float, float]:
        """What is written under the bins: their ends, or the first and last whole number."""
        inside = 0.5 if self.whole else 0.0
        return float(self.edges[0] + inside), float(self.edges[-1] - inside)

    def count(self, values: Floats) -> Ints:
        """Return how many values each bin holds, without missing values and those beyond."""
        places = np.floor((values[~np.isnan(values)] - self.first) / self.step)
        inside = places[(places >= 0) & (places < self.bins)].astype(np.int64)
        return np.bincount(inside, minlength=self.bins)


def axes_of(blocks: Sequence[Iterable[Floats]], whole: Sequence[bool]) -> list[Axis]:
    """Return an axis per column from blocks (rows, columns) of the least and the most noisy copy.

    Columns of `whole` numbers get bins that each hold equally many of them.
    """
    samples = []
    for copy in blocks:
        sample = Thinned(len(whole), most=SAMPLE)
        for block in copy:
            sample.add(list(block.T))
        samples.append(sample)
    return [
        axis_of([sample.column(i) for sample in samples], whole=is_whole)
        for i, is_whole in enumerate(whole)
    ]


def axis_of(copies: Sequence[Floats], *, whole: bool = False) -> Axis:
    """Return the axis of one column from its values in the copies, least noisy first.

    >>> axis_of([np.linspace(0, 100, 1001), np.linspace(-50, 150, 1001)])
    Axis(first=-50.0, step=5.0, bins=40, whole=False)
    >>> axis_of([np.arange(1.0, 7), np.arange(1.0, 7)], whole=True).edges.tolist()
    [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    """
    ranges = [np.nanquantile(values, (TAIL, 1 - TAIL)) for values in (copies[0], copies[-1])]
    # the range of the noisiest copy, but no further than WIDEST times that of the least noisy one
    middle, reach = ranges[0].mean(), WIDEST / 2 * np.ptp(ranges[0])
    low = max(float(ranges[1][0]), float(middle - reach))
    high = min(float(ranges[1][1]), float(middle + reach))
    step = round_step((high - low) / BINS, least=1.0 if whole else 0.0)
    aside = 0.5 if whole else 0.0  # bins end between whole numbers
    first = math.floor((low + aside) / step)
    bins = max(math.ceil((high + aside) / step) - first, 1)
    return Axis(first * step - aside, step, bins, whole)


def round_step(width: float, *, least: float = 0.0) -> float:
    """Return the next of 1, 2, 5, 10, ... times a power of ten.

    >>> round_step(0.13), round_step(0.13, least=1.0)
    (0.2, 1.0)
    """
    width = max(width, least, 1e-300)
    power = 10.0 ** math.floor(math.log10(width))
    # 0.999: a width that is round already must not go to the next step by a rounding error
    step = next((m * power for m in (1, 2, 5) if m * power >= width * 0.999), 10 * power)
    return float(f"{step:.1g}")


@dataclass(frozen=True)
class Tally:
    """Counts per number column and bin, and per category column and label."""

    rows: int
    numbers: Mapping[str, Ints]
    labels: Mapping[str, Ints]


def tally(
    source: Source,
    axes: Mapping[str, tuple[CopyColumn, Axis]],
    categories: Sequence[CopyColumn],
    labels: Mapping[str, pa.Array],
) -> Tally:
    """Count the rows of a table in the bins of its numbers and under the labels given."""
    rows = 0
    numbers = {name: np.zeros(axis.bins, dtype=np.int64) for name, (_, axis) in axes.items()}
    columns = [column for column, _ in axes.values()]
    for block in number_blocks(source, columns) if columns else ():
        rows += len(block)
        for i, (name, (_, axis)) in enumerate(axes.items()):
            numbers[name] += axis.count(block[:, i])
    held = {column.name: np.zeros(len(labels[column.name]), np.int64) for column in categories}
    seen = 0
    for codes in code_blocks(source, categories, labels) if categories else ():
        seen += len(codes)
        for i, counts in enumerate(held.values()):
            counts += np.bincount(codes[:, i][codes[:, i] >= 0], minlength=len(counts))
    return Tally(max(rows, seen), numbers, held)


def frequent(tallies: Sequence[Tally], name: str) -> list[int]:
    """Return the places of the labels of a column that are rare in no table, in order."""
    counts = np.array([table.labels[name] for table in tallies])
    return [int(i) for i in np.flatnonzero((counts >= FEW).all(axis=0))]


def most_frequent(tallies: Sequence[Tally], name: str) -> list[int]:
    """Return the places of the labels to show, most frequent first, with no few rows left."""
    # what is left is shown as one share: if only few rows hold it, it would point to them
    held = np.sum([table.labels[name] for table in tallies], axis=0)
    places = sorted(frequent(tallies, name), key=lambda i: (-held[i], i))[:MOST_LABELS]
    while places and any(0 < _left(table, name, places) < FEW for table in tallies):
        places.pop()
    return places


def _left(table: Tally, name: str, places: list[int]) -> int:
    """Return how many rows hold none of these labels."""
    return table.rows - int(table.labels[name][places].sum())


# --------------------------------------------------------------------------------------------------
# What is compared.


MOST_COLUMNS = 24
"""So many columns of each kind are shown."""
MOST_PREDICTORS, MOST_INDICATORS = 5, 6
"""So many numbers are regressed on, beside one category of at most so many values."""
MOST_PAIRED = 12
"""So many recipients, those with the least noise, are paired: 66 pairs."""

MOST_ALONE = 30
"""So many recipients have a line each; of more, those who hold the same share one."""

Member = TypeVar("Member")


@dataclass(frozen=True)
class ShownColumns:
    """The columns of a report: perturbed numbers that vary, and refreshed categories."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    whole: tuple[str, ...]
    units: Mapping[str, str | None]
    pooled: tuple[str, ...]
    left_out: tuple[str, ...]
    promised: Mapping[float, float]
    """What a copy at each noise hides of every column, as it states itself."""


@dataclass(frozen=True)
class Copies:
    """The copies of a dataset, least noisy first: levels, distributions and estimates."""

    rows: int
    edition: int
    levels: tuple[Level, ...]
    shown: ShownColumns
    axes: Mapping[str, tuple[CopyColumn, Axis]]
    categories: tuple[CopyColumn, ...]
    labels: Mapping[str, pa.Array]
    tallies: tuple[Tally, ...]
    asked: Questions
    answers: tuple[Answers, ...]

    def named(self, level: Level) -> str:
        """Return what a level is called on the page."""
        return f"privacy {self.privacy_of(level):.4g}"

    def privacy_of(self, level: Level) -> float:
        """Return the share of the variance of every column that copies at a level hide."""
        return self.shown.promised[level.noise]

    @property
    def ranked(self) -> list[str]:
        """The numbers that were perturbed on their ranks."""
        return [name for name, (column, _) in self.axes.items() if column.transform == RANK]


@dataclass(frozen=True)
class Original:
    """What only the owner knows: holdings, coalitions, the original's own distributions."""

    holdings: tuple[Holding, ...]
    editions: tuple[Edition, ...]
    coalitions: tuple[Coalition, ...]
    alike: Mapping[str, int]
    """Recipients whose coalitions with nobody are shown, each with how many hold the same."""
    tally: Tally
    answers: Answers
    exposed: Exposed
    left: tuple[Mapping[str, float], ...]
    columns: tuple[str, ...]
    outlooks: tuple[Outlook, ...]
    """What each released level hides and costs."""
    advice: Advice


def copies_of(dataset: Dataset, progress: Progress = lambda rows: None) -> Copies:
    """Make the copy at each level that is held once more, and look at it.

    The copies are made in one pass, which also checks that the table is the registered
    one, into files in the vault that vanish at the end. The ledger stays as it is.
    """
    levels = dataset.levels
    if not levels:
        raise NoSuchRecipient(
            f"no copy of {dataset.name!r} has been released, so there is nothing to report; "
            "release a copy first"
        )
    with dataset.work_folder() as folder:
        places = dataset.remake(folder, levels, progress=progress)
        return look([Copy.open(place) for place in places], shown_of(dataset, levels))


def shown_of(dataset: Dataset, levels: Sequence[Level] | None = None) -> ShownColumns:
    """Return the columns to show: constant, kept, key and unit columns would show cells."""
    frozen, known = dataset.frozen, dataset.levels if levels is None else levels
    varies = dict(zip(frozen.schema.perturbed, np.diag(frozen.covariance) > 0, strict=True))
    # the time of a person's rows has noise also where copies do not show it
    numbers = tuple(n for n, does in varies.items() if does and frozen.schema.column(n).shown)
    categories = tuple(name for group in frozen.schema.categories for name in group)
    names = [column.name for column in frozen.schema.shown]
    return ShownColumns(
        numbers=numbers,
        categories=categories,
        whole=tuple(name for name in numbers if _is_whole(frozen.source_types.field(name).type)),
        units={name: frozen.schema.column(name).unit for name in numbers},
        pooled=tuple(name for part in frozen.categories if part.pooled for name in part.columns),
        left_out=tuple(name for name in names if name not in (*numbers, *categories)),
        promised={level.noise: dataset.privacy_of(level) for level in known},
    )


def _is_whole(type_: pa.DataType) -> bool:
    plain = plain_type(type_)
    return bool(pa.types.is_integer(plain) or pa.types.is_date(plain))


def look(copies: Sequence[Copy], shown: ShownColumns) -> Copies:
    """Look at copies, least noisy first."""
    columns = copies[0].columns
    # drawn as copies show them: what the noise left is for estimates alone
    names = shown.numbers[:MOST_COLUMNS]
    numbers = [replace(columns[name], spread=None, parts=()) for name in names]
    categories = [columns[name] for name in shown.categories[:MOST_COLUMNS]]
    axes = _axes(copies, numbers, shown)
    labels = _labels(copies, categories)
    tallies = [tally(copy.source, axes, categories, labels) for copy in copies]
    asked = _questions(numbers, categories, labels, tallies, shown)
    return Copies(
        rows=tallies[0].rows,
        edition=copies[0].edition or 1,
        levels=tuple(copy.level for copy in copies),
        shown=shown,
        axes=axes,
        categories=tuple(categories),
        labels=labels,
        tallies=tuple(tallies),
        asked=asked,
        answers=tuple(ask(copy, asked) for copy in copies),
    )


def _axes(
    copies: Sequence[Copy], numbers: Sequence[CopyColumn], shown: ShownColumns
) -> dict[str, tuple[CopyColumn, Axis]]:
    if not numbers:
        return {}
    whole = [c.name in shown.whole and c.transform != LOG1P for c in numbers]
    ends = [number_blocks(copy.source, numbers) for copy in (copies[0], copies[-1])]
    axes = zip(numbers, axes_of(ends, whole), strict=True)
    return {column.name: (column, axis) for column, axis in axes}


def _labels(copies: Sequence[Copy], categories: Sequence[CopyColumn]) -> dict[str, pa.Array]:
    """Return every label that any copy holds, sorted; missing is one where it is hidden."""
    by_copy = [find_labels(copy.source, categories) for copy in copies] if categories else []
    union = {
        column.name: pa.concat_arrays([labels[column.name] for labels in by_copy]).unique()
        for column in categories
    }
    return {name: known.take(pc.sort_indices(known)) for name, known in union.items()}


def _questions(
    numbers: Sequence[CopyColumn],
    categories: Sequence[CopyColumn],
    labels: Mapping[str, pa.Array],
    tallies: Sequence[Tally],
    shown: ShownColumns,
) -> Questions:
    """Choose what to ask; values that are rare in a copy are not asked about."""
    asked = [column.name for column in numbers if column.transform not in (RANK, MIXED)]
    common = {column.name: frequent(tallies, column.name) for column in categories}
    # A regression on a category needs all of its labels, in the original too.
    indicators = [
        column.name
        for column in categories
        if 2 <= len(labels[column.name]) <= MOST_INDICATORS
        and len(common[column.name]) == len(labels[column.name])
        and not column.together
        and column.name not in shown.pooled
    ]
    return Questions(
        titles={column.name: title_of(column) for column in numbers if column.name in asked},
        labels={
            name: [labels[name][place].as_py() for place in places]
            for name, places in common.items()
        },
        on=(*asked[:-1][:MOST_PREDICTORS], *indicators[:1]) if asked else (),
        units=shown.units,
    )


def title_of(column: CopyColumn) -> str:
    """Return what a number is called on the scale that it is shown on."""
    return f"log(1 + {column.name})" if column.transform == LOG1P else column.name


def look_behind(dataset: Dataset, copies: Copies) -> Original:
    """Look at the original in the same bins and by the same questions as the copies.

    It is read once: a page asks many questions, and a table may be slow to read.
    """
    columns = [*(column for column, _ in copies.axes.values()), *copies.categories]
    holdings = dataset.holdings
    by_recipient: dict[str, list[Holding]] = {}
    for held in holdings:
        by_recipient.setdefault(held.recipient, []).append(held)
    alike, past = alike_in(by_recipient), dataset.past(len(dataset.editions))
    pooled = (
        [held for name in group for held in by_recipient[name]]
        for group in groups(list(by_recipient), [*alike])
    )
    frozen = replace(dataset.frozen, rows=dataset.rows)
    perturbed = frozen.schema.perturbed
    with dataset.work_folder() as folder:
        used = dict.fromkeys([*(column.name for column in columns), *perturbed])
        source = hold(dataset.source, list(used), folder)
        return Original(
            holdings=tuple(holdings),
            editions=tuple(dataset.editions),
            coalitions=tuple(dataset.coalition_of(each, past) for each in pooled),
            alike=alike,
            tally=tally(source, copies.axes, copies.categories, copies.labels),
            answers=ask(as_kept(source, columns), copies.asked),
            exposed=see(frozen, source, [each.noise for each in copies.levels]),
            left=tuple(frozen.left_by_joint(level) for level in copies.levels),
            columns=tuple(perturbed),
            outlooks=tuple(outlook_at(frozen, level) for level in copies.levels),
            advice=advice(dataset.frozen),
        )


def alike_in(by_recipient: Mapping[str, Sequence[Holding]]) -> dict[str, int]:
    """Return the recipients to show, each with how many hold the same copies.

    Of very many, who hold the same share a line: what one can recover, any of them can.
    """
    if len(by_recipient) <= MOST_ALONE:
        return dict.fromkeys(by_recipient, 1)
    kinds: dict[frozenset[tuple[float, str]], list[str]] = {}
    for name, held in by_recipient.items():
        kind = frozenset((each.spec.level.noise, each.spec.rows) for each in held)
        kinds.setdefault(kind, []).append(name)
    return {names[0]: len(names) for names in kinds.values()}


def groups(
    members: Sequence[Member], alone: Sequence[Member] | None = None
) -> Iterator[tuple[Member, ...]]:
    """Yield each member alone, or some of them, each pair and all of them.

    >>> list(groups("abc"))
    [('a',), ('b',), ('c',), ('a', 'b'), ('a', 'c'), ('b', 'c'), ('a', 'b', 'c')]
    """
    yield from ((member,) for member in (members if alone is None else alone))
    yield from combinations(members[:MOST_PAIRED], 2)
    if len(members) > 2:
        yield tuple(members)
