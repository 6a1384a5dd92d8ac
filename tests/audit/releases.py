"""Tables and copies of them: honest ones, and ones that must be caught."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.algorithms import parallel
from cornerwave.demo import people
from cornerwave.ledger import Key
from cornerwave.vault import Dataset, Vault

NAMES = ("age", "wage", "score", "rest")


def gaussian(rows: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)) @ np.array([[2, 1, 0], [0, 1, 0.5], [0, 0, 1]]) + 50


def skewed(rows: int, seed: int = 1) -> np.ndarray:
    """Age and wage of real people."""
    table = papq.read_table(people())
    X = np.column_stack([column.to_numpy().astype(float) for column in table.columns])
    return X[np.random.default_rng(seed).choice(len(X), rows, replace=False)]


def bimodal(rows: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centre = rng.choice([-4.0, 4.0], rows)
    return np.column_stack([centre + rng.normal(size=rows), centre + rng.normal(size=rows)])


def discrete(rows: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    one = rng.integers(0, 3, rows)
    return np.column_stack([one, one + rng.integers(0, 2, rows)]).astype(float)


TABLES = {"gaussian": gaussian, "skewed": skewed, "bimodal": bimodal, "discrete": discrete}


def frame(X: np.ndarray) -> pa.Table:
    return pa.table({NAMES[i]: X[:, i] for i in range(X.shape[1])})


def ours(X: np.ndarray, noise: Sequence[float], seed: int = 1) -> list[np.ndarray]:
    return parallel(X, noise=noise, unsafe_seed=seed)


def white(X: np.ndarray, seed: int) -> np.ndarray:
    """Noise shaped like X, of variance 1 times K."""
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(X.T)))
    return np.random.default_rng([7, seed]).normal(size=X.shape) @ factor.T


def independent(X: np.ndarray, noise: Sequence[float], seed: int = 1) -> list[np.ndarray]:
    return [X + np.sqrt(v) * white(X, seed * 100 + i) for i, v in enumerate(noise)]


def scaled(X: np.ndarray, noise: Sequence[float], seed: int = 1) -> list[np.ndarray]:
    Z = white(X, seed)
    return [X + np.sqrt(v) * Z for v in noise]


def binomial_limit(trials: int, rate: float, alpha: float) -> int:
    """Return how many alarms are exceeded with probability below alpha."""
    tail, count = 1.0, 0
    while True:
        tail -= math.comb(trials, count) * rate**count * (1 - rate) ** (trials - count)
        if tail < alpha:
            return count
        count += 1


def known_dataset(folder: Path, table: Any, *, number: int = 1, **choices: Any) -> Dataset:
    """A dataset whose copies are the same in every run: its audits draw their chance once."""
    vault = Vault.create(folder / "vault", key=Key(number.to_bytes(32, "big")))
    return vault.register("people", table, **choices)
