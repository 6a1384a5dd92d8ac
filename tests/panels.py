"""Tables in which persons have several rows."""

import numpy as np
import pyarrow as pa


def panel(persons=60, rows=5, seed=0, *, first=0, visit=0):
    """Height is constant in each person, weight has a level; sex and stage are categories.

    `rows` is a number, or one for each person; `first` is the number of the first person, and the
    rows begin with a `visit`. Persons are the same whatever rows they have.
    """
    sizes = np.broadcast_to(rows, persons)
    of = np.repeat(np.arange(persons), sizes)
    n = len(of)
    own = np.random.default_rng([seed, first])
    height, level = own.normal(170, 10, persons)[of], own.normal(0, 10, persons)[of]
    sex, stage = own.integers(0, 2, persons)[of], own.integers(0, 4, persons)[of]
    time = visit + np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rng = np.random.default_rng([seed, first, visit])
    return pa.table(
        {
            "patient": [f"P{first + u:06d}" for u in of],
            "height": height,
            "weight": 0.5 * height + level + rng.normal(0, 4, n),
            "sex": np.array(["f", "m"])[sex],
            "stage": [f"S{s}" for s in (stage + time // 2) % 5],
        }
    )


def persons_of(table, unit="patient"):
    """The number of the person of each row."""
    return np.unique(np.array(table[unit].to_pylist()), return_inverse=True)[1]


def with_gaps(table, name, share=0.2, seed=1):
    """A table with some cells of a column missing."""
    gaps = np.random.default_rng(seed).random(table.num_rows) < share
    cells = [None if gap else cell for gap, cell in zip(gaps, table[name].to_pylist(), strict=True)]
    return with_column(table, name, pa.array(cells, table.schema.field(name).type))


def with_column(table, name, cells):
    """A table with other cells in a column, which may be new."""
    if name not in table.column_names:
        return table.append_column(name, cells)
    return table.set_column(table.column_names.index(name), name, cells)
