"""Sampled persons: all rows of some, to measure what distinguishes persons and what their rows.

The sample has the units whose keyed hash is smallest, as many as fit into `most` rows, and of each
the rows whose hash is smallest, at most MOST_ROWS. Whatever parts a table is surveyed in, parts of
a unit that belongs to the sample are in the samples of all parts: counts only grow, so what is
left out of a part would be left out of the whole. Samples add up, to the bit.

Of a table with two units whole households are sampled: those whose hash is smallest, and of each
the rows of the persons whose hash is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import (
    LARGEST_WORD,
    Flags,
    Floats,
    Ids,
    Ints,
    Words,
    lengths_of,
    places_among,
)
from cornerwave.columns import Schema
from cornerwave.errors import ColumnError
from cornerwave.keyed import BlockFunction, room_for
from cornerwave.moments import Moments
from cornerwave.noise import PersonNoise
from cornerwave.privacy import LEAST_PERSONS

MOST_ROWS = 256
"""Rows of one unit: more reveal little more of it, and one unit must not fill the sample."""
RARE_CHANGE = 0.01
"""The share of a column's variance that noise by row has, if it changes in no sampled person."""


@dataclass(frozen=True)
class PersonSample:
    """Rows of sampled units, sorted by unit and row: hashes, numbers and cells (columns, rows).

    `counts` is how many rows the unit of each row has in all. `outers` are the hashes of the
    households of persons, if there are some: then rows are sorted by these first. `order` states
    in which order rows of a unit follow each other, if copies show that and there are no times.
    """

    units: Words
    rows: Words
    counts: Ints
    numbers: Floats
    cells: Words
    most: int
    limit: np.uint64 = LARGEST_WORD
    outers: Words | None = None
    order: Floats | None = None

    @classmethod
    def of(
        cls,
        units: Words,
        rows: Words,
        numbers: Sequence[Floats],
        cells: Sequence[Words],
        most: int,
        outers: Words | None = None,
        below: np.uint64 = LARGEST_WORD,
        follow: Floats | None = None,
    ) -> "PersonSample":
        """Sample some rows, given the hashes of their units and their own: all up to `below`."""
        order = _order_of(units, rows) if outers is None else _in_order(units, rows, outers)
        first = _first_rows(units.take(order))
        sizes = lengths_of(first, len(order))
        counts = np.empty(len(order), dtype=np.int64)
        counts[order] = np.repeat(sizes, sizes)
        given = np.array(numbers).reshape(len(numbers), len(order))
        words = np.array(cells, dtype=np.uint64).reshape(len(cells), len(order))
        made = cls(units, rows, counts, given, words, most, below, outers, follow)
        return made._trimmed(order)

    def __add__(self, other: "PersonSample") -> "PersonSample":
        limit = min(self.limit, other.limit)
        one, two = (each._up_to(limit) for each in (self, other))
        both = PersonSample(
            np.concatenate([one.units, two.units]),
            np.concatenate([one.rows, two.rows]),
            np.concatenate([one.counts, two.counts]),
            np.concatenate([one.numbers, two.numbers], axis=1),
            np.concatenate([one.cells, two.cells], axis=1),
            self.most,
            limit,
            None if one.outers is None or two.outers is None else _joined(one.outers, two.outers),
            None if one.order is None or two.order is None else np.append(one.order, two.order),
        )
        order = _in_order(both.units, both.rows, both.outers)
        from_two = order >= len(one.units)
        # counts of a unit are those of its part: both parts are added up for units in both
        counts = np.empty_like(both.counts)
        counts[order] = _added(both.units.take(order), both.counts.take(order), from_two)
        return replace(both, counts=counts)._trimmed(order)

    def _up_to(self, limit: np.uint64) -> "PersonSample":
        """Return the sample without units above a limit."""
        end = int(np.searchsorted(self._chosen, limit, side="right"))
        return self if end == len(self.units) else self._take(slice(0, end))

    @property
    def _chosen(self) -> Words:
        """The hash by which the unit of each row is sampled."""
        return self.units if self.outers is None else self.outers

    def _take(self, rows: Ints | slice) -> "PersonSample":
        return replace(
            self,
            units=self.units[rows],
            rows=self.rows[rows],
            counts=self.counts[rows],
            numbers=_columns(self.numbers, rows),
            cells=_columns(self.cells, rows),
            outers=None if self.outers is None else self.outers[rows],
            order=None if self.order is None else self.order[rows],
        )

    def _trimmed(self, order: Ints | None = None) -> "PersonSample":
        """Return the sample in its order, if that is given, without rows and units too many."""
        chosen = self._chosen if order is None else self._chosen.take(order)
        first = _first_rows(chosen)
        sizes = lengths_of(first, len(chosen))
        fits = _fitting(sizes, self.most)
        if (sizes <= MOST_ROWS).all() and fits.all():
            return self if order is None else self._take(order)
        place = np.arange(len(chosen)) - np.repeat(first, sizes)
        rows = np.flatnonzero((place < MOST_ROWS) & np.repeat(fits, sizes))
        # other parts may have units before the first that does not fit here
        limit = chosen[first[~fits][0]] - np.uint64(1) if not fits.all() else self.limit
        trimmed = self._take(rows if order is None else order[rows])
        return replace(trimmed, limit=min(self.limit, limit))

    def without_gaps(self, numbers: int) -> "PersonSample":
        """Return the rows that miss none of the first numbers."""
        return self._take(np.flatnonzero(~np.isnan(self.numbers[:numbers]).any(axis=0)))

    def without(self, rows: Words) -> "PersonSample":
        """Return the sample without some rows, given their hashes: they went, or are others now."""
        gone = np.isin(self.rows, rows)
        if not gone.any():
            return self
        sizes = lengths_of(self.starts, len(self.units))
        lost = np.repeat(np.add.reduceat(gone, self.starts, dtype=np.int64), sizes)
        return replace(self, counts=self.counts - lost)._take(np.flatnonzero(~gone))

    def renamed(self, before: Words, after: Words) -> "PersonSample":
        """Return the sample with other hashes of some rows."""
        order = np.argsort(before)
        place = places_among(before[order], self.rows)
        if (place < 0).all():
            return self
        rows = np.where(place < 0, self.rows, after[order][place])
        return replace(self, rows=rows)._take(_in_order(self.units, rows, self.outers))

    def at_most(self, rows: int) -> "PersonSample":
        """Return a sample of fewer rows."""
        return replace(self, most=min(rows, self.most))._trimmed()

    def in_order_of(self, times: Floats) -> "PersonSample":
        """Return the rows of each unit in the order of their times."""
        by = [times, self.units] if self.outers is None else [times, self.units, self.outers]
        return self._take(np.lexsort(by))

    @property
    def share(self) -> float:
        """The share of all persons that are in the sample: hashes are evenly distributed."""
        return 1.0 if self.limit == LARGEST_WORD else float(self.limit) / 2.0**64

    @property
    def persons(self) -> int:
        """How many persons there are, an estimate if the sample does not have all of them."""
        return round(len(self.starts) / self.share)

    @property
    def starts(self) -> Ints:
        """Where the rows of each unit begin."""
        return _first_rows(self.units)

    @property
    def outer_starts(self) -> Ints:
        """Where the rows of each household begin; of each person without these."""
        return _first_rows(self._chosen)


def _fitting(sizes: Ints, most: int) -> Flags:
    """Return which units fit into a sample of `most` rows, given the rows of each in order."""
    # units are in the order of their hashes: the first whose rows fit together
    fits = np.cumsum(np.minimum(sizes, MOST_ROWS)) <= most
    if len(fits):
        fits[0] = True
    return fits


def unit_limit(chosen: Words, most: int, known: PersonSample | None) -> np.uint64:
    """Return the hash above which rows are not in a sample, given those of their units.

    `known` is what is sampled already of the rows that these are added to.
    """
    limit = LARGEST_WORD if known is None else known.limit
    some = chosen[chosen <= limit]
    units = np.sort(some if known is None else _joined(known._chosen, some))
    first = _first_rows(units)
    fits = _fitting(lengths_of(first, len(units)), most)
    return limit if fits.all() else units[first[~fits][0]] - np.uint64(1)


def _columns(values: Any, rows: Ints | slice) -> Any:
    """Return some rows of columns (columns, rows)."""
    return values[:, rows] if isinstance(rows, slice) else values.take(rows, axis=1)


def _joined(one: Words, two: Words) -> Words:
    return np.concatenate([one, two])


def _in_order(units: Words, rows: Words, outers: Words | None) -> Ints:
    """Return the order by household, unit and row: of parts that are in order it takes little."""
    if outers is not None:
        return np.lexsort((rows, units, outers))
    order = np.argsort(units, kind="stable")
    units, rows = units.take(order), rows.take(order)
    wrong = (units[1:] == units[:-1]) & (rows[1:] < rows[:-1])
    if wrong.any():  # few units have rows in both parts
        first = _first_rows(units)
        sizes, mixed = lengths_of(first, len(units)), np.zeros(len(first), dtype=np.bool_)
        mixed[np.searchsorted(first, np.flatnonzero(wrong), side="right") - 1] = True
        some = np.flatnonzero(np.repeat(mixed, sizes))
        order[some] = order[some[np.lexsort((rows[some], units[some]))]]
    return order


def _order_of(units: Words, rows: Words) -> Ints:
    """Return the order by unit and row: of rows of which many of a unit follow each other."""
    order = np.argsort(rows)
    ascending = rows.take(order)
    if (ascending[1:] == ascending[:-1]).any():  # in which order these come depends on the machine
        return np.lexsort((rows, units))
    first = _first_rows(units)
    known, number = np.unique(units[first], return_inverse=True)
    # numbers of 16 bits are sorted in linear time
    number = number.astype(np.uint16 if len(known) <= 1 << 16 else np.int64)
    of_row = np.repeat(number, lengths_of(first, len(units)))
    return order[np.argsort(of_row.take(order), kind="stable")]


def _first_rows(units: Words) -> Ints:
    changes = np.ones(len(units), dtype=np.bool_)
    changes[1:] = units[1:] != units[:-1]
    return np.flatnonzero(changes)


def _added(units: Words, counts: Ints, from_two: Flags) -> Ints:
    """Return the sum of the counts that two samples have of each unit, for each of its rows."""
    first = _first_rows(units)
    sizes = lengths_of(first, len(units))
    if not len(first):
        return counts
    one = np.maximum.reduceat(np.where(from_two, 0, counts), first)
    two = np.maximum.reduceat(np.where(from_two, counts, 0), first)
    return np.repeat(one + two, sizes)


def unit_hashes(units: Ids, secret: bytes) -> Words:
    """Return a keyed hash of each unit, to choose a sample by."""
    return BlockFunction(secret)(units, room_for(len(units)))[::2].copy()


def check_persons(sample: PersonSample, schema: Schema, *, linked: bool = False) -> None:
    """Raise ColumnError for a unit that names no persons with several rows, or few of them.

    In a table that is `linked` with others a person may have one row.
    """
    persons, unit = len(sample.outer_starts), schema.outer_unit or schema.unit
    if schema.nested:
        _check_nested(sample, schema)
    if not linked and persons == len(sample.units) and (sample.counts == 1).all():
        raise ColumnError(
            f"{unit!r} differs in every row, so each row is a person; leave the unit out, "
            "or make it the key",
            use=("key", "drop"),
        )
    if persons < LEAST_PERSONS:
        raise ColumnError(
            f"{unit!r} names {persons} {'person or thing' if persons == 1 else 'persons or things'}"
            f", and at least {LEAST_PERSONS} are needed: "
            "among so few none can be hidden. Choose another unit, or leave it out",
        )


def _check_nested(sample: PersonSample, schema: Schema) -> None:
    """Raise ColumnError for units of which one adds nothing to the other."""
    outer, inner = schema.nested
    if len(sample.starts) == len(sample.units) and (sample.counts == 1).all():
        raise ColumnError(
            f"{inner!r} differs in every row of each {outer!r}, so each row is a person: "
            f"name {outer!r} alone as the unit, and leave {inner!r} out"
        )
    if len(sample.outer_starts) == len(sample.starts):
        raise ColumnError(
            f"{outer!r} has one {inner!r} each, so both name the same: name one of them as the "
            "unit, and leave the other out"
        )


def with_means(x: Floats, starts: Ints) -> Floats:
    """Return numbers (columns, rows) of persons with the person's mean in place of gaps.

    A column that is constant in each person stays so; a person without any value has 0.
    """
    present = ~np.isnan(x)
    if present.all():
        return x
    sizes = lengths_of(starts, x.shape[1])
    sums = np.add.reduceat(np.nan_to_num(x), starts, axis=1)
    means = sums / np.maximum(np.add.reduceat(present, starts, axis=1, dtype=np.int64), 1)
    return np.where(present, x, np.repeat(means, sizes, axis=1))


def next_rows(starts: Ints, rows: int) -> Ints:
    """Return another row of the same unit for each row, in a circle; of a single row itself."""
    following = np.arange(1, rows + 1)
    following[np.append(starts[1:], rows) - 1] = starts
    return following


def next_persons(sample: PersonSample) -> Ints:
    """Return a row of the next person of the same household for each row, in a circle.

    Rows of one person meet those of the next in turn; a row of a person who is alone meets itself.
    """
    starts, rows = sample.starts, len(sample.units)
    sizes = lengths_of(starts, rows)
    first = np.searchsorted(starts, sample.outer_starts)  # the first person of each household
    following = next_rows(first, len(starts))
    person = np.repeat(np.arange(len(starts)), sizes)
    other, place = following[person], np.arange(rows) - starts[person]
    met = starts[other] + place % sizes[other]
    return np.where(other == person, np.arange(rows), met)


def _moments_of_pairs(x: Floats, other: Ints) -> tuple[Floats, Floats] | None:
    """Return the covariances of sums and of differences of rows and others; None without any."""
    paired = np.flatnonzero(other != np.arange(len(other)))
    if not len(paired):
        return None
    one, two = x[:, paired], x[:, other[paired]]
    # exact sums, as of K: the noise depends on every bit
    of_sums, of_differences = (Moments.of_columns(z).covariance for z in (one + two, one - two))
    return of_sums, of_differences


def nested_noise(
    sample: PersonSample,
    columns: int,
    shape: Floats,
    varying: Sequence[int] = (),
    varying_in_outer: Sequence[int] = (),
) -> PersonNoise:
    """Return the noise for a table of persons in households, and the shape that rows need alone.

    Over pairs of rows of a person i and i', and of two persons of one household i and j

        R = Cov(x_i - x_i') / 2                                  what distinguishes rows
        B = Cov(x_i - x_j) / 2 - R                               persons
        H = (Cov(x_i + x_j) - Cov(x_i - x_j)) / 4                households

    Columns that are `varying`, though in no sampled person, or household, get some noise there.
    """
    x = sample.numbers[:columns]
    of_rows = _moments_of_pairs(x, next_rows(sample.starts, len(sample.units)))
    of_persons = _moments_of_pairs(x, next_persons(sample))
    assert of_rows is not None, "a unit with one row each is refused"
    assert of_persons is not None, "a household with one person each is refused"
    within, apart = of_rows[1] / 2, of_persons[1] / 2
    between = apart - within
    for places, matrix in ((varying, within), (varying_in_outer, between)):
        for place in places:
            matrix[place, place] += RARE_CHANGE * shape[place, place]
    return PersonNoise.nested((of_persons[0] - of_persons[1]) / 4, between, within, shape)


def person_noise(
    sample: PersonSample, columns: int, shape: Floats, varying: Sequence[int] = ()
) -> PersonNoise:
    """Return the noise for a table, from sampled persons and the shape that rows need alone.

    Over pairs of different rows of a person

        D = Cov(x_i - x_j) / 2        B = (Cov(x_i + x_j) - Cov(x_i - x_j)) / 4

    where j is the next row of the person after i, in a circle; pairs with a gap are left out.
    Columns that are `varying`, though in no sampled person, get some noise by row.
    """
    x, other = sample.numbers[:columns], next_rows(sample.starts, len(sample.units))
    paired = np.flatnonzero(other != np.arange(len(other)))
    one, two = x[:, paired], x[:, other[paired]]
    if not len(paired):  # one row each, as in a table that others are linked with
        return PersonNoise.of(shape, np.zeros_like(shape), shape)
    # exact sums, as of K: the noise depends on every bit
    of_sums, of_differences = (Moments.of_columns(z).covariance for z in (one + two, one - two))
    # x_i = b + r_i: differences have the covariance 2 D, sums 4 B + 2 D
    within = of_differences / 2
    for place in varying:
        within[place, place] += RARE_CHANGE * shape[place, place]
    return PersonNoise.of((of_sums - of_differences) / 4, within, shape)
