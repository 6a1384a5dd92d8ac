"""Kill -9 at every step of a release, and see what is left.

A driver process loads everything once and forks: child k runs the release and kills
itself at the k-th event, where an event is the moment before or after each step that
touches a file or the ledger. Then another child runs the release again.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from cornerwave.errors import LedgerDamaged, VaultExists
from cornerwave.levels import Level
from cornerwave.outputs import CopyFile, metadata_path
from cornerwave.spec import CopyMetadata
from cornerwave.vault import Vault, write_all
from tests.conftest import make_people
from tests.postgresql import copy_tree

ROOT = Path(__file__).parents[1]

DRIVER = r"""
import os, pathlib, shutil, signal, sys
import fcntl, sqlite3
from pathlib import Path

from cornerwave.vault import _release
from cornerwave.levels import Level
from cornerwave.vault import write_all
from cornerwave.vault import Vault
from cornerwave.outputs import _outputs as write
from cornerwave.ledger import Ledger
from cornerwave.ledger._database import Connection
from tests.killing import arm, forked
from tests.postgresql import copy_tree

SEAMS = [
    (Ledger, "hold"),
    (write.CopyFile, "open"), (write.CopyFile, "append"), (write.CopyFile, "finish"),
    (write.CopyFile, "publish"), (write.CopyFile, "discard"),
    (write, "_put"), (write, "_create_hidden"), (write, "_remove_leftovers"),
    (write, "sync_directory"), (_release, "make_copies"),
    (os, "fsync"), (fcntl, "flock"), (Connection, "commit"),
    (pathlib.Path, "replace"), (pathlib.Path, "chmod"), (pathlib.Path, "unlink"),
]


def release(folder, ending, force=False):
    dataset = Vault.open(folder / ".cornerwave").dataset("people")
    releases = dataset.release_many({"ann": Level(0.25), "bob": Level(4.0)})
    copies = [(r, folder / f"{r.recipient}.{ending}") for r in releases]
    write_all(copies, threads=1, force=force)


def main(backup, out, ending, every):
    # Compiled code is loaded once, here, and not by every child.
    copy_tree(backup, out / "0" / "killed")
    release(out / "0" / "killed", ending)
    shutil.rmtree(out / "0")
    k = 1
    while True:
        killed, retried = out / str(k) / "killed", out / str(k) / "retried"
        copy_tree(backup, killed)
        log = os.open(out / str(k) / "where", os.O_CREAT | os.O_WRONLY)

        def crash():
            arm(SEAMS, k, log)
            release(killed, ending)

        status = forked(crash)
        os.close(log)
        if status == 0:
            shutil.rmtree(out / str(k))
            return
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        copy_tree(killed, retried)
        status = forked(lambda: release(retried, ending, force=True))
        assert status == 0, status
        k += every


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
"""


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def backup(tmp_path, ledger_place):
    """A vault with a registered table, whose ledger has one holding before the killed release."""
    folder = tmp_path / "backup"
    folder.mkdir()
    source = tmp_path / "people.parquet"
    pyarrow.parquet.write_table(make_people(50), source)
    url = ledger_place if isinstance(ledger_place, str) else None
    vault = Vault.create(folder / ".cornerwave", ledger=url)
    dataset = vault.register("people", source, drop=["id"], few_rows=True)
    dataset.release(to="zoe", noise=1.0).to_arrow()
    return folder


def expected(backup, tmp_path, ending):
    """The right copies, from an uninterrupted run over the same vault."""
    folder = tmp_path / "uninterrupted"
    copy_tree(backup, folder)
    dataset = Vault.open(folder / ".cornerwave").dataset("people")
    copies = {}
    releases = dataset.release_many({"ann": Level(0.25), "bob": Level(4.0)})
    for path in write_all([(r, folder / f"{r.recipient}.{ending}") for r in releases]):
        copies[path.name] = digest(path)
        if metadata_path(path).exists():
            copies[metadata_path(path).name] = digest(metadata_path(path))
    return copies


def visible(folder):
    return {path.name: digest(path) for path in folder.iterdir() if not path.name.startswith(".")}


def hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


def crash_everywhere(backup, tmp_path, ending, every=1, driver=DRIVER):
    out = tmp_path / "crashes"
    out.mkdir()
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", driver, backup, out, ending, str(every)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert run.returncode == 0, run.stderr
    return sorted(out.iterdir(), key=lambda path: int(path.name))


@pytest.mark.parametrize(
    ("ending", "every"),
    [
        ("parquet", 9),
        pytest.param("csv", 5, marks=pytest.mark.slow),
        pytest.param("parquet", 1, marks=pytest.mark.slow),
        pytest.param("csv", 1, marks=pytest.mark.slow),
    ],
)
def test_a_release_killed_anywhere_is_whole_or_not_there(backup, tmp_path, ending, every, counted):
    right = expected(backup, tmp_path, ending)
    crashes = crash_everywhere(backup, tmp_path, ending, every)
    places = [(crash / "where").read_text() for crash in crashes]
    seen = {"nothing": 0, "something": 0, "hidden": 0}
    for crash, place in zip(crashes, places, strict=True):
        # What is visible is right, and the ledger covers it.
        shown = visible(crash / "killed")
        assert shown.items() <= right.items(), place
        dataset = Vault.open(crash / "killed" / ".cornerwave").dataset("people")
        holders = {h.recipient for h in dataset.holdings}
        assert {name.split(".")[0] for name in shown} <= holders, place
        # The next run makes the same copies, and clears up.
        assert visible(crash / "retried") == right, place
        assert hidden(crash / "retried") == [], place
        dataset = Vault.open(crash / "retried" / ".cornerwave").dataset("people")
        assert {h.recipient for h in dataset.holdings} == {"ann", "bob", "zoe"}, place
        seen["something" if shown else "nothing"] += 1
        seen["hidden"] += bool(hidden(crash / "killed"))
    # The net was cast over all of it.
    assert min(seen.values()) > 0, seen
    counted("kills", len(crashes))
    if every > 1:
        return
    for step in ("hold", "append", "finish", "publish", "fsync", "replace", "commit"):
        assert {f"before {step}", f"after {step}"} <= set(places)


@pytest.mark.slow
def test_the_net_catches_a_release_that_shows_before_it_records(backup, tmp_path):
    """The negative control: never recorded, a killed run shows what no line covers."""
    wrong = DRIVER.replace(
        "main(Path(",
        """
def forgetful(releases, formats):
    pass

_release._hold = forgetful
main(Path(""",
    )
    crashes = crash_everywhere(backup, tmp_path, "parquet", every=9, driver=wrong)
    uncovered = 0
    for crash in crashes:
        dataset = Vault.open(crash / "killed" / ".cornerwave").dataset("people")
        holders = {h.recipient for h in dataset.holdings}
        uncovered += not {n.split(".")[0] for n in visible(crash / "killed")} <= holders
    assert uncovered


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    schema = pa.schema([("x", pa.float64())])
    dead = tmp_path / f".copy.csv.{'0' * 16}.part"
    dead.touch()
    living = tmp_path / f".copy.csv.{'1' * 16}.part"
    strange = tmp_path / ".copy.csv.mine.part"
    strange.touch()
    with living.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with CopyFile(tmp_path / "copy.csv", schema, CopyMetadata()):
            pass
        assert sorted(p.name for p in tmp_path.iterdir()) == [living.name, strange.name]


def test_a_killed_init_leaves_no_vault_that_seems_whole(tmp_path):
    """A key without a ledger is refused by open, and never replaced by create."""
    Vault.create(tmp_path / "v")
    (tmp_path / "v" / "ledger.db").unlink()
    with pytest.raises(LedgerDamaged, match="missing"):
        Vault.open(tmp_path / "v")
    with pytest.raises(VaultExists):
        Vault.create(tmp_path / "v")
    assert [path.name for path in (tmp_path / "v").iterdir()] == ["key"]
