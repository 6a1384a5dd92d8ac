import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.columns import MISSING_BITS, Fingerprint, key_ids, macs, to_floats
from cornerwave.errors import ColumnError
from cornerwave.noise import position_ids
from tests import twins

SECRET = bytes(range(32))
GOLDEN = "3:d7c5a70e172f9a3932c9a13e296ef2e7"
WORDS = st.integers(0, 2**64 - 1)
TABLES = st.integers(1, 8).flatmap(
    lambda rows: st.lists(
        st.lists(WORDS, min_size=rows, max_size=rows).map(lambda c: np.array(c, dtype=np.uint64)),
        min_size=1,
        max_size=3,
    )
)


def of(columns, ids=None, start=0):
    ids = position_ids(start, len(columns[0])) if ids is None else ids
    return Fingerprint.of(ids, np.array(columns), SECRET)


def row_ids(count):
    return key_ids(pa.array([f"k{number}" for number in range(count)]), SECRET, "k")


@given(TABLES)
@settings(deadline=None)
def test_equals_the_twin(columns):
    for ids in (position_ids(3, len(columns[0])), row_ids(len(columns[0]))):
        assert of(columns, ids).sums.tolist() == twins.fingerprint_sums(ids, columns, SECRET)


@given(TABLES, st.data())
@settings(deadline=None)
def test_parts_add_up_however_a_table_is_cut(columns, data):
    rows = len(columns[0])
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, rows), max_size=3))), rows]
    total = Fingerprint.nothing()
    for start, stop in itertools.pairwise(cuts):
        part = [column[start:stop] for column in columns]
        total = total + of(part, start=start)
    assert str(total) == str(of(columns))


@pytest.mark.parametrize("chunk", [1, 3, 10, 8192])
def test_the_size_of_a_chunk_does_not_matter(at_a_time, chunk):
    columns = [np.arange(10, dtype=np.uint64), np.arange(10, 20, dtype=np.uint64)]
    expected = str(of(columns))
    at_a_time(HASHED_ROWS=chunk)
    assert str(of(columns)) == expected


@given(TABLES, st.data())
@settings(deadline=None)
def test_any_one_cell_changes_it(columns, data):
    column = data.draw(st.integers(0, len(columns) - 1))
    row = data.draw(st.integers(0, len(columns[0]) - 1))
    bit = data.draw(st.integers(0, 63))
    changed = [values.copy() for values in columns]
    changed[column][row] ^= np.uint64(1 << bit)
    for ids in (None, row_ids(len(columns[0]))):
        assert str(of(changed, ids)) != str(of(columns, ids))


def test_order_counts_with_positions_and_not_with_keys():
    columns = [np.array([1, 2, 3, 4], dtype=np.uint64), np.array([5, 6, 7, 8], dtype=np.uint64)]
    order = np.array([2, 0, 3, 1])
    shuffled = [column[order] for column in columns]
    assert str(of(shuffled)) != str(of(columns))
    assert str(of(shuffled, row_ids(4)[order])) == str(of(columns, row_ids(4)))
    assert str(of(shuffled, row_ids(4))) != str(of(columns, row_ids(4)))


def test_swapped_columns_and_one_more_row_change_it():
    a, b = np.array([1, 2], dtype=np.uint64), np.array([3, 4], dtype=np.uint64)
    assert str(of([a, b])) != str(of([b, a]))
    more = np.array([1, 2, 0], dtype=np.uint64)
    assert str(of([a])) != str(of([more]))


def test_another_secret_gives_another():
    column, ids = np.array([[1, 2]], dtype=np.uint64), position_ids(0, 2)
    assert str(Fingerprint.of(ids, column, SECRET)) != str(Fingerprint.of(ids, column, bytes(32)))


def test_rows_that_exchange_their_values_change_it():
    """Each cell is bound to its row: sums of hashes of cells alone would not see this."""
    a, b = np.array([1, 2], dtype=np.uint64), np.array([3, 4], dtype=np.uint64)
    assert str(of([a, b])) != str(of([a[::-1].copy(), b]))
    assert sum(a) == sum(a[::-1])  # the negative control


def test_macs_are_as_good_as_random():
    """Each bit of MACs of rows that hardly differ is set in half of them, within 5 deviations."""
    ids, words = position_ids(0, 4096), np.zeros((3, 4096), dtype=np.uint64)
    found = macs(ids, words, SECRET)[1]
    share = np.unpackbits(found.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(share - 0.5).max() < 5 * 0.5 / np.sqrt(4096)
    assert len(set(found.tolist())) == 4096


def test_the_text_is_golden():
    """It stands in ledgers: any change of it makes every registered table a changed one."""
    column = np.array([0.0, 1.5, np.nan]).view(np.uint64)
    assert str(of([column])) == GOLDEN


def test_every_nan_is_one_missing_value_and_every_zero_one_zero():
    payloads = [0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001]
    words = np.array([*payloads, 0, 1 << 63], dtype=np.uint64)
    found = to_floats(pa.array(words.view(float)), "x").view(np.uint64)
    assert found.tolist() == [int(MISSING_BITS)] * 3 + [0, 0]
    plain = np.array([1.0, 2.0])
    assert np.array_equal(to_floats(pa.array(plain), "x"), plain)


def test_missing_keys_are_refused_without_saying_more():
    with pytest.raises(ColumnError, match="'k' has 2 missing values"):
        key_ids(pa.array(["CANARY", None, None]), SECRET, "k")


def test_a_key_is_its_text_in_any_type():
    text = key_ids(pa.array(["1", "20"]), SECRET, "k")
    for same in (
        pa.array([1, 20]),
        pa.array([1, 20], pa.uint8()),
        pa.array(["1", "20"]).dictionary_encode(),
    ):
        assert np.array_equal(key_ids(same, SECRET, "k"), text)


def test_a_missing_key_among_encoded_values_is_missing():
    keys = pa.DictionaryArray.from_arrays([0, 1, 2], ["a", None, "b"])
    with pytest.raises(ColumnError, match="1 missing values"):
        key_ids(keys, bytes(32), "k")


def test_a_key_without_text_is_refused():
    with pytest.raises(ColumnError, match=r"'k': a column of type list<.*> cannot be the key"):
        key_ids(pa.array([[1], [2]]), bytes(32), "k")
