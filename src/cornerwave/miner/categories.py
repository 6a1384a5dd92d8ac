"""Frequencies and two-way tables of the original, by inverting the refresh of categories.

A cell keeps its value with probability q, else it is a draw from pi:

    P_copy = T P,   T = q I + (1 - q) pi 1',   T^-1 = (I - (1 - q) pi 1') / q

and two columns refreshed one by one have P_copy(a, b) = T_A P T_B'. Columns refreshed
together are kept or replaced as one: P_copy = q P + (1 - q) pi_joint. With the base
"marginal", pi is the table's own law, joint where the draw is joint, and the copy's
frequencies already estimate it. It is the law of the whole column, though a two-way table
rests on the rows that have both values: whose values are missing may depend on them.

An estimate is a mean over the copy's rows of an influence h, a function of the cell.
Given the table its variance is that of the noise alone, so with P and T at hand

    n Var(estimate | table) = E_copy[h^2] - E_P[(T'h)^2],   T'h = E[h | original cell]

and the population's adds P(1 - P) / n, the sampling error of the table's own share.
Shares are not forced into [0, 1]: that would bias them.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.miner.columns import MARGINAL, UNIFORM, Column
from cornerwave.miner.estimate import Estimates, Of, estimates

Labels = tuple[Hashable, ...]

MOST_PAIRS = 20_000
"""Cells of a two-way table; the work for their standard errors grows with the square."""


@dataclass(frozen=True)
class Refresh:
    """How the cells of one column came about; `base` is pi over the labels seen.

    >>> half = Refresh(0.5, np.array([0.5, 0.5]), is_estimated=False)
    >>> half.undo(np.array([0.75, 0.25])), half.expected(np.array([1.0, 0.0]))
    (array([1., 0.]), array([0.75, 0.25]))
    """

    retention: float
    base: Floats
    is_estimated: bool
    """Whether pi is the copy's own frequencies, so that their error counts."""

    @classmethod
    def of(cls, column: Column, shares: Floats) -> "Refresh":
        """Return the refresh of a column whose copy has these shares (1-D, sum 1).

        Raises ColumnError if the base is uniform over an unknown number of values.
        """
        if column.base == MARGINAL or column.retention == 1.0:
            return cls(column.retention, shares, is_estimated=True)
        if column.base != UNIFORM:
            raise ColumnError(f"{column.name!r}: no such base as {column.base!r}")
        if column.together:
            raise ColumnError(
                f"{column.name!r}: drawn together with others from uniform combinations, which "
                "leaves no law of its own; ask for the two-way table if there are two of them"
            )
        if column.categories is None or column.categories < len(shares):
            raise ColumnError(
                f"{column.name!r}: drawn anew from uniform categories, but the copy does not say "
                "how many; give metadata with 'categories'"
            )
        return cls(
            column.retention,
            np.full(len(shares), 1.0 / column.categories),
            is_estimated=False,
        )

    def undo(self, law: Floats) -> Floats:
        """Apply T^-1 along the first axis."""
        total = law.sum(axis=0)
        return np.asarray(
            (law - (1 - self.retention) * np.multiply.outer(self.base, total)) / self.retention
        )

    def expected(self, function: Floats) -> Floats:
        """Apply T': the mean of a function of the copy's cell (first axis), given the original."""
        drawn = np.tensordot(self.base, function, axes=1)
        return np.asarray(self.retention * function + (1 - self.retention) * drawn)

    def influences(self) -> Floats:
        """Return T^-1 (m, m): row a is the influence of the share of a, pi held fixed."""
        count = len(self.base)
        return self.undo(np.eye(count))

    def noise_of(self, shares: Floats) -> Floats:
        """Return the mean variance (m,) of each label's indicator, given the original row."""
        law = self.undo(shares)
        noise = shares * (1 - shares) - self.retention**2 * law * (1 - law)
        return np.maximum(noise, 0.0)

    def shifts(self) -> Floats:
        """Return (m, m) what an estimated pi adds: it moves with the copy's own shares."""
        weight = (1 - self.retention) / self.retention if self.is_estimated else 0.0
        return -weight * np.eye(len(self.base))


def frequencies(counts: Floats, labels: Labels, column: Column, of: Of) -> Estimates:
    """Return the share of each category, from counts (m,) in the copy."""
    rows = _rows(counts, column.name)
    shares = counts / rows
    refresh = Refresh.of(column, shares)
    law = refresh.undo(shares)
    # h is the indicator over q, and that of an estimated pi, which cancels T^-1, the indicator
    steep = 1.0 if refresh.is_estimated else 1 / refresh.retention
    noise = steep**2 * refresh.noise_of(shares)
    return estimates((labels,), law, _total(noise, law, of) / rows)


def two_way(
    counts: Floats,
    labels: tuple[Labels, Labels],
    columns: tuple[Column, Column],
    of: Of,
    whole: tuple[Floats, Floats] | None = None,
) -> Estimates:
    """Return the share of each pair of categories, from counts (m_A, m_B) in the copy.

    `whole` counts each column's values in all rows that have it; by default in the same.
    """
    first, second = columns
    rows = _rows(counts, f"{first.name}, {second.name}")
    if second.name in first.together:
        return _together(counts, labels, columns, of)
    shares = counts / rows
    margins = counts.sum(axis=1), counts.sum(axis=0)
    one, other = (
        _Margin.of(column, own, all_rows)
        for column, own, all_rows in zip(columns, margins, whole or margins, strict=True)
    )
    law = other.refresh.undo(one.refresh.undo(shares).T).T
    noise = np.empty_like(law)
    for h, (a, b) in zip(_pair_influences(one, other), np.ndindex(law.shape), strict=True):
        given = other.refresh.expected(one.refresh.expected(h).T).T
        noise[a, b] = _spread(h, shares) - _spread(given, law)
    noise += np.outer(one.elsewhere, other.law**2) + np.outer(one.law**2, other.elsewhere)
    return estimates(labels, law, _total(noise, law, of) / rows)


@dataclass(frozen=True)
class _Margin:
    """One column of a two-way table: its law P in the table's rows, and what moves its pi.

    `part` is the share of the column's rows that are in the table; `elsewhere` what the
    others add to n Var, for each label, where pi is estimated from them too.
    """

    refresh: Refresh
    law: Floats
    part: float
    elsewhere: Floats

    @classmethod
    def of(cls, column: Column, own: Floats, whole: Floats) -> "_Margin":
        refresh = Refresh.of(column, whole / whole.sum())
        part = float(own.sum() / whole.sum())
        noise = refresh.noise_of((whole - own) / max((whole - own).sum(), 1.0))
        elsewhere = part * (1 - part) * np.diag(refresh.shifts()) ** 2 * noise
        return cls(refresh, refresh.undo(own / own.sum()), part, elsewhere)

    def shifts(self) -> Floats:
        return self.part * self.refresh.shifts()


def _pair_influences(one: _Margin, other: _Margin) -> Iterator[Floats]:
    """Yield h (m_A, m_B) of the share of each pair (a, b).

    A known pi makes the estimate linear: h is the product of the columns' own influences.
    An estimated pi_A moves with the copy's margin, and P(a, b) by -(1-q)/q P(b) times it.
    """
    first, second = one.refresh.influences(), other.refresh.influences()
    shift = one.shifts(), other.shifts()
    for a in range(len(first)):
        for b in range(len(second)):
            h = np.outer(first[a], second[b])
            yield h + shift[0][a][:, None] * other.law[b] + one.law[a] * shift[1][b]


def _together(
    counts: Floats, labels: tuple[Labels, Labels], columns: tuple[Column, Column], of: Of
) -> Estimates:
    """Invert a joint draw: one refresh whose categories are the combinations that occur."""
    first, second = columns
    if first.base == UNIFORM and len(first.together) > 2:
        raise ColumnError(
            f"{first.name!r}, {second.name!r}: drawn with others from uniform combinations, "
            "which leaves no law of these two"
        )
    occur = counts > 0
    pairs = replace(first, name=f"{first.name}, {second.name}", together=())
    found = frequencies(counts[occur], tuple(map(tuple, np.argwhere(occur))), pairs, of)
    value, error = np.zeros_like(counts), np.zeros_like(counts)
    value[occur], error[occur] = found.value, found.standard_error
    return Estimates(labels, value, error)


def _spread(h: Floats, law: Floats) -> float:
    """Return the variance of h under a law; law (any shape) sums to 1."""
    return float((h**2 * law).sum() - (h * law).sum() ** 2)


def _total(noise: Floats, law: Floats, of: Of) -> Floats:
    noise = np.maximum(noise, 0.0)
    return noise if of == "table" else noise + np.maximum(law * (1 - law), 0.0)


def _rows(counts: Floats, name: str) -> float:
    rows = float(counts.sum())
    if rows < 1:
        raise ColumnError(f"{name!r}: no row has a value")
    return rows
