import tomllib
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import ColumnError
from cornerwave.inspection import Inspection, draft, inspect
from cornerwave.sources import open_source, open_to_inspect
from tests.tables import STRANGE_NAMES

ROWS = 200
IDENTIFIER, NEARLY, CONSTANT = "looks like an identifier", "nearly unique", "constant"
COLLINEAR, LONG_TAILED, RARE = "a linear function", "long-tailed", "fewer than 5 rows"
ALL = (IDENTIFIER, NEARLY, CONSTANT, COLLINEAR, LONG_TAILED, RARE)
rng = np.random.default_rng(0)
NORMAL = rng.normal(size=ROWS)


def look(columns):
    return {report.name: report for report in inspect(open_source(pa.table(columns))).columns}


def drafted(reports):
    return draft(Inspection(tuple(reports)))


def warnings_of(values, **others):
    warnings = look({**others, "c": values})["c"].warnings
    return {known for known in ALL for warning in warnings if known in warning}


def repeated(values):
    return pa.array([values[i % len(values)] for i in range(ROWS)])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(range(ROWS)), {IDENTIFIER}),
        (pa.array([0, 0, *range(2, ROWS)]), {NEARLY}),
        (pa.array([i // 2 for i in range(ROWS)]), set()),
        (pa.array([f"p{i}" for i in range(ROWS)]), {IDENTIFIER, RARE}),
        (pa.array([f"p{max(i, 1)}" for i in range(ROWS)]), {NEARLY, RARE}),
        (pa.array(NORMAL), set()),  # every number different, and yet no identifier
        (pa.array(np.ones(ROWS)), {CONSTANT}),
        (pa.array(np.full(ROWS, 0.1)), {CONSTANT}),  # whose mean is not exactly 0.1
        (repeated(["a"]), {CONSTANT}),
        (repeated(["a", "b"]), set()),
        (pa.array(["a"] * 4 + ["b"] * (ROWS - 4)), {RARE, CONSTANT}),
        (pa.array(["a"] * 5 + ["b"] * (ROWS - 5)), set()),
        (pa.array([None] * 3 + ["b", "c"] * 98 + ["b"]), set()),  # missing is not a rare value
        (pa.array(np.exp(3 * NORMAL)), {LONG_TAILED}),
        (pa.array(-np.exp(3 * NORMAL)), {LONG_TAILED}),
        (pa.array(rng.exponential(size=ROWS)), set()),
        (pa.array(2 * NORMAL + 5), {COLLINEAR}),
        (pa.array(2 * NORMAL + rng.normal(size=ROWS)), set()),
    ],
)
def test_each_warning_where_it_must_be_and_nowhere_else(values, expected):
    assert warnings_of(values, n=NORMAL) == expected | (
        {COLLINEAR} if values.equals(pa.array(NORMAL)) else set()
    )


def test_few_rows_are_no_identifier():
    assert look({"c": pa.array([7 * k % 20 for k in range(20)])})["c"].warnings == ()


def test_kinds_distinct_values_and_missing_share():
    found = look(
        {
            "number": pa.array([1.5, None, 2.5, 2.5]),
            "text": pa.array(["a", None, None, "b"]),
            "flag": pa.array([True, False, True, None]),
            "date": pa.array([1, 2, 3, 3], pa.date32()),
            "coded": pa.array([1, 2, 2, None]).dictionary_encode(),
            "money": pa.array([Decimal("1.5"), Decimal("2.5"), None, None]),
            "list": pa.array([[1], [2], None, [3]]),
            "bytes": pa.array([b"a", b"b", b"b", None]),
        }
    )
    assert {name: report.do for name, report in found.items()} == {
        "number": "perturb",
        "text": "category",
        "flag": "category",
        "date": "perturb",
        "coded": "category",
        "money": "perturb",
        "list": "decide",
        "bytes": "decide",
    }
    assert [r.distinct for r in found.values()] == [2, 2, 2, 3, 2, 2, 0, 2]
    assert [r.missing for r in found.values()] == [0.25, 0.5, 0.25, 0, 0.25, 0.5, 0.25, 0.25]


def test_what_cannot_be_perturbed_is_said():
    found = look({"a": pa.array([1.0, np.inf]), "b": pa.array([1, 2**60]), "c": pa.array([1, 2])})
    assert "infinite" in found["a"].warnings[0]
    assert "beyond 2^53" in found["b"].warnings[0]
    assert found["c"].warnings == ()


def test_a_long_table_is_counted_through_some_of_its_values_without_false_alarms(
    at_a_time, monkeypatch
):
    monkeypatch.setattr("cornerwave.inspection._columns.MOST_CATEGORIES", 200)
    at_a_time(INSPECTED_ROWS=1000, FOLLOWED_VALUES=200)
    rows = 10_000
    columns = {
        "twice": pa.array(np.arange(rows) % (rows // 2)),
        "words": pa.array([f"v{i % (rows // 2)}" for i in range(rows)]),
        "id": pa.array([f"v{i}" for i in range(rows)]),
        "number": pa.array(np.arange(rows) % 3),
    }
    found = look(columns)
    assert (found["number"].distinct, found["number"].exact) == (3, True)
    assert [found[name].exact for name in ("twice", "words", "id")] == [False] * 3
    assert found["twice"].distinct == pytest.approx(rows / 2, rel=0.5)
    assert found["words"].do == found["id"].do == "decide"
    assert any("too many for a category" in w for w in found["words"].warnings)
    identifiers = {n for n, r in found.items() if any(IDENTIFIER in w for w in r.warnings)}
    assert identifiers == {"id"}
    assert "every value is different" not in drafted(found.values())
    assert "about" in drafted([found["twice"]])
    assert "about" not in drafted([found["number"]])


@pytest.mark.parametrize(
    ("values", "disclosure"),
    [
        ([f"p{i}" for i in range(10)] + ["a"] * 10, True),
        ([f"p{i}" for i in range(9)] + ["a"] * 11, False),
        ([f"p{i // 2}" for i in range(20)], False),
        ([f"p{i}" for i in range(19)], False),
    ],
)
def test_inspect_and_register_agree_on_what_tells_people_apart(vault, values, disclosure):
    table = pa.table({"c": values, "n": np.arange(len(values)) * 1.0})
    [report, _] = inspect(open_source(table)).columns
    assert report.do == ("decide" if disclosure else "category")
    if not disclosure:
        vault.register("t", table, few_rows=True, keep_order=True)
        return
    assert "identifies people" in report.warnings[0]
    with pytest.raises(ColumnError, match="identifies people"):
        vault.register("t", table, few_rows=True, keep_order=True)


def test_a_column_to_decide_comes_with_the_reason():
    found = look({"list": pa.array([[1], [2]]), "x": pa.array([1.0, 2.0])})
    assert found["list"].warnings == ("not a number, date or category: key, keep or drop",)


def test_nan_and_blanks_are_missing(tmp_path):
    assert look({"c": pa.array([1.0, np.nan, None, 2.0])})["c"].missing == 0.5
    assert look({"c": pa.array([np.inf, np.nan, None, 2.0])})["c"].missing == 0.5
    (tmp_path / "t.csv").write_text('n,t\n1,x\n2,\n3,""\n,y\n')
    [number, text] = inspect(open_source(tmp_path / "t.csv")).columns
    assert (number.missing, text.missing) == (0.25, 0.25)
    assert text.distinct == 3


def test_stray_cells_are_noted(tmp_path):
    (tmp_path / "t.csv").write_text("n,m\n" + "1,1\n2,2\n" * 20 + "?,3\n")
    [odd, _] = inspect(open_source(tmp_path / "t.csv")).columns
    assert odd.do == "category"
    assert "all but 1 of 41 cells are numbers" in odd.warnings[0]


def test_values_too_large_to_square_are_said():
    found = look({"a": pa.array([1.0, 1e200]), "b": pa.array([1.0, 2.0])})
    assert "column a holds values beyond" in found["a"].warnings[0]
    assert found["b"].warnings == ()


def test_groups_do_not_matter_to_the_skewness(at_a_time):
    values = pa.array(np.where(np.arange(ROWS) % 7 == 0, np.nan, np.exp(2 * NORMAL)))
    for group in (1, 7, 1000):
        at_a_time(INSPECTED_ROWS=group)
        assert warnings_of(values) == {LONG_TAILED}
        assert warnings_of(pa.array(rng.exponential(size=ROWS))) == set()


def test_no_value_is_shown():
    canary = 83_914_271
    table = {
        "text": pa.array([f"canary{canary}{i}" for i in range(40)]),
        "number": pa.array([float(canary + i) for i in range(40)]),
        "whole": pa.array([canary * (1 + i % 2) for i in range(40)]),
        "far": pa.array([canary * 2**30] * 40),
        "same": pa.array([f"canary{canary}"] * 40),
        "date": pa.array([canary // 4000 + i for i in range(40)], pa.date32()),
        "list": pa.array([[canary]] * 40),
    }
    text = drafted(look(table).values())
    assert "canary" not in text
    assert str(canary)[:5] not in text
    assert "text" in text


def test_the_draft_is_toml_whatever_the_names():
    types = pa.struct([("a\nmin_count = 9", pa.int8()), ('"q"', pa.int8())])
    columns = {name: pa.array([1.0, 2.0]) for name in STRANGE_NAMES}
    columns["nested"] = pa.array([None, None], types)
    content = tomllib.loads(drafted(look(columns).values()))
    assert [column["name"] for column in content["column"]] == [*STRANGE_NAMES, "nested"]
    assert content["min_count"] == 5


def test_an_empty_table_and_one_without_numbers():
    found = look({"a": pa.array([], pa.float64()), "b": pa.array([], pa.string())})
    assert [report.distinct for report in found.values()] == [0, 0]
    assert look({"b": pa.array(["x", "y"])})["b"].do == "category"


def test_two_columns_of_one_name_are_refused():
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    with pytest.raises(ColumnError):
        inspect(open_source(table))


def towns(rows=4000, seed=0):
    """A table whose city names its region in nearly all rows, and whose job tells the wage."""
    chance = np.random.default_rng(seed)
    city, job = chance.integers(0, 12, rows), chance.integers(0, 6, rows)
    moved = np.where((city == 0) & (chance.random(rows) < 0.1), 4, city)
    return pa.table(
        {
            "city": [f"city {c}" for c in city],
            "job": [f"job {j}" for j in job],
            "region": [f"region {c // 4}" for c in moved],
            "flag": [f"flag {f}" for f in chance.integers(0, 2, rows)],
            "wage": 1000.0 * job + chance.normal(0, 400, rows),
        }
    )


def test_the_draft_joins_categories_that_name_each_other_and_no_others():
    found = inspect(open_source(towns()))
    assert found.disclosure.together == (("city", "region"),)
    content = tomllib.loads(draft(found))
    assert content["together"] == [["city", "region"]]
    told = "\n".join(found.disclosure.sentences)
    assert "refreshed together (city and region): at privacy 0.5 a copy is worth" in told
    assert "wage is exposed by job: from it alone a value is known to within ±" in told
    details = "\n".join(found.disclosure.details)
    for part in ("job reveals", "of wage", "without job it would take 1"):
        assert part in details
        assert part not in told
    assert "flag" not in told
    apart = inspect(open_source(towns().drop_columns(["region", "wage"]))).disclosure
    assert (apart.sentences, apart.together) == ((), ())


def test_no_group_is_drafted_that_singles_rows_out():
    table = towns()
    moved = table.column("region").to_pylist()
    one = table.column("city").to_pylist().index("city 11")
    moved[one] = "region 0"  # one combination of its own
    place = table.schema.get_field_index("region")
    assert inspect(open_source(table)).disclosure.together == (("city", "region"),)
    alone = table.set_column(place, "region", pa.array(moved))
    assert inspect(open_source(alone)).disclosure.together == ()


@pytest.mark.slow
def test_what_a_draft_says_of_a_sample_is_what_registration_finds(tmp_path):
    from cornerwave.outlook import advice
    from cornerwave.vault import Vault

    table = towns(90_000)  # more rows than the sample has
    found = inspect(open_source(table))
    (tmp_path / "draft.toml").write_text(draft(found))
    dataset = Vault.create(tmp_path / "vault").register("t", table, schema=tmp_path / "draft.toml")
    said = [
        line for line in found.disclosure.sentences if not line.startswith("refreshed together")
    ]
    ours = "\n".join(said).split()
    registered = "\n".join(advice(dataset.frozen).lines()).split()
    assert len(ours) == len(registered)
    for one, other in zip(ours, registered, strict=True):
        try:
            ours_, theirs = (float(each.strip("±%;")) for each in (one, other))
            assert ours_ == pytest.approx(theirs, rel=0.05)
        except ValueError:
            assert one == other


def test_a_draft_that_would_be_refused_says_so():
    table = pa.table({"x": [1.0, *[None] * 30], "y": rng.normal(size=31)})
    [sentence] = inspect(open_source(table)).disclosure.sentences
    assert "would be refused: 'x'" in sentence


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ([-9, 0, 1, 2, 3], "-9"),
        ([-9.0, 0.5, 1.5, 2.5], "-9"),
        ([0, 1, 2, 30, 999], "999"),
        ([-9, -8, 1, 2, 3], None),  # more than one is negative
        ([0, 100, 500, 999], None),  # not far above the next
        ([-9, 1, 2], None),
        (["-9", "a", "b", "c"], None),
    ],
)
def test_numbers_that_may_say_that_there_is_no_value(tmp_path, values, code):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{v},{i}\n" for i in range(20) for v in values))
    text = draft(inspect(open_to_inspect(path)))
    lines = [line for line in text.splitlines() if line.startswith("# missing = ")]
    assert lines == ([] if code is None else [f'# missing = ["{code}"]    # if {code} means that '
                                              "there is no value: 20 cells"])  # fmt: skip


@pytest.mark.slow
def test_gaps_that_tell_too_much_are_drafted_as_hidden():
    rng = np.random.default_rng(4)
    week, rows = rng.integers(1, 53, 600), 600
    answers = {
        f"w{last}": pa.array(rng.normal(size=rows), mask=week < last) for last in range(4, 52, 4)
    }
    disclosure = {"week": pa.array(week), **answers}
    random = {name: pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.3) for name in "ab"}
    for table, hidden in ((disclosure, True), (random, False)):
        text = draft(inspect(open_source(pa.table(table))))
        assert ("gaps are drafted as hidden" in text) == hidden
        decided = tomllib.loads(text)["column"]
        assert any(column.get("hide_missing") for column in decided) == hidden


def test_columns_without_which_half_can_be_had_are_drafted_to_be_left_out():
    """The mean of a person's days follows from how many rows there are: no noise hides it."""
    rng = np.random.default_rng(6)
    sizes = rng.integers(2, 12, 300)
    who = np.repeat(np.arange(300), sizes)
    day = np.arange(len(who)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    weight = rng.normal(70, 10, 300)[who] + rng.normal(size=len(who))
    table = pa.table({"person": who, "day": day + rng.random(len(who)) / 2, "weight": weight})
    found = inspect(open_source(table))
    assert {each.name: each.do for each in found.columns}["day"] == "drop"
    assert found.disclosure.left_out == ("day",)
    assert any("'day' drafted to be left out: with it the highest" in s
               for s in found.disclosure.sentences)  # fmt: skip
    text = draft(found)
    assert 'time = "day"' in text
    rows = table.append_column("height", pa.array(rng.normal(170, 8, 300)[who]))
    assert "left out" not in draft(inspect(open_source(rows.drop_columns(["day"]))))


@pytest.mark.parametrize(
    ("others", "is_value"), [(("round", "cordate", "acute"), True), (("1.5", "2.5", "4"), False)]
)
def test_a_word_that_may_be_a_level_is_missing_only_among_numbers(tmp_path, others, is_value):
    cells = [others[i % 3] if i % 10 < 3 else "none" for i in range(ROWS)]
    lines = [f"{cell},{i % 17}.5" for i, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("\n".join(["base,x", *lines]) + "\n", encoding="utf-8")
    found = inspect(open_to_inspect(tmp_path / "t.csv"))
    [base, _] = found.columns
    assert (base.missing == 0) is is_value
    assert (base.type == "string") is is_value
    said = "140 cells hold 'none', taken as a value of its own" in draft(found)
    assert said is is_value


def test_columns_that_copies_would_show_unchanged_are_dropped():
    """One value, or nearly, or none; gaps are something to hide."""
    rng = np.random.default_rng(1)
    few = np.where(np.arange(400) < 4, 1, 0)
    table = {
        "x": pa.array(rng.normal(0, 1, 400)),
        "none": pa.nulls(400),
        "one": pa.array(["a"] * 400),
        "few": pa.array(few),
        "enough": pa.array(np.where(np.arange(400) < 5, "y", "n")),
        "gaps": pa.array(["a"] * 400, mask=np.arange(400) % 2 == 0),
    }
    table |= {"texts": pa.array(np.where(few == 1, "y", "n"))}
    done = {name: report.do for name, report in look(table).items()}
    assert [name for name, do in done.items() if do == "drop"] == ["none", "one", "few", "texts"]
