from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from miner_world import agrees, coverage, covers, noisy

from cornerwave import Vault
from cornerwave.errors import ColumnError
from cornerwave.miner import Copy, CopyColumn, Estimates
from cornerwave.miner._covariance import growth, undo

NAMES = ["a", "b", "c"]
MIX = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.4, 1.2]])


def _table(rows: int, seed: int) -> np.ndarray:
    """Three correlated columns, one of them skewed."""
    rng = np.random.default_rng(seed)
    white = np.column_stack([rng.gamma(4.0, 0.5, rows) - 2, rng.normal(size=(rows, 2))])
    return 10 + white @ MIX.T


def _copy(X: np.ndarray, noise: float, seed: int) -> Copy:
    return Copy.open(noisy(X, noise=noise, seed=seed), noise=noise, names=NAMES)


def _population() -> np.ndarray:
    return MIX @ MIX.T


@pytest.mark.parametrize("noise", [0.1, 1.0, 4.0])
def test_mean_covariance_and_correlation_of_a_known_table(noise: float) -> None:
    X = _table(100_000, seed=1)
    copy = _copy(X, noise, seed=2)
    assert agrees(copy.mean(of="table"), X.mean(axis=0))
    assert agrees(copy.mean(), np.full(3, 10.0))
    assert agrees(copy.covariance(of="table"), np.cov(X.T))
    assert agrees(copy.covariance(), _population())
    assert agrees(copy.correlation(of="table"), np.corrcoef(X.T))
    # the naive estimate ignores the noise
    found = copy.covariance(of="table")
    raw = Estimates(found.labels, found.value * (1 + noise), found.standard_error)
    assert not agrees(raw, np.cov(X.T))


def _truth(of: str, table: np.ndarray, population: np.ndarray) -> np.ndarray:
    return table if of == "table" else population


@pytest.mark.parametrize("of", ["table", pytest.param("population", marks=pytest.mark.slow)])
def test_intervals_of_means_cover(of: str) -> None:
    def one(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _table(300, seed)
        return _copy(X, 1.0, seed).mean(of=of), _truth(of, X.mean(axis=0), np.full(3, 10.0))

    assert covers(coverage(one, 300), 300)


@pytest.mark.parametrize("of", ["table", pytest.param("population", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_intervals_of_covariances_and_correlations_cover(of: str) -> None:
    noise, tables = 4.0, 400
    scale = np.sqrt(np.diag(_population()))

    def both(seed: int) -> tuple[Estimates, np.ndarray]:
        X = _table(1000, seed)
        copy = _copy(X, noise, seed)
        K, r = copy.covariance(of=of), copy.correlation(of=of)
        upper = np.triu_indices(3, 1)
        merged = Estimates(
            ((),),
            np.concatenate([K.value[np.triu_indices(3)], r.value[upper]]),
            np.concatenate([K.standard_error[np.triu_indices(3)], r.standard_error[upper]]),
        )
        truth = _truth(of, np.cov(X.T), _population())
        correlation = _truth(of, np.corrcoef(X.T), _population() / np.outer(scale, scale))
        return merged, np.concatenate([truth[np.triu_indices(3)], correlation[upper]])

    assert covers(coverage(both, tables), tables)


@pytest.mark.slow
def test_treating_the_copy_as_independent_rows_of_known_noise_gives_too_short_intervals() -> None:
    noise, tables = 4.0, 400

    def naive(seed: int) -> tuple[Estimates, np.ndarray]:
        X = np.random.default_rng(seed).normal(size=(500, 1))
        Y = noisy(X, noise=noise, seed=seed)
        error = np.std((Y - Y.mean()) ** 2) / np.sqrt(len(Y)) / (1 + noise)
        return Estimates(((),), Y.var(axis=0) / (1 + noise), np.array([error])), np.ones(1)

    def ours(seed: int) -> tuple[Estimates, np.ndarray]:
        X = np.random.default_rng(seed).normal(size=(500, 1))
        found = Copy.open(noisy(X, noise=noise, seed=seed), noise=noise).covariance()
        return Estimates(((),), found.value[0], found.standard_error[0]), np.ones(1)

    assert covers(coverage(ours, tables), tables)
    assert not covers(coverage(naive, tables), tables)


def test_missing_values_are_left_out_pair_by_pair(tmp_path: Path) -> None:
    """As in a release: K is that of the values that are there, and so is the noise."""
    X = _table(60_000, seed=3)
    rng = np.random.default_rng(5)
    X[rng.random(X.shape) < np.where(X[:, [1, 2, 0]] > 10, 0.3, 0.1)] = np.nan
    table = pa.table({n: pa.array(x, from_pandas=True) for n, x in zip(NAMES, X.T, strict=True)})
    dataset = Vault.create(tmp_path / "vault").register("t", table)
    copy = Copy.open(dataset.release(to="partner", noise=1.0).write(tmp_path / "copy.parquet"))
    assert agrees(copy.mean(of="table"), np.nanmean(X, axis=0))
    K = np.empty((3, 3))
    for i, j in np.ndindex(3, 3):
        both = ~np.isnan(X[:, [i, j]]).any(axis=1)
        K[i, j] = np.cov(X[both][:, [i, j]].T)[0, 1]
    assert agrees(copy.covariance(of="table"), K)


def test_a_kept_column_has_no_noise_and_its_covariances_do_not_grow() -> None:
    X = _table(50_000, seed=6)
    Y = X.copy()
    Y[:, :2] = noisy(X[:, :2], noise=2.0, seed=7)
    said = {"noise": 2.0, "columns": {"c": {"role": "kept"}}}
    copy = Copy.open(Y, metadata=said, names=NAMES)
    assert copy.mean(of="table")["c"].standard_error == pytest.approx(0.0, abs=1e-9)
    assert agrees(copy.covariance(of="table"), np.cov(X.T))
    assert agrees(copy.correlation(of="table"), np.corrcoef(X.T))


@given(noise=st.floats(0.01, 100), kept=st.lists(st.booleans(), min_size=3, max_size=3))
def test_undo_inverts_the_growth_of_covariances(noise: float, kept: list[bool]) -> None:
    columns = [CopyColumn(str(i), True, 0.0 if keep else noise) for i, keep in enumerate(kept)]
    K = _population()
    perturbed = ~np.array(kept)
    C = K + noise * K * np.outer(perturbed, perturbed)
    assert np.allclose(undo(C, columns), K)
    assert np.allclose(C, K * growth(columns))


def test_a_constant_column_has_no_correlation() -> None:
    Y = np.column_stack([np.ones(10), np.arange(10.0)])
    found = Copy.open(Y, noise=1.0).correlation()
    assert np.isnan(found["0", "1"].value)
    assert found["1", "1"].value == 1.0


def test_values_whose_fourth_powers_overflow_are_refused() -> None:
    copy = Copy.open(np.array([1e71, 2e71, 3e71]), noise=1.0)
    for ask in (copy.mean, copy.covariance, lambda: copy.distribution("0")):
        with pytest.raises(ColumnError, match=r"'0' holds values beyond 1e\+70"):
            ask()
