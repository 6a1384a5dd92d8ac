"""Records that stand out in a copy: far out in a column, or odd in combination."""

import numpy as np

from cornerwave.audit import audit, count_exposed
from cornerwave.audit._chance import chi_square_limit
from cornerwave.moments import Moments
from tests.audit.releases import frame, gaussian, ours


def exposed(X, noise):
    moments = Moments.of(X)
    return count_exposed(
        [X.T[:, :2000], X.T[:, 2000:]],
        rows=len(X),
        mean=moments.mean,
        covariance=moments.covariance,
        noise=noise,
    )


def twin_columns(rows=5000, seed=1):
    """Two columns that say nearly the same, and one record where they do not."""
    rng = np.random.default_rng(seed)
    one = rng.normal(size=rows)
    X = np.column_stack([one, one + 0.1 * rng.normal(size=rows)])
    X[7] = [1.0, -0.5]
    return X


def test_gaussian_rows_are_hidden_and_a_far_one_is_not_until_noise_is_large():
    X = gaussian(5000)
    X[7, 0] = X[:, 0].mean() + 60 * X[:, 0].std()
    found = exposed(X, [0.5, 4.0, 10_000.0])
    assert found.columns[:, 0].tolist() == [1, 1, 0]
    assert found.combined.tolist() == [1, 1, 0]
    assert found.rows[2] == 0


def test_a_record_that_is_odd_only_in_combination_is_counted():
    X = twin_columns()
    assert (np.abs(X[7] - X.mean(axis=0)) < 2 * X.std(axis=0)).all()
    found = exposed(X, [1.0, 10_000.0])
    assert found.columns.sum() == 0
    assert found.combined.tolist() == found.rows.tolist() == [1, 0]
    # the control: without that record nobody stands out
    assert exposed(np.delete(X, 7, axis=0), [1.0]).rows.tolist() == [0]


def test_the_audit_reports_it():
    X = twin_columns()
    found = audit(frame(X), [frame(copy) for copy in ours(X, [1.0])])
    assert found.numbers.exposed.columns.sum() == 0
    assert found.numbers.exposed.combined.tolist() == [1]


def test_combinations_equal_a_loop_over_rows_and_the_numbers_they_have():
    X = gaussian(3000)
    rng = np.random.default_rng(2)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:20] = 50 + 4 * (X[:20] - 50)
    moments = Moments.of(X)
    naive = 0
    for row in X:
        known = ~np.isnan(row)
        if known.any():
            away, K = (row - moments.mean)[known], moments.covariance[np.ix_(known, known)]
            limit = 1.5 * chi_square_limit(1 / len(X), int(known.sum()))
            naive += away @ np.linalg.solve(K, away) > limit
    assert 3 < naive < 30
    assert exposed(X, [0.5]).combined.tolist() == [naive]
