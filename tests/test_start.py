"""What each command loads: most of its time and memory with a small table.

One table of packages and rooms: a command that loads anything else fails here.
"""

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.test_architecture import DEPTH

# Writes what is loaded when the command ends, however it ends.
RUN = """
import atexit, json, pathlib, sys
path, *sys.argv = sys.argv[1:]
atexit.register(lambda: pathlib.Path(path).write_text(json.dumps(sorted(sys.modules))))
from cornerwave import cli
{before}
cli.main()
"""

# dateutil and cloudpickle are loaded by pyarrow where they are installed, shellingham by Typer.
PACKAGES = (
    "typer annotated_doc shellingham numpy pyarrow dateutil six cloudpickle cryptography "
    "_cffi_backend threadpoolctl"
)

# Rooms up to `columns` are small, and may all be loaded, but for those that few commands need.
LOW = {room for room, depth in DEPTH.items() if depth <= DEPTH["columns"]}
LOW -= {"algorithms", "documents"}
FILES = "cli sources spec outputs"
OWNER = f"{FILES} schema_file privacy risks reuse ledger spine editions engines vault"

# command: packages beside PACKAGES; rooms beside LOW
MAY_LOAD = {
    "init": ("", OWNER),
    "register": ("", f"{OWNER} access outlook attack"),  # attack: how much its adversary recovers
    "release": ("", f"{OWNER} access"),
    "run": ("", f"{OWNER} access project attack"),  # it registers, too
    "ledger": ("rich", f"{OWNER} documents"),
    "coalition": ("rich", f"{OWNER} documents"),
    "levels": ("rich", f"{OWNER} documents outlook audit attack miner"),
    "inspect": (
        "narwhals",
        f"{FILES} inspection outlook audit attack miner privacy risks reuse spine",
    ),
    # its own estimators take SciPy, which loads what names encodings where that is installed
    "audit": ("rich scipy charset_normalizer", f"{OWNER} documents audit attack"),
    "fetch": ("", f"{FILES} miner"),
}
ARGUMENTS = {
    "init": "",
    "register": "people people.csv",
    "release": "people --to ann --privacy 0.3 --to bob --privacy 0.6 --out .",
    "run": "",
    "ledger": "people",
    "coalition": "people ann bob",
    "levels": "people",
    "inspect": "people.csv",
    "audit": "people.csv people-ann.parquet people-bob.parquet",
    "fetch": "ann.share --out fetched.parquet",
}


PROJECT = """
recipients = ["ann"]
[[table]]
name = "people"
source = "people.csv"
[[table.copy]]
to = "ann"
privacy = 0.3
out = "ann.csv"
"""


def loaded(folder: Path, command: str, *, before: str = "") -> set[str]:
    """Run a command as a user does, and return the modules that it has loaded."""
    given = [command, *ARGUMENTS[command].split()]
    code = [sys.executable, "-c", RUN.format(before=before), "loaded.json", "cornerwave", *given]
    run = subprocess.run(code, cwd=folder, capture_output=True, text=True)
    assert run.returncode in ((0, 2) if command == "fetch" else (0,)), run.stderr
    return set(json.loads((folder / "loaded.json").read_text()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a table, and a profile of a service that does not answer."""
    folder = tmp_path_factory.mktemp("start")
    random = np.random.default_rng(1)
    numbers, towns = random.normal(size=(600, 2)), random.choice(["x", "y", "z"], size=600)
    lines = [f"{a:.4f},{b:.4f},{town}" for (a, b), town in zip(numbers, towns, strict=True)]
    (folder / "people.csv").write_text("\n".join(["wage,age,town", *lines, ""]))
    (folder / "cornerwave.toml").write_text(PROJECT)
    profile = {"endpoint": "http://127.0.0.1:9/", "bearerToken": "x", "shareCredentialsVersion": 1}
    (folder / "ann.share").write_text(json.dumps(profile))
    return folder


@pytest.fixture(scope="module")
def modules(folder) -> dict[str, set[str]]:
    """The modules that each command loads, one after the other in one vault."""
    return {command: loaded(folder, command) for command in MAY_LOAD}


@pytest.mark.parametrize("command", MAY_LOAD)
def test_a_command_loads_what_it_may_and_nothing_else(modules, command):
    packages, rooms = (set(listed.split()) for listed in MAY_LOAD[command])
    ours = {"cornerwave", "_editable_skbc_cornerwave", "_distutils_hack"}
    installed = packages_distributions().keys() - ours
    top = {name.split(".")[0] for name in modules[command]}
    assert (top & installed) - packages <= set(PACKAGES.split())
    used = {name.split(".")[1] for name in modules[command] if name.startswith("cornerwave.")}
    assert used - LOW <= rooms


def test_what_is_loaded_is_seen(modules):
    """The control: these are installed, and would be seen."""
    assert all(find_spec(name) for name in ("pandas", "sklearn", "polars", "psycopg"))
    assert {"numpy", "pyarrow", "cornerwave.vault"} <= modules["release"]


def test_pyarrow_would_load_pandas(modules, folder):
    """The control: unless that is prevented, the first array loads it."""
    before = "cli._leave_out_pandas = lambda: None"
    assert "pandas" in loaded(folder, "levels", before=before)
    assert "pandas" not in modules["levels"]


def test_pandas_is_there_for_what_asks_for_it():
    code = (
        "import sys, pyarrow as pa\n"
        "from cornerwave import cli\n"
        "cli._leave_out_pandas()\n"
        "table = pa.table({'x': [1, 2]})\n"
        "assert 'pandas' not in sys.modules\n"
        "assert pa.Table.from_pandas(table.to_pandas()).equals(table)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
