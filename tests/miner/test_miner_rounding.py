"""Copies of whole numbers that were rounded to whole numbers again, as a release does."""

import math
import warnings
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from miner_world import agrees, noisy, normal_reach

from cornerwave.errors import BiasWarning
from cornerwave.miner import Copy, CopyColumn, Estimates
from cornerwave.miner._covariance import original_variance, rounded_variance, unrounded
from cornerwave.miner._distribution import bins_of

NAMES = ["x", "z"]


def _rounded(X: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return np.asarray(np.rint(noisy(X, noise=noise, seed=seed)))


def _told(Y: np.ndarray, noise: float, step: float | None = 1.0) -> Copy:
    columns = {name: {"role": "perturbed", "rounded": step} for name in NAMES}
    return Copy.open(Y, metadata={"noise": noise, "columns": columns}, names=NAMES)


def _whole(rows: int, deviation: float, seed: int) -> np.ndarray:
    """Two correlated columns of whole numbers."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=rows)
    own = rng.normal(size=(2, rows))
    return np.column_stack([np.rint(10 + deviation * (0.8 * shared + 0.6 * w)) for w in own])


def _series(deviation: float, step: float) -> float:
    """The Fourier series of the rounding error, term by term."""
    ratio = deviation**2 / step**2
    terms = (
        (-1) ** j * math.exp(-2 * math.pi**2 * ratio * j**2) * (4 * ratio + 1 / (math.pi * j) ** 2)
        for j in range(1, 200)
    )
    return step**2 * (ratio + 1 / 12 + math.fsum(terms))


@given(deviation=st.floats(0.1, 5.0), step=st.floats(0.1, 10.0))
def test_the_variance_of_rounded_noise_is_that_of_the_series(deviation: float, step: float) -> None:
    found = rounded_variance(deviation, step)
    # the series alternates: what is left of the sum is no more than its terms' rounding
    assert found == pytest.approx(_series(deviation, step), rel=1e-7, abs=1e-12 * step**2)


@given(K=st.floats(1e-3, 1e3), noise=st.floats(1e-3, 1e3), step=st.floats(0.1, 10.0))
def test_the_original_variance_comes_back(K: float, noise: float, step: float) -> None:
    copy = K + rounded_variance(math.sqrt(noise * K), step)
    assert original_variance(copy, noise, step) == pytest.approx(K, rel=1e-6)


@pytest.mark.parametrize("privacy", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_the_variance_of_a_flag_that_was_rounded(privacy: float) -> None:
    noise, rows = privacy / (1 - privacy), 200_000
    x = (np.random.default_rng(1).random(rows) < 0.3).astype(float)
    Y = _rounded(np.column_stack([x, x[::-1]]), noise, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BiasWarning)
        found = _told(Y, noise).covariance(of="table")["x", "x"].value
        assert agrees(_told(Y, noise).mean(of="table"), x.mean())
    K = x.var(ddof=1)
    error = _error_of_variance(K, noise, rows)
    assert abs(found - K) <= normal_reach(1) * error + 1e-9
    # Sheppard's correction where there is hardly anything to correct
    if privacy <= 0.3:
        sheppard = (Y[:, 0].var(ddof=1) - 1 / 12) / (1 + noise)
        assert abs(sheppard - K) > normal_reach(1) * error


def _error_of_variance(K: float, noise: float, rows: int) -> float:
    """Var(S | table) n = 4 K Var(D) + Var(D^2) for D independent of X; K moves by no more."""
    s = math.sqrt(noise * K)
    P = [
        2 * NormalDist(0, s).cdf(0.5 - j) - 2 * NormalDist(0, s).cdf(-0.5 - j) for j in range(1, 99)
    ]
    square, fourth = (sum(j**power * p for j, p in enumerate(P, 1)) for power in (2, 4))
    return math.sqrt((4 * K * square + fourth - square**2) / rows)


def test_noise_wider_than_the_step_needs_the_correction_and_no_warning() -> None:
    X = _whole(200_000, 1.0, seed=3)
    Y = _rounded(X, 1.0, seed=4)
    told = _told(Y, 1.0)
    assert agrees(told.covariance(of="table"), np.cov(X.T))
    assert agrees(told.correlation(of="table"), np.corrcoef(X.T))
    blind = _told(Y, 1.0, step=None)
    assert not agrees(blind.covariance(of="table"), np.cov(X.T))
    assert not agrees(blind.correlation(of="table"), np.corrcoef(X.T))


def test_a_regression_on_a_rounded_column() -> None:
    X = _whole(200_000, 1.0, seed=5)
    X[:, 1] += np.random.default_rng(6).normal(size=len(X)).round()
    Y = _rounded(X, 1.0, seed=7)
    K = np.cov(X.T)
    slope = K[0, 1] / K[0, 0]
    truth = np.array([X[:, 1].mean() - slope * X[:, 0].mean(), slope])
    found = _told(Y, 1.0).regression("z", on=["x"], of="table")
    assert agrees(found.coefficients, truth)
    blind = _told(Y, 1.0, step=None).regression("z", on=["x"], of="table").coefficients
    own = Estimates(blind.labels, blind.value, found.coefficients.standard_error)
    assert not agrees(own, truth)


ASK = {
    "covariance": Copy.covariance,
    "correlation": Copy.correlation,
    "regression": lambda copy: copy.regression("z", on=["x"]),
}


@pytest.mark.parametrize("ask", ASK)
def test_steps_that_are_wide_beside_the_noise_are_warned_of(ask: str) -> None:
    """Rounding keeps noise to itself, so covariances between two such columns shrink."""
    X = _whole(200_000, 0.5, seed=8)
    told = _told(_rounded(X, 0.2, seed=9), 0.2)
    with pytest.warns(BiasWarning, match="'x', 'z': the rounding step is too wide"):
        ASK[ask](told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BiasWarning)
        found = told.covariance(of="table")
    assert not agrees(found, np.cov(X.T))
    finer = _told(_rounded(X, 4.0, seed=9), 4.0).covariance(of="table")
    assert agrees(finer, np.cov(X.T))


def test_means_and_a_kept_column_are_not_warned_of() -> None:
    X = _whole(10_000, 0.5, seed=10)
    told = _told(_rounded(X, 0.2, seed=11), 0.2)
    assert agrees(told.mean(of="table"), X.mean(axis=0))


def test_a_step_on_the_own_scale_is_none_on_the_scale_of_logs() -> None:
    column = CopyColumn("x", True, noise=1.0, transform="log1p", rounded=1.0)
    assert unrounded(np.array([[2.0]]), [column])[0, 0] == 2.0


@given(
    low=st.integers(-1000, 1000),
    steps=st.integers(1, 3000),
    step=st.sampled_from([0.01, 1.0]),
    finest=st.sampled_from([0.0, 0.4, 30.0]),
)
def test_bins_lie_between_the_steps(low: int, steps: int, step: float, finest: float) -> None:
    bins = bins_of((low * step, (low + steps) * step), step, finest)
    values = np.arange(low, low + steps + 1) * step
    assert len(bins) <= 401
    assert np.diff(bins).min() >= min(finest, steps * step) * (1 - 1e-9)
    assert bins[0] < values[0]
    assert bins[-1] > values[-1]
    away = np.abs(bins[:, None] - values[None, :]).min(axis=1)
    assert np.allclose(away[(bins > values[0]) & (bins < values[-1])], step / 2)


def test_bins_of_a_step_that_doubles_do_not_resolve_are_even() -> None:
    assert np.array_equal(bins_of((1.0, 3.0), 1e-100), bins_of((1.0, 3.0), 0.0))
