"""Numbers and dates that are perturbed as their distance from another column keep their order."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.audit import attack_copies, audit
from cornerwave.choices import Choices
from cornerwave.columns import bases_first, decide, to_distances, to_values
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import BiasWarning, ColumnError, SourceChanged
from cornerwave.inspection import draft, inspect
from cornerwave.miner import Copy
from cornerwave.schema_file import read_choices, schema_text
from cornerwave.sources import open_source
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Vault

ROWS = 3000
PRIVACIES = (0.2, 0.5, 0.8)
ALPHA = 1e-6
Z = 5.0  # of ALPHA, both sides
RELATIVE = {"jail_out": "jail_in"}
RANKS = dict.fromkeys(("jail_in", "jail_out", "age"), "rank")
START = np.datetime64("2013-01-01")


def days(column):
    """Dates as days since 1970, NaN where missing."""
    values = column.cast(pa.int32()).to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)


def jailed(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    entry = START + rng.integers(0, 700, rows)
    stay = np.where(rng.random(rows) < 0.3, 0, rng.gamma(0.6, 30, rows)).astype(np.int64)
    return pa.table(
        {
            "jail_in": pa.array(entry),
            "jail_out": pa.array(entry + stay),
            "age": (18 + rng.gamma(2.0, 8.0, rows) + stay / 30).astype(np.int64),
            "sex": rng.choice(["m", "f"], rows),
        }
    )


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A table, and the paths of copies at three privacies."""
    place = tmp_path_factory.mktemp("relative")
    vault = Vault.create(place / "vault")
    dataset = vault.register("t", jailed(), relative_to=RELATIVE, transform=RANKS)
    paths = [
        dataset.release(to="p", privacy=p).write(place / f"{i}.parquet")
        for i, p in enumerate(PRIVACIES)
    ]
    return dataset, paths


# --- copies -------------------------------------------------------------------------------


def test_copies_keep_the_order_and_the_distribution_of_distances(released):
    _, paths = released
    truth = jailed()
    stay = days(truth["jail_out"]) - days(truth["jail_in"])
    for path in paths:
        copy = pq.read_table(path)
        assert copy.schema.field("jail_out").type == pa.date32()
        distance = days(copy["jail_out"]) - days(copy["jail_in"])
        assert distance.min() >= 0
        assert distance.max() <= stay.max()
        zeros = np.mean(distance == 0), np.mean(stay == 0)
        assert abs(zeros[0] - zeros[1]) < Z * np.sqrt(0.5 / ROWS) + 1 / 60  # a share of a knot


def test_a_late_entry_and_a_long_stay_end_within_the_table(vault, tmp_path):
    """A register that was closed on a day; added up, distances would go on after it."""
    rng = np.random.default_rng(5)
    entry = rng.integers(0, 700, ROWS)
    stay = (rng.random(ROWS) * (700 - entry)).astype(np.int64)
    table = pa.table(
        {"jail_in": pa.array(START + entry), "jail_out": pa.array(START + entry + stay)}
    )
    truth = days(table["jail_out"])
    ranks = dict.fromkeys(("jail_in", "jail_out"), "rank")
    dataset = vault.register("t", table, relative_to=RELATIVE, transform=ranks)
    path = dataset.release(to="p", privacy=0.8).write(tmp_path / "t.parquet")
    copy = pq.read_table(path)
    out = days(copy["jail_out"])
    assert truth.min() <= out.min() <= out.max() <= truth.max()
    assert np.mean(out == out.max()) > 0.05  # these would lie beyond
    assert (out >= days(copy["jail_in"])).all()
    assert audit(table, [path]).sound
    frozen = dataset.frozen
    assert out.max() == np.rint(frozen.ranges["jail_out"][1])
    assert not {*frozen.ranges["jail_out"]} & {truth.min(), truth.max()}  # no cells
    assert Frozen.from_json(frozen.to_json()).ranges == frozen.ranges


def test_each_perturbed_by_itself_many_leave_before_they_enter(vault, tmp_path):
    dataset = vault.register("t", jailed(), transform=RANKS)
    copy = pq.read_table(dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet"))
    assert np.mean(days(copy["jail_out"]) < days(copy["jail_in"])) > 0.05


def test_a_chain_of_columns_keeps_its_order_under_other_names(vault, tmp_path):
    rng = np.random.default_rng(3)
    a = rng.normal(100, 20, ROWS).round()
    b, c = a + rng.poisson(3, ROWS), a + rng.poisson(3, ROWS) + 8
    c = np.maximum(b, c)
    table = pa.table({"c": c.astype(int), "b": b.astype(int), "a": a.astype(int)})
    dataset = vault.register(
        "t",
        table,
        relative_to={"c": "b", "b": "a"},
        transform=dict.fromkeys("abc", "rank"),
        released_as={"b": "middle"},
    )
    path = dataset.release(to="p", privacy=0.8).write(tmp_path / "t.parquet")
    copy = pq.read_table(path)
    first, middle, last = (copy[n].to_numpy() for n in ("a", "middle", "c"))
    assert (first <= middle).all()
    assert (middle <= last).all()
    assert {middle.dtype, last.dtype} == {np.dtype(np.int64)}
    notes = {entry.column: entry.what for entry in dictionary_of(path).entries}
    assert "distance from the copy’s middle" in notes["c"]
    assert audit(table, [path]).sound


def test_a_distance_is_missing_where_either_is_and_hidden_gaps_are_filled(vault, tmp_path):
    table = jailed()
    gone = [np.arange(ROWS) % 10 == 0, np.arange(ROWS) % 7 == 0]
    for place, name in enumerate(("jail_in", "jail_out")):
        column = pa.array(table[name].to_numpy(), mask=gone[place])
        table = table.set_column(place, name, column)
    dataset = vault.register("t", table, relative_to=RELATIVE, transform=RANKS)
    copy = pq.read_table(dataset.release(to="p", privacy=0.2).write(tmp_path / "t.parquet"))
    assert (copy["jail_in"].is_null().to_numpy() == gone[0]).all()
    assert (copy["jail_out"].is_null().to_numpy() == (gone[0] | gone[1])).all()
    both = {"hide_missing": list(RELATIVE) + list(RELATIVE.values())}
    filled = Vault.create(tmp_path / "other").register(
        "t", table, relative_to=RELATIVE, transform=RANKS, **both
    )
    copy = pq.read_table(filled.release(to="p", privacy=0.2).write(tmp_path / "f.parquet"))
    assert copy["jail_out"].null_count == copy["jail_in"].null_count == 0
    assert (days(copy["jail_out"]) >= days(copy["jail_in"])).all()


def test_new_rows_keep_their_order_and_a_changed_table_is_refused(vault, tmp_path):
    first = tmp_path / "t.parquet"
    pq.write_table(jailed(), first)
    dataset = vault.register("t", first, relative_to=RELATIVE, transform=RANKS)
    pq.write_table(jailed(seed=2), tmp_path / "more.parquet")
    dataset.append(tmp_path / "more.parquet")
    copy = pq.read_table(dataset.release(to="p", privacy=0.5).write(tmp_path / "c.parquet"))
    assert copy.num_rows == 2 * ROWS
    assert (days(copy["jail_out"]) >= days(copy["jail_in"])).all()
    changed = jailed()
    later = changed["jail_out"].to_numpy() + (np.arange(ROWS) == 5)
    pq.write_table(changed.set_column(1, "jail_out", pa.array(later)), first)
    with pytest.raises(SourceChanged):
        dataset.release(to="p", privacy=0.5).write(tmp_path / "d.parquet")


# --- what is fixed, and refusals ----------------------------------------------------------


def test_what_is_fixed_is_kept_to_the_bit_and_the_schema_file_states_it(released, tmp_path):
    frozen = released[0].frozen
    assert Frozen.from_json(frozen.to_json()).to_json() == frozen.to_json()
    assert frozen.schema.relative == RELATIVE
    path = tmp_path / "schema.toml"
    path.write_text(schema_text(frozen.schema))
    again = decide(jailed().schema, read_choices(path, jailed().column_names))
    assert again.relative == RELATIVE


def test_distances_and_values_are_inverse_along_chains():
    relative = {"c": "b", "b": "a"}
    assert bases_first(relative) == ["b", "c"]
    numbers = np.array([[5.0, np.nan], [3.0, 4.0], [1.0, 1.0]])
    to_distances(numbers, ["c", "b", "a"], relative)
    assert np.array_equal(numbers, [[2.0, np.nan], [2.0, 3.0], [1.0, 1.0]], equal_nan=True)
    values = to_values(dict(zip("cba", numbers, strict=True)), relative)
    assert np.array_equal(values["c"], [5.0, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"relative_to": {"jail_out": "nothing"}}, "no column 'nothing'"),
        ({"relative_to": {"jail_out": "sex"}}, "which is a category"),
        ({"relative_to": RELATIVE, "keep": ["jail_in"]}, "which is kept"),
        ({"relative_to": {"jail_out": "jail_in", "jail_in": "jail_out"}}, "back to the column"),
        ({"relative_to": {"jail_out": "age"}}, "have no distance"),
        ({"relative_to": RELATIVE, "clip": {"jail_out": (None, 3.0)}}, "is not clipped"),
        ({"relative_to": RELATIVE, "hide_missing": ["jail_in"]}, "hides its gaps; hide both"),
        ({"relative_to": RELATIVE, "unit": "sex"}, "does not go with a unit"),
        ({"relative_to": {"sex": "age"}}, "is a category, but relative_to needs"),
        ({"relative_to": RELATIVE, "follows": {"sex": "jail_out"}}, "relative to another column"),
    ],
)
def test_what_a_column_cannot_be_relative_to_is_refused(choices, words):
    with pytest.raises(ColumnError, match=words):
        decide(jailed().schema, Choices.of(**choices))


def test_a_column_that_is_rounded_more_coarsely_than_its_base_is_refused():
    types = pa.schema([("a", pa.float64()), ("b", pa.int64())])
    with pytest.raises(ColumnError, match="rounded more coarsely"):
        decide(types, Choices.of(relative_to={"b": "a"}))
    assert decide(types, Choices.of(relative_to={"a": "b"})).relative == {"a": "b"}
    with pytest.raises(ColumnError, match="rounded more coarsely"):
        decide(types, Choices.of(relative_to={"b": "a"}, decimals={"a": 2}))


def test_a_release_does_not_clip_what_is_relative(released, tmp_path):
    with pytest.raises(ColumnError, match="is not clipped"):
        released[0].release(to="p", privacy=0.5, clip={"jail_out": (0, 9)})


def test_rows_in_the_order_of_their_distances_are_refused(vault):
    table = jailed()
    stay = days(table["jail_out"]) - days(table["jail_in"])
    with pytest.raises(ColumnError, match="order of the rows reveals 'jail_out - jail_in'"):
        vault.register("t", table.take(np.argsort(stay)), relative_to=RELATIVE, transform=RANKS)


# --- what is promised ---------------------------------------------------------------------


def offsetting(rows=6000, seed=4):
    """x = b + d with d nearly -b, and a flag that shows what is left: x above its mean."""
    rng = np.random.default_rng(seed)
    b, x = rng.normal(0, 10, rows), rng.normal(0, 3, rows)
    return pa.table({"b": b, "x": x, "flag": np.where(x > 0, "yes", "no")})


def left_of(truth, copy):
    """The share of x that a regression on a copy leaves, with its error, by NumPy alone."""
    known = [copy["b"].to_numpy(), copy["x"].to_numpy()]
    known.append(np.array(copy["flag"].to_pylist()) == "yes")
    design = np.column_stack([np.ones(len(truth)), *known])
    error = (truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]) ** 2
    return error.mean() / truth.var(), error.std() / truth.var() / np.sqrt(len(truth))


@pytest.mark.parametrize("transform", [{}, dict.fromkeys("bx", "rank")])
def test_the_column_is_hidden_and_not_its_distance_alone(vault, tmp_path, transform):
    """The level is raised for x; at that for b and d alone the same attack breaks the promise."""
    table = offsetting()
    truth = table["x"].to_numpy()
    dataset = vault.register("t", table, relative_to={"x": "b"}, transform=transform)
    shares, needed = dataset.frozen.hidden.shares, dataset.frozen.hidden.needed[499]
    assert shares["x"][49] < shares["b"][49] - 0.02
    assert needed > 540
    for p in (0.5, 0.8):
        path = dataset.release(to="p", privacy=p).write(tmp_path / f"{p}.parquet")
        left, error = left_of(truth, pq.read_table(path))
        assert left > p - Z * error
    unraised = dataset.release(to="p", noise=1.0).write(tmp_path / "one.parquet")
    left, error = left_of(truth, pq.read_table(unraised))
    assert left < 0.5 - Z * error


def test_levels_are_not_raised_where_nothing_reveals_more(released):
    hidden = released[0].frozen.hidden
    assert hidden.needed[499] < 520
    assert hidden.ceilings["jail_out"] == 1.0


# --- auditors and attackers ---------------------------------------------------------------


def with_column(path, name, values, out):
    copy = pq.read_table(path)
    place = copy.schema.get_field_index(name)
    pq.write_table(copy.set_column(place, copy.schema.field(place), values), out)
    return out


def test_an_audit_sees_the_noise_of_distances_and_finds_what_leaks(released, tmp_path):
    _, paths = released
    truth = jailed()
    honest = audit(truth, paths)
    assert honest.sound
    assert not honest.untested
    judged = {left.column for left in honest.whole[0]}
    assert {"jail_in", "jail_out", "jail_out (as shown)"} <= judged
    copy = pq.read_table(paths[1])
    stay = days(truth["jail_out"]) - days(truth["jail_in"])
    exact = pa.array((days(copy["jail_in"]) + stay).astype(np.int32)).cast(pa.date32())
    # the table's own column, and the copy's base with the table's own distance
    for values, check in ((truth["jail_out"].combine_chunks(), "whole copy"), (exact, "apart")):
        found = audit(truth, [with_column(paths[1], "jail_out", values, tmp_path / "l.parquet")])
        assert check in [fault.name for fault in found.faults]


def test_the_sum_of_two_honest_distances_is_judged_by_what_is_stated(vault, tmp_path):
    """Copies at the level of b and d alone, that state 0.5 of everything: the audit sees x."""
    table = offsetting(rows=12_000)
    dataset = vault.register("t", table, relative_to={"x": "b"})
    path = dataset.release(to="p", noise=1.0).write(tmp_path / "t.parquet")
    assert audit(table, [path]).sound
    found = audit(table, [path], privacy=[0.5])
    assert any("x (as shown)" in str(fault.note) for fault in found.faults)


def own_scales(rows=4000, seed=6):
    rng = np.random.default_rng(seed)
    b = rng.normal(50, 10, rows)
    d = 0.3 * b + rng.gamma(4.0, 2.0, rows)
    return pa.table({"b": b, "x": b + d, "z": 0.1 * (b + d) + rng.normal(0, 1, rows)})


def test_an_attack_estimates_the_column_and_scores_the_distance(vault, tmp_path):
    table = own_scales()
    dataset = vault.register("t", table, relative_to={"x": "b"})
    paths = [
        dataset.release(to=f"{p}", privacy=p).write(tmp_path / f"{p}.parquet") for p in (0.5, 0.8)
    ]
    out = tmp_path / "estimate.parquet"
    recovered = attack_copies(paths, truth=table, out=out)
    assert recovered.columns == ("b", "x - b", "z")
    assert np.allclose(recovered.together, 0.5, atol=Z * np.sqrt(2 / 4000))
    estimate = pq.read_table(out)["x"].to_numpy()
    truth = table["x"].to_numpy()
    error = np.mean((estimate - truth) ** 2) / truth.var()
    assert abs(error - 0.5) < Z * np.sqrt(2 / 4000)


# --- recipients ---------------------------------------------------------------------------


def test_a_miner_answers_about_column_and_distance_on_ranks(released):
    _, paths = released
    table = jailed()
    entry, out = days(table["jail_in"]), days(table["jail_out"])
    for path in paths:
        copy = Copy.open(path)
        for name, truth in (("jail_out", out), ("jail_out - jail_in", out - entry)):
            with pytest.warns(BiasWarning, match="clipped to a range"):
                mean, found = copy.original_mean(name), copy.distribution(name)
            assert abs(mean.value - truth.mean()) < Z * mean.standard_error
            at = np.quantile(truth, np.linspace(0.1, 0.9, 9)) + 0.5
            shares = np.array([np.mean(truth <= x) for x in at])
            # DKW: the error of an empirical distribution at ALPHA; a knot is one of 60 shares
            limit = 2 * np.sqrt(np.log(2 / ALPHA) / 2 / ROWS) + 1 / 60
            assert np.abs(found.cdf(at) - shares).max() < limit
        with pytest.raises(ColumnError, match="rank scale"):
            copy.covariance(["jail_out"])


def test_a_raw_copy_on_ranks_has_the_same_distribution(released, tmp_path):
    dataset, _ = released
    raw = dataset.release(to="q", privacy=0.8, raw=True).write(tmp_path / "raw.parquet")
    shown, truth = days_of(raw), days(jailed()["jail_out"])
    found = Copy.open(raw).distribution("jail_out")
    ends = np.quantile(truth, [0.05, 0.5, 0.95])
    limit = np.sqrt(np.log(2 / ALPHA) / 2 / ROWS) + 1 / 60
    assert np.abs(found.cdf(ends) - [0.05, 0.5, 0.95]).max() < limit
    assert np.mean(shown <= ends[0]) > 0.05 + limit  # as it is, it is too wide


def days_of(path):
    return pq.read_table(path)["jail_out"].to_numpy()


@pytest.mark.parametrize("raw", [False, True])
def test_a_miner_answers_everything_on_own_scales(vault, tmp_path, raw):
    table = own_scales()
    gone = np.random.default_rng(7).random(len(table)) < 0.2
    table = table.set_column(1, "x", pa.array(table["x"].to_numpy(), mask=gone))
    dataset = vault.register("t", table, relative_to={"x": "b"})
    path = dataset.release(to="p", privacy=0.5, raw=raw).write(tmp_path / "t.parquet")
    copy = Copy.open(path)
    assert list(copy.columns) == ["b", "x", "x - b", "z"]
    b, x, z = (table[n].to_numpy()[~gone] for n in ("b", "x", "z"))
    truth = np.cov([x, x - b, z])
    names = ["x", "x - b", "z"]
    found = copy.covariance(names, of="table")
    assert (np.abs(found.value - truth)[:2, :2] < Z * found.standard_error[:2, :2]).all()
    mean = copy.mean(["x"], of="table")["x"]
    assert abs(mean.value - x.mean()) < Z * mean.standard_error
    slope = copy.regression("z", on=["x"]).coefficients["x"]
    assert abs(slope.value - np.polyfit(x, z, 1)[0]) < Z * slope.standard_error
    if raw:  # as it is, a raw copy has twice the variance
        seen = np.nanvar(pq.read_table(path)["x"].to_numpy())
        assert seen - truth[0, 0] > Z * found.standard_error[0, 0]


def test_rounding_of_both_parts_is_taken_out(vault, tmp_path):
    """Of whole numbers with deviations near the step, the rounding of b is in x too."""
    rng = np.random.default_rng(8)
    rows = 240_000
    b = rng.poisson(2.5, rows)
    x = b + rng.poisson(2.5, rows)
    dataset = vault.register("t", pa.table({"b": b, "x": x}), relative_to={"x": "b"})
    path = dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet")
    assert pq.read_table(path).schema.types == [pa.int64(), pa.int64()]
    found = Copy.open(path).covariance(["b", "x"], of="table")
    truth = np.cov([b, x])
    assert (np.abs(found.value - truth) < Z * found.standard_error).all()
    # left in, the rounding would be seen: 1/12 in units of step / factor, of both parts, halved
    assert 2 * found.standard_error[1, 1] < 2 * (2 / 12) / 2 or rows < 10**5


# --- drafts -------------------------------------------------------------------------------


def test_inspect_drafts_what_comes_after_another_and_nothing_else(tmp_path):
    rng = np.random.default_rng(9)
    table = jailed()
    enrolled = START - rng.integers(800, 2000, ROWS)
    other = START + rng.integers(0, 700, ROWS)
    low = rng.gamma(3.0, 10.0, ROWS).round()
    table = table.append_column("enrolled", pa.array(enrolled)).append_column(
        "seen", pa.array(other)
    )
    table = table.append_column("rate_low", pa.array(low))
    table = table.append_column("rate_high", pa.array(low + rng.gamma(2.0, 9.0, ROWS).round()))
    table = table.append_column("weight", pa.array(low + 1000.0))
    inspection = inspect(open_source(table))
    drafted = {c.name: c.relative_to[0] for c in inspection.columns if c.relative_to}
    assert drafted == {
        "jail_out": "jail_in",
        "jail_in": "enrolled",
        "seen": "enrolled",
        "rate_high": "rate_low",
    }
    text = draft(inspection)
    assert 'relative_to = "jail_in"    # not below jail_in in all rows looked at' in text
    path = tmp_path / "schema.toml"
    path.write_text(text.replace('"decide"', '"drop"'))
    assert read_choices(path, table.column_names).relative_to == drafted


@pytest.mark.parametrize(
    ("name", "every", "drafted"),
    [("jail_out", 100, True), ("jail_out", 10, False), ("freed", 100, False)],
)
def test_a_pair_with_rows_out_of_order_is_drafted_by_its_names_alone(name, every, drafted):
    table = jailed()
    entry, out = table["jail_in"].to_numpy(), table["jail_out"].to_numpy().copy()
    out[::every] = entry[::every] - np.timedelta64(3, "D")
    table = table.set_column(1, name, pa.array(out))
    assert any(c.relative_to for c in inspect(open_source(table)).columns) == drafted
