"""The figures of linkage at every level, from those that registration measured at some."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any, Self

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.levels import LATTICE, Level

MEASURED = (100, 300, 500, 700, 800, 900, 970)
"""The levels at which linkage is measured, in thousandths. Between them logarithms are linear;
without noise every row is found."""
DIGITS, SMALLEST = 6, 1e-6


@dataclass(frozen=True)
class Linkage:
    """How often somebody who knows a person's row finds it in a copy, of all rows.

    `linked` is the mean, between `low` and `high` with 95 % confidence; `worst` that of the tenth
    of the rows that are easiest to find; `standing_out` the share of rows that are found more often
    than not; `among_ten` how often the right row is among the ten likeliest; `by_likelihood` how
    often it is found by who does not weigh how common a row is.
    """

    linked: float
    low: float
    high: float
    worst: float
    standing_out: float
    among_ten: float
    by_likelihood: float


@dataclass(frozen=True)
class LinkageCurve:
    """How often somebody who knows a row finds it, at MEASURED levels; empty if not measured."""

    measured: tuple[Linkage, ...] = ()

    @classmethod
    def of(cls, found: Sequence[Linkage]) -> Self:
        """Return the figures that were found at MEASURED levels, or none."""
        if not found:
            return cls()
        # who has less noise may add some: what is found in a noisier copy, is in a better one too
        figures = np.array([astuple(each) for each in found])
        falling = np.maximum.accumulate(figures[::-1])[::-1].round(DIGITS)
        return cls(tuple(Linkage(*each) for each in falling.tolist()))

    def at(self, level: Level) -> Linkage | None:
        """Return the figures at a level of the lattice; None if linkage was not measured."""
        if not self.measured:
            return None
        figures = _between(self._figures, np.array([level.thousandths]))
        return Linkage(*figures[0].tolist())

    def level_of(self, linked: float) -> Level | None:
        """Return the least level at which the interval ends at or below a share, if there is one.

        >>> half = Linkage(0.01, 0.008, 0.012, 0.1, 0.0, 0.05, 0.002)
        >>> LinkageCurve((half,) * len(MEASURED)).level_of(0.02).privacy
        0.089
        """
        if not self.measured:
            return None
        high = [each.name for each in fields(Linkage)].index("high")
        figures = _between(self._figures, np.arange(1, 1 + len(LATTICE)))[:, high]
        enough = np.flatnonzero(figures <= linked)
        return Level(LATTICE[int(enough[0])]) if len(enough) else None

    @property
    def _figures(self) -> Floats:
        return np.array([astuple(each) for each in self.measured])

    def to_json(self) -> list[dict[str, float]]:
        """Return it as a ledger keeps it."""
        return [asdict(each) for each in self.measured]

    @classmethod
    def from_json(cls, kept: Sequence[Mapping[str, Any]]) -> Self:
        """Return what `to_json` wrote."""
        return cls(tuple(Linkage(**each) for each in kept))


def _between(figures: Floats, places: Any) -> Floats:
    """Return figures at some levels, from those at MEASURED."""
    known = np.log(np.vstack([np.ones(figures.shape[1]), figures]) + SMALLEST)
    found = [np.interp(places, (0, *MEASURED), each) for each in known.T]
    return np.asarray(np.clip(np.exp(np.array(found).T) - SMALLEST, 0.0, 1.0))


# --------------------------------------------------------------------------------------------------
# Figures in words.


FIGURES = ("found", "95 % interval", "worst tenth", "found more often than not", "among ten")
"""What `in_words` states, in its order."""


def in_words(linkage: Linkage) -> tuple[str, ...]:
    """Return the figures as they are shown."""
    return (
        share(linkage.linked),
        f"{share(linkage.low)} to {share(linkage.high)}",
        share(linkage.worst),
        share(linkage.standing_out),
        share(linkage.among_ten),
    )


def share(value: float) -> str:
    """Write a share with two digits, or that it is small.

    >>> share(0.4123), share(0.0512), share(0.00123), share(0.00001)
    ('41 %', '5.1 %', '0.12 %', 'below 0.01 %')
    """
    percent = 100 * value
    if percent < 0.01:
        return "below 0.01 %" if value > 0 else "0 %"
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
