"""Rows with missing values are tested like all others: honest ones pass, broken ones fall.

Of the tables here hardly a row is complete: what is found, is found in incomplete rows.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, as_json, audit, verdict
from cornerwave.audit._completion import Completion
from cornerwave.audit._sums import Layout, Statistics
from cornerwave.errors import CornerwaveWarning
from cornerwave.moments import Moments
from tests.audit.releases import binomial_limit, known_dataset
from tests.choosing import one_now
from tests.conftest import Counted

NOISE = (0.5, 2.0)
COLUMNS = 6


def gapped(rows: int, seed: int, share: float = 0.5) -> np.ndarray:
    """A chain of skewed columns, each missing in half of the rows, more often where it is high."""
    rng = np.random.default_rng([seed, 1])
    X = rng.gamma(2.0, 1.0, (rows, COLUMNS))
    for n in range(1, COLUMNS):
        X[:, n] += 0.8 * X[:, n - 1]
    high = np.median(X, axis=0) < X
    return np.where(rng.random(X.shape) < share + 0.3 * high - 0.15, np.nan, X)


def frame(X: np.ndarray) -> pa.Table:
    return pa.table({f"c{n}": pa.array(x, from_pandas=True) for n, x in enumerate(X.T)})


def steps(X: np.ndarray, seed: int, shape: Any = None) -> list[np.ndarray]:
    """White steps of a path, (rows, N) each, shaped like the table's covariance."""
    K = Moments.of(X).covariance if shape is None else shape
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.abs(values))
    rng = np.random.default_rng([seed, 2])
    return [rng.normal(size=X.shape) @ root.T for _ in NOISE]


def honest(X: np.ndarray, seed: int) -> list[np.ndarray]:
    one, two = steps(X, seed)
    first = np.sqrt(NOISE[0]) * one
    return [X + first, X + first + np.sqrt(NOISE[1] - NOISE[0]) * two]


def independent(X: np.ndarray, seed: int) -> list[np.ndarray]:
    return [X + np.sqrt(v) * Z for v, Z in zip(NOISE, steps(X, seed), strict=True)]


def column_by_column(X: np.ndarray, seed: int) -> list[np.ndarray]:
    one, two = steps(X, seed, np.diag(np.nanvar(X, axis=0)))
    first = np.sqrt(NOISE[0]) * one
    return [X + first, X + first + np.sqrt(NOISE[1] - NOISE[0]) * two]


def swapped(X: np.ndarray, seed: int) -> list[np.ndarray]:
    """Two rows of a copy that are those of others, with the same gaps."""
    copies = honest(X, seed)
    places = np.flatnonzero(~np.isnan(X[:, 0]))[:2]
    copies[0][places, 0] += [30.0, -30.0]
    return copies


def following(X: np.ndarray, seed: int) -> list[np.ndarray]:
    """Noise that shrinks each value by a tenth of its distance from the mean."""
    return [copy - 0.1 * (X - np.nanmean(X, axis=0)) for copy in honest(X, seed)]


BROKEN: dict[str, Callable[[np.ndarray, int], list[np.ndarray]]] = {
    "corner wave": independent,
    "shape": column_by_column,
    "outliers": swapped,
    "independence": following,
}


@pytest.mark.parametrize("seed", one_now(range(3)))
@pytest.mark.slow
def test_honest_copies_of_a_table_without_a_complete_row_pass(seed: int) -> None:
    X = gapped(3000, seed, share=0.6)
    found = audit(frame(X), [frame(copy) for copy in honest(X, seed)])
    assert found.clean, [check.note for check in found.faults]
    assert found.numbers.complete < 0.05 * len(X)
    assert found.numbers.found.complete > 0.9 * len(X)
    assert found.numbers.columns == tuple(f"c{n}" for n in range(COLUMNS))


@pytest.mark.slow
@pytest.mark.parametrize("check", BROKEN)
@pytest.mark.first(1)
def test_what_is_broken_in_incomplete_rows_is_found(check: str) -> None:
    X = gapped(6000, 7)
    X[~np.isnan(X).any(axis=1), 0] = np.nan
    found = audit(frame(X), [frame(copy) for copy in BROKEN[check](X, 7)])
    assert found.numbers.complete == 0
    assert check in {fault.name for fault in found.faults}


def test_completed_noise_has_the_law_of_the_noise() -> None:
    """Cov(D~) = v S in all cells, filled or not; draws that ignore what is seen have it not."""
    X = gapped(40_000, 3)
    blocks = [part.T for part in (X, *honest(X, 3))]
    found = Statistics.of(blocks)
    completion = Completion.of(found, NOISE)
    whole = completion.complete(blocks, 0)
    rows = np.flatnonzero(~np.isnan(whole[0]).any(axis=0))
    D = whole[2][:, rows] - whole[0][:, rows]
    unit = np.sqrt(np.diag(completion.shape))
    wanted = NOISE[1] * completion.shape / np.outer(unit, unit)
    reach = 5.0 * NOISE[1] * np.sqrt(2 / len(rows))
    assert np.abs(np.cov(D / unit[:, None]) - wanted).max() < reach
    seen = ~np.isnan(blocks[0][:, rows])
    alone = np.sqrt(NOISE[1]) * completion.lower @ np.random.default_rng(1).normal(size=D.shape)
    apart = np.where(seen, D, alone) / unit[:, None]
    assert np.abs(np.cov(apart) - wanted).max() > 5 * reach
    assert np.array_equal(np.isnan(whole[0]).any(axis=0), ~seen_any(blocks[0]))


def seen_any(X: np.ndarray) -> np.ndarray:
    return np.asarray((~np.isnan(X)).any(axis=0))


def test_what_was_not_tested_is_in_the_first_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"a": rng.normal(size=500), "wage": rng.gamma(2, 1, 500)})
    papq.write_table(table, tmp_path / "s.parquet")
    dataset = known_dataset(tmp_path, tmp_path / "s.parquet", transform={"wage": "rank"})
    copy = dataset.release(to="r", privacy=0.5).write(tmp_path / "c.parquet")
    assert audit(tmp_path / "s.parquet", [copy]).clean
    told = json.loads(papq.read_schema(copy).metadata[b"cornerwave"])
    del told["noise"]  # without which a column on ranks cannot be judged
    silent = papq.read_table(copy).replace_schema_metadata(
        {b"cornerwave": json.dumps(told).encode()}
    )
    copy = tmp_path / "silent.parquet"
    papq.write_table(silent, copy)
    found = audit(tmp_path / "s.parquet", [copy])
    assert (found.sound, found.clean) == (True, False)
    assert verdict(found).startswith("Not everything was tested: 1 column or copy untested.")
    assert list(as_json(found)["untested"]) == ["wage"]
    # a column that the owner wanted as it is, or that nobody perturbed, is no promise
    told["columns"]["wage"] = {"role": "kept", "transform": "rank"}
    kept = papq.read_table(copy).replace_schema_metadata({b"cornerwave": json.dumps(told).encode()})
    papq.write_table(kept, tmp_path / "kept.parquet")
    assert not audit(tmp_path / "s.parquet", [tmp_path / "kept.parquet"]).untested


@pytest.mark.slow
def test_a_table_wider_than_it_has_rows_to_fit_is_tested(tmp_path: Path) -> None:
    """150 rows of 25 numbers with gaps: one weight for each copy, and the closest columns."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 5)) @ rng.normal(size=(5, 25)) + rng.normal(size=(150, 25))
    X = np.where(rng.random(X.shape) < 0.05, np.nan, X)
    papq.write_table(frame(X), tmp_path / "s.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CornerwaveWarning)
        dataset = known_dataset(tmp_path, tmp_path / "s.parquet", few_rows=True)
        paths = [
            dataset.release(to="r", privacy=p).write(tmp_path / f"{p}.parquet") for p in (0.3, 0.7)
        ]
    found = audit(tmp_path / "s.parquet", paths)
    assert found.sound, [check.note for check in found.faults]
    assert len(found.untested) < 3  # few rows hold most of the error of a column
    assert all("precisely" in why for why in found.untested.values())
    assert all(len(own) == 25 for own in found.whole)
    [gain], noise = found.numbers.gains, found.numbers.found.noise.min()
    # one weight for all columns: its error is that of 150 x 25 cells, 0.02
    assert gain.alone.mean() == pytest.approx(noise / (1 + noise), abs=0.05)
    fresh = known_dataset(tmp_path / "other", tmp_path / "s.parquet", number=2, few_rows=True)
    other = fresh.release(to="r", privacy=0.7).write(tmp_path / "fresh.parquet")
    assert not audit(tmp_path / "s.parquet", [paths[0], other]).sound


@pytest.mark.slow
def test_false_alarms_over_300_honest_audits_with_gaps(counted: Counted) -> None:
    alarms = []
    for seed in range(300):
        X = gapped(600 + 40 * (seed % 40), seed, share=0.1 + 0.1 * (seed % 6))
        found = audit(frame(X), [frame(copy) for copy in honest(X, seed)])
        alarms += [[(check.name, check.value, check.limit) for check in found.faults]] * (
            not found.clean
        )
    assert len(alarms) <= binomial_limit(300, ALPHA, 0.001), alarms
    counted("honest", 300)


def test_gaps_are_summed_also_if_no_copy_has_noise_of_one_covariance():
    """As of a table whose noise is a curve in time: nothing is left to compare with it."""
    X = np.random.default_rng(0).normal(size=(2, 100))
    whole = [sums for _, sums in Layout.of([X]).deals([X])]
    X[0, ::5] = np.nan
    gapped = [sums for _, sums in Layout.of([X]).deals([X])]
    for each in (*whole, *gapped):
        assert each.noise.shape == (3, 0)
    assert sum(each.pairs[0, 0, 0] for each in gapped) == 80
