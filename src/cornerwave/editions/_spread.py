"""How numbers of new rows spread, held against the noise that fits the first edition.

They have covariance K' and get noise v S, so the best linear estimate from their numbers leaves

    hidden_j = 1 - [K' (K' + v S)^-1 K']_jj / K'_jj            v / (1 + v) if K' = S

of column j hidden; of a linear combination at least v / (r + v), where r is the largest eigenvalue
of S^-1 K'.
"""

from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import Drifted
from cornerwave.frozen import Frozen
from cornerwave.joint import semidefinite
from cornerwave.levels import Level
from cornerwave.survey import Survey
from cornerwave.table import listed

BOUND = 0.05
"""New rows of which copies hide less than the first edition's by more than this are refused."""
WORST = 4.0
"""So are rows of which a linear combination varies so many times more than the noise expects."""
ALLOWANCE = 3.0
"""Standard errors that chance is allowed."""
PRIOR = 50.0
"""Rows of the first edition that the frequencies and variances of a small batch are mixed with:
a few rows are refused only if they are far off, or once many have come."""
SOME_ROWS = 1 << 13
"""Rows from which to see how heavy the tails of a column are."""
_FLOOR = 1e-12


@dataclass(frozen=True)
class Spread:
    """How many rows there are, and the mean and covariance of their numbers; parts add up."""

    rows: int
    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, survey: Survey, usual: Floats) -> "Spread":
        """Return the spread of rows that were surveyed; what all lack has the usual mean."""
        found = survey.moments
        return cls(found.rows, np.where(found.present > 0, found.mean, usual), found.covariance)

    def __add__(self, other: "Spread") -> "Spread":
        rows = self.rows + other.rows
        apart = other.mean - self.mean
        scatter = (
            max(self.rows - 1, 0) * self.covariance + max(other.rows - 1, 0) * other.covariance
        )
        scatter = scatter + self.rows * other.rows / max(rows, 1) * np.outer(apart, apart)
        mean = self.mean + other.rows / max(rows, 1) * apart
        return Spread(rows, mean, scatter / max(rows - 1, 1))

    def to_bytes(self) -> bytes:
        """Return what is kept of it."""
        head = np.array([self.rows], dtype=np.float64)
        return np.concatenate([head, self.mean, self.covariance.ravel()]).astype("<f8").tobytes()

    @classmethod
    def read(cls, content: bytes, columns: int) -> "Spread":
        """Return what `to_bytes` wrote."""
        found = np.frombuffer(content, dtype="<f8").astype(np.float64)
        covariance = found[1 + columns :].reshape(columns, columns)
        return cls(int(found[0]), found[1 : 1 + columns], covariance)


def refused(what: str) -> Drifted:
    return Drifted(
        f"{what}: the noise that was fixed at registration does not fit these rows. Register them "
        "as a dataset of their own, whose noise fits them"
    )


def kurtosis_of(survey: Survey, columns: int) -> Floats:
    """Return the kurtosis of each number, on which the error of its variance depends."""
    numbers = survey.joint.parts[-1].numbers[:columns, :SOME_ROWS]
    present = ~np.isnan(numbers)
    count = np.maximum(present.sum(axis=1), 1)
    values = np.where(present, numbers, 0.0)
    centred = np.where(present, values - (values.sum(axis=1) / count)[:, None], 0.0)
    size = np.abs(centred).max(axis=1, initial=0.0)
    centred = centred / np.where(size > 0, size, 1.0)[:, None]
    second, fourth = ((centred**power).sum(axis=1) / count for power in (2, 4))
    return np.where(second > 0, fourth / np.where(second > 0, second, 1.0) ** 2, 3.0)


def _scaled(frozen: Frozen, spread: Spread) -> tuple[Floats, Floats, list[int]]:
    """Return S and K' in units of the noise's own deviation, and which columns vary."""
    S = frozen.covariance + frozen.excess
    vary = np.flatnonzero(np.diag(S) > 0).tolist()
    size = np.sqrt(np.diag(S)[vary])
    at = np.ix_(vary, vary)
    unit = np.outer(size, size)
    return S[at] / unit, semidefinite(spread.covariance[at] / unit), vary


def _hidden_numbers(S: Floats, K: Floats, noise: float) -> Floats:
    """Return which share of each column's variance numbers leave hidden; NaN if it has none."""
    whole = K + noise * S + _FLOOR * np.eye(len(S))
    told = np.einsum("ij,ji->i", K, np.linalg.solve(whole, K))
    variance = np.diag(K)
    return np.where(variance > 0, 1 - told / np.maximum(variance, 1e-300), np.nan)


def hidden_of_numbers(frozen: Frozen, spread: Spread, level: Level) -> dict[str, float]:
    """Return what copies at a level hide of each number, from numbers alone."""
    S, K, vary = _scaled(frozen, spread)
    if spread.rows < 2 or not vary:
        return {}
    shares = zip(vary, _hidden_numbers(S, K, level.noise), strict=True)
    return {frozen.schema.perturbed[i]: float(h) for i, h in shares if not np.isnan(h)}


def _allowed(spread: Spread, kurtosis: Floats) -> float:
    """Return how many times too large a variance may be by chance.

    One number for all columns: what they add up to must still add up.
    """
    return float(1 + ALLOWANCE * np.sqrt(max(kurtosis.max() - 1, 2.0) / spread.rows))


def _at_least(S: Floats, K: Floats, spread: Spread, kurtosis: Floats) -> Floats:
    """Return K less what chance may have added, mixed with rows of the first edition."""
    known = spread.rows / (spread.rows + PRIOR)
    return known * K / _allowed(spread, kurtosis) + (1 - known) * S


def check_columns_fit(frozen: Frozen, spread: Spread, level: Level, kurtosis: Floats) -> None:
    """Raise Drifted if a number varies more than its noise can hide, beyond chance."""
    S, K, vary = _scaled(frozen, spread)
    if spread.rows < 2 or not vary:
        return
    hidden = _hidden_numbers(S, _at_least(S, K, spread, kurtosis[vary]), level.noise)
    usual = level.noise / (1 + level.noise)
    for place, share in zip(vary, hidden, strict=True):
        if share < usual - BOUND:
            name = frozen.schema.perturbed[place]
            raise refused(
                f"of {name!r} in the new rows, copies at privacy {frozen.hidden.promised(level):g} "
                f"would hide {share:.3f} where the first edition's hide {usual:.3f}"
            )


def check_combinations_fit(frozen: Frozen, spread: Spread, kurtosis: Floats) -> None:
    """Raise Drifted if a linear combination of numbers varies much more than its noise."""
    S, K, vary = _scaled(frozen, spread)
    if spread.rows < 2 or not vary:
        return
    low = _at_least(S, K, spread, kurtosis[vary])
    values, vectors = np.linalg.eigh(S + _FLOOR * np.eye(len(S)))
    white = vectors / np.sqrt(values)
    largest = float(np.linalg.eigvalsh(white.T @ low @ white)[-1])
    # the largest of N eigenvalues of n rows exceeds 1 by chance
    if largest > WORST * (1 + np.sqrt(len(S) / spread.rows)) ** 2:
        names = [frozen.schema.perturbed[place] for place in vary]
        raise refused(
            f"a linear combination of {listed(names)} varies {largest:.3g} times more than at "
            "registration, as where a column followed from others and no longer does"
        )
