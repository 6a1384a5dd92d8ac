"""An audit by frames of Spark beside the same audit here: the same figures, and the same faults."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.audit import as_json, audit
from cornerwave.engines.spark_audit import audit_spark

PRIVACY = [0.5, 0.8]


def table_and_copies(rows, *, independent=False, seed=3):
    """A table with gaps, a category and a kept column, by its key; two copies along one path.

    Or, `independent`, two copies with noise of their own each, which average out.
    """
    rng = np.random.default_rng(seed)
    low, high = (p / (1 - p) for p in PRIVACY)
    shape = np.array([[1.0, 0.0], [0.6, 0.8]])
    X, *steps = (shape @ rng.normal(size=(2, rows)) for _ in range(3))
    first = np.sqrt(low) * steps[0]
    later = np.sqrt(high) * steps[1] if independent else first + np.sqrt(high - low) * steps[1]
    codes = [rng.integers(0, 3, rows)]
    for retained in (1 / np.sqrt(1 + low), np.sqrt((1 + low) / (1 + high))):
        is_redrawn = rng.random(rows) >= retained
        codes.append(np.where(is_redrawn, rng.integers(0, 3, rows), codes[-1]))
    gaps, kept = rng.random(rows) < 0.05, rng.integers(0, 4, rows).astype(float)
    return [
        pa.table(
            {
                "id": np.arange(rows),
                "x": X[0] + noise[0],
                "y": pa.array(np.where(gaps, np.nan, X[1] + noise[1]), from_pandas=True),
                "place": np.array(["north", "south", "west"])[cells],
                "kept": kept,
            }
        )
        for noise, cells in zip((np.zeros_like(X), first, later), codes, strict=True)
    ]


def frame(session, table):
    """A frame of a table, its rows in no order."""
    order = np.random.default_rng(8).permutation(table.num_rows)
    return session.createDataFrame(table.take(pa.array(order))).repartition(3)


def audited(session, tables, **choices):
    """The audit of frames."""
    source, *copies = (frame(session, table) for table in tables)
    return audit_spark(source, copies, key="id", **choices)


def is_same_audit(session, rows):
    """An error unless the audit by frames has the figures of an audit of tables here."""
    tables = table_and_copies(rows)
    here = audit(tables[0], tables[1:], key="id", privacy=PRIVACY)
    there = audited(session, tables, privacy=PRIVACY)
    same(as_json(there), as_json(here))
    assert there.sound


def same(found, wanted, place=""):
    """An error unless figures are the same: sums in another order, to 1e-12."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys(), place
        for key in wanted:
            same(found[key], wanted[key], f"{place}/{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), place
        for number, pair in enumerate(zip(found, wanted, strict=True)):
            same(*pair, f"{place}/{number}")
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12), place
    else:
        assert found == wanted, place
