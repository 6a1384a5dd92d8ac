"""Whole numbers of unrelated tables: how often a column is taken for one of another table.

Columns of the kinds that real tables have: counts, delays, money, dates, numbers of members, with
heaps at round numbers, in tables of 100 to 30,000 rows. Below one alarm in 1e5 pairs is promised.
"""

import itertools
import math

import numpy as np
import pytest

from cornerwave.reuse import Cells, Learned, kept_of
from cornerwave.reuse._bottom import Density
from cornerwave.reuse._compare import _log_tail, _Met, _same_values
from cornerwave.reuse._kept import LOG_CHANCE

SECRET = bytes(range(32))
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000)


def poisson(rng, rows):
    return rng.poisson(rng.choice([3, 30, 300, 3_000]), rows)


def long_tail(rng, rows):
    return np.rint(rng.lognormal(rng.uniform(2, 7), rng.uniform(0.4, 1.8), rows))


def delays(rng, rows):
    short = rng.exponential(rng.choice([10, 40, 150]), rows)
    return np.rint(np.where(rng.random(rows) < 0.95, short, 1_000 * rng.random(rows)))


def mostly_none(rng, rows):
    return np.where(rng.random(rows) < 0.7, 0, np.rint(rng.gamma(0.5, 400, rows)))


def measured(rng, rows):
    return np.rint(np.abs(rng.normal(rng.uniform(100, 900), rng.uniform(30, 250), rows)))


def heaped(rng, rows):
    money = rng.lognormal(8, 0.7, rows)
    return np.where(rng.random(rows) < 0.6, np.round(money, -2), np.rint(money))


def members(rng, rows):
    pool = int(rows * rng.uniform(1.2, 6))
    return rng.integers(0, 500) + rng.permutation(pool)[:rows]


def dense_and_far(rng, rows):
    near = np.arange(rows) - rows // 3
    near[: rows // 20] = -rng.integers(10**4, 10**6, rows // 20)
    return rng.permutation(near)


KINDS = (poisson, long_tail, delays, mostly_none, measured, heaped, members, dense_and_far)


def marks(values):
    values, places = np.asarray(values, dtype=np.float64), np.arange(len(values))
    cells = {"x": Cells.of_numbers(values, SECRET, unit=None)}
    learned = Learned.of(places, cells, ["x"], None, Cells.of_places(places, SECRET))
    return kept_of(learned, ["x"], []).columns[0]


def columns(seed, each):
    rng = np.random.default_rng(seed)
    return [marks(kind(rng, rows)) for kind in KINDS for rows in SIZES for _ in range(each)]


def by_share_of_all_rows(one, two):
    """The rule that must fail: how many rows of two are in both tables, by the tables' sizes."""
    below = min(one.values.below, two.values.below)
    ones = [set(each.values.ones[each.values.ones <= below].tolist()) for each in (one, two)]
    twos = [set(each.values.twos[each.values.twos <= below].tolist()) for each in (one, two)]
    crossing = len(ones[0] & ones[1])
    pairs = crossing + len(twos[0] - twos[1] - ones[1]) + len(twos[1] - twos[0] - ones[0])
    t = one.rows / (one.rows + two.rows)
    q, share = 2 * t * (1 - t), crossing / max(min(map(len, ones)), 1)
    if share < 0.25 or crossing <= q * pairs:
        return False
    f = crossing / pairs
    rest = 0.0 if f == 1 else (1 - f) * np.log((1 - f) / (1 - q))
    return -pairs * (f * np.log(f / q) + rest) < LOG_CHANCE


def alarms(made, rule):
    pairs = [p for p in itertools.combinations(made, 2) if p[0].values and p[1].values]
    return sum(bool(rule(*pair)) for pair in pairs), len(pairs)


def is_repeated(one, two):
    return _same_values(one, two) is not None


def test_whole_numbers_of_unrelated_tables_raise_no_alarm():
    """A few thousand pairs; the rule by the share of all rows takes some of them for one."""
    made = columns(1, 1)
    assert alarms(made, is_repeated)[0] == 0
    assert alarms(made, by_share_of_all_rows)[0] > 0


@pytest.mark.slow
def test_below_one_alarm_in_a_hundred_thousand_pairs():
    """No alarm in 3e5 pairs: a rate of 1e-5 would give none with probability exp(-3)."""
    found, pairs = np.sum([alarms(columns(seed, 4), is_repeated) for seed in range(2, 22)], axis=0)
    assert pairs > 3e5
    assert found == 0


def test_a_density_that_is_estimated_too_low_raises_no_alarm(monkeypatch):
    """Of the dense values, 2.9 standard errors too few have low hashes under this key.

    The rule that must fail takes the estimate for the density.
    """
    rng = np.random.default_rng(8)
    made = [marks(dense_and_far(rng, 3_000)) for _ in range(24)]
    assert alarms(made, is_repeated) == (0, 276)
    monkeypatch.setattr(_Met, "log_tail", lambda met, *hits: _log_tail(*hits, met.chance))
    assert alarms(made, is_repeated)[0] > 0


def up_to(hits, trials, chance):
    """P(Binomial(trials, chance) <= hits), term by term."""
    terms = (
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(hits + 1)
    )
    return sum(terms)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("chance", [0.5, 0.6, 0.7, 0.8, 0.9])
def test_the_bound_holds_whatever_the_chance_is(chance, rate):
    """50 values in a sample are estimated as 0.5; 55 of 60 are met."""
    there = round(50 * chance / (0.5 * rate))
    both = up_to(50, there, rate) * up_to(5, 60, 1 - chance)
    assert math.log(both) <= _Met(0.5, 50, rate).log_tail(55, 60) < 0


def test_the_same_numbers_are_still_recognised():
    """Shuffled, with a tenth of the cells changed, where they are not dense."""
    rng = np.random.default_rng(3)
    for rows in (300, 3_000):
        for values in (np.rint(rng.lognormal(11, 1, rows)), rng.permutation(20 * rows)[:rows]):
            edition = values[rng.permutation(rows)]
            edition[: rows // 10] = values[rng.integers(0, rows, rows // 10)]
            assert is_repeated(marks(edition), marks(values))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_density_is_the_share_of_the_places_that_are_taken(share):
    """Within 5 of its standard errors, from 256 values: 1 / sqrt(256)."""
    rng = np.random.default_rng(4)
    taken = np.flatnonzero(rng.random(20_000) < share)
    far = np.concatenate([taken, 10**7 + 50 * rng.permutation(10_000)])
    density = marks(rng.permutation(far)).density
    others = Density(np.linspace(1_000, 19_000, 33), np.ones(32))
    assert density.met_by(others) == pytest.approx(share, rel=5 / 16)
