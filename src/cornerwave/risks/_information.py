"""How many bits a copy tells about a row, at most, to anybody.

For numbers of covariance K and normal noise of covariance v S, whatever their distribution,

    I(X; Y) <= (1/2) log2 det(I + S^-1/2 K S^-1/2 / v)        N/2 log2(1 + 1/v) where S = K

since of all Y with this covariance a normal one has the most entropy, and the noise has its own in
any case. For a category of distribution pi, retained with probability q, else drawn from b,

    I(X; Y) = sum over x, y of pi_x P(y | x) log2(P(y | x) / P(y))
    P(y | x) = q [y = x] + (1-q) b_y

Columns have noise of their own, given their values, so that bits of a row are at most those of its
parts: I(X; Y) = H(Y) - sum of H(Y_i | X_i) <= sum of (H(Y_i) - H(Y_i | X_i)). A set of copies tells
as much as its least noisy one.

Of a person, r rows are one block. Noise covers the covariance of the block, so that its numbers
tell at most rank/2 log2(1 + 1/v) bits. Its categories are exchanged as one
with those of another person, with probability 1 - q: then they tell nothing about which history of
the table is the person's, else at most all, q log2(persons).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.choices import UNIFORM
from cornerwave.levels import retention
from cornerwave.noise import PersonNoise
from cornerwave.risks._curve import Linkage

VANISHING = 2.0**-40
"""Directions with a smaller share of the noise than this are rounding."""


def bits_of_numbers(covariance: Floats, shape: Floats, noise: float) -> float:
    """Return how many bits a copy tells at most about numbers of a covariance (N, N).

    >>> bits_of_numbers(np.eye(4), np.eye(4), 1.0)
    2.0
    """
    if not len(shape):
        return 0.0
    # on the scale of deviations, or a column in large units drowns the others
    size = np.sqrt(np.where(np.diag(shape) > 0, np.diag(shape), 1.0))
    S, K = (each / np.outer(size, size) for each in (shape, covariance))
    # det(I + S^-1/2 K S^-1/2 / v) = det(I + S^-1 K / v), where there is noise
    inside = np.eye(len(S)) + np.linalg.pinv(S, rcond=VANISHING, hermitian=True) @ K / noise
    return max(0.0, float(np.linalg.slogdet(inside)[1]) / math.log(4))


def bits_of_category(counts: Sequence[int], base: str, noise: float) -> float:
    """Return how many bits a copy tells about a category, from the counts of its values.

    >>> round(bits_of_category([1, 1], "marginal", 3.0), 3)
    0.189
    """
    pi = np.array(counts, dtype=np.float64) / sum(counts)
    pi = pi[pi > 0]
    b = np.full(len(pi), 1 / len(counts)) if base == UNIFORM else pi
    q = retention(noise)
    met, missed = q + (1 - q) * b, (1 - q) * b
    shown = q * pi + missed  # P(y)
    # y = x, and then every other y, which has the same P(y | x) for all x but itself
    same = pi * met * np.log2(met / shown)
    other = (1 - pi) * missed * np.log2(missed / shown)
    return max(0.0, float((same + other).sum()))


def bits_of_person(noise: PersonNoise | None, rows: int, persons: int, level: float) -> float:
    """Return how many bits a copy tells at most about a person of so many rows.

    `noise` is None where all columns are categories.

    >>> round(bits_of_person(None, 3, 1024, 3.0), 3)
    5.0
    """
    paths = 0 if noise is None else _paths(noise, rows)
    of_categories = retention(level) * math.log2(max(persons, 2))
    return paths / 2 * math.log2(1 + 1 / level) + of_categories


def _paths(noise: PersonNoise, rows: int) -> int:
    """Return the rank of the noise of a person's rows: of the person's own paths, and the rows'."""
    columns = len(noise.shape)
    of_row = int(np.linalg.matrix_rank(noise.within.mean(axis=0))) if columns else 0
    return min(rows * columns, rows * of_row + int(noise.levels.shape[2]))


@dataclass(frozen=True)
class Risks:
    """What a copy at a level tells about a person, to anybody who holds it.

    `linkage` is None where it was not measured. `bits` of a row at most, by its numbers and
    categories; with a unit also those of a person of `person_rows` rows.
    """

    linkage: Linkage | None
    bits: float
    person_bits: float | None = None
    person_rows: int | None = None

    @property
    def most_bits(self) -> float:
        """The bits of a person, who may be a row."""
        return self.bits if self.person_bits is None else self.person_bits
