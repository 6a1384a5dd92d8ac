import numpy as np
import pyarrow as pa
import pytest
from miner_world import agrees, coverage, covers, noisy

from cornerwave.miner import Copy, Estimates

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


@pytest.mark.parametrize("of", ["table", "population"])
def test_its_intervals_cover(of: str) -> None:
    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _table(1500, seed)
        return _asked(_copy(X, 1.0, seed), of), np.array([X.mean() if of == "table" else MEAN])

    assert covers(coverage(one, 300), 300)


def test_a_plain_column_has_one_scale() -> None:
    copy = Copy.open(np.array([[1.0], [2.0], [6.0]]), noise=1.0)
    assert copy.original_mean("0") == copy.mean()["0"]
