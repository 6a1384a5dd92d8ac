"""The audit clears honest copies, and catches every fault that was planted."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

from cornerwave.audit import ALPHA, Audit, audit, verdict
from cornerwave.audit._coalitions import _without
from cornerwave.columns import rank_scale
from cornerwave.errors import SingularCovariance
from cornerwave.levels import retention
from cornerwave.moments import Moments
from cornerwave.noise import position_ids, refresh, thresholds
from tests.audit import releases
from tests.audit.releases import (
    binomial_limit,
    frame,
    gaussian,
    independent,
    known_dataset,
    ours,
    scaled,
    skewed,
    white,
)
from tests.audit.shown import findings
from tests.choosing import one_now
from tests.scores import z_bound

NOISE = (0.25, 1.0, 4.0)
NAMES = releases.NAMES


def run(X: np.ndarray, copies: list[np.ndarray]) -> Audit:
    return audit(frame(X), [frame(copy) for copy in copies])


def faults(found: Audit) -> set[str]:
    return {check.name for check in found.faults}


@pytest.mark.parametrize("table", one_now(releases.TABLES))
def test_on_ours_no_set_of_copies_gains_and_nothing_is_wrong(table: str) -> None:
    X = releases.TABLES[table](20_000)
    found = run(X, ours(X, NOISE))
    assert found.clean, [check.note for check in found.faults]
    assert {gain.members for gain in found.numbers.gains} == {(0, 1), (0, 2), (1, 2), (0, 1, 2)}
    for gain in found.numbers.gains:
        assert (np.abs(gain.gain) <= gain.margin).all() or (gain.gain < 0).any()
        assert not gain.gains
    # the noise of a level is a mean of squares of T normals, in as many directions as K has
    statistics = found.numbers.found
    error = math.sqrt(2 / (statistics.complete * statistics.whitening.shape[1]))
    # K, which it is measured in, is the table's own: no chance in it
    assert np.allclose(statistics.noise, NOISE, rtol=z_bound(len(NOISE)) * error)


@pytest.mark.parametrize("table", one_now(releases.TABLES))
def test_independent_noise_gains_what_theorem_3_says(table: str) -> None:
    X = releases.TABLES[table](20_000)
    found = run(X, independent(X, NOISE))
    assert not found.clean
    assert "corner wave" in faults(found)
    for gain in found.numbers.gains:
        expected = 1 / (1 + sum(1 / NOISE[i] for i in gain.members))
        assert gain.gains
        assert np.allclose(gain.together, expected, rtol=_square_error(X, len(found.numbers.gains)))


def _square_error(X: np.ndarray, comparisons: int) -> float:
    """The relative error of a mean of squares: its variance is (kurtosis - 1) / T.

    What an estimate leaves is X and normal noise; its kurtosis is at most the table's, or 3.
    """
    away = X - X.mean(axis=0)
    kurtosis = max(3.0, float(((away**4).mean(axis=0) / (away**2).mean(axis=0) ** 2).max()))
    return z_bound(comparisons * X.shape[1]) * math.sqrt((kurtosis - 1) / len(X))


def test_scaled_noise_is_undone() -> None:
    X = gaussian(5000)
    found = run(X, scaled(X, NOISE))
    assert all(gain.perfect for gain in found.numbers.gains)
    assert max(gain.together.max() for gain in found.numbers.gains) < 1e-9


def test_a_reissued_copy_is_named_as_one() -> None:
    X = skewed(20_000)
    found = run(X, [*ours(X, [1.0], seed=1), *ours(X, [1.0], seed=2)])
    assert "the same level with different noise" in found.faults[0].note
    assert found.numbers.alarms


def test_the_same_copy_twice_is_one_copy() -> None:
    X = gaussian(3000)
    [copy] = ours(X, [1.0])
    found = run(X, [copy, copy])
    assert found.clean
    assert [check.note for check in found.checks if check.name == "copies"] == [
        "the same copy twice"
    ]


def test_the_same_copy_but_for_some_rows_is_a_fault() -> None:
    X = gaussian(3000)
    [copy] = ours(X, [1.0])
    edited = copy.copy()
    edited[:7, 0] += 0.5
    found = run(X, [copy, edited])
    assert "copies" in faults(found)
    assert any("7 rows" in check.note for check in found.faults)


def test_noise_of_its_own_in_every_column_has_the_wrong_shape() -> None:
    X = gaussian(20_000)
    noise = np.random.default_rng(11).normal(size=X.shape) * X.std(axis=0)
    assert "shape" in faults(run(X, [X + noise]))


def test_noise_where_the_table_has_no_variance_filters_out() -> None:
    X = gaussian(5000)
    X[:, 2] = X[:, 0] + X[:, 1]
    with pytest.warns(SingularCovariance):
        [copy] = ours(X, [1.0])
    assert run(X, [copy]).clean
    copy[:, 2] += np.random.default_rng(1).normal(size=len(X)) * 0.1
    found = run(X, [copy])
    assert any("lies where the table has none" in check.note for check in found.faults)


@pytest.mark.parametrize("follows", ["the sum", "twice", "both"])
@pytest.mark.first(1)
def test_rounding_of_columns_that_follow_from_others_is_not_noise_of_another_shape(
    follows: str,
) -> None:
    """The rounding errors of x and 2x are related; in few rows they vary by chance."""
    for seed in range(8):
        rng = np.random.default_rng([seed, 13])
        a, b = rng.poisson(20, 600), np.rint(rng.exponential(8, 600))
        X = np.column_stack([a, b, *IDENTITIES[follows](a, b)]).astype(np.float64)
        values, vectors = np.linalg.eigh(np.cov(X.T))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        honest = X + rng.normal(size=X.shape) @ root.T
        assert "shape" not in faults(run(X, [np.rint(honest)]))
        filtered = honest + 0.1 * X.std(axis=0) * rng.normal(size=X.shape)
        notes = [check.note for check in run(X, [np.rint(filtered)]).faults]
        assert any("lies where the table has none" in note for note in notes)


IDENTITIES: dict[str, Any] = {
    "the sum": lambda a, b: [a + b],
    "twice": lambda a, b: [2 * a],
    "both": lambda a, b: [2 * a + b, a - b],
}


def test_multiplicative_noise_follows_the_table() -> None:
    rng = np.random.default_rng(11)
    X = gaussian(20_000)
    assert "size" in faults(run(X, [X * (1 + 0.05 * rng.normal(size=X.shape))]))


def test_shrunken_values_follow_the_table() -> None:
    X = gaussian(20_000)
    assert "independence" in faults(run(X, [0.9 * X + 0.1 * X.mean(axis=0) + white(X, 1)]))


@pytest.mark.slow
def test_two_distant_rows_swapped() -> None:
    X = skewed(20_000)
    copies = ours(X, NOISE)
    low, high = X[:, 1].argmin(), X[:, 1].argmax()
    assert run(X, copies).clean
    copies[1][[low, high]] = copies[1][[high, low]]
    assert "outliers" in faults(run(X, copies))


def test_a_constant_offset() -> None:
    X = gaussian(20_000)
    copies = ours(X, NOISE)
    copies[2][:, 1] += 0.1 * X[:, 1].std()
    found = run(X, copies)
    assert "mean" in faults(found)
    assert all(2 in check.copies for check in found.faults)


def test_a_copy_of_a_slightly_different_source() -> None:
    """One row in a hundred stems from somebody else."""
    X = skewed(50_000)
    other, moved = X.copy(), np.arange(0, len(X), 100)
    other[moved] = X[np.roll(moved, 1)]
    copies = ours(X, NOISE)
    wrong = copies[1] - X + other
    found = run(X, [copies[0], wrong, copies[2]])
    assert not found.clean
    assert all(1 in check.copies for check in found.faults)


def test_a_copy_that_is_the_source_is_called_so() -> None:
    X = gaussian(1000)
    assert any("it is the source" in check.note for check in run(X, [X]).faults)


def test_a_direction_of_rounding_alone_is_not_taken_for_one_of_little_variance() -> None:
    """Or what chance fits to it counts many times: here a column, and itself not rounded."""
    step = 0.1
    C = np.array([[[1 + step, 1.0], [1.0, 1.0]]])
    left = _without(C, np.array([step, 0.0]))
    apart = np.array([1.0, -1.0])
    assert apart @ left[0] @ apart == pytest.approx(apart @ C[0] @ apart, rel=1e-6)
    # where there is more than rounding, it is taken off
    both = _without(np.array([[[2.0 + step]]]), np.array([step]))
    assert both[0, 0, 0] == pytest.approx(2.0, rel=1e-6)


def test_a_kept_column_and_a_constant_one_are_left_out() -> None:
    X = np.column_stack([gaussian(3000)[:, :2], np.arange(3000.0), np.full(3000, 7.0)])
    [noisy] = ours(X[:, :2], [1.0])
    found = run(X, [np.column_stack([noisy, X[:, 2:]])])
    numbers = found.numbers
    assert (numbers.columns, numbers.bare, numbers.constant) == (NAMES[:2], NAMES[2:3], NAMES[3:])
    assert found.clean


@pytest.mark.slow
def test_missing_values_cost_no_false_alarm_and_their_rows_are_tested() -> None:
    X = gaussian(20_000)
    holes = np.random.default_rng(1).random(X.shape) < 0.1
    X[holes] = np.nan
    K = Moments.of(X).covariance
    full = np.where(holes, 0.0, X)
    copies = [copy - full + X for copy in releases.parallel(full, noise=NOISE, covariance=K)]
    found = run(X, copies)
    assert found.clean
    assert found.numbers.complete == (~holes.any(axis=1)).sum()
    assert found.numbers.found.complete == (~holes.all(axis=1)).sum()


def test_a_copy_rounded_to_whole_numbers_is_rounding_not_a_breach() -> None:
    X = gaussian(50_000) * 4
    found = run(X, [np.rint(copy) for copy in ours(X, NOISE)])
    assert found.clean, [check.note for check in found.faults]
    assert (found.numbers.found.steps == 1).all()


def test_rounding_may_hide_less_together_than_alone_but_not_less_than_the_raw_copy() -> None:
    """Two coarse copies at close levels average their rounding: allowed, and no alarm."""
    X = gaussian(50_000)
    found = run(X, [np.rint(copy) for copy in ours(X, [1.0, 1.05])])
    assert not found.numbers.alarms


def calendar(rows: int, seed: int = 0) -> np.ndarray:
    """A time that month and day nearly determine."""
    rng = np.random.default_rng(seed)
    month, day = (rng.integers(0, n, rows) for n in (12, 30))
    return np.column_stack([month, day, 30.4 * month + day + rng.uniform(0, 1, rows)])


@pytest.mark.slow
def test_rounding_between_columns_that_nearly_determine_each_other_is_no_fault() -> None:
    X = calendar(20_000)
    whole = [True, True, False]
    rounded = [np.where(whole, np.rint(copy), copy) for copy in ours(X, [0.5, 3.0])]
    found = run(X, rounded)
    assert found.clean, [check.note for check in found.faults]
    assert found.numbers.found.noise == pytest.approx([0.5, 3.0], rel=0.03)
    assert found.numbers.found.whitening.shape == (3, 2)  # in one direction rounding is all
    # noise of its own is found beside it, and so is half of the noise along time
    alone = [np.where(whole, np.rint(copy), copy) for copy in independent(X, [0.5, 3.0])]
    assert run(X, alone).numbers.alarms
    less = [np.where([0, 0, 1], (copy + X) / 2, copy) for copy in rounded]
    assert "shape" in faults(run(X, less))


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_power_independence_of_two_copies_in_100_000_rows(seed: int) -> None:
    X = skewed(100_000, seed)[:, 1:]
    assert run(X, independent(X, [1.0, 4.0], seed=seed + 1)).numbers.alarms


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_power_two_percent_off_the_corner_wave_in_100_000_rows(seed: int) -> None:
    """Cov(D_1, D_2) = 0.98 v_1; z is 0.02 sqrt(2e5) = 8.9 for two columns at v_2 = 2 v_1."""
    X = skewed(100_000, seed)
    one, two = white(X, 10 * seed + 1), white(X, 10 * seed + 2)
    first, second = one, 0.98 * one + math.sqrt(2 - 0.98**2) * two
    found = run(X, [X + first, X + second])
    assert "corner wave" in faults(found)
    assert found.numbers.found.across[0, 1] / found.numbers.found.across[0, 0] == pytest.approx(
        0.98, abs=0.02
    )


SCALES = {
    "log1p": ({"transform": {"wage": "log1p"}}, {}, ["log(1+x): wage"]),
    "rank": (
        {"transform": {"wage": "rank"}},
        {},
        ["wage was perturbed on the scale of its ranks, so it is judged by itself"],
    ),
    "clipped": (
        {},
        {"clip": {"wage": (0.0, None)}},
        ["wage was clipped, so it is judged by itself"],
    ),
    "clipped, rounded, log1p": (
        {"transform": {"wage": "log1p"}},
        {"clip": {"wage": (0.0, 30_000.0)}, "round": ["wage"]},
        ["wage was clipped, so it is judged by itself"],
    ),
    "log1p, rounded": (
        {"transform": {"wage": "log1p"}},
        {"round": ["wage"]},
        ["log(1+x): wage"],
    ),
    "hidden": ({"hide_missing": ["score"]}, {}, ["rows with a missing number"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("choices", "finish", "words"), SCALES.values(), ids=SCALES.keys())
@pytest.mark.first(1)
def test_columns_on_other_scales_are_cleared_or_left_out(
    tmp_path: Path, choices: dict, finish: dict, words: list[str]
) -> None:
    rng = np.random.default_rng(3)
    score = pa.array(rng.normal(size=5000), mask=rng.random(5000) < 0.1)
    wage = pa.array(np.rint(rng.lognormal(9, 0.7, 5000)).astype(np.int64))
    table = pa.table({"wage": wage, "score": score, "age": rng.normal(40, 9, 5000)})
    papq.write_table(table, tmp_path / "source.parquet")
    dataset = known_dataset(tmp_path, tmp_path / "source.parquet", **choices)
    paths = [
        dataset.release(to="r", noise=v, **finish).write(tmp_path / f"{v}.parquet") for v in NOISE
    ]
    found = audit(tmp_path / "source.parquet", paths)
    assert found.sound, [check.note for check in found.faults]
    lines = " ".join(findings(found))
    assert all(word in lines for word in words)


def test_noise_of_its_own_on_the_log_scale_is_caught(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    t = rng.normal(9, 0.7, 5000)
    told = {"noise": 1.0, "columns": {"wage": {"role": "perturbed", "transform": "log1p"}}}
    for i in range(2):
        copy = pa.table({"wage": np.expm1(t + rng.normal(0, t.std(), 5000))})
        metadata = {b"cornerwave": json.dumps(told).encode()}
        papq.write_table(copy.replace_schema_metadata(metadata), tmp_path / f"{i}.parquet")
    found = audit(pa.table({"wage": np.expm1(t)}), [tmp_path / f"{i}.parquet" for i in range(2)])
    assert found.numbers.alarms


SLIPS = {
    "honest": lambda T, one, two: (one, one + math.sqrt(2) * two),
    "half the noise": lambda T, one, two: (one / math.sqrt(2), one + math.sqrt(2) * two),
    "independent": lambda T, one, two: (one, math.sqrt(3) * two),
    "sized by the value": lambda T, one, two: (
        one * np.where(T > 0, math.sqrt(1.6), math.sqrt(0.4)),
        one + math.sqrt(2) * two,
    ),
    "a step that is X": lambda T, one, two: (one, one + math.sqrt(2) * T),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("zeros", [0.0, 0.6])
def test_columns_on_the_scale_of_ranks_are_judged(tmp_path: Path, slip: str, zeros: float) -> None:
    """The source alone gives the scale; which of a value's ranks a row got stays unknown."""
    rng, n = np.random.default_rng(4), 8000
    wage = np.where(rng.random(n) < zeros, 0.0, rng.lognormal(9, 1, n))
    scale, draws = rank_scale(wage, "wage"), rng.random(n)
    T = scale.forward(wage, "wage", lambda column: draws)
    noises = SLIPS[slip](T, *(rng.normal(0, T.std(), n) for _ in range(2)))
    paths = []
    for v, W in zip((1.0, 3.0), noises, strict=True):
        told = {"noise": v, "columns": {"wage": {"role": "perturbed", "transform": "rank"}}}
        copy = pa.table({"wage": scale.backward(T + W)})
        metadata = {b"cornerwave": json.dumps(told).encode()}
        paths.append(tmp_path / f"{v}.parquet")
        papq.write_table(copy.replace_schema_metadata(metadata), paths[-1])
    assert faults(audit(pa.table({"wage": wage}), paths)) == (
        set() if slip == "honest" else {"apart"}
    )


def test_twelve_copies_are_attacked_in_every_subset() -> None:
    X = gaussian(2000)
    found = run(X, ours(X, np.linspace(0.2, 3.0, 12)))
    assert found.numbers.sets == 2**12 - 12 - 1
    assert found.clean, [check.note for check in found.faults]


@pytest.mark.slow
def test_false_alarms_over_200_honest_releases_are_within_alpha() -> None:
    rng = np.random.default_rng(20)
    alarms = 0
    for release in range(200):
        table = list(releases.TABLES.values())[release % 4]
        X = table(2000, int(rng.integers(1 << 30)))
        alarms += not run(X, ours(X, NOISE, seed=int(rng.integers(1 << 30)))).clean
    # with a rate of ALPHA more than this many have probability below 0.001
    assert alarms <= binomial_limit(200, ALPHA, 0.001)


def with_category(X: np.ndarray, codes: np.ndarray) -> pa.Table:
    return frame(X).append_column("kind", pa.array(["a", "b", "c"]).take(pa.array(codes)))


@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.first(1)
def test_categories_are_judged_beside_numbers(honest: bool) -> None:
    """The negative control shares one uniform number and one replacement per cell."""
    rng = np.random.default_rng(8)
    X = gaussian(20_000)
    truth = rng.choice(3, len(X), p=[0.5, 0.3, 0.2])
    if honest:
        ids, bounds = position_ids(0, len(X)), thresholds([5, 3, 2])
        codes = refresh(
            truth.astype(np.int32), ids, noise=NOISE, bounds=bounds, key=bytes(32), column=0
        )
    else:
        uniform, drawn = rng.random(len(X)), rng.choice(3, len(X), p=[0.5, 0.3, 0.2])
        codes = [np.where(uniform < retention(v), truth, drawn) for v in NOISE]
    copies = [with_category(Y, c) for Y, c in zip(ours(X, NOISE), codes, strict=True)]
    found = audit(with_category(X, truth), copies)
    assert {check.name for check in found.faults} == (set() if honest else {"path"})
    assert not found.numbers.alarms
    assert len(found.categories.guesses.sets) == 4  # three pairs and all
    assert found.clean == honest
    assert ("kind stays hidden" in verdict(found)) != honest
