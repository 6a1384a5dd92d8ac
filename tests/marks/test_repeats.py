"""The same values in two tables are recognised in every form; honest tables are not refused.

A comparison errs with probability CHANCE = 1e-11 at most, whatever the key: no seed matters.
"""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.errors import AlreadyRegistered, CornerwaveWarning
from cornerwave.ledger import Key
from cornerwave.reuse import Cells, TableMarks, related, repeated
from cornerwave.reuse._bottom import SIZE, Bottom, lattice
from cornerwave.reuse._compare import _log_tail
from tests.conftest import survey_of
from tests.marks.pairs import HONEST, REPEATED, WITHOUT_KEY, people, twice

SIZES = [300, 20_000]


def marks_of(table, key, choices):
    chosen = {name: v if isinstance(v, str | bool) else tuple(v) for name, v in choices.items()}
    surveyor, survey = survey_of(table, key, **chosen)
    return TableMarks.from_json(surveyor.marks(survey).to_json())


def found(pair, rows, seed=0, compare=repeated):
    """What the second table of a pair repeats of the first."""
    first, its, second, others = pair(np.random.default_rng([seed, rows]), rows)
    key = Key.generate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CornerwaveWarning)
        new, old = ((second, others), (first, its))
        return compare(*(marks_of(t, key, {**c, "keep_order": True}) for t, c in (new, old)))


def repeated_or_related(new, old):
    return repeated(new, old) or related(new, old)


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("pair", REPEATED.values(), ids=REPEATED.keys())
@pytest.mark.first(25)
def test_one_table_twice_is_recognised(pair, rows):
    assert found(pair, rows)


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("pair", HONEST.values(), ids=HONEST.keys())
@pytest.mark.first(25)
def test_honest_tables_are_not(pair, rows):
    assert found(pair, rows, compare=repeated_or_related) is None


@pytest.mark.slow
@pytest.mark.parametrize("rows", [100, 300, 1000, 3000])
def test_no_false_alarm_in_many_pairs(rows):
    """31 kinds of pairs, 25 times each; the bound allows 1e-6 of an alarm in all of them."""
    compare = repeated_or_related
    alarms = [n for n, pair in HONEST.items() for s in range(25) if found(pair, rows, s, compare)]
    assert alarms == []


@pytest.mark.slow
@pytest.mark.parametrize("rows", [300, 1000, 3000])
def test_nothing_slips_through_in_many_pairs(rows):
    missed = [n for n, pair in REPEATED.items() for s in range(25) if not found(pair, rows, s)]
    assert missed == []


class TestThroughTheVault:
    def register(self, vault, pair, rows=300, **choices):
        first, its, second, others = pair(np.random.default_rng(rows), rows)
        vault.register("first", first, **its, **choices, few_rows=True)
        return vault.register("second", second, **others, **choices, few_rows=True)

    @pytest.mark.parametrize("pair", REPEATED.values(), ids=REPEATED.keys())
    @pytest.mark.first(10)
    def test_one_table_twice_is_refused(self, vault, pair):
        with pytest.raises(AlreadyRegistered, match=r"'first'.*elease from"):
            self.register(vault, pair)
        assert [dataset.name for dataset in vault.datasets()] == ["first"]

    @pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
    @pytest.mark.parametrize("pair", HONEST.values(), ids=HONEST.keys())
    @pytest.mark.first(10)
    def test_honest_tables_are_registered(self, vault, pair):
        self.register(vault, pair, keep_order=True)

    @pytest.mark.parametrize(
        ("case", "says"),
        [
            ("ages, then kept", "column 'age' holds the same values as 'age' of dataset 'first'"),
            ("renamed", "column 'c0' holds the same values as 'age'.*drop the column 'c0' here"),
            ("more rows", "'level' holds an edition or a part of the values of 'level'"),
            ("shuffled categories", "the rows of this table are those of dataset 'first'"),
        ],
    )
    def test_the_message_says_what_and_what_to_do(self, vault, case, says):
        with pytest.raises(AlreadyRegistered, match=says):
            self.register(vault, REPEATED[case])

    def test_a_refused_column_can_be_dropped(self, vault):
        first, second = people(np.random.default_rng(1), 300), people(np.random.default_rng(2), 300)
        vault.register("first", first, drop=["id"], few_rows=True)
        second = second.set_column(2, "wage", first.column("wage"))
        with pytest.raises(AlreadyRegistered, match="drop the column 'wage' here"):
            vault.register("second", second, drop=["id"], few_rows=True)
        vault.register("second", second, drop=["id", "wage"], few_rows=True)

    def test_a_small_table_is_recognised_by_its_sum(self, vault):
        vault.register("first", pa.table({"x": [1.258, 7.5, 3.751, 9.125, 4.062]}), few_rows=True)
        with pytest.raises(AlreadyRegistered, match="same values"):
            vault.register(
                "second", pa.table({"y": [9.125, 3.751, 4.062, 1.258, 7.5]}), few_rows=True
            )
        vault.register("third", pa.table({"x": [1.258, 7.5, 3.751, 9.125, 5.062]}), few_rows=True)


def test_another_key_recognises_nothing():
    first, its, second, others = twice(lambda table, rng: table)(np.random.default_rng(3), 300)
    marks = marks_of(first, Key.generate(), its)
    assert repeated(marks_of(second, Key.generate(), others), marks) is None


def test_marks_take_some_kilobytes_and_hold_no_value():
    key, rows = Key.generate(), 20_000
    table = people(np.random.default_rng(4), rows)
    text = marks_of(table, key, WITHOUT_KEY).to_json()
    assert len(text) < 7500 * table.num_columns
    assert "Aachen" not in text
    assert TableMarks.from_json(text).to_json() == text


# --- cells ------------------------------------------------------------------------------


def hashes(values, type_=None):
    array = pa.array(values, type_)
    return Cells.of_array(array, numbers=bytes(32), texts=bytes(range(32))).hashes.tolist()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (([3, 250], pa.int16()), ([3.0, 250.0], pa.float64())),
        (([0.1, 1e10 / 3], pa.float64()), ([0.1, 1e10 / 3], pa.float32())),
        (
            ([16_777_217, 123_456_789], pa.int64()),
            (np.float32([16_777_217, 123_456_789]), pa.float32()),
        ),
        ((["3", " 4.50", "+5"], pa.string()), ([3.0, 4.5, 5.0], pa.float64())),
        (([True, False], pa.bool_()), (["true", "FALSE"], pa.string())),
        (([True, False], pa.bool_()), ([1, 0], pa.int8())),
        (([11_000, -5], pa.date32()), ([11_000 * 86_400, -5 * 86_400], pa.timestamp("s"))),
        (([11_000], pa.date32()), (["2000-02-13"], pa.string())),
        (([1_000_000_000], pa.timestamp("ms")), (["1970-01-12 13:46:40"], pa.string())),
        ((["a", "b"], pa.string()), (["a", "b"], pa.dictionary(pa.int8(), pa.string()))),
        (([0.0], pa.float64()), ([-0.0], pa.float64())),
    ],
)
def test_a_value_is_the_same_in_every_type(one, two):
    assert hashes(*one) == hashes(*two)
    assert 0 not in hashes(*one)
    assert len(set(hashes(*one))) == len(one[0])


def test_missing_is_nothing_and_odd_texts_are_texts():
    assert hashes([None, float("nan")], pa.float64()) == [0, 0]
    assert hashes([None, None], pa.null()) == [0, 0]
    odd = ["2023-02-30", "1e", "", "nan", "inf", "1" * 400, "0x10", "2000-02-13x"]
    assert len({*hashes(odd), 0}) == len(odd) + 1
    assert len(hashes([b"\x00", b"\xff"], pa.binary())) == 2


# --- sketches ---------------------------------------------------------------------------


@pytest.mark.parametrize("distinct", [3, 200, 300, 5000])
def test_a_sketch_holds_the_smallest_and_counts_them(distinct):
    rng = np.random.default_rng(distinct)
    pool = rng.integers(1, 2**63, distinct).astype(np.uint64)
    cells = pool[rng.integers(0, distinct, 4 * distinct)]
    bottom = Bottom.of(cells, cells.astype(np.float64))
    values, counts = np.unique(cells, return_counts=True)
    assert bottom.hashes.tolist() == values[:SIZE].tolist()
    assert bottom.counts.tolist() == counts[:SIZE].tolist()
    assert bottom.numbers.tolist() == values[:SIZE].astype(np.float64).tolist()


def test_a_sketch_tells_how_many_distinct_values_there_are():
    """Within 5 of its standard errors, 1 / sqrt(SIZE)."""
    cells = np.random.default_rng(5).integers(1, 2**64, 100_000, dtype=np.uint64)
    assert Bottom.of(np.tile(cells, 3)).distinct == pytest.approx(1e5, rel=5 / np.sqrt(SIZE))


@pytest.mark.parametrize(("trials", "q"), [(30, 0.5), (200, 0.1), (256, 0.9)])
def test_the_bound_is_above_the_tail(trials, q):
    chances = np.ones(1)
    for _ in range(trials):
        chances = np.convolve(chances, [1 - q, q])
    for hits in range(trials + 1):
        assert np.exp(_log_tail(hits, trials, q)) >= chances[hits:].sum() * (1 - 1e-9)


def test_values_too_far_apart_for_floating_point_have_no_step():
    assert lattice(np.array([-1.7e308, 1.7e308, 3.0]), whole=True) == np.inf
    assert lattice(np.array([1.0, 2.5, 4.0]), whole=True) == 3.0
    assert lattice(np.array([np.inf, 1.0, -np.inf, 2.5, 4.0]), whole=True) == 3.0  # text: 1e999


def test_numbers_beyond_single_precision_are_kept():
    """1e100 is beyond single precision: it is kept as the largest, without a fault."""
    values = np.append(np.random.default_rng(0).normal(size=300), 1e100)
    with np.errstate(over="raise", invalid="raise"):
        text = marks_of(pa.table({"x": values}), Key.generate(), {}).to_json()
    assert TableMarks.from_json(text).to_json() == text
