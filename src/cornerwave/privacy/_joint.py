"""What copies hide of each column, measured from a sample of rows: recorded at registration.

And what would lower the noise that a privacy takes, or raise the highest privacy: each measured.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.levels import HALF, LATTICE, THOUSANDTHS, Level
from cornerwave.passes import one_thread
from cornerwave.privacy._hidden import Hidden, Remedy
from cornerwave.privacy._joint_sample import MOST_REFRESHED, JointSample, indicators
from cornerwave.privacy._open_columns import OpenColumn, Shown
from cornerwave.privacy._persons import PersonRows, hidden_of_persons
from cornerwave.privacy._whole_copy import WholeCopy

CLOSE = 0.5
"""Of two categories one predicts at least this share of the other, if it makes sense to join
them."""

HUNDREDTHS = slice(9, None, 10)
"""Levels 0.01, 0.02, ... of the lattice, at which shares are recorded."""


FEW = 100
"""Products of fewer coordinates are over sooner than a second thread of BLAS has begun: it would
wait busily, as long as others use the processor."""


def measure_hidden(sample: JointSample, persons: Sequence[PersonRows] = ()) -> Hidden:
    """Measure what copies hide of each column, from a sample of rows, and of persons."""
    with one_thread("blas") if len(sample.coordinates) < FEW else nullcontext():
        return _measured_hidden(sample, persons)


def _measured_hidden(sample: JointSample, persons: Sequence[PersonRows]) -> Hidden:
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


# --------------------------------------------------------------------------------------------------
# Remedies.


MOST_REMEDIES = 3

"""Privacy 0.5, in thousandths: what a remedy saves is stated as the noise that this takes."""

TRIAL_ROWS = 1 << 12
"""Rows on which remedies are tried."""

MUCH_REVEALED = 0.2
"""Remedies are tried for columns of which F reveals more than this."""

BANDS = (3, 5, 10)
"""Bands that a kept number is tried in. Of real tables that lost a column, 3 bands helped half, 10
a third."""


def levels_needed(hidden: Mapping[str, Floats]) -> tuple[int, ...]:
    """Return the least level that hides 1, 2, ... 999 thousandths of every column; 0 for none."""
    nothing = np.array(LATTICE) / (1 + np.array(LATTICE))  # where no column varies
    least = np.maximum.accumulate(np.min([nothing, *hidden.values()], axis=0))
    wanted = np.arange(1, THOUSANDTHS) / THOUSANDTHS
    places = np.searchsorted(least, wanted - 1e-12)
    return tuple(np.where(places < len(least), places + 1, 0).tolist())


def noisy_remedies(
    copy: WholeCopy, hidden: Mapping[str, Floats], needed: Sequence[int]
) -> Iterator[Remedy]:
    """Yield what would lower the noise for half of every column, if it is raised at all."""
    if needed[HALF - 1] == HALF or copy.even or not copy.categories:
        return
    # what is computed is hidden as its sources are
    worst = min(copy.names, key=lambda name: hidden[name][HALF])
    shares = copy.predicted_by(worst)
    for other in sorted(shares, key=lambda name: -shares[name])[:MOST_REMEDIES]:
        yield _measured(Remedy("drop", (other,)), copy.without(other))
        joined = copy.joined(worst, other)
        if joined is not None:
            yield _measured(Remedy("together", (worst, other)), joined)


def open_remedies(
    sample: JointSample, copy: WholeCopy, *, of_persons: bool = False
) -> Iterator[Remedy]:
    """Yield what can be done about the columns of F that reveal most of a column, best first.

    Each is tried on the first rows of the sample, and measured as the whole is. Gaps in the numbers
    `of_persons` cannot be hidden: the column is left out.
    """
    ceilings = {name: copy.ceilings()[name] for name in copy.names}
    worst = min(ceilings.items(), key=lambda each: each[1], default=("", 1.0))
    if worst[1] > 1 - MUCH_REVEALED:
        return
    alone = copy.revealed_alone(worst[0])
    trial = sample.first(TRIAL_ROWS)
    by_share = sorted(alone, key=lambda by: -alone[by])
    sources = dict.fromkeys(source for by in by_share for source in copy.by_open.sources[by])
    tried = [
        _measured(remedy, changed)
        for source in list(sources)[:MOST_REMEDIES]
        for remedy, changed in _changed(trial, source, of_persons=of_persons)
    ]
    yield from sorted(tried, key=lambda each: -each.highest)[:MOST_REMEDIES]


def _measured(remedy: Remedy, changed: WholeCopy) -> Remedy:
    """Return a remedy with what it brings."""
    needed = levels_needed(changed.hidden())
    half = needed[HALF - 1]
    highest = max((p for p, level in enumerate(needed, 1) if level), default=0) / THOUSANDTHS
    return replace(remedy, needed=LATTICE[half - 1] if half else None, highest=highest)


def _changed(
    sample: JointSample, shown: Shown, *, of_persons: bool
) -> Iterator[tuple[Remedy, WholeCopy]]:
    """Yield the copy with a column of F dropped, in bands, or refreshed as a category."""
    [feature] = [each for each in sample.features if each.shown == shown]
    others = [each for each in sample.features if shown not in each.sources]
    columns = (feature.name,)
    numbers = {each.column for each in sample.coordinates[: len(sample.excess)]}
    is_gaps = feature.kind == "gaps"
    changed = WholeCopy.of(replace(sample, features=others))
    if is_gaps and of_persons and feature.column in numbers:
        yield Remedy("drop", (feature.column,)), changed.without(feature.column)
    else:
        yield Remedy("hide" if is_gaps else "drop", columns), changed
    if is_gaps or feature.values == len(feature.codes):  # a key is an identifier
        return
    if feature.numbers is not None:
        for bands in BANDS:
            if feature.values > bands:
                coarse = OpenColumn(feature.name, feature.banded(bands))
                remedy = Remedy("bands", columns, bands=bands)
                yield remedy, WholeCopy.of(replace(sample, features=[*others, coarse]))
    if feature.values <= MOST_REFRESHED:
        none_missing = np.zeros(len(feature.codes), dtype=bool)
        categories = indicators(feature.name, feature.name, feature.codes, none_missing)
        refreshed = [*sample.coordinates, *categories]
        changed = WholeCopy.of(replace(sample, coordinates=refreshed, features=others))
        yield Remedy("refresh", columns), changed
