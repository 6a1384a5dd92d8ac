"""Looking for known rows in a real copy: what registration predicts, done."""

from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.attack._fit_scores import ADVERSARIES, Axes, FitScores
from cornerwave.attack._linkage import FEW, PAIRS, alike, chosen, figures, telling
from cornerwave.attack._rows_at_risk import RowsAtRisk
from cornerwave.risks import Linkage

SEARCHED = 512
"""Rows that are looked for, with weights."""
EQUAL = 1e-3
"""Scores that differ by less are equal: rows that show the same differ in rounding."""


@dataclass(frozen=True)
class ShownRows:
    """The same rows in a copy: numbers (N, rows) as the noise left them, and codes of categories.

    What is shown without noise is the same as in the table. `retained` is the probability that a
    cell of each category was, for copies whose noise does not state it.
    """

    numbers: Floats
    codes: tuple[Ints, ...]
    retained: tuple[float, ...] = ()


def find_rows(rows: RowsAtRisk, copy: ShownRows, noise: float) -> Linkage:
    """Return how often somebody who knows a row of a table finds it in a copy of all its rows."""
    places, weights = chosen(telling(rows), SEARCHED)
    alone, among = np.empty((2, len(ADVERSARIES), len(places)))
    for members in alike(rows, places):
        found = _found(rows, copy, places[members], noise)
        alone[:, members], among[:, members] = found
    return figures(weights, alone, among)


def _found(rows: RowsAtRisk, copy: ShownRows, mine: Ints, noise: float) -> tuple[Floats, Floats]:
    """Return how often rows that are known in the same columns are found, by each adversary."""
    observed = ~np.isnan(rows.known[:, mine[0]])
    axes = Axes.within(rows, observed)
    scores = FitScores.at(noise, axes, rows.cells, copy.retained)
    known, codes = axes.along(rows.known[np.ix_(observed, mine)]), rows.codes_of(mine)
    pool = np.flatnonzero(rows.shown == rows.shown[mine[0]])

    def of(some: Ints) -> tuple[Floats, Floats]:
        shown = axes.along(copy.numbers[np.ix_(observed, some)])
        theirs = [each[some] for each in copy.codes]
        return scores.pairs(known, codes, shown, theirs), scores.offsets(shown, theirs)

    above, level = np.zeros((2, len(ADVERSARIES), len(mine)))
    pairs, beside = of(mine)
    own = np.diag(pairs) + beside.astype(np.float32)
    step = max(1, PAIRS // len(mine))
    for start in range(0, len(pool), step):
        some = pool[start : start + step]
        pairs, beside = of(some)
        others = mine[:, None] != some
        for a in ADVERSARIES:
            scored = pairs + beside[a].astype(np.float32)
            ahead = scored - own[a][:, None]
            above[a] += ((ahead > EQUAL) & others).sum(axis=1)
            level[a] += ((np.abs(ahead) <= EQUAL) & others).sum(axis=1)
    # of rows with equal scores any may be taken
    places = FEW - above
    return (above == 0) / (1 + level), np.clip(places / (1 + level), 0.0, 1.0)
