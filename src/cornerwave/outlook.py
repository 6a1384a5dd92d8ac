"""Which privacy to pick: what each hides, in the columns' own units, and what it costs a recipient.

half a 90 % interval of a value     1.645 s sqrt(hidden)       (s: the column's deviation)
standard error of a mean            sqrt(1 + v) times the original's
of a regression coefficient         about 1 + v times: both sides carry noise
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from cornerwave.coalition import Law, guess
from cornerwave.frozen import Frozen
from cornerwave.levels import Level, Privacy

SHOWN = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_HALF = NormalDist().inv_cdf(0.95)


@dataclass(frozen=True)
class Outlook:
    """What a privacy means for one dataset.

    `hidden` is the share of each column's variance that stays hidden, `within` how far a typical
    value of a number is hidden, in its own units (columns on a scale of their own are left out),
    `right` how often the best guess of a category is right.
    """

    privacy: float
    level: Level
    hidden: Mapping[str, float]
    within: Mapping[str, float]
    right: Mapping[str, float]

    @property
    def mean_error(self) -> float:
        """The standard error of a mean, as a multiple of the original's."""
        return float(np.sqrt(1 + self.level.noise))

    @property
    def regression_error(self) -> float:
        """About that of a regression coefficient."""
        return 1 + self.level.noise


def outlooks(frozen: Frozen) -> Iterator[Outlook]:
    """Yield what the privacies SHOWN mean; those that no level reaches are left out."""
    deviation = dict(zip(frozen.schema.perturbed, np.sqrt(np.diag(frozen.covariance)), strict=True))
    plain = [
        n for n, s in zip(frozen.schema.perturbed, frozen.scales, strict=True) if s.name is None
    ]
    for privacy in SHOWN:
        level = frozen.hidden.level_of(Privacy(privacy).thousandths)
        if level is None:
            return
        hidden = frozen.hidden.at(level)
        yield Outlook(
            privacy=privacy,
            level=level,
            hidden=hidden,
            within={
                name: float(_HALF * deviation[name] * np.sqrt(hidden[name]))
                for name in plain
                if name in hidden
            },
            right={
                "+".join(each.columns): guess(Law(each.counts, each.base), [level.noise]).best
                for each in frozen.categories
            },
        )


def explained(frozen: Frozen) -> Iterator[str]:
    """Yield sentences: which columns tell which, and what would lower the noise."""
    hidden = frozen.hidden
    for name, (teller, share) in sorted(hidden.tellers.items(), key=lambda each: -each[1][1]):
        if share >= WORTH_SAYING:
            yield f"{teller} tells {share:.0%} of {name}"
    half = hidden.level_of(500)
    for remedy in hidden.remedies:
        if half is not None and remedy.needed < 0.95 * half.noise:
            what = " and ".join(remedy.columns)
            doing = f"without {what}" if remedy.action == "drop" else f"with {what} together"
            yield f"privacy 0.5 takes noise {half.noise:.3g}; {doing}, {remedy.needed:.3g}"


WORTH_SAYING = 0.2
"""A column that tells less of another is not named."""
