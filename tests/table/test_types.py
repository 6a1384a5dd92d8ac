import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.columns import is_number, is_text, plain_type, to_floats, unit_of
from cornerwave.errors import ColumnError

UTC = dt.UTC


def floats(values, type_=None):
    array = values if isinstance(values, pa.Array) else pa.array(values, type_)
    return to_floats(array, "c").tolist()


INTEGERS = [
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
]


@pytest.mark.parametrize("type_", [*INTEGERS, pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_the_same_numbers_in_any_type(type_):
    numpy_type = type_.to_pandas_dtype()
    values = np.array([0, 7, 100], dtype=numpy_type)
    assert floats(values, type_) == [0.0, 7.0, 100.0]
    assert is_number(type_)
    assert unit_of(type_) is None


def test_decimals():
    assert floats([Decimal("1.25"), None, Decimal("-3.00")])[::2] == [1.25, -3.0]
    assert floats([Decimal("0.1")]) == [0.1]
    assert floats(pa.array([Decimal("12")], pa.decimal256(50, 0))) == [12.0]
    assert is_number(pa.decimal128(10, 2))


@pytest.mark.parametrize(
    "type_",
    [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "Asia/Tokyo")],
    ids=str,
)
def test_dates_before_and_after_1970(type_):
    days = pa.array([dt.date(1970, 1, 2), dt.date(1969, 12, 31), dt.date(2024, 2, 29)])
    scale = 1 if pa.types.is_date(type_) else 86400
    assert floats(days.cast(type_)) == [1 * scale, -1 * scale, 19782 * scale]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_are_seconds_in_utc(unit, zone):
    moment = dt.datetime(2024, 7, 1, 12, 30, tzinfo=UTC if zone else None)
    expected = dt.datetime(2024, 7, 1, 12, 30, tzinfo=UTC).timestamp()
    assert floats([moment, None], pa.timestamp(unit, zone))[0] == expected
    assert unit_of(pa.timestamp(unit, zone)) == "seconds since 1970-01-01 UTC"


def test_fractions_of_seconds():
    assert floats([1_500_000], pa.timestamp("us")) == [1.5]
    assert floats([1_500_000_500], pa.timestamp("ns")) == [1.5000005]
    assert floats([-1], pa.timestamp("us")) == [-1e-6]
    assert floats([100, 900, -1], pa.duration("ns")) == [1e-7, 9e-7, -1e-9]


def test_times_beyond_what_microseconds_can_count():
    ever = int(dt.datetime(9999, 12, 31, tzinfo=UTC).timestamp())
    for unit, parts in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        assert floats([ever * parts, -ever * parts], pa.timestamp(unit)) == [ever, -ever]
    assert floats([-(2**63) + 1], pa.duration("us"))[0] == pytest.approx(-(2**63) / 1e6, rel=1e-15)
    assert floats([2**62], pa.timestamp("s")) == [2.0**62]


@given(st.integers(-(2**53), 2**53), st.sampled_from(["us", "ns"]))
def test_microseconds_in_a_double_are_one_quotient(microseconds, unit):
    """Tables that are registered are known by these bits; they never change."""
    ticks = microseconds * (1000 if unit == "ns" else 1)
    if abs(ticks) < 2**63:
        assert floats([ticks], pa.timestamp(unit)) == [microseconds / 1e6]
        assert floats([ticks], pa.duration(unit)) == [microseconds / 1e6]


@given(st.integers(-(2**63) + 1, 2**63 - 1), st.sampled_from(["s", "ms", "us", "ns"]))
def test_any_time_is_within_a_rounding_of_its_seconds(ticks, unit):
    parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert floats([ticks], pa.duration(unit))[0] == pytest.approx(ticks / parts, rel=2e-15)


def test_durations_and_times_of_day():
    assert floats([dt.timedelta(seconds=90)], pa.duration("ms")) == [90.0]
    assert floats([dt.timedelta(days=-1)], pa.duration("ns")) == [-86400.0]
    for type_ in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        assert floats([dt.time(1, 0, 1)], type_) == [3601.0]
        assert unit_of(type_) == "seconds"
    assert unit_of(pa.date32()) == "days since 1970-01-01"


def test_dictionaries_are_their_values():
    coded = pa.array([5, 7, 5, None]).dictionary_encode()
    assert floats(coded)[:3] == [5.0, 7.0, 5.0]
    assert is_number(coded.type)
    assert not is_number(pa.array(["a"]).dictionary_encode().type)
    assert unit_of(pa.dictionary(pa.int8(), pa.date32())) == "days since 1970-01-01"


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.bool_(), pa.binary(), pa.null(), pa.list_(pa.int8())], ids=str
)
def test_what_is_not_a_number(type_):
    assert not is_number(type_)
    assert unit_of(type_) is None


def test_null_and_nan_are_both_missing():
    found = to_floats(pa.array([None, float("nan"), 1.0]), "c")
    assert np.isnan(found).tolist() == [True, True, False]
    assert np.isnan(to_floats(pa.array([None, 1]), "c")).tolist() == [True, False]
    assert np.isnan(to_floats(pa.array([None, None], pa.int64()), "c")).all()


def test_zero_has_one_pattern_of_bits():
    assert not np.signbit(to_floats(pa.array([-0.0, 0.0]), "c")).any()
    assert np.signbit(np.array(-0.0))


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_values_are_refused(value):
    for type_ in (pa.float32(), pa.float64()):
        with pytest.raises(ColumnError, match="'c' holds infinite values"):
            floats([1.0, value, None], type_)


@pytest.mark.parametrize("value", [2**53 + 1, 2**53 + 2, 2**62, -(2**53) - 1, -(2**63)])
@pytest.mark.parametrize("type_", [pa.int64(), pa.decimal128(38, 0)], ids=str)
def test_whole_numbers_that_doubles_cannot_tell_apart_are_refused(value, type_):
    values = [Decimal(value)] if pa.types.is_decimal(type_) else [value]
    with pytest.raises(ColumnError, match=r"beyond 2\^53"):
        floats(pa.array(values, type_))


def test_unsigned_numbers_beyond_too():
    with pytest.raises(ColumnError, match=r"beyond 2\^53"):
        floats([2**64 - 1], pa.uint64())


@pytest.mark.parametrize("value", [2**53, 2**53 - 1, -(2**53)])
def test_the_last_exact_numbers_are_taken(value):
    assert floats([value, None], pa.int64())[0] == value
    assert floats([Decimal(value)], pa.decimal128(38, 0)) == [value]


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1), st.data())
def test_whole_numbers_are_exact_and_slices_are_their_part(values, data):
    assert floats(values, pa.int64()) == values
    start = data.draw(st.integers(0, len(values)))
    assert floats(pa.array(values, pa.int64()).slice(start)) == values[start:]


@given(st.lists(st.floats(allow_infinity=False, allow_nan=False)))
def test_floats_pass_unchanged(values):
    assert floats(values, pa.float64()) == values


TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
OTHERS = [pa.binary(), pa.int64(), pa.bool_(), pa.date32(), pa.null(), pa.list_(pa.string())]


@pytest.mark.parametrize("type_", TEXTS, ids=str)
def test_text_is_text_of_whatever_width_and_encoding(type_):
    assert is_text(type_)
    assert plain_type(type_) == type_


@pytest.mark.parametrize("type_", OTHERS, ids=str)
def test_nothing_else_is(type_):
    assert not is_text(type_)


def test_values_that_stand_apart_are_of_their_own_type():
    assert is_text(pa.dictionary(pa.int8(), pa.large_string()))
    assert not is_text(pa.dictionary(pa.int8(), pa.int64()))
    assert plain_type(pa.dictionary(pa.int8(), pa.date32())) == pa.date32()


def test_a_signalling_nan_is_missing():
    bits = np.array([0x7FF0000000000001, 0x3FF0000000000000], dtype=np.uint64)
    assert np.isnan(to_floats(pa.array(bits.view(np.float64)), "x")).tolist() == [True, False]
