"""The smallest of many keyed hashes, and how many rows hold each: a sketch that adds up.

A value is in the sketch of a table, with its exact count, if fewer than SIZE distinct values of
the table have a smaller hash. So two tables sample the same values, wherever these are, and
the sketch of a whole is that of its parts.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave import _core
from cornerwave.arrays import LARGEST_WORD, Floats, Ints, Words

SIZE = 512
"""Distinct values in a sketch: 102 of them are those of a fifth of the rows; 37 must be seen."""

_U = np.uint64
_SLOTS = 2048

WIDTH = 8
"""Consecutive cells in a window."""


@dataclass(frozen=True)
class Bottom:
    """The smallest distinct hashes, ascending, how many rows hold each, and its number."""

    hashes: Words
    counts: Ints
    numbers: Floats

    @classmethod
    def of(
        cls,
        hashes: Words,
        numbers: Floats | None = None,
        *,
        windows: bool = False,
        below: np.uint64 = LARGEST_WORD,
    ) -> "Bottom":
        """Sketch the cells of some rows, or each WIDTH consecutive ones; a hash of 0 is none.

        Hashes above `below` are of no interest.
        """
        hashes = np.ascontiguousarray(hashes)
        numbers = hashes.view(np.float64) if numbers is None else np.ascontiguousarray(numbers)
        limit = first_limit(len(hashes), below)
        while True:
            bottom = cls._up_to(limit, hashes, numbers, windows)
            if bottom.suffices(limit, below):
                return bottom
            limit = bottom.next_limit(limit, below)

    @classmethod
    def of_counted(cls, hashes: Words, counts: Ints, numbers: Floats) -> "Bottom":
        """Sketch values of which it is known how many rows hold each."""
        held = np.flatnonzero((hashes != 0) & (counts > 0))
        order = held[np.argsort(hashes[held], kind="stable")]
        repeated = cls(hashes[order], counts[order], numbers[order])
        return cls.nothing() + repeated

    @classmethod
    def _up_to(cls, limit: np.uint64, hashes: Words, numbers: Floats, windows: bool) -> "Bottom":
        bottom, start, rows = cls.nothing(), 0, len(hashes) - (WIDTH - 1 if windows else 0)
        while start < rows:
            slots = empty_slots()
            start = _core.collect_hashes(hashes, numbers, windows, start, int(limit), *slots)
            bottom = bottom + cls.of_slots(*slots)
            limit = min(limit, bottom.below)
        return bottom

    @classmethod
    def of_slots(cls, keys: Words, counts: Ints, values: Floats) -> "Bottom":
        """Sketch what was counted in slots."""
        full = np.flatnonzero(keys)
        full = full[np.argsort(keys[full])][:SIZE]
        return cls(keys[full], counts[full], values[full])

    @classmethod
    def nothing(cls) -> "Bottom":
        """Return the sketch of no rows."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0))

    def __add__(self, other: "Bottom") -> "Bottom":
        hashes, counts, numbers = _room(SIZE)
        one, two = ((b.hashes, b.counts, b.numbers) for b in (self, other))
        size = _core.merge_sketches(*one, *two, hashes, counts, numbers)
        return Bottom(hashes[:size].copy(), counts[:size].copy(), numbers[:size].copy())

    def suffices(self, limit: np.uint64, below: np.uint64 = LARGEST_WORD) -> bool:
        """Whether this sketch of the hashes up to a limit is that of all up to `below`."""
        return bool(limit >= below) or len(self.hashes) == SIZE

    def next_limit(self, limit: np.uint64, below: np.uint64 = LARGEST_WORD) -> np.uint64:
        """Return up to which hash to look, if this sketch of those up to a limit is too small."""
        return min(_share(2 * SIZE * float(limit) * 2.0**-64 / max(len(self.hashes), 1)), below)

    @property
    def below(self) -> np.uint64:
        """The largest hash up to which the sketch holds everything."""
        return LARGEST_WORD if len(self.hashes) < SIZE else self.hashes[-1]

    @cached_property
    def distinct(self) -> float:
        """About how many distinct values there are: exact if they all fit."""
        if len(self.hashes) < SIZE:
            return float(len(self.hashes))
        return (SIZE - 1) / (float(self.below) / 2.0**64)

    @property
    def single(self) -> float:
        """The share of the distinct values that one row alone holds."""
        return float(np.mean(self.counts == 1)) if len(self.counts) else 0.0


def empty_slots() -> tuple[Words, Ints, Floats]:
    """Return room to count hashes in, and the number of each."""
    return _room(_SLOTS)


def first_limit(rows: int, below: np.uint64 = LARGEST_WORD) -> np.uint64:
    """Return up to which hash to look first: if all differ, there are twice as many as wanted."""
    return min(_share(2 * SIZE / max(rows, 1)), below)


def _room(size: int) -> tuple[Words, Ints, Floats]:
    return np.zeros(size, np.uint64), np.zeros(size, np.int64), np.empty(size)


def _share(share: float) -> np.uint64:
    """Return the hash below which a share of all hashes lies."""
    return LARGEST_WORD if share >= 1 else np.uint64(int(share * 2.0**64))


# --------------------------------------------------------------------------------------------------
# How densely the values that one row holds fill the places where values could lie.
#
# Whole numbers of independent tables are equal by chance wherever one column takes most of the
# numbers that there are: delays in minutes take all from 0 to 300, and few beyond. So the share
# of places that are taken is kept band by band: between quantiles, where it changes little.


BANDS, EACH = 32, 4
"""Bands of a column at most, and values of the sample in each at least."""


@dataclass(frozen=True)
class Density:
    """The share of the places between two edges that are taken by a value of one row.

    Each band has as many of these values as any other. A share is estimated from a sample, and
    may exceed 1: cut off there, the mean over bands would be too small.
    """

    edges: Floats
    shares: Floats

    @classmethod
    def of(cls, bottom: Bottom) -> "Density | None":
        """Measure a column by its sketch; None for text, and for too few values to know."""
        step, numbers = step_of(bottom.numbers), bottom.numbers[bottom.counts == 1]
        bands = min(BANDS, len(numbers) // EACH)
        if math.isnan(step) or not bands or not np.isfinite(numbers).all():
            return None
        edges = np.quantile(numbers, np.linspace(0, 1, bands + 1))
        in_each = len(numbers) / (float(bottom.below) / 2.0**64) / bands
        return cls(edges, _shares(in_each, edges, step))

    def __add__(self, other: "Density") -> "Density":
        """Return the density of both together, taken as independent of each other."""
        points = np.sort(np.concatenate([self._points, other._points]))
        edges = np.quantile(points, np.linspace(0, 1, max(len(self.shares), len(other.shares)) + 1))
        middles = (edges[1:] + edges[:-1]) / 2
        mine, theirs = self.at(middles), other.at(middles)
        return Density(edges, mine + theirs - np.minimum(mine, 1) * np.minimum(theirs, 1))

    @property
    def _points(self) -> Floats:
        """Numbers that lie as the values do, eight to a band."""
        places = np.arange(0.0625, len(self.shares), 0.125)
        return np.asarray(np.interp(places, np.arange(len(self.edges)), self.edges))

    def at(self, numbers: Floats) -> Floats:
        """Return the share of the places around each number that are taken."""
        band = np.searchsorted(self.edges, numbers, side="right") - 1
        inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        return np.where(inside, self.shares[np.minimum(band, len(self.shares) - 1)], 0.0)

    def met_by(self, other: "Density") -> float:
        """Return the chance that a value of another, independent column is taken here, too."""
        return min(float(self.at(other._points).mean()), 1.0)

    def bands_met_by(self, other: "Density") -> float:
        """Return of how many bands, if all weighed the same, that chance is the mean."""
        points = other._points
        band = np.searchsorted(self.edges[1:-1], points, side="right")
        weights = np.bincount(band, weights=self.at(points))
        return float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300))


def _shares(in_each: float, edges: Floats, step: float) -> Floats:
    if not step:
        return np.zeros(len(edges) - 1)
    return np.asarray(in_each / np.maximum(np.diff(edges) / step, 1.0))


def lattice(numbers: Floats, *, whole: bool) -> float:
    """Return how many values fit between the ends of a column at its own step; NaN for text.

    Infinitely many if there is no step. Numbers that are infinite, as texts may spell, do not
    count.
    """
    step, numbers = step_of(numbers), numbers[np.isfinite(numbers)]
    if math.isnan(step):
        return math.nan
    with np.errstate(over="ignore"):  # values that far apart have no step
        span = (numbers.max() - numbers.min()) * (1.0 if whole else (SIZE + 1) / (SIZE - 1))
    return float(np.rint(span / step)) + 1.0 if step else math.inf


@np.errstate(over="ignore")
def step_of(numbers: Floats) -> float:
    """Return the largest step that divides all differences of a sample of the values.

    0 if they have more than six decimals, NaN without two finite numbers.
    """
    numbers = numbers[np.isfinite(numbers)]
    if len(numbers) < 2:
        return math.nan
    for decimals in range(7):
        scaled = (numbers - numbers[0]) * 10.0**decimals
        whole_numbers = np.rint(scaled)
        if np.abs(scaled).max() > 2.0**53:
            break
        # differences of decimals are decimals but for rounding
        close = np.abs(scaled - whole_numbers) <= 1e-6 + 1e-12 * np.abs(scaled)
        if close.all() and len(np.unique(whole_numbers)) == len(numbers):
            return float(np.gcd.reduce(whole_numbers.astype(np.int64))) / 10.0**decimals
    return 0.0
