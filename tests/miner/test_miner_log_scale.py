import numpy as np
import pyarrow as pa
import pytest
from miner_world import agrees, coverage, covers, noisy, normal_reach

from cornerwave.errors import BiasWarning, ColumnError
from cornerwave.miner import Copy, Estimates, _means
from cornerwave.miner._means import EFFECTIVE

SAID = {"columns": {"x": {"role": "perturbed", "transform": "log1p"}}}
MEAN = np.exp(2 + 0.6**2 / 2) - 1


def _table(rows: int, seed: int) -> np.ndarray:
    return np.expm1(np.random.default_rng(seed).normal(2.0, 0.6, rows))


def _copy(X: np.ndarray, noise: float, seed: int) -> Copy:
    Y = np.expm1(noisy(np.log1p(X), noise=noise, seed=seed))
    return Copy.open(pa.table({"x": Y}), metadata={"noise": noise, **SAID})


def _asked(copy: Copy, of: str) -> Estimates:
    found = copy.original_mean("x", of=of)
    return Estimates((("x",),), np.array([found.value]), np.array([found.standard_error]))


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_the_mean_comes_back_to_its_own_scale(noise: float) -> None:
    X = _table(200_000, 1)
    copy = _copy(X, noise, 2)
    found = _asked(copy, "table")
    assert agrees(found, X.mean())
    assert agrees(_asked(copy, "population"), MEAN)
    batch = pa.Table.from_batches(list(copy.source.batches(["x"])))
    for naive in (batch["x"].to_numpy().mean(), np.expm1(copy.mean()["x"].value)):
        assert not agrees(
            Estimates(found.labels, np.array([naive]), found.standard_error), X.mean()
        )


@pytest.mark.parametrize("of", ["table", pytest.param("population", marks=pytest.mark.slow)])
def test_its_intervals_cover(of: str) -> None:
    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _table(1500, seed)
        return _asked(_copy(X, 1.0, seed), of), np.array([X.mean() if of == "table" else MEAN])

    assert covers(coverage(one, 300), 300)


def test_a_plain_column_has_one_scale() -> None:
    copy = Copy.open(np.array([[1.0], [2.0], [6.0]]), noise=1.0)
    assert copy.original_mean("0") == copy.mean()["0"]


def _limit(rows: int, variance: float, carried_by: float) -> float:
    """The noise at which n exp(-4 v k) rows carry the standard error."""
    return float(np.log(rows / carried_by) / 4 / variance)


def _wages(rows: int, seed: int) -> np.ndarray:
    """Four in ten earn nothing: most of the variance of the logs lies between them and the rest."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(rows) < 0.4, 0.0, np.expm1(rng.normal(5.0, 0.3, rows)))


def test_intervals_still_cover_where_the_fewest_rows_carry_them() -> None:
    """Near the limit, as much as normal quantiles do with 2 EFFECTIVE degrees of freedom."""
    rows, tables = 2000, 300
    noise = _limit(rows, np.log1p(_wages(100_000, 0)).var(), 2 * EFFECTIVE)

    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _wages(rows, seed)
        return _asked(_copy(X, noise, seed), "table"), np.array([X.mean()])

    least = 0.936 - normal_reach(1) * np.sqrt(0.936 * 0.064 / tables)
    assert coverage(one, tables)[0] >= least


def test_a_mean_that_too_few_rows_carry_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, tables = 2000, 100
    variance = np.log1p(_wages(100_000, 0)).var()
    with pytest.raises(ColumnError, match=r"'x': noise of variance .* too much .* from 2,000 rows"):
        _asked(_copy(_wages(rows, 0), _limit(rows, variance, EFFECTIVE / 2), 0), "table")
    # what it would say far beyond the limit
    noise = _limit(rows, variance, 1e-9 * EFFECTIVE)
    monkeypatch.setattr(_means, "EFFECTIVE", 0.0)

    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _wages(rows, seed)
        return _asked(_copy(X, noise, seed), "table"), np.array([X.mean()])

    assert not covers(coverage(one, tables), tables)


def test_a_few_rows_that_carry_the_mean_by_themselves_are_too_few() -> None:
    X = np.append(np.ones(5000), 1e6)
    with pytest.raises(ColumnError, match="from 5,001 rows"):
        _copy(X, 0.1, 1).original_mean("x")


ASK = {
    "mean": lambda copy: copy.mean(["x"]),
    "group_means": lambda copy: copy.group_means("x", by="c"),
    "regression": lambda copy: copy.regression("x", on=["c"]),
}


@pytest.mark.parametrize("ask", ASK)
def test_cells_at_the_end_of_the_scale_are_counted_and_warned_of(ask: str) -> None:
    """exp(y) - 1 is -1 below y = -37, where no double lies between."""
    X, noise = _wages(5000, 1), 99.0
    logs = noisy(np.log1p(X), noise=noise, seed=2)
    Y = pa.table({"x": np.expm1(np.minimum(logs, 700)), "c": ["u", "v"] * 2500})
    copy = Copy.open(Y, metadata={"noise": noise, **SAID})
    at_end = f"{int((np.expm1(logs) <= np.nextafter(-1, 0)).sum()):,}"
    with pytest.warns(BiasWarning, match=f"'x': {at_end} cells are at the end"):
        found = ASK[ask](copy)
    if ask == "mean":  # they are not left out
        assert found.value[0] == pytest.approx(np.maximum(logs, -36.737).mean(), rel=1e-3)
