"""How well categories can be guessed, from one copy and from several.

The rows are halved. From one half the adversary learns P(x | y) for what a set of copies
shows, in the other it guesses; then the halves change places. A guess is a probability
for each value, and its error is the squared distance from the truth (Brier):

    sum over x of ([x is the truth] - P(x | y))^2        as a share of 1 - sum of pi^2

which is the share of the category's variance that stays hidden. A set that learned no
more than its best copy has the same error, up to what it overfits; one that learned more
has less, even where its first guess stays the same: two copies that betray that they
show the truth add certainty, not another guess.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cornerwave.table.categories import Encoded, Tally, combined, tally

ALPHA = 0.01
"""The chance that any honest release of an audit is blamed."""

STEADY = 20.0
"""Rows' worth of trust in the best copy alone, where a set of copies has seen few."""

MOST_CELLS = 1 << 23
"""Cells of a table of guesses; more are not gone through."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Guessed:
    """What a set of copies recovers of some category columns, beside its best copy alone.

    `alone` and `together` say how often the likeliest value is right; `hidden_alone` and
    `hidden_together` which share of the variance stays hidden; `gain` is their difference,
    between `low` and `high`.
    """

    columns: tuple[str, ...]
    copies: tuple[int, ...]
    best: int
    blind: float
    alone: float
    together: float
    hidden_alone: float
    hidden_together: float
    gain: float
    low: float
    high: float

    @property
    def gains(self) -> bool:
        """Whether the set recovers more than its best copy, beyond chance."""
        return self.low > 0


class Halves:
    """The two halves of the rows, as counts of (truth, what each copy shows)."""

    def __init__(self) -> None:
        self._tallies: tuple[Tally, Tally] = (Tally(), Tally())

    def add(self, columns: Sequence[Encoded]) -> None:
        """Take some rows: the truth first, then each copy."""
        for half, counted in enumerate(self._tallies):
            part = [Encoded(c.name, c.codes[half::2], c.values) for c in columns]
            counted += tally(part)

    def cells(self) -> "Cells":
        """Return what was counted, by number."""
        first, second = self._tallies
        cases = list(first | second)
        numbered: list[Ints] = []
        sizes = []
        for place in zip(*cases, strict=True):
            known = {value: number for number, value in enumerate(dict.fromkeys(place))}
            numbered.append(np.array([known[value] for value in place], dtype=np.int64))
            sizes.append(len(known))
        counts = np.array([[half[case] for case in cases] for half in (first, second)], float)
        return Cells(numbered[0], np.stack(numbered[1:], axis=1), counts, sizes[0])


@dataclass(frozen=True)
class Cells:
    """Each combination of truth and shown values, with its rows in either half."""

    truth: Ints
    shown: Ints
    counts: Floats
    values: int

    def guesses(self, copies: Sequence[int], half: int, prior: Floats, trust: float) -> Floats:
        """Return P(x | what these copies show) for each cell, learned from one half.

        `prior` (cells, values) stands for the first `trust` rows.
        """
        _, seen = np.unique(self.shown[:, copies], axis=0, return_inverse=True)
        seen = seen.reshape(-1)
        table = np.zeros((int(seen.max()) + 1, self.values))
        np.add.at(table, (seen, self.truth), self.counts[half])
        learned = table[seen] + trust * prior
        return np.asarray(learned / learned.sum(axis=1, keepdims=True))

    def errors(self, guesses: Floats) -> Floats:
        """Return the squared distance of each cell's guess from its truth."""
        right = guesses[np.arange(len(self.truth)), self.truth]
        return np.asarray(1.0 - 2.0 * right + (guesses**2).sum(axis=1))


def judge(columns: tuple[str, ...], cells: Cells, *, comparisons: int) -> Iterable[Guessed]:
    """Yield what every pair of copies, and all together, recover of some columns."""
    copies = cells.shown.shape[1]
    if len(cells.truth) * cells.values > MOST_CELLS or copies < 1:
        return
    singles = [_scores(cells, [i], [i]) for i in range(copies)]
    sets: list[tuple[int, ...]] = list(combinations(range(copies), 2))
    if copies > 2:
        sets.append(tuple(range(copies)))
    for chosen in sets:
        best = min(chosen, key=lambda i: singles[i].error)
        yield _compare(columns, cells, chosen, best, comparisons)


def sets_of(copies: int) -> int:
    """Return how many sets of copies are judged."""
    return math.comb(copies, 2) + (copies > 2)


@dataclass(frozen=True)
class _Scores:
    """Errors and hits of each cell in either half, learned from the other."""

    errors: Floats
    hits: Floats
    counts: Floats

    @property
    def error(self) -> float:
        return float((self.errors * self.counts).sum() / self.counts.sum())

    @property
    def right(self) -> float:
        return float((self.hits * self.counts).sum() / self.counts.sum())


def _scores(cells: Cells, chosen: Sequence[int], best: Sequence[int]) -> _Scores:
    errors, hits = np.empty_like(cells.counts), np.empty_like(cells.counts)
    for half in (0, 1):
        learn = 1 - half
        share = np.bincount(cells.truth, cells.counts[learn], cells.values) + 1.0
        blind = np.tile(share / share.sum(), (len(cells.truth), 1))
        guesses = cells.guesses(best, learn, blind, 1.0)
        if list(chosen) != list(best):
            guesses = cells.guesses(chosen, learn, guesses, STEADY)
        errors[half] = cells.errors(guesses)
        hits[half] = guesses.argmax(axis=1) == cells.truth
    return _Scores(errors, hits, cells.counts)


def _compare(
    columns: tuple[str, ...],
    cells: Cells,
    chosen: Sequence[int],
    best: int,
    comparisons: int,
) -> Guessed:
    alone, together = _scores(cells, [best], [best]), _scores(cells, chosen, [best])
    pi = np.bincount(cells.truth, cells.counts.sum(axis=0), cells.values) / cells.counts.sum()
    scale = max(1.0 - float((pi**2).sum()), 1e-300)
    difference = (alone.errors - together.errors) / scale
    rows = cells.counts.sum()
    gain = float((difference * cells.counts).sum() / rows)
    spread = float((((difference - gain) ** 2) * cells.counts).sum() / rows)
    margin = NormalDist().inv_cdf(1 - ALPHA / (2 * comparisons)) * math.sqrt(spread / rows)
    return Guessed(
        columns=columns,
        copies=tuple(chosen),
        best=best,
        blind=float(pi.max()),
        alone=alone.right,
        together=together.right,
        hidden_alone=alone.error / scale,
        hidden_together=together.error / scale,
        gain=gain,
        low=gain - margin,
        high=gain + margin,
    )


def audit_categories(
    groups: Iterable[Sequence[Mapping[str, Encoded]]], columns: Sequence[str], copies: int
) -> list[Guessed]:
    """Judge each category column, and all of them jointly.

    `groups` yields, for the same rows, the encoded columns of the source and of each copy.
    """
    sets: list[tuple[str, ...]] = [(name,) for name in columns]
    if len(columns) > 1:
        sets.append(tuple(columns))
    halves = {names: Halves() for names in sets}
    for tables in groups:
        for names, half in halves.items():
            half.add([_joined([table[name] for name in names]) for table in tables])
    comparisons = max(1, len(sets) * sets_of(copies))
    return [
        guessed
        for names, half in halves.items()
        for guessed in judge(names, half.cells(), comparisons=comparisons)
    ]


def _joined(columns: Sequence[Encoded]) -> Encoded:
    """Return several columns as one whose values are their combinations."""
    if len(columns) == 1:
        return columns[0]
    cases, rows = combined(columns)
    texts = [[*map(str, column.values.to_pylist()), "\0"] for column in columns]
    values = ["\1".join(t[code] for t, code in zip(texts, case, strict=True)) for case in cases]
    return Encoded("+".join(column.name for column in columns), rows, pa.array(values))
