"""A copy as its recipient sees it: open it, ask it.

copy = Copy.open("partner.parquet")
copy.mean()["wage"].interval(0.95)

Needs the copy and what it says of itself, nothing else: no key, no ledger, no original.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.errors import ColumnError
from cornerwave.levels import Level
from cornerwave.miner import categories, groups, histograms, log_scale, reading, regression
from cornerwave.miner import covariance as shape
from cornerwave.miner.columns import LOG1P, Column, columns_of, refuse_mixed, warn_of_bias
from cornerwave.miner.distribution import CELLS, CONFIDENCE, TOLERANCE, Distribution
from cornerwave.miner.estimate import Estimate, Estimates, Of, check_of
from cornerwave.miner.opening import level_of, metadata_of, open_copy, table_of
from cornerwave.miner.regression import Regression
from cornerwave.moments import Moments
from cornerwave.table import Source


@dataclass(frozen=True)
class Copy:
    """A noisy copy of a table, and unbiased answers about the original.

    `of="population"` (the default) is about what the table's rows are a sample of,
    `of="table"` about the table itself.

    >>> Y = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0], [3.0, 3.0]])
    >>> copy = Copy.open(Y, noise=1.0, names=["age", "wage"])
    >>> copy.mean()["age"].value, round(copy.covariance()["age", "wage"].value, 3)
    (3.0, -0.333)
    """

    source: Source = field(repr=False)
    level: Level
    columns: Mapping[str, Column]

    @classmethod
    def open(
        cls,
        what: Any,
        *,
        noise: float | None = None,
        privacy: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> "Copy":
        """Open a path, a frame, an Arrow table, or an array (rows, columns) with `names`.

        A copy says itself how it was made; where it cannot, say `noise`, `privacy` or
        `metadata`, as a release writes it. Raises SourceError if nobody says, and
        LevelError if what you say is not what the copy says.
        """
        if isinstance(what, np.ndarray):
            what = table_of(what, names)
        source = open_copy(what, metadata)
        said = metadata or metadata_of(source)
        given = (
            None if noise is None and privacy is None else Level.of(noise=noise, privacy=privacy)
        )
        level = level_of(source, said, given)
        return cls(source, level, columns_of(source.schema, level.noise, said))

    def mean(self, columns: Sequence[str] | None = None, *, of: Of = "population") -> Estimates:
        """Return the mean of numeric columns, by default of all."""
        check_of(of)
        chosen = self._numbers(columns)
        return shape.mean(self._moments(chosen), chosen, of)

    def original_mean(self, column: str, *, of: Of = "population") -> Estimate:
        """Return the mean of a column on its own scale, also where it was perturbed as log1p."""
        check_of(of)
        [chosen] = self._numbers([column])
        if chosen.transform != LOG1P:
            return self.mean([column], of=of)[column]
        blocks = reading.number_blocks(self.source, [chosen])
        tilted = log_scale.Tilted.of(blocks, self._moments([chosen]))
        return log_scale.original_mean(tilted, chosen.noise, of, column)

    def covariance(
        self, columns: Sequence[str] | None = None, *, of: Of = "population"
    ) -> Estimates:
        """Return the covariance matrix of numeric columns, by default of all."""
        chosen, moments, fourth = self._second(columns, of)
        return shape.covariance(moments, fourth, chosen, of)

    def correlation(
        self, columns: Sequence[str] | None = None, *, of: Of = "population"
    ) -> Estimates:
        """Return the correlation matrix of numeric columns, by default of all."""
        chosen, moments, fourth = self._second(columns, of)
        return shape.correlation(moments, fourth, chosen, of)

    def frequencies(self, column: str, *, of: Of = "population") -> Estimates:
        """Return the share of each category among the rows that have one."""
        check_of(of)
        chosen = self._category(column)
        counts, [labels], _ = self._counts([chosen])
        return categories.frequencies(counts, labels, chosen, of)

    def two_way(self, first: str, second: str, *, of: Of = "population") -> Estimates:
        """Return the share of each pair of categories of two columns."""
        check_of(of)
        if first == second:
            raise ColumnError(f"{first!r} twice: a two-way table takes two columns")
        pair = self._category(first), self._category(second)
        counts, labels, whole = self._counts(pair)
        return categories.two_way(counts, (labels[0], labels[1]), pair, of, (whole[0], whole[1]))

    def group_means(self, number: str, *, by: str, of: Of = "population") -> Estimates:
        """Return the mean of a number in each category of another column."""
        check_of(of)
        [chosen], category = self._numbers([number]), self._category(by)
        found = reading.find_labels(self.source, [category])
        blocks = reading.group_blocks(self.source, chosen, category, found)
        sums = groups.Sums.of(blocks, len(found[by]))
        return groups.group_means(sums, tuple(found[by].to_pylist()), chosen, category, of)

    def distribution(
        self,
        column: str,
        *,
        support: tuple[float, float] | None = None,
        atoms: Sequence[float] = (),
        cells: int = CELLS,
        confidence: float = CONFIDENCE,
        tolerance: float = TOLERANCE,
    ) -> Distribution:
        """Return the reconstructed distribution of a numeric column, on its original scale.

        `support` is where the original is known to lie, `atoms` are values that many
        rows may share, such as 0; `confidence` is that of the intervals of their masses.
        """
        [chosen] = self._numbers([column])
        return histograms.distribution_of(
            self.source,
            chosen,
            self._moments([chosen]),
            support=support,
            atoms=atoms,
            cells=cells,
            confidence=confidence,
            tolerance=tolerance,
        )

    def regression(self, target: str, *, on: Sequence[str], of: Of = "population") -> Regression:
        """Return the linear regression of a number on numbers and categories.

        Rests on the rows in which none of them is missing.
        """
        check_of(of)
        if not on or len({target, *on}) != len(on) + 1:
            raise ColumnError("a regression needs predictors, each named once, without the target")
        [outcome] = self._numbers([target])
        predictors = [self._column(name) for name in on]
        warn_of_bias(predictors)
        found = reading.find_labels(self.source, [c for c in predictors if not c.is_number])
        features = regression.design(
            [*predictors, outcome], lambda name: tuple(found[name].to_pylist())
        )
        return regression.regress(
            lambda: reading.feature_blocks(self.source, features, found), features, of
        )

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            known = ", ".join(map(repr, self.columns))
            raise ColumnError(f"no column {name!r} to ask about; the copy has {known}")
        refuse_mixed(self.columns[name])
        return self.columns[name]

    def _numbers(self, names: Sequence[str] | None) -> list[Column]:
        if isinstance(names, str):
            names = [names]
        if names is None:
            names = [name for name, column in self.columns.items() if column.is_number]
        chosen = [self._column(name) for name in names]
        if not chosen:
            raise ColumnError("no numeric column to ask about")
        if wrong := [column.name for column in chosen if not column.is_number]:
            raise ColumnError(f"{', '.join(map(repr, wrong))}: categories; ask for frequencies")
        warn_of_bias(chosen)
        return chosen

    def _category(self, name: str) -> Column:
        column = self._column(name)
        if column.is_number:
            raise ColumnError(f"{name!r} holds numbers, not categories; ask for its distribution")
        return column

    def _moments(self, columns: Sequence[Column]) -> Moments:
        names = [column.name for column in columns]
        return shape.gather(reading.number_blocks(self.source, columns), names)

    def _second(
        self, names: Sequence[str] | None, of: Of
    ) -> tuple[list[Column], Moments, shape.Fourth | None]:
        check_of(of)
        chosen = self._numbers(names)
        moments = self._moments(chosen)
        if of == "table":
            return chosen, moments, None
        blocks = reading.number_blocks(self.source, chosen)
        return chosen, moments, shape.Fourth.of(blocks, moments)

    def _counts(
        self, columns: Sequence[Column]
    ) -> tuple[Floats, list[categories.Labels], list[Floats]]:
        """Count the rows that have all columns; also each column in all rows that have it."""
        found = reading.find_labels(self.source, columns)
        shape = tuple(len(found[column.name]) for column in columns)
        if len(shape) > 1 and math.prod(shape) > categories.MOST_PAIRS:
            raise ColumnError(
                f"{math.prod(shape):,} pairs of categories; a two-way table takes at most "
                f"{categories.MOST_PAIRS:,}: pool rare values first"
            )
        counts, whole = np.zeros(math.prod(shape)), [np.zeros(length) for length in shape]
        for codes in reading.code_blocks(self.source, columns, found):
            present = codes[(codes >= 0).all(axis=1)]
            places = np.ravel_multi_index(tuple(present.T), shape) if len(present) else []
            counts += np.bincount(places, minlength=len(counts))
            for own, codes_of_column in zip(whole, codes.T, strict=True):
                own += np.bincount(codes_of_column[codes_of_column >= 0], minlength=len(own))
        labels = [tuple(found[column.name].to_pylist()) for column in columns]
        return counts.reshape(shape), labels, whole
