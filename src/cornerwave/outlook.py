"""Which privacy to pick: what each hides, in the columns' own units, and what it costs a recipient.

half a 90 % interval of a value     1.645 s sqrt(hidden)       (s: the column's deviation)
standard error of a mean            sqrt(1 + v) times the original's
of a regression coefficient         about 1 + v times: both sides carry noise
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit import Exposed, count_exposed
from cornerwave.coalition import Law, guess
from cornerwave.frozen import Frozen
from cornerwave.levels import Level, Privacy
from cornerwave.miner import CopyColumn, number_blocks
from cornerwave.table import Source

SHOWN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_HALF = NormalDist().inv_cdf(0.95)


@dataclass(frozen=True)
class Outlook:
    """What a privacy means for one dataset.

    `hidden` is the share of each column's variance that stays hidden, `within` how far a typical
    value of a number is hidden, in its own units (columns on a scale of their own are left out),
    `right` how often the best guess of a category is right, `blind` how often without a copy;
    `stand_out` is how many records the noise does not hide, None if they were not counted.
    """

    privacy: float
    level: Level
    hidden: Mapping[str, float]
    within: Mapping[str, float]
    right: Mapping[str, float]
    blind: Mapping[str, float]
    units: Mapping[str, str | None]
    stand_out: int | None = None

    def said(self, column: str) -> str:
        """Say what stays hidden of a column in words that its owner uses."""
        if column in self.within:
            return f"±{in_units(self.within[column], self.units[column])}"
        if column in self.right:
            return f"{self.right[column]:.0%} right"
        return f"{self.hidden[column]:.0%} hidden"

    @property
    def mean_error(self) -> float:
        """The standard error of a mean, as a multiple of the original's."""
        return float(np.sqrt(1 + self.level.noise))

    @property
    def regression_error(self) -> float:
        """About that of a regression coefficient."""
        return 1 + self.level.noise


def outlooks(frozen: Frozen, source: Source | None = None) -> list[Outlook]:
    """Return what the privacies SHOWN mean; those that no level reaches are left out.

    The records that stand out are counted in the source, if it is given.
    """
    chosen = {p: frozen.hidden.level_of(Privacy(p).thousandths) for p in SHOWN}
    levels = {p: level for p, level in chosen.items() if level is not None}
    counts: Sequence[int | None] = [None] * len(levels)
    if source is not None:
        counts = stand_out(frozen, source, [each.noise for each in levels.values()]).rows.tolist()
    return [
        _outlook(frozen, privacy, level, count)
        for (privacy, level), count in zip(levels.items(), counts, strict=True)
    ]


def _outlook(frozen: Frozen, privacy: float, level: Level, count: int | None) -> Outlook:
    names, hidden = frozen.schema.perturbed, frozen.hidden.at(level)
    deviation = dict(zip(names, np.sqrt(np.diag(frozen.covariance)), strict=True))
    plain = [name for name, scale in zip(names, frozen.scales, strict=True) if scale.name is None]
    guesses = {
        "+".join(each.columns): guess(Law(each.counts, each.base), [level.noise])
        for each in frozen.categories
    }
    return Outlook(
        privacy=privacy,
        level=level,
        hidden=hidden,
        within={
            name: float(_HALF * deviation[name] * np.sqrt(hidden[name]))
            for name in plain
            if name in hidden
        },
        right={name: each.best for name, each in guesses.items()},
        blind={name: each.blind for name, each in guesses.items()},
        units={name: frozen.schema.column(name).unit for name in names},
        stand_out=count,
    )


_SPANS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


def in_units(value: float, unit: str | None = None) -> str:
    """Write a distance between values with three digits; one in time as people say it.

    >>> in_units(18520.3), in_units(0.12345), in_units(7200.0, "seconds"), in_units(400.0, "days")
    ('18,500', '0.123', '2 hours', '400 days')
    """
    if unit is not None:
        seconds = value * 86400 if unit.startswith("days") else value
        name, size = next((span for span in _SPANS if seconds >= span[1]), _SPANS[-1])
        return f"{in_units(seconds / size)} {name}"
    digits = float(f"{value:.3g}")
    return f"{digits:,.0f}" if 1000 <= digits < 1e9 else f"{digits:g}"


def stand_out(frozen: Frozen, source: Source, noise: Sequence[float]) -> Exposed:
    """Count the records of a registered table that copies at each noise do not hide."""
    return count_exposed(
        (frozen.scaled(block) for block in _numbers(source, frozen.schema.perturbed)),
        rows=frozen.rows,
        mean=frozen.mean,
        covariance=frozen.covariance,
        noise=noise,
    )


def _numbers(source: Source, names: Sequence[str]) -> Iterator[Floats]:
    """Yield blocks (columns, rows) of a table's numbers."""
    columns = [CopyColumn(name, is_number=True) for name in names]
    for block in number_blocks(source, columns) if columns else ():
        yield np.ascontiguousarray(block.T)


def explained(frozen: Frozen) -> Iterator[str]:
    """Yield sentences: which columns tell which, and what would lower the noise."""
    hidden = frozen.hidden
    for name, (teller, share) in sorted(hidden.tellers.items(), key=lambda each: -each[1][1]):
        if share >= WORTH_SAYING:
            yield f"{teller} tells {share:.0%} of {name}"
    half = hidden.level_of(HALF)
    if half is None or half.noise <= NOISE_OF_HALF * (1 + LITTLE):
        return
    yield f"so privacy 0.5 takes noise {half.noise:.3g} instead of {NOISE_OF_HALF:g}"
    for remedy in hidden.remedies:
        if remedy.needed < half.noise * (1 - LITTLE):
            what = " and ".join(remedy.columns)
            doing = f"without {what}" if remedy.action == "drop" else f"with {what} together"
            yield f"{doing} it would take {remedy.needed:.3g}"


HALF, NOISE_OF_HALF = 500, 1.0
"""Privacy 0.5 in thousandths, and the noise that it takes where no column tells another."""
LITTLE = 0.05
"""Noise that differs by a smaller share is not worth a sentence."""
WORTH_SAYING = 0.2
"""A column that tells less of another is not named."""
