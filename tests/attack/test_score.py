import numpy as np
import pytest

from cornerwave.attack import Measured, column_errors, error, gain
from cornerwave.errors import SourceError


def test_each_column_counts_in_its_own_units() -> None:
    X = np.random.default_rng(1).standard_normal((1000, 2)) * [1.0, 1e6]
    wrong = X + X.std(axis=0, ddof=1) * [0.1, 0.2]
    first, second = column_errors(X, wrong)
    assert first.value == pytest.approx(0.01)
    assert second.value == pytest.approx(0.04)
    assert error(X, wrong).value == pytest.approx(0.025)


def test_a_gain_pairs_rows() -> None:
    rng = np.random.default_rng(2)
    X, shared = rng.standard_normal((2, 5000, 1))
    better = X + shared
    found = gain(X, alone=X + 1.01 * shared, together=better)
    assert found.above_zero
    assert found.margin < error(X, better).margin / 10
    assert gain(X, alone=better, together=better) == Measured(0.0, 0.0)


def test_the_interval_covers_as_often_as_it_says() -> None:
    ALPHA, CONFIDENCE, TRIALS = 1e-6, 0.9, 2000
    rng = np.random.default_rng(3)
    X = np.zeros((400, 1))
    covered = 0
    for _ in range(TRIALS):
        measured = error(X, rng.standard_normal(X.shape), variance=[1.0], confidence=CONFIDENCE)
        covered += measured.low <= 1.0 <= measured.high
    # Hoeffding; and 0.01 for squares of normals, that are not quite normal at 400.
    near = np.sqrt(np.log(2 / ALPHA) / (2 * TRIALS)) + 0.01
    assert abs(covered / TRIALS - CONFIDENCE) < near


def test_shapes_must_agree() -> None:
    with pytest.raises(SourceError, match="shape"):
        error(np.ones((3, 1)), np.ones((2, 1)))
