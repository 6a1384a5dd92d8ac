"""What someone looks at who knows which persons are of one household.

Beside value, mean and change of a person's rows

    group    the mean of the household's rows; with a time, also at one time
    apart    the person's mean less that of another person of the household; with a time, also the
             rows of both at the same time, or the next to it

and, in the order of time, the rows before and after, and the household's at times before and after.
Every one of these is a sum of terms: a row, or a mean of the rows of a person, of a household, or
of a household at one time. The noise of them is in `_nested_noise`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cornerwave.arrays import Floats, Ints, lengths_of

VALUE, MEAN, CHANGE = "value", "mean", "change"
GROUP, APART = "group", "apart"
GROUP_THEN, APART_THEN = "group at a time", "apart at a time"
PROMISED = (VALUE, MEAN, CHANGE, GROUP, APART, GROUP_THEN, APART_THEN)
"""Functions of which nothing more than what is stated may be left; others are only looked at."""

ROW, PERSON, HOUSEHOLD, MOMENT = "row", "person", "household", "moment"


@dataclass(frozen=True)
class Nested:
    """Rows sorted by household and person: where the rows of each begin.

    If rows of a person are in the order of their `times`, `moments` are the knots next to them.
    """

    persons: Ints
    households: Ints
    rows: int
    times: Floats | None = None
    moments: Ints | None = None

    @cached_property
    def person(self) -> Ints:
        """The person of each row."""
        return np.repeat(np.arange(len(self.persons)), self.of_persons)

    @cached_property
    def household(self) -> Ints:
        """The household of each row."""
        return np.repeat(np.arange(len(self.households)), self.of_households)

    @cached_property
    def moment(self) -> Ints:
        """The household and time of each row: those of a household follow each other."""
        assert self.moments is not None
        every = self.household * (int(self.moments.max(initial=0)) + 1) + self.moments
        return np.asarray(np.unique(every, return_inverse=True)[1])

    @cached_property
    def of_persons(self) -> Ints:
        """How many rows each person has."""
        return lengths_of(self.persons, self.rows)

    @cached_property
    def of_households(self) -> Ints:
        """How many rows each household has."""
        return lengths_of(self.households, self.rows)

    @cached_property
    def first_persons(self) -> Ints:
        """The first person of each household."""
        return np.searchsorted(self.persons, self.households)

    @cached_property
    def counts(self) -> Ints:
        """How many persons each household has."""
        return lengths_of(self.first_persons, len(self.persons))

    @cached_property
    def other(self) -> Ints:
        """The next person of the household, in a circle, of each person."""
        following = np.arange(1, len(self.persons) + 1)
        following[np.append(self.first_persons[1:], len(self.persons)) - 1] = self.first_persons
        return following

    @cached_property
    def next_row(self) -> Ints:
        """The next row of the person of each row: the first one, of the last; in time the one
        before.
        """
        following = np.arange(1, self.rows + 1)
        last = np.append(self.persons[1:], self.rows) - 1
        before = self.persons if self.times is None else np.maximum(last - 1, self.persons)
        following[last] = before
        return following

    @cached_property
    def other_row(self) -> Ints:
        """The row of the household's next person whose time is nearest, of each row."""
        assert self.times is not None
        times = np.nan_to_num(self.times, nan=float(np.nanmax(self.times, initial=0.0)))
        rank = np.unique(times, return_inverse=True)[1]
        whose, many = self.other[self.person], int(rank.max(initial=0)) + 1
        first, last = self.persons[whose], self.persons[whose] + self.of_persons[whose] - 1
        after = np.searchsorted(self.person * many + rank, whose * many + rank)
        before, after = np.clip(after - 1, first, last), np.clip(after, first, last)
        nearer = np.abs(times[before] - times) < np.abs(times[after] - times)
        found = np.where(nearer, before, after)
        return np.where(whose == self.person, np.arange(self.rows), found)

    def seen(self) -> Floats:
        """Return what everybody sees of the numbers of rows and persons (k, rows)."""
        m = self.of_persons[self.person].astype(np.float64)
        n = self.of_households[self.household].astype(np.float64)
        k = self.counts[self.household].astype(np.float64)
        # sizes reveal what depends on them: means vary as 1 / m, and totals rise with log m
        return np.stack([1 / m, np.log(m), 1 / n, np.log(n), 1 / k])

    def groups(self, kind: str) -> Ints:
        """Return which row, person, household or moment each row belongs to."""
        if kind == ROW:
            return np.arange(self.rows)
        return np.asarray(getattr(self, kind))

    def functions(self) -> dict[str, "NestedFunction"]:
        """Return what is looked at for each row, by its kind; those of PROMISED come first."""
        here = self._term(ROW, np.arange(self.rows))
        of_person, home = self._term(PERSON, self.person), self._term(HOUSEHOLD, self.household)
        others = self._term(PERSON, self.other[self.person])
        following = self._term(ROW, self.next_row)
        found = {
            VALUE: NestedFunction(self, {here: 1.0}),
            MEAN: NestedFunction(self, {of_person: 1.0}),
            CHANGE: NestedFunction(self, {following: 1.0, here: -1.0}),
            GROUP: NestedFunction(self, {home: 1.0}),
            APART: NestedFunction(self, {of_person: 1.0, others: -1.0}),
        }
        if self.moments is None:
            return found
        found[GROUP_THEN] = NestedFunction(self, {self._term(MOMENT, self.moment): 1.0})
        other_row = self._term(ROW, self.other_row)
        found[APART_THEN] = NestedFunction(self, {here: 1.0, other_row: -1.0})
        for step in (-2, -1, 1, 2):
            found[f"{step:+d}"] = NestedFunction(self, {self._beside(ROW, step): 1.0})
        for step in (-1, 1):
            found[f"group {step:+d}"] = NestedFunction(self, {self._beside(MOMENT, step): 1.0})
        return found

    def _term(self, kind: str, at: Ints) -> "NestedTerm":
        return NestedTerm(kind, at, np.ones(self.rows))

    def _beside(self, kind: str, step: int) -> "NestedTerm":
        """Return the row of the person, or the moment of the household, some steps later."""
        own = self.groups(kind)
        whole = self.person if kind == ROW else self.household
        # groups of a whole follow each other: the first and the last of each
        ends = np.flatnonzero(np.diff(whole, append=-1))
        starts = np.append(0, ends[:-1] + 1)
        first = np.minimum.reduceat(own, starts)[whole]
        last = np.maximum.reduceat(own, starts)[whole]
        inside = (own + step >= first) & (own + step <= last)
        return NestedTerm(kind, np.clip(own + step, first, last), inside.astype(np.float64))


def looked_at(*, in_time: bool) -> int:
    """Return how many functions of a column someone looks at."""
    one = np.zeros(1, dtype=np.int64)
    return len(Nested(one, one, 1, np.zeros(1), one if in_time else None).functions())


@dataclass(frozen=True, eq=False)
class NestedTerm:
    """A share of a row, or of the mean of a group of rows, for each row."""

    kind: str
    at: Ints
    share: Floats


@dataclass(frozen=True)
class NestedFunction:
    """A sum of terms, each times a number."""

    nested: Nested
    terms: Mapping[NestedTerm, float]

    def of(self, values: Floats) -> Floats:
        """Return it of values (k, rows)."""
        return np.asarray(
            sum(by * term_of(self.nested, term, values) for term, by in self.terms.items())
        )


def term_of(nested: Nested, term: NestedTerm, values: Floats) -> Floats:
    """Return a term of values (k, rows)."""
    groups = nested.groups(term.kind)
    if term.kind != ROW:
        values = sums_of(groups, values) / np.bincount(groups)
    return values[:, term.at] * term.share


def sums_of(groups: Ints, values: Floats) -> Floats:
    """Return the sums of values (k, rows) over groups."""
    many = int(groups.max(initial=-1)) + 1
    return np.array([np.bincount(groups, row) for row in values]).reshape(len(values), many)
