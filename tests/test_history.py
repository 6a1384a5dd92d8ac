"""What the noise of a changed row becomes, and what copies of all editions leave hidden."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave._core import add_on_grid
from cornerwave.attack import learned
from cornerwave.noise import (
    Changes,
    HistoryReader,
    Reader,
    Reading,
    Transition,
    add_noise_on_grid,
    changed_cells,
    factor,
    kinds_of,
    noise_across,
    position_ids,
    steps,
    transitions,
)
from cornerwave.privacy import hidden_in_history, history_functions
from tests.histories import (
    EDITIONS,
    beside_constant,
    constant,
    drifting,
    fresh,
    growth,
    last_years,
    left,
    mixed,
    our_rules,
    personal,
    returning,
    returns,
    reused,
    rule_of,
)
from tests.scores import worst_covariance_score, z_bound

KEY = bytes(range(32))
LEAST, MOST_NOISE = 0.45, 2.5
"""Of privacy 0.50, over 12 editions."""
KINDS = {"drifting": drifting, "personal": personal}
CORRELATIONS = (0.5, 0.9, 0.98)

every_history = pytest.mark.parametrize("r", CORRELATIONS)
both_kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def loadings(seed, columns=4):
    """Some K = L L' that is not diagonal."""
    return factor(np.corrcoef(np.random.default_rng(seed).standard_normal((columns, 9)))).lower


@every_history
@both_kinds
def test_all_editions_together_hide_values_means_and_changes(kind, r):
    history = kind(r)
    rules = our_rules(history, 1)
    assert min(left(history, 1, rules).values()) >= LEAST
    assert growth(history, 1, rules) <= MOST_NOISE
    assert left(history, 1, reused(history, 1))["change"] < 1e-6
    if r >= 0.9:
        assert left(history, 1, fresh(history, 1))["mean"] < 0.23


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 0.99])
@every_history
@both_kinds
def test_a_constant_column_of_a_changing_row_stays_hidden(kind, r, rho):
    history = beside_constant(kind(r), rho)
    rules = our_rules(history, 2)
    assert min(left(history, 2, rules).values()) >= LEAST
    assert growth(history, 2, rules) <= MOST_NOISE
    weights = np.zeros((1, EDITIONS, 2))
    weights[0, 0, 1] = 1
    held = [(e, 1.0) for e in range(EDITIONS)]

    def of_constant(rules):
        S = noise_across(history[:2, :2], rules)
        return hidden_in_history(weights, held, history=history, noise=S)[0]

    assert of_constant(rules) == pytest.approx(0.5, abs=1e-6)
    assert of_constant(fresh(history, 2)) < 0.1


@given(st.integers(0, 10**6), st.data())
@settings(deadline=None, max_examples=25)
def test_columns_that_change_differently_hide_each_other(seed, data):
    of_column = st.builds(
        lambda kind, r: kind(r),
        st.sampled_from([*KINDS.values()]),
        st.sampled_from([*CORRELATIONS, 0.7, 1.0]),
    )
    histories = data.draw(st.lists(of_column, min_size=4, max_size=4))
    history = mixed(loadings(seed), histories)
    rules = our_rules(history, 4)
    assert min(left(history, 4, rules).values()) >= LEAST
    assert growth(history, 4, rules) <= MOST_NOISE


@every_history
@both_kinds
def test_a_row_that_changes_in_some_editions_only(kind, r):
    """The rule comes from rows that change every time; this one stays as it is in between."""
    few = 5
    rule = our_rules(kind(r), 1)[0]
    own = kind(r, few)  # at its own changes
    times = np.repeat(np.arange(few), [3, 1, 4, 2, 2])
    history = own[np.ix_(times, times)]
    rules = [rule if step else None for step in np.diff(times)]
    assert min(left(history, 1, rules).values()) >= LEAST
    assert growth(history, 1, rules) <= MOST_NOISE


@pytest.mark.parametrize("r", [0.0, *CORRELATIONS, 1.0])
@pytest.mark.parametrize("columns", [[0], [0, 2], [0, 1, 2]], ids=len)
@both_kinds
def test_values_that_come_back_may_be_the_same_or_others(kind, columns, r):
    """The owner does not know which: one rule has to do for both."""
    shape = loadings(2, 3) @ loadings(2, 3).T
    for times, least, most in ((1, LEAST, MOST_NOISE), (3, 0.44, 3.2), (EDITIONS - 1, 0.44, 4.0)):
        history = returning(kind, r, columns, shape, times)
        rules = returns(columns, shape, times)
        assert min(left(history, 3, rules).values()) >= least
        assert growth(history, 3, rules) <= most
        if r < 1:  # the noise from before they went: the difference is exposed exactly
            assert left(history, 3, reused(history, 3))["change"] < 1e-6
        else:  # the same values with fresh noise: averaged
            assert left(history, 3, fresh(history, 3))["value"] < 0.34


@every_history
@both_kinds
def test_sixty_editions_hide_nearly_as_much(kind, r):
    history = kind(r, 60)
    rules = our_rules(history, 1)
    assert min(left(history, 1, rules).values()) >= LEAST
    assert growth(history, 1, rules) <= 3.0
    assert left(history, 1, fresh(history, 1))["mean"] < 0.3


@both_kinds
def test_last_years_value_keeps_last_years_noise(kind):
    """A column that holds what another one held would otherwise show each value twice."""
    history = last_years(kind(0.9, EDITIONS + 1))
    rules = our_rules(history, 2)
    assert min(left(history, 2, rules).values()) >= LEAST
    S = noise_across(history[:2, :2], rules).reshape(EDITIONS, 2, EDITIONS, 2)
    for e in range(1, EDITIONS):
        twice = S[e, 1, e, 1] + S[e - 1, 0, e - 1, 0] - 2 * S[e, 1, e - 1, 0]
        assert twice == pytest.approx(0.0, abs=1e-9)
    assert left(history, 2, fresh(history, 2))["value"] < 0.4


@every_history
@both_kinds
def test_noisier_copies_of_any_edition_add_nothing(kind, r):
    history = mixed(loadings(1, 3), [kind(r), constant(), kind(0.7)])
    S = noise_across(history[:3, :3], our_rules(history, 3))
    weights = np.concatenate([*history_functions(EDITIONS, 3).values()])
    best = [(e, 1.0) for e in range(EDITIONS)]
    more = [(e, noise) for e in range(EDITIONS) for noise in (1.5, 4.0)]

    def hidden(held):
        return hidden_in_history(weights, held, history=history, noise=S)

    assert np.allclose(hidden(best + more), hidden(best), rtol=0, atol=1e-6)
    # who holds some editions at more noise has no more than who holds all at the least
    some = [(e, 1.0 if e % 3 else 4.0) for e in range(EDITIONS)]
    assert (hidden(some) >= hidden(best) - 1e-6).all()
    # a second copy at the same level with noise of its own would gain
    twice = np.kron(np.eye(2), S)
    H = np.tile(history, (2, 2))
    wide = np.concatenate([weights, np.zeros_like(weights)], axis=1)
    both = [(e, 1.0) for e in range(2 * EDITIONS)]
    assert (hidden_in_history(wide, both, history=H, noise=twice) < hidden(best) - 0.05).any()


# From rows, not from covariances


def sampled(history, columns, rows, seed):
    """Rows with this history: (editions, columns, rows)."""
    values, vectors = np.linalg.eigh(history)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    white = np.random.default_rng(seed).standard_normal((len(history), rows))
    return (root @ white).reshape(-1, columns, rows)


@pytest.mark.parametrize("seed", range(3))
def test_rules_measured_on_rows_do_as_well(seed):
    history = mixed(loadings(seed), [drifting(0.9), personal(0.5), constant(), personal(0.98)])
    X = sampled(history, 4, 20_000, seed)
    K = history[:4, :4]
    rules = [transitions(Changes.of(X[e - 1], X[e]), K)[-1] for e in range(1, EDITIONS)]
    assert min(left(history, 4, rules).values()) >= LEAST
    assert growth(history, 4, rules) <= MOST_NOISE


@pytest.mark.parametrize("rows", [1, 2, 30])
def test_few_changed_rows_still_get_noise(rows):
    K = loadings(0) @ loadings(0).T
    rng = np.random.default_rng(rows)
    old, new = rng.standard_normal((2, 4, rows))
    [rule, *_] = transitions(Changes.of(old, new), K)
    S = noise_across(K, [rule])
    change = S[:4, :4] + S[4:, 4:] - S[4:, :4] - S[:4, 4:]
    # every direction of a change is hidden, by noise of the size of the changes
    assert np.linalg.eigvalsh(change).min() > 0.1 * np.linalg.eigvalsh(K).min()
    assert np.linalg.eigvalsh(S[4:, 4:] - 0.9 * K).min() > -1e-9  # and new values like old ones


def test_changes_add_up_however_rows_are_cut():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((3, 500))
    new = np.where(rng.random(old.shape) < 0.4, old + rng.standard_normal(old.shape), old)
    old[0, :7], new[2, 5:9] = np.nan, np.nan
    K = np.eye(3)
    whole = transitions(Changes.of(old, new), K)
    cut = Changes.of(old[:, :123], new[:, :123]) + Changes.of(old[:, 123:], new[:, 123:])
    assert cut.rows == changed_cells(old, new).any(axis=0).sum()
    by_columns = {rule.columns: rule for rule in transitions(cut, K)[1:]}
    for rule in whole[1:]:
        assert np.array_equal(rule.carry, by_columns[rule.columns].carry)
        assert np.array_equal(rule.fresh, by_columns[rule.columns].fresh)
    assert np.allclose(whole[0].carry, transitions(cut, K)[0].carry, rtol=0, atol=1e-12)


def test_rows_follow_the_rule_of_the_columns_that_changed():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((3, 1000))
    new = old.copy()
    new[0, :400] += 1.0 + rng.standard_normal(400)
    new[1:, 400:800] += rng.standard_normal((2, 400))
    new[:, 800:803] += rng.standard_normal((3, 3))  # too few for a rule of their own
    rules = transitions(Changes.of(old, new), np.eye(3))
    assert sorted(rule.columns for rule in rules[1:]) == [(0,), (1, 2)]
    kinds = kinds_of(rules, changed_cells(old, new))
    assert {rules[k].columns for k in kinds[:400]} == {(0,)}
    assert {rules[k].columns for k in kinds[400:800]} == {(1, 2)}
    assert (kinds[800:803] == 0).all()
    assert rules[0].columns == (0, 1, 2)
    assert (kinds[803:] == -1).all()


def test_many_kinds_of_changes_share_a_rule():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((8, 4000))
    new = np.where(rng.random(old.shape) < 0.5, rng.standard_normal(old.shape), old)
    changes = Changes.of(old, new)
    assert len(changes.kinds) == 17
    [rule] = transitions(changes, np.eye(8))
    assert rule.columns == tuple(range(8))
    kinds = kinds_of([rule], changed_cells(old, new))
    assert np.array_equal(kinds == 0, changed_cells(old, new).any(axis=0))


def test_cells_that_change_here_and_there_are_hidden_by_the_shared_rule():
    """Each cell changes with probability 0.4, given the others as K says: 31 kinds of changes."""
    columns, rows = 5, 20_000
    lower, rng = loadings(4, columns), np.random.default_rng(4)
    K = lower @ lower.T
    precise = np.linalg.inv(K)
    X = [lower @ rng.standard_normal((columns, rows))]
    for _ in range(1, EDITIONS):
        x = X[-1].copy()
        for j, own in enumerate(precise):
            center = x[j] - own @ x / own[j]
            fresh = np.sqrt(0.75 / own[j]) * rng.standard_normal(rows)
            moved = center + 0.5 * (x[j] - center) + fresh
            x[j] = np.where(rng.random(rows) < 0.4, moved, x[j])
        X.append(x)
    rules = [transitions(Changes.of(old, new), K)[0] for old, new in pairwise(X)]
    seen = np.concatenate(X)
    history = seen @ seen.T / rows
    assert min(left(history, columns, rules).values()) >= LEAST
    assert growth(history, columns, rules) <= MOST_NOISE
    # also a cell that never changed while the others of its row did
    S = noise_across(K, rules)[::columns, ::columns]
    assert 1 / (1 + np.linalg.solve(S, np.ones(EDITIONS)).sum()) >= LEAST


def test_columns_that_add_up_have_noise_that_does():
    rng = np.random.default_rng(0)
    old = rng.integers(0, 100, (3, 3000)).astype(float)
    new = old.copy()
    new[0, :900] = rng.integers(0, 100, 900)
    new[1, 600:1500] = rng.integers(0, 100, 900)
    old[2], new[2] = old[0] + old[1], new[0] + new[1]
    K = np.cov(old)
    ids = position_ids(0, 3000)
    rules = {1: transitions(Changes.of(old, new), K)}
    assert len(rules[1]) == 4
    kinds = {1: kinds_of(rules[1], changed_cells(old, new))}
    W = read(rules, kinds, ids=ids, K=K)[0]
    assert np.abs(W[0] + W[1] - W[2]).max() < 1e-6 * W.std()
    assert W[2].var() > 0.9 * K[2, 2]


def test_the_same_increment_for_all_leaves_the_noise_and_a_common_value_does_not():
    """A yearly age + 1 renews nobody's noise; balances that all become 0 are hidden like others."""
    rng = np.random.default_rng(0)
    age, K = 20 * rng.standard_normal((1, 10_000)), np.array([[400.0]])
    [rule, *_] = transitions(Changes.of(age, age + 1), K)
    assert rule.carry[0, 0] == pytest.approx(1.0, abs=1e-3)
    assert rule.fresh[0, 0] ** 2 < 0.01
    [rule, *_] = transitions(Changes.of(age, np.zeros_like(age)), K)
    S = noise_across(K, [rule])
    assert S[1, 1] == pytest.approx(400.0)
    assert abs(S[0, 1]) < 0.5 * 400.0


# The noise itself

LEVELS = (1.0, 4.0, 0.25)
GOLDEN = [
    "0x1.f74baac3b5147p-1",
    "0x1.8884a422f294ep-2",
    "0x1.b17182bdf4614p+0",
    "-0x1.b96347f424ca4p-2",
    "0x1.bdb9658ca69d3p-1",
    "-0x1.8a469f5d5db67p-1",
]


def read(rules, kinds, *, ids, K, rows=None):
    reading = Reading(steps(LEVELS), range(len(LEVELS)))
    reader = HistoryReader(reading, KEY, factor=factor(K).lower, rules=rules, rows=rows or len(ids))
    return {index: noise.copy() for index, noise in reader.noise(ids, kinds)}


@pytest.fixture(scope="module")
def told():
    """Four editions of three columns: rules by edition, which rows follow which, and K."""
    history = mixed(loadings(5, 3), [drifting(0.8, 4), personal(0.6, 4), personal(0.95, 4)])
    X = sampled(history, 3, 30_000, 3)
    X[2, :, ::2] = X[1, :, ::2]  # half of the rows do not change in edition 2
    X[3, 2] = X[2, 2]  # nor the last column in edition 3
    K = history[:3, :3]
    rules = {e: transitions(Changes.of(X[e - 1], X[e]), K) for e in (1, 2, 3)}
    kinds = {e: kinds_of(rules[e], changed_cells(X[e - 1], X[e])) for e in (1, 2, 3)}
    return rules, kinds, K


def test_sampled_noise_has_the_covariance_that_the_algebra_says(told):
    rules, kinds, K = told
    ids = position_ids(0, 30_000)
    noise = [
        read(rules, {e: kinds[e] for e in range(1, last + 1)}, ids=ids, K=K) for last in range(4)
    ]
    W = np.array([[noise[e][i] for i in range(len(LEVELS))] for e in range(4)])
    same = np.minimum.outer(LEVELS, LEVELS)
    for part, second in ((slice(0, None, 2), -1), (slice(1, None, 2), kinds[2][1])):
        own = [rules[1][kinds[1][0]], rules[2][second] if second >= 0 else None]
        S = noise_across(K, [*own, rules[3][kinds[3][0]]]).reshape(4, 3, 4, 3)
        expected = np.einsum("eifj,uv->euifvj", S, same).reshape(36, 36)
        samples = W[..., part].reshape(36, -1).T
        assert worst_covariance_score(samples, expected) < 1
        assert worst_covariance_score(samples, expected * 1.1) > 1


def test_unchanged_rows_have_the_noise_of_the_first_edition_bit_for_bit(told):
    rules, kinds, K = told
    ids = position_ids(0, 3000)
    lower = factor(K).lower
    x = np.random.default_rng(0).standard_normal((3, 3000))
    grid = np.full(3, 2.0**-24)
    some = {e: np.where(np.arange(3000) % 5 == 0, kinds[e][:3000], -1) for e in kinds}
    changed = np.any([some[e] >= 0 for e in some], axis=0)
    found = read(rules, some, ids=ids, K=K)
    reader = Reader(Reading(steps(LEVELS), [0, 1, 2]), KEY, columns=3, rows=3000)
    for index, white in reader.white(ids):
        copy = np.empty_like(x)
        add_on_grid(x, lower, white, grid, copy, 0, False)
        ours = add_noise_on_grid(x, found[index], grid)
        assert np.array_equal(ours[:, ~changed], copy[:, ~changed])
        assert (ours[:, changed] != copy[:, changed]).any(axis=0).all()


def test_the_noise_of_a_row_does_not_depend_on_the_others(told):
    rules, kinds, K = told
    ids = position_ids(0, 500)
    whole = read(rules, {e: k[:500] for e, k in kinds.items()}, ids=ids, K=K)
    part = slice(101, 240)
    own = read(rules, {e: k[part] for e, k in kinds.items()}, ids=ids[part], K=K, rows=300)
    for index in range(len(LEVELS)):
        assert np.array_equal(whole[index][:, part], own[index])


def test_the_noise_of_history_is_fixed():
    """A golden vector: it changes only with the noise format."""
    carry = np.array([[0.5, 0.25, 0.0], [0.0, 0.125, 1.0]])
    rule, kinds = rule_of((0, 2), carry, np.eye(2), recall=0.5), np.array([0, -1])
    rules, twice = {3: [rule], 4: [rule]}, {3: kinds, 4: kinds}
    noise = read(rules, twice, ids=position_ids(7, 2), K=np.eye(3))[0]
    assert [value.hex() for value in noise.ravel().tolist()] == GOLDEN


def test_rules_are_kept_to_the_bit(told):
    for rule in told[0][1]:
        again = Transition.from_json(json.loads(json.dumps(rule.to_json())))
        assert again.columns == rule.columns
        for name in ("carry", "recall", "fresh", "remainder"):
            assert np.array_equal(getattr(again, name), getattr(rule, name))


@pytest.mark.slow
@both_kinds
def test_a_learned_adversary_gains_nothing_from_more_levels(kind):
    rows, K = 20_000, np.eye(1)
    history = kind(0.8, 3)
    X = sampled(history, 1, rows, 11)
    rules = {e: transitions(Changes.of(X[e - 1], X[e]), K) for e in (1, 2)}
    kinds = {e: kinds_of(rules[e], changed_cells(X[e - 1], X[e])) for e in (1, 2)}
    ids = position_ids(0, rows)
    noise = [read(rules, {e: kinds[e] for e in range(1, n)}, ids=ids, K=K) for n in (1, 2, 3)]
    best = [(X[e] + noise[e][0]).T for e in range(3)]
    noisier = [(X[e] + noise[e][1]).T for e in range(3)]
    independent = [(X[e] + np.random.default_rng(e).normal(0, 2, (1, rows))).T for e in range(3)]
    leaked, rest = np.arange(rows // 2), slice(rows // 2, None)

    def errors(copies):
        found = learned(copies, leaked=leaked, truth=X[1].T[leaked], unsafe_seed=0)
        return (found - X[1].T)[rest, 0] ** 2

    def gain(copies):
        """In units of the bound: above 1 the further copies helped."""
        less = errors(best) - errors(best + copies)
        return less.mean() / (less.std() / np.sqrt(len(less))) / z_bound(1)

    assert gain(noisier) < 1
    assert gain(independent) > 1
