"""What copies hide of a person from somebody who knows which rows are theirs.

Of a row i of a person with m rows, whoever links them sees linear functions of all of them. The
ones that count, as x is alike in rows that are near in time and exchangeable else, are

    value x_i     mean of the person's x     change x_j - x_i     x of the rows before and after

j being the next row in time, or any other without a time. With z these functions of all numbers,
of the indicators of categories, and of what has no noise, C their covariance over rows of sampled
persons, and D that of their noise over 1 - q^2, as in `_whole_copy`:

    numbers      for functions with weights a and b of the rows j of a person
                 (sum_j a_j Phi_j) C_levels (sum_j b_j Phi_j)'  +  sum_j a_j b_j R_j
    categories   C itself: an event replaces the person's whole history by that of another person,
                 in all categories at once
    shown        0

the best linear estimate of a coordinate leaves C_kk - q^2 c_k' (q^2 C + D)^-1 c_k of it. Privacy is
the least of the values, means and changes of every column, on average over rows.

A sample of few persons fits chance, so that this is too low; coefficients that were learned from
other persons leave too much. The truth lies between the two, and their mean is taken; what is
learned from others counts more of few persons, alone if there are fewer than five for a coordinate.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints, lengths_of
from cornerwave.levels import LATTICE
from cornerwave.noise import PersonNoise, hat_matrix, nearest_knots

LEAST_UNITS, PER_COORDINATE = 200, 5
"""Units of a class of like numbers of rows, at the least, and for each coordinate."""
MOST_CLASSES = 6
LEVELS = 17
"""Levels at which it is computed; between them the hidden share over 1 - q^2 is linear."""
SLIGHT = 0.01
"""Less than this share is chance of the sampled persons."""
FEW = 2.5
"""With a fifth as many coordinates as persons, only what is learned from others counts."""
RIDGE, TINY = 1e-9, 1e-12


@dataclass(frozen=True)
class PersonRows:
    """Sampled persons' rows, sorted by person: coordinates (k, rows) of three kinds.

    `numbers` are those on their scales less their means, the person's mean in place of gaps;
    `categories` has the indicators of each category by its name; `shown` is what has no noise.
    `starts` is where the rows of each person begin, in the order of `times` if they are `in_time`.
    """

    names: Sequence[str]
    numbers: Floats
    categories: Mapping[str, Floats]
    shown: Floats
    starts: Ints
    noise: PersonNoise
    times: Floats | None = None
    in_time: bool = False

    @property
    def sizes(self) -> Ints:
        """How many rows each person has here."""
        return lengths_of(self.starts, self.numbers.shape[1])


def hidden_of_persons(rows: PersonRows) -> dict[str, Floats]:
    """Return what copies hide of each column of persons at each level of the lattice."""
    places = np.unique(np.linspace(0, len(LATTICE) - 1, LEVELS).round().astype(np.int64))
    q2 = 1 / (1 + np.array(LATTICE))
    left = _Sums(len(places))
    for some in _classes(rows):
        some.add_to(left, q2[places])
    hidden = {}
    for name in (*rows.names, *rows.categories):
        share = left.least(name) / (1 - q2[places])
        share = np.where(share > 1 - SLIGHT, 1.0, share)
        between = np.interp(np.arange(len(LATTICE)), places, share)
        hidden[name] = np.asarray(np.clip(between, 0.0, 1.0) * (1 - q2))
    return hidden


class _Sums:
    """What is left of each coordinate, and its variance, summed over rows by name and kind."""

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._left: dict[tuple[str, str], Floats] = defaultdict(lambda: np.zeros(levels))
        self._all: dict[tuple[str, str], Floats] = defaultdict(lambda: np.zeros(levels))

    def add(self, name: str, kind: str, level: int, left: float, variance: float) -> None:
        """Add what some rows leave of a coordinate at a level."""
        self._left[name, kind][level] += left
        self._all[name, kind][level] += variance

    def least(self, name: str) -> Floats:
        """Return the least share that is left of the kinds of a column, at each level."""
        found = [at for at in self._all if at[0] == name]
        shares = [self._left[at] / self._all[at] for at in found]
        return np.asarray(np.min([np.ones(self._levels), *shares], axis=0))


VALUE, MEAN, CHANGE = "value", "mean", "change"


@dataclass(frozen=True)
class _Class:
    """Persons with about as many rows each: coordinates z (k, rows), each of a column and a kind.

    `noise` is D of the numbers, 0 elsewhere; `drawn` are the coordinates of categories.
    """

    z: Floats
    names: Sequence[str]
    kinds: Sequence[str]
    noise: Floats
    drawn: Flags
    half: Flags
    persons: int

    def add_to(self, sums: _Sums, q2: Floats) -> None:
        """Add what is left of this class's rows."""
        rows = self.z.shape[1]
        one, other = (_covariance(self.z[:, self.half == each]) for each in (True, False))
        C = (one + other) / 2
        D = self.noise + np.where(np.outer(self.drawn, self.drawn), C, 0.0)
        # numbers are expected to vary like their noise, and the rest by itself: so it is with a
        # weight of as many persons as there are coordinates
        noisy = np.diag(D) > 0
        expected = np.where(np.outer(noisy, noisy), D, np.diag(np.diag(C)))
        per_person = len(C) / self.persons
        of_all, of_one, of_other = (
            (m + k * per_person * expected) / (1 + k * per_person)
            for m, k in ((C, 1), (one, 2), (other, 2))
        )
        by_others = min(1.0, 0.5 + FEW * per_person)
        for level, share in enumerate(q2):
            fitted = _left(of_all, of_all, D, share)
            apart = (_left(of_one, other, D, share) + _left(of_other, one, D, share)) / 2
            left = np.clip(by_others * apart + (1 - by_others) * fitted, 0.0, np.diag(C))
            for k in np.flatnonzero(np.diag(C) > TINY).tolist():
                if self.names[k] and self.kinds[k] in (VALUE, MEAN, CHANGE):
                    sums.add(self.names[k], self.kinds[k], level, rows * left[k], rows * C[k, k])


def _left(learned: Floats, C: Floats, D: Floats, q2: float) -> Floats:
    """Return what an estimate learned from one covariance leaves of coordinates of another.

    With b_k = q (q^2 C + D)^-1 c_k of the learned one: C_kk - 2 q b_k' c_k + b_k' (q^2 C + D) b_k.
    """
    q = np.sqrt(q2)
    M = q2 * learned + (1 - q2) * D
    size = np.sqrt(np.maximum(np.diag(M), TINY))
    M = M / np.outer(size, size) + RIDGE * np.eye(len(M))
    b = q * np.linalg.solve(M, learned / size[:, None]) / size[:, None]
    shown = q2 * C + (1 - q2) * D
    return np.asarray(np.diag(C) - 2 * q * (b * C).sum(axis=0) + (b * (shown @ b)).sum(axis=0))


def _covariance(z: Floats) -> Floats:
    z = z - z.mean(axis=1, keepdims=True)
    return np.asarray(z @ z.T / max(1, z.shape[1]))


def _classes(rows: PersonRows) -> Iterator[_Class]:
    """Yield classes of persons with like numbers of rows, each of enough persons."""
    kinds = len(_functions(rows.starts, 0, in_time=rows.in_time))
    coordinates = kinds * (len(rows.numbers) + sum(map(len, rows.categories.values())))
    least = max(LEAST_UNITS, PER_COORDINATE * coordinates, len(rows.sizes) // MOST_CLASSES)
    order, sizes = np.argsort(rows.sizes, kind="stable"), rows.sizes
    begin = 0
    while begin < len(order):
        end = min(begin + least, len(order))
        # persons with the same number of rows are one class, and what is left is not one alone
        while end < len(order) and sizes[order[end]] == sizes[order[end - 1]]:
            end += 1
        end = len(order) if len(order) - end < least else end
        yield _class(rows, np.sort(order[begin:end]))
        begin = end


def _class(rows: PersonRows, persons: Ints) -> _Class:
    sizes = rows.sizes[persons]
    firsts = rows.starts[persons].tolist()
    at = np.concatenate([np.arange(s, s + m) for s, m in zip(firsts, sizes.tolist(), strict=True)])
    starts = np.append(0, np.cumsum(sizes)[:-1])
    functions = _functions(starts, len(at), in_time=rows.in_time)
    names, kinds, parts, drawn = [], [], [], []
    for name, values in _columns(rows):
        own = values[:, at]
        for kind, function in functions.items():
            names += [name] * len(own)
            kinds += [kind] * len(own)
            parts.append(function.of(own))
            drawn += [name in rows.categories] * len(own)
    # how many rows a person has is seen
    count = np.repeat(sizes, sizes).astype(np.float64)
    for each in (1 / count, np.log(count)):
        names, kinds, drawn = [*names, ""], [*kinds, VALUE], [*drawn, False]
        parts.append(each[None])
    half = np.repeat(np.arange(len(sizes)) % 2 == 0, sizes)
    noise = np.zeros((len(names), len(names)))
    number, columns = len(functions), len(rows.names)
    times = np.zeros(len(at)) if rows.times is None else rows.times[at]
    of_numbers = _noise(rows.noise, times, list(functions.values()))
    # coordinates go by column, then by function
    noise[: number * columns, : number * columns] = of_numbers.transpose(2, 0, 3, 1).reshape(
        columns * number, columns * number
    )
    return _Class(np.concatenate(parts), names, kinds, noise, np.array(drawn), half, len(sizes))


@dataclass(frozen=True)
class _Function:
    """A linear function of the rows of each row's person: weights of some rows (rows, some).

    None stands for the mean of all, by the `starts` of persons.
    """

    at: Ints
    weights: Floats | None
    starts: Ints

    def of(self, values: Floats) -> Floats:
        """Return it of values (k, rows)."""
        if self.weights is not None:
            return np.asarray((values[:, self.at] * self.weights).sum(axis=2))
        sizes = lengths_of(self.starts, values.shape[1])
        means = np.add.reduceat(values, self.starts, axis=1) / sizes
        return np.repeat(means, sizes, axis=1)

    def rows_shared_with(self, other: "_Function") -> Iterator[tuple[Ints, Floats]]:
        """Yield rows j, and a_j b_j: of this function and another."""
        if self.weights is None and other.weights is None:
            sizes = lengths_of(self.starts, len(self.at))
            yield np.arange(len(self.at)), np.repeat(1.0 / sizes, sizes)
        elif self.weights is None:
            yield from other.rows_shared_with(self)
        elif other.weights is None:
            sizes = lengths_of(self.starts, len(self.at))
            one_of_m = np.repeat(1.0 / sizes, sizes)
            for at, weights in zip(self.at.T, self.weights.T, strict=True):
                yield at, weights * one_of_m
        else:
            for at, a in zip(self.at.T, self.weights.T, strict=True):
                for also, b in zip(other.at.T, other.weights.T, strict=True):
                    yield at, np.where(at == also, a * b, 0.0)


def _functions(starts: Ints, rows: int, *, in_time: bool) -> dict[str, _Function]:
    """Return the functions of a person's rows that somebody looks at, for each row."""
    here = np.arange(rows)
    sizes = lengths_of(starts, rows) if rows else np.zeros(0, dtype=np.int64)
    first = np.repeat(starts, sizes) if rows else here
    last = first + np.repeat(sizes, sizes) - 1 if rows else here

    def beside(step: int) -> tuple[Ints, Floats]:
        inside = (here + step >= first) & (here + step <= last)
        return np.clip(here + step, first, last), inside.astype(np.float64)

    def one(at: Ints, weight: Floats) -> _Function:
        return _Function(at[:, None], weight[:, None], starts)

    ones = np.ones(rows)
    # of the last row the next is the one before, in time, and the first one else
    following = np.where(here < last, here + 1, np.maximum(here - 1, first) if in_time else first)
    change = _Function(np.stack([following, here], axis=1), np.stack([ones, -ones], axis=1), starts)
    found = {VALUE: one(here, ones), MEAN: _Function(here, None, starts), CHANGE: change}
    if in_time:
        found |= {f"{step:+d}": one(*beside(step)) for step in (-2, -1, 1, 2)}
    return found


def _noise(noise: PersonNoise, times: Floats, functions: Sequence[_Function]) -> Floats:
    """Return the covariance of the noise of functions, on average over rows (f, g, N, N)."""
    knots, near = len(noise.knots), nearest_knots(times, noise.knots)
    of_phi = [function.of(hat_matrix(times, noise.knots).T) for function in functions]
    found = np.empty((len(functions), len(functions), *noise.shape.shape))
    for f, one in enumerate(functions):
        for g, other in enumerate(functions):
            levels = of_phi[f] @ of_phi[g].T / len(times)
            rows = np.zeros(knots)
            for at, weights in one.rows_shared_with(other):
                rows += np.bincount(near[at], weights, minlength=knots) / len(times)
            found[f, g] = np.einsum(
                "kl,knq,lmq->nm", levels, noise.person, noise.person, optimize=True
            ) + np.einsum("k,knm->nm", rows, noise.within)
    return found


def _columns(rows: PersonRows) -> Iterator[tuple[str, Floats]]:
    """Yield the coordinates of each column; what is shown has no name."""
    for name, values in zip(rows.names, rows.numbers, strict=True):
        yield name, values[None]
    yield from rows.categories.items()
    yield "", rows.shown
