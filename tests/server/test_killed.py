"""Kill -9: of the service while it makes, keeps, records and sends a copy; of PostgreSQL too."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.access import Sharing
from cornerwave.errors import VaultError
from cornerwave.server import application
from cornerwave.vault import Vault
from tests import postgresql
from tests.server.conftest import serving
from tests.waiting import until

COPY = "/v1/datasets/wages/copy"
DRIVER = """
import os, signal, sys
from pathlib import Path
import uvicorn
from cornerwave.access import Sharing
from cornerwave.vault import Dataset, Vault
from cornerwave.server import ClientLimits, application, settings
from cornerwave.outputs import CopyFile

folder, where, when = sys.argv[1:]
limits = ClientLimits(chunk_bytes=1000, check_seconds=-1)  # each piece that is sent is checked
seams = {
    "making": (CopyFile, "append"),
    "finished": (CopyFile, "publish"),
    "caching": (Path, "replace"),
    "recording": (Dataset, "hold"),
    "sending": (Sharing, "permitted_by"),
}
holder, name = seams[where]
true, calls = getattr(holder, name), []

def deadly(*given, **more):
    calls.append(name)
    first = where != "sending" or len(calls) == 4
    if first and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = true(*given, **more)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

setattr(holder, name, deadly)
app = application(Vault.open(folder), cache_bytes=10**8, limits=limits)
config = uvicorn.Config(app, host="127.0.0.1", port=0, **settings())

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)

Server(config).run()
"""


@pytest.fixture
def owned(ledger_place, tmp_path):
    """A vault whose only copy was granted to ann; and her token."""
    place = str(ledger_place) if "://" in str(ledger_place) else None
    vault = Vault.create(tmp_path / "vault", ledger=place)
    values = np.random.default_rng(1).normal(size=3000)
    pq.write_table(pa.table({"wage": values}), tmp_path / "wages.parquet")
    vault.register("wages", tmp_path / "wages.parquet")
    sharing = Sharing(vault)
    sharing.add("ann")
    sharing.grant("wages", "ann", privacy=0.5)
    return vault, {"Authorization": f"Bearer {sharing.new_token('ann', days=1)}"}


SEAMS = [
    ("sending", "before", True),
    *(
        pytest.param(*each, marks=pytest.mark.slow)
        for each in (
            ("making", "before", False),
            ("making", "after", False),
            ("finished", "before", False),
            ("finished", "after", False),
            ("caching", "before", False),
            ("caching", "after", False),
            ("recording", "before", False),
            ("recording", "after", True),
            ("sending", "after", True),
        )
    ),
]


@pytest.mark.parametrize(("where", "when", "held"), SEAMS)
def test_a_killed_service_leaves_nothing_wrong_and_the_next_one_goes_on(
    owned, tmp_path, where, when, held, counted
):
    vault, carried = owned
    command = [sys.executable, "-c", DRIVER, str(vault.path), where, when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with pytest.raises(httpx.TransportError):  # never an answer that looks complete
            httpx.get(f"http://127.0.0.1:{port}{COPY}", headers=carried, timeout=60)
        assert process.wait() == -signal.SIGKILL
    assert [each.recipient for each in vault.dataset("wages").holdings] == ["ann"] * held
    with serving(application(vault, cache_bytes=10**8)) as url:
        got = httpx.get(f"{url}{COPY}", headers=carried, timeout=60)
    [(release, format_)] = vault.dataset("wages").again("ann")
    assert got.content == release.write(tmp_path / f"direct.{format_}").read_bytes()
    left = [path for path in (vault.path / "cache").rglob("*") if path.is_file()]
    assert {path.suffix for path in left} == {".parquet", ".lock"}
    counted("kills")


@pytest.mark.slow
def test_postgresql_is_killed_during_grants(tmp_path, counted):
    """What was acknowledged is there; what was not is there whole, or not at all."""
    with postgresql.server() as database:
        place = database.place(more="&options=-csynchronous_commit%3Don")
        vault = Vault.create(tmp_path / "vault", ledger=place)
        pq.write_table(
            pa.table({"wage": np.random.default_rng(1).normal(size=500)}), tmp_path / "w.parquet"
        )
        vault.register("wages", tmp_path / "w.parquet")
        sharing, done = Sharing(vault), []
        names = [f"r{i}" for i in range(40)]
        for name in names:
            sharing.add(name)
        postmaster = int((database.folder / "data" / "postmaster.pid").read_text().split()[0])
        killer = threading.Timer(0.5, os.kill, (postmaster, signal.SIGKILL))
        killer.start()
        with pytest.raises(VaultError):
            _grant_for_ever(sharing, names, done)
        killer.join()
        with pytest.raises(VaultError, match=r"no connection|connection was lost|stopping"):
            sharing.grants()
        _start_again(database.folder)
        live = [each for each in sharing.grants() if each.revoked is None]
        acknowledged = set(done)
        assert acknowledged <= {each.recipient for each in live}
        assert len(live) - len(acknowledged) in (0, 1)  # nobody has two, at most one is unsaid
        vault.check_since(vault.heads())
    counted("kills")


def _grant_for_ever(sharing, names, done):
    for name in itertools.cycle(names):
        sharing.grant("wages", name, privacy=0.5)
        done.append(name)


def _start_again(folder: Path) -> None:
    until(lambda: _starts(folder))  # the killed server's children take a moment to go


def _starts(folder: Path) -> bool:
    data = folder / "data"
    (data / "postmaster.pid").unlink(missing_ok=True)
    options = f"-c unix_socket_directories={folder} -c listen_addresses="
    try:
        postgresql._call("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
    except subprocess.CalledProcessError:
        return False
    return True
