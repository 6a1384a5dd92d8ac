"""Hidden gaps of persons: what fills one follows the rest of the row and the person's rows.

With x_i = mu + b + r_i, Cov(b) = B between persons and Cov(r_i) = R within them, let o be the
numbers that row i has, and m the person's means over other rows, of column k over the n_k that
have it. The gaps h of the row are a draw from the normal distribution given both:

    Cov(x_i) = B + R,   Cov(x_i, m) = B,   Cov(m_k, m_l) = B_kl + R_kl / max(n_k, n_l)
    x_h = mu_h + A (o - mu_o, m - mu_m) + C z,        z_k = a_k z_u + sqrt(1 - a_k^2) z_i

z_u are white numbers of the person, z_i of the row, and a_k^2 = Var(b_k | o, m) / Var(x_k | o, m):
several gaps of a person share what is open about the person, and differ as rows do. The draw is
brought to the column's distribution as in missing.py. A draw from the conditional distribution
leaves the joint one as it is, so that rows with draws vary within and between persons as complete
ones do, and noise of their shape hides them.

In a column that is constant in each person, a gap has the person's own value. Where all rows have
a gap, it is one draw for all of them, given m of the rows that the person came with:

    b_h = A (m - mu_m) + C z_u

A draw depends on rows that came no later than its own, and on sums of whole steps, which add up in
any order: so it is the same in all editions and copies, and on every machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Flags, Floats, Ids, Ints, Words, lengths_of, places_among
from cornerwave.columns import Fingerprint, Schema
from cornerwave.keyed import expand
from cornerwave.noise import WhiteStreams
from cornerwave.spine.histories import row_words
from cornerwave.spine.missing import Draws, conditional, hides_gaps, like_the_column
from cornerwave.spine.survey import Survey, Surveyor

STEPS = 2.0**20
"""Sums of numbers are kept in steps of this part of a deviation: a draw is good to a millionth."""
FARTHEST = 2.0**36
"""A number counts as no more steps than this from the mean, so that sums of 2^26 rows fit."""
COUNTS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
"""Numbers of rows that means are taken to rest on: the next lower one, so that they are few."""
NEGLIGIBLE = 2.0**-30
"""A number that others leave less than this share of open follows from them."""
MANY = 1 << 20
"""Sums of persons that are kept apart, at most, until those of one person are added up."""


@dataclass(frozen=True)
class PersonSums:
    """Sums over the rows of persons, by the edition that brought these: sorted by both.

    `units` are the first words of persons' ids. `counts` and `sums` (columns, those) are of the
    numbers there, in steps around the mean; `own` are the greatest of them.
    """

    units: Words
    editions: Ints
    counts: Ints
    sums: Ints
    own: Floats

    @classmethod
    def of(cls, units: Words, editions: Ints, x: Floats, draws: Draws) -> "PersonSums":
        """Return those of some rows x (columns, rows); NaN is missing."""
        return cls(units, editions, *_in_steps(x, draws), x + 0.0)._added()

    def __add__(self, other: "PersonSums") -> "PersonSums":
        return PersonSums(
            np.concatenate([self.units, other.units]),
            np.concatenate([self.editions, other.editions]),
            np.concatenate([self.counts, other.counts], axis=1),
            np.concatenate([self.sums, other.sums], axis=1),
            np.concatenate([self.own, other.own], axis=1),
        )._added()

    def _added(self) -> "PersonSums":
        """Add up what belongs to one person and edition."""
        order = np.lexsort((self.editions, self.units))
        units, editions = self.units[order], self.editions[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (units[1:] != units[:-1]) | (editions[1:] != editions[:-1])
        first = np.flatnonzero(new)
        if not len(first):
            return self
        counts, sums = (
            np.add.reduceat(each[:, order], first, axis=1) for each in (self.counts, self.sums)
        )
        largest = np.fmax.reduceat(self.own[:, order], first, axis=1)
        return PersonSums(units[first], editions[first], counts, sums, largest)

    @cached_property
    def starts(self) -> Ints:
        """Where what belongs to each person begins."""
        new = np.ones(len(self.units), dtype=np.bool_)
        new[1:] = self.units[1:] != self.units[:-1]
        return np.flatnonzero(new)

    @cached_property
    def greatest(self) -> Floats:
        """The greatest numbers of each person (columns, persons): of a constant column, the one."""
        return np.asarray(np.fmax.reduceat(self.own, self.starts, axis=1))

    @cached_property
    def so_far(self) -> "PersonSums":
        """The sums up to each edition."""
        lengths = lengths_of(self.starts, len(self.units))

        def added(each: Ints) -> Ints:
            total = np.cumsum(each, axis=1)
            before = (total - each)[:, self.starts]
            return np.asarray(total - np.repeat(before, lengths, axis=1))

        return replace(self, counts=added(self.counts), sums=added(self.sums))

    def persons(self, units: Words) -> Ints:
        """Return which of the persons some are."""
        return places_among(self.units[self.starts], units)

    def places(self, person: Ints, editions: Ints) -> Ints:
        """Return where the sums of a person up to some edition end."""
        number = int(max(self.editions.max(initial=0), editions.max(initial=0))) + 1
        of = np.repeat(np.arange(len(self.starts)), lengths_of(self.starts, len(self.units)))
        stamps = of * number + self.editions
        return np.searchsorted(stamps, person * number + editions, side="right") - 1


@dataclass(frozen=True)
class GapRows:
    """Rows that have a hidden gap: ids, those of their units, editions, numbers (columns, rows)."""

    ids: Ids
    units: Ids
    editions: Ints
    x: Floats

    def __add__(self, other: "GapRows") -> "GapRows":
        return GapRows(
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.units, other.units]),
            np.concatenate([self.editions, other.editions]),
            np.concatenate([self.x, other.x], axis=1),
        )


@dataclass(frozen=True)
class FoundGaps:
    """What draws depend on, of some rows of a table: `a + b` is that of both.

    `fingerprint` is that of the table.
    """

    sums: tuple[PersonSums, ...] = ()
    rows: tuple[GapRows, ...] = ()
    fingerprint: Fingerprint = field(default_factory=Fingerprint.nothing)

    @classmethod
    def of(
        cls, ids: Ids, units: Ids, editions: Ints, x: Floats, schema: Schema, draws: Draws
    ) -> "FoundGaps":
        """Return that of rows on their scales."""
        gaps = np.flatnonzero(hides_gaps(x, schema).any(axis=0))
        rows = GapRows(ids[gaps], units[gaps], editions[gaps], x[:, gaps])
        words = np.ascontiguousarray(units[:, 0])
        return cls((PersonSums.of(words, editions, x, draws),), (rows,))

    def __add__(self, other: "FoundGaps") -> "FoundGaps":
        sums = self.sums + other.sums
        if sum(len(each.units) for each in sums[1:]) > max(MANY, len(sums[0].units)):
            sums = (reduce(add, sums),)
        return FoundGaps(sums, self.rows + other.rows, self.fingerprint + other.fingerprint)

    def trimmed(self) -> "FoundGaps":
        """Return the same: all persons are needed."""
        return self

    def filled(self, schema: Schema, draws: Draws, secret: bytes) -> "FilledGaps":
        """Return the rows with a hidden gap, with draws in these."""
        rows, sums = reduce(add, self.rows), reduce(add, self.sums)
        order = np.argsort(row_words(rows.ids), kind="stable")
        x = _filled(rows, sums, schema, draws, secret)
        return FilledGaps(row_words(rows.ids)[order], x[:, order])


@dataclass(frozen=True)
class FilledGaps:
    """Rows of a table with draws in their hidden gaps, by a word for each row, ascending."""

    words: Words
    x: Floats

    def put(self, x: Floats, ids: Ids, schema: Schema) -> Floats:
        """Return rows x (columns, rows) with their hidden gaps filled."""
        wanted = hides_gaps(x, schema)
        rows = np.flatnonzero(wanted.any(axis=0))
        places = places_among(self.words, row_words(ids[rows]))
        # of a row that was not there nothing is known: the fingerprint will be another one
        rows, places = rows[places >= 0], places[places >= 0]
        out = x.copy()
        out[:, rows] = np.where(wanted[:, rows], self.x[:, places], x[:, rows])
        return out


def with_gaps_filled(surveyor: Surveyor, survey: Survey, draws: Draws | None) -> Survey:
    """Return a survey whose sampled persons have draws in their hidden gaps."""
    sample, schema = survey.persons, surveyor.schema
    if draws is None or sample is None:
        return survey
    columns = len(schema.perturbed)
    ids, units = (
        np.column_stack([words, np.zeros_like(words)]) for words in (sample.rows, sample.units)
    )
    x, editions = sample.numbers[:columns], np.zeros(len(ids), dtype=np.int64)
    gaps = FoundGaps.of(ids, units, editions, x, schema, draws)
    filled = gaps.filled(schema, draws, surveyor.secrets.sample).put(x, ids, schema)
    numbers = np.concatenate([filled, sample.numbers[columns:]])
    return replace(survey, persons=replace(sample, numbers=numbers))


def _in_steps(x: Floats, draws: Draws) -> tuple[Ints, Ints]:
    """Return which numbers are there, and how many steps from the mean; 0 for NaN."""
    apart = (x - draws.mean[:, None]) / draws.deviation[:, None] * STEPS
    steps = np.rint(np.clip(np.nan_to_num(apart), -FARTHEST, FARTHEST))
    return (~np.isnan(x)).astype(np.int64), steps.astype(np.int64)


def _filled(rows: GapRows, sums: PersonSums, schema: Schema, draws: Draws, secret: bytes) -> Floats:
    """Return the numbers of rows with a draw in each hidden gap."""
    if not len(rows.ids):
        return rows.x
    person = sums.persons(np.ascontiguousarray(rows.units[:, 0]))
    by_person = _white(rows.units, len(rows.x), expand(secret, "persons"))
    x = _with_constants(rows, sums, person, by_person, schema, draws)
    # what changes in a person: given what the row has, and the means of the person's other rows
    at, (there, of_row) = sums.places(person, rows.editions), _in_steps(rows.x, draws)
    counts = sums.so_far.counts[:, at] - there
    totals = sums.so_far.sums[:, at] - of_row
    here = ~np.isnan(x)
    counts[list(draws.constant)] *= ~here[list(draws.constant)]  # the row has what the mean has
    by_row = _white(rows.ids, len(rows.x), secret)
    given = _Given(x, here, counts, totals)
    return given.drawn(hides_gaps(x, schema), by_person, by_row, schema, draws)


def _with_constants(
    rows: GapRows, sums: PersonSums, person: Ints, white: Floats, schema: Schema, draws: Draws
) -> Floats:
    """Return rows in which what is constant in each person is there, if it has to be."""
    constant = np.zeros(rows.x.shape, dtype=np.bool_)
    constant[list(draws.constant)] = True
    x = np.where(constant & hides_gaps(rows.x, schema), sums.greatest[:, person], rows.x)
    first = sums.starts[person]
    nothing = np.zeros(x.shape, dtype=np.bool_)
    given = _Given(x, nothing, sums.counts[:, first], sums.sums[:, first])
    return given.drawn(constant & hides_gaps(x, schema), white, None, schema, draws)


def _white(ids: Ids, columns: int, secret: bytes) -> Floats:
    """Return a standard normal for each column and id."""
    streams = WhiteStreams(secret, [0.0], columns=columns, rows=len(ids))
    streams.place(ids)
    return streams.normals(0.0)


@dataclass(frozen=True)
class _Given:
    """Rows x of which some numbers are `here`, and sums over `counts` other rows of the person."""

    x: Floats
    here: Flags
    counts: Ints
    sums: Ints

    def drawn(
        self, wanted: Flags, by_person: Floats, by_row: Floats | None, schema: Schema, draws: Draws
    ) -> Floats:
        """Return x with draws where they are `wanted`; without `by_row` they are of mu + b."""
        out, columns = self.x.copy(), len(self.x)
        means = self.sums / np.maximum(self.counts, 1) / STEPS * draws.deviation[:, None]
        # the vector (mu + b, x, m - mu)
        vector = np.concatenate([self.x, self.x, means])
        mean = np.concatenate([draws.mean, draws.mean, np.zeros(columns)])
        white, drawn = np.zeros(vector.shape), np.zeros(vector.shape)
        for rows, h, seen, V in self._patterns(wanted, draws):
            at = h if by_row is None else h + columns
            weights, spread = conditional(V, seen, at, NEGLIGIBLE)
            open_ = _squares(spread)
            white[np.ix_(at, rows)] = by_person[np.ix_(h, rows)]
            if by_row is not None:
                # a^2 = Var(b | o, m) / Var(x | o, m)
                shared = _squares(conditional(V, seen, h, NEGLIGIBLE)[1])
                a2 = np.minimum(shared / np.where(open_ > 0, open_, 1.0), 1.0)[:, None]
                rows_part, persons = by_row[np.ix_(h, rows)], by_person[np.ix_(h, rows)]
                white[np.ix_(at, rows)] = np.sqrt(a2) * persons + np.sqrt(1.0 - a2) * rows_part
            _core.draw_missing(drawn, vector, white, rows, seen, at, mean, weights, spread)
            for place, of, left in zip(h.tolist(), at.tolist(), open_.tolist(), strict=True):
                name = schema.perturbed[place]
                out[place, rows] = like_the_column(drawn[of, rows], place, name, left, draws)
        return out

    def _patterns(self, wanted: Flags, draws: Draws) -> Iterator[tuple[Ints, Ints, Ints, Floats]]:
        """Yield rows that want and have the same: with h, what is seen, and the covariance of all.

        Of the vector (b, x, m).
        """
        columns, rows = len(self.x), np.flatnonzero(wanted.any(axis=0))
        number = np.searchsorted(COUNTS, self.counts[:, rows], side="right") - 1
        alike = np.concatenate([wanted[:, rows], self.here[:, rows], number])
        _, which = np.unique(alike, axis=1, return_inverse=True)
        by = np.argsort(which.reshape(-1), kind="stable")
        for some in np.split(by, np.flatnonzero(np.diff(which.reshape(-1)[by])) + 1):
            if not len(some):
                continue
            first = rows[some[0]]
            n = COUNTS[number[:, some[0]]]
            seen = columns + np.flatnonzero(np.concatenate([self.here[:, first], n > 0]))
            h = np.flatnonzero(wanted[:, first])
            yield rows[some], h, seen, _covariance(draws, n)


def _covariance(draws: Draws, n: Ints) -> Floats:
    """Return the covariance of (b, x, m), of means over n rows."""
    B, R = draws.between, draws.within
    assert B is not None
    assert R is not None
    # Cov(m_k, m_l) = B_kl + R_kl / max(n_k, n_l), as if the rows of one were among the other's
    most = np.maximum(np.maximum(n[:, None], n[None, :]), 1)
    return np.block([[B, B, B], [B, B + R, B], [B, B, B + R / most]])


def _squares(spread: Floats) -> Floats:
    """Return the sums of squares of rows, each from left to right."""
    return np.array([sum(part * part for part in row) for row in spread.tolist()], dtype=np.float64)
