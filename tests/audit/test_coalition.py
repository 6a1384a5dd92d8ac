import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.audit.coalition import coalition
from cornerwave.levels import Level
from tests import twins

LEVELS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)


def members_of(noise):
    return [(f"r{number}", Level(level)) for number, level in enumerate(noise)]


@given(LEVELS)
def test_closed_forms_equal_the_matrix_formula(noise):
    found = coalition(members_of(noise))
    distinct = sorted(set(noise))
    pooled = twins.llse_error(twins.corner_wave_matrix(distinct))
    if np.diff(distinct, prepend=0).min() > 1e-9:  # the twin's inverse needs some room
        assert found.joint_privacy == pytest.approx(pooled, rel=1e-6)
    alone = twins.llse_error(twins.independent_matrix(noise))
    assert found.independent_privacy == pytest.approx(alone, rel=1e-6)


@given(LEVELS)
def test_ours_gains_nothing_and_independent_noise_always_does(noise):
    found = coalition(members_of(noise))
    assert found.gain == 0
    assert found.best_privacy == Level(min(noise)).privacy
    assert dict(found.members)[found.best_member].noise == min(noise)
    if len(noise) > 1:
        assert found.independent_gain > 0
    else:
        assert found.independent_gain == pytest.approx(0, abs=1e-15)


def test_the_papers_example():
    found = coalition(members_of([1.0, 4.0]))
    assert found.joint_privacy == 0.5
    assert found.best_member == "r0"
    assert found.independent_privacy == pytest.approx(4 / 9, abs=1e-15)
    assert found.independent_gain == pytest.approx(1 / 18, abs=1e-15)


def test_scaled_noise_hides_nothing_at_all():
    assert twins.llse_error(twins.scaled_matrix([1.0, 4.0])) == pytest.approx(0, abs=1e-14)
    assert coalition(members_of([1.0, 4.0])).joint_privacy == 0.5


def test_extreme_levels():
    found = coalition(members_of([5e-324, 1e308]))
    assert 0 <= found.independent_privacy <= found.joint_privacy < 1e-300
