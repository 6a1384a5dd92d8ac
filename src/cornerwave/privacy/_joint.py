"""What copies hide of each column, measured from a sample of rows: recorded at registration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from cornerwave.levels import THOUSANDTHS, Level
from cornerwave.privacy._hidden import Hidden
from cornerwave.privacy._joint_sample import JointSample
from cornerwave.privacy._persons import PersonRows, hidden_of_persons
from cornerwave.privacy._remedies import HALF, levels_needed, noisy_remedies, open_remedies
from cornerwave.privacy._whole_copy import WholeCopy

CLOSE = 0.5
"""Of two categories one predicts at least this share of the other, if it makes sense to join
them."""
HUNDREDTHS = slice(9, None, 10)
"""Levels 0.01, 0.02, ... of the lattice, at which shares are recorded."""


def measure_hidden(sample: JointSample, persons: Sequence[PersonRows] = ()) -> Hidden:
    """Measure what copies hide of each column, from a sample of rows, and of persons."""
    copy = WholeCopy.of(sample)
    hidden = copy.hidden()
    for each in persons:
        of_persons = hidden_of_persons(each)
        for name, sources in copy.computed.sources.items():
            known = [of_persons[source] for source in sources if source in of_persons]
            of_persons |= {name: np.min(known, axis=0)} if known else {}
        hidden = {
            name: np.minimum(shares, of_persons.get(name, shares))
            for name, shares in hidden.items()
        }
    ceilings = copy.ceilings()
    if persons:  # with noise 999, hardly more than the rows of a person show anyway
        ceilings = {name: min(most, float(hidden[name][-1])) for name, most in ceilings.items()}
    needed, bounds = levels_needed(hidden), copy.strongest_open()
    # what is without noise counts beside other noisy columns, whichever reveals more
    strongest = {
        name: max(by_noisy, bounds.get(name, by_noisy), key=lambda each: each.share)
        for name, by_noisy in copy.strongest_noisy().items()
    }
    return Hidden(
        shares={
            name: tuple(np.round(share[HUNDREDTHS], 4).tolist()) for name, share in hidden.items()
        },
        needed=needed,
        strongest={**bounds, **strongest},
        bounds=bounds,
        ceilings=ceilings,
        remedies=(
            *open_remedies(sample, copy, of_persons=bool(persons)),
            *noisy_remedies(copy, hidden, needed),
        ),
    )


def shares_of_persons(persons: Sequence[PersonRows]) -> dict[str, tuple[float, ...]]:
    """Return what copies at privacy 0.01, 0.02, ... of the lattice hide of persons."""
    of_persons: dict[str, tuple[float, ...]] = {}
    for each in persons:
        for name, share in hidden_of_persons(each).items():
            least = np.round(share[HUNDREDTHS], 4)
            of_persons[name] = tuple(np.minimum(least, of_persons.get(name, least)).tolist())
    return of_persons


def lowered(hidden: Hidden, shares: Mapping[str, Sequence[float]]) -> Hidden:
    """Return what is hidden if copies hide no more of some columns than these shares."""
    places = np.arange(1, THOUSANDTHS)
    known = places[HUNDREDTHS]
    least = {
        name: tuple(np.minimum(row, shares.get(name, row)).tolist())
        for name, row in hidden.shares.items()
    }
    # between levels, the share over v / (1 + v) is linear
    fine = {
        name: np.interp(places, known, np.array(least[name]) / known) * places for name in shares
    }
    needed = [
        # a level serves if it serves the table at registration and the persons of now
        max(before, now) if before and now else 0
        for before, now in zip(hidden.needed, levels_needed(fine), strict=True)
    ]
    return replace(hidden, shares=least, needed=tuple(needed))


def hidden_at(sample: JointSample, level: Level) -> dict[str, float]:
    """Return what copies at one level hide of each column, from a sample of rows."""
    hidden = WholeCopy.of(sample).hidden([level.noise])
    return {name: float(share) for name, [share] in hidden.items()}


def close_pairs(sample: JointSample) -> list[tuple[str, str]]:
    """Return pairs of categories to refresh as one, the closest first.

    One of them predicts at least CLOSE of the other, and joining them takes no more noise.
    """
    copy = WholeCopy.of(sample)
    apart = _level_of_half(copy)
    predicted = {name: copy.predicted_by(name) for name in copy.categories}
    shares = {
        (one, other): max(predicted[one][other], predicted[other][one])
        for one, other in combinations(copy.categories, 2)
    }
    close = []
    for pair in sorted(shares, key=lambda pair: -shares[pair]):
        joined = copy.joined(*pair) if shares[pair] >= CLOSE else None
        if joined is not None and _level_of_half(joined) <= apart:
            close.append(pair)
    return close


def _level_of_half(copy: WholeCopy) -> int:
    """Return the least level that hides half of every column; beyond all levels if none does."""
    return levels_needed(copy.hidden())[HALF - 1] or THOUSANDTHS
