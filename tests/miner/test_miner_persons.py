"""Copies of tables with a unit: standard errors come from persons, and draws are joint."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import BiasWarning
from cornerwave.miner import Copy
from cornerwave.vault import Vault

PERSONS, VISITS = 400, 8


def visits(seed=1):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(PERSONS), VISITS)
    x = 0.9 * rng.normal(size=PERSONS)[who] + np.sqrt(1 - 0.81) * rng.normal(size=len(who))
    sex = rng.choice(["f", "m"], PERSONS)
    job = np.where(rng.random(PERSONS) < 0.8, np.where(sex == "f", "a", "b"), "c")
    z = x + rng.normal(size=PERSONS)[who]
    return pa.table({"who": who, "x": x, "z": z, "sex": sex[who], "job": job[who]})


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    vault = Vault.create(folder / "vault")
    copies = {}
    for name, drop in (("shown", []), ("dropped", ["who"])):
        made = Vault.create(folder / name) if drop else vault
        dataset = made.register("clinic", visits(), unit="who", drop=drop, keep_order=True)
        dataset.release(to="a", privacy=0.5, raw=True).write(folder / f"{name}.parquet")
        copies[name] = folder / f"{name}.parquet"
    return copies


def test_errors_grow_by_what_persons_share(released):
    """n rows of m per person, correlated by r: Var(mean) grows by 1 + (m - 1) r."""
    copy = Copy.open(released["shown"])
    assert copy.unit == "who"
    by_row = replace(copy, unit=None)
    grown = (1 + (VISITS - 1) * 0.81) ** 0.5
    for of in ("population", "table"):
        one, other = copy.mean(of=of), by_row.mean(of=of)
        assert one.value.tolist() == other.value.tolist()
        # both variances are known from 64 groups: a tenth each, four of them
        ratio = one["x"].standard_error / other["x"].standard_error
        assert ratio == pytest.approx(grown, rel=0.5)
    slope, rows = (each.regression("z", on=["x"]).coefficients["x"] for each in (copy, by_row))
    assert slope.value == rows.value
    assert slope.standard_error > 1.3 * rows.standard_error
    share, rows = (each.frequencies("sex")["f"] for each in (copy, by_row))
    assert share.standard_error > 1.8 * rows.standard_error  # sqrt(8) if it is constant


def test_two_categories_of_a_person_were_replaced_together(released):
    """One donor for both: what they have in common is that of the table, not shrunk twice."""
    table, copy = visits(), Copy.open(released["shown"])
    pair = copy.two_way("sex", "job")["f", "a"]
    truth = np.mean((np.asarray(table["sex"]) == "f") & (np.asarray(table["job"]) == "a"))
    assert abs(pair.value - truth) < 5 * pair.standard_error
    assert pair.value < 0.6


def test_a_copy_without_the_unit_warns(released):
    with pytest.warns(BiasWarning, match="belong to persons, and the copy does not show which"):
        copy = Copy.open(released["dropped"])
    assert copy.unit is None
    assert copy.mean()["x"].standard_error > 0


def test_the_unit_is_not_a_column_to_ask_about(released):
    assert "who" not in Copy.open(released["shown"]).columns


@pytest.mark.slow
def test_errors_of_shares_are_those_of_exchanges(tmp_path):
    """Of 60 categories that have nothing in common, whose shares an exchange moves apart."""
    rng, persons, many = np.random.default_rng(4), 1000, 60
    who = np.repeat(np.arange(persons), 2)
    of = {f"c{n}": rng.choice(["a", "b"], persons)[who] for n in range(many)}
    table = pa.table({"who": who, **of}).take(rng.permutation(len(who)))
    dataset = Vault.create(tmp_path / "v").register("t", table, unit="who")
    # by row, which is quick: of two rows that are the same, errors are sqrt(2) as large
    copy = Copy.open(dataset.release(to="a", privacy=0.8).write(tmp_path / "a.parquet"))
    copy = replace(copy, unit=None)

    def squares(copy):
        each = {name: copy.frequencies(name, of="table")["a"] for name in of}
        true = {name: np.mean(of[name] == "a") for name in of}
        return np.mean([((e.value - true[n]) / e.standard_error) ** 2 / 2 for n, e in each.items()])

    # 60 squares of normal numbers: five standard errors
    assert squares(copy) == pytest.approx(1, abs=5 * np.sqrt(2 / many))
    # negative control: as if each person's were drawn from the table
    drawn = {n: replace(c, is_exchanged=False) for n, c in copy.columns.items()}
    assert squares(replace(copy, columns=drawn)) < 0.5
