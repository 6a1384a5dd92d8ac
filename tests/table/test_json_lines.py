"""JSON lines: every kind of cell, names that come and go, and what is refused."""

import datetime as dt
import gzip
import json
import zipfile

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from cornerwave.choices import ReadingSettings
from cornerwave.errors import SourceError
from cornerwave.sources import open_source, open_to_inspect

CANARY = "SECRET4711"
LINES = r"""
{"id": 9007199254740993, "wage": 1.10, "zip": "01067", "ok": true, "born": "1980-02-29"}
{"id": -7, "wage": 2, "zip": "10115", "ok": false, "born": "1999-12-31", "town": "K\u00f6ln"}

{"id": 0, "wage": null, "zip": "80331", "ok": null, "at": {"x": 1, "y": {"z": "12:30"}}}
{"id": 3, "wage": 1e3, "tags": ["a", 1.50, {"b": null}], "town": "", "at": {"x": 2.5}}
"""


def lines_at(path, text=LINES):
    content = text if isinstance(text, bytes) else text.encode()
    if path.suffix == ".gz":
        content = gzip.compress(content)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(path.stem, content)
        return path
    path.write_bytes(content)
    return path


def whole(source):
    return pa.concat_tables(source.groups(source.schema.names, 10**9))


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", ".jsonl.zip"])
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_cells_have_the_types_of_their_columns(tmp_path, at_a_time, ending, block):
    at_a_time(JSON_BLOCK=block)
    source = open_source(lines_at(tmp_path / f"t{ending}"))
    assert whole(source).to_pydict() == {
        "id": [9007199254740993, -7, 0, 3],
        "wage": [1.1, 2.0, None, 1000.0],
        "zip": ["01067", "10115", "80331", None],
        "ok": [True, False, None, None],
        "born": [dt.date(1980, 2, 29), dt.date(1999, 12, 31), None, None],
        "town": [None, "Köln", None, ""],
        "at.x": [None, None, 1.0, 2.5],
        "at.y.z": [None, None, dt.time(12, 30), None],
        "tags": [None, None, None, '["a", 1.5, {"b": null}]'],
    }
    assert source.schema.field("id").type == pa.int64()
    assert source.notes == {"tags": "1 of its cells are lists: they are read as text"}
    types = {part.name: part.type for part in source.schema}
    again = open_source(source.path, types, source.reading)
    assert whole(again).equals(whole(source))
    assert [b.num_rows for b in again.batches([])] == [b.num_rows for b in again.batches(["id"])]


def test_text_is_never_a_number_and_whole_numbers_lose_no_digit(tmp_path):
    """The same cells without quotes are numbers: that is what makes the difference."""
    quoted = '{"n": "5", "b": "true", "d": "2024-01-31"}\n' * 3
    source = open_source(lines_at(tmp_path / "t.jsonl", quoted))
    assert source.schema.types == [pa.string(), pa.string(), pa.date32()]
    assert "in quotes" in source.notes["n"]
    plain = '{"n": 5, "b": true, "d": "2024-01-31"}\n' * 3
    source = open_source(lines_at(tmp_path / "t.jsonl", plain))
    assert source.schema.types == [pa.int64(), pa.bool_(), pa.date32()]
    long = '{"n": 123456789012345678901234567890}\n'
    found = whole(open_source(lines_at(tmp_path / "t.jsonl", long)))
    assert found["n"].to_pylist() == [123456789012345678901234567890]


def test_values_are_those_of_the_same_csv(tmp_path):
    """Also where cells mark what is missing, and dates have a format."""
    rows = [
        {"n": 1.5, "d": "31.12.2020", "m": "?", "c": "x"},
        {"n": -9, "d": "01.02.2020", "m": 3, "c": "NA"},
        {"n": "NA", "d": "05.07.2021", "m": 4.25, "c": "y"},
    ]
    reading = ReadingSettings.of(missing=["?", "-9"])
    lines_at(tmp_path / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    pacsv.write_csv(
        pa.table({n: [str(row[n]) for row in rows] for n in rows[0]}), tmp_path / "t.csv"
    )
    found = open_source(tmp_path / "t.jsonl", reading=reading)
    assert found.reading.date_format == ("%d.%m.%Y",)
    assert whole(found).equals(whole(open_source(tmp_path / "t.csv", reading=reading)))
    looked = open_to_inspect(tmp_path / "t.jsonl")
    assert whole(looked)["m"].to_pylist() == [None, 3.0, 4.25]
    assert looked.markers["m"] == {"?": 1}


def test_nan_is_missing(tmp_path):
    found = whole(open_source(lines_at(tmp_path / "t.jsonl", '{"a": NaN}\n{"a": 1.5}\n')))
    assert found["a"].to_pylist() == [None, 1.5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "t.jsonl has no rows"),
        ("{}\n{}\n", "has no rows with a value"),
        (f'{{"a": 1}}\n{{"a": "{CANARY}"\n', "line 2 is not valid JSON"),
        (f'{{"a": 1}}\n\n["{CANARY}"]\n', "line 3 is not an object in braces"),
        (f'{{"{CANARY}": 1, "{CANARY}": 2}}\n', "line 1 has a name twice"),
        (f'{{"{CANARY}.b": 1, "{CANARY}": {{"b": 2}}}}\n', "line 1 has a name twice"),
        (b'{"a": "\xff"}\n', "line 1 is not UTF-8"),
        ('{"a": ' + "[" * 100_000 + "\n", "line 1 is not valid JSON"),
        ('{"a": "\\ud800"}\n', "a cell holds what is not text"),
        ('{"\\ud800": 1}\n', "a name holds what is not text"),
        ("".join(f'{{"{n}": 1}}\n' for n in range(10_001)), "more than 10,000 different names"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, text, says):
    with pytest.raises(SourceError, match=says) as caught:
        open_source(lines_at(tmp_path / "t.jsonl", text))
    assert CANARY not in str(caught.value)


def test_a_line_that_does_not_end_is_not_held(tmp_path, at_a_time):
    at_a_time(JSON_LINE=100)
    path = lines_at(tmp_path / "t.jsonl", '{"a": 1}\n{"a": "' + "x" * 200 + '"}\n')
    with pytest.raises(SourceError, match="line 2 has more than 100 bytes"):
        open_source(path)
    at_a_time(JSON_LINE=1000)
    assert whole(open_source(path)).num_rows == 2


def test_other_values_than_at_registration_are_refused(tmp_path):
    path = lines_at(tmp_path / "t.jsonl", '{"a": 1}\n')
    source = open_source(path)
    lines_at(path, f'{{"a": "{CANARY}"}}\n')
    with pytest.raises(SourceError, match="column 'a' no longer holds") as caught:
        whole(source)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("setting", ["decimal", "delimiter", "encoding"])
def test_settings_of_text_do_not_apply(tmp_path, setting):
    stated = {"decimal": ",", "delimiter": ";", "encoding": "utf-8"}
    reading = ReadingSettings.of(**{setting: stated[setting]})
    with pytest.raises(SourceError, match=f"{setting} does not apply"):
        open_source(lines_at(tmp_path / "t.jsonl"), reading=reading)
