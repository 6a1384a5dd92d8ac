import os

import pytest

from cornerwave.errors import ColumnError
from cornerwave.table.schema import Choices
from cornerwave.table.schema_file import read_choices

COLUMNS = ["a", "b", "c", "d", "e"]
WHOLE = """
min_count = 5
together = [["b", "c"]]
[[column]]
name = "a"
do = "perturb"
transform = "log1p"
hide_missing = true
[[column]]
name = "b"
do = "category"
base = "marginal"
[[column]]
name = "c"
do = "category"
[[column]]
name = "d"
do = "key"
hidden = true
[[column]]
name = "e"
do = "keep"
"""


def read(tmp_path, text, columns=("a",)):
    path = tmp_path / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return read_choices(path, columns)


def test_all_choices(tmp_path):
    assert read(tmp_path, WHOLE, COLUMNS) == Choices(
        key="d",
        keep=("e",),
        drop=("d",),
        categorical=("b", "c"),
        together=(("b", "c"),),
        hide_missing=("a",),
        transform={"a": "log1p"},
        min_count=5,
    )


def test_a_uniform_base_and_a_drop(tmp_path):
    text = '[[column]]\nname="a"\ndo="category"\nbase="uniform"\n[[column]]\nname="b"\ndo="drop"'
    assert read(tmp_path, text, "ab") == Choices(categorical=("a",), uniform=("a",), drop=("b",))


def entry(**options):
    lines = [f"{name} = {value}" for name, value in {"name": '"a"', **options}.items()]
    return "[[column]]\n" + "\n".join(lines) + "\n"


PERTURB = entry(do='"perturb"')
WRONG = {
    "not TOML": ("name = ", "schema.toml is not TOML"),
    "unknown at the top": ("colour = 1", "'colour' is not known"),
    "a single table": ('[column]\nname = "a"', r"\[\[column\]\] tables"),
    "columns that are no tables": ("column = [1]", r"\[\[column\]\] tables"),
    "no name": ('[[column]]\ndo = "keep"', "without a name"),
    "a name that is no text": ("[[column]]\nname = 1", "without a name"),
    "unknown in a column": (entry(do='"keep"', hiden="true"), "column 'a': 'hiden' is not known"),
    "no decision": (entry(), "say what to do: perturb, category, key, keep, drop"),
    "an undecided draft": (entry(do='"decide"'), "say what to do"),
    "a decision that is a list": (entry(do='["keep"]'), "say what to do"),
    "unknown transform": (entry(do='"perturb"', transform='"log"'), "transform is one of log1p"),
    "unknown base": (entry(do='"category"', base='"even"'), "base is marginal or uniform"),
    "hide_missing in quotes": (entry(do='"perturb"', hide_missing='"true"'), "true or false"),
    "hidden as a number": (entry(do='"key"', hidden="1"), "hidden is true or false"),
    "a hidden number": (entry(do='"perturb"', hidden="true"), "hidden is for a key"),
    "twice": (PERTURB + entry(do='"keep"'), "more than one decision for 'a'"),
    "missing": ("", "no decision for 'a'"),
    "a count in quotes": ('min_count = "5"\n' + PERTURB, "min_count is a number of rows"),
    "half a row": ("min_count = 1.5\n" + PERTURB, "min_count is a number of rows"),
    "a count that is no number": ("min_count = nan\n" + PERTURB, "min_count is a number of rows"),
    "a yes for a count": ("min_count = true\n" + PERTURB, "min_count is a number of rows"),
    "fewer than no rows": ("min_count = -1\n" + PERTURB, "min_count is a number of rows"),
    "together as a number": ("together = 5\n" + PERTURB, "together lists lists of names"),
    "together as a text": ('together = "a"\n' + PERTURB, "together lists lists of names"),
    "together as one list": ('together = ["a", "b"]\n' + PERTURB, "together lists lists of names"),
    "together by number": ('together = [["a", 1]]\n' + PERTURB, "together lists lists of names"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG.keys())
def test_every_error_is_one_line_that_says_what_to_do(tmp_path, text, words):
    with pytest.raises(ColumnError, match=words) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_table_has_one_key(tmp_path):
    text = '[[column]]\nname="a"\ndo="key"\n[[column]]\nname="b"\ndo="key"'
    with pytest.raises(ColumnError, match="'a', 'b': a table has one key"):
        read(tmp_path, text, "ab")


def test_what_cannot_be_read(tmp_path):
    for path in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(ColumnError, match="cannot be read"):
            read_choices(path, ["a"])
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ColumnError, match="cannot be read"):
        read_choices(tmp_path / "latin.toml", ["a"])
    if os.getuid():
        (tmp_path / "mine.toml").touch(mode=0)
        with pytest.raises(ColumnError, match="cannot be read"):
            read_choices(tmp_path / "mine.toml", ["a"])
