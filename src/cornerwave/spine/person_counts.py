"""How many persons a table with a unit has, how many rows each, and how many hold each value.

A name that one person has in ten rows is held by ten rows, and identifies that person. Of each
value the least and the greatest word of the persons who hold it are known: the same word twice if
that is one person. Both add up, in any order and any parts. Of other values the number of persons
is about that of the rows over the rows that a person has.

Persons are nested if each is in one household, and never in two. A person is named by household and
person, so the numbers 1, 2, 3 may begin anew in each household. Of each name alone the least and
the greatest word of its households are known: names that have two households are counted. If most
names have several, they are numbers that begin anew. If a few have, these persons moved: they would
count as two, with separate noise in each household, and anyone who links both would average it.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cornerwave.arrays import Ints, Words, lengths_of
from cornerwave.columns import MISSING_BITS, Column, Encoded, Schema, Tally, cases
from cornerwave.errors import ColumnError
from cornerwave.spine.person_sample import PersonSample
from cornerwave.spine.rows import Nest

if TYPE_CHECKING:
    from cornerwave.spine.survey import Survey, Surveyor


ODD = np.uint64(0x9E3779B97F4A7C15)
"""Multiplied by it, words of several columns make one."""
FEW = 5
"""A person stands out by a number of rows that fewer persons than this have."""


@dataclass(frozen=True)
class PersonCounts:
    """Persons, the typical and the largest number of rows of one, and those who stand out by it.

    `unnamed` rows have no unit: each is a person of its own. Unless `exact`, these are estimates
    from sampled persons, and `most` is the largest number among them. If persons belong to
    `households`, these have a typical number of persons, and the largest; those stand out whose
    persons have numbers of rows like those of few others.
    """

    persons: int
    typical: int
    most: int
    stand_out: int
    unnamed: int
    exact: bool
    households: int | None = None
    typical_persons: int = 0
    most_persons: int = 0
    households_stand_out: int = 0

    @classmethod
    def of(cls, surveyor: "Surveyor", survey: "Survey") -> "PersonCounts | None":
        """Return those of a surveyed table; None if it has no unit."""
        if survey.persons is None:
            return None
        sample = survey.persons
        sizes = sample.counts[sample.starts]
        _, which, equal = np.unique(sizes, return_inverse=True, return_counts=True)
        alone = np.count_nonzero(equal[which] < FEW * sample.share)
        missing = _unnamed(surveyor, survey)
        of_households = {} if sample.outers is None else _of_households(sample)
        return cls(
            persons=sample.persons,
            typical=round(float(np.median(sizes))),
            most=int(sizes.max()),
            stand_out=round(alone / sample.share),
            unnamed=round(missing * survey.moments.rows),
            # `missing` is exact if all rows were looked at for units
            exact=sample.share == 1.0 and len(survey.units.ordered.hashes) == survey.moments.rows,
            **of_households,
        )

    def sentences(self, schema: Schema) -> Iterator[str]:
        """Yield what the owner should know about the persons, and what copies show of them."""
        unit = schema.column(schema.unit or "")
        most = f", at most {self.most:,}" if self.most > self.typical else ""
        what = "household" if schema.nested else "person"
        lone = (
            f"; {self._number(self.unnamed)} rows have none, and each counts as a separate {what}"
            if self.unnamed
            else ""
        )
        if self.households is not None:
            outer = schema.column(schema.outer_unit or "")
            many = f", at most {self.most_persons:,}" * (self.most_persons > self.typical_persons)
            yield (
                f"unit: {outer.name}, {_shown_as(outer)}; {self._number(self.households)} "
                f"households, typically {_persons(self.typical_persons)} each{many}{lone}"
            )
            lone = ""
        yield (
            f"unit: {unit.name}, {_shown_as(unit)}; {self._number(self.persons)} persons, "
            f"typically {_rows(self.typical)} each{most}{lone}"
        )
        for each in map(schema.column, schema.units):
            if each.shown and each.as_is:
                yield (
                    f"{each.name} is released unchanged: anyone who knows the {each.name} of a "
                    "person finds the rows of that person in every copy, and can join other tables "
                    "to them"
                )
        if unit.shown:
            yield f"copies show how many rows a person has: {self._stand_out()}"
        if schema.nested and schema.column(schema.outer_unit or "").shown:
            stand = self.households_stand_out
            many = (
                f"{self._number(stand)} {'household stands' if stand == 1 else 'households stand'}"
            )
            yield (
                "copies show which persons belong together: "
                f"{many if stand else 'no household stands'} out by how many rows its persons have"
            )

    def _number(self, count: int) -> str:
        """Write a count; of an estimate three digits."""
        return f"{count:,}" if self.exact else f"about {float(f'{count:.3g}'):,.0f}"

    def _stand_out(self) -> str:
        if not self.stand_out:
            return f"nobody stands out by it (at least {FEW} persons have each number)"
        stand = "person stands" if self.stand_out == 1 else "persons stand"
        return (
            f"{self._number(self.stand_out)} {stand} out by it (fewer than {FEW} persons have as "
            "many)"
        )


def _of_households(sample: PersonSample) -> dict[str, int]:
    """Return how many households there are, with how many persons each, and who stands out."""
    starts, firsts = sample.starts, np.searchsorted(sample.starts, sample.outer_starts)
    persons = lengths_of(firsts, len(starts))
    household = np.repeat(np.arange(len(firsts)), persons)
    rows = sample.counts[starts]
    rows = rows[np.lexsort((rows, household))]
    patterns = [each.tobytes() for each in np.split(rows, firsts[1:])]
    _, which, equal = np.unique(patterns, return_inverse=True, return_counts=True)
    alone = np.count_nonzero(equal[which] < FEW * sample.share)
    return {
        "households": round(len(firsts) / sample.share),
        "typical_persons": round(float(np.median(persons))),
        "most_persons": int(persons.max()),
        "households_stand_out": round(alone / sample.share),
    }


def _shown_as(unit: Column) -> str:
    if not unit.shown:
        return "not in copies"
    return "released unchanged" if unit.as_is else "a pseudonym in copies"


def _persons(number: int) -> str:
    return "1 person" if number == 1 else f"{number:,} persons"


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


def _unnamed(surveyor: "Surveyor", survey: "Survey") -> float:
    """Return the share of the rows that have no unit, by the rows looked at for units."""
    names = [column.name for column in surveyor.unit_columns.cells]
    places = [names.index(unit) for unit in surveyor.schema.units[:1]]
    cells = survey.units.ordered.cells[places]
    return float(np.mean(cells == MISSING_BITS)) if cells.size else 0.0


# --------------------------------------------------------------------------------------------------
# How many persons hold a value of a category.


Holders = Mapping[tuple[Any, ...], tuple[int, int]]


def holders_of(columns: Sequence[Encoded], persons: Words) -> Holders:
    """Return the holders of the values of some rows, given a word for the person of each."""
    distinct, rows = cases(columns)
    least = np.full(len(distinct), np.iinfo(np.uint64).max, dtype=np.uint64)
    greatest = np.zeros(len(distinct), dtype=np.uint64)
    np.minimum.at(least, rows, persons)
    np.maximum.at(greatest, rows, persons)
    words = zip(distinct, least.tolist(), greatest.tolist(), strict=True)
    return {value: (low, high) for value, low, high in words if low <= high}


def all_holders(one: Holders, other: Holders) -> Holders:
    """Return the holders of values in two parts of a table."""
    both = dict(one)
    for value, (low, high) in other.items():
        known = both.get(value, (low, high))
        both[value] = min(low, known[0]), max(high, known[1])
    return both


def persons_holding(tally: Tally, holders: Holders, cells: Words, sample: PersonSample) -> Tally:
    """Return about how many persons hold each value: exact if it is one.

    `cells` (columns, rows) are those of the sampled rows: of a sex a person holds one value in all
    rows, of a time of day nearly as many as there are rows.
    """
    starts = sample.outer_starts  # persons of a household count as one
    sizes = lengths_of(starts, cells.shape[1])
    pairs = np.repeat(np.arange(len(starts), dtype=np.uint64), sizes)
    for words in cells:  # cells are hashes: one word for all of them
        pairs = pairs * ODD ^ words
    # of a person with many rows some are sampled
    rows = (sample.counts / _sampled(sample)).sum()
    rows_each = float(rows) / max(1, len(np.unique(pairs)))
    return Tally(
        {
            value: 1 if len(set(holders[value])) == 1 else max(2, round(rows / rows_each))
            for value, rows in tally.items()
        }
    )


def _sampled(sample: PersonSample) -> Ints:
    """Return how many rows of each row's person are in the sample."""
    sizes = lengths_of(sample.starts, len(sample.units))
    return np.repeat(sizes, sizes)


# --------------------------------------------------------------------------------------------------
# Persons in households.


ANEW = 0.5
"""Names begin anew in each household if more than this share of them is in several."""


@dataclass(frozen=True)
class Nesting:
    """Words of the names of persons, ascending, and the least and greatest word of a household."""

    names: Words
    low: Words
    high: Words

    @classmethod
    def of(cls, nest: Nest) -> "Nesting":
        """Return that of some rows; those that lack a household or a person do not count."""
        names = (nest.names[:, 0] ^ nest.names[:, 1])[nest.known]
        outers = (nest.outers[:, 0] ^ nest.outers[:, 1])[nest.known]
        return _merged(names, outers, outers)

    def __add__(self, other: "Nesting") -> "Nesting":
        return _merged(
            *(
                np.concatenate([getattr(self, part), getattr(other, part)])
                for part in ("names", "low", "high")
            )
        )

    @property
    def in_several(self) -> int:
        """How many names are in several households."""
        return int(np.count_nonzero(self.low != self.high))

    def check(self, schema: Schema) -> None:
        """Raise ColumnError if a few persons are in several households."""
        many, several = len(self.names), self.in_several
        if 0 < several <= ANEW * many:
            outer, inner = schema.nested
            raise ColumnError(
                f"{several:,} of {many:,} values of {inner!r} are in more than one {outer!r}: "
                f"persons who move are not nested. Name {inner!r} alone as the unit, leave their "
                f"rows out, or make a column that names the {outer!r} they were in first. If "
                f"{inner!r} begins anew in each {outer!r}, make one column of both, and name it "
                f"after {outer!r}",
                use=("unit",),
            )

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps: keyed hashes, and no cell."""
        out = io.BytesIO()
        np.savez(out, names=self.names, low=self.low, high=self.high)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "Nesting":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            return cls(kept["names"], kept["low"], kept["high"])


def _merged(names: Words, low: Words, high: Words) -> Nesting:
    order = np.argsort(names, kind="stable")
    names, low, high = names[order], low[order], high[order]
    first = np.flatnonzero(np.append(True, names[1:] != names[:-1])) if len(names) else order
    if len(first) < len(names):
        low, high = np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)
    return Nesting(names[first], low, high)
