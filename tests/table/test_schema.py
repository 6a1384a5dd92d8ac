import pyarrow as pa
import pytest

from cornerwave.choices import Choices, names_of
from cornerwave.columns import check_distinct, warn_of
from cornerwave.columns import decide as decide_with
from cornerwave.errors import ColumnError, CornerwaveWarning

SOURCE = pa.schema(
    [
        ("id", pa.string()),
        ("age", pa.int64()),
        ("wage", pa.float64()),
        ("born", pa.date32()),
        ("town", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)


def decide(source, **choices):
    return decide_with(source, Choices(**choices))


def roles(schema):
    return {column.name: column.role for column in schema.columns}


def test_every_column_has_one_role():
    found = decide(SOURCE, key="id", keep=["town"], drop=["tags"])
    assert roles(found) == {
        "id": "key",
        "age": "perturbed",
        "wage": "perturbed",
        "born": "perturbed",
        "town": "kept",
        "tags": "dropped",
    }
    assert found.perturbed == ["age", "wage", "born"]
    assert found.kept == ["town"]
    assert found.key == "id"
    assert found.used == ["id", "age", "wage", "born", "town"]
    assert [column.name for column in found.shown] == found.used
    assert {column.name: column.unit for column in found.columns if column.unit} == {
        "born": "days since 1970-01-01"
    }


def test_a_key_can_be_hidden_and_still_tell_rows_apart():
    found = decide(SOURCE, key="id", keep=["town"], drop=["tags", "id"])
    assert found.key == "id"
    assert "id" in found.used
    assert "id" not in [column.name for column in found.shown]


def test_a_number_may_be_kept_or_dropped_by_name():
    found = decide(SOURCE, key="id", keep=["town", "age"], drop=["tags", "born"])
    assert found.perturbed == ["wage"]
    assert found.kept == ["age", "town"]


def test_text_and_booleans_are_categories():
    source = pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.bool_()),
            ("c", pa.dictionary(pa.int8(), pa.string())),
            ("d", pa.int8()),
            ("e", pa.int8()),
        ]
    )
    found = decide(source, categorical=("d",), together=(("a", "b"),))
    assert found.categories == [("c",), ("d",), ("a", "b")]
    assert found.perturbed == ["e"]


@pytest.mark.parametrize("values", [pa.int64(), pa.date32(), pa.float64(), pa.string()], ids=str)
def test_whatever_is_encoded_is_a_category_unless_it_is_called_a_number(values):
    source = pa.schema([("c", pa.dictionary(pa.int8(), values)), ("n", pa.int8())])
    assert roles(decide(source)) == {"c": "category", "n": "perturbed"}
    if values != pa.string():
        assert roles(decide(source, perturb=("c",))) == {"c": "perturbed", "n": "perturbed"}


def test_odd_columns_are_warned_of_unless_they_were_called_categories():
    notes = {"id": "odd", "town": "odd", "age": "odd"}
    with pytest.warns(CornerwaveWarning, match="'town': odd") as caught:
        warn_of(notes, decide(SOURCE, drop=("tags",), categorical=("id",)))
    assert len(caught) == 1


def test_names_together_may_have_spaces_around_them():
    source = pa.schema([(name, pa.string()) for name in ("a", "b", " c")])
    assert decide(source, together=(("a", " b"),)).together == (("a", "b"),)
    assert decide(source, together=(("a", " c"),)).together == (("a", " c"),)
    with pytest.raises(ColumnError, match=r"no column 'd'; .* contains a comma, use a schema file"):
        decide(source, together=(("a", " d"),))


def test_a_text_by_itself_is_one_name():
    assert names_of("ab") == ("ab",)
    assert names_of(["a", "b"]) == ("a", "b")
    assert names_of(name for name in "ab") == ("a", "b")


def test_a_forgotten_column_is_an_error_that_says_what_to_do():
    with pytest.raises(ColumnError) as caught:
        decide(SOURCE, key="id")
    for word in ("'tags' (list", "Drop the column", "keep it as it is", "make it the key"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"transform": {"wage": "sqrt"}}, "'wage': transform must be one of"),
        ({"transform": {"town": "log1p"}}, "'town' is a category, but transform needs a number"),
        ({"perturb": ("town",)}, "a category, but perturb needs a number; correct or blank"),
        ({"perturb": ("tags",)}, "dropped, but perturb needs a number; choose one of the two"),
        ({"uniform": ("age",)}, "'age' is a number, but uniform needs a category; declare it"),
        ({"together": (("town",),)}, "at least two"),
        ({"together": (("town", "id"), ("town", "age"))}, "more than one group"),
        ({"together": (("town", "age"),)}, "together needs a category"),
        ({"together": (("town", "id"),), "uniform": ("town",)}, "choose one"),
        ({"hide_missing": ("tags",)}, "needs a number or a category"),
        ({"min_count": -1}, "min_count must be"),
    ],
    ids=str,
)
def test_choices_that_do_not_fit(choices, words):
    with pytest.raises(ColumnError, match=words):
        decide(SOURCE, drop=("tags",), **choices)


@pytest.mark.parametrize("role", ["key", "keep", "drop"])
def test_a_name_that_is_not_there(role):
    with pytest.raises(ColumnError, match="no column 'nonsense'; the table has 'id', 'age'"):
        decide(SOURCE, **{role: "nonsense" if role == "key" else ["nonsense"]})


@pytest.mark.parametrize(
    "roles", [{"key": "id", "keep": ["id"]}, {"keep": ["town"], "drop": ["town"]}], ids=str
)
def test_kept_and_something_else(roles):
    with pytest.raises(ColumnError, match="kept and also dropped or the key"):
        decide(SOURCE, **roles)


@pytest.mark.parametrize("key", ["wage", "tags"])
def test_floats_and_lists_are_no_keys(key):
    with pytest.raises(ColumnError, match=f"'{key}': a key must be"):
        decide(SOURCE, key=key)


def test_lists_cannot_be_kept():
    with pytest.raises(ColumnError, match="nested"):
        decide(SOURCE, key="id", keep=["town", "tags"])


def test_something_must_be_perturbed():
    with pytest.raises(ColumnError, match="no column to perturb"):
        decide(SOURCE, key="id", keep=["age", "wage", "born", "town"], drop=["tags"])


def test_names_must_be_distinct():
    with pytest.raises(ColumnError, match="'a', 'b': more than one"):
        check_distinct(["b", "a", "a", "b", "c"])
    with pytest.raises(ColumnError, match="more than one column"):
        decide(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
    check_distinct(["a", "b", "A"])


def test_a_list_of_many_names_is_cut_short():
    wide = pa.schema([(f"c{number}", pa.int8()) for number in range(1000)])
    with pytest.raises(ColumnError, match="and 980 more") as caught:
        decide(wide, drop=["nonsense"])
    assert len(str(caught.value)) < 500
