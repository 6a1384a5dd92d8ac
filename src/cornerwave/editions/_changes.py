"""What copies of several editions leave hidden of rows that changed.

Numbers: a row's values in all editions are one long row of covariance H, which nobody knows: each H
that fits the measured rules is tried, and the least share counts (`privacy.hidden_in_history`).

Categories: how values moved between two editions, over the rows in which they changed.
A category draws by row and value, so each new value of a row is a fresh look at it. Where the old
value predicts the new one (a grade, an age band), copies of several editions are several looks at
one thing, and pooling them uncovers it. Of rows that held the same value and changed, two hold
different new values with probability W; of any two rows of the table, with probability B:

    predicted = 1 - W / B        0 if changes are as varied as the table, 1 if they follow a rule

W is the mean over the old values, each estimated without bias by pairs of rows. B is that of the
new values of the rows that changed or that of the registered table, whichever predicts more:
that a row changed is visible, and may reveal the value too. `predicted` is less three standard
errors of what chance predicts in few rows.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from cornerwave.arrays import Floats, Words
from cornerwave.columns import MISSING_BITS, Categories
from cornerwave.editions._drift import ALLOWANCE, HALF
from cornerwave.editions._edition import Edition, Moved
from cornerwave.errors import ColumnError, Drifted
from cornerwave.levels import Level
from cornerwave.noise import Rules, Transition, drifting_history, noise_across, personal_history
from cornerwave.privacy import hidden_in_history, history_functions
from cornerwave.spine.freeze import Frozen

PLAUSIBLE = 0.5
"""A history whose changes are smaller than this share of those measured is not considered."""


def hidden_after(frozen: Frozen, rules: Sequence[Transition]) -> dict[str, float]:
    """Return what copies of an edition and the one before, at privacy 0.5, hide of changed rows."""
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    return hidden_of_changing(frozen, [(0, level.noise), (1, level.noise)], [rules])


def hidden_of_changing(
    frozen: Frozen, held: Sequence[tuple[int, float]], editions: Sequence[Sequence[Transition]]
) -> dict[str, float]:
    """Return what copies hide of rows that changed in each edition, by its rules.

    `held` are copies: after how many of the `editions`, and their noise. The least share of each
    value, of the mean of all editions and of each change.
    """
    shape, least = frozen.covariance + frozen.excess, dict[str, float]()
    for rules in _sequences(editions):
        # only questions about columns that changed: the others hide what they always did
        moving = sorted({column for rule in rules if rule for column in rule.columns})
        noise = noise_across(shape, rules)
        for history in _histories(shape, rules, moving):
            for name, weights in history_functions(1 + len(rules), len(shape)).items():
                # value, mean and change of each column, as weights on the long row
                asked = weights[np.abs(weights).sum(axis=1)[:, moving].any(axis=1)]
                shares = hidden_in_history(asked, held, history=history, noise=noise)
                least[name] = round(float(np.clip(shares.min(), 0.0, least.get(name, 1.0))), 4)
    return least


def _sequences(editions: Sequence[Sequence[Transition]]) -> Iterator[Rules]:
    """Yield by which rules a row may have changed: in the same columns each time, or in turn."""
    for columns in sorted({rule.columns for some in editions for rule in some}):
        yield [next((rule for rule in some if rule.columns == columns), None) for some in editions]
    for kind in range(max(map(len, editions), default=0)):
        yield [some[min(kind, len(some) - 1)] if some else None for some in editions]


def _histories(shape: Floats, rules: Rules, moving: Sequence[int]) -> Iterator[Floats]:
    """Yield the covariances that a row's values may have: drifting, and of a level of its own.

    The latter only if it fits what was measured: the same columns change each time, and of values
    that grow it leaves no change at all.
    """
    drifting, personal = drifting_history(shape, rules), personal_history(shape, rules)
    yield drifting
    if len({rule.columns for rule in rules if rule}) > 1:
        return
    weights = history_functions(1 + len(rules), len(shape))["change"].reshape(-1, len(drifting))
    # w' H w of each change, for both histories
    sizes = [np.einsum("qi,ij,qj->q", weights, H, weights) for H in (drifting, personal)]
    changes = np.reshape(sizes, (2, -1, len(shape)))[:, :, list(moving)].sum(axis=1)
    if (changes[1] >= PLAUSIBLE * changes[0]).all():
        yield personal


# --------------------------------------------------------------------------------------------------
# Categories: which values moved, and how well the old ones predict the new.


MOVED = 0.25
"""The share of a table's rows that may move predictably, over all editions together. The first
further look at a value uncovers most: at most 0.172 of its variance (p - p/(2 - p) at its largest),
so that all of them cost a column less than 0.05, which is what drift may cost."""


class Moves:
    """Counts from which value to which the rows of each category moved."""

    def __init__(self, categories: Sequence[Categories], encoded: Sequence[str]) -> None:
        """`encoded` names the columns whose words are taken, in their order."""
        self._categories, self._encoded = categories, list(encoded)
        self._pairs: dict[str, Counter[bytes]] = {_name(each): Counter() for each in categories}

    def take(self, old: Words, new: Words) -> None:
        """Take the words (encoded columns, rows) of some rows before and after."""
        for each in self._categories:
            places = [self._encoded.index(column) for column in each.columns]
            before, after = old[places], new[places]
            moved = (before != after).any(axis=0)
            if not each.hides_missing:  # a gap that is visible is no look at the value
                moved &= ((before != MISSING_BITS) & (after != MISSING_BITS)).all(axis=0)
            pairs = np.ascontiguousarray(np.vstack([before, after])[:, moved].T)
            distinct, counts = np.unique(pairs, axis=0, return_counts=True)
            named = zip((pair.tobytes() for pair in distinct), counts.tolist(), strict=True)
            self._pairs[_name(each)].update(dict(named))

    def moved(self) -> dict[str, Moved]:
        """Return how each category moved that changed in some row."""
        return {
            _name(each): moved_of(self._pairs[_name(each)], each.counts)
            for each in self._categories
            if self._pairs[_name(each)]
        }


def moved_of(pairs: Mapping[bytes, int], counts: Sequence[int]) -> Moved:
    """Return how well moves are predicted; a pair is an old value and a new one of as many bytes.

    `counts` are those of the registered values.

    >>> advance = moved_of({b"ab": 500, b"bc": 300, b"ca": 200}, [5, 3, 2])
    >>> advance.rows, advance.predicted > 0.9
    (1000, True)
    """
    before, after = Counter[bytes](), Counter[bytes]()
    for pair, count in pairs.items():
        before[pair[: len(pair) // 2]] += count
        after[pair[len(pair) // 2 :]] += count
    rows = before.total()
    # ordered pairs of rows that held one value, and hold one now
    equal = Counter[bytes]()
    for pair, count in pairs.items():
        equal[pair[: len(pair) // 2]] += count * (count - 1)
    repeated = {value: count for value, count in before.items() if count > 1}
    # of an old value of c rows, two differ with probability 1 - equal / (c (c - 1)), without bias;
    # W weights old values by their rows
    alike = sum(equal[value] / (count - 1) for value, count in repeated.items())
    if not repeated:
        return Moved(rows, 0.0)
    W = 1 - alike / sum(repeated.values())
    # of G groups of rows without any relation, the deviation of W is at most about this
    chance = ALLOWANCE * np.sqrt(len(repeated) / 2) / rows
    varied = (_varied(list(each)) for each in (after.values(), counts))
    predicted = max((1 - (W + chance) / B for B in varied if B > 0), default=0.0)
    return Moved(rows, round(float(np.clip(predicted, 0.0, 1.0)), 4))


def _varied(counts: Sequence[int]) -> float:
    """Return how often two of some rows differ."""
    rows = sum(counts)
    return 1 - sum(count * (count - 1) for count in counts) / max(rows * (rows - 1), 1)


def check_moves(
    edition: Edition, before: Sequence[Edition], accepted: Collection[str] = ()
) -> None:
    """Raise Drifted if more rows than MOVED moved predictably, in this edition and those before.

    The owner accepts that the `accepted` categories do.
    """
    for name, moved in edition.changes.moves.items() if edition.changes else ():
        total = sum(_share(each, name) for each in (*before, edition))
        if total <= MOVED or name in accepted:
            continue
        raise Drifted(
            f"{name!r}: of its {moved.rows:,} new values, {moved.predicted:.0%} is revealed by the "
            f"old value and by the change itself, so that with earlier editions {total:.0%} of the "
            f"rows moved predictably (at most {MOVED:.0%} may). Every new value is a fresh look, "
            "and copies of several editions uncover such a column. Write values that stay, such "
            "as a year of birth for an age band, or accept it",
            use=("advancing",),
        )


def accepted_moves(advancing: Collection[str], categories: Sequence[Categories]) -> set[str]:
    """Return the categories that some columns belong to. Raises ColumnError for any other."""
    known = {column: _name(each) for each in categories for column in each.columns}
    if unknown := sorted(set(advancing) - set(known)):
        raise ColumnError(
            f"{unknown[0]!r} is not a refreshed category of this table; name one of those",
            use=("advancing",),
        )
    return {known[column] for column in advancing}


def _share(edition: Edition, name: str) -> float:
    """Return the share of an edition's rows that moved predictably in it."""
    moved = edition.changes.moves.get(name) if edition.changes else None
    return 0.0 if moved is None else moved.rows * moved.predicted / max(edition.rows, 1)


def _name(each: Categories) -> str:
    return "+".join(each.columns)
