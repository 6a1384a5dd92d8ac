"""Every theorem holds for the corner wave, and its check fails for another scheme."""

import numpy as np
import pytest

from cornerwave.algorithms import corner_wave, sequential
from cornerwave.attack import Independent, Scaled
from cornerwave.experiments import examples, theorems
from cornerwave.experiments.statement import Verdict

STANDING = (Verdict.HOLDS, Verdict.REMARK)
ABOUT_OURS = (
    theorems.independence,
    theorems.sufficiency,
    theorems.corner_wave_property,
    theorems.subsets,
    theorems.explicit_inverse,
)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "check",
    [
        *ABOUT_OURS,
        theorems.independent_noise,
        theorems.kronecker,
        theorems.on_demand_formula,
        theorems.operations,
    ],
)
def test_it_holds(check, seed):
    assert check(np.random.default_rng(seed)).verdict in STANDING


@pytest.mark.parametrize("wrong", [Independent().across, Scaled().across])
@pytest.mark.parametrize("check", ABOUT_OURS)
def test_it_fails_for_another_scheme(check, wrong):
    assert check(np.random.default_rng(1), wrong).verdict is Verdict.FAILS


def test_independent_noise_is_not_the_corner_wave():
    wrong = theorems.independent_noise(np.random.default_rng(1), corner_wave)
    assert wrong.verdict is Verdict.FAILS


def test_factors_the_wrong_way_round_fail():
    wrong = theorems.kronecker(np.random.default_rng(1), lambda a, b: np.kron(b, a))
    assert wrong.verdict is Verdict.FAILS


def test_the_printed_density_is_off():
    assert theorems.density(np.random.default_rng(1)).verdict is Verdict.FAILS


@pytest.mark.parametrize("seed", range(4))
def test_increments_are_independent_only_for_ours(seed):
    X = np.random.default_rng(seed).normal(size=20_000)
    noise = [0.3, 0.7, 1.5, 2.0]
    ours = list(sequential(X, noise=noise, unsafe_seed=seed))
    assert theorems.increments(ours, X, noise).verdict is Verdict.HOLDS
    others = Independent().copies(X[:, None], noise=noise, unsafe_seed=seed)
    wrong = theorems.increments([copy[:, 0] for copy in others], X, noise)
    assert wrong.verdict is Verdict.FAILS


def test_the_case_study_has_the_papers_errors():
    errors = [examples.exact_error(case.across) for case in examples.CASES]
    np.testing.assert_allclose(errors, [0.5, 0.8, 4 / 9, 0.0, 0.5], atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_case_study_holds_on_copies(seed):
    copies = examples.copies_of(20_000, seed=seed)
    assert {examples.state(case, copies).verdict for case in examples.CASES} == {Verdict.HOLDS}


def test_the_case_study_fails_for_copies_of_another_scheme():
    copies = examples.copies_of(20_000, seed=1)
    wrong = {**copies, "independent": copies["ours"], "scaled": copies["independent"]}
    together = [case for case in examples.CASES if case.scheme in ("independent", "scaled")]
    assert {examples.state(case, wrong).verdict for case in together} == {Verdict.FAILS}
