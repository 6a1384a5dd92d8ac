import numpy as np
import pyarrow as pa
import pytest
from miner_world import agrees, coverage, covers, noisy, refresh

from cornerwave.errors import ColumnError
from cornerwave.miner import Copy, Estimates, Regression

NAMES = ["x", "w", "z"]
NUMBERS = np.array([1.0, 2.0, -1.0])
EFFECTS = np.array([0.0, 1.0, 3.0])
MIXED = np.array([1.0, 2.0, 1.0, 3.0])


def _numbers(rows: int, seed: int) -> np.ndarray:
    """z = 1 + 2 x - w + residual, of a variance that grows with x."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(4.0, 0.5, rows)
    w = rng.normal(size=rows) + x / 2
    return np.column_stack([x, w, 1 + 2 * x - w + rng.normal(size=rows) * np.sqrt(x)])


def _least_squares(target: np.ndarray, *predictors: np.ndarray) -> np.ndarray:
    design = np.column_stack([np.ones(len(target)), *predictors])
    return np.linalg.lstsq(design, target, rcond=None)[0]


def _fit(X: np.ndarray, noise: float, seed: int, of: str) -> Regression:
    copy = Copy.open(noisy(X, noise=noise, seed=seed), noise=noise, names=NAMES)
    return copy.regression("z", on=["x", "w"], of=of)


@pytest.mark.parametrize("noise", [0.25, 4.0])
def test_the_coefficients_are_those_of_the_original(noise: float) -> None:
    X = _numbers(100_000, seed=1)
    found = _fit(X, noise, 2, "table")
    truth = _least_squares(X[:, 2], X[:, :2])
    assert agrees(found.coefficients, truth)
    assert agrees(_fit(X, noise, 2, "population").coefficients, NUMBERS)
    residual = X[:, 2] - np.column_stack([np.ones(len(X)), X[:, :2]]) @ truth
    assert found.r_squared == pytest.approx(1 - residual.var() / X[:, 2].var(), abs=0.02)
    assert found.residual_variance == pytest.approx(residual.var(), rel=0.05)


def test_noise_per_column_would_have_shrunk_them() -> None:
    X = _numbers(100_000, seed=1)
    apart = np.column_stack([noisy(column, noise=1.0, seed=s) for s, column in enumerate(X.T)])
    found = Copy.open(apart, noise=1.0, names=NAMES).regression("z", on=["x", "w"], of="table")
    assert not agrees(found.coefficients, _least_squares(X[:, 2], X[:, :2]))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [4.0, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("of", ["table", pytest.param("population", marks=pytest.mark.slow)])
def test_intervals_cover_with_a_residual_that_varies(of: str, noise: float) -> None:
    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _numbers(800, seed)
        truth = _least_squares(X[:, 2], X[:, :2]) if of == "table" else NUMBERS
        return _fit(X, noise, seed, of).coefficients, truth

    assert covers(coverage(one, 300), 300)


def _mixed(rows: int, seed: int, base: str, noise: float) -> tuple[Copy, np.ndarray]:
    """z = 1 + 2 x + effect of a + residual; x depends on a."""
    rng = np.random.default_rng(seed)
    a = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    x = rng.normal(size=rows) + a
    z = 1 + 2 * x + EFFECTS[a] + 1.5 * rng.normal(size=rows)
    Y = noisy(np.column_stack([x, z]), noise=noise, seed=seed)
    drawn = refresh(a, retention=(1 + noise) ** -0.5, base=base, categories=3, rng=rng)
    said = {"a": {"role": "category", "base": base, "categories": 3}}
    table = pa.table({"x": Y[:, 0], "z": Y[:, 1], "a": drawn.astype(str)})
    copy = Copy.open(table, metadata={"noise": noise, "columns": said})
    return copy, _least_squares(z, x, a == 1, a == 2)


@pytest.mark.parametrize("base", ["marginal", "uniform"])
def test_categories_as_predictors(base: str) -> None:
    copy, truth = _mixed(200_000, 3, base, noise=1.0)
    found = copy.regression("z", on=["x", "a"], of="table")
    assert found.coefficients.labels == (("(intercept)", "x", "a=1", "a=2"),)
    assert agrees(found.coefficients, truth)
    assert agrees(copy.regression("z", on=["x", "a"]).coefficients, MIXED)
    # taking the copy's categories at their word
    batches = list(copy.source.batches(["x", "z", "a"]))
    said = {"noise": 1.0, "columns": {"a": {"role": "kept"}}}
    blind = Copy.open(pa.Table.from_batches(batches), metadata=said)
    raw = blind.regression("z", on=["x", "a"]).coefficients.value
    coefficients = found.coefficients
    assert not agrees(Estimates(coefficients.labels, raw, coefficients.standard_error), truth)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["marginal", pytest.param("uniform", marks=pytest.mark.slow)])
@pytest.mark.parametrize("of", ["table", pytest.param("population", marks=pytest.mark.slow)])
def test_intervals_with_categories_cover(base: str, of: str) -> None:
    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        copy, truth = _mixed(800, seed, base, noise=1.0)
        found = copy.regression("z", on=["x", "a"], of=of).coefficients
        return found, truth if of == "table" else MIXED

    assert covers(coverage(one, 300), 300)


def test_two_category_columns_one_by_one_and_together() -> None:
    rng, rows, q = np.random.default_rng(5), 200_000, 0.5**0.5
    a = rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.7, a, 1 - a)
    z = 1.0 * a - 2.0 * b + rng.normal(size=rows)
    truth = _least_squares(z, a, b)
    Z = noisy(z, noise=1.0, seed=6)

    def found(codes: np.ndarray, together: list[str] | None) -> Estimates:
        said = {"role": "category", "base": "marginal", "together": together}
        table = pa.table({"a": codes[:, 0].astype(str), "b": codes[:, 1].astype(str), "z": Z})
        metadata = {"noise": 1.0, "columns": {"a": said, "b": said}}
        copy = Copy.open(table, metadata=metadata)
        return copy.regression("z", on=["a", "b"], of="table").coefficients

    options = {"retention": q, "base": "marginal", "categories": 2, "rng": rng}
    apart = np.column_stack([refresh(a, **options), refresh(b, **options)])
    joint = refresh(np.column_stack([a, b]), **options)
    assert agrees(found(apart, None), truth)
    assert agrees(found(joint, ["a", "b"]), truth)
    assert not agrees(found(joint, None), truth)


def test_rows_with_a_missing_value_are_left_out() -> None:
    X = _numbers(500, seed=7)
    Y = noisy(X, noise=1.0, seed=8)
    Y[:100, 0] = np.nan
    found = Copy.open(Y, noise=1.0, names=NAMES).regression("z", on=["x"])
    assert found.rows == 400


@pytest.mark.parametrize("on", [[], ["z"], ["x", "x"]])
def test_predictors_are_named_once_without_the_target(on: list[str]) -> None:
    copy = Copy.open(_numbers(50, 1), noise=1.0, names=NAMES)
    with pytest.raises(ColumnError, match="each given once"):
        copy.regression("z", on=on)


def test_predictors_that_follow_from_each_other_are_refused() -> None:
    X = _numbers(50, 1)
    X[:, 1] = 2 * X[:, 0]
    with pytest.raises(ColumnError, match="linearly dependent"):
        Copy.open(X, noise=1.0, names=NAMES).regression("z", on=["x", "w"])
