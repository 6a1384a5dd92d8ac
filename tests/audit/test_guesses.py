"""Categories in an audit: ours gives nothing away together, the schemes that must fall do."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, as_json, audit, verdict
from cornerwave.errors import SourceError
from tests.audit import schemes
from tests.audit.releases import binomial_limit
from tests.audit.schemes import COUNTS, NOISE, independent, ours, shared_uniform, tables
from tests.audit.shown import findings
from tests.audit.shown import tables as shown_tables

ROWS = 40_000
MANY = tuple(range(1000, 1400))


def judged(scheme, seed, columns=("c",), **options):
    source, copies = tables(scheme, seed, columns, **options)
    return audit(source, copies)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.first(1)
def test_ours_gives_nothing_away_together(seed):
    found = judged(ours, seed, ("c", "d"))
    assert found.numbers is None
    assert len(found.categories.guesses.sets) == 2 * 4  # each by three pairs and all
    assert found.clean, verdict(found)
    assert {g.best for g in found.categories.guesses.sets if 0 in g.copies} == {0}


@pytest.mark.parametrize("scheme", [independent, shared_uniform])
def test_schemes_that_must_fall_do(scheme):
    found = judged(scheme, 1, ("c", "d"))
    for guessed in found.categories.guesses.sets:
        assert found.categories.gains(guessed), (guessed.columns, guessed.copies)
    assert "gain by colluding" in verdict(found)


ZIPF = tuple(int(10_000 / rank) for rank in range(1, 37))
CASES = {
    "few rows of 36 values": (2000, ZIPF),
    "400 values": pytest.param(20_000, MANY, marks=pytest.mark.slow),
    "a rare one of two": (2000, (97, 3)),
    "500 rows": (500, (72, 28)),
}


@pytest.mark.parametrize(("rows", "counts"), CASES.values(), ids=CASES.keys())
@pytest.mark.first(1)
def test_few_rows_of_a_value_hide_no_scheme_and_blame_no_path(rows, counts):
    """Ten honest audits: at ALPHA an alarm in any has a probability of 0.03."""
    for seed in range(10):
        found = judged(ours, seed, rows=rows, counts=counts)
        assert found.clean, [check.note for check in found.faults]
    assert not judged(independent, 1, rows=rows, counts=counts).clean
    # a shared uniform shows only where copies differ: not in 500 rows, nor of a rare value
    if len(counts) > 2:
        assert not judged(shared_uniform, 1, rows=rows, counts=counts).clean


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "counts"), CASES.values(), ids=CASES.keys())
def test_false_alarms_over_200_honest_paths_are_within_alpha(rows, counts, counted):
    alarms = sum(
        not judged(ours, s, ("c", "d"), rows=rows, counts=counts).clean for s in range(200)
    )
    # with a rate of ALPHA more than this many have probability below 0.001
    assert alarms <= binomial_limit(200, ALPHA, 0.001)
    counted("honest", 200)


@pytest.mark.parametrize("scheme", [ours, independent])
def test_levels_close_to_each_other_are_no_fault(scheme):
    """Which of two copies is the better cannot be seen in so few rows; either order may do."""
    x = schemes.truth(3, ROWS)
    made = scheme(x, 3, noise=(1.0, 1.001))
    copies = [pa.table({"c": schemes.texts(codes)}) for codes in made]
    found = audit(pa.table({"c": schemes.texts(x)}), copies)
    assert found.clean == (scheme is ours)


def test_what_one_column_betrays_of_another_is_found():
    """Copy 2 repeats copy 1's d where c of copy 1 is the truth: no column alone shows it."""
    source, copies = tables(ours, 9, ("c", "d"))
    rng = np.random.default_rng(1)
    told = np.array(source["c"]) == np.array(copies[0]["c"])
    drawn = np.array([f"value {v}" for v in rng.choice(3, ROWS, p=np.array(COUNTS) / 10)])
    betraying = pa.array(np.where(told, np.array(copies[0]["d"]), drawn))
    leaking = pa.table({"c": copies[1]["c"], "d": betraying})
    found = audit(source, [copies[0], leaking])
    assert [check.name for check in found.faults] == ["path"]
    told, other = found.categories.guesses.sets
    assert told.columns == ("c",)
    assert told.gain > told.margin
    assert other.gain < other.margin
    assert "of c stays hidden" in verdict(found)
    itself = audit(source.select(["c"]), [copies[0].select(["c"]), leaking.select(["c"])])
    assert itself.clean  # the control: c by itself betrays nothing
    assert audit(source, copies[:2]).clean


def test_a_copy_alone_hides_what_the_knob_says():
    """ALPHA 1e-9: six standard errors of a mean of errors between 0 and 2."""
    tolerance = 6 / np.sqrt(ROWS) / (1 - np.sum((np.array(COUNTS) / 10) ** 2))
    found = judged(ours, 5).categories.guesses.singles[:, 0]
    assert found == pytest.approx([v / (1 + v) for v in NOISE], abs=tolerance)


def test_certainty_counts_even_where_the_guess_stays():
    """The shared uniform leaves the most likely value as it is: only certainty gives it away."""
    pair = judged(shared_uniform, 3).categories.guesses.sets[0]
    assert pair.gain > pair.margin


def test_what_stays_missing_is_no_part_of_the_guess():
    source, copies = tables(ours, 6)
    gone = np.random.default_rng(2).random(ROWS) < 0.4
    holed = [
        pa.table({"c": pa.array(np.array(table["c"]), mask=gone)}) for table in (source, *copies)
    ]
    found = audit(holed[0], holed[1:])
    assert found.clean
    tolerance = 6 / np.sqrt(ROWS * 0.55) / (1 - np.sum((np.array(COUNTS) / 10) ** 2))
    hidden = found.categories.guesses.singles[:, 0]
    assert hidden == pytest.approx([v / (1 + v) for v in NOISE], abs=tolerance)


def test_the_source_itself_is_no_copy():
    source, copies = tables(ours, 7)
    alone = audit(source, [source])
    assert [check.note for check in alone.faults] == ["has no noise: it is the source"]
    beside = audit(source, [copies[0], source])
    assert [check.copies for check in beside.faults] == [(1,)]


@pytest.mark.slow
def test_a_constant_category_and_an_identifier_are_named():
    source, copies = tables(ours, 8, rows=70_000)
    extra = {"same": pa.array(["x"] * 70_000), "id": pa.array([f"p{i}" for i in range(70_000)])}
    wide = [
        table.append_column("same", extra["same"]).append_column("id", extra["id"])
        for table in (source, *copies)
    ]
    found = audit(wide[0], wide[1:])
    assert found.sound
    lines = findings(found)
    assert "left out, constant: same" in lines
    assert "UNTESTED id has too many values for a category" in lines
    assert list(found.untested) == ["id"]


def test_rows_are_thinned_evenly_and_all_are_counted(at_a_time):
    at_a_time(KEPT_CODES=4 * 5000)
    found = judged(ours, 2)
    [category] = found.categories.judged
    assert found.categories.kept == category.codes.shape[1] == 5000
    assert category.counts.sum() == ROWS
    held = schemes.truth(2, ROWS)[:: ROWS // 5000]
    assert [category.values[code][0] for code in category.truth] == [f"value {v}" for v in held]
    assert found.clean
    assert not judged(independent, 2).clean


def test_a_shorter_copy_is_refused():
    source, copies = tables(ours, 2, rows=300)
    with pytest.raises(SourceError, match="ends after 299 rows"):
        audit(source, [copies[0].slice(1)])


def test_no_set_of_one_copy_is_guessed():
    source, copies = tables(ours, 2)
    found = audit(source, copies[:1])
    assert found.categories.guesses.sets == ()
    assert found.categories.guesses.singles.shape == (1, 1)
    assert found.clean


@pytest.mark.parametrize("stated", [{}, {"c": {"role": "kept"}}, {"c": {"role": "key"}}])
def test_no_word_of_a_copy_takes_a_category_out_of_the_audit(stated, tmp_path):
    source, copies = tables(independent, 5, ("c", "d"))
    told = {b"cornerwave": json.dumps({"columns": stated}).encode()}
    paths = [tmp_path / f"{i}.parquet" for i in range(2)]
    for path, copy in zip(paths, copies, strict=False):
        papq.write_table(copy.replace_schema_metadata(told), path)
    found = audit(source, paths)
    assert {shown.name for shown in found.categories.judged} == {"c", "d"}
    assert not found.clean


@pytest.mark.parametrize(
    "told",
    [
        {"columns": {"c": {"together": ["c", ["d"]]}}},
        {"noise": 10**400},
        {"noise": float("nan")},
        {"columns": []},
        [],
    ],
)
def test_odd_metadata_is_refused_before_anything_relies_on_it(told, tmp_path):
    source, copies = tables(ours, 5, ("c", "d"))
    text = json.dumps(told).encode()
    path = tmp_path / "copy.parquet"
    papq.write_table(copies[0].replace_schema_metadata({b"cornerwave": text}), path)
    with pytest.raises(SourceError, match=r"the metadata of copy\.parquet is damaged"):
        audit(source, [path])
    papq.write_table(copies[0].replace_schema_metadata({b"cornerwave": b"[" * 100_000}), path)
    with pytest.raises(SourceError, match=r"copy\.parquet or its metadata is damaged"):
        audit(source, [path])


def test_a_category_that_one_copy_leaves_bare_is_named():
    source, copies = tables(ours, 5, ("c", "d"))
    bare = copies[0].set_column(0, "c", source["c"])
    found = audit(source, [bare, copies[1]])
    assert [(check.copies, check.note) for check in found.faults] == [
        ((0,), "shows c as the source has it")
    ]


def test_a_rare_flag_that_did_not_happen_to_change_is_no_fault():
    """Ten of a thousand rows: at next to no noise all of them may stay."""
    x = np.random.default_rng(1).permutation(np.arange(1000) < 10).astype(np.int32)
    other = schemes.truth(1, 1000)
    columns = [{"c": x, "d": other}, {"c": x, "d": ours(other, 1)[0]}, {"c": 1 - x, "d": other}]
    source, copy, _ = [pa.table({n: schemes.texts(c) for n, c in t.items()}) for t in columns]
    changed = copy.set_column(0, "c", schemes.texts(np.where(np.arange(1000) == x.argmax(), 0, x)))
    assert audit(source, [copy, changed]).clean


def test_other_types_of_the_same_values_are_the_same_values(tmp_path):
    """A CSV has microseconds where the source has milliseconds, and digits that were text."""
    days = schemes.truth(2, 20_000)
    copies = ours(days, 2)
    tables_ = [
        pa.table(
            {
                "at": pa.array(codes.astype(np.int64) * 86_400_000, pa.timestamp("ms")),
                "code": pa.array([f"{code}" for code in codes]),
            }
        )
        for codes in (days, *copies)
    ]
    told = {"columns": {"at": {"role": "category"}}}
    for i, table in enumerate(tables_[1:]):
        pacsv.write_csv(table, tmp_path / f"{i}.csv")
        (tmp_path / f"{i}.csv.meta.json").write_text(json.dumps(told))
    found = audit(tables_[0], [tmp_path / f"{i}.csv" for i in range(3)])
    assert [shown.name for shown in found.categories.judged] == ["at", "code"]
    assert found.clean, [check.note for check in found.faults]
    assert found.left_out == {}


def test_nothing_that_can_be_compared_is_refused():
    names = pa.table({"id": pa.array([f"p{i}" for i in range(70_000)])})
    with pytest.raises(SourceError, match="nothing to compare: id have too many values"):
        audit(names, [names])


def cells(found, title):
    return next(rows for name, rows in shown_tables(found).items() if name.startswith(title))


def test_a_share_that_chance_hides_is_not_measured_and_untested():
    """All but three rows hold one value; where two are common, shares are measured."""
    privacy = [v / (1 + v) for v in NOISE]
    source, copies = tables(ours, 1, rows=3000, counts=(2997, 3))
    found = audit(source, copies, privacy=privacy)
    assert "not measured precisely enough" in found.untested["c"]
    assert found.sound
    assert not found.clean
    assert "not measured" in cells(found, "Hidden from the whole copy")[0][1]
    assert cells(found, "Categories: share of the variance that stays hidden from each")[0][1] == (
        "not measured"
    )
    assert as_json(found)["copies"][0]["hidden"]["c"] is None
    assert not as_json(found)["copies"][0]["whole_copy"]["c"]["measured"]
    source, copies = tables(ours, 1, rows=3000, counts=(2000, 1000))
    common = audit(source, copies, privacy=privacy)
    assert common.clean
    assert not any("not measured" in cell for cell in cells(common, "Hidden from the whole")[0])


def test_a_table_of_coalitions_begins_with_the_category():
    """A table too wide for the screen repeats its first column."""
    found = judged(ours, 1, ("c", "d"))
    rows = cells(found, "Categories: share of the variance that stays hidden from coalitions")
    assert [row[0] for row in rows] == ["c", "d"]
