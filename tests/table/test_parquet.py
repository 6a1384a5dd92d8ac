import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as papq
import pytest

from cornerwave.errors import ColumnError
from cornerwave.sources import open_source


def whole(source, columns=None):
    return pa.concat_tables(source.groups(columns or source.schema.names, 10**9))


def write(folder, name, **columns):
    path = folder / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    papq.write_table(pa.table(columns), path)


def test_hive_partitions_are_columns(tmp_path):
    given = pa.table({"v": [1.0, 2.0, 3.0], "year": [2023, 2024, 2024]})
    pads.write_dataset(
        given,
        tmp_path / "d",
        format="parquet",
        partitioning=pads.partitioning(pa.schema([("year", pa.int32())]), flavor="hive"),
    )
    found = whole(open_source(tmp_path / "d"), ["v", "year"])
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        (1.0, 2023),
        (2.0, 2024),
        (3.0, 2024),
    ]


def test_a_directory_is_read_in_the_order_of_its_names(tmp_path):
    for name, value in (("b", 2), ("a", 1), ("c", 3)):
        papq.write_table(pa.table({"v": [value]}), tmp_path / f"{name}.parquet")
    (tmp_path / "notes.txt").write_text("not a part")
    assert whole(open_source(tmp_path)).column("v").to_pylist() == [1, 2, 3]


def test_text_in_folder_names(tmp_path):
    write(tmp_path, "y=2020/c=de/a", v=[1.0], t=["x"])
    write(tmp_path, "y=2021/c=fr/a", v=[2.0], t=["z"])
    source = open_source(tmp_path)
    assert source.schema.names == ["v", "t", "y", "c"]
    assert whole(source).to_pydict() == {
        "v": [1.0, 2.0],
        "t": ["x", "z"],
        "y": [2020, 2021],
        "c": ["de", "fr"],
    }


def test_columns_are_those_of_all_files(tmp_path):
    write(tmp_path, "a", v=[1.0, 2.0], t=["x", "y"])
    write(tmp_path, "b", v=[3.0])
    write(tmp_path, "c", v=[4.0], late=["secret"], t=pa.nulls(1))
    source = open_source(tmp_path)
    assert source.schema.names == ["v", "t", "late"]
    assert whole(source).to_pydict() == {
        "v": [1.0, 2.0, 3.0, 4.0],
        "t": ["x", "y", None, None],
        "late": [None, None, None, "secret"],
    }


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.array([1], pa.int32()), pa.array([2], pa.int64()), pa.int64()),
        (pa.array([1]), pa.array([2.5]), pa.float64()),
        (pa.nulls(1), pa.array(["a"]), pa.string()),
        (pa.array(["a"]), pa.array(["b"], pa.large_string()), pa.large_string()),
        (
            pa.array(["a"]).cast(pa.dictionary(pa.int8(), pa.string())),
            pa.array(["b"]).cast(pa.dictionary(pa.int16(), pa.string())),
            pa.dictionary(pa.int16(), pa.string()),
        ),
    ],
    ids=str,
)
def test_types_that_one_type_holds(tmp_path, one, other, both):
    write(tmp_path, "a", v=one)
    write(tmp_path, "b", v=other)
    source = open_source(tmp_path)
    assert source.schema.field("v").type == both
    assert whole(source)["v"].to_pylist() == [*one.to_pylist(), *other.to_pylist()]


def test_types_that_contradict(tmp_path):
    write(tmp_path, "a", v=[1], w=[1])
    write(tmp_path, "b", v=[1], w=["SECRET-CELL"])
    with pytest.raises(ColumnError, match="disagree about column 'w': it is int64 and string"):
        open_source(tmp_path)


def test_known_types_decide_where_files_disagree(tmp_path):
    write(tmp_path, "a", v=pa.array(["a"]).dictionary_encode())
    write(tmp_path, "b", v=["b"])
    known = pa.dictionary(pa.int32(), pa.string())
    with pytest.raises(ColumnError, match="disagree"):
        open_source(tmp_path)
    assert whole(open_source(tmp_path, {"v": known}))["v"].to_pylist() == ["a", "b"]


def test_a_wide_table_is_read_some_columns_at_a_time(tmp_path, at_a_time, monkeypatch):
    """The same rows, whichever way takes less memory; each way is taken."""
    rows, rng = 10_000, np.random.default_rng(1)
    given = pa.table(
        {
            **{f"x{i}": rng.normal(size=rows) for i in range(36)},
            "gaps": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.1),
            "town": pa.array(rng.choice(["x", "y", None], rows)),
        }
    )
    papq.write_table(given, tmp_path / "wide.parquet", row_group_size=6000)
    strips, read = [], papq.ParquetFile.read_row_group

    def counted(file, group, columns):
        strips.append(len(columns))
        return read(file, group, columns=columns)

    monkeypatch.setattr(papq.ParquetFile, "read_row_group", counted)
    source = open_source(tmp_path / "wide.parquet")
    assert whole(source, given.column_names).cast(given.schema).equals(given)
    assert strips == 2 * [8, 8, 8, 8, 6]
    at_a_time(STRIP_CELLS=0)
    assert whole(source, given.column_names).cast(given.schema).equals(given)
    assert len(strips) == 10
    assert source.rows == rows
