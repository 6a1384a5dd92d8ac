"""A check, families of checks, and the limits that chance alone would exceed too rarely.

A check compares a statistic with its limit. Checks come in families, one small function
each; a family is registered once, in NUMBER_FAMILIES or CATEGORY_FAMILIES, with its name
and with what must hold. All families that chance could fail take equal shares of ALPHA,
and each divides its share by its comparisons.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, Generic, TypeVar
from zlib import crc32

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import SourceError

ALPHA = 0.01
"""The probability that an audit of honest copies raises any alarm at all."""

LEAST_AUDITED = 100
"""With fewer rows an audit could neither clear nor fail a copy, or a column."""

Evidence = TypeVar("Evidence")


@dataclass(frozen=True)
class Check:
    """One check of one copy or several: the worst of its comparisons against its limit.

    `value` and `limit` are in standard deviations of what chance does; `passed` is False
    for a fault. `note` is what was found in words, `unseen` which leak it could not have
    found. The family gives it its name.
    """

    copies: tuple[int, ...]
    value: float
    limit: float
    passed: bool
    note: str
    name: str = ""
    unseen: str = ""

    @classmethod
    def of(
        cls, copies: tuple[int, ...], value: float, limit: float, note: str, unseen: str = ""
    ) -> "Check":
        """Compare a value with its limit; the note is for a failure."""
        passed = bool(value <= limit)
        return cls(copies, value, limit, passed, "" if passed else note, unseen=unseen)


@dataclass(frozen=True)
class Family(Generic[Evidence]):
    """Checks of one kind: `run` takes the evidence and a share of ALPHA.

    `holds` is what must hold. A family that no chance can fail takes no share.
    """

    name: str
    holds: str
    run: Callable[[Evidence, float], Iterable[Check]]
    by_chance: bool = True


def run_all(
    families: Sequence[Family[Evidence]], evidence: Evidence, alpha: float
) -> tuple[Check, ...]:
    """Return the checks of all families, each at the share `alpha`."""
    return tuple(
        replace(check, name=family.name)
        for family in families
        for check in family.run(evidence, alpha)
    )


def names_by_chance(families: Sequence[Family[Evidence]]) -> tuple[str, ...]:
    """Return the names of the families that take a share of ALPHA."""
    return tuple(family.name for family in families if family.by_chance)


def z_limit(alpha: float) -> float:
    """Return z with P(|N(0, 1)| > z) = alpha.

    >>> round(z_limit(0.05), 3)
    1.96
    """
    return -NormalDist().inv_cdf(alpha / 2)


def sure_limit(alpha: float) -> float:
    """Return z with 2 exp(-z^2 / 2) = alpha.

    By the bounds of Chernoff and Bernstein, sums of bounded terms exceed it with a
    probability of at most alpha, for any number of terms.

    >>> round(sure_limit(0.01), 2)
    3.26
    """
    return math.sqrt(2 * math.log(2 / alpha))


def t_limit(alpha: float, freedom: int) -> float:
    """Return the limit of |t| for Student's t, by the Cornish-Fisher expansion.

    >>> round(t_limit(0.05, 63), 3), round(t_limit(0.01, 9), 2)
    (1.998, 3.25)
    """
    z = z_limit(alpha)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def chi_square_tail(x: float, freedom: int) -> float:
    """Return the probability that a chi-square exceeds x.

    >>> round(chi_square_tail(3.841459, 1), 6), round(chi_square_tail(9.487729, 4), 6)
    (0.05, 0.05)
    """
    half = x / 2
    if half <= 0:
        return 1.0
    # Q(k/2, x/2) = erfc(sqrt(x/2)) [k odd] + sum of (x/2)^p e^(-x/2) / Gamma(p + 1)
    odd = freedom % 2
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    for step in range(freedom // 2):
        power = step + odd / 2
        tail += math.exp(power * math.log(half) - half - math.lgamma(power + 1))
    return min(tail, 1.0)


@cache
def chi_square_limit(alpha: float, freedom: int) -> float:
    """Return what a chi-square exceeds with probability alpha.

    >>> round(chi_square_limit(0.05, 4), 3)
    9.488
    """
    low, high = 0.0, 10.0 * freedom + 2000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if chi_square_tail(middle, freedom) > alpha else (low, middle)
    return high


def chi_square_score(x: Floats, freedom: int) -> Floats:
    """Return a chi-square as a standard normal (Wilson and Hilferty's cube root).

    >>> round(float(chi_square_score(np.array(124.342), 100)), 2)
    1.65
    """
    ninth = 2 / (9 * freedom)
    return np.asarray((np.cbrt(x / freedom) - (1 - ninth)) / math.sqrt(ninth))


def divergences(counts: Any, n: Any, p: Any) -> Floats:
    """Return sqrt(2 n KL(found / n, p)) of binomial counts, for `sure_limit`."""
    n = np.asarray(n, dtype=np.float64)
    divergence = _part(counts, n * p) + _part(n - counts, n * (1 - p))
    return np.asarray(np.sqrt(np.maximum(2 * divergence, 0.0)))


def _part(counts: Any, expected: Floats) -> Floats:
    """Return found log(found / expected), 0 for none and infinite for the impossible."""
    counts = np.asarray(counts, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = counts * np.log(counts / expected)
    return np.where(counts > 0, terms, 0.0)


def bernstein(t: Any, variance: Any) -> Floats:
    """Return |t| / sqrt(variance + |t| / 3), for `sure_limit`: sums of steps of at most 1."""
    off = np.abs(t)
    return np.asarray(off / np.sqrt(np.maximum(variance + off / 3, 1e-300)))


# --------------------------------------------------------------------------------------------------
# Numbers from outside may be so large, small or far apart that no double holds their squares.


@contextmanager
def refuse_overflow() -> Iterator[None]:
    """Raise SourceError where arithmetic overflows: a NaN would pass any check after it.

    >>> with refuse_overflow():
    ...     np.float64(1e200) ** 2
    Traceback (most recent call last):
    cornerwave.errors.SourceError: the values are too large or too far apart to be compared...
    """
    try:
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            yield
    except (FloatingPointError, OverflowError, np.linalg.LinAlgError):
        raise SourceError(
            "the values are too large or too far apart to be compared: check that the files are "
            "copies of one table in the same units"
        ) from None


# --------------------------------------------------------------------------------------------------
# Whether two columns of numbers are related in any way, by their ranks.
#
#     table        the chi-square of both ranks in bins: any smooth relation
#     neighbours   rows sorted by one, and how far apart neighbours are in the other (Chatterjee
#                  2021): any function of the one, however it jumps
#
# If every order of the rows is as likely as any other, both are close to normal, whatever the
# distribution of either column.


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
            # Chance that depends on the values alone: the same audit twice has the same result.
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
    """Return what sorts values, ties in their order: without any, sorted several times as fast."""
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
