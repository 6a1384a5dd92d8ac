"""What a level is: noise v, or equivalently privacy p.

    Y(v) = X + W(v),  W(v) ~ N(0, v K)          p = v / (1 + v)          v = p / (1 - p)

`noise` is the variance of the noise as a multiple of the table's own covariance
K. `privacy` is the share of the table's variance that the best linear estimate
from the copy cannot recover. They are the same thing in two units, and there is
no third one.

A vault releases at the levels of a lattice, privacy 1/1000 to 999/1000, and the path
enters them in one fixed order: tenths first, then hundredths, then thousandths. So the
noise of a level never depends on which levels were released before it.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

from cornerwave.errors import LevelError

THOUSANDTHS = 1000

HALF = THOUSANDTHS // 2
"""Privacy 0.5, in thousandths."""

LATTICE = tuple(k / (THOUSANDTHS - k) for k in range(1, THOUSANDTHS))
"""The noise of every level of the lattice, ascending: entry k - 1 has privacy k/1000."""

_DIGITS = (5, 2, 7, 1, 3, 6, 8, 4, 9)
"""The order in which the nine points between two others are entered: each needs few before it."""


def lattice_order() -> list[float]:
    """Return the lattice in the order in which the path enters it: a constant of the format.

    >>> [round(privacy_of(noise), 3) for noise in lattice_order()[:4]]
    [0.5, 0.2, 0.7, 0.1]
    """
    return [
        LATTICE[start + digit * step - 1]
        for step in (100, 10, 1)
        for digit in _DIGITS
        for start in range(0, THOUSANDTHS, 10 * step)
    ]


def noise_of(privacy: float) -> float:
    """Return the noise of a privacy, rounded once from the decimal that was written.

    Raises LevelError unless 0 < privacy < 1.

    >>> noise_of(0.5), noise_of(0.8)
    (1.0, 4.0)
    """
    privacy = _number(privacy, unit="privacy")
    if not 0 < privacy < 1:
        raise LevelError(
            f"privacy must lie strictly between 0 and 1, not {privacy!r}; "
            "0.1 hides little, 0.9 hides much"
        )
    written = Fraction(repr(privacy))
    return checked_noise(float(written / (1 - written)))


def privacy_of(noise: float) -> float:
    """Return the privacy of a noise.

    >>> privacy_of(4.0)
    0.8
    """
    exact = Fraction(checked_noise(noise))
    return float(exact / (1 + exact))


def retention(noise: float) -> float:
    """Return q = 1/sqrt(1+v), the share of category cells that keep their value.

    >>> retention(3.0)
    0.5
    """
    return 1.0 / math.sqrt(1.0 + noise)


COPIED = 1 / 7
"""Of what exchanges what persons show, the share that copies it: the rest swaps."""


def worth(noise: float) -> float:
    """Return 1 / (1+v), the share of the rows that give a mean as precisely as a copy does.

    >>> worth(1.0)
    0.5
    """
    return 1.0 / (1.0 + noise)


def checked_noise(noise: float) -> float:
    """Return `noise` as a float; raise LevelError unless it is positive and finite."""
    noise = _number(noise, unit="noise")
    if not (math.isfinite(noise) and noise > 0):
        raise LevelError(
            f"noise must be a finite number greater than 0, not {noise!r}; "
            "1.0 adds noise of the table's own size"
        )
    return noise


def _number(value: float, *, unit: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise LevelError(f"{unit} must be a number, not {type(value).__name__}") from None
    except OverflowError:
        raise LevelError(f"{unit} must be a finite number, this one is too large") from None


@dataclass(frozen=True, order=True, slots=True)
class Level:
    """A trust level: one reading of the secret path.

    >>> Level.of(privacy=0.5)
    Level(noise=1.0)
    >>> Level.of(noise=4).privacy
    0.8
    """

    noise: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", checked_noise(self.noise))

    @classmethod
    def of(cls, *, noise: float | None = None, privacy: float | None = None) -> "Level":
        """Make a level from exactly one of its two units."""
        if (noise is None) == (privacy is None):
            raise LevelError("give exactly one of noise and privacy")
        if noise is not None:
            return cls(noise)
        assert privacy is not None
        return cls(noise_of(privacy))

    @property
    def privacy(self) -> float:
        """The same level as a share of variance that stays hidden."""
        return privacy_of(self.noise)

    @property
    def thousandths(self) -> int:
        """The place of this level on the lattice: its privacy is that many thousandths.

        Raises LevelError for a level that is not on it.
        """
        place = bisect_left(LATTICE, self.noise)
        if place == len(LATTICE) or LATTICE[place] != self.noise:
            raise LevelError(f"noise {self.noise!r} is not a level of the lattice")
        return place + 1

    def on_lattice(self) -> "Level":
        """Return the least level of the lattice that has this noise or more.

        >>> Level.of(privacy=0.33333).on_lattice().privacy
        0.334
        """
        place = bisect_left(LATTICE, self.noise)
        if place == len(LATTICE):
            raise LevelError(
                f"privacy {self.privacy:g} (noise {self.noise:g}) is beyond the highest level of a "
                f"vault, privacy 0.999 (noise {LATTICE[-1]:g})"
            )
        return Level(LATTICE[place])


LINEAR, BAYES = ADVERSARIES = ("linear", "bayes")
"""From whom a privacy is hidden."""


@dataclass(frozen=True, order=True, slots=True)
class Privacy:
    """A share of the variance of every column that a whole copy must hide.

    Which level that takes depends on the table: columns that reveal each other need more
    noise than v = p/(1-p). `against` is from whom: LINEAR, the best linear estimate, which is
    what a copy promises; or BAYES, also an adversary who knows how rows are distributed, as
    measured at registration.

    >>> Privacy(0.8)
    Privacy(share=0.8, against='linear')
    """

    share: float
    against: str = LINEAR

    def __post_init__(self) -> None:
        noise_of(self.share)  # refuses what is not a privacy
        if self.against not in ADVERSARIES:
            raise LevelError(
                f"there is no adversary {self.against!r}; choose {' or '.join(ADVERSARIES)}"
            )
        object.__setattr__(self, "share", float(self.share))

    @property
    def thousandths(self) -> int:
        """The share in thousandths, rounded up."""
        return Level.of(privacy=self.share).on_lattice().thousandths


def asked_for(
    *, noise: float | None, privacy: float | None, against: str = LINEAR
) -> Level | Privacy:
    """Return what exactly one of two units asks for: raw noise, or a privacy of the whole copy."""
    if (noise is None) == (privacy is None):
        raise LevelError("give exactly one of noise and privacy")
    if privacy is not None:
        return Privacy(privacy, against)
    if against != LINEAR:
        raise LevelError("an adversary chooses the noise of a privacy; give privacy, not noise")
    assert noise is not None
    return Level(noise)
