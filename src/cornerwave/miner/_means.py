"""Means that an average of the copy does not give: within categories, and undoing log1p.

Group means. For the indicator 1_a of a category in the original and 1'_a in the copy, the
noise of Y is independent of everything and a redrawn category of X, so

    E[Y 1'_a] = q E[X 1_a] + (1 - q) pi_a E[X]      so      E[X 1_a] = T^-1 E[Y 1']

with T as in `_shares`. These are means over the n rows that have both values; pi and the
noise's variance are those of all N rows, because whether a value is missing may depend on
it. The group's mean is m_a = E[X 1_a] / P_a, with influence

    h = (1'_a - (1-q) pi_a) (y - m_a) / (q P_a) + (n/N) c 1'_a
    E[h | original row] = (x - m_a) 1_a / P_a + (n/N) c (q 1_a + (1-q) pi_a)

where c = (1-q) (m_a - mean) / (q P_a) if pi is estimated, and 0 if it is known. Then
Var(mean | table) = (E[h^2] - E[E[h | row]^2]) / n, and the rows without a number add
c^2 Var(1'_a | row) (N - n) / N^2. A ratio: consistent, not exactly unbiased in small groups.

Mean on the original scale. With x = log(1 + X), y = x + w, w ~ N(0, v k) and k = Var(x):

    E[e^y] = E[e^x] exp(v k / 2)      so      E[1 + X] = E[e^y] exp(-v k / 2),  k = Var(y)/(1+v)

The influence of a row is h = e^y exp(-v k/2) - c y^2 with c = E[1 + X] v / (2 (1 + v)) (y and
x centred), its mean given the original row is A = e^x - c x^2, and that of the table's own
mean is e^x. So Var(estimate | table) = (Var(h) - Var(A)) / n, and a population adds
Var(e^x) / n. The moments of x follow from those of y by tilting: E[e^y f(y)] is a normal
mean of f, shifted by v k. Consistent, not exactly unbiased: k is estimated.

Var(h) is an average of squares of e^w, with relative variance exp(4 v k) / n. If that is
large it depends on a row or two that most tables lack, and value and standard error come
out far too low together. So the mean is refused unless at least EFFECTIVE rows carry its
error, n exp(-4 v k) of them, and the mean itself, (sum e^y)^2 / sum e^2y. A 95 % interval
then covers about as with 2 EFFECTIVE degrees of freedom: 93.6 %.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner._covariance import undo
from cornerwave.miner._estimates import ColumnBlock, Estimate, Estimates, Labels, Of
from cornerwave.miner._metadata import CopyColumn, quoted
from cornerwave.miner._shares import Refresh
from cornerwave.moments import Moments

EFFECTIVE = 10.0
"""The fewest rows that may carry a standard error: it is then known to about a quarter,
1 / sqrt(2 (n - 1)) of normal values."""


@dataclass(frozen=True)
class GroupSums:
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
    def of(
        cls,
        blocks: Iterable[ColumnBlock],
        number: CopyColumn,
        category: CopyColumn,
        categories: int,
    ) -> "GroupSums":
        """Add up blocks that hold the two columns by name."""
        origin, sums = 0.0, np.zeros((3, categories))
        whole, numbers = np.zeros(categories), np.zeros(3)
        for place, block in enumerate(blocks):
            values, codes = block[number.name], block[category.name]
            has = ~np.isnan(values)
            if place == 0 and has.any():  # any value near the mean keeps squares exact
                origin = float(values[has].mean())
            y = values[has] - origin
            numbers += [len(y), y.sum(), y @ y]
            whole += np.bincount(codes[codes >= 0], minlength=categories)
            y, groups = y[codes[has] >= 0], codes[has & (codes >= 0)]
            for row, weights in zip(sums, (np.ones_like(y), y, y * y), strict=True):
                row += np.bincount(groups, weights, minlength=categories)
        _, first, second = numbers / max(numbers[0], 1.0)
        return cls(origin, sums[0], sums[1], sums[2], whole, float(second - first**2))


def group_means(
    sums: GroupSums, labels: Labels, number: CopyColumn, category: CopyColumn, of: Of
) -> Estimates:
    """Return the mean of a number in each category of the original."""
    rows = sums.count.sum()
    if rows < 2:
        names = quoted([number.name, category.name])
        raise ColumnError(f"{names}: fewer than two rows have both values")
    shares, first, second = sums.count / rows, sums.first / rows, sums.second / rows
    refresh = Refresh.of(category, sums.whole / sums.whole.sum())
    noise = sums.variance - undo(np.array([[sums.variance]]), [number])[0, 0]
    original = refresh.undo(shares)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = refresh.undo(first) / original
        # the noise adds its variance to y^2 in every category
        within = refresh.undo(second - noise * shares) / original - means**2
        spread = np.maximum(within, 0.0)
        variance = _group_noise(refresh, sums, original, means, spread)
        variance = variance + (0.0 if of == "table" else spread / original)
    return Estimates.of((labels,), sums.origin + means, variance / rows)


def _group_noise(
    refresh: Refresh, sums: GroupSums, original: Floats, means: Floats, spread: Floats
) -> Floats:
    """Return n Var(mean | table) for each group (m,)."""
    rows, everywhere = sums.count.sum(), sums.whole.sum()
    shares, first, second = sums.count / rows, sums.first / rows, sums.second / rows
    q, drawn = refresh.retention, (1 - refresh.retention) * refresh.base
    # h of group a: 1_a (y - m_a) / (q P_a), less what an estimated pi moves along (c)
    steep, part = 1 / (q * original), rows / everywhere
    c = (1 - q) * (means - first.sum()) * steep if refresh.is_estimated else np.zeros_like(original)
    # E[u 1'_a], E[u^2 1'_a] and E[u^2] for u = y - m_a
    u = first - means * shares
    square = second - 2 * means * first + means**2 * shares
    squares = second.sum() - 2 * means * first.sum() + means**2
    # the mean of Var(h | row) is E[h^2] - E[E[h | row]^2]
    in_copy = (
        steep**2 * ((1 - 2 * drawn) * square + drawn**2 * squares)
        + 2 * part * c * steep * (1 - drawn) * u
        + (part * c) ** 2 * shares
    )
    given_row = spread / original + (part * c) ** 2 * (original * q * (q + 2 * drawn) + drawn**2)
    others = (sums.whole - sums.count) / max(everywhere - rows, 1.0)
    elsewhere = part * (1 - part) * c**2 * refresh.noise_of(others)
    return np.asarray(in_copy - given_row + elsewhere)


@dataclass(frozen=True)
class Tilted:
    """Means over the copy's rows, with y centred on `centre`.

    `tilt` holds E[e^y y^j] for j = 0, 1, 2; `double` is E[e^2y], `second` and `fourth`
    are E[y^2] and E[y^4].
    """

    rows: int
    centre: float
    tilt: Floats
    double: float
    second: float
    fourth: float

    @classmethod
    def of(cls, blocks: Iterable[Floats], moments: Moments) -> "Tilted":
        """Average over blocks (rows, 1) of y; NaN is missing."""
        sums = np.zeros(6)
        for block in blocks:
            y = block[~np.isnan(block)] - moments.mean[0]
            with np.errstate(over="ignore", invalid="ignore"):  # an overflow is refused later
                e = np.exp(y)
                sums += [e.sum(), e @ y, e @ y**2, e @ e, y @ y, (y**4).sum()]
        rows = int(moments.present[0])
        means = sums / rows
        return cls(rows, float(moments.mean[0]), means[:3], *map(float, means[3:]))

    def effective_rows(self, noise: float) -> float:
        """Return how many rows carry the standard error, or the mean if these are fewer."""
        error = self.rows * np.exp(-4 * noise / (1 + noise) * self.second)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.rows * self.tilt[0] ** 2 / self.double
        return float(np.nan_to_num(min(error, mean)))


def original_mean(tilted: Tilted, noise: float, of: Of, name: str) -> Estimate:
    """Return the mean of X from moments of the copy of log(1 + X).

    Raises ColumnError if the noise leaves too few rows that carry it.
    """
    if not tilted.effective_rows(noise) >= EFFECTIVE:
        raise ColumnError(
            f"{name!r}: noise of variance {noise / (1 + noise) * tilted.second:.2g} on log(1 + x) "
            f"is too much to estimate the mean of x from {tilted.rows:,} rows; use mean() on the "
            "log scale, the distribution, or a copy with less noise"
        )
    k = tilted.second / (1 + noise)
    added = noise * k
    shrink = np.exp(-added / 2)
    # E[e^x], E[e^x x], E[e^x x^2] from the tilted moments of y
    level = tilted.tilt[0] * shrink
    first = tilted.tilt[1] * shrink - added * level
    second = tilted.tilt[2] * shrink - 2 * added * first - (added + added**2) * level
    table = max(tilted.double * np.exp(-2 * added) - level**2, 0.0)
    c = level * noise / (2 * (1 + noise))
    # Var(h), then Var(A), whose Var(x^2) is that of y less what the noise added
    in_copy = (
        (tilted.double - tilted.tilt[0] ** 2) * shrink**2
        - 2 * c * (tilted.tilt[2] - tilted.tilt[0] * tilted.second) * shrink
        + c**2 * (tilted.fourth - tilted.second**2)
    )
    squares = tilted.fourth - 3 * tilted.second**2 + 2 * k**2
    given_row = table - 2 * c * (second - level * k) + c**2 * squares
    variance = max(in_copy - given_row, 0.0) + (table if of == "population" else 0.0)
    scale = np.exp(tilted.centre)
    return Estimate(float(scale * level - 1), float(scale * np.sqrt(variance / tilted.rows)))
