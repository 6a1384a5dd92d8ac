"""Exact: covariance algebra, the paper's example and theorems. Then one sampled check."""

from itertools import combinations

import numpy as np
import pytest
from cornerwave_reproduction import SCHEMES, Independent, Ours, Scaled
from hypothesis import given
from hypothesis import strategies as st

from cornerwave.algorithms import corner_wave
from cornerwave.attack import Llse, combination, error
from cornerwave.errors import SourceError

K = np.array([[4.0, 1.2e3, 0.3], [1.2e3, 1e6, -20.0], [0.3, -20.0, 0.5]])
MU = np.array([1.0, -5.0, 100.0])

# Levels far enough apart that rounding cannot make two of them one.
LEVELS = st.lists(st.integers(1, 4000), min_size=1, max_size=8, unique=True).map(
    lambda whole: [n / 100 for n in whole]
)


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def test_two_values_of_the_paper() -> None:
    def left(across: list[list[float]]) -> float:
        return float(Llse.of([10.0], [[1.0]], across=across).error[0, 0])

    assert left([[1]]) == pytest.approx(0.5, abs=1e-15)
    assert left([[4]]) == pytest.approx(0.8, abs=1e-15)
    assert left([[1, 0], [0, 4]]) == pytest.approx(4 / 9, abs=1e-15)
    assert left([[1, 1], [1, 4]]) == pytest.approx(0.5, abs=1e-15)
    assert left([[1, 2], [2, 4]]) == 0.0


def test_two_values_are_estimated_as_in_the_paper() -> None:
    x, z1, z2 = np.array([[9.0], [11.0]]), np.array([[0.3], [-2.0]]), np.array([[1.0], [5.0]])
    together = Llse.of([10.0], [[1.0]], across=np.diag([1, 4])).estimate([x + z1, x + z2])
    expected = np.array([[85.0], [95.0]]) / 9 + 4 * z1 / 9 + z2 / 9
    np.testing.assert_allclose(together, expected, rtol=1e-14)


@given(LEVELS)
def test_independent_noise_is_worth_the_sum_of_precisions(noise: list[float]) -> None:
    estimator = Llse.of(MU, K, across=Independent().across(noise))
    precision = 1 + sum(1 / v for v in noise)
    np.testing.assert_allclose(estimator.error, K / precision, rtol=1e-9)


@given(LEVELS)
def test_a_corner_wave_is_worth_its_least_noisy_copy(noise: list[float]) -> None:
    worth = combination(corner_wave(noise))
    best = np.eye(len(noise))[np.argmin(noise)]
    np.testing.assert_allclose(worth.coefficients, best, atol=1e-9)
    assert worth.noise == pytest.approx(min(noise), rel=1e-9)
    if len(noise) > 1:  # the control: independent copies all count
        assert (combination(np.diag(noise)).coefficients > 0).all()


@given(LEVELS.filter(lambda noise: len(noise) > 1))
def test_scaled_noise_is_worth_the_table_itself(noise: list[float]) -> None:
    estimator = Llse.of(MU, K, across=Scaled().across(noise))
    assert np.abs(estimator.error).max() == 0.0
    assert estimator.weights.sum() == pytest.approx(1.0, abs=1e-12)


def test_a_copy_held_twice_counts_once() -> None:
    assert combination([[2.0, 2.0], [2.0, 2.0]]).noise == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("noise", [[0.7], [0.25, 1.0, 3.0], [5.0, 0.1, 0.4, 2.0]])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_weight_per_copy_equals_the_general_form(scheme, noise) -> None:
    across, shape = scheme.across(noise), scheme.shape(K)
    short = Llse.of(MU, K, across=across, shape=shape)
    long = Llse.general(MU, K, noise=np.kron(across, K if shape is None else shape))
    unit = np.sqrt(np.outer(np.diag(K), np.diag(K)))
    np.testing.assert_allclose(short.error / unit, long.error / unit, atol=1e-9)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 3)) * np.sqrt(np.diag(K)) + MU
    white = rng.standard_normal((len(noise), 20, 3))
    noises = np.einsum("ij,jtn,mn->itm", _root(across), white, _root(K if shape is None else shape))
    apart = short.estimate(X + noises) - long.estimate(X + noises)
    np.testing.assert_allclose(apart / np.sqrt(np.diag(K)), 0, atol=1e-6)


def test_blocks_give_the_same_as_the_whole() -> None:
    rng = np.random.default_rng(2)
    copies = [rng.standard_normal((100, 3)) for _ in range(2)]
    for estimator in (
        Llse.of(MU, K, across=np.diag([1, 4])),
        Llse.general(MU, K, noise=np.kron(np.diag([1, 4]), np.diag(np.diag(K)))),
    ):
        blocks = [[copy[at : at + 33] for copy in copies] for at in range(0, 100, 33)]
        streamed = np.vstack([estimator.estimate(block) for block in blocks])
        np.testing.assert_allclose(streamed, estimator.estimate(copies), rtol=1e-13)


def test_every_subset_has_its_exact_error_in_a_sample() -> None:
    ALPHA = 1e-6
    noise = [0.4, 1.0, 2.5]
    subsets = [list(s) for size in (1, 2, 3) for s in combinations(range(3), size)]
    X = np.random.default_rng(3).standard_normal((20_000, 2)) @ [[1.0, 20.0], [0.0, 5.0]]
    schemes = [Independent(), Ours()]
    confidence = 1 - ALPHA / (len(subsets) * len(schemes))
    for scheme in schemes:
        copies = scheme.copies(X, noise=noise, unsafe_seed=5)
        known = scheme.known(X, noise=noise)
        for subset in subsets:
            estimator = known.of_copies(subset).llse
            measured = error(
                X, estimator.estimate([copies[i] for i in subset]), confidence=confidence
            )
            exact = np.mean(np.diag(estimator.error) / X.var(axis=0, ddof=1))
            assert measured.low <= exact <= measured.high


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SourceError, match="square"):
        combination([[1.0, 2.0]])
    with pytest.raises(SourceError, match="N rows per copy"):
        Llse.general(MU, K, noise=np.eye(4))
    with pytest.raises(SourceError, match="mean has shape"):
        Llse.of([1.0], K, across=[[1.0]])
    with pytest.raises(SourceError, match="got 1 copies"):
        Llse.of(MU, K, across=np.eye(2)).estimate([np.zeros((2, 3))])
