"""Gains: which sets are attacked, and errors that equal those of the plain formula."""

import numpy as np
import pytest

from cornerwave.audit import ALPHA
from cornerwave.audit._coalitions import coalitions, hidden, measure_gains
from cornerwave.audit._sums import Statistics
from tests.audit.releases import gaussian, independent, ours


def statistics(X: np.ndarray, copies: list[np.ndarray]) -> Statistics:
    return Statistics.of([part.T.copy() for part in (X, *copies)])


def test_every_subset_up_to_twelve_copies_then_pairs_and_the_whole() -> None:
    assert len(coalitions(12)) == 2**12 - 13
    assert len(coalitions(13)) == 13 * 12 // 2 + 1
    assert coalitions(1) == []


def test_what_is_hidden_equals_the_residual_of_least_squares() -> None:
    X = gaussian(2000)
    copies = independent(X, [0.5, 2.0])
    found = hidden(statistics(X, copies), [(0, 1)])[0]
    design = np.column_stack([np.ones(len(X)), *copies])
    residual = X - design @ np.linalg.lstsq(design, X, rcond=None)[0]
    assert np.allclose(found, residual.var(axis=0) / X.var(axis=0, ddof=1), rtol=1e-6)


def test_cross_fitted_errors_equal_a_naive_loop_over_groups() -> None:
    X = gaussian(600)
    copies = independent(X, [0.5, 2.0])
    found = statistics(X, copies)
    [gain] = measure_gains(found, ALPHA)[0]
    groups, run = found.sums.shape[0], max(600 // (8 * found.sums.shape[0]), 1)
    member = (np.arange(600) // run) % groups
    design = np.column_stack([np.ones(len(X)), *copies])
    errors = []
    for g in range(groups):
        fit, test = member != g, member == g
        weights = np.linalg.lstsq(design[fit], X[fit], rcond=None)[0]
        errors.append(((X[test] - design[test] @ weights) ** 2).mean(axis=0))
    naive = np.average(errors, axis=0, weights=np.bincount(member)) / X.var(axis=0, ddof=1)
    assert np.allclose(gain.together, naive, rtol=1e-6)


def test_eight_copies_give_pairs_the_whole_and_the_worst_their_intervals() -> None:
    X = gaussian(3000)
    noise = np.linspace(0.5, 4, 8)
    gains, sets = measure_gains(statistics(X, ours(X, list(noise))), ALPHA)
    assert sets == 2**8 - 9
    assert {g.members for g in gains} > set(coalitions(2)) | {tuple(range(8))}
    assert not any(g.gains for g in gains)
    gains, _ = measure_gains(statistics(X, independent(X, list(noise))), ALPHA)
    assert all(g.gains for g in gains if len(g.members) > 2)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_units_do_not_matter(scale: float) -> None:
    X = gaussian(2000) * np.array([scale, 1.0, 1.0])
    copies = ours(X, [1.0, 2.0])
    [gain] = measure_gains(statistics(X, copies), ALPHA)[0]
    assert np.allclose(gain.alone, 0.5, atol=0.05)
    assert not gain.gains


def test_missing_values_leave_the_shares_as_they_are() -> None:
    """Half of the rows incomplete, or whole stretches of them: alone is what singles say."""
    X = gaussian(20_000)
    copies = ours(X, [0.25, 1.0])
    for holes in (np.random.default_rng(1).random(len(X)) < 0.5, np.arange(len(X)) % 1000 < 700):
        X = np.where(holes[:, None] & (np.arange(3) == 1), np.nan, X)
        found = statistics(X, copies)
        [gain] = measure_gains(found, ALPHA)[0]
        alone, together = (found.variance * part for part in (gain.alone, gain.together))
        # cross-fitting costs about (weights + 1) / rows of the error
        assert np.allclose(alone, found.variance * hidden(found, [(0,)])[0], rtol=0.01)
        assert np.allclose(together, found.variance * hidden(found, [(0, 1)])[0], rtol=0.01)
        assert gain.alone.min() > 0.15
