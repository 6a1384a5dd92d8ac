"""Every attack against every scheme: each scheme falls to what it must, ours to nothing."""

from itertools import combinations

import numpy as np
import pytest
from cornerwave_reproduction import SCHEMES, Ours

from tests.choosing import one_now

from .bench import ATTACKS, battery
from .tables import TABLES

ALPHA = 1e-6
NOISE = [2.0, 0.5, 1.0]
SUBSETS = [subset for size in (1, 2, 3) for subset in combinations(range(3), size)]
BY_NAME = {attack.name: attack for attack in ATTACKS}
QUICK = [attack for attack in ATTACKS if attack.name != "generator"]
CONFIDENCE = 1 - ALPHA / (len(TABLES) * len(QUICK) * len(SUBSETS) * len(SCHEMES))

POOLING = {"llse", "posterior", "learned"}
FALLS = {
    "independent": POOLING | {"repeats", "resorted"},
    "scaled": POOLING | {"scaled", "resorted"},
    "per-column": {"resorted"},
    "mersenne-twister": {"resorted"},
    "single-precision": {"float32 bits", "resorted"},
    "ours": set(),
}


@pytest.mark.parametrize("kind", one_now(TABLES))
def test_ours_stands_for_every_subset_and_attack(kind: str) -> None:
    X = TABLES[kind](1000, np.random.default_rng(1))
    outcomes = battery(
        X,
        noise=NOISE,
        schemes=[Ours()],
        attacks=QUICK,
        coalitions=SUBSETS,
        confidence=CONFIDENCE,
        unsafe_seed=2,
    )
    assert {outcome.attack for outcome in outcomes} == {attack.name for attack in QUICK}
    assert [outcome for outcome in outcomes if outcome.gain.above_zero] == []


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
@pytest.mark.first(2)
def test_each_scheme_falls_to_what_it_must(scheme) -> None:
    X = TABLES["skewed"](1500, np.random.default_rng(1))
    outcomes = battery(
        X, noise=NOISE, schemes=[scheme], attacks=QUICK, confidence=CONFIDENCE, unsafe_seed=2
    )
    fallen = {outcome.attack for outcome in outcomes if outcome.gain.above_zero}
    if scheme.name == "ours":
        assert fallen == set()
    else:
        assert fallen >= FALLS[scheme.name]


def test_pooling_matches_the_closed_form() -> None:
    X = TABLES["gaussian"](20_000, np.random.default_rng(3))
    outcomes = battery(
        X, noise=NOISE, attacks=[BY_NAME["llse"]], confidence=CONFIDENCE, unsafe_seed=4
    )
    exact = {"independent": 1 / (1 + 0.5 + 2 + 1), "scaled": 0.0, "ours": 1 / 3}
    for outcome in outcomes:
        if outcome.scheme in exact:
            together = outcome.together
            assert together.low - 1e-9 <= exact[outcome.scheme] <= together.high + 1e-9


def test_rows_that_leaked_do_not_count() -> None:
    X = TABLES["gaussian"](400, np.random.default_rng(5))
    leaked = np.arange(0, 400, 2)
    [one] = battery(
        X, noise=[1.0], schemes=[Ours()], attacks=QUICK[:1], leaked=leaked, unsafe_seed=1
    )
    known = Ours().known(X, noise=[1.0])
    estimate = known.llse.estimate(Ours().copies(X, noise=[1.0], unsafe_seed=1))
    hidden = ((estimate - X)[1::2] ** 2 / np.diag(known.covariance)).mean()
    assert one.alone.value == pytest.approx(hidden)


@pytest.mark.slow
def test_the_generator_falls_in_the_table() -> None:
    X = TABLES["gaussian"](4000, np.random.default_rng(6))
    outcomes = battery(
        X, noise=NOISE, attacks=[BY_NAME["generator"]], leaked=np.arange(400), unsafe_seed=1
    )
    fallen = {outcome.scheme for outcome in outcomes if outcome.gain.above_zero}
    assert fallen == {"mersenne-twister"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", one_now(TABLES))
def test_ours_stands_for_other_seeds(kind: str, seed: int) -> None:
    X = TABLES[kind](4000, np.random.default_rng(seed))
    outcomes = battery(
        X, noise=NOISE, schemes=[Ours()], attacks=QUICK, confidence=CONFIDENCE, unsafe_seed=seed
    )
    assert [outcome for outcome in outcomes if outcome.gain.above_zero] == []
