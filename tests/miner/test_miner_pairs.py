"""Covariances and correlations of columns with many gaps: of the rows that have both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from miner_world import agrees, coverage, covers

from cornerwave import Vault
from cornerwave.miner import Copy, Estimates

pytestmark = pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")

Columns = Any  # (rows, columns) with NaN


def incomes(rng: Any, rows: int) -> Columns:
    """Wages that are missing the more often the higher they are, of the old as of the young."""
    age = rng.uniform(18, 80, rows)
    wage = np.exp(0.02 * age + rng.normal(0, 0.6, rows))
    tax = 0.3 * wage + rng.normal(0, 0.3, rows)
    return np.column_stack(
        [
            np.where(rng.random(rows) < 0.3, np.nan, age),
            np.where(rng.random(rows) < wage / 12, np.nan, wage),
            np.where(rng.random(rows) < (age > 50) * 0.7, np.nan, tax),
        ]
    )


def spiked(rng: Any, rows: int) -> Columns:
    """Mostly zeros; what is not zero is often missing."""
    x = np.where(rng.random(rows) < 0.7, 0.0, rng.gamma(2, 3, rows))
    y = np.rint(x / 2 + rng.poisson(1, rows))
    return np.column_stack([np.where((x > 0) & (rng.random(rows) < 0.6), np.nan, x), y])


def summed(rng: Any, rows: int) -> Columns:
    """A total beside its parts, each missing on its own."""
    a, b = rng.gamma(2, 1, (2, rows))
    X = np.column_stack([a, b, a + b])
    return np.where(rng.random(X.shape) < [0.4, 0.1, 0.3], np.nan, X)


def chained(rng: Any, rows: int) -> Columns:
    """Eight columns, each like the one before it, half of each missing: no row is complete."""
    X = rng.normal(size=(rows, 8))
    for n in range(1, 8):
        X[:, n] = 0.9 * X[:, n - 1] + 0.4 * X[:, n]
    return np.where(rng.random(X.shape) < 0.5, np.nan, X)


KINDS = {"incomes": incomes, "spiked": spiked, "summed": summed, "chained": chained}


def released(X: Columns, folder: Path) -> Copy:
    table = pa.table({f"c{n}": pa.array(x, from_pandas=True) for n, x in enumerate(X.T)})
    dataset = Vault.create(folder / "vault").register("t", table)
    return Copy.open(dataset.release(to="partner", noise=1.0).write(folder / "copy.parquet"))


def pairwise(X: Columns) -> tuple[Columns, Columns]:
    """Covariances and correlations of the rows that have both, straight from their definition."""
    N = X.shape[1]
    C, r = np.empty((N, N)), np.empty((N, N))
    for i in range(N):
        for j in range(N):
            both = X[~np.isnan(X[:, [i, j]]).any(axis=1)][:, [i, j]]
            found = np.cov(both.T)
            C[i, j], r[i, j] = found[0, 1], found[0, 1] / np.sqrt(found[0, 0] * found[1, 1])
    return C, r


def by_whole_columns(copy: Copy) -> Estimates:
    """The wrong correlation: covariances of some rows over deviations of others."""
    K, right = copy.covariance(of="table").value, copy.correlation(of="table")
    deviation = np.sqrt(np.diag(K))
    return Estimates(right.labels, K / np.outer(deviation, deviation), right.standard_error)


def test_gaps_that_depend_on_values_do_not_bias_correlations(tmp_path: Path) -> None:
    X = incomes(np.random.default_rng(5), 40_000)
    copy = released(X, tmp_path)
    C, r = pairwise(X)
    assert agrees(copy.covariance(of="table"), C)
    assert agrees(copy.correlation(of="table"), r)
    assert not agrees(by_whole_columns(copy), r)


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_intervals_cover_in_60_vaults(make: Callable[[Any, int], Columns], tmp_path: Path) -> None:
    vaults, rows = 60, 1500

    def one(seed: int, wrong: bool = False) -> tuple[Estimates, Columns]:
        X = make(np.random.default_rng([seed, 1]), rows)
        folder = tmp_path / f"{seed}{wrong}"
        folder.mkdir()
        copy, (C, r) = released(X, folder), pairwise(X)
        upper = np.triu_indices(len(r), 1)
        found = [copy.covariance(of="table"), copy.correlation(of="table")]
        if wrong:
            found = [by_whole_columns(copy)]
        value, error = (
            np.concatenate([getattr(own, what)[upper] for own in found])
            for what in ("value", "standard_error")
        )
        return Estimates(((),), value, error), np.concatenate([C[upper], r[upper]][-len(found) :])

    shares = coverage(one, vaults)
    assert covers(shares, vaults), shares
    if make in (incomes, spiked):  # gaps of the others do not depend on values
        assert not covers(coverage(lambda seed: one(seed, wrong=True), vaults), vaults)
