"""Linked tables: what a person has in several tables is one vector, and has one noise.

The levels of a person are those of all tables together: a column of a table without a time has
one, a column with a time one at each knot, a column that is constant in each person one in all
tables that repeat it. With C_t the covariance of the levels of table t by itself, and for rows i of
table s and j of table t of one person

    x_i y_j'  ~  Phi_i X_st Phi_j'       least squares over pairs, with a ridge of a few persons
                                         towards what does not depend on the times

M has the blocks C_t and X_st, is made definite from above, |M|, and at least C_t in each table.
The noise of a person is L P_u(v) with L L' = M in all of them, so that what a visit reveals of the
patient's row is hidden as the row itself is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cornerwave.arrays import Floats, Ints, Words, lengths_of
from cornerwave.noise import PersonNoise, covering, divided, factor, hat_matrix, without
from cornerwave.privacy import Beside
from cornerwave.spine.person_curves import RIDGE, in_few_paths, less_time, mean_noise, rounded
from cornerwave.spine.person_sample import PersonSample, with_means

STATED = 1e-4
"""Covariances of noise across tables are stated in steps of this share of the deviations: a
correlation of the original changes by at most half of it, for a unit of noise."""


@dataclass(frozen=True)
class TableOfPersons:
    """A table of persons: its numbers, sampled persons, and the noise that it has by itself.

    `shared` names the columns that are the same in every table that has them, person by person.
    """

    names: Sequence[str]
    sample: PersonSample
    noise: PersonNoise
    is_timed: bool
    grid: Floats
    shared: frozenset[str] = frozenset()

    @property
    def times(self) -> Floats:
        """When each sampled row was; 0 without a time."""
        return self.sample.numbers[-1] if self.is_timed else np.zeros(len(self.sample.units))

    @cached_property
    def phi(self) -> Floats:
        """The hats of each sampled row (rows, knots)."""
        return hat_matrix(self.times, self.noise.knots)

    @cached_property
    def x(self) -> Floats:
        """The numbers of sampled rows, less their means and what time does to everybody."""
        numbers, starts = self.sample.numbers[: len(self.names)], self.sample.starts
        x = with_means(numbers - np.nanmean(numbers, axis=1, keepdims=True), starts)
        if len(self.noise.knots) == 1:
            return x
        return less_time(x, self.phi, starts, lengths_of(starts, x.shape[1]))

    @cached_property
    def persons(self) -> Words:
        """The hashes of sampled persons, ascending."""
        return self.sample.units[self.sample.starts]

    @cached_property
    def sizes(self) -> Ints:
        """How many sampled rows each person has."""
        return lengths_of(self.sample.starts, len(self.sample.units))

    @cached_property
    def of_persons(self) -> tuple[Floats, Floats]:
        """The sums of Phi_i x_i' (persons, knots, N) and of Phi_i' Phi_i (persons, knots^2)."""
        starts = self.sample.starts
        products = np.add.reduceat(self.phi[:, :, None] * self.x.T[:, None, :], starts, axis=0)
        squares = (self.phi[:, :, None] * self.phi[:, None, :]).reshape(len(self.phi), -1)
        return products, np.add.reduceat(squares, starts, axis=0)

    @cached_property
    def places(self) -> Ints:
        """Which of the table's levels a column has at a knot (knots, N)."""
        knots, columns = len(self.noise.knots), len(self.names)
        level = np.arange(knots * columns).reshape(knots, columns)
        constant = list(self.noise.constant)
        level[:, constant] = level[0, constant]
        return np.unique(level, return_inverse=True)[1].reshape(knots, columns)

    @property
    def levels(self) -> int:
        """How many levels a person has here."""
        return int(self.places.max(initial=-1)) + 1

    @cached_property
    def pick(self) -> Floats:
        """The weights of knots in each level (knots * N, levels): by their rows, if it has all."""
        near = np.maximum(self.phi.sum(axis=0), 1e-9)
        pick = np.zeros((self.places.size, self.levels))
        pick[np.arange(self.places.size), self.places.ravel()] = np.repeat(near, len(self.names))
        return np.asarray(pick / np.maximum(pick.sum(axis=0), 1e-300))

    @cached_property
    def covariance(self) -> Floats:
        """C of the table's levels, by its own noise."""
        first = np.empty((self.levels, self.noise.person.shape[2]))
        first[self.places.ravel()] = self.noise.person.reshape(self.places.size, -1)
        return np.asarray(first @ first.T)


@dataclass(frozen=True)
class Linked:
    """What a table has of the others that it is linked with.

    `noise` is its own, with the persons' part of all tables, `grid` that of the columns that are
    the same in several. `beside` is what copies of the others show of sampled persons, and
    `noise_with` what `noise_with_others` gives.
    """

    noise: PersonNoise
    grid: Mapping[str, float]
    beside: tuple[Beside, ...] = ()
    noise_with: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def shared_grid(tables: Iterable[TableOfPersons]) -> dict[str, float]:
    """Return the grid of columns that are the same in several tables: the coarsest."""
    steps = dict[str, float]()
    for each in tables:
        for name, step in zip(each.names, each.grid.tolist(), strict=True):
            if name in each.shared:
                steps[name] = max(step, steps.get(name, step))
    return steps


def linked_noise(tables: Mapping[str, TableOfPersons]) -> dict[str, PersonNoise]:
    """Return the noise of each of some linked tables: the persons' parts are one vector."""
    at = _levels(tables)
    M = _joint(list(tables.values()), list(at.values()))
    loadings = in_few_paths(M)
    # what is cut off of a level is given back to it: each keeps its variance
    held = np.sqrt(np.maximum((loadings**2).sum(axis=1), 1e-300))
    loadings *= (np.sqrt(np.maximum(np.diag(M), 0.0)) / held)[:, None]
    return {name: _with_person(each, loadings[at[name]]) for name, each in tables.items()}


def noise_with_others(
    tables: Mapping[str, TableOfPersons], noise: Mapping[str, PersonNoise]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return N, the covariances of a table's noise with that of tables with a row for each person.

    By table and column, with columns called TABLE.COLUMN, for v = 1, over rows i of the table, each
    with the row j that its person has in the other: N = mean of Phi_i L_s L_t' Phi_j'. Rounded to
    STATED of the deviations: copies state it, and it is not an exact figure of the sampled persons.
    """
    parents = [name for name, each in tables.items() if (each.sample.counts == 1).all()]
    noise_of: dict[str, dict[str, dict[str, float]]] = {}
    for name, one in tables.items():
        noise_of[name] = {column: {} for column in one.names}
        for parent in parents:
            if parent == name:
                continue
            N = _joined_noise(one, tables[parent], noise[name], noise[parent])
            called = [f"{parent}.{column}" for column in tables[parent].names]
            for column, row in zip(one.names, N.tolist(), strict=True):
                noise_of[name][column].update(zip(called, row, strict=True))
    return noise_of


def _joined_noise(
    one: TableOfPersons, parent: TableOfPersons, noise: PersonNoise, other: PersonNoise
) -> Floats:
    """Return N of two tables (columns of one, columns of the parent)."""
    _, a, b = np.intersect1d(one.persons, parent.persons, return_indices=True)
    rows = np.add.reduceat(one.phi, one.sample.starts, axis=0)[a]
    weights = rows.T @ parent.phi[parent.sample.starts[b]] / max(float(rows.sum()), 1.0)
    N = np.einsum("jk,jnq,kpq->np", weights, noise.person, other.person, optimize=True)
    step = STATED * np.sqrt(np.outer(np.diag(noise.shape), np.diag(other.shape)))
    return np.asarray(np.rint(N / np.maximum(step, 1e-300)) * step)


def _levels(tables: Mapping[str, TableOfPersons]) -> dict[str, Ints]:
    """Return the place of each table's levels in the vector of all; shared ones have one place."""
    levels, number, known = {}, 0, dict[str, int]()
    for name, each in tables.items():
        at = np.full(each.levels, -1, dtype=np.int64)
        for column, called in enumerate(each.names):
            knots = np.unique(each.places[:, column])
            if called in each.shared and called in known:
                at[knots] = known[called]
                continue
            at[knots] = np.arange(number, number + len(knots))
            known[called] = number
            number += len(knots)
        levels[name] = at
    return levels


def _joint(tables: Sequence[TableOfPersons], at: Sequence[Ints]) -> Floats:
    """Return M, the covariance of all levels of a person, from above."""
    size = 1 + max((int(places.max(initial=-1)) for places in at), default=-1)
    M, known = np.zeros((size, size)), np.zeros((size, size), dtype=np.bool_)
    for each, places in zip(tables, at, strict=True):
        new = ~known[np.ix_(places, places)]
        M[np.ix_(places, places)] = np.where(new, each.covariance, M[np.ix_(places, places)])
        known[np.ix_(places, places)] = True
    for s, one in enumerate(tables):
        for t, other in enumerate(tables[:s]):
            X, here = _between(one, other), np.ix_(at[s], at[t])
            M[here] = np.where(known[here], M[here], X)
            M[np.ix_(at[t], at[s])] = M[here].T
            known[here] = True
            known[np.ix_(at[t], at[s])] = True
    M = covering(M)
    for each, places in zip(tables, at, strict=True):
        lacking = each.covariance - M[np.ix_(places, places)]
        # nothing is constant here: all of what lacks is given to the levels
        M[np.ix_(places, places)] += divided(lacking, np.zeros(0, dtype=np.int64), each.covariance)[
            1
        ]
    return M


def _between(one: TableOfPersons, other: TableOfPersons) -> Floats:
    """Return X, the covariance of the levels of a person in two tables."""
    _, a, b = np.intersect1d(one.persons, other.persons, return_indices=True)
    J, K = len(one.noise.knots), len(other.noise.knots)
    N, P = len(one.names), len(other.names)
    if not len(a):
        return np.zeros((one.levels, other.levels))
    # a person weighs as the rows of the table in which they have fewer
    weight = 1 / np.maximum(one.sizes[a], other.sizes[b])
    x, gram = (each[a] for each in one.of_persons)
    y, also = (each[b] for each in other.of_persons)
    wanted = np.einsum("u,ujn,ukp->jknp", weight, x, y, optimize=True)
    pairs = (gram * weight[:, None]).T @ also  # [ij, kl] -> [ik, jl]
    G = pairs.reshape(J, J, K, K).transpose(0, 2, 1, 3).reshape(J * K, J * K)
    prior = wanted.sum(axis=(0, 1)) / max(float(G.sum()), 1e-300)
    ridge = RIDGE * max(float(weight.mean()), 1e-12)
    X = np.linalg.solve(
        G + ridge * np.eye(J * K), wanted.reshape(J * K, -1) + ridge * prior.reshape(1, -1)
    )
    flat = X.reshape(J, K, N, P).transpose(0, 2, 1, 3).reshape(J * N, K * P)
    reduced = one.pick.T @ flat @ other.pick
    return rounded(reduced, np.diag(one.covariance), np.diag(other.covariance))


def _with_person(table: TableOfPersons, loadings: Floats) -> PersonNoise:
    """Return the noise of a table whose persons have these levels (levels, paths)."""
    noise, constant = table.noise, np.array(table.noise.constant, dtype=np.int64)
    person = np.ascontiguousarray(loadings[table.places])
    mean = mean_noise(table.phi, person, noise.within)
    # a row has at least the noise that it had by itself
    more = without(divided(noise.shape - mean, constant, noise.shape)[1], constant)
    within = noise.within + more
    return PersonNoise(
        knots=noise.knots,
        person=person,
        within=within,
        row=np.stack([factor(of_knot).lower for of_knot in within]),
        shape=mean + more,
        constant=noise.constant,
    )
