"""What a part of the reproduction takes and what it returns.

    Setting (table, seed, effort)  ->  run(setting)  ->  Result (statements, drawings, numbers)

A statement is a claim of the paper in our words, with a verdict from measured numbers.
A check that samples allows for chance: `bound` and `interval` correct for the number of
comparisons.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import NormalDist
from typing import Any

import numpy as np
from scipy import stats

from cornerwave.arrays import Floats
from cornerwave_reproduction._drawing import Drawing
from cornerwave_reproduction._input_table import InputTable

ALPHA = 1e-4
"""How often a check that samples may reject a true statement, over all its comparisons."""

CONFIDENCE = 0.95
"""How often an interval over repeated seeds covers the mean."""

Columns = Mapping[str, Sequence[Any]]
"""Numbers as columns of equal length, by name; written as a CSV file."""


@dataclass(frozen=True)
class Effort:
    """Sizes and repetitions; the defaults are the paper's, or fit in five minutes."""

    copies: int = 30
    sample_draws: int = 40
    utility_levels: int = 20
    utility_seeds: int = 6
    folds: int = 10
    timed_rows: int = 100_000
    timed_repeats: int = 11
    largest_matrix: int = 800
    attacked_rows: int = 6_000
    reference_rows: int = 2_000
    leaked_rows: int = 3_000
    miner_seeds: int = 60


@dataclass(frozen=True, eq=False)
class Setting:
    """One run of a part; `tick` receives the share of the part that was just completed."""

    table: InputTable
    seed: int
    effort: Effort = field(default_factory=Effort)
    tick: Callable[[float], None] = field(default=lambda share: None)


class Verdict(StrEnum):
    """Whether a statement holds."""

    HOLDS = "holds"
    REMARK = "holds with a remark"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Statement:
    """What the paper claims and where, and what was measured here."""

    source: str
    claim: str
    verdict: Verdict
    measured: str
    remark: str = ""

    @classmethod
    def judged(
        cls, *, source: str, claim: str, holds: bool, measured: str, remark: str = ""
    ) -> "Statement":
        """Return a statement whose verdict follows from a check and a remark.

        >>> Statement.judged(source="us", claim="1 < 2", holds=True, measured="1").verdict.value
        'holds'
        """
        passed = Verdict.REMARK if remark else Verdict.HOLDS
        return cls(source, claim, passed if holds else Verdict.FAILS, measured, remark)


@dataclass(frozen=True)
class Result:
    """One part of the reproduction; `numbers` maps a file name to its columns."""

    title: str
    text: str
    statements: tuple[Statement, ...]
    drawings: tuple[Drawing, ...] = ()
    numbers: Mapping[str, Columns] = field(default_factory=dict)

    @classmethod
    def joined(cls, title: str, results: Sequence["Result"]) -> "Result":
        """Return several results as one part."""
        return cls(
            title,
            " ".join(result.text for result in results if result.text),
            tuple(statement for result in results for statement in result.statements),
            tuple(drawing for result in results for drawing in result.drawings),
            {name: columns for result in results for name, columns in result.numbers.items()},
        )


def stacked(blocks: Iterable[Mapping[str, Any]]) -> Columns:
    """Return blocks of columns one below the other; a single value fills its block.

    >>> stacked([{"scheme": "ours", "noise": [1, 2]}, {"scheme": "other", "noise": [3]}])
    {'scheme': ['ours', 'ours', 'other'], 'noise': [1, 2, 3]}
    """
    columns: dict[str, list[Any]] = {}
    for block in blocks:
        rows = max(len(value) for value in block.values() if isinstance(value, list))
        for name, value in block.items():
            cells = value if isinstance(value, list) else [value] * rows
            columns.setdefault(name, []).extend(cells)
    return columns


def bound(comparisons: int) -> float:
    """Return how many standard deviations a true statement may be off, by ALPHA.

    >>> round(bound(1), 2), round(bound(100), 2)
    (3.89, 4.89)
    """
    return NormalDist().inv_cdf(1 - ALPHA / (2 * comparisons))


def interval(rows: Floats, *, comparisons: int = 1) -> tuple[Floats, Floats]:
    """Return the mean over seeds and the half width of its t interval; rows are (seeds, ...)."""
    seeds = len(rows)
    quantile = stats.t.ppf(1 - (1 - CONFIDENCE) / (2 * comparisons), seeds - 1)
    return rows.mean(axis=0), quantile * rows.std(axis=0, ddof=1) / np.sqrt(seeds)
