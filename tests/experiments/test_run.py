"""The command: files, page, seeds and refusals."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from typer.testing import CliRunner

from cornerwave import cli
from cornerwave.errors import (
    ColumnError,
    ExtraMissing,
    NoSuchExperiment,
    OutputError,
    SourceError,
)
from cornerwave.experiments import run, tables
from cornerwave.experiments.setting import QUICK, Setting

EXACT = ("table2", "fig1", "examples", "theorems", "fig2", "fig3")
"""The quick parts whose numbers depend on the seed alone."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    done = []
    small = Setting(tables.people().head(4_000), 1, replace(QUICK, timed_rows=2_000))
    results = run.reproduce(list(run.PARTS), small, folder, progress=done.append)
    return folder, results, done


def test_every_figure_and_number_is_written(made):
    folder, results, _ = made
    for result in results.values():
        for drawing in result.drawings:
            assert (folder / f"{drawing.name}.png").read_bytes().startswith(b"\x89PNG")
            assert b"<svg" in (folder / f"{drawing.name}.svg").read_bytes()
            assert len((folder / f"{drawing.name}.svg").read_bytes()) > 10_000
        for name, columns in result.numbers.items():
            lines = (folder / f"{name}.csv").read_text().splitlines()
            assert len(lines) == 1 + len(next(iter(columns.values())))


def test_the_page_has_every_statement_and_loads_nothing(made):
    folder, results, _ = made
    text = (folder / "index.html").read_text(encoding="utf-8")
    for result in results.values():
        assert escape(result.title) in text
        for statement in result.statements:
            assert escape(statement.claim) in text
            assert escape(statement.measured) in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert not re.search(r"url\(|@import|<script|<link", text)


def test_verdicts_are_written(made):
    folder, results, _ = made
    verdicts = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    assert {name: len(found) for name, found in verdicts.items()} == {
        name: len(result.statements) for name, result in results.items()
    }


def test_progress_adds_up(made):
    _, _, done = made
    assert sum(done) == pytest.approx(run.duration(list(run.PARTS)))


def files_of(folder, seed):
    setting = Setting(tables.people().head(3_000), seed, replace(QUICK, timed_rows=1_000))
    run.reproduce(EXACT, setting, folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_one_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    once, again, other = (
        files_of(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert once == again
    assert once["fig2.csv"] != other["fig2.csv"]


def refusal(*arguments):
    result = CliRunner().invoke(cli.app, ["reproduce", *map(str, arguments)])
    assert result.exception is not None
    assert "\n" not in str(result.exception)
    return result.exception


def test_refusals(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    table = tmp_path / "table.csv"
    table.write_text("a,b,c\n" + "".join(f"{i},{i * i % 7},t{i}\n" for i in range(200)))
    short = tmp_path / "short.csv"
    short.write_text("a\n1\n2\n")
    assert isinstance(refusal("fig9", "--out", tmp_path), NoSuchExperiment)
    assert isinstance(refusal("examples", "--out", file), OutputError)
    assert isinstance(refusal("fig1", "--out", tmp_path, "--data", table), ColumnError)
    assert isinstance(refusal("fig1", "--columns", "a"), ColumnError)
    for columns, error in (("a,z", ColumnError), ("a,c", ColumnError), ("a,a", ColumnError)):
        given = ("--data", table, "--columns", columns)
        assert isinstance(refusal("fig1", "--out", tmp_path, *given), error)
    given = ("--data", short, "--columns", "a")
    assert isinstance(refusal("fig1", "--out", tmp_path, *given), SourceError)


def test_a_table_of_ones_own(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text("a,b\n" + "".join(f"{i % 13},{(i * i) % 17}\n" for i in range(500)) + ",1\n")
    given = ["--data", str(table), "--columns", "a, b", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(cli.app, ["reproduce", "table2", *given])
    assert result.exit_code == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "1 rows with missing values are left out" in page
    assert "CENSUS" not in page


@pytest.mark.parametrize("columns", [1, 3])
def test_every_part_takes_any_number_of_columns(columns, tmp_path):
    rows = np.random.default_rng(1).gamma(2.0, size=(1_000, columns))
    own = tables.Table("own", tuple("abc"[:columns]), ("",) * columns, rows)
    setting = Setting(own, 1, replace(QUICK, timed_rows=1_000, sample_draws=2))
    parts = [name for name in run.PARTS if name not in ("fig4", "fig5")]
    assert set(run.reproduce(parts, setting, tmp_path)) == set(parts)


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_without_the_extra_it_says_what_to_install(package, tmp_path):
    code = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"sys.argv = ['cornerwave', 'reproduce', '--out', {str(tmp_path)!r}]; "
        "from cornerwave.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'cornerwave[experiments]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert issubclass(ExtraMissing, ImportError)


def test_the_shipped_tables():
    cancer, iris, people = tables.cancer(), tables.iris(), tables.people()
    assert cancer.rows.shape == (699, 9)
    assert cancer.classes.sum() == 241
    assert cancer.note.startswith("16 missing")
    assert iris.rows.shape == (150, 4)
    assert people.rows.shape == (100_000, 2)
    assert people.rows.mean(axis=0).round(2).tolist() == [46.66, 29.18]


@pytest.mark.slow
def test_the_whole_reproduction_as_people_run_it(tmp_path):
    setting = Setting(tables.people(), 1)
    results = run.reproduce([*EXACT, "fig4"], setting, tmp_path)
    verdicts = {s.claim: s.verdict.value for r in results.values() for s in r.statements}
    failing = [claim for claim, verdict in verdicts.items() if verdict == "does not hold"]
    assert len(failing) == 3  # two rows of statistics of other people, and a slip in a constant
