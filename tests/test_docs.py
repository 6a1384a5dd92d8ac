"""Docs that cannot rot: every command, option and setting stands there, and the blocks run."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from cornerwave import cli

ROOT = Path(__file__).parents[1]
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _commands() -> dict[str, list[str]]:
    group = typer.main.get_command(cli.app)
    return {name: sorted(_options(command)) for name, command in group.commands.items()}


def _options(command: Any) -> set[str]:
    """The options of a command, or of all commands of a group."""
    own = {option for parameter in command.params for option in parameter.opts}
    return own.union(*(_options(part) for part in getattr(command, "commands", {}).values()))


def test_every_command_has_its_section_with_every_option() -> None:
    sections = re.split(r"^## ", COMMANDS, flags=re.MULTILINE)
    for name, options in _commands().items():
        [section] = [text for text in sections if re.match(rf"cornerwave {name}\b", text)]
        for option in options:
            if option.startswith("--"):
                assert f"`{option}" in section, f"{name} {option} is not in docs/commands.md"


def test_no_section_documents_a_command_or_option_that_is_not() -> None:
    sections = re.findall(r"^## cornerwave (\w+)(.*?)(?=^## |\Z)", COMMANDS, re.M | re.S)
    commands = _commands()
    assert {name for name, _ in sections} == set(commands)
    for name, section in sections:
        named = set(re.findall(r"`(--[a-z-]+)", section))
        assert named <= {*commands[name], "--help"}, name


def test_every_setting_is_documented() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for setting in set(re.findall(r"\bCORNERWAVE_[A-Z_]+\b", source)):
        assert f"`{setting}`" in COMMANDS


def test_every_link_leads_somewhere() -> None:
    for page in [*PAGES, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def _blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


LONG = ("python.md", "miner.md")
"""Pages whose blocks run with the slow tests."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if p.name in LONG else ()) for p in PAGES],
    ids=lambda page: page.name,
)
def test_python_blocks_run(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(_blocks(page, "python")):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-W", "error", "-c", block]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def _shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    bin_folder = Path(shutil.which("cornerwave", path=Path(sys.executable).parent) or "").parent
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script.replace(". .venv/bin/activate", ":")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_five_minutes_run(tmp_path: Path) -> None:
    [block] = [b for b in _blocks(ROOT / "README.md", "sh") if "cornerwave init" in b]
    done = _shell(block, tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("partner.parquet", "public.csv.gz", "public.csv.gz.meta.json", "university.arrow"):
        assert (tmp_path / name).is_file()
    assert (tmp_path / "public.csv.gz.dictionary.html").is_file()
    assert "Together they leave" in done.stdout


@pytest.mark.slow
def test_the_blocks_of_the_readme_run_twice_in_one_folder(tmp_path: Path) -> None:
    """Nothing that was made the first time is in the way, or changes; what is changed is kept."""
    shell = [b for b in _blocks(ROOT / "README.md", "sh") if "cornerwave " in b]
    before: dict[str, bytes] = {}
    for _ in range(2):
        for block in shell:
            done = _shell(block, tmp_path)
            assert done.returncode == 0, done.stderr
        for block in _blocks(ROOT / "README.md", "python"):
            command = [sys.executable, "-W", "error", "-c", block]
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        files = {path.name: path.read_bytes() for path in tmp_path.glob("*") if path.is_file()}
        assert not before or files == before
        before = files
    assert "as people; next: cornerwave release people" in _shell(shell[0], tmp_path).stderr
    (tmp_path / "partner.parquet").write_bytes(before["public.csv.gz"])
    assert "already exists" in _shell(shell[0], tmp_path).stderr


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    [phony] = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    for target in phony.split():
        assert re.search(rf"^{target}:.*## ", makefile, re.M), f"make {target} has no help"


def public_names() -> set[tuple[str, str]]:
    """The names that docs/python.md promises to keep."""
    rows = re.findall(r"^\| `(cornerwave[\w.]*)` \| (.*?) \|", python_page(), re.M)
    return {(module, name) for module, names in rows for name in re.findall(r"`(\w+)`", names)}


def python_page() -> str:
    return (ROOT / "docs" / "python.md").read_text()


def test_public_names_exist_and_are_few() -> None:
    names = public_names()
    assert 50 < len(names) <= 150
    for module, name in names:
        assert hasattr(importlib.import_module(module), name), (module, name)


def test_docs_use_public_names_alone() -> None:
    pages = "\n".join(page.read_text() for page in [*ROOT.glob("docs/*.md"), ROOT / "README.md"])
    used = re.findall(r"^from (cornerwave[\w.]*) import (.+)$", pages, re.M)
    assert used
    assert {(room, name) for room, names in used for name in names.split(", ")} <= public_names()


PROOFS = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
PROMISES = re.findall(r"^\| \[(\d+)\]\(#([\w-]+)\).*$", PROOFS, re.M)
ROWS = [line for line in PROOFS.splitlines() if re.match(r"\| \[\d+\]\(#", line)]


def _tests_of(module: str) -> set[str]:
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[-40:])
def test_each_promise_has_a_module_a_test_and_a_control_that_exist(row: str) -> None:
    _, _, kind, built, *tests, _ = (cell.strip() for cell in row.split("|"))
    assert kind in ("proved", "estimated", "tested")
    for module in re.findall(r"`([\w/.]+)`", built):
        assert (ROOT / "src" / "cornerwave" / module).is_file(), module
    [test], [control] = (re.findall(r"`([\w/.]+)::(\w+)`", each) for each in tests)
    assert test != control
    for module, name in (test, control):
        assert name in _tests_of(module), f"{module}::{name}"


def test_all_promises_of_the_security_policy_are_in_the_table_of_proofs() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    promised = policy.partition("## What is promised")[2].partition("\n## ")[0]
    numbers = re.findall(r"^(\d+)\. \*\*", promised, re.M)
    assert numbers == [str(1 + n) for n in range(len(numbers))]
    assert {number for number, _ in PROMISES} == set(numbers)
    headings = {
        re.sub(r"[^\w -]", "", text).lower().replace(" ", "-")
        for text in re.findall(r"^## (.*)$", PROOFS, re.M)
    }
    assert {anchor for _, anchor in PROMISES} <= headings
