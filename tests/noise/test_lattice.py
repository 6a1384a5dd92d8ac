"""The path over the lattice: one fixed order, exactly a corner wave, few streams for a level."""

import numpy as np
import pytest

from cornerwave.levels import LATTICE, Level, lattice_order, privacy_of
from cornerwave.noise import (
    Reader,
    Reading,
    ancestors,
    coefficients,
    lattice_index,
    lattice_path,
    level_nearby,
    position_ids,
)
from cornerwave.privacy import Hidden
from tests import twins
from tests.scores import worst_covariance_score


def streams(*thousandths):
    """How many white streams must be read for these levels."""
    return len(ancestors(lattice_path(), [lattice_index(LATTICE[k - 1]) for k in thousandths]))


def test_a_level_of_little_more_noise_is_read_through_no_more_levels():
    """The cheapest of all within half a per cent; controls: it moves, and is not further away."""
    path = lattice_path()
    reads = [len(ancestors(path, [lattice_index(noise)])) for noise in LATTICE]
    chosen = [level_nearby(k) for k in range(1, 1000)]
    for k, other in enumerate(chosen, start=1):
        allowed = [j for j in range(k, 1000) if LATTICE[j - 1] <= 1.005 * LATTICE[k - 1]]
        assert other in allowed
        assert reads[other - 1] == min(reads[j - 1] for j in allowed)
    assert chosen == sorted(chosen)  # no privacy takes less noise than a smaller one
    assert sum(k != other for k, other in enumerate(chosen, start=1)) == 178


def test_only_a_level_that_is_not_of_its_own_privacy_gives_way():
    """Who asks for 0.499 of a table where that takes its own level gets just that."""
    needed = [*range(1, 1000)]
    assert Hidden({}, tuple(needed), {}).level_of(499) == Level(LATTICE[498])
    raised = Hidden({}, tuple(min(k + 9, 999) for k in needed), {})
    assert raised.level_of(490) == Level(LATTICE[499])
    assert raised.level_of(890) == Level(LATTICE[898])
    assert raised.promised(Level(LATTICE[499])) == 0.491
    assert Hidden({}, (0,) * 999, {}).level_of(499) is None


def test_every_level_is_entered_once_tenths_first():
    order = [round(1000 * privacy_of(noise)) for noise in lattice_order()]
    assert sorted(order) == list(range(1, 1000))
    assert order[:9] == [500, 200, 700, 100, 300, 600, 800, 400, 900]
    assert all(k % 10 == 0 for k in order[:99])


def test_a_level_needs_few_streams():
    tenths = [streams(k) for k in range(100, 1000, 100)]
    hundredths = [streams(k) for k in range(10, 1000, 10) if k % 100]
    thousandths = [streams(k) for k in range(1, 1000) if k % 10]
    assert (min(tenths), max(tenths)) == (1, 4)
    assert (round(np.mean(hundredths)), max(hundredths)) == (6, 8)
    assert (round(np.mean(thousandths)), max(thousandths)) == (10, 12)
    assert streams(200, 500, 800) == 4
    assert streams(*range(100, 1000, 100)) == 9


def test_all_999_levels_are_a_corner_wave_exactly():
    """Algebra: the rows on white noise have the min-matrix as their covariance."""
    rows = coefficients(lattice_path())
    noise = lattice_order()
    found, promised = rows @ rows.T, twins.corner_wave_matrix(noise)
    assert np.abs(found - promised).max() <= 1e-12 * max(noise)
    # relative to the two levels of an entry, to a few units in the last place
    size = np.sqrt(np.outer(noise, noise))
    assert np.abs((found - promised) / size).max() < 1e-13
    assert np.abs(twins.independent_matrix(noise) - promised).max() > 1


def test_the_path_is_algorithm_3_in_that_order():
    """A twin by matrix inverse, over the tenths and what lies around 0.3."""
    known = lattice_order()[:9] + [LATTICE[k - 1] for k in (350, 320, 330, 325)]
    mine = coefficients(lattice_path())
    places = [lattice_index(noise) for noise in known]
    expected = twins.algorithm_3_coefficients(known)
    assert np.allclose(mine[np.ix_(places, places)], expected, atol=1e-9)


ROWS = 20_000
SOME = (1, 77, 250, 333, 500, 501, 800, 999)


def test_sampled_noise_has_the_covariance_and_scaled_noise_has_not():
    noise = [LATTICE[k - 1] for k in SOME]
    reading = Reading(lattice_path(), [lattice_index(v) for v in noise])
    reader = Reader(reading, bytes(range(32)), columns=1, rows=ROWS)
    drawn = {index: white[0].copy() for index, white in reader.white(position_ids(0, ROWS))}
    waves = np.column_stack([drawn[lattice_index(v)] for v in noise])
    promised = twins.corner_wave_matrix(noise)
    assert worst_covariance_score(waves, promised) < 1
    scaled = waves[:, :1] * np.sqrt(np.array(noise) / noise[0])
    assert worst_covariance_score(scaled, promised) > 1


@pytest.mark.parametrize("alone", [0.5, 0.123, 0.999])
def test_a_level_is_the_same_whatever_else_is_read(alone):
    noise = Level.of(privacy=alone).noise
    others = [LATTICE[k - 1] for k in (3, 123, 124, 500, 998, 999)]

    def read(levels):
        places = sorted({lattice_index(v) for v in levels})
        reader = Reader(Reading(lattice_path(), places), bytes(32), columns=2, rows=50)
        return {i: w.copy() for i, w in reader.white(position_ids(7, 50))}[lattice_index(noise)]

    assert np.array_equal(read([noise]), read([noise, *others]))


def test_levels_in_between_are_rounded_up_to_more_noise():
    assert Level.of(privacy=0.5).on_lattice().thousandths == 500
    assert Level.of(privacy=0.5000001).on_lattice().thousandths == 501
    assert Level.of(noise=1e-9).on_lattice().thousandths == 1
    for k in (1, 300, 999):
        assert Level.of(privacy=k / 1000).on_lattice() == Level.of(privacy=k / 1000)
        assert Level.of(privacy=k / 1000).thousandths == k
