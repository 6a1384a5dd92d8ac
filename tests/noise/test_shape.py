import gc

import numpy as np
import pyarrow as pa
import pytest

from cornerwave._core import add_on_grid
from cornerwave.arrays import Memory


def in_order(weights, white, order):
    """One row of the product by NumPy, term by term in the given order."""
    total = weights[order[0]] * white[order[0]]
    for k in order[1:]:
        total = total + weights[k] * white[k]
    return total


def case(columns, rows):
    rng = np.random.default_rng(columns)
    factor = np.tril(rng.standard_normal((columns, columns)))
    return factor, rng.standard_normal((columns, rows))


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 8, 9, 12, 14, 64])
@pytest.mark.parametrize("rows", [1, 1023, 2050])
@pytest.mark.parametrize("around", [False, True], ids=["cached", "around the cache"])
def test_the_product_is_the_sum_from_left_to_right(columns, rows, around):
    """To the last bit: a grid so fine that nothing is rounded shows the sum itself."""
    factor, white = case(columns, rows)
    fine = np.full(columns, 2.0**-60)
    found = np.full((columns, rows + 5), np.nan)
    add_on_grid(np.zeros((columns, rows + 5)), factor, white, fine, found, 3, around)
    expected = [in_order(factor[i], white, range(i + 1)) for i in range(columns)]
    assert np.abs(found[:, 3:-2]).max() > 0
    assert np.array_equal(found[:, 3:-2], np.rint(np.array(expected) / fine[0]) * fine[0])
    assert np.isnan(found[:, [0, 1, 2, -2, -1]]).all()


def test_another_order_of_sums_gives_other_bits():
    """The negative control of the test above."""
    factor, white = case(9, 1000)
    there, back = (in_order(factor[8], white, order) for order in (range(9), range(8, -1, -1)))
    assert np.allclose(there, back)
    assert not np.array_equal(there, back)


@pytest.mark.parametrize("columns", [3, 6])
def test_a_constant_column_stays_as_it_is(columns):
    factor, white = case(columns, 10)
    x, out = np.full((columns, 10), 0.1), np.empty((columns, 10))
    grid = np.full(columns, 0.5)
    grid[1] = 0.0
    add_on_grid(x, factor, white, grid, out, 0, False)
    assert (out[1] == 0.1).all()
    assert not (out[[0, *range(2, columns)]] == 0.1).any()


class TestMemory:
    def test_it_is_used_again(self):
        memory = Memory()
        first = memory.lend((2, 3))
        place = first.ctypes.data
        del first
        assert memory.lend((2, 3)).ctypes.data == place
        assert memory.lend((3, 3)).shape == (3, 3)

    @pytest.mark.parametrize(
        "look",
        [lambda lent: lent[1], lambda lent: lent.T[:, 0], lambda lent: pa.array(lent[1])],
        ids=["row", "view of a view", "arrow"],
    )
    def test_not_while_somebody_looks_at_it(self, look):
        memory = Memory()
        lent = memory.lend((2, 3))
        lent[:] = 7.0
        place, seen = lent.ctypes.data, look(lent)
        del lent
        gc.collect()
        other = memory.lend((2, 3))
        other[:] = 0.0
        assert other.ctypes.data != place
        assert set(np.asarray(seen)) == {7.0}
        del seen
        assert memory.lend((2, 3)).ctypes.data == place

    def test_two_loans_are_never_one(self):
        memory = Memory()
        lent = [memory.lend((1, 4)) for _ in range(5)]
        assert len({each.ctypes.data for each in lent}) == 5
