"""F, what copies show without noise, column by column: values, bands, bins and terms of a fit.

A column of F is a kept column, a key that is released as it is, or where a column has gaps. It
counts also by its parts, such as the end of a text or the weekday of a date, and by the difference
of two columns. Missing is a value like others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from cornerwave.arrays import Floats, Ints

Kind = Literal["column", "gaps", "part", "together"]
"""A whole column, where it has gaps, a part of one or a difference of two, several at once."""
MOST_KNOTS = 16
"""Where a smooth function of one number may bend."""
MOST_VALUES = 64
"""Values of one column that have a coefficient each. Rarer ones are compared by groups (`_anova`),
and by the means of their rows."""
LEAST_HOLDERS = 5
"""A value of fewer rows has no coefficient: it would fit its rows rather than the dependence."""
TAIL = 9.0
"""Squares and products of residuals beyond this many times their mean are cut there, or a few rows
of a heavy tail would decide."""
MOST_PRODUCTS = 64
"""Products of two coordinates that are looked at, evenly spread over all pairs."""


@dataclass(frozen=True)
class Shown:
    """What reveals something of a column, by its name in words and by its kind."""

    name: str
    kind: Kind = "column"

    @classmethod
    def together(cls, names: Sequence[str]) -> "Shown":
        """Name columns that reveal something together.

        >>> Shown.together(["lat", "lon", "type"]).name
        'lat, lon and type together'
        """
        return cls(f"{', '.join(names[:-1])} and {names[-1]} together", "together")

    @property
    def verb(self) -> str:
        """What it does: one column reveals, gaps or several columns reveal."""
        return "reveal" if self.kind in ("gaps", "together") else "reveals"

    def __str__(self) -> str:
        return self.name


GAPS_OF = "gaps of "
"""How gaps are called, before the column that has them."""


@dataclass(frozen=True)
class OpenColumn:
    """One column of F over the sampled rows: its values as codes, and as numbers if it has some.

    The number of a missing value is NaN. A part of one column, or the difference of two, is `of`
    these.
    """

    name: str
    codes: Ints
    numbers: Floats | None = None
    of: tuple[str, ...] = ()
    kind: Kind = "column"

    @classmethod
    def coded(cls, name: str, cells: Floats | Ints, numbers: Floats | None = None) -> "OpenColumn":
        """Return a column by what distinguishes its cells."""
        codes = np.unique(np.asarray(cells), return_inverse=True)[1]
        return cls(name, np.asarray(codes).ravel(), numbers)

    @classmethod
    def gaps(cls, column: str, missing: Ints) -> "OpenColumn":
        """Return where a column has gaps.

        >>> OpenColumn.gaps("wage", np.array([0, 1])).name
        'gaps of wage'
        """
        return cls(f"{GAPS_OF}{column}", missing, kind="gaps")

    @property
    def column(self) -> str:
        """The column itself, of gaps the one that has them."""
        return self.name.removeprefix(GAPS_OF) if self.kind == "gaps" else self.name

    def as_part(self, of: Sequence[str]) -> "OpenColumn":
        """Return it as a part of a column, or as the difference of two.

        >>> OpenColumn.coded("end", np.array([1, 2])).as_part(["iban"]).name
        'end of iban'
        """
        name = f"{self.name} of {' and '.join(reversed(of))}"
        return replace(self, name=name, of=tuple(of), kind="part")

    @property
    def shown(self) -> Shown:
        """Its name and kind."""
        return Shown(self.name, self.kind)

    @property
    def sources(self) -> tuple[Shown, ...]:
        """The columns or gaps of F that it shows something of."""
        return tuple(map(Shown, self.of)) if self.kind == "part" else (self.shown,)

    @property
    def values(self) -> int:
        """How many values it has."""
        return int(self.codes.max(initial=-1)) + 1

    def first(self, rows: int) -> "OpenColumn":
        """Return its first rows."""
        if rows >= len(self.codes):
            return self
        numbers = None if self.numbers is None else self.numbers[:rows]
        codes = OpenColumn.coded(self.name, self.codes[:rows]).codes
        return replace(self, codes=codes, numbers=numbers)

    def banded(self, bands: int) -> Ints:
        """Return a number in bands of as many rows each; missing is a band by itself."""
        assert self.numbers is not None
        known = ~np.isnan(self.numbers)
        ends = np.quantile(self.numbers[known], np.arange(1, bands) / bands)
        return np.where(known, np.searchsorted(ends, self.numbers, side="right"), bands)

    def binned(self, bins: int) -> Ints:
        """Return its values in bins: equal parts of a number, the most frequent of others."""
        if self.values <= bins:
            return self.codes
        if self.numbers is not None:
            return self.banded(bins - 1)
        counts = np.bincount(self.codes)
        place = np.minimum(np.argsort(np.argsort(-counts, kind="stable")), bins - 1)
        return np.asarray(place[self.codes])

    def terms(self, most: int) -> Floats:
        """Return the columns of a fit (terms, rows): hats over a number, indicators of values."""
        rows: list[Floats] = []
        if self.numbers is not None and self.values > min(MOST_KNOTS, most):
            rows += hats(self.numbers, min(MOST_KNOTS, most))
            if self.values > MOST_VALUES:  # a number, and not a code that happens to be one
                return np.array(rows)
        counts = np.bincount(self.codes)
        frequent = np.argsort(-counts, kind="stable")[: min(MOST_VALUES, most)]
        rows += [
            (self.codes == code).astype(np.float64)
            for code in frequent.tolist()
            if LEAST_HOLDERS <= counts[code] < len(self.codes)
        ]
        return np.array(rows).reshape(len(rows), len(self.codes))


def hats(numbers: Floats, most: int) -> list[Floats]:
    """Return functions that are linear between `most` quantiles, and where a number is missing."""
    known = ~np.isnan(numbers)
    knots = np.unique(np.quantile(numbers[known], np.linspace(0, 1, max(most, 2))))
    filled = np.where(known, numbers, knots[0])
    # the first hat is left out: all of them add up to the constant
    functions = [
        np.where(known, np.interp(filled, knots, at), 0.0) for at in np.eye(len(knots))[1:]
    ]
    # beside the number itself, since hats are constant beyond the last quantiles
    scale = max(float(np.abs(knots).max()), 1e-300)
    functions.append(np.where(known, filled / scale, 0.0))
    return functions if known.all() else [*functions, (~known).astype(np.float64)]


def all_values(features: Sequence[OpenColumn]) -> OpenColumn:
    """Return several columns as one: rows share a value that share those of all columns."""
    codes = features[0].codes
    for each in features[1:]:
        codes = np.unique(codes * each.values + each.codes, return_inverse=True)[1].ravel()
    names = tuple(dict.fromkeys(each.name for each in features))
    return OpenColumn("+".join(names), codes, of=names, kind="together")


def standardised(Z: Floats) -> Floats:
    """Return coordinates with mean 0 and variance 1."""
    mean = np.nanmean(Z, axis=1, keepdims=True)
    size = np.nanstd(Z, axis=1, keepdims=True)
    return np.asarray((Z - mean) / np.where(size > 0, size, 1.0))


def second_moments(left: Floats) -> Floats:
    """Return squares and products of residuals, without their tails, standardised.

    F that reveals nothing of the residuals themselves may still reveal how they vary.
    """
    pairs = list(combinations(range(len(left)), 2))
    step = max(1, len(pairs) // MOST_PRODUCTS)
    products = [left[a] * left[b] for a, b in pairs[::step][:MOST_PRODUCTS]]
    return standardised(np.clip(np.array([*(left**2), *products]), -TAIL, TAIL))
