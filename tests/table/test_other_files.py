"""Workbooks, and files of Stata, SPSS and SAS."""

import builtins
import datetime as dt

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from cornerwave.choices import ReadingSettings
from cornerwave.errors import ExtraMissing, SourceError
from cornerwave.sources import _stat_files, open_source, open_to_inspect

CANARY = "SECRET4711"
BORN = [dt.date(1950, 1, 1), dt.date(1960, 2, 29), dt.date(1970, 12, 31), None]


def whole(source):
    return pa.concat_tables(source.groups(source.schema.names, 10**9))


def workbook(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


ROWS = [
    ["town", "wage", "born", "at", "", "wage", "ok", "code"],
    ["Köln", 1.5, dt.date(2020, 12, 31), dt.datetime(2020, 1, 1, 12, 30), 1, "7", True, "007"],
    [None, 2, dt.date(1999, 1, 5), dt.datetime(2020, 1, 2), 2, "8", False, "008"],
    ["Ulm", None, None, None, 3, "?", None, "012"],
]


class TestSheets:
    def test_cells_have_the_types_of_their_columns(self, tmp_path):
        source = open_source(workbook(tmp_path / "t.xlsx", ("a", ROWS)))
        moments = [dt.datetime(2020, 1, 1, 12, 30), dt.datetime(2020, 1, 2), None]
        assert whole(source).to_pydict() == {
            "town": ["Köln", None, "Ulm"],
            "wage": [1.5, 2.0, None],
            "born": [dt.date(2020, 12, 31), dt.date(1999, 1, 5), None],
            "at": moments,
            "column_5": [1, 2, 3],
            "wage_2": ["7", "8", "?"],
            "ok": [True, False, None],
            "code": ["007", "008", "012"],
        }
        assert len(source.remarks) == 2
        looked = open_to_inspect(tmp_path / "t.xlsx")
        assert whole(looked)["wage_2"].to_pylist() == [7, 8, None]

    def test_the_first_sheet_is_read_unless_another_is_said(self, tmp_path):
        sheets = ("empty", []), ("a", ROWS), ("b", [["x"], [1]])
        path = workbook(tmp_path / "t.xlsx", *sheets)
        source = open_source(path)
        assert source.reading.sheet == "a"
        assert source.remarks[0] == "t.xlsx has 2 sheets; the first is read, 'a'"
        other = open_source(path, reading=ReadingSettings(sheet="b"))
        assert whole(other).to_pydict() == {"x": [1]}
        with pytest.raises(SourceError, match="has no sheet 'c'"):
            open_source(path, reading=ReadingSettings(sheet="c"))

    def test_text_cells_are_read_as_said(self, tmp_path):
        rows = [["n", "d"], ["1.234,5", "31.12.2020"], ["2,5", "01.02.2020"]]
        source = open_source(workbook(tmp_path / "t.xlsx", ("a", rows)))
        assert whole(source).to_pydict() == {
            "n": [1234.5, 2.5],
            "d": [dt.date(2020, 12, 31), dt.date(2020, 2, 1)],
        }

    def test_it_is_read_again_with_known_types(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", ("a", ROWS))
        source = open_source(path)
        types = {part.name: part.type for part in source.schema}
        again = open_source(path, types, source.reading)
        assert whole(again).equals(whole(source))

    @pytest.mark.parametrize(
        ("rows", "says"),
        [
            ([], "is empty"),
            ([["a", "b"]], "has no rows"),
            ([[CANARY, 2.5], [CANARY, 2.5]], "names"),
        ],
    )
    def test_what_is_no_table_is_refused(self, tmp_path, rows, says):
        path = workbook(tmp_path / "t.xlsx", ("a", rows))
        with pytest.raises(SourceError, match=says) as caught:
            open_source(path)
        assert CANARY not in str(caught.value)

    def test_damage(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", ("a", ROWS))
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(SourceError, match=r"t\.xlsx cannot be read"):
            open_source(path)


def people(rows=200):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": [1.0, 2.0, 1.0, np.nan] * (rows // 4),
            "age": [20.0, 30.0, -9.0, 40.0] * (rows // 4),
            "score": rng.normal(size=rows),
            "town": ["Köln", "Ulm", "", "Bonn"] * (rows // 4),
            "born": BORN * (rows // 4),
            "seen": [dt.datetime(2020, 1, 1, 12, 30)] * rows,
        }
    )


LABELS = {"sex": {1: "male", 2: "female"}, "age": {-9: "refused"}}


def write_stat(path, frame):
    if path.suffix in (".sav", ".zsav"):
        pyreadstat.write_sav(
            frame,
            path,
            variable_value_labels=LABELS,
            missing_ranges={"age": [-9]},
            compress=path.suffix == ".zsav",
        )
    elif path.suffix == ".dta":
        pyreadstat.write_dta(frame, path, variable_value_labels={"sex": LABELS["sex"]})
    else:
        pyreadstat.write_xport(frame, path)
    return path


class TestStatFiles:
    @pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta", ".xpt"])
    @pytest.mark.parametrize("cells", [1 << 10, 1 << 19])
    @pytest.mark.first(4)
    def test_they_give_the_same_values(self, tmp_path, at_a_time, ending, cells):
        at_a_time(STATISTICS_CELLS=cells, STATISTICS_ROWS=64)
        frame = people()
        found = whole(open_source(write_stat(tmp_path / f"t{ending}", frame)))
        labelled = ["male", "female", "male", None]
        assert found["sex"].to_pylist()[:4] == ([1, 2, 1, None] if ending == ".xpt" else labelled)
        missing = None if ending in (".sav", ".zsav") else -9
        assert found["age"].to_pylist()[:4] == [20, 30, missing, 40]
        assert np.array_equal(found["score"].to_numpy(), frame["score"])
        assert found["town"].to_pylist()[:4] == ["Köln", "Ulm", None, "Bonn"]
        assert found["born"].to_pylist()[:4] == BORN
        assert found["seen"][0].as_py() == dt.datetime(2020, 1, 1, 12, 30)
        assert found.num_rows == len(frame)

    def test_a_column_of_which_some_values_have_labels_stays_a_number(self, tmp_path):
        frame = people().drop(columns=["sex"])
        pyreadstat.write_dta(frame, tmp_path / "t.dta", variable_value_labels={"age": {-9: "no"}})
        source = open_source(tmp_path / "t.dta")
        assert source.schema.field("age").type == pa.int64()
        assert "some of its values have labels" in source.notes["age"]
        said = open_source(tmp_path / "t.dta", reading=ReadingSettings.of(missing=["-9", "Ulm"]))
        assert whole(said)["age"].to_pylist()[:4] == [20, 30, None, 40]
        assert whole(said)["town"].to_pylist()[:4] == ["Köln", None, None, "Bonn"]

    def test_they_are_read_again_with_known_types(self, tmp_path):
        source = open_source(write_stat(tmp_path / "t.sav", people()))
        types = {part.name: part.type for part in source.schema}
        again = open_source(tmp_path / "t.sav", types, source.reading)
        assert whole(again).equals(whole(source))

    @pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt", ".sas7bdat", ".por"])
    def test_damage(self, tmp_path, ending):
        path = tmp_path / f"t{ending}"
        path.write_bytes(CANARY.encode() * 100)
        with pytest.raises(SourceError, match=f"t{ending} cannot be read") as caught:
            open_source(path)
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["t.sav", "t.xlsx"])
def test_the_extra_is_named_where_it_is_missing(tmp_path, monkeypatch, name):
    load = builtins.__import__

    def without(module, *arguments, **options):
        if "calamine" in module:
            raise ImportError
        return load(module, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(_stat_files, "find_spec", lambda _: None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ExtraMissing, match=r"cornerwave\[stat\]"):
        open_source(tmp_path / name)
