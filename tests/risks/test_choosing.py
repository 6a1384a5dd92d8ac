"""Levels chosen by what copies tell about a person, and rows looked for in real copies."""

import json
import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave import cli
from cornerwave.audit import search_copies
from cornerwave.errors import ColumnError, LevelError, SourceError
from cornerwave.levels import Level
from cornerwave.vault import Vault
from tests.risks.linker import normal_rows


def people(rows=800, columns=8, seed=1):
    rng = np.random.default_rng(seed)
    X = normal_rows(rng, rows, columns, 0.3)
    table = {f"c{i}": column for i, column in enumerate(X.T)}
    table["town"] = [f"t{k}" for k in rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])]
    return pa.table(table)


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run the command line's own main in this process, from a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        capfd.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
            cli.main(list(arguments))
        return Said(int(stop.value.code or 0), *capfd.readouterr())

    return call


@pytest.fixture
def registered(run, tmp_path):
    """A vault with people, and the commands to work with it."""
    papq.write_table(people(), tmp_path / "people.parquet")
    assert run("init").code == 0
    said = run("register", "people", "people.parquet")
    assert said.code == 0
    assert "finds it in a copy" in said.err
    return run


def test_copies_are_released_by_what_they_link(registered):
    run = registered
    asked = ("--to", "ann", "--linked", "0.02", "--out", "ann.parquet")
    assert run("release", "people", *asked).code == 0
    said = run("attack", "ann.parquet", "--truth", "people.parquet", "--link", "--json")
    [found] = json.loads(said.out)
    assert said.code == 0
    assert found["low"] <= 0.02
    assert found["rows"] == 800
    risks = json.loads(run("coalition", "people", "ann", "--json").out)["risks"]
    assert risks["linkage"]["high"] <= 0.02
    assert run("release", "people", "--to", "bob", "--bits", "1.5", "--out", "bob.csv").code == 0
    out = run("coalition", "people", "ann", "bob", "--json").out
    # the coalition's figures are those of its least noisy copy
    assert max(1.5, risks["bits"]) >= json.loads(out)["risks"]["bits"] >= 1.4
    out = run("levels", "people", "--json").out
    shares = [each["risks"]["linkage"]["linked"] for each in json.loads(out)["levels"]]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--linked", "0"), "between 0 and 1"),
        (("--linked", "1e-12"), "noisiest"),
        (("--bits", "-1"), "greater than 0"),
        (("--bits", "1e-9"), "noisiest"),
        (("--linked", "0.1", "--bits", "1"), "not both"),
        (("--linked", "0.1", "--privacy", "0.5"), "one of"),
    ],
)
def test_what_no_level_gives_is_refused(registered, given, why):
    said = registered("release", "people", "--to", "ann", *given)
    assert said.code == 2
    assert why in said.err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--link",), "--truth"),
        (("--known", "c0"), "--link"),
        (("--link", "--truth", "people.parquet", "--known", "nobody"), "nobody"),
        (("--link", "--truth", "people.parquet", "--method", "pca"), "--method"),
    ],
)
def test_rows_are_looked_for_with_what_it_takes(registered, given, why):
    asked = ("--to", "ann", "--privacy", "0.5", "--out", "ann.parquet")
    assert registered("release", "people", *asked).code == 0
    said = registered("attack", "ann.parquet", *given)
    assert said.code == 2
    assert why in said.err


def test_a_grant_is_chosen_by_what_it_links(registered):
    assert registered("recipient", "add", "ann").code == 0
    assert registered("grant", "people", "ann", "--linked", "0.05").code == 0
    both = registered("grant", "people", "ann", "--linked", "0.05", "--noise", "1")
    assert both.code == 2
    assert "one of" in both.err


def test_a_person_tells_more_bits_than_a_row(tmp_path):
    rng = np.random.default_rng(2)
    person = rng.permutation(np.repeat(np.arange(300), 3))
    level = rng.normal(size=300)[person]
    table = pa.table({"who": person, "x": level + rng.normal(size=900), "y": rng.normal(size=900)})
    dataset = Vault.create(tmp_path / "v").register("t", table, unit="who")
    few = Vault.create(tmp_path / "few").register(
        "t", pa.table({"x": rng.normal(size=15)}), few_rows=True
    )
    with pytest.raises(LevelError, match="too few rows"):
        few.level_at_most(linked=0.01)
    risks = dataset.risks_at(dataset.level_at_most(bits=2.0))
    assert risks.bits < risks.person_bits <= 2.0
    assert risks.person_rows == 3


def test_rows_are_found_in_copies_of_any_tool():
    rng = np.random.default_rng(3)
    table = people(600)
    X = np.array([np.asarray(table.column(f"c{i}")) for i in range(8)])
    # white noise in each column, half of the towns swapped, and one column as it is
    Y = X + rng.normal(size=X.shape)
    Y[0] = X[0]
    towns = np.array(table.column("town").to_pylist())
    towns = np.where(rng.random(600) < 0.5, towns, rng.permutation(towns))
    copy = pa.table({**{f"c{i}": y for i, y in enumerate(Y)}, "town": towns})
    [every] = search_copies(table, [copy])
    # who knows the column without noise finds every row
    assert every.linkage.linked == 1.0
    [some] = search_copies(table, [copy], known=[f"c{i}" for i in range(1, 8)] + ["town"])
    [fewer] = search_copies(table, [copy], known=["c1", "c2"])
    assert 1 > some.linkage.linked > 0.05 > fewer.linkage.linked
    with pytest.raises(ColumnError, match="not a column"):
        search_copies(table, [copy], known=["age"])
    with pytest.raises(SourceError, match="at least"):
        search_copies(table.slice(0, 10), [copy.slice(0, 10)])


def test_ranks_gaps_and_kept_columns_are_undone(tmp_path):
    """What registration predicts is what is found in a copy with everything that can be stated."""
    rng = np.random.default_rng(4)
    X = normal_rows(rng, 1200, 6, 0.4)
    X[:, 0] = np.where(rng.random(1200) < 0.5, 0.0, np.exp(X[:, 0]))
    X[rng.random(1200) < 0.1, 1] = np.nan
    table = pa.table({f"c{i}": pa.array(x, from_pandas=True) for i, x in enumerate(X.T)})
    table = table.append_column("town", pa.array([f"t{k}" for k in rng.integers(0, 4, 1200)]))
    table = table.append_column("band", pa.array([f"b{k}" for k in rng.integers(0, 3, 1200)]))
    dataset = Vault.create(tmp_path / "v").register(
        "t", table, keep=["band"], transform={"c0": "rank", "c2": "rank"}
    )
    level = Level.of(privacy=0.4)
    predicted = dataset.risks_at(level).linkage
    copy = dataset.release(to="a", noise=level.noise).to_arrow()
    [found] = search_copies(table, [copy])
    # 4 standard errors of both
    margin = (
        4
        / 1.96
        * np.hypot(found.linkage.high - found.linkage.low, predicted.high - predicted.low)
        / 2
    )
    assert abs(found.linkage.linked - predicted.linked) < margin
    assert margin < predicted.linked
