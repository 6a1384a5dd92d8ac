"""The walks that CONTRIBUTING describes are those that data take.

A walk is there as the modules that data pass, in order. Each command runs here with a trace of
the modules whose functions are entered, in the order of their first call.
"""

import inspect
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import typer.testing

import cornerwave
from cornerwave import cli
from cornerwave.server import application
from cornerwave.vault import Vault
from tests.server.conftest import furnish, serving

PACKAGE = Path(cornerwave.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def walk(name: str) -> list[str]:
    """The modules that CONTRIBUTING lists for a walk."""
    found = re.search(rf"```walk {name}\n(.*?)```", CONTRIBUTING.read_text(), re.S)
    assert found is not None
    return [line.split()[0] for line in found[1].splitlines() if line.strip()]


def passed(work: Callable[[], Any]) -> list[str]:
    """The modules that are entered while something is done, in any thread."""
    first: dict[str, int] = {}

    def note(frame: Any, event: str, _: Any) -> None:
        path, is_function = frame.f_code.co_filename, frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and is_function and path.startswith(str(PACKAGE)):
            module = str(Path(path).relative_to(PACKAGE).with_suffix(""))
            first.setdefault(module.removesuffix("/__init__"), len(first))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(first)


def in_order(modules: list[str], trace: list[str]) -> bool:
    """Whether all modules are in a trace, in this order."""
    rest = iter(trace)
    return all(module in rest for module in modules)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    columns = {"age": rng.integers(18, 90, 2000), "wage": rng.lognormal(8, 1, 2000)}
    columns["city"] = rng.choice(["a", "b", "c"], 2000)
    pa.csv.write_csv(pa.table(columns), "people.csv")


def run(*words: str) -> None:
    result = typer.testing.CliRunner().invoke(cli.app, list(words))
    assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("table")
def test_commands_take_the_walks_that_are_described():
    run("init")
    traces = {
        "register": passed(lambda: run("register", "people", "people.csv")),
        "release": passed(
            lambda: run("release", "people", "--to", "ann", "--privacy", "0.5", "--out", "a.csv")
        ),
        "audit": passed(lambda: run("audit", "people.csv", "a.csv")),
    }
    for name, trace in traces.items():
        assert in_order(walk(name), trace), (name, trace)
        assert not in_order(walk(name)[::-1], trace)


def test_a_download_takes_the_walk_that_is_described(tmp_path):
    token = furnish(tmp_path)["ann"]

    def download() -> None:
        app = application(Vault.open(tmp_path / "vault"), cache_bytes=10**8)
        with serving(app) as url:
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/v1/datasets/wages/copy", headers=headers).status_code == 200

    trace = passed(download)
    assert in_order(walk("download"), trace), trace
