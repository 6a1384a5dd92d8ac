"""Honest copies of every kind of table: by our releases, and by others' tools in float64."""

import warnings
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.errors import CornerwaveWarning
from tests.audit import releases
from tests.audit.releases import frame, known_dataset
from tests.audit.schemes import texts

NOISE = (0.25, 1.0, 9.0)
ROWS = 2000

Made = tuple[Any, list[Any]]


def table_of(rows: int, seed: int) -> pa.Table:
    """Numbers and categories of every sort, with and without missing values."""
    rng = np.random.default_rng([seed, 3])
    age = rng.integers(18, 90, rows)
    wage = np.rint(rng.lognormal(9, 0.8, rows))
    place = np.minimum(rng.geometric(0.05, rows) - 1, 60)
    height = 150 + age / 10 + rng.normal(0, 9, rows)
    since = [datetime(2020, 1, 1) + timedelta(seconds=int(s)) for s in rng.integers(1e8, size=rows)]
    return pa.table(
        {
            "age": age,
            "wage": wage.astype(np.int64),
            "height": pa.array(height, mask=rng.random(rows) < 0.05),
            "weight": pa.array(height / 2 + rng.normal(0, 8, rows), mask=rng.random(rows) < 0.05),
            "children": rng.binomial(4, 0.3, rows),
            "since": pa.array(since, pa.timestamp("s")),
            "fixed": np.full(rows, 7.0),
            "year": rng.integers(1990, 2020, rows),
            "place": texts(place),
            "region": texts(place // 8),
            "sex": pa.array(rng.random(rows) < 0.3),
            "grade": pa.array(rng.integers(5, size=rows), mask=rng.random(rows) < 0.2),
            "note": pa.array(np.array(["x", "y", ""])[age % 3], mask=rng.random(rows) < 0.3),
        }
    )


def released(
    folder: Path, seed: int, ending: str, finish: dict[str, Any], rows: int = ROWS, **choices: Any
) -> Made:
    table = table_of(rows, seed)
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CornerwaveWarning)
        choices = {"categorical": ["grade"], "keep": ["year"], **choices}
        dataset = known_dataset(folder, table, number=seed + 1, **choices)
        paths = [
            dataset.release(to="r", noise=v, **finish).write(folder / f"{v}.{ending}")
            for v in NOISE
        ]
    return table, paths


def plain(folder: Path, seed: int) -> Made:
    return released(folder, seed, "parquet", {})


def as_csv(folder: Path, seed: int) -> Made:
    finish = {"round": ["age", "wage", "since"]}
    return released(folder, seed, "csv", finish, uniform=["sex", "region"], min_count=30)


def rounded(folder: Path, seed: int) -> Made:
    finish = {"round": ["age", "children", "since"], "clip": {"wage": (0.0, None)}}
    return released(folder, seed, "parquet", finish, together=[["place", "region"]])


def hidden(folder: Path, seed: int) -> Made:
    chosen = {"hide_missing": ["height", "note", "grade"], "transform": {"wage": "log1p"}}
    return released(folder, seed, "parquet", {}, min_count=20, **chosen)


def on_scales(folder: Path, seed: int) -> Made:
    chosen = {"transform": {"wage": "log1p", "height": "rank"}, "hide_missing": ["weight"]}
    return released(folder, seed, "csv", {"round": ["wage"]}, **chosen)


def small(folder: Path, seed: int) -> Made:
    return released(folder, seed, "parquet", {"round": ["age"]}, rows=150)


def finished_apart(folder: Path, seed: int) -> Made:
    """The same level as it is and rounded, beside another."""
    table = table_of(ROWS, seed).select(["age", "wage", "height"])
    folder.mkdir(parents=True)
    dataset = known_dataset(folder, table, number=seed + 1)
    whole = {"round": ["age", "wage"]}
    copies = [(1.0, {"raw": True}), (1.0, whole), (4.0, whole)]
    paths = [
        dataset.release(to="r", noise=v, **finish).write(folder / f"{place}.parquet")
        for place, (v, finish) in enumerate(copies)
    ]
    return table, paths


def derived(folder: Path, seed: int) -> Made:
    """Whole numbers, rounded in copies, the same once more, and in another unit, not rounded."""
    rng = np.random.default_rng([seed, 10])
    whole = {f"c{n}": rng.integers(0, 60, ROWS) for n in range(3)}
    whole |= {f"{name} again": values for name, values in whole.items()}
    table = pa.table(whole | {f"{name} in tens": values / 10 for name, values in whole.items()})
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CornerwaveWarning)
        dataset = known_dataset(folder, table, number=seed + 1)
    paths = [
        dataset.release(to="r", noise=v, round=list(whole)).write(folder / f"{v}.parquet")
        for v in (1.0, 4.0)
    ]
    return table, paths


def foreign(X: np.ndarray, seed: int) -> list[np.ndarray]:
    """The corner wave in plain float64, without our grid."""
    rng = np.random.default_rng([seed, 5])
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(X.T)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    steps = np.sqrt(np.diff(NOISE, prepend=0.0))
    noise = np.zeros_like(X)
    copies = []
    for size in steps:
        noise = noise + size * rng.normal(size=X.shape) @ root.T
        copies.append(X + noise)
    return copies


def of_arrays(
    make: Callable[[int], np.ndarray], digits: int | None = None, *, single: bool = False
) -> Any:
    """Copies of an array by others, perhaps rounded to some decimals, or to single precision."""

    def made(folder: Path, seed: int) -> Made:
        X = make(seed)
        copies = foreign(X, seed)
        if digits is not None:
            copies = [np.round(copy, digits) for copy in copies]
        if single:
            copies = [copy.astype(np.float32) for copy in copies]
        return named(X), [named(copy) for copy in copies]

    return made


def named(X: np.ndarray) -> pa.Table:
    return pa.table({f"c{n}": column for n, column in enumerate(X.T)})


def wide(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 6])
    return rng.normal(size=(ROWS, 20)) @ rng.normal(size=(20, 20)) + 1e4


def summed(seed: int) -> np.ndarray:
    X = releases.gaussian(ROWS, seed)
    return np.column_stack([X, X[:, 0] + X[:, 1]])


def far(seed: int) -> np.ndarray:
    """Seconds since 1970, and prices."""
    rng = np.random.default_rng([seed, 8])
    return np.column_stack([1.6e9 + rng.uniform(0, 1e6, ROWS), rng.lognormal(3, 1, ROWS).round(2)])


def few(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 9])
    return rng.binomial(1, 0.3, (ROWS, 2)).astype(float)


def ours(name: str) -> Any:
    """Copies of an array by our algorithm, as frames without metadata."""

    def made(folder: Path, seed: int) -> Made:
        X = releases.TABLES[name](ROWS, seed)
        return frame(X), [frame(copy) for copy in releases.ours(X, NOISE, seed + 1)]

    return made


KINDS: dict[str, Callable[[Path, int], Made]] = {
    "plain": plain,
    "csv": as_csv,
    "rounded": rounded,
    "hidden": hidden,
    "scales": on_scales,
    "small": small,
    "finished apart": finished_apart,
    "derived": derived,
    "ours skewed": ours("skewed"),
    "ours discrete": ours("discrete"),
    "foreign": of_arrays(lambda seed: releases.gaussian(ROWS, seed)),
    "foreign, one column": of_arrays(lambda seed: releases.gaussian(ROWS, seed)[:, :1]),
    "foreign, bimodal": of_arrays(lambda seed: releases.bimodal(ROWS, seed)),
    "foreign, wide": of_arrays(wide),
    "foreign, a sum": of_arrays(summed),
    "foreign, far from zero": of_arrays(far),
    "foreign, two values": of_arrays(few),
    "foreign, two decimals": of_arrays(lambda seed: releases.gaussian(ROWS, seed), 2),
    "foreign, whole": of_arrays(lambda seed: 4 * releases.gaussian(ROWS, seed), 0),
    "foreign, single precision": of_arrays(wide, single=True),
    "foreign, coarse": of_arrays(lambda seed: releases.gaussian(ROWS, seed), 0),
}
