"""Copies of linked tables: what they state, and what a recipient computes from two of them."""

import json
import shutil
import warnings
import zipfile
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave import cli
from cornerwave.audit import PersonsBeside, audit
from cornerwave.errors import ColumnError, SourceError
from cornerwave.ledger import Key
from cornerwave.levels import Privacy
from cornerwave.miner import Copy, LinkedCopy
from cornerwave.outputs import read_metadata
from cornerwave.sources import open_source
from cornerwave.spec import CopyMetadata
from cornerwave.vault import Vault

PERSONS = 1200
ALPHA = 1e-6


def clinic(persons=PERSONS, seed=1):
    """Patients and their visits: those far from the mean have more of them."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=persons)
    visits = 1 + rng.poisson(np.minimum(2 + 3 * a**2, 20))
    patients = pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in range(persons)],
            "height": np.round(170 + 9 * rng.normal(size=persons), 1),
            "risk": np.round(50 + 10 * a, 3),
            "sex": rng.choice(["f", "m"], persons),
        }
    )
    who = np.repeat(np.arange(persons), visits)
    rows = len(who)
    made = pd.DataFrame(
        {
            "visit": np.arange(rows),
            "patient": patients.patient.to_numpy()[who],
            "day": np.concatenate([np.sort(rng.uniform(0, 1000, k)) for k in visits]).round(1),
            "cost": np.round(100 + 20 * (0.8 * a[who] + 0.6 * rng.normal(size=rows)), 2),
            "height": patients.height.to_numpy()[who],
            "diag": np.where(
                rng.random(rows) < 0.6, patients.sex.to_numpy()[who], rng.choice(list("fmx"), rows)
            ),
        }
    )
    return tuple(
        each.sample(frac=1, random_state=1).reset_index(drop=True) for each in (patients, made)
    )


@pytest.fixture(scope="module", params=["without time", "with time"])
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    patients, visits = clinic()
    chosen = {"time": "day"} if request.param == "with time" else {"drop": ["day"]}
    vault = Vault.create(folder / "vault")
    dataset = vault.register_linked(
        "clinic", {"patients": patients, "visits": visits}, unit="patient", key="visit", **chosen
    )
    release = dataset.release(to="partner", privacy=0.5)
    for name in ("copy", "copy.zip", "copy.duckdb"):
        release.write(folder / name)
    return folder, patients, visits, dataset


@pytest.mark.first(1)
def test_a_copy_states_its_family(world):
    folder, _, _, dataset = world
    stated = {t: read_metadata(folder / "copy" / f"{t}.parquet") for t in dataset}
    family = dataset["visits"].frozen.family
    for table, each in stated.items():
        assert (each.family, each.table) == (family.id, table)
        assert each.tables == ("patients", "visits")
    assert set(stated["visits"].column("cost").noise_with) == {"patients.height", "patients.risk"}
    assert not stated["patients"].column("risk").noise_with  # visits have several rows of a person


def test_a_table_by_itself_states_no_family(tmp_path):
    patients, _ = clinic()
    dataset = Vault.create(tmp_path / "vault").register("patients", patients, key="patient")
    dataset.release(to="a", privacy=0.5).write(tmp_path / "a.csv")
    stated = json.loads((tmp_path / "a.csv.meta.json").read_text())
    assert not stated.keys() & {"family", "table", "tables"}
    with pytest.raises(SourceError, match=r"is not a folder, a \.zip or a \.duckdb file"):
        LinkedCopy.open(tmp_path / "a.csv")
    with pytest.raises(SourceError, match="is not a copy of linked tables"):
        LinkedCopy.open(tmp_path / "vault")


@pytest.mark.first(1)
def test_a_folder_an_archive_and_a_database_are_the_same(world):
    folder, *_ = world
    opened = [LinkedCopy.open(folder / name) for name in ("copy", "copy.zip", "copy.duckdb")]
    for each in opened:
        assert list(each) == ["patients", "visits"]
        assert each["visits"].mean().value == pytest.approx(opened[0]["visits"].mean().value)
        joined = each.joined("visits", "patients").covariance(["cost", "risk"])
        first = opened[0].joined("visits", "patients").covariance(["cost", "risk"])
        assert joined.value == pytest.approx(first.value, rel=1e-9)
        assert joined.standard_error == pytest.approx(first.standard_error, rel=1e-6)


def test_an_archive_is_read_as_long_as_a_copy_is_there(world):
    folder, *_ = world
    copy = LinkedCopy.open(folder / "copy.zip")["visits"]
    assert copy.mean()["cost"].value > 0


COLUMNS = ["cost", "height", "risk"]


def test_a_join_is_corrected_for_the_noise_that_tables_share(world):
    folder, patients, visits, _ = world
    copies = LinkedCopy.open(folder / "copy")
    joined = copies.joined("visits", "patients")
    assert "patients.height" in joined.columns
    truth = visits.merge(patients.drop(columns="height"), on="patient")
    K = truth[COLUMNS].cov().to_numpy()
    found, correlation = joined.covariance(COLUMNS), joined.correlation(COLUMNS)
    # 6 covariances, 3 correlations, 2 coefficients, 3 means
    z = NormalDist().inv_cdf(1 - ALPHA / 2 / 14)
    assert (np.abs(found.value - K) < z * found.standard_error).all()
    off = np.abs(correlation.value - truth[COLUMNS].corr().to_numpy())
    assert (off <= z * correlation.standard_error + 1e-9).all()
    line = joined.regression("cost", on=["risk"]).coefficients
    slope = K[0, 2] / K[2, 2]
    assert abs(line["risk"].value - slope) < z * line["risk"].standard_error
    means = joined.mean(COLUMNS)
    assert (np.abs(means.value - truth[COLUMNS].mean()) < z * means.standard_error).all()
    # negative control: numbers as the noise left them, with the covariance of what both share
    raw = _merged(folder)[COLUMNS] / _factors(folder)
    assert abs(raw.cov().to_numpy()[0, 2] - K[0, 2]) > z * found.standard_error[0, 2]


def test_categories_of_two_tables_were_replaced_together(world):
    """One donor for both: what they have in common is that of the table, not shrunk."""
    folder, patients, visits, _ = world
    joined = LinkedCopy.open(folder / "copy").joined("visits", "patients")
    truth = visits.merge(patients.drop(columns="height"), on="patient")
    shares, pairs = joined.frequencies("sex"), joined.two_way("sex", "diag")
    z = NormalDist().inv_cdf(1 - ALPHA / 2 / 4)
    for label in ("f", "m"):
        off = shares[label].value - np.mean(truth.sex == label)
        assert abs(off) < z * shares[label].standard_error
        same = np.mean((truth.sex == label) & (truth.diag == label))
        assert abs(pairs[label, label].value - same) < z * pairs[label, label].standard_error
    # negative control: as if each column had been drawn by itself
    columns = {name: replace(c, together=()) for name, c in joined.columns.items()}
    apart = Copy(joined.source, joined.level, columns).two_way("sex", "diag")["f", "f"]
    same = np.mean((truth.sex == "f") & (truth.diag == "f"))
    assert abs(apart.value - same) > z * pairs["f", "f"].standard_error


def _factors(folder):
    """By what the columns of the copies were drawn together."""
    stated = [read_metadata(folder / "copy" / f"{t}.parquet") for t in ("visits", "patients")]
    about = {name: each for copy in stated for name, each in copy.columns.items()}
    return [about[name].spread.factor for name in COLUMNS]


def _merged(folder):
    tables = [pq.read_table(folder / "copy" / f"{t}.parquet") for t in ("visits", "patients")]
    visits, patients = (each.to_pandas() for each in tables)
    return visits.merge(patients.drop(columns="height"), on="patient")


def test_errors_of_a_join_are_those_of_persons(world):
    """Rows of a person are not independent: errors by row are too small."""
    folder, *_ = world
    joined = LinkedCopy.open(folder / "copy").joined("visits", "patients")
    error = joined.covariance(["cost", "risk"]).standard_error[0, 1]
    by_rows = Copy(joined.source, joined.level, joined.columns).covariance(["cost", "risk"])
    assert error > 1.2 * by_rows.standard_error[0, 1]
    with pytest.raises(ColumnError, match="a joined copy answers for the population"):
        joined.mean(of="table")
    with pytest.raises(ColumnError, match="ask the copy of 'visits' or of 'patients'"):
        joined.distribution("risk")


def test_only_a_table_with_one_row_for_each_person_is_joined(world):
    copies = LinkedCopy.open(world[0] / "copy")
    with pytest.raises(SourceError, match="one row for each person"):
        copies.joined("patients", "visits")
    with pytest.raises(SourceError, match="there is no table 'visit'; did you mean 'visits'"):
        copies["visit"]
    with pytest.raises(SourceError, match="a join needs two tables"):
        copies.joined("visits", "visits")


def test_tables_of_two_releases_are_not_one_copy(world, tmp_path):
    folder, _, _, dataset = world
    dataset.release(to="other", privacy=0.8).write(tmp_path / "mixed")
    shutil.copy(folder / "copy" / "visits.parquet", tmp_path / "mixed" / "visits.parquet")
    with pytest.raises(SourceError, match="are not of one release"):
        LinkedCopy.open(tmp_path / "mixed")
    (tmp_path / "mixed" / "visits.parquet").unlink()
    with pytest.raises(SourceError, match="has no copy of 'visits'"):
        LinkedCopy.open(tmp_path / "mixed")


def test_an_archive_that_is_not_a_copy_is_refused(world, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../visits.csv", "a\n1\n")
    with pytest.raises(SourceError, match="is not a copy of linked tables"):
        LinkedCopy.open(tmp_path / "a.zip")
    whole = (world[0] / "copy.zip").read_bytes()
    (tmp_path / "b.zip").write_bytes(whole[:2000] + bytes(2000) + whole[4000:])
    with pytest.raises(SourceError, match="damaged"):
        LinkedCopy.open(tmp_path / "b.zip")["visits"].mean()


# --------------------------------------------------------------------------------------------------
# The command line: the name of linked tables stands for all of them.


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    patients, visits = clinic(800)
    patients.to_csv(folder / "p.csv", index=False)
    visits.to_parquet(folder / "v.parquet")
    more = visits.head(200).assign(visit=visits.visit.head(200) + 10**6, cost=visits.cost + 1)
    more.to_parquet(folder / "more.parquet")
    # a fixed key: an audit must be clean
    dataset = Vault.create(folder / "vault", key=Key(bytes(range(32)))).register_linked(
        "clinic",
        {"patients": folder / "p.csv", "visits": folder / "v.parquet"},
        unit="patient",
        key="visit",
        drop=["day"],
    )
    for name, privacy in (("ann", 0.5), ("bob", 0.8)):
        dataset.release(to=name, privacy=privacy).write(folder / f"{name}.zip")
    return folder


@pytest.fixture
def run(places, monkeypatch, capfd):
    monkeypatch.chdir(places)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words, code=0):
        capfd.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
            cli.main([*map(str, words), *(() if "--vault" in words else ("--vault", "vault"))])
        out, err = capfd.readouterr()
        assert (stop.value.code or 0) == code, err
        return out + err

    return call


@pytest.mark.slow
def test_questions_are_answered_for_all_tables(run, places):
    shown = run("ledger", "clinic")
    assert "clinic.patients: 800 rows" in shown
    assert "clinic.visits: " in shown
    assert run("ledger", "clinic", "--against", "ann.zip").count("ann.zip: known, clinic.") == 2
    levels = run("levels", "clinic")
    assert "least privacy" in levels
    assert "clinic.visits: What a recipient can find out" in levels
    stated = json.loads(run("levels", "clinic", "--json"))
    assert set(stated) == {"clinic.patients", "clinic.visits"}
    pooled = json.loads(run("coalition", "clinic", "ann", "bob", "--json"))
    assert all(abs(each["gain"]) < 1e-12 for each in pooled.values())
    run("report", "clinic", "--out", "r.html")
    page = (places / "r.html").read_text()
    assert "patients: What coalitions can recover" in page
    assert "visits: What coalitions can recover" in page


def test_a_copy_is_made_again_as_what_it_was(run, places):
    shown = run("again", "clinic", "ann", "--out", "ann folder", code=2)
    assert "this copy is a .zip file; give --out a place for such a one" in shown
    assert "name a place for the tables with --out: a .zip file" in run(
        "again", "clinic", "ann", code=2
    )
    run("again", "clinic", "ann", "--out", "once more.zip")
    assert (places / "once more.zip").read_bytes() == (places / "ann.zip").read_bytes()


def test_a_dictionary_of_each_table_lies_beside_a_copy(run, places):
    run("release", "clinic", "--to", "eve", "--privacy", "0.5", "--out", "eve.zip", "--dictionary")
    for table, column in (("patients", "risk"), ("visits", "cost")):
        assert column in (places / f"eve.zip.{table}.dictionary.csv").read_text()
        assert (places / f"eve.zip.{table}.dictionary.html").exists()


def test_the_least_privacy_is_that_of_the_worst_table(places):
    dataset = Vault.open(places / "vault").linked("clinic")
    for privacy in (0.3, 0.8):
        level = dataset.level_of(Privacy(privacy))
        shares = [each.privacy_of(level) for each in dataset.tables.values()]
        assert dataset.privacy_of(level) == min(shares) >= privacy
        # one level less would not do
        assert min(each.level_of(Privacy(privacy)) for each in dataset.tables.values()) <= level


def test_tables_grow_one_by_one_and_are_renamed_and_closed_together(run, places):
    shutil.copytree(places / "vault", places / "other")
    try:
        at = ("--vault", "other")
        assert "200 rows came" in run("append", "clinic.visits", "more.parquet", *at)
        assert "linked tables, which are renamed together" in run(
            "rename", "clinic.visits", "visits", *at, code=2
        )
        run("rename", "clinic", "ward", *at)
        assert "was released to" in run("unregister", "ward", *at, code=2)
        assert run("close", "ward", *at).count("Closed ward.") == 2
    finally:
        shutil.rmtree(places / "other")


# --------------------------------------------------------------------------------------------------
# The audit: what copies of other tables show of a person counts.


@pytest.mark.slow
def test_an_audit_of_linked_tables_is_clean(run):
    shown = json.loads(run("audit", "clinic", "ann.zip", "bob.zip", "--json"))
    assert set(shown) == {"clinic.patients", "clinic.visits"}
    for each in shown.values():
        assert each["clean"], each["verdict"]
        assert each["persons"] is not None  # also of the table with one row for each
    assert "p.csv is not a folder, a .zip" in run("audit", "clinic", "p.csv", code=2)


@pytest.mark.slow
def test_linked_copies_are_audited_from_files_alone(places, tmp_path, monkeypatch, capfd):
    for name in ("p.csv", "v.parquet", "ann.zip"):
        shutil.copy(places / name, tmp_path)
    monkeypatch.chdir(tmp_path)  # no vault here
    monkeypatch.delenv("CORNERWAVE_VAULT", raising=False)

    def audited(*words):
        capfd.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as stop:
            cli.main(["audit", *words])
        return (stop.value.code or 0), capfd.readouterr()

    tables = ("patients=p.csv", "visits=v.parquet")
    code, shown = audited(*tables, "ann.zip", "--unit", "patient", "--json")
    assert code == 0, shown.err
    assert set(json.loads(shown.out)) == {"patients", "visits"}
    for each in json.loads(shown.out).values():
        assert each["clean"], each["verdict"]
        assert each["persons"] is not None
    # a copy that should hide more than it does is found
    code, shown = audited(*tables, "ann.zip", "--privacy", "0.95", "--json")
    assert code == 1
    assert not any(each["clean"] for each in json.loads(shown.out).values())
    code, shown = audited(tables[0], "ann.zip")
    assert code == 2
    assert "ann.zip has the tables patients, visits: name each of them with its" in shown.err
    code, shown = audited(*tables)
    assert "name the copies after the tables" in shown.err


@pytest.mark.parametrize("shared", [True, False])
def test_an_audit_finds_what_another_table_reveals(shared):
    """Rows of patients with enough noise of their own: visits with independent noise give it away.

    Of risk, given risk and the mean of eight costs with independent noise, about a third is left;
    with one noise for all, a half.
    """
    rng = np.random.default_rng(5)
    persons, rows = 3000, 8
    level = rng.normal(size=persons)
    noise = rng.normal(size=(2, persons))
    who = np.repeat(np.arange(persons), rows)
    names = np.array([f"p{i}" for i in range(persons)])
    patients = pa.table({"patient": names, "risk": level})
    own = noise[0] if shared else noise[1]
    copy = pa.table({"patient": names, "risk": level + noise[0]})
    visits = pa.table({"patient": names[who], "cost": (level + own)[who]})
    other = (open_source(visits), CopyMetadata(unit="patient"))
    alone = audit(patients, [copy], unit="patient", privacy=[0.5])
    assert not [each for each in alone.faults if each.name == "persons"]
    joined = audit(
        patients, [copy], unit="patient", privacy=[0.5], others=[PersonsBeside.of([other])]
    )
    found = [each for each in joined.faults if each.name == "persons"]
    assert bool(found) != shared
    left = next(left.hidden for _, left in joined.linked.left if left.attack == "value")
    # N(0, 1) seen with noise 1 once, or twice independently; chance is 1/sqrt(n)
    assert left == pytest.approx(1 / 2 if shared else 1 / 3, abs=6 / np.sqrt(persons) / 2)
