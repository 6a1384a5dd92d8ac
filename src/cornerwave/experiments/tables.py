"""The tables of the experiments: people, breast cancer, iris, or the user's own.

The paper's CENSUS is not public; age and wage of 100,000 people stand in for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import PAPER_SAMPLES, sample_size
from cornerwave.errors import ColumnError, SourceError
from cornerwave.moments import Moments, factor
from cornerwave.table.numbers import is_number, to_floats
from cornerwave.table.read import open_source

MOST_COLUMNS = 6
ROWS_PER_ENTRY = min(PAPER_SAMPLES)
"""Rows that a table must have for each entry of K: the paper's adversary samples as many."""

WAGE_UNIT = 1000.0
"""Wages are shown in thousands of dollars, which is near the paper's scale of Income."""


@dataclass(frozen=True, eq=False)
class Table:
    """Rows (T, N) with the columns' names and units; `classes` (T,) to be predicted."""

    name: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    rows: Floats
    classes: Ints | None = None
    note: str = ""

    def head(self, rows: int) -> "Table":
        """Return the table cut to its first rows."""
        classes = None if self.classes is None else self.classes[:rows]
        return replace(self, rows=self.rows[:rows], classes=classes)

    def label(self, column: int) -> str:
        """Return a column's name with its unit, as an axis is labelled."""
        unit = self.units[column]
        return f"{self.columns[column]} ({unit})" if unit else self.columns[column]


def people() -> Table:
    """Return age and wage of 100,000 people, in place of the paper's CENSUS."""
    age, wage = _shipped("people.parquet").columns
    rows = np.column_stack([_floats(age), _floats(wage) / WAGE_UNIT])
    return Table("people", ("age", "wage"), ("years", "1000 US$ a year"), rows)


def cancer() -> Table:
    """Return the Wisconsin breast cancer table: 699 rows, 9 attributes, 2 classes."""
    table = _shipped("cancer.parquet")
    names = tuple(table.column_names[:-1])
    rows = np.column_stack([_floats(table.column(name)) for name in names])
    missing = np.isnan(rows)
    filled = np.where(missing, Moments.of(rows).mean, rows)
    classes = np.array(table.column("class").to_pylist()) == "malignant"
    note = f"{missing.sum()} missing values stand at their column's mean"
    units = ("grade 1 to 10",) * len(names)
    return Table("breast cancer", names, units, filled, classes.astype(np.int64), note)


def iris() -> Table:
    """Return the iris table: 150 rows, 4 attributes, 3 classes."""
    from sklearn.datasets import load_iris

    data = load_iris()
    names = ("sepal length", "sepal width", "petal length", "petal width")
    return Table("iris", names, ("cm",) * 4, data.data, data.target.astype(np.int64))


def table_of(path: Path, columns: Sequence[str]) -> Table:
    """Return numeric columns of a file; rows with a missing value are left out.

    Raises SourceError for a file that cannot be read or has too few rows, ColumnError
    for a column that is not there, is no number or does not vary.
    """
    names = tuple(name.strip() for name in columns)
    if not 1 <= len(names) <= MOST_COLUMNS or len(set(names)) != len(names):
        raise ColumnError(f"name 1 to {MOST_COLUMNS} different columns, not {len(names)}")
    source = open_source(path)
    if absent := [name for name in names if name not in source.schema.names]:
        raise ColumnError(f"{source.name} has no column {', '.join(map(repr, absent))}")
    if text := [name for name in names if not is_number(source.schema.field(name).type)]:
        raise ColumnError(f"{text[0]!r} is not a column of numbers; choose others by --columns")
    rows = [_numbers(batch, names) for batch in source.batches(names)]
    return _complete(source.name, names, np.vstack([np.empty((0, len(names))), *rows]))


def _numbers(batch: pa.RecordBatch, names: tuple[str, ...]) -> Floats:
    return np.column_stack([to_floats(batch.column(name), name) for name in names])


def _complete(name: str, columns: tuple[str, ...], rows: Floats) -> Table:
    whole = rows[~np.isnan(rows).any(axis=1)]
    least = sample_size(len(columns), per_entry=ROWS_PER_ENTRY)
    if len(whole) < least:
        raise SourceError(
            f"{name} has {len(whole)} complete rows; {len(columns)} columns need {least} at least"
        )
    shape = factor(Moments.of(whole).covariance)
    if useless := (*shape.constant, *shape.dependent):
        raise ColumnError(f"{columns[useless[0]]!r} is constant or follows from the others")
    note = f"{len(rows) - len(whole)} rows with missing values are left out"
    return Table(name, columns, ("",) * len(columns), whole, note=note)


def _shipped(name: str) -> pa.Table:
    with as_file(files("cornerwave") / "data" / name) as path:
        return papq.read_table(path)


def _floats(column: pa.ChunkedArray) -> Floats:
    return to_floats(column.combine_chunks(), "shipped")
