"""What copies hide of a person from someone who knows which rows are theirs.

Of a row i of a person with m rows, anyone who links them sees linear functions of all of them. The
ones that count, as x is alike in rows that are near in time and exchangeable else, are

    value x_i     mean of the person's x     change x_j - x_i     x of the rows before and after

j being the next row in time, or any other without a time. Those of a household are in `_nested`.
With z these functions of all numbers, of the indicators of categories, and of what has no noise,
C their covariance over rows of sampled persons, and D that of their noise over 1 - q^2, as in
`_whole_copy`:

    numbers      for functions with weights a and b of the rows j of a person
                 (sum_j a_j Phi_j) C_levels (sum_j b_j Phi_j)'  +  sum_j a_j b_j R_j
    categories   C itself: an event replaces the person's whole history by that of another person,
                 in all categories at once
    shown        0
    linked       means of the person's rows in linked tables, see `_beside`

the best linear estimate of a coordinate leaves C_kk - q^2 c_k' (q^2 C + D)^-1 c_k of it; its
coefficients may depend on what is shown (`_person_cells`). Privacy is the least of the values,
means and changes of every column, on average over rows.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np

from cornerwave.arrays import Floats, Ints, Words, lengths_of
from cornerwave.levels import LATTICE
from cornerwave.noise import PersonNoise, hat_matrix, nearest_knots
from cornerwave.privacy._beside import Beside, noise_beside
from cornerwave.privacy._nested import (
    CHANGE,
    MEAN,
    PROMISED,
    VALUE,
    Nested,
    NestedFunction,
    looked_at,
)
from cornerwave.privacy._nested_noise import NestedNoise
from cornerwave.privacy._open_columns import MOST_VALUES, OpenColumn, all_values
from cornerwave.privacy._person_cells import Coordinates
from cornerwave.privacy._variance_cells import binned

LEAST_UNITS, PER_COORDINATE = 200, 5
"""Units of a class of like numbers of rows, at the least, and for each coordinate."""
MOST_CLASSES = 6
ENOUGH = 50
"""Persons for each coordinate, with whom coefficients of all of them are known."""
LEVELS = 17
"""Levels at which it is computed; between them the hidden share over 1 - q^2 is linear."""
SLIGHT = 0.01
"""Less than this share is chance of the sampled persons."""
TINY, DEPENDENT = 1e-12, 1e-6


@dataclass(frozen=True)
class PersonRows:
    """Sampled persons' rows, sorted by person: coordinates (k, rows) of three kinds.

    `numbers` are those on their scales less their means, the person's mean in place of gaps;
    `categories` has the indicators of each category by its name; `shown` is what has no noise.
    `by_place` are the means of indicators at the same place of a history, if these show something.
    `starts` is where the rows of each person begin, in the order of `times` if they are `in_time`;
    `codes` are the values of what is shown. `persons` are words by which persons are known in
    linked tables, and `beside` is what copies of these show of them. `outers` is where the rows of
    each household begin, if persons belong to some.
    """

    names: Sequence[str]
    numbers: Floats
    categories: Mapping[str, Floats]
    shown: Floats
    starts: Ints
    noise: PersonNoise
    times: Floats | None = None
    in_time: bool = False
    codes: Sequence[Ints] = ()
    persons: Words = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    beside: Sequence[Beside] = ()
    outers: Ints | None = None
    by_place: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def clusters(self) -> Ints:
        """Where the rows of each cluster begin that is independent of others."""
        return self.starts if self.outers is None else self.outers

    @property
    def sizes(self) -> Ints:
        """How many rows each person has here."""
        return lengths_of(self.starts, self.numbers.shape[1])

    @property
    def drawn(self) -> Floats:
        """The indicators of all categories."""
        none = np.empty((0, self.numbers.shape[1]))
        return np.concatenate([none, *self.categories.values()])

    def for_others(self, known: Collection[str] = ()) -> Beside:
        """Return what a linked table sees of these persons, but numbers that it has itself."""
        chosen = [place for place, name in enumerate(self.names) if name not in known]
        noise, sizes = self.noise.only(chosen), self.sizes
        times = np.zeros(self.numbers.shape[1]) if self.times is None else self.times
        near = np.eye(len(noise.knots))[nearest_knots(times, noise.knots)]

        def means(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(values, self.starts, axis=1) / sizes)

        return Beside(
            persons=self.persons,
            numbers=means(self.numbers[chosen]),
            drawn=means(self.drawn),
            shown=np.concatenate([means(self.shown), 1.0 / sizes[None], np.log(sizes)[None]]),
            phi=means(hat_matrix(times, noise.knots).T),
            weights=means(near.T) / sizes,
            noise=noise,
        )


def hidden_of_persons(rows: PersonRows) -> dict[str, Floats]:
    """Return what copies hide of each column of persons at each level of the lattice."""
    places = np.unique(np.linspace(0, len(LATTICE) - 1, LEVELS).round().astype(np.int64))
    q2 = 1 / (1 + np.array(LATTICE))
    left, rows = _Sums(len(places)), replace(rows, shown=_independent(rows.shown))
    for some in _classes(rows):
        some.add_to(left, q2[places])
    hidden = {}
    for name in (*rows.names, *rows.categories):
        # numbers alone hide 1 - q^2 of themselves; the ratio to it varies slowly with the level
        share = left.least(name) / (1 - q2[places])
        share = np.where(share > 1 - SLIGHT, 1.0, share)
        between = np.interp(np.arange(len(LATTICE)), places, share)
        hidden[name] = np.asarray(np.clip(between, 0.0, 1.0) * (1 - q2))
    return hidden


def _independent(shown: Floats) -> Floats:
    """Return what is shown without what follows from the rest of it, linearly."""
    basis, kept = [np.ones(shown.shape[1]) / np.sqrt(max(1, shown.shape[1]))], []
    for values in shown:
        left = values.copy()
        for _ in range(2):  # once more, for rounding
            for each in basis:
                # Gram-Schmidt
                left -= (each @ left) * each
        size = float(np.linalg.norm(left))
        if size > DEPENDENT * float(np.linalg.norm(values)):
            basis.append(left / size)
            kept.append(values)
    return np.array(kept).reshape(len(kept), shown.shape[1])


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
        places = [at for at in self._all if at[0] == name]
        shares = [self._left[at] / self._all[at] for at in places]
        return np.asarray(np.min([np.ones(self._levels), *shares], axis=0))


BESIDE, DRAWN_BESIDE = "\0beside", "\0drawn beside"
"""What stands for the columns of linked tables: of these nothing is stated here."""


@dataclass(frozen=True)
class _Class:
    """Persons with about as many rows each: coordinates, each of a column and a kind.

    What is shown has no column; `bins` (features, rows) are what cells may differ by.
    """

    coordinates: Coordinates
    names: Sequence[str]
    kinds: Sequence[str]
    bins: Ints

    def add_to(self, sums: _Sums, q2: Floats) -> None:
        """Add what is left of this class's rows."""
        rows, variances = self.coordinates.z.shape[1], self.coordinates.variances
        left = self._left(q2)
        for k in np.flatnonzero(variances > TINY).tolist():
            if self.names[k] and self.kinds[k] in PROMISED:
                for level in range(len(q2)):
                    more = rows * left[level, k], rows * float(variances[k])
                    sums.add(self.names[k], self.kinds[k], level, *more)

    def _left(self, q2: Floats) -> Floats:
        """Return what is left of each coordinate (levels, k): the least, with cells or without.

        By all columns, and by each with what is shown: of few persons fewer coefficients are known
        better, as in small cells. And never more than at a higher level, whose copies show less.
        """
        left, names = self.coordinates.left(q2), np.array(self.names)
        if not len(self.bins):
            return _rising(left)
        few = len(self.coordinates.starts) < ENOUGH * len(names)
        shown = (names == "") & np.isin(self.kinds, PROMISED)
        alone = [
            np.flatnonzero((names == name) | shown)
            for name in dict.fromkeys(self.names)
            if name not in ("", BESIDE, DRAWN_BESIDE)
        ]
        for at in [np.arange(len(names)), *alone] if len(set(names)) > 2 else alone:
            some = self.coordinates.only(at)
            least = some.left(q2) if few and len(at) < len(names) else left[:, at]
            cells = some.cells(self.bins)
            if len(np.unique(cells)) > 2:  # both halves are one, where nothing was split
                least = np.minimum(least, some.left_in(cells, q2))
            left[:, at] = np.minimum(left[:, at], least)
        return _rising(left)


def _rising(left: Floats) -> Floats:
    """Return what is left at levels (levels, k), never more than at a higher one."""
    return np.asarray(np.minimum.accumulate(left[::-1])[::-1])


def _classes(rows: PersonRows) -> Iterator[_Class]:
    """Yield classes of persons with like numbers of rows, each of enough persons."""
    kinds = len(_functions(rows.starts, 0, in_time=rows.in_time))
    kinds = kinds if rows.outers is None else looked_at(in_time=rows.in_time)
    # an estimate with k coefficients needs several persons for each, or it fits chance
    coordinates = kinds * (len(rows.numbers) + sum(map(len, rows.categories.values())))
    coordinates += sum(len(each.numbers) + len(each.drawn) for each in rows.beside)
    sizes = lengths_of(rows.clusters, rows.numbers.shape[1])
    least = max(LEAST_UNITS, PER_COORDINATE * coordinates, len(sizes) // MOST_CLASSES)
    order = np.argsort(sizes, kind="stable")
    begin = 0
    while begin < len(order):
        end = min(begin + least, len(order))
        # persons with the same number of rows are one class, and what is left is not one alone
        while end < len(order) and sizes[order[end]] == sizes[order[end - 1]]:
            end += 1
        end = len(order) if len(order) - end < least else end
        some = np.sort(order[begin:end])
        yield _class(rows, some) if rows.outers is None else _nested_class(rows, some)
        begin = end


def _class(rows: PersonRows, persons: Ints) -> _Class:
    sizes = rows.sizes[persons]
    at, starts = _rows_of(rows.starts, persons, rows.numbers.shape[1])
    functions = _functions(starts, len(at), in_time=rows.in_time)
    # every function of every column is a coordinate of a row
    names, kinds, parts = _looked_at(rows, at, functions)
    alike = _by_place(rows, at, functions)
    # how many rows a person has is seen
    count = np.repeat(sizes, sizes).astype(np.float64)
    for each in (1 / count, np.log(count)):
        names, kinds = [*names, ""], [*kinds, VALUE]
        parts.append(each[None])
    others = [each.by_row(rows.persons[persons], sizes) for each in rows.beside]
    for place, (name, kind) in enumerate(((BESIDE, BESIDE), (DRAWN_BESIDE, BESIDE), ("", VALUE))):
        for other in others:
            names = [*names, *[name] * len(other.parts[place])]
            kinds = [*kinds, *[kind] * len(other.parts[place])]
            parts.append(other.parts[place])
    times = np.zeros(len(at)) if rows.times is None else rows.times[at]
    # its noise: E[(sum_j a_j W_j)(sum_j b_j W_j)'] for all pairs of them
    noise = _Noise.of(rows.noise, times, list(functions.values()), names, others)
    z, noisy = np.concatenate(parts), np.array([name != "" for name in names])
    drawn = np.array([name in rows.categories or name == DRAWN_BESIDE for name in names])
    by_place = np.concatenate([alike, np.zeros((len(z) - len(alike), len(at)))])
    D = noise(np.arange(len(at)))
    coordinates = Coordinates(z, by_place, noisy, drawn, starts, D, noise)
    seen = [kind in PROMISED and not name for name, kind in zip(names, kinds, strict=True)]
    bins = _bins(z[seen], [codes[at] for codes in rows.codes])
    return _Class(coordinates, names, kinds, bins)


def _nested_class(rows: PersonRows, households: Ints) -> _Class:
    """Return a class of households: whose rows are independent of those of others."""
    at, starts = _rows_of(rows.clusters, households, rows.numbers.shape[1])
    persons = np.flatnonzero(np.isin(at, rows.starts))
    times = np.zeros(len(at)) if rows.times is None else rows.times[at]
    nested = Nested(persons, starts, len(at))
    if rows.in_time:
        moments = nearest_knots(times, rows.noise.knots)
        nested = replace(nested, times=times, moments=moments)
    functions = nested.functions()
    names, kinds, parts = _looked_at(rows, at, functions)
    alike = _by_place(rows, at, functions)
    # how many rows and persons there are is seen
    seen = nested.seen()
    names, kinds = [*names, *[""] * len(seen)], [*kinds, *[VALUE] * len(seen)]
    z = np.concatenate([*parts, seen])
    noise = NestedNoise(rows.noise, list(functions.values()), times, len(names))
    noisy = np.array([name != "" for name in names])
    drawn = np.array([name in rows.categories for name in names])
    by_place = np.concatenate([alike, np.zeros((len(z) - len(alike), len(at)))])
    D = noise(np.arange(len(at)))
    coordinates = Coordinates(z, by_place, noisy, drawn, starts, D, noise)
    return _Class(coordinates, names, kinds, _bins(z[~noisy], [codes[at] for codes in rows.codes]))


def _looked_at(
    rows: PersonRows, at: Ints, functions: Mapping[str, "_Function | NestedFunction"]
) -> tuple[list[str], list[str], list[Floats]]:
    """Return every function of the columns of some rows: its column, its kind and its values."""
    names, kinds, parts = [], [], []
    every = len(at) == rows.numbers.shape[1]  # persons are in their order: all are as they are
    for name, values in _columns(rows):
        coordinates = values if every else values.take(at, axis=1)
        for kind, function in functions.items():
            names += [name] * len(coordinates)
            kinds += [kind] * len(coordinates)
            parts.append(coordinates if kind == VALUE else function.of(coordinates))
    return names, kinds, parts


def _by_place(
    rows: PersonRows, at: Ints, functions: Mapping[str, "_Function | NestedFunction"]
) -> Floats:
    """Return the same functions of what donors have for sure, 0 where that is nothing."""
    parts = []
    for name, values in _columns(rows):
        nothing = np.zeros((len(values), len(at)))
        alike = rows.by_place.get(name)
        for function in functions.values():
            parts.append(nothing if alike is None else function.of(alike[:, at]))
    return np.concatenate(parts)


def _rows_of(starts: Ints, some: Ints, rows: int) -> tuple[Ints, Ints]:
    """Return the rows of some clusters, given where those of each begin, and where they begin."""
    sizes = lengths_of(starts, rows)[some]
    begins = np.cumsum(sizes) - sizes
    return np.arange(sizes.sum()) + np.repeat(starts[some] - begins, sizes), begins


def _bins(shown: Floats, codes: Sequence[Ints]) -> Ints:
    """Return what is shown in bins (features, rows): functions of numbers, values, all at once."""
    every = [OpenColumn.coded("", each) for each in codes]
    every += [OpenColumn.coded("", each, each) for each in shown]
    features = [each for each in every if each.values > 1]
    coarse = [each for each in features if each.values <= MOST_VALUES]
    if len(coarse) > 1:
        features.append(all_values(coarse))
    return np.array([binned(each) for each in features]).reshape(len(features), shown.shape[1])


@dataclass(frozen=True)
class _Function:
    """A linear function of the rows of each row's person: weights of some rows (some, rows).

    None stands for the mean of all, by the `starts` of persons.
    """

    at: Ints
    weights: Floats | None
    starts: Ints

    def of(self, values: Floats) -> Floats:
        """Return it of values (k, rows)."""
        if self.weights is not None:
            first, *others = zip(self.at, self.weights, strict=True)
            found: Floats = values.take(first[0], axis=1)
            found *= first[1]
            for at, weights in others:
                more = values.take(at, axis=1)
                more *= weights
                found += more
            return found
        sizes = lengths_of(self.starts, values.shape[1])
        means = np.add.reduceat(values, self.starts, axis=1) / sizes
        return np.repeat(means, sizes, axis=1)

    def rows_shared_with(self, other: "_Function", rows: Ints) -> Iterator[tuple[Ints, Floats]]:
        """Yield rows j, and a_j b_j: of this function and another, of some rows."""
        number = self.at.shape[-1]
        sizes = lengths_of(self.starts, number)
        if self.weights is None and other.weights is None:
            inside = np.bincount(rows, minlength=number)
            # both are the mean, with a_j b_j = 1/m^2 for all rows of the person
            each = np.add.reduceat(inside, self.starts) / sizes**2
            yield np.arange(number), np.repeat(each, sizes)
        elif self.weights is None:
            yield from other.rows_shared_with(self, rows)
        elif other.weights is None:
            one_of_m = np.repeat(1.0 / sizes, sizes)[rows]
            for at, weights in zip(self.at, self.weights, strict=True):
                yield at[rows], weights[rows] * one_of_m
        else:
            for at, a in zip(self.at[:, rows], self.weights[:, rows], strict=True):
                for also, b in zip(other.at[:, rows], other.weights[:, rows], strict=True):
                    yield at, np.where(at == also, a * b, 0.0)


def _functions(starts: Ints, rows: int, *, in_time: bool) -> dict[str, _Function]:
    """Return the functions of a person's rows that someone looks at, for each row."""
    here = np.arange(rows)
    sizes = lengths_of(starts, rows) if rows else np.zeros(0, dtype=np.int64)
    first = np.repeat(starts, sizes) if rows else here
    last = first + np.repeat(sizes, sizes) - 1 if rows else here

    def beside(step: int) -> tuple[Ints, Floats]:
        inside = (here + step >= first) & (here + step <= last)
        return np.clip(here + step, first, last), inside.astype(np.float64)

    def one(at: Ints, weight: Floats) -> _Function:
        return _Function(at[None], weight[None], starts)

    ones = np.ones(rows)
    # of the last row the next is the one before, in time, and the first one else
    following = np.where(here < last, here + 1, np.maximum(here - 1, first) if in_time else first)
    change = _Function(np.stack([following, here]), np.stack([ones, -ones]), starts)
    functions = {VALUE: one(here, ones), MEAN: _Function(here, None, starts), CHANGE: change}
    if in_time:
        functions |= {f"{step:+d}": one(*beside(step)) for step in (-2, -1, 1, 2)}
    return functions


@dataclass(frozen=True)
class _Noise:
    """The noise of functions of persons' rows, the first of the coordinates `named`.

    `phi` (functions, knots, rows) are the functions of Phi, `near` is the knot next to each row;
    `others` are the numbers of linked tables.
    """

    noise: PersonNoise
    functions: Sequence[_Function]
    phi: Floats
    near: Ints
    named: Sequence[str]
    others: Sequence[Beside]

    @classmethod
    def of(
        cls,
        noise: PersonNoise,
        times: Floats,
        functions: Sequence[_Function],
        named: Sequence[str],
        others: Sequence[Beside],
    ) -> "_Noise":
        hats = hat_matrix(times, noise.knots).T
        phi = np.stack([function.of(hats) for function in functions])
        return cls(noise, functions, phi, nearest_knots(times, noise.knots), named, others)

    def __call__(self, rows: Ints) -> Floats:
        """Return the covariance of the noise, on average over some rows; 0 where there is none."""
        person = self.noise.person
        out = np.zeros((len(self.named), len(self.named)))
        at = len(self.phi) * len(self.noise.shape)
        out[:at, :at] = self._of_numbers(rows).reshape(at, at)
        if self.others:
            with_own, among = noise_beside(self.others, rows, self.phi, person)
            first = self.named.index(BESIDE) if BESIDE in self.named else len(self.named)
            here = slice(first, first + len(among))
            out[here, here] = among
            out[:at, here] = with_own.reshape(at, -1)
            out[here, :at] = out[:at, here].T
        return out

    def _of_numbers(self, rows: Ints) -> Floats:
        """Return that of functions of numbers alone: by column and function, both times."""
        (number, knots), columns = self.phi.shape[:2], len(self.noise.shape)
        if not columns:
            return np.zeros((0, number, 0, number))
        flat = self.phi[:, :, rows].reshape(number * knots, len(rows))
        # E[(sum_j a_j Phi_j) (sum_j b_j Phi_j)'] for all pairs of functions, then times C_levels
        levels = (flat @ flat.T / len(rows)).reshape(number, knots, number, knots)
        # by pairs of functions, and of knots
        pairs = levels.transpose(0, 2, 1, 3).reshape(number**2, knots**2)
        blocks = (pairs @ self._levels).reshape(number, number, columns, columns)
        # sum_j a_j b_j R_j: rows share R only with themselves
        weights = np.zeros((number, number, knots))
        for f, g in combinations_with_replacement(range(number), 2):
            for at, share in self.functions[f].rows_shared_with(self.functions[g], rows):
                weights[f, g] += np.bincount(self.near[at], share, minlength=knots) / len(rows)
            weights[g, f] = weights[f, g]
        within = self.noise.within.reshape(knots, columns**2)
        shared = (weights.reshape(-1, knots) @ within).reshape(blocks.shape)
        return np.ascontiguousarray((blocks + shared).transpose(2, 0, 3, 1))

    @cached_property
    def _levels(self) -> Floats:
        """Cov of levels at pairs of knots (knots^2, columns^2)."""
        person = self.noise.person
        knots, columns = person.shape[:2]
        flat = person.reshape(knots * columns, -1)
        levels = (flat @ flat.T).reshape(knots, columns, knots, columns)
        return levels.transpose(0, 2, 1, 3).reshape(knots**2, columns**2)


def _columns(rows: PersonRows) -> Iterator[tuple[str, Floats]]:
    """Yield the coordinates of each column; what is shown has no name."""
    for name, values in zip(rows.names, rows.numbers, strict=True):
        yield name, values[None]
    yield from rows.categories.items()
    yield "", rows.shown
