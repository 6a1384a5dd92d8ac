"""Moments of each pair of columns over the rows that have both, for tables with gaps.

Rows with both values may differ from the others: a correlation divides by the deviations of
these rows, not by those of the whole columns. Entry (i, j) is about column i in the rows that
also have column j, centred there, in units of the copy's standard deviations.

The noise does not know the gaps, so it has the same variance n_i in any rows. If P is the
variance of all values of a column in the copy, n_i = p P with p = v / (1 + v), and

    K_ii in these rows = C_ii in these rows - p P

A figure that weighs K_ij, K_ii, K_jj by (both, own, other) is a sum over rows, of

    both y_i y_j + own (1 - p r_i) y_i^2 + other (1 - p r_j) y_j^2 - 2 own p r_i d_i y_i - ...

in rows that have both, r_i their share of those that have i and d_i how far their mean is
from the column's; and of -own p r_i y_i^2 in rows that have i alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.moments import Moments

Weights = tuple[Floats, Floats, Floats]


@dataclass(frozen=True)
class Pairs:
    """Moments of pairs (N, N) each: `rows` that have both, `share` of those that have i, `away`
    the mean, `own` the variance, and the fourth moments E i^2 j^2, E i^3 j and E i^4.
    """

    rows: Floats
    share: Floats
    away: Floats
    own: Floats
    two_two: Floats
    three_one: Floats
    four: Floats

    @classmethod
    def of(cls, blocks: Iterable[Floats], moments: Moments) -> "Pairs":
        """Take blocks (rows, columns) of a copy; NaN is missing."""
        scale = np.where(moments.deviation > 0, moments.deviation, 1.0)
        sums = np.zeros((8, *moments.count.shape))
        for block in blocks:
            u = (block - moments.mean) / scale
            known = (~np.isnan(u)).astype(np.float64)
            u = np.nan_to_num(u)
            left, right = (known, u, u**2, u**3, u**4), (known, u, u**2)
            sums += [left[a].T @ right[b] for a, b in _POWERS]
        rows = np.maximum(moments.count, 1).astype(np.float64)
        d, m2, m3, m4, m11, m21, m22, m31 = sums / rows
        e, m12 = d.T, m21.T
        return cls(
            rows=rows,
            share=rows / np.maximum(moments.present, 1)[:, None],
            away=d,
            own=(m2 - d**2) * rows / np.maximum(rows - 1, 1),
            two_two=m22
            - 2 * e * m21
            - 2 * d * m12
            + e**2 * m2
            + d**2 * m2.T
            + 4 * d * e * m11
            - 3 * d**2 * e**2,
            three_one=m31 - e * m3 - 3 * d * m21 + 3 * d * e * m2 + 3 * d**2 * m11 - 3 * d**3 * e,
            four=m4 - 4 * d * m3 + 6 * d**2 * m2 - 3 * d**4,
        )

    def cumulant(self, C: Floats, weights: Weights) -> Floats:
        """Return the fourth cumulant of the weighted sum, the same in the copy and the original."""
        both, own, other = weights
        two_two = self.two_two - self.own * self.own.T - 2 * C**2
        three_one = self.three_one - 3 * self.own * C
        four = self.four - 3 * self.own**2
        return np.asarray(
            both**2 * two_two
            + own**2 * four
            + other**2 * four.T
            + 2 * both * (own * three_one + other * three_one.T)
            + 2 * own * other * two_two
        )

    def noise(self, K: Floats, added: Floats, share: Floats, weights: Weights) -> Floats:
        """Return n Var of the weighted sum given the table.

        K (N, N) is the original's, with all values of each column on its diagonal, `added` the
        covariance of the noise, `share` (N,) that of the noise in a column's variance.
        """
        both, own, other = weights
        taken = share[:, None] * own * self.share, share[None, :] * other * self.share.T
        inner = both, own - taken[0], other - taken[1]
        alone = np.diag(added)[:, None]
        within = self.own - alone
        found = normal(self.own, K + added, inner) - normal(within, K, inner)
        lean = -2 * taken[0] * self.away, -2 * taken[1] * self.away.T
        found += lean[0] ** 2 * alone + lean[1] ** 2 * alone.T + 2 * lean[0] * lean[1] * added
        # rows that have one of the two alone, by what the others leave of the column's variance
        rest = np.diag(K)[:, None] - self.share * (within + self.away**2)
        outside = np.maximum(4 * alone * rest + 2 * (1 - self.share) * alone**2, 0.0)
        size = taken[0] ** 2 * outside, taken[1] ** 2 * outside.T
        return np.asarray(found + size[0] / self.share + size[1] / self.share.T)


_POWERS = ((1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 1), (2, 2), (3, 1))
"""Of column i and of column j."""


def normal(own: Floats, M: Floats, weights: Weights) -> Floats:
    """Return n Var(both * S_ij + own * S_ii + other * S_jj) for normal rows of covariance M, whose
    variances are `own` (i) and its transpose (j).
    """
    both, first, second = weights
    i, j = own, own.T
    return np.asarray(
        both**2 * (i * j + M**2)
        + 2 * (first * i) ** 2
        + 2 * (second * j) ** 2
        + 4 * both * M * (first * i + second * j)
        + 4 * first * second * M**2
    )
