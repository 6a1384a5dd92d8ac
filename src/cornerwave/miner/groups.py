"""The mean of a number in each category, from copies of both.

    E[Y 1'_a] = q E[X 1_a] + (1 - q) pi_a E[X]      so      E[X 1_a] = T^-1 E[Y 1']

1 is the indicator of a category in the original, 1' in the copy, T as in `categories`:
the noise of Y is independent of everything, and a fresh draw knows nothing of X. The
means are over the n rows that have both values; pi is that of the category's whole column
of N rows, and the noise's variance that of the number's: whose values are missing may
depend on them. The group's mean is m_a = E[X 1_a] / P_a, with influence

    h = (1'_a - (1-q) pi_a) (y - m_a) / (q P_a) + (n/N) c 1'_a
    E[h | original row] = (x - m_a) 1_a / P_a + (n/N) c (q 1_a + (1-q) pi_a)

where c = (1-q) (m_a - mean) / (q P_a) if pi is estimated, from all N rows, and 0 if it is
known. Var(mean | table) = (E[h^2] - E[E[h | row]^2]) / n, and the rows without a number
add c^2 Var(1'_a | row) (N - n) / N^2. Dividing by the mean size of the group makes the
estimate consistent, not exactly unbiased, in small groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.errors import ColumnError
from cornerwave.miner.categories import Labels, Refresh
from cornerwave.miner.columns import Column
from cornerwave.miner.covariance import undo
from cornerwave.miner.estimate import Estimates, Of, estimates


@dataclass(frozen=True)
class Sums:
    """Counts, sums and sums of squares of y - origin by the copy's category, each (m,).

    `whole` (m,) counts the categories of all rows, `variance` is that of all numbers.
    """

    origin: float
    count: Floats
    first: Floats
    second: Floats
    whole: Floats
    variance: float

    @classmethod
    def of(cls, blocks: Iterable[tuple[Floats, Ints]], categories: int) -> "Sums":
        """Add up blocks of (values, codes); a value of NaN or a code of -1 is missing."""
        origin, sums = 0.0, np.zeros((3, categories))
        whole, numbers = np.zeros(categories), np.zeros(3)
        for number, (values, codes) in enumerate(blocks):
            has = ~np.isnan(values)
            if number == 0 and has.any():
                origin = float(values[has].mean())
            y = values[has] - origin
            numbers += [len(y), y.sum(), y @ y]
            whole += np.bincount(codes[codes >= 0], minlength=categories)
            y, own = y[codes[has] >= 0], codes[has & (codes >= 0)]
            for row, weights in zip(sums, (np.ones_like(y), y, y * y), strict=True):
                row += np.bincount(own, weights, minlength=categories)
        _, first, second = numbers / max(numbers[0], 1.0)
        return cls(origin, sums[0], sums[1], sums[2], whole, float(second - first**2))


def group_means(sums: Sums, labels: Labels, number: Column, category: Column, of: Of) -> Estimates:
    """Return the mean of a number in each category of the original."""
    rows = sums.count.sum()
    if rows < 2:
        raise ColumnError(f"{number.name!r}, {category.name!r}: fewer than two rows have both")
    shares, first, second = sums.count / rows, sums.first / rows, sums.second / rows
    refresh = Refresh.of(category, sums.whole / sums.whole.sum())
    noise = sums.variance - undo(np.array([[sums.variance]]), [number])[0, 0]
    law = refresh.undo(shares)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = refresh.undo(first) / law
        # the noise adds its variance to y^2 whatever the category
        within = refresh.undo(second - noise * shares) / law - means**2
        spread = np.maximum(within, 0.0)
        variance = _noise(refresh, sums, law, means, spread)
        variance = variance + (0.0 if of == "table" else spread / law)
    return estimates((labels,), sums.origin + means, variance / rows)


def _noise(refresh: Refresh, sums: Sums, law: Floats, means: Floats, spread: Floats) -> Floats:
    """Return n Var(mean | table) for each group (m,)."""
    rows, everywhere = sums.count.sum(), sums.whole.sum()
    shares, first, second = sums.count / rows, sums.first / rows, sums.second / rows
    q, drawn = refresh.retention, (1 - refresh.retention) * refresh.base
    steep, part = 1 / (q * law), rows / everywhere
    c = (1 - q) * (means - first.sum()) * steep if refresh.is_estimated else np.zeros_like(law)
    # E[u 1'_a], E[u^2 1'_a] and E[u^2] for u = y - m_a
    u = first - means * shares
    square = second - 2 * means * first + means**2 * shares
    squares = second.sum() - 2 * means * first.sum() + means**2
    in_copy = (
        steep**2 * ((1 - 2 * drawn) * square + drawn**2 * squares)
        + 2 * part * c * steep * (1 - drawn) * u
        + (part * c) ** 2 * shares
    )
    given_row = spread / law + (part * c) ** 2 * (law * q * (q + 2 * drawn) + drawn**2)
    others = (sums.whole - sums.count) / max(everywhere - rows, 1.0)
    elsewhere = part * (1 - part) * c**2 * refresh.noise_of(others)
    return np.asarray(in_copy - given_row + elsewhere)
