"""Copies as workbooks, and as files of Stata and SPSS, read by other programs."""

import datetime as dt
import hashlib
import math
import time
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyreadstat
import pytest

from cornerwave.errors import OutputError
from cornerwave.miner import Copy
from cornerwave.outputs import CopyFile, _workbook, metadata_path, read_metadata
from cornerwave.sources import open_source, place_of
from cornerwave.spec import ColumnMetadata, CopyMetadata
from tests.conftest import make_people
from tests.test_cli import run  # noqa: F401

ROWS = 1_500
random = np.random.default_rng(5)
TEXTS = ["=1+1", "+A1", "@x", "_x0041_x0042_", "a\x01\x0b\r\nb", "<&>\"'", " ä \U0001f600 ", "007"]
MIXED = pa.table(
    {
        "x": pa.array(random.normal(size=ROWS) * 1e3, mask=random.random(ROWS) < 0.2),
        "n": random.integers(-(2**53), 2**53, ROWS),
        "text": [None if i % 7 == 0 else f"{TEXTS[i % len(TEXTS)]}{i}" for i in range(ROWS)],
        "sex": pa.array(["male", "female", None] * (ROWS // 3)).dictionary_encode(),
        "day": [dt.date(1890, 1, 1) + dt.timedelta(i * 11) for i in range(ROWS)],
        "ok": [True, False, None] * (ROWS // 3),
    }
)
STATED = CopyMetadata(
    columns={
        "sex": ColumnMetadata(codes={"female": 2, "male": 1}, description="Sex at birth"),
        "x": ColumnMetadata(description="ä" * 300),
    }
)


def write(path, table=MIXED, stated=STATED, rows=400):
    with CopyFile(place_of(path), table.schema, stated, force=True) as copy:
        copy.check()
        for start in range(0, len(table), rows):
            copy.write(table.slice(start, rows))
        copy.finish()
        copy.publish()
    return path


def read(path, types=None):
    source = open_source(path, types)
    return pa.concat_tables(source.groups(source.schema.names, 10**9))


def types_of(table):
    plain = {"sex": pa.string()}
    return {part.name: plain.get(part.name, part.type) for part in table.schema}


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav"])
def test_every_cell_comes_back(tmp_path, ending):
    table = MIXED
    found = read(write(tmp_path / f"t.{ending}", table), types_of(table))
    wanted = table.cast(pa.schema(types_of(table)))
    if ending == "sav":  # fills texts with spaces
        assert found["text"].to_pylist() == [
            None if text is None else text.rstrip(" ") for text in wanted["text"].to_pylist()
        ]
        found, wanted = found.drop_columns(["text"]), wanted.drop_columns(["text"])
    assert found.to_pydict() == wanted.to_pydict()


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav"])
def test_the_bytes_are_the_same_at_another_time(tmp_path, monkeypatch, ending):
    first = write(tmp_path / f"a.{ending}").read_bytes()
    monkeypatch.setattr(time, "time", lambda: 4e9)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(4_000_000_000))
    assert write(tmp_path / f"b.{ending}").read_bytes() == first
    assert metadata_path(tmp_path / f"a.{ending}").is_file()
    if ending == "xlsx":
        with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
            assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            assert archive.testzip() is None
    else:  # these are packed by nobody else
        assert hashlib.sha256(first).hexdigest()[:16] == GOLDEN[ending]


GOLDEN = {"dta": "f00f25f41d43929a", "sav": "5625a594839c651e"}


class TestWorkbooks:
    def test_no_text_is_a_formula(self, tmp_path):
        book = openpyxl.load_workbook(write(tmp_path / "t.xlsx"))
        cells = [row[2] for row in book.active.iter_rows(min_row=2)]
        assert {cell.data_type for cell in cells} == {"n", "s"}  # n: there is none
        texts = [cell.value for cell in cells]
        assert texts[8] == "=1+18"
        book = openpyxl.Workbook()  # a formula would be seen
        book.active.append(["=1+1"])
        book.save(tmp_path / "f.xlsx")
        assert openpyxl.load_workbook(tmp_path / "f.xlsx").active["A1"].data_type == "f"

    def test_dates_are_dates_where_excel_has_them(self, tmp_path):
        days = [dt.date(1900, 2, 28), dt.date(1900, 3, 1), dt.date(9999, 12, 31), dt.date.min]
        moments = [dt.datetime(1899, 1, 1, 5), dt.datetime(1900, 3, 1), dt.datetime.max, None]
        clock = [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59), None]
        table = pa.table({"day": days, "at": moments, "clock": clock})
        path = write(tmp_path / "t.xlsx", table)
        rows = list(openpyxl.load_workbook(path).active.iter_rows(min_row=2))
        assert [row[0].is_date for row in rows] == [False, True, True, False]
        assert [row[0].value for row in rows][:2] == ["1900-02-28", dt.datetime(1900, 3, 1)]
        assert [row[1].is_date for row in rows][:2] == [False, True]
        assert [row[2].value for row in rows] == clock
        assert read(path).column("day").to_pylist() == days

    def test_pandas_reads_the_same(self, tmp_path):
        frame = pd.read_excel(
            write(tmp_path / "t.xlsx"), dtype={"text": "string"}, engine="openpyxl"
        )
        assert frame["x"].equals(MIXED["x"].to_pandas())
        assert frame["n"].tolist() == MIXED["n"].to_pylist()
        assert frame["sex"].dropna().tolist() == [s for s in MIXED["sex"].to_pylist() if s]

    @pytest.mark.parametrize("more", [0, 1])
    def test_a_sheet_has_so_many_rows(self, tmp_path, monkeypatch, more):
        monkeypatch.setattr(_workbook, "MOST_ROWS", ROWS - more)
        if not more:
            assert read(write(tmp_path / "t.xlsx")).num_rows == ROWS
            return
        with pytest.raises(OutputError, match=r"holds at most 1,499 rows, and the copy has 1,500"):
            write(tmp_path / "t.xlsx")
        assert list(tmp_path.iterdir()) == []

    def test_too_many_rows_are_refused_before_any_is_read(self, tmp_path):
        copy = CopyFile(tmp_path / "t.xlsx", MIXED.schema, CopyMetadata(rows=1_048_576))
        with pytest.raises(OutputError, match="at most 1,048,575 rows"):
            copy.check()
        CopyFile(tmp_path / "t.xlsx", MIXED.schema, CopyMetadata(rows=1_048_575)).check()

    def test_too_many_columns_and_cells(self, tmp_path, monkeypatch):
        wide = pa.table({f"c{i}": [1] for i in range(16_385)})
        with pytest.raises(OutputError, match="at most 16,384 columns"):
            write(tmp_path / "t.xlsx", wide)
        monkeypatch.setattr(_workbook, "MOST_BYTES", 10_000)
        with pytest.raises(OutputError, match="too many cells"):
            write(tmp_path / "t.xlsx")
        assert list(tmp_path.iterdir()) == []

    def test_a_row_without_a_value_is_not_lost(self, tmp_path):
        """Readers of workbooks leave it out, ours too: so it is refused."""
        table = pa.table({"a": [1, None, 3], "b": ["x", None, None]})
        with pytest.raises(OutputError, match="a row has no value in any column"):
            write(tmp_path / "t.xlsx", table)
        assert read(write(tmp_path / "t.xlsx", table.take([0, 2]))).num_rows == 2
        book = openpyxl.Workbook()
        for row in (["a"], [1], [None], [3]):
            book.active.append(row)
        book.save(tmp_path / "f.xlsx")
        assert read(tmp_path / "f.xlsx").num_rows == 2

    def test_long_texts(self, tmp_path):
        write(tmp_path / "t.xlsx", pa.table({"a": ["x" * 32_767]}))
        with pytest.raises(OutputError, match=r"'a' has texts of more than 32,767 characters"):
            write(tmp_path / "t.xlsx", pa.table({"a": ["x" * 32_768]}))


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav"])
@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (pa.array([2**53 + 1]), r"beyond 2\^53"),
        (pa.array([-(2**53) - 1]), r"beyond 2\^53"),
        (pa.array([math.inf]), "infinite"),
        (pa.array([b"x"]), "binary"),
    ],
    ids=str,
)
def test_what_a_file_does_not_hold_is_refused(tmp_path, ending, cells, says):
    with pytest.raises(OutputError, match=f"'a' .*{says}.*parquet"):
        write(tmp_path / f"t.{ending}", pa.table({"a": cells}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav"])
def test_nan_is_missing_and_the_largest_whole_number_is_not(tmp_path, ending):
    table = pa.table({"a": [math.nan, 1.5], "b": [2**53, -(2**53)], "c": [None, None]})
    found = read(write(tmp_path / f"t.{ending}", table))
    assert found["a"].to_pylist() == [None, 1.5]
    assert [int(each) for each in found["b"].to_pylist()] == [2**53, -(2**53)]
    assert found["c"].to_pylist() == [None, None]


class TestStatisticsFiles:
    def test_pandas_reads_stata(self, tmp_path):
        path = write(tmp_path / "t.dta")
        with pd.read_stata(path, iterator=True) as reader:
            assert reader.value_labels() == {"labels_4": {1: "male", 2: "female"}}
            labels = reader.variable_labels()
            assert (labels["sex"], labels["x"]) == ("Sex at birth", "ä" * 79 + "…")
            assert reader.data_label == reader.time_stamp == ""
            frame = reader.read()
        assert frame["x"].equals(MIXED["x"].to_pandas())
        assert frame["sex"].astype(object).fillna("").tolist() == [
            sex or "" for sex in MIXED["sex"].to_pylist()
        ]
        assert frame["day"].dt.date.tolist() == MIXED["day"].to_pylist()
        assert frame["text"].tolist() == [text or "" for text in MIXED["text"].to_pylist()]

    @pytest.mark.parametrize("ending", ["dta", "sav"])
    def test_readstat_reads_labels(self, tmp_path, ending):
        load = pyreadstat.read_dta if ending == "dta" else pyreadstat.read_sav
        values, about = load(str(write(tmp_path / f"t.{ending}")), output_format="dict")
        assert about.variable_value_labels == {"sex": {1: "male", 2: "female"}}
        assert about.column_names_to_labels["sex"] == "Sex at birth"
        assert values["sex"][:2] == [1, 2]
        assert about.number_rows == ROWS
        most = 80 if ending == "dta" else 127  # 255 bytes
        assert about.column_names_to_labels["x"].startswith("ä" * (most - 1))

    @pytest.mark.parametrize(
        ("ending", "name", "says"),
        [
            *((each, name, "cannot be the name") for each in ("dta", "sav") for name in
              ("a b", "1a", "", "ä" * 33, "with", "a-b", "WITH")),
            ("dta", "a.b", "cannot be the name"),
            ("dta", "str8", "cannot be the name"),
            ("sav", "a.", "cannot be the name"),
            ("sav", "OK", "only in case"),
        ],
    )  # fmt: skip
    def test_names_are_refused_before_any_row_is_read(self, tmp_path, ending, name, says):
        table = pa.table({"ok": [1], name: [2]})
        with pytest.raises(OutputError, match=says) as refused:
            CopyFile(tmp_path / f"t.{ending}", table.schema, CopyMetadata()).check()
        assert refused.value.use == ("released_as",)

    @pytest.mark.parametrize(("ending", "name"), [("dta", "OK"), ("sav", "a.b"), ("dta", "ä_1")])
    def test_other_names_are_not(self, tmp_path, ending, name):
        table = pa.table({"ok": [1], name: [2]})
        assert read(write(tmp_path / f"t.{ending}", table)).schema.names == ["ok", name]

    @pytest.mark.parametrize(("ending", "most"), [("dta", 2_045), ("sav", 255)])
    def test_long_texts(self, tmp_path, ending, most):
        found = read(write(tmp_path / f"t.{ending}", pa.table({"a": ["y", "x" * most]}), rows=1))
        assert found["a"].to_pylist() == ["y", "x" * most]
        with pytest.raises(OutputError, match=f"more than {most:,} bytes"):
            write(tmp_path / f"t.{ending}", pa.table({"a": ["ä" + "x" * (most - 1)]}))
        with pytest.raises(OutputError, match="NUL"):
            write(tmp_path / f"t.{ending}", pa.table({"a": ["x\0y"]}))

    @pytest.mark.parametrize("codes", [{"a": 1.5}, {"a": 2**31}, {"ä" * 61: 1}], ids=str)
    def test_labels_that_do_not_fit_stay_text(self, tmp_path, codes):
        stated = CopyMetadata(columns={"a": ColumnMetadata(codes=codes)})
        [label] = codes
        path = write(tmp_path / "t.sav", pa.table({"a": [label]}), stated)
        assert read(path)["a"].to_pylist() == [label]
        values, about = pyreadstat.read_sav(str(path), output_format="dict")
        assert about.variable_value_labels == {}
        assert values["a"] == [label]


def released(call, folder):
    """Release copies in every format, and return their endings."""
    towns = np.array(["Ulm", "Bonn", "007"])[random.integers(0, 3, 1_200)]
    table = make_people(1_200).append_column("town", pa.array(towns))
    table = table.append_column("smokes", pa.array(random.random(1_200) < 0.3))
    pacsv.write_csv(table, folder / "people.csv")
    assert call("init").code == 0
    assert call("register", "people", "people.csv", "--key", "id").code == 0
    outs = [f"copy.{ending}" for ending in ("parquet", "xlsx", "dta", "sav")]
    for out in outs:
        done = call("release", "people", "--to", "ann", "--privacy", "0.5", "--out", out)
        assert done.code == 0, done.err
    return outs


@pytest.mark.slow
def test_copies_are_opened_and_made_again(run, tmp_path):  # noqa: F811
    means = {}
    for number, out in enumerate(released(run, tmp_path), 1):
        done = run("again", "people", "ann", "--number", number, "--out", f"again-{out}")
        assert done.code == 0, done.err
        assert (tmp_path / out).read_bytes() == (tmp_path / f"again-{out}").read_bytes()
        copy = Copy.open(tmp_path / out)
        assert copy.frequencies("smokes").labels[0] == (False, True)
        means[out] = {name: copy.mean([name])[name].value for name in ("age", "wage", "height")}
    assert all(each == pytest.approx(means["copy.parquet"], rel=1e-12) for each in means.values())


@pytest.mark.slow
def test_an_audit_reads_them(run, tmp_path):  # noqa: F811
    """And fails where numbers are those of the table."""
    outs = released(run, tmp_path)
    for out in outs:
        checked = run("audit", "people.csv", out)
        assert checked.code == 0, checked.all
    table = read(tmp_path / "people.csv")
    for out in outs[1:]:
        stated = read_metadata(tmp_path / out)
        types = types_of(read(tmp_path / "copy.parquet"))
        wrong = table.set_column(1, "age", read(tmp_path / out, types)["age"])
        wrong = wrong.set_column(0, "id", read(tmp_path / out, types)["id"])
        write(tmp_path / out, wrong, stated)
        assert run("audit", "people.csv", out).code == 1
