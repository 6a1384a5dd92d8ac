"""Are categories refreshed as their copies state, and along one path? One function per family.

**Refreshes.** Given the source, every cell of a copy at retention q, refreshed from the
distribution pi, is a draw of its own: y with probability q [y = x] + (1 - q) pi_y. So for
each value x

    retention   the rows that hold and show it are Binomial(n_x, q + (1 - q) pi_x)
    draws       the rows that show it but hold another are Binomial(n - n_x, (1 - q) pi_x)

and by Chernoff's bound sqrt(2 n KL(found, expected)) exceeds z with a probability below
exp(-z^2 / 2), for every n.

**Path.** If a noisier copy Y' is the better one Y with further refreshes, it reveals nothing
about the truth X beyond Y. So among rows in which Y shows the same, whether Y shows the
truth and whether Y' agrees with Y are unrelated, in one column or in two:

    [X_c = Y_c]  and  [Y'_d = Y_d]     are independent given Y_c, Y_d
    [X_c = Y_c]  and  [Y'_c = Y''_c]   are independent given Y_c

Given its margins, each such 2 x 2 table is hypergeometric, a sum of independent steps of
at most 1. Over all tables of a pair (Cochran, Mantel and Haenszel) the deviation t, of
variance V, exceeds its limit with a probability of at most 2 exp(-z^2 / 2), with
z = t / sqrt(V + t / 3) (Bernstein): for few rows and many, rare values and common ones.
Which copy is the better one is not taken from its metadata: a set passes if any order does.

To add a check, write a function (evidence, alpha) -> Checks and register it below.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._chance import Check, Family, bernstein, divergences, sure_limit
from cornerwave.audit._guesses import ABSENT, CategoriesRead, CategoryCodes
from cornerwave.audit._membership import Persons
from cornerwave.audit._stated import Stated
from cornerwave.choices import MARGINAL, SHUFFLE, UNIFORM
from cornerwave.columns import OTHER
from cornerwave.levels import retention as retention_of

# --------------------------------------------------------------------------------------------------
# What each value of a category became, value by value: replacements must not know the truth.
#
# Whatever its retention q and its base b, a refreshed cell that holds x shows y other than x
# with probability (1 - q) b_y: the same for every x. So among rows that do not hold y, whether
# a row shows y is unrelated to what it holds; given the margins each such table is
# hypergeometric, and Bernstein's bound holds for few rows and many. A row that holds y also
# shows it at least as often as any other row.
#
# Values are put into bins, since a category may have thousands: the most frequent ones each in
# their own, and all of them in order, dealt out in turn. What holds for values holds for bins.


VALUE_BINS = 32


def scores_of(truth: Any, shown: Any, values: Sequence[Any]) -> Iterator[Floats]:
    """Yield the scores of all comparisons of the codes of a category and those of a copy."""
    most = _most_frequent(truth, len(values))
    counts = table_of(most[truth], most[shown])
    yield depends(counts)
    yield avoids(counts)[: min(VALUE_BINS - 1, len(values))]
    if len(values) > VALUE_BINS:
        dealt = _in_turn(values)
        yield depends(table_of(dealt[truth], dealt[shown]))


def table_of(held: Ints, shown: Ints) -> Floats:
    """Return how many rows hold a bin and show another, (VALUE_BINS, VALUE_BINS)."""
    counts = np.bincount(held * VALUE_BINS + shown, minlength=VALUE_BINS * VALUE_BINS)
    return counts.reshape(VALUE_BINS, VALUE_BINS).astype(np.float64)


def depends(counts: Floats) -> Floats:
    """Score each bin that is shown against each other bin that is held, (VALUE_BINS, VALUE_BINS).

    >>> honest = table_of(*np.divmod(np.arange(900) % 9, 3))
    >>> cipher = np.roll(np.diag(honest.diagonal()), 1)
    >>> float(depends(honest).max()), bool(depends(cipher).max() > 5)
    (0.0, True)
    """
    held, kept = counts.sum(axis=1), np.diag(counts)
    n = counts.sum() - held  # rows that do not hold the bin that is shown
    shown = counts.sum(axis=0) - kept
    safe = np.maximum(n, 1.0)
    expected = held[:, None] * shown / safe
    variance = expected * (n - held[:, None]) * (n - shown) / (safe * np.maximum(n - 1, 1.0))
    scores = bernstein(counts - expected, np.maximum(variance, 0.0))
    np.fill_diagonal(scores, 0.0)
    return scores


def avoids(counts: Floats) -> Floats:
    """Score bins that rows which hold them show less often than other rows, (VALUE_BINS,)."""
    n, held, shown = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    expected = held * shown / max(n, 1.0)
    variance = expected * (n - held) * (n - shown) / max(n * (n - 1), 1.0)
    return bernstein(np.maximum(expected - np.diag(counts), 0.0), np.maximum(variance, 0.0))


def _most_frequent(truth: Any, values: int) -> Ints:
    """Return the bin of each value: its own for the most frequent, the last for all others."""
    counts = np.bincount(truth, minlength=values)
    bins = np.full(values, VALUE_BINS - 1)
    frequent = np.argsort(-counts, kind="stable")[: VALUE_BINS - (values > VALUE_BINS)]
    bins[frequent] = np.arange(len(frequent))
    return bins


def _in_turn(values: Sequence[Any]) -> Ints:
    """Return the bin of each value: dealt out in the values' order."""
    places = np.argsort(np.array([_sortable(value) for value in values]), kind="stable")
    bins = np.empty(len(values), dtype=np.int64)
    bins[places] = np.arange(len(values)) % VALUE_BINS
    return bins


def _sortable(value: Any) -> str:
    """Return a text that sorts numbers as numbers."""
    return "|".join(f"{part:030d}" if isinstance(part, int) else str(part) for part in value)


CROSSED_COLUMNS = 24
"""Up to this many categories each is tested against every other; beyond, each by itself."""

NOTHING = 0.005
"""A copy that refreshed less than this share of a category has hidden nothing of it."""


@dataclass(frozen=True)
class CategoryEvidence:
    """What the checks look at: categories to judge, those bare in every copy, statements.

    `alone` means that the tables have no numbers to judge, `every` the distance of kept rows;
    `boundless` columns have too many values for a category. If rows belong to `persons`, an event
    replaces a whole history by that of someone with as many rows, row by row: what is drawn has
    the distribution of such rows, and what it should be is not known.
    """

    judged: Sequence[CategoryCodes]
    bare: Sequence[CategoryCodes]
    stated: Stated
    alone: bool
    every: int = 1
    boundless: tuple[str, ...] = ()
    persons: Persons | None = None

    @classmethod
    def of(cls, read: CategoriesRead, aligned: Aligned, *, alone: bool) -> "CategoryEvidence":
        """Take what was read of the categories, except constant ones."""
        varying = [each for each in read.shown if not each.constant]
        bare = [each for each in varying if each.bare]
        judged = [each for each in varying if not each.bare]
        boundless, persons = tuple(read.boundless), aligned.persons
        return cls(judged, bare, aligned.stated, alone, read.every, boundless, persons)

    @property
    def everything(self) -> list[CategoryCodes]:
        """Judged and bare categories."""
        return [*self.judged, *self.bare]

    @cached_property
    def cases(self) -> dict[int, list["_Case"]]:
        """The categories of each copy that states enough to know what they should be."""
        if self.persons is not None:
            return {}
        by_copy = {
            i: [_Case.of(each, i, self.stated) for each in self.everything]
            for i in range(len(self.stated.copies))
        }
        known = {i: [case for case in cases if case is not None] for i, cases in by_copy.items()}
        return {i: cases for i, cases in known.items() if cases}

    @property
    def strata(self) -> Ints:
        """Rows whose replacements have one distribution: all, or those at one place of as many."""
        if self.persons is None:
            return np.zeros(1, dtype=np.int64)
        return self.persons.strata[:: self.every]

    @property
    def values(self) -> int:
        """How many values all cases have."""
        return sum(len(case.pi) for cases in self.cases.values() for case in cases)


def retention(evidence: CategoryEvidence, alpha: float) -> Iterator[Check]:
    """Compare how many rows retained each value, and all of them, with what is stated."""
    pooled = sum(map(len, evidence.cases.values()))
    return _worst(evidence, _Case.retention, alpha / max(evidence.values + pooled, 1))


def draws(evidence: CategoryEvidence, alpha: float) -> Iterator[Check]:
    """Compare how many rows drew each value with what is stated."""
    return _worst(evidence, _Case.draws, alpha / max(evidence.values, 1))


def _worst(
    evidence: CategoryEvidence, score: Callable[["_Case"], tuple[float, str]], alpha: float
) -> Iterator[Check]:
    """Yield a check of each copy, the worst of its categories."""
    for i, cases in evidence.cases.items():
        value, note = max(map(score, cases))
        yield Check.of((i,), value, sure_limit(alpha), note)


def replacements(evidence: CategoryEvidence, alpha: float) -> Iterator[Check]:
    """Compare what the rows that hold a value show instead with what all others show."""
    replaced = {
        i: [(shown.name, [*scores]) for shown, scores in _replaced(evidence, i)]
        for i in range(len(evidence.stated.copies))
    }
    tables = [part for of_copy in replaced.values() for _, scores in of_copy for part in scores]
    limit = sure_limit(alpha / max(sum(part.size for part in tables), 1))
    for i, of_copy in replaced.items():
        if of_copy:
            value, name = max(
                (max(float(s.max()) for s in scores), name) for name, scores in of_copy
            )
            note = f"what a value of {name} is replaced by depends on the value"
            yield Check.of((i,), value, limit, note)


def _replaced(
    evidence: CategoryEvidence, i: int
) -> Iterator[tuple[CategoryCodes, Iterator[Floats]]]:
    for shown in evidence.judged if evidence.persons is None else ():
        known = _truth_of(shown, i, evidence.stated)
        codes = shown.codes[1 + i]
        if known is None or _may_be_pooled(shown, i, evidence.stated):
            continue
        held = (known[0] != ABSENT) & (codes != ABSENT)
        yield shown, scores_of(known[0][held], codes[held], shown.values)


def path(evidence: CategoryEvidence, alpha: float) -> Iterator[Check]:
    """Test every pair of copies, and every three, for one common path."""
    categories, copies = evidence.judged, len(evidence.stated.copies)
    shuffled = any(each.order == SHUFFLE for each in evidence.stated.copies)
    if not categories or (evidence.persons is not None and shuffled):
        return  # which place of a history a shuffled row had is not known
    sets = [*combinations(range(copies), 2), *combinations(range(copies), 3)]
    columns = len(categories)
    # every comparison that may be made counts in the limit
    crossed = columns * columns if columns <= CROSSED_COLUMNS else columns
    comparisons = 2 * math.comb(copies, 2) * crossed + 3 * math.comb(copies, 3) * columns
    for members in sets:
        tried = [
            max(_scores(categories, best, members, evidence.strata), default=(0.0, ""))
            for best in members
        ]
        value, where = min(tried)
        note = f"{where} in the noisier copy shows where the better copy is true"
        yield Check.of(members, value, sure_limit(alpha / comparisons), note)


def noise(evidence: CategoryEvidence, alpha: float) -> Iterator[Check]:
    """Name copies that show a category as the source has it, or are the source.

    If a copy states how it was refreshed, its retention is judged instead.
    """
    everything, stated = evidence.everything, evidence.stated
    for i in range(len(stated.copies) if everything else 0):
        if evidence.alone and all(_left_bare(each, i, stated) for each in everything):
            yield Check((i,), 0.0, 0.0, False, "has no noise: it is the source")
            continue
        for each in evidence.judged:
            # A category of few or rare values may stay as it is by chance.
            rows = int((each.truth != ABSENT).sum()) * each.variance
            refreshed_at_most = math.log(len(everything) / alpha) / max(rows, 1e-300)
            if refreshed_at_most < NOTHING and _left_bare(each, i, stated):
                yield Check((i,), 0.0, 0.0, False, f"shows {each.name} as the source has it")


CATEGORY_FAMILIES: tuple[Family[CategoryEvidence], ...] = (
    Family("retention", "q + (1 - q) pi of the rows that hold a value show it", retention),
    Family("draws", "(1 - q) pi of all other rows show it", draws),
    Family("replacements", "what replaces a value does not depend on it", replacements),
    Family("path", "no copy reveals where a better one is true", path),
    Family("noise", "the copy has noise", noise, by_chance=False),
)


def _left_bare(shown: CategoryCodes, copy: int, stated: Stated) -> bool:
    """Whether a copy shows a category as it is, and does not state how it was refreshed."""
    base = stated.column(copy, shown.columns[0]).base
    if stated.noise[copy] is not None and base is not None:
        return False
    return bool((shown.codes[1 + copy] == shown.truth).all())


class _Case:
    """A category of one copy, and its distribution: per value, rows that hold, retain, draw it."""

    def __init__(self, name: str, q: float, pi: Floats, truth: Any, shown: Any) -> None:
        self.name, self.q, self.pi = name, q, pi
        held = truth != ABSENT
        truth, shown = truth[held], shown[held]
        same = truth == shown
        self.n = np.bincount(truth, minlength=len(pi))
        self.kept = np.bincount(truth[same], minlength=len(pi))
        self.drawn = np.bincount(shown[~same], minlength=len(pi))

    @classmethod
    def of(cls, shown: CategoryCodes, copy: int, stated: Stated) -> "_Case | None":
        """Return the case; None if the copy states too little to know its distribution."""
        base, noise = stated.column(copy, shown.columns[0]).base, stated.noise[copy]
        if noise is None or base not in (MARGINAL, UNIFORM):
            return None
        known = _truth_of(shown, copy, stated)
        if known is None:
            return None
        truth, counts = known
        held = counts > 0 if base == UNIFORM else counts
        pi = np.asarray(held / held.sum())
        codes = shown.codes[1 + copy]
        if (codes[truth != ABSENT] == ABSENT).any():
            return None
        return cls(shown.name, retention_of(noise), pi, truth, codes)

    def retention(self) -> tuple[float, str]:
        """Return the worst score of retained values, all together or each, and a note."""
        # P(shows x | holds x) = q + (1 - q) pi_x
        stay = self.q + (1 - self.q) * self.pi
        expected, spread = (self.n * stay).sum(), (self.n * stay * (1 - stay)).sum()
        off = abs(float(self.kept.sum() - expected))
        overall = off / math.sqrt(max(float(spread) + off / 3, 1e-300))  # Bernstein
        scores = divergences(self.kept, self.n, stay)
        # rows that would show their value without any retained: solved for q
        by_chance = float((self.n * self.pi).sum())
        q = (float(self.kept.sum()) - by_chance) / max(float(self.n.sum()) - by_chance, 1e-300)
        note = f"{self.name} retains {q:.1%} of its values; its noise implies {self.q:.1%}"
        if overall < scores.max():
            note = f"one value of {self.name} is retained more or less often than stated"
        return max(overall, float(scores.max())), note

    def draws(self) -> tuple[float, str]:
        """Return the worst score of drawn values, and a note."""
        scores = divergences(self.drawn, self.n.sum() - self.n, (1 - self.q) * self.pi)
        note = f"values of {self.name} are not drawn from the stated distribution"
        if (self.drawn[self.pi == 0] > 0).any():
            note = f"{self.name} shows values that the source does not hold"
        return float(scores.max()), note


def _truth_of(shown: CategoryCodes, copy: int, stated: Stated) -> tuple[Any, Floats] | None:
    """Return truth and counts as they were refreshed, pooled; None if that cannot be known."""
    about = stated.column(copy, shown.columns[0])
    if not about.pooled:
        return shown.truth, shown.counts.astype(np.float64)
    pools = [tuple(name for _ in shown.columns) for name in (OTHER, None)]
    known = [shown.values.index(pool) for pool in pools if pool in shown.values]
    if not known:
        return None  # text joined with other columns: the pool has no single name
    visible = _visible(shown)
    if int(visible.sum()) != about.categories:
        return None  # values that no copy shows cannot be distinguished from pooled ones
    return _pooled(shown, visible, known[0])


def _may_be_pooled(shown: CategoryCodes, copy: int, stated: Stated) -> bool:
    """Whether a copy without metadata may show a pool instead of values held by few rows."""
    if shown.columns[0] in stated.copies[copy].columns:
        return False
    held, visible = shown.counts > 0, _visible(shown)
    unknown = bool((visible & ~held).any())
    missing = any(None in value for value in shown.values)
    return unknown or (missing and bool((held & ~visible).any()))


def _visible(shown: CategoryCodes) -> Flags:
    """Return which values some copy shows."""
    visible = np.zeros(len(shown.values), dtype=bool)
    visible[np.unique(shown.codes[1:][shown.codes[1:] != ABSENT])] = True
    return visible


def _pooled(shown: CategoryCodes, visible: Flags, other: int) -> tuple[Any, Floats]:
    """Return truth and counts with all values that no copy shows made one, the pool."""
    numbers = np.where(visible, np.arange(len(shown.values)), other)
    counts = np.bincount(numbers, shown.counts, len(shown.values)).astype(np.float64)
    return np.where(shown.truth == ABSENT, ABSENT, numbers[shown.truth]), counts


def _scores(
    categories: Sequence[CategoryCodes], best: int, members: tuple[int, ...], strata: Ints
) -> Iterator[tuple[float, str]]:
    """Yield the score of every comparison, and the column compared, if `best` is best."""
    others = [i for i in members if i != best]
    for truth in categories:
        known = truth.truth == truth.codes[1 + best]
        if len(others) == 2:
            one, other = (truth.codes[1 + i] for i in others)
            yield _score([(truth, best)], known, one == other, strata), truth.name
            continue
        for shown in categories if len(categories) <= CROSSED_COLUMNS else [truth]:
            agrees = shown.codes[1 + others[0]] == shown.codes[1 + best]
            given = [(truth, best)] if shown is truth else [(truth, best), (shown, best)]
            yield _score(given, known, agrees, strata), shown.name


def _score(
    given: Sequence[tuple[CategoryCodes, int]], one: Flags, other: Flags, alike: Ints
) -> float:
    """Return z of the association of two flags among rows that show the same in `given`, and are
    in the same of the strata `alike`.
    """
    held = np.logical_and.reduce([shown.truth != ABSENT for shown, _ in given])
    # one stratum for each combination of what the better copy shows
    strata = np.broadcast_to(alike, held.shape)[held]
    for shown, copy in given:
        strata = strata * len(shown.values) + shown.codes[1 + copy][held]
    _, strata = np.unique(strata, return_inverse=True)
    one, other = one[held], other[held]
    n = np.bincount(strata).astype(np.float64)
    first, second = (np.bincount(strata, flags, len(n)) for flags in (one, other))
    both = np.bincount(strata, one & other, len(n))
    # t sums found - expected over the 2 x 2 tables; spread is their hypergeometric variance.
    t = abs(float((both - first * second / n).sum()))
    spread = first * second * (n - first) * (n - second) / (n * n * np.maximum(n - 1, 1))
    return t / math.sqrt(max(float(spread.sum()) + t / 3, 1e-300))
