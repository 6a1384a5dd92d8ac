"""A declared unit: what is refused, what is warned of, and what the owner is told about persons."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.choices import Choices
from cornerwave.columns import decide
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import AlreadyRegistered, ColumnError, CornerwaveWarning
from cornerwave.inspection import draft, inspect
from cornerwave.miner import Copy
from cornerwave.outlook import advice
from cornerwave.privacy import Hidden, UnitColumns, find_above, find_better, unreachable
from cornerwave.report import report_document
from cornerwave.sources import open_source


def clinic(persons=400, visits=6, *, seed=0, household=None):
    """Return visits of persons, in random order; persons of a household share an income."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), visits)
    home = np.arange(persons) // (household or 1)
    income = rng.normal(size=persons)[home] if household else rng.normal(size=persons)
    rent = income + 0.3 * rng.normal(size=persons)
    n = len(person)
    table = pa.table(
        {
            "person": person,
            "home": home[person],
            "visit": np.tile(np.arange(visits), persons),
            "height": rng.normal(170, 10, persons)[person],
            "income": income[person] + 0.2 * rng.normal(size=n),
            "rent": rent[person] + 0.2 * rng.normal(size=n),
            "sex": rng.choice(["f", "m"], persons)[person],
            "cost": rng.gamma(2, 100, n),
        }
    )
    return table.take(pa.array(rng.permutation(n)))


# --- is it the right one? ---------------------------------------------------------------------


def looked_at(table, unit, **choices):
    columns = UnitColumns.of(decide(table.schema, Choices.of(unit=unit, **choices)))
    return columns.looked(*map(np.array, columns.of_rows(table, np.arange(len(table)), bytes(32))))


def test_a_person_that_is_declared_raises_no_alarm():
    for seed in range(20):
        table = clinic(seed=seed).drop_columns("home")
        columns = looked_at(table, "person")
        assert find_better(columns, "person", rows=len(table)) is None
        assert find_above(columns, "person", persons=400) == []


def test_persons_of_a_household_are_warned_of_and_those_of_none_are_not(vault):
    table = clinic(household=4, persons=800)
    message = "persons with the same 'home' belong together: they agree in .*'income'"
    with pytest.warns(CornerwaveWarning, match=message) as said:
        vault.register("clinic", table, unit="person", drop=["home"])
    assert "name it as the unit" in str(said[0].message)
    rng = np.random.default_rng(1)
    other = table.set_column(1, "home", pa.array(rng.permutation(200)[np.asarray(table["home"])]))
    mixed = other.set_column(1, "home", pa.array(rng.integers(200, size=800)[table["person"]]))
    assert find_above(looked_at(mixed, "person", drop=("home",)), "person", persons=800) == []


def test_a_unit_finer_than_the_person_is_warned_of(vault):
    table = clinic(visits=6)
    each = [
        f"P{p:04}-{v // 2}"
        for p, v in zip(table["person"].to_pylist(), table["visit"].to_pylist(), strict=True)
    ]
    table = table.drop_columns(["home", "person", "visit"]).append_column("stay", [each])
    with pytest.warns(CornerwaveWarning, match="same 'stay up to its last separator' belong"):
        vault.register("clinic", table, unit="stay")


def test_the_number_of_a_visit_is_refused_as_the_unit(vault, untouched):
    table = clinic(persons=300, visits=30).drop_columns("home")
    with untouched(), pytest.raises(ColumnError, match="'visit' is not what rows belong to") as e:
        vault.register("clinic", table, unit="visit", drop=["person"])
    assert "Name 'person' as the unit" in str(e.value)
    assert e.value.use == ("unit", "independent_rows")


def test_an_owner_may_insist_on_a_unit(vault):
    table = clinic(persons=300, visits=30).drop_columns("home")
    made = vault.register("clinic", table, unit="visit", independent_rows=True, drop=["person"])
    assert made.frozen.schema.unit == "visit"


def test_appended_rows_of_the_same_persons_are_accepted(vault):
    table = clinic().drop_columns(["home", "visit"])
    key = pa.array([f"k{n}" for n in range(len(table))])
    table = table.append_column("id", key)
    dataset = vault.register("clinic", table.slice(0, 1800), key="id", unit="person")
    assert dataset.append(table.slice(1800)).number == 2


# --- what the owner is told -------------------------------------------------------------------


def uneven(seed=3):
    """Return persons with 2 to 4 rows, one with 9, and three rows without a person."""
    rng = np.random.default_rng(seed)
    sizes = np.append(rng.integers(2, 5, 299), 9)
    person = np.repeat(np.arange(300), sizes)
    level = rng.normal(size=300)[person]
    names = pa.array([f"p{n}" for n in person] + [None] * 3)
    x = np.append(level, rng.normal(size=3)) + 0.3 * rng.normal(size=len(names))
    y = rng.normal(size=len(names))
    rows = pa.array(rng.permutation(len(names)))
    return pa.table({"person": names, "x": x, "y": y}).take(rows)


def sentences(dataset):
    return " | ".join(advice(dataset.frozen).sentences)


def test_persons_are_counted_and_those_who_stand_out(vault):
    dataset = vault.register("clinic", uneven(), unit="person")
    said = sentences(dataset)
    assert "unit: person, a pseudonym in copies; 303 persons, typically 3 rows each" in said
    assert "at most 9; 3 rows have none, and each counts as a separate person" in said
    # one person has nine rows; three have one: fewer than five persons each
    assert "copies show how many rows a person has: 4 persons stand out by it" in said
    assert vault.dataset("clinic").frozen.people == dataset.frozen.people


def test_a_unit_as_it_is_and_one_that_is_dropped_are_said(vault, tmp_path):
    kept = vault.register("clinic", uneven(), unit="person", keep=["person"])
    said = sentences(kept)
    assert "unit: person, released unchanged" in said
    assert "finds the rows of that person in every copy" in said
    with pytest.raises(AlreadyRegistered, match=r"in place of the unit is decided.*unit as it is"):
        vault.register("clinic", uneven(), unit="person")
    hidden = vault.register("other", uneven(seed=4), unit="person", drop=["person"])
    assert "unit: person, not in copies" in sentences(hidden)
    assert "copies show how many rows" not in sentences(hidden)


@pytest.mark.slow
def test_dictionary_report_and_miner_know_the_unit(vault, tmp_path):
    path = tmp_path / "clinic.parquet"
    pa.parquet.write_table(uneven(), path)
    dataset = vault.register("clinic", path, unit="person")
    copy = dataset.release(to="partner", privacy=0.5).write(tmp_path / "copy.parquet")
    [entry] = [each for each in dictionary_of(copy).entries if each.column == "person"]
    assert entry.what.startswith("pseudonym of the person that rows belong to")
    assert "person" not in Copy.open(copy).columns
    notes = str(report_document(dataset))
    assert "unit: person, a pseudonym in copies; 303 persons" in notes
    assert "not shown (constant, kept, derived, key or unit columns): person" in notes


def test_a_privacy_that_persons_do_not_allow_is_explained_by_persons():
    known = Hidden(
        shares={"time": (0.0,) * 99, "x": (0.5,) * 99},
        needed=(0,) * 999,
        strongest={},
        ceilings={"time": 1.0, "x": 1.0},
    )
    said = unreachable(known, "cow")
    assert "Of time, all rows of a person (cow) together reveal the rest" in said
    assert "what copies show without noise" in unreachable(known)


# --- a draft ------------------------------------------------------------------------------------


def test_a_draft_leaves_out_other_names_of_the_unit_and_is_registered_as_it_is(vault, tmp_path):
    table = clinic().drop_columns(["home", "visit"])
    called = pa.array([f"Clinic {p}" for p in table["person"].to_pylist()])
    source = open_source(table.append_column("called", called))
    found = inspect(source)
    does = {report.name: report.do for report in found.columns}
    assert (does["person"], does["called"]) == ("unit", "drop")
    schema = tmp_path / "schema.toml"
    schema.write_text(draft(found))
    dataset = vault.register("clinic", table.append_column("called", called), schema=schema)
    assert dataset.frozen.schema.unit == "person"


def test_a_draft_proposes_the_unit_that_registration_would_name(vault, tmp_path):
    """A route is called like an identifier, and its rows agree in a toll: less than a walker's."""
    table = clinic(persons=300, visits=12).drop_columns(["home", "visit", "cost"])
    rng = np.random.default_rng(8)
    route = rng.integers(0, 40, len(table))
    table = table.rename_columns(["walker", *table.column_names[1:]])
    table = table.append_column("route_id", pa.array(route))
    toll = rng.normal(size=40)[route] + rng.normal(size=len(table))
    table = table.append_column("toll", pa.array(toll))
    with pytest.raises(ColumnError, match="'route_id' is not what rows belong to"):
        vault.register("routes", table, unit="route_id")
    found = inspect(open_source(table))
    assert {report.name: report.do for report in found.columns}["walker"] == "unit"
    schema = tmp_path / "schema.toml"
    schema.write_text(draft(found))
    assert vault.register("walks", table, schema=schema).frozen.schema.unit == "walker"


def test_a_draft_of_too_few_persons_asks_the_owner():
    found = inspect(open_source(clinic(persons=17, visits=12).drop_columns(["home", "visit"])))
    assert {report.name: report.do for report in found.columns}["person"] == "decide"
    assert "a unit needs at least 20 persons" in draft(found)


# --- bad input: one line, and nothing is written ------------------------------------------------

BAD = {
    "constant": ({"unit": "one"}, "'one' names 1 person or thing, and at least 20 are needed"),
    "all distinct": ({"unit": "row"}, "'row' differs in every row, so each row is a person"),
    "fractions": ({"unit": "height"}, "a unit must be whole numbers, text or dates, not double"),
    "the key too": ({"unit": "person", "key": "person"}, "the key and also the unit; choose one"),
    "uniform": ({"unit": "person", "uniform": ["sex"]}, "uniform does not go with a unit"),
    "kept and dropped": (
        {"unit": "person", "keep": ["person"], "drop": ["person"]},
        "kept and also dropped",
    ),
    "no such column": ({"unit": "patient"}, "no column 'patient'"),
    "all missing": ({"unit": "nobody"}, "'nobody' has no value, so it identifies no one"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_unit_that_cannot_be_one_is_refused_in_one_line(vault, untouched, case):
    choices, message = BAD[case]
    table = clinic().drop_columns("home")
    n = len(table)
    table = table.append_column("one", pa.array(["a"] * n))
    table = table.append_column("row", pa.array([f"r{i}" for i in range(n)]))
    table = table.append_column("nobody", pa.nulls(n, pa.string()))
    others = {"one", "row", "nobody"} - {choices["unit"]}
    choices = {**choices, "drop": [*choices.get("drop", ()), *others]}
    with untouched(), pytest.raises(ColumnError, match=message) as e:
        vault.register("clinic", table, **choices)
    assert "\n" not in str(e.value)


def test_many_rows_of_one_person_among_others_are_registered(vault):
    """The person with most rows must not fill what is sampled of all."""
    rng = np.random.default_rng(5)
    person = np.append(np.repeat(np.arange(200), 5), np.full(20_000, 200))
    rng.shuffle(person)
    level = rng.normal(size=201)[person]
    table = pa.table({"person": person, "x": level + rng.normal(size=len(person))})
    dataset = vault.register("clinic", table, unit="person")
    people = dataset.frozen.people
    assert (people.persons, people.typical, people.most) == (201, 5, 20_000)
    assert people.stand_out == 1


def test_registering_a_unit_warns_of_nothing_else(vault):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vault.register("clinic", clinic().drop_columns("home"), unit="person")
