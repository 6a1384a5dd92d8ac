"""What an adversary who knows how rows are distributed leaves, beside what the product says.

The adversary here has code of its own: the posterior mean over 10,000 fresh rows of the very
distribution, given the whole copy, numbers and categories. It attacks the product's own copies.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.attack import KnownCells, KnownRows, measure_joint
from cornerwave.errors import LevelError
from cornerwave.levels import LATTICE, Level, Privacy
from cornerwave.privacy import PLACES, JointShares
from cornerwave.vault import Vault
from tests.choosing import one_now

ADVERSARY = True
ROWS, FRESH, ATTACKED = 10_000, 10_000, 1000
HALF = PLACES.index(500)


def items(rng, rows):
    """Twenty yes-or-no items of eight types."""
    often = np.where(np.random.default_rng(1).random((8, 20)) < 0.5, 0.05, 0.95)
    return (rng.random((rows, 20)) < often[rng.integers(0, 8, rows)]).astype(float)


def clusters(rng, rows):
    """Twelve clusters in six columns."""
    centres = np.random.default_rng(2).normal(size=(12, 6))
    return centres[rng.integers(0, 12, rows)] + 0.1 * rng.normal(size=(rows, 6))


def sales(rng, rows):
    """Quantity, price, and what they come to."""
    quantity, price = 1 + rng.poisson(1, rows), np.exp(rng.normal(2, 0.8, rows))
    return np.column_stack([quantity, price, quantity * price])


def ranked(rng, rows):
    """Twelve clusters, to be perturbed on the scale of ranks: each column by itself is normal."""
    centres = np.random.default_rng(4).normal(size=(12, 6))
    return np.exp(centres[rng.integers(0, 12, rows)] + 0.1 * rng.normal(size=(rows, 6)))


def normal(rng, rows):
    """What only a linear estimate is good for."""
    mixed = np.random.default_rng(3).normal(size=(5, 5))
    return rng.normal(size=(rows, 5)) @ mixed


SCORED = ("ranked",)
TABLES = {each.__name__: each for each in (items, clusters, sales, ranked, normal)}


@cache
def drawn(name):
    return TABLES[name](np.random.default_rng(5), ROWS)


def registered(vault, name):
    X = drawn(name)
    table = pa.table({f"c{i}": column for i, column in enumerate(X.T)})
    transform = dict.fromkeys(table.column_names, "rank") if name in SCORED else {}
    return vault.register(name, table, transform=transform)


def attacked(dataset, name, **asked):
    """Return what the adversary leaves of each column of a copy, and its standard error."""
    copy = dataset.release(to="a", raw=True, **asked)
    Y = np.array([np.asarray(column) for column in copy.to_frame().columns])[:, :ATTACKED]
    truth, fresh = drawn(name)[:ATTACKED].T, TABLES[name](np.random.default_rng(6), FRESH).T
    if name in SCORED:  # who has a copy can rank its values as well as the owner
        Y, truth, fresh = (dataset.frozen.scaled(each) for each in (Y, truth, fresh))
    noise = copy.level.noise * np.cov(drawn(name).T if name not in SCORED else truth)
    estimate = naive_posterior(Y.T, fresh.T, noise)
    errors = (estimate - truth.T) ** 2 / truth.var(axis=1)
    return errors.mean(axis=0), errors.std(axis=0) / ATTACKED**0.5


def naive_posterior(Y, fresh, noise):
    """E[X | Y] under the distribution of the fresh rows."""
    values, axes = np.linalg.eigh(noise)
    white = axes[:, values > 1e-9 * values[-1]] / np.sqrt(values[values > 1e-9 * values[-1]])
    points, seen = fresh @ white, Y @ white
    log_weights = seen @ points.T - (points**2).sum(axis=1) / 2
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    return weights @ fresh / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", one_now(TABLES, "clusters"))
def test_what_is_shown_is_what_an_adversary_of_its_own_leaves(tmp_path, name):
    dataset = registered(Vault.create(tmp_path / "v"), name)
    shown = np.array(list(dataset.frozen.left_by_joint(dataset.level_of(Privacy(0.5))).values()))
    left, error = attacked(dataset, name, privacy=0.5)
    # both are means over rows: 512 of them behind the figure shown, so that its error is larger
    margin = 4 * error * np.sqrt(1 + ATTACKED / 512) + 0.02
    assert (shown < left + margin).all(), "the figure hides what an attack recovers"
    assert (shown > left - margin).all()
    if name == "normal":
        assert shown == pytest.approx([0.5] * len(shown), abs=0.01)
    else:
        assert shown.min() < 0.4  # and a linear estimate leaves 0.5


@pytest.mark.parametrize("name", one_now(TABLES, "clusters"))
def test_against_bayes_half_is_left_on_a_fresh_attack(tmp_path, name):
    dataset = registered(Vault.create(tmp_path / "v"), name)
    left, error = attacked(dataset, name, privacy=0.5, against="bayes")
    assert (left > 0.5 - 4 * error * np.sqrt(1 + ATTACKED / 512) - 0.02).all()
    level = dataset.level_of(Privacy(0.5, "bayes"))
    below = Level(LATTICE[level.thousandths - 2])
    assert min(dataset.frozen.left_by_joint(level).values()) >= 0.4999
    if level > dataset.level_of(Privacy(0.5)):  # the least level that does
        assert min(dataset.frozen.left_by_joint(below).values()) < 0.5
    assert (level > Level(1.05)) == (name != "normal")


def test_categories_that_are_told_by_two_others_together():
    """One is where two others differ: no linear estimate sees that, the joint posterior does."""
    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 2, (2, 20_000))
    cells = tuple(
        KnownCells(name, codes, np.full(2, 0.5), np.full(2, 0.5))
        for name, codes in (("a", a), ("b", b), ("c", a ^ b))
    )
    nothing = np.empty((0, 20_000)), np.empty(0), np.empty((0, 0)), np.empty((0, 0))
    shares = measure_joint(KnownRows((), *nothing, cells)).shares
    # exactly: a cell is retained with probability q, else drawn, by an independent path each
    q = 0.5**0.5
    seen = q * np.eye(2) + (1 - q) / 2
    chance = np.zeros((2, 2, 2, 2))  # of a, and of what is seen of a, b and c
    for x in range(2):
        for y in range(2):
            chance[x] += 0.25 * np.einsum("i,j,k->ijk", seen[x], seen[y], seen[x ^ y])
    left = 1 - (chance**2 / chance.sum(axis=0)).sum()
    assert left / 0.5 < 0.45
    for share in shares.values():
        # 512 rows, each error at most 1 of a variance of 1/2
        assert share[HALF] == pytest.approx(left / 0.5, abs=4 * 0.5 / 512**0.5)


def test_what_is_kept_is_known_to_the_adversary():
    rng = np.random.default_rng(9)
    kept = rng.integers(0, 4, 8000)
    x = np.where(kept < 2, 3.0, -3.0) + rng.normal(size=8000)
    pi = np.bincount(kept) / 8000
    K = np.array([[x.var()]])

    def left(*cells):
        return measure_joint(KnownRows(("x",), x[None], x[None].mean(axis=1), K, K, cells)).shares

    assert left(KnownCells("kept", kept, pi, None))["x"][HALF] < 0.12  # Var(x | kept) is 0.1
    assert left()["x"][HALF] > 0.15


def test_shares_rise_with_the_noise_and_gaps_are_no_fault():
    rng = np.random.default_rng(10)
    X = clusters(rng, 4000).T
    X[2, ::3] = np.nan
    K = np.cov(clusters(np.random.default_rng(11), 4000).T)
    rows = KnownRows(tuple("abcdef"), X, np.nanmean(X, axis=1), K, K)
    for share in measure_joint(rows).shares.values():
        assert np.isfinite(share).all()
        assert (np.diff(share) >= 0).all()


def test_few_rows_are_not_measured_and_the_choice_is_refused(tmp_path):
    vault = Vault.create(tmp_path / "v")
    small = pa.table({"x": np.random.default_rng(0).normal(size=150)})
    dataset = vault.register("small", small, few_rows=True)
    assert dataset.frozen.left_by_joint(Level(1.0)) == {}
    with pytest.raises(LevelError, match="too few rows"):
        dataset.release(to="a", privacy=0.5, against="bayes")
    with pytest.raises(LevelError, match="choose linear or bayes"):
        dataset.release(to="a", privacy=0.5, against="somebody")
    with pytest.raises(LevelError, match="give privacy, not noise"):
        dataset.release(to="a", noise=1.0, against="bayes")


def test_a_share_that_no_level_leaves_is_refused_with_the_figure():
    assert JointShares({"x": tuple(np.linspace(0.01, 0.4, len(PLACES)))}).place_of(500) is None
    assert JointShares({}).place_of(1) is None
