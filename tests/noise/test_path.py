import math
import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cornerwave.algorithms import corner_wave, is_corner_wave
from cornerwave.errors import LevelError
from cornerwave.noise import ORIGIN, ancestors, coefficients, steps
from tests import twins

ROUNDING = 1e-12

# Whole hundredths: far enough apart for the twins' matrix inverse to be of use.
LEVELS = st.lists(st.integers(1, 10**5), min_size=1, max_size=200, unique=True)
APART = LEVELS.map(lambda levels: [level / 100 for level in levels])


def covariance_of(noise):
    rows = coefficients(steps(noise))
    return rows @ rows.T


def largest_error(found, noise):
    """The error of a matrix relative to sqrt(u v), the largest that an entry may be."""
    scale = np.sqrt(np.outer(noise, noise))
    return np.abs((found - twins.corner_wave_matrix(noise)) / scale).max()


@given(APART)
@settings(deadline=None, max_examples=60)
def test_coefficients_are_the_cholesky_rows_of_the_min_matrix(noise):
    found = coefficients(steps(noise))
    expected = np.linalg.cholesky(twins.corner_wave_matrix(noise))
    scale = np.sqrt(noise)[:, None]
    assert np.abs((found - expected) / scale).max() < 1e-8
    # ... which the recurrence gets right to rounding, where the factorisation need not
    assert largest_error(found @ found.T, noise) < ROUNDING


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=40, unique=True))
@settings(deadline=None, max_examples=10)
@example(random.Random(1).sample(range(1, 2000), 200))
def test_coefficients_equal_algorithm_3(hundredths):
    noise = [level / 100 for level in hundredths]
    found = coefficients(steps(noise))
    expected = twins.algorithm_3_coefficients(noise)
    assert np.abs((found - expected) / np.sqrt(noise)[:, None]).max() < 1e-9


@given(APART.filter(lambda noise: len(noise) > 1), st.data())
@settings(deadline=None, max_examples=40)
def test_a_step_needs_only_its_neighbours(noise, data):
    """Algorithm 3's mean, given all levels before, has two weights and the rest are zero."""
    last = min(data.draw(st.integers(1, len(noise) - 1)), 60)
    mean, variance = twins.algorithm_3(noise[:last], [noise[last]])
    step = steps(noise)[last]
    expected = np.zeros(last + 1)  # the last place is the origin
    expected[step.below] += step.weight_below
    expected[step.above] += step.weight_above
    assert np.abs(mean[0] - expected[:-1]).max() < 1e-8
    assert variance[0, 0] == pytest.approx(step.weight_fresh**2, rel=1e-6)


def test_the_cholesky_row_changes_with_the_order_but_not_the_law():
    up, down = coefficients(steps([1.0, 4.0])), coefficients(steps([4.0, 1.0]))
    assert not np.allclose(up, down)
    assert np.allclose(down @ down.T, (up @ up.T)[::-1, ::-1])


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_thousands_of_levels(order):
    noise = [float(level) for level in np.geomspace(1e-3, 1e3, 1500)]
    if order == "descending":
        noise.reverse()
    elif order == "random":
        random.Random(7).shuffle(noise)
    assert largest_error(covariance_of(noise), noise) < 1e-10


def test_levels_as_close_as_adjacent_floats():
    noise = [1.0]
    for _ in range(9):
        noise.append(math.nextafter(noise[-1], 2))
    for order in (noise, noise[::-1], noise[::2] + noise[1::2]):
        path = steps(order)
        assert all(step.weight_fresh > 0 for step in path)
        assert largest_error(covariance_of(order), order) < ROUNDING
        # the difference of two neighbours is what the levels' difference says, not zero
        rows = coefficients(path)[np.argsort(order)]
        increments = np.diff(rows, axis=0)
        assert np.allclose((increments**2).sum(axis=1), np.spacing(1.0), rtol=1e-6)


@pytest.mark.parametrize(
    "noise",
    [
        [5e-324, 1e-323, 1.5e-323],
        [1.5e-323, 5e-324, 1e-323],
        [1e308, 1.7e308, 1e307],
        [1e-300, 1e300, 1.0],
        [1e300, 5e-324, 1e-10, 1.0],
    ],
)
def test_very_small_and_very_large_levels(noise):
    path = steps(noise)
    weights = [(s.weight_below, s.weight_above, s.weight_fresh) for s in path]
    assert np.isfinite(weights).all()
    rows = coefficients(path)
    assert (
        np.allclose(np.sqrt((rows**2).sum(axis=1)), np.sqrt(noise), rtol=1e-6)
        or min(noise) < 1e-300
    )  # squares of the smallest vanish; their weights are checked one by one
    for step in path:
        low = noise[step.below] if step.below != ORIGIN else 0.0
        if step.above == ORIGIN:
            assert step.weight_fresh == math.sqrt(step.noise - low)
        else:
            high = noise[step.above]
            assert low < step.noise < high
            assert step.weight_below + step.weight_above == pytest.approx(1)


@given(APART.filter(lambda noise: len(noise) > 2), st.data())
@settings(deadline=None, max_examples=40)
def test_ancestors_are_closed_and_enough(noise, data):
    path = steps(noise)
    wanted = data.draw(st.lists(st.integers(0, len(noise) - 1), min_size=1, max_size=5))
    needed = ancestors(path, wanted)
    assert needed == sorted(set(needed))
    assert set(wanted) <= set(needed)
    for index in needed:
        assert {path[index].below, path[index].above} <= {ORIGIN, *needed}
    # none is idle: without it, some wanted level could not be computed
    rows = coefficients(path)[wanted]
    reached = {path[i].below for i in needed} | {path[i].above for i in needed} | set(wanted)
    assert set(needed) <= reached
    assert set(np.flatnonzero(np.abs(rows).sum(axis=0))) <= set(needed)


def test_few_levels_are_needed_of_many_in_random_order():
    noise = random.Random(3).sample(range(1, 10**6), 4000)
    path = steps([float(level) for level in noise])
    sizes = [len(ancestors(path, [index])) for index in range(len(noise))]
    assert np.mean(sizes) < 4 * math.log(len(noise))
    upwards = steps(sorted(map(float, noise)))
    assert len(ancestors(upwards, [len(noise) - 1])) == len(noise)


def test_a_level_is_read_once():
    with pytest.raises(LevelError, match="duplicate noise level"):
        steps([1.0, 2.0, 1])
    with pytest.raises(LevelError):
        steps([1.0, 0.0])


@given(APART)
@settings(deadline=None, max_examples=40)
def test_corner_wave_is_recognised_and_other_schemes_are_not(noise):
    matrix = corner_wave(noise)
    assert np.array_equal(matrix, twins.corner_wave_matrix(noise))
    assert is_corner_wave(matrix)
    if len(noise) > 1:
        assert not is_corner_wave(twins.independent_matrix(noise))
        assert not is_corner_wave(twins.scaled_matrix(noise))
        broken = matrix.copy()
        broken[0, 1] *= 1.001
        assert not is_corner_wave(broken)


@pytest.mark.parametrize(
    "matrix",
    [[1.0, 2.0], [[1.0, 2.0]], [[-1.0]], [[0.0]], [[math.nan]], [[math.inf]], [[1, 1], [2, 2]]],
)
def test_what_is_no_covariance_is_no_corner_wave(matrix):
    assert not is_corner_wave(matrix)
    assert is_corner_wave([[1, 1], [1, 2]])


class TestTwoValues:
    """The paper's example: noise 1 to Alice and 4 to Bob, variance 1."""

    NOISE = (1.0, 4.0)

    def test_alone(self):
        assert twins.llse_error(corner_wave([1.0])) == pytest.approx(0.5, abs=1e-15)
        assert twins.llse_error(corner_wave([4.0])) == pytest.approx(0.8, abs=1e-15)

    def test_together_ours_stands(self):
        sigma = covariance_of(self.NOISE)
        assert twins.llse_error(sigma) == pytest.approx(0.5, abs=1e-15)
        assert twins.llse_weights(sigma) == pytest.approx([0.5, 0.0], abs=1e-15)

    def test_together_independent_noise_falls(self):
        sigma = twins.independent_matrix(self.NOISE)
        assert twins.llse_error(sigma) == pytest.approx(4 / 9, abs=1e-15)
        assert twins.llse_weights(sigma) == pytest.approx([4 / 9, 1 / 9], abs=1e-15)

    def test_together_scaled_noise_falls_altogether(self):
        assert twins.llse_error(twins.scaled_matrix(self.NOISE)) == pytest.approx(0, abs=1e-14)
        assert twins.llse_error(covariance_of(self.NOISE)) > 0.49


@given(APART)
@settings(deadline=None, max_examples=40)
def test_pooling_any_copies_recovers_what_the_best_one_does(noise):
    best = min(noise)
    assert twins.llse_error(covariance_of(noise)) == pytest.approx(best / (1 + best), rel=1e-6)
    if len(noise) > 1:
        independent = twins.llse_error(twins.independent_matrix(noise))
        assert independent < best / (1 + best)
