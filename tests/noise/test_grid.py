import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.moments import Moments
from cornerwave.noise import GRID_BITS, grid_of


def grid_of_rows(X):
    moments = Moments.of(X)
    return grid_of(deviation=moments.deviation, largest=moments.largest)


@given(deviation=st.floats(1e-140, 1e140))
def test_the_grid_is_a_power_of_two_near_the_deviation(deviation):
    [step] = grid_of_rows([[-deviation], [deviation]])
    mantissa, _ = np.frexp(step)
    assert mantissa == 0.5
    assert 2.0 ** -(GRID_BITS + 1) < step / (deviation * np.sqrt(2)) <= 2.0**-GRID_BITS


def test_the_grid_is_coarser_far_from_zero_and_sums_stay_exact():
    [step] = grid_of_rows([[1e15 - 1], [1e15 + 1]])
    assert 1e15 / step < 2**51
    assert step > 2.0**-GRID_BITS


def test_a_constant_column_has_no_grid():
    assert grid_of_rows(np.full((5, 1), 0.1)).tolist() == [0.0]
