"""The twister's algebra against NumPy's own; then the attack and its control."""

import numpy as np
import pytest
from cornerwave_reproduction import MersenneTwister, Ours, strip_twister
from cornerwave_reproduction._twister import STATE_BITS, equations, normals, seeded, solve

from .tables import skewed


@pytest.mark.slow
def test_equations_are_what_numpys_twister_computes() -> None:
    state = np.random.default_rng(1).integers(0, 2**32, 624, dtype=np.uint32)
    bit_generator = seeded(state).bit_generator
    outputs = bit_generator.random_raw(2000)
    places = np.array([0, 1, 226, 227, 623, 624, 1246, 1999])
    rows = equations(places, top_bits=np.full(len(places), 32))
    bits = np.unpackbits(state.astype("<u4").view(np.uint8), bitorder="little")
    packed = np.packbits(bits, bitorder="little").view("<u8")
    sums = np.bitwise_count(rows[:, :-1] & packed).sum(axis=1) % 2
    expected = outputs[places].astype(np.int64)[:, None] >> np.arange(31, -1, -1) & 1
    np.testing.assert_array_equal(sums, expected.ravel())


def test_solve_finds_a_small_system_and_a_contradiction() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 2**64, (300, STATE_BITS // 64 + 1), dtype=np.uint64)
    rows[:, 3:] = 0  # 192 unknowns
    truth = rng.integers(0, 2**64, 3, dtype=np.uint64)
    values = np.bitwise_count(rows[:, :3] & truth).sum(axis=1) % 2
    state = solve(rows.copy(), values, unknowns=192)
    assert state is not None
    np.testing.assert_array_equal(state[:6].view("<u8"), truth)
    assert solve(rows.copy(), values) is None  # too few for a whole state
    values[299] ^= 1
    assert solve(rows.copy(), values, unknowns=192) is None


@pytest.mark.slow
def test_leaked_rows_strip_a_mersenne_twister_and_not_ours() -> None:
    X = skewed(3000, np.random.default_rng(3))
    leaked = np.arange(1000, 1400)
    leak = {"covariance": np.cov(X.T), "leaked": leaked, "truth": X[leaked]}

    def stripped(scheme):
        copies = scheme.copies(X, noise=[2.0, 0.5], unsafe_seed=20261115)
        return strip_twister(copies[1], noise=0.5, **leak)

    found = stripped(MersenneTwister())
    assert found is not None
    np.testing.assert_allclose(found, X, rtol=0, atol=1e-7)
    assert stripped(Ours()) is None


@pytest.mark.slow
def test_too_few_leaked_rows_reveal_nothing() -> None:
    X = np.random.default_rng(5).standard_normal((500, 2))
    [copy] = MersenneTwister().copies(X, noise=[1.0], unsafe_seed=1)
    known = np.arange(100)
    leak = {"covariance": np.cov(X.T), "leaked": known, "truth": X[known]}
    assert strip_twister(copy, noise=1.0, **leak) is None


def test_normals_never_overflow() -> None:
    assert np.isfinite(normals(np.array([0.0, 2.0**-53, 1 - 2.0**-53]))).all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_any_seed_is_recovered(seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((2000, 3)) @ np.diag([1.0, 1e3, 1e-3]) + 5
    # The last column is small beside its mean: its doubles hide bits, so more rows are needed.
    leaked = np.arange(100 * seed, 100 * seed + 400)
    [copy] = MersenneTwister().copies(X, noise=[1.0], unsafe_seed=seed)
    leak = {"covariance": np.cov(X.T), "leaked": leaked, "truth": X[leaked]}
    found = strip_twister(copy, noise=1.0, **leak)
    assert found is not None
    np.testing.assert_allclose(found, X, atol=1e-6)


@pytest.mark.slow
def test_scattered_rows_will_do() -> None:
    X = np.random.default_rng(8).standard_normal((3000, 2))
    leaked = np.sort(np.random.default_rng(9).choice(3000, 700, replace=False))
    [copy] = MersenneTwister().copies(X, noise=[1.0], unsafe_seed=1)
    leak = {"covariance": np.cov(X.T), "leaked": leaked, "truth": X[leaked]}
    assert strip_twister(copy, noise=1.0, **leak) is not None
