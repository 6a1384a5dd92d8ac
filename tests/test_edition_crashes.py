"""Kill -9 at every step of an append and of an update: refused or repeated, nothing lost."""

import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.vault import Vault
from tests import test_crash
from tests.postgresql import copy_tree
from tests.test_editions import people
from tests.test_updates import changed

SEAMS = """
SEAMS = [
    (Ledger, "add_edition"), (SeenKeys, "write"), (SeenKeys, "publish"),
    (os, "fsync"), (fcntl, "flock"), (Connection, "commit"),
    (pathlib.Path, "replace"), (pathlib.Path, "unlink"), (pathlib.Path, "mkdir"),
    (pathlib.Path, "rmdir"),
]
"""
ACT = """
from cornerwave.errors import AlreadyRegistered
from cornerwave.ledger import SeenKeys


def release(folder, what, force=False):
    dataset = Vault.open(folder / ".cornerwave").dataset("people")
    try:
        getattr(dataset, what)(folder.parents[2] / f"{what}.parquet")
    except AlreadyRegistered:
        assert force, "nothing was there before"


"""
DRIVER = re.sub(r"SEAMS = \[.*?\n\]\n", "", test_crash.DRIVER, flags=re.S)
DRIVER = re.sub(r"def release\(.*?(?=def main)", ACT + SEAMS, DRIVER, flags=re.S)

FIRST = people(120, 1)
CHANGED = pa.concat_tables([changed(FIRST, range(0, 120, 5)).slice(3), people(10, 8, 700)])
NEW = {"append": people(40, 2, 200), "update": CHANGED}


@pytest.fixture
def backup(tmp_path, ledger_place):
    folder = tmp_path / "backup"
    folder.mkdir()
    papq.write_table(FIRST, tmp_path / "people.parquet")
    for what, table in NEW.items():
        papq.write_table(table, tmp_path / f"{what}.parquet")
    url = ledger_place if isinstance(ledger_place, str) else None
    vault = Vault.create(folder / ".cornerwave", ledger=url)
    vault.register("people", tmp_path / "people.parquet", key="id", few_rows=True)
    return folder


def opened(folder):
    return Vault.open(folder / ".cornerwave").dataset("people")


def crash_everywhere(backup, tmp_path, what, every):
    out = tmp_path / "crashes"
    out.mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", DRIVER, backup, out, what, str(every)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{test_crash.ROOT / 'src'}:{test_crash.ROOT}"},
    )
    assert run.returncode == 0, run.stderr
    return sorted(out.iterdir(), key=lambda path: int(path.name))


@pytest.mark.parametrize("what", NEW)
@pytest.mark.parametrize("every", [40, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "ledger_place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.first(1)
def test_an_edition_killed_anywhere_is_there_or_not(backup, tmp_path, what, every, counted):
    copy_tree(backup, tmp_path / "uninterrupted")
    right = opened(tmp_path / "uninterrupted")
    getattr(right, what)(tmp_path / f"{what}.parquet")
    copy = right.release(to="ann", privacy=0.5).to_arrow()
    seen = {1: 0, 2: 0}
    for crash in crash_everywhere(backup, tmp_path, what, every):
        place = (crash / "where").read_text()
        # What is left is the table before, or the new edition; each can be released.
        killed = opened(crash / "killed")
        seen[len(killed.editions)] += 1
        released = killed.release(to="ann", privacy=0.5).to_arrow()
        expected = copy if len(killed.editions) == 2 else None
        assert expected is None or released.equals(expected), place
        # Repeated, it is the edition, once, with the same noise; and nothing lies about.
        again = opened(crash / "retried")
        assert [e.rows for e in again.editions] == [e.rows for e in right.editions], place
        assert again.release(to="ann", privacy=0.5).to_arrow().equals(copy), place
        assert not list((crash / "retried" / ".cornerwave").glob("work/*")), place
        # The keys that came are known, also where the process was killed before it kept them.
        again.append(people(30, 9, 900))
        files = list((crash / "retried" / ".cornerwave" / "keys").iterdir())
        assert len(files) == sum(e.keys is not None for e in again.editions), place
    assert min(seen.values()) > 0 or every > 1, seen
    counted("kills", sum(seen.values()))
