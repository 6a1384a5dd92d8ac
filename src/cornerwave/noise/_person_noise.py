"""The noise of a table in which a person has several rows.

    W_i(v) = Phi(t) L_C P_u(v) + L_R P_i(v)

P_u is a white path of the person, keyed by the unit's id, P_i one of the row, keyed by the row's
id. Both have the levels of one path, so for rows i and j of a person, at times s and t,

    Cov(W_i(u), W_j(v)) = min(u, v) (Phi(s) C Phi(t)' + [i = j] R(t))

and all copies together reveal no more about a person than the best of them. C is the covariance of
a person's levels at some knots in time, of all columns together, Phi are linear hats between
knots, and R is that of the nearest knot. Without a time there is one knot: C is B, what
distinguishes persons.

If persons belong to households, these have a path of their own: Phi(t) L_H P_h(v) is added, P_h
keyed by the household's id, with the covariance H of what distinguishes households at the knots, so
that for rows i and j of one household C and R are left of the noise of a difference of persons, and
H of that of all means.

C is shaped like the curves of persons, R like what distinguishes neighbouring rows of one:
averaging rows of a person takes away noise and signal alike. A column that is constant in each
person has one level, and nothing in R, so its noise is the same in all rows, to the bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ids, Ints, runs_of
from cornerwave.keyed import expand
from cornerwave.noise._factor import absolute, factor, positive
from cornerwave.noise._reading import Reader, Reading


class KeptPersonNoise(TypedDict):
    """A `PersonNoise` as the ledger keeps it."""

    knots: list[float]
    person: list[list[list[float]]]
    within: list[list[list[float]]]
    row: list[list[list[float]]]
    shape: list[list[float]]
    constant: list[int]
    outer: NotRequired[list[list[float]]]


@dataclass(frozen=True)
class PersonNoise:
    """J knots in time; at each L_C (N columns, Q paths), and R with its factor.

    `shape` is the covariance of the noise of a row for v = 1, on average over rows; `constant` are
    the columns that have the same noise in all rows of a person. `outer` is L_H (J, N, Q) at each
    knot, of the levels of households, if persons belong to some.
    """

    knots: Floats
    person: Floats
    within: Floats
    row: Floats
    shape: Floats
    constant: tuple[int, ...]
    outer: Floats | None = None

    @classmethod
    def of(cls, between: Floats, within: Floats, least: Floats) -> "PersonNoise":
        """Return the noise for measured covariances between persons and within them.

        B + R is at least as large as `least`, as matrices, and R never less than what is within:
        with R = K - B a fluctuation that is small in some direction would be visible.
        """
        within, between = covering(within), covering(between)
        constant = np.flatnonzero(np.diag(within) == 0)
        # B + R >= least: what is missing is added to both, as E of `divided`
        to_person, to_rows = divided(least - between - within, constant, least)
        between, within = between + to_person, without(within + to_rows, constant)
        return cls(
            knots=np.zeros(1),
            person=factor(between).lower[None],
            within=within[None],
            row=factor(within).lower[None],
            shape=between + within,
            constant=tuple(constant.tolist()),
        )

    @classmethod
    def nested(cls, outer: Floats, between: Floats, within: Floats, least: Floats) -> "PersonNoise":
        """Return the noise for covariances between households, persons of one, and rows of one.

        H + B + R is at least as large as `least`, as matrices. A column that is constant in each
        household has nothing in B and R, one that is constant in each person nothing in R.
        """
        outer, between, within = covering(outer), covering(between), covering(within)
        constant = np.flatnonzero(np.diag(within) == 0)
        of_outer = constant[np.diag(between)[constant] == 0]
        to_outer, wanting = divided(least - outer - between - within, of_outer, least)
        to_person, to_rows = divided(wanting, constant, least)
        outer = outer + to_outer
        between = without(between + to_person, of_outer)
        within = without(within + to_rows, constant)
        return cls(
            knots=np.zeros(1),
            person=factor(between).lower[None],
            within=within[None],
            row=factor(within).lower[None],
            shape=outer + between + within,
            constant=tuple(constant.tolist()),
            outer=factor(outer).lower[None],
        )

    @property
    def outer_constant(self) -> tuple[int, ...]:
        """The columns that have the same noise in all rows of a household."""
        if self.outer is None:
            return ()
        return tuple(i for i in self.constant if not self.person[:, i].any())

    @property
    def levels(self) -> Floats:
        """The loadings at each knot of all that rows share: the person's, and the household's."""
        if self.outer is None:
            return self.person
        return np.concatenate([self.person, self.outer], axis=2)

    @property
    def paths(self) -> int:
        """How many paths a row has: its own, its person's, and that of the household if any."""
        return 2 if self.outer is None else 3

    def named(self, names: Sequence[str]) -> list[str]:
        """Return the names of the columns that are constant in each person, and vary among them."""
        return [names[i] for i in self.constant if self.shape[i, i] > 0]

    def only(self, columns: Sequence[int]) -> "PersonNoise":
        """Return the noise of some columns."""
        at = np.ix_(columns, columns)
        within = np.stack([own[at] for own in self.within])
        return PersonNoise(
            knots=self.knots,
            person=np.ascontiguousarray(self.person[:, columns]),
            within=within,
            row=np.stack([factor(own).lower for own in within]),
            shape=self.shape[at],
            constant=tuple(k for k, i in enumerate(columns) if i in self.constant),
            outer=None if self.outer is None else np.ascontiguousarray(self.outer[:, columns]),
        )

    def to_json(self) -> KeptPersonNoise:
        """Return the matrices, exactly."""
        kept: KeptPersonNoise = {
            "knots": self.knots.tolist(),
            "person": self.person.tolist(),
            "within": self.within.tolist(),
            "row": self.row.tolist(),
            "shape": self.shape.tolist(),
            "constant": list(self.constant),
        }
        if self.outer is not None:
            kept["outer"] = np.concatenate(self.outer).tolist()  # knot after knot
        return kept

    @classmethod
    def from_json(cls, kept: KeptPersonNoise) -> "PersonNoise":
        """Return what `to_json` gave."""
        columns, knots = len(kept["shape"]), len(kept["knots"])
        at_knots = (knots, columns, -1 if columns else 0)  # no columns: nothing states the shape
        return cls(
            knots=np.array(kept["knots"], dtype=np.float64),
            person=np.array(kept["person"], dtype=np.float64).reshape(at_knots),
            within=np.array(kept["within"], dtype=np.float64).reshape(at_knots),
            row=np.array(kept["row"], dtype=np.float64).reshape(at_knots),
            shape=np.array(kept["shape"], dtype=np.float64),
            constant=tuple(kept["constant"]),
            outer=np.array(kept["outer"]).reshape(at_knots) if "outer" in kept else None,
        )


def hats(times: Floats, knots: Floats) -> tuple[Ints, Floats]:
    """Return the knot before each time, and the weight of the one after it.

    Before the first knot and after the last, as of rows that come later, the curve goes on as in a
    mirror: rows differ there as much as they did. A row without a time is in the middle.
    """
    if len(knots) == 1:
        return np.zeros(len(times), dtype=np.int64), np.zeros(len(times))
    span = float(knots[-1] - knots[0])
    # the curve and its mirror image repeat every two spans
    along = np.mod(np.nan_to_num(times, nan=float(np.median(knots))) - knots[0], 2 * span)
    known = knots[0] + np.minimum(along, 2 * span - along)
    below = np.clip(np.searchsorted(knots, known, side="right") - 1, 0, len(knots) - 2)
    return below, np.asarray((known - knots[below]) / (knots[below + 1] - knots[below]))


def nearest_knots(times: Floats, knots: Floats) -> Ints:
    """Return the knot that is nearest to each time, whose R a row has."""
    below, weight = hats(times, knots)
    return np.asarray(below + (weight > 0.5))


def hat_matrix(times: Floats, knots: Floats) -> Floats:
    """Return Phi (rows, knots)."""
    (below, weight), rows = hats(times, knots), np.arange(len(times))
    phi = np.zeros((len(times), len(knots)))
    phi[rows, below] = 1 - weight
    phi[rows, np.minimum(below + 1, len(knots) - 1)] += weight
    return phi


def covering(covariance: Floats) -> Floats:
    """Return a definite matrix that is at least as large: chance can make moments indefinite."""
    scale = scale_of(np.abs(covariance))
    # |P| >= P, on the correlation scale: no column counts more for its units
    correlation = covariance / np.outer(scale, scale)
    return np.asarray(absolute(correlation) * np.outer(scale, scale))


def scale_of(covariance: Floats) -> Floats:
    """Return the deviations, 1 for what does not vary."""
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return np.where(deviation > 0, deviation, 1.0)


def divided(wanting: Floats, constant: Ints, like: Floats) -> tuple[Floats, Floats]:
    """Divide what noise wants of a covariance between persons and rows: its positive part, E.

    E = E_c E_cc^-1 E_c'  (to persons)  +  the rest, 0 in constant columns  (to rows), on the scale
    of the deviations of `like`.
    """
    scale = scale_of(like)
    scales = np.outer(scale, scale)
    E = positive(wanting / scales)
    # the part of E that goes with the constant columns; E - shared, a Schur complement, is 0 there
    # and positive semidefinite
    shared = E[:, constant] @ _inverse(E[np.ix_(constant, constant)]) @ E[constant]
    return np.asarray(shared * scales), np.asarray(positive(E - shared) * scales)


def _inverse(E: Floats) -> Floats:
    """Return the inverse of a correlation, without what rounding leaves of directions."""
    values, vectors = np.linalg.eigh(E)
    # on the scale of deviations rounding leaves about 1e-16; less than this is taken for it
    kept = values > 1e-9
    return np.asarray(vectors[:, kept] / values[kept] @ vectors[:, kept].T)


def without(matrix: Floats, columns: Ints) -> Floats:
    """Return a covariance without some columns, to the last bit of rounding."""
    matrix = matrix.copy()
    matrix[columns] = 0.0
    matrix[:, columns] = 0.0
    return matrix


class PersonReader:
    """Computes W for blocks of at most `rows` rows. Each thread needs its own."""

    def __init__(
        self, reading: Reading, key: bytes, of_persons: bytes, *, noise: PersonNoise, rows: int
    ) -> None:
        """`key` is that of rows, `of_persons` that of persons: linked tables share it."""
        _, columns, paths = noise.person.shape
        self._noise = noise
        self._rows = Reader(reading, key, columns=columns, rows=rows)
        self._persons = Reader(reading, of_persons, columns=paths, rows=rows)
        self._outers = None
        if noise.outer is not None:
            key = expand(of_persons, "outer")
            self._outers = Reader(reading, key, columns=noise.outer.shape[2], rows=rows)

    def noise(
        self, ids: Ids, units: Ids, times: Floats | None, outers: Ids | None = None
    ) -> Iterator[tuple[int, Floats]]:
        """Yield (index, W) for each wanted level, given rows' ids, units, times and households."""
        (persons, of_row), levels = runs_of(units), self._noise.person
        shared: Iterator[Floats] = (paths for _, paths in self._persons.white(persons))
        if self._outers is not None and self._noise.outer is not None and outers is not None:
            households, of_rows = runs_of(outers)
            common: Iterator[Floats] = (paths for _, paths in self._outers.white(households))
            if len(levels) == 1:
                made = self._of_rows(ids, times, levels, shared, of_row)
                for (index, W), paths in zip(made, common, strict=True):
                    yield index, W + shaped(self._noise.outer[0], paths).take(of_rows, axis=1)
                return
            # a curve is read once, of the person and the household
            first = np.flatnonzero(np.diff(of_row, prepend=-1))
            levels, whose = self._noise.levels, of_rows[first]
            shared = (
                np.concatenate([own, theirs.take(whose, axis=1)])
                for own, theirs in zip(shared, common, strict=True)
            )
        yield from self._of_rows(ids, times, levels, shared, of_row)

    def _of_rows(
        self,
        ids: Ids,
        times: Floats | None,
        levels: Floats,
        shared: Iterator[Floats],
        of_row: Ints,
    ) -> Iterator[tuple[int, Floats]]:
        """Yield the noise of rows, given the white paths that they share, and whose each row is."""
        curve = _Curve(self._noise, levels, np.zeros(len(ids)) if times is None else times)
        for (index, white), paths in zip(self._rows.white(ids), shared, strict=True):
            yield index, curve.noise(paths, of_row, white)


class _Curve:
    """Where rows lie in time: between which knots, and how near the second.

    `levels` (J, N, paths) are the loadings of what they share.
    """

    def __init__(self, noise: PersonNoise, levels: Floats, times: Floats) -> None:
        self._noise, self._levels = noise, levels
        self._below, self._weight = hats(times, noise.knots)

    def noise(self, paths: Floats, of_row: Ints, white: Floats) -> Floats:
        """Return W of rows, given the white paths of persons, whose each row is, and its own."""
        noise, out = self._noise, np.empty(white.shape)
        if len(noise.knots) == 1:
            shared = shaped(self._levels[0], paths)
            _core.shape_persons(shared, of_row, noise.row[0], white, out)
            return out
        by_person, by_row = (np.ascontiguousarray(each.T) for each in (paths, white))
        # Phi(t) L_C P_u + L_R P_i: a time between two knots has the levels of both, by its
        # distance, and R of the nearest
        _core.shape_curves(
            self._levels, noise.row, by_person, of_row, self._below, self._weight, by_row, out
        )
        for column in noise.constant:  # read without hats, or rounding would show the time
            out[column] = shaped(self._levels[0][column : column + 1], paths)[0].take(of_row)
        return out


def shaped(loadings: Floats, paths: Floats) -> Floats:
    """Return loadings @ paths, by strict arithmetic."""
    columns, rows = len(loadings), paths.shape[1]
    out, nothing = np.empty((columns, rows)), np.zeros((columns, rows))
    _core.carry_over(
        np.ascontiguousarray(loadings),
        np.ascontiguousarray(paths),
        np.zeros((columns, 0)),
        np.zeros((0, rows)),
        np.zeros((columns, columns)),
        nothing,
        out,
    )
    return out
