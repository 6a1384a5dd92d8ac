"""Leaks in few rows, and noise that some rows have from others: what is seen, and what is not."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from cornerwave.audit import as_json, audit, notes, verdict
from cornerwave.audit._chance import bernstein, chi_square_score
from cornerwave.audit._single_rows import (
    LENGTH_GAPS,
    ROOM,
    WEIGHTS,
    ShortRows,
    _evidence_of,
    _is_seen,
    _pairs,
    _ratio_limit,
    _taper,
    find_sums,
)
from cornerwave.audit._steps import Nearest
from tests.audit.leaks import shaped, tables
from tests.audit.releases import gaussian
from tests.scores import z_bound

RNG = np.random.default_rng
ROUNDS = 3


@pytest.mark.parametrize(("widest", "honest"), [(ROOM, True), (8, False)])
def test_the_widest_gap_counts_as_many_pairs_as_chance(widest, honest):
    """The ends of the range that rows were kept in do not show. A gap twice as wide shows them."""
    scores = []
    for seed in range(12):
        lengths = np.sort(RNG(seed).uniform(-1, 1, 1 << 16))
        taper, room = _taper(lengths, every=False)
        found = _pairs(lengths, taper, room * ROOM / widest)
        scores.append(found.over / math.sqrt(found.variance))
    is_fair = abs(np.mean(scores)) < z_bound(2) / math.sqrt(len(scores))
    assert bool(is_fair) is honest


def test_sums_of_two_rows_are_counted_as_a_naive_search_counts_them():
    z = RNG(1).normal(size=(2, 60))
    z[:, 50:] = (z[:, :10] + z[:, 20:30] * RNG(2).choice([-1, 1], 10)) / math.sqrt(2)
    pairs = itertools.combinations(range(60), 2)
    sums = [z[:, i] + sign * z[:, j] for i, j in pairs for sign in (1, -1)]
    away = [
        np.abs(s[:, None] + sign * math.sqrt(2) * z).max(axis=0).min()
        for s in sums
        for sign in (1, -1)
    ]
    expected = int((np.array(away) < 1e-9).sum())
    found = find_sums(z, np.zeros(2), rows=60)
    assert found.matches == expected == 10
    assert found.by_chance < 0.01


def test_sums_by_chance_stay_below_the_bound():
    """One column in wide cells: as many as expected, within chance."""
    z = RNG(3).normal(size=(1, 150))
    found = find_sums(z, np.full(1, 2.0**-19), rows=150)
    assert 20 < found.matches < found.by_chance + z_bound(1) * math.sqrt(3 * found.by_chance)


def test_rows_next_to_a_plane_are_closed_under_sums():
    """Of the triples of a long table many more are kept than of rows chosen at random."""
    n, room = 40_000, 400
    z = RNG(4).normal(size=(n, 3))
    z[20_000:30_000] = (z[:10_000] + z[10_000:20_000]) / math.sqrt(2)
    stacked = np.vstack([np.zeros((3, n)), z.T, np.ones(n)])[None]
    kept = Nearest(3, room)
    for part in np.split(stacked, 8, axis=2):  # the noise begins after X, nothing comes before it
        kept = kept + kept.of(part, (3, 0), part[:, 5] ** 2, part[:, -1] > 0)
    flat = kept.vectors
    assert flat.shape == (3, room)
    assert set(flat[2]) == set(z[np.argsort(np.abs(z[:, 2]))[:room], 2])
    found = find_sums(flat, np.zeros(3), rows=n)
    # m^2 / (4 n) and what leaves the band; at random it would be m^3 / (4 n^2) = 0.01
    expected = 0.25 * found.would_meet
    assert abs(found.matches - expected) < z_bound(1) * math.sqrt(expected)


def test_pairs_of_one_length_are_those_too_many():
    """From both sides, the density cancels; twins remain."""
    x = np.sort(RNG(5).normal(size=4000))
    found = _pairs(x, np.ones(4000), 2.0**-7)
    assert abs(found.over) < z_bound(1) * math.sqrt(found.variance)
    twins = np.sort(np.concatenate([x, x[:2000:2] + 1e-6]))
    found = _pairs(twins, np.ones(5000), 2.0**-16)
    away = z_bound(1) * math.sqrt(found.variance)
    assert found.over / WEIGHTS[0] == pytest.approx(1000, abs=away / WEIGHTS[0])


@pytest.mark.parametrize("smear", [0.0, 0.008])
def test_rows_kept_for_their_length_are_no_closer_to_each_other_than_by_chance(smear):
    """Their density has ends, sharp or smeared by rounding. With sharp ends, pairs are too many."""
    chosen = RNG([8, round(1000 * smear)]).chisquare(5, (ROUNDS, 150_000))
    for squares in chosen:
        kept = squares[np.argsort(np.abs(squares - 4.35))[:32_768]]
        score = np.sort(chi_square_score(kept, 5) + smear * RNG(9).normal(size=len(kept)))
        taper, room = _taper(score, every=False)
        gaps = [gap for gap in LENGTH_GAPS if gap <= room]
        assert len(gaps) >= len(LENGTH_GAPS) - 1
        for gap in gaps:
            found = _pairs(score, taper, gap)
            bound = z_bound(2 * ROUNDS * len(gaps))
            assert bernstein(max(found.over, 0.0), found.variance) < bound
        sharp = _pairs(score, np.ones(len(score)), LENGTH_GAPS[0])
        assert bernstein(sharp.over, sharp.variance) > 10


def test_likelihood_ratios_exceed_their_limit_as_rarely_as_markov_says():
    """Over 500 honest tables of 100 rows, at a limit that a twentieth may exceed."""
    tables_, limit = 500, _ratio_limit(0.05)
    squares = RNG(6).chisquare(3, (tables_, 100))
    over = sum(ShortRows((0,), own, 3, 100).weak > limit for own in squares)
    assert over <= 0.05 * tables_
    short = np.concatenate([squares[0, :97], [0.01, 0.02, 0.01]])
    assert ShortRows((0,), short, 3, 100).weak > limit


def test_rows_that_were_not_kept_count_against_a_leak():
    """Of them nothing is known but that their ratio is not below 0."""
    rows = np.array([3.0, 5.0, -1.0])
    known = _evidence_of([np.append(rows, -1e9)])
    assert _evidence_of([rows], 1) == pytest.approx(known)
    assert _evidence_of([rows], 0) > known


@pytest.mark.parametrize(("freedom", "rows"), [(2, 20_000), (3, 3_000), (4, 3_000)])
def test_a_leak_in_few_rows_is_found_or_said_not_to_be_seen(freedom, rows):
    """Though the copies at hand have it: put in once more, it would show in some of them."""
    limit, silent, twice = _ratio_limit(0.01 / 24), 0, 0
    for seed in range(40):
        squares = RNG([seed, rows]).chisquare(freedom, rows)
        squares[: round(0.003 * rows)] *= 0.1**2
        kept = RNG(seed).permutation(squares)
        short = ShortRows((0,), kept, freedom, rows)
        if short.weak <= limit:
            silent += _is_seen(short.leaks(), limit)
            more = np.concatenate([kept[round(0.003 * rows) :], squares[: round(0.003 * rows)]])
            twice += ShortRows((0,), more, freedom, rows).weak > limit
    assert silent <= 3  # one in fifty is allowed: more with probability 0.01
    assert twice


def summed(rows, seed, columns):
    rng = RNG([seed, 4])
    X, z = gaussian(rows, seed)[:, :columns], rng.normal(size=(rows, columns))
    third = rows // 3
    z[2 * third : 3 * third] = (z[:third] + z[third : 2 * third]) / math.sqrt(2)
    noise = z * X.std() if columns == 1 else shaped(X, z)
    return pa.table({"a": X[:, 0]} | ({"b": X[:, 1]} if columns > 1 else {})), X + noise


@pytest.mark.slow
def test_what_cannot_be_seen_is_said_in_the_verdict():
    """Sums in one column meet by chance; in two they are seen, unless copies are rounded."""
    leak = "a third of the rows with the sum of two others' noise"
    source, copy = summed(6000, 1, 1)
    found = audit(source, [pa.table({"a": copy[:, 0]})])
    assert found.clean
    assert leak in verdict(found)
    assert list(as_json(found)["unseen"]) == list(found.unseen)
    assert any(leak in line for line in notes(found))
    source, copy = summed(6000, 1, 2)
    fine = audit(source, [pa.table({"a": copy[:, 0], "b": copy[:, 1]})])
    assert {check.name for check in fine.faults} == {"sums"}
    assert leak not in fine.unseen
    coarse = audit(source, [pa.table({"a": np.rint(copy[:, 0]), "b": np.rint(copy[:, 1])})])
    assert leak in coarse.unseen


@pytest.mark.slow
def test_turned_noise_is_seen_through_some_rounding():
    rng, rows = RNG(7), 20_000
    X = gaussian(rows, 7)
    z, half = rng.normal(size=X.shape), rows // 2
    z[half:] = z[:half] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for digits, seen in ((2, True), (0, False)):
        found = audit(*tables(X, [np.round(X + shaped(X, z), digits)]))
        assert ("lengths" in {check.name for check in found.faults}) is seen
        assert seen or any("turned" in leak for leak in found.unseen)


TURNED = "half of the rows with the noise of the other half, turned"


def whole_numbers(seed, *, rows=300_000, turned=False, step=1.0):
    """Ages, incomes that many rows share, and weights, with noise rounded to a step."""
    rng, half = RNG([seed, 12]), rows // 2
    ages, zero = rng.integers(18, 80, rows), rng.random(rows) < 0.9
    X = np.column_stack([ages, np.where(zero, 0, rng.exponential(300, rows)), ages * 1e3])
    X = np.rint(X + rng.normal(size=X.shape) * [0, 0, 1e5])
    z = rng.normal(size=X.shape)
    if turned:
        z[half:] = z[:half] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return tables(X, [np.rint((X + shaped(X, z)) / step) * step])


def lengths_of(found):
    return max(check.value / check.limit for check in found.checks if check.name == "lengths")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(more, marks=pytest.mark.slow) for more in (1, 2))]
)
@pytest.mark.slow
def test_whole_numbers_do_not_look_turned(seed):
    """Rounded noise says nothing of lengths, so nothing is claimed; fine noise does."""
    found = audit(*whole_numbers(seed))
    assert lengths_of(found) < 1
    assert TURNED in found.unseen
    for step in (0.5, 1e-4):
        assert lengths_of(audit(*whole_numbers(seed, step=step))) < 1


@pytest.mark.slow
def test_turned_rows_of_whole_numbers_are_found_where_rounding_lets_them():
    found = audit(*whole_numbers(1, turned=True, step=1e-4))
    assert lengths_of(found) > 1
    assert TURNED not in found.unseen
    assert TURNED in audit(*whole_numbers(1, turned=True)).unseen


def test_a_copy_that_shows_too_little_is_named_once():
    """A copy and the step from it to the next are two steps of three names."""
    X = np.rint(gaussian(2000, 3))
    noise = shaped(X, RNG(13).normal(size=X.shape))
    more = noise + shaped(X, RNG(14).normal(size=X.shape))
    found = audit(*tables(X, [np.rint(X + noise), np.rint(X + more)]))
    assert len(found.unseen[TURNED]) == 2
    [line] = [line for line in notes(found) if line.endswith(TURNED)]
    assert line == f"would not be detected in {' and '.join(found.copies)}: {TURNED}"
