"""After a power loss: what was said to be done is there, and what left is in the ledger."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.ledger import Ledger
from cornerwave.outputs import CopyFile, folder_at
from cornerwave.spec import CopyMetadata
from cornerwave.vault import Vault
from tests.disk import Disk

FULL, EXTRA = 2, 3


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def test_a_file_that_is_only_renamed_is_not_kept(disk, tmp_path):
    """The negative control: what the tests below look for is seen."""
    part, path = tmp_path / "x.part", tmp_path / "x"
    part.write_text("content")
    part.replace(path)
    assert not disk.keeps(path)
    part.write_text("content")
    with part.open() as file:
        os.fsync(file.fileno())
    part.replace(tmp_path / "y")  # synced, renamed, but not its name
    assert not disk.keeps(tmp_path / "y")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    assert disk.keeps(tmp_path / "y")
    assert not disk.keeps(path)  # its content came after its name, if at all


def test_init_brings_the_vault_and_all_directories_above_it_to_the_disk(disk, tmp_path):
    vault = Vault.create(tmp_path / "new" / "deep" / "vault")
    assert disk.keeps(vault.path / "key")
    for place in (vault.path / "ledger.db", vault.path, *vault.path.parents[:2]):
        assert disk.keeps_name(place)


def test_a_copy_in_a_file_is_kept(disk, tmp_path, vault, people):
    pq.write_table(people, tmp_path / "people.parquet")
    dataset = vault.register(
        "people", tmp_path / "people.parquet", key="id", shuffle=True, few_rows=True
    )
    for ending in ("parquet", "csv"):
        path = dataset.release(to="ann", privacy=0.5).write(tmp_path / f"ann.{ending}")
        assert disk.keeps(Path(path))
    assert disk.keeps(tmp_path / "ann.csv.meta.json")


def test_a_copy_that_machines_wrote_is_kept(disk, tmp_path):
    table = pa.table({"x": [1.0, 2.0]})
    with folder_at(tmp_path / "copy", table.schema, CopyMetadata()) as folder:
        files = []
        for number in range(3):
            with CopyFile(folder.made / f"{number}.parquet", table.schema, CopyMetadata()) as file:
                file.write(table)
                file.finish()
                files.append(file.hand_over())
        folder.take(files)
        folder.finish()
        folder.publish()
    assert len(list((tmp_path / "copy").iterdir())) == 3
    assert disk.keeps(tmp_path / "copy")


def test_a_batch_is_kept_before_the_ledger_names_it(disk, tmp_path, vault, monkeypatch):
    random = np.random.default_rng(5)
    batches = [
        pa.table({"id": np.arange(500) + 500 * n, "x": random.normal(size=500)}) for n in range(3)
    ]
    dataset = vault.register("x", batches[0], key="id")
    true, kept = Ledger.add_edition, []

    def add_edition(self, *given, **more):
        kept.append([disk.keeps(path) for path in sorted((tmp_path / "a" / "b").iterdir())])
        return true(self, *given, **more)

    monkeypatch.setattr(Ledger, "add_edition", add_edition)
    list(dataset.append_all(batches[1:], folder=tmp_path / "a" / "b"))
    assert kept == [[True], [True, True]]
    assert disk.keeps_name(tmp_path / "a")


def test_a_commit_returns_when_its_journal_is_gone_from_the_disk_too(vault):
    """FULL syncs the content alone: the journal may come back, and undoes the commit."""
    with vault._ledger._database.writing() as connection:
        assert connection.run("PRAGMA synchronous") == [(EXTRA,)]
    with vault._ledger._database.reader() as reader:  # the control
        assert reader.run("PRAGMA synchronous") == [(FULL,)]


RELEASE = """
import sys
from pathlib import Path
from cornerwave.vault import Vault
folder = Path(sys.argv[1])
dataset = Vault.open(folder / "vault").dataset("x")
dataset.release(to="ann", privacy=0.5).write(folder / "ann.parquet")
"""


def can_trace() -> bool:
    strace = shutil.which("strace")
    return bool(strace) and subprocess.run([strace, "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_trace(), reason="strace is missing, or may not trace here")
def test_the_system_is_asked_in_this_order(tmp_path):
    """The ledger's line is on the disk, journal and all, before the copy has its name."""
    vault = Vault.create(tmp_path / "vault")
    random = np.random.default_rng(6)
    pq.write_table(pa.table({"x": random.normal(size=500)}), tmp_path / "x.parquet")
    vault.register("x", tmp_path / "x.parquet")
    calls = "trace=fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat"
    traced = tmp_path / "calls"
    tracer = ["strace", "-f", "-y", "-o", traced, "-e", calls]
    subprocess.run([*tracer, sys.executable, "-c", RELEASE, str(tmp_path)], check=True)
    lines = traced.read_text().splitlines()

    def last(pattern: str) -> int:
        return max((at for at, line in enumerate(lines) if re.search(pattern, line)), default=-1)

    shown = last(r"rename.*ann\.parquet")
    content = last(r"fsync\(\d+<[^>]*\.ann\.parquet\.\w+\.part>")
    committed = last(r"unlink.*ledger\.db-journal")
    forgotten = last(rf"f(data)?sync\(\d+<{re.escape(str(tmp_path / 'vault'))}>")
    named = last(rf"fsync\(\d+<{re.escape(str(tmp_path))}>")
    assert -1 < content < shown
    assert -1 < committed < forgotten < shown < named
