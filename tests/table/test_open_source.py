import gzip
import os
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.feather as feather
import pyarrow.parquet as papq
import pytest

from cornerwave.choices import ReadingSettings
from cornerwave.columns import to_floats
from cornerwave.errors import ColumnError, SourceError
from cornerwave.sources import open_source

CANARY = "SECRET-CELL-4711"
NUMBER_CANARY = "-31415926.5358"


def table(rows=1000):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": rng.integers(0, 99, rows),
            "wage": rng.standard_normal(rows) * 1e3,
            "name": [f'person {number}\nof many, "quoted"' for number in range(rows)],
        }
    )


def write_csv(table, folder):
    pacsv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


def write_csv_gz(table, folder):
    plain = write_csv(table, folder)
    (folder / "t.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    return folder / "t.csv.gz"


def write_parquet(table, folder):
    papq.write_table(table, folder / "t.parquet", row_group_size=77)
    return folder / "t.parquet"


def write_arrow(table, folder):
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as file:
        file.write_table(table, max_chunksize=33)
    return folder / "t.arrow"


def write_feather(table, folder):
    feather.write_feather(table, folder / "t.feather")
    return folder / "t.feather"


def write_directory(table, folder):
    place = folder / "parts"
    place.mkdir()
    for number, start in enumerate(range(0, len(table), 300)):
        papq.write_table(table.slice(start, 300), place / f"part-{number:03}.parquet")
    return place


def frame_pandas(table, _folder):
    return table.to_pandas()


def frame_polars(table, _folder):
    return pl.from_arrow(table)


def frame_pyarrow(table, _folder):
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


class SpeaksArrow:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def frame_capsule(table, _folder):
    return SpeaksArrow(table)


KINDS = [
    write_csv,
    write_csv_gz,
    write_parquet,
    write_arrow,
    write_feather,
    write_directory,
    frame_pandas,
    frame_polars,
    frame_pyarrow,
    frame_capsule,
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def constructor(request, tmp_path):
    return lambda table: request.param(table, tmp_path)


def whole(source, columns=None):
    groups = list(source.groups(columns or source.schema.names, 10**9))
    return pa.concat_tables(groups)


def shown(error):
    """All that a person could see of an error: text, causes and contexts that are displayed."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("rows", [1, 64, 1000, 10**6])
def test_every_kind_gives_the_same_groups(constructor, rows):
    expected = table()
    source = open_source(constructor(expected))
    assert source.schema.names == ["age", "wage", "name"]
    groups = list(source.groups(["wage", "age"], rows))
    sizes = [group.num_rows for group in groups]
    assert sizes[:-1] == [rows] * (len(sizes) - 1)
    assert 0 < sizes[-1] <= rows
    found = pa.concat_tables(groups)
    assert found.column_names == ["wage", "age"]
    for name in ("wage", "age"):
        floats = to_floats(found.column(name).combine_chunks(), name)
        assert np.array_equal(floats, to_floats(expected.column(name).combine_chunks(), name))


def test_every_kind_keeps_texts_and_can_be_read_again(constructor):
    expected = table(100)
    source = open_source(constructor(expected))
    for _ in range(2):
        assert whole(source).column("name").to_pylist() == expected.column("name").to_pylist()


def test_a_column_that_is_not_there(constructor):
    source = open_source(constructor(table(5)))
    with pytest.raises(ColumnError, match="no column 'nonsense'"):
        list(source.batches(["nonsense"]))


def test_missing_values_arrive_in_every_kind(constructor):
    source = open_source(constructor(pa.table({"a": [1.5, None, 2.0], "b": [None, 3, 4]})))
    for name, expected in (("a", [1.5, None, 2.0]), ("b", [None, 3.0, 4.0])):
        floats = to_floats(whole(source).column(name).combine_chunks(), name)
        assert [None if np.isnan(v) else v for v in floats] == expected


def test_a_frame_remembers_what_it_was():
    for frame, module in ((table(3).to_pandas(), pd), (pl.from_arrow(table(3)), pl)):
        kind = open_source(frame).frame_kind
        assert kind.to_native_namespace() is module
    assert open_source(table(3)).name == "the frame"


def test_the_index_of_pandas_is_no_column():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    odd = frame[frame.a.isin([2.0, 4.0])]
    named = frame.set_index(pd.Index([9, 8, 7, 6], name="row"))
    assert open_source(odd).schema.names == ["a"]
    assert open_source(named).schema.names == ["a"]


def test_late_decimals_change_the_type_of_all_rows(tmp_path, at_a_time):
    at_a_time(CSV_BLOCK=1000)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2020-01-01\n" * 5000 + "2.5,2020-01-01 12:00:00\n")
    source = open_source(path)
    assert source.schema.types == [pa.float64(), pa.timestamp("us")]
    assert whole(source).column("a").to_pylist() == [1.0] * 5000 + [2.5]


def test_fixed_types_are_used_without_looking(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n2\n")
    source = open_source(path, {"a": pa.float64()})
    assert whole(source).column("a").type == pa.float64()


@pytest.mark.parametrize("block", [64, 1 << 23])
def test_blocks_of_a_csv_do_not_matter(tmp_path, at_a_time, block):
    at_a_time(CSV_BLOCK=block)
    expected = table(50)
    source = open_source(write_csv(expected, tmp_path))
    assert whole(source).to_pydict() == expected.to_pydict()


# --- what is refused, and that nothing of the table is in the refusal ---------------------


def read_all(path):
    source = open_source(path)
    return list(source.groups(source.schema.names, 1000))


def refusal(tmp_path, name, content):
    """Read a file that cannot be; return the error, whose display holds no cell."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        read_all(path)
    text = shown(caught.value)
    assert CANARY not in text
    assert NUMBER_CANARY not in text
    return str(caught.value)


FILLER = b"1,x\n" * 600_000  # more than one block of either reader


@pytest.mark.parametrize("before", [0, 3, 600_000])
@pytest.mark.parametrize("row", [f"{NUMBER_CANARY}", f"1,{CANARY},3"])
def test_a_malformed_row_is_named_by_its_line(tmp_path, before, row):
    content = b"a,b\n" + b"1,x\n" * before + row.encode() + b"\n2,y\n"
    assert f"record {before + 2}, counting the header, has more or fewer fields" in refusal(
        tmp_path, "t.csv", content
    )


@pytest.mark.parametrize("filler", [b"", FILLER], ids=["early", "late"])
@pytest.mark.parametrize("bad", [b"caf\xe9", pytest.param(b"\xff\xfe", marks=pytest.mark.slow)])
def test_what_is_not_utf8(tmp_path, filler, bad):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + filler + b"1," + bad + CANARY.encode() + b"\n")
    with pytest.raises(SourceError, match=r"t\.csv is not UTF-8 text") as caught:
        open_source(path, reading=ReadingSettings(encoding="utf-8"))
    assert CANARY not in shown(caught.value)
    source = open_source(path)
    assert source.reading.encoding == "cp1252"
    assert source.remarks == ("t.csv is not UTF-8; it is read as cp1252",)
    last = whole(source, ["b"])["b"][-1].as_py()
    assert last == bad.decode("cp1252") + CANARY


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file(tmp_path, content):
    assert "empty" in refusal(tmp_path, "t.csv", content)


@pytest.mark.parametrize("keep", [0.01, 0.5, 0.99])
def test_a_truncated_archive(tmp_path, keep):
    rng = np.random.default_rng(0)
    lines = "".join(f"{a},{CANARY}\n" for a in rng.standard_normal(200_000))
    packed = gzip.compress(("a,b\n" + lines).encode(), 1)
    message = refusal(tmp_path, "t.csv.gz", packed[: int(len(packed) * keep)])
    assert "t.csv.gz" in message


def test_an_archive_that_is_none(tmp_path):
    assert "cannot be read" in refusal(tmp_path, "t.csv.gz", f"a,b\n1,{CANARY}\n".encode())


def test_a_csv_whose_types_no_longer_fit(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,{CANARY}\n")
    source = open_source(path, {"a": pa.int64(), "b": pa.float64()})
    with pytest.raises(SourceError, match="column 'b' no longer holds the kind of") as caught:
        whole(source)
    assert CANARY not in shown(caught.value)
    with pytest.raises(pa.ArrowInvalid) as raw:  # Arrow's own words do quote it
        pacsv.read_csv(path, convert_options=pacsv.ConvertOptions(column_types={"b": "double"}))
    assert CANARY in shown(raw.value)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize("damage", ["text", "cut", "middle"])
def test_a_damaged_file(tmp_path, name, damage):
    good = (write_parquet if name == "t.parquet" else write_arrow)(table(), tmp_path).read_bytes()
    middle = bytearray(good)
    middle[len(good) // 4 : len(good) // 2] = bytes(len(good) // 2 - len(good) // 4)
    content = {"text": CANARY.encode() * 10, "cut": good[:-50], "middle": bytes(middle)}[damage]
    if damage == "middle" and name == "t.arrow":
        pytest.skip("uncompressed Arrow has no checksum: the fingerprint finds this")
    assert name in refusal(tmp_path, name, content)


OFFSETS = np.arange(0, 3001, 3, dtype=np.int32)
TOO_FAR = np.append(OFFSETS[:-1], np.int32(2**31 - 1))
TEXT = pa.Array.from_buffers(
    pa.string(), 1000, [None, pa.py_buffer(OFFSETS), pa.py_buffer(b"abc" * 1000)]
)
CODES = np.arange(1000, dtype=np.int32) % 3
"""Offsets into text and codes of categories, and both with an end far outside."""


@pytest.mark.parametrize(
    ("column", "right", "wrong"),
    [
        (TEXT, OFFSETS, TOO_FAR),
        (pa.DictionaryArray.from_arrays(CODES, ["a", "b", "c"]), CODES, CODES + 1_000_000_000),
    ],
    ids=["offset", "code"],
)
def test_an_arrow_file_that_points_outside_is_refused(tmp_path, column, right, wrong):
    """Read as an address, it would end the process."""
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, pa.schema([("a", column.type)])) as file:
        file.write_table(pa.table({"a": column}))
    good = path.read_bytes()
    path.write_bytes(good.replace(right.tobytes(), wrong.astype(np.int32).tobytes()))
    assert path.read_bytes() != good
    with pytest.raises(SourceError, match=r"t\.arrow cannot be read: it is damaged"):
        whole(open_source(path))


def test_a_dataset_of_arrow_is_read_some_rows_at_a_time(tmp_path):
    """As DeltaTable.to_pyarrow_dataset gives one."""
    whole = table()
    for number in range(3):
        papq.write_table(whole.slice(300 * number, 300), tmp_path / f"{number}.parquet")
    source = open_source(pads.dataset(tmp_path, format="parquet"))
    assert source.path is None
    assert pa.concat_tables(source.groups(whole.schema.names, 250)) == whole.slice(0, 900)
    with pytest.raises(ColumnError, match="no column 'wages'"):
        list(source.batches(["wages"]))


def test_a_frame_that_points_outside_is_refused():
    inside = np.where(OFFSETS == 1500, 2**31 - 1, OFFSETS).astype(np.int32)
    parts = [None, pa.py_buffer(inside), pa.py_buffer(b"abc" * 1000)]
    broken = pa.table({"a": pa.Array.from_buffers(pa.string(), 1000, parts)})
    with pytest.raises(SourceError, match=r"the frame cannot be read: it is damaged$"):
        whole(open_source(broken))


def test_text_that_is_not_utf_8_is_refused(tmp_path):
    bytes_ = pa.array([b"\xff\xfe"] * 3)
    text = pa.Array.from_buffers(pa.string(), 3, bytes_.buffers())
    for write in (write_arrow, write_parquet):
        with pytest.raises(SourceError, match="cannot be read: it is damaged"):
            whole(open_source(write(pa.table({"a": text}), tmp_path)))


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    """A file that is mapped into memory would end the process (SIGBUS)."""
    path = tmp_path / "t.arrow"
    with pa.ipc.new_file(path, pa.schema([("a", pa.float64())])) as file:
        for _ in range(5):
            file.write_batch(pa.record_batch([np.arange(50_000.0)], names=["a"]))
    batches = open_source(path).batches(["a"])
    next(batches)
    os.truncate(path, 100_000)
    with pytest.raises(SourceError, match="cannot be read: it is damaged"):
        list(batches)


def test_a_damaged_part_of_a_directory(tmp_path):
    place = write_directory(table(), tmp_path)
    (place / "part-002.parquet").write_bytes(CANARY.encode())
    with pytest.raises(SourceError) as caught:
        whole(open_source(place))
    assert CANARY not in shown(caught.value)


@pytest.mark.parametrize("name", ["t.doc", "t", "t.csv.7z"])
def test_other_endings(tmp_path, name):
    message = refusal(tmp_path, name, CANARY.encode())
    assert ".csv.gz" in message
    assert ".parquet" in message


def test_no_file_and_an_empty_directory(tmp_path):
    with pytest.raises(SourceError, match="there is no file"):
        open_source(tmp_path / "nothing.csv")
    with pytest.raises(SourceError, match=r"holds no \.parquet file"):
        open_source(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pandas", "pyarrow"])
def test_two_columns_of_one_name(tmp_path, kind):
    both = pa.table([[1, 2], [3, 4]], names=["a", "a"])
    if kind == "parquet":
        what = write_parquet(both, tmp_path)
    elif kind == "arrow":
        what = write_arrow(both, tmp_path)
    else:
        what = both if kind == "pyarrow" else pd.DataFrame([[1, 3]], columns=["a", "a"])
    with pytest.raises(ColumnError, match="more than one column"):
        open_source(what)


@pytest.mark.parametrize(
    "what", [None, 3, [1, 2], object(), pl.Series([1])], ids=lambda w: type(w).__name__
)
def test_what_is_no_table(what):
    with pytest.raises(SourceError, match="neither a path nor a table"):
        open_source(what)


@pytest.mark.parametrize("values", [[1, CANARY], [1, 2**70]], ids=["mixed", "huge"])
def test_a_frame_with_values_that_are_no_column(values):
    with pytest.raises(ColumnError, match="column 'b' of the frame mixes") as caught:
        open_source(pd.DataFrame({"a": [1, 2], "b": pd.Series(values, dtype=object)}))
    assert CANARY not in shown(caught.value)
    assert str(2**70) not in shown(caught.value)


def test_a_file_without_permission(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    for write in (write_csv, write_parquet, write_arrow):
        path = write(table(5), tmp_path)
        path.chmod(0)
        with pytest.raises(SourceError, match="cannot be read"):
            open_source(path)
