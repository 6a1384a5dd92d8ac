"""Plain numbers are recognised at once, and change nothing about the types that are found."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.sources import _text_cells
from cornerwave.sources._text_cells import DECIMAL, OTHER, WHOLE, TypeGuess, plain_numbers

CELLS = {
    WHOLE: ["0", "-0", "7", "-7", "123456789012345678"],
    DECIMAL: ["1.5", "-0.0", "1e3", "1E+5", "2.25e-7", "5e-324", "12345678.123456789012345"],
    OTHER: [
        *("007", "-00", "00.5", "1.", ".5", "-.5", "+7", "1e", "1e+", "1.5.2", "1-2", "--1", "-"),
        *("1234567890123456789", "9" * 40, "1e5e5", "0x10", " 7", "7 ", "1:30", "12/3", "nan"),
        *("NA", "inf", "true", "2024-02-29", "12:30", "abc", "é", "12345678x", "1234567é"),
    ],
}
ALL = [cell for cells in CELLS.values() for cell in cells]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("after", ["", "1", "1" * 20], ids=["last", "near the end", "within"])
def test_what_a_cell_is(kind, after):
    for cell in CELLS[kind]:
        cells = pa.array([cell, after, "1"] if after else [cell])
        assert plain_numbers(cells.slice(0, 1)) == (kind, 1), cell


@pytest.mark.parametrize("cells", [[], [None], ["", None]])
def test_nothing_is_as_good_as_whole(cells):
    assert plain_numbers(pa.array(cells, pa.string())) == (WHOLE, 0)


def test_the_least_of_all_cells_counts():
    assert plain_numbers(pa.array(["7", "1.5", None, "8"])) == (DECIMAL, 3)
    assert plain_numbers(pa.array(["x", "7", "1.5", "8"]).slice(1)) == (DECIMAL, 3)
    assert plain_numbers(pa.array(["7", "x", "8"]))[0] == OTHER


def guessed(batches):
    guess = TypeGuess()
    for cells in batches:
        guess.take(pa.array(cells, pa.string()))
    return guess.type, guess.note


COLUMNS = st.one_of(
    st.lists(st.sampled_from([*cells, None, ""]), max_size=12)
    for cells in (ALL, CELLS[WHOLE], CELLS[WHOLE] + CELLS[DECIMAL])
)


@given(st.lists(COLUMNS, max_size=3))
def test_types_are_those_of_the_slower_tests(batches):
    fast = guessed(batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text_cells, "plain_numbers", lambda cells: (OTHER, 0))
        assert guessed(batches) == fast
