"""A vault with two datasets and a service on loopback."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uvicorn

from cornerwave.access import Sharing
from cornerwave.ledger import now
from cornerwave.server import ClientLimits, application, settings
from cornerwave.vault import Vault
from tests.conftest import new_place
from tests.waiting import until

ROWS = 3000


class Clock:
    """The time, and how much a test has put it forward."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return now() + self.ahead


def odd_table(seed: int = 0) -> pa.Table:
    """A table with types that Delta does not know."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 10**8, ROWS)
    return pa.table(
        {
            "wage": rng.normal(30_000, 8_000, ROWS),
            "city": [f"c{i}" for i in rng.integers(0, 9, ROWS)],
            "visits": pa.array(rng.integers(0, 200, ROWS), pa.uint8()),
            "seen": pa.array(seconds, pa.timestamp("s")),
            "hour": pa.array(rng.integers(0, 86_399, ROWS, dtype=np.int32), pa.time32("s")),
            "tag": pa.array(rng.integers(0, 2**63, ROWS, dtype=np.uint64), pa.uint64()),
        }
    )


@dataclass
class Served:
    """A running service, its vault, and tokens of its recipients."""

    url: str
    sharing: Sharing
    app: Any
    folder: Path
    tokens: dict[str, str]
    clock: Clock

    def client(self, who: str | None = None) -> httpx.Client:
        """A client of a recipient, or of nobody."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}"} if who else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def profile(self, who: str) -> Path:
        """A profile file of a recipient."""
        path = self.folder / f"{who}.share"
        fields = {"shareCredentialsVersion": 1, "endpoint": f"{self.url}/delta-sharing/"}
        path.write_text(json.dumps({**fields, "bearerToken": self.tokens[who]}))
        return path

    @property
    def cached(self) -> list[Path]:
        """The files in the cache."""
        folder = self.folder / "vault" / "cache"
        return [path for path in folder.iterdir() if path.is_file() and path.suffix != ".lock"]

    def logged(self, is_there: Callable[[list[Any]], bool] = bool) -> list[Any]:
        """The access log, the newest line first, as soon as it holds what a test waits for."""
        return until(self.sharing.accesses, is_there)


class Announced(uvicorn.Server):
    """A server that sets an event when it listens, or has failed to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.listens.set()


@contextmanager
def serving(app: Any, limits: ClientLimits | None = None, **more: Any) -> Iterator[str]:
    """Run an application in a thread, with the service's own settings; yield its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, **{**settings(limits), **more})
    server = Announced(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    assert server.listens.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"{'https' if 'ssl_certfile' in more else 'http'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def ledger_place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A place for a new ledger in each database; PostgreSQL's run with the slow tests."""
    return new_place(request, tmp_path)


NAMES = {"wages": "wages.parquet", "open": "open.parquet", "odd table": "odd.parquet"}


def furnish(folder: Path, ledger: str | None = None) -> dict[str, str]:
    """Make a vault with `wages` granted to ann and bob, `odd table` to ann, and one to anybody."""
    vault = Vault.create(folder / "vault", ledger=ledger)
    rng = np.random.default_rng(1)
    pq.write_table(pa.table({"wage": rng.normal(size=ROWS)}), folder / "wages.parquet")
    pq.write_table(pa.table({"age": rng.normal(size=ROWS)}), folder / "open.parquet")
    pq.write_table(odd_table(), folder / "odd.parquet")
    vault.register("wages", folder / "wages.parquet")
    vault.register("open", folder / "open.parquet")
    vault.register("odd table", folder / "odd.parquet", keep=["visits", "seen", "hour", "tag"])
    sharing = Sharing(vault)
    for name in ("ann", "bob", "eve"):
        sharing.add(name)
    tokens = {name: sharing.new_token(name, days=1) for name in ("ann", "bob", "eve")}
    sharing.grant("wages", "ann", privacy=0.5)
    sharing.grant("wages", "bob", privacy=0.9)
    sharing.grant("odd table", "ann", noise=1.0)
    sharing.grant("open", "anybody", privacy=0.9)
    return tokens


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with such a vault, of which tests take copies."""
    folder = tmp_path_factory.mktemp("furnished")
    return folder, furnish(folder)


@pytest.fixture
def served(
    request: pytest.FixtureRequest,
    ledger_place: Path | str,
    tmp_path: Path,
    furnished: tuple[Path, dict[str, str]],
) -> Iterator[Served]:
    """A service with `wages` granted to ann and bob, `odd table` to ann, and one for anybody."""
    marker = request.node.get_closest_marker("service")
    chosen = {"cache_bytes": 10**8, **(marker.kwargs if marker else {})}
    cache_bytes, limits, clock = chosen.pop("cache_bytes"), ClientLimits(**chosen), Clock()
    if "://" in str(ledger_place):
        tokens = furnish(tmp_path, str(ledger_place))
    else:
        shutil.copytree(furnished[0], tmp_path, dirs_exist_ok=True)
        tokens = dict(furnished[1])
    vault = Vault.open(tmp_path / "vault")
    for name, file in NAMES.items():
        vault.dataset(name, source=tmp_path / file).remember_source()
    app = application(vault, cache_bytes=cache_bytes, limits=limits, clock=clock)
    with serving(app, limits) as url:
        yield Served(url, Sharing(vault), app, tmp_path, tokens, clock)
