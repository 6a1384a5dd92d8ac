import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from miner_world import agrees, noisy

from cornerwave import Vault
from cornerwave.errors import BiasWarning, ColumnError, CornerwaveError, LevelError, SourceError
from cornerwave.miner import Copy, Estimate

ROWS = 4000


def _people() -> pa.Table:
    rng = np.random.default_rng(1)
    age = rng.integers(18, 90, ROWS)
    wage = age * 500 + rng.gamma(2.0, 8000, ROWS)
    return pa.table({"id": np.arange(ROWS), "age": age, "wage": wage})


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    dataset = Vault.create(folder / "vault").register("people", _people(), key="id")
    for ending in ("parquet", "arrow", "csv", "csv.gz"):
        dataset.release(to="partner", privacy=0.5).write(folder / f"copy.{ending}")
    return folder


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "csv.gz"])
def test_a_released_copy_says_all_that_is_needed(released: Path, ending: str) -> None:
    people = _people()
    copy = Copy.open(released / f"copy.{ending}")
    assert copy.level.privacy == 0.5
    assert list(copy.columns) == ["age", "wage"]
    X = np.column_stack([people["age"], people["wage"]])
    assert agrees(copy.mean(of="table"), X.mean(axis=0))
    assert agrees(copy.covariance(of="table"), np.cov(X.T))
    slope = copy.regression("wage", on=["age"], of="table").coefficients["age"]
    low, high = slope.interval(0.9999)
    assert low < np.cov(X.T)[0, 1] / X[:, 0].var(ddof=1) < high


def test_a_copy_without_metadata_needs_its_noise(tmp_path: Path) -> None:
    path = tmp_path / "plain.parquet"
    papq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), path)
    with pytest.raises(SourceError, match="Pass metadata=, as "):
        Copy.open(path)
    with pytest.raises(CornerwaveError):
        Copy.open(np.ones((3, 1)))
    with pytest.warns(BiasWarning, match="taken as the noise left them"):
        assert Copy.open(path, noise=1.0).level.privacy == 0.5
    assert Copy.open(path, noise=1.0, metadata={}).level.privacy == 0.5


def test_the_copy_and_its_reader_must_agree(released: Path) -> None:
    Copy.open(released / "copy.parquet", noise=1.0)
    with pytest.raises(LevelError, match=r"states noise 1\.0, but noise 2\.0 was given"):
        Copy.open(released / "copy.parquet", noise=2.0)


def test_the_metadata_of_todays_copies_and_of_richer_ones() -> None:
    table = pa.table({"k": [1, 2], "x": [1.0, 2.0], "c": ["u", "v"], "d": ["u", "v"]})
    columns = {
        "k": {"role": "key", "unit": None},
        "x": {"role": "perturbed", "unit": None},
        "c": {"role": "category", "base": "uniform", "categories": 4, "together": None},
        "d": {"role": "kept", "unit": None},
    }
    copy = Copy.open(table, metadata={"noise": 3.0, "columns": columns})
    assert "k" not in copy.columns
    assert copy.columns["x"].noise == 3.0
    assert copy.columns["c"].retention == 0.5
    assert copy.columns["d"].retention == 1.0
    said = {"noise": 3.0, "retention": 0.7, "columns": columns}
    assert Copy.open(table, metadata=said).columns["c"].retention == 0.7


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_any_frame(frame: type) -> None:
    copy = Copy.open(frame({"x": [1.0, 2.0, 6.0], "c": ["u", "v", "u"]}), noise=1.0, metadata={})
    assert copy.mean()["x"].value == 3.0
    assert copy.frequencies("c")["u"].value == pytest.approx(2 / 3)


def test_blocks_do_not_matter(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    table = pa.table({"x": rng.normal(size=999), "y": rng.normal(size=999)})
    table = table.append_column("c", pa.array(rng.choice(["u", "v", "w"], 999)))
    papq.write_table(table, tmp_path / "small.parquet", row_group_size=10)
    whole, parts = (
        Copy.open(each, noise=1.0, metadata={}) for each in (table, tmp_path / "small.parquet")
    )
    for ask in (
        lambda copy: copy.covariance(),
        lambda copy: copy.correlation(),
        lambda copy: copy.frequencies("c"),
        lambda copy: copy.group_means("x", by="c"),
        lambda copy: copy.regression("x", on=["y", "c"]).coefficients,
    ):
        assert np.allclose(ask(whole).value, ask(parts).value)
        assert np.allclose(ask(whole).standard_error, ask(parts).standard_error)
    assert np.allclose(whole.distribution("x").probability, parts.distribution("x").probability)


def test_a_transformed_column_is_told_on_the_scale_it_was_perturbed_on() -> None:
    X = np.random.default_rng(3).lognormal(3.0, 1.0, 50_000)
    Y = np.expm1(noisy(np.log1p(X), noise=1.0, seed=4))
    said = {"noise": 1.0, "columns": {"x": {"role": "perturbed", "transform": "log1p"}}}
    copy = Copy.open(pa.table({"x": Y}), metadata=said)
    assert agrees(copy.mean(of="table"), np.log1p(X).mean())
    assert agrees(copy.covariance(of="table"), np.log1p(X).var(ddof=1))


def _said(**field: object) -> dict[str, object]:
    return {"noise": 1.0, "columns": {"x": {"role": "perturbed", **field}}}


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ({"clipped": [0, 3]}, "clipped"),
        ({"missing": "hidden"}, "missing values were filled in"),
        ({"transform": "log1p", "rounded": 1.0}, "rounded after"),
    ],
)
def test_what_cannot_be_undone_is_warned_of_by_name(field: dict[str, object], what: str) -> None:
    copy = Copy.open(pa.table({"x": [1.0, 2.0], "y": [1.0, 3.0]}), metadata=_said(**field))
    with pytest.warns(BiasWarning, match=f"'x': {what}"):
        copy.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy.mean(["y"])


def test_ranks_are_refused_by_name_where_they_cannot_answer() -> None:
    copy = Copy.open(pa.table({"x": [1.0, 2.0]}), metadata=_said(transform="rank"))
    with pytest.raises(ColumnError, match="'x': perturbed on the rank scale"):
        copy.mean(["x"])
    with pytest.raises(ColumnError, match="no numeric columns"):
        copy.mean()
    with pytest.raises(ColumnError, match="'x': at least 100 rows must have a value"):
        copy.original_mean("x")


def test_questions_that_have_no_answer() -> None:
    table = pa.table({"x": [1.0, 2.0], "c": ["u", "v"], "n": [1.0, None]})
    copy = Copy.open(table, noise=1.0, metadata={})
    for ask, what in (
        (lambda: copy.mean(["c"]), "not numeric; use frequencies"),
        (lambda: copy.frequencies("x"), "numeric, not a category"),
        (lambda: copy.mean(["nobody"]), "no column 'nobody'"),
        (lambda: copy.mean(["n"]), "fewer than two rows"),
        (lambda: copy.mean(of="sample"), "'table' or 'population'"),
        (lambda: copy.two_way("c", "c"), "needs two columns"),
        (lambda: copy.mean(["x"])["nobody"], "no label"),
        (lambda: copy.covariance(["x"])["x"], "pair of labels"),
        (lambda: Copy.open(np.ones((2, 2)), noise=1.0, names=["a"]), "1 names given for 2"),
    ):
        with pytest.raises(ColumnError, match=what):
            ask()


def test_a_two_way_table_of_too_many_pairs_is_refused() -> None:
    table = pa.table({"a": [str(i) for i in range(200)], "b": [str(i) for i in range(200)]})
    with pytest.raises(ColumnError, match="40,000 pairs"):
        Copy.open(table, noise=1.0).two_way("a", "b")


def test_intervals() -> None:
    low, high = Estimate(1.0, 2.0).interval(0.6826894921370859)
    assert (low, high) == (pytest.approx(-1.0), pytest.approx(3.0))
    with pytest.raises(LevelError):
        Estimate(1.0, 2.0).interval(95)


def test_the_miner_imports_no_secret() -> None:
    program = "import sys, cornerwave.miner; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = [name for name in done.stdout.split() if name.startswith("cornerwave.")]
    secret = ("vault", "owner", "dataset", "recipe", "engines", "rows", "survey", "frozen", "audit")
    assert not [name for name in loaded if name.split(".")[1] in secret]
