"""Kill -9 a release of linked tables that replaces another, at many points: old or new is there.

A driver loads everything once and forks: child k replaces the old copy and kills itself at the
k-th event, the moment before or after a call that touches a file, a name or the ledger.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import psycopg
import pytest

from cornerwave.ledger import Key
from cornerwave.levels import Privacy
from cornerwave.miner import LinkedCopy
from cornerwave.vault import Vault

ROOT = Path(__file__).parents[2]
MANY = pytest.mark.slow

DRIVER = r"""
import os, shutil, signal, sys
import fcntl
from pathlib import Path

from cornerwave.ledger import Ledger
from cornerwave.ledger._database import Connection
from cornerwave.outputs import _hidden_folders, _table_copies
from cornerwave.vault import Vault
from tests.killing import arm, forked

SEAMS = [
    *((os, name) for name in ("mkdir", "rmdir", "unlink", "rename", "replace", "chmod", "fsync")),
    (fcntl, "flock"), (_hidden_folders, "exchanged"), (Connection, "commit"), (Ledger, "hold_all"),
    (_table_copies.TableCopy, "open"), (_table_copies.TableCopy, "append"),
    (_table_copies.TableCopy, "finish"), (_table_copies.SharedSession, "commit"),
]


def release(vault, place, privacy):
    copy = Vault.open(vault).linked("clinic").release(to="ann", privacy=privacy)
    copy.write(place, force=True)


def main(home, name, first, every, only):
    k = first
    while True:
        out = home / str(k)
        shutil.copytree(home / "begun", out)
        place = f"{name}_{k}" if "://" in name else out / name
        if "://" in name:
            assert forked(lambda: release(out / "vault", place, 0.8)) == 0
        log = os.open(out / "where", os.O_CREAT | os.O_WRONLY)

        def crash():
            arm(SEAMS, k, log, only)
            release(out / "vault", place, 0.5)

        status = forked(crash)
        os.close(log)
        if status == 0:
            return
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        assert forked(lambda: keep(out, place)) == 0
        assert forked(lambda: release(out / "vault", place, 0.5)) == 0
        k += every
"""

KEEP_FILES = """
def keep(out, place):
    shutil.copytree(out, out.with_name(out.name + " killed"))
"""

KEEP_TABLES = """
from cornerwave.levels import Privacy
from cornerwave.miner import LinkedCopy

def keep(out, place):
    copies = LinkedCopy.open(place)
    noise = {round(copies[table].level.noise, 9) for table in copies}
    shutil.copytree(out, out.with_name(out.name + " killed"))
    (out.with_name(out.name + " killed") / "noise").write_text(repr(noise))
"""

A_FOLDER = """
def release(vault, place, privacy):
    with _hidden_folders.HiddenFolder(place) as hidden:
        hidden.check_exchange()
        folder = hidden.path / "copy"
        folder.mkdir()
        for table in ("patients", "visits"):
            (folder / table).write_text(str(privacy))
        hidden.show(folder)
"""

TWO_RENAMES = """
def two(one, other):
    old = one.with_name("old")
    os.rename(other, old)
    os.rename(one, other)
    os.rename(old, one)
    return True

_hidden_folders.exchanged = two
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A vault with linked tables, and the copies that killed releases shall replace."""
    home = tmp_path_factory.mktemp("crash")
    rng = np.random.default_rng(1)
    names = np.array([f"P{i:03d}" for i in range(120)])
    who = np.repeat(np.arange(120), 3)
    pd.DataFrame({"patient": names, "risk": rng.normal(size=120)}).to_parquet(home / "p.parquet")
    visits = pd.DataFrame({"patient": names[who], "cost": rng.normal(size=360)})
    visits.sample(frac=1, random_state=1).to_parquet(home / "v.parquet", index=False)
    begun = home / "begun"
    begun.mkdir()
    linked = Vault.create(begun / "vault", key=Key(bytes(range(32)))).register_linked(
        "clinic",
        {"patients": home / "p.parquet", "visits": home / "v.parquet"},
        unit="patient",
        few_rows=True,
    )
    for name in ("copy", "copy.zip", "copy.duckdb"):
        linked.release(to="ann", privacy=0.8).write(begun / name)
    return home


def content(place):
    """What a reader finds: the cells of each table."""
    if not place.exists():
        return None
    if place.is_dir():
        return {
            each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in place.iterdir()
        }
    if place.suffix == ".zip":
        with zipfile.ZipFile(place) as archive:
            return {n: hashlib.sha256(archive.read(n)).hexdigest() for n in archive.namelist()}
    copies = LinkedCopy.open(place)
    return {table: copies[table].mean().value.tobytes() for table in copies}


def killed(home, tmp_path, name, *, first, every, only="", more=KEEP_FILES):
    """Return the folders that killed releases left, and what the next made of each."""
    shutil.copytree(home / "begun", tmp_path / "begun")
    text = f"{DRIVER}{more}main(Path(sys.argv[1]), sys.argv[2], {first}, {every}, {only!r})"
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text, tmp_path, name],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert run.returncode == 0, run.stderr
    dead = sorted(tmp_path.glob("* killed"))
    return {each: each.with_name(each.name.removesuffix(" killed")) for each in dead}


@pytest.mark.parametrize("more", ["", TWO_RENAMES], ids=["exchanged", "two renames"])
def test_a_folder_that_is_replaced_is_the_old_one_or_the_new(tmp_path, more, counted):
    """Killed at every step. With two renames, as a control, neither is there in between."""
    begun = tmp_path / "home" / "begun"
    (begun / "copy").mkdir(parents=True)
    for table in ("patients", "visits"):
        (begun / "copy" / table).write_text("0.8")
    program, only = KEEP_FILES + A_FOLDER + more, "rename" if more else ""
    runs = killed(begun.parent, tmp_path, "copy", first=1, every=2, only=only, more=program)
    shown = [content(dead / "copy") for dead in runs]
    old, new = content(begun / "copy"), content(next(iter(runs.values())) / "copy")
    if more:
        assert None in shown
        return
    assert {repr(each) for each in shown} == {repr(old), repr(new)}
    assert len(shown) >= 20
    for next_ in runs.values():
        assert content(next_ / "copy") == new
        assert sorted(each.name for each in next_.iterdir()) == ["copy", "where"]
    counted("kills", len(runs))


@pytest.mark.parametrize(
    ("name", "first", "every", "only"),
    [
        # the first two of these try whether it can be done here
        pytest.param("copy", 3, 1, "exchanged", marks=MANY),
        pytest.param("copy", 1, 1, "", marks=MANY),
        pytest.param("copy.zip", 1, 3, "", marks=MANY),
        pytest.param("copy.duckdb", 1, 3, "", marks=MANY),
    ],
)
def test_a_killed_release_leaves_the_old_copy_or_the_new(
    home, tmp_path, name, first, every, only, counted
):
    runs = killed(home, tmp_path, name, first=first, every=every, only=only)
    old = content(home / "begun" / name)
    new = content(next(iter(runs.values())) / name)
    assert old != new
    seen = {"old": 0, "new": 0, "litter": 0}
    for dead, next_ in runs.items():
        where, found = (dead / "where").read_text(), content(dead / name)
        assert found in (old, new), where
        seen["old" if found == old else "new"] += 1
        seen["litter"] += any(each.name.startswith(".copy") for each in dead.iterdir())
        assert content(next_ / name) == new, where
        assert not [each for each in next_.iterdir() if each.name.startswith(".copy")], where
        shown = Vault.open(dead / "vault").linked("clinic")
        held = {round(each.privacy, 1) for each in shown.again("ann")}
        assert held >= ({0.8, 0.5} if found == new else {0.8}), where
    assert min(seen.values()) > 0, seen
    counted("kills", len(runs))


@MANY
def test_a_schema_has_all_tables_of_one_copy(home, tmp_path, postgresql_server, counted):
    """Reading it checks that all tables are there, and of one release."""
    server = postgresql_server.fresh()
    runs = killed(home, tmp_path, f"{server}#shared", first=2, every=2, more=KEEP_TABLES)
    linked = Vault.open(home / "begun" / "vault").linked("clinic")
    old, new = ({round(linked.level_of(Privacy(p)).noise, 9)} for p in (0.8, 0.5))
    seen = {(dead / "noise").read_text() for dead in runs}
    assert seen == {repr(old), repr(new)}
    for next_ in runs.values():
        copies = LinkedCopy.open(f"{server}#shared_{next_.name}")
        assert {round(copies[table].level.noise, 9) for table in copies} == new
    with psycopg.connect(server) as connection:
        # of this test's schemas: others of the server hold ledgers
        tables = """SELECT count(*) FILTER (WHERE relname LIKE 'cornerwave\\_%'), count(*)
          FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
          WHERE relkind = 'r' AND nspname LIKE 'shared\\_%'"""
        [(hidden, there)] = connection.execute(tables).fetchall()
        assert hidden == 0 < len(runs) * len(copies) <= there
    counted("kills", len(runs))
