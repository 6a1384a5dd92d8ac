"""Whether two columns of numbers are related in any way, by their ranks.

    table        the chi-square of both ranks in bins: any smooth relation
    neighbours   rows sorted by one, and how far apart neighbours are in the other (Chatterjee
                 2021): any function of the one, however it jumps

If every order of the rows is as likely as any other, both are close to normal, whatever the
distribution of either column.
"""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from cornerwave.audit._chance import chi_square_score

PER_CELL, MOST_BINS = 40, 16
"""A table has as many cells as leave so many rows in each, in at most so many bins."""


@dataclass(frozen=True)
class Ranks:
    """The order of some values and the rank of each.

    Rows come in random order, so ties are broken at random. If both of two columns may have
    ties, the `again` shuffled ones are broken independently.
    """

    order: Any
    ranks: Any

    @classmethod
    def of(cls, values: Any, *, again: bool = False) -> "Ranks":
        """Rank some values."""
        if again:
            # Chance that depends on the values alone: the same audit twice says the same.
            mixed = np.random.default_rng(crc32(values.tobytes())).permutation(len(values))
            order = mixed[_stable_order(values[mixed])]
        else:
            order = _stable_order(values)
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        return cls(order, ranks)

    def scores(self, other: "Ranks") -> tuple[float, float, float]:
        """Return all comparisons of two orders of the same rows."""
        return self.table(other), self.neighbours(other), other.neighbours(self)

    def table(self, other: "Ranks") -> float:
        """Return the chi-square of the table of both ranks in bins, as a normal."""
        n = len(self.ranks)
        bins = int(np.clip(np.sqrt(n / PER_CELL), 2, MOST_BINS))
        one, another = self.ranks * bins // n, other.ranks * bins // n
        counts = np.bincount(one * bins + another, minlength=bins * bins).reshape(bins, bins)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / n
        statistic = ((counts - expected) ** 2 / expected).sum()
        return float(chi_square_score(statistic, (bins - 1) ** 2))

    def neighbours(self, other: "Ranks") -> float:
        """Return how much closer than by chance the other's ranks are among neighbours."""
        n = len(self.order)
        distance = float(np.abs(np.diff(other.ranks[self.order])).sum())
        closer = 1 - 3 * distance / (n * n - 1.0)
        variance = (n - 2) * (4 * n - 7) / (10 * (n - 1) ** 2 * (n + 1))
        return abs(closer) / float(np.sqrt(variance))


def _stable_order(values: Any) -> Any:
    """Return what sorts values, ties as they stand: without any, sorted several times as fast."""
    if values.dtype.itemsize > 2:  # smaller ones are sorted by their digits
        order = np.argsort(values)
        ascending = values[order]
        if (ascending[1:] > ascending[:-1]).all():
            return order
    return np.argsort(values, kind="stable")


def morton(one: Any, other: Any) -> Any:
    """Return places along a curve through the plane of two ranks that keeps neighbours close."""
    return _spread(one) | (_spread(other) << np.int64(1))


def _spread(number: Any) -> Any:
    """Return a number of 16 bits with a 0 between any two bits."""
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        number = (number | (number << np.int64(shift))) & np.int64(mask)
    return number
