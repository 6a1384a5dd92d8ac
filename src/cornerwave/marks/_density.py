"""How densely the values that one row holds fill the places where values could lie.

Whole numbers of independent tables are equal by chance wherever one column takes most of the
numbers that there are: delays in minutes take all from 0 to 300, and few beyond. So the share
of places that are taken is kept band by band: between quantiles, where it changes little.
"""

import math
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.marks._bottom import SIZE, Bottom

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
        """Measure a column by its sketch; None for text, and for too few values to tell."""
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
