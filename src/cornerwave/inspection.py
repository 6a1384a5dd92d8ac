"""A first look at a table: what each column is, what would happen to it, and what to mind.

One pass counts missing values and categories exactly and keeps a thin sample of rows
for the rest. The result is drafted as a schema file, which the owner edits and gives
to `register`. It names columns and counts, never a value.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.errors import ColumnError
from cornerwave.moments import Moments, factor
from cornerwave.table.categories import MOST_CATEGORIES, Encoded, Tally, tally
from cornerwave.table.numbers import is_number, to_floats
from cornerwave.table.read import Source
from cornerwave.table.schema import check_distinct, is_category

GROUP_ROWS = 1 << 17
SAMPLE_ROWS = 1 << 17
RARE = 5
"""Values held by fewer rows than this are called rare."""
NEARLY_UNIQUE = 0.95
LONG_TAIL = 3.0
"""A skewness beyond this calls a column long-tailed; an exponential one has 2."""


@dataclass(frozen=True)
class ColumnReport:
    """What was found in a column; `do` is what a draft proposes."""

    name: str
    type: str
    do: str
    distinct: int
    missing: float
    warnings: tuple[str, ...]


def inspect(source: Source) -> list[ColumnReport]:
    """Look at every column of a source. Raises SourceError if it cannot be read."""
    check_distinct(source.schema.names)
    seen = _Seen(source.schema)
    for table in source.groups(source.schema.names, GROUP_ROWS):
        seen.take(table)
    return list(seen.reports())


class _Seen:
    """What has been seen so far."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows = 0
        self._missing: Counter[str] = Counter()
        self._tallies: dict[str, Tally] = {
            part.name: Counter() for part in schema if is_category(part.type)
        }
        self._numbers = [part.name for part in schema if is_number(part.type)]
        self._refused: dict[str, str] = {}
        self._moments = Moments.of(np.empty((0, len(self._numbers))))
        self._sample: list[pa.Table] = []
        self._stride = 1

    def take(self, table: pa.Table) -> None:
        """Look at some more rows."""
        table = _without_views(table)
        first = -self._rows % self._stride
        self._sample.append(table.take(np.arange(first, table.num_rows, self._stride)))
        self._rows += table.num_rows
        for name in self._schema.names:
            self._missing[name] += table.column(name).null_count
        for name, tallied in self._tallies.items():
            if len(tallied) <= MOST_CATEGORIES:
                tallied += tally([Encoded.of(table.column(name).combine_chunks(), name)])
        self._moments += Moments.of(np.stack([*self._floats(table)], axis=1))
        self._thin()

    def _floats(self, table: pa.Table) -> Iterator[Any]:
        for name in self._numbers:
            try:
                yield to_floats(table.column(name).combine_chunks(), name)
            except ColumnError as error:
                self._refused[name] = str(error)
                yield np.full(table.num_rows, np.nan)
        if not self._numbers:
            yield np.empty((table.num_rows, 0)).T.reshape(-1)

    def _thin(self) -> None:
        while self._rows // self._stride > SAMPLE_ROWS:
            whole = pa.concat_tables(self._sample)
            self._sample = [whole.take(np.arange(0, whole.num_rows, 2))]
            self._stride *= 2

    def reports(self) -> Iterator[ColumnReport]:
        """Yield what was found, column by column."""
        nothing = _without_views(self._schema.empty_table())
        sample = pa.concat_tables([nothing, *self._sample])
        shape = factor(self._moments.covariance)
        collinear = {self._numbers[i] for i in shape.dependent}
        for part in self._schema:
            column = sample.column(part.name)
            distinct, present = self._distinct(part.name, column)
            warnings = self._warnings(part, column, distinct, present, collinear)
            yield ColumnReport(
                name=part.name,
                type=str(part.type),
                do=_proposal(part.type),
                distinct=distinct,
                missing=self._missing[part.name] / max(self._rows, 1),
                warnings=tuple(warnings),
            )

    def _distinct(self, name: str, column: pa.ChunkedArray) -> tuple[int, int]:
        """Return how many different values there are, and among how many; of the sample if many."""
        if name in self._tallies and len(self._tallies[name]) <= MOST_CATEGORIES:
            distinct = len([value for value in self._tallies[name] if value != (None,)])
            return distinct, self._rows - self._missing[name]
        present = len(column) - column.null_count
        try:
            plain = Encoded.of(column.combine_chunks(), name).values
            return int(pc.count_distinct(plain, mode="only_valid").as_py()), present
        except (pa.ArrowException, ColumnError):
            return 0, present

    def _warnings(
        self,
        part: pa.Field,
        column: pa.ChunkedArray,
        distinct: int,
        present: int,
        collinear: set[str],
    ) -> Iterator[str]:
        if part.name in self._refused:
            yield self._refused[part.name]
        whole = pa.types.is_integer(part.type) or is_category(part.type)
        if whole and present > 20 and distinct >= present:
            yield "looks like an identifier: every value is different; drop it, or make it the key"
        elif whole and present > 20 and distinct > NEARLY_UNIQUE * present:
            yield "nearly unique: it may tell people apart"
        if distinct == 1:
            yield "constant: noise cannot hide it"
        if part.name in collinear:
            yield "a linear function of the numbers before it"
        if part.name in self._numbers and _skewness(column, part.name) > LONG_TAIL:
            yield "long-tailed: records far out are not hidden; see transform (log1p, rank)"
        if part.name in self._tallies:
            yield from _rare(self._tallies[part.name])


def _without_views(table: pa.Table) -> pa.Table:
    """Return text as Arrow can take rows of it."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return table.cast(
        pa.schema([part.with_type(plain.get(part.type, part.type)) for part in table.schema])
    )


def _rare(tallied: Tally) -> Iterator[str]:
    if len(tallied) > MOST_CATEGORIES:
        yield f"more than {MOST_CATEGORIES:,} different values: too many for a category"
    elif rare := sum(count < RARE for value, count in tallied.items() if value != (None,)):
        yield f"{rare} values are held by fewer than {RARE} rows; min_count pools them"


def _skewness(column: pa.ChunkedArray, name: str) -> float:
    try:
        values = to_floats(column.combine_chunks(), name)
    except ColumnError:
        return 0.0
    values = values[~np.isnan(values)]
    spread = values.std() if len(values) else 0.0
    return abs(float((((values - values.mean()) / spread) ** 3).mean())) if spread > 0 else 0.0


def _proposal(type_: pa.DataType) -> str:
    if is_category(type_):
        return "category"
    return "perturb" if is_number(type_) else "decide"


def draft(reports: Sequence[ColumnReport]) -> str:
    """Return a schema file that says what would happen, for the owner to edit."""
    lines = [
        "# For: cornerwave register NAME SOURCE --schema THIS-FILE",
        "min_count = 0    # pool category values that are held by fewer rows than this",
        'together = []    # categories to refresh as one, as in [["city", "district"]]',
    ]
    for report in reports:
        lines += [
            "",
            "[[column]]",
            f"name = {_quoted(report.name)}",
            f"do = {_quoted(report.do)}    # perturb, category, key, keep or drop",
            f"# {_quoted(report.type)[1:-1]}, {report.distinct:,} different values, "
            f"{report.missing:.1%} missing",
            *(f"# note: {warning}" for warning in report.warnings),
        ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
