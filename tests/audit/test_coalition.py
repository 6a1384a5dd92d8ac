import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cornerwave.privacy._coalition as coalition_module
from cornerwave.levels import Level
from cornerwave.privacy import CategoryDistribution, Coalition, guess
from tests import twins

LEVELS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)


def members_of(noise):
    return [(f"r{number}", Level(level)) for number, level in enumerate(noise)]


@given(LEVELS)
def test_closed_forms_equal_the_matrix_formula(noise):
    found = Coalition.of(members_of(noise))
    distinct = sorted(set(noise))
    if np.diff(distinct, prepend=0).min() > 1e-9:  # the twin's inverse needs some room
        pooled = twins.llse_error(twins.corner_wave_matrix(distinct))
        assert found.joint_privacy == pytest.approx(pooled, rel=1e-6)
    alone = twins.llse_error(twins.independent_matrix(noise))
    assert found.independent_privacy == pytest.approx(alone, rel=1e-6)


@given(LEVELS)
def test_ours_gains_nothing_and_independent_noise_always_does(noise):
    found = Coalition.of(members_of(noise))
    assert found.gain == 0
    assert found.best_privacy == Level(min(noise)).privacy
    assert dict(found.members)[found.best_member].noise == min(noise)
    if len(noise) > 1:
        assert found.independent_gain > 0
    else:
        assert found.independent_gain == 0


def test_the_papers_example():
    found = Coalition.of(members_of([1.0, 4.0]))
    assert found.joint_privacy == 0.5
    assert found.best_member == "r0"
    assert found.independent_privacy == pytest.approx(4 / 9, abs=1e-15)
    assert found.independent_gain == pytest.approx(1 / 18, abs=1e-15)


def test_scaled_noise_hides_nothing_at_all():
    assert twins.llse_error(twins.scaled_matrix([1.0, 4.0])) == pytest.approx(0, abs=1e-14)
    assert Coalition.of(members_of([1.0, 4.0])).joint_privacy == 0.5


def test_extreme_levels():
    found = Coalition.of(members_of([5e-324, 1e308]))
    assert 0 <= found.independent_privacy <= found.joint_privacy < 1e-300


def laws_of(law, noise):
    drawn, q = law.drawn, [1 / np.sqrt(1 + v) for v in noise]
    return [(1 - kept) * drawn + np.eye(len(drawn)) * kept for kept in q]


def brute_guess(law, noise):
    """How often the best guess is right, over every case: from one copy, from independent ones."""
    pi, laws = law.pi, laws_of(law, noise)
    single = max((pi[:, None] * each).max(axis=0).sum() for each in laws)
    cases = itertools.product(range(len(pi)), repeat=len(laws))
    seen = [[each[:, y] for each, y in zip(laws, case, strict=True)] for case in cases]
    return single, sum((pi * np.prod(likelihoods, axis=0)).max() for likelihoods in seen)


def brute_joint(law, noise):
    """How often a guess from all copies of one path is right: its steps, in the order of noise."""
    levels = sorted(noise)
    kept = [1 / np.sqrt(1 + level) for level in levels]
    first, *steps = [after / before for after, before in zip(kept, [1.0, *kept[:-1]], strict=True)]
    size = len(law.counts)
    joint = law.pi[:, None] * (first * np.eye(size) + (1 - first) * law.drawn)
    for stays in steps:
        step = stays * np.eye(size) + (1 - stays) * law.drawn
        joint = (joint.reshape(size, -1, size)[..., None] * step).reshape(size, -1)
    return joint.max(axis=0).sum()


@pytest.mark.parametrize("base", ["marginal", "uniform"])
@pytest.mark.parametrize(
    ("counts", "noise"),
    [([5, 3, 2], [1.0, 4.0]), ([90, 5, 5], [0.5, 2.0, 3.0]), ([50, 1], [9.0, 9.0]), ([7], [1.0])],
)
def test_the_best_guess_of_a_category(counts, noise, base):
    law = CategoryDistribution(counts, base)
    single, independent = brute_guess(law, noise)
    found = guess(law, noise)
    assert found.blind == max(counts) / sum(counts)
    assert found.best == found.joint == pytest.approx(single)
    assert found.independent == pytest.approx(independent)


@pytest.mark.parametrize("base", ["marginal", "uniform"])
def test_a_path_adds_nothing_to_its_best_copy(base):
    """Every case of three copies of one path, beside the one of least noise."""
    law, noise = CategoryDistribution([6, 3, 1], base), [0.5, 1.0, 4.0]
    assert brute_joint(law, noise) == pytest.approx(guess(law, noise).joint, abs=1e-12)


@given(
    counts=st.lists(st.integers(1, 1000), min_size=2, max_size=8),
    noise=st.floats(0.01, 100),
)
def test_what_stays_hidden_is_p_from_its_own_frequencies_alone(counts, noise):
    law = CategoryDistribution(counts)
    found = guess(law, [noise])
    assert found.hidden == pytest.approx(noise / (1 + noise), rel=1e-9)
    assert found.least_hidden == pytest.approx(noise / (1 + noise), rel=1e-9)
    even = CategoryDistribution(counts, "uniform")
    [seen] = laws_of(even, [noise])
    joint = even.pi[:, None] * seen
    brute = 1 - (joint**2 / joint.sum(axis=0)).sum()
    assert guess(even, [noise]).hidden == pytest.approx(brute / (1 - (even.pi**2).sum()), rel=1e-6)


def test_even_draws_may_hide_less_than_the_knob_says():
    """One value of half the rows among fifty rare ones."""
    found = guess(CategoryDistribution([50] + [1] * 50, "uniform"), [1.0])
    assert found.least_hidden < 0.46 < 0.5 < found.hidden


def test_independent_refreshes_would_give_a_category_away():
    """The negative control of the promise: with events of their own, copies do add up."""
    found = guess(CategoryDistribution([90, 5, 5]), [2.0] * 6)
    assert found.independent > found.joint + 0.01


@pytest.mark.parametrize("noise", [[1.0, 2.0, 3.0], [2.0] * 4, [0.5, 0.5, 0.5, 9.0]])
@pytest.mark.parametrize("base", ["marginal", "uniform"])
def test_a_drawn_guess_agrees_with_the_exact_one(base, noise):
    """ALPHA 1e-9: six standard errors of a share over all draws. Equal levels count together."""
    law = CategoryDistribution([5, 3, 2], base)
    tolerance = 6 * np.sqrt(0.25 / coalition_module.DRAWS)
    drawn = coalition_module._guess_drawn(law, noise)
    assert drawn == pytest.approx(brute_guess(law, noise)[1], abs=tolerance)


def test_the_guess_of_very_many_takes_as_long_as_that_of_their_levels(monkeypatch):
    """Counted in levels that are looked at; members of levels of their own are the control."""
    law, asked = CategoryDistribution([5, 3, 2]), []
    monkeypatch.setattr(coalition_module, "retention", lambda v: asked.append(v) or 0.02)
    counted = []
    for noise in ([1.0, 2.0, 3.0] * 30_000, [1.0, 2.0, 3.0] * 100, list(range(1, 301))):
        asked.clear()
        assert 0.5 < coalition_module._guess_drawn(law, noise) <= 1
        counted.append(len(asked))
    assert counted[0] <= counted[1] == 3
    assert counted[2] == 300


@given(
    counts=st.lists(st.integers(1, 1000), min_size=2, max_size=40),
    noise=st.lists(st.floats(0.01, 1000), min_size=1, max_size=6),
    base=st.sampled_from(["marginal", "uniform"]),
)
@settings(max_examples=25)
def test_independent_refreshes_are_never_said_to_reveal_less(counts, noise, base):
    """Also where guesses are drawn, and chance could let them fall short."""
    found = guess(CategoryDistribution(counts, base), noise)
    assert found.independent >= found.joint
