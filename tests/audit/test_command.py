"""The two commands: exit codes, JSON, the page, and no cell of a table anywhere."""

import io
import json
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave import cli
from cornerwave.levels import Level
from cornerwave.vault import write_all
from tests.audit.releases import frame, gaussian, independent, known_dataset

LEVELS = {"low": Level(0.25), "high": Level(4.0)}


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def command(*arguments: object, folder: Path) -> Done:
    """Run the command as a terminal would, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(folder),
        pytest.raises(SystemExit) as end,
    ):
        cli.main(list(map(str, arguments)))
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source, two of our copies of it, and two with noise of their own."""
    folder = tmp_path_factory.mktemp("audit")
    X = gaussian(5000)
    papq.write_table(frame(X), folder / "source.parquet")
    dataset = known_dataset(folder, folder / "source.parquet")
    for kind in ("", "-raw"):  # raw ones are what they seem to be without metadata too
        releases = dataset.release_many(LEVELS, raw=bool(kind))
        write_all([(made, folder / f"{made.recipient}{kind}.parquet") for made in releases])
    for i, copy in enumerate(independent(X, [1.0, 2.0])):
        papq.write_table(frame(copy), folder / f"alone{i}.parquet")
    return folder


def test_honest_copies_exit_0_and_say_so(folder: Path) -> None:
    done = command("audit", "source.parquet", "low.parquet", "high.parquet", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "No coalition gains, and every copy passes" in done.stdout
    assert done.stdout.startswith("No coalition gains")


def test_a_coalition_that_gains_exits_1_and_is_named(folder: Path) -> None:
    done = command("audit", "source.parquet", "alone0.parquet", "alone1.parquet", folder=folder)
    assert done.returncode == 1
    assert "alone0 and alone1 gain by colluding" in done.stdout


def test_a_privacy_that_a_copy_should_have_is_tested(folder: Path) -> None:
    arguments = ["audit", "source.parquet", "alone0.parquet"]
    assert command(*arguments, "--privacy", "0.1", folder=folder).returncode == 0
    done = command(*arguments, "--privacy", "0.9", folder=folder)
    assert done.returncode == 1
    assert "alone0 hides less than it states" in done.stdout


def test_shuffled_copies_are_matched_by_the_vault_that_shuffled_them(tmp_path: Path) -> None:
    rows, rng = 3000, np.random.default_rng(6)
    wage, town = np.sort(rng.gamma(2, 900, rows)), np.sort(rng.choice(["a", "b"], rows))
    papq.write_table(pa.table({"wage": wage, "town": town}), tmp_path / "source.parquet")

    def run(*arguments: object) -> Done:
        return command(*arguments, folder=tmp_path)

    assert run("init").returncode == 0
    assert run("register", "people", "source.parquet", "--shuffle").returncode == 0
    for name, privacy in (("a", 0.3), ("b", 0.6)):
        release = ("release", "people", "--to", name, "--privacy", privacy)
        assert run(*release, "--out", f"{name}.parquet").returncode == 0
    told = run("audit", "source.parquet", "a.parquet", "b.parquet")
    assert told.returncode == 0, told.stdout
    assert "put into the order of the copies of people" in told.stderr
    attacked = run("attack", "a.parquet", "b.parquet", "--truth", "source.parquet")
    [[alone, together]] = errors(attacked)
    assert 0.25 < alone < 0.45  # town tells of it, so there is more noise than for 0.3
    assert abs(alone - together) < 0.01
    # elsewhere it is a question of the vault; matched by position nothing fits
    (tmp_path / ".cornerwave").rename(tmp_path / "kept apart")
    alone_here = run("audit", "source.parquet", "a.parquet")
    assert (alone_here.returncode, "(--key, --vault)" in alone_here.stderr) == (2, True)
    assert run("audit", "source.parquet", "a.parquet", "--vault", "kept apart").returncode == 0
    assert not any((tmp_path / "kept apart" / "work").glob("*"))
    # a copy of another table of this vault is a fault
    other = pa.table({"wage": rng.permutation(wage), "town": town})
    papq.write_table(other, tmp_path / "other.parquet")
    told = run("audit", "other.parquet", "a.parquet", "--vault", "kept apart")
    assert told.returncode == 1


def test_json_holds_everything_and_is_documented(folder: Path) -> None:
    names = ("low.parquet", "high.parquet", "alone0.parquet")
    done = command("audit", "source.parquet", *names, "--json", folder=folder)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert [copy["stated_noise"] for copy in report["copies"]] == [0.25, 4.0, None]
    assert len(report["coalitions"]) == report["coalitions_attacked"] == 4
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    for name in {*report, *report["copies"][0], *report["checks"][0], *report["coalitions"][0]}:
        assert f"`{name}`" in page, f"{name} is not in docs/audit.md"


def test_the_page_stands_alone_and_shows_no_cell(folder: Path) -> None:
    names = ("low.parquet", "high.parquet", "alone0.parquet")
    command("audit", "source.parquet", *names, "--html", "audit.html", folder=folder)
    page = (folder / "audit.html").read_text(encoding="utf-8")
    HTMLParser().feed(page)
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"(src|href)=|url\(|@import|<script", page)
    cells = papq.read_table(folder / "source.parquet").column("age").to_pylist()
    assert not any(f"{cell:.4f}" in page for cell in cells)


def test_a_wrong_level_in_the_metadata_is_caught(folder: Path) -> None:
    table = papq.read_table(folder / "low.parquet")
    told = json.loads(table.schema.metadata[b"cornerwave"]) | {"noise": 0.28}
    wrong = table.replace_schema_metadata({b"cornerwave": json.dumps(told).encode()})
    papq.write_table(wrong, folder / "wrong.parquet")
    done = command("audit", "source.parquet", "wrong.parquet", folder=folder)
    assert done.returncode == 1
    assert "level: states noise 0.28" in done.stdout


def test_a_copy_rounded_to_whole_numbers_exits_0(folder: Path) -> None:
    table = papq.read_table(folder / "low-raw.parquet")
    whole = [pa.array(np.rint(column.to_numpy() * 10).astype(int)) for column in table.columns]
    pacsv.write_csv(pa.table(whole, names=table.column_names), folder / "whole.csv")
    ten = papq.read_table(folder / "source.parquet").to_pandas() * 10
    papq.write_table(pa.table(ten), folder / "ten.parquet")
    done = command("audit", "ten.parquet", "whole.csv", folder=folder)
    assert done.returncode == 0, done.stdout
    assert "rounded to multiples of 1" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["source.parquet", "short.parquet"], "ends after 4,999 rows"),
        (["source.parquet", "other.parquet"], "share no column of numbers"),
        (["source.parquet", "low.parquet", "--key", "nothing"], "no column 'nothing'"),
        (["source.parquet", "notes.md"], "the ending must be one of"),
        (["source.parquet", "text.csv"], "share no column of numbers"),
        (["source.parquet", "text.parquet"], "text.parquet"),
        (["source.parquet", "missing.parquet"], "there is no file"),
        (["source.parquet", "low.parquet", "--html", "no/where.html"], "cannot be written"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    folder: Path, arguments: list[str], words: str
) -> None:
    source = papq.read_table(folder / "source.parquet")
    papq.write_table(source.slice(1), folder / "short.parquet")
    papq.write_table(source.rename_columns(["x", "y", "z"]), folder / "other.parquet")
    for name in ("notes.md", "text.csv", "text.parquet"):
        (folder / name).write_text("Dear all\nthis is no table\n")
    done = command("audit", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def errors(done: Done) -> list[list[float]]:
    rows = re.findall(r"│ (?:age|wage|score) +│ ([\d.]+) +│ ([\d.]+)", done.stdout)
    return [[float(alone), float(together)] for alone, together in rows]


@pytest.mark.parametrize("method", ["llse", "bayes", "learned"])
@pytest.mark.first(1)
def test_attack_gains_on_independent_noise_and_not_on_ours(folder: Path, method: str) -> None:
    arguments = ("--truth", "source.parquet", "--method", method)
    done = command("attack", "low.parquet", "high.parquet", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    assert all(together > alone - 0.02 for alone, together in errors(done))
    noise = ("--noise", 1, "--noise", 2)
    done = command("attack", "alone0.parquet", "alone1.parquet", *noise, *arguments, folder=folder)
    assert len(errors(done)) == 3
    assert all(together < alone - 0.04 for alone, together in errors(done))


@pytest.mark.parametrize("method", ["spectral", "pca"])
def test_filters_run_on_copies(folder: Path, method: str) -> None:
    arguments = ("low.parquet", "--truth", "source.parquet", "--method", method)
    assert len(errors(command("attack", *arguments, folder=folder))) == 3


def test_attack_writes_its_estimate(folder: Path) -> None:
    done = command("attack", "low.parquet", "high.parquet", "--out", "x.parquet", folder=folder)
    assert done.returncode == 0, done.stderr
    X = papq.read_table(folder / "source.parquet").column("age").to_numpy()
    estimate = papq.read_table(folder / "x.parquet").column("age").to_numpy()
    assert ((estimate - X) ** 2).mean() / X.var() == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alone0.parquet"], "does not state its noise"),
        (["low.parquet", "high.parquet", "--noise", "1"], "got 1 noise levels for 2 copies"),
        (["low.parquet", "--method", "bayes"], "learns from rows of the original"),
        (["low.parquet", "--out", "x.txt"], "the ending must be one of"),
    ],
)
def test_attack_refuses_in_one_line(folder: Path, arguments: list[str], words: str) -> None:
    done = command("attack", *arguments, folder=folder)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_attack_takes_csv_copies_in_another_order_by_key(folder: Path) -> None:
    """The same copies by file and by key: the same errors, to the digits that CSV has."""
    keys = pa.array([f"k{i}" for i in range(5000)])
    order = np.random.default_rng(1).permutation(5000)
    for name in ("source", "low", "high"):
        file = name if name == "source" else f"{name}-raw"
        table = papq.read_table(folder / f"{file}.parquet").append_column("id", keys)
        pacsv.write_csv(table.take(order) if name == "high" else table, folder / f"{name}.csv")
    noise = ("--noise", LEVELS["low"].noise, "--noise", LEVELS["high"].noise)
    by_key = ("low.csv", "high.csv", "--truth", "source.csv", "--key", "id", *noise)
    done = command("attack", *by_key, folder=folder)
    assert done.returncode == 0, done.stderr
    raw = ("low-raw.parquet", "high-raw.parquet")
    plain = command("attack", *raw, "--truth", "source.parquet", folder=folder)
    assert errors(done) == errors(plain)
    assert len(errors(done)) == 3
    unaligned = command("attack", *by_key[:4], *noise, folder=folder)
    assert errors(unaligned) != errors(plain)


def test_attack_guesses_categories_and_has_nothing_to_write_of_them(folder: Path) -> None:
    papq.write_table(pa.table({"c": ["x", "y", "x"] * 100}), folder / "words.parquet")
    arguments = ("attack", "words.parquet", "--noise", 3)
    done = command(*arguments, "--truth", "words.parquet", folder=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"c .*66\.7% .*77\.8% .*100\.0% .*100\.0%", done.stdout)
    assert "100.0%" not in command(*arguments, folder=folder).stdout
    done = command(*arguments, "--out", "guesses.parquet", folder=folder)
    assert done.returncode == 2
    assert "share no number to estimate" in done.stderr


def test_the_json_of_categories_is_documented(folder: Path) -> None:
    rng = np.random.default_rng(2)
    table = pa.table({"c": rng.choice(["x", "y", "z"], 3000), "d": rng.choice(["u", "v"], 3000)})
    papq.write_table(table, folder / "words.parquet")
    (folder / "words").mkdir()
    dataset = known_dataset(folder / "words", folder / "words.parquet", number=2)
    for name, level in LEVELS.items():
        dataset.release(to=name, noise=level.noise).write(folder / f"words-{name}.parquet")
    copies = [f"words-{name}.parquet" for name in LEVELS]
    done = command("audit", "words.parquet", *copies, "--json", folder=folder)
    assert done.returncode == 0, done.stdout
    report = json.loads(done.stdout)
    assert report["categories"]["columns"] == ["c", "d"]
    assert [guess["columns"] for guess in report["categories"]["guesses"]] == [["c"], ["d"]]
    assert report["complete_rows"] is report["noise_across_copies"] is None
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    for name in {*report["categories"], *report["categories"]["guesses"][0]}:
        assert f"`{name}`" in page, f"{name} is not in docs/audit.md"
