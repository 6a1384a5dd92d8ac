"""What an answer looks like: a value, its standard error, and the interval they make.

    value ± z(confidence) * standard error          z: the normal quantile

Every estimate here is a smooth function of means over rows, so it is normal for many
rows. `of` says what the interval is to cover: "table", the figure that the owner would
compute from the original rows, or "population", the figure of what those rows are a
sample of. Given the table, only the noise is random; the population's interval adds
the table's own sampling error and is never the narrower one:

    Var(estimate) = E[Var(estimate | table)] + Var(E[estimate | table])
"""

from collections.abc import Hashable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, get_args

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError, LevelError

Of = Literal["table", "population"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number that the copy tells, and how far it may be off.

    >>> low, high = Estimate(value=10.0, standard_error=1.0).interval(0.95)
    >>> round(low, 2), round(high, 2)
    (8.04, 11.96)
    """

    value: float
    standard_error: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return (low, high). Raises LevelError unless 0 < confidence < 1."""
        reach = normal_quantile(confidence) * self.standard_error
        return self.value - reach, self.value + reach


@dataclass(frozen=True, eq=False)
class Estimates:
    """Numbers with labels: one tuple of labels per axis, arrays of that shape.

    Ask for one by its label, or by a pair of labels where there are two axes.

    >>> means = Estimates((("age", "wage"),), np.array([40.0, 52.0]), np.array([0.5, 1.5]))
    >>> means["wage"]
    Estimate(value=52.0, standard_error=1.5)
    """

    labels: tuple[tuple[Hashable, ...], ...]
    value: Floats
    standard_error: Floats

    def __getitem__(self, key: Any) -> Estimate:
        wanted = (key,) if len(self.labels) == 1 else key
        if not (isinstance(wanted, tuple) and len(wanted) == len(self.labels)):
            raise ColumnError("two axes: ask by a pair of labels, as in estimates['a', 'b']")
        for label, known in zip(wanted, self.labels, strict=True):
            if label not in known:
                raise ColumnError(f"no label {label!r} among {len(known)}; see .labels")
        place = tuple(known.index(label) for label, known in zip(wanted, self.labels, strict=True))
        return Estimate(float(self.value[place]), float(self.standard_error[place]))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), arrays of the same shape."""
        reach = normal_quantile(confidence) * self.standard_error
        return self.value - reach, self.value + reach


def estimates(labels: tuple[tuple[Hashable, ...], ...], value: Floats, variance: Any) -> Estimates:
    """Make estimates from variances; one that sampling error made negative counts as 0."""
    return Estimates(labels, value, np.sqrt(np.maximum(variance, 0.0)))


def check_of(of: str) -> None:
    """Raise ColumnError unless `of` is "table" or "population"."""
    if of not in get_args(Of):
        raise ColumnError(f"of must be 'table' or 'population', not {of!r}")


def normal_quantile(confidence: float) -> float:
    """Return how many standard errors hold this share. Raises LevelError unless in (0, 1)."""
    if not 0 < confidence < 1:
        raise LevelError(f"confidence must lie strictly between 0 and 1, not {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)
