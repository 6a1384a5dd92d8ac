from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.choices import Choices
from cornerwave.columns import Finish, Limits, Scale, decide, type_named
from cornerwave.errors import ColumnError, CornerwaveWarning

WHOLE = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
WHOLE += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ROUND = Finish(frozenset(["a"]))
FAR = np.array([-1e300, 1e300, np.nan])


def rounded(values, type_):
    array = ROUND.apply("a", np.array(values, dtype=float), type_)
    assert array.type == type_
    assert ROUND.type_of("a", type_) == type_
    return array


def stored(array):
    """The whole numbers that dates and times are kept as."""
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


def nearly(found, bound):
    """The end of a type, as near as a double comes to it from within."""
    return abs(found) <= abs(bound) and abs(found - bound) <= abs(bound) * 2.0**-52


@pytest.mark.parametrize("type_", WHOLE, ids=str)
def test_whole_numbers_come_back_and_end_at_their_ends(type_):
    ends = np.iinfo(type_.to_pandas_dtype())
    found = rounded([1.4, 1.6, 2.5, np.nan, -0.4], type_).to_pylist()
    assert found == [1, 2, 2, None, 0]
    low, high, missing = rounded(FAR, type_).to_pylist()
    assert nearly(low, int(ends.min))
    assert nearly(high, int(ends.max))
    assert missing is None
    dictionary = pa.dictionary(pa.int8(), type_)
    assert ROUND.apply("a", np.array([1.4]), dictionary).type == type_
    assert ROUND.type_of("a", dictionary) == type_


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_come_back_and_end_at_their_ends(type_):
    largest = float(np.finfo(type_.to_pandas_dtype()).max)
    assert rounded([0.5, np.nan], type_).to_pylist() == [0.5, None]
    low, high, missing = rounded(FAR, type_).to_pylist()
    assert (low, high, missing) == (max(-1e300, -largest), min(1e300, largest), None)


DECIMALS = [(3, 2), (5, 2), (1, 0), (9, 9), (16, 16), (17, 0), (38, 10), (38, 38), (5, -2)]


@pytest.mark.parametrize(("precision", "scale"), DECIMALS)
def test_decimals_come_back_and_end_at_their_ends(precision, scale):
    type_ = pa.decimal128(precision, scale)
    end = Fraction(10**precision - 1) / Fraction(10) ** scale
    low, high, missing = rounded(FAR, type_).to_pylist()
    assert nearly(Fraction(high), end)
    assert Fraction(low) == -Fraction(high)
    assert missing is None


def test_decimals_are_rounded_to_their_step():
    found = rounded([1.234, 1.236, -7.5, 9.994, 9.996, 10.0], pa.decimal128(3, 2)).to_pylist()
    assert found == [Decimal(text) for text in ("1.23", "1.24", "-7.5", "9.99", "9.99", "9.99")]
    assert rounded([123456.0], pa.decimal128(5, -2)).to_pylist() == [Decimal(123500)]
    for type_ in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal256(60, 2)):
        assert rounded([1.005, 2.0], type_).to_pylist()[1] == Decimal("2.00")


@pytest.mark.parametrize("type_", [pa.date32(), pa.date64()], ids=str)
def test_dates_come_back(type_):
    a_day = 86_400_000 if type_ == pa.date64() else 1
    assert stored(rounded([0.4, -1.6, np.nan], type_)) == [0, -2 * a_day, None]
    assert stored(rounded(FAR, type_)) == [-719_162 * a_day, 2_932_896 * a_day, None]
    assert rounded(FAR, type_).to_pylist() == [date.min, date.max, None]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo", "+02:00"])
def test_timestamps_come_back_in_every_unit_with_their_zone(unit, zone):
    type_ = pa.timestamp(unit, tz=zone)
    assert stored(rounded([10.0, -1.0, np.nan], type_)) == [10 * UNITS[unit], -UNITS[unit], None]
    low, high, _ = stored(rounded(FAR, type_))
    if unit == "ns":
        assert nearly(low, -(2**63))
        assert nearly(high, 2**63 - 1)
    else:  # Python and pandas hold the years 1 to 9999, on any clock
        early, late, _ = rounded(FAR, type_).to_pylist()
        assert (early.year, late.year) == (1, 9999)
        assert rounded(FAR, type_).to_pandas()[0].year == 1


@pytest.mark.parametrize("unit", UNITS)
def test_times_and_durations_come_back(unit):
    time = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    per = UNITS[unit]
    assert stored(rounded([10.0, np.nan], time)) == [10 * per, None]
    assert stored(rounded(FAR, time)) == [0, 86400 * per - 1, None]
    assert stored(rounded([-10.0, np.nan], pa.duration(unit))) == [-10 * per, None]
    low, high, _ = stored(rounded(FAR, pa.duration(unit)))
    assert nearly(low, -(2**63))
    assert nearly(high, 2**63 - 1)


def test_without_rounding_a_column_stays_floats_and_nan_is_missing():
    found = Finish().apply("a", np.array([1.5, np.nan]), pa.int8())
    assert found.type == pa.float64()
    assert found.to_pylist() == [1.5, None]
    assert Finish().type_of("a", pa.int8()) == pa.float64()


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0.0, 2.0), [0.0, 1.0, 2.0, None]),
        ((None, 2.0), [-5.0, 1.0, 2.0, None]),
        ((0.0, None), [0.0, 1.0, 9.0, None]),
        ((None, None), [-5.0, 1.0, 9.0, None]),
        ((1.0, 1.0), [1.0, 1.0, 1.0, None]),
    ],
)
def test_clipping_with_open_bounds(bounds, expected):
    values = np.array([-5.0, 1.0, 9.0, np.nan])
    kept = values.copy()
    assert Finish(clip={"a": bounds}).apply("a", values, pa.int8()).to_pylist() == expected
    assert np.array_equal(values, kept, equal_nan=True)  # other copies may read it
    assert Finish(clip={"b": bounds}).apply("a", values, pa.int8())[0].as_py() == -5.0


SCHEMA = decide(
    pa.schema(
        [
            ("a", pa.int64()),
            ("t", pa.string()),
            ("k", pa.int64()),
            ("d", pa.date32()),
            ("u", pa.uint8()),
            ("f", pa.float64()),
        ]
    ),
    Choices("k"),
)


@pytest.mark.parametrize(
    ("finish", "words"),
    [
        (Finish(clip={"a": (2.0, 1.0)}), "clip from 2 to 1; give the lower first"),
        (Finish(clip={"a": (float("nan"), 1.0)}), "finite bounds"),
        (Finish(clip={"a": (None, float("inf"))}), "finite bounds"),
        (Finish(clip={"a": (None, None)}), "'a': clip has no bound"),
        (Finish(clip={"a": 5.0}), "'a': clip takes a pair"),
        (Finish(clip={"a": (1.0, 2.0, 3.0)}), "'a': clip takes a pair"),
        (Finish(clip={"a": ("1", None)}), "'a': clip takes numbers as bounds, not str"),
        (Finish(clip={"a": (True, None)}), "'a': clip takes numbers as bounds, not bool"),
        (Finish(clip={"a": (date(2020, 1, 1), None)}), "'a': clip takes numbers as bounds"),
        (Finish(clip={"d": ("2020-01-01", None)}), "'d': clip takes numbers, dates or datetimes"),
        (Finish(clip={"d": (date(2020, 2, 1), date(2020, 1, 1))}), "give the lower first"),
        (Finish(frozenset(["a"]), {"a": (0.2, 0.8)}), "'a': no value of type int64 lies within"),
        (Finish(frozenset(["u"]), {"u": (None, -1)}), "'u': no value of type uint8 lies within"),
        (Finish(frozenset(["t"])), "'t': only perturbed numbers .* these are 'a', 'd'"),
        (Finish(frozenset(["k"])), "'k': only perturbed numbers"),
        (Finish(clip={"zzz": (0.0, 1.0)}), "'zzz': only perturbed numbers"),
    ],
)
def test_what_cannot_be_finished_is_refused(finish, words):
    with pytest.raises(ColumnError, match=words):
        finish.check(SCHEMA)


def test_what_can_be_finished_is_not_refused():
    Finish(frozenset(["a"]), {"a": (1.0, 2.0)}).check(SCHEMA)
    Finish(clip={"a": (None, 1.0)}).check(SCHEMA)


@given(
    st.lists(st.floats(allow_infinity=False), min_size=1, max_size=20),
    st.sampled_from([*WHOLE, pa.float32(), pa.decimal128(7, 3), pa.date32(), pa.timestamp("ms")]),
)
@settings(deadline=None)
def test_a_finished_copy_is_a_monotone_function_of_the_raw_one(values, type_):
    """Cell by cell: neither its neighbours nor its place matter."""
    finish = Finish(frozenset(["a"]), {"a": (-1e6, None)})

    def finished(given):
        array = finish.apply("a", np.array(given), type_)
        return stored(array) if pa.types.is_temporal(type_) else array.to_pylist()

    assert finished(values) == [found for v in values for found in finished([v])]
    in_order = finished(sorted(v for v in values if not np.isnan(v)))
    assert in_order == sorted(in_order)


JUST_BELOW = float(np.nextafter(np.float32(0.3), np.float32(0)))  # the nearest one lies above 0.3


def test_rounding_floats_is_warned_of():
    with pytest.warns(CornerwaveWarning, match="'f': floats in the source"):
        Finish(frozenset(["f", "a"])).check(SCHEMA)


@pytest.mark.parametrize(
    ("type_", "bounds", "ends"),
    [
        (pa.int64(), (0.5, 8.5), (1, 8)),
        (pa.uint64(), (3, None), (3, 2**64 - 2048)),
        (pa.int8(), (-1000, 5), (-128, 5)),
        (pa.decimal128(5, 1), (0.1, 0.3), (Decimal("0.1"), Decimal("0.3"))),
        (pa.decimal128(5, 1), (0.11, 0.39), (Decimal("0.2"), Decimal("0.3"))),
        (pa.float32(), (0.1, 0.3), (float(np.float32(0.1)), JUST_BELOW)),
        (pa.date32(), (date(2020, 1, 1), date(2020, 2, 1)), (date(2020, 1, 1), date(2020, 2, 1))),
        (pa.date32(), (18262.5, None), (date(2020, 1, 2), date.max)),
        (
            pa.timestamp("s"),
            (date(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 9, 500_000)),
            (datetime(2020, 1, 1), datetime(2020, 1, 1, 0, 0, 9)),
        ),
    ],
    ids=str,
)
def test_a_rounded_and_clipped_value_is_one_of_the_type_within_the_bounds(type_, bounds, ends):
    finish = Finish(frozenset(["a"]), {"a": bounds})
    assert finish.apply("a", FAR, type_).to_pylist() == [*ends, None]


def test_dates_bound_what_is_not_rounded_too():
    days = Finish(clip={"a": (date(1970, 1, 3), None)}).apply("a", FAR, pa.date32())
    assert days.to_pylist() == [2.0, 1e300, None]
    zone = timezone(timedelta(hours=2))
    late = {"a": (None, datetime(1970, 1, 1, 3, tzinfo=zone))}
    assert Finish(clip=late).apply("a", FAR, pa.timestamp("us"))[1].as_py() == 3600.0


def described(finish, type_, *, mean=0.0, deviation=1.0, scale=None):
    reach = finish.reach("a", mean=mean, deviation=deviation, scale=scale or Scale())
    return finish.limits("a", type_, reach=reach)


def test_metadata_says_what_was_done():
    finish = Finish(frozenset(["a"]), {"a": (None, 5.5)})
    assert described(finish, pa.int8()) == Limits(1.0, (None, 5.0))
    assert described(Finish(clip=finish.clip), pa.int8()) == Limits(None, (None, 5.5))
    assert described(Finish(), pa.int8()) == Limits(None, None)


@pytest.mark.parametrize(
    ("type_", "mean", "deviation", "clipped"),
    [
        (pa.uint8(), 47.0, 20.0, (0.0, 255.0)),
        (pa.uint8(), 47.0, 3.0, None),
        (pa.uint8(), 47.0, 10.0, (0.0, None)),
        (pa.int8(), 0.0, 10.0, None),
        (pa.int8(), 0.0, 11.0, (-128.0, 127.0)),
        (pa.uint64(), 1e6, 1e5, (0.0, None)),
        (pa.int64(), 1e6, 1e5, None),
        (pa.decimal128(3, 2), 5.0, 1.0, (None, 9.99)),
        (pa.time32("s"), 40_000.0, 20_000.0, (0.0, 86_399.0)),
        (pa.date32(), 18_000.0, 9_000.0, None),
        (pa.float16(), 0.0, 10_000.0, (-65_504.0, 65_504.0)),
        (pa.float64(), 0.0, 1e9, None),
    ],
    ids=str,
)
def test_metadata_state_the_ends_of_a_type_that_values_can_reach(type_, mean, deviation, clipped):
    assert described(ROUND, type_, mean=mean, deviation=deviation).clipped == clipped


def test_the_reach_of_a_transformed_column_is_on_its_own_scale():
    near = described(ROUND, pa.uint16(), mean=5.0, deviation=0.4, scale=Scale("log1p"))
    assert near.clipped is None
    far = described(ROUND, pa.uint16(), mean=5.0, deviation=0.6, scale=Scale("log1p"))
    assert far.clipped == (0.0, 65_535.0)


@pytest.mark.parametrize(
    ("type_", "step"),
    [
        (pa.int32(), 1.0),
        (pa.date64(), 1.0),
        (pa.decimal128(5, 2), 0.01),
        (pa.timestamp("ms"), 1e-3),
        (pa.time64("ns"), 1e-9),
        (pa.duration("s"), 1.0),
        (pa.float32(), None),
    ],
    ids=str,
)
def test_the_step_of_a_type(type_, step):
    assert described(ROUND, type_).rounded == step


@pytest.mark.parametrize(
    "type_",
    [
        *WHOLE,
        pa.float16(),
        pa.float64(),
        pa.decimal128(5, -2),
        pa.decimal256(60, 2),
        pa.date64(),
        pa.time64("ns"),
        pa.duration("ms"),
        pa.timestamp("us", tz="+02:00"),
        pa.string(),
        pa.large_string(),
        pa.bool_(),
    ],
    ids=str,
)
def test_types_are_known_by_the_names_they_print(type_):
    assert type_named(str(type_)) == type_
    assert type_named(str(pa.dictionary(pa.int8(), type_))) == type_
    assert type_named(str(pa.list_(type_))) is None
    assert type_named("decimal128(99, 2)") is None
