"""What a miner computes from a table: means, deviations, correlations, shares, a regression.

The original is asked in the same way as a copy: as one whose columns were all kept.
Standard errors are those of the noise, so they say what was lost by it.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from cornerwave.errors import BiasWarning, ColumnError
from cornerwave.levels import Level
from cornerwave.miner import RANK, Copy, CopyColumn, Estimate, Estimates, Regression
from cornerwave.table.read import Source

Answer = TypeVar("Answer")

MOST_PREDICTORS = 5
MOST_INDICATORS = 6


@dataclass(frozen=True)
class Questions:
    """What is asked of each table: numbers, categories, and a regression of the last number."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    on: tuple[str, ...]

    @classmethod
    def of(
        cls, columns: Iterable[CopyColumn], varying: Sequence[str], few: Sequence[str]
    ) -> "Questions":
        """Choose from the columns of a copy; `few` are categories of few, common labels."""
        columns = list(columns)
        numbers = tuple(c.name for c in columns if c.name in varying and c.transform != RANK)
        categories = tuple(c.name for c in columns if not c.is_number)
        alone = [c.name for c in columns if c.name in few and not c.together]
        on = (*numbers[:-1][:MOST_PREDICTORS], *alone[:1]) if numbers else ()
        return cls(numbers, categories, on)


@dataclass(frozen=True)
class Mined:
    """The answers; None for what a table cannot tell."""

    mean: Estimates | None
    deviation: Mapping[str, Estimate]
    correlation: Estimates | None
    shares: Mapping[str, Estimates | None]
    regression: Regression | None
    notes: tuple[str, ...]


def mine(copy: Copy, asked: Questions) -> Mined:
    """Ask a table; what it cannot answer without bias is noted."""
    numbers = asked.numbers
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BiasWarning)
        covariance = _answer(lambda: copy.covariance(numbers, of="table"), numbers)
        found = Mined(
            mean=_answer(lambda: copy.mean(numbers, of="table"), numbers),
            deviation={name: _root(covariance[name, name]) for name in numbers if covariance},
            correlation=_answer(lambda: copy.correlation(numbers, of="table"), numbers[1:]),
            shares={
                name: _answer(lambda n=name: copy.frequencies(n, of="table"))  # type: ignore[misc]
                for name in asked.categories
            },
            regression=_answer(
                lambda: copy.regression(numbers[-1], on=asked.on, of="table"), asked.on
            ),
            notes=(),
        )
    return replace(found, notes=tuple(dict.fromkeys(str(w.message) for w in caught)))


def as_kept(source: Source, columns: Iterable[CopyColumn]) -> Copy:
    """Return the original as a copy to which nothing was done."""
    kept = {
        column.name: CopyColumn(
            column.name,
            column.is_number,
            transform=column.transform,
            hides_missing=column.hides_missing and not column.is_number,
        )
        for column in columns
    }
    return Copy(source, Level(1.0), kept)


def _answer(ask: Callable[[], Answer], needs: Sequence[str] = ("nothing",)) -> Answer | None:
    if not needs:
        return None
    try:
        return ask()
    except ColumnError:
        return None


def _root(variance: Estimate) -> Estimate:
    """Return a standard deviation from a variance: d sqrt(x) = dx / (2 sqrt(x))."""
    value = float(np.sqrt(max(variance.value, 0.0)))
    return Estimate(value, variance.standard_error / (2 * value) if value else 0.0)
