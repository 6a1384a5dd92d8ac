"""What someone looks at who knows which persons are of one household, and the noise of it.

Beside value, mean and change of a person's rows

    group    the mean of the household's rows
    apart    the person's mean less that of another person of the household

Every one of these is a sum of terms: a row, the mean of a person's rows, that of a household's.
With H, B and R the covariances of the noise of households, persons and rows, two functions with
weights a_j and b_j of the rows j of a household have the noise

    (sum_j a_j)(sum_j b_j) H  +  sum_p (sum_{j in p} a_j)(sum_{j in p} b_j) B  +  sum_j a_j b_j R
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from cornerwave.arrays import Floats, Ints, lengths_of
from cornerwave.noise import PersonNoise

ROW, PERSON, HOUSEHOLD = "row", "person", "household"


@dataclass(frozen=True)
class Nested:
    """Rows sorted by household and person: where the rows of each begin."""

    persons: Ints
    households: Ints
    rows: int

    @cached_property
    def person(self) -> Ints:
        """The person of each row."""
        return np.repeat(np.arange(len(self.persons)), self.of_persons)

    @cached_property
    def household(self) -> Ints:
        """The household of each row."""
        return np.repeat(np.arange(len(self.households)), self.of_households)

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
        """The next row of the person, in a circle, of each row."""
        following = np.arange(1, self.rows + 1)
        following[np.append(self.persons[1:], self.rows) - 1] = self.persons
        return following

    def seen(self) -> Floats:
        """Return what everybody sees of the numbers of rows and persons (k, rows)."""
        m = self.of_persons[self.person].astype(np.float64)
        n = self.of_households[self.household].astype(np.float64)
        k = self.counts[self.household].astype(np.float64)
        # sizes reveal what depends on them: means vary as 1 / m, and totals rise with log m
        return np.stack([1 / m, np.log(m), 1 / n, np.log(n), 1 / k])

    def functions(self) -> list["NestedFunction"]:
        """Return value, mean and change of a person's rows, then group and apart, for each row."""
        here, person = np.arange(self.rows), self.person
        one = NestedTerm(1.0, ROW, here)
        of_person = NestedTerm(1.0, PERSON, person)
        return [
            NestedFunction(self, (one,)),
            NestedFunction(self, (of_person,)),
            NestedFunction(
                self, (NestedTerm(1.0, ROW, self.next_row), NestedTerm(-1.0, ROW, here))
            ),
            NestedFunction(self, (NestedTerm(1.0, HOUSEHOLD, self.household),)),
            NestedFunction(self, (of_person, NestedTerm(-1.0, PERSON, self.other[person]))),
        ]


@dataclass(frozen=True)
class NestedTerm:
    """A share of a row, or of the mean of a person's rows or a household's, for each row."""

    share: float
    kind: str
    at: Ints


@dataclass(frozen=True)
class NestedFunction:
    """A sum of terms."""

    nested: Nested
    terms: Sequence[NestedTerm]

    def of(self, values: Floats) -> Floats:
        """Return it of values (k, rows)."""
        nested = self.nested
        of = {
            ROW: values,
            PERSON: np.add.reduceat(values, nested.persons, axis=1) / nested.of_persons,
            HOUSEHOLD: np.add.reduceat(values, nested.households, axis=1) / nested.of_households,
        }
        return np.asarray(sum(each.share * of[each.kind][:, each.at] for each in self.terms))

    def shared_with(self, other: "NestedFunction") -> Floats:
        """Return what both have of one household, of one person and of one row (3, rows)."""
        shared = np.zeros((3, self.nested.rows))
        # both are sums, and the products of weights are bilinear in them
        for one, two in product(self.terms, other.terms):
            shared += one.share * two.share * np.stack(_shared(self.nested, one, two))
        return shared


def _shared(nested: Nested, one: NestedTerm, two: NestedTerm) -> tuple[Floats, Floats, Floats]:
    """Return the sums over households, persons and rows of products of two terms' weights."""
    ones = np.ones(nested.rows)
    if HOUSEHOLD in (one.kind, two.kind):
        other = two if one.kind == HOUSEHOLD else one
        # weights 1/n on all n rows: 1 over households, and over rows n times 1/n squared
        n = nested.of_households[nested.household]
        if other.kind == HOUSEHOLD:
            # sum over persons of (m_p / n)^2
            squares = np.add.reduceat(nested.of_persons**2, nested.first_persons)
            of_persons = squares[nested.household] / n**2
        else:
            # only the other term's person has weight in both: m_p / n times 1
            of_persons = nested.of_persons[_person(nested, other)] / n
        return ones, of_persons, 1.0 / n
    persons = _person(nested, one), _person(nested, two)
    same = (persons[0] == persons[1]).astype(np.float64)
    if ROW == one.kind == two.kind:
        return ones, same, (one.at == two.at).astype(np.float64)
    # a mean has weight 1/m on each row of its person, with a row or with the same mean
    return ones, same, same / nested.of_persons[persons[0]]


def _person(nested: Nested, term: NestedTerm) -> Ints:
    return nested.person[term.at] if term.kind == ROW else term.at


@dataclass(frozen=True)
class NestedNoise:
    """The noise of functions of rows of households, of the first coordinates of `noisy`."""

    noise: PersonNoise
    functions: Sequence[NestedFunction]
    noisy: int

    @cached_property
    def _shared(self) -> list[list[Floats]]:
        return [[one.shared_with(other) for other in self.functions] for one in self.functions]

    def __call__(self, rows: Ints) -> Floats:
        """Return the covariance of the noise, on average over some rows; 0 where there is none."""
        assert self.noise.outer is not None
        # H, B and R of the header
        parts = np.stack(
            [
                self.noise.outer @ self.noise.outer.T,
                self.noise.person[0] @ self.noise.person[0].T,
                self.noise.within[0],
            ]
        )
        number, columns = len(self.functions), len(self.noise.shape)
        blocks = np.zeros((columns, number, columns, number))
        for f, g in product(range(number), repeat=2):
            weights = self._shared[f][g][:, rows].mean(axis=1)
            blocks[:, f, :, g] = np.einsum("k,knm->nm", weights, parts)
        out = np.zeros((self.noisy, self.noisy))
        at = number * columns
        out[:at, :at] = blocks.reshape(at, at)
        return out
