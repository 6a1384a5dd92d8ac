"""Checks across columns: draws of categories beside noise of numbers, and derived columns.

**Draws.** Where a copy changed its categories is unrelated to the noise of its numbers.

**Derived columns** are recomputed from another one, as a copy states. Are they a function of it?

    copy's column = f(copy's other column),    f as the table has it

If they are, they reveal nothing beyond the column that they follow, whose noise is checked. A band
of the table's age beside a noisy age would be the table's. Nothing here is left to chance.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._blocks import BLOCK_ROWS
from cornerwave.audit._category_checks import CROSSED_COLUMNS, CategoryEvidence
from cornerwave.audit._chance import Check, Family, bernstein, chi_square_score, sure_limit
from cornerwave.audit._guesses import ABSENT, CategoryCodes
from cornerwave.audit._numbers import NumberEvidence
from cornerwave.choices import DERIVED
from cornerwave.columns import OTHER, Summed, one_chunk, sum_step, to_floats
from cornerwave.sources import Source

NOISE_BINS, PER_BIN = 8, 400

FEWEST_MARKED = 40
"""Rows per bin that a flag marks, at least, and leaves, to be compared."""

VALUES = 6
"""So many of the values that a category drew most are looked at one by one."""


@dataclass(frozen=True)
class MixedEvidence:
    """What checks over both kinds look at: numbers and categories of the same copies."""

    numbers: NumberEvidence
    categories: CategoryEvidence

    @cached_property
    def common(self) -> tuple[Ints, Ints]:
        """Which of the kept rows of numbers, and which of categories, are the same rows."""
        places, every = self.numbers.rows.places, self.categories.every
        chosen = np.flatnonzero(places % max(self.numbers.rows.every, every) == 0)
        return chosen, places[chosen] // every


def kinds(evidence: MixedEvidence, alpha: float) -> Iterator[Check]:
    """Compare where each copy's categories changed with the noise of all numbers."""
    chosen, rows = evidence.common
    noise = _noise(evidence.numbers)[:, chosen]
    bins = int(np.clip(len(chosen) // PER_BIN, 2, NOISE_BINS))
    marked = {
        i: _usable(_marks(evidence.categories.judged, i, rows), FEWEST_MARKED * bins)
        for i in range(evidence.numbers.found.copies)
    }
    comparisons = 2 * len(noise) * sum(len(marks) for marks in marked.values())
    limit = sure_limit(alpha / max(comparisons, 1))
    for i, marks in marked.items():
        if marks and len(noise):
            scores = _orders(np.array([flags for _, flags in marks]), noise, bins)
            name = marks[int(scores.argmax())][0]
            note = f"where {name} was refreshed is not independent of the noise of numbers"
            yield Check.of((i,), float(scores.max()), limit, note)


MIXED_FAMILIES: tuple[Family[MixedEvidence], ...] = (
    Family("kinds", "noise of numbers and draws of categories are unrelated", kinds),
)

_Marks = list[tuple[str, Flags]]


def _noise(numbers: NumberEvidence) -> Floats:
    """Return every direction of the numbers' noise, (directions, n)."""
    copies = range(numbers.found.copies)
    parts = [noise for _, noise in numbers.directions.copies]
    parts += [view.step for k in copies for view in numbers.directions.of_step(k)]
    return np.concatenate([np.zeros((0, numbers.rows.count)), *parts])


def _marks(categories: Sequence[CategoryCodes], i: int, rows: Ints) -> _Marks:
    """Return the rows in which a copy changed each category, and drew each frequent value."""
    marks: _Marks = []
    for shown in categories[:CROSSED_COLUMNS]:
        truth, codes = shown.truth[rows], shown.codes[1 + i][rows]
        changed = (codes != truth) & (truth != ABSENT)
        marks.append((shown.name, changed))
        drawn = np.bincount(codes[changed & (codes != ABSENT)], minlength=len(shown.values))
        most = np.argsort(-drawn, kind="stable")[:VALUES]
        marks += [(shown.name, changed & (codes == value)) for value in most]
    return marks


def _usable(marks: _Marks, fewest: int) -> _Marks:
    return [
        (name, flags)
        for name, flags in marks
        if min(int(flags.sum()), len(flags) - int(flags.sum())) >= fewest
    ]


def _orders(flags: Flags, noise: Floats, bins: int) -> Floats:
    """Return the worst score of each flag (F, n) against each direction of the noise."""
    worst = np.zeros(len(flags))
    n, marked = flags.shape[1], flags.sum(axis=1).astype(np.float64)
    pairs = 2 * marked * (n - marked)
    # runs of two kinds in random order (Wald and Wolfowitz)
    mean, variance = 1 + pairs / n, pairs * (pairs - n) / (n * n * (n - 1.0))
    share = marked / n
    for row in noise:
        ordered = flags[:, np.argsort(row, kind="stable")]
        edges = np.arange(bins) * n // bins
        counts = np.add.reduceat(ordered, edges, axis=1, dtype=np.int64)
        size = np.diff(edges, append=n)
        off = counts - share[:, None] * size
        squares = (off**2 / (share * (1 - share))[:, None] / size).sum(axis=1)
        runs = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
        together = bernstein((runs - mean) / 2, variance / 4)  # a run more has two ends
        worst = np.maximum(worst, np.maximum(chi_square_score(squares, bins - 1), together))
    return np.asarray(worst)


# --------------------------------------------------------------------------------------------------
# Derived columns.


Values = Mapping[Any, Counter[Any]]


@dataclass(frozen=True)
class DerivedEvidence:
    """How often a derived column of a copy is not what the table has beside that value."""

    wrong: Mapping[tuple[int, str], tuple[str, float]]

    @classmethod
    def of(cls, aligned: Aligned) -> "DerivedEvidence":
        """Compare the derived columns of all copies with the table's."""
        misfits: dict[tuple[int, str], tuple[str, float]] = {}
        table = (aligned.whole or aligned).source
        for i, copy in enumerate((aligned.whole or aligned).copies):
            for name, about in aligned.stated.copies[i].columns.items():
                source = about.follows
                both = {name, source}
                if about.sum_of and {name, *about.sum_of} <= {*copy.schema.names}:
                    parts = about.sum_of
                    step = sum_step(copy.schema.field(name).type)
                    step = float(about.rounded or step)
                    misfits[i, name] = " + ".join(parts), _wrong_sums(copy, name, parts, step)
                if about.role != DERIVED or source is None:
                    continue
                if both <= {*table.schema.names} & {*copy.schema.names}:
                    known = _function(table, name, source, about.limits)
                    misfits[i, name] = source, _misfits(copy, name, source, about.limits, known)
        return cls(misfits)


def _cases(
    table: Source, name: str, source: str, limits: Sequence[float] | None
) -> Iterator[Counter[tuple[Any, Any]]]:
    """Yield how many rows have each pair: the interval or value of the source, and the column's."""
    for group in table.groups([name, source], BLOCK_ROWS):
        values, of = one_chunk(group.column(name)), one_chunk(group.column(source))
        if limits is not None:
            x = to_floats(of, source)
            places = np.searchsorted(limits, x, side="right")
            of = pa.array(np.where(np.isnan(x), -1, places))
        yield Counter(
            zip(map(_plain, of.to_pylist()), map(_plain, values.to_pylist()), strict=True)
        )


def _plain(value: Any) -> Any:
    """Return a value as files of all kinds have it: 1.0 is 1, NaN is missing."""
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value


def _function(table: Source, name: str, source: str, limits: Sequence[float] | None) -> Values:
    """Return what a table has beside each interval or value of the source, and how often."""
    held: dict[Any, Counter[Any]] = defaultdict(Counter)
    for counted in _cases(table, name, source, limits):
        for (given, value), rows in counted.items():
            held[given][value] += rows
    return held


def _misfits(
    copy: Source, name: str, source: str, limits: Sequence[float] | None, known: Values
) -> float:
    """Return the share of rows with another value than most, or than most of the table.

    What is pooled in the copy may have another one than in the table.
    """
    wrong = rows = 0
    for given, values in _function(copy, name, source, limits).items():
        count, [(value, most)] = values.total(), values.most_common(1)
        fits = given not in known or value in (known[given].most_common(1)[0][0], OTHER, None)
        rows += count
        wrong += count - most if fits else count
    return wrong / max(rows, 1)


def _wrong_sums(copy: Source, name: str, parts: Sequence[str], step: float) -> float:
    """Return the share of the rows of a copy in which a column is not the sum of others."""
    counted = Summed()
    for group in copy.groups([name, *parts], BLOCK_ROWS):
        total, *values = (to_floats(one_chunk(group.column(n)), n) for n in (name, *parts))
        counted += Summed.of(total, values, step)
    return counted.wrong / max(counted.rows, 1)


def derived(evidence: DerivedEvidence, alpha: float) -> Iterator[Check]:
    """A derived column is what the table has beside the copy's own value, in every row."""
    for (copy, name), (source, share) in evidence.wrong.items():
        note = f"{name} does not follow from {source} of the copy in {share:.1%} of the rows"
        yield Check.of((copy,), share, 0.0, note)


DERIVED_FAMILIES = (
    Family(
        "derived",
        "columns that follow from others are a function of what the copy has there",
        derived,
        by_chance=False,
    ),
)
