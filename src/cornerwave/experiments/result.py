"""What a part hands over: statements, figures and the numbers behind them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from cornerwave.experiments.statement import Statement

Columns = Mapping[str, Sequence[Any]]
"""Numbers as columns of equal length, by name; they become a CSV file."""


@dataclass(frozen=True)
class Drawing:
    """A figure by its file name, and what it shows; drawn when it is written."""

    name: str
    caption: str
    draw: Callable[[], Figure] = field(repr=False)


@dataclass(frozen=True)
class Result:
    """One part of the reproduction; `numbers` maps a file name to its columns."""

    title: str
    text: str
    statements: tuple[Statement, ...]
    drawings: tuple[Drawing, ...] = ()
    numbers: Mapping[str, Columns] = field(default_factory=dict)
