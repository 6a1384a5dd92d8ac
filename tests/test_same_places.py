"""Categories that everybody has alike at the same time: another history shows them unchanged."""

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import ColumnError, LevelError
from cornerwave.inspection import inspect
from cornerwave.ledger import Key
from cornerwave.levels import Level
from cornerwave.sources import open_source
from cornerwave.spine import coordinates
from cornerwave.vault import Vault
from tests.conftest import freeze_table

PERSONS, YEARS = 500, 6
CHOICES = {"unit": "person", "time": "year", "shuffle": True}


def panel(share, seed=0):
    """Phase follows the year in a share of the rows, and is anything in the others."""
    rng = np.random.default_rng(seed)
    n = PERSONS * YEARS
    year = np.tile(np.arange(YEARS), PERSONS)
    phase = np.where(rng.random(n) < share, year // 2, rng.integers(0, 3, n))
    return pa.table(
        {
            "person": [f"P{u:04d}" for u in np.repeat(np.arange(PERSONS), YEARS)],
            "year": 1980 + year,
            "level": np.repeat(rng.normal(0, 3, PERSONS), YEARS) + rng.normal(0, 1, n),
            "phase": [f"F{each}" for each in phase],
            "sex": np.repeat(rng.choice(["f", "m"], PERSONS), YEARS),
        }
    )


def left_of(table, copy, name="phase"):
    """What a linear estimate from a copy's own cell and the true year leaves of a category."""
    values = np.unique(np.array(table[name].to_pylist()))
    wanted, shown = (
        (np.array(each[name].to_pylist())[:, None] == values[1:]).astype(float)
        for each in (table, copy)
    )
    years = np.asarray(table["year"])[:, None] == np.arange(1981, 1980 + YEARS)
    features = np.column_stack([np.ones(len(years)), shown, years])
    half = np.repeat(np.random.default_rng(1).integers(0, 2, PERSONS), YEARS)
    left = np.empty_like(wanted)
    for k in (0, 1):
        weights = np.linalg.lstsq(features[half != k], wanted[half != k], rcond=None)[0]
        left[half == k] = wanted[half == k] - features[half == k] @ weights
    return (left**2).sum() / ((wanted - wanted.mean(axis=0)) ** 2).sum()


def registered(folder, table, **choices):
    folder.mkdir(exist_ok=True)
    return Vault.create(folder / "vault").register("p", table, **{**CHOICES, **choices})


def test_what_everybody_runs_through_in_one_order_is_refused_by_name(tmp_path):
    with pytest.raises(ColumnError, match="same values of 'phase' in the same order") as caught:
        registered(tmp_path, panel(1.0))
    assert "'sex'" not in str(caught.value)
    dropped = Vault.open(tmp_path / "vault").register("p", panel(1.0), drop=["phase"], **CHOICES)
    assert "phase" not in dropped.frozen.hidden.shares


def test_another_order_in_each_person_is_not_refused(tmp_path):
    dataset = registered(tmp_path, panel(0.0))
    assert dataset.frozen.hidden.shares["phase"][49] == pytest.approx(0.5, abs=0.02)


def test_what_places_reveal_is_paid_by_the_level(tmp_path):
    """Half of the variance of phase, about, is the same in everybody: the level makes up for it."""
    table = panel(0.6)
    dataset = registered(tmp_path, table, shuffle=False, keep_order=True)
    by_level = dataset.release(to="b", privacy=0.5, raw=True).to_arrow()
    as_before = dataset.release(to="a", noise=1.0, raw=True).to_arrow()
    # 0.05 is four errors: sqrt(2 p q / (500 persons x 2 coordinates)) is .022, half of it between
    assert left_of(table, by_level) > 0.45
    assert left_of(table, as_before) < 0.45


def test_inspect_proposes_to_leave_it_out_and_to_perturb_the_time():
    found = inspect(open_source(panel(1.0)))
    assert found.time == "year"
    proposed = {each.name: each.do for each in found.columns}
    assert (proposed["phase"], proposed["year"], proposed["sex"]) == ("drop", "perturb", "category")
    proposed = {each.name: each.do for each in inspect(open_source(panel(0.0))).columns}
    assert proposed["phase"] == "category"


# --- Persons with unequal years: those of another are nearly theirs, and change like them ---------


def unequal(persons=PERSONS, seed=3):
    """6 to 8 of 11 years each; an index rises with the year. The era is the year, as a text.

    A person's rows stand together, in any order.
    """
    rng = np.random.default_rng(seed)
    sizes, first = rng.integers(6, 9, persons), rng.integers(0, 4, persons)
    who = np.repeat(np.arange(persons), sizes)
    year = first[who] + np.arange(len(who)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    year = year[np.lexsort((rng.random(len(who)), who))]
    return pa.table(
        {
            "person": [f"P{u:04d}" for u in who],
            "year": 1980 + year,
            "era": [f"E{y:02d}" for y in year],
            "index": 2.0 * year + rng.normal(size=len(who)),
            "level": rng.normal(0, 3, persons)[who] + rng.normal(size=len(who)),
        }
    )


def left_of_changes(table, copy, shown):
    """What the changes of some columns leave of those of the index, beside a row's own values."""
    person = np.unique(np.array(table["person"].to_pylist()), return_inverse=True)[1]
    here = np.flatnonzero(person[1:] == person[:-1])
    wanted = np.diff(np.asarray(table["index"]))[here]
    every = [np.array([float(str(c).strip("E")) for c in copy[n].to_pylist()]) for n in shown]
    changes = [np.diff(x)[here] for x in every]
    X = np.column_stack([np.ones(len(here)), *[x[here] for x in every], *changes])
    half, left = person[here] % 2, np.empty(len(here))
    for k in (0, 1):
        weights = np.linalg.lstsq(X[half != k], wanted[half != k], rcond=None)[0]
        left[half == k] = wanted[half == k] - X[half == k] @ weights
    return left.var() / wanted.var()


def test_a_time_cannot_be_a_category(tmp_path):
    """Nor is it drafted as one. By another name no noise would hide it, and a copy states so.

    500 persons with six changes each: a share of .5 has an error of about .5 sqrt(2 / 3000) = .013.
    """
    table = unequal()
    with pytest.raises(ColumnError, match="'year': the time cannot be a category"):
        registered(tmp_path, table, categorical=["year"])
    found = inspect(open_source(table.drop_columns(["era"])))
    assert found.time == "year"
    assert {each.name: each.do for each in found.columns}["year"] == "perturb"
    chosen = {"shuffle": False, "keep_order": True}
    drafted = registered(tmp_path / "drafted", table, drop=["era"], **chosen)
    copy = drafted.release(to="a", privacy=0.5, raw=True).to_arrow()
    assert left_of_changes(table, copy, ["index", "year"]) > 0.5 - 4 * 0.013
    control = registered(tmp_path / "control", table, drop=["year"], **chosen)
    copy = control.release(to="a", noise=1.0, raw=True).to_arrow()
    assert left_of_changes(table, copy, ["index", "era"]) < 0.25
    assert control.frozen.hidden.highest < 0.25
    with pytest.raises(LevelError, match="Without era"):
        control.release(to="b", privacy=0.5)


# --- Categories that go with the place show what else goes with it --------------------------------


def left_of_years(table, copy):
    """What a linear estimate from a copy's own phase and year leaves of the year."""
    cells = [np.array(copy["phase"].to_pylist()) == value for value in ("F1", "F2")]
    features = np.column_stack([np.ones(len(table)), *cells, np.asarray(copy["year"])])
    wanted = np.asarray(table["year"], dtype=float)
    weights = np.linalg.lstsq(features, wanted, rcond=None)[0]
    return float(((wanted - features @ weights) ** 2).mean() / wanted.var())


def test_donors_show_the_time_as_the_replaced_do(tmp_path, monkeypatch):
    """Their phase goes with the year in the same place: replacing it hides nothing of the year.

    A share of .4 of 3,000 rows, whose years are independent given their noise, has an error of
    .4 sqrt(2 / 3000) = .01.
    """
    table = panel(0.7)
    for safe in (True, False):
        if not safe:
            monkeypatch.setattr(coordinates, "shown_by_place", lambda z, *_: np.zeros_like(z))
        dataset = registered(tmp_path / str(safe), table)
        truth = tmp_path / "truth.arrow"
        dataset.write_in_copies_order(truth)
        copy = dataset.release(to="a", privacy=0.4, raw=True).to_arrow()
        left = left_of_years(pa.ipc.open_file(truth).read_all(), copy)
        assert (left > 0.4 - 4 * 0.01) == safe
        truth.unlink()


def test_of_few_persons_each_column_counts_by_itself(monkeypatch):
    """All columns together have more coefficients than 80 persons show: fits of them are worse."""
    rng, persons = np.random.default_rng(3), 80
    who = np.repeat(np.arange(persons), 5)
    site = rng.integers(0, 4, persons)[who]

    def number(between, within):
        return between * rng.normal(size=persons)[who] + within * rng.normal(size=len(who))

    table = pa.table(
        {
            "who": who,
            "site": [f"s{each}" for each in site],
            **{f"x{n}": number(1, 1) for n in range(6)},
            "y": site + number(0.7, 0.7),
        }
    ).take(rng.permutation(len(who)))

    def stated():
        choices = {"unit": "who", "keep": ["site"], "shuffle": True, "few_rows": True}
        hidden = freeze_table(table, Key.unsafe_from_seed(5), **choices).hidden
        return np.array([hidden.promised(Level.of(privacy=p)) for p in (0.3, 0.5, 0.7)])

    with_rule = stated()
    monkeypatch.setattr("cornerwave.privacy._persons.ENOUGH", 0)
    assert (with_rule <= stated()).all()
    assert with_rule[1] < stated()[1] - 0.01  # the control states more than can be relied on
    assert (np.diff(with_rule) >= 0).all()
