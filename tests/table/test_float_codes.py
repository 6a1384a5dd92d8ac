"""Codes that are stored as floats, as a frame library does beside gaps, are categories."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave import Vault
from cornerwave.audit import audit
from cornerwave.errors import ColumnError
from cornerwave.inspection import inspect
from cornerwave.miner import Copy
from cornerwave.sources import open_source

pytestmark = pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")


def codes(rows=4000, seed=1):
    rng = np.random.default_rng(seed)
    sex = rng.choice([1.0, 2.0, 9.0, np.nan], rows, p=[0.4, 0.4, 0.1, 0.1])
    return pa.table({"sex": sex, "height": rng.normal(170, 9, rows)})


def test_they_are_drafted_registered_audited_and_mined(tmp_path):
    table = codes()
    papq.write_table(table, tmp_path / "t.parquet")
    assert {c.name: c.do for c in inspect(open_source(tmp_path / "t.parquet")).columns}[
        "sex"
    ] == "category"
    dataset = Vault.create(tmp_path / "v").register(
        "t", tmp_path / "t.parquet", categorical=["sex"]
    )
    paths = [
        dataset.release(to="r", privacy=p).write(tmp_path / f"{p}.parquet") for p in (0.3, 0.7)
    ]
    copy = papq.read_table(paths[0]).column("sex")
    assert copy.type == pa.float64()
    assert set(copy.unique().to_pylist()) == {1.0, 2.0, 9.0, None}
    # a gap stays one, as NaN is in the source
    assert (copy.is_null().to_numpy() == np.isnan(table["sex"].to_numpy())).all()
    found = audit(tmp_path / "t.parquet", paths)
    assert found.clean, [check.note for check in found.faults]
    shares = Copy.open(paths[0]).frequencies("sex", of="table")
    low, high = shares[2.0].interval(1 - 1e-6)
    present = table["sex"].to_numpy()
    assert low < np.mean(present[~np.isnan(present)] == 2.0) < high


def test_gaps_as_nan_or_as_nothing_are_the_same_dataset(tmp_path):
    vault, nan = Vault.create(tmp_path / "v"), codes()
    sex = pa.array(nan["sex"].to_numpy(), from_pandas=True)
    null = pa.table({"sex": sex, "height": nan["height"]})
    one = vault.register("t", nan, categorical=["sex"])
    assert vault.register("t", null, categorical=["sex"]).is_same(one)


def test_grades_with_fractions_are_one_category_however_batches_hold_them(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    grade = np.sort(rng.choice([0.0, 0.5, 1.0, np.nan], 3000, p=[0.5, 0.2, 0.2, 0.1]))
    table = pa.table({"edema": grade, "height": rng.normal(170, 9, 3000)})
    papq.write_table(table, tmp_path / "t.parquet", row_group_size=500)  # some of whole ones alone
    assert inspect(open_source(tmp_path / "t.parquet")).columns[0].do == "category"
    vault = Vault.create(tmp_path / "v")
    choices = {"categorical": ["edema"], "keep_order": True, "hide_missing": ["edema"]}
    one = vault.register("t", table, **choices)
    monkeypatch.setattr("cornerwave.sizes.GROUP_CELLS", 1024)
    assert vault.register("t", tmp_path / "t.parquet", **choices).is_same(one)
    path = one.release(to="r", privacy=0.3).write(tmp_path / "c.parquet")
    copy = papq.read_table(path).column("edema")
    assert copy.type == pa.float64()
    assert set(copy.unique().to_pylist()) == {0.0, 0.5, 1.0, None}
    assert audit(table, [path]).sound


@pytest.mark.parametrize("value", [1.5, np.inf, 1e300])
def test_fractions_are_refused_without_showing_one(tmp_path, value):
    others = np.arange(40) + (value if value == 1.5 else 0.5)
    table = pa.table({"code": [1.0, value, *others] * 5, "height": np.arange(210.0) % 7})
    with pytest.raises(ColumnError, match="'code': it holds fractions") as caught:
        Vault.create(tmp_path / "v").register("t", table, categorical=["code"])
    assert str(value) not in str(caught.value)
