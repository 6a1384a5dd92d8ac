"""Clipped columns are judged by what clipping leaves open of their noise."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import Audit, audit

ROWS = 6000


def stated(folder: Path, X: np.ndarray, Y: np.ndarray, *, noise: float = 1.0, **more: Any) -> Audit:
    """Audit a copy that was clipped at 0 and rounded to whole numbers."""
    shown = np.rint(np.clip(Y, 0, None))
    told = {"role": "perturbed", "type": "double", "rounded": 1.0, "clipped": [0.0, None]}
    metadata = {"noise": noise, "columns": {"wage": told}} | more
    copy = pa.table({"wage": shown})
    copy = copy.replace_schema_metadata({b"cornerwave": json.dumps(metadata).encode()})
    papq.write_table(copy, folder / "copy.parquet")
    return audit(pa.table({"wage": X}), [folder / "copy.parquet"])


@pytest.fixture(scope="module")
def wages() -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.where(rng.random(ROWS) < 0.3, 0.0, np.rint(rng.gamma(2, 10, ROWS)))


def test_honest_noise_passes_and_every_other_falls(tmp_path: Path, wages: np.ndarray) -> None:
    W = np.random.default_rng(2).normal(0, wages.std(), ROWS)
    found = stated(tmp_path, wages, wages + W)
    assert found.clean, [check.note for check in found.faults]
    assert [check.name for check in found.checks] == ["apart"]
    at_the_bound = (np.rint(np.clip(wages + W, 0, None)) == 0).mean()
    assert at_the_bound > 0.2  # such a cell says no more than that it lay below
    for wrong, note in (
        (wages + 0.9 * W, "not what it states"),
        (wages + W + 3, "not what it states"),
        (wages + W * np.where(wages > 20, 1.3, 0.8), "not"),
        (wages + np.sqrt(0.9) * W - 0.3 * (wages - wages.mean()), "not independent of its values"),
    ):
        [fault] = stated(tmp_path, wages, wrong).faults
        assert fault.name == "apart"
        assert note in fault.note


def test_a_clipped_column_of_a_copy_without_noise_stated_is_untested(
    tmp_path: Path, wages: np.ndarray
) -> None:
    W = np.random.default_rng(3).normal(0, wages.std(), ROWS)
    copy = pa.table({"wage": np.clip(wages + W, 0, None), "n": np.arange(ROWS) + 9000 * W})
    told = {"columns": {"wage": {"role": "perturbed", "clipped": [0.0, None]}}}
    copy = copy.replace_schema_metadata({b"cornerwave": json.dumps(told).encode()})
    papq.write_table(copy, tmp_path / "copy.parquet")
    source = pa.table({"wage": wages, "n": np.arange(ROWS, dtype=float)})
    assert "wage" in audit(source, [tmp_path / "copy.parquet"]).untested
