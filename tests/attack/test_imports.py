"""The adversary has no key: what the attack package imports, and what that imports."""

import ast
import subprocess
import sys
from pathlib import Path

import cornerwave.attack

FORBIDDEN = ("cornerwave.vault", "cornerwave.ledger", "cornerwave.server", "cornerwave.cli")


def test_nothing_of_the_owner_is_imported() -> None:
    listing = "import sys, cornerwave.attack; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in loaded if name.startswith(FORBIDDEN)] == []
    assert not any(name.startswith("sklearn") for name in loaded)  # only when learning


def test_nothing_of_the_owner_is_named() -> None:
    for path in Path(cornerwave.attack.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not any(name.startswith(FORBIDDEN) for name in names), path.name
