"""What a recipient who knows a column's distribution leaves of it."""

import numpy as np
import pytest

from cornerwave.attack import Knowledge, left_by_posterior, posterior_mean
from tests.choosing import one_now

ROWS, NOISE = 20_000, (1 / 9, 1.0, 9.0)
rng = np.random.default_rng(3)
COLUMNS = {
    "normal": rng.normal(size=ROWS),
    "coin": rng.integers(0, 2, ROWS).astype(float),
    "even": rng.random(ROWS),
    "zeros": np.where(rng.random(ROWS) < 0.4, 0.0, np.exp(rng.normal(10, 1.2, ROWS))),
    "far from zero": 1e9 + rng.normal(size=ROWS),
}


@pytest.mark.parametrize("name", one_now(COLUMNS, "zeros"))
def test_it_is_what_the_posterior_mean_itself_leaves(name):
    x, checked = COLUMNS[name], 4000
    x = (x - x.mean()) / x.std() if name == "far from zero" else x
    known = left_by_posterior(COLUMNS[name], NOISE)
    for v, left in zip(NOISE, known, strict=True):
        Y = x[:checked, None] + np.sqrt(v * x.var()) * rng.normal(size=(checked, 1))
        knowledge = Knowledge(np.array([x.mean()]), np.array([[x.var()]]), np.array([[v]]))
        guess = posterior_mean([Y], known=knowledge, reference=x[:, None])
        errors = (guess[:, 0] - x[:checked]) ** 2 / x.var()
        # five standard errors of the mean of so many squared errors, and the pieces' width
        assert left == pytest.approx(errors.mean(), abs=5 * errors.std() / checked**0.5 + 0.01)


def test_only_a_normal_column_keeps_what_a_linear_estimate_leaves():
    linear = np.array(NOISE) / (1 + np.array(NOISE))
    assert left_by_posterior(COLUMNS["normal"], NOISE) == pytest.approx(linear, abs=0.01)
    for name in ("coin", "zeros"):
        assert (left_by_posterior(COLUMNS[name], NOISE) < linear).all()
    assert left_by_posterior(COLUMNS["zeros"], [1.0])[0] < 0.3


def test_missing_and_constant_columns():
    x = COLUMNS["normal"].copy()
    x[::3] = np.nan
    assert left_by_posterior(x, [1.0])[0] == pytest.approx(0.5, abs=0.01)
    assert left_by_posterior(np.ones(10), NOISE).tolist() == [0.0] * 3
