"""A copy as its recipient sees it: open it, ask it.

copy = Copy.open("partner.parquet")
copy.mean()["wage"].interval(0.95)

It needs only the copy and its metadata: no key, no ledger, no original.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cornerwave.errors import ColumnError, nearest
from cornerwave.levels import Level
from cornerwave.miner import _covariance, _means, _ranked, _regression, _shares
from cornerwave.miner._covariance import Pairs
from cornerwave.miner._distribution import CELLS, CONFIDENCE, Distribution, distribution_of
from cornerwave.miner._estimates import (
    Estimate,
    Estimates,
    Of,
    check_of,
    column_blocks,
    find_labels,
    number_blocks,
)
from cornerwave.miner._jackknife import PersonGroups, by_person
from cornerwave.miner._metadata import (
    LOG1P,
    MIXED,
    RANK,
    CopyColumn,
    columns_of,
    level_of,
    open_copy,
    quoted,
    table_of,
    unit_of,
    warn_of_bias,
)
from cornerwave.miner._regression import Regression
from cornerwave.moments import Moments
from cornerwave.sources import Source


@dataclass(frozen=True)
class Copy:
    """A noisy copy of a table, and unbiased estimates about the original.

    Intervals cover the figure of the population that the table's rows are a sample of, or
    with `of="table"` that of the table itself.

    >>> Y = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0], [3.0, 3.0]])
    >>> copy = Copy.open(Y, noise=1.0, names=["age", "wage"])
    >>> copy.mean()["age"].value, round(copy.covariance()["age", "wage"].value, 3)
    (3.0, -0.333)
    """

    source: Source = field(repr=False)
    level: Level
    columns: Mapping[str, CopyColumn]
    edition: int | None = None
    """The edition of the table that it is a copy of, if it states that."""
    unit: str | None = None
    """The column whose values the rows of one person share, if there is one."""
    _gathered: dict[tuple[str, ...], Moments] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The moments of columns that were asked about: one pass serves several questions."""
    _paired: dict[tuple[str, ...], Pairs] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """And those of their pairs."""
    _persons: list[PersonGroups] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """The groups of persons, once they were asked for."""

    @classmethod
    def open(
        cls,
        what: Any,
        *,
        noise: float | None = None,
        privacy: float | None = None,
        metadata: Mapping[str, object] | None = None,
        names: Sequence[str] | None = None,
        subset: bool = False,
    ) -> "Copy":
        """Open a path, a frame, an Arrow table, or an array (rows, columns) with `names`.

        A released copy carries its metadata, but for frames that cannot hold it, such as those of
        polars. Then give `metadata`, as `release.metadata` has it; or `noise`, of numbers as the
        noise left them. `privacy` is only compared with the metadata: it does not state the noise.
        Raises SourceError if the noise is unknown, and LevelError if it is not what the metadata
        states.

        A copy with other than the stated number of rows is refused, unless it is a `subset` that
        was chosen at random. If it was chosen by kept columns, only means hold, because the noise
        is shaped like the whole table; if by noisy values, every estimate is biased.
        """
        if isinstance(what, np.ndarray):  # of numbers as the noise left them
            what, metadata = table_of(what, names), metadata or {}
        source, stated = open_copy(what, metadata, subset=subset)
        level = level_of(source, stated, noise=noise, privacy=privacy)
        columns = columns_of(source.schema, level.noise, stated)
        unit = unit_of(source, stated)
        return cls(source, level, columns, stated.edition if stated else None, unit)

    def mean(self, columns: Sequence[str] | None = None, *, of: Of = "population") -> Estimates:
        """Return the mean of numeric columns, by default of all."""
        check_of(of)
        return self._answer(lambda copy, of: copy._mean(columns, of), of)

    def _mean(self, columns: Sequence[str] | None, of: Of) -> Estimates:
        chosen = self._numbers(columns)
        return _covariance.mean(self._moments(chosen), chosen, of)

    def original_mean(self, column: str, *, of: Of = "population") -> Estimate:
        """Return the mean of a column on its original scale, even if perturbed as log1p or rank."""
        check_of(of)

        def ask(copy: Copy, of: Of) -> Estimates:
            estimate = copy._original_mean(column, of)
            value, error = np.array([estimate.value]), np.array([estimate.standard_error])
            return Estimates(((column,),), value, error)

        return self._answer(ask, of)[column]

    def _original_mean(self, column: str, of: Of) -> Estimate:
        known = self.columns.get(column)
        if known is not None and known.parts and known.transform is not None:
            # E x = E b + E d; the errors of both add up at most
            parts = [self._original_mean(part.name, of) for part in known.parts]
            error = sum(part.standard_error for part in parts)
            return Estimate(sum(part.value for part in parts), error)
        if (ranked := self._ranked(column)) is not None:
            return _ranked.original_mean(*ranked, of)
        [chosen] = self._numbers([column])
        if chosen.transform != LOG1P:
            return self._mean([column], of)[column]
        blocks = number_blocks(self.source, [chosen])
        tilted = _means.Tilted.of(blocks, self._moments([chosen]))
        return _means.original_mean(tilted, chosen.noise, of, column)

    def covariance(
        self, columns: Sequence[str] | None = None, *, of: Of = "population"
    ) -> Estimates:
        """Return the covariance matrix of numeric columns, by default of all."""
        check_of(of)
        return self._answer(lambda c, of: _covariance.covariance(*c._second(columns, of)), of)

    def correlation(
        self, columns: Sequence[str] | None = None, *, of: Of = "population"
    ) -> Estimates:
        """Return the correlation matrix of numeric columns, by default of all."""
        check_of(of)
        return self._answer(lambda c, of: _covariance.correlation(*c._second(columns, of)), of)

    def frequencies(self, column: str, *, of: Of = "population") -> Estimates:
        """Return the share of each category among the rows that have one."""
        check_of(of)
        chosen = self._category(column)

        def ask(copy: Copy, of: Of) -> Estimates:
            counts, [labels], _ = _shares.count_labels(copy.source, [chosen])
            return _shares.frequencies(counts, labels, chosen, of)

        return self._answer(ask, of, absent=0.0)

    def two_way(self, first: str, second: str, *, of: Of = "population") -> Estimates:
        """Return the share of each pair of categories of two columns."""
        check_of(of)
        if first == second:
            raise ColumnError(f"a two-way table needs two columns; {first!r} was given twice")
        pair = self._category(first), self._category(second)

        def ask(copy: Copy, of: Of) -> Estimates:
            counts, labels, whole = _shares.count_labels(copy.source, pair)
            return _shares.two_way(counts, (labels[0], labels[1]), pair, of, (whole[0], whole[1]))

        return self._answer(ask, of, absent=0.0)

    def group_means(self, number: str, *, by: str, of: Of = "population") -> Estimates:
        """Return the mean of a number in each category of another column."""
        check_of(of)
        [chosen], category = self._numbers([number]), self._category(by)

        def ask(copy: Copy, of: Of) -> Estimates:
            labels = find_labels(copy.source, [category])
            blocks = column_blocks(copy.source, [chosen, category], labels)
            sums = _means.GroupSums.of(blocks, chosen, category, len(labels[by]))
            return _means.group_means(sums, tuple(labels[by].to_pylist()), chosen, category, of)

        return self._answer(ask, of)

    def distribution(
        self,
        column: str,
        *,
        support: tuple[float, float] | None = None,
        atoms: Sequence[float] = (),
        cells: int = CELLS,
        confidence: float = CONFIDENCE,
    ) -> Distribution:
        """Return the reconstructed distribution of a numeric column, on its original scale.

        `support` is the known range of the original, `atoms` are values that many rows may
        share, such as 0; `confidence` is that of the intervals of their masses. A column that was
        perturbed on ranks shows its support and atoms by itself, the latter as narrow cells.
        """
        if (ranked := self._ranked(column)) is not None:
            return _ranked.distribution_of(*ranked, cells)
        known = self.columns.get(column)
        if known is not None and known.parts and known.transform == RANK:
            return _ranked.distribution_of_sum(self.source, known, cells)
        [chosen] = self._numbers([column])
        return distribution_of(
            self.source,
            chosen,
            self._moments([chosen]),
            support=support,
            atoms=atoms,
            cells=cells,
            confidence=confidence,
        )

    def regression(self, target: str, *, on: Sequence[str], of: Of = "population") -> Regression:
        """Return the linear regression of a number on numbers and categories.

        It uses the rows in which none of them is missing.
        """
        check_of(of)
        if not on or len({target, *on}) != len(on) + 1:
            raise ColumnError("a regression needs predictors, each given once, without the target")
        [outcome] = self._numbers([target])
        predictors = [self._column(name) for name in on]
        warn_of_bias(predictors)
        labels = find_labels(self.source, [c for c in predictors if not c.is_number])

        def fit(copy: Copy, of: Of) -> Regression:
            columns = [copy.columns[each.name] for each in (*predictors, outcome)]
            features = _regression.design(columns, labels)
            return _regression.regress(
                lambda: _regression.feature_blocks(copy.source, features, labels), features, of
            )

        fitted = fit(self, of)
        if self.unit is None:
            return fitted
        coefficients = self._answer(lambda copy, of: fit(copy, of).coefficients, of)
        return replace(fitted, coefficients=coefficients)

    def _answer(
        self, ask: "Callable[[Copy, Of], Estimates]", of: Of, *, absent: float | None = None
    ) -> Estimates:
        """Return what is asked; with standard errors from persons, if the copy names them."""
        asked = ask(self, of)
        if self.unit is None:
            return asked
        if not self._persons:
            self._persons.append(PersonGroups.of(self.source, self.unit))
        return by_person(
            self._persons[0],
            asked,
            lambda part: ask(replace(self, source=part), "population"),
            absent=absent,
        )

    def _column(self, name: str) -> CopyColumn:
        if name not in self.columns:
            raise _unknown(name, self.source, self.columns)
        if self.columns[name].transform == MIXED:
            parts = quoted(part.name for part in self.columns[name].parts)
            raise ColumnError(
                f"{name!r}: the sum of {parts}, which were perturbed on scales that differ, where "
                "original_mean() alone answers; ask about these"
            )
        if self.columns[name].transform == RANK:
            raise ColumnError(
                f"{name!r}: perturbed on the rank scale, where original_mean() and distribution() "
                "answer; leave the column out here, or ask for a copy with another transform"
            )
        return self.columns[name]

    def _ranked(self, name: str) -> tuple[_ranked.SortedCopy, _ranked.RankScores] | None:
        """Return a column that was perturbed on ranks, in order, and how its scores occur."""
        column = self.columns.get(name)
        if column is None or column.transform != RANK or column.parts:
            return None
        warn_of_bias([replace(column, transform=None)])  # ranks take no harm from rounding
        copy = _ranked.SortedCopy.of(lambda: number_blocks(self.source, [column]), name)
        return copy, _ranked.RankScores.of(column)

    def _numbers(self, names: Sequence[str] | None) -> list[CopyColumn]:
        if isinstance(names, str):
            names = [names]
        if names is None:
            all_ = {name: column for name, column in self.columns.items() if column.is_number}
            names = [n for n, column in all_.items() if column.transform not in (RANK, MIXED)]
        chosen = [self._column(name) for name in names]
        if not chosen:
            raise ColumnError("no numeric columns were given, or the copy has none")
        if wrong := [column.name for column in chosen if not column.is_number]:
            raise ColumnError(f"{quoted(wrong)}: not numeric; use frequencies() for categories")
        warn_of_bias(chosen)
        return chosen

    def _category(self, name: str) -> CopyColumn:
        column = self._column(name)
        if column.is_number:
            raise ColumnError(f"{name!r}: numeric, not a category; use distribution()")
        return column

    def _moments(self, columns: Sequence[CopyColumn]) -> Moments:
        names = tuple(column.name for column in columns)
        if names not in self._gathered:
            blocks = number_blocks(self.source, columns)
            self._gathered[names] = _covariance.gather(blocks, names)
        return self._gathered[names]

    def _second(
        self, names: Sequence[str] | None, of: Of
    ) -> tuple[Moments, Pairs, list[CopyColumn], Of]:
        """Return the moments of numeric columns, and those of each pair of them."""
        check_of(of)
        chosen = self._numbers(names)
        moments = self._moments(chosen)
        asked = tuple(column.name for column in chosen)
        if asked not in self._paired:
            self._paired[asked] = Pairs.of(number_blocks(self.source, chosen), moments)
        return moments, self._paired[asked], chosen, of


def _unknown(name: str, source: Source, columns: Mapping[str, CopyColumn]) -> ColumnError:
    """Return the message about a column that cannot be asked about."""
    have = f"the copy has {quoted(columns)}{nearest(name, columns)}"
    if name not in source.schema.names:
        return ColumnError(f"no column {name!r}; {have}")
    return ColumnError(
        f"{name!r} is a key, or was added to the copy, or follows from another column, and the "
        "metadata does not state its noise. A function of noisy values has a noise of its own: "
        "estimate first, then compute. For a sum "
        "or a multiple of perturbed columns, add its name to the columns of metadata= with the "
        f"role perturbed; {have}"
    )
