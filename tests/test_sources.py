"""Files as people have them, from registration to the copy."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import ColumnError, CornerwaveWarning, SourceChanged, SourceError

ROWS = 600
rng = np.random.default_rng(3)


def copy_of(dataset, privacy=0.5, **options):
    return dataset.release(to="ann", privacy=privacy, **options).to_arrow()


def people(**columns):
    return pa.table({"wage": rng.normal(size=ROWS), **columns})


def repeated(*values):
    return pa.array([values[i % len(values)] for i in range(ROWS)])


class TestNamesInPython:
    @pytest.mark.parametrize("option", ["keep", "drop", "categorical", "uniform", "hide_missing"])
    def test_a_text_is_one_column(self, vault, option):
        table = people(ab=repeated("x", "y"), a=repeated("x", "y"), b=repeated("x", "y"))
        column = vault.register("t", table, **{option: "ab"}, keep_order=True).frozen.schema.column(
            "ab"
        )
        others = vault.dataset("t").frozen.schema
        assert others.column("a") == others.column("b").__class__("a", "string", "category")
        assert column != others.column("a").__class__("ab", "string", "category")

    def test_a_text_to_round_is_one_column(self, vault):
        table = pa.table({"ab": rng.integers(0, 9, ROWS), "a": rng.integers(0, 9, ROWS)})
        found = copy_of(vault.register("t", table), round="ab", raw=True)
        assert found.schema.types == [pa.int64(), pa.float64()]

    @pytest.mark.parametrize("together", ["ab", ["ab"], ["a", "b"]])
    def test_together_takes_groups(self, vault, together):
        table = people(ab=repeated("x", "y"), a=repeated("x", "y"), b=repeated("x", "y"))
        with pytest.raises(ColumnError, match="at least two columns"):
            vault.register("t", table, together=together)


class TestCsv:
    def test_codes_keep_their_zeros(self, vault, tmp_path):
        rows = "".join(f"{i}.5,{code}\n" for i in range(ROWS) for code in ("00501", "10115"))
        (tmp_path / "t.csv").write_text("wage,zip\n" + rows)
        found = copy_of(vault.register("t", tmp_path / "t.csv", keep_order=True))
        assert set(found["zip"].to_pylist()) == {"00501", "10115"}

    def test_times_are_seconds_and_come_back(self, vault, tmp_path):
        rows = "".join(f"{i % 24:02}:30:00,{i}\n" for i in range(ROWS))
        (tmp_path / "t.csv").write_text("at,n\n" + rows)
        dataset = vault.register("t", tmp_path / "t.csv", keep_order=True)
        assert dataset.frozen.schema.column("at").unit == "seconds"
        assert copy_of(dataset, round="at")["at"].type == pa.time32("s")

    def test_a_stray_cell_is_warned_of_unless_it_was_decided(self, vault, tmp_path):
        rows = "".join(f"{i % 7},{i % 7},{i}\n" for i in range(ROWS))
        (tmp_path / "t.csv").write_text("a,b,n\n" + rows + "?,?,1\n")
        with pytest.warns(CornerwaveWarning, match="'a': all but 1 of 601 cells") as caught:
            vault.register("t", tmp_path / "t.csv", categorical="b", keep_order=True)
        assert len(caught) == 1

    def test_a_record_is_never_published_as_names(self, vault, tmp_path):
        (tmp_path / "t.csv").write_text("".join(f"{i % 5},{i % 3}.5\n" for i in range(ROWS)))
        with pytest.raises(SourceError, match="no line of column names"):
            vault.register("t", tmp_path / "t.csv")

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_a_column_that_was_renamed_is_gone(self, vault, tmp_path, ending):
        path = tmp_path / f"t.{ending}"
        write = pacsv.write_csv if ending == "csv" else papq.write_table
        table = people(city=repeated("Bonn", "Ulm"))
        write(table, path)
        vault.register("t", path, keep_order=True)
        write(table.rename_columns(["wage", "town"]), path)
        with pytest.raises(SourceChanged, match="column 'city' is gone"):
            copy_of(vault.dataset("t"))

    def test_blanks_are_missing_and_empty_texts_are_values(self, vault, tmp_path):
        rows = "".join(f"{i},{('x', '', chr(34) * 2)[i % 3]}\n" for i in range(ROWS))
        (tmp_path / "t.csv").write_text("n,t\n" + rows)
        dataset = vault.register("t", tmp_path / "t.csv", keep_order=True)
        assert dataset.frozen.missing == ("t",)
        found = copy_of(dataset)["t"].to_pylist()
        assert [i for i, value in enumerate(found) if value is None] == list(range(1, ROWS, 3))
        assert set(found) == {"x", "", None}
        dataset.release(to="ann", privacy=0.5).write(tmp_path / "copy.csv")
        lines = (tmp_path / "copy.csv").read_text().splitlines()[1:]
        for line, value in zip(lines, found, strict=True):
            assert line.split(",")[1] == ("" if value is None else f'"{value}"')


class TestParquet:
    def test_a_column_of_a_later_file_needs_a_decision(self, vault, tmp_path):
        papq.write_table(people(), tmp_path / "a.parquet")
        papq.write_table(people(late=[[1]] * ROWS), tmp_path / "b.parquet")
        with pytest.raises(ColumnError, match="no decision for 'late'"):
            vault.register("t", tmp_path)
        assert copy_of(vault.register("t", tmp_path, drop="late")).num_rows == 2 * ROWS

    def test_folders_of_text(self, vault, tmp_path):
        for folder in ("y=2020/c=de", "y=2021/c=fr"):
            (tmp_path / folder).mkdir(parents=True)
            papq.write_table(people(), tmp_path / folder / "a.parquet")
        found = copy_of(vault.register("t", tmp_path, keep=["c"], drop=["y"]))
        assert found["c"].to_pylist() == ["de"] * ROWS + ["fr"] * ROWS


@pytest.mark.parametrize(
    "values",
    [
        repeated(1, 2, 3),
        repeated(1.5, None, 2.5),
        repeated(dt.date(2020, 1, 1), dt.date(2021, 1, 1)),
        repeated("a", None, "b"),
        repeated(True, False),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_what_is_encoded_is_refreshed(vault, tmp_path, values, ending):
    table = people(c=values.dictionary_encode())
    dataset = vault.register("t", table, keep_order=True)
    assert dataset.frozen.schema.categories == [("c",)]
    found = copy_of(dataset)["c"]
    assert found.type == values.type
    assert set(found.to_pylist()) == set(values.to_pylist())
    changed = sum(a != b for a, b in zip(found.to_pylist(), values.to_pylist(), strict=True))
    assert 0 < changed < ROWS / 2
    dataset.release(to="bob", privacy=0.5).write(tmp_path / f"copy.{ending}")


def test_categories_of_pandas_are_categories(vault):
    frame = pd.DataFrame({"c": pd.Categorical(np.arange(ROWS) % 3), "x": rng.normal(size=ROWS)})
    found = vault.register("t", frame, keep_order=True).release(to="ann", privacy=0.5).to_frame()
    assert set(found["c"]) == {0, 1, 2}


def test_valid_until_for_ever(vault):
    ever = dt.datetime(9999, 12, 31)
    table = people(until=pa.array([ever, dt.datetime(2020, 1, 1)] * (ROWS // 2)))
    found = copy_of(vault.register("t", table, transform={"until": "rank"}, keep_order=True))
    assert found["until"].null_count == 0


def test_short_durations_vary(vault):
    table = people(took=pa.array(rng.integers(100, 900, ROWS)).cast(pa.duration("ns")))
    assert vault.register("t", table).frozen.covariance[1, 1] > 0


def test_squares_that_overflow_are_refused_without_a_warning(vault):
    with pytest.raises(SourceError, match="whose squares overflow"):
        vault.register("t", people(far=pa.array(rng.normal(size=ROWS) * 1e200)))
    vault.register(
        "t", people(far=np.abs(rng.normal(size=ROWS)) * 1e200), transform={"far": "log1p"}
    )
