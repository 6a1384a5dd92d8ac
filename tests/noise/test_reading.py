import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.noise import (
    Reader,
    Reading,
    WhiteStreams,
    available_threads,
    coefficients,
    over_blocks,
    position_ids,
    steps,
)
from tests import twins
from tests.scores import worst_correlation_score, worst_covariance_score

KEY = bytes(range(32))

LEVELS = st.lists(st.integers(1, 10**4), min_size=1, max_size=30, unique=True).map(
    lambda levels: [level / 100 for level in levels]
)


def read(noise, wanted, *, ids, columns=2, key=KEY, rows=None):
    reader = Reader(Reading(steps(noise), wanted), key, columns=columns, rows=rows or len(ids))
    return {index: white.copy() for index, white in reader.white(ids)}


def fresh(noise, *, ids, columns):
    streams = WhiteStreams(KEY, noise, columns=columns, rows=len(ids))
    streams.place(ids)
    return np.array([streams.normals(level).copy() for level in noise])


@given(LEVELS, st.data())
@settings(deadline=None, max_examples=60)
def test_a_reading_is_the_coefficients_on_fresh_noise(noise, data):
    wanted = data.draw(st.sets(st.integers(0, len(noise) - 1), min_size=1))
    columns = data.draw(st.integers(1, 5))
    ids = position_ids(3, 7)
    found = read(noise, sorted(wanted), ids=ids, columns=columns)
    expected = np.tensordot(
        coefficients(steps(noise)), fresh(noise, ids=ids, columns=columns), axes=1
    )
    assert set(found) == wanted
    for index in wanted:
        assert np.allclose(found[index], expected[index], rtol=0, atol=1e-11 * noise[index] + 1e-12)


@given(LEVELS, st.data())
@settings(deadline=None, max_examples=40)
def test_a_copy_is_the_same_whatever_else_is_wanted(noise, data):
    one = data.draw(st.integers(0, len(noise) - 1))
    ids = position_ids(0, 9)
    everything = read(noise, range(len(noise)), ids=ids)
    assert np.array_equal(read(noise, [one], ids=ids)[one], everything[one])
    # and whatever is released later
    earlier = noise[: one + 1]
    assert np.array_equal(read(earlier, [one], ids=ids)[one], everything[one])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
@settings(deadline=None, max_examples=30)
def test_a_reading_is_the_same_for_any_chunking(sizes):
    noise = [4.0, 1.0, 2.0, 3.0, 0.5]
    whole = read(noise, range(5), ids=position_ids(0, sum(sizes)), columns=3)
    reader = Reader(Reading(steps(noise), range(5)), KEY, columns=3, rows=max(sizes))
    start = 0
    for size in sizes:
        for index, white in reader.white(position_ids(start, size)):
            assert np.array_equal(white, whole[index][:, start : start + size])
        start += size


def test_memory_is_used_again():
    """Upwards two places are enough for any number of levels."""
    noise = [float(level) for level in range(1, 200)]
    assert Reading(steps(noise), range(len(noise))).places == 2
    assert Reading(steps(noise), [0]).noise == [1.0]


def levels_side_by_side(found):
    """(level, columns, rows) as samples (rows, level * columns)."""
    return found.reshape(-1, found.shape[-1]).T


@pytest.mark.parametrize(
    "noise", [[1.0, 2.0, 4.0], [4.0, 2.0, 1.0], [2.0, 4.0, 1.0, 3.0, 1.5]], ids=str
)
def test_readings_have_the_corner_wave_covariance(noise):
    rows = 100_000
    ids = position_ids(0, rows)
    found = read(noise, range(len(noise)), ids=ids, columns=2)
    path = np.array([found[index] for index in range(len(noise))])
    law = np.kron(twins.corner_wave_matrix(noise), np.eye(2))
    assert worst_covariance_score(levels_side_by_side(path), law) < 1

    alone = fresh(noise, ids=ids, columns=2)
    independent = alone * np.sqrt(noise)[:, None, None]
    scaled = alone[:1] * np.sqrt(noise)[:, None, None]
    assert worst_covariance_score(levels_side_by_side(independent), law) > 1
    assert worst_covariance_score(levels_side_by_side(scaled), law) > 1


def test_what_more_noise_adds_is_independent_of_what_was_there():
    rows = 100_000
    noise = [4.0, 1.0, 2.0]
    found = read(noise, range(3), ids=position_ids(0, rows), columns=2)
    less, more = found[1].T, found[2].T
    assert worst_correlation_score(more - less, less) < 1
    assert worst_correlation_score((more - less) ** 2, less**2) < 1
    # independent noise fails: W(v) - W(u) goes against W(u)
    own = fresh(noise, ids=position_ids(0, rows), columns=2)
    assert worst_correlation_score(2**0.5 * own[2].T - own[1].T, own[1].T) > 1


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("rows", [1, 2, 15, 100])
@pytest.mark.parametrize("block_rows", [None, 1, 7, 1000])
def test_blocks_cover_every_row_once(threads, rows, block_rows):
    seen = np.zeros(rows, dtype=int)
    lock = threading.Lock()
    sizes = []

    def work(size, part):
        with lock:
            seen[part] += 1
            sizes.append(size)
            assert part.stop - part.start <= size

    over_blocks(
        lambda size: size, work, rows=rows, columns=3, threads=threads, block_rows=block_rows
    )
    assert (seen == 1).all()
    assert len(set(sizes)) == 1


def test_an_error_in_a_block_is_not_lost():
    def work(_worker, part):
        if part.start:
            raise ArithmeticError("a block failed")

    with pytest.raises(ArithmeticError, match="a block failed"):
        over_blocks(lambda size: size, work, rows=10, columns=1, threads=2, block_rows=3)


def test_threads_are_those_that_may_run():
    assert available_threads() >= 1
