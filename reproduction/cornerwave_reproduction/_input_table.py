"""The tables of the experiments: people, breast cancer, iris, or the user's own.

The paper's CENSUS is not public; age and wage of 100,000 people take its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.arrays import Floats, Ints
from cornerwave.attack import PAPER_SAMPLES, sample_size
from cornerwave.columns import is_number, to_floats
from cornerwave.errors import ColumnError, SourceError
from cornerwave.moments import Moments
from cornerwave.noise import factor
from cornerwave.sources import open_source

MOST_COLUMNS = 6
ROWS_PER_ENTRY = min(PAPER_SAMPLES)
"""Rows that a table needs for each entry of K: the paper's adversary samples as many."""

WAGE_UNIT = 1000.0
"""Wages are in thousands of dollars, close to the scale of the paper's Income."""


@dataclass(frozen=True, eq=False)
class InputTable:
    """Rows (T, N) with the columns' names and units; `classes` (T,) are to be predicted."""

    name: str
    columns: tuple[str, ...]
    units: tuple[str, ...]
    rows: Floats
    classes: Ints | None = None
    note: str = ""

    def label(self, column: int) -> str:
        """Return a column's name with its unit, for an axis."""
        unit = self.units[column]
        return f"{self.columns[column]} ({unit})" if unit else self.columns[column]

    def named(self, prefix: str, values: Floats) -> dict[str, list[float]]:
        """Return values (counts, N) as columns named after the table's."""
        pairs = zip(self.columns, values.T, strict=True)
        return {f"{prefix}_{name}": column.tolist() for name, column in pairs}


def people() -> InputTable:
    """Return age and wage of 100,000 people, in place of the paper's CENSUS."""
    age, wage = _shipped("people.parquet").columns
    rows = np.column_stack([_floats(age), _floats(wage) / WAGE_UNIT])
    return InputTable("people", ("age", "wage"), ("years", "1000 US$ a year"), rows)


def cancer() -> InputTable:
    """Return the Wisconsin breast cancer table: 699 rows, 9 attributes, 2 classes."""
    table = _shipped("cancer.parquet")
    names = tuple(table.column_names[:-1])
    rows = np.column_stack([_floats(table.column(name)) for name in names])
    missing = np.isnan(rows)
    filled = np.where(missing, Moments.of(rows).mean, rows)
    classes = np.array(table.column("class").to_pylist()) == "malignant"
    note = f"{missing.sum()} missing values are replaced by their column's mean"
    units = ("grade 1 to 10",) * len(names)
    return InputTable("breast cancer", names, units, filled, classes.astype(np.int64), note)


def iris() -> InputTable:
    """Return the iris table: 150 rows, 4 attributes, 3 classes."""
    from sklearn.datasets import load_iris

    data = load_iris()
    names = ("sepal length", "sepal width", "petal length", "petal width")
    return InputTable("iris", names, ("cm",) * 4, data.data, data.target.astype(np.int64))


def table_of(path: Path, columns: Sequence[str]) -> InputTable:
    """Return numeric columns of a file, without the rows that have a missing value.

    Raises SourceError for a file that cannot be read or has too few rows, ColumnError
    for a column that does not exist, is not numeric or does not vary.
    """
    names = tuple(name.strip() for name in columns)
    if not 1 <= len(names) <= MOST_COLUMNS or len(set(names)) != len(names):
        raise ColumnError(f"name 1 to {MOST_COLUMNS} different columns, not {', '.join(names)}")
    source = open_source(path)
    if absent := [name for name in names if name not in source.schema.names]:
        raise ColumnError(f"{source.name} has no column {', '.join(map(repr, absent))}")
    if text := [name for name in names if not is_number(source.schema.field(name).type)]:
        raise ColumnError(f"{text[0]!r} is not numeric; choose numeric columns only")
    rows = [_numbers(batch, names) for batch in source.batches(names)]
    return _complete(source.name, names, np.vstack([np.empty((0, len(names))), *rows]))


def _numbers(batch: pa.RecordBatch, names: tuple[str, ...]) -> Floats:
    return np.column_stack([to_floats(batch.column(name), name) for name in names])


def _complete(name: str, columns: tuple[str, ...], rows: Floats) -> InputTable:
    whole = rows[~np.isnan(rows).any(axis=1)]
    least = sample_size(len(columns), per_entry=ROWS_PER_ENTRY)
    if len(whole) < least:
        raise SourceError(
            f"{name} has {len(whole)} complete rows; {len(columns)} columns need at least {least}"
        )
    shape = factor(Moments.of(whole).covariance)
    if useless := (*shape.constant, *shape.dependent):
        raise ColumnError(
            f"{columns[useless[0]]!r} is constant or a linear combination of the other columns; "
            "leave it out"
        )
    note = f"{len(rows) - len(whole)} rows with missing values are left out"
    return InputTable(name, columns, ("",) * len(columns), whole, note=note)


def _shipped(name: str) -> pa.Table:
    with as_file(files("cornerwave") / "data" / name) as path:
        return papq.read_table(path)


def _floats(column: pa.ChunkedArray) -> Floats:
    return to_floats(column.combine_chunks(), "shipped")
