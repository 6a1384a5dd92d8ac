"""Every theorem holds for the corner wave, and its check fails for another scheme."""

import numpy as np
import pytest
from cornerwave_reproduction import (
    Independent,
    Scaled,
    Verdict,
    _case_study,
    _complexity,
    _theorems,
)

from cornerwave.algorithms import corner_wave, sequential

STANDING = (Verdict.HOLDS, Verdict.REMARK)
ABOUT_OURS = (
    _theorems.independence,
    _theorems.sufficiency,
    _theorems.corner_wave_property,
    _theorems.subsets,
    _theorems.explicit_inverse,
)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "check",
    [
        *ABOUT_OURS,
        _theorems.independent_noise,
        _theorems.kronecker,
        _theorems.on_demand_formula,
    ],
)
def test_it_holds(check, seed):
    assert check(np.random.default_rng(seed)).verdict in STANDING


def test_each_copy_takes_at_most_three_products():
    noise = np.random.default_rng(1).permutation(np.arange(1.0, 1001.0)).tolist()
    assert _complexity.operations(noise).verdict is Verdict.REMARK


@pytest.mark.parametrize("wrong", [Independent().across, Scaled().across])
@pytest.mark.parametrize("check", ABOUT_OURS)
def test_it_fails_for_another_scheme(check, wrong):
    assert check(np.random.default_rng(1), wrong).verdict is Verdict.FAILS


def test_independent_noise_is_not_the_corner_wave():
    wrong = _theorems.independent_noise(np.random.default_rng(1), corner_wave)
    assert wrong.verdict is Verdict.FAILS


def test_factors_the_wrong_way_round_fail():
    wrong = _theorems.kronecker(np.random.default_rng(1), lambda a, b: np.kron(b, a))
    assert wrong.verdict is Verdict.FAILS


def test_the_printed_density_is_off():
    assert _theorems.density(np.random.default_rng(1)).verdict is Verdict.FAILS


@pytest.mark.parametrize("seed", range(4))
def test_increments_are_independent_only_for_ours(seed):
    X = np.random.default_rng(seed).normal(size=20_000)
    noise = [0.3, 0.7, 1.5, 2.0]
    ours = list(sequential(X, noise=noise, unsafe_seed=seed))
    assert _theorems.increments(ours, X, noise).verdict is Verdict.HOLDS
    others = Independent().copies(X[:, None], noise=noise, unsafe_seed=seed)
    wrong = _theorems.increments([copy[:, 0] for copy in others], X, noise)
    assert wrong.verdict is Verdict.FAILS


def test_the_case_study_has_the_papers_errors():
    errors = [_case_study.exact_error(case.across) for case in _case_study.CASES]
    np.testing.assert_allclose(errors, [0.5, 0.8, 4 / 9, 0.0, 0.5], atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_case_study_holds_on_copies(seed):
    copies = _case_study.copies_of(20_000, seed=seed)
    assert {_case_study.state(case, copies).verdict for case in _case_study.CASES} == {
        Verdict.HOLDS
    }


def test_the_case_study_fails_for_copies_of_another_scheme():
    copies = _case_study.copies_of(20_000, seed=1)
    wrong = {**copies, "independent": copies["ours"], "scaled": copies["independent"]}
    together = [case for case in _case_study.CASES if case.scheme in ("independent", "scaled")]
    assert {_case_study.state(case, wrong).verdict for case in together} == {Verdict.FAILS}
