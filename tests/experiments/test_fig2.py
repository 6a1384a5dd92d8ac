"""Figure 2 and Figure 3 on a smaller table, beside copies of the wrong scheme."""

from dataclasses import replace

import numpy as np
import pytest

from cornerwave.experiments import fig2, fig3
from cornerwave.experiments.joint import Joint, Sample
from cornerwave.experiments.requests import asked
from cornerwave.experiments.statement import Verdict


@pytest.fixture(scope="module")
def curves(setting, requests):
    return fig2.both(setting, requests)


def failed(statements):
    return [statement for statement in statements if statement.verdict is Verdict.FAILS]


def test_statements_about_both_schemes_hold(curves):
    ours, independent = curves
    assert not failed(fig2.state_ours(ours))
    assert not failed(fig2.state_independent(independent))
    assert not failed([fig2.state_range(ours)])


def test_partial_knowledge_flattens(curves):
    _, independent = curves
    flattens, more_samples = fig2.state_partial(independent)
    assert flattens.verdict is Verdict.REMARK
    assert more_samples.verdict is Verdict.HOLDS


def test_who_knows_the_shape_of_the_noise_needs_no_covariance(curves):
    _, independent = curves
    apart = independent.structured[100] - independent.perfect
    assert np.abs(apart).max() < 0.01
    assert (np.diff(independent.structured[100], axis=0) < 0).all()


def test_another_seed_holds_as_well(setting):
    ours, independent = fig2.both(other := replace(setting, seed=7), asked(other))
    assert not failed(fig2.state_ours(ours) + fig2.state_independent(independent))


def test_copies_of_the_wrong_scheme_are_found_out(setting, requests):
    """Independent copies said to be ours, and ours said to be independent, must fail."""
    swapped = replace(requests, ours=requests.independent, independent=requests.ours)
    ours, independent = fig2.both(setting, swapped)
    _, overlap, _ = fig2.state_ours(ours)
    assert overlap.verdict is Verdict.FAILS
    assert fig2.state_independent(independent)[0].verdict is Verdict.FAILS


def test_errors_by_moments_equal_errors_by_rows(requests, setting):
    X, copies = setting.table.rows, requests.ours[:3]
    joint, rng = Joint.of(X, copies), np.random.default_rng(3)
    A, c = rng.normal(size=(2, 6)), rng.normal(size=2)
    estimate = c + np.hstack(copies) @ A.T
    direct = ((estimate - X) ** 2).mean(axis=0) / X.var(axis=0, ddof=1)
    np.testing.assert_allclose(joint.error(A, c), direct, rtol=1e-3)


def test_a_sample_of_all_rows_is_hindsight_without_the_truth(requests, setting):
    X, copies = setting.table.rows, requests.independent[:4]
    joint = Joint.of(X, copies)
    sample = Sample.of(copies, np.arange(len(X)))
    np.testing.assert_allclose(
        joint.sampled(sample, requests.noise[:4]), joint.hindsight(4), atol=0.02
    )


def test_fig3_holds_and_fails_for_swapped_schemes(setting, requests):
    X = setting.table.rows
    assert not failed(fig3.state(fig3.measure(X, requests)))
    errors = fig3.measure(X, requests)
    others = {"ours": "independent", "independent": "ours"}
    swapped = replace(errors, of={(others[s], m): e for (s, m), e in errors.of.items()})
    slower, same, _ = fig3.state(swapped)
    assert slower.verdict is same.verdict is Verdict.FAILS


def test_histograms_add_up(setting, requests):
    numbers = fig3.histograms(setting.table, fig3.measure(setting.table.rows, requests))
    last = numbers["cumulative"][fig3.BINS - 1 :: fig3.BINS]
    assert all(fig3.SHOWN - 0.01 <= share <= 1 for share in last)
