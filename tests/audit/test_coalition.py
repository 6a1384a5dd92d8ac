import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.audit import coalition as coalition_module
from cornerwave.audit.coalition import coalition, guess
from cornerwave.levels import Level
from tests import twins

LEVELS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)


def members_of(noise):
    return [(f"r{number}", Level(level)) for number, level in enumerate(noise)]


@given(LEVELS)
def test_closed_forms_equal_the_matrix_formula(noise):
    found = coalition(members_of(noise))
    distinct = sorted(set(noise))
    if np.diff(distinct, prepend=0).min() > 1e-9:  # the twin's inverse needs some room
        pooled = twins.llse_error(twins.corner_wave_matrix(distinct))
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


def brute_guess(counts, noise):
    """How often the best guess is right, over every case: from one copy, from independent ones."""
    pi = np.array(counts) / sum(counts)
    laws = [(1 - 1 / np.sqrt(1 + v)) * pi + np.eye(len(pi)) / np.sqrt(1 + v) for v in noise]
    single = max((pi[:, None] * law).max(axis=0).sum() for law in laws)
    cases = itertools.product(range(len(pi)), repeat=len(laws))
    seen = [[law[:, y] for law, y in zip(laws, case, strict=True)] for case in cases]
    return single, sum((pi * np.prod(likelihoods, axis=0)).max() for likelihoods in seen)


@pytest.mark.parametrize(
    ("counts", "noise"),
    [([5, 3, 2], [1.0, 4.0]), ([90, 5, 5], [0.5, 2.0, 3.0]), ([50, 1], [9.0, 9.0]), ([7], [1.0])],
)
def test_the_best_guess_of_a_category(counts, noise):
    single, independent = brute_guess(counts, noise)
    found = guess(counts, noise)
    assert found.blind == max(counts) / sum(counts)
    assert found.best == found.joint == pytest.approx(single)
    assert found.independent == pytest.approx(independent)


def test_independent_refreshes_would_give_a_category_away():
    """The negative control of the promise: with events of their own, copies do add up."""
    assert guess([90, 5, 5], [2.0] * 6).independent > guess([90, 5, 5], [2.0] * 6).joint + 0.01


def test_a_drawn_guess_agrees_with_the_exact_one():
    """ALPHA 1e-9: six standard errors of a share over all draws."""
    pi = np.array([0.5, 0.3, 0.2])
    tolerance = 6 * np.sqrt(0.25 / coalition_module.DRAWS)
    drawn = coalition_module._guess_drawn(pi, [1.0, 2.0, 3.0])
    assert drawn == pytest.approx(brute_guess([5, 3, 2], [1.0, 2.0, 3.0])[1], abs=tolerance)
