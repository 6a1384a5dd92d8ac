import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.errors import CornerwaveError, LevelError
from cornerwave.levels import Level, checked_noise, noise_of, privacy_of

NOISE = st.floats(min_value=5e-324, max_value=1.7e308)


@pytest.mark.parametrize(("privacy", "noise"), [(0.5, 1.0), (0.8, 4.0), (0.1, 1 / 9), (0.9, 9.0)])
def test_privacy_and_noise_say_the_same(privacy, noise):
    assert noise_of(privacy) == noise
    assert privacy_of(noise) == pytest.approx(privacy, rel=1e-15)
    assert Level.of(privacy=privacy) == Level.of(noise=noise)


@given(NOISE)
def test_privacy_is_the_closest_float_to_the_formula(noise):
    exact = Fraction(noise) / (1 + Fraction(noise))
    found = Fraction(privacy_of(noise))
    neighbours = (math.nextafter(float(found), 0), math.nextafter(float(found), 2))
    assert all(abs(found - exact) <= abs(Fraction(near) - exact) for near in neighbours)


@given(st.floats(min_value=1e-12, max_value=1 - 1e-12))
def test_going_there_and_back_changes_nothing_that_matters(privacy):
    assert privacy_of(noise_of(privacy)) == pytest.approx(privacy, rel=1e-15)


@given(st.lists(NOISE, min_size=2, max_size=2, unique=True).map(sorted))
def test_more_noise_is_more_private_and_levels_are_ordered(noise):
    less, more = (Level.of(noise=level) for level in noise)
    assert less < more
    assert less.privacy <= more.privacy


@pytest.mark.parametrize("privacy", [0, 1, -0.1, 1.5, math.nan, math.inf, -math.inf, 0.0, 1.0])
def test_privacy_outside_its_range_is_refused(privacy):
    with pytest.raises(LevelError, match="between 0 and 1"):
        Level.of(privacy=privacy)


@pytest.mark.parametrize("noise", [0, -1, -0.0, math.nan, math.inf, -math.inf])
def test_noise_outside_its_range_is_refused(noise):
    with pytest.raises(LevelError, match="greater than 0"):
        checked_noise(noise)


@pytest.mark.parametrize("noise", [None, "much", [1.0], object(), 1j])
def test_what_is_not_a_number_is_refused(noise):
    with pytest.raises(LevelError, match="must be a number"):
        checked_noise(noise)


@pytest.mark.parametrize("unit", ["noise", "privacy"])
def test_a_number_beyond_floating_point_is_refused(unit):
    with pytest.raises(LevelError):
        Level.of(**{unit: 10**400})


@pytest.mark.parametrize("units", [{}, {"noise": 1.0, "privacy": 0.5}])
def test_one_unit_must_be_said(units):
    with pytest.raises(LevelError, match="exactly one of noise and privacy"):
        Level.of(**units)


def test_a_level_error_is_what_a_caller_expects():
    assert issubclass(LevelError, ValueError)
    assert issubclass(LevelError, CornerwaveError)
