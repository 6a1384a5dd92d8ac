"""What each value of a category became, value by value: replacements must not know the truth.

Whatever its retention q and its base b, a refreshed cell that holds x shows y other than x
with probability (1 - q) b_y: the same for every x. So among rows that do not hold y, whether
a row shows y is unrelated to what it holds; given the margins each such table is
hypergeometric, and Bernstein's bound holds for few rows and many. A row that holds y also
shows it at least as often as any other row.

Values are put into bins, since a category may have thousands: the most frequent ones each in
their own, and all of them in order, dealt out in turn. What holds for values holds for bins.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._chance import bernstein

BINS = 32


def scores_of(truth: Any, shown: Any, values: Sequence[Any]) -> Iterator[Floats]:
    """Yield the scores of all comparisons of the codes of a category and those of a copy."""
    most = _most_frequent(truth, len(values))
    counts = table_of(most[truth], most[shown])
    yield depends(counts)
    yield avoids(counts)[: min(BINS - 1, len(values))]
    if len(values) > BINS:
        dealt = _in_turn(values)
        yield depends(table_of(dealt[truth], dealt[shown]))


def table_of(held: Ints, shown: Ints) -> Floats:
    """Return how many rows hold a bin and show another, (BINS, BINS)."""
    counts = np.bincount(held * BINS + shown, minlength=BINS * BINS)
    return counts.reshape(BINS, BINS).astype(np.float64)


def depends(counts: Floats) -> Floats:
    """Score each bin that is shown against each other bin that is held, (BINS, BINS).

    >>> honest = table_of(*np.divmod(np.arange(900) % 9, 3))
    >>> cipher = np.roll(np.diag(honest.diagonal()), 1)
    >>> float(depends(honest).max()), bool(depends(cipher).max() > 5)
    (0.0, True)
    """
    held, kept = counts.sum(axis=1), np.diag(counts)
    n = counts.sum() - held  # rows that do not hold the bin that is shown
    shown = counts.sum(axis=0) - kept
    safe = np.maximum(n, 1.0)
    expected = held[:, None] * shown / safe
    variance = expected * (n - held[:, None]) * (n - shown) / (safe * np.maximum(n - 1, 1.0))
    scores = bernstein(counts - expected, np.maximum(variance, 0.0))
    np.fill_diagonal(scores, 0.0)
    return scores


def avoids(counts: Floats) -> Floats:
    """Score bins that rows which hold them show less often than other rows, (BINS,)."""
    n, held, shown = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    expected = held * shown / max(n, 1.0)
    variance = expected * (n - held) * (n - shown) / max(n * (n - 1), 1.0)
    return bernstein(np.maximum(expected - np.diag(counts), 0.0), np.maximum(variance, 0.0))


def _most_frequent(truth: Any, values: int) -> Ints:
    """Return the bin of each value: its own for the most frequent, the last for all others."""
    counts = np.bincount(truth, minlength=values)
    bins = np.full(values, BINS - 1)
    frequent = np.argsort(-counts, kind="stable")[: BINS - (values > BINS)]
    bins[frequent] = np.arange(len(frequent))
    return bins


def _in_turn(values: Sequence[Any]) -> Ints:
    """Return the bin of each value: dealt out in the values' order."""
    places = np.argsort(np.array([_sortable(value) for value in values]), kind="stable")
    bins = np.empty(len(values), dtype=np.int64)
    bins[places] = np.arange(len(values)) % BINS
    return bins


def _sortable(value: Any) -> str:
    """Return a text that sorts numbers as numbers."""
    return "|".join(f"{part:030d}" if isinstance(part, int) else str(part) for part in value)
