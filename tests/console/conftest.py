"""A vault with a small table and two recipients, served, and a browser that is signed in."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI

from cornerwave.access import FIRST, Owners, Sharing
from cornerwave.server import SignIn, application, first_link
from cornerwave.vault import Dataset, Vault
from tests.console.client import TestClient
from tests.server.conftest import Clock

PASSWORD = "a password for tests"
LOCAL = "http://127.0.0.1:8000"
FROM_HERE = {"sec-fetch-site": "same-origin"}
ROWS = 400
QUICK = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
"""Hashes passwords of tests with little work; one test looks at the real parameters."""


def table(seed: int = 0) -> pa.Table:
    """Two columns of numbers, one of cities and one of names that nobody may see."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, ROWS)
    return pa.table(
        {
            "age": age,
            "wage": 20_000 + 300.0 * age + rng.normal(0, 9_000, ROWS),
            "city": rng.choice(["Ulm", "Bonn", "Kiel"], ROWS),
            "name": [f"SECRET-{i:04d}" for i in range(ROWS)],
        }
    )


@dataclass(frozen=True)
class World:
    """All that a test of the console needs."""

    vault: Vault
    sharing: Sharing
    people: Dataset
    tables: Path
    app: FastAPI
    clock: Clock

    def browser(self, base_url: str = LOCAL, peer: str = "127.0.0.1") -> TestClient:
        """Return a client that nobody has signed in with, at the address of a peer."""
        return TestClient(
            self.app,
            base_url=base_url,
            headers=FROM_HERE,
            follow_redirects=False,
            client=(peer, 50_000),
        )


@pytest.fixture(scope="session")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a vault in which a table is registered; tests take a copy of the vault."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "tables").mkdir()
    pq.write_table(table(), folder / "tables" / "people.parquet")
    vault = Vault.create(folder / "vault")
    vault.register("people", folder / "tables" / "people.parquet", drop=["name"], few_rows=True)
    sharing = Sharing(vault)
    for name in ("partner", "university"):
        sharing.add(name)
    return folder


@pytest.fixture
def world(tmp_path: Path, registered: Path) -> Iterator[World]:
    shutil.copytree(registered, tmp_path, dirs_exist_ok=True)
    vault = Vault.open(tmp_path / "vault")
    clock, tables = Clock(), tmp_path / "tables"
    app = application(vault, cache_bytes=10**8, allowed=[tables], clock=clock)
    app.state.sign_in = SignIn(vault, clock=clock, hasher=QUICK)
    yield World(vault, Sharing(vault), vault.dataset("people"), tables, app, clock)
    app.state.service.close()


def sign_in(world: World, browser: TestClient) -> TestClient:
    """Set the password by the first link, or sign in with it."""
    link = first_link(world.vault, LOCAL)
    if link is None:
        answer = browser.post("/console/sign-in", data={"password": PASSWORD})
    else:
        [secret] = parse_qs(urlsplit(link).query)["link"]
        fields = {"link": secret, "password": PASSWORD, "again": PASSWORD}
        answer = browser.post("/console/welcome", data=fields)
    assert answer.status_code == 303, answer.text
    return browser


def sign_in_as(world: World, name: str, role: str) -> TestClient:
    """Add an owner, who sets a password by a link; return the browser they have done so with."""
    browser, secret = world.browser(), Owners(world.vault.under(FIRST)).add(name, role=role)
    fields = {"link": secret, "password": PASSWORD, "again": PASSWORD}
    assert browser.post("/console/welcome", data=fields).status_code == 303
    return browser


@pytest.fixture
def owner(world: World) -> TestClient:
    return sign_in(world, world.browser())


@pytest.fixture
def outside_writer() -> Callable[[World], None]:
    """Changes a line of the ledger, as who can write to its file could."""

    def write(world: World) -> None:
        with sqlite3.connect(world.vault.path / "ledger.db") as ledger:
            [table] = [
                name
                for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type='table'")
                if "line" in name
            ]
            ledger.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")

    return write
