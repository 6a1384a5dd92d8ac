import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.algorithms import on_demand, parallel, sequential
from cornerwave.errors import LevelError, SingularCovariance, SourceError
from tests import twins
from tests.scores import worst_correlation_score, worst_covariance_score

K = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.1], [-0.3, 0.1, 0.5]])
ROWS = 100_000
ODD = np.random.default_rng(3).standard_normal(400)
"""Values that are not on any grid."""


@pytest.fixture(scope="module", name="X")
def table():
    """A table that is not Gaussian at all; the noise must be, whatever X is."""
    rng = np.random.default_rng(0)
    return rng.exponential(size=(ROWS, 3)) @ np.linalg.cholesky(K).T


def by_parallel(X, noise, **options):
    return parallel(X, noise=noise, **options)


def by_sequential(X, noise, **options):
    ascending = sorted(noise)
    copies = dict(zip(ascending, sequential(X, noise=ascending, **options), strict=True))
    return [copies[level] for level in noise]


def by_on_demand(X, noise, **options):
    """One after the other in the order given, each given all before."""
    given = {}
    for level in noise:
        [given[level]] = on_demand(X, noise=[level], given=given, **options)
    return list(given.values())


def by_on_demand_between(X, noise, **options):
    """Two copies in one batch, then all the others in one batch given these."""
    first = noise[:2]
    given = dict(zip(first, parallel(X, noise=first, **options), strict=True))
    return on_demand(X, noise=noise, given=given, **options)


SCHEMES = [by_parallel, by_sequential, by_on_demand, by_on_demand_between]
ORDERS = [[0.5, 1.0, 4.0], [4.0, 0.5, 2.0, 1.0], [1.0, 2.0, 0.25, 9.0]]


def noise_of_copies(X, copies):
    """Samples (T, M N) of the noise of all copies."""
    return np.concatenate([copy - X for copy in copies], axis=1)


@pytest.mark.parametrize("noise", ORDERS, ids=str)
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.__name__)
def test_noise_has_covariance_sigma_kron_k_and_ignores_x(X, scheme, noise):
    Z = noise_of_copies(X, scheme(X, noise, covariance=K))
    law = np.kron(twins.corner_wave_matrix(noise), K)
    assert worst_covariance_score(Z, law) < 1
    assert worst_correlation_score(X, Z) < 1
    assert worst_correlation_score(X**2, Z**2) < 1

    alone = [parallel(X, noise=[level], covariance=K)[0] for level in noise]
    assert worst_covariance_score(noise_of_copies(X, alone), law) > 1


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.__name__)
def test_increments_are_independent(X, scheme):
    noise = [1.0, 4.0, 2.0]
    copies = scheme(X, noise, covariance=K)
    for (u, less), (v, more) in itertools.permutations(zip(noise, copies, strict=True), 2):
        if u < v:
            assert worst_correlation_score(more - less, less) < 1  # of Y(u), so of X and W(u)
            assert worst_correlation_score((more - less) ** 2, (less - X) ** 2) < 1
            assert worst_covariance_score(more - less, (v - u) * K) < 1
    one, other = (parallel(X, noise=[level], covariance=K)[0] for level in (1.0, 4.0))
    assert worst_correlation_score(other - one, one - X) > 1


def test_a_coalition_gains_nothing_by_sample(X):
    """Least squares of X on all copies: ours stands at the best one's error, independent falls."""
    noise = [1.0, 4.0, 2.0]
    sample = np.cov(X.T)

    def error(copies):
        Y = np.concatenate(copies, axis=1) - np.tile(X.mean(axis=0), len(copies))
        centred = X - X.mean(axis=0)
        weights = np.linalg.lstsq(Y, centred, rcond=None)[0]
        return np.trace(np.cov((centred - Y @ weights).T)) / np.trace(sample)

    ours = error(parallel(X, noise=noise))
    alone = [parallel(X, noise=[level])[0] for level in noise]
    assert ours == pytest.approx(0.5, abs=0.01)
    assert error(alone) == pytest.approx(1 / (1 + 1 + 0.25 + 0.5), abs=0.01)


@given(st.lists(st.integers(1, 5000), min_size=2, max_size=6, unique=True), st.data())
@settings(deadline=None, max_examples=30)
def test_on_demand_is_algorithm_3_exactly(hundredths, data):
    """A copy given others is linear in them: read its coefficients off, and compare."""
    noise = [level / 100 for level in hundredths]
    split = data.draw(st.integers(1, len(noise) - 1))
    existing, new = noise[:split], noise[split]
    mean, variance = twins.algorithm_3(existing, [new])

    X = np.zeros(split + 2)
    probes = np.concatenate([np.zeros((1, split)), np.eye(split), np.ones((1, split))]).T
    given = dict(zip(existing, probes, strict=True))
    options = {"covariance": 1.0, "unsafe_seed": 3}
    [drawn] = on_demand(X, noise=[new], given=given, **options)
    zeros = {level: np.zeros(split + 2) for level in existing}
    [fresh] = on_demand(X, noise=[new], given=zeros, **options)
    step = 2.0**-24  # each copy lies on the grid of a deviation of 1
    assert np.allclose(drawn - fresh, mean[0] @ probes, atol=2 * step)

    [unit] = parallel(X, noise=[new], **options)  # sqrt(new) times the same white noise
    assert np.allclose(fresh, unit * np.sqrt(variance[0, 0] / new), atol=2 * step)


@given(
    st.integers(1, 5),
    st.integers(2, 300),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6, unique=True).map(sorted),
    st.integers(0, 2**70),
)
@settings(deadline=None, max_examples=30)
def test_parallel_and_sequential_agree_bit_for_bit(columns, rows, noise, seed):
    X = np.random.default_rng(1).standard_normal((rows, columns)) * 3 + 1
    options = {"noise": noise, "covariance": np.eye(columns), "unsafe_seed": seed}
    for one, other in zip(parallel(X, **options), sequential(X, **options), strict=True):
        assert np.array_equal(one, other)


def test_a_seed_is_one_path_and_no_seed_is_another_each_time():
    X = np.arange(10.0)
    assert np.array_equal(*(parallel(X, noise=[1.0], unsafe_seed=5) for _ in range(2)))
    for scheme in SCHEMES[:3]:
        one, other = (scheme(X, [1.0])[0] for _ in range(2))
        assert not np.any(one == other)
    assert not np.any(
        parallel(X, noise=[1.0], unsafe_seed=5)[0] == parallel(X, noise=[1.0], unsafe_seed=6)[0]
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("cells", [1, 50, 1 << 20])
@pytest.mark.parametrize("cache", [0, 1 << 25])
def test_the_same_for_any_threads_blocks_and_cache(at_a_time, threads, cells, cache):
    X = np.random.default_rng(2).standard_normal((101, 5))
    options = {"unsafe_seed": 9}
    once = parallel(X, noise=[2.0, 0.5], threads=1, **options)
    between = on_demand(
        X, noise=[1.0, 3.0], given={2.0: once[0], 0.5: once[1]}, threads=1, **options
    )
    at_a_time(BLOCK_CELLS=cells, BLOCK_ROWS=1, CACHE_BYTES=cache, LEARNED_ROWS=max(cells, 7))
    again = parallel(X, noise=[2.0, 0.5], threads=threads, **options)
    more = on_demand(
        X, noise=[1.0, 3.0], given={2.0: once[0], 0.5: once[1]}, threads=threads, **options
    )
    assert np.array_equal(once, again)
    assert np.array_equal(between, more)


@pytest.mark.parametrize("X", [ODD, ODD[:, None], np.asfortranarray(ODD.reshape(-1, 4))])
def test_the_table_is_left_as_it_is(X):
    """Columns that lie one after another need no copy to be read, but one to be rounded."""
    before = X.copy()
    X.flags.writeable = False
    for scheme in SCHEMES:
        scheme(X, [2.0, 1.0])
    assert np.array_equal(X, before)


def test_one_column_without_a_second_dimension():
    x = np.array([1.0, 5.0, 2.0, 8.0])
    for scheme in SCHEMES:
        flat = scheme(x, [2.0, 1.0, 3.0], unsafe_seed=1)
        wide = scheme(x[:, None], [2.0, 1.0, 3.0], unsafe_seed=1)
        for one, other in zip(flat, wide, strict=True):
            assert one.shape == (4,)
            assert np.array_equal(one, other[:, 0])


def test_lists_and_views_and_integers_are_tables_too():
    X = np.arange(24.0).reshape(8, 3) % 5
    [expected] = parallel(X, noise=[1.0], covariance=K, unsafe_seed=1)
    for same in (X.tolist(), np.asfortranarray(X), X.astype(int), np.repeat(X, 2, axis=0)[::2]):
        assert np.array_equal(parallel(same, noise=[1.0], covariance=K, unsafe_seed=1)[0], expected)


def test_a_level_asked_for_twice_is_one_copy():
    X = np.arange(6.0)
    one, other, again = parallel(X, noise=[1.0, 2.0, 1])
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    first, second, old = on_demand(X, noise=[3.0, 3.0, 1.0], given={1: one})
    assert np.array_equal(first, second)
    assert np.array_equal(old, one)


def test_a_copy_depends_on_the_path_not_on_the_order_of_asking():
    X = np.arange(6.0)
    up = parallel(X, noise=[1.0, 2.0, 3.0], unsafe_seed=1)
    down = parallel(X, noise=[3.0, 2.0, 1.0], unsafe_seed=1)
    assert np.array_equal(up, down[::-1])


def test_nothing_asked_nothing_made():
    assert parallel([1.0, 2.0], noise=[]) == []
    assert list(sequential([1.0, 2.0], noise=[])) == []
    assert on_demand([1.0, 2.0], noise=[], given={1.0: [1.0, 2.0]}) == []


def test_what_is_yielded_cannot_be_changed():
    X = np.arange(6.0)
    copies = sequential(X, noise=[1.0, 2.0], unsafe_seed=1)
    first = next(copies)
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0
    assert np.array_equal(next(copies), parallel(X, noise=[1.0, 2.0], unsafe_seed=1)[1])


def test_inputs_are_left_alone():
    X = np.arange(12.0).reshape(6, 2)
    before = X.copy()
    copies = parallel(X, noise=[1.0], covariance=np.eye(2))
    kept = copies[0].copy()
    on_demand(X, noise=[0.5, 2.0], given={1.0: copies[0]}, covariance=np.eye(2))
    assert np.array_equal(X, before)
    assert np.array_equal(copies[0], kept)


def test_a_singular_table_warns_and_keeps_its_shape():
    a = np.random.default_rng(3).standard_normal(500)
    X = np.column_stack([a, np.full(500, 2.0), -3 * a])
    with pytest.warns(SingularCovariance) as caught:
        [copy] = parallel(X, noise=[1.0])
    assert len(caught) == 2
    noise = copy - X
    assert (noise[:, 1] == 0).all()
    assert np.allclose(noise[:, 2], -3 * noise[:, 0], atol=2.0**-20)
    assert noise[:, 0].std() > 0.5


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "shape"),
        (3.0, "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((0, 2)), "shape"),
        ([1.0, np.nan], "infinite or missing"),
        ([1.0, np.inf], "infinite or missing"),
        ([1.0], "at least 2 rows"),
    ],
)
def test_tables_that_cannot_be_perturbed(X, message):
    for scheme in SCHEMES[:3]:
        with pytest.raises(SourceError, match=message):
            scheme(X, [1.0])


@pytest.mark.parametrize("level", [0, -1.0, np.nan, np.inf])
def test_levels_that_cannot_be(level):
    with pytest.raises(LevelError):
        parallel([1.0, 2.0], noise=[level])
    with pytest.raises(LevelError):
        sequential([1.0, 2.0], noise=[level])
    with pytest.raises(LevelError):
        on_demand([1.0, 2.0], noise=[level])
    with pytest.raises(LevelError):
        on_demand([1.0, 2.0], noise=[1.0], given={level: [1.0, 2.0]})


@pytest.mark.parametrize("noise", [[2.0, 1.0], [1.0, 1.0]])
def test_sequential_ascends_and_says_so_at_once(noise):
    with pytest.raises(LevelError, match="ascending"):
        sequential([1.0, 2.0], noise=noise)


def test_shapes_must_fit():
    X = np.zeros((4, 2)) + np.arange(4)[:, None]
    with pytest.raises(SourceError, match="columns"):
        parallel(X, noise=[1.0], covariance=np.eye(3))
    with pytest.raises(SourceError, match="shape"):
        on_demand(X, noise=[1.0], given={2.0: np.zeros((4, 3))}, covariance=np.eye(2))
    [copy] = parallel([[1.0, 2.0]], noise=[1.0], covariance=np.eye(2))
    assert copy.shape == (1, 2)


def test_copies_lie_on_a_grid_whatever_made_them():
    """Low bits tell nothing: any candidate on the grid explains a copy as well as any other."""
    X = np.random.default_rng(3).choice([0.1, 0.7, 3.3], size=(400, 1))
    step = 2.0 ** (np.floor(np.log2(X.std(ddof=1))) - 24)
    low, high = parallel(X, noise=[0.5, 2.0])
    [between] = on_demand(X, noise=[1.0], given={0.5: low, 2.0: high})
    for copy in (low, high, between, *sequential(X, noise=[0.3, 0.4])):
        assert np.array_equal(copy / step, np.rint(copy / step))
    # the negative control: the low bits of plain noise tell the candidates apart
    plain = X + np.random.default_rng(4).standard_normal(X.shape)
    assert not np.array_equal(plain / step, np.rint(plain / step))
