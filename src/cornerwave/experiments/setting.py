"""What an experiment runs on: a table, a seed, and how much work it may do."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cornerwave.experiments.tables import Table


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


QUICK = Effort(
    copies=12,
    sample_draws=8,
    utility_levels=3,
    utility_seeds=2,
    folds=3,
    timed_rows=4_000,
    timed_repeats=2,
    largest_matrix=60,
    attacked_rows=800,
    reference_rows=400,
    leaked_rows=400,
    miner_seeds=12,
)
"""Enough to see that everything runs; what the tests use."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One run; `tick` is told which share of the part at hand has been done."""

    table: Table
    seed: int
    effort: Effort = field(default_factory=Effort)
    tick: Callable[[float], None] = field(default=lambda share: None)
