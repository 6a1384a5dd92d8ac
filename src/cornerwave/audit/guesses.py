"""How well categories can be guessed, from one copy and from several.

The rows are halved. From one half the adversary learns, in the other it guesses; then
the halves change places. A guess is a probability for each value, and its error is the
squared distance from the truth (Brier):

    sum over x of ([x is the truth] - P(x | y))^2        as a share of 1 - sum of pi^2

which is the share of the category's variance that stays hidden. A set that learned no
more than its best copy has the same error, up to what it overfits; one that learned more
has less, even where its first guess stays the same: two copies that betray that they
show the truth add certainty, not another guess.

Each category by itself: P(x | y) is learned for all that a set of copies shows.
All jointly: whether the best copy shows the truth in a cell is estimated, linearly, from
where the other copies agree with it, in any column of the row:

    e_c = [Y_c is the truth] - its mean given Y_c      r_jd = [Y'_jd = Y_d] - its mean given Y_d

For a Markov path r has mean 0 whatever the truth and the best copy are, so nothing is
explained; columns with too many values to learn each by heart are judged by this alone.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cornerwave.audit.chance import share, z_limit
from cornerwave.audit.shown import ABSENT, Shown

STEADY = 20.0
"""Rows' worth of trust in the best copy alone, where a set of copies has seen few."""

MOST_CELLS = 1 << 23
"""Cells of a table of guesses; more are not gone through."""

RIDGE = 1e-9

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Members = tuple[int, ...]


@dataclass(frozen=True)
class Guessed:
    """What a set of copies recovers of a category, or of all, beside its best copy alone.

    `alone` and `together` say how often the likeliest value of a category is right;
    `hidden_alone` and `hidden_together` which share of the variance stays hidden; `gain`
    is their difference, between `low` and `high`.
    """

    columns: tuple[str, ...]
    copies: Members
    best: int
    hidden_alone: float
    gain: float
    margin: float
    blind: float | None = None
    alone: float | None = None
    together: float | None = None

    @property
    def hidden_together(self) -> float:
        """The share of the variance that stays hidden from the set."""
        return self.hidden_alone - self.gain

    @property
    def by_itself(self) -> bool:
        """Whether it is a category by itself, and not all jointly."""
        return self.blind is not None

    @property
    def gains(self) -> bool:
        """Whether the set recovers more than its best copy, beyond chance."""
        return self.gain > self.margin


@dataclass(frozen=True)
class Guesses:
    """All guesses; `singles` (M, categories) is what stays hidden from each copy alone.

    NaN stands for a category with too many values to learn each by heart.
    """

    sets: tuple[Guessed, ...]
    singles: Floats


def guess_all(categories: Sequence[Shown]) -> Guesses:
    """Guess each category, and all of them jointly, from sets of copies and single ones."""
    copies = len(categories[0].codes) - 1
    sets = _sets(copies)
    cells = [Cells.of(shown) for shown in categories]
    singles = np.array(
        [
            [own.scores([i], i).error / own.scale if own else math.nan for own in cells]
            for i in range(copies)
        ]
    )
    margin = z_limit(share(len(sets) * (1 + sum(own is not None for own in cells))))
    each = [
        _compare(shown, own, chosen, _best(hidden, chosen), margin)
        for shown, own, hidden in zip(categories, cells, singles.T, strict=True)
        if own is not None
        for chosen in sets
    ]
    return Guesses((*each, *_jointly(categories, sets, singles, margin)), singles)


def _sets(copies: int) -> list[Members]:
    """Return every pair, and all together.

    >>> _sets(3)
    [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    """
    whole = [tuple(range(copies))] if copies > 2 else []
    return [*combinations(range(copies), 2), *whole]


def _best(hidden: Floats, chosen: Members) -> int:
    return min(chosen, key=lambda i: hidden[i])


# --- each category by itself --------------------------------------------------------------


@dataclass(frozen=True)
class Cells:
    """Each combination of truth (cells,) and shown values (cells, M), with the rows of
    either half that have it: counts (2, cells)."""

    truth: Ints
    shown: Ints
    counts: Floats
    values: int

    @classmethod
    def of(cls, shown: Shown) -> "Cells | None":
        """Count the combinations; None if there are too many."""
        codes = shown.codes[:, shown.truth != ABSENT].astype(np.int64)
        values = len(shown.values)
        rows, first = codes[0], np.arange(codes.shape[1])
        for own in codes[1:]:
            seen = rows * values + own
            _, first, rows = np.unique(seen, return_index=True, return_inverse=True)
        if len(first) * values > MOST_CELLS:
            return None
        counts = [np.bincount(rows[half::2], minlength=len(first)) for half in (0, 1)]
        return cls(codes[0, first], codes[1:, first].T, np.array(counts, dtype=float), values)

    @property
    def pi(self) -> Floats:
        """How often each value is the truth."""
        rows = self.counts.sum(axis=0)
        return np.asarray(np.bincount(self.truth, rows, self.values) / max(rows.sum(), 1))

    @property
    def scale(self) -> float:
        """The variance of the category."""
        return max(1.0 - float((self.pi**2).sum()), 1e-300)

    def scores(self, chosen: Sequence[int], best: int) -> "_Scores":
        """Guess each half from what the other teaches, by what the chosen copies show."""
        errors, hits = np.empty_like(self.counts), np.empty_like(self.counts)
        for half in (0, 1):
            learn = 1 - half
            prior = np.bincount(self.truth, self.counts[learn], self.values) + 1.0
            blind = np.tile(prior / prior.sum(), (len(self.truth), 1))
            guesses = self._guesses([best], learn, blind, 1.0)
            if list(chosen) != [best]:
                guesses = self._guesses(chosen, learn, guesses, STEADY)
            right = guesses[np.arange(len(self.truth)), self.truth]
            errors[half] = 1.0 - 2.0 * right + (guesses**2).sum(axis=1)
            hits[half] = guesses.argmax(axis=1) == self.truth
        return _Scores(errors, hits, self.counts)

    def _guesses(self, copies: Sequence[int], half: int, prior: Floats, trust: float) -> Floats:
        """Return P(x | what these copies show) for each cell, learned from one half.

        `prior` (cells, values) stands for the first `trust` rows.
        """
        _, seen = np.unique(self.shown[:, copies], axis=0, return_inverse=True)
        seen = seen.reshape(-1)
        table = np.zeros((int(seen.max(initial=0)) + 1, self.values))
        np.add.at(table, (seen, self.truth), self.counts[half])
        learned = table[seen] + trust * prior
        return np.asarray(learned / learned.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class _Scores:
    """Errors and hits of each cell in either half, learned from the other."""

    errors: Floats
    hits: Floats
    counts: Floats

    @property
    def error(self) -> float:
        return float((self.errors * self.counts).sum() / max(self.counts.sum(), 1))

    @property
    def right(self) -> float:
        return float((self.hits * self.counts).sum() / max(self.counts.sum(), 1))


def _compare(shown: Shown, cells: Cells, chosen: Members, best: int, margin: float) -> Guessed:
    alone, together = cells.scores([best], best), cells.scores(chosen, best)
    difference, rows = (alone.errors - together.errors) / cells.scale, cells.counts.sum()
    gain = float((difference * cells.counts).sum() / rows)
    spread = float((((difference - gain) ** 2) * cells.counts).sum() / rows)
    return Guessed(
        columns=shown.columns,
        copies=chosen,
        best=best,
        hidden_alone=alone.error / cells.scale,
        gain=gain,
        margin=margin * math.sqrt(spread / rows),
        blind=float(cells.pi.max()),
        alone=alone.right,
        together=together.right,
    )


# --- all categories jointly ---------------------------------------------------------------


def _jointly(
    categories: Sequence[Shown], sets: Sequence[Members], singles: Floats, margin: float
) -> Iterator[Guessed]:
    columns = tuple(name for shown in categories for name in shown.columns)
    learned = ~np.isnan(singles[0])
    agree = np.array([[_agreement(s, i) for s in categories] for i in range(len(singles))])
    for chosen in sets:
        best = _best(-agree.mean(axis=1), chosen)
        others = [i for i in chosen if i != best]
        gains = _explained(categories, best, others)
        gain = float(gains.mean())
        hidden = float(singles[best, learned].mean()) if learned.any() else math.nan
        yield Guessed(
            columns=columns,
            copies=chosen,
            best=best,
            hidden_alone=hidden,
            gain=gain,
            margin=margin * float(gains.std()) / math.sqrt(len(gains)),
        )


def _agreement(shown: Shown, copy: int) -> float:
    held = shown.truth != ABSENT
    return float((shown.codes[1 + copy, held] == shown.truth[held]).mean()) if held.any() else 1.0


def _explained(categories: Sequence[Shown], best: int, others: Sequence[int]) -> Floats:
    """Return, for each row, the mean over categories of what the others explain of e_c."""
    rows = categories[0].codes.shape[1]
    gains = np.zeros(rows)
    for half in (0, 1):
        learn, test = slice(1 - half, None, 2), slice(half, None, 2)
        e = [_centred(s, s.truth, best, learn) for s in categories]
        r = np.stack([_centred(s, s.codes[1 + j], best, learn) for s in categories for j in others])
        known = r[:, learn]
        inner = known @ known.T
        inner[np.diag_indices_from(inner)] *= 1 + RIDGE
        inner[np.diag_indices_from(inner)] += 1e-300
        for shown, own in zip(categories, e, strict=True):
            weights = np.linalg.solve(inner, known @ own[learn])
            guess = weights @ r[:, test]
            pi = shown.counts / max(shown.counts.sum(), 1)
            scale = max(1.0 - float((pi**2).sum()), 1e-300)
            gains[test] += (own[test] ** 2 - (own[test] - guess) ** 2) / scale / len(categories)
    return gains


def _centred(shown: Shown, other: NDArray[np.int32], best: int, learn: slice) -> Floats:
    """Return where `other` agrees with the best copy, less its mean given the best copy."""
    own, held = shown.codes[1 + best], shown.truth != ABSENT
    agree = ((other == own) & held).astype(np.float64)
    known, size = own[learn][held[learn]], len(shown.values)
    rows = np.bincount(known, minlength=size)
    means = np.bincount(known, agree[learn][held[learn]], size) / np.maximum(rows, 1)
    return np.where(held, agree - means[np.where(held, own, 0)], 0.0)
