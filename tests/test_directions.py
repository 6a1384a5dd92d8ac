"""No direction without noise: gaps and nearly dependent columns hide what was promised.

The adversary knows the covariance of the rows and the shape of the noise, and takes the best
linear estimate from one copy: of column j it leaves the share

    hidden_j = 1 - c_j' (C + v S)^-1 c_j / C_jj          (C: of the rows, S: of the noise)
"""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.ledger import Key
from cornerwave.levels import Level
from cornerwave.noise import noise_shape
from tests.conftest import freeze_table

KEY = Key.unsafe_from_seed(10)
PRIVACY = 0.9


def hidden(C, S, noise):
    """The share of each column that stays hidden, at full precision where C is singular."""
    size = np.sqrt(np.diag(C))
    A, B = C / np.outer(size, size), S / np.outer(size, size)
    values, vectors = np.linalg.eigh(A + noise * B)
    kept = values > 1e-15 * values.max()
    whitened = (A @ vectors[:, kept]) / np.sqrt(values[kept])
    return 1 - (whitened**2).sum(axis=1)


def shape_of(frozen):
    return frozen.factor @ frozen.factor.T


def with_gaps(X, share, rng):
    names = [f"c{i}" for i in range(X.shape[1])]
    masks = rng.random(X.shape) < share
    return pa.table({n: pa.array(X[:, i], mask=masks[:, i]) for i, n in enumerate(names)}), ~masks


@pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
@pytest.mark.parametrize("rows", [300, 3000])
@pytest.mark.first(1)
def test_a_total_with_gaps_hides_in_complete_and_incomplete_rows(rows):
    noise = Level.of(privacy=PRIVACY).noise
    worst_complete, worst_any, worst_clipped = 1.0, 1.0, 1.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        a, b = rng.gamma(2, 1, (2, rows))
        X = np.column_stack([a, b, a + b])
        table, present = with_gaps(X, 0.1, rng)
        frozen = freeze_table(table, KEY)
        S = shape_of(frozen)
        complete = np.cov(X[present.all(axis=1)].T)
        worst_complete = min(worst_complete, hidden(complete, S, noise).min())
        population = np.array([[2.0, 0, 2], [0, 2, 2], [2, 2, 4]])
        for seen in ([0, 1, 2], [0, 1], [0, 2], [1, 2], [0], [2]):
            part = np.ix_(seen, seen)
            worst_any = min(worst_any, hidden(population[part], S[part], noise).min())
        worst_clipped = min(
            worst_clipped, hidden(complete, clipped(frozen.covariance), noise).min()
        )
    assert worst_complete > PRIVACY - 1e-9
    # the rows know the population's variance up to sqrt((kurtosis + 2) / rows): 4 of these
    assert worst_any > PRIVACY - 4 * np.sqrt(5 / rows) * PRIVACY * (1 - PRIVACY)
    # the negative control: the indefinite K with its negative eigenvalues cut off
    assert worst_clipped < PRIVACY - 0.05


def clipped(K):
    values, vectors = np.linalg.eigh(K)
    return (vectors * np.maximum(values, 0)) @ vectors.T


@pytest.mark.filterwarnings("ignore::cornerwave.errors.CornerwaveWarning")
@pytest.mark.slow
def test_many_correlated_columns_with_gaps():
    """24 columns of AR(0.95), a fifth missing, 500 rows: hardly a row is complete."""
    noise = Level.of(privacy=0.99).noise
    C = 0.95 ** np.abs(np.subtract.outer(np.arange(24), np.arange(24)))
    L = np.linalg.cholesky(C)
    ours, cut = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        table, _ = with_gaps(rng.normal(size=(500, 24)) @ L.T, 0.2, rng)
        frozen = freeze_table(table, KEY)
        ours.append(hidden(C, shape_of(frozen), noise).min())
        cut.append(hidden(C, clipped(frozen.covariance), noise).min())
    assert min(ours) > 0.97
    assert max(cut) < 0.96


def test_times_that_nearly_coincide_hide_their_difference():
    """Pickup and dropoff over ten years: the trip takes minutes, 1e-11 of the variance."""
    rng = np.random.default_rng(5)
    pickup = np.sort(rng.uniform(0, 3.15e8, 5000)).round()
    seconds = rng.lognormal(6.5, 0.6, 5000).round()
    fare = np.round(3 + 0.002 * seconds + rng.normal(0, 1, 5000), 2)
    table = pa.table({"pickup": pickup, "dropoff": pickup + seconds, "fare": fare})
    X = np.column_stack([pickup, pickup + seconds, fare])
    frozen = freeze_table(table, KEY, keep_order=True)
    noise = Level.of(privacy=0.99).noise
    S = shape_of(frozen)
    # the difference is a linear function of the copy: its noise against its variance
    step = np.array([-1.0, 1.0, 0.0])
    assert step @ S @ step > 0.95 * np.var(seconds)
    assert (hidden(np.cov(X.T), S, noise) > 0.99 - 1e-6).all()


def test_an_exact_sum_is_still_recognised():
    rng = np.random.default_rng(6)
    a, b = rng.normal(1e6, 1e3, (2, 4000)).round(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frozen = freeze_table(pa.table({"a": a, "b": b, "total": a + b}), KEY)
    assert any("total: a linear function" in str(w.message) for w in caught)
    assert frozen.factor[2, 2] == 0


def test_without_gaps_the_shape_is_the_covariance():
    rng = np.random.default_rng(7)
    K = np.cov(rng.normal(size=(100, 4)).T)
    assert np.allclose(noise_shape(K), K, rtol=1e-12)
    frozen = freeze_table(pa.table({f"c{i}": rng.normal(size=50) for i in range(3)}), KEY)
    assert not frozen.excess.any()
