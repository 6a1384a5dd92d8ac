"""The noise of a table in which a person has several rows.

    W_i(v) = L_B P_u(v) + L_R P_i(v)          B = L_B L_B',  R = L_R L_R'

P_u is a white path of the person, keyed by the unit's id, P_i one of the row, keyed by the row's
id. Both have the levels of one path, so Cov(W_i(u), W_i(v)) = min(u, v) (B + R) as in any table,
and Cov(W_i(u), W_j(v)) = min(u, v) B for two rows of a person: all copies together say no more
about a person than the best of them.

B is shaped like what distinguishes persons, R like what distinguishes the rows of one: averaging
a person's rows takes away noise and signal alike. A column that is constant in each person has a
zero row in L_R, so its noise is the same in all rows of a person, to the bit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ids
from cornerwave.keyed import expand
from cornerwave.noise._factor import absolute, factor, positive
from cornerwave.noise._reading import Reader, Reading


@dataclass(frozen=True)
class PersonNoise:
    """B and R, and their factors."""

    between: Floats
    within: Floats
    person: Floats
    row: Floats

    @classmethod
    def of(cls, between: Floats, within: Floats, least: Floats) -> "PersonNoise":
        """Return the noise for measured covariances between persons and within them.

        B + R is at least as large as `least`, as matrices, and R never less than what is within:
        with R = K - B a fluctuation that is small in some direction would lie bare. What is
        wanting, E, is added to R but for what columns have of it that are constant in each person:

            E = E_c E_cc^-1 E_c'  (to B)  +  the rest, which is 0 in these columns  (to R)
        """
        within = _covering(within)
        between = _covering(between)
        scale = _scale(least)
        missing = positive((least - between - within) / np.outer(scale, scale))
        constant = np.flatnonzero(np.diag(within) == 0)
        of_constant = missing[:, constant] @ np.linalg.pinv(missing[np.ix_(constant, constant)])
        shared = of_constant @ missing[constant]
        scales = np.outer(scale, scale)
        between = between + shared * scales
        within = within + positive(missing - shared) * scales
        # a column without any variance within persons must have none of it left by rounding
        within[constant] = 0.0
        within[:, constant] = 0.0
        return cls(between, within, factor(between).lower, factor(within).lower)

    def constant(self, names: Sequence[str]) -> list[str]:
        """Return which columns have the same noise in all rows of a person."""
        zero = (np.diag(self.within) == 0) & (np.diag(self.between) > 0)
        return [name for name, each in zip(names, zero.tolist(), strict=True) if each]

    @property
    def shape(self) -> Floats:
        """The covariance of the noise of a row, for v = 1."""
        return np.asarray(self.between + self.within)

    def to_json(self) -> dict[str, list[list[float]]]:
        """Return the matrices, exactly."""
        return {
            "between": self.between.tolist(),
            "within": self.within.tolist(),
            "person": self.person.tolist(),
            "row": self.row.tolist(),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any], columns: int) -> "PersonNoise":
        """Return what `to_json` gave."""
        names = ("between", "within", "person", "row")
        return cls(*(np.array(kept[n], dtype=np.float64).reshape(columns, columns) for n in names))


def _scale(covariance: Floats) -> Floats:
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return np.where(deviation > 0, deviation, 1.0)


def _covering(covariance: Floats) -> Floats:
    """Return a definite matrix that is at least as large: chance can make moments indefinite."""
    scale = _scale(np.abs(covariance))
    correlation = covariance / np.outer(scale, scale)
    return np.asarray(absolute(correlation) * np.outer(scale, scale))


class PersonReader:
    """Computes W for blocks of at most `rows` rows. Each thread needs its own."""

    def __init__(self, reading: Reading, key: bytes, *, noise: PersonNoise, rows: int) -> None:
        columns = len(noise.row)
        self._noise = noise
        self._rows = Reader(reading, key, columns=columns, rows=rows)
        self._persons = Reader(reading, expand(key, "persons"), columns=columns, rows=rows)
        self._nothing = np.zeros((columns, 0)), np.zeros((0, rows))

    def noise(self, ids: Ids, units: Ids) -> Iterator[tuple[int, Floats]]:
        """Yield (index, W) for each wanted level, given the ids of rows and of their units."""
        # rows of a person that follow each other read their path once
        first = np.ones(len(units), dtype=np.bool_)
        first[1:] = (units[1:] != units[:-1]).any(axis=1)
        persons, of_row = units[first], np.cumsum(first) - 1
        no_recall, no_lasting = self._nothing[0], self._nothing[1][:, : len(ids)]
        pairs = zip(self._rows.white(ids), self._persons.white(persons), strict=True)
        for (index, white), (_, paths) in pairs:
            noise = np.empty(white.shape)
            _core.carry_over(
                self._noise.person,
                np.ascontiguousarray(paths.take(of_row, axis=1)),
                no_recall,
                np.ascontiguousarray(no_lasting),
                self._noise.row,
                white,
                noise,
            )
            yield index, noise
