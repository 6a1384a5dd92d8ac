"""Numbers are present in copies just where the copy's own category lets them be."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cornerwave.audit import audit
from cornerwave.choices import Choices
from cornerwave.columns import decide
from cornerwave.dictionary import dictionary_of
from cornerwave.errors import ColumnError, LevelError
from cornerwave.inspection import inspect
from cornerwave.schema_file import read_choices, schema_text
from cornerwave.sources import open_source
from cornerwave.spine.frozen import Frozen
from cornerwave.vault import Vault

ROWS = 3000
PRIVACIES = (0.2, 0.5, 0.8)
ALPHA = 1e-6
Z = 5.0  # of ALPHA, both sides
CHOSEN = {
    "present_if": {"again": "recid"},
    "transform": dict.fromkeys(("offense", "again", "age"), "rank"),
}


def offenders(rows=ROWS, seed=1):
    """Whoever has no further offence has no date of one, and is a little older."""
    rng = np.random.default_rng(seed)
    age = 18 + rng.gamma(2.0, 8.0, rows)
    recid = rng.random(rows) < 0.6 - age / 200
    offense = np.datetime64("2013-01-01") + rng.integers(0, 700, rows)
    days = rng.gamma(2.0, 100.0, rows).astype(np.int64)
    return pa.table(
        {
            "offense": pa.array(offense),
            "recid": np.where(recid, "yes", "no"),
            "again": pa.array(offense + days, mask=~recid),
            "age": age.astype(np.int64),
        }
    )


def says_yes(copy):
    return np.array(copy["recid"].to_pylist()) == "yes"


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A table, and the paths of copies at three privacies."""
    place = tmp_path_factory.mktemp("presence")
    dataset = Vault.create(place / "vault").register("t", offenders(), **CHOSEN)
    paths = [
        dataset.release(to="p", privacy=p).write(place / f"{i}.parquet")
        for i, p in enumerate(PRIVACIES)
    ]
    return dataset, paths


def test_a_number_is_present_just_where_the_copys_category_lets_it(released):
    _, paths = released
    truth = offenders()
    for path in paths:
        copy = pq.read_table(path)
        assert (copy["again"].is_valid().to_numpy() == says_yes(copy)).all()
        # presence was refreshed both ways, and as often as before
        moved = says_yes(copy) != says_yes(truth)
        assert (moved & says_yes(copy)).any()
        assert (moved & ~says_yes(copy)).any()
        shares = says_yes(copy).mean(), says_yes(truth).mean()
        assert abs(shares[0] - shares[1]) < Z * np.sqrt(0.5 / ROWS)


def test_without_it_gaps_show_the_category_or_contradict_it(vault, tmp_path):
    shown = vault.register("t", offenders(), transform=CHOSEN["transform"])
    with pytest.raises(LevelError, match="gaps of again alone reveal 100%"):
        shown.release(to="p", privacy=0.2)
    hidden = Vault.create(tmp_path / "other").register(
        "t", offenders(), transform=CHOSEN["transform"], hide_missing=["again"]
    )
    copy = pq.read_table(hidden.release(to="p", privacy=0.2).write(tmp_path / "t.parquet"))
    assert np.mean(copy["again"].is_valid().to_numpy() != says_yes(copy)) > 0.3


def test_present_if_goes_with_relative_to(vault, tmp_path):
    dataset = vault.register("t", offenders(), relative_to={"again": "offense"}, **CHOSEN)
    path = dataset.release(to="p", privacy=0.5).write(tmp_path / "t.parquet")
    copy = pq.read_table(path)
    yes = says_yes(copy)
    assert (copy["again"].is_valid().to_numpy() == yes).all()
    again, offense = (copy[n].to_numpy()[yes].astype("datetime64[D]") for n in ("again", "offense"))
    assert (again >= offense).all()
    assert audit(offenders(), [path]).sound


def test_values_of_rows_that_had_none_look_like_the_others(released):
    """Nobody sees whose presence was refreshed in: not by a value far from those of the table."""
    _, paths = released
    truth, copy = offenders(), pq.read_table(paths[1])
    drawn = says_yes(copy) & ~says_yes(truth)
    kept = says_yes(copy) & says_yes(truth)
    values = copy["again"].to_numpy().astype("datetime64[D]").astype(np.int64)
    low, high = np.quantile(values[kept], [0.25, 0.75])
    for end in (low, high):
        shares = np.mean(values[drawn] <= end), np.mean(values[kept] <= end)
        limit = Z * np.sqrt(0.25 / drawn.sum() + 0.25 / kept.sum())
        assert abs(shares[0] - shares[1]) < limit + 0.05  # the ages of both differ a little


@pytest.mark.slow
def test_an_audit_agrees_and_finds_gaps_that_are_the_tables(released, tmp_path):
    _, paths = released
    truth = offenders()
    honest = audit(truth, paths)
    assert honest.sound
    assert not honest.untested
    # what must fall: hidden gaps that show the category of the table
    copy = pq.read_table(paths[2])
    own = copy["again"].combine_chunks().to_numpy(zero_copy_only=False)
    middle = np.datetime64("2014-01-01")
    values = np.where(np.isnat(own), middle, own).astype("datetime64[D]")
    leak = copy.set_column(
        copy.column_names.index("again"),
        copy.schema.field("again"),
        pa.array(values, mask=~says_yes(truth)),
    )
    pq.write_table(leak, tmp_path / "leak.parquet")
    assert not audit(truth, [tmp_path / "leak.parquet"]).sound


def test_what_is_fixed_is_kept_and_the_promise_is_that_of_hidden_gaps(released, tmp_path):
    dataset, paths = released
    frozen = dataset.frozen
    assert Frozen.from_json(frozen.to_json()).to_json() == frozen.to_json()
    hidden = Vault.create(tmp_path / "v").register(
        "t", offenders(), transform=CHOSEN["transform"], hide_missing=["again"]
    )
    assert abs(hidden.frozen.hidden.needed[499] - frozen.hidden.needed[499]) < 5
    path = tmp_path / "schema.toml"
    path.write_text(schema_text(frozen.schema))
    again = decide(offenders().schema, read_choices(path, offenders().column_names))
    assert again.present_if == {"again": "recid"}
    entry = next(e for e in dictionary_of(paths[0]).entries if e.column == "again")
    assert "present just where recid lets it be" in entry.mind


def test_gaps_that_a_category_does_not_explain_are_refused(vault):
    table = offenders()
    recid = table["recid"].to_pylist()
    wrong = ["no" if i % 20 == 0 else value for i, value in enumerate(recid)]
    with pytest.raises(ColumnError, match=r"do not follow from 'recid': [1-9]\.[0-9]% of the rows"):
        vault.register("t", table.set_column(1, "recid", pa.array(wrong)), **CHOSEN)
    with pytest.raises(ColumnError, match="which is a number; it must be a category"):
        decide(table.schema, Choices.of(present_if={"again": "age"}))
    with pytest.raises(ColumnError, match="present_if: no column 'nothing'"):
        decide(table.schema, Choices.of(present_if={"again": "nothing"}))


def test_inspect_drafts_what_a_category_explains_and_invents_no_column():
    rng = np.random.default_rng(2)
    table = offenders()
    some = rng.random(ROWS) < 0.1
    other = pa.array(rng.normal(size=ROWS), mask=rng.random(ROWS) < 0.2)
    table = table.append_column("score", other)
    found = {c.name: c for c in inspect(open_source(table)).columns}
    assert found["again"].present_if[0] == "recid"
    assert found["score"].present_if is None
    # a column that is 90 % empty, and whose gaps reveal another one
    rare = pa.array(rng.gamma(2.0, 9.0, ROWS), mask=~(some & (table["age"].to_numpy() < 25)))
    table = table.append_column("rare", rare)
    table = table.append_column("young", pa.array((table["age"].to_numpy() < 25).astype(np.int64)))
    rare_report = next(c for c in inspect(open_source(table)).columns if c.name == "rare")
    assert rare_report.present_if is None
    assert rare_report.missing > 0.9
