"""Imports point one way, and the command line's help loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cornerwave

PACKAGE = Path(cornerwave.__file__).parent

# Each room with the rooms that it may import; rooms that are not here may import anything.
FOUNDATION = {"levels", "errors", "version"}
NUMERIC = FOUNDATION | {"moments", "noise"}
ALLOWED = {
    "errors": set(),
    "version": set(),
    "webpage": set(),
    "levels": {"errors"},
    "moments": FOUNDATION,
    "noise": FOUNDATION,
    "algorithms": NUMERIC,
    "table": NUMERIC,
    "audit": NUMERIC | {"table", "attack", "miner", "webpage"},
    "adversary": NUMERIC | {"table", "attack", "audit"},
    "vault": NUMERIC | {"table"},
    "rows": NUMERIC | {"table", "vault"},
    "register": NUMERIC | {"table", "vault", "rows"},
    "missing": NUMERIC | {"table", "vault"},
    "release": NUMERIC | {"table", "vault", "rows", "missing"},
    "inspection": NUMERIC | {"table"},
    "dataset": NUMERIC | {"table", "vault", "rows", "release", "audit"},
    "owner": NUMERIC | {"table", "vault", "rows", "register", "dataset"},
    "report": NUMERIC | {"table", "vault", "dataset", "audit", "miner", "webpage"},
}
SECRET = {"vault", "owner", "dataset", "release", "register", "rows", "missing"}
NEVER = {"attack": SECRET, "miner": SECRET, "audit": SECRET, "adversary": SECRET}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(source, name):
    """The rooms of the package that a module imports, anywhere in it."""
    rooms = set()
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("cornerwave.")}
    return rooms


def modules():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def forbidden(room, imported):
    imported = imported - {room}
    outside = imported - ALLOWED[room] if room in ALLOWED else set()
    return outside | (imported & NEVER.get(room, set()))


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    imported = imports_of(path.read_text(encoding="utf-8"), str(path))
    assert forbidden(room_of(path), imported) == set()


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("noise", "from cornerwave.vault import Key"),
        ("levels", "import cornerwave.moments"),
        ("table", "def f():\n    from cornerwave import release"),
        ("attack", "from cornerwave.vault.ledger import Ledger"),
        ("miner", "from cornerwave.owner import Vault"),
        ("owner", "from cornerwave.cli import main"),
    ],
)
def test_an_import_that_points_back_is_found(room, line):
    assert forbidden(room, imports_of(line, "example"))


def test_every_room_is_known():
    """A new room must be placed: in ALLOWED, or among those at the edge."""
    edge = {"cli", "demo", "attack", "miner", "experiments", "engines", "server", "__main__"}
    found = {room_of(path) for path in modules()}
    assert found - edge <= set(ALLOWED)


def test_every_public_name_resolves():
    for name in cornerwave.__all__:
        assert getattr(cornerwave, name) is not None
    assert set(cornerwave._HOMES) | {"__version__"} == set(cornerwave.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cornerwave.nonsense  # noqa: B018


HEAVY = ("numpy", "numba", "pyarrow", "sqlalchemy", "cryptography", "pandas", "polars", "narwhals")


def loaded_by(statement):
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in run.stdout.split()} & set(HEAVY)


@pytest.mark.parametrize("module", ["cornerwave", "cornerwave.cli", "cornerwave.levels"])
def test_nothing_heavy_is_loaded_by(module):
    assert loaded_by(f"import {module}") == set()


def test_heavy_modules_are_seen_when_loaded():
    assert {"numpy", "numba"} <= loaded_by("from cornerwave import parallel")


def test_researchers_need_no_tables_and_no_ledger():
    assert loaded_by("from cornerwave import parallel").isdisjoint({"pyarrow", "sqlalchemy"})
