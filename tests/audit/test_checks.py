"""How far chance reaches, coarse grids, exposed records: exact, or against a naive twin."""

import math
from pathlib import Path

import numpy as np
import pytest

from cornerwave.audit import ALPHA, CATEGORY_CHECKS, MIXED_CHECKS, NUMBER_CHECKS
from cornerwave.audit._audit import SHARE
from cornerwave.audit._category_checks import CATEGORY_FAMILIES
from cornerwave.audit._chance import chi_square_tail, t_limit, z_limit
from cornerwave.audit._mixed_checks import MIXED_FAMILIES
from cornerwave.audit._number_checks import NUMBER_FAMILIES
from cornerwave.audit._sums import Statistics, step_of, steps_of, steps_still
from cornerwave.audit._whole import WHOLE_FAMILIES
from cornerwave.moments import Moments
from tests.audit.releases import gaussian, independent


def test_shares_of_alpha_add_up() -> None:
    """All checks that chance could fail, the gains and the nonlinear attack."""
    families = len(NUMBER_CHECKS) + len(CATEGORY_CHECKS) + len(MIXED_CHECKS) + 2
    assert families == 27
    assert SHARE * families == pytest.approx(ALPHA)


def test_every_check_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    for family in (*NUMBER_FAMILIES, *CATEGORY_FAMILIES, *MIXED_FAMILIES, *WHOLE_FAMILIES):
        assert f"| {family.name} |" in page, f"{family.name} is not in docs/audit.md"
        assert family.holds


@pytest.mark.parametrize(
    ("alpha", "freedom", "expected"),
    [(0.05, 63, 1.99834), (0.001, 63, 3.45472), (1e-5, 63, 4.79957), (0.01, 20, 2.84534)],
)
def test_students_quantiles_are_those_of_the_tables(
    alpha: float, freedom: int, expected: float
) -> None:
    assert t_limit(alpha, freedom) == pytest.approx(expected, rel=2e-3)
    assert t_limit(alpha, 10**9) == pytest.approx(z_limit(alpha))


@pytest.mark.parametrize("freedom", [1, 2, 5, 8])
def test_the_tail_of_chi_square_is_the_integral_of_its_density(freedom: int) -> None:
    x = np.linspace(12, 200, 400_001)
    density = x ** (freedom / 2 - 1) * np.exp(-x / 2)
    density /= 2 ** (freedom / 2) * math.gamma(freedom / 2)
    area = float(np.trapezoid(density, x))
    assert chi_square_tail(12, freedom) == pytest.approx(area, rel=1e-6)


def test_statistics_equal_the_moments_of_the_stacked_table() -> None:
    X = gaussian(1003)
    copies = independent(X, [0.5, 2.0])
    found = Statistics.of([part.T.copy() for part in (X, *copies)])
    stacked = Moments.of(np.column_stack([X, *(copy - X for copy in copies)]))
    assert np.allclose(found.covariance, stacked.covariance)
    assert np.allclose(found.K, Moments.of(X).covariance)
    assert np.allclose(found.mean, X.mean(axis=0))
    assert found.complete == found.rows == 1003


def test_covariance_with_missing_values_is_the_owners() -> None:
    X = gaussian(500)
    X[::7, 1] = np.nan
    found = Statistics.of([X.T.copy(), X.T + 1])
    assert np.allclose(found.K, Moments.of(X).covariance)
    assert found.complete == 500 - len(X[::7])


def test_data_far_from_zero_lose_nothing() -> None:
    X = gaussian(2000)
    near = Statistics.of([X.T.copy(), X.T + 1])
    far = Statistics.of([X.T + 1e9, X.T + 1e9 + 1])
    assert np.allclose(near.K, far.K, rtol=1e-6)


@pytest.mark.parametrize("step", [1.0, 0.5, 0.01, 100.0, 0.25])
def test_a_grid_is_found_and_kept_only_while_rows_agree(step: float) -> None:
    values = np.rint(np.random.default_rng(1).normal(size=2000) * 3) * step
    steps = steps_of([values[None]])
    assert steps[0, 0] == step
    assert steps_still(steps, [values[None] + 7 * step])[0, 0] == step
    assert steps_still(steps, [values[None] + step / math.pi])[0, 0] == 0


def test_the_fine_grid_of_our_own_copies_is_not_called_rounding() -> None:
    step = 2.0**-24
    values = np.rint(np.random.default_rng(1).normal(size=2000) / step) * step
    assert step_of(values) == 0
