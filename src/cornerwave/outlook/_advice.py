"""What registration learned, in the words of who decides: what exposes what, its cost, what to do.

A column of variance s^2, of which another reveals the share R^2, is known from that one to within

    1.645 s sqrt(1 - R^2)       half a 90 % interval, on the column's scale and in its own units

The figures behind the sentences, shares of variance and noise, are `details`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.columns import listed
from cornerwave.levels import HALF, THOUSANDTHS, Level, worth
from cornerwave.outlook._outlook import Outlook, half_width, in_units, noise_width
from cornerwave.privacy import Hidden, MostRevealing, Remedy, unreachable
from cornerwave.risks import share
from cornerwave.spine.frozen import BURIED, Frozen

HIGH = 0.8
"""If so high a privacy is not possible, the reason is stated before anybody asks for it."""
MOST_NAMED, MOST_DETAILED = 3, 8
"""So many columns that others expose are named in sentences, and in the figures."""
NOISE_OF_HALF = 1.0
"""The noise that privacy 0.5 takes where no column reveals another."""
MUCH = 0.2
"""A column that loses a larger share of what is hidden to its distribution is named."""
LITTLE = 0.05
"""Noise that differs by a smaller share is not worth a sentence."""
WORTH_NAMING = 0.2
"""A column that reveals less of another is not named."""
COSTLY = 0.2
"""Noise that is larger by such a share than without any column that reveals another is stated."""
LEAST_SAVED, SAVED_BY_DROPPING = 0.05, 0.3
"""A change is recommended that saves such a share of the noise; more if a column is lost by it."""
KEEP = "keep these choices: no change of them makes copies much more precise"

_SHARES = ((0.95, "nearly all"), (0.6, "most"), (0.4, "about half"), (0.0, "a part"))


@dataclass(frozen=True)
class Advice:
    """What an owner should know and do: sentences, the figures behind them, one recommendation.

    `recommended` is what to change, or that nothing is, with the reason; '' if nothing is wrong.
    `change` is that change.
    """

    sentences: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    recommended: str = ""
    change: Remedy | None = None

    def lines(self, *, details: bool = False) -> list[str]:
        """Return all of it, the recommendation at the end; figures only if they are wanted."""
        last = [f"recommended: {self.recommended}"] if self.recommended else []
        return [*self.sentences, *(self.details if details else ()), *last]


def advice(frozen: Frozen) -> Advice:
    """Return what registration learned that an owner decides by."""
    hidden = frozen.hidden
    people = () if frozen.people is None else frozen.people.sentences(frozen.schema)
    half = hidden.level_of(HALF)
    noise = NOISE_OF_HALF if half is None else half.noise
    limit = (
        [unreachable(hidden, frozen.schema.unit, remedies=False)] if hidden.highest < HIGH else []
    )
    found = (*_exposed(frozen), *_buried(frozen, noise), *limit, *_cost(frozen))
    linked = [] if half is None else [*_linked(frozen, half)]
    change = _change(frozen) if found else None
    return Advice(
        (*people, *found, *linked),
        tuple(_figures(frozen)),
        _recommended(frozen, found, change),
        change,
    )


def _linked(frozen: Frozen, half: Level) -> Iterator[str]:
    """Yield whether rows, or persons, are found at privacy 0.5 by somebody who knows them."""
    linkage = frozen.linkage.at(half)
    if linkage is not None and linkage.linked > MUCH_FOUND:
        what = "a row finds it" if frozen.people is None else "a person’s rows finds them"
        yield (
            f"at privacy 0.5, somebody who knows all of {what} in a copy in "
            f"{share(linkage.linked)} of cases, and in {share(linkage.worst)} of the tenth that is "
            "easiest to find; the noise can be chosen by the share that is found, instead of by a "
            "privacy"
        )


MUCH_FOUND = 0.01
"""If a larger share of the rows is found at privacy 0.5, the owner is told."""


def recognised(known: Sequence[Outlook]) -> Iterator[str]:
    """Yield a sentence on columns that a joint adversary who knows the distribution recovers."""
    half = next((each for each in known if each.privacy == HALF / THOUSANDTHS), None)
    if half is None:
        return
    least = {
        name: left
        for name, left in sorted(half.bayes.items(), key=lambda each: each[1])
        if left < half.hidden[name] * (1 - MUCH)
    }
    if least:
        named = [f"{left:.0%} of {name}" for name, left in least.items()][:MOST_DETAILED]
        more = f" and little of {len(least) - len(named)} columns more" * (len(least) > len(named))
        yield (
            "at privacy 0.5, a joint adversary who knows how rows are distributed left only "
            f"{', '.join(named)}{more}; others may recover more. The noise can be chosen "
            "against bayes, so that a share stays hidden from this adversary too"
        )


# --- which column is exposed by which -----------------------------------------------------


def _strongest(hidden: Hidden) -> list[tuple[str, MostRevealing]]:
    """Return what reveals most of each column, if it is worth a word, the most revealed first."""
    sorted_ = sorted(hidden.strongest.items(), key=lambda each: -each[1].share)
    return [(name, most) for name, most in sorted_ if most.share >= WORTH_NAMING]


def _exposed(frozen: Frozen) -> Iterator[str]:
    """Yield which column is exposed by which, in its own units."""
    strongest = _strongest(frozen.hidden)
    for name, most in strongest[:MOST_NAMED]:
        bound = frozen.hidden.bounds.get(name)
        is_shown = bound is not None and bound.by == most.by
        what = ", which copies show without noise" if is_shown else ""
        yield f"{name} is exposed by {most.by}{what}: {_meaning(frozen, name, most)}"
    if more := [name for name, _ in strongest[MOST_NAMED:]]:
        yield f"others that columns expose: {listed(more[:MOST_DETAILED], str)}" + (
            f" and {len(more) - MOST_DETAILED} more" if len(more) > MOST_DETAILED else ""
        )


def _meaning(frozen: Frozen, column: str, most: MostRevealing) -> str:
    """Return what a share that is revealed of a column means, in its own units if it has some."""
    share, it = most.share, "it" if most.by.kind in ("column", "part") else "them"
    if column in frozen.schema.perturbed:
        known, blind = (half_width(frozen, column, left) for left in (1 - share, 1.0))
        if known is not None and blind is not None:
            unit = frozen.schema.column(column).unit
            return (
                f"from {it} alone a value is known to within ±{in_units(known, unit)}; "
                f"without {it}, ±{in_units(blind, unit)}"
            )
    return f"{next(word for least, word in _SHARES if share >= least)} of it follows from that"


def _buried(frozen: Frozen, noise: float) -> Iterator[str]:
    """Yield which columns alone have noise out of all proportion at a noise, or that all have."""
    if noise >= BURIED:
        yield (
            f"{_given(frozen.hidden)}privacy 0.5 would bury every column: the noise has "
            f"{_times(noise)}"
        )
        return
    shape = zip(np.diag(frozen.covariance), np.diag(frozen.excess), strict=True)
    # v S_jj / K_jj
    times = [noise * (1 + more / variance) if variance > 0 else 0.0 for variance, more in shape]
    names = [n for n, each in zip(frozen.schema.perturbed, times, strict=True) if each >= BURIED]
    if names:
        yield (
            f"privacy 0.5 would bury {listed(names)}: missing values leave so uncertain how these "
            f"vary that their noise has up to {_times(max(times))}; see drop"
        )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times the variance of the values"


def _given(hidden: Hidden) -> str:
    """Return what a sentence on noise begins with, if columns without noise are the reason."""
    shown = listed([*dict.fromkeys(each.by.name for each in hidden.bounds.values())])
    return f"given what copies show without noise ({shown}), " if shown else ""


def _cost(frozen: Frozen) -> Iterator[str]:
    """Yield what it costs that columns reveal each other, in rows and in a column's own units."""
    half = frozen.hidden.level_of(HALF)
    if half is None or not NOISE_OF_HALF * (1 + COSTLY) < half.noise < BURIED:
        return
    yield (
        f"so that half of every column stays hidden (privacy 0.5), a copy is worth "
        f"{worth(half.noise):.0%} of the rows for a mean instead of {worth(NOISE_OF_HALF):.0%}"
        f"{_noise_in_units(frozen, half.noise)}"
    )


def _noise_in_units(frozen: Frozen, noise: float) -> str:
    """Return what noise means for the number that others expose most."""
    names = [n for n, _ in _strongest(frozen.hidden) if n in frozen.schema.perturbed]
    for name in names:
        now, otherwise = (noise_width(frozen, name, each) for each in (noise, NOISE_OF_HALF))
        if now is not None and otherwise is not None:
            unit = frozen.schema.column(name).unit
            return (
                f", and {name} in it lies within ±{in_units(now, unit)} of the true one instead of "
                f"±{in_units(otherwise, unit)}"
            )
    return ""


# --- the figures, and what to change ------------------------------------------------------


def _figures(frozen: Frozen) -> Iterator[str]:
    """Yield shares of variance, and noise as multiples of the covariance."""
    hidden = frozen.hidden
    strongest = _strongest(hidden)
    yield from (each.of(name) for name, each in strongest[:MOST_DETAILED])
    if more := len(strongest) - MOST_DETAILED if len(strongest) > MOST_DETAILED + 1 else 0:
        yield f"and of {more} columns more, {WORTH_NAMING:.0%} or above is revealed"
    half = hidden.level_of(HALF)
    if half is None or half.noise <= NOISE_OF_HALF * (1 + LITTLE):
        return
    yield (f"{_given(hidden)}privacy 0.5 takes noise {half.noise:.3g} instead of {NOISE_OF_HALF:g}")
    if frozen.schema.unit is not None:  # what remedies bring is measured for rows alone
        return
    for remedy in hidden.remedies:
        if remedy.needed is not None and remedy.needed < half.noise * (1 - LITTLE):
            yield f"{remedy} it would take {remedy.needed:.3g}"


def _recommended(frozen: Frozen, found: Sequence[str], change: Remedy | None) -> str:
    """Return what to change, with its reason, if something was found that is worth a word."""
    if not found or frozen.schema.unit is not None:
        return ""
    return KEEP if change is None else f"{change.to_do}: {_gain(frozen.hidden, change)}"


def recommended_change(frozen: Frozen) -> str:
    """Return what to change about the choices, with its reason; '' if nothing is worth it."""
    change = _change(frozen)
    return "" if change is None else f"{change.to_do}: {_gain(frozen.hidden, change)}"


def _change(frozen: Frozen) -> Remedy | None:
    """Return the change that is recommended: what changes bring is measured for rows alone."""
    return None if frozen.schema.unit is not None else _best_change(frozen.hidden)


def _best_change(hidden: Hidden) -> Remedy | None:
    """Return the change that is worth most: more privacy that is possible, or less noise."""
    half = hidden.level_of(HALF)
    gains: dict[Remedy, float] = {}
    for each in hidden.remedies:
        least = SAVED_BY_DROPPING if each.action == "drop" else LEAST_SAVED
        if half is None or hidden.highest < HIGH:
            gain, least = each.highest - hidden.highest, least * (1 - hidden.highest)
        else:
            gain = 0.0 if each.needed is None else 1 - each.needed / half.noise
        if gain >= least:
            # of changes that save about as much, one that keeps all columns
            gains[each] = gain * LEAST_SAVED / least
    return max(gains, key=lambda each: gains[each], default=None)


def _gain(hidden: Hidden, change: Remedy) -> str:
    """Return why a change is recommended."""
    half, now = hidden.level_of(HALF), ""
    if half is None or hidden.highest < HIGH:
        now = f"privacy up to {change.highest:g} is possible then instead of {hidden.highest:g}"
    if change.needed is not None:
        before = "" if half is None else f" instead of {worth(half.noise):.0%}"
        rows = f"a copy at privacy 0.5 is worth {worth(change.needed):.0%} of the rows{before}"
        now = f"{now}, and {rows}" if now else rows
    return now + (", and no column is lost" if change.action != "drop" else "")
