"""Rows as CSV text, beside Arrow's writer; doubles beside Python's shortest ones."""

import io
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cornerwave.outputs._formats import csv_header, csv_text

KINDS = {
    "number": pa.array([1.5, None, -2.0]),
    "text": pa.array(["x", None, ""]),
    'quotes " and, commas': pa.array(['a"b', "c,d", "e\nf"]),
    "apart": pa.array(["x", None, 'a"b']).dictionary_encode(),
    "large": pa.array(["é", None, ""], pa.large_string()),
    "whole": pa.array([1, None, 3]),
    "flag": pa.array([True, None, False]),
    "day": pa.array([date(2020, 1, 1), None, None]),
    "moment": pa.array([1, None, 3], pa.timestamp("us")),
    "moment in a zone": pa.array([1, None, 3], pa.timestamp("ns", "UTC")),
    "time": pa.array([1, None, 3], pa.time64("us")),
    "price": pa.array([Decimal("1.20"), None, None]),
    "small float": pa.array([1.1, None, 2], pa.float32()),
    "bytes": pa.array([b'a"', None, b""]),
    "code": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "nothing": pa.nulls(3),
    "took": pa.array([1, None, 3], pa.duration("s")),
}


def own(table):
    return csv_header(table.column_names) + bytes(csv_text(table))


def arrows(table):
    file = io.BytesIO()
    plain = [pa.field(c.name, getattr(c.type, "value_type", c.type)) for c in table.schema]
    pacsv.write_csv(table.cast(pa.schema(plain)), file)
    return file.getvalue()


def test_a_table_of_all_kinds_is_what_arrow_writes():
    table = pa.table(KINDS)
    assert own(table) == arrows(table)
    for part in (table.slice(1), table.slice(1, 1), table.slice(0, 0)):
        assert own(part) == arrows(part)


@pytest.mark.parametrize("name", KINDS)
def test_a_column_alone(name):
    table = pa.table({name: KINDS[name]})
    assert own(table) == arrows(table)
    pieces = pa.concat_tables([table, table.slice(1)])
    assert own(pieces) == arrows(pieces)


def test_a_table_without_columns_has_no_text():
    assert bytes(csv_text(pa.table({}))) == b""


def test_text_views_are_text():
    texts = pa.array(["x", None, 'y"'])
    assert own(pa.table({"a": texts.cast(pa.string_view())})) == own(pa.table({"a": texts}))


def texts_of(values):
    return (
        bytes(csv_text(pa.table({"x": pa.array(values, pa.float64())}))).decode().split("\n")[:-1]
    )


def digits_of(text):
    """Return the digits of a number and the power of ten of its last one, without zeros."""
    _, digits, power = Decimal(text).normalize().as_tuple()
    return digits, power


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
@example(9007199254740993.0)
@example(2.0**-44)
@example(1e23)
@example(-0.0)
def test_a_double_has_the_digits_that_python_gives_it(value):
    [text] = texts_of([value])
    assert float(text) == value
    assert text.startswith("-") == (np.copysign(1.0, value) < 0)
    assert digits_of(text) == digits_of(repr(value))


def test_many_of_the_longest_doubles_fit_in():
    """A sign, seven places up to the first digit that is not 0, and 17 digits."""
    longest = "-0.0000012345678901234567"
    assert texts_of([float(longest)] * 5000) == [longest] * 5000


def test_many_doubles_are_what_arrow_writes():
    """Between 1e10 and 1e15 Arrow writes an exponent, and we do not."""
    rng = np.random.default_rng(8)
    bits = rng.integers(0, 1 << 64, 50_000, dtype=np.uint64).view(np.float64)
    powers = [2.0**n for n in range(-1074, 1024)] + [10.0**n for n in range(-323, 309)]
    values = np.concatenate([bits, powers, rng.normal(size=50_000), np.arange(0, 5000) / 100])
    sizes = np.abs(values)
    values = values[(sizes < 1e10) | (sizes >= 1e15)]
    table = pa.table({"x": values})
    assert own(table) == arrows(table)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (100.0, "100"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (9.5e-7, "9.5e-7"),
        (123456789012345.0, "123456789012345"),
        (99999999.5, "99999999.5"),
        (999999999999999.9, "999999999999999.9"),
        (1e15, "1e+15"),
        (1.5e300, "1.5e+300"),
        (float("-inf"), "-inf"),
        (float("nan"), ""),
    ],
)
def test_how_a_double_is_written(value, text):
    assert texts_of([value]) == [text]
