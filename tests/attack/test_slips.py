"""Each small attack with the scheme that falls to it, and ours beside it."""

import numpy as np
import pytest
from cornerwave_reproduction import (
    Independent,
    Ours,
    Scaled,
    SinglePrecision,
    average,
    read_float_bits,
    solve_scaled,
    undo_resort,
)

from cornerwave.attack import error, gain
from cornerwave.errors import SourceError

from .tables import skewed

ALPHA = 1e-6
ROWS = 4000
# No mean of ROWS squared normals is off by a third: that is 15 of its deviations.
NEAR = 1 / 3


def _noise_left(X: np.ndarray, estimate: np.ndarray) -> float:
    return error(X, estimate).value


def test_repeats_average_fresh_noise_away_and_not_ours() -> None:
    X = np.random.default_rng(1).standard_normal((ROWS, 2))
    asked = [1.0] * 16
    fresh = average(Independent().copies(X, noise=asked, unsafe_seed=1))
    again = Ours().copies(X, noise=asked, unsafe_seed=1)
    assert _noise_left(X, fresh) == pytest.approx(1 / 16, rel=NEAR)
    assert all(np.array_equal(copy, again[0]) for copy in again)
    assert _noise_left(X, average(again)) == pytest.approx(1.0, rel=NEAR)


def test_two_scaled_copies_give_the_table_and_two_of_ours_do_not() -> None:
    X = skewed(ROWS, np.random.default_rng(2))
    noise = (0.5, 2.0)
    scaled = solve_scaled(*Scaled().copies(X, noise=noise, unsafe_seed=1), noise=noise)
    ours = solve_scaled(*Ours().copies(X, noise=noise, unsafe_seed=1), noise=noise)
    assert _noise_left(X, scaled) < 1e-20
    # a = (2, -1) on the corner wave: 4 * 0.5 - 4 * 0.5 + 2 = 2
    assert _noise_left(X, ours) == pytest.approx(2.0, rel=NEAR)
    with pytest.raises(SourceError, match="same noise"):
        solve_scaled(X, X, noise=(1.0, 1.0))


def test_an_inserted_row_gives_the_table_where_noise_goes_by_position() -> None:
    X = skewed(ROWS, np.random.default_rng(3))
    shifted = np.roll(np.arange(ROWS), 1)  # a row moved to the top shifts all others

    def left(scheme) -> float:
        [before] = scheme.copies(X, noise=[1.0], unsafe_seed=1)
        [after] = scheme.resorted(X, order=shifted, noise=[1.0], unsafe_seed=1)
        return _noise_left(X, undo_resort(before, after, order=shifted, mean=X.mean(axis=0)))

    assert left(Scaled()) < 1e-12
    assert left(Ours()) > 0.5


def test_a_sorted_source_gives_most_of_the_table() -> None:
    X = skewed(ROWS, np.random.default_rng(4))
    order = np.random.default_rng(5).permutation(ROWS)

    def left(scheme) -> float:
        [before] = scheme.copies(X, noise=[1.0], unsafe_seed=1)
        [after] = scheme.resorted(X, order=order, noise=[1.0], unsafe_seed=1)
        return _noise_left(X, undo_resort(before, after, order=order, mean=X.mean(axis=0)))

    # A cycle of n rows misses its own mean, 1/n of the variance per row: the number of
    # cycles, about ln T, over T.
    assert left(Scaled()) < 60 / ROWS
    assert left(Ours()) > 0.5


def _read(scheme, X: np.ndarray, precision: type) -> tuple[float, float]:
    """The error with the bits read, and unread, knowing which values X takes."""
    values, counts = np.unique(X, return_counts=True)
    [copy] = scheme.copies(X, noise=[0.5], unsafe_seed=1)
    law = {"candidates": values, "counts": counts, "variance": 0.5 * X.var(ddof=1)}
    read, unread = (
        read_float_bits(copy[:, 0], **law, precision=kind)[:, None] for kind in (precision, None)
    )
    return _noise_left(X, read), _noise_left(X, unread)


def test_bits_of_single_precision_noise_tell_the_value() -> None:
    X = np.random.default_rng(6).standard_normal((1000, 1))
    read, unread = _read(SinglePrecision(), X, np.float32)
    assert read < 1e-3 * unread
    read, unread = _read(Ours(), X, np.float32)
    assert read > unread - 1e-3


def test_bits_of_single_precision_noise_tell_most_of_a_wage() -> None:
    X = skewed(1000, np.random.default_rng(6))[:, 1:]
    read, unread = _read(SinglePrecision(), X, np.float32)
    assert read < 0.7 * unread
    read, unread = _read(Ours(), X, np.float32)
    assert read > unread - 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_bits_of_double_precision_noise_tell_integers_apart(seed: int) -> None:
    """Near 0 doubles are finer than noise of the size of 1 can be: such a cell was a 0.

    Which cells these are hangs on the last bits of K, and so on the processor; how many
    does not. The gain is ten times its interval at ALPHA.
    """
    X = np.random.default_rng(seed).integers(0, 2, (20_000, 1)).astype(np.float64)
    values, counts = np.unique(X, return_counts=True)
    law = {"candidates": values, "counts": counts, "variance": 4.0 * X.var(ddof=1)}

    def estimates(scheme) -> list[np.ndarray]:
        [copy] = scheme.copies(X, noise=[4.0], unsafe_seed=seed)
        kinds = (np.float64, None)
        return [read_float_bits(copy[:, 0], **law, precision=kind)[:, None] for kind in kinds]

    read, unread = estimates(Independent())
    assert gain(X, alone=unread, together=read, confidence=1 - ALPHA).above_zero
    read, unread = estimates(Ours())
    assert np.array_equal(read, unread)
