"""The miner on copies that a vault released: both sides mean the same by the metadata."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from miner_world import agrees

from cornerwave import Vault
from cornerwave.errors import BiasWarning
from cornerwave.miner import Copy

ROWS = 40_000
LABELS = np.array(["high", "low", "mid"])


def _table() -> tuple[pa.Table, dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    a = rng.choice(3, ROWS, p=[0.2, 0.5, 0.3])
    b = np.where(rng.random(ROWS) < 0.7, a, rng.integers(0, 3, ROWS))
    c = np.where(rng.random(ROWS) < 0.6, a % 2, rng.integers(0, 2, ROWS))
    age = rng.integers(20, 70, ROWS) + 5 * a
    wage = np.expm1(rng.normal(3, 0.7, ROWS) + 0.3 * a)
    columns = {"a": a, "b": b, "c": c, "age": age, "wage": wage}
    texts = {name: LABELS[columns[name]] for name in ("a", "b")}
    return pa.table({**columns, **texts, "c": c.astype(bool)}), columns


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    folder = tmp_path_factory.mktemp("released")
    dataset = Vault.create(folder / "vault").register(
        "people", _table()[0], together=[["a", "b"]], uniform=["c"], transform={"wage": "log1p"}
    )
    path: Path = folder / "copy.parquet"
    dataset.release(to="partner", noise=1.0, round=["age"]).write(path)
    return Copy.open(path)


def _pairs(one: np.ndarray, other: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    counts = np.bincount(one * shape[1] + other, minlength=shape[0] * shape[1])
    return counts.reshape(shape) / len(one)


def test_the_metadata_is_understood(copy: Copy) -> None:
    assert copy.columns["a"].together == ("a", "b")
    assert (copy.columns["c"].base, copy.columns["c"].categories) == ("uniform", 2)
    assert copy.columns["wage"].transform == "log1p"
    assert copy.columns["age"].rounded == 1.0
    assert copy.columns["a"].retention == pytest.approx(0.5**0.5)


def test_every_answer_is_about_the_original(copy: Copy) -> None:
    x = _table()[1]
    assert agrees(copy.frequencies("a", of="table"), np.bincount(x["a"]) / ROWS)
    assert agrees(copy.frequencies("c", of="table"), np.bincount(x["c"]) / ROWS)
    assert agrees(copy.two_way("a", "b", of="table"), _pairs(x["a"], x["b"], (3, 3)))
    assert agrees(copy.two_way("a", "c", of="table"), _pairs(x["a"], x["c"], (3, 2)))
    means = np.array([x["age"][x["a"] == i].mean() for i in range(3)])
    assert agrees(copy.group_means("age", by="a", of="table"), means)
    numbers = np.column_stack([x["age"], np.log1p(x["wage"])])
    assert agrees(copy.mean(of="table"), numbers.mean(axis=0))
    assert agrees(copy.covariance(of="table"), np.cov(numbers.T))
    design = np.column_stack(
        [np.ones(ROWS), x["a"] == 1, x["a"] == 2, x["b"] == 1, x["b"] == 2, x["c"]]
    )
    truth = np.linalg.lstsq(design, x["age"], rcond=None)[0]
    found = copy.regression("age", on=["a", "b", "c"], of="table")
    assert agrees(found.coefficients, truth)


def test_clipping_is_warned_of(tmp_path: Path) -> None:
    table = _table()[0].select(["age"])
    dataset = Vault.create(tmp_path / "vault").register("ages", table)
    dataset.release(to="partner", privacy=0.5, clip={"age": (20, 80)}).write(tmp_path / "c.csv")
    with pytest.warns(BiasWarning, match="'age': clipped"):
        Copy.open(tmp_path / "c.csv").mean()


def test_a_type_that_ends_within_reach_of_the_noise_is_warned_of_as_clipped(tmp_path: Path) -> None:
    """Ages in one byte, without a sign: noise below 0 piles up there."""
    age = np.random.default_rng(2).integers(0, 90, ROWS)
    dataset = Vault.create(tmp_path / "vault").register("ages", pa.table({"age": age.astype("u1")}))

    def told(**finish: object) -> Copy:
        copy = dataset.release(to="partner", privacy=0.8, raw=True, **finish)  # type: ignore[arg-type]
        return Copy.open(copy.write(tmp_path / "ages.csv", force=True))

    assert agrees(told().mean(of="table"), age.mean())
    with pytest.warns(BiasWarning, match="'age': clipped"):
        biased = told(round=["age"]).mean(of="table")
    assert not agrees(biased, age.mean())
