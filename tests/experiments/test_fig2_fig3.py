"""Figure 2 and Figure 3 on a smaller table, and with copies of the wrong scheme."""

from dataclasses import replace

import numpy as np
import pytest
from cornerwave_reproduction import Verdict, _fig2, _fig3
from cornerwave_reproduction._requests import Joint, StackedMoments, requested

from tests.experiments.conftest import first_rows


@pytest.fixture(scope="module")
def curves(setting, requests):
    return _fig2.measure(setting, requests)


def failed(statements):
    return [statement for statement in statements if statement.verdict is Verdict.FAILS]


def test_statements_about_both_schemes_hold(curves):
    ours, independent = curves["ours"], curves["independent"]
    assert not failed(_fig2.state_ours(ours))
    assert not failed(_fig2.state_independent(independent))
    assert not failed([_fig2.state_range(ours)])


def test_partial_knowledge_flattens(curves):
    independent = curves["independent"]
    flattens, more_samples = _fig2.state_partial(independent)
    assert flattens.verdict is Verdict.REMARK
    assert more_samples.verdict is Verdict.HOLDS


def test_knowing_the_shape_of_the_noise_replaces_the_covariance(curves):
    independent = curves["independent"]
    apart = independent.structured[100] - independent.perfect
    assert np.abs(apart).max() < 0.01
    assert (np.diff(independent.structured[100], axis=0) < 0).all()


def test_another_seed_holds_as_well(setting):
    other = replace(setting, seed=7, table=first_rows(setting.table, 6_000))
    curves = _fig2.measure(other, requested(other))
    assert not failed(_fig2.state_ours(curves["ours"]))
    assert not failed(_fig2.state_independent(curves["independent"]))


def test_the_parts_of_a_run_share_their_copies(setting):
    assert requested(replace(setting, tick=print)) is requested(setting)


def test_copies_of_the_wrong_scheme_fail(setting, requests):
    """Independent copies labelled as ours, and ours labelled as independent."""
    ours, independent = requests.ours, requests.independent
    swapped = replace(
        requests,
        ours=replace(ours, copies=independent.copies),
        independent=replace(independent, copies=ours.copies),
    )
    few = replace(setting, effort=replace(setting.effort, sample_draws=1))
    curves = _fig2.measure(few, swapped)
    _, overlap, _ = _fig2.state_ours(curves["ours"])
    assert overlap.verdict is Verdict.FAILS
    assert _fig2.state_independent(curves["independent"])[0].verdict is Verdict.FAILS


def test_errors_by_moments_equal_errors_by_rows(requests, setting):
    X, copies = setting.table.rows, requests.ours.copies[:3]
    joint, rng = Joint.of(X, copies), np.random.default_rng(3)
    A, c = rng.normal(size=(2, 6)), rng.normal(size=2)
    estimate = c + np.hstack(copies) @ A.T
    direct = ((estimate - X) ** 2).mean(axis=0) / X.var(axis=0, ddof=1)
    np.testing.assert_allclose(joint.error(A, c), direct, rtol=1e-3)


def test_a_sample_of_all_rows_is_hindsight_without_the_truth(requests, setting):
    X, copies = setting.table.rows, requests.independent.copies[:4]
    joint = Joint.of(X, copies)
    sample = StackedMoments.of(copies)
    np.testing.assert_allclose(
        joint.sampled(sample, requests.noise[:4]), joint.hindsight(4), atol=0.02
    )


@pytest.fixture(scope="module")
def errors(setting, requests):
    return _fig3.measure(setting.table.rows, requests)


def test_fig3_holds_and_fails_for_swapped_schemes(errors):
    assert not failed(_fig3.state(errors))
    others = {"ours": "independent", "independent": "ours"}
    swapped = replace(errors, of={(others[s], m): e for (s, m), e in errors.of.items()})
    slower, same, _ = _fig3.state(swapped)
    assert slower.verdict is same.verdict is Verdict.FAILS


def test_histograms_add_up(setting, errors):
    found = _fig3.histograms(setting.table, errors)
    assert len(_fig3.columns_of(found)["share"]) == _fig3.BINS * len(found)
    for bins in found.values():
        assert _fig3.SHOWN - 0.01 <= bins["cumulative"][-1] <= 1 + 1e-12
        assert bins["cumulative"][-1] == pytest.approx(sum(bins["share"]))
