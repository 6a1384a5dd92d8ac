import pyarrow as pa
import pytest

from cornerwave.table.csv_types import infer_types

CASES = {
    "integer": (["1", "-2", "", "NA"], pa.int64()),
    "long": (["12345678901234567890"], pa.decimal128(38, 0)),
    "float": (["1.5", "2", "-1e3", "nan", ""], pa.float64()),
    "infinite": (["inf", "1"], pa.float64()),
    "boolean": (["true", "false", ""], pa.bool_()),
    "date": (["2024-02-29", "NULL"], pa.date32()),
    "timestamp": (["2024-02-29 12:00:00", "2024-02-29"], pa.timestamp("us")),
    "zoned": (["2024-02-29T12:00:00Z", "2024-02-29T12:00:00+02:00"], pa.timestamp("us", "UTC")),
    "text": (["x", "1"], pa.string()),
    "no date": (["2024-02-30"], pa.string()),
    "nothing": (["", "NA", "null"], pa.null()),
}


def infer(*columns_of_text):
    batches = [
        pa.record_batch([pa.array(texts, pa.string())], names=["c"]) for texts in columns_of_text
    ]
    return infer_types(lambda: iter(batches), ["c"])["c"]


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
        ("long", "float", "float"),
        ("date", "timestamp", "timestamp"),
        ("timestamp", "zoned", "text"),
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
    assert infer_types(lambda: iter([]), ["a", "b"]) == {"a": pa.null(), "b": pa.null()}


@pytest.mark.parametrize(
    ("cells", "type_"),
    [
        (["39", " 40"], pa.int64()),
        ([" 1.5", "2 "], pa.float64()),
        (["2020-01-01 00:00:00.123456789", "2020-01-02"], pa.timestamp("ns")),
        (["9" * 38], pa.decimal128(38, 0)),
        (["9" * 39, "1"], pa.string()),
    ],
)
def test_spaces_fine_times_and_long_numbers(cells, type_):
    batch = pa.record_batch({"c": cells})
    assert infer_types(lambda: iter([batch]), ["c"]) == {"c": type_}
