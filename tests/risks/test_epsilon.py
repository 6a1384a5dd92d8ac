"""Epsilon in closed form, beside what dp-accounting computes, and beside the noise itself."""

import math

import numpy as np
import pytest

from cornerwave.errors import LevelError
from cornerwave.risks import epsilon

# dp-accounting 0.4: from_gaussian_mechanism(1 / mu, 1e-3).get_epsilon_for_delta(delta), D = 3
ACCOUNTED = {
    (0.5, 1e-6): 45.78591,
    (0.5, 1e-9): 53.29497,
    (0.8, 1e-6): 18.16345,
    (0.8, 1e-9): 21.94559,
    (0.95, 1e-6): 7.05975,
    (0.95, 1e-9): 8.81905,
    (0.99, 1e-6): 2.77132,
    (0.99, 1e-9): 3.55788,
}


@pytest.mark.parametrize(("asked", "accounted"), ACCOUNTED.items())
def test_epsilon_is_that_of_an_accountant(asked, accounted):
    privacy, delta = asked
    noise = privacy / (1 - privacy)
    assert epsilon(radius=3.0, noise=noise, delta=delta) == pytest.approx(accounted, rel=1e-4)


def test_no_test_of_two_neighbours_beats_it_and_one_beats_half_of_it():
    # the rows furthest apart, D and -D, and the best test between them: y above a limit
    rng, D, noise, delta = np.random.default_rng(1), 0.75, 4.0, 0.01
    eps, count = epsilon(radius=D, noise=noise, delta=delta), 400_000
    high, low = (sign * D + math.sqrt(noise) * rng.normal(size=count) for sign in (1, -1))
    limits = np.linspace(-4, 8, 60)
    powers = np.array([[(each > limit).mean() for limit in limits] for each in (high, low)])
    # 60 limits, 4 standard errors of shares of 400,000
    error = 4 * 0.5 / math.sqrt(count) * (1 + math.exp(eps))
    assert (powers[0] - math.exp(eps) * powers[1]).max() < delta + error
    assert (powers[0] - math.exp(eps / 2) * powers[1]).max() > delta + error


def test_categories_add_their_largest_ratio():
    pi, noise = np.array([0.7, 0.2, 0.1]), 3.0
    q = 0.5
    chances = q * np.eye(3) + (1 - q) * pi
    ratio = (chances[:, None, :] / chances[None, :, :]).max()
    alone = epsilon(radius=0.0, noise=noise, shares=[pi.min()], delta=1e-6)
    assert alone == pytest.approx(math.log(ratio))
    both = epsilon(radius=1.0, noise=noise, shares=[0.1, 0.5], delta=1e-6)
    parts = [epsilon(radius=0.0, noise=noise, shares=[s], delta=1e-6) for s in (0.1, 0.5)]
    assert both == pytest.approx(epsilon(radius=1.0, noise=noise, delta=1e-6) + sum(parts))


def test_little_noise_has_a_large_epsilon_and_what_cannot_be_is_refused():
    assert epsilon(radius=3.0, noise=1e-3, delta=1e-6) > 18_000
    assert epsilon(radius=0.0, noise=1.0, delta=1e-6) == 0
    for radius, delta, shares in ((-1, 0.1, ()), (1, 0, ()), (1, 0.1, [0.0])):
        with pytest.raises(LevelError):
            epsilon(radius=radius, noise=1.0, shares=shares, delta=delta)
