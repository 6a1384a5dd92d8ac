"""Files as people have them: delimiters, encodings, decimal points, dates, archives, folders."""

import datetime as dt
import gzip
import itertools
import zipfile

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.choices import ReadingSettings
from cornerwave.errors import ColumnError, SourceError
from cornerwave.sources import open_source, open_to_inspect
from cornerwave.sources._text_cells import TypeGuess, typed

CANARY = "SECRET4711"


def write(tmp_path, text, encoding="utf-8", name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def whole(source):
    return pa.concat_tables(source.groups(source.schema.names, 10**9))


def values(path, **said):
    return whole(open_source(path, reading=ReadingSettings.of(**said))).to_pydict()


def refusal(path, **said):
    with pytest.raises(SourceError) as caught:
        values(path, **said)
    assert CANARY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- delimiters ------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path, delimiter):
    text = "name,note,n\nann,'x',1\nbob,y,2\n".replace(",", delimiter)
    source = open_source(write(tmp_path, text))
    assert source.reading.delimiter == delimiter
    assert whole(source).to_pydict() == {"name": ["ann", "bob"], "note": ["'x'", "y"], "n": [1, 2]}


@pytest.mark.parametrize(
    ("text", "delimiter", "names"),
    [
        ("a;b\n1,5;2,5\n", ";", ["a", "b"]),  # decimal commas
        ("town,x\nUlm;Bonn,1\nJena;Köln,2\n", ",", ["town", "x"]),  # in cells only
        ('a;b\n"x;y\nz";1\n"u,v";2\n', ";", ["a", "b"]),  # in quotes, over two lines
        ("a|b,c|d\n1|2,3|4\n", "|", ["a", "b,c", "d"]),  # the one with most fields
        ("x\n1\n2\n", ",", ["x"]),
    ],
)
def test_what_stands_in_cells_is_no_delimiter(tmp_path, text, delimiter, names):
    source = open_source(write(tmp_path, text))
    assert (source.reading.delimiter, source.schema.names) == (delimiter, names)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a;b\n1;2\n3|4\n5;6\n7;8\n", "record 3"),
        ("a,b\n1,2\n3;4\n5,6\n", "record 3"),
        (f"a;b;c\n1;2;3\n{CANARY};2\n4;5;6\n", "record 3"),
    ],
)
def test_mixed_delimiters_are_refused(tmp_path, text, says):
    assert says in refusal(write(tmp_path, text))


def test_two_delimiters_that_fit_alike_are_not_guessed(tmp_path):
    path = write(tmp_path, f"a, b;c\n{CANARY}, 1;2\nx, 3;4\n")
    assert "may be separated by ',' or by ';'; name the delimiter" in refusal(path)
    assert list(values(path, delimiter=";")) == ["a, b", "c"]


def test_spaces_separate_fields_only_if_that_is_said(tmp_path):
    path = write(tmp_path, "gpa tuce grade\n2.66 20 0\n2.89 22 1\n")
    source = open_source(path)
    assert source.schema.names == ["gpa tuce grade"]
    assert "has 3 parts: if spaces separate the columns" in source.notes["gpa tuce grade"]
    assert values(path, delimiter="space") == {
        "gpa": [2.66, 2.89],
        "tuce": [20, 22],
        "grade": [0, 1],
    }
    for text in ("name\nann lee\nbob ray\n", "full name\nann lee\nbob\n", "a,b c\n1,2 3\n"):
        assert not open_source(write(tmp_path, text)).notes


# --- encodings -------------------------------------------------------------------------------

GERMAN = "Stadt,Straße\nKöln,Müllerstraße\nZürich,Bahnhofstraße\nGöppingen,Österreicher Weg\n"
POLISH = "miasto,kraj\nŁódź,Polska\nKraków,Świętokrzyskie\nGdańsk,Żuławy\nWrocław,Śląsk\n"
RUSSIAN = "город,имя\nМосква,Иван\nКазань,Пётр\nСочи,Анна\n"


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        (GERMAN, "utf-8", "utf-8"),
        (GERMAN, "utf-8-sig", "utf-8"),
        (GERMAN, "cp1252", "cp1252"),
        (GERMAN, "utf-16", "utf-16"),
        (GERMAN, "utf-32", "utf-32"),
        (GERMAN, "utf-16-le", "utf-16-le"),
        (GERMAN.replace("Weg", "5 €"), "cp1252", "cp1252"),
        (POLISH, "cp1250", "cp1250"),
        (RUSSIAN, "cp1251", "cp1251"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.zip"])
def test_the_encoding_is_found(tmp_path, text, encoding, found, name):
    content, path = text.encode(encoding), tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inside.csv", content)
    else:
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    source = open_source(path)
    assert source.reading.encoding == found
    rows = [line.split(",") for line in text.splitlines()]
    assert [list(row.values()) for row in whole(source).to_pylist()] == rows[1:]
    assert source.schema.names == rows[0]


def test_late_bytes_show_the_encoding_too(tmp_path, at_a_time):
    at_a_time(CSV_BLOCK=10_000)
    path = write(tmp_path, "n,town\n" + "1,Ulm\n" * 20_000 + "2,Köln\n", "latin-1")
    source = open_source(path)
    assert whole(source)["town"][-1].as_py() == "Köln"
    assert source.remarks == ("t.csv is not UTF-8; it is read as cp1252",)


def test_an_encoding_that_is_said_is_taken(tmp_path):
    path = write(tmp_path, "town,n\nKöln,1\n", "cp850")
    assert values(path, encoding="cp850")["town"] == ["Köln"]
    assert values(path, encoding="latin-1")["town"] != ["Köln"]
    assert "is not ascii text" in refusal(path, encoding="ascii")


def test_what_is_no_text_in_any_encoding_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    noise = bytes((37 * i + i * i // 5) % 256 for i in range(400)).replace(b"\n", b"")
    path.write_bytes(f"a,b\n1,{CANARY}".encode() + noise + b"\x81\x8d\n")
    assert "t.csv" in refusal(path)


# --- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "decimal", "thousands", "expected"),
    [
        (["1,5", "-2,25", "3"], ",", "", [1.5, -2.25, 3.0]),
        (["1.234,5", "12", "1.234.567,25"], ",", ".", [1234.5, 12.0, 1234567.25]),
        (["1,234.5", "12", "1,234,567.25"], ".", ",", [1234.5, 12.0, 1234567.25]),
        (["1 234,5", "12,5", "1\u00a0234\u202f567,25"], ",", " ", [1234.5, 12.5, 1234567.25]),
        (["1'234.5", "12", "1'234'567"], ".", "'", [1234.5, 12.0, 1234567.0]),
        (["1.234.567", "12.345.678", "3,5"], ",", ".", [1234567.0, 12345678.0, 3.5]),
        (["1.5", "2.25", "3"], ".", "", [1.5, 2.25, 3.0]),
    ],
)
def test_decimal_points_and_thousands_are_found(tmp_path, cells, decimal, thousands, expected):
    path = write(tmp_path, "n;t\n" + "".join(f"{cell};x\n" for cell in cells))
    source = open_source(path)
    assert (source.reading.decimal, source.reading.thousands) == (decimal, thousands)
    assert whole(source)["n"].to_pylist() == expected


def test_whole_numbers_with_thousands_are_whole(tmp_path):
    path = write(tmp_path, "n;m\n1.234.567;1,5\n12;2,5\n")
    assert open_source(path).schema.types == [pa.int64(), pa.float64()]


@pytest.mark.parametrize(
    "cells",
    [
        ["1,5", "2,5 kg", "3,5"],  # text that contains commas
        ["Ulm, Donau", "Köln, Rhein", "3,5"],
        ["1,5,5", "2,5", "3,5"],
        ["12,34,567", "1,00", "2,00"],
    ],
)
def test_text_with_commas_is_not_numbers(tmp_path, cells):
    path = write(tmp_path, "t;n\n" + "".join(f"{cell};1.5\n" for cell in cells))
    source = open_source(path)
    assert source.schema.types == [pa.string(), pa.float64()]
    assert whole(source)["t"].to_pylist() == cells


def test_numbers_that_can_be_read_in_two_ways_stay_text_with_a_note(tmp_path):
    path = write(tmp_path, "n;m\n1,234;1\n2,345;2\n")
    source = open_source(path)
    assert source.schema.field("n").type == pa.string()
    assert "may be a decimal point or a thousands separator" in source.notes["n"]
    assert values(path, decimal=",")["n"] == [1.234, 2.345]
    assert values(path, thousands=",")["n"] == [1234, 2345]


def test_a_point_is_no_decimal_point_where_a_comma_is(tmp_path):
    path = write(tmp_path, "n;m\n1,5;1.5\n2,5;2.5\n")
    assert open_source(path).schema.types == [pa.string(), pa.float64()]  # as it was before
    source = open_source(path, reading=ReadingSettings(decimal=","))
    assert source.schema.types == [pa.float64(), pa.string()]


def test_late_cells_that_are_no_numbers_make_a_column_text(tmp_path):
    path = write(tmp_path, "n;m\n" + "1,5;1\n" * 5000 + "1.5;2\n")
    source = open_source(path)
    assert source.schema.field("n").type == pa.string()
    assert "all but 1 of 5,001 cells are numbers" in source.notes["n"]


# --- dates -----------------------------------------------------------------------------------

DAYS = [dt.date(2020, 12, 31), dt.date(2020, 2, 29), dt.date(1999, 1, 5)]


@pytest.mark.parametrize(
    "format_",
    [
        *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y"),
        *("%d %b %Y", "%d-%b-%Y", "%d%b%Y", "%d %B %Y", "%b %d, %Y"),
    ],
)
@pytest.mark.parametrize("clock", ["", " %H:%M", " %H:%M:%S"])
def test_dates_are_found(tmp_path, format_, clock):
    moments = [dt.datetime(d.year, d.month, d.day, 12, 30) if clock else d for d in DAYS]
    rows = "".join(f"{moment.strftime(format_ + clock)};1\n" for moment in moments)
    source = open_source(write(tmp_path, "d;n\n" + rows))
    assert source.reading.date_format == (format_ + clock,)
    assert whole(source)["d"].to_pylist() == moments


@pytest.mark.parametrize("cells", [["01/02/2020", "03/04/2020"], ["1-2-2020", "3-4-2020"]])
def test_ambiguous_dates_stay_text_with_a_note(tmp_path, cells):
    path = write(tmp_path, "d,n\n" + "".join(f"{cell},1\n" for cell in cells))
    source = open_source(path)
    assert source.schema.field("d").type == pa.string()
    assert "day and month cannot be distinguished" in source.notes["d"]
    sign = cells[0][-5]
    read = values(path, date_format=f"%d{sign}%m{sign}%Y")["d"]
    assert read == [dt.date(2020, 2, 1), dt.date(2020, 4, 3)]
    read = values(path, date_format=f"%m{sign}%d{sign}%Y")["d"]
    assert read == [dt.date(2020, 1, 2), dt.date(2020, 3, 4)]


def test_a_column_that_tells_day_and_month_tells_them_for_the_others(tmp_path):
    path = write(tmp_path, "d,e\n01/02/2020,31/12/2020\n03/04/2020,30/11/2020\n")
    assert values(path)["d"] == [dt.date(2020, 2, 1), dt.date(2020, 4, 3)]
    both = write(tmp_path, "d,e,f\n01/02/2020,31/12/2020,12/31/2020\n")
    source = open_source(both)
    assert source.reading.date_format == ()
    assert "cannot be distinguished" in source.notes["d"]


@pytest.mark.parametrize("cell", ["31.02.2020", "32.01.2020", "1.13.2020", "31.12.2020 x", "31.12"])
def test_what_is_no_date_is_text(tmp_path, cell):
    path = write(tmp_path, f"d;n\n31.12.2020;1\n{cell};2\n")
    assert values(path, date_format="%d.%m.%Y")["d"] == ["31.12.2020", cell]


def test_digits_are_dates_only_if_that_is_said(tmp_path):
    path = write(tmp_path, "d,n\n20201231,5\n19990105,12345678\n")
    assert values(path)["d"] == [20201231, 19990105]
    read = values(path, date_format="%Y%m%d")
    assert read == {"d": [dt.date(2020, 12, 31), dt.date(1999, 1, 5)], "n": [5, 12345678]}


# --- missing values --------------------------------------------------------------------------

MARKED = 'a,b,at,t\n1,x,12:30:00,u\n?,"?",?, ?\n-9,NA,-,unknown\n3,y,13:00:00,v\n' * 20


def test_marks_are_values_unless_they_are_said(tmp_path):
    path = write(tmp_path, MARKED.replace("\na,b,at,t", ""))
    source = open_source(path)
    assert all(pa.types.is_string(type_) for type_ in source.schema.types)
    assert {name: set(marks) for name, marks in source.markers.items()} == {
        "a": {"?"},
        "b": {"?", "NA"},
        "at": {"?", "-"},
        "t": {"?", "unknown"},
    }
    assert "'?'" in source.notes["a"]
    read = open_source(path, reading=ReadingSettings.of(missing=["?", "-9", "-", "NA", "unknown"]))
    assert read.schema.types == [pa.int64(), pa.string(), pa.time32("s"), pa.string()]
    assert whole(read).slice(0, 4).to_pydict() == {
        "a": [1, None, None, 3],
        "b": ["x", None, None, "y"],
        "at": [dt.time(12, 30), None, None, dt.time(13)],
        "t": ["u", None, None, "v"],
    }


def test_marks_are_proposed_to_an_owner_who_looks(tmp_path):
    path = write(tmp_path, MARKED.replace("\na,b,at,t", ""))
    source = open_to_inspect(path)
    assert source.reading.missing == ("?",)
    own = {"b": ("?", "NA"), "at": ("-", "?"), "t": ("?", "unknown")}
    assert dict(source.reading.column_missing) == own
    assert source.schema.field("a").type == pa.int64()
    said = open_to_inspect(path, ReadingSettings(missing=()))
    assert said.schema.field("a").type == pa.string()


def test_a_mark_of_one_column_is_a_value_in_another(tmp_path):
    path = write(tmp_path, "degrees,children,code\n" + "-9,2,NA\n4,-9,b\n-9,1,?\n" * 5)
    own = {"child*": ["-9"], "code": "NA", "c*": ["?"]}
    read = open_source(path, reading=ReadingSettings.of(missing="4", column_missing=own))
    assert whole(read).slice(0, 3).to_pydict() == {
        "degrees": [-9, None, -9],  # the table's marks
        "children": [2, None, 1],  # the first wildcard that fits
        "code": [None, "b", "?"],  # its own name, and so no wildcard
    }
    assert dict(read.reading.column_missing) == {"children": ("-9",), "code": ("NA",)}
    assert ReadingSettings.from_json(read.reading.to_json()) == read.reading
    with pytest.raises(ColumnError, match=r"no column 'chidren'.*children"):
        open_source(path, reading=ReadingSettings.of(column_missing={"chidren": "-9"}))


def test_plain_words_are_not_proposed(tmp_path):
    path = write(tmp_path, "t,n\nnobody knows,1\n-x,2\nunknown soldier,3\n")
    assert not open_source(path).markers


# --- archives and folders --------------------------------------------------------------------


def test_an_archive_holds_one_file(tmp_path):
    path = tmp_path / "t.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "x,y\n1,2\n")
        archive.writestr("__MACOSX/._a.csv", "")
    assert values(path) == {"x": [1], "y": [2]}
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("b.csv", f"x,y\n{CANARY},2\n")
    assert "holds 2 files" in refusal(path)
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged" in refusal(path)


def test_a_folder_is_one_table(tmp_path):
    write(tmp_path, "a;b\n1,5;x\n", name="1.csv")
    write(tmp_path, "b;a\ny;2\n", name="2.csv")
    (tmp_path / "3.csv.gz").write_bytes(gzip.compress(b"a;c\n3;z\n"))
    assert values(tmp_path) == {"a": [1.5, 2, 3], "b": ["x", "y", None], "c": [None, None, "z"]}


def test_folders_name_columns(tmp_path):
    for year, kind in itertools.product((2023, 2024), ("a b", "__HIVE_DEFAULT_PARTITION__")):
        place = tmp_path / f"year={year}" / f"kind={kind.replace(' ', '%20')}"
        place.mkdir(parents=True)
        write(place, f"n,t\n{year % 7},x\n")
    source = open_source(tmp_path)
    assert whole(source).to_pydict() == {
        "n": [0, 0, 1, 1],
        "t": ["x"] * 4,
        "year": [2023, 2023, 2024, 2024],
        "kind": [None, "a b", None, "a b"],
    }
    groups = list(source.groups(["year"], 100))
    assert groups[0]["year"].to_pylist() == [2023, 2023, 2024, 2024]


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    write(tmp_path, "a;b\n1;2\n", name="1.csv")
    write(tmp_path, f"a;b\n1;2;{CANARY}\n", name="2.csv")
    assert "2.csv: record 2" in refusal(tmp_path)
    write(tmp_path, f"{CANARY};2.5\n{CANARY};2.5\n", name="2.csv")
    assert "2.csv seems to have no line of column names" in refusal(tmp_path)


# --- what is said ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"delimiter": "ab"}, "one character"),
        ({"delimiter": '"'}, "one character"),
        ({"delimiter": "\n"}, "one character"),
        ({"encoding": "klingon"}, "'klingon' is not known"),
        ({"encoding": "base64"}, "is not known"),
        ({"encoding": "\0"}, "is not known"),
        ({"decimal": ";"}, "decimal must be"),
        ({"thousands": "x"}, "thousands must be"),
        ({"decimal": ",", "thousands": ","}, "different characters"),
        ({"thousands": "."}, "different characters"),
        ({"date_format": "%q"}, "needs a day, a month and a year"),
        ({"date_format": "%d.%m.%Y %f"}, "has %f"),
        ({"date_format": "31.12.2020"}, "needs a day"),
        ({"date_format": ["%d/%m/%Y", "%m/%d/%Y"]}, "in two ways"),
    ],
)
def test_wrong_settings_are_refused(said, says):
    with pytest.raises(SourceError, match=says):
        ReadingSettings.of(**said)


def test_names_of_delimiters_and_encodings():
    found = ReadingSettings.of(delimiter="tab", encoding="Latin-1", missing="?")
    assert (found.delimiter, found.encoding, found.missing) == ("\t", "iso8859-1", ("?",))


def test_what_does_not_apply_is_refused(tmp_path):
    table = pa.table({"a": [1]})
    with pytest.raises(SourceError, match="a frame: delimiter does not apply"):
        open_source(table, reading=ReadingSettings(delimiter=";"))
    path = write(tmp_path, "a\n1\n")
    with pytest.raises(SourceError, match="sheet does not apply"):
        open_source(path, reading=ReadingSettings(sheet="x"))


@given(st.data())
def test_settings_come_back_from_what_is_kept(data):
    found = ReadingSettings(
        delimiter=data.draw(st.sampled_from([None, ";", "\t"])),
        encoding=data.draw(st.sampled_from([None, "utf-8"])),
        decimal=data.draw(st.sampled_from([None, ","])),
        date_format=data.draw(st.sampled_from([None, (), ("%d.%m.%Y",)])),
        missing=data.draw(st.none() | st.lists(st.text()).map(tuple)),
    )
    assert ReadingSettings.from_json(found.to_json()) == found


# --- any spelling gives the same values -------------------------------------------------------

numbers = st.lists(
    st.integers(-(10**9), 10**9).map(lambda n: n / 100), min_size=2, max_size=20
).filter(lambda cells: any(cell != int(cell) for cell in cells))


@given(numbers, st.sampled_from([(",", ""), (",", "."), (".", ","), (",", " "), (".", "'")]))
def test_any_spelling_of_numbers_gives_the_same(cells, spelling):
    decimal, thousands = spelling
    grouped = [
        f"{cell:,.2f}".replace(",", "_").replace(".", decimal).replace("_", thousands)
        for cell in cells
    ]
    reading = ReadingSettings(decimal=decimal, thousands=thousands)
    guess = TypeGuess(reading)
    guess.take(pa.array(grouped))
    assert guess.type == pa.float64()
    assert typed(pa.array(grouped), guess.type, reading).to_pylist() == cells
