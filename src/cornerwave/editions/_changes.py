"""What copies of several editions leave hidden of rows that changed.

Numbers: a row's values in all editions are one long row of covariance H, which nobody knows: each H
that fits the measured rules is tried, and the least share counts (`privacy.hidden_in_history`).

Categories: how values moved between two editions, over the rows in which they changed. Replaced
values move as those of other rows did (`noise/_moved_cells.py`), if at least LEAST rows left the
same value: then copies of several editions reveal what one reveals. Moves of few rows are drawn
from the whole table, and where the old value predicts the new one (a grade, an age band), that
shows which values were replaced. Of rows that held the same value and changed, two hold different
new values with probability W; of any two rows of the table, with probability B:

    predicted = 1 - W / B        0 if changes are as varied as the table, 1 if they follow a rule

W is the mean over the old values, each estimated without bias by pairs of rows. B is that of the
new values of the rows that changed or that of the registered table, whichever predicts more:
that a row changed is visible, and may reveal the value too. `predicted` is less three standard
errors of what chance predicts in few rows.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cornerwave.arrays import Codes, Flags, Floats, Ints, Words
from cornerwave.columns import Categories
from cornerwave.editions._drift import ALLOWANCE
from cornerwave.editions._edition import Edition, Moved
from cornerwave.errors import ColumnError, Drifted
from cornerwave.ledger import Holding
from cornerwave.levels import HALF, Level
from cornerwave.noise import (
    LEAST,
    MISSING,
    CategoryMoves,
    MovedCells,
    MovedRows,
    Past,
    Rules,
    Transition,
    drifting_history,
    for_rows,
    noise_across,
    personal_history,
)
from cornerwave.privacy import (
    CategoryDistribution,
    Coalition,
    Moving,
    hidden_in_history,
    history_functions,
)
from cornerwave.spec import CopySpec
from cornerwave.spine.continued import state_words
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.moved_histories import HistoryStep

PLAUSIBLE = 0.5
"""A history whose changes are smaller than this share of those measured is not considered."""


def hidden_after(
    frozen: Frozen, rules: Sequence[Transition], beside: Floats | None = None
) -> dict[str, float]:
    """Return what copies of an edition and the one before, at privacy 0.5, hide of changed rows.

    `beside` are the loadings of what persons have in linked tables.
    """
    level = frozen.hidden.level_of(HALF) or Level(1.0)
    return _hidden_of_changing(frozen, [(0, level.noise), (1, level.noise)], [rules], beside)


def _hidden_of_changing(
    frozen: Frozen,
    held: Sequence[tuple[int, float]],
    editions: Sequence[Sequence[Transition]],
    beside: Floats | None = None,
) -> dict[str, float]:
    """Return what copies hide of rows that changed in each edition, by its rules.

    `held` are copies: after how many of the `editions`, and their noise. The least share of each
    value, of the mean of all editions and of each change.
    """
    shape = frozen.shape_beside(np.zeros((0, 0)) if beside is None else beside)
    least = dict[str, float]()
    if frozen.persons is not None:  # averages or differences of rows leave one half of the noise
        paths = frozen.persons.paths
        editions = [tuple(for_rows(rule, paths) for rule in rules) for rules in editions]
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


# --------------------------------------------------------------------------------------------------
# What recipients who hold copies of several editions recover together.


def pooled(
    frozen: Frozen, editions: Sequence[Edition], held: Sequence[Holding], past: Past | None
) -> Coalition:
    """Return what the holders of some copies recover together; `past` is of all editions."""
    copies = [(each.spec.edition or 1, each.spec.level.noise) for each in held]
    coalition = Coalition.of(
        list(dict.fromkeys((each.recipient, each.spec.level) for each in held)),
        _distributions(frozen),
        privacy_of=lambda level: frozen.hidden.promised(level.on_lattice()),
    )
    coalition = coalition.over_editions(moving(frozen, editions, [each.spec for each in held]))
    return replace(coalition, changing=changing(frozen, copies, past))


def moving(
    frozen: Frozen, editions: Sequence[Edition], held: Sequence[CopySpec]
) -> dict[str, Moving]:
    """Return what copies leave of each category that changed between their editions."""
    numbers = [each.edition or 1 for each in held]
    between = editions[min(numbers, default=1) : max(numbers, default=1)]
    noise = min((each.level.noise for each in held), default=0.0)
    return {
        name: Moving.of(
            category, noise, alone=sum(_moved_alone(each, name) for each in between) > MOVED
        )
        for name, category in _distributions(frozen).items()
        if any(each.changes and name in each.changes.moves for each in between)
    }


def changing(
    frozen: Frozen, copies: Iterable[tuple[int, float]], past: Past | None
) -> dict[str, float]:
    """Return what copies, given by edition and noise, hide of rows that changed in all editions."""
    if past is None:
        return {}
    rules = past.followed
    held = {(sum(each <= edition for each in rules), noise) for edition, noise in copies}
    return _hidden_of_changing(frozen, sorted(held), list(rules.values()), past.beside)


def _distributions(frozen: Frozen) -> dict[str, CategoryDistribution]:
    return {_name(each): CategoryDistribution(each.counts, each.base) for each in frozen.categories}


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
"""The share of a table's rows that may move predictably, few of them alike, over all editions
together. Someone who sees which of them were replaced uncovers p - (1 - q) of their variance, at
most 0.25, so that all of them cost a column at most 0.06."""


class Moves:
    """From which value to which the rows of each category moved, went and came back."""

    def __init__(
        self,
        categories: Sequence[Categories],
        encoded: Sequence[str],
        texts: bytes,
        past: MovedCells,
    ) -> None:
        """`encoded` names the columns whose words are taken, in their order; `texts` is their key.

        `past` are the moves of earlier editions.
        """
        self._categories, self._texts, self._past = categories, texts, past
        self._places = [[list(encoded).index(name) for name in c.columns] for c in categories]
        self._hashes = [np.empty(0, dtype=np.uint64)]
        nothing = np.empty((len(categories), 0), dtype=np.int32)
        self._before, self._after = [nothing], [nothing]

    def take(self, hashes: Words, old: Words, new: Words) -> None:
        """Take the words (encoded columns, rows) of some rows before and after."""
        before = self._codes(old)
        if (gaps := before == MISSING).any():  # of a value that comes back: what it was
            before = np.where(gaps, self._past.last(hashes, len(before)), before)
        self._keep(hashes, before, self._codes(new))

    def take_came(self, hashes: Words, words: Words) -> None:
        """Take rows that came: of some that went in an earlier edition, their values are known."""
        self._keep(hashes, self._past.last(hashes, len(self._categories)), self._codes(words))

    def take_went(self, hashes: Words, words: Words) -> None:
        """Take rows that went, whose values count if they come back."""
        before = self._codes(words)
        self._keep(hashes, before, np.full_like(before, MISSING))

    def _codes(self, words: Words) -> Codes:
        each = zip(self._categories, self._places, strict=True)
        codes = [category.codes_of(words[places], self._texts) for category, places in each]
        return np.array(codes, dtype=np.int32).reshape(len(codes), words.shape[1])

    def _keep(self, hashes: Words, before: Codes, after: Codes) -> None:
        rows = ((before != after) & (before != MISSING)).any(axis=0)
        self._hashes.append(hashes[rows])
        self._before.append(before[:, rows])
        self._after.append(after[:, rows])

    def rows(self, key: bytes) -> MovedRows:
        """Return the rows that moved, and how; `key` is that of the edition."""
        hashes, before, after, moved = self._all()
        # in the order of their ids, so that sums do not depend on how the table was read
        order = np.argsort(hashes)
        hashes, moved = hashes[order], moved[:, order]
        before, after = before[:, order], after[:, order]
        states = self._past.states(hashes, before)
        each = zip(self._categories, states, after, moved, strict=True)
        moves = [CategoryMoves.of(s[:, m], a[m], c.bounds) for c, s, a, m in each]
        return MovedRows.of(hashes, before, moved, moves, key)

    def moved(self) -> dict[str, Moved]:
        """Return how each category moved that changed in some row."""
        _, before, after, moved = self._all()
        each = zip(self._categories, before, after, moved, strict=True)
        return {_name(c): moved_of(b[m], a[m], c.counts) for c, b, a, m in each if m.any()}

    def _all(self) -> tuple[Words, Codes, Codes, Flags]:
        before = np.concatenate(self._before, axis=1)
        after = np.concatenate(self._after, axis=1)
        moved = (before != after) & (before != MISSING) & (after != MISSING)
        return np.concatenate(self._hashes), before, after, moved


def moved_of_persons(
    step: HistoryStep, owners: Words, categories: Sequence[Categories], blocks: Sequence[Ints]
) -> dict[str, Moved]:
    """Return how each category moved that changed in some row; `owners` are whose rows they are.

    Rows of one person that moved alike count once. Those are few that LEAST persons do not share:
    that changed in the same ones of a block of categories, and held the same values in these.
    """
    found = {}
    for block in blocks:
        moved, old, new = step.moved[block], step.before[block], step.after[block]
        few = _are_few(moved, old, owners)
        for place, own in enumerate(block.tolist()):
            here = moved[place]
            if here.any():
                cells = np.stack([owners, *(each[place].astype(np.uint64) for each in (old, new))])
                _, before, after = np.unique(cells[:, here], axis=1).astype(np.int32)
                measured = moved_of(before, after, categories[own].counts)
                rows, alone = np.count_nonzero(here), np.count_nonzero(here & few)
                found[_name(categories[own])] = replace(measured, rows=int(rows), few=int(alone))
    return found


def _are_few(moved: Flags, before: Codes, owners: Words) -> Flags:
    """Return which rows moved in ways that fewer than LEAST persons share."""
    states = np.where(moved, before, MISSING)
    kinds, kind = np.unique(
        state_words(np.concatenate([moved.astype(np.int32), states])), return_inverse=True
    )
    holders = np.unique(np.stack([kind.astype(np.uint64), owners]), axis=1)[0]
    return np.asarray(np.bincount(holders.astype(np.int64), minlength=len(kinds)) < LEAST)[kind]


def moved_of(before: Codes, after: Codes, counts: Sequence[int]) -> Moved:
    """Return how well moves are predicted, from one value to another.

    `counts` are those of the registered values.

    >>> old = np.repeat([0, 1, 2], [500, 300, 200])
    >>> advance = moved_of(old, (old + 1) % 3, [5, 3, 2])
    >>> advance.rows, advance.predicted > 0.9, advance.few
    (1000, True, 0)
    """
    rows, (_, left) = len(before), np.unique(before, return_counts=True)
    pairs, often = np.unique(np.stack([before, after]), axis=1, return_counts=True)
    # ordered pairs of rows that held one value, and hold one now
    _, place = np.unique(pairs[0], return_inverse=True)
    equal = np.bincount(place, often * (often - 1.0))
    repeated = left > 1
    few = int(left[left < LEAST].sum())
    if not repeated.any():
        return Moved(rows, 0.0, few)
    # of an old value of c rows, two differ with probability 1 - equal / (c (c - 1)), without bias;
    # W weights old values by their rows
    W = 1 - (equal[repeated] / (left[repeated] - 1)).sum() / left[repeated].sum()
    # of G groups of rows without any relation, the deviation of W is at most about this
    chance = ALLOWANCE * np.sqrt(np.count_nonzero(repeated) / 2) / rows
    held = np.unique(after, return_counts=True)[1].tolist()
    varied = (_varied(each) for each in (held, list(counts)))
    predicted = max((1 - (W + chance) / B for B in varied if B > 0), default=0.0)
    return Moved(rows, round(float(np.clip(predicted, 0.0, 1.0)), 4), few)


def _varied(counts: Sequence[int]) -> float:
    """Return how often two of some rows differ."""
    rows = sum(counts)
    return 1 - sum(count * (count - 1) for count in counts) / max(rows * (rows - 1), 1)


def check_moves(
    edition: Edition,
    before: Sequence[Edition],
    accepted: Collection[str] = (),
    *,
    who: str = "rows",
) -> None:
    """Raise Drifted if more rows than MOVED moved in ways that few share, in all editions.

    The owner accepts that the `accepted` categories do. `who` are counted: rows or persons.
    """
    for name, moved in edition.changes.moves.items() if edition.changes else ():
        total = sum(_moved_alone(each, name) for each in (*before, edition))
        if total <= MOVED or name in accepted:
            continue
        raise Drifted(
            f"{name!r}: of its {moved.rows:,} new values, {moved.predicted:.0%} is revealed by the "
            f"old value and by the change itself, and {moved.few:,} rows left values that fewer "
            f"than {LEAST} {who} left, so that with earlier editions {total:.0%} of the rows moved "
            f"in ways that few share (at most {MOVED:.0%} may): copies of several editions show "
            "which of these values were replaced. Write values that stay, such as a year of birth "
            "for an age band, or accept it",
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


def _moved_alone(edition: Edition, name: str) -> float:
    """Return the share of an edition's rows that moved predictably, and few of them alike."""
    moved = edition.changes.moves.get(name) if edition.changes else None
    return 0.0 if moved is None else moved.few * moved.predicted / max(edition.rows, 1)


def _name(each: Categories) -> str:
    return "+".join(each.columns)
