"""Shares of categories and of pairs of categories, by inverting the refresh.

A cell keeps its value with probability q, else it is redrawn from pi:

    P_copy = T P,   T = q I + (1 - q) pi 1',   T^-1 = (I - (1 - q) pi 1') / q

Two columns refreshed separately have P_copy(a, b) = T_A P T_B'. Columns refreshed together
are retained or redrawn as one: P_copy = q P + (1 - q) pi_joint. With the base "marginal" pi
is the table's own distribution (the joint one for a joint draw), and the copy's frequencies
already estimate it. It is that of the whole column, even where a two-way table uses only
the rows that have both values: whether a value is missing may depend on the value.

An estimate is a mean over the copy's rows of an influence h, a function of the cell. Given
the table only the noise is random, so

    n Var(estimate | table) = E_copy[h^2] - E_P[(T'h)^2],   T'h = E[h | original cell]

and a population adds the sampling error of the table's own share, P(1 - P) / n. Persons exchange
what they show, mostly by swaps (spine/exchanges.py), so that of their shares less is random:
C ln(1+v) P(1 - P) / n. Shares are not forced into [0, 1]: that would bias them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.choices import MARGINAL, UNIFORM
from cornerwave.errors import ColumnError
from cornerwave.levels import COPIED
from cornerwave.miner._estimates import Estimates, Labels, Of, code_blocks, find_labels
from cornerwave.miner._metadata import CopyColumn, quoted
from cornerwave.sources import Source

MOST_PAIRS = 20_000
"""Cells of a two-way table; the work for their standard errors grows with the square."""


@dataclass(frozen=True)
class Refresh:
    """The refresh of one column; `base` is pi over the labels seen.

    `is_estimated` if pi is the copy's own frequencies, whose error then counts; `is_exchanged` if
    persons exchange what they show.

    >>> half = Refresh(0.5, np.array([0.5, 0.5]), is_estimated=False)
    >>> half.undo(np.array([0.75, 0.25])), half.expected(np.array([1.0, 0.0]))
    (array([1., 0.]), array([0.75, 0.25]))
    """

    retention: float
    base: Floats
    is_estimated: bool
    is_exchanged: bool = False

    @classmethod
    def of(cls, column: CopyColumn, shares: Floats) -> "Refresh":
        """Return the refresh of a column that has these shares (m,) in the copy.

        Raises ColumnError if the base is uniform over an unknown number of values.
        """
        if column.base == MARGINAL or column.retention == 1.0:
            return cls(column.retention, shares, True, column.is_exchanged)
        if column.base != UNIFORM:
            raise ColumnError(f"{column.name!r}: unknown base {column.base!r} in the metadata")
        if column.together:
            raise ColumnError(
                f"{column.name!r}: drawn with other columns from uniform combinations, so its own "
                "shares cannot be estimated; for a group of two, ask for the two-way table"
            )
        if column.categories is None or column.categories < len(shares):
            raise ColumnError(
                f"{column.name!r}: the base is uniform, but the metadata does not state over how "
                "many values; add 'categories' to it"
            )
        base = np.full(len(shares), 1.0 / column.categories)
        return cls(column.retention, base, is_estimated=False)

    def undo(self, shares: Floats) -> Floats:
        """Apply T^-1 along the first axis."""
        # (I - (1 - q) pi 1') P / q: 1'P is 1 for shares, and 0 for differences of shares
        drawn = (1 - self.retention) * np.multiply.outer(self.base, shares.sum(axis=0))
        return np.asarray((shares - drawn) / self.retention)

    def expected(self, function: Floats) -> Floats:
        """Apply T': the mean of a function of the copy's cell (first axis), given the original."""
        drawn = np.tensordot(self.base, function, axes=1)
        return np.asarray(self.retention * function + (1 - self.retention) * drawn)

    def noise_of(self, shares: Floats) -> Floats:
        """Return the mean variance (m,) of each label's indicator, given the original row."""
        if self.is_exchanged:
            return COPIED * -2 * math.log(self.retention) * shares * (1 - shares)
        # E_copy[h^2] - E_P[(T'h)^2] for an indicator h: T'h is q where it is 1, plus a constant
        original = self.undo(shares)
        noise = shares * (1 - shares) - self.retention**2 * original * (1 - original)
        return np.maximum(noise, 0.0)

    @property
    def shift(self) -> float:
        """How much T^-1 moves against pi, where pi moves with the copy's own shares."""
        return (1 - self.retention) / self.retention if self.is_estimated else 0.0


def count_labels(
    source: Source, columns: Sequence[CopyColumn]
) -> tuple[Floats, list[Labels], list[Floats]]:
    """Count the rows that have all columns, by label; also each column in all its rows."""
    values = find_labels(source, columns)
    shape = tuple(len(values[column.name]) for column in columns)
    if len(shape) > 1 and math.prod(shape) > MOST_PAIRS:
        raise ColumnError(
            f"{math.prod(shape):,} pairs of categories; a two-way table can have at most "
            f"{MOST_PAIRS:,}: pool rare values first"
        )
    counts, whole = np.zeros(math.prod(shape)), [np.zeros(length) for length in shape]
    for codes in code_blocks(source, columns, values):
        present = codes[(codes >= 0).all(axis=1)]
        places = np.ravel_multi_index(tuple(present.T), shape) if len(present) else []
        counts += np.bincount(places, minlength=len(counts))
        for tally, code in zip(whole, codes.T, strict=True):
            tally += np.bincount(code[code >= 0], minlength=len(tally))
    labels = [tuple(values[column.name].to_pylist()) for column in columns]
    return counts.reshape(shape), labels, whole


def frequencies(counts: Floats, labels: Labels, column: CopyColumn, of: Of) -> Estimates:
    """Return the share of each category, from counts (m,) in the copy."""
    rows = _rows(counts, [column.name])
    shares = counts / rows
    refresh = Refresh.of(column, shares)
    original = refresh.undo(shares)
    # h is the indicator / q; an estimated pi moves along and leaves the indicator itself
    steep = 1.0 if refresh.is_estimated else 1 / refresh.retention
    noise = steep**2 * refresh.noise_of(shares)
    return Estimates.of((labels,), original, _total(noise, original, of) / rows)


def two_way(
    counts: Floats,
    labels: tuple[Labels, Labels],
    columns: tuple[CopyColumn, CopyColumn],
    of: Of,
    whole: tuple[Floats, Floats] | None = None,
) -> Estimates:
    """Return the share of each pair of categories, from counts (m_A, m_B) in the copy.

    `whole` counts each column's labels in all rows that have it, by default in the same rows.
    """
    first, second = columns
    rows = _rows(counts, [first.name, second.name])
    if second.name in first.together:
        return _joint(counts, labels, columns, of)
    shares = counts / rows
    margins = counts.sum(axis=1), counts.sum(axis=0)
    one, other = (
        _Margin.of(column, margin, all_rows)
        for column, margin, all_rows in zip(columns, margins, whole or margins, strict=True)
    )
    # P = T_A^-1 P_copy T_B'^-1
    original = other.refresh.undo(one.refresh.undo(shares).T).T
    noise = np.empty_like(original)
    for h, (a, b) in zip(_pair_influences(one, other), np.ndindex(original.shape), strict=True):
        # n Var(estimate | table) = Var_copy(h) - Var_P(T'h)
        given = other.refresh.expected(one.refresh.expected(h).T).T
        noise[a, b] = _variance(h, shares) - _variance(given, original)
    noise += np.outer(one.elsewhere, other.original**2) + np.outer(one.original**2, other.elsewhere)
    return Estimates.of(labels, original, _total(noise, original, of) / rows)


@dataclass(frozen=True)
class _Margin:
    """One column of a two-way table: `original` is P in the table's rows.

    `shift` is what a copy's row there contributes to an estimated pi, `elsewhere` (m,) what
    the column's other rows add to n Var through it.
    """

    refresh: Refresh
    original: Floats
    shift: float
    elsewhere: Floats

    @classmethod
    def of(cls, column: CopyColumn, counts: Floats, whole: Floats) -> "_Margin":
        refresh = Refresh.of(column, whole / whole.sum())
        # pi is estimated in all rows of the column, of which this part is in the table
        part = float(counts.sum() / whole.sum())
        noise = refresh.noise_of((whole - counts) / max((whole - counts).sum(), 1.0))
        elsewhere = part * (1 - part) * refresh.shift**2 * noise
        return cls(refresh, refresh.undo(counts / counts.sum()), part * refresh.shift, elsewhere)


def _pair_influences(one: _Margin, other: _Margin) -> Iterator[Floats]:
    """Yield h (m_A, m_B) of the share of each pair (a, b).

    With pi known the estimate is linear, and h the product of rows of the two T^-1. An
    estimated pi_A moves with the copy's margin, and with it P(a, b) by -(1-q)/q P(b).
    """
    first = one.refresh.undo(np.eye(len(one.original)))
    second = other.refresh.undo(np.eye(len(other.original)))
    for a, b in np.ndindex(len(first), len(second)):
        h = np.outer(first[a], second[b])
        h[a, :] -= one.shift * other.original[b]
        h[:, b] -= other.shift * one.original[a]
        yield h


def _joint(
    counts: Floats,
    labels: tuple[Labels, Labels],
    columns: tuple[CopyColumn, CopyColumn],
    of: Of,
) -> Estimates:
    """Invert a joint draw: one refresh whose categories are the combinations that occur."""
    first, second = columns
    if first.base == UNIFORM and len(first.together) > 2:
        raise ColumnError(
            f"{first.name!r}, {second.name!r}: drawn with other columns from uniform "
            "combinations, so the shares of these two cannot be estimated"
        )
    occur = counts > 0
    pairs = replace(first, name=f"{first.name}, {second.name}", together=())
    joint = frequencies(counts[occur], tuple(map(tuple, np.argwhere(occur))), pairs, of)
    value, error = np.zeros_like(counts), np.zeros_like(counts)
    value[occur], error[occur] = joint.value, joint.standard_error
    return Estimates(labels, value, error)


def _variance(h: Floats, original: Floats) -> float:
    """Return the variance of h under a distribution of the same shape."""
    return float((h**2 * original).sum() - (h * original).sum() ** 2)


def _total(noise: Floats, original: Floats, of: Of) -> Floats:
    # a population adds the sampling error of the table's own share, P (1 - P)
    sampling = 0.0 if of == "table" else np.maximum(original * (1 - original), 0.0)
    return np.asarray(np.maximum(noise, 0.0) + sampling)


def _rows(counts: Floats, names: Sequence[str]) -> float:
    rows = float(counts.sum())
    if rows < 1:
        raise ColumnError(f"{quoted(names)}: no row has a value")
    return rows
