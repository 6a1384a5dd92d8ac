"""A ledger that was lost or restored changes no copy; with the old construction it gave X away.

The old construction entered levels in the order of their first release, while each level's
white stream hung on the level alone. A backup one release old, and two levels released in
the other order, bring the same streams back with other weights: X follows exactly.
"""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave import Vault
from cornerwave.errors import AlreadyRegistered
from tests import twins

ROWS = 600


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(6)
    table = pa.table(
        {
            "a": rng.normal(3, 2, ROWS),
            "b": rng.normal(size=ROWS),
            "c": rng.choice(list("xyz"), ROWS),
        }
    )
    pq.write_table(table, tmp_path / "table.parquet")
    return table


def solve_for_x(coefficients, copies):
    """The combination of copies in which all noise cancels and X stands once, if there is one."""
    system = np.column_stack([np.ones(len(coefficients)), coefficients]).T
    wanted = np.eye(len(system))[0]
    weights, *_ = np.linalg.lstsq(system, wanted, rcond=None)
    found = np.abs(system @ weights - wanted).max() < 1e-9
    return np.tensordot(weights, copies, 1) if found else None


def test_the_old_construction_falls_to_a_rollback():
    """The negative control: three of the four copies give X to the last digits."""
    x = np.random.default_rng(1).normal(size=ROWS)
    levels = [0.25, 1.0]
    ids = np.column_stack([np.arange(ROWS), np.zeros(ROWS)]).astype(np.uint64)
    white = np.array([twins.normals(bytes(32), noise, ids, 1)[0] for noise in levels])
    before = twins.algorithm_3_coefficients(levels)
    # the backup knew neither; they are released again, the other one first
    after = twins.algorithm_3_coefficients(levels[::-1])[:, ::-1]
    assert solve_for_x(before, x + before @ white) is None
    three = np.vstack([before, after[:1]])
    assert np.abs(solve_for_x(three, x + three @ white) - x).max() < 1e-11
    # with a fixed order there are no other weights to come back with
    assert solve_for_x(np.vstack([before, before]), np.zeros((4, ROWS))) is None


def released(vault, name, privacies, folder):
    """The bytes of copies released one after the other."""
    dataset = vault.dataset(name)
    made = {}
    for privacy in privacies:
        path = folder / f"{name}-{privacy}-{len(list(folder.iterdir()))}.parquet"
        dataset.release(to=f"r{privacy}", privacy=privacy).write(path)
        made[privacy] = path.read_bytes()
    return made


def test_a_restored_ledger_changes_no_byte(tmp_path, table):
    vault = Vault.create(tmp_path / "v")
    vault.register("t", tmp_path / "table.parquet")
    first = released(vault, "t", [0.5], tmp_path)
    shutil.copy(tmp_path / "v" / "ledger.db", tmp_path / "backup.db")
    first |= released(vault, "t", [0.8, 0.9, 0.333], tmp_path)
    shutil.copy(tmp_path / "backup.db", tmp_path / "v" / "ledger.db")
    again = released(Vault.open(tmp_path / "v"), "t", [0.9, 0.333, 0.8, 0.5], tmp_path)
    assert first == again


def test_a_lost_ledger_changes_no_byte(tmp_path, table):
    vault = Vault.create(tmp_path / "v")
    dataset = vault.register("t", tmp_path / "table.parquet")
    first = released(vault, "t", [0.2, 0.8, 0.5], tmp_path)
    (tmp_path / "v" / "ledger.db").unlink()
    vault = Vault.create(tmp_path / "v", new_ledger=True)
    again = vault.register("t", tmp_path / "table.parquet")
    assert again.id == dataset.id
    assert again.holdings == []
    assert released(vault, "t", [0.5, 0.8, 0.2], tmp_path) == first


def test_registering_again_is_the_same_dataset(tmp_path, table):
    vault = Vault.create(tmp_path / "v")
    one = vault.register("t", tmp_path / "table.parquet")
    two = vault.register("t", tmp_path / "table.parquet")
    assert (one.id, one.registered_at) == (two.id, two.registered_at)
    with pytest.raises(AlreadyRegistered, match="another table or other choices"):
        vault.register("t", tmp_path / "table.parquet", drop=["b"])
    with pytest.raises(AlreadyRegistered, match="as 't'; release from it"):
        vault.register("other", tmp_path / "table.parquet")


@pytest.mark.parametrize(
    "choices", [{"drop": ["b"]}, {"transform": {"a": "rank"}}, {"uniform": ["c"]}, {"keep": ["c"]}]
)
def test_other_choices_have_independent_noise(tmp_path, table, choices):
    """In a new ledger, so that nothing refuses: never the same noise with another factor."""
    key = tmp_path / "key"
    one = Vault.create(tmp_path / "v")
    (tmp_path / "v" / "key").rename(key)
    two = Vault.create(tmp_path / "w", key_file=key)
    a = one.register("t", tmp_path / "table.parquet")
    b = two.register("t", tmp_path / "table.parquet", **choices)
    assert a.id != b.id
    x = table["a"].to_numpy()
    releases = [d.release(to="r", privacy=0.5, raw=True) for d in (a, b)]
    noises = [release.to_arrow()["a"].to_numpy() - x for release in releases]
    # |r| < 5/sqrt(n) for independent noise but once in a million
    assert abs(np.corrcoef(noises)[0, 1]) < 5 / np.sqrt(ROWS)
    same = a.release(to="s", privacy=0.5, raw=True).to_arrow()["a"].to_numpy() - x
    assert np.array_equal(same, noises[0])
