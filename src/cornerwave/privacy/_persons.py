"""What copies hide of a person from somebody who knows which rows are theirs.

For a person with m rows the copy shows each row and, by linear functions of all, no more about a
value than that row, the mean of the person's rows and their differences show. With coordinates

    z = (x_i, mean of the person's x, x_i - x_j)          j the next row of the person

of numbers, of the indicators of categories, and of what has no noise, C their covariance over
sampled persons of about m rows, and D the noise over 1 - q^2, as in `_whole_copy`:

    numbers      B + R, B + R/m, 2 R on the diagonal; B + R/m, R and 0 beside it
    categories   C of all their coordinates: an event replaces the person's whole history by that
                 of another person, in all categories at once
    shown        0

the best linear estimate of a coordinate leaves C_kk - q^2 c_k' (q^2 C + D)^-1 c_k of it. Privacy is
the least of the values, means and differences of every column, on average over rows.

A sample of few persons fits chance, so that this is too low; coefficients that were learned from
other persons leave too much. The truth lies between the two, and their mean is taken.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.levels import LATTICE

LEAST_UNITS, PER_COORDINATE = 200, 5
"""Units of a class of like numbers of rows, at the least, and for each coordinate."""
LEVELS = 33
"""Levels at which it is computed; between them the hidden share over 1 - q^2 is linear."""
SLIGHT = 0.01
"""Less than this share is chance of the sampled persons."""
RIDGE, TINY = 1e-9, 1e-12


@dataclass(frozen=True)
class PersonRows:
    """Sampled persons' rows, sorted by person: coordinates (k, rows) of three kinds.

    `numbers` are those on their scales less their means, 0 where missing; `categories` has the
    indicators of each category by its name; `shown` is what has no noise. `starts` is where the
    rows of each person begin, `between` and `within` are B and R.
    """

    names: Sequence[str]
    numbers: Floats
    categories: Mapping[str, Floats]
    shown: Floats
    starts: Ints
    between: Floats
    within: Floats

    @property
    def sizes(self) -> Ints:
        """How many rows each person has here."""
        return np.diff(np.append(self.starts, self.numbers.shape[1]))


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

    def add_to(self, sums: _Sums, q2: Floats) -> None:
        """Add what is left of this class's rows."""
        rows = self.z.shape[1]
        one, other = (_covariance(self.z[:, self.half == each]) for each in (True, False))
        C = (one + other) / 2
        D = self.noise + np.where(np.outer(self.drawn, self.drawn), C, 0.0)
        for level, share in enumerate(q2):
            fitted = _left(C, C, D, share)
            apart = (_left(one, other, D, share) + _left(other, one, D, share)) / 2
            left = np.clip((fitted + apart) / 2, 0.0, np.diag(C))
            for k in np.flatnonzero(np.diag(C) > TINY).tolist():
                if self.names[k]:
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
    kinds = 1 if (rows.sizes == 1).all() else 3
    coordinates = kinds * (len(rows.numbers) + sum(map(len, rows.categories.values())))
    least = max(LEAST_UNITS, PER_COORDINATE * coordinates)
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
    at = np.concatenate(
        [np.arange(s, s + m) for s, m in zip(rows.starts[persons], sizes, strict=True)]
    )
    starts = np.append(0, np.cumsum(sizes)[:-1])
    one_of_m = np.repeat(1 / sizes, sizes)
    names, kinds, parts, drawn = [], [], [], []
    for name, values in _columns(rows):
        own = values[:, at]
        mean = np.repeat(np.add.reduceat(own, starts, axis=1) / sizes, sizes, axis=1)
        for kind, z in ((VALUE, own), (MEAN, mean), (CHANGE, own - own[:, _next(starts, len(at))])):
            names += [name] * len(z)
            kinds += [kind] * len(z)
            parts.append(z)
            drawn += [name in rows.categories] * len(z)
    half = np.repeat(np.arange(len(sizes)) % 2 == 0, sizes)
    noise = np.zeros((len(names), len(names)))
    number = [names.index(name) for name in rows.names]
    for i, a in enumerate(number):
        for j, b in enumerate(number):
            noise[a : a + 3, b : b + 3] = _noise(rows.between[i, j], rows.within[i, j], one_of_m)
    return _Class(np.concatenate(parts), names, kinds, noise, np.array(drawn), half)


def _noise(between: float, within: float, one_of_m: Floats) -> Floats:
    """Return the covariance of the noise of value, mean and change, for two columns.

    `one_of_m` is 1/m for each row; a row that is alone does not change.
    """
    mean = between + within * float(one_of_m.mean())
    change = within * float(np.mean(one_of_m < 1))
    return np.array(
        [[between + within, mean, change], [mean, mean, 0.0], [change, 0.0, 2 * change]]
    )


def _columns(rows: PersonRows) -> Iterator[tuple[str, Floats]]:
    """Yield the coordinates of each column; what is shown has no name."""
    for name, values in zip(rows.names, rows.numbers, strict=True):
        yield name, values[None]
    yield from rows.categories.items()
    yield "", rows.shown


def _next(starts: Ints, rows: int) -> Ints:
    """Return another row of the same person for each row, in a circle."""
    following = np.arange(1, rows + 1)
    following[np.append(starts[1:], rows) - 1] = starts
    return following
