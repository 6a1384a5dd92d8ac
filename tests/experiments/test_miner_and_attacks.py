"""Figure 4, a miner's errors and nonlinear attacks: on synthetic and on real numbers."""

from dataclasses import replace

import numpy as np
import pytest
from cornerwave_reproduction import Verdict, _beyond_attacks, _beyond_miner, _fig4
from cornerwave_reproduction._input_table import cancer, iris


def made_up(shift):
    rng = np.random.default_rng(1)
    draw = rng.normal(0.8, 0.01, size=(2, 8, 20))
    noise = np.linspace(0.05, 1.0, 20)
    of = {("iris", "RBF SVM", "ours"): draw[0] + shift, ("iris", "RBF SVM", "independent"): draw[1]}
    return _fig4.Accuracies(noise, of)


def test_equal_accuracies_are_equal_and_others_are_not():
    assert {s.verdict for s in _fig4.state(made_up(0.0))} == {Verdict.REMARK, Verdict.HOLDS}
    assert {s.verdict for s in _fig4.state(made_up(-0.05))} == {Verdict.FAILS}


def test_too_few_seeds_prove_nothing():
    wide = _fig4.Accuracies(
        np.array([1.0]),
        {
            ("iris", "RBF SVM", "ours"): np.array([[0.6], [0.9]]),
            ("iris", "RBF SVM", "independent"): np.array([[0.9], [0.6]]),
        },
    )
    assert _fig4.state(wide)[0].verdict is Verdict.FAILS


def test_classifiers_learn_from_copies_and_less_from_noisier_ones():
    table = iris()
    quiet, loud = _fig4.copies_of(table.rows, np.array([0.05, 20.0]), seed=1)["ours"]
    for name in _fig4.CLASSIFIERS:
        best, worst = (_fig4.accuracy(table, Y, name, folds=3, seed=1) for Y in (quiet, loud))
        assert best > 0.7 > worst


def test_accuracies_have_a_value_for_every_seed_and_level(setting):
    effort = replace(setting.effort, utility_seeds=2, utility_levels=2, folds=2)
    found = _fig4.measure(replace(setting, effort=effort), [iris()])
    assert {rows.shape for rows in found.of.values()} == {(2 * _fig4.SMALL_TABLE_SEEDS, 2)}
    assert len(_fig4.columns_of(found)["noise"]) == 2 * 2 * 2


def test_a_miner_loses_less_to_noise_shaped_like_the_table():
    measured = _beyond_miner.measure(cancer().rows, seeds=6, seed=1)
    assert {s.verdict for s in _beyond_miner.state(measured)} == {Verdict.HOLDS}
    swap = {"ours": "per-column", "per-column": "ours"}
    wrong = {(what, swap[scheme]): rows for (what, scheme), rows in measured.items()}
    assert {s.verdict for s in _beyond_miner.state(wrong)} == {Verdict.FAILS}


@pytest.fixture(scope="module")
def attacked(setting, requests):
    scene = _beyond_attacks.Scene.of(setting, requests)
    return _beyond_attacks.measure(scene, setting.tick)


def test_nonlinear_attacks_gain_nothing_from_ours(attacked):
    posterior, learned = _beyond_attacks.state(attacked)
    assert posterior.verdict is Verdict.HOLDS
    assert "Learned" in learned.claim
    ours, alone = (attacked.errors["learned", holder] for holder in ("ours", "alone"))
    assert (alone - ours).mean() < 0.1  # few rows leaked: trainings differ


def test_a_gain_beyond_the_spread_of_trainings_is_found():
    flat, low = np.full((3, 1), 0.2), np.full((3, 1), 0.02)
    quiet = {("posterior", "ours"): flat, ("posterior", "alone"): flat}
    errors = quiet | {
        ("posterior", "independent"): low,
        ("learned", "alone"): flat,
        ("learned", "independent"): low,
    }
    for gain, verdict in ((0.005, Verdict.HOLDS), (0.1, Verdict.FAILS)):
        found = _beyond_attacks.AttackErrors(
            (1, 5, 10), errors | {("learned", "ours"): flat - gain}, np.array([0.005])
        )
        assert _beyond_attacks.state(found)[1].verdict is verdict


def test_nonlinear_attacks_gain_from_independent_noise(attacked):
    swapped = {
        (attack, {"ours": "independent", "independent": "ours"}.get(holder, holder)): errors
        for (attack, holder), errors in attacked.errors.items()
    }
    wrong = _beyond_attacks.state(
        _beyond_attacks.AttackErrors(attacked.counts, swapped, attacked.spread)
    )
    assert wrong[0].verdict is Verdict.FAILS


def test_self_made_copies_start_from_the_least_noisy(requests):
    noise = requests.noise[:5]
    made = _beyond_attacks.self_made(requests.ours.copies[:5], noise, np.eye(2), seed=1)
    least = int(noise.argmin())
    np.testing.assert_array_equal(made[least], requests.ours.copies[least])
    loud = int(noise.argmax())
    assert np.var(made[loud] - made[least], axis=0) == pytest.approx(
        noise[loud] - noise[least], rel=0.1
    )
