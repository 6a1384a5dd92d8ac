"""The command: files, page, seeds and refusals."""

import json
import re
import sys
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import pytest
from cornerwave_reproduction import (
    PARTS,
    InputTable,
    Setting,
    _beyond_attacks,
    _fig2,
    duration,
    people,
    reproduce,
)
from cornerwave_reproduction._input_table import cancer, iris
from typer.testing import CliRunner

from cornerwave import cli
from cornerwave.errors import ColumnError, ExtraMissing, NoSuchExperiment, OutputError, SourceError
from tests.experiments.conftest import first_rows

EXACT = ("table2", "fig1", "examples", "theorems", "fig2", "fig3")
"""The quick parts whose numbers depend on the seed alone."""

DOCS = Path(__file__).parents[2] / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def small(setting):
    return replace(setting, table=first_rows(people(), 4_000))


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduction")
    done = []
    results = reproduce(list(PARTS), small, folder, progress=done.append)
    return folder, results, done


@pytest.mark.slow
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


def page_of(folder):
    page = (folder / "index.html").read_text(encoding="utf-8")
    return page.replace("\N{NO-BREAK SPACE}", " ")


def verdicts_of(folder):
    return json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))


def test_the_page_has_every_statement_and_loads_nothing(made):
    folder, results, _ = made
    text = page_of(folder)
    for result in results.values():
        assert escape(result.title) in text
        for statement in result.statements:
            assert escape(statement.claim) in text
            assert escape(statement.measured) in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert not re.search(r"url\(|@import|<script|<link", text)


def test_verdicts_are_written(made):
    folder, results, _ = made
    assert {name: len(found) for name, found in verdicts_of(folder).items()} == {
        name: len(result.statements) for name, result in results.items()
    }


def test_the_docs_list_every_statement(made):
    _, results, _ = made
    rows = re.findall(r"^\| [^|]+ \| (.+?) \| ", DOCS.read_text(encoding="utf-8"), re.M)
    claims = [s.claim for result in results.values() for s in result.statements]
    assert rows[1:] == claims


def test_progress_adds_up(made):
    _, _, done = made
    assert sum(done) == pytest.approx(duration(list(PARTS)))


@pytest.mark.slow
def test_one_seed_gives_the_same_bytes_and_another_does_not(made, small, tmp_path):
    folder, results, _ = made
    reproduce(EXACT, replace(small), tmp_path)
    sections = re.findall(r"<section.*?</section>", page_of(tmp_path), re.S)
    assert len(sections) == len(EXACT)
    assert all(section in page_of(folder) for section in sections)
    assert verdicts_of(tmp_path).items() <= verdicts_of(folder).items()
    files = {path for path in tmp_path.iterdir() if path.suffix in (".png", ".svg", ".csv")}
    assert files
    for path in files:
        assert path.read_bytes() == (folder / path.name).read_bytes()
    other = _fig2.run(replace(small, seed=2))
    assert other.numbers["fig2"] != results["fig2"].numbers["fig2"]


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
    page = page_of(tmp_path / "out")
    assert "1 rows with missing values are left out" in page
    assert "CENSUS" not in page


RUNS = [PARTS[name].run for name in PARTS if name not in ("fig4", "fig5", "beyond")]
"""The parts that run on the given table; with the attacks, which are one of three beyond."""


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.first(1)
def test_every_part_takes_any_number_of_columns(columns, setting):
    rows = np.random.default_rng(1).gamma(2.0, size=(1_000, columns))
    own = InputTable("own", tuple("abc"[:columns]), ("",) * columns, rows)
    few = {"copies": 5, "sample_draws": 2, "timed_rows": 1_000, "leaked_rows": 100}
    small = Setting(own, 1, replace(setting.effort, **few))
    for run in (*RUNS, _beyond_attacks.run):
        for drawing in run(small).drawings:
            drawing.draw().draw_without_rendering()


@pytest.mark.parametrize("package", ["matplotlib", "sklearn"])
def test_without_the_extra_it_says_what_to_install(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith("cornerwave_reproduction")]:
        monkeypatch.delitem(sys.modules, name)
    missing = refusal("--out", tmp_path)
    assert isinstance(missing, ExtraMissing)
    assert package in str(missing)
    assert "pip install 'cornerwave[experiments]'" in str(missing)
    assert issubclass(ExtraMissing, ImportError)


def test_the_shipped_tables():
    assert cancer().rows.shape == (699, 9)
    assert cancer().classes.sum() == 241
    assert cancer().note.startswith("16 missing")
    assert iris().rows.shape == (150, 4)
    assert people().rows.shape == (100_000, 2)
    assert people().rows.mean(axis=0).round(2).tolist() == [46.66, 29.18]


@pytest.mark.slow
def test_the_whole_reproduction_as_people_run_it(tmp_path):
    results = reproduce([*EXACT, "fig4"], Setting(people(), 1), tmp_path)
    verdicts = {s.claim: s.verdict.value for r in results.values() for s in r.statements}
    failing = [claim for claim, verdict in verdicts.items() if verdict == "does not hold"]
    assert len(failing) == 3  # two rows of statistics of other people, and a slip in a constant
