"""The data dictionary: made from the copy alone, the same again, and its example runs."""

import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.dictionary import ColumnNote, dictionary_of, write_dictionary
from cornerwave.errors import OutputExists, SourceError
from cornerwave.outputs import read_metadata
from cornerwave.vault import Dataset, Vault
from tests.pages.test_kit import Parsed
from tests.scores import z_bound

ROWS = 4000
NOISE = 1.5


def table() -> pa.Table:
    rng = np.random.default_rng(8)
    age = rng.integers(18, 90, ROWS)
    days = rng.integers(0, 3000, ROWS)
    return pa.table(
        {
            "age": age,
            "height": rng.normal(170, 9, ROWS),
            "it's <wage>": 300.0 + 25 * age + rng.normal(0, 400, ROWS),
            "gain": rng.lognormal(3, 0.5, ROWS),
            "score": rng.gamma(2, 3, ROWS),
            "born": [date.fromordinal(719163 + int(day)) for day in days],
            "seen": [datetime.fromtimestamp(86400 * int(d) + 5) for d in rng.permutation(days)],
            "city": rng.choice(["Ulm", "Bonn", "Jena"], ROWS, p=[0.6, 0.3, 0.1]),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, ROWS)],
            "kept": rng.random(ROWS),
        }
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    vault = Vault.create(tmp_path_factory.mktemp("dictionary") / "vault")
    return vault.register(
        "staff",
        table(),
        transform={"gain": "log1p", "score": "rank"},
        uniform=["sex"],
        keep=["kept"],
    )


@pytest.fixture(scope="module")
def copy(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    release = dataset.release(
        to="Quokka Ltd",
        noise=NOISE,
        round=["age", "born"],
        clip={"age": (0, 120), "born": (date(1969, 1, 1), None)},
        dictionary=True,
    )
    return release.write(tmp_path_factory.mktemp("copies") / "quokka.csv.gz")


@pytest.fixture(scope="module")
def entries(copy: Path) -> dict[str, ColumnNote]:
    return {entry.column: entry for entry in dictionary_of(copy).entries}


def test_it_is_made_from_the_copy_alone(dataset: Dataset, copy: Path, tmp_path: Path) -> None:
    """In a folder with nothing but the copy, under another name: the same bytes, and no names."""
    first = [place.read_bytes() for place in write_dictionary(copy)]
    moved = tmp_path / "x.csv.gz"
    moved.write_bytes(copy.read_bytes())
    with pytest.raises(SourceError, match="states too little"):
        write_dictionary(moved)
    beside = copy.with_name(copy.name + ".meta.json").read_bytes()
    (tmp_path / "x.csv.gz.meta.json").write_bytes(beside)
    second = [place.read_bytes() for place in write_dictionary(moved)]
    assert second == first
    for words in (b"Quokka", b"quokka", b"staff"):
        assert not any(words in text for text in first)


def test_the_same_copy_again_has_the_same_dictionary(
    dataset: Dataset, copy: Path, tmp_path: Path
) -> None:
    [(again, format_)] = dataset.again("Quokka Ltd")
    assert again.spec.dictionary
    path = again.write(tmp_path / f"again.{format_}")
    assert path.read_bytes() == copy.read_bytes()
    for one, other in zip(write_dictionary(copy), write_dictionary(path), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_files_that_say_something_else_stay(copy: Path) -> None:
    page, lines = write_dictionary(copy)
    page.write_text("mine")
    with pytest.raises(OutputExists):
        write_dictionary(copy)
    assert page.read_text() == "mine"
    assert write_dictionary(copy, force=True) == [page, lines]
    assert page.read_text() != "mine"


def test_the_noise_is_in_the_columns_own_units(
    dataset: Dataset, entries: dict[str, ColumnNote]
) -> None:
    """Within five standard errors of a deviation, sqrt(1/2n) (1+v)/v of it, or three digits."""
    margin = 5 * np.sqrt(0.5 / ROWS) * (1 + NOISE) / NOISE + 0.005
    truth = dict(
        zip(dataset.frozen.schema.perturbed, np.diag(dataset.frozen.covariance), strict=True)
    )
    for name in ("height", "it's <wage>", "seen"):
        said = re.fullmatch(r"standard deviation ([\d.,]+)( days)?", entries[name].noise)
        deviation = float(said[1].replace(",", "")) * (86400 if said[2] else 1)
        expected = np.sqrt(NOISE / (1 + NOISE) * truth[name])  # of a copy with the same spread
        assert abs(deviation / expected - 1) < margin
        # the copy's own deviation is another
        assert abs(deviation / np.sqrt(truth[name]) - 1) > margin
    assert entries["gain"].noise.startswith("a factor of ")
    assert "ranks" in entries["score"].noise
    assert entries["city"].noise.startswith("63.2% of the cells retained")
    assert entries["kept"].noise == ""


def test_bounds_steps_and_biases_are_said(entries: dict[str, ColumnNote]) -> None:
    age, born = entries["age"], entries["born"]
    assert (age.lowest, age.highest, age.step) == ("0", "120", "1")
    assert (born.lowest, born.highest, born.step) == ("1969-01-01", "", "1 day")
    assert "biased by an unknown amount" in age.mind
    assert "biased" not in entries["height"].mind
    assert "drawn towards each other" in entries["sex"].mind
    assert "drawn towards" not in entries["city"].mind
    assert entries["score"].use == "copy.original_mean('score'), copy.distribution('score')"
    assert entries["kept"].mind == ""


def test_the_copy_says_it_too_if_asked(dataset: Dataset, copy: Path, tmp_path: Path) -> None:
    told = read_metadata(copy).columns
    assert set(told) == set(table().column_names)
    assert all(told[name].about for name in told)
    plain = dataset.release(to="other", noise=NOISE).write(tmp_path / "plain.parquet")
    asked = dataset.release(to="other", noise=NOISE, dictionary=True)
    inside = asked.write(tmp_path / "asked.parquet")
    assert not any(own.about for own in read_metadata(plain).columns.values())
    for name, own in read_metadata(inside).columns.items():
        assert own.about
        assert replace(own, about=None) == read_metadata(plain).columns[name]
    assert [held.spec.dictionary for held in dataset.holdings if held.recipient == "other"] == [
        False,
        True,
    ]


def test_the_example_runs_as_printed(copy: Path) -> None:
    page = write_dictionary(copy)[0].read_text(encoding="utf-8")
    Parsed(page)
    assert "<wage>" not in page
    program, printed = map(unescape, re.findall("<pre>(.*?)</pre>", page, re.S))
    assert "original" not in program
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == printed
    assert len(printed.splitlines()) == 5  # a mean, a correlation, a slope, a share, a group


@pytest.mark.parametrize(
    "columns",
    [
        {"c": ["a", "b"] * 20},
        {"x": np.arange(3.0)},
        {"when": [date(2020, 1, 1 + i) for i in range(9)]},
    ],
    ids=["a category", "three rows", "a date"],
)
def test_small_tables_have_one(tmp_path: Path, vault: Vault, columns: dict[str, object]) -> None:
    dataset = vault.register("small", pa.table(columns), few_rows=True, keep_order=True)
    path = dataset.release(to="one", noise=5.0, dictionary=True).write(tmp_path / "one.parquet")
    page, lines = write_dictionary(path)
    assert len(lines.read_text(encoding="utf-8").splitlines()) == 2
    Parsed(page.read_text(encoding="utf-8"))


def test_a_copy_on_ranks_alone_has_an_example_that_runs(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    wage = rng.gamma(2.0, 10.0, ROWS)
    vault = Vault.create(tmp_path / "vault")
    dataset = vault.register("staff", pa.table({"wage": wage}), transform={"wage": "rank"})
    copy = dataset.release(to="a", noise=NOISE, dictionary=True).write(tmp_path / "copy.csv")
    made = dictionary_of(copy)
    (tmp_path / "example.py").write_text(made.program)
    done = subprocess.run(
        [sys.executable, tmp_path / "example.py", copy], capture_output=True, text=True, check=True
    )
    assert done.stdout == made.printed
    value, error = map(float, re.findall(r"mean of wage: ([\d.]+) ± ([\d.]+)", done.stdout)[0])
    # of the table's mean the estimate knows more than of the population's
    assert abs(value - wage.mean()) < z_bound(1) * error < 0.5 * wage.std()
