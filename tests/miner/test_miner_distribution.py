import numpy as np
import pyarrow as pa
import pytest
from miner_world import noisy

from cornerwave.errors import ColumnError
from cornerwave.miner import Copy, Distribution
from cornerwave.miner.distribution import reconstruct

# Deconvolution has no square-root rate to take a tolerance from. These are twice the
# largest distances seen over 20 seeds at this size; a raw histogram is off by more.
REACH = {0.25: 0.04, 1.0: 0.12}


def _bimodal(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high = rng.normal(-2, 0.5, rows), rng.normal(2, 0.7, rows)
    return np.where(rng.random(rows) < 0.4, low, high)


def _shares(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(values), at, side="right") / len(values)


def _distance(found: Distribution, X: np.ndarray) -> float:
    at = np.linspace(X.min(), X.max(), 500)
    return float(np.abs(found.cdf(at) - _shares(X, at)).max())


@pytest.mark.parametrize("noise", [0.25, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_two_hills_come_back(noise: float, seed: int) -> None:
    X = _bimodal(50_000, seed)
    Y = noisy(X, noise=noise, seed=seed)
    found = Copy.open(Y, noise=noise).distribution("0")
    at = np.linspace(X.min(), X.max(), 500)
    assert found.converged
    assert _distance(found, X) < REACH[noise]
    assert np.abs(_shares(Y, at) - _shares(X, at)).max() > REACH[noise]
    assert found.mean == pytest.approx(X.mean(), abs=0.05)
    # the valley between the hills, which the copy has filled
    valley = found.cdf(0.6) - found.cdf(-0.6)
    assert valley < 0.75 * (_shares(Y, np.array([0.6])) - _shares(Y, np.array([-0.6])))


@pytest.mark.parametrize("zeros", [0.0, 0.1, 0.5, 0.8])
@pytest.mark.parametrize("seed", range(2))
def test_a_spike_at_zero_is_found_and_not_invented(zeros: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.where(rng.random(50_000) < zeros, 0.0, rng.gamma(4.0, 1.0, 50_000))
    copy = Copy.open(noisy(X, noise=1.0, seed=seed), noise=1.0)
    found = copy.distribution("0", support=(0, 20), atoms=[0.0])
    assert found.mass[0] == pytest.approx(zeros, abs=0.05)
    assert found.probability.sum() + found.mass.sum() == pytest.approx(1.0)
    if zeros == 0.5:
        assert found.quantile(0.3) == 0.0
        assert found.quantile(0.75) == pytest.approx(np.quantile(X, 0.75), abs=0.4)


def test_more_rows_bring_it_closer() -> None:
    def distance(rows: int) -> float:
        X = _bimodal(rows, 1)
        return _distance(Copy.open(noisy(X, noise=0.25, seed=1), noise=0.25).distribution("0"), X)

    assert distance(400_000) < distance(1000)


def test_each_step_raises_the_likelihood_and_it_stops_by_its_rule() -> None:
    bins = np.linspace(-4, 4, 81)
    counts = np.histogram(noisy(_bimodal(5000, 3), noise=1.0, seed=3).clip(-4, 4), bins)[0]
    edges = np.linspace(-4, 4, 41)

    def likelihood(steps: int) -> float:
        found = reconstruct(
            counts.astype(float), bins, deviation=2.0, edges=edges, tolerance=0.0, most_steps=steps
        )
        assert not found.converged
        assert found.steps == steps
        again = found.probability @ _kernel(bins, edges, 2.0)
        return float(counts @ np.log(again))

    heights = [likelihood(steps) for steps in (1, 2, 5, 20, 100)]
    assert np.all(np.diff(heights) > 0)


def _kernel(bins: np.ndarray, edges: np.ndarray, deviation: float) -> np.ndarray:
    """P(bin | cell) by the midpoint rule, the outermost bins to infinity."""
    from statistics import NormalDist

    inner = [-np.inf, *bins[1:-1], np.inf]
    width = edges[1] - edges[0]
    rows = []
    for left in edges[:-1]:
        points = left + width * (np.arange(20) + 0.5) / 20
        below = [[NormalDist(x, deviation).cdf(b) for b in inner] for x in points]
        rows.append(np.diff(np.mean(below, axis=0)))
    return np.array(rows)


def test_the_kernel_is_the_mean_over_a_cell() -> None:
    from cornerwave.miner.distribution import _spread_out

    bins, edges = np.linspace(-3, 3, 13), np.linspace(-2, 2, 9)
    assert np.allclose(_spread_out(bins, edges, 0.7), _kernel(bins, edges, 0.7).T, atol=1e-4)


def test_a_kept_column_is_its_histogram() -> None:
    X = _bimodal(10_000, 4)
    said = {"noise": 1.0, "columns": {"0": {"role": "kept"}}}
    found = Copy.open(X, metadata=said).distribution("0")
    assert _distance(found, X) < 0.02


def test_a_column_perturbed_as_log1p_comes_back_on_its_own_scale() -> None:
    rng = np.random.default_rng(5)
    X = rng.lognormal(2.0, 1.0, 50_000)
    Y = np.expm1(noisy(np.log1p(X), noise=1.0, seed=6))
    said = {"noise": 1.0, "columns": {"pay": {"role": "perturbed", "transform": "log1p"}}}
    found = Copy.open(pa.table({"pay": Y}), metadata=said).distribution("pay", support=(0, 1000))
    quarters = [0.25, 0.5, 0.75]
    assert found.quantile(quarters) == pytest.approx(np.quantile(X, quarters), rel=0.1)
    assert np.quantile(Y, quarters) != pytest.approx(np.quantile(X, quarters), rel=0.1)


def test_a_constant_column_or_an_empty_support_is_refused() -> None:
    with pytest.raises(ColumnError, match="constant"):
        Copy.open(np.ones((5, 1)), noise=1.0).distribution("0")
    with pytest.raises(ColumnError, match="support"):
        Copy.open(_bimodal(50, 1), noise=1.0).distribution("0", support=(3, 3))


def test_cdf_and_quantile_undo_each_other() -> None:
    found = Copy.open(_bimodal(3000, 6), noise=1.0).distribution("0")
    p = np.linspace(0.01, 0.99, 50)
    assert np.allclose(found.cdf(found.quantile(p)), p)
    assert found.density @ np.diff(found.edges) == pytest.approx(1.0)
