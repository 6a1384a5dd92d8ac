"""Real tables from end to end, through the vault and through the command line."""

import datetime as dt
import json
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave import Vault, cli
from cornerwave.columns import Scale
from cornerwave.errors import AlreadyRegistered, ColumnError, OutputError, SourceChanged
from cornerwave.outputs import read_metadata
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import write_all
from tests.scores import worst_cell_score, z_bound
from tests.tables import STRANGE_NAMES, adult

ROWS = 3000
CANARY = "canary83914271"


def mixed(rows=ROWS, seed=0):
    """A column of every kind, with missing values where a CSV can have them."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 20_000, rows)
    wage = [None if i % 11 == 0 else float(w) for i, w in enumerate(rng.lognormal(3, 1, rows))]
    return pa.table(
        {
            "id": pa.array([f"p{i}" for i in rng.permutation(rows)]),
            "wage": pa.array(wage),
            "city": pa.array(np.array(["Bonn", "Köln", "", "a,b", 'q"q'])[days % 5]),
            "born": pa.array(days.astype(np.int32)).cast(pa.date32()),
            "member": pa.array(days % 3 == 0, mask=days % 7 == 0),
            "grade": pa.array(days % 4),
            "seen": pa.array(rng.integers(0, 2**50, rows), pa.timestamp("us")),
            "district": pa.array([f"d{day % 5}{day % 2}" for day in days]),
        }
    )


CHOICES = {
    "key": "id",
    "categorical": ["grade"],
    "together": [["city", "district"]],
    "hide_missing": ["member"],
    "transform": {"wage": "log1p"},
    "min_count": 2,
}


@pytest.fixture
def vault(tmp_path):
    return Vault.create(tmp_path / "vault")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command as a person would: returns its exit code and what it said."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with warnings.catch_warnings(), pytest.raises(SystemExit) as exit_:
            cli.main(list(map(str, arguments)))
        said = capsys.readouterr()
        return exit_.value.code or 0, said.out, said.err

    assert call("init")[0] == 0
    return call


def refused(result):
    """One line that says why, and nothing that looks like a fault or a cell."""
    code, out, err = result
    assert code == 2, (out, err)
    assert out == ""
    assert err.startswith("cornerwave: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    assert CANARY not in err
    return err


# --- a table like UCI Adult ---------------------------------------------------------------------


def test_a_table_like_adult_just_works(run, tmp_path):
    table = adult()
    pacsv.write_csv(table, "adult.csv")
    assert run("register", "adult", "adult.csv", "--drop", "fnlwgt", "--few-rows")[0] == 0
    assert run("release", "adult", "--to", "bob", "--privacy", "0.5", "--out", "bob.csv")[0] == 0
    copy = pacsv.read_csv(tmp_path / "bob.csv")
    assert copy.column_names == [name for name in table.column_names if name != "fnlwgt"]
    assert copy.num_rows == table.num_rows
    for name in copy.column_names:
        assert not copy.column(name).equals(table.column(name)), name
        if pa.types.is_string(table.schema.field(name).type):
            assert set(copy.column(name).to_pylist()) <= set(table.column(name).to_pylist())


def test_what_inspect_drafts_is_what_register_takes(run, tmp_path):
    table = adult()
    papq.write_table(table, "adult.parquet")
    assert run("inspect", "adult.parquet", "--out", "schema.toml")[0] == 0
    code, out, _ = run("inspect", "adult.parquet")
    assert (code, out) == (0, (tmp_path / "schema.toml").read_text(encoding="utf-8"))
    draft = (tmp_path / "schema.toml").read_text(encoding="utf-8")
    undecided = refused(run("register", "adult", "adult.parquet", "--schema", "schema.toml"))
    assert "still to decide: 'fnlwgt'" in undecided
    decided = draft.replace('do = "decide"', 'do = "perturb"')
    (tmp_path / "schema.toml").write_text(decided, encoding="utf-8")
    assert run("register", "adult", "adult.parquet", "--schema", "schema.toml")[0] == 0
    assert run("release", "adult", "--to", "bob", "--privacy", "0.5")[0] == 0
    copy = papq.read_table("adult-bob.parquet")
    assert copy.column_names == table.column_names
    (tmp_path / "draft.toml").write_text(draft, encoding="utf-8")
    code, _, said = run("inspect", "adult.parquet", "--out", "draft.toml")
    assert code == 0  # the same draft; and the table has a name already
    assert "as adult; next: cornerwave release adult" in said
    Path("other.toml").write_text("mine")
    assert "exists" in refused(run("inspect", "adult.parquet", "--out", "other.toml"))
    assert Path("other.toml").read_text() == "mine"
    both = run("register", "b", "adult.parquet", "--schema", "schema.toml", "--drop", "age")
    assert "leave out the others" in refused(both)


# --- a copy is a function of the rows, the key and the level ------------------------------


@pytest.fixture
def people(vault):
    return vault.register("people", mixed(), **CHOICES, few_rows=True)


def copy_of(dataset, noise=1.0, **finish):
    return dataset.release(to="bob", noise=noise, **finish).to_arrow()


def test_a_copy_has_the_columns_of_the_source_in_its_order(people):
    copy = copy_of(people)
    assert copy.column_names == mixed().column_names
    assert copy.schema.types == mixed().schema.types
    raw = copy_of(people, raw=True)
    assert {raw.schema.field(name).type for name in ("born", "seen")} == {pa.float64()}
    for name in ("city", "member", "grade", "district"):
        assert raw.schema.field(name).type == mixed().schema.field(name).type
    rounded = copy_of(people, raw=True, round=["born", "seen"])
    assert rounded.schema.types == mixed().schema.types


def test_the_order_of_levels_plays_no_part_for_categories(vault, people):
    names = ["city", "district", "member", "grade"]
    first = {noise: copy_of(people, noise) for noise in (4.0, 0.2, 1.0)}
    for noise in (1.0, 4.0, 0.2):
        assert copy_of(people, noise).equals(first[noise])
    batch = people.release_many([("a", r.level) for r in _releases(people, (0.2, 1.0, 4.0, 9.0))])
    tables = [release.to_arrow() for release in batch]
    for found, noise in zip(tables, (0.2, 1.0, 4.0), strict=False):
        assert found.equals(first[noise])
    # and the copies are copies: the noisier, the fewer cells that are kept
    source = mixed()
    for name in names:
        kept = [
            np.mean(np.array(t.column(name).to_pylist()) == source.column(name).to_pylist())
            for t in tables
        ]
        assert kept == sorted(kept, reverse=True)
        assert kept[0] > kept[-1]


def _releases(dataset, levels):
    return [dataset.release(to="a", noise=noise) for noise in levels]


def test_written_again_a_copy_is_the_same_file(people, tmp_path):
    release = people.release(to="bob", noise=1.0)
    for ending in ("parquet", "arrow", "csv"):
        one = release.write(tmp_path / f"one.{ending}", threads=1)
        two = release.write(tmp_path / f"two.{ending}", threads=3)
        assert one.read_bytes() == two.read_bytes()


def test_chunks_and_row_groups_play_no_part(vault, people, tmp_path, at_a_time):
    whole = copy_of(people)
    papq.write_table(mixed(), tmp_path / "cut.parquet", row_group_size=77)
    assert copy_of(vault.dataset("people", source=tmp_path / "cut.parquet")).equals(whole)
    at_a_time(GROUP_CELLS=1)  # groups of 1024 rows
    assert copy_of(vault.dataset("people", source=mixed())).equals(whole)


def test_shuffled_rows_with_a_key_get_the_same_cells(vault, people):
    order = np.random.default_rng(2).permutation(ROWS)
    shuffled = vault.dataset("people", source=mixed().take(order))
    assert copy_of(shuffled).equals(copy_of(people).take(order))


def test_shuffled_rows_without_a_key_are_refused(vault):
    table = mixed().drop_columns(["id"])
    vault.register("people", table, few_rows=True)
    order = np.random.default_rng(2).permutation(ROWS)
    with pytest.raises(SourceChanged, match="the order of the rows"):
        copy_of(vault.dataset("people", source=table.take(order)))


@pytest.mark.parametrize("first", ["parquet", "csv"])
def test_csv_and_parquet_of_the_same_values_give_the_same_copy(vault, tmp_path, first):
    table = mixed()
    papq.write_table(table, tmp_path / "t.parquet")
    pacsv.write_csv(table, tmp_path / "t.csv")
    sources = {"parquet": tmp_path / "t.parquet", "csv": tmp_path / "t.csv"}
    dataset = vault.register("people", sources.pop(first), **CHOICES, few_rows=True)
    [other] = sources.values()
    assert copy_of(vault.dataset("people", source=other)).equals(copy_of(dataset))


def test_a_dictionary_and_plain_text_of_the_same_values_give_the_same_copy(vault, tmp_path):
    table = mixed().select(["id", "wage", "city"])
    coded = table.set_column(2, "city", table.column("city").dictionary_encode())
    dataset = vault.register("people", coded, key="id", few_rows=True)
    found = copy_of(dataset)
    assert found.schema.field("city").type == pa.string()
    assert copy_of(vault.dataset("people", source=table)).equals(found)
    pacsv.write_csv(table, tmp_path / "t.csv")
    assert copy_of(vault.dataset("people", source=tmp_path / "t.csv")).equals(found)


def test_files_with_other_dictionaries_are_one_table(vault, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, values in enumerate((["x", "y"], ["z", "y"])):
        column = pa.array(values * 20).dictionary_encode()
        papq.write_table(
            pa.table({"n": np.arange(40.0), "c": column}), folder / f"{number}.parquet"
        )
    found = copy_of(vault.register("t", folder, few_rows=True, keep_order=True), noise=0.01)
    assert found.num_rows == 80
    assert set(found.column("c").to_pylist()) == {"x", "y", "z"}


def test_what_is_frozen_comes_back_bit_for_bit(people):
    text = people.frozen.to_json()
    assert Frozen.from_json(text).to_json() == text
    ranked = [(0.1 + 0.2, 1 / 3), (1e300, 5e-324)]
    kept = json.loads(text)
    kept["scales"][0] = {"name": "rank", "knots": ranked, "ends": (0.1 + 0.2, 1e300)}
    assert Frozen.from_json(json.dumps(kept)).scales[0] == Scale(
        "rank", tuple(ranked), (0.1 + 0.2, 1e300)
    )


# --- association, missing values, finishing -----------------------------------------------


def test_columns_together_keep_their_association_and_apart_they_lose_it(vault):
    rng = np.random.default_rng(0)
    rows = 60_000
    city = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    table = pa.table(
        {"n": rng.normal(size=rows), "a": city.astype(str), "b": (2 * city).astype(str)}
    )
    other = table.take(rng.permutation(rows))
    for name, source, choices in (
        ("together", table, {"together": [["a", "b"]]}),
        ("apart", other, {}),
    ):
        copy = copy_of(
            vault.register(name, source, drop=["n"], **choices, few_rows=True), noise=3.0
        )
        a = copy.column("a").to_numpy(zero_copy_only=False).astype(int)
        b = copy.column("b").to_numpy(zero_copy_only=False).astype(int) // 2
        found = np.zeros((3, 3))
        np.add.at(found, (a, b), 1)
        expected = np.diag(np.bincount(city) / rows) * rows
        if name == "together":
            assert found.sum() == np.trace(found)
            assert worst_cell_score(np.diag(found), np.diag(expected)) < 1
        else:
            assert worst_cell_score(found, expected) > 1


def missing_table(rows=20_000):
    rng = np.random.default_rng(0)
    gone = rng.random(rows) < 0.3
    return pa.table(
        {
            "id": np.arange(rows),
            "n": pa.array(rng.normal(50, 10, rows), mask=gone),
            "c": pa.array(np.where(rng.random(rows) < 0.7, "x", "y"), mask=gone),
            "plain": rng.normal(size=rows),
        }
    ), gone


def test_missing_values_stay_missing_and_are_said_to(run):
    table, gone = missing_table(500)
    papq.write_table(table, "t.parquet")
    code, _, err = run("register", "t", "t.parquet", "--key", "id", "--few-rows")
    assert code == 0
    assert "missing values stay missing: n, c" in err
    assert run("release", "t", "--to", "bob", "--privacy", "0.8")[0] == 0
    copy = papq.read_table("t-bob.parquet")
    for name in ("n", "c"):
        assert np.array_equal(copy.column(name).is_null().to_numpy(), gone)


def test_hidden_missing_values_are_not_said_to_stay(run):
    papq.write_table(missing_table(500)[0], "t.parquet")
    hide = ("--hide-missing", "n", "--hide-missing", "c")
    code, _, err = run("register", "t", "t.parquet", "--key", "id", *hide, "--few-rows")
    assert code == 0
    assert "missing values" not in err


@pytest.mark.parametrize("transform", [{}, {"n": "log1p"}, {"n": "rank"}])
def test_a_hidden_missing_number_is_a_draw_of_the_columns_law(vault, transform):
    table, gone = missing_table()
    choices = {"key": "id", "hide_missing": ["n"], "transform": transform}
    dataset = vault.register("t", table, **choices, few_rows=True)
    first = copy_of(dataset, 1e-6)
    assert first.column("n").null_count == 0
    drawn = first.column("n").to_numpy()[gone]
    if not transform:
        # at next to no noise the copy shows the draws themselves
        present = table.column("n").drop_null().to_numpy()
        count, bound = len(drawn), z_bound(2)
        error = present.std() / np.sqrt(count)
        assert abs(drawn.mean() - present.mean()) < bound * error
        ratio = drawn.var() / present.var()
        assert abs(ratio - 1) < bound * np.sqrt(2 / count)
        # a constant in the place of the missing values would not pass
        assert abs(np.full(count, present.mean()).var() / present.var() - 1) > bound * np.sqrt(
            2 / count
        )
    # the same draws under every level: their noise is small beside their spread
    second = copy_of(dataset, 1e-4).column("n").to_numpy()[gone]
    assert np.corrcoef(first.column("n").to_numpy()[gone], second)[0, 1] > 0.99
    assert copy_of(dataset, 1e-6).equals(first)
    order = np.random.default_rng(1).permutation(len(gone))
    again = copy_of(vault.dataset("t", source=table.take(order)), 1e-6)
    assert again.equals(first.take(order))


def test_a_hidden_missing_category_is_a_value_like_the_others(vault):
    table, gone = missing_table()
    dataset = vault.register("t", table, key="id", hide_missing=["c"], few_rows=True)
    copy = copy_of(dataset, 3.0).column("c").is_null().to_numpy()
    share = gone.mean()
    # half of the cells are kept, the others are drawn
    expected = len(gone) * np.array([share * (0.5 + 0.5 * share), share * 0.5 * (1 - share)])
    found = [np.sum(copy & gone), np.sum(~copy & gone)]
    assert worst_cell_score([*found, *[0]], [*expected, 0]) < 1.5
    assert (copy != gone).any()


def test_rounding_and_clipping_are_functions_of_the_raw_copy(people, tmp_path):
    raw = copy_of(people, raw=True)
    bounds = {"wage": (0.0, 20.0)}
    done = people.release(to="bob", noise=1.0, round=["born"], clip=bounds, raw=True)
    path = done.write(tmp_path / "done.parquet")
    found = papq.read_table(path)
    days = np.rint(raw.column("born").to_numpy()).astype(np.int32)
    assert found.column("born").cast(pa.int32()).to_numpy().tolist() == days.tolist()
    wages = np.clip(raw.column("wage").to_numpy(), 0.0, 20.0)
    assert np.array_equal(found.column("wage").to_numpy(), wages, equal_nan=True)
    for name in ("city", "seen", "grade", "id"):
        assert found.column(name).equals(raw.column(name))
    told = read_metadata(path).columns
    assert (told["born"].rounded, told["born"].clipped) == (1.0, None)
    assert (told["wage"].rounded, told["wage"].clipped) == (None, (0.0, 20.0))
    assert told["wage"].transform == "log1p"


def test_metadata_says_which_missing_values_are_hidden(people, tmp_path):
    path = people.release(to="bob", noise=1.0).write(tmp_path / "copy.parquet")
    told = read_metadata(path).columns
    assert told["member"].missing == "hidden"
    assert told["grade"].missing == "shown"
    assert told["city"].missing == told["district"].missing == "hidden"  # as combinations
    assert told["city"].together == ("city", "district")
    assert told["grade"].together is None
    assert told["grade"].categories == 4


EVERY_TYPE = {
    "i8": pa.array([1, 100, None] * 10, pa.int8()),
    "u64": pa.array([1, 2**50, None] * 10, pa.uint64()),
    "f32": pa.array([1.5, -2.5, None] * 10, pa.float32()),
    "dec": pa.array([Decimal("1.50"), Decimal("9.99"), None] * 10, pa.decimal128(3, 2)),
    "d32": pa.array([1, 20_000, None] * 10, pa.date32()),
    "ts": pa.array([1, 2**40, None] * 10, pa.timestamp("ms", tz="Asia/Tokyo")),
    "time": pa.array([1, 80_000, None] * 10, pa.time32("s")),
    "dur": pa.array([1, -80_000, None] * 10, pa.duration("us")),
}


@pytest.mark.filterwarnings("ignore::cornerwave.errors.SingularCovariance")
@pytest.mark.parametrize("noise", [1e-3, 9.0, 999.0])
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_every_type_comes_back_at_any_noise(vault, tmp_path, noise, ending):
    rng = np.random.default_rng(0)
    table = pa.table({name: array.take(rng.permutation(30)) for name, array in EVERY_TYPE.items()})
    dataset = vault.register("t", table, few_rows=True)
    release = dataset.release(to="bob", noise=noise, round=table.column_names)
    found = release.to_arrow()
    assert found.schema.types == table.schema.types
    for name in table.column_names:
        assert found.column(name).null_count == 10
    assert release.write(tmp_path / f"copy.{ending}").stat().st_size


# --- what must be refused -----------------------------------------------------------------------


def test_a_category_column_is_registered_once(vault):
    table = mixed()
    vault.register("people", table, **CHOICES, few_rows=True)
    for part, choices in (
        (["id", "city"], {"key": "id"}),
        (["id", "member"], {"key": "id"}),
        (["id", "grade"], {"key": "id", "categorical": ["grade"]}),
    ):
        order = np.random.default_rng(0).permutation(ROWS)
        with pytest.raises(AlreadyRegistered, match=part[1]):
            vault.register("again", table.select(part).take(order), **choices, few_rows=True)
    renamed = table.select(["id", "city"]).rename_columns(["number", "town"])
    with pytest.raises(AlreadyRegistered):
        vault.register("again", renamed, key="number", few_rows=True)
    # the same frequencies in other rows are another column
    other = pa.table({"id": table.column("id"), "x": table.column("city").take(order)})
    vault.register("other", other, key="id", few_rows=True)


@pytest.mark.parametrize("column", ["city", "member", "grade", "district", "born", "wage"])
@pytest.mark.first(3)
def test_one_changed_cell_refuses_the_release(vault, tmp_path, column):
    table = mixed()
    vault.register("people", table, **CHOICES, few_rows=True)
    values = table.column(column).to_pylist()
    wanted = next(value for value in values if value not in (None, values[5]))
    changed = [*values[:5], wanted, *values[6:]]
    place = table.column_names.index(column)
    field = table.schema.field(column)
    other = table.set_column(place, field, pa.array(changed, field.type))
    release = vault.dataset("people", source=other).release(to="bob", noise=1.0)
    with pytest.raises(SourceChanged):
        release.write(tmp_path / "copy.parquet")
    assert not list(tmp_path.glob("*copy*"))
    assert vault.dataset("people").holdings == []


def test_a_changed_cell_is_refused_on_the_command_line(run, tmp_path):
    pacsv.write_csv(adult(), "adult.csv")
    assert run("register", "adult", "adult.csv", "--few-rows")[0] == 0
    text = (tmp_path / "adult.csv").read_text()
    for changed in (text.replace("Wife", CANARY, 1), text.replace("Wife", "Husband", 1)):
        (tmp_path / "adult.csv").write_text(changed)
        err = refused(run("release", "adult", "--to", "bob", "--privacy", "0.5"))
        assert "not the registered table" in err
        assert not (tmp_path / "adult-bob.parquet").exists()


def numbers(rows=40):
    return np.random.default_rng(0).normal(size=rows)


GOOD = {
    "a category with one value": pa.table({"n": numbers(), "c": ["same"] * 40}),
    "nothing but a category": pa.table({"c": ["x", "y"] * 20}),
    "an empty text beside a null": pa.table({"n": numbers(), "c": ["", None, "x", ""] * 10}),
    "years beyond 9999": pa.table(
        {"n": numbers(), "d": pa.array(np.arange(40, dtype=np.int32) + 4_000_000).cast(pa.date32())}
    ),
    "years before the first": pa.table(
        {"n": numbers(), "d": pa.array(-np.arange(40, dtype=np.int32) - 900_000).cast(pa.date32())}
    ),
    "a text view": pa.table({"c": pa.array(["x", "y"] * 20, pa.string_view())}),
    "a dictionary": pa.table({"c": pa.array(["x", "y", None, "x"] * 10).dictionary_encode()}),
    "nanoseconds": pa.table({"t": pa.array(np.arange(40) * 7 + 1, pa.timestamp("ns"))}),
}


@pytest.mark.parametrize("table", GOOD.values(), ids=GOOD.keys())
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_odd_tables_that_work(run, table, ending):
    papq.write_table(table, "t.parquet")
    out = f"copy.{ending}"
    assert run("inspect", "t.parquet", "--out", "s.toml")[0] == 0
    accept_few_rows("s.toml")
    assert run("register", "t", "t.parquet", "--schema", "s.toml")[0] == 0
    assert run("release", "t", "--to", "bob", "--noise", "2", "--out", out)[0] == 0


def accept_few_rows(schema):
    """Accept, as a draft proposes, that the table has few rows."""
    path = Path(schema)
    path.write_text(path.read_text().replace("# few_rows = true", "few_rows = true"))


def test_dates_far_out_may_be_categories(run):
    for name in ("years beyond 9999", "years before the first"):
        papq.write_table(GOOD[name], "t.parquet")
        assert (
            run("register", name, "t.parquet", "--categorical", "d", "--drop", "n", "--few-rows")[0]
            == 0
        )
        assert (
            run("release", name, "--to", "bob", "--noise", "2", "--out", f"{name}.parquet")[0] == 0
        )


REFUSED = {
    "more values than a category has": (
        pa.table({"c": [f"{CANARY}{i}" for i in range(65_537)]}),
        [],
        "--drop",
    ),
    "no values": (pa.table({"n": numbers(), "c": pa.nulls(40, pa.string())}), [], "drop it"),
    "a list": (pa.table({"n": numbers(), "c": [[CANARY]] * 40}), [], "Drop the column"),
    "bytes": (pa.table({"n": numbers(), "c": [CANARY.encode()] * 40}), [], "Drop the column"),
    "infinite": (pa.table({"n": [1.0, np.inf] * 20}), [], "infinite"),
    "log1p below": (pa.table({"n": numbers()}), ["--transform", "n=log1p"], "use rank"),
    "rank of a constant": (
        pa.table({"n": [0.1] * 160, "m": range(160)}),
        ["--transform", "n=rank"],
        "constant",
    ),
    "rank of a few": (pa.table({"n": [1.0, 2.0]}), ["--transform", "n=rank"], "at least 150"),
    "an unknown transform": (
        pa.table({"n": numbers()}),
        ["--transform", "n=exp"],
        'one of "log1p", "rank"',
    ),
    "half a transform": (pa.table({"n": numbers()}), ["--transform", "n"], "COLUMN=log1p"),
    "a float category": (
        pa.table({"n": numbers()}),
        ["--categorical", "n"],
        "it holds fractions",
    ),
    "a transformed text": (
        pa.table({"n": numbers(), "c": ["x", "y"] * 20}),
        ["--transform", "c=rank"],
        "transform needs a number",
    ),
    "alone together": (
        pa.table({"n": numbers(), "c": ["x", "y"] * 20}),
        ["--together", "c"],
        "at least two",
    ),
    "a number together": (
        pa.table({"n": numbers(), "c": ["x", "y"] * 20}),
        ["--together", "c,n"],
        "together needs a category",
    ),
    "an unknown column": (pa.table({"n": numbers()}), ["--hide-missing", "m"], "no column 'm'"),
    "a negative count": (pa.table({"n": numbers()}), ["--min-count", "-1"], "0 or more"),
    "one row": (pa.table({"c": ["x"]}), [], "at least 2 rows"),
    "whole numbers that are identifiers": (pa.table({"n": [2**60, 1] * 20}), [], "make it the key"),
}


@pytest.mark.parametrize(("table", "options", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_tables_and_choices_are_refused_in_one_line(run, table, options, words):
    papq.write_table(table, "t.parquet")
    assert words in refused(run("register", "t", "t.parquet", *options, "--few-rows"))
    code, out, _ = run("inspect", "t.parquet")  # to look is always allowed
    assert code == 0
    assert CANARY not in out


def test_mixed_kinds_in_a_csv_column_are_a_category_or_refused(run, tmp_path):
    rows = [f"{i},{i % 7 if i % 2 else CANARY}" for i in range(200)]
    (tmp_path / "t.csv").write_text("n,c\n" + "\n".join(rows) + "\n")
    code, out, _ = run("inspect", "t.csv")
    assert code == 0
    assert CANARY not in out
    code, _, err = run("register", "t", "t.csv", "--few-rows", "--keep-order")
    assert code == 0
    assert "refreshed: c" in err
    many = [f"{i},{i if i % 2 else f'{CANARY}{i}'}" for i in range(66_000)]
    (tmp_path / "many.csv").write_text("n,c\n" + "\n".join(many) + "\n")
    assert "looks like an identifier" in refused(
        run("register", "many", "many.csv", "--few-rows", "--keep-order")
    )


def test_dates_that_are_none_are_texts(run, tmp_path):
    dates = [str(dt.date(2020, 1, 1) + dt.timedelta(i % 9)) for i in range(99)] + ["2020-02-31"]
    (tmp_path / "t.csv").write_text("n,d\n" + "\n".join(f"{i},{d}" for i, d in enumerate(dates)))
    code, _, err = run("register", "t", "t.csv", "--few-rows", "--keep-order")
    assert code == 0
    assert "refreshed: d" in err


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_strange_names_work_through_a_schema_file(run, ending):
    rng = np.random.default_rng(0)
    columns = {
        name: rng.normal(size=50) if place % 2 else np.array(["x", "y"])[rng.integers(0, 2, 50)]
        for place, name in enumerate(STRANGE_NAMES)
    }
    table = pa.table(columns)
    if ending == "csv":
        pacsv.write_csv(table, "t.csv")
    else:
        papq.write_table(table, "t.parquet")
    assert run("inspect", f"t.{ending}", "--out", "s.toml")[0] == 0
    accept_few_rows("s.toml")
    assert run("register", "t", f"t.{ending}", "--schema", "s.toml")[0] == 0
    for out in ("copy.parquet", "copy.csv"):
        assert run("release", "t", "--to", "bob", "--privacy", "0.5", "--out", out)[0] == 0
    # a column of a CSV that has no name gets one
    wanted = ["column_1", *STRANGE_NAMES[1:]] if ending == "csv" else STRANGE_NAMES
    assert papq.read_table("copy.parquet").column_names == wanted
    parse = pacsv.ParseOptions(newlines_in_values=True)
    assert pacsv.read_csv("copy.csv", parse_options=parse).column_names == wanted


@pytest.mark.parametrize("name", STRANGE_NAMES[1:])  # one without letters needs a schema file
def test_strange_names_work_in_options(run, name):
    table = pa.table({"n": numbers(), name: np.arange(40) % 4 + 1})
    papq.write_table(table, "t.parquet")
    assert run("register", "a", "t.parquet", f"--drop={name}", "--few-rows", "--keep-order")[0] == 0
    out = ["--privacy", "0.5", "--to", "bob"]
    other = np.random.default_rng(9).normal(size=table.num_rows)
    papq.write_table(table.set_column(0, "n", pa.array(other)), "u.parquet")
    assert (
        run(
            "register", "b", "u.parquet", f"--transform={name}=log1p", "--few-rows", "--keep-order"
        )[0]
        == 0
    )
    finish = (f"--round={name}", f"--clip={name}=0:5")
    assert run("release", "b", *out, *finish)[0] == 0
    found = papq.read_table("b-bob.parquet").column(name)
    assert found.type == pa.int64()
    assert set(found.to_pylist()) <= {0, 1, 2, 3, 4, 5}


def test_two_columns_of_one_name_are_named(run, tmp_path):
    rng = np.random.default_rng(0)
    cells = "\n".join(f"{a},{b},{c}" for a, b, c in rng.normal(size=(50, 3)))
    (tmp_path / "t.csv").write_text(f"a,b,a\n{cells}\n")
    code, _, said = run("register", "t", "t.csv", "--few-rows")
    assert code == 0
    assert "the same name" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--clip", "age=5:1"], "give the lower first"),
        (["--clip", "age=nan:1"], "finite"),
        (["--clip", "age=0:inf"], "finite"),
        (["--clip", "age=5"], "COLUMN=LO:HI"),
        (["--clip", "age=a:b"], "COLUMN=LO:HI"),
        (["--clip", "age=2020-13-01:"], "COLUMN=LO:HI"),
        (["--clip", "age=2020-01-01:"], "'age': clip takes numbers"),
        (["--clip", "age=:"], "has no bound"),
        (["--clip", "age=20.2:20.8", "--round", "age"], "no value of type int64 lies within"),
        (["--clip", "=1:2"], "COLUMN=LO:HI"),
        (["--clip", "sex=1:2"], "only perturbed numbers"),
        (["--round", "nobody"], "only perturbed numbers"),
    ],
)
@pytest.mark.first(6)
def test_what_cannot_be_finished_is_refused_and_leaves_no_trace(run, tmp_path, options, words):
    papq.write_table(adult(), "adult.parquet")
    assert run("register", "adult", "adult.parquet", "--few-rows")[0] == 0
    assert words in refused(run("release", "adult", "--to", "b", "--privacy", "0.5", *options))
    assert json.loads(run("ledger", "--json")[1])[0]["levels"] == []
    assert not list(tmp_path.glob("adult-b*"))


def test_dates_bound_a_column_of_times_from_the_command_line(run):
    seen = pa.array(np.arange(40) * 86_400 + 1_577_836_800, pa.timestamp("s"))
    papq.write_table(pa.table({"seen": seen}), "t.parquet")
    assert run("register", "t", "t.parquet", "--few-rows", "--keep-order")[0] == 0
    finish = ("--clip", "seen=2020-01-01:2020-02-01", "--round", "seen")
    assert run("release", "t", "--to", "bob", "--privacy", "0.8", *finish)[0] == 0
    found = papq.read_table("t-bob.parquet").column("seen").to_pylist()
    assert dt.datetime(2020, 1, 1) <= min(found) < max(found) <= dt.datetime(2020, 2, 1)


def test_bytes_do_not_fit_a_csv_and_are_refused(run, tmp_path):
    table = pa.table({"n": numbers(), "c": [b"\xff", b"b"] * 20})
    papq.write_table(table, "t.parquet")
    assert (
        run("register", "t", "t.parquet", "--categorical", "c", "--few-rows", "--keep-order")[0]
        == 0
    )
    release = ("release", "t", "--to", "bob", "--privacy", "0.5", "--out")
    assert ".parquet" in refused(run(*release, "copy.csv"))
    assert not list(tmp_path.glob("*copy.csv*"))
    assert run(*release, "copy.parquet")[0] == 0


def test_a_schema_file_that_is_wrong_is_refused_in_one_line(run, tmp_path):
    papq.write_table(adult(), "adult.parquet")
    assert run("inspect", "adult.parquet", "--out", "s.toml")[0] == 0
    draft = (tmp_path / "s.toml").read_text()
    for old, new in (
        ('do = "perturb"', 'do = "perturbe"'),
        ('do = "perturb"', 'do = "perturb"\nhide_missing = "yes"'),
        ('name = "age"', 'name = "aged"'),
        ('name = "age"', "name = age"),
        ("min_count = 5", 'min_count = "5"'),
        ("together = []", "together = 5"),
        ("together = []", 'together = [["sex", "nobody"]]'),
    ):
        assert old in draft
        (tmp_path / "wrong.toml").write_text(draft.replace(old, new, 1))
        refused(run("register", "adult", "adult.parquet", "--schema", "wrong.toml"))
    refused(run("register", "adult", "adult.parquet", "--schema", "nothing.toml"))


def test_a_batch_of_copies_with_categories_in_one_pass(people, tmp_path):
    releases = _releases(people, (0.5, 2.0))
    paths = write_all([(r, tmp_path / f"{r.level.noise}.parquet") for r in releases])
    for release, path in zip(releases, paths, strict=True):
        assert papq.read_table(path).equals(release.to_arrow())


def test_a_column_of_another_kind_is_refused_without_its_cells(vault):
    vault.register(
        "t",
        pa.table({"n": numbers(), "c": [1, 2] * 20}),
        categorical=["c"],
        few_rows=True,
        keep_order=True,
    )
    other = pa.table({"n": numbers(), "c": [CANARY, "2"] * 20})
    with pytest.raises(SourceChanged) as caught:
        copy_of(vault.dataset("t", source=other))
    assert CANARY not in str(caught.value)
    with pytest.raises(ColumnError):
        vault.register("u", other, transform={"c": "rank"}, few_rows=True, keep_order=True)


def test_copies_of_two_datasets_are_not_mixed_up(vault, people, tmp_path):
    other = vault.register("other", pa.table({"n": numbers()}), few_rows=True)
    copies = [
        (dataset.release(to="bob", noise=1.0), tmp_path / f"{dataset.name}.parquet")
        for dataset in (people, other)
    ]
    with pytest.raises(OutputError, match="write the others separately"):
        write_all(copies)
    assert write_all([]) == []
    assert not list(tmp_path.glob("*.parquet"))


def test_a_copy_never_replaces_its_source(run, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    papq.write_table(adult(), "adult.parquet")
    papq.write_table(adult(300, seed=1), folder / "0.parquet")
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    before = (tmp_path / "adult.parquet").read_bytes()
    assert run("register", "file", "adult.parquet", "--few-rows")[0] == 0
    assert run("register", "folder", "parts", "--few-rows")[0] == 0
    for name, out in (
        ("file", "adult.parquet"),
        ("file", "link/adult.parquet"),
        ("folder", "parts/0.parquet"),
        ("folder", "parts/1.parquet"),
    ):
        options = ("--to", "bob", "--privacy", "0.5", "--out", out, "--force")
        assert "the registered table itself" in refused(run("release", name, *options))
    assert (tmp_path / "adult.parquet").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["0.parquet"]


def test_names_are_shown_on_one_line_and_cannot_colour_a_terminal(run):
    papq.write_table(pa.table({"a\x1b[31m\nb": numbers()}), "t.parquet")
    code, _, err = run("register", "t", "t.parquet", "--few-rows")
    assert code == 0
    assert [line for line in err.splitlines() if "x1b" in line] == [r"  perturbed: 'a\x1b[31m\nb'"]
    assert "\x1b" not in err
