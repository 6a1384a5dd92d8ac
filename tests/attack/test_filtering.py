import numpy as np
import pytest
from cornerwave_reproduction import Ours, PerColumn

from cornerwave.attack import Llse, bayes, error, gain, pca, spectral
from cornerwave.errors import SourceError

ALPHA = 1e-6
FILTERS = [spectral, pca, bayes]
NOISE = 1.0


def _correlated(rows: int, seed: int) -> np.ndarray:
    """Eight columns that follow two hidden ones, in units far apart."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((rows, 2)) @ rng.standard_normal((2, 8))
    unlike = 10.0 ** np.arange(-2, 6)
    return (hidden + 0.05 * rng.standard_normal((rows, 8))) * unlike + 3 * unlike


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("attack", FILTERS, ids=lambda attack: attack.__name__)
def test_beats_per_column_noise_and_not_ours(attack, seed: int) -> None:
    X = _correlated(3000, seed)
    confidence = 1 - ALPHA / (3 * 2 * len(FILTERS))

    def measured(scheme):
        [copy] = scheme.copies(X, noise=[NOISE], unsafe_seed=seed)
        known = scheme.known(X, noise=[NOISE])
        promised = Llse.of(known.mean, known.covariance, across=[[NOISE]]).estimate([copy])
        filtered = attack(copy, variance=NOISE * np.diag(known.covariance))
        return gain(X, alone=promised, together=filtered, confidence=confidence)

    assert measured(PerColumn()).above_zero
    assert measured(Ours()).high < 0


def test_bayes_comes_close_to_the_linear_optimum_under_white_noise() -> None:
    X = _correlated(3000, 7)
    [copy] = PerColumn().copies(X, noise=[NOISE], unsafe_seed=1)
    known = PerColumn().known(X, noise=[NOISE])
    best = error(X, known.llse.estimate([copy])).value
    found = error(X, bayes(copy, variance=np.diag(known.covariance))).value
    # It estimates N (N + 1) / 2 entries of K from T rows.
    assert best <= found < best + 36 / 3000 * 6


def test_on_white_data_spectral_keeps_what_noise_cannot_explain() -> None:
    rng = np.random.default_rng(1)
    axis = np.outer(rng.standard_normal(2000) * 9, [1.0, 1.0]) / np.sqrt(2)
    kept = spectral(axis + rng.standard_normal((2000, 2)), variance=[1.0, 1.0])
    across = kept @ [1.0, -1.0]
    assert across.var() < 0.1 * kept.var()


@pytest.mark.parametrize("variance", [[1.0], [1.0, 0.0]])
@pytest.mark.parametrize("attack", FILTERS)
def test_needs_the_noise_of_each_column(attack, variance) -> None:
    with pytest.raises(SourceError, match="variance of each column"):
        attack(np.ones((5, 2)), variance=variance)
