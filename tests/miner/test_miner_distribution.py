import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest
from miner_world import ALPHA, noisy, normal_reach

from cornerwave.errors import ColumnError
from cornerwave.miner import Copy, Distribution
from cornerwave.miner._distribution import GAP, VALUE_BINS, Mixture, cell_kernel, reconstruct


def _bimodal(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low, high = rng.normal(-2, 0.5, rows), rng.normal(2, 0.7, rows)
    return np.where(rng.random(rows) < 0.4, low, high)


def _shares(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(values), at, side="right") / len(values)


def _distance(found: Distribution, X: np.ndarray) -> float:
    at = np.linspace(X.min(), X.max(), 500)
    return float(np.abs(found.cdf(at) - _shares(X, at)).max())


def _through_noise(found: Distribution, at: np.ndarray, deviation: float) -> np.ndarray:
    """P(X + W <= at) for X as it was reconstructed, by the midpoints of fine cells."""
    fine = np.linspace(found.edges[0], found.edges[-1], 601)
    cells = np.append(np.diff(found.cdf(fine) - _points(found, fine)), found.mass)
    middle = np.append((fine[1:] + fine[:-1]) / 2, found.atoms)
    below = [[NormalDist(x, deviation).cdf(y) for x in middle] for y in at]
    return np.asarray(below) @ cells


def _points(found: Distribution, at: np.ndarray) -> np.ndarray:
    return (found.mass * (found.atoms <= at[:, None])).sum(axis=1)


@pytest.mark.parametrize("noise", [0.25, 1.0])
def test_two_hills_come_back(noise: float) -> None:
    """Deconvolution has no square-root rate, so there is no tolerance for the original's cdf.

    But with its noise the reconstruction is to be the copy's own law, within the bound of
    Dvoretzky, Kiefer and Wolfowitz and a bin; and nearer to the original than the copy is.
    """
    rows = 50_000
    X = _bimodal(rows, 1)
    Y = noisy(X, noise=noise, seed=2)
    found = Copy.open(Y, noise=noise).distribution("0")
    assert found.converged
    at = np.linspace(Y.min(), Y.max(), 41)
    bin_share = np.diff(_shares(Y, np.linspace(Y.min(), Y.max(), VALUE_BINS + 1))).max()
    bound = math.sqrt(math.log(2 / ALPHA) / 2 / rows) + bin_share
    deviation = math.sqrt(noise * X.var(ddof=1))
    assert np.abs(_through_noise(found, at, deviation) - _shares(Y, at)).max() < bound
    # the copy taken for the original would have the noise twice, a flat start is not the copy
    kept = {"noise": noise, "columns": {"0": {"role": "kept"}}}
    for wrong in (
        Copy.open(Y, metadata=kept).distribution("0"),
        replace(found, probability=np.full(len(found.probability), 1 / len(found.probability))),
    ):
        assert np.abs(_through_noise(wrong, at, deviation) - _shares(Y, at)).max() > bound
    near = np.linspace(X.min(), X.max(), 500)
    assert _distance(found, X) < np.abs(_shares(Y, near) - _shares(X, near)).max()
    # the valley between the hills, which the copy has filled
    valley = found.cdf(0.6) - found.cdf(-0.6)
    assert valley < _shares(Y, np.array([0.6])) - _shares(Y, np.array([-0.6]))


@pytest.mark.parametrize("zeros", [0.0, 0.1, 0.5, 0.8])
def test_a_spike_at_zero_is_found_and_not_invented(zeros: float) -> None:
    rng = np.random.default_rng(1)
    X = np.where(rng.random(50_000) < zeros, 0.0, rng.gamma(4.0, 1.0, 50_000))
    copy = Copy.open(noisy(X, noise=1.0, seed=2), noise=1.0)
    found = copy.distribution("0", support=(0, 20), atoms=[0.0], confidence=1 - ALPHA)
    [[low, high]] = found.mass_interval
    assert low <= np.mean(X == 0) <= high
    assert low <= found.mass[0] <= high
    # a mass that the copy rules out: all rows above, and what noise alone could not bring
    assert high < zeros + 0.5 * (1 - zeros)
    assert found.probability.sum() + found.mass.sum() == pytest.approx(1.0)
    if zeros == 0.5:
        assert found.quantile(0.3) == 0.0


def _grid_table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of a copy of a table that is just what is assumed: an atom, and even cells."""
    rng = np.random.default_rng(seed)
    edges, bins = np.linspace(0, 12, 7), np.linspace(-8, 20, 57)
    cell = rng.choice(6, rows, p=[0.1, 0.3, 0.3, 0.15, 0.1, 0.05])
    X = np.where(rng.random(rows) < 0.3, 0.0, edges[cell] + 2 * rng.random(rows))
    Y = (X + 2.0 * rng.normal(size=rows)).clip(-8, 20)
    return np.histogram(Y, bins)[0].astype(float), bins, edges


@pytest.mark.slow
def test_intervals_of_masses_cover() -> None:
    """At least as often as they say; one that counts zeros as if they showed does not."""
    tables, rows = 200, 3000
    hits, naive = 0, 0
    for seed in range(tables):
        counts, bins, edges = _grid_table(rows, seed)
        found = reconstruct(counts, bins, deviation=2.0, edges=edges, atoms=[0.0])
        [[low, high]] = found.mass_interval
        hits += low <= 0.3 <= high
        naive += abs(found.mass[0] - 0.3) <= 1.96 * math.sqrt(0.3 * 0.7 / rows)
    least = 0.95 - normal_reach(2) * math.sqrt(0.95 * 0.05 / tables)
    assert hits / tables >= least
    assert naive / tables < least


def _parts(rows: int, seed: int) -> Mixture:
    counts, bins, edges = _grid_table(rows, seed)
    A = np.maximum(_kernel(bins, edges, 2.0).T, 1e-300)
    return Mixture(counts[counts > 0], A[counts > 0])


def test_the_greatest_likelihood_is_one() -> None:
    """The gap is a proof: EM, which climbs without end, never passes it by more."""
    parts = _parts(3000, 1)
    assert parts.best.theta.sum() == pytest.approx(1.0)
    assert parts.best.converged
    em = parts.smooth(tolerance=-1.0, most_steps=5000)
    assert em.height - GAP <= parts.best.height <= em.height + GAP


def test_each_step_raises_the_likelihood_towards_the_greatest() -> None:
    parts = _parts(3000, 2)
    found = [parts.smooth(tolerance=0.0, most_steps=steps) for steps in (1, 2, 5, 20, 100, 3000)]
    assert not any(weights.converged for weights in found)
    left = [parts.best.height - weights.height for weights in found]
    assert left == sorted(left, reverse=True)
    assert left[0] > 1.0 > 2 * GAP > left[-1]
    for weights in found:  # the height is that of the weights, by the formula
        f = parts.A @ weights.theta
        assert weights.height == pytest.approx(float(parts.counts @ np.log(f)), abs=1e-6)


def test_the_shortfall_is_what_is_left_to_the_greatest_likelihood() -> None:
    counts, bins, edges = _grid_table(3000, 2)
    found = reconstruct(counts, bins, deviation=2.0, edges=edges)
    fit = found.probability @ _kernel(bins, edges, 2.0)
    left = _parts(3000, 2).best.height - counts @ np.log(fit)
    assert found.converged
    assert found.shortfall == pytest.approx(left, abs=2 * GAP)


def test_more_rows_bring_it_closer() -> None:
    def distance(rows: int) -> float:
        X = _bimodal(rows, 1)
        return _distance(Copy.open(noisy(X, noise=0.25, seed=1), noise=0.25).distribution("0"), X)

    assert distance(400_000) < distance(1000)


def _kernel(bins: np.ndarray, edges: np.ndarray, deviation: float) -> np.ndarray:
    """P(bin | cell) by the midpoint rule, the outermost bins to infinity."""
    inner = [-np.inf, *bins[1:-1], np.inf]
    width = edges[1] - edges[0]
    rows = []
    for left in edges[:-1]:
        points = left + width * (np.arange(20) + 0.5) / 20
        below = [[NormalDist(x, deviation).cdf(b) for b in inner] for x in points]
        rows.append(np.diff(np.mean(below, axis=0)))
    return np.array(rows)


def test_the_kernel_is_the_mean_over_a_cell() -> None:
    bins, edges = np.linspace(-3, 3, 13), np.linspace(-2, 2, 9)
    assert np.allclose(cell_kernel(bins, edges, 0.7), _kernel(bins, edges, 0.7).T, atol=1e-4)


def test_a_kept_column_is_its_histogram() -> None:
    X = _bimodal(10_000, 4)
    said = {"noise": 1.0, "columns": {"0": {"role": "kept"}}}
    found = Copy.open(X, metadata=said).distribution("0")
    cell = np.diff(_shares(X, np.linspace(X.min(), X.max(), len(found.edges)))).max()
    assert _distance(found, X) <= cell


def test_a_column_perturbed_as_log1p_comes_back_on_its_own_scale() -> None:
    rng = np.random.default_rng(5)
    X = rng.lognormal(2.0, 1.0, 50_000)
    Y = np.expm1(noisy(np.log1p(X), noise=1.0, seed=6))
    said = {"noise": 1.0, "columns": {"pay": {"role": "perturbed", "transform": "log1p"}}}
    found = Copy.open(pa.table({"pay": Y}), metadata=said).distribution("pay", support=(0, 1000))
    outer = [0.1, 0.25, 0.75, 0.9]
    truth = np.quantile(X, outer)
    assert (abs(found.quantile(outer) - truth) < abs(np.quantile(Y, outer) - truth)).all()


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
