"""Copies for the owner alone: in the vault, in a folder that does not outlive its process."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import VaultError
from cornerwave.ledger import remove_leftovers, work_folder
from cornerwave.report import report_document
from cornerwave.vault import Vault
from tests.conftest import Counted

KILLED = """
import os, signal, sys
from cornerwave.vault import Vault
from cornerwave.report import _comparison, write_report

dataset = Vault.open(sys.argv[1]).dataset("people")
if sys.argv[2] == "report":
    _comparison.look = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    write_report(dataset, sys.argv[1] + "/../page.html")
batches = dataset.release(to="bob", privacy=0.5).batches()
next(batches)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    papq.write_table(pa.table({"x": rng.normal(size=200)}), tmp_path / "people.parquet")
    dataset = Vault.create(tmp_path / "v").register(
        "people", tmp_path / "people.parquet", few_rows=True
    )
    dataset.release(to="ann", privacy=0.5).write(tmp_path / "ann.parquet")
    return tmp_path


@pytest.mark.parametrize("work", ["report", "batches"])
@pytest.mark.first(1)
def test_what_a_killed_process_leaves_is_private_and_removed_by_the_next(
    folder: Path, work: str, counted: Counted
) -> None:
    elsewhere = folder / "tmp"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder / "v"), work],
        env={**os.environ, "TMPDIR": str(elsewhere)},
    )
    assert done.returncode == -signal.SIGKILL
    assert not list(elsewhere.iterdir())
    [left] = (folder / "v" / "work").iterdir()
    assert [path.suffix for path in left.iterdir()] == [".arrow"]
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    assert stat.S_IMODE(left.parent.stat().st_mode) == 0o700
    Vault.open(folder / "v")
    assert not left.exists()
    counted("kills")


def test_the_folder_of_a_living_process_stays(tmp_path: Path) -> None:
    home = tmp_path / "work"
    with work_folder(home) as first:
        (first / "copy").write_text("x")
        with work_folder(home) as second:
            remove_leftovers(home)
            assert sorted(home.iterdir()) == sorted([first, second])
        assert (first / "copy").exists()
    assert not home.exists()


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "0123456789abcdef").symlink_to(tmp_path / "elsewhere")
    remove_leftovers(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_batches_and_reports_leave_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "mkdtemp", lambda *_, **__: pytest.fail("a copy elsewhere"))
    dataset = Vault.open(folder / "v").dataset("people")
    batches = dataset.release(to="bob", privacy=0.5).batches()
    next(batches)
    assert (folder / "v" / "work").exists()
    batches.close()
    report_document(dataset)
    assert not (folder / "v" / "work").exists()


def test_a_vault_without_room_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(VaultError, match="no folder can be made"), work_folder(tmp_path / "work"):
        pass
