import numpy as np
import pytest
from cornerwave_reproduction import Independent, Ours, Scaled

from cornerwave.attack import (
    PAPER_SAMPLES,
    Knowledge,
    combination,
    error,
    gain,
    sample_rows,
    sample_size,
)
from cornerwave.moments import Moments

NOISE = [0.5, 1.0, 2.0]
ALPHA = 1e-6


def partial(sample: list[np.ndarray], *, across: np.ndarray) -> Knowledge:
    """What can be learned from the same n rows of each copy: they are worth one copy at noise t,
    with mean mu and covariance (1 + t) K."""
    worth = combination(across)
    moments = Moments.of(worth.of(sample))
    return Knowledge(moments.mean, moments.covariance / (1 + worth.noise), across)


def _table() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((20_000, 2)) @ [[2.0, 1.0], [0.0, 3.0]] + 7


@pytest.mark.parametrize("per_entry", PAPER_SAMPLES)
def test_partial_knowledge_comes_close_to_perfect(per_entry: int) -> None:
    X = _table()
    rows = sample_rows(len(X), size=sample_size(2, per_entry=per_entry), unsafe_seed=2)
    for scheme in (Ours(), Independent()):
        copies = scheme.copies(X, noise=NOISE, unsafe_seed=3)
        perfect = scheme.known(X, noise=NOISE)
        measured = partial([Y[rows] for Y in copies], across=perfect.across)
        # The mean of n rows errs by about sqrt((1 + t) K / n); six of these is never.
        spread = np.sqrt((1 + perfect.worth.noise) * np.diag(perfect.covariance) / len(rows))
        assert (np.abs(measured.mean - perfect.mean) < 6 * spread).all()
        relative = np.diag(measured.covariance) / np.diag(perfect.covariance)
        assert (np.abs(relative - 1) < 6 * np.sqrt(2 / len(rows))).all()
        best = error(X, perfect.llse.estimate(copies)).value
        # With a mean that errs by m, the error grows by ((1 - w'1) m)^2.
        assert error(X, measured.llse.estimate(copies)).value < best + 36 * 1.5 / len(rows)


def test_partial_knowledge_gains_nothing_from_our_other_copies() -> None:
    X = _table()
    rows = sample_rows(len(X), size=400, unsafe_seed=2)

    def measured(scheme) -> bool:
        copies = scheme.copies(X, noise=NOISE, unsafe_seed=3)
        across = scheme.across(NOISE)
        single = partial([copies[0][rows]], across=across[:1, :1])
        joint = partial([Y[rows] for Y in copies], across=across)
        return gain(
            X,
            alone=single.llse.estimate(copies[:1]),
            together=joint.llse.estimate(copies),
            confidence=1 - ALPHA,
        ).above_zero

    assert not measured(Ours())
    assert measured(Independent())
    assert measured(Scaled())


def test_a_sample_of_all_rows_is_all_rows() -> None:
    assert sample_rows(5, size=9, unsafe_seed=1).tolist() == [0, 1, 2, 3, 4]
