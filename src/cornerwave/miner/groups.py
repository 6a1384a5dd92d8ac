"""The mean of a number in each category, from copies of both.

    E[Y 1'_a] = q E[X 1_a] + (1 - q) pi_a E[X]      so      E[X 1_a] = T^-1 E[Y 1']

1 is the indicator of a category in the original, 1' in the copy, T as in `categories`:
the noise of Y is independent of everything, and a fresh draw knows nothing of X. The
group's mean is m_a = E[X 1_a] / P_a. With d the group's mean in the copy less m_a, its
influence h and the mean of h given the original row (x, c) are

    known pi       h = T^-1_ai (y - m_a) / P_a                          (x - m_a) 1_a / P_a
    estimated pi   h = (1'_a (y - m_a - d) / P_a - (1-q)(y - mean)) / q
                                                       (x - m_a - d) 1_a / P_a + d

and Var(mean | table) = (E[h^2] - E[E[h | row]^2]) / n. Dividing by the mean size of the
group makes the estimate consistent, not exactly unbiased, in small groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornerwave.errors import ColumnError
from cornerwave.miner.categories import Labels, Refresh
from cornerwave.miner.columns import Column
from cornerwave.miner.covariance import undo
from cornerwave.miner.estimate import Estimates, Of, estimates

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """Counts, sums and sums of squares of y - origin by the copy's category, each (m,)."""

    origin: float
    count: Floats
    first: Floats
    second: Floats

    @classmethod
    def of(cls, blocks: Iterable[tuple[Floats, NDArray[np.int64]]], categories: int) -> "Sums":
        """Add up blocks of (values, codes); a value of NaN or a code of -1 is missing."""
        origin, sums = 0.0, np.zeros((3, categories))
        for number, (values, codes) in enumerate(blocks):
            present = ~np.isnan(values) & (codes >= 0)
            y, codes = values[present], codes[present]
            if number == 0 and len(y):
                origin = float(y.mean())
            y = y - origin
            for row, weights in zip(sums, (np.ones_like(y), y, y * y), strict=True):
                row += np.bincount(codes, weights, minlength=categories)
        return cls(origin, *sums)


def group_means(sums: Sums, labels: Labels, number: Column, category: Column, of: Of) -> Estimates:
    """Return the mean of a number in each category of the original."""
    rows = sums.count.sum()
    if rows < 2:
        raise ColumnError(f"{number.name!r}, {category.name!r}: fewer than two rows have both")
    shares, first, second = sums.count / rows, sums.first / rows, sums.second / rows
    refresh = Refresh.of(category, shares)
    copy_variance = second.sum() - first.sum() ** 2
    noise = copy_variance - undo(np.array([[copy_variance]]), [number])[0, 0]
    law = refresh.undo(shares)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = refresh.undo(first) / law
        # the noise adds its variance to y^2 whatever the category
        within = refresh.undo(second - noise * shares) / law - means**2
        spread = np.maximum(within, 0.0)
        total, known = _influence(refresh, shares, first, second, law, means, spread)
        variance = total - known + (0.0 if of == "table" else spread / law)
    return estimates((labels,), sums.origin + means, variance / rows)


def _influence(
    refresh: Refresh,
    shares: Floats,
    first: Floats,
    second: Floats,
    law: Floats,
    means: Floats,
    spread: Floats,
) -> tuple[Floats, Floats]:
    """Return E[h^2] and E[E[h | row]^2] for each group (m,)."""
    if not refresh.is_estimated:
        # E[(y - m_a)^2 1'_i], for all (a, i)
        square = second - 2 * np.outer(means, first) + np.outer(means**2, shares)
        return (refresh.influences() ** 2 * square).sum(axis=1) / law**2, spread / law
    q, mean = refresh.retention, first.sum()
    off = first / shares - means
    in_copy = second - 2 * (means + off) * first + (means + off) ** 2 * shares
    across = second - (means + off + mean) * first + (means + off) * mean * shares
    everywhere = second.sum() - mean**2
    total = (in_copy / law**2 - 2 * (1 - q) * across / law + (1 - q) ** 2 * everywhere) / q**2
    return total, (spread + off**2) / law - off**2
