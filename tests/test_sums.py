"""Numbers that are the sum of others are computed in each copy, and hidden as what they are."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.audit import audit
from cornerwave.choices import Choices
from cornerwave.columns import decide
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import ColumnError
from cornerwave.inspection import draft, inspect
from cornerwave.schema_file import schema_text
from cornerwave.sources import open_source
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Vault

ROWS = 3000
Z = 5.0  # of 1e-6, both sides
SUM = {"paid": "principal + interest + fees"}
RANKS = dict.fromkeys(("principal", "interest", "fees"), "rank")


def payments(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    principal = rng.gamma(2.0, 3000.0, rows).round(2)
    interest = (principal * rng.uniform(0.02, 0.2, rows)).round(2)
    fees = np.where(rng.random(rows) < 0.9, 0.0, rng.gamma(1.0, 20.0, rows)).round(2)
    whole = rng.poisson(3.0, rows)
    return pa.table(
        {
            "paid": (principal + interest + fees).round(2),
            "principal": principal,
            "interest": interest,
            "fees": fees,
            "adults": whole,
            "children": rng.poisson(1.0, rows),
            "grade": rng.choice(["a", "b", "c"], rows),
        }
    )


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A table, and the paths of copies at two privacies."""
    place = tmp_path_factory.mktemp("sums")
    dataset = Vault.create(place / "vault").register(
        "t", payments(), sum_of=SUM, transform=RANKS, decimals=dict.fromkeys(RANKS, 2)
    )
    paths = [dataset.release(to="p", privacy=p).write(place / f"{p}.parquet") for p in (0.5, 0.8)]
    return dataset, paths


def added(copy, names):
    return sum(copy[name].to_numpy() for name in names)


# --- copies -------------------------------------------------------------------------------


def test_a_total_is_the_sum_of_the_copys_own_parts_in_every_row(released, tmp_path):
    dataset, paths = released
    for path in paths:
        copy = pq.read_table(path)
        paid = copy["paid"].to_numpy()
        assert copy.column_names == payments().column_names
        assert np.abs(paid - added(copy, RANKS)).max() < 1e-9
        assert (paid == paid.round(2)).all()
    raw = pq.read_table(
        dataset.release(to="q", privacy=0.5, raw=True).write(tmp_path / "raw.parquet")
    )
    assert np.allclose(raw["paid"].to_numpy(), added(raw, RANKS))


def test_perturbed_by_itself_it_is_not(vault, tmp_path):
    dataset = vault.register("t", payments(), transform=RANKS | {"paid": "rank"})
    copy = pq.read_table(dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet"))
    assert np.mean(np.abs(copy["paid"].to_numpy() - added(copy, RANKS)) > 1) > 0.9


def test_whole_totals_stay_whole_and_a_column_may_be_there_twice(vault, tmp_path):
    table = payments()
    people = table["adults"].to_numpy() + table["children"].to_numpy()
    day = pa.array(np.datetime64("2020-01-01") + people * 9)
    table = table.append_column("people", pa.array(people, pa.int16()))
    table = table.append_column("day", day).append_column("same", day)
    table = table.select(["adults", "children", "people", "day", "same"])
    dataset = vault.register(
        "t",
        table,
        sum_of={"people": "adults + children", "same": "day"},
        transform=dict.fromkeys(("adults", "children", "day"), "rank"),
        released_as={"adults": "grown"},
    )
    path = dataset.release(to="p", privacy=0.8).write(tmp_path / "t.parquet")
    copy = pq.read_table(path)
    assert copy.schema.field("people").type == pa.int64()
    assert (copy["people"].to_numpy() == added(copy, ("grown", "children"))).all()
    assert copy["same"].equals(copy["day"])
    about = {entry.column: entry.what for entry in dictionary_of(path).entries}
    assert about["people"] == "computed from the copy’s columns: grown + children"
    assert audit(table, [path]).sound


def test_a_total_is_missing_where_a_part_is(vault, tmp_path):
    table = payments()
    gone = np.arange(ROWS) % 7 == 0
    for name in ("paid", "interest"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(table[name].to_numpy(), mask=gone))
    dataset = vault.register("t", table, sum_of=SUM, transform=RANKS)
    copy = pq.read_table(dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet"))
    assert (copy["paid"].is_null().to_numpy() == gone).all()


# --- what is fixed, and refusals ----------------------------------------------------------


def test_what_is_fixed_is_kept_to_the_bit_and_the_schema_file_states_it(released):
    frozen = released[0].frozen
    assert Frozen.from_json(frozen.to_json()).to_json() == frozen.to_json()
    assert frozen.schema.totals == {"paid": tuple(RANKS)}
    assert 'sum_of = "principal + interest + fees"' in schema_text(frozen.schema)


@pytest.mark.parametrize("spoiled", ["value", "gap"])
def test_a_column_that_is_no_sum_is_refused_with_the_share_that_does_not_fit(vault, spoiled):
    table = payments()
    paid = table["paid"].to_numpy().copy()
    some = np.arange(ROWS) % 100 == 0
    if spoiled == "value":
        paid[some] += 1.0
    column = pa.array(paid, mask=some if spoiled == "gap" else None)
    with pytest.raises(ColumnError, match=r"not the sum .*: 1.0% of the rows"):
        vault.register("t", table.set_column(0, "paid", column), sum_of=SUM)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"sum_of": {"paid": "principal + nothing"}}, "no column 'nothing'"),
        ({"sum_of": {"paid": "principal+interest"}}, "with ' . ' between them"),
        ({"sum_of": {"paid": "principal + grade"}}, "which is a category"),
        ({"sum_of": {"paid": "principal + principal"}}, "more than once"),
        ({"sum_of": {"grade": "principal"}}, "cannot be the sum"),
        ({"sum_of": SUM, "follows": {"paid": "fees"}}, "choose one"),
        ({"sum_of": SUM, "unit": "grade"}, "does not go with a unit"),
        ({"sum_of": SUM, "drop": ["fees"]}, "which is dropped"),
    ],
)
def test_what_a_column_cannot_be_the_sum_of_is_refused(choices, words):
    with pytest.raises(ColumnError, match=words):
        decide(payments().schema, Choices.of(**choices))


# --- what is promised, and audited --------------------------------------------------------


def offsetting(rows=6000, seed=4):
    """x = a + b with b nearly -a, and a flag that shows what is left: x above its mean."""
    rng = np.random.default_rng(seed)
    a, x = rng.normal(0, 10, rows), rng.normal(0, 3, rows)
    return pa.table({"a": a, "b": x - a, "x": x, "flag": np.where(x > 0, "yes", "no")})


def left_of(truth, copy):
    """The share of x that a regression on a copy leaves, with its error, by NumPy alone."""
    known = [copy[name].to_numpy() for name in ("a", "b")]
    known.append(np.array(copy["flag"].to_pylist()) == "yes")
    design = np.column_stack([np.ones(len(truth)), *known])
    error = (truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]) ** 2
    return error.mean() / truth.var(), error.std() / truth.var() / np.sqrt(len(truth))


@pytest.mark.parametrize("transform", [{}, dict.fromkeys("ab", "rank")])
def test_the_total_is_hidden_and_not_its_parts_alone(vault, tmp_path, transform):
    """The level is raised for x; at that for a and b alone the same attack breaks the promise."""
    table = offsetting()
    truth = table["x"].to_numpy()
    dataset = vault.register("t", table, sum_of={"x": "a + b"}, transform=transform)
    assert dataset.frozen.hidden.needed[499] > 540
    path = dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet")
    left, error = left_of(truth, pq.read_table(path))
    assert left > 0.5 - Z * error
    unraised = dataset.release(to="p", noise=1.0).write(tmp_path / "one.parquet")
    left, error = left_of(truth, pq.read_table(unraised))
    assert left < 0.5 - Z * error


def test_an_audit_checks_the_sum_and_finds_a_total_of_the_table(released, tmp_path):
    _, paths = released
    honest = audit(payments(), paths)
    assert honest.sound
    assert "paid (as shown)" in {left.column for left in honest.whole[0]}
    copy = pq.read_table(paths[0])
    leaked = copy.set_column(0, copy.schema.field("paid"), payments()["paid"])
    pq.write_table(leaked, tmp_path / "l.parquet")
    found = audit(payments(), [tmp_path / "l.parquet"])
    assert "derived" in [fault.name for fault in found.faults]


# --- drafts -------------------------------------------------------------------------------


def test_inspect_drafts_sums_and_columns_that_are_there_twice_and_nothing_else(vault, tmp_path):
    table = payments()
    people = table["adults"].to_numpy() + table["children"].to_numpy()
    nearly = people.copy()
    nearly[5] += 1
    table = table.append_column("people", pa.array(people)).append_column("off", pa.array(nearly))
    table = table.append_column("once_more", table["principal"])
    exact = table["fees"].to_numpy() + 0.004 * (np.arange(ROWS) % 3 - 1)  # a total is rounded
    table = table.set_column(3, "fees", pa.array(exact.round(3)))
    found = inspect(open_source(table))
    drafted = {c.name: c.sum_of[0] for c in found.columns if c.sum_of}
    assert drafted == SUM | {"people": "adults + children", "once_more": "principal"}
    path = tmp_path / "schema.toml"
    path.write_text(draft(found).replace('order = "shuffle"', 'order = "keep"'))
    assert "decimals = 2" in path.read_text().partition("sum_of =")[2][:200]
    dataset = vault.register("t", table, schema=path)
    assert dataset.frozen.schema.totals["people"] == ("adults", "children")
    copy = pq.read_table(dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet"))
    paid = copy["paid"].to_numpy()
    assert (paid == paid.round(2)).all()
    assert np.abs(paid - added(copy, RANKS)).max() < 0.0051
    assert audit(table, [tmp_path / "t.parquet"]).sound
