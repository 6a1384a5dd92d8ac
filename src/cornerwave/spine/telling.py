"""What a copy at a level tells about a person, and the least level at which it tells no more.

All of it falls as the noise rises. Copies of a coalition tell as much as its least noisy one.
"""

from bisect import bisect_left

from cornerwave.errors import LevelError
from cornerwave.levels import LATTICE, Level
from cornerwave.risks import Risks, bits_of_category, bits_of_numbers, bits_of_person, share
from cornerwave.spine.frozen import Frozen


def risks_at(frozen: Frozen, level: Level) -> Risks:
    """Return what a copy at a level tells about a person."""
    shape, v = frozen.covariance + frozen.excess, level.noise
    bits = bits_of_numbers(frozen.covariance, shape, v)
    bits += sum(bits_of_category(each.counts, each.base, v) for each in frozen.categories)
    linkage, people = frozen.linkage.at(level), frozen.people
    if people is None:
        return Risks(linkage, bits)
    persons = people.persons if frozen.categories else 1
    of_person = bits_of_person(frozen.persons, people.typical, persons, v)
    return Risks(linkage, bits, of_person, people.typical)


def level_at_most(
    frozen: Frozen, *, linked: float | None = None, bits: float | None = None
) -> Level:
    """Return the least level at which a copy links and tells no more than this.

    `linked` is the share of rows that are found by somebody who knows them, at the upper end of its
    interval; `bits` are those of a row, or of a person of typical size. Raises LevelError.
    """
    if linked is None and bits is None:
        raise LevelError("give the most that may be linked, or the most bits")
    levels = [] if linked is None else [_of_linked(frozen, linked)]
    levels += [] if bits is None else [_of_bits(frozen, bits)]
    return max(levels)


def _of_bits(frozen: Frozen, bits: float) -> Level:
    if not bits > 0:
        raise LevelError(f"bits must be a number greater than 0, not {bits:g}")

    def is_enough(noise: float) -> bool:
        return risks_at(frozen, Level(noise)).most_bits <= bits

    place = bisect_left(LATTICE, True, key=is_enough)
    if place == len(LATTICE):
        least = risks_at(frozen, Level(LATTICE[-1])).most_bits
        raise LevelError(f"the noisiest copy tells up to {least:.2g} bits, not {bits:g}")
    return Level(LATTICE[place])


def _of_linked(frozen: Frozen, linked: float) -> Level:
    if not 0 < linked < 1:
        raise LevelError(
            f"linked must lie strictly between 0 and 1, not {linked:g}; 0.01 is one row in 100"
        )
    if not frozen.linkage.measured:
        why = "it is one of several" if frozen.persons else "it has too few rows"
        raise LevelError(
            f"how often rows are found was not measured for this table: {why}. Choose a privacy, "
            "or the most bits"
        )
    level = frozen.linkage.level_of(linked)
    if level is None:
        least = frozen.linkage.measured[-1].high
        raise LevelError(
            f"even in the noisiest copy up to {share(least)} of them may be found by somebody "
            f"who knows them, more than {share(linked)}; kept columns and gaps are shown without "
            "noise"
        )
    return level
