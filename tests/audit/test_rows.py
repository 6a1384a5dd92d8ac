"""What the checks of single rows rest on: ranks, scales, sketches, tables; exact or by a twin."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from cornerwave.audit._category_checks import VALUE_BINS, depends, table_of
from cornerwave.audit._chance import Ranks, bernstein, morton
from cornerwave.audit._repeats import BITS, log_odds
from cornerwave.audit._row_checks import scales_of
from cornerwave.audit._rows import Kept
from cornerwave.audit._steps import Expected
from cornerwave.audit._sums import Layout
from tests.audit.releases import gaussian, white
from tests.scores import z_bound


def test_distances_of_neighbours_have_the_stated_moments_over_all_orders():
    """Exactly, over the 5,040 orders of seven rows: mean 0 and variance 1."""
    first = Ranks.of(np.arange(7))
    distances = [np.abs(np.diff(order)).sum() for order in itertools.permutations(range(7))]
    closer = 1 - 3 * np.array(distances) / 48
    scores = [
        first.neighbours(Ranks.of(np.array(order))) for order in itertools.permutations(range(7))
    ]
    assert closer.mean() == pytest.approx(0, abs=1e-12)
    assert np.mean(np.square(scores)) == pytest.approx(1)


def test_ranks_find_a_function_that_jumps_and_nothing_where_there_is_none():
    rng = np.random.default_rng(1)
    x = rng.random(5000)
    found, chance = Ranks.of((100 * x) % 1), Ranks.of(rng.random(5000))
    assert min(Ranks.of(x).neighbours(found), Ranks.of((x - 0.5) ** 2).table(Ranks.of(x))) > 50
    assert max(Ranks.of(x).scores(chance)) < z_bound(3)


def test_ties_of_two_columns_are_broken_independently():
    rng = np.random.default_rng(1)
    one, other = rng.integers(2, size=(2, 4000))
    # in the same order, the rows within a pair of values would be neighbours in both
    assert Ranks.of(one).neighbours(Ranks.of(other)) > 20
    assert Ranks.of(one, again=True).neighbours(Ranks.of(other)) < z_bound(1)


def test_the_curve_visits_every_cell_of_the_plane_once_and_keeps_neighbours():
    one, other = np.divmod(np.arange(64 * 64), 64)
    places = morton(one, other)
    assert sorted(places.tolist()) == list(range(64 * 64))
    order = np.argsort(places)
    apart = np.abs(np.diff(one[order])) + np.abs(np.diff(other[order]))
    assert np.median(apart) <= 2


def test_scales_suit_the_grid_of_the_values():
    values = np.random.default_rng(1).normal(size=2000)
    written = scales_of(np.round(values, 4), 0.25)
    assert {0.1, 0.01, 0.001} <= set(written)
    assert min(written) > 1e-4
    grid = 2.0**-24
    bits = [g for g in scales_of(np.rint(values / grid) * grid, 0.25) if math.log2(g) % 1 == 0]
    assert grid < min(bits) <= 2**4 * grid
    assert all(g >= 2.0**-38 for g in scales_of(values, 0.25))


def repeated(X, noise, hashes=1 << 16):
    first = [X.T.copy(), (X + noise).T.copy()]
    expected = replace(Expected.of(first, np.zeros((1, X.shape[1]))), hashes=hashes)
    total = expected.nothing()
    for stacked, _ in Layout.of(first).deals(first):
        total = total + total.of(stacked, 0)
    return total.repeated()


def test_repeats_are_counted_though_few_hashes_are_kept():
    X = gaussian(20_000)
    noise = white(X, 1)
    noise[10_000:14_000] = -noise[:4000]
    noise[19_900:] = 0.0
    found = repeated(X, noise, hashes=256)
    assert found.part[0] < 0.1
    # pairs of cells are kept with the probability `part`: a binomial count
    expected, spread = 4000 * found.part[0], math.sqrt(4000 * found.part[0])
    assert abs(found.pairs[0] - expected) < z_bound(1) * spread
    assert found.bare.tolist() == [100]


@pytest.mark.parametrize("deviation", [4e4, 5.2e4, 7e4, 1e5, 3e5])
def test_cells_of_whole_numbers_hold_as_many_of_them_each(deviation):
    """Else copies rounded to whole numbers repeat more often than noise does, cell by cell."""
    rng = np.random.default_rng(7)
    X = np.rint(rng.normal(size=(5000, 2)) * deviation)
    cell = repeated(X, np.rint(rng.normal(size=X.shape) * deviation)).cell[0]
    assert (cell % 2 == 1).all()
    # noise that is not rounded has cells of its own size
    fine = repeated(X, rng.normal(size=X.shape) * deviation).cell[0]
    np.testing.assert_allclose(fine, 2.0**-BITS * deviation, rtol=0.1)


def test_as_many_pairs_meet_by_chance_as_the_bound_says():
    """One column in wide cells: found within chance of the bound, which is nearly exact."""
    rng = np.random.default_rng(1)
    z, cell = rng.normal(size=2000), 1e-3
    _, counts = np.unique(np.rint(z / cell), return_counts=True)
    pairs = (counts * (counts - 1) / 2).sum()
    bound = 2000**2 / 2 * math.exp(log_odds(np.array([cell]), np.eye(1), 4.0))
    assert abs(pairs - bound) < z_bound(1) * math.sqrt(bound)


def test_columns_that_follow_from_others_do_not_count_twice():
    cell = np.full(3, 1e-3)
    K = np.array([[1.0, 0.5, 1.5], [0.5, 1.0, 1.5], [1.5, 1.5, 3.0]])  # the third is the sum
    expected = math.log(1e-6 / (4 * math.pi)) - 0.5 * math.log(0.75)
    assert log_odds(cell[:2], K[:2, :2], 4.0) == pytest.approx(expected)
    # the widest goes first: the sum and one of the others span the same plane
    assert log_odds(cell, K, 4.0) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_kept_at_even_distances_however_parts_are_added(seed):
    rng, numbers = np.random.default_rng(seed), np.arange(50_000.0)
    edges = [0, *np.sort(rng.choice(np.arange(1, 50_000), 9, replace=False)).tolist(), 50_000]
    nothing = Kept(1 << 12)
    parts = [
        nothing.of(start, [numbers[None, start:end]] * 2)
        for start, end in itertools.pairwise(edges)
    ]
    rng.shuffle(parts)
    middle = int(rng.integers(1, 9))
    total = sum(parts[:middle], nothing) + sum(parts[middle:], nothing)
    assert (total.seen, total.every) == (50_000, 16)
    assert total.cells.shape == (2, 1, 50_000 // 16)
    assert total.cells[1, 0].tolist() == list(range(0, 50_000, 16))


def test_scores_of_value_tables_keep_their_bound():
    """P(score > z) < 2 exp(-z^2 / 2) in each of many tables of few rows, within chance."""
    rng, limit, over, tables = np.random.default_rng(1), 2.5, 0, 2000
    for _ in range(tables):
        x, y = rng.choice(4, size=(2, 60), p=[0.5, 0.3, 0.15, 0.05])
        over += depends(table_of(x, y))[0, 1] > limit
    bound = 2 * math.exp(-(limit**2) / 2)
    assert over / tables < bound + z_bound(1) * math.sqrt(bound / tables)
    assert depends(table_of(x, x)).shape == (VALUE_BINS, VALUE_BINS)
    assert bernstein(np.array(-3.0), np.array(8.0)) == pytest.approx(1.0)
