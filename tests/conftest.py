"""Fixtures that more than one module of tests uses."""

import gc
import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import settings

# Tests run side by side: threads of one estimator would wait for each other, busily.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from cornerwave import columns
from cornerwave.choices import Choices
from cornerwave.engines.local import survey_table
from cornerwave.ledger import Key
from cornerwave.noise import available_threads
from cornerwave.sources import open_source
from cornerwave.spine.freeze import freeze
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.rows import RowSecrets
from cornerwave.spine.survey import Survey, Surveyor
from cornerwave.vault import Vault
from tests import postgresql

if TYPE_CHECKING:
    from tests.stores import Bucket

# The first example compiles, or reads compiled code: no example is judged by its time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many tests run at once: many wait for a disk or a child half of the time."""
    return available_threads() + 1


@dataclass(frozen=True)
class FrameKind:
    """A library of frames: its class, and the way from and to Arrow."""

    type: type
    of: Callable[[pa.Table], Any]
    to_arrow: Callable[[Any], pa.Table]


FRAME_KINDS = {
    "pandas": FrameKind(
        pd.DataFrame,
        lambda table: table.to_pandas(),
        lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    ),
    "polars": FrameKind(pl.DataFrame, pl.from_arrow, lambda frame: frame.to_arrow()),
    "pyarrow": FrameKind(pa.Table, lambda table: table, lambda table: table),
}


@pytest.fixture(params=FRAME_KINDS)
def frame_kind(request: pytest.FixtureRequest) -> FrameKind:
    return FRAME_KINDS[request.param]


@pytest.fixture(autouse=True)
def _no_vault_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CORNERWAVE_VAULT", raising=False)
    monkeypatch.delenv("CORNERWAVE_KEY_FILE", raising=False)


_FROM_THE_SYSTEM = Key.generate


def _same_keys(name: str, patch: pytest.MonkeyPatch) -> None:
    """Give fresh keys that are the same whenever what has this name runs.

    Of honest copies an audit alarms with probability ALPHA: by its keys a test passes or does not.
    Slow tests have others each time, and find what one key does not.
    """
    number = count()

    def fresh() -> Key:
        return Key(hashlib.sha256(f"{name} {next(number)}".encode()).digest())

    patch.setattr(Key, "generate", staticmethod(fresh))


@pytest.fixture(autouse=True, scope="module")
def _keys_of_the_module(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        _same_keys(request.node.nodeid, patch)
        yield


@pytest.fixture(autouse=True)
def _keys_of_the_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("slow") is None:
        _same_keys(request.node.nodeid, monkeypatch)
    else:
        monkeypatch.setattr(Key, "generate", staticmethod(_FROM_THE_SYSTEM))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave what is there once all tests are known to itself: it lives as long as they run."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let it be collected again: a library that finds its objects left at the end says so."""
    gc.unfreeze()


FEW_ROWS = 800
"""Rows of a table that the adversary of registration looks at: a quarter is attacked."""


@pytest.fixture(autouse=True, scope="module")
def _an_adversary_of_few_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let registration attack few rows: most tables of tests take it longer than all the rest.

    But where a module is about what this adversary recovers: it states `ADVERSARY = True`.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "ADVERSARY", False):
            patch.setattr("cornerwave.spine.adversary.USED", FEW_ROWS)
        yield


@pytest.fixture
def at_a_time(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set how much is handled at a time, by the names of `cornerwave.sizes`."""

    def use(**chosen: int) -> None:
        for name, value in chosen.items():
            monkeypatch.setattr(f"cornerwave.sizes.{name}", value)

    return use


LONG_ON_POSTGRESQL = {"test_crash", "test_concurrency", "test_processes", "test_tampering"}
"""Modules whose tests on PostgreSQL run with the slow ones; others keep it in every run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases = Counter[str]()
    for item in items:
        if "postgresql" in item.name and item.path.stem in LONG_ON_POSTGRESQL:
            item.add_marker(pytest.mark.slow)
        if first := item.get_closest_marker("first"):
            of = item.nodeid.partition("[")[0]
            cases[of] += 1
            if cases[of] > first.args[0]:
                item.add_marker(pytest.mark.slow)
    # the longest of all first, or it runs alone at the end
    items.sort(key=lambda item: item.path.stem != "test_docs")


Counted = Callable[..., None]
COUNTED = {
    "kills": "processes killed, and nothing lost",
    "races": "races between owners, processes or requests",
    "inputs": "damaged inputs that were refused in words, or read",
    "honest": "honest releases audited",
    "schemes": "copies of schemes that must fail the audit, and do",
}
"""What tests count, in the words of docs/testing.md."""


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Counted:
    """Count what a test tries, `counted("kills", 7)`: a run prints sums over those that pass."""

    def add(what: str, number: int = 1) -> None:
        request.node.user_properties.append((COUNTED[what], number))

    return add


def pytest_terminal_summary(terminalreporter: Any) -> None:
    sums = Counter[str]()
    for report in terminalreporter.stats.get("passed", ()):
        for what, number in report.user_properties if report.when == "call" else ():
            sums[what] += number
    for what in COUNTED.values():
        if sums[what]:
            terminalreporter.write_line(f"{sums[what]:,} {what}")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.Server]:
    with postgresql.server() as server:
        yield server


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    from tests import stores

    with stores.s3_server() as endpoint:
        yield endpoint


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> "Bucket":
    """A fresh bucket in a server that speaks S3."""
    from tests import stores

    return stores.fresh_bucket(s3, monkeypatch)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A place for a new ledger, in each database."""
    return new_place(request, tmp_path)


def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A place for a new ledger, in the database that a fixture is asked for."""
    if request.param == "sqlite":
        return tmp_path / "ledger.db"
    server: postgresql.Server = request.getfixturevalue("postgresql_server")
    return server.fresh()


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault.create(tmp_path / ".cornerwave")


@pytest.fixture
def people() -> pa.Table:
    return make_people(300)


def make_people(rows: int, seed: int = 7) -> pa.Table:
    """A table with whole numbers, decimals with gaps, and an identifier for each row."""
    random = np.random.default_rng(seed)
    age = random.integers(18, 90, rows)
    wage = np.round(300 + 25.5 * age + random.normal(0, 400, rows), 2)
    height = pa.array(np.round(random.normal(170, 9, rows), 1), mask=random.random(rows) < 0.05)
    return pa.table(
        {"id": [f"p{row}" for row in range(rows)], "age": age, "wage": wage}
    ).add_column(3, "height", height)


@pytest.fixture
def untouched(tmp_path: Path) -> Callable[[], Any]:
    """A context in which no file may appear, vanish or change, and no line of the ledger."""

    @contextmanager
    def context() -> Iterator[None]:
        before = state(tmp_path)
        yield
        assert state(tmp_path) == before

    return context


def state(folder: Path) -> dict[str, Any]:
    """Every file below a folder, hidden ones too; of a ledger its lines."""
    return {
        str(path.relative_to(folder)): _content(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _content(path: Path) -> Any:
    if path.name != "ledger.db":
        return path.read_bytes()
    try:
        return ledger_lines(path)
    except sqlite3.DatabaseError:
        return path.read_bytes()


def ledger_lines(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def edit_ledger(path: Path, *statements: str) -> None:
    """Change a ledger from outside, as nobody should."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def survey_of(table: Any, secret: Key, /, **choices: Any) -> tuple[Surveyor, Survey]:
    """The survey of a table, given the owner's choices by name."""
    source = open_source(table)
    secrets = RowSecrets.of(secret.derive)
    return survey_table(source, decide(source.schema, **choices), secrets)


def freeze_table(table: Any, secret: Key, /, **choices: Any) -> Frozen:
    """What is frozen of a table, given the owner's choices by name."""
    return freeze(*survey_of(table, secret, **choices), open_source(table).schema)


def decide(types: pa.Schema, **choices: Any) -> columns.Schema:
    """The roles of columns, given the owner's choices by name."""
    return columns.decide(types, Choices.of(**choices))
