"""A table with every kind of column, for engines to agree on."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.levels import Level

ROWS = 1500
CHOICES = {
    "keep": ["seen", "code"],
    "hide_missing": ["height"],
    "transform": {"income": "log1p", "score": "rank"},
    "together": [("region", "town")],
    "uniform": ["smoker"],
    "min_count": 5,
}
LEVELS = [("near", Level(0.25)), ("middle", Level(1.0)), ("far", Level(4.0))]


def everyone(rows=ROWS, seed=3):
    """Every kind of column: numbers on all scales, gaps shown and hidden, categories, kept ones."""
    rng = np.random.default_rng(seed)
    wage = rng.normal(2000, 300, rows)
    region = rng.integers(0, 4, rows)
    towns = [f"town {r}.{t}" for r, t in zip(region, rng.integers(0, 3, rows), strict=True)]
    return pa.table(
        {
            "id": [f"p{n}" for n in rng.permutation(rows)],
            "wage": pa.array(wage, mask=rng.random(rows) < 0.05),
            "height": pa.array(rng.normal(170, 9, rows), mask=rng.random(rows) < 0.1),
            "age": pa.array(rng.integers(18, 90, rows), pa.int32()),
            "income": np.exp(rng.normal(8, 1, rows)),
            "score": rng.integers(0, 200, rows) ** 2,
            "paid": pa.array([Decimal(int(c)) / 100 for c in rng.integers(0, 10**6, rows)]),
            "born": pa.array(rng.integers(0, 20_000, rows).astype("int32"), pa.date32()),
            "region": pa.array([f"region {n}" for n in region], mask=rng.random(rows) < 0.03),
            "town": towns,
            "smoker": pa.array(rng.random(rows) < 0.3),
            "seen": pa.array(rng.integers(0, 10**15, rows), pa.timestamp("us", "UTC")),
            "code": pa.array(rng.integers(0, 3, rows), pa.int64()),
        }
    )


def changed(table, name="age", row=777):
    cells = table.column(name).to_pylist()
    cells[row] = cells[row] + 1
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array(cells, table.schema.field(name).type))


def by_key(table):
    return table.sort_by("id")


def write_parts(folder, table):
    """Write a table to files with several row groups each, of different sizes."""
    folder.mkdir()
    for name, start, rows in (("a", 0, 700), ("b", 700, 300), ("c", 1000, 500)):
        part = table.slice(start, rows)
        papq.write_table(part, folder / f"{name}.parquet", row_group_size=250)
    return folder
