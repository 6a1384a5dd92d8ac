"""Linked tables: several tables of the same persons have one noise, and are released together."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import (
    AlreadyRegistered,
    ColumnError,
    CornerwaveWarning,
    OutputError,
    OutputExists,
    SourceChanged,
    SourceError,
    VaultError,
)
from cornerwave.ledger import Key
from cornerwave.levels import Level
from cornerwave.miner import LinkedCopy
from cornerwave.outputs import linked_files
from cornerwave.privacy import hidden_of_persons
from cornerwave.sources import open_source
from cornerwave.spine import linked as linked_module
from cornerwave.vault import Vault

PERSONS = 1500


def clinic(persons=PERSONS, seed=1):
    """Patients and their visits: risk is what costs of a person are about."""
    rng = np.random.default_rng(seed)
    level, other = rng.normal(size=(2, persons))
    build = 0.8 * level + 0.6 * other
    names = np.array([f"P{i:05d}" for i in range(persons)])
    patients = pd.DataFrame(
        {
            "patient": names,
            "height": np.round(170 + 9 * rng.normal(size=persons), 1),
            "risk": np.round(50 + 10 * level, 3),
            "bmi": np.round(25 + 4 * build, 3),
            "sex": np.where(rng.random(persons) < 0.5, "f", "m"),
        }
    )
    who = np.repeat(np.arange(persons), 1 + rng.poisson(5, persons))
    rows = len(who)
    visits = pd.DataFrame(
        {
            "visit": np.arange(rows),
            "patient": names[who],
            "day": np.round(rng.uniform(0, 1000, rows), 1),
            "cost": np.round(100 + 20 * (0.9 * level[who] + 0.3 * rng.normal(size=rows)), 2),
            "height": patients["height"].to_numpy()[who],
            "sex": patients["sex"].to_numpy()[who],
            "ward": rng.choice(list("abcd"), rows),
        }
    )
    return patients, visits.sample(frac=1, random_state=2).reset_index(drop=True)


CHOICES = {"unit": "patient", "key": "visit", "drop": ["day"]}


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    home = tmp_path_factory.mktemp("linked")
    tables = dict(zip(("patients", "visits"), clinic(), strict=True))
    for name, table in tables.items():
        table.to_csv(home / f"{name}.csv", index=False)
    vault = Vault.create(home / "vault", key=Key(bytes(range(32))))
    places = {name: home / f"{name}.csv" for name in tables}
    return home, vault, vault.register_linked("clinic", places, **CHOICES), tables


@pytest.fixture(scope="module")
def copies(registered):
    home, _, linked, tables = registered
    linked.release(to="university", privacy=0.5).write(home / "copy")
    made = {n: papq.read_table(home / "copy" / f"{n}.parquet").to_pandas() for n in tables}
    return tables, made


def left(truth, features, person):
    """The share of the variance that a regression learned from other persons leaves."""
    x = np.column_stack([np.ones(len(truth)), features])
    fold, residuals = person % 5, np.empty(len(truth))
    for k in range(5):
        some = fold != k
        residuals[~some] = truth[~some] - x[~some] @ np.linalg.lstsq(x[some], truth[some])[0]
    return residuals.var() / truth.var()


def together(tables, made):
    """What copies show of each person: their row, and the means of their visits."""
    person = pd.Series(np.arange(len(tables["patients"])), tables["patients"]["patient"])
    of_visit = person[tables["visits"]["patient"]].to_numpy()
    counts = np.bincount(of_visit)
    mean = np.bincount(of_visit, made["visits"]["cost"]) / counts
    own = made["patients"][["height", "risk", "bmi"]].to_numpy(float)
    return np.column_stack([own, mean, mean / counts, 1 / counts]), of_visit


def test_copies_of_all_tables_together_hide_what_is_promised_of_each(copies):
    tables, made = copies
    features, of_visit = together(tables, made)
    persons = np.arange(len(features))
    tolerance = 3 * np.sqrt(2 / len(features))  # of a variance of so many persons
    for name in ("height", "risk", "bmi"):
        truth = tables["patients"][name].to_numpy(float)
        assert left(truth, features, persons) > 0.5 - tolerance
    cost = tables["visits"]["cost"].to_numpy(float)
    seen = np.column_stack([made["visits"]["cost"], features[of_visit]])
    assert left(cost, seen, of_visit) > 0.5 - tolerance


def test_a_noisier_copy_of_all_tables_adds_nothing(registered, copies):
    home, _, linked, _ = registered
    tables, better = copies
    linked.release(to="public", privacy=0.8).write(home / "public")
    worse = {n: papq.read_table(home / "public" / f"{n}.parquet").to_pandas() for n in tables}
    (alone, _), (noisier, _) = together(tables, better), together(tables, worse)
    persons = np.arange(len(alone))
    # three standard errors of the share that four more regressors explain by chance
    chance = 3 * np.sqrt(2 * 4) / len(alone) + 4 / len(alone)
    for name in ("height", "risk", "bmi"):
        truth = tables["patients"][name].to_numpy(float)
        both = left(truth, np.column_stack([alone, noisier[:, :4]]), persons)
        assert both > left(truth, alone, persons) - chance
    # control: noise of its own in the second copy is averaged away
    truth = tables["patients"]["height"].to_numpy(float)
    other = truth[:, None] + truth.std() * np.random.default_rng(6).normal(size=(len(truth), 1))
    assert left(truth, np.column_stack([alone, other]), persons) < 0.4


def test_tables_with_noise_of_their_own_would_not(copies, registered, tmp_path):
    *_, tables = registered
    made = {}
    for name, table in tables.items():
        vault = Vault.create(tmp_path / name, key=Key(bytes([len(name)] * 32)))
        if name == "patients":  # one row each: no unit
            data = vault.register(name, table.drop(columns="patient"))
        else:
            data = vault.register(name, table.drop(columns="sex"), **CHOICES)
        made[name] = data.release(to="a", privacy=0.5).to_frame()
    features, _ = together(tables, made)
    risk = tables["patients"]["risk"].to_numpy(float)
    assert left(risk, features, np.arange(len(risk))) < 0.42


@pytest.mark.slow
def test_the_computed_promise_sees_what_linked_tables_reveal(registered, monkeypatch):
    """With noise of persons that is independent from table to table, as a control."""
    found = {}

    def hidden(rows):
        found.update(hidden_of_persons(rows))
        return hidden_of_persons(rows)

    monkeypatch.setattr("cornerwave.privacy._joint.hidden_of_persons", hidden)
    honest = linked_module.linked_noise

    def apart(tables):
        noises, begun = honest(tables), 0
        paths = sum(each.person.shape[2] for each in noises.values())
        for name, each in noises.items():
            person = np.zeros((*each.person.shape[:2], paths))
            person[:, :, begun : begun + each.person.shape[2]] = each.person
            begun += each.person.shape[2]
            noises[name] = replace(each, person=person)
        return noises

    monkeypatch.setattr("cornerwave.vault._families.linked_noise", apart)
    home, vault, _, _ = registered
    places = {name: home / f"{name}.csv" for name in ("patients", "visits")}
    half = Level(1.0).thousandths - 1
    vault.register_linked(
        "apart", places, **CHOICES, unrelated=["clinic.patients", "clinic.visits"]
    )
    assert found["risk"][half] < 0.42
    assert found["bmi"][half] < 0.48
    monkeypatch.setattr("cornerwave.vault._families.linked_noise", honest)
    vault.register_linked("clinic", places, **CHOICES)
    assert min(found[name][half] for name in ("risk", "bmi", "cost")) > 0.485


def test_pseudonyms_join_and_what_tables_repeat_is_the_same_in_both(copies):
    tables, made = copies
    joined = made["visits"].merge(made["patients"], on="patient", suffixes=("", "_of_patient"))
    assert len(joined) == len(tables["visits"])
    assert (joined["height"] == joined["height_of_patient"]).all()
    assert (joined["sex"] == joined["sex_of_patient"]).all()  # one donor for a person
    changed = (made["patients"]["sex"] != tables["patients"]["sex"]).mean()
    assert 0.08 < changed < 0.22  # 1 - 1/sqrt(2) are replaced, half of these by the same value


@pytest.mark.parametrize("order", [("patients", "visits"), ("visits", "patients")])
@pytest.mark.first(1)
def test_ranks_that_tables_repeat_are_those_among_persons(tmp_path, order):
    """Tall patients come often: by rows, the knots of visits lie elsewhere."""
    rng = np.random.default_rng(8)
    names = np.array([f"P{i:05d}" for i in range(400)])
    height = np.round(170 + 9 * rng.normal(size=400), 2)
    who = np.repeat(np.arange(400), np.where(height > 175, 9, 2))
    visits = pd.DataFrame(
        {"patient": names[who], "height": height[who], "cost": rng.normal(size=len(who))}
    ).sample(frac=1, random_state=1, ignore_index=True)
    both = {
        "patients": pd.DataFrame(
            {"patient": names, "height": height, "bmi": height / 7 + rng.normal(size=400)}
        ),
        "visits": visits,
    }
    vault = Vault.create(tmp_path / "vault", key=Key(bytes(range(32))))
    linked = vault.register_linked(
        "clinic",
        {table: both[table] for table in order},
        unit="patient",
        transform={"height": "rank"},
        few_rows=True,
    )
    release = linked.release(to="a", noise=1.0, raw=True)
    made = {table: release[table].to_frame() for table in order}
    joined = made["visits"].merge(made["patients"], on="patient", suffixes=("", "_of_patient"))
    assert len(joined) == len(visits)
    assert (joined["height"] == joined["height_of_patient"]).all()
    assert (made["patients"]["height"] != both["patients"]["height"]).mean() > 0.9
    # the control: what each table would have by itself
    knots = {}
    for table, alone in both.items():
        one = Vault.create(tmp_path / table, key=Key(bytes(range(32))))
        chosen = {"unit": "patient"} if table == "visits" else {"drop": ["patient"]}
        data = one.register(table, alone, transform={"height": "rank"}, few_rows=True, **chosen)
        knots[table] = data.frozen.scales[0].knots
    assert knots["patients"] != knots["visits"]


def test_the_same_tables_are_the_same_datasets_and_copies(registered, tmp_path):
    home, vault, linked, tables = registered
    places = {name: home / f"{name}.csv" for name in tables}
    again = vault.register_linked("clinic", places, **CHOICES)
    assert [each.id for each in again.tables.values()] == [
        each.id for each in linked.tables.values()
    ]
    one = linked.release(to="b", privacy=0.3).write(tmp_path / "one.zip")
    [copy] = vault.linked("clinic").again("b")
    two = copy.write(tmp_path / "two.zip")
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        assert sorted(archive.namelist()) == [
            "patients.csv",
            "patients.csv.meta.json",
            "visits.csv",
            "visits.csv.meta.json",
        ]
        stated = json.loads(archive.read("visits.csv.meta.json"))
    assert stated["privacy"] >= 0.3
    with pytest.raises(OutputExists):
        linked.release(to="b", privacy=0.3).write(tmp_path / "one.zip")


def test_a_duckdb_file_has_all_tables(registered, tmp_path):
    import duckdb

    _, _, linked, tables = registered
    made = linked.release(to="c", privacy=0.4).write(tmp_path / "copy.duckdb")
    with duckdb.connect(str(made), read_only=True) as connection:
        [(joined,)] = connection.sql(
            "SELECT count(*) FROM visits JOIN patients USING (patient)"
        ).fetchall()
    assert joined == len(tables["visits"])


@pytest.mark.slow
def test_a_schema_of_postgresql_has_all_tables_or_none(registered, postgresql_server, tmp_path):
    _, vault, linked, tables = registered
    where = postgresql_server.fresh()
    linked.release(to="d", privacy=0.4).write(f"{where}#shared")
    for name in tables:
        assert "patient" in open_source(f"{where}#shared.{name}").schema.names
    copies = LinkedCopy.open(f"{where}#shared")  # all of one snapshot
    linked.release(to="d", privacy=0.4).write(tmp_path / "copy.zip")
    same = LinkedCopy.open(tmp_path / "copy.zip")
    assert list(copies) == list(same)
    for name in tables:
        assert copies[name].mean().value == pytest.approx(same[name].mean().value)
    of_server, of_file = (c.joined("visits", "patients").mean() for c in (copies, same))
    assert of_server["cost"].value == pytest.approx(of_file["cost"].value)
    for place, words in ((where, "name the schema"), (f"{where}#other", "not a copy of linked")):
        with pytest.raises(SourceError, match=words):
            LinkedCopy.open(place)
    with pytest.raises(OutputExists):
        linked.release(to="d", privacy=0.4).write(f"{where}#shared")
    changed = tables["visits"].copy()
    changed.loc[0, "cost"] += 1.0
    other = vault.linked("clinic", sources={"visits": changed})
    with pytest.raises(SourceChanged, match="registered table"):
        other.release(to="nobody", privacy=0.5).write(f"{where}#other")
    with pytest.raises(SourceError):  # patients were complete, and are gone with the rest
        open_source(f"{where}#other.patients")


def test_nothing_appears_of_a_release_that_fails(registered, tmp_path):
    _, vault, _, tables = registered
    changed = tables["visits"].copy()
    changed.loc[0, "cost"] += 1.0
    linked = vault.linked("clinic", sources={"visits": changed})
    for place in ("copy", "copy.zip", "copy.duckdb"):
        with pytest.raises(SourceChanged, match="registered table"):
            linked.release(to="nobody", privacy=0.5).write(tmp_path / place)
    assert list(tmp_path.iterdir()) == []
    assert all(held.recipient != "nobody" for held in linked["patients"].holdings)


def test_only_a_copy_is_replaced_and_never_the_tables(registered, tmp_path):
    home, _, linked, _ = registered
    copy, place = linked.release(to="e", privacy=0.5), tmp_path / "copy"
    copy.write(place)
    copy.write(place, force=True)
    (place / "thesis.txt").write_text("mine")
    with pytest.raises(OutputExists, match=r"other files, such as thesis\.txt"):
        copy.write(place, force=True)
    assert (place / "thesis.txt").read_text() == "mine"
    with pytest.raises(OutputExists, match="not such a copy"):
        copy.write(_folder(tmp_path), force=True)
    with pytest.raises(OutputError, match="registered table"):
        copy.write(home / "visits.csv", force=True)
    assert (home / "visits.csv").is_file()


def _folder(home):
    (home / "a.zip").mkdir()
    return home / "a.zip"


def test_rows_that_come_have_the_noise_of_their_persons(tmp_path):
    patients, visits = clinic(persons=400)
    vault = Vault.create(tmp_path / "vault", key=Key(bytes(range(32))))
    early, late = visits.iloc[: len(visits) // 2], visits.iloc[len(visits) // 2 :]
    linked = vault.register_linked(
        "clinic", {"patients": patients, "visits": early}, **CHOICES, few_rows=True
    )
    made = linked["visits"].release(to="a", noise=1.0).to_frame()
    linked["visits"].append(late)
    grown = linked["visits"].release(to="a", noise=1.0).to_frame()
    columns = ["cost", "height", "sex", "ward"]
    assert grown[columns].iloc[: len(early)].equals(made[columns])
    of_patients = linked["patients"].release(to="a", noise=1.0).to_frame()
    joined = grown.merge(of_patients, on="patient", suffixes=("", "_of_patient"))
    assert (joined["height"] == joined["height_of_patient"]).all()


def test_again_is_the_very_copy_by_edition_and_kind(tmp_path):
    patients, visits = clinic(persons=150)
    vault = Vault.create(tmp_path / "vault", key=Key(bytes(range(32))))
    early, late = visits.iloc[: len(visits) // 2], visits.iloc[len(visits) // 2 :]
    linked = vault.register_linked(
        "clinic", {"patients": patients, "visits": early}, **CHOICES, few_rows=True
    )
    linked.release(to="a", noise=1.0).write(tmp_path / "1.zip")
    linked["visits"].append(late)
    linked.release(to="a", noise=1.0).write(tmp_path / "2.zip")
    linked.release(to="a", noise=1.0, raw=True).write(tmp_path / "3", format="csv")
    linked["visits"].release(to="a", noise=1.0).write(tmp_path / "alone.csv")
    held = linked.again("a")
    assert [each.kind for each in held] == ["zip", "zip", "folder"]
    for number, copy in enumerate(held, start=1):
        again = tmp_path / f"again {number}{'.zip' if copy.kind == 'zip' else ''}"
        copy.write(again)
        first = tmp_path / again.name.removeprefix("again ")
        for one, two in zip(*(_files(place) for place in (first, again)), strict=True):
            assert one.read_bytes() == two.read_bytes()
    assert len(linked.again("a")) == 3  # nothing new was written down


def _files(place):
    return sorted(place.iterdir()) if place.is_dir() else [place]


def test_linked_tables_are_renamed_all_or_none(tmp_path):
    patients, visits = clinic(persons=120)
    vault = Vault.create(tmp_path / "vault")
    linked = vault.register_linked(
        "clinic", {"patients": patients, "visits": visits}, **CHOICES, few_rows=True
    )
    values = np.random.default_rng(4).normal(size=120)
    vault.register("ward.visits", pd.DataFrame({"other": values}), few_rows=True)
    with pytest.raises(AlreadyRegistered, match=r"'ward\.visits' already"):
        linked.rename("ward")
    names = ["clinic.patients", "clinic.visits", "ward.visits"]
    assert [each.name for each in vault.datasets()] == names
    linked.rename("hospital")
    assert list(vault.linked("hospital")) == ["patients", "visits"]
    assert linked["visits"].name == "hospital.visits"


def test_persons_without_a_row_in_the_parent_are_refused_unless_they_may_be(tmp_path):
    patients, visits = clinic(persons=300)
    vault = Vault.create(tmp_path / "vault")
    tables = {"patients": patients.iloc[50:], "visits": visits}
    with pytest.raises(ColumnError, match=r"50 of 300 persons looked at in 'visits' have no row"):
        vault.register_linked("clinic", tables, **CHOICES, few_rows=True)
    assert vault.datasets() == []
    linked = vault.register_linked("clinic", tables, **CHOICES, few_rows=True, orphans=True)
    copy = linked.release(to="a", privacy=0.5)
    sexes = copy["visits"].to_frame()["sex"]
    assert set(sexes) <= {"f", "m"}


def test_bad_input_is_refused_in_a_line_and_nothing_is_recorded(tmp_path):
    patients, visits = clinic(persons=300)
    vault = Vault.create(tmp_path / "vault")
    both = {"patients": patients, "visits": visits}
    for tables, choices, error, words in (
        (both, {"key": "visit"}, ColumnError, "has no unit"),
        ({"patients": patients}, CHOICES, VaultError, "at least two"),
        ({"a.b": patients, "visits": visits}, CHOICES, VaultError, "no . or /"),
        (both, {**CHOICES, "drop": ["dya"]}, ColumnError, "matches no column"),
        (both, {**CHOICES, "drop": ["patients.day"]}, ColumnError, "matches no column"),
        (
            {"patients": patients.assign(patient=np.arange(300)), "visits": visits},
            CHOICES,
            ColumnError,
            "not one type",
        ),
        (
            {"patients": patients, "visits": visits, "costs": visits[["patient", "cost"]].copy()},
            CHOICES,
            AlreadyRegistered,
            "could average",
        ),
    ):
        with pytest.raises(error, match=words):
            vault.register_linked("clinic", tables, **{**choices, "few_rows": True})
    assert vault.datasets() == []


def test_a_table_keeps_its_name_in_the_family(registered):
    *_, linked, _ = registered
    with pytest.raises(VaultError, match="one of several linked tables"):
        linked["visits"].rename("stays")
    assert linked["visits"].name == "clinic.visits"


def test_a_schema_file_states_the_choices_of_each_table(tmp_path, registered):
    home, _, linked, tables = registered
    text = ['unit = "patient"']
    for table, data in tables.items():
        text += ["", "[[table]]", f'name = "{table}"']
        for column in data.columns:
            does = {"visit": "key", "patient": "unit", "day": "drop", "sex": "category"}
            role = does.get(column, "category" if column == "ward" else "perturb")
            text += ["[[table.column]]", f'name = "{column}"', f'do = "{role}"']
    path = tmp_path / "clinic.toml"
    path.write_text("\n".join(text))
    vault = Vault.create(tmp_path / "vault", key=Key(bytes(range(32))))
    places = {name: home / f"{name}.csv" for name in tables}
    same = vault.register_linked("clinic", places, schema=path)
    assert [each.id for each in same.tables.values()] == [
        each.id for each in linked.tables.values()
    ]


# --------------------------------------------------------------------------------------------------
# Tables that do not name persons: flights of aeroplanes, and the weather at their airports.


def airlines(planes=200, seed=3):
    rng = np.random.default_rng(seed)
    names = np.array([f"N{i:04d}" for i in range(planes)])
    size = rng.normal(size=planes)
    fleet = pd.DataFrame({"tailnum": names, "seats": np.round(150 + 40 * size, 2)})
    who = np.repeat(np.arange(planes), 4)
    codes = np.array(["EWR", "JFK", "LGA", "BOS"])
    flights = pd.DataFrame(
        {
            "tailnum": names[who],
            "origin": rng.choice(codes, len(who)),
            "delay": np.round(10 + 5 * size[who] + 10 * rng.normal(size=len(who)), 3),
        }
    ).sample(frac=1, random_state=1, ignore_index=True)
    hours = 300
    temp = rng.normal(15, 8, hours)
    weather = pd.DataFrame(
        {
            "origin": rng.choice(codes, hours),
            "temp": np.round(temp, 3),
            "dew": np.round(0.8 * temp + rng.normal(0, 3, hours), 3),
            "sky": rng.choice(["clear", "cloud"], hours),
        }
    )
    return {"planes": fleet, "flights": flights, "weather": weather}


NYC = {"unit": "tailnum", "keep": ["origin"], "few_rows": True}


def registered_airlines(vault, tables, **more):
    with pytest.warns(
        CornerwaveWarning, match=r"'weather' has no column 'tailnum'.* hidden as a row"
    ):
        return vault.register_linked("nyc", tables, **{**NYC, **more})


def test_a_table_without_the_unit_is_released_with_the_others(tmp_path):
    tables = airlines()
    vault = Vault.create(tmp_path / "vault", key=Key(bytes(range(32))))
    linked = registered_airlines(vault, tables)
    assert linked.unit == "tailnum"
    made = linked.release(to="a", privacy=0.5)
    made.write(tmp_path / "copy.zip")
    stated = {t: files.stated for t, files in linked_files(tmp_path / "copy.zip").items()}
    assert list(stated) == ["planes", "flights", "weather"]
    assert stated["weather"].unit is None
    assert {each.noise for each in stated.values()} == {made.level.noise}
    copies = {table: made[table].to_frame() for table in linked}
    weather, truth = copies["weather"], tables["weather"]
    assert (weather["origin"] == truth["origin"]).all()  # joins as in the table
    noise = (weather[["temp", "dew"]] - truth[["temp", "dew"]]).to_numpy()
    shape = np.cov(truth[["temp", "dew"]].T) * made.level.noise
    # a variance of n normals is known to sqrt(2/n); 5 of these for two columns
    assert np.diag(np.cov(noise.T)) == pytest.approx(np.diag(shape), rel=5 * np.sqrt(2 / 300))
    mined = LinkedCopy.open(tmp_path / "copy.zip")
    assert abs(mined["weather"].mean()["temp"].value - truth["temp"].mean()) < 5
    with pytest.raises(SourceError, match="one row for each person"):
        mined.joined("flights", "weather")
    assert len(vault.linked("nyc").again("a")) == 1


def test_values_that_a_table_without_the_unit_repeats_are_refused(tmp_path):
    tables = airlines()
    vault = Vault.create(tmp_path / "vault")
    rows = tables["flights"].index[: len(tables["weather"])]
    tables["weather"]["late"] = tables["flights"]["delay"].loc[rows].to_numpy()
    with pytest.raises(
        AlreadyRegistered, match=r"'late' of table 'weather' holds values of 'delay'"
    ):
        registered_airlines(vault, tables)
    assert vault.datasets() == []
    # what both keep has no noise that could be averaged: the origin is repeated, too
    registered_airlines(vault, tables, drop=["weather.late"])


def test_a_table_without_the_unit_is_hidden_as_it_would_be_alone(tmp_path):
    tables = airlines()
    linked = registered_airlines(Vault.create(tmp_path / "one"), tables)
    alone = Vault.create(tmp_path / "two").register(
        "weather", tables["weather"], keep=["origin"], few_rows=True
    )
    assert linked["weather"].frozen.hidden.shares == alone.frozen.hidden.shares
    assert linked["weather"].frozen.persons is None


def test_a_table_without_the_unit_changes_and_grows_as_if_alone(tmp_path):
    tables = airlines()
    tables["weather"]["hour"] = np.random.default_rng(6).permutation(len(tables["weather"]))
    linked = registered_airlines(Vault.create(tmp_path / "vault"), tables, key="hour")
    changed = tables["weather"].copy()
    changed.loc[:20, "temp"] += 3.5
    before = linked["weather"].release(to="a", noise=1.0).to_frame()
    edition = linked["weather"].update(changed, old=tables["weather"])
    assert edition.changes.changed == 21
    after = linked["weather"].release(to="a", noise=1.0).to_frame()
    assert after.iloc[21:].equals(before.iloc[21:])
    assert (after["temp"].iloc[:21] != before["temp"].iloc[:21]).all()


# --- updates ---------------------------------------------------------------------------------


def updated_clinic(vault, persons=2 * PERSONS):
    """Every cost anew: it depends on the patient's height, on which the cost before did not."""
    patients, visits = clinic(persons)
    patients, visits = patients.drop(columns="sex"), visits.drop(columns=["sex", "ward", "height"])
    tables, rng = {"patients": patients, "visits": visits}, np.random.default_rng(4)
    linked = vault.register_linked("clinic", tables, keep_order=True, **CHOICES)
    before = {n: linked[n].release(to="a", noise=1.0, raw=True).to_frame() for n in tables}
    height = patients.set_index("patient")["height"].loc[visits["patient"]].to_numpy()
    cost = 100 + 19 * (height - 170) / 9 + 3 * rng.normal(size=len(visits))
    new = visits.assign(cost=np.round(cost, 2))
    edition = linked["visits"].update(new, old=visits)
    after = linked["visits"].release(to="a", noise=1.0, raw=True).to_frame()
    return patients, visits, new, before, after, edition


def left_of_costs(patients, visits, new, before, after):
    """What somebody leaves of the new costs who has copies of both tables in both editions."""
    whose = pd.Series(np.arange(len(patients)), patients["patient"])
    of = whose[visits["patient"]].to_numpy()
    counts = np.bincount(of)
    both = [before["visits"]["cost"].to_numpy(), after["cost"].to_numpy()]
    means = [(np.bincount(of, each) / counts)[of] for each in both]
    own = before["patients"][["height", "risk", "bmi"]].to_numpy(float)[of]
    features = np.column_stack([*both, *means, own, 1 / counts[of]])
    truth = new["cost"].to_numpy(float)
    mean = (np.bincount(of, truth) / counts)[of]
    return left(truth, features, of), left(mean, features, of)


def test_an_update_of_a_linked_table_hides_what_the_others_reveal_of_new_values(vault):
    patients, visits, new, before, after, edition = updated_clinic(vault)
    found = left_of_costs(patients, visits, new, before, after)
    assert min(found) > 0.5 - 2 * np.sqrt(2 / (2 * PERSONS)), found  # as many persons
    assert edition.changes.changed > 0.99 * len(visits)  # some are the same by rounding


def test_negative_control_new_noise_that_other_tables_have_no_part_in(vault, monkeypatch):
    from cornerwave.vault import _updates
    from cornerwave.vault._elsewhere import Elsewhere

    monkeypatch.setattr(_updates, "elsewhere", lambda *_: Elsewhere.nothing())
    patients, visits, new, before, after, _ = updated_clinic(vault)
    assert min(left_of_costs(patients, visits, new, before, after)) < 0.4


def children(persons=400, seed=7):
    """Visits and tests of patients, with keys, a category of the person and one of rows."""
    rng = np.random.default_rng(seed)
    level, sex = rng.normal(size=persons), np.array(list("fm"))[rng.integers(0, 2, persons)]
    tables = {}
    for name, kinds, rows in (("visits", "abcd", 3), ("tests", "xyz", 2)):
        who = np.repeat(np.arange(persons), rows)
        tables[name] = pd.DataFrame(
            {
                "row": np.arange(len(who)),
                "patient": [f"P{u:05d}" for u in who],
                name[:1]: np.round(level[who] + rng.normal(size=len(who)), 3),
                f"{name} kind": np.array(list(kinds))[rng.integers(0, len(kinds), len(who))],
                "sex": sex[who],
            }
        )
    return tables


def registered_children(vault, tables):
    choices = {"unit": "patient", "key": "row", "keep_order": True, "few_rows": True}
    return vault.register_linked("clinic", tables, **choices)


def test_persons_who_were_replaced_stay_so_in_all_tables_when_one_changes(vault):
    tables = children()
    linked = registered_children(vault, tables)
    names = {name: [f"{name} kind", "sex"] for name in tables}

    def kept(name, table):
        copy = linked[name].release(to="a", noise=3.0, raw=True).to_frame()
        same = (copy[names[name]].to_numpy() == table[names[name]].to_numpy()).all(axis=1)
        return copy, same.reshape(400, -1).all(axis=1)

    first, before = kept("visits", tables["visits"])
    others, _ = kept("tests", tables["tests"])
    rng, new = np.random.default_rng(3), tables["visits"].copy()
    moved = rng.random(len(new)) < 0.3
    letters = np.array(list("abcd"))
    code = np.searchsorted(letters, new["visits kind"].to_numpy())
    new["visits kind"] = letters[np.where(moved, (code + 1) % 4, code)]
    linked["visits"].update(new, old=tables["visits"])
    second, after = kept("visits", new)
    assert (before != after).sum() <= 2  # the same by chance
    assert abs(before.mean() - 0.5) < 5 * 0.5 / 20
    changed = first["visits kind"].to_numpy() != second["visits kind"].to_numpy()
    assert (changed == moved).all()
    # the other table shows the donors that it showed, also of donors whose rows have changed
    again, _ = kept("tests", tables["tests"])
    assert again.equals(others)


def test_updates_that_would_show_two_values_or_two_noises_are_refused_in_one_line(vault):
    tables = children()
    linked = registered_children(vault, tables)
    other = tables["visits"].assign(sex=tables["visits"]["sex"].map({"f": "m", "m": "f"}))
    with pytest.raises(ColumnError, match="'sex' changed, and table 'tests' has the same"):
        linked["visits"].update(other, old=tables["visits"])
    new = tables["visits"].assign(v=tables["visits"]["v"] + 0.5)
    linked["visits"].update(new, old=tables["visits"])
    with pytest.raises(ColumnError, match="numbers of table 'visits' were changed") as caught:
        linked["tests"].update(tables["tests"].assign(t=1.0), old=tables["tests"])
    assert "\n" not in str(caught.value)
    assert len(linked["tests"].editions) == 1
