"""Imports point downwards only, as CONTRIBUTING draws them; help loads nothing heavy."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cornerwave

PACKAGE = Path(cornerwave.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


def drawn() -> list[list[str]]:
    """The layers as CONTRIBUTING draws them, lowest first: the rooms of each."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    [block] = re.findall(r"^```layers\n(.*?)^```", text, re.M | re.S)
    return [line.split("#")[0].split() for line in block.splitlines()][::-1]


LAYERS = drawn()
DEPTH = {room: depth for depth, layer in enumerate(LAYERS) for room in layer}
# Who has no key must not even import one: recipients, auditors, attackers.
SECRET = {"vault", "ledger", "spine", "engines"}
KEYLESS = {"attack", "miner", "audit", "privacy", "risks"}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(source, name):
    """(room, module) of everything of the package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source, name)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            module = node.module or ""
            # `from cornerwave import x` names a room, `from cornerwave.x import y` is one
            modules = [f"{module}.{a.name}" for a in node.names] if "." not in module else [module]
        else:
            continue
        found |= {(m.split(".")[1], m) for m in modules if m.startswith("cornerwave.")}
    return found


def modules():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def forbidden(room, imported):
    """What a room may not import: what is not below it, a key if it has none, private modules."""
    others = {(to, module) for to, module in imported if to != room}
    upwards = {to for to, _ in others if DEPTH[to] >= DEPTH[room]}
    keys = {to for to, _ in others if room in KEYLESS and to in SECRET}
    # a room may have a private name, as _core has; its modules are private to it
    private = {module for _, module in others if "._" in module.removeprefix("cornerwave._")}
    return upwards | keys | private


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    imported = imports_of(path.read_text(encoding="utf-8"), str(path))
    assert forbidden(room_of(path), imported) == set()


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("noise", "from cornerwave.ledger import Key"),
        ("levels", "import cornerwave.moments"),
        ("columns", "def f():\n    from cornerwave import spine"),
        ("attack", "from cornerwave.ledger import Ledger"),
        ("miner", "from cornerwave.vault import Vault"),
        ("vault", "from cornerwave.cli import main"),
        ("spine", "from cornerwave.noise._stream import WhiteStreams"),
        ("noise", "from cornerwave._core._portable import fill_normals"),
        ("spine", "from cornerwave.engines import local"),
    ],
)
def test_an_import_that_points_elsewhere_is_found(room, line):
    assert forbidden(room, imports_of(line, "example"))


def test_every_room_is_drawn_once():
    found = {room_of(path) for path in modules()}
    drawn_rooms = [room for layer in LAYERS for room in layer]
    assert sorted(drawn_rooms) == sorted(found)


def test_no_two_modules_and_no_two_classes_have_one_name():
    names = [path.name for path in modules() if path.name != "__init__.py"]
    assert len(names) == len(set(names))
    classes = re.findall(r"^class (\w+)", "\n".join(p.read_text("utf-8") for p in modules()), re.M)
    assert len(classes) == len(set(classes))


def test_array_types_are_defined_once():
    alias = re.compile(r"^\w+ = NDArray\[", re.M)
    found = [p.name for p in modules() if alias.search(p.read_text(encoding="utf-8"))]
    assert found == ["arrays.py"]


WHOLE_PROCESS = re.compile(r"catch_warnings|simplefilter|showwarning|excepthook|setrecursionlimit")
"""What changes how a whole process works, in all of its threads."""


def test_the_command_line_alone_changes_what_a_process_shares():
    changing = {
        room_of(path) for path in modules() if WHOLE_PROCESS.search(path.read_text("utf-8"))
    }
    assert changing == {"cli"}


def test_the_library_names_no_option_of_the_command_line():
    """Option names belong to the command line; in messages they are texts with two dashes."""
    option = re.compile(r"(?<![\w-])--[a-z]")
    for path in modules():
        if room_of(path) == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not option.search(node.value), f"{path.name}:{node.lineno}"


def test_every_public_name_resolves():
    for name in cornerwave.__all__:
        assert getattr(cornerwave, name) is not None
    assert set(cornerwave._HOMES) | {"__version__"} == set(cornerwave.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cornerwave.nonsense  # noqa: B018


HEAVY = (
    "numpy",
    "pyarrow",
    "sqlite3",
    "psycopg",
    "cryptography",
    "pandas",
    "polars",
    "narwhals",
)


def modules_after(statement):
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def loaded_by(statement):
    return {name.split(".")[0] for name in modules_after(statement)} & set(HEAVY)


@pytest.mark.parametrize("module", ["cornerwave", "cornerwave.cli", "cornerwave.levels"])
def test_nothing_heavy_is_loaded_by(module):
    assert loaded_by(f"import {module}") == set()


def test_heavy_modules_are_seen_when_loaded():
    assert {"numpy", "cryptography"} <= loaded_by(
        "from cornerwave import parallel; parallel([[1.0], [2.0]], noise=[1.0])"
    )


def test_a_vault_is_opened_without_what_only_some_commands_need():
    needless = {"narwhals", "scipy", "pyspark", "cornerwave.audit", "cornerwave.miner"}
    assert modules_after("import cornerwave.vault").isdisjoint(needless)
    assert "cornerwave.miner" in modules_after("import cornerwave.dictionary")


def test_researchers_need_no_tables_and_no_ledger():
    assert loaded_by(
        "from cornerwave import parallel; parallel([[1.0], [2.0]], noise=[1.0])"
    ).isdisjoint({"pyarrow", "sqlite3"})
