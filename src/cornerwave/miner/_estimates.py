"""Estimates: a value, its standard error, and the confidence interval they make.

    value ± z(confidence) * standard error          z: the normal quantile

Every estimate here is a smooth function of means over rows, so it is approximately normal
for many rows. `of` is what the interval should cover: "table", the figure that the owner
would compute from the original rows, or "population", the figure of the population that
these rows are a sample of. Given the table only the noise is random; the population's
interval adds the table's own sampling error:

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
Labels = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimated number and its standard error.

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
    """An array of estimates, with one tuple of labels per axis.

    Index it by a label, or by a pair of labels if there are two axes.

    >>> means = Estimates((("age", "wage"),), np.array([40.0, 52.0]), np.array([0.5, 1.5]))
    >>> means["wage"]
    Estimate(value=52.0, standard_error=1.5)
    """

    labels: tuple[Labels, ...]
    value: Floats
    standard_error: Floats

    @classmethod
    def of(cls, labels: tuple[Labels, ...], value: Floats, variance: Floats) -> "Estimates":
        """Make estimates from variances; a variance that came out negative counts as 0."""
        return cls(labels, value, np.sqrt(np.maximum(variance, 0.0)))

    def __getitem__(self, key: Any) -> Estimate:
        wanted = (key,) if len(self.labels) == 1 else key
        if not (isinstance(wanted, tuple) and len(wanted) == len(self.labels)):
            raise ColumnError(
                "these estimates have two axes: give a pair of labels, as in estimates['a', 'b']"
            )
        for label, known in zip(wanted, self.labels, strict=True):
            if label not in known:
                raise ColumnError(f"no label {label!r} among {len(known)}; see .labels")
        place = tuple(known.index(label) for label, known in zip(wanted, self.labels, strict=True))
        return Estimate(float(self.value[place]), float(self.standard_error[place]))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return (low, high), arrays of the same shape."""
        reach = normal_quantile(confidence) * self.standard_error
        return self.value - reach, self.value + reach


def check_of(of: str) -> None:
    """Raise ColumnError unless `of` is "table" or "population"."""
    if of not in get_args(Of):
        raise ColumnError(f"of must be 'table' or 'population', not {of!r}")


def normal_quantile(confidence: float) -> float:
    """Return z with P(|N(0, 1)| <= z) = confidence. Raises LevelError unless in (0, 1)."""
    if not 0 < confidence < 1:
        raise LevelError(f"confidence must be strictly between 0 and 1, not {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)
