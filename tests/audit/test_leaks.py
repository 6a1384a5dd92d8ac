"""Schemes that pass every check of second moments fail here; honest copies of any kind pass."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, Audit, audit
from cornerwave.moments import Moments
from tests.audit import releases
from tests.audit.honest import KINDS
from tests.audit.leaks import LEAKS, Copies
from tests.audit.releases import binomial_limit, frame, gaussian, ours, white
from tests.audit.shown import findings
from tests.choosing import one_now
from tests.conftest import Counted

ROWS = 20_000


def faults(found: Audit) -> set[str]:
    return {check.name for check in found.faults}


def name_of(leak: Any) -> str:
    return leak.__name__ if callable(leak) else str(leak)


@pytest.mark.parametrize(("leak", "check"), LEAKS.items(), ids=name_of)
@pytest.mark.first(3)
def test_a_leak_is_found(leak: Any, check: str, counted: Counted) -> None:
    assert check in faults(audit(*leak(ROWS, 1)))
    counted("schemes")


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20_000, 200_000])
@pytest.mark.parametrize(("leak", "check"), LEAKS.items(), ids=name_of)
def test_a_leak_is_found_every_time_and_in_long_tables(
    leak: Any, check: str, rows: int, counted: Counted
) -> None:
    for seed in (2, 3):
        assert check in faults(audit(*leak(rows, seed)))
        counted("schemes")


@pytest.mark.slow
@pytest.mark.parametrize("kind", one_now(KINDS, *list(KINDS)[::6]))
@pytest.mark.first(1)
def test_honest_copies_of_any_kind_pass(tmp_path: Path, kind: str, counted: Counted) -> None:
    """The control: known copies, so that chance is drawn once and for all."""
    found = audit(*KINDS[kind](tmp_path / "one", 0))
    assert found.sound, findings(found)
    if kind == "small":  # 150 rows measure a category too coarsely in many draws: it says so
        assert all("not measured precisely" in reason for reason in found.untested.values())
    else:
        assert not found.untested
    counted("honest")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_false_alarms_over_200_honest_releases_are_within_alpha(
    tmp_path: Path, kind: str, counted: Counted
) -> None:
    alarms = sum(
        not audit(*KINDS[kind](tmp_path / str(seed), seed)).sound for seed in range(1000, 1200)
    )
    # with a rate of ALPHA more than this many have probability below 0.001
    assert alarms <= binomial_limit(200, ALPHA, 0.001)
    counted("honest", 200)


def stating(folder: Path, copies: Copies, told: dict[str, Any]) -> Audit:
    """The audit of one copy, with metadata that states what it likes."""
    source, [copy] = copies
    path = folder / "copy.parquet"
    papq.write_table(copy.replace_schema_metadata({b"cornerwave": json.dumps(told).encode()}), path)
    return audit(source, [path])


def test_a_copy_that_hides_less_than_it_states_fails(tmp_path: Path) -> None:
    X = gaussian(ROWS)
    copies = frame(X), [frame(copy) for copy in ours(X, [1.0])]
    assert stating(tmp_path, copies, {"noise": 1.0, "privacy": 0.5}).clean
    assert stating(tmp_path, copies, {"noise": 1.0, "privacy": 0.45}).clean  # a floor
    found = stating(tmp_path, copies, {"noise": 1.0, "privacy": 0.55})
    assert faults(found) == {"promise", "whole copy"}
    assert "states that 0.550" in found.faults[0].note


def test_noise_of_the_right_size_and_the_wrong_shape_breaks_the_promise(tmp_path: Path) -> None:
    """Noise column by column: a column that others tell is told by its copies too."""
    X = gaussian(ROWS)
    X[:, 2] = X[:, 0] - X[:, 1] + 0.1 * X[:, 2]
    noise = np.random.default_rng(1).normal(size=X.shape) * X.std(axis=0)
    found = stating(tmp_path, (frame(X), [frame(X + noise)]), {"noise": 1.0})
    assert "promise" in faults(found)


@pytest.mark.parametrize("pairs", [True, False], ids=["K of pairs", "a direction without noise"])
@pytest.mark.first(1)
def test_the_promise_is_measured_in_complete_rows(tmp_path: Path, pairs: bool) -> None:
    """K itself may have lost a direction; what complete rows hide does not depend on it."""
    X = gaussian(ROWS)
    holes = np.random.default_rng(1).random(X.shape) < 0.2
    K = Moments.of(np.where(holes, np.nan, X)).covariance if pairs else np.cov(X.T)
    values, vectors = np.linalg.eigh(K)
    values[0] *= pairs  # the smallest variance gets no noise
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    noise = np.random.default_rng(2).normal(size=X.shape) @ root.T
    shown = np.where(holes, np.nan, X)
    found = stating(tmp_path, (frame(shown), [frame(shown + noise)]), {"noise": 1.0})
    assert ("promise" in faults(found)) != pairs


@pytest.mark.slow
def test_a_category_beside_numbers_is_compared_in_the_same_rows() -> None:
    """Longer than what is kept: both kinds keep every second, fourth, eighth row."""
    leak = next(leak for leak in LEAKS if name_of(leak) == "shared_draw")
    source, copies = leak(100_000, 1)
    assert "kinds" in faults(audit(source, copies))
    rng = np.random.default_rng(1)
    drawn = source["kind"].take(rng.permutation(100_000))
    kept = rng.random(100_000) < 0.7
    honest = np.where(kept, source["kind"].to_numpy(), drawn.to_numpy())
    copy = copies[0].set_column(3, "kind", [honest])
    assert audit(source, [copy]).clean


@pytest.mark.slow
def test_a_table_in_pieces_keeps_its_noise_apart() -> None:
    """One noise for two rows, in a file longer than a block, where the two are far apart."""
    X = releases.gaussian(150_000)
    noise = white(X, 1)
    assert "repeats" not in faults(audit(frame(X), [frame(X + noise)]))
    noise[75_000:] = noise[:75_000]
    assert "repeats" in faults(audit(frame(X), [frame(X + noise)]))


@pytest.mark.parametrize("finish", [{}, {"round": ["wage"]}], ids=["as it is", "rounded"])
def test_the_lowest_value_of_the_log_scale_is_a_number(tmp_path: Path, finish: dict) -> None:
    """Many zeros and much noise: far down, exp(t) - 1 is -1."""
    rng = np.random.default_rng(1)
    wage = np.where(rng.random(5000) < 0.5, 0, np.rint(rng.lognormal(11, 1, 5000))).astype(int)
    table = pa.table({"wage": wage, "age": rng.normal(40, 9, 5000)})
    dataset = releases.known_dataset(tmp_path, table, transform={"wage": "log1p"})
    path = dataset.release(to="r", privacy=0.9, raw=True, **finish).write(tmp_path / "copy.parquet")
    assert (papq.read_table(path)["wage"].to_numpy() == -1).any()
    found = audit(table, [path])
    assert np.isfinite(found.numbers.found.noise).all()
    assert found.clean, findings(found)


@pytest.mark.parametrize("more", [True, False], ids=["more noise", "less noise"])
def test_a_copy_may_state_more_noise_than_the_table_has_but_not_less(
    tmp_path: Path, more: bool
) -> None:
    X = gaussian(ROWS)
    K = np.cov(X.T)
    values, vectors = np.linalg.eigh(K)
    excess = (2.0 if more else -0.9) * values[0] * np.outer(vectors[:, 0], vectors[:, 0])
    noise = np.random.default_rng(3).normal(size=X.shape) @ np.linalg.cholesky(K + excess).T
    copies = frame(X), [frame(X + noise)]
    names = copies[0].column_names
    columns = {
        name: {"excess": dict(zip(names, row.tolist(), strict=True))}
        for name, row in zip(names, excess, strict=True)
    }
    assert "shape" in faults(stating(tmp_path, copies, {"noise": 1.0}))
    found = stating(tmp_path, copies, {"noise": 1.0, "columns": columns})
    assert ("shape" in faults(found)) != more
