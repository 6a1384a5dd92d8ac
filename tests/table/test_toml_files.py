import os

import pytest

from cornerwave.choices import Choices
from cornerwave.errors import ColumnError, LevelError
from cornerwave.levels import Level, Privacy
from cornerwave.schema_file import read_batch, read_choices

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
        perturb=("a",),
        categorical=("b", "c"),
        together=(("b", "c"),),
        hide_missing=("a",),
        transform={"a": "log1p"},
        min_count=5,
    )


def test_a_uniform_base_and_a_drop(tmp_path):
    text = '[[column]]\nname="a"\ndo="category"\nbase="uniform"\n[[column]]\nname="b"\ndo="drop"'
    assert read(tmp_path, text, "ab") == Choices(categorical=("a",), uniform=("a",), drop=("b",))


def toml(table, options):
    return f"[[{table}]]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())


def entry(**options):
    return toml("column", {"name": '"a"', **options})


PERTURB = entry(do='"perturb"')
WRONG = {
    "not TOML": ("name = ", "schema.toml is not TOML"),
    "unknown at the top": (
        "colour = 1",
        "unknown option 'colour'; use unit, column, time, together, min_count",
    ),
    "a single table": ('[column]\nname = "a"', r"write each column as a \[\[column\]\] table"),
    "columns that are no tables": ("column = [1]", r"write each column as a \[\[column\]\] table"),
    "no name": ('[[column]]\ndo = "keep"', "has no name"),
    "a name that is no text": ("[[column]]\nname = 1", "has no name"),
    "unknown in a column": (
        entry(do='"keep"', hiden="true"),
        "column 'a': unknown option 'hiden'",
    ),
    "no decision": (entry(), "do must be one of perturb, category, key, unit, keep, drop"),
    "an undecided draft": (
        entry(do='"decide"'),
        "still to decide: 'a'; set 'do' to one of perturb",
    ),
    "a decision that is a list": (entry(do='["keep"]'), "do must be one of"),
    "unknown transform": (
        entry(do='"perturb"', transform='"log"'),
        'transform must be one of "log1p", "rank"',
    ),
    "unknown base": (
        entry(do='"category"', base='"even"'),
        'base must be one of "marginal", "uniform"',
    ),
    "hide_missing in quotes": (entry(do='"perturb"', hide_missing='"true"'), "true or false"),
    "hidden as a number": (entry(do='"key"', hidden="1"), "hidden must be true or false"),
    "a hidden number": (entry(do='"perturb"', hidden="true"), "hidden is for a key"),
    "as_is in quotes": (entry(do='"key"', as_is='"true"'), "as_is must be true or false"),
    "a number as it is": (entry(do='"perturb"', as_is="true"), "as_is is for a key"),
    "twice": (PERTURB + entry(do='"keep"'), "more than one decision for 'a'"),
    "missing": ("", "no decision for 'a'"),
    "a count in quotes": ('min_count = "5"\n' + PERTURB, "min_count must be a number"),
    "half a row": ("min_count = 1.5\n" + PERTURB, "min_count must be a number"),
    "a count that is no number": (
        "min_count = nan\n" + PERTURB,
        "min_count must be a number",
    ),
    "a yes for a count": ("min_count = true\n" + PERTURB, "min_count must be a number"),
    "fewer than no rows": ("min_count = -1\n" + PERTURB, "min_count must be a number"),
    "together as a number": ("together = 5\n" + PERTURB, "together must be lists"),
    "together as a text": ('together = "a"\n' + PERTURB, "together must be lists"),
    "together as one list": (
        'together = ["a", "b"]\n' + PERTURB,
        "together must be lists",
    ),
    "together by number": ('together = [["a", 1]]\n' + PERTURB, "together must be lists"),
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


# --- a batch file -----------------------------------------------------------------------

BATCH = """
[[copy]]
to = "ann"
privacy = 0.5
[[copy]]
to = "bob"
noise = 4
out = "bob.arrow"
"""


def batch(tmp_path, text):
    path = tmp_path / "batch.toml"
    path.write_text(text, encoding="utf-8")
    return read_batch(path)


def test_copies_with_their_levels_and_files(tmp_path):
    assert batch(tmp_path, BATCH) == [
        ("ann", Privacy(0.5), None),
        ("bob", Level(4.0), tmp_path / "bob.arrow"),
    ]


def copy(**options):
    return toml("copy", {"to": '"a"', **options})


WRONG_BATCHES = {
    "not TOML": ("[[copy", "batch.toml is not TOML"),
    "empty": ("", r"has no copies; add \[\[copy\]\] tables"),
    "a single table": ('[copy]\nto = "a"', r"write each copy as a \[\[copy\]\] table"),
    "copies that are no tables": ("copy = [1]", r"write each copy as a \[\[copy\]\] table"),
    "unknown option": (copy(noise=1, colour=2), "copy 1: unknown option 'colour'; use to, privacy"),
    "no recipient": ("[[copy]]\nnoise = 1", "copy 1: 'to' must be the name of a recipient"),
    "a recipient by number": (copy(to=1, noise=1), "'to' must be the name of a recipient"),
    "no level": (copy(noise=1) + copy(), "copy 2: "),
    "two levels": (copy(noise=1, privacy=0.5), "copy 1: "),
    "a level that cannot be": (copy(privacy=1.5), "copy 1: privacy must lie"),
    "a level in words": (copy(noise='"much"'), "copy 1: noise must be a number"),
    "a file by number": (copy(noise=1, out=5), "'out' must be the name of a file"),
}


@pytest.mark.parametrize(("text", "words"), WRONG_BATCHES.values(), ids=WRONG_BATCHES.keys())
def test_every_error_of_a_batch_is_one_line_that_names_the_copy(tmp_path, text, words):
    with pytest.raises(LevelError, match=words) as caught:
        batch(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_batch_that_cannot_be_read(tmp_path):
    for path in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(LevelError, match="cannot be read"):
            read_batch(path)


@pytest.mark.parametrize(
    "value", ["1" * 5000, "[" * 5000, "{a=" * 3000], ids=["long", "deep", "tables"]
)
def test_values_too_long_or_too_deep(tmp_path, value):
    path = tmp_path / "x.toml"
    path.write_text(f"min_count = {value}")
    with pytest.raises(ColumnError, match=r"x\.toml (cannot be read|is not TOML)"):
        read_choices(path, ["a"])
    with pytest.raises(LevelError, match=r"x\.toml (cannot be read|is not TOML)"):
        read_batch(path)


WILD = """
[[column]]
name = "item_*"
do = "category"
[[column]]
name = "item_2"
do = "drop"
[[column]]
name = "*"
do = "perturb"
round = true
[[column]]
name = "odd*name"
do = "keep"
"""


def test_wildcards_decide_what_has_no_entry_of_its_own_by_the_first_that_fits(tmp_path):
    columns = ["wage", "item_1", "item_2", "item_[3]", "odd*name", "odd name"]
    assert read(tmp_path, WILD, columns) == Choices(
        categorical=("item_1", "item_[3]"),
        drop=("item_2",),
        keep=("odd*name",),
        perturb=("wage", "odd name"),
        round={"wage": True, "odd name": True},
    )


def test_a_wildcard_without_a_column_and_a_name_for_several_are_refused(tmp_path):
    with pytest.raises(ColumnError, match=r"'item_\*' matches no column"):
        read(tmp_path, WILD, ["wage", "odd*name"])
    named = '[[column]]\nname = "a*"\ndo = "keep"\nas = "b"'
    with pytest.raises(ColumnError, match="one name cannot be given to several columns"):
        read(tmp_path, named, ["a", "ab"])


def test_brackets_and_question_marks_mean_themselves(tmp_path):
    text = '[[column]]\nname = "[ab]?*"\ndo = "drop"'
    with pytest.raises(ColumnError, match="matches no column"):
        read(tmp_path, text, ["ax"])
    assert read(tmp_path, text, ["[ab]?x"]).drop == ("[ab]?x",)
