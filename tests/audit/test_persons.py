"""Tables with a unit: honest copies pass, and what does not hide persons falls."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, audit, audit_document, notes, verdict
from cornerwave.audit._membership import Persons, rows_at
from cornerwave.document import count
from cornerwave.errors import ColumnError, SourceError
from cornerwave.sources import open_source
from cornerwave.vault import Vault
from tests.audit.releases import frame

PERSONS, VISITS = 600, 6


def visits(persons=PERSONS, sizes=None, *, seed=0):
    """Return visits: a constant height, a weight that fluctuates, sex, a diagnosis that changes."""
    rng = np.random.default_rng([seed, 27])
    sizes = np.full(persons, VISITS) if sizes is None else sizes
    who = np.repeat(np.arange(persons), sizes)
    n = len(who)
    height = rng.normal(170, 10, persons)[who]
    weight = 0.5 * (height - 170) + rng.normal(75, 10, persons)[who] + rng.normal(0, 4, n)
    first = rng.integers(4, size=persons)[who]
    diagnosis = np.where(rng.random(n) < 0.2, rng.integers(4, size=n), first)
    return pa.table(
        {
            "patient": [f"P{each}" for each in who],
            "height": height,
            "weight": weight,
            "sex": rng.choice(["f", "m"], persons)[who],
            "diagnosis": [f"D{each}" for each in diagnosis],
        }
    )


def unequal(seed=0):
    """Return visits of persons with 1 to 40 rows."""
    rng = np.random.default_rng([seed, 28])
    return visits(sizes=np.minimum(40, rng.geometric(0.2, PERSONS)), seed=seed)


def released(table, folder: Path, privacy=(0.5, 0.8), **choices):
    """Return copies in files, under a new key."""
    vault = Vault.create(folder / "vault")
    dataset = vault.register("clinic", table, **{"keep_order": True, **choices})
    paths = []
    for i, each in enumerate(privacy):
        path = folder / f"copy{i}.parquet"
        dataset.release(to=f"r{i}", privacy=each, raw=True).write(path)
        paths.append(path)
    return dataset, paths


def kinds(result):
    """Return what is left by copies, column and kind."""
    return {(copies, left.column, left.attack): left for copies, left in result.linked.left}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """Return visits, and copies of them that show a pseudonym of each person."""
    source = visits()
    return source, released(source, tmp_path_factory.mktemp("clinic"), unit="patient")[1]


@pytest.fixture(scope="module")
def audited(clinic):
    return audit(*clinic)


def test_honest_copies_pass_every_check(clinic, audited):
    passes(audited, rows=len(clinic[0]))


@pytest.mark.slow
def test_honest_copies_of_unequal_persons_pass_every_check(tmp_path):
    source = unequal()
    _, copies = released(source, tmp_path, unit="patient")
    passes(audit(source, copies), rows=len(source))


def passes(result, *, rows):
    assert result.faults == []
    assert result.clean
    assert result.rows == rows
    assert result.linked.unit == "patient"
    assert result.linked.total == PERSONS
    left = kinds(result)
    for i, stated in enumerate((0.5, 0.8)):
        for column in ("height", "weight", "sex", "diagnosis"):
            for kind in ("value", "mean", "change"):
                if (column, kind) in (("height", "change"), ("sex", "change")):
                    assert ((i,), column, kind) not in left  # constant: it never changes
                    continue
                each = left[(i,), column, kind]
                # the column that is hidden worst decides the level: others may be hidden better
                assert stated <= each.stated < stated + 0.1
                assert each.hidden > 0.95 * stated - each.margin


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_stated(tmp_path):
    """Six keys and tables at ALPHA: more than two audits with an alarm have probability 2e-5."""
    alarms = 0
    for seed in range(6):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        source = (visits if seed % 2 else unequal)(seed=seed)
        _, copies = released(source, folder, unit="patient")
        alarms += bool(audit(source, copies).faults)
    assert ALPHA == 0.01
    assert alarms <= 2


def test_copies_need_not_show_the_unit(tmp_path):
    """It is in the metadata, and the original has it: as a pseudonym above, here dropped."""
    source = visits(persons=300)
    _, copies = released(source, tmp_path, unit="patient", drop=["patient"])
    result = audit(source, copies)
    assert result.faults == []
    assert result.linked.total == 300


def test_files_alone_with_the_unit_given(clinic):
    """Without metadata: frames, what they should hide, and the column."""
    source, copies = clinic
    bare = [papq.read_table(path).replace_schema_metadata(None) for path in copies]
    bare = [table.drop_columns("patient") for table in bare]
    result = audit(source, bare, unit="patient", privacy=[0.5, 0.8])
    assert "persons" not in {check.name for check in result.faults}
    assert result.linked.total == PERSONS


def test_shuffled_copies_are_audited_in_their_order(tmp_path):
    source = visits()
    dataset, copies = released(source, tmp_path, unit="patient", keep_order=False, shuffle=True)
    place = tmp_path / "as_copied.arrow"
    dataset.write_in_copies_order(place)
    result = audit(place, copies)
    assert result.faults == []
    assert result.linked.total == PERSONS


# --- times ---------------------------------------------------------------------------------------


def series(persons=300, years=8, seed=0):
    """Return a panel: income has a trend that all share, and follows its past; year is the time."""
    rng = np.random.default_rng([seed, 29])
    n = persons * years
    who, year = np.repeat(np.arange(persons), years), np.tile(np.arange(years), persons)
    income = rng.normal(size=n)
    for k in range(n):
        if year[k]:
            income[k] = 0.95 * income[k - 1] + np.sqrt(1 - 0.95**2) * income[k]
    return pa.table(
        {
            "person": [f"P{each}" for each in who],
            "year": year + 1980,
            "share": 0.7 * (year - 3.5) + rng.normal(0, 1, persons)[who] + rng.normal(0, 0.3, n),
            "income": 50 + 9 * income,
        }
    )


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    """Return a panel in the order of its shuffled copy, and the copy."""
    folder = tmp_path_factory.mktemp("panel")
    choices = {"unit": "person", "time": "year", "keep_order": False, "shuffle": True}
    dataset, (copy,) = released(series(), folder, privacy=(0.5,), **choices)
    dataset.write_in_copies_order(folder / "as_copied.arrow")
    return folder / "as_copied.arrow", copy


def short(found):
    """Return which columns and kinds an audit finds short."""
    return {(column, kind) for (_, column, kind), each in kinds(found).items() if each.short}


def test_times_that_copies_hide_are_not_held_against_them(panel):
    """Who knows the order of a person's rows knows the year: no copy hides it from them."""
    source, copy = panel
    found = audit(source, [copy])
    assert short(found) == set()
    left = kinds(found)
    assert {column for _, column, _ in left} == {"year", "share", "income"}
    assert left[(0,), "year", "value"].hidden > 0.45


def instead(copy, name, values):
    """Return a copy with other numbers in a column, and the same metadata."""
    table, other = papq.read_table(copy), copy.with_name(f"other {name}.parquet")
    papq.write_table(
        table.set_column(table.schema.names.index(name), name, pa.array(values)), other
    )
    return other


def test_a_time_that_copies_show_falls_and_so_does_what_it_does_to_everybody(panel):
    source, copy = panel
    true = pa.ipc.open_file(source).read_all()
    shown = instead(copy, "year", np.asarray(true["year"]) + 0.1)
    assert {("year", "value"), ("share", "change")} <= short(audit(source, [shown]))


def test_the_order_in_time_counts_for_what_is_left_of_a_column(panel):
    """A row's own noise, where income follows its past: the rows before and after average it."""
    source, copy = panel
    income = np.asarray(pa.ipc.open_file(source).read_all()["income"])
    noise = np.random.default_rng(5).normal(0, income.std(), len(income))
    bare = instead(copy, "income", income + noise)
    assert ("income", "value") in short(audit(source, [bare]))


# --- negative controls --------------------------------------------------------------------------


def test_noise_by_row_falls(tmp_path):
    """The same table as independent rows: means take the noise away, votes the replacements."""
    source = visits()
    choices = {"independent_rows": True, "drop": ["patient"]}
    _, copies = released(source, tmp_path, privacy=(0.5,), **choices)
    result = audit(source, copies, unit="patient")
    assert {check.name for check in result.faults} == {"persons"}
    assert "hides less than it states" in verdict(result)
    left = kinds(result)
    for column, kind, most in (
        ("height", "value", 0.2),
        ("height", "mean", 0.2),
        ("weight", "mean", 0.25),
        ("sex", "value", 0.2),
        ("diagnosis", "mean", 0.3),
    ):
        assert left[(0,), column, kind].short
        assert left[(0,), column, kind].hidden < most


def by_person(source, noise=1.0, seed=1):
    """Return a copy whose rows of a person have one noise."""
    X = np.column_stack([source["height"], source["weight"]])
    who = np.unique(np.asarray(source["patient"]), return_inverse=True)[1]
    factor = np.linalg.cholesky(noise * np.cov(X.T))
    W = np.random.default_rng(seed).normal(size=(who.max() + 1, 2)) @ factor.T
    return (
        source.select(["patient"])
        .append_column("height", pa.array(X[:, 0] + W[who, 0]))
        .append_column("weight", pa.array(X[:, 1] + W[who, 1]))
    )


def test_noise_by_person_alone_falls():
    """Values and means are hidden, differences are bare."""
    source = visits().select(["patient", "height", "weight"])
    result = audit(source, [by_person(source)], unit="patient", privacy=[0.5])
    assert "persons" in {check.name for check in result.faults}
    change = kinds(result)[(0,), "weight", "change"]
    assert change.short
    assert change.hidden < 0.01
    assert not kinds(result)[(0,), "height", "mean"].short


def test_independent_draws_of_a_category_fall_to_the_vote():
    source = visits().select(["patient", "height", "sex"])
    rng = np.random.default_rng(3)
    honest = by_person(visits()).select(["patient", "height"])
    drawn = np.where(
        rng.random(len(source)) < 0.5**0.5, source["sex"], rng.choice(["f", "m"], len(source))
    )
    result = audit(
        source, [honest.append_column("sex", pa.array(drawn))], unit="patient", privacy=[0.5]
    )
    left = kinds(result)
    assert left[(0,), "sex", "value"].short
    assert left[(0,), "sex", "value"].hidden < 0.2
    assert not left[(0,), "height", "value"].short


def test_two_noises_for_a_person_fall_together(tmp_path):
    """Each copy is honest by itself; their mean is not: two keys for one table."""
    source = visits(persons=1500).select(["patient", "height", "weight"])
    paths = []
    for i in range(2):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        paths += released(source, folder, privacy=(0.5,), unit="patient")[1]
    result = audit(source, paths)
    left = kinds(result)
    assert not any(each.short for (copies, *_), each in left.items() if len(copies) == 1)
    assert left[(0, 1), "height", "mean"].short
    assert result.numbers.alarms


# --- what is looked at --------------------------------------------------------------------------


def test_the_order_of_a_persons_rows_is_a_note_if_it_was_chosen(tmp_path):
    """A counter of visits follows from the place of a row."""
    source = visits().select(["patient", "weight"])
    source = source.append_column("visit", pa.array(np.tile(np.arange(VISITS), PERSONS)))
    _, copies = released(source, tmp_path, unit="patient")
    result = audit(source, copies)
    assert result.faults == []
    assert {left.column for _, left in result.linked.in_order} == {"visit"}
    assert any("the order of a person's rows" in line for line in notes(result))


def test_too_few_persons_and_a_unit_that_is_not_there(tmp_path):
    source = visits(persons=60)
    copy = by_person(source)
    with pytest.raises(
        SourceError, match="has 60 values of 'patient'; an audit needs at least 100"
    ):
        audit(source, [copy], unit="patient")
    with pytest.raises(ColumnError, match="no column 'person'"):
        audit(source, [copy], unit="person")


def test_rows_without_a_unit_are_persons_themselves():
    table = pa.table({"u": ["a", None, "a", None, "b"], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    persons = Persons.of(open_source(table), "u")
    assert persons.count == 4
    assert sorted(persons.sizes.tolist()) == [1, 1, 1, 2]
    places = persons.one_row_each
    some = rows_at(open_source(table), places)
    values = np.concatenate([group["x"].to_numpy() for group in some.groups(["x"], 2)])
    assert values.tolist() == [table["x"][int(p)].as_py() for p in places]


def test_sampled_persons_have_all_their_rows():
    table = unequal()
    persons = Persons.of(open_source(table), "patient")
    places, person = persons.sampled(500, 256)
    assert len(places) <= 500
    assert (np.bincount(person) == persons.sizes[np.unique(persons.codes[places])]).all()
    assert (np.diff(person) >= 0).all()


def test_the_document_and_json_state_persons(tmp_path):
    """Of a small table: it states also what boosting leaves, which takes long."""
    source = visits(persons=200).select(["patient", "height", "weight"])
    document = audit_document(audit(source, released(source, tmp_path, (0.5,), unit="patient")[1]))
    assert "200 values of patient" in document.facts
    titles = [section.title for section in document.sections]
    assert "Hidden of each patient, if rows are linked (stated)" in titles
    data = json.loads(json.dumps(document.data))
    assert data["persons"]["count"] == 200
    assert {each["of"] for each in data["persons"]["hidden"]} == {"value", "mean", "change"}
    [boosted] = data["persons"]["hidden_from_boosting"]
    assert all(0.2 < boosted[name] < 0.9 for name in ("height", "weight"))
    assert data["rows"] == 200 * VISITS


def test_a_table_without_a_unit_has_no_persons():
    X = np.random.default_rng(1).normal(size=(200, 2))
    result = audit(frame(X), [frame(X + np.random.default_rng(2).normal(size=X.shape))])
    assert result.linked is None
    assert count(result.rows, "row") == "200 rows"


def test_noise_that_is_a_curve_in_time_passes(tmp_path):
    """Its size varies with time: checks of one covariance do not apply, and a note states it."""
    rng = np.random.default_rng(5)
    visit, who = np.tile(np.arange(VISITS), PERSONS), np.repeat(np.arange(PERSONS), VISITS)
    slope = rng.normal(size=PERSONS)[who]
    weight = rng.normal(75, 10, PERSONS)[who] + 3 * slope * visit + rng.normal(0, 4, len(who))
    source = pa.table({"patient": who, "visit": visit, "weight": weight})
    _, copies = released(source, tmp_path, unit="patient", time="visit", keep=["visit"])
    result = audit(source, copies)
    assert result.faults == []
    assert result.time == "visit"
    assert any("noise is a curve in visit" in line for line in notes(result))
    assert kinds(result)[(0,), "weight", "change"].hidden > 0.4
