"""What each column is, what would happen to it, what to watch for.

One pass counts rows, missing and distinct values, and the moments of the numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats
from cornerwave.columns import (
    FEW_ROWS,
    LEAST_ROWS,
    MOST_CATEGORIES,
    Distinct,
    Encoded,
    identifies,
    is_category,
    is_number,
    one_chunk,
    to_floats,
    value_type,
)
from cornerwave.errors import ColumnError, SourceError
from cornerwave.inspection._recognise import (
    NEARLY_UNIQUE,
    ZERO_HEAVY,
    code_for_missing,
    recognise,
    zeros,
)
from cornerwave.inspection._scales import RANK, DraftedScale, drafted_scale
from cornerwave.inspection._seen import DROP_OR_KEY, FEW_CODES, IDENTIFIER, Recognised, Seen
from cornerwave.moments import Moments
from cornerwave.noise import factor
from cornerwave.privacy import RowOrder
from cornerwave.sources import LEVELS, Source

RARE = 5
"""Values held by fewer rows than this are called rare."""
LONG_TAIL = 3.0
"""A column with a larger skewness is called long-tailed; an exponential one has 2."""


@dataclass(frozen=True)
class ColumnReport:
    """What was found in a column; `do` is what a draft proposes.

    `distinct` is the number of distinct values, an estimate unless `exact`; `by_order` is the
    share of its variance that a row's neighbours in the file reveal; `from_zero` is true of a
    number to be perturbed of which no sampled value is negative. `marks` represent missing values
    in this column, if it has its own, in `marked` cells if they were found; `code` is a number
    that may, and the sampled cells that hold it; `is_dated` is true of text that spells dates;
    `scale` is that of a number to be perturbed, if its values show which; `description` is what
    the file states that it means; `relative_to` the column that it is drafted as a distance from,
    `present_if` the category that explains its gaps, `follows` the column that decides it, `sum_of`
    the columns that it is the sum of, each with the reason.
    """

    name: str
    type: str
    do: str
    distinct: int
    exact: bool
    missing: float
    warnings: tuple[str, ...]
    by_order: float = 0.0
    from_zero: bool = False
    marks: tuple[str, ...] | None = None
    marked: int = 0
    code: tuple[int, int] | None = None
    is_dated: bool = False
    scale: DraftedScale | None = None
    description: str | None = None
    relative_to: tuple[str, str] | None = None
    present_if: tuple[str, str] | None = None
    follows: tuple[str, str] | None = None
    sum_of: tuple[str, str] | None = None

    @property
    def is_ranked(self) -> bool:
        """Whether it is drafted for the scale of its ranks."""
        return self.do == "perturb" and self.scale is not None and self.scale.transform == RANK

    @property
    def is_whole(self) -> bool:
        """Whether it is drafted as whole numbers, though its type is of others."""
        return self.is_ranked and self.scale is not None and self.scale.whole

    @property
    def released_type(self) -> tuple[str, str] | None:
        """The type that it is drafted to have in copies, if it is another one, and why."""
        if self.is_whole:
            return "int64", "it holds whole numbers alone, and so do copies"
        if self.do == "perturb" and self.scale is not None and self.scale.seconds:
            return "timestamp[s]", "it holds whole seconds alone, and so do copies"
        return None

    @property
    def decimals(self) -> int | None:
        """How many decimals it is drafted with in copies."""
        return self.scale.decimals if self.do == "perturb" and self.scale is not None else None

    @property
    def asks(self) -> tuple[str, ...]:
        """The choices that only a column like this one is asked for."""
        asked = {
            "hide_missing": bool(self.missing),
            "relative_to": self.relative_to is not None,
            "present_if": self.present_if is not None,
            "follows": self.follows is not None,
            "sum_of": self.sum_of is not None,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)


class Columns:
    """What has been seen of a source's columns so far."""

    def __init__(self, source: Source) -> None:
        self._schema, self._notes = source.schema, source.notes
        self._descriptions = source.descriptions
        marks = source.reading.column_missing if source.reading else None
        self._marks, self._marked = dict(marks or ()), source.markers
        self._shared = (source.reading.missing if source.reading else None) or ()
        self.rows = 0
        """How many rows were seen."""
        self._missing: Counter[str] = Counter()
        self._distinct: defaultdict[str, Distinct] = defaultdict(Distinct)
        self._numbers = [
            part.name
            for part in source.schema
            if is_number(part.type) and not is_category(part.type)
        ]
        self._refused: dict[str, str] = {}
        self._moments = Moments.of(np.empty((0, len(self._numbers))))
        self._cubes = _Cubes(len(self._numbers))
        self._categories = [part.name for part in source.schema if is_category(part.type)]
        self._order = RowOrder([*self._numbers, *self._categories])

    def take(self, table: pa.Table) -> None:
        """Look at some more rows."""
        self._order.add(self.rows, table)
        self.rows += table.num_rows
        floats = np.full((table.num_rows, len(self._numbers)), np.nan)
        for part in self._schema:
            column = one_chunk(table.column(part.name))
            if part.name not in self._numbers:
                self._take_values(part.name, column)
            elif (values := self._take_numbers(part.name, column)) is not None:
                floats[:, self._numbers.index(part.name)] = values
        self._cubes.add(floats)
        self._moments += Moments.of(floats)

    @property
    def values(self) -> Mapping[str, Distinct]:
        """The distinct values of each column."""
        return {name: self._distinct[name] for name in self._schema.names}

    def _take_numbers(self, name: str, column: pa.Array) -> Floats | None:
        try:
            values = to_floats(column, name)
            Moments.of(values[:, None], [name])
        except SourceError as error:
            self._refused[name] = str(error)
            self._take_values(name, column)
            return None
        present = values[~np.isnan(values)]
        self._missing[name] += len(values) - len(present)
        self._distinct[name].add_numbers(present)
        return values

    def _take_values(self, name: str, column: pa.Array) -> None:
        if pa.types.is_floating(column.type):
            column = column.cast(value_type(column.type))
            column = pc.if_else(pc.is_nan(column), None, column)
        try:
            encoded = Encoded.of(column, name)
            self._distinct[name].add_encoded(encoded)
        except (pa.ArrowException, ColumnError):
            self._missing[name] += column.null_count
            return
        self._missing[name] += int((encoded.codes < 0).sum())

    def reports(self, rows: pa.Table) -> Iterator[ColumnReport]:
        """Yield what was found, column by column; `rows` are the sampled ones."""
        known = {name: self._recognised(name, rows) for name in rows.column_names}
        # columns that the factor of K skips: linear functions of those before them
        collinear = {self._numbers[i] for i in factor(self._moments.covariance).dependent}
        skewness = dict(zip(self._numbers, self._cubes.skewness, strict=True))
        long_tailed = {name for name, size in skewness.items() if size > LONG_TAIL}
        by_order = self._by_order(
            {n for n, r in known.items() if r is not None and r.do == "decide"}
        )
        for part in self._schema:
            distinct = self._distinct[part.name]
            present = self.rows - self._missing[part.name]
            recognised = known.get(part.name)
            undecided = _undecided(part.type, distinct, present)
            do = _do(part.type, undecided, recognised)
            if self._is_constant(distinct, present) and (do != "decide" or not present):
                do = "drop"
            cells = rows.column(part.name) if part.name in rows.column_names else None
            scale = drafted_scale(cells, part.name) if do == "perturb" and cells else None
            ranked = scale is not None and scale.transform == RANK
            warnings = [*self._warnings(part, distinct, present, recognised)]
            if part.name in rows.column_names and recognised is None and not ranked:
                warnings += _zero_heavy(rows.column(part.name), distinct)
            if part.name in collinear:
                warnings.append("a linear function of the numbers before it")
            if part.name in long_tailed and not ranked:
                warnings.append(
                    "long-tailed: noise does not hide extreme records; see transform (log1p, rank)"
                )
            if part.name in by_order:
                warnings.append("revealed by the order of the rows: see order")
            reasons = [undecided] if undecided else []
            if recognised is not None:
                reasons.insert(0, recognised.reason)
            yield ColumnReport(
                name=part.name,
                description=self._descriptions.get(part.name),
                type=str(part.type),
                do=do,
                distinct=min(distinct.number, present),
                exact=distinct.exact,
                missing=self._missing[part.name] / max(self.rows, 1),
                warnings=(*reasons, *warnings),
                by_order=by_order.get(part.name, 0.0),
                from_zero=do == "perturb" and not ranked and _from_zero(rows.column(part.name)),
                marks=self._marks.get(part.name),
                marked=self._marked_cells(part.name),
                code=code_for_missing(rows.column(part.name)) if part.name in known else None,
                is_dated=recognised is not None and recognised.is_dated,
                scale=scale,
            )

    def _missing_marks(self, name: str) -> tuple[str, ...]:
        """Return what represents a missing value in a column."""
        return self._marks.get(name, self._shared) or ()

    def _marked_cells(self, name: str) -> int:
        marks, counted = self._missing_marks(name), self._marked.get(name, {})
        return sum(cells for mark, cells in counted.items() if mark in marks)

    def _recognised(self, name: str, rows: pa.Table) -> Recognised | None:
        present = self.rows - self._missing[name]
        distinct = min(self._distinct[name].number, present)
        seen = Seen.of(name, rows, distinct=distinct, present=present, total=self.rows)
        return recognise(seen)

    def _by_order(self, left_out: set[str]) -> dict[str, float]:
        """Return what neighbours reveal of the columns that would be perturbed or refreshed."""
        numbers = [name for name in self._numbers if name not in {*self._refused, *left_out}]
        categories = [
            name
            for name in self._categories
            if name not in left_out
            and not _undecided(
                self._schema.field(name).type,
                self._distinct[name],
                self.rows - self._missing[name],
            )
        ]
        return {each.column: each.share for each in self._order.revealed(numbers, categories)}

    def _is_constant(self, distinct: Distinct, present: int) -> bool:
        """Whether fewer than RARE rows hold another value than the most frequent one, or none."""
        varied = self.rows - min(distinct.most_held, present)
        return self.rows >= LEAST_ROWS and distinct.exact and (not present or varied < RARE)

    def _warnings(
        self, part: pa.Field, distinct: Distinct, present: int, recognised: Recognised | None
    ) -> Iterator[str]:
        for notes in (self._refused, self._notes):
            if part.name in notes:
                yield notes[part.name]
        marks = self._missing_marks(part.name)
        for mark, cells in self._marked.get(part.name, {}).items():
            if mark not in marks and mark.lower() in LEVELS:
                yield (
                    f"{cells:,} cells hold {mark!r}, taken as a value of its own; if it means that "
                    f'there is no value, add missing = ["{mark}"]'
                )
        category = is_category(part.type)
        is_known = recognised is not None and IDENTIFIER in recognised.reason
        if (category or pa.types.is_integer(part.type)) and present > FEW_ROWS and not is_known:
            yield from _nearly_unique(distinct, present)
        if self._is_constant(distinct, present):
            others = self.rows - distinct.most_held
            yield (
                "no values at all: there is nothing to release"
                if not present
                else "constant: copies would show it unchanged"
                if not others
                else f"constant but for {others} of the rows: copies would show these, or nothing"
            )
        if category and distinct.exact and (rare := distinct.held_by_fewer_than(RARE)):
            many = "1 value is" if rare == 1 else f"{rare:,} values are"
            yield f"{many} held by fewer than {RARE} rows; min_count pools rare values"


def _zero_heavy(cells: pa.ChunkedArray, distinct: Distinct) -> Iterator[str]:
    plain = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)
    if plain and distinct.number > FEW_CODES and (share := zeros(cells)) > ZERO_HEAVY:
        yield (
            f"{share:.0%} of the values are 0: a recipient who knows that can distinguish zeros "
            "from large values, and recovers more than the privacy states; see transform "
            "(log1p, rank)"
        )


def _from_zero(cells: pa.ChunkedArray) -> bool:
    plain = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)
    least = pc.min(cells).as_py() if plain else None
    return least is not None and least >= 0


def _nearly_unique(distinct: Distinct, present: int) -> Iterator[str]:
    if distinct.exact and distinct.number == present:
        yield f"{IDENTIFIER}: every value is different; {DROP_OR_KEY}"
    elif not distinct.exact and distinct.held_by_fewer_than(2) == distinct.number:
        yield (
            f"{IDENTIFIER}: of {distinct.followed:,} sampled values each occurs once; {DROP_OR_KEY}"
        )
    elif distinct.number > NEARLY_UNIQUE * present:
        yield "nearly unique: it may identify people"


def _do(type_: pa.DataType, undecided: str | None, recognised: Recognised | None) -> str:
    """Return what to propose for a column."""
    if undecided:
        return "decide"
    if recognised is not None:
        return recognised.do
    return "category" if is_category(type_) else "perturb"


def _undecided(type_: pa.DataType, distinct: Distinct, present: int) -> str | None:
    """Return why registration would refuse a column without a decision, if it would."""
    if not is_category(type_):
        return None if is_number(type_) else "not a number, date or category: key, keep or drop"
    if distinct.number > MOST_CATEGORIES:
        return (
            f"more than {MOST_CATEGORIES:,} distinct values, too many for a category: key or drop"
        )
    alone = distinct.held_by_fewer_than(2)
    if identifies(alone, present):
        return (
            f"{alone:,} of {present:,} values occur in one row only, so it identifies people: "
            "key or drop, or category to accept that"
        )
    return None


class _Cubes:
    """Sums of powers of columns, for their skewness: E(x - mu)^3 / sd^3.

    Powers are of x minus the mean of the first rows, so that nothing cancels.
    """

    def __init__(self, columns: int) -> None:
        self._shift = np.full(columns, np.nan)
        self._sums = np.zeros((4, columns))

    def add(self, X: Floats) -> None:
        """Add rows (rows, columns); NaN is missing."""
        count = (~np.isnan(X)).sum(axis=0)
        mean = np.nansum(X, axis=0) / np.where(count > 0, count, np.nan)
        self._shift = np.where(np.isnan(self._shift), mean, self._shift)
        away = X - self._shift
        with np.errstate(over="ignore", invalid="ignore"):
            powers = [np.nansum(away**power, axis=0) for power in (1, 2, 3)]
            self._sums += [count, *powers]

    @property
    def skewness(self) -> Floats:
        """The size of each column's skewness; 0 for a constant one."""
        count = np.maximum(self._sums[0], 1)
        with np.errstate(over="ignore", invalid="ignore"):
            one, two, three = self._sums[1:] / count
            # central moments from those about the shift: m2 - m1^2, m3 - 3 m1 m2 + 2 m1^3
            variance = two - one**2
            third = three - 3 * one * two + 2 * one**3
            # The first rows' mean is within sqrt(n/m) deviations of the mean of all, for m
            # of n rows: a smaller variance than this is rounding, of a constant column.
            variance = np.where(variance > 1e-9 * two, variance, np.inf)
            size = np.abs(third) / variance**1.5
        return np.asarray(size)
