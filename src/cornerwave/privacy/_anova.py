"""What rows share that have a value of F in common (analysis of variance), or are neighbours in it.

With Z of variance 1 in G groups of n_g rows,

    groups      1 - MSW / Var,                    MSW = SSW / (n - G), within groups
    neighbours  1 - E(Z_i - Z_i')^2 / 2 Var       over rows i, i' next to each other

estimate the share of a coordinate that is known with the group, or with the place, each a part of
R^2(F). Both count only above chance: under chance, SSB / Var is about chi-square with d = G - 1
degrees of freedom, which exceeds

    d + 2 sqrt(d u) + 2 u        with probability exp(-u) at most   (Laurent and Massart)

and the mean of squared differences is normal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.privacy._open_columns import MOST_VALUES, OpenColumn

ALPHA = 1e-5
"""The probability that groups or neighbours of a table are taken for what they are not."""
COMPARISONS = 64
"""Sets of columns that one table is usually compared by; ALPHA is divided by them."""
LEAST_COMPARED = 10
"""Fewer rows in company are not compared."""
FOLDS = 4
"""A mean, like a fit, is scored on rows that it has not seen: those of one of so many folds."""
SCALES = (1 / 8, 1 / 2, 1.0, 2.0, 8.0, 32.0)
"""Rows, on average, of the blocks along a number in which rows may agree. In a sample of a large
table neighbours can be far apart: blocks of less than one row find those that are not."""


@dataclass(frozen=True)
class _Grouped:
    """Sums and counts of each group (coordinates, groups), and the sum of all squares."""

    sums: Floats
    counts: Floats
    squares: Floats

    @classmethod
    def of(cls, Z: Floats, codes: Ints) -> "_Grouped":
        """Add up the rows of each code; what is missing is left out."""
        few = codes.max(initial=0) < 1 << 16  # two bytes are sorted by radix
        order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
        codes, Z = codes[order], Z[:, order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        missing = np.isnan(Z)
        size = np.broadcast_to(np.diff(starts, append=len(codes)), (len(Z), len(starts)))
        if missing.any():
            Z = np.where(missing, 0.0, Z)
            size = size - np.add.reduceat(missing, starts, axis=1, dtype=np.int64)
        sums = np.add.reduceat(Z, starts, axis=1)
        return cls(sums, size.astype(np.float64), (Z**2).sum(axis=1))


def within(
    Z: Floats, codes: Ints, rate: float = 1.0, *, comparisons: float = COMPARISONS
) -> Floats:
    """Return the share of each coordinate that is known with the group, 1 - MSW / Var; 0 if chance.

    Z has the variance 1. Rows that are alone in their group show nothing; in a sample, at a `rate`
    of all rows, most of them have company in the table.
    """
    company = np.bincount(codes, minlength=1)[codes] > 1
    if np.count_nonzero(company) < LEAST_COMPARED:
        return np.zeros(len(Z))
    groups = _Grouped.of(Z[:, company], codes[company])
    sums, size = groups.sums, groups.counts
    n, G = size.sum(axis=1), np.count_nonzero(size, axis=1)
    # SSW + SSB is the sum of squares about the mean of these rows
    mean_square = (sums**2 / np.maximum(size, 1.0)).sum(axis=1)
    SSW = np.maximum(groups.squares - mean_square, 0.0)
    SSB = np.maximum(mean_square - sums.sum(axis=1) ** 2 / np.maximum(n, 1.0), 0.0)
    variance = np.maximum((SSW + SSB) / np.maximum(n - 1, 1.0), 1e-300)
    # heavy tails raise the variance of SSB by the excess kurtosis times sum 1/n_g - G^2/n
    kurtosis = np.maximum(np.nanmean(np.square(np.square(Z)), axis=1) - 3.0, 0.0)
    uneven = np.maximum(
        (1 / np.where(size > 0, size, np.inf)).sum(axis=1) - G**2 / np.maximum(n, 1), 0
    )
    u, freedom = log(comparisons * len(Z) / ALPHA), np.maximum(G - 1, 1)
    limit = freedom + 2 * np.sqrt(u * (freedom + kurtosis * uneven / 2)) + 2 * u
    real = (n > G) & (G > 1) & (SSB / variance > limit)
    # of all rows that have a value, only those in company are known with their group
    present = np.maximum((~np.isnan(Z)).sum(axis=1), 1)
    share = np.clip(1 - SSW / np.maximum(n - G, 1.0), 0.0, 1.0)
    return np.where(real, share * np.minimum(1.0, n / present / rate), 0.0)


def revealed_alone(Z: Floats, feature: OpenColumn, rate: float) -> Floats:
    """Return what one column reveals of each coordinate: by its values, in bins, by neighbours."""
    bins = feature.binned(MOST_VALUES)
    shares = np.maximum(within(Z, feature.codes, rate), within(Z, bins, 1.0))
    if feature.numbers is not None and feature.values > MOST_VALUES:
        shares = np.maximum(shares, next_to(Z, [feature.numbers]))
        for block in _blocks(feature.numbers):
            shares = np.maximum(shares, within(Z, block, rate))
    return shares


def _blocks(numbers: Floats) -> Iterator[Ints]:
    """Yield rows in blocks along a number, each of as many rows on average as a scale has."""
    known = ~np.isnan(numbers)
    low, high = float(numbers[known].min()), float(numbers[known].max())
    place = np.where(known, (numbers - low) / max(high - low, 1e-300), -1.0)
    for scale in SCALES:
        blocks = np.floor(place * (len(numbers) / scale)).astype(np.int64)
        yield np.asarray(np.unique(blocks, return_inverse=True)[1]).ravel()


def next_to(Z: Floats, numbers: Sequence[Floats]) -> Floats:
    """Return 1 - E(Z_i - Z_i')^2 / 2 Var over rows that are next to each other in some numbers.

    It counts if it exceeds so many standard errors as chance does with probability ALPHA.
    """
    order = _near_order(numbers)
    if len(order) < LEAST_COMPARED:
        return np.zeros(len(Z))
    squares = np.diff(Z[:, order], axis=1) ** 2 / 2
    count = np.maximum((~np.isnan(squares)).sum(axis=1), 1)
    mean = np.nansum(squares, axis=1) / count
    # neighbouring differences share a row: half of them are independent
    error = np.sqrt(np.nansum((squares - mean[:, None]) ** 2, axis=1) / count / (count / 2))
    # a normal deviate exceeds z with probability exp(-z^2 / 2) at most
    z = sqrt(2 * log(COMPARISONS * len(Z) / ALPHA))
    return np.where(1 - mean > z * error, np.clip(1 - mean, 0.0, 1.0), 0.0)


def _near_order(numbers: Sequence[Floats]) -> Ints:
    """Return the rows that have all of some numbers, each beside one that is near in all.

    Slices along the first number, slices of these along the second, and sorted by the last.
    """
    rows = np.flatnonzero(~np.any([np.isnan(each) for each in numbers], axis=0))
    # n^(1/d) slices along each of d numbers leave as many rows in each as there are slices
    slices = max(1, round(len(rows) ** (1 / len(numbers))))
    place = np.zeros(len(rows), dtype=np.int64)
    for each in numbers[:-1]:
        order = np.lexsort((each[rows], place))
        rank = np.empty(len(rows), dtype=np.int64)
        rank[order] = np.arange(len(rows))
        starts = np.searchsorted(place[order], place)
        size = np.bincount(place, minlength=1)[place]
        place = place * slices + (rank - starts) * slices // size
        place = np.unique(place, return_inverse=True)[1].ravel()
    return np.asarray(rows[np.lexsort((numbers[-1][rows], place))])


def less_means(Z: Floats, codes: Ints) -> Floats:
    """Return signals less the mean of each row's group."""
    place = np.asarray(np.unique(codes, return_inverse=True)[1]).ravel()
    groups = _Grouped.of(Z, place)
    return np.asarray(Z - (groups.sums / np.maximum(groups.counts, 1.0))[:, place])


@dataclass(frozen=True)
class GroupMeans:
    """The mean of each row's group (coordinates, rows), and the share between groups."""

    means: Floats
    between: Floats

    @classmethod
    def of(cls, Z: Floats, codes: Ints, folds: Ints | None = None) -> "GroupMeans":
        """Return means by the rows of other folds, as a mean that has a row's value reveals it.

        A mean of n rows is shrunk by n b / (n b + 1 - b), b the share between groups; 0 where
        that is chance.
        """
        folds = np.arange(Z.shape[1]) % FOLDS if folds is None else folds
        spread = np.nanstd(Z, axis=1, keepdims=True)
        between = within(Z / np.where(spread > 0, spread, 1.0), codes)
        means, groups, both = np.zeros_like(Z), int(codes.max()) + 1, codes * FOLDS + folds
        for row, mean, b in zip(Z, means, between.tolist(), strict=True):
            if not b:
                continue
            sums, counts = (
                np.bincount(both, each, groups * FOLDS).reshape(groups, FOLDS)
                for each in (np.nan_to_num(row), (~np.isnan(row)).astype(np.float64))
            )
            others, n = (each.sum(axis=1, keepdims=True) - each for each in (sums, counts))
            mean[:] = (others * b / np.maximum(n * b + 1 - b, 1e-9)).ravel()[both]
        return cls(means, between)
