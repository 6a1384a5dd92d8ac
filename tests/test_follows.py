"""Columns that follow from others are recomputed in each copy, and hide what they follow from."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import cross_val_predict

from cornerwave.audit import audit
from cornerwave.columns import OTHER, Encoded, Followed, derived_from_number, limit_between
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import ColumnError
from cornerwave.inspection import draft, inspect
from cornerwave.miner import Copy
from cornerwave.schema_file import schema_text
from cornerwave.sources import open_source
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Vault

ROWS = 4000
BANDS = ("Less than 25", "25 - 45", "Greater than 45")
FOLLOWS = {"band": "age", "code": "race", "continent": "race"}
ALPHA = 1e-6


def band_of(age):
    return np.array(BANDS)[np.searchsorted([25, 46], age, side="right")]


def people(rows=ROWS, seed=1):
    rng = np.random.default_rng(seed)
    age = np.clip(18 + rng.gamma(2.0, 8.0, rows), 18, 96).astype(np.int64)
    race = rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])
    return pa.table(
        {
            "age": age,
            "band": band_of(age),
            "priors": rng.poisson(age / 15.0),
            "race": np.array(["a", "b", "c", "d"])[race],
            "code": race + 1,
            "continent": np.array(["x", "x", "y", "y"])[race],
        }
    )


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A table, and the paths of copies at three privacies."""
    place = tmp_path_factory.mktemp("follows")
    dataset = Vault.create(place / "vault").register("people", people(), follows=FOLLOWS)
    paths = {p: place / f"{p}.parquet" for p in (0.2, 0.5, 0.8)}
    for privacy, path in paths.items():
        dataset.release(to="p", privacy=privacy).write(path)
    return dataset, paths


# --- copies -------------------------------------------------------------------------------


def test_bands_and_codes_are_those_of_the_copy_in_every_row(released):
    _, paths = released
    for path in paths.values():
        copy = pq.read_table(path)
        ages = copy["age"].to_numpy()
        assert copy["band"].to_pylist() == band_of(ages).tolist()
        race = pc.index_in(copy["race"].cast("string"), value_set=pa.array(list("abcd")))
        assert (race.to_numpy() + 1 == copy["code"].to_numpy()).all()
        assert copy["continent"].to_pylist() == [["x", "x", "y", "y"][i] for i in race.to_pylist()]


def test_a_category_of_its_own_disagrees_with_the_copy(vault, tmp_path):
    dataset = vault.register("t", people().select(["age", "band"]))
    dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet")
    copy = pq.read_table(tmp_path / "t.parquet")
    wrong = np.mean(np.array(copy["band"].to_pylist()) != band_of(copy["age"].to_numpy()))
    assert wrong > 0.2


def test_a_band_follows_what_is_released_clipped_or_renamed(vault, tmp_path):
    dataset = vault.register(
        "t",
        people(),
        follows=FOLLOWS,
        clip={"age": (18, 96)},
        released_as={"age": "years", "band": "group"},
    )
    dataset.release(to="p", privacy=0.8).write(tmp_path / "t.csv")
    table = dataset.release(to="q", privacy=0.8).write(tmp_path / "t.parquet")
    copy = pq.read_table(table)
    assert copy["group"].to_pylist() == band_of(copy["years"].to_numpy()).tolist()
    assert dictionary_of(tmp_path / "t.parquet").entries[1].what.startswith("follows from years")


def test_gaps_of_a_number_have_the_value_that_the_table_has_there(vault, tmp_path):
    table = people()
    gone = np.arange(ROWS) % 10 == 0
    table = table.set_column(0, "age", pa.array(table["age"].to_numpy(), mask=gone))
    bands = np.where(gone, "unknown", table["band"].to_pylist())
    table = table.set_column(1, "band", pa.array(bands))
    vault.register("t", table, follows={"band": "age"}, categorical=["code"]).release(
        to="p", privacy=0.5
    ).write(tmp_path / "t.parquet")
    copy = pq.read_table(tmp_path / "t.parquet")
    unknown = np.array(copy["band"].to_pylist()) == "unknown"
    assert (unknown == copy["age"].is_null().to_numpy()).all()


# --- what is fixed ------------------------------------------------------------------------


def test_what_is_fixed_is_kept_to_the_bit_and_states_no_cell(released):
    dataset, _ = released
    frozen = dataset.frozen
    again = Frozen.from_json(frozen.to_json())
    assert again.to_json() == frozen.to_json()
    band, _, _ = again.derived
    assert band.limits == (25.0, 46.0)
    assert 'follows = "age"' in schema_text(frozen.schema)


def test_the_promise_holds_for_columns_that_follow(released):
    dataset, _ = released
    shares = dataset.frozen.hidden.shares
    for name, source in FOLLOWS.items():
        assert (np.array(shares[name]) <= np.array(shares[source]) + 1e-9).all()
        assert shares[name][49] > 0.45


def test_what_other_columns_reveal_of_a_band_raises_the_level(vault):
    """A flag that is known of each band alone predicts it better than it predicts the age."""
    table, rng = people(), np.random.default_rng(5)
    middle = np.array(table["band"].to_pylist()) == BANDS[1]
    flag = np.where(rng.random(ROWS) < 0.05, ~middle, middle)
    table = table.select(["age", "band"]).append_column("flag", pa.array(flag))
    frozen = vault.register("t", table, follows={"band": "age"}).frozen
    assert frozen.hidden.shares["band"][49] < frozen.hidden.shares["age"][49] - 0.05
    assert frozen.hidden.needed[499] > 540


def test_a_band_far_out_in_a_tail_costs_more_on_its_own_scale_than_on_ranks(vault):
    rng = np.random.default_rng(6)
    wage = np.exp(rng.normal(0, 1.5, ROWS))
    table = pa.table({"wage": wage, "top": np.where(wage > 20, "top", "other")})
    own = vault.register("own", table, follows={"top": "wage"}).frozen.hidden
    ranks = Vault.create(vault.path.parent / "other").register(
        "ranks", table, follows={"top": "wage"}, transform={"wage": "rank"}
    )
    assert own.shares["top"][49] < 0.47
    assert ranks.frozen.hidden.shares["top"][49] > 0.48


# --- refusals -----------------------------------------------------------------------------


def test_a_column_that_does_not_follow_is_refused_with_the_share_that_does_not_fit(vault):
    table = people()
    bands = table["band"].to_pylist()
    bands[:40] = ["25 - 45"] * 40
    dirty = table.set_column(1, "band", pa.array(bands))
    with pytest.raises(
        ColumnError, match=r"'band' does not follow from 'age': about 0\.[1-9]%"
    ) as e:
        vault.register("t", dirty, follows={"band": "age"})
    assert not any(each in str(e.value) for each in BANDS)
    codes = table["code"].to_numpy().copy()
    codes[::7] = 1
    with pytest.raises(ColumnError, match="'code' does not follow from 'race'"):
        vault.register("t", table.set_column(4, "code", pa.array(codes)), follows={"code": "race"})


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"follows": {"band": "nothing"}}, "no column 'nothing'"),
        ({"follows": {"band": "age"}, "drop": ["age"]}, "which is dropped"),
        ({"follows": {"band": "age"}, "keep": ["age"]}, "which is kept"),
        ({"follows": {"band": "code", "code": "race"}}, "which is derived"),
        ({"follows": {"band": "age"}, "uniform": ["band"]}, "is derived, but uniform needs"),
    ],
)
def test_what_a_column_cannot_follow_is_refused(vault, choices, words):
    with pytest.raises(ColumnError, match=words):
        vault.register("t", people(), **choices)


# --- rare values --------------------------------------------------------------------------


def test_rare_bands_are_pooled_and_too_few_together_join_the_next():
    x = np.array([1.0] * 30 + [2.0] * 2 + [3.0] * 4 + [4.0] * 30 + [9.0])
    labels = pa.array(["a"] * 30 + ["b"] * 2 + ["c"] * 4 + ["d"] * 30 + ["e"])
    column = Encoded.of_category(labels, "label")
    codes = column.codes.astype(np.int64)
    followed = Followed.of_number(column, x)
    fixed = derived_from_number(
        "label", "x", followed, type_=pa.string(), sample=(x, codes), min_count=5
    )
    assert fixed.values.to_pylist() == ["a", OTHER, "d", None]
    assert fixed.of(pa.array([1.0, 2.0, 3.4, 4.0, 50.0, None])).to_pylist() == [
        "a",
        OTHER,
        OTHER,
        "d",
        "d",
        None,
    ]


def test_parts_of_a_table_add_up_to_the_whole():
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, 500)
    x[::9] = np.nan
    labels = pa.array(np.where(np.isnan(x), "gap", np.where(x > 0, "high", "low")))
    some, rest = slice(0, 200), slice(200, None)
    parts = [Followed.of_number(Encoded.of_category(labels[at], "l"), x[at]) for at in (some, rest)]
    whole = Followed.of_number(Encoded.of_category(labels, "l"), x)
    assert parts[0] + parts[1] == parts[1] + parts[0] == whole


@given(
    st.floats(-1e9, 1e9),
    st.floats(1e-6, 1e6),
    st.sampled_from([0.0, 1e-3, 1.0]),
)
def test_a_limit_lies_between_two_numbers_and_is_no_finer_than_a_step(below, gap, finest):
    above = below + gap
    if not below < above:
        return
    found = limit_between(below, above, finest)
    if finest and not below < found <= above:
        assert abs(found / finest - round(found / finest)) < 1e-3
    else:
        assert below < found <= above


# --- recipients, auditors and attackers ---------------------------------------------------


def test_a_miner_is_referred_to_the_column_that_is_followed(released):
    _, paths = released
    copy = Copy.open(paths[0.5])
    assert "band" not in copy.columns
    with pytest.raises(ColumnError, match="follows from another column"):
        copy.frequencies("band")


def leaking(table, path, out):
    """What must fall: the band of the table beside the age of the copy."""
    copy = pq.read_table(path)
    place = copy.schema.get_field_index("band")
    own = table["band"].cast(copy.schema.field("band").type)
    pq.write_table(copy.set_column(place, copy.schema.field(place), own), out)
    return out


def test_an_audit_knows_what_follows_and_finds_what_does_not(released, tmp_path):
    _, paths = released
    honest = audit(people(), list(paths.values()))
    assert honest.sound
    assert not honest.untested
    found = audit(people(), [leaking(people(), paths[0.5], tmp_path / "leak.parquet")])
    assert [check.name for check in found.faults] == ["derived"]


def left_of(truth, copy, names):
    """The share of a table's indicator that boosting on all of a copy leaves, with its error."""
    numbers = [copy[n].to_numpy() for n in ("age", "priors", "code")]
    codes = [np.unique(copy[n].to_pylist(), return_inverse=True)[1] for n in names]
    known = np.column_stack([*numbers, *codes])
    model = HistGradientBoostingRegressor(max_iter=60, learning_rate=0.1, max_leaf_nodes=12)
    errors = (truth - cross_val_predict(model, known, truth, cv=4)) ** 2
    return errors.mean() / truth.var(), errors.std() / truth.var() / np.sqrt(len(truth))


@pytest.mark.slow
@pytest.mark.parametrize("transform", [{}, {"age": "rank"}])
def test_boosting_on_whole_copies_recovers_no_more_of_bands_than_is_stated(transform, tmp_path):
    rows, z = 30_000, 5.0  # z of ALPHA
    table = people(rows, seed=8)
    dataset = Vault.create(tmp_path / "vault").register(
        "t", table, follows=FOLLOWS, transform=transform
    )
    names = ["band", "race", "continent"]
    for privacy in (0.2, 0.5, 0.8):
        path = dataset.release(to="p", privacy=privacy).write(tmp_path / f"{privacy}.parquet")
        copy = pq.read_table(path)
        for name in ("band", "continent"):
            for value in set(table[name].to_pylist()):
                truth = (np.array(table[name].to_pylist()) == value).astype(float)
                left, error = left_of(truth, copy, names)
                assert left > privacy - z * error, (name, value, privacy)
    leak = pq.read_table(leaking(table, path, tmp_path / "leak.parquet"))
    left, _ = left_of((np.array(table["band"].to_pylist()) == BANDS[0]).astype(float), leak, names)
    assert left < 0.05


# --- drafts -------------------------------------------------------------------------------


def drafted(table):
    return {c.name: c.follows[0] for c in inspect(open_source(table)).columns if c.follows}


@pytest.mark.filterwarnings("ignore:'seldom'")
def test_inspect_drafts_bands_labels_and_groups_and_nothing_else(vault, tmp_path):
    rng = np.random.default_rng(3)
    table = people()
    codes = table["code"].to_numpy()
    table = table.append_column("label", pa.array(np.array(list("?klmn"))[codes]))
    table = table.append_column("year", pa.array(2024 - table["age"].to_numpy()))
    table = table.append_column("nearly", pa.array(band_of(table["age"].to_numpy() + 0)))
    wrong = table["nearly"].to_pylist()
    wrong[7] = BANDS[0] if wrong[7] != BANDS[0] else BANDS[2]
    table = table.set_column(table.num_columns - 1, "nearly", pa.array(wrong))
    table = table.append_column("seldom", pa.array(["y"] * 4 + ["n"] * (ROWS - 4)))
    table = table.append_column("coin", pa.array(rng.choice(["h", "t"], ROWS)))
    table = table.take(rng.permutation(ROWS))
    found = drafted(table)
    assert found.pop("band") == "age"
    assert found == dict.fromkeys(["continent", "code", "label"], "race")
    text = draft(inspect(open_source(table)))
    assert 'follows = "age"    # each of its values has an interval of age in all rows' in text
    path = tmp_path / "schema.toml"
    path.write_text(text.replace('"decide"', '"drop"'))
    dataset = vault.register("t", table, schema=path)
    assert {each.column for each in dataset.frozen.derived} == {*found, "band"}


def test_a_group_follows_what_decides_its_code_and_nearly_unique_columns_decide_nothing():
    rng = np.random.default_rng(4)
    age = rng.integers(18, 90, 900)
    table = pa.table(
        {
            "group": np.where(age < 46, "below", "above"),
            "band": band_of(age),
            "name": [f"n{i}" for i in rng.permutation(900) // 3],
            "age": age,
        }
    )
    assert drafted(table) == {"band": "age", "group": "age"}
