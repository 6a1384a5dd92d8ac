import numpy as np
import pytest
from cornerwave_reproduction import SCHEMES, Ours, PerColumn

from cornerwave.algorithms import corner_wave, parallel
from cornerwave.errors import LevelError
from cornerwave.moments import Moments
from cornerwave.noise import grid_of

from .tables import gaussian

NOISE = [2.0, 0.5, 1.0]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_noise_has_the_covariance_that_the_scheme_states(scheme) -> None:
    ROWS = 20_000
    X = gaussian(ROWS, np.random.default_rng(1))
    copies = scheme.copies(X, noise=NOISE, unsafe_seed=2)
    known = scheme.known(X, noise=NOISE)
    cells = np.hstack([copy - X for copy in copies])
    stated = np.kron(known.across, known.noise_shape)
    size = np.sqrt(np.diag(stated))
    # An entry of a sample correlation errs by at most sqrt(2 / T); seven of these is never.
    near = 7 * np.sqrt(2 / ROWS)
    np.testing.assert_allclose(
        np.cov(cells.T) / np.outer(size, size), stated / np.outer(size, size), atol=near
    )
    assert (np.abs(cells.mean(axis=0)) < 7 * size / np.sqrt(ROWS)).all()


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_a_seed_decides_the_copies(scheme) -> None:
    X = gaussian(50, np.random.default_rng(1))
    first, again, other = (scheme.copies(X, noise=NOISE, unsafe_seed=s) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_a_level_that_cannot_be_is_refused(scheme) -> None:
    with pytest.raises(LevelError):
        scheme.across([1.0, -1.0])


def test_ours_is_the_library_on_a_grid() -> None:
    X = gaussian(200, np.random.default_rng(1))
    moments = Moments.of(X)
    grid = grid_of(deviation=moments.deviation, largest=moments.largest)
    for copy, raw in zip(
        Ours().copies(X, noise=NOISE, unsafe_seed=3),
        parallel(X, noise=NOISE, unsafe_seed=3),
        strict=True,
    ):
        assert np.array_equal(np.round(copy / grid), copy / grid)
        assert (np.abs(copy - raw) <= grid).all()


def test_per_column_noise_is_a_corner_wave_of_diagonal_shape() -> None:
    assert np.array_equal(PerColumn().across(NOISE), corner_wave(NOISE))
    assert PerColumn().shape(np.array([[4.0, 1.0], [1.0, 9.0]])).tolist() == [
        [4.0, 0.0],
        [0.0, 9.0],
    ]
