"""How many bits a copy tells: formulas, beside mutual information that posteriors show."""

import numpy as np
import pytest

from cornerwave.choices import MARGINAL, UNIFORM
from cornerwave.risks import bits_of_category, bits_of_numbers


def joint_of(pi, drawn, q):
    """P(x, y) of a category, by the cell."""
    joint = pi[:, None] * (1 - q) * drawn
    joint[np.diag_indices(len(pi))] += pi * q
    return joint


@pytest.mark.parametrize("base", [MARGINAL, UNIFORM])
@pytest.mark.parametrize("noise", [0.1, 1.0, 50.0])
def test_bits_of_a_category_are_its_mutual_information(base, noise):
    counts = [50, 30, 15, 4, 1]
    pi = np.array(counts) / 100
    drawn = np.full(5, 0.2) if base == UNIFORM else pi
    joint = joint_of(pi, drawn, 1 / np.sqrt(1 + noise))
    independent = np.outer(pi, joint.sum(axis=0))
    bits = (joint * np.log2(joint / independent)).sum()
    assert bits_of_category(counts, base, noise) == pytest.approx(bits, abs=1e-9)


def mixture(rng, rows, columns):
    """Rows around eight centres: far from normal."""
    centres = rng.normal(size=(8, columns)) * 3
    return centres[rng.integers(0, 8, rows)] + rng.normal(size=(rows, columns))


def measured_bits(X, K, noise, rng, attacked=400):
    """E log2 p(y | x) / p(y), with p(y) from all other rows: what their posteriors learned.

    Too large rather than too small: rows of a sample are easier to tell apart than those of a
    population, log2(rows) at most.
    """
    inverse = np.linalg.inv(noise * K)
    Y = X[:attacked] + rng.multivariate_normal(np.zeros(X.shape[1]), noise * K, attacked)

    def fit(away):
        return -0.5 * np.einsum("...i,ij,...j->...", away, inverse, away)

    own = fit(Y - X[:attacked])
    others = fit(Y[:, None] - X[None, attacked:])
    top = others.max(axis=1)
    common = top + np.log(np.exp(others - top[:, None]).mean(axis=1))
    return float((own - common).mean() / np.log(2)), float((own - common).std() / np.log(2))


@pytest.mark.parametrize("noise", [0.3, 1.0, 4.0])
def test_the_bound_is_above_what_posteriors_learn_and_half_of_it_is_not(noise):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 3)) @ rng.normal(size=(3, 3))
    K = np.cov(X.T)
    bits, deviation = measured_bits(X, K, noise, rng)
    error = 4 * deviation / np.sqrt(400)
    bound = bits_of_numbers(K, K, noise)
    # of normal rows the bound is what is learned
    assert bound == pytest.approx(1.5 * np.log2(1 + 1 / noise))
    assert abs(bits - bound) < error
    # as if the noise were twice as large: the figure of a scheme that claims too much
    assert bits_of_numbers(K, 4 * K, noise) < bits - error


def test_the_bound_holds_for_rows_that_are_not_normal():
    rng = np.random.default_rng(2)
    X = mixture(rng, 6000, 4)
    K = np.cov(X.T)
    for noise in (0.5, 2.0):
        bits, deviation = measured_bits(X, K, noise, rng)
        error = 4 * deviation / np.sqrt(400)
        assert error < bits < bits_of_numbers(K, K, noise) + error


def test_more_noise_than_covariance_tells_less_and_no_column_nothing():
    K = np.diag([1.0, 4.0])
    assert bits_of_numbers(K, K + np.eye(2), 1.0) < bits_of_numbers(K, K, 1.0)
    assert bits_of_numbers(np.empty((0, 0)), np.empty((0, 0)), 1.0) == 0
    # a column that is another one over again has the same noise, and adds nothing
    twice = np.ones((2, 2))
    assert bits_of_numbers(twice, twice, 1.0) == pytest.approx(0.5)
