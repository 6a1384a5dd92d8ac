"""What a privacy hides, in the columns' own units, and what it costs a recipient.

half a 90 % interval of a value     1.645 s sqrt(hidden)       (s: the column's deviation)
    on a scale g                    (g^-1(t + h) - g^-1(t - h)) / 2 of this h, mean over estimates t
standard error of a mean            sqrt(1 + v) times the original's: as of 1 / (1 + v) of the rows
of a regression coefficient         about 1 + v times: both sides carry noise
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.columns import Scale, chain, to_distances
from cornerwave.document import seconds_of, span_of
from cornerwave.levels import LINEAR, Level, Privacy, worth
from cornerwave.privacy import CategoryDistribution, guess
from cornerwave.risks import Risks
from cornerwave.sources import Source
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.telling import risks_at

if TYPE_CHECKING:
    from cornerwave.audit import Exposed

SHOWN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_HALF_WIDTH = NormalDist().inv_cdf(0.95)
_QUANTILES = [NormalDist().inv_cdf((place + 0.5) / 99) for place in range(99)]


@dataclass(frozen=True)
class Outlook:
    """What a privacy means for one dataset.

    `hidden` is the share of each column's variance that stays hidden, `within` how far a typical
    value of a number is hidden, in its own units,
    `right` how often the best guess of a category is right, `blind` how often without a copy;
    `stand_out` is how many records the noise does not hide, None if they were not counted;
    `bayes` is the share of each column that an adversary who knows how rows are distributed left,
    from all columns of a copy together, as measured at registration: others may recover more.
    It is empty if it was not measured. `risks` is what a copy tells about a person.
    """

    privacy: float
    level: Level
    hidden: Mapping[str, float]
    within: Mapping[str, float]
    right: Mapping[str, float]
    blind: Mapping[str, float]
    units: Mapping[str, str | None]
    stand_out: int | None = None
    bayes: Mapping[str, float] = field(default_factory=dict)
    risks: Risks | None = None

    def in_words(self, column: str) -> str:
        """Return what stays hidden of a column in words that its owner uses."""
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
    def worth(self) -> float:
        """The share of the original's rows that give a mean as precisely as the copy does."""
        return worth(self.level.noise)

    @property
    def regression_error(self) -> float:
        """About that of a regression coefficient."""
        return 1 + self.level.noise


def see(frozen: Frozen, source: Source, noise: Sequence[float]) -> "Exposed":
    """Read a registered table for the records that copies at each noise do not hide."""
    from cornerwave.audit import count_exposed  # not on import: registering needs no audit

    def blocks() -> Iterator[Floats]:
        for block in _numbers(source, frozen.schema.perturbed):
            to_distances(block, frozen.schema.perturbed, frozen.schema.relative)
            yield frozen.scaled(block, partial(_any_draws, block.shape[1]))

    return count_exposed(
        blocks(), rows=frozen.rows, mean=frozen.mean, covariance=frozen.covariance, noise=noise
    )


def outlooks(
    frozen: Frozen,
    source: Source | None = None,
    *,
    against: str = LINEAR,
    privacies: Sequence[float] = SHOWN,
) -> list[Outlook]:
    """Return what privacies mean; those that no level reaches are left out.

    Their levels are chosen against an adversary. The records that stand out are counted in the
    source, if it is given.
    """
    chosen = {p: frozen.level_against(Privacy(p, against)) for p in privacies}
    levels = {p: level for p, level in chosen.items() if level is not None}
    noise = [level.noise for level in levels.values()]
    seen = None if source is None else see(frozen, source, noise)
    return [
        _outlook(frozen, privacy, level, seen, place)
        for place, (privacy, level) in enumerate(levels.items())
    ]


def outlook_of(frozen: Frozen, privacy: float) -> Outlook | None:
    """Return what one privacy means, without the table; None if no level reaches it."""
    level = frozen.hidden.level_of(Privacy(privacy).thousandths)
    return None if level is None else _outlook(frozen, privacy, level)


def outlook_at(frozen: Frozen, level: Level) -> Outlook:
    """Return what a level of the lattice means, without the table."""
    return _outlook(frozen, frozen.hidden.promised(level), level)


def _outlook(
    frozen: Frozen, privacy: float, level: Level, seen: "Exposed | None" = None, place: int = 0
) -> Outlook:
    names, hidden = frozen.schema.perturbed, frozen.hidden.at(level)
    guesses = {
        "+".join(each.columns): guess(CategoryDistribution(each.counts, each.base), [level.noise])
        for each in frozen.categories
    }
    widths = {name: half_width(frozen, name, hidden[name]) for name in names if name in hidden}
    return Outlook(
        privacy=privacy,
        level=level,
        hidden=hidden,
        within={name: width for name, width in widths.items() if width is not None},
        right={name: each.best for name, each in guesses.items()},
        blind={name: each.blind for name, each in guesses.items()},
        units={name: frozen.schema.column(name).unit for name in names},
        stand_out=None if seen is None else int(seen.rows[place]),
        bayes=frozen.left_by_joint(level),
        risks=risks_at(frozen, level),
    )


def half_width(frozen: Frozen, column: str, hidden: float) -> float | None:
    """Return half the width of a 90 % interval of a number of which so large a share is hidden.

    In the column's own units; None for a sum of columns on other scales, which has none.
    """
    known = _scaled(frozen, column)
    if known is None:
        return None
    scale, mean, variance = known
    # estimates vary by what is not hidden
    return _half(scale, mean, variance * hidden, variance * (1 - hidden))


def noise_width(frozen: Frozen, column: str, noise: float) -> float | None:
    """Return within how much nine of ten values of a copy lie of the true ones, as for a width."""
    known = _scaled(frozen, column)
    if known is None:
        return None
    scale, mean, variance = known
    return _half(scale, mean, variance * noise, variance)


def centre_and_spread(frozen: Frozen, column: str) -> tuple[float, float] | None:
    """Return the mean and the deviation of a number, about, in its own units, as for a width."""
    known = _scaled(frozen, column)
    if known is None:
        return None
    scale, mean, variance = known
    values = scale.backward(mean + np.sqrt(variance) * np.array(_QUANTILES))
    return float(values.mean()), float(values.std())


def _scaled(frozen: Frozen, column: str) -> tuple[Scale, float, float] | None:
    """Return a number's scale, and its mean and variance there; None for sums across scales."""
    names = frozen.schema.perturbed
    parts = [names.index(part) for part in chain(column, frozen.schema.relative)]
    if len(parts) > 1 and any(frozen.scales[part].name is not None for part in parts):
        return None
    # of a sum of columns, the sum of their means and covariances
    variance = max(float(frozen.covariance[np.ix_(parts, parts)].sum()), 0.0)
    return frozen.scales[parts[0]], float(frozen.mean[parts].sum()), variance


def _half(scale: Scale, mean: float, around: float, between: float) -> float:
    """Return half of a 90 % interval of a variance, mean over estimates of another variance."""
    half = _HALF_WIDTH * np.sqrt(around)
    if scale.name is None:
        return float(half)
    estimates = mean + np.sqrt(between) * np.array(_QUANTILES)
    return float(np.mean(scale.backward(estimates + half) - scale.backward(estimates - half)) / 2)


def in_units(value: float, unit: str | None = None) -> str:
    """Write a distance between values with three digits; one in time as people write it.

    >>> in_units(18520.3), in_units(0.12345), in_units(7200.0, "seconds"), in_units(400.0, "days")
    ('18,500', '0.123', '2 hours', '400 days')
    """
    if unit is not None:
        seconds = seconds_of(value, unit)
        name, size = span_of(seconds)
        return f"{in_units(seconds / size)} {name}"
    digits = float(f"{value:.3g}")
    return f"{digits:,.0f}" if 1000 <= digits < 1e9 else f"{digits:g}"


def _any_draws(rows: int, column: str) -> Floats:
    """Return draws with the distribution of the keyed ones, the same for every column."""
    return np.random.default_rng(0).random(rows)


def _numbers(source: Source, names: Sequence[str]) -> Iterator[Floats]:
    """Yield blocks (columns, rows) of a table's numbers."""
    from cornerwave.miner import CopyColumn, number_blocks  # not on import, as the audit

    columns = [CopyColumn(name, is_number=True) for name in names]
    for block in number_blocks(source, columns) if columns else ():
        yield np.ascontiguousarray(block.T)
