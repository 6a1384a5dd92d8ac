"""What copies of a dataset hide of each column, as measured at registration, and in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.levels import LATTICE, THOUSANDTHS, Level, worth
from cornerwave.noise import level_nearby
from cornerwave.privacy._open_columns import Shown

NEAR_CEILING = 0.9
"""Above this share of what can be hidden of a column at most, noise rises steeply: with a ceiling
of 0.808, privacy 0.8 takes noise 77."""
LITTLE = 0.05
"""Less than this share of a column is not worth a word."""

Action = Literal["drop", "hide", "bands", "refresh", "together"]
"""Leave columns out, hide gaps, release a number in bands, refresh a kept column, refresh two
categories as one."""


@dataclass(frozen=True)
class Remedy:
    """What would lower the noise that half of every column needs, or raise the highest privacy.

    `needed` is that noise, None if no noise would do; `highest` the privacy that is possible then.
    """

    action: Action
    columns: tuple[str, ...]
    needed: float | None = None
    highest: float = 0.999
    bands: int | None = None

    @property
    def to_do(self) -> str:
        """What the owner does to have it.

        >>> Remedy("together", ("city", "region")).to_do
        'refresh city and region as one (together)'
        """
        what = " and ".join(self.columns)
        return {
            "drop": f"leave {what} out (drop), if recipients can do without",
            "hide": f"hide the gaps of {what} (hide_missing)",
            "bands": f"release {what} in {self.bands} bands",
            "refresh": f"refresh {what} as a category instead of keeping it",
            "together": f"refresh {what} as one (together)",
        }[self.action]

    def __str__(self) -> str:
        """Say what it does to the columns that it names.

        >>> str(Remedy("bands", ("age",), 1.2, bands=3))
        'with age in 3 bands'
        """
        what = " and ".join(self.columns)
        return {
            "drop": f"without {what}",
            "hide": f"with {what} hidden (hide_missing)",
            "bands": f"with {what} in {self.bands} bands",
            "refresh": f"with {what} refreshed as a category instead of kept",
            "together": f"with {what} together",
        }[self.action]


@dataclass(frozen=True)
class MostRevealing:
    """What reveals most of a column, and the share of its variance that it reveals."""

    by: Shown
    share: float

    def of(self, column: str) -> str:
        """Say which column reveals which.

        >>> MostRevealing(Shown("gaps of wage", "gaps"), 0.471).of("age")
        'gaps of wage reveal 47% of age'
        """
        return f"{self.by} {self.by.verb} {self.share:.0%} of {column}"


@dataclass(frozen=True)
class Hidden:
    """What a dataset's copies hide of each column, as measured at registration.

    `shares[column]` are the shares of its variance that copies at privacy 0.01, 0.02, ... of
    the lattice hide; `needed[p - 1]` is the least level, in thousandths, at which p thousandths
    of every column are hidden, 0 if there is none; `strongest[column]` is the other column that
    reveals most of it, without noise, of those that have another noise or none; `bounds` is the
    same among what copies show without noise: kept columns, a key and gaps; `ceilings` are the
    shares that no noise can exceed, since that all together reveals the rest.
    """

    shares: Mapping[str, tuple[float, ...]]
    needed: tuple[int, ...]
    strongest: Mapping[str, MostRevealing]
    remedies: tuple[Remedy, ...] = ()
    bounds: Mapping[str, MostRevealing] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)

    def at(self, level: Level) -> dict[str, float]:
        """Return what a copy at a level of the lattice hides of each column, at least."""
        # shares are kept for each hundredth, rounded down; what is promised holds between them
        place, least = level.thousandths // 10 - 1, self.promised(level)
        return {
            name: max(known[place], least) if place >= 0 else least
            for name, known in self.shares.items()
        }

    def promised(self, level: Level) -> float:
        """Return the privacy of a level: the share of every column that its copies hide."""
        place = level.thousandths
        # privacy rises with the level, so the largest p whose level is not above this one
        fits = [p for p, needed in enumerate(self.needed, start=1) if 0 < needed <= place]
        return max(fits, default=0) / THOUSANDTHS

    def level_of(self, thousandths: int) -> Level | None:
        """Return the least level that hides so many thousandths of every column, if one does.

        Where that is not the level of this privacy itself, perhaps one of little more noise that
        takes less time.
        """
        needed = self.needed[thousandths - 1]
        chosen = level_nearby(needed) if 0 < needed != thousandths else needed
        return Level(LATTICE[chosen - 1]) if chosen else None

    @property
    def highest(self) -> float:
        """The highest privacy that can be had."""
        return max((p for p, needed in enumerate(self.needed, 1) if needed), default=0) / 1000

    @property
    def worst(self) -> str:
        """The column of which the noisiest copy hides least."""
        return min(self.shares, key=lambda name: self.shares[name][-1])

    def near_ceiling(self, privacy: float) -> list[str]:
        """Name the columns of which no noise hides much more than a privacy."""
        return [
            name
            for name, most in self.ceilings.items()
            if most < 1 - LITTLE and privacy > NEAR_CEILING * most
        ]


def unreachable(hidden: Hidden, unit: str | None = None, *, remedies: bool = True) -> str:
    """Return what prevents a higher privacy, and with `remedies` what to do about it."""
    worst = hidden.worst
    most, reason = hidden.ceilings.get(worst, hidden.highest), ""
    if unit is not None and most > hidden.highest + LITTLE:
        return (
            f"the highest privacy is {hidden.highest:g}. Of {worst}, all rows of a person "
            f"({unit}) together reveal the rest, whatever the noise: its mean or its changes are "
            "nearly the same in all persons, or follow from how many rows a person has. Drop it, "
            "or name it as the time if it states when a row was"
        )
    bound = hidden.bounds.get(worst)
    if bound is not None and bound.share > LITTLE:
        alone = "" if bound.by.kind == "together" else " alone"
        reason = f"; {bound.by}{alone} {bound.by.verb} {bound.share:.0%}"
    return (
        f"the highest privacy is {hidden.highest:g}. Of {worst}, no noise hides more than "
        f"{most:.1%}: what copies show without noise reveals the rest{reason}"
        f"{''.join(f'. {each}' for each in _helpful(hidden)) if remedies else ''}"
    )


def _helpful(hidden: Hidden) -> Iterator[str]:
    """Yield what raises the highest privacy, with what it costs, the best first."""
    for remedy in hidden.remedies:
        if remedy.highest > hidden.highest + 0.01:
            cost = ""
            if remedy.needed is not None:
                cost = f", and a copy at 0.5 is worth {worth(remedy.needed):.0%} of the rows"
            what = f"{remedy}, privacy up to {remedy.highest:g} is possible{cost}"
            yield f"{what[0].upper()}{what[1:]}"


# --------------------------------------------------------------------------------------------------
# What an adversary who knows how rows are distributed leaves of each column, at any level.


PLACES = (100, 200, 300, 400, 500, 600, 700, 800, 900, 970, 999)
"""The levels at which it is measured, in thousandths; between them shares rise linearly."""


@dataclass(frozen=True)
class JointShares:
    """The share of each column's variance that was left at the levels PLACES; empty if it was not
    measured."""

    shares: Mapping[str, tuple[float, ...]]

    def at(self, level: Level) -> dict[str, float]:
        """Return what is left at a level of the lattice."""
        return {
            name: float(_between(known, np.array(level.thousandths)))
            for name, known in self.shares.items()
        }

    def place_of(self, thousandths: int) -> int | None:
        """Return the least level, in thousandths, at which so many of each column are left.

        >>> known = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
        >>> JointShares({"wage": known}).place_of(500)
        600
        """
        if not self.shares:
            return None
        places = np.arange(1, 1 + len(LATTICE))
        least = np.min([_between(known, places) for known in self.shares.values()], axis=0)
        enough = np.flatnonzero(least >= thousandths / THOUSANDTHS - 1e-9)
        return int(places[enough[0]]) if len(enough) else None


def _between(known: Sequence[float], places: Floats | Ints) -> Floats:
    """Return shares at some levels, from those at PLACES; nothing is left without noise."""
    return np.asarray(np.interp(places, (0, *PLACES), (0.0, *known)))
