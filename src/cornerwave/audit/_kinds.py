"""Checks over both kinds: is the noise of numbers unrelated to the draws of categories?

Given the source, the noise of a number and the refresh of a category have nothing in common.
So rows in which a category was refreshed, or drew a certain value, are spread over the rows
sorted by noise as over any other order: their counts in bins of equal size (chi-square), and
the number of runs that they form (Wald and Wolfowitz), are those of a random order.

To add a check of what numbers and categories say together, write a function
(evidence, alpha) -> Checks and register it in MIXED_FAMILIES.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._category_checks import CategoryEvidence
from cornerwave.audit._chance import Check, Family, bernstein, chi_square_score, sure_limit
from cornerwave.audit._directions import NumberEvidence
from cornerwave.audit._shown import ABSENT, CategoryCodes

BINS, PER_BIN = 8, 400
FEWEST = 40
"""Rows per bin that a flag marks, at least, and leaves, to be compared."""

VALUES = 6
"""So many of the values that a category drew most are looked at one by one."""

MOST_CATEGORIES_CROSSED = 24


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
    bins = int(np.clip(len(chosen) // PER_BIN, 2, BINS))
    marked = {
        i: _usable(_marks(evidence.categories.judged, i, rows), FEWEST * bins)
        for i in range(evidence.numbers.found.copies)
    }
    comparisons = 2 * len(noise) * sum(len(marks) for marks in marked.values())
    limit = sure_limit(alpha / max(comparisons, 1))
    for i, marks in marked.items():
        if marks and len(noise):
            scores = _scores(np.array([flags for _, flags in marks]), noise, bins)
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
    found: _Marks = []
    for shown in categories[:MOST_CATEGORIES_CROSSED]:
        truth, own = shown.truth[rows], shown.codes[1 + i][rows]
        changed = (own != truth) & (truth != ABSENT)
        found.append((shown.name, changed))
        drawn = np.bincount(own[changed & (own != ABSENT)], minlength=len(shown.values))
        most = np.argsort(-drawn, kind="stable")[:VALUES]
        found += [(shown.name, changed & (own == value)) for value in most]
    return found


def _usable(marks: _Marks, fewest: int) -> _Marks:
    return [
        (name, flags)
        for name, flags in marks
        if min(int(flags.sum()), len(flags) - int(flags.sum())) >= fewest
    ]


def _scores(flags: Flags, noise: Floats, bins: int) -> Floats:
    """Return the worst score of each flag (F, n) against each direction of the noise."""
    worst = np.zeros(len(flags))
    n, marked = flags.shape[1], flags.sum(axis=1).astype(np.float64)
    pairs = 2 * marked * (n - marked)
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
