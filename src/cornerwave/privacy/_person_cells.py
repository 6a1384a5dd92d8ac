"""What the best linear estimate leaves of functions of persons' rows, in cells of what is shown.

In a cell c of F, with C_c the covariance of coordinates z there, and D_c that of their noise over
1 - q^2,

    left_k = C_kk - c_k' (q^2 C_c + (1 - q^2) D_c)^-1 c_k      on average over the rows of cells
    c_k = q C_k,  for categories  q C_k + (1 - q) P_k,  P_kl = Cov(z_k, b_l)

    numbers      D_c from the noise of just these rows
    categories   (q E_c[(z - b)(z - b)'] + B + Cov_c(b)) / (1 + q), B the covariance of z - b in all
                 rows: a donor may come from another cell
    shown        0

b is what donors have for sure: their mean at the same place of the history, 0 where places show
nothing. It is no noise: what goes with the place of a row goes with what copies show of categories,
replaced or not, so q (1 - q) P is added to the covariance of categories with all else.

Cells are chosen as those of rows are (`_variance_cells`), each half of the persons by the other.
A sample of few persons fits chance, so that this is too low; coefficients that were learned from
other persons leave too much. The truth lies between the two, and their mean is taken; what is
learned from others counts more of few persons, alone if there are fewer than five for a coordinate.
What cells take is compared with cells of as many rows of persons drawn by chance.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, lengths_of
from cornerwave.privacy._open_columns import second_moments, standardised
from cornerwave.privacy._variance_cells import LEAVES, crossed_cells

FEW = 2.5
"""With a fifth as many coordinates as persons, only what is learned from others counts."""
RIDGE, TINY = 1e-9, 1e-12
LEAST_PERSONS, PER_COORDINATE = 25, 5
"""Persons of a cell, of each half, and for each coordinate with noise."""
EVERY = 2
"""Cells are looked at, at every other level; between them the share that they leave is linear."""
ROWS_AT_ONCE = 1 << 11
"""Rows of which products are summed at a time."""
FEWEST = 20
"""A cell that fewer persons of the other half are in is joined to its largest."""


@dataclass(frozen=True)
class Coordinates:
    """Coordinates z (k, rows) of persons; `starts` is where the rows of each begin.

    `noisy` are those with noise, `drawn` those of them that are categories; `D` is that of the
    numbers, 0 elsewhere, and `noise` returns it for some of the rows. `by_place` (k, rows) is what
    donors have in place of categories for sure, 0 elsewhere.
    """

    z: Floats
    by_place: Floats
    noisy: Flags
    drawn: Flags
    starts: Ints
    D: Floats
    noise: Callable[[Ints], Floats]

    @property
    def sizes(self) -> Ints:
        """How many rows each person has."""
        return lengths_of(self.starts, self.z.shape[1])

    @property
    def variances(self) -> Floats:
        """The variance of each coordinate."""
        # row by row: all at once takes as much memory again
        return np.array([row.var() for row in self.z])

    @property
    def person(self) -> Ints:
        """The person of each row."""
        return np.repeat(np.arange(len(self.starts)), self.sizes)

    def only(self, at: Ints) -> "Coordinates":
        """Return some of the coordinates."""
        return replace(
            self,
            z=self.z[at],
            by_place=self.by_place[at],
            noisy=self.noisy[at],
            drawn=self.drawn[at],
            D=self.D[np.ix_(at, at)],
            noise=lambda rows: self.noise(rows)[np.ix_(at, at)],
        )

    def left(self, q2: Floats) -> Floats:
        """Return what is left of each coordinate at some levels (levels, k), without cells."""
        return self._whole().left(q2)

    def left_in(self, cells: Ints, q2: Floats) -> Floats:
        """Return the same with coefficients that depend on the cell, less what chance does."""
        places = np.arange(len(q2))
        some = np.union1d(places[::EVERY], places[-1:])
        by_chance = self._in_cells(self._shuffled(cells), q2[some])
        kept = np.minimum(self._in_cells(cells, q2[some]) / np.maximum(by_chance, TINY), 1.0)
        kept = np.array([np.interp(places, some, share) for share in kept.T]).T
        return self.left(q2) * kept

    def cells(self, bins: Ints) -> Ints:
        """Return the cell of each row, by bins (features, rows) of what is shown."""
        rows, persons = self.z.shape[1], len(self.starts)
        least = max(LEAST_PERSONS, PER_COORDINATE * int(self.noisy.sum()))
        if not len(bins) or persons < 4 * least:
            return np.zeros(rows, dtype=np.int64)
        left = standardised(self._less_shown())
        signals = standardised(np.concatenate([left, second_moments(left)]))
        # rows of a person are alike: by chance they differ as so many persons do
        signals = signals * np.sqrt(persons / rows)
        crossed = crossed_cells(signals, bins, self.person % 2, int(least * rows / persons))
        return _joined(crossed, self.person)

    def _less_shown(self) -> Floats:
        """Return the coordinates with noise, less what is shown as a linear function."""
        seen = standardised(self.z[~self.noisy])
        z = self.z[self.noisy] - self.z[self.noisy].mean(axis=1, keepdims=True)
        return np.asarray(z - (np.linalg.pinv(seen @ seen.T, rcond=RIDGE) @ (seen @ z.T)).T @ seen)

    def _whole(self) -> "_Cell":
        one, other = _covariances(self.z, self.by_place, self.person)
        C, P, alike = (one + other) / 2
        drawn = np.outer(self.drawn, self.drawn)
        # of categories, less what donors have for sure: without b it is C
        B = np.where(drawn, C - (P + P.T) + alike, 0.0)
        # numbers are expected to vary like their noise, and the rest by itself
        noisy = np.diag(self.D + B) > 0
        expected = np.where(np.outer(noisy, noisy), self.D + B + alike, np.diag(np.diag(C)))
        expected = np.stack([expected, np.zeros_like(C), np.zeros_like(C)])
        return _Cell(one, other, expected, self.D, B + alike, B, self.drawn, len(self.starts))

    def _in_cells(self, cells: Ints, q2: Floats) -> Floats:
        """Return what is left on average over the rows of cells."""
        whole, apart = self._whole(), self.z - self.by_place
        mean, drawn = apart.mean(axis=1), np.outer(self.drawn, self.drawn)
        left = np.zeros((len(q2), len(self.z)))
        for cell in np.unique(cells).tolist():
            rows = np.flatnonzero(cells == cell)
            z, of = self.z[:, rows], np.unique(self.person[rows], return_inverse=True)[1]
            one, other = _covariances(z, self.by_place[:, rows], of)
            C, away = (one[0] + other[0]) / 2, apart[:, rows].mean(axis=1) - mean
            # as many persons as there are coordinates have the correlations of all
            size = np.sqrt(np.diag(C) / np.maximum(np.diag(whole.covariance[0]), TINY))
            in_cell = replace(
                whole,
                one=one,
                other=other,
                expected=np.outer(size, size) * whole.covariance,
                noise=self.noise(rows),
                moments=np.where(drawn, C + np.outer(away, away), 0.0),
                persons=int(of.max()) + 1,
            )
            left += len(rows) / len(cells) * in_cell.left(q2)
        return left

    def _shuffled(self, cells: Ints) -> Ints:
        """Return the cells of other persons of the same half, drawn by chance, row by row."""
        persons = np.arange(len(self.starts))
        drawn, rng = persons.copy(), np.random.default_rng(1)
        for half in (persons[::2], persons[1::2]):
            drawn[half] = rng.permutation(half)
        place = np.arange(len(cells)) - self.starts[self.person]
        other = drawn[self.person]
        return np.asarray(cells[self.starts[other] + np.minimum(place, self.sizes[other] - 1)])


def _joined(cells: Ints, person: Ints) -> Ints:
    """Return cells of which each has enough persons: the others go to the largest of their half."""
    merged = cells.copy()
    for half in (cells < LEAVES, cells >= LEAVES):
        if half.any():
            numbers, rows = np.unique(cells[half], return_counts=True)
            for number in numbers.tolist():
                if len(np.unique(person[cells == number])) < FEWEST:
                    merged[cells == number] = numbers[rows.argmax()]
    return merged


@dataclass(frozen=True)
class _Cell:
    """C, P and Cov(b) of two halves of the persons of a cell, and what is expected of them.

    `noise` is D of the numbers, `moments` and `B` are those of categories, which are `drawn`.
    """

    one: Floats
    other: Floats
    expected: Floats
    noise: Floats
    moments: Floats
    B: Floats
    drawn: Flags
    persons: int

    @property
    def covariance(self) -> Floats:
        """Those of all of them."""
        return (self.one + self.other) / 2

    def left(self, q2: Floats) -> Floats:
        """Return what is left of each coordinate at some levels (levels, k)."""
        # what is expected has the weight of as many persons as there are coordinates
        both, per_person = self.covariance, len(self.noise) / self.persons
        of_all, of_one, of_other = (
            (m + k * per_person * self.expected) / (1 + k * per_person)
            for m, k in ((both, 1), (self.one, 2), (self.other, 2))
        )
        by_others = min(1.0, 0.5 + FEW * per_person)
        variances = np.empty((len(q2), len(self.noise)))
        for level, share in enumerate(q2.tolist()):
            q = np.sqrt(share)
            D = self.noise + (q * self.moments + self.B) / (1 + q)
            (all_, one, other, by_one, by_other) = (
                _SeenMoments.of(each, D, self.drawn, q)
                for each in (of_all, self.one, self.other, of_one, of_other)
            )
            fitted = all_.left_by(all_) if by_others < 1 else 0.0
            apart = (other.left_by(by_one) + one.left_by(by_other)) / 2
            left = by_others * apart + (1 - by_others) * fitted
            variances[level] = np.clip(left, 0.0, np.diag(both[0]))
        return variances


@dataclass(frozen=True)
class _SeenMoments:
    """C, the covariance M of what copies show, and c, that of it with what they hide."""

    C: Floats
    M: Floats
    c: Floats

    @classmethod
    def of(cls, covariances: Floats, D: Floats, drawn: Flags, q: float) -> "_SeenMoments":
        """Return them at a level, given C, P and Cov(b), and D less what b adds to it."""
        C, P, alike = covariances
        # categories go with each other as those of donors do: that is in D
        beside = q * (1 - q) * np.where(drawn[:, None], 0.0, P)
        M = q**2 * C + (1 - q**2) * D + (1 - q) * alike + beside + beside.T
        return cls(C, M, q * C + (1 - q) * P.T)

    def left_by(self, learned: "_SeenMoments") -> Floats:
        """Return what an estimate learned from others leaves: C_kk - 2 b_k' c_k + b_k' M b_k.

        With b_k = M^-1 c_k of the learned one.
        """
        size = np.sqrt(np.maximum(np.diag(learned.M), TINY))
        M = learned.M / np.outer(size, size) + RIDGE * np.eye(len(size))
        b = np.linalg.solve(M, learned.c / size[:, None]) / size[:, None]
        return np.asarray(np.diag(self.C) - 2 * (b * self.c).sum(0) + (b * (self.M @ b)).sum(0))


def _covariances(z: Floats, by_place: Floats, person: Ints) -> tuple[Floats, Floats]:
    """Return C, P and Cov(b) (3, k, k) of every other person, and of the others."""
    some = np.flatnonzero(by_place.any(axis=1))
    halves = []
    for half in (0, 1):
        rows = np.flatnonzero(person % 2 == half)
        C = _covariance(z, rows)
        P, alike = np.zeros_like(C), np.zeros_like(C)
        if len(some):
            b = by_place[some]
            P[:, some], alike[np.ix_(some, some)] = _covariance(z, rows, b), _covariance(b, rows)
        halves.append(np.stack([C, P, alike]))
    return halves[0], halves[1]


def _covariance(z: Floats, rows: Ints, other: Floats | None = None) -> Floats:
    """Return the covariance of coordinates in some rows, or that with others.

    Of a few rows at a time, as the cache has room, about the mean of all: E[x y'] - E[x] E[y]' is
    exact enough for what is near it.
    """
    others = z if other is None else other
    centre, centre_of_others = (each.mean(axis=1, keepdims=True) for each in (z, others))
    sums, products = np.zeros(len(z)), np.zeros((len(z), len(others)))
    sums_of_others = np.zeros(len(others))
    for begin in range(0, len(rows) if len(others) else 0, ROWS_AT_ONCE):
        at = rows[begin : begin + ROWS_AT_ONCE]
        some = z.take(at, axis=1) - centre
        beside = some if other is None else other.take(at, axis=1) - centre_of_others
        sums += some.sum(axis=1)
        sums_of_others += beside.sum(axis=1)
        products += some @ beside.T
    count = max(1, len(rows))
    return np.asarray(products / count - np.outer(sums, sums_of_others) / count**2)
