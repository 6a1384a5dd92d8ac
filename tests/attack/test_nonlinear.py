from collections.abc import Callable

import numpy as np
import pytest
from cornerwave_reproduction import Independent, Ours, Scaled

from cornerwave.attack import Knowledge, Llse, error, gain, learned, posterior_mean
from cornerwave.errors import SourceError

from .tables import TABLES

ALPHA = 1e-6
NOISE = [0.5, 1.0, 2.0]


def _naive_posterior(copies, across, shape, reference):
    """The definition, with the full NM x NM likelihood, one row and one x at a time."""
    precision = np.linalg.inv(np.kron(across, shape))
    estimate = []
    for t in range(len(copies[0])):
        y = np.concatenate([copy[t] for copy in copies])
        apart = y - np.tile(reference, (1, len(copies)))
        log_weights = -np.einsum("ri,ij,rj->r", apart, precision, apart) / 2
        weights = np.exp(log_weights - log_weights.max())
        estimate.append(weights @ reference / weights.sum())
    return np.array(estimate)


@pytest.mark.parametrize("across", [[[0.6]], [[1.0, 0.3], [0.3, 2.0]], [[1.0, 1.0], [1.0, 4.0]]])
@pytest.mark.parametrize("kind", TABLES)
def test_equals_the_definition(kind: str, across: list[list[float]]) -> None:
    rng = np.random.default_rng(1)
    X = TABLES[kind](60, rng)
    shape = np.cov(X.T)
    lower = np.kron(np.linalg.cholesky(across), np.linalg.cholesky(shape))
    noise = (rng.standard_normal((60, len(lower))) @ lower.T).reshape(60, len(across), 2)
    copies = list(X + noise.transpose(1, 0, 2))
    found = posterior_mean(
        copies, known=Knowledge(X.mean(axis=0), shape, np.array(across)), reference=X
    )
    expected = _naive_posterior(copies, across, shape, X)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7 * X.std())


def test_equals_the_linear_estimate_for_gaussian_data() -> None:
    # Quadrature: a fine grid of values, each as often as the normal density says.
    grid = np.linspace(-6, 6, 241)[:, None]
    often = np.round(1e4 * np.exp(-(grid[:, 0] ** 2) / 2)).astype(int)
    prior = np.repeat(grid, often, axis=0)
    known = Knowledge(np.zeros(1), np.eye(1), np.array([[1.0, 0.0], [0.0, 4.0]]))
    copies = [np.array([[-1.0], [0.3], [2.0]]), np.array([[0.5], [-2.0], [1.0]])]
    found = posterior_mean(copies, known=known, reference=prior)
    linear = Llse.of([0.0], [[1.0]], across=known.across).estimate(copies)
    np.testing.assert_allclose(found, linear, atol=1e-3)


def test_blocks_do_not_change_the_estimate(at_a_time: Callable[..., None]) -> None:
    X = TABLES["skewed"](500, np.random.default_rng(2))
    copies = Ours().copies(X, noise=NOISE, unsafe_seed=1)
    known = Ours().known(X, noise=NOISE)
    whole = posterior_mean(copies, known=known, reference=X)
    at_a_time(ATTACK_WEIGHTS=1)
    np.testing.assert_allclose(posterior_mean(copies, known=known, reference=X), whole, rtol=1e-9)


def test_values_far_out_neither_overflow_nor_vanish() -> None:
    known = Knowledge(np.zeros(1), np.eye(1), np.array([[1e-4]]))
    far = [np.array([[1e6], [-1e6]])]
    found = posterior_mean(far, known=known, reference=np.array([[-1.0], [1.0]]))
    assert found.tolist() == [[1.0], [-1.0]]


@pytest.mark.parametrize("kind", TABLES)
def test_no_estimate_beats_it_and_ours_gives_a_coalition_nothing(kind: str) -> None:
    X = TABLES[kind](4000, np.random.default_rng(3))
    confidence = 1 - ALPHA / (3 * len(TABLES))

    def measured(scheme):
        copies = scheme.copies(X, noise=NOISE, unsafe_seed=4)
        known = scheme.known(X, noise=NOISE)
        joint = posterior_mean(copies, known=known, reference=X)
        single = posterior_mean(copies[:1], known=known.of_copies([0]), reference=X)
        linear = known.llse.estimate(copies)
        assert error(X, joint).value <= error(X, linear).value + 1e-9
        return gain(X, alone=single, together=joint, confidence=confidence)

    ours = measured(Ours())
    assert ours.value == pytest.approx(0.0, abs=1e-9)
    assert measured(Independent()).above_zero
    assert measured(Scaled()).above_zero


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.first(2)
def test_learned_from_leaked_rows(kind: str) -> None:
    X = TABLES[kind](6000, np.random.default_rng(5))
    confidence = 1 - ALPHA / (2 * len(TABLES))
    leaked = np.arange(0, 6000, 3)
    hidden = np.setdiff1d(np.arange(6000), leaked)

    def measured(scheme):
        copies = scheme.copies(X, noise=NOISE, unsafe_seed=6)
        leak = {"leaked": leaked, "truth": X[leaked], "unsafe_seed": 0}
        single, joint = learned(copies[:1], **leak), learned(copies, **leak)
        assert error(X[hidden], joint[hidden]).value < 0.6
        return gain(X[hidden], alone=single[hidden], together=joint[hidden], confidence=confidence)

    assert not measured(Ours()).above_zero
    assert measured(Independent()).above_zero


def test_too_few_leaked_rows_are_refused() -> None:
    with pytest.raises(SourceError, match="at least 20"):
        learned([np.ones((9, 1))], leaked=[0], truth=[[1.0]], unsafe_seed=0)
