import gzip

import pyarrow as pa
import pytest

from cornerwave.errors import SourceError
from cornerwave.sources import open_source

HEADLESS = "seems to have no line of column names"


def csv(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    return path


def refusal(tmp_path, content, name="t.csv"):
    with pytest.raises(SourceError) as caught:
        open_source(csv(tmp_path, content, name))
    return str(caught.value)


def whole(source):
    return pa.concat_tables(source.groups(source.schema.names, 10**9))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize(
    "content",
    [
        "Ann4711,34,de\nBob,35,fr\nCyd,34,de\n",
        "Ann4711,34.5,2020-01-31\nBob,35.5,2020-02-01\n",
        "4711.5,\n3.5,1\n4.5,2\n",
        "4711, 12\n1,12\n4711,13\n",
        "a4711,b\n1,2\na4711,b\n3,4\n",  # two files, one after the other
    ],
)
def test_a_record_is_not_taken_for_names(tmp_path, content, name):
    message = refusal(tmp_path, content, name)
    assert HEADLESS in message
    assert "4711" not in message


@pytest.mark.parametrize(
    "content",
    [
        "country,2019,2020,2021\nde,1,2,3\nfr,3,4,5\n",
        "age,wage\n1,2\n3,4\n",
        "yes,age,wage\nyes,2,3\nno,4,5\n",
        "x\nx\ny\n",
    ],
)
def test_names_are_taken_for_names(tmp_path, content):
    names = content.split("\n")[0].split(",")
    assert open_source(csv(tmp_path, content)).schema.names == names


def test_a_name_that_occurs_late_is_found(tmp_path, at_a_time):
    at_a_time(CSV_BLOCK=1000)
    path = csv(tmp_path, "ann,de\n" + "bob,fr\n" * 5000 + "ann,de\n")
    with pytest.raises(SourceError, match=HEADLESS):
        open_source(path)
    known = {"ann": pa.string(), "de": pa.string()}
    assert open_source(path, known).schema.names == ["ann", "de"]  # registered is registered


def test_a_name_that_stands_twice_is_not_shown(tmp_path):
    source = open_source(csv(tmp_path, "a,4711,b,4711\n1,2,3,4\n"))
    assert source.schema.names == ["a", "4711", "b", "4711_2"]
    [remark] = source.remarks
    assert "columns 2 and 4 with the same name" in remark
    assert "4711" not in remark


def test_columns_without_a_name_get_one_and_empty_ones_are_left_out(tmp_path):
    source = open_source(csv(tmp_path, "\n\n,age,wage,,\n0,2,3,,\n1,4,5,,\n"))
    assert whole(source).to_pydict() == {"column_1": [0, 1], "age": [2, 4], "wage": [3, 5]}
    assert source.remarks == (
        "t.csv: columns 4 and 5 without a name and empty; left out",
        "t.csv: column 1 without a name; called 'column_1'",
    )
    again = open_source(csv(tmp_path, "column_1,,a,a,a_2\n1,2,3,4,5\n"))
    assert again.schema.names == ["column_1", "column_2", "a", "a_3", "a_2"]


def test_a_record_with_the_same_cells_is_not_taken_for_names(tmp_path):
    assert HEADLESS in refusal(tmp_path, "no,no,no,yes\nyes,yes,no,no\nno,no,yes,no\n")


@pytest.mark.parametrize("content", ["a,b\n", "a\n"])
def test_names_without_rows(tmp_path, content):
    assert "t.csv has no rows" in refusal(tmp_path, content)


@pytest.mark.parametrize("content", ["dose; mg\n1\n2\n", "kind; of\na;b\nc\nd\n"])
def test_a_semicolon_in_a_name_is_no_separator(tmp_path, content):
    assert open_source(csv(tmp_path, content)).schema.names == [content.split("\n")[0]]


def test_a_column_that_was_renamed_is_not_there(tmp_path):
    path = csv(tmp_path, "a,c\n1,2\n")
    assert open_source(path, {"a": pa.int64(), "b": pa.int64()}).schema.names == ["a"]


def test_nothing_is_missing_and_quotes_around_nothing_are_not(tmp_path):
    source = open_source(csv(tmp_path, 'n,t\n1,x\n,\n"",""\n'))
    assert whole(source).to_pydict() == {"n": [1, None, None], "t": ["x", None, ""]}


@pytest.mark.parametrize("block", [20, 1 << 20])
def test_types_do_not_depend_on_blocks(tmp_path, at_a_time, block):
    at_a_time(CSV_BLOCK=block)
    path = csv(tmp_path, "a,b\n" + "0,007\n" * 9 + "1,8\n" * 9 + "true,9\n" * 9)
    source = open_source(path)
    assert source.schema.types == [pa.string(), pa.string()]
    assert whole(source)["b"][0].as_py() == "007"


def test_times_and_notes(tmp_path):
    rows = "".join(f"12:{i % 60:02}:00,{i},x\n" for i in range(100))
    source = open_source(csv(tmp_path, "at,n,t\n" + rows + "12:00:00,?,x\n"))
    assert source.schema.types == [pa.time32("s"), pa.string(), pa.string()]
    assert source.notes == {
        "n": "all but 1 of 101 cells are numbers: correct or blank the others, "
        "declare '?' as missing, or the column is treated as a category"
    }


def test_empty_lines_are_missing_where_there_is_one_column(tmp_path):
    path = csv(tmp_path, "x\n1\n\n3\n")
    assert whole(open_source(path)).to_pydict() == {"x": [1, None, 3]}
    path = csv(tmp_path, 'town\nUlm\n\n""\n')
    assert whole(open_source(path)).to_pydict() == {"town": ["Ulm", None, ""]}
    path = csv(tmp_path, "x,y\n1,2\n\n3,4\n")
    assert whole(open_source(path)).to_pydict() == {"x": [1, 3], "y": [2, 4]}
    few = open_source(path, types={"y": pa.int64()})
    assert whole(few).to_pydict() == {"y": [2, 4]}


def test_a_broken_line_that_is_not_utf_8_is_refused_without_noise(tmp_path, capfd):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n3,\xff,5\n")
    with pytest.raises(SourceError, match=r"t\.csv"):
        open_source(path)
    assert capfd.readouterr() == ("", "")
