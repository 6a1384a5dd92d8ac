"""What would lower the noise that a privacy takes, or raise the highest privacy: each measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.levels import LATTICE, THOUSANDTHS
from cornerwave.privacy._hidden import Remedy
from cornerwave.privacy._joint_sample import MOST_REFRESHED, JointSample, indicators
from cornerwave.privacy._open_columns import OpenColumn, Shown
from cornerwave.privacy._whole_copy import WholeCopy

MOST_REMEDIES = 3
HALF = THOUSANDTHS // 2
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
