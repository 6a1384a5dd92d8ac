"""Which rows belong together, and what of them an audit looks at.

The rows of a person share a part of their noise, so checks that take rows to be independent look
at one row of each person, chosen by chance: its noise is that of any row, and independent of the
others'. What copies hide of a person is measured in all rows of some of them (_linked), their
history.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ints, lengths_of
from cornerwave.audit._fits import split
from cornerwave.columns import one_chunk
from cornerwave.sources import Source

BLOCK = 1 << 16


@dataclass(frozen=True)
class Persons:
    """The person of each row, numbered; a row without a value of the unit is a person itself.

    If persons belong to households, these are numbered, and `within` are the persons in them.
    """

    unit: str
    codes: Ints
    within: "Persons | None" = None

    @classmethod
    def nested(cls, source: Source, units: Sequence[str]) -> "Persons":
        """Read which unit each row belongs to; of two units, the outer one first."""
        outer, *inner = (cls.of(source, unit) for unit in units)
        if not inner:
            return outer
        # a person is named by both: numbers may begin anew in each household
        pairs = outer.codes * (int(inner[0].codes.max(initial=0)) + 1) + inner[0].codes
        within = cls(inner[0].unit, np.unique(pairs, return_inverse=True)[1])
        return replace(outer, within=within)

    @classmethod
    def of(cls, source: Source, unit: str) -> "Persons":
        """Read which person each row of a table belongs to."""
        parts = [one_chunk(group.column(unit)) for group in source.groups([unit], BLOCK)]
        if not parts:
            return cls(unit, np.zeros(0, dtype=np.int64))
        plain = [p.dictionary_decode() if pa.types.is_dictionary(p.type) else p for p in parts]
        encoded = one_chunk(pa.chunked_array(plain)).dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        alone = np.flatnonzero(codes < 0)
        codes[alone] = len(encoded.dictionary) + np.arange(len(alone))
        return cls(unit, np.unique(codes, return_inverse=True)[1])

    @property
    def count(self) -> int:
        """How many persons there are."""
        return len(self.sizes)

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each person has."""
        return np.bincount(self.codes)

    @cached_property
    def _mixed(self) -> Ints:
        """All rows in random order, the same every time."""
        return np.random.default_rng([len(self.codes), 27]).permutation(len(self.codes))

    @cached_property
    def one_row_each(self) -> Ints:
        """The place of one row of each person, chosen by chance, ascending."""
        _, first = np.unique(self.codes[self._mixed], return_index=True)
        return np.sort(self._mixed[first])

    @property
    def weights(self) -> Floats:
        """How many rows each of `one_row_each` represents, 1 on average."""
        sizes = self.sizes[self.codes[self.one_row_each]]
        return np.asarray(sizes / sizes.mean())

    @property
    def strata(self) -> Ints:
        """Which of `one_row_each` come from persons of as many rows, at the same place of them."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.append(0, np.cumsum(self.sizes)[:-1])
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - np.repeat(starts, self.sizes)
        rows = self.one_row_each
        pairs = self.sizes[self.codes[rows]] * (int(self.sizes.max()) + 1) + place[rows]
        return np.asarray(np.unique(pairs, return_inverse=True)[1])

    def sampled(self, most: int, each: int) -> tuple[Ints, Ints]:
        """Return rows of persons chosen by chance, at most so many of all and of `each`.

        They are sorted by person; returned are their places, and numbers of their persons. If
        persons belong to households, whole ones are chosen, and rows sorted by these first.
        """
        chosen = np.random.default_rng([self.count, 28]).permutation(self.count)
        rank = np.empty(self.count, dtype=np.int64)
        rank[chosen] = np.arange(self.count)
        fits = np.cumsum(np.minimum(self.sizes[chosen], each)) <= most
        fits[0] = True
        rows = np.flatnonzero(fits[rank[self.codes]])
        inner = self.codes if self.within is None else self.within.codes
        rows = rows[np.lexsort((inner[rows], self.codes[rows]))]
        person = np.unique(self.codes[rows], return_inverse=True)[1]
        sizes = np.bincount(person)
        # of a person with more rows, those that follow each other are looked at
        place = np.arange(len(rows)) - np.repeat(np.append(0, np.cumsum(sizes)[:-1]), sizes)
        kept = place < each
        return rows[kept], person[kept]


def rows_at(source: Source, places: Ints) -> Source:
    """Return some rows of a table, at ascending places."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in source.open(columns):
            first, last = np.searchsorted(places, [start, start + batch.num_rows])
            yield batch.take(pa.array(places[first:last] - start))
            start += batch.num_rows

    return replace(source, open=read, parts=(), rows=len(places))


# --------------------------------------------------------------------------------------------------
# All rows of some persons.


SAME = 1e-12
"""Means that differ by a smaller share of the largest are the same."""


@dataclass(frozen=True)
class History:
    """The rows of some persons, sorted by person, and by time if they are `in_time`.

    `outer` are the same rows by household, if persons belong to some; `moment` then numbers the
    household and the time of each row, if they are in time.
    """

    person: Ints
    in_time: bool = False
    outer: "History | None" = None
    moment: Ints | None = None

    @classmethod
    def in_order_of(cls, when: Ints, person: Ints, outer: "History | None") -> "History":
        """Return the history of rows that are sorted by person and by `when`, a number of times."""
        if outer is None:
            return cls(person, in_time=True)
        pairs = outer.person * (int(when.max(initial=0)) + 1) + when
        moment = np.unique(pairs, return_inverse=True)[1]
        return cls(person, in_time=True, outer=outer, moment=moment)

    def at_one_time(self, rows: Floats) -> Floats:
        """Return the mean (k, n) of the rows of each row's household at its time."""
        assert self.moment is not None
        held = np.isfinite(rows)
        count = np.array([np.bincount(self.moment, each) for each in held])
        total = np.array([np.bincount(self.moment, each) for each in np.where(held, rows, 0.0)])
        means = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        return np.asarray(means[:, self.moment])

    @cached_property
    def other_row(self) -> Ints:
        """The row of the household's next person at the same time, of each row; itself if none."""
        assert self.moment is not None
        number = np.repeat(np.arange(len(self.starts)), self.sizes)
        many = int(self.moment.max(initial=0)) + 1
        # rows of a person are in the order of moments; of several at one time the first counts
        keys, wanted = number * many + self.moment, self.other_person[number] * many + self.moment
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, place, np.arange(len(keys)))

    def apart_at_one_time(self, rows: Floats) -> Floats:
        """Return rows less those of other persons at the same time, NaN where there is none."""
        alone = np.repeat(self.other_person == np.arange(len(self.starts)), self.sizes)
        alone |= self.other_row == np.arange(len(self.person))
        differences = rows - rows[:, self.other_row]
        rounding = SAME * np.nanmax(np.abs(rows), axis=1, keepdims=True, initial=0.0)
        return np.where(alone, np.nan, np.where(np.abs(differences) <= rounding, 0.0, differences))

    @cached_property
    def household(self) -> Ints:
        """The household of each person; without these the person itself."""
        if self.outer is None:
            return np.arange(len(self.starts))
        return np.searchsorted(self.outer.starts, self.starts, side="right") - 1

    @cached_property
    def persons(self) -> Ints:
        """How many persons each household has."""
        return np.bincount(self.household)

    @cached_property
    def other_person(self) -> Ints:
        """The next person of the household of each person, in a circle."""
        first = np.cumsum(self.persons) - self.persons
        last = first + self.persons - 1
        following = np.arange(1, len(self.starts) + 1)
        following[last] = first
        return following

    def apart(self, rows: Floats) -> Floats:
        """Return the means (k, persons) less those of other persons, NaN where there is none."""
        means = self.means(rows)
        alone = self.other_person == np.arange(len(self.starts))
        differences = means - means[:, self.other_person]
        rounding = SAME * np.nanmax(np.abs(means), axis=1, keepdims=True, initial=0.0)
        return np.where(alone, np.nan, np.where(np.abs(differences) <= rounding, 0.0, differences))

    def of_households(self, rows: Floats) -> Floats:
        """Return what households have in common (k, households), by rows (d, n)."""
        assert self.outer is not None
        means, each = self.outer.means(rows), self.means(rows)
        of_persons = np.array([np.bincount(self.household, row) for row in each]) / self.persons
        few, lone = 1 / self.outer.sizes, 1 / self.persons
        return np.vstack([means, means * few, means * lone, of_persons, few[None], lone[None]])

    @cached_property
    def starts(self) -> Ints:
        """Where each person's rows begin."""
        return np.flatnonzero(np.append(True, self.person[1:] != self.person[:-1]))

    @cached_property
    def sizes(self) -> Ints:
        """How many rows each person has."""
        return lengths_of(self.starts, len(self.person))

    def means(self, rows: Floats) -> Floats:
        """Return the mean (k, persons) of what is there of rows (k, n); NaN where nothing is."""
        held = np.isfinite(rows)
        count = np.add.reduceat(held.astype(np.float64), self.starts, axis=1)
        total = np.add.reduceat(np.where(held, rows, 0.0), self.starts, axis=1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)

    def spread(self, persons: Floats) -> Floats:
        """Return what persons have (k, persons) in each of their rows, (k, n)."""
        return np.repeat(persons, self.sizes, axis=1)

    @cached_property
    def place(self) -> Ints:
        """The place of each row among those of its person, from 0."""
        return np.arange(len(self.person)) - np.repeat(self.starts, self.sizes)

    def shifted(self, rows: Floats, by: int) -> Floats:
        """Return the rows (k, n) that come `by` places later in the file, in a circle."""
        return rows[:, self._later(by)]

    def _later(self, by: int) -> Ints:
        # the rows of each person are a circle: the one after the last is the first
        sizes = np.repeat(self.sizes, self.sizes)
        to = (self.place + by) % sizes
        if self.in_time:  # at the ends, as in a mirror: the last row is far from the first
            inside = (self.place + by >= 0) & (self.place + by < sizes)
            to = np.where(inside, self.place + by, (self.place - by) % sizes)
        return np.arange(len(self.person)) - self.place + to

    @cached_property
    def other(self) -> Ints:
        """Another row of each row's person: the next in time, or one chosen by chance; itself if
        there is none.
        """
        if self.in_time:
            return self._later(1)
        chance = np.random.default_rng(len(self.person)).random(len(self.person))
        mixed = np.lexsort((chance, self.person))
        other = np.empty(len(mixed), dtype=np.int64)
        other[mixed] = mixed[self._later(1)]
        return other

    def changes(self, rows: Floats) -> Floats:
        """Return the differences (k, n) of rows and others, NaN where there is no other."""
        alone = np.repeat(self.sizes == 1, self.sizes)
        return np.where(alone, np.nan, rows - rows[:, self.other])

    @cached_property
    def part(self) -> Ints:
        """The part that each row is in: all rows of a person, or household, in one."""
        if self.outer is not None:
            return self.outer.part
        return np.repeat(split(len(self.sizes)), self.sizes)
