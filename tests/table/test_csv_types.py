import io

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.sources._text_cells import TypeGuess

CASES = {
    "integer": (["1", "-2", "", "NA"], pa.int64()),
    "long": (["12345678901234567890"], pa.decimal128(38, 0)),
    "float": (["1.5", "2", "-1e3", "nan", ""], pa.float64()),
    "infinite": (["inf", "1"], pa.float64()),
    "boolean": (["true", "false", "TRUE", ""], pa.bool_()),
    "date": (["2024-02-29", "NULL"], pa.date32()),
    "timestamp": (["2024-02-29 12:00:00", "2024-02-29"], pa.timestamp("us")),
    "zoned": (["2024-02-29T12:00:00Z", "2024-02-29T12:00:00+02:00"], pa.timestamp("us", "UTC")),
    "time": (["12:30:00", "23:59", ""], pa.time32("s")),
    "fine time": (["12:30:00.5", "12:30:00"], pa.time64("us")),
    "no time": (["12:30:00", "24:00:00"], pa.string()),
    "text": (["x", "1"], pa.string()),
    "code": (["007", "8"], pa.string()),
    "signed code": (["-07", "8.5"], pa.string()),
    "odd boolean": (["true", "tRUE"], pa.string()),
    "flags": (["0", "1", "true"], pa.string()),
    "hexadecimal": (["0x1F", "2"], pa.string()),
    "scientific": (["1.3e30", "1"], pa.float64()),
    "whole floats": (["1.0", "2.0"], pa.float64()),
    "too far for nanoseconds": (["9999-12-31", "2024-02-29 12:00:00.123456789"], pa.string()),
    "no date": (["2024-02-30"], pa.string()),
    "nothing": (["", "NA", "null"], pa.null()),
}


def guess(*columns_of_text):
    found = TypeGuess()
    for texts in columns_of_text:
        found.take(pa.array(texts, pa.string()))
    return found


def infer(*columns_of_text):
    return guess(*columns_of_text).type


@pytest.mark.parametrize("case", CASES)
def test_the_narrowest_type_that_fits(case):
    texts, expected = CASES[case]
    assert infer(texts) == expected


@pytest.mark.parametrize("case", CASES)
def test_any_cut_into_batches_gives_the_same(case):
    texts, expected = CASES[case]
    assert infer(*([text] for text in texts)) == expected
    assert infer(*([text] for text in reversed(texts))) == expected


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [
        ("integer", "float", "float"),
        ("integer", "long", "long"),
        ("integer", "code", "text"),
        ("float", "code", "text"),
        ("long", "float", "float"),
        ("date", "timestamp", "timestamp"),
        ("timestamp", "zoned", "text"),
        ("time", "fine time", "fine time"),
        ("time", "timestamp", "text"),
        ("integer", "date", "text"),
        ("float", "boolean", "text"),
        ("integer", "text", "text"),
        ("nothing", "float", "float"),
        ("nothing", "nothing", "nothing"),
    ],
)
def test_late_rows_widen_a_type(one, other, joined):
    expected = CASES[joined][1]
    assert infer(CASES[one][0], CASES[other][0]) == expected
    assert infer(CASES[other][0], CASES[one][0]) == expected
    assert infer(CASES[one][0], CASES["nothing"][0], CASES[other][0]) == expected


def test_no_rows_no_type():
    assert infer() == pa.null()


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (["39", " 40"], pa.int64()),
        (["39", "\u00a040"], pa.string()),
        (["+12", "3"], pa.decimal128(38, 0)),
        ([" 1.5", "2 "], pa.float64()),
        (["0", "-0"], pa.int64()),
        (["0.5", "00"], pa.string()),
        (["2020-01-01 00:00:00.123456789", "2020-01-02"], pa.timestamp("ns")),
        (["9" * 38], pa.decimal128(38, 0)),
        (["9" * 39, "1"], pa.string()),
        (["9" * 39, "1.5"], pa.string()),
    ],
)
def test_spaces_fine_times_and_long_numbers(cells, type_):
    assert infer(cells) == type_


def test_a_bad_cell_far_down_is_found():
    assert infer(["1"] * 1000 + ["x"]) == pa.string()
    assert infer(["true"] * 1000 + ["1"]) == pa.string()


CELLS = st.one_of(
    st.sampled_from([cell for cells, _ in CASES.values() for cell in cells]),
    st.text("0123456789+-.:eETZ xXnaNfi\t\u00a0", max_size=12),
    st.floats().map(str),
    st.datetimes().map(str),
    st.times().map(str),
)


@given(st.lists(CELLS, min_size=1, max_size=4))
def test_the_reader_takes_every_cell_for_the_type_that_was_inferred(cells):
    content = "c,d\n" + "".join(f'"{cell}",x\n' for cell in cells)
    options = pacsv.ConvertOptions(column_types={"c": infer(cells)})
    found = pacsv.read_csv(io.BytesIO(content.encode()), convert_options=options)
    assert found.num_rows == len(cells)


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (["1"] * 99 + ["?"], "all but 1 of 100 cells are numbers"),
        (["1.5"] * 98 + ["", "NA", "?", "1e3"], "all but 1 of 100 cells are numbers"),
        (["2024-02-29"] * 99 + ["29.2.2024"], "all but 1 of 100 cells are dates"),
        (["1"] * 89 + ["x"] * 11, None),
        (["1"] * 89 + ["?"] * 11, "'?' may be codes of missing values"),
        (["a"] * 99 + ["Unknown"], "'Unknown' may be codes of missing values"),
        (["1"] * 100, None),
        (["12345"] * 99 + ["01234"], None),
        (["a"] * 100, None),
    ],
)
def test_stray_cells_are_noted_wherever_they_stand(cells, says):
    for found in (guess(cells), guess(cells[::-1]), guess(cells[:60], cells[60:])):
        assert says is None if found.note is None else says in found.note
