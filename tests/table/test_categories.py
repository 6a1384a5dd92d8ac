import datetime as dt
import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.choices import Choices
from cornerwave.columns import (
    MISSING_BITS,
    MOST_CATEGORIES,
    OTHER,
    Categories,
    Encoded,
    check_number,
    decide,
    freeze_categories,
    tally,
)
from cornerwave.errors import ColumnError, SourceChanged
from cornerwave.noise import MISSING, thresholds

SECRET = bytes(range(32))


def bits(values):
    found = np.empty(len(values), dtype=np.uint64)
    Encoded.of(values, "c").fill_bits(SECRET, MISSING_BITS, found)
    return found


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None, "b", "a"]),
        pa.array(["a", None, "b", "a"]).dictionary_encode(),
        pa.array([1, None, 2, 1]),
        pa.array([1.5, None, 2.0, 1.5]),
        pa.array([True, None, False, True]),
        pa.array([b"\xff", None, b"", b"\xff"]),
        pa.array([1, None, 2, 1], pa.date32()),
        pa.array([1, None, 2, 1], pa.timestamp("us")),
        pa.array([1, None, 2, 1], pa.duration("s")),
    ],
    ids=lambda values: str(values.type)[:20],
)
def test_kept_values_are_told_apart(values):
    first, missing, second, again = bits(values).tolist()
    assert first == again
    assert len({first, missing, second}) == 3
    assert bits(values.slice(2)).tolist() == [second, again]


def test_a_text_that_looks_missing_is_not():
    values = pa.array(["", None, "NaN", "null"])
    assert len(set(bits(values).tolist())) == 4


def test_what_has_no_text_cannot_be_kept():
    with pytest.raises(ColumnError, match=r"'c': a column of type .* cannot leave"):
        bits(pa.array([[1], [2]]))


# --- the frozen values of a group ---------------------------------------------------------


def encoded(columns):
    return [Encoded.of(array, name) for name, array in columns.items()]


def frozen(columns, **choices):
    table = pa.table(columns)
    if len(columns) > 1:
        choices["together"] = (tuple(columns),)
    choices.setdefault("categorical", tuple(columns))
    schema = decide(table.schema, Choices(**choices))
    return freeze_categories(tuple(columns), tally(encoded(columns)), schema, table.schema)


def there_and_back(columns, **choices):
    categories = frozen(columns, **choices)
    found = categories.decode(categories.encode(encoded(columns)))
    return {name: array.to_pylist() for name, array in zip(columns, found, strict=True)}


COLUMNS = {
    "text": pa.array(["a", "b", None, "a", "", "ü😀\n"]),
    "large text": pa.array(["a", "b", None], pa.large_string()),
    "text view": pa.array(["a", "b", None], pa.string_view()),
    "bool": pa.array([True, False, None, True]),
    "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "dictionary with a null in it": pa.DictionaryArray.from_arrays([0, 1, None], ["a", None]),
    "dictionary of whole numbers": pa.array([3, 1, None, 3]).dictionary_encode(),
    "int8": pa.array([3, -1, None], pa.int8()),
    "uint64": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-2.25"), None]),
    "bytes": pa.array([b"\xff", b"", None]),
    "date32": pa.array([dt.date(2020, 2, 29), dt.date(1, 1, 1), None]),
    "date64": pa.array([dt.date(2020, 2, 29), dt.date(1, 1, 1), None], pa.date64()),
    "timestamp": pa.array([dt.datetime(2020, 1, 1, 5), None], pa.timestamp("s")),
    "timestamp with zone": pa.array([0, 5, None], pa.timestamp("us", tz="Asia/Tokyo")),
    "duration": pa.array([5, -5, None], pa.duration("s")),
    "time": pa.array([5, 0, None], pa.time32("ms")),
    "one value": pa.array(["a", "a", "a"]),
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_values_come_back(values):
    for choices in ({}, {"hide_missing": ("c",)}):
        assert there_and_back({"c": values}, **choices) == {"c": values.to_pylist()}


BEYOND_PYTHON = [
    (pa.int64(), pa.timestamp("ns")),
    (pa.int64(), pa.time64("ns")),
    (pa.int64(), pa.duration("ns")),
    (pa.int64(), pa.timestamp("s")),
    (pa.int32(), pa.date32()),
]


@pytest.mark.parametrize(("stored", "type_"), BEYOND_PYTHON, ids=str)
def test_dates_and_times_that_python_cannot_hold_come_back(stored, type_):
    """Nanoseconds, and years beyond 9999."""
    numbers = [1, 2**31 - 1, 1_234_567, None, 1]
    values = pa.array(numbers, stored).view(type_)
    if type_ == pa.timestamp("s"):
        values = pa.array([2**50, 2**51, -(2**50), None, 7]).view(type_)
    categories = frozen({"c": values})
    [found] = categories.decode(categories.encode(encoded({"c": values})))
    assert found.type == type_
    assert found.equals(values)


def test_missing_is_missing_unless_it_is_hidden():
    column = {"c": pa.array(["a", None, "a", "b"])}
    shown = frozen(column)
    assert shown.encode(encoded(column)).tolist() == [0, MISSING, 0, 1]
    assert shown.counts == (2, 1)
    hidden = frozen(column, hide_missing=("c",))
    assert MISSING not in hidden.encode(encoded(column))
    assert sorted(hidden.counts) == [1, 1, 2]


def test_an_empty_text_is_a_value_beside_a_missing_one():
    column = {"c": pa.array(["", None, "", "b"])}
    assert there_and_back(column) == {"c": ["", None, "", "b"]}
    assert frozen(column).counts == (2, 1)


def test_the_most_frequent_comes_first_and_all_are_counted():
    categories = frozen({"c": pa.array(list("abbcccz"))})
    assert categories.counts == (3, 2, 1, 1)
    assert categories.values[0].to_pylist() == ["c", "b", "a", "z"]


def test_the_base_is_the_frequencies_or_even():
    column = {"c": pa.array(list("abbb"))}
    assert np.array_equal(frozen(column).bounds, thresholds([3, 1]))
    assert np.array_equal(frozen(column, uniform=("c",)).bounds, thresholds([1, 1]))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_tallies_add_up_however_the_rows_are_cut(size):
    rng = np.random.default_rng(0)
    columns = {
        "a": pa.array([None if v == 3 else f"v{v}" for v in rng.integers(0, 4, 1000)]),
        "b": pa.array(rng.integers(0, 2, 1000) == 1),
    }
    whole, parts = tally(encoded(columns)), Counter()
    for start in range(0, 1000, size):
        parts += tally(encoded({n: array.slice(start, size) for n, array in columns.items()}))
    pairs = zip(columns["a"].to_pylist(), columns["b"].to_pylist(), strict=True)
    assert whole == parts == Counter(pairs)


# --- rare values ----------------------------------------------------------------------------


def test_rare_texts_are_pooled_under_a_name():
    column = {"c": pa.array([*"aaabbb", *"xyz", None])}
    categories = frozen(column, min_count=3)
    assert categories.counts == (3, 3, 3)
    assert there_and_back(column, min_count=3) == {"c": [*"aaabbb", *[OTHER] * 3, None]}
    assert "x" not in categories.values[0].to_pylist()
    # the bound is exact: at 2 nothing that two rows hold is pooled
    assert there_and_back({"c": pa.array([*"aabb"])}, min_count=2) == {"c": [*"aabb"]}


def test_a_pool_is_never_rare_itself():
    """One row alone in the pool would only be renamed: the next rarest value joins it."""
    column = {"c": pa.array([*"aaaaa", *"bbbb", *"ccc", "x"])}
    assert frozen(column, min_count=3).counts == (5, 4, 4)
    assert there_and_back(column, min_count=3) == {"c": [*"aaaaa", *"bbbb", *[OTHER] * 4]}
    assert there_and_back({"c": pa.array([*"aaa", "x"])}, min_count=3) == {"c": [OTHER] * 4}


def test_what_is_called_like_the_pool_is_not_rare_either():
    assert frozen({"c": pa.array([*"aaaaa", *"bbbbbbb", OTHER])}, min_count=3).counts == (7, 6)
    column = {"c": pa.array([1] * 5 + [2] * 7 + [None])}
    assert frozen(column, min_count=3, hide_missing=("c",)).counts == (7, 6)


def test_a_pool_of_texts_leaves_missing_values_alone():
    found = frozen({"c": pa.array([*"aaaaa", *"xyz", OTHER, None])}, min_count=3)
    assert not found.hides_missing
    assert found.counts == (5, 4)


@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=20),
    min_count=st.integers(0, 40),
)
def test_no_value_is_rarer_than_it_may_be(counts, min_count):
    cells = [f"v{i}" for i, count in enumerate(counts) for _ in range(count)]
    found = frozen({"c": pa.array(cells)}, min_count=min_count)
    assert sum(found.counts) == len(cells)
    assert len(found.counts) == 1 or min(found.counts) >= min_count
    assert found.pooled == (min(counts) < min_count)


def test_other_rare_values_are_missing_and_hide_those_that_are():
    """A pool that leaves as missing and missing values that stay would tell on each other."""
    column = {"c": pa.array([1, 1, 1, 2, 3, None])}
    assert there_and_back(column, min_count=3) == {"c": [1, 1, 1, None, None, None]}
    for choices in ({}, {"hide_missing": ("c",)}):
        found = frozen(column, min_count=3, **choices)
        assert found.hides_missing
        assert found.counts == (3, 3)
        assert MISSING not in found.encode(encoded(column))
    complete = frozen({"c": pa.array([1, 1, 1, 2, 3, 4])}, min_count=3)
    assert not complete.hides_missing
    unpooled = frozen({"c": pa.array([1, 1, 1, None])}, min_count=3)
    assert not unpooled.hides_missing


def test_a_real_value_with_the_name_of_the_pool_is_in_the_pool():
    column = {"c": pa.array([OTHER] * 5 + ["a"] * 3 + ["x"])}
    categories = frozen(column, min_count=3)
    assert categories.values[0].to_pylist() == ["a", OTHER]
    assert categories.counts == (3, 6)
    assert there_and_back(column, min_count=3) == {"c": [OTHER] * 5 + ["a"] * 3 + [OTHER]}
    assert there_and_back(column) == {"c": column["c"].to_pylist()}


@pytest.mark.parametrize("values", [pa.array(list("abc")), pa.array([1, 2, 3])], ids=str)
def test_all_values_rare(values):
    expected = OTHER if values.type == pa.string() else None
    assert frozen({"c": values}, min_count=9).counts == (3,)
    assert there_and_back({"c": values}, min_count=9) == {"c": [expected] * 3}


def test_missing_may_be_rare_itself():
    column = {"c": pa.array([*"aabb", "x", None])}
    found = there_and_back(column, min_count=2, hide_missing=("c",))
    assert found == {"c": [*"aabb", OTHER, OTHER]}


def test_a_pool_of_combinations():
    columns = {"a": pa.array(list("xxxxyz")), "b": pa.array([1, 1, 1, 2, 2, 2])}
    found = there_and_back(columns, min_count=3, categorical=("b",))
    assert found == {"a": [*"xxx", *[OTHER] * 3], "b": [1, 1, 1, None, None, None]}


# --- together -------------------------------------------------------------------------------


def test_combinations_with_missing_parts_come_back():
    columns = {
        "a": pa.array(["x", None, "x", None, "y"]),
        "b": pa.array([True, True, None, None, False]),
        "c": pa.array([1, 1, 1, 1, 1]),
    }
    assert there_and_back(columns, categorical=("c",)) == {
        name: array.to_pylist() for name, array in columns.items()
    }
    assert len(frozen(columns, categorical=("c",)).counts) == 5


@pytest.mark.parametrize("columns", [2, 31, 33, 40, 70])
def test_many_columns_together_come_back(columns):
    """Forty questions with yes or no: a product of their numbers does not fit in 64 bits."""
    table = {f"c{i}": pa.array([False] + [True] * 9) for i in range(columns - 1)}
    table["last"] = pa.array([False, True] * 5)  # alone tells nine of the ten rows apart
    assert there_and_back(table) == {name: array.to_pylist() for name, array in table.items()}


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_any_group_comes_back(data):
    width, rows = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 12))
    cells = st.one_of(st.none(), st.sampled_from("abc"))
    columns = {
        f"c{i}": pa.array(data.draw(st.lists(cells, min_size=rows, max_size=rows)), pa.string())
        for i in range(width)
    }
    if width == 1 and columns["c0"].null_count == rows:
        return
    assert there_and_back(columns) == {name: c.to_pylist() for name, c in columns.items()}


def test_unknown_values_and_combinations_are_refused():
    columns = {"a": pa.array(["x", "y"]), "b": pa.array(["u", "v"])}
    categories = frozen(columns)
    for other in ({"a": ["z"], "b": ["u"]}, {"a": ["x"], "b": ["v"]}, {"a": [None], "b": ["u"]}):
        changed = {name: pa.array(values, pa.string()) for name, values in other.items()}
        with pytest.raises(SourceChanged, match="'a', 'b': a value that was not there before"):
            categories.encode(encoded(changed))
    single = frozen({"c": pa.array(["canary", "y"])})
    with pytest.raises(SourceChanged) as caught:
        single.encode(encoded({"c": pa.array(["canary2"])}))
    assert "canary" not in str(caught.value)
    # a missing cell, where missing is shown, is no unknown value
    assert single.encode(encoded({"c": pa.array([None, "y"])})).tolist() == [MISSING, 1]


def test_values_of_another_kind_are_refused_without_showing_them():
    categories = frozen({"c": pa.array([1, 2])})
    with pytest.raises(SourceChanged) as caught:
        categories.encode(encoded({"c": pa.array(["canary", "2"])}))
    assert "canary" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert categories.encode(encoded({"c": pa.array([1, 2], pa.int8())})).tolist() == [0, 1]


# --- refusals and the ledger ----------------------------------------------------------------


def test_too_many_values_are_refused_with_advice():
    check_number(("c",), Counter({(i,): 1 for i in range(MOST_CATEGORIES)}), 70_000)
    many = Counter({(i,): 1 for i in range(MOST_CATEGORIES + 1)})
    with pytest.raises(
        ColumnError,
        match=r"65,536 .* in 70,000 rows: it looks like an identif",
    ):
        check_number(("c",), many, 70_000)
    with pytest.raises(ColumnError, match=r"'c', 'd': .*too many combinations"):
        check_number(("c", "d"), many, 70_000)


def test_decoded_text_lists_its_own_values_alone_in_their_order():
    kept = frozen({"c": pa.array(["rare", "often", "often", "some", "some", "often", None])})
    code = {text: kept.values[0].to_pylist().index(text) for text in ("rare", "often", "some")}
    rows = [MISSING, code["some"], code["often"], code["some"]]
    [found] = kept.decode(np.array(rows, dtype=np.int32))
    assert found.to_pylist() == [None, "some", "often", "some"]
    assert found.dictionary.to_pylist() == ["some", "often"]


def test_nan_among_the_values_is_refused():
    values = pa.DictionaryArray.from_arrays([0, 1, 0], pa.array([1.5, float("nan")]))
    with pytest.raises(ColumnError, match="'c': NaN is among the values; make it missing"):
        frozen({"c": values})


def test_nothing_to_draw_from_is_refused():
    with pytest.raises(ColumnError, match="'c': no values at all; drop it"):
        frozen({"c": pa.array([None, None], pa.string())})


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS.keys())
def test_what_the_ledger_keeps_comes_back(values):
    for min_count in (0, 2):
        kept = frozen({"c": values}, min_count=min_count)
        text = json.dumps(kept.to_json())
        again = Categories.from_json(json.loads(text))
        assert json.dumps(again.to_json()) == text
        assert np.array_equal(again.bounds, kept.bounds)
        assert [a.type for a in again.values] == [a.type for a in kept.values]
        codes = kept.encode(encoded({"c": values}))
        assert np.array_equal(again.encode(encoded({"c": values})), codes)
        assert again.decode(codes)[0].equals(kept.decode(codes)[0])


def test_the_ledger_keeps_groups():
    kept = frozen({"a": pa.array(["x", None]), "b": pa.array([1, 2])}, categorical=("b",))
    again = Categories.from_json(json.loads(json.dumps(kept.to_json())))
    assert again.columns == ("a", "b")
    assert np.array_equal(again.combinations, kept.combinations)
