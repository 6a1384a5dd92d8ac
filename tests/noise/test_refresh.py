from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave._core import apply_events
from cornerwave.levels import Level, retention
from cornerwave.noise import MISSING, NOISE_FORMAT, position_ids, refresh, thresholds
from cornerwave.noise import _refresh as module
from tests import twins
from tests.processor import same_lines_of
from tests.scores import worst_cell_score

KEY = bytes(range(32))
NOISE = (0.25, 1.0, 3.0, 1e6)
COUNTS = (5, 3, 2, 1)

# Noise format 1, for ever: key 00 01 .. 1f, column 2, rows 2^40 .. 2^40 + 19, counts 5 3 2 1,
# code row % 4, a row per noise in NOISE.
GOLDEN_START = 2**40
GOLDEN = [
    [0, 1, 2, 3, 0, 3, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3],
    [0, 0, 2, 0, 0, 3, 2, 0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 0],
    [0, 0, 2, 0, 0, 3, 0, 0, 0, 0, 2, 3, 1, 2, 2, 1, 0, 1, 0, 0],
    [1, 3, 1, 0, 1, 1, 0, 0, 0, 2, 2, 1, 0, 1, 1, 0, 0, 1, 0, 1],
]

# An id of two full halves, code 0 of 1000 even values, noise 1, 10, 100, columns 0, 1, 2^32 - 1.
GOLDEN_HASHED = [[0, 0, 0], [788, 930, 910], [0, 98, 98]]

REPORT = """
import hashlib
import numpy as np
from cornerwave.noise import position_ids, refresh, thresholds
codes = (np.arange(20011) % 7).astype(np.int32)
for column in range(3):
    found = refresh(codes, position_ids(2**33, 20011), noise=[0.3, 1.0, 40.0],
                    bounds=thresholds([9, 7, 5, 3, 2, 1, 1]), key=bytes(32), column=column)
    print(hashlib.sha256(found.tobytes()).hexdigest())
"""


def codes_of(values):
    return np.array(values, dtype=np.int32)


def copies(codes, ids=None, *, noise=NOISE, counts=COUNTS, key=KEY, column=0):
    ids = position_ids(0, len(codes)) if ids is None else ids
    return refresh(
        codes_of(codes), ids, noise=noise, bounds=thresholds(counts), key=key, column=column
    )


def drawn(rows, counts=COUNTS, seed=0):
    share = np.array(counts) / sum(counts)
    return np.random.default_rng(seed).choice(len(counts), size=rows, p=share)


# --- the format -----------------------------------------------------------------------------


def test_golden_vectors():
    """If this fails, copies released earlier can no longer be made again."""
    ids = position_ids(GOLDEN_START, 20)
    assert copies(np.arange(20) % 4, ids, column=2).tolist() == GOLDEN
    assert NOISE_FORMAT == 1


def test_golden_vectors_of_a_hashed_id():
    ids = np.array([[2**64 - 1, 2**63 + 5]], dtype=np.uint64)
    found = [
        copies([0], ids, noise=[1.0, 10.0, 100.0], counts=[1] * 1000, column=column)[:, 0].tolist()
        for column in (0, 1, 2**32 - 1)
    ]
    assert found == GOLDEN_HASHED


def test_equals_the_twin():
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 2**64, size=(150, 2), dtype=np.uint64)
    codes = drawn(150)
    codes[::10] = MISSING
    found = copies(codes, ids, column=3)
    for level, noise in zip(found, NOISE, strict=True):
        expected = [
            twins.refreshed(KEY, 3, row_id, code, noise, COUNTS)
            for row_id, code in zip(ids, codes, strict=True)
        ]
        assert level.tolist() == expected


@given(
    st.binary(min_size=32, max_size=32),
    st.floats(min_value=1e-3, max_value=1e9),
    st.lists(st.integers(1, 2**40), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.tuples(*[st.integers(0, 2**64 - 1)] * 2),
)
@settings(deadline=None, max_examples=60)
def test_equals_the_twin_for_any_cell(key, noise, counts, column, row_id):
    ids = np.array([row_id], dtype=np.uint64)
    found = copies([0], ids, noise=[noise], counts=counts, key=key, column=column)[0, 0]
    assert found == twins.refreshed(key, column, row_id, 0, noise, counts)


def test_the_retention_and_the_privacy_are_one_knob():
    for privacy in (0.1, 0.5, 0.75, 0.99):
        level = Level.of(privacy=privacy)
        assert retention(level.noise) == pytest.approx((1 - level.privacy) ** 0.5, rel=1e-15)


@given(st.lists(st.integers(1, 2**60), min_size=1, max_size=50))
def test_the_thresholds_are_exact(counts):
    bounds = [int(bound) for bound in thresholds(counts)]
    total = sum(counts)
    for place, bound in enumerate(bounds[:-1], start=1):
        assert bound == Fraction(sum(counts[:place]) * 2**64, total).__floor__()
    assert bounds[-1] == 2**64 - 1
    assert bounds == sorted(bounds)


@pytest.mark.parametrize(
    ("word", "category"),
    [(0, 0), (2**62 - 1, 0), (2**62, 1), (2**63, 2), (2**64 - 1, 2)],
)
def test_a_word_on_a_bound_belongs_above_it(word, category):
    assert category_of(word, thresholds([1, 1, 2])) == category


def category_of(word, bounds):
    """What an event at once draws by this word."""
    words, masks = np.array([0, word], dtype=np.uint64), np.zeros(2, dtype=np.uint64)
    rows, out = np.zeros(1, dtype=np.int64), np.full((1, 1), -1, dtype=np.int32)
    guide, horizon, never = module._guide(bounds), np.ones(1), np.empty(0)
    room = np.empty(1, dtype=np.int64), np.empty(1)
    apply_events(words, masks, rows, never, bounds, guide, horizon, out, *room)
    return out[0, 0]


@given(
    counts=st.lists(st.integers(1, 2**60), min_size=1, max_size=300),
    word=st.integers(0, 2**64 - 1),
    data=st.data(),
)
def test_the_guide_finds_what_counting_the_bounds_finds(counts, word, data):
    bounds = thresholds(counts)
    beside = int(bounds[data.draw(st.integers(0, len(counts) - 1))])
    for tried in (word, max(beside - 1, 0), beside, min(beside + 1, 2**64 - 1)):
        counted = sum(int(bound) <= tried for bound in bounds)
        assert category_of(tried, bounds) == min(counted, len(counts) - 1)


def test_the_guide_serves_more_categories_than_it_has_shares():
    bounds = thresholds(range(1, 20_001))
    for word in np.random.default_rng(3).integers(0, 2**64, 1000, dtype=np.uint64):
        assert category_of(word, bounds) == np.searchsorted(bounds, word, side="right")


# --- what it must not depend on -------------------------------------------------------------

ROWS = 20_000  # more than two blocks


@pytest.fixture(scope="module")
def whole():
    codes = drawn(ROWS)
    codes[::7] = MISSING
    return codes, copies(codes)


def test_the_order_of_levels_plays_no_part(whole):
    codes, found = whole
    assert np.array_equal(copies(codes, noise=NOISE[::-1])[::-1], found)
    for place, noise in enumerate(NOISE):
        assert np.array_equal(copies(codes, noise=[noise])[0], found[place])
    assert np.array_equal(copies(codes, noise=[1.0, 1.0])[0], found[1])


@pytest.mark.parametrize("size", [997, 8191, 8192, 8193])
def test_the_chunks_play_no_part(whole, size):
    codes, found = whole
    parts = [
        copies(codes[start : start + size], position_ids(start, len(codes[start : start + size])))
        for start in range(0, ROWS, size)
    ]
    assert np.array_equal(np.concatenate(parts, axis=1), found)


def test_rows_may_come_in_any_order(whole):
    codes, found = whole
    order = np.random.default_rng(1).permutation(ROWS)
    assert np.array_equal(copies(codes[order], position_ids(0, ROWS)[order]), found[:, order])


def test_threads_play_no_part(whole):
    codes, found = whole
    with ThreadPoolExecutor(4) as pool:
        for copy in pool.map(copies, [codes] * 8):
            assert np.array_equal(copy, found)


def test_missing_stays_missing_and_nothing_else_becomes_so(whole):
    codes, found = whole
    assert ((found == MISSING) == (codes == MISSING)).all()


def test_the_source_is_left_alone(whole):
    codes, _ = whole
    given_codes = codes_of(codes)
    refresh(
        given_codes,
        position_ids(0, ROWS),
        noise=[9.0],
        bounds=thresholds(COUNTS),
        key=KEY,
        column=0,
    )
    assert np.array_equal(given_codes, codes)


def test_no_rows_no_values_but_one_and_no_noise_to_speak_of():
    assert copies([]).shape == (4, 0)
    assert (copies([0] * 50, counts=[7]) == 0).all()
    assert (copies([MISSING] * 9) == MISSING).all()
    codes = drawn(1000)
    assert (copies(codes, noise=[5e-324])[0] == codes).all()
    assert set(copies(codes, noise=[1e300])[0].tolist()) == {0, 1, 2, 3}


def test_bit_identical_on_all_processors():
    assert len(same_lines_of(REPORT)) == 3


# --- the law ----------------------------------------------------------------------------------


def priors(size):
    weights = st.lists(st.integers(1, 1000), min_size=size, max_size=size)
    return weights.map(lambda w: np.array(w) / sum(w))


@st.composite
def chains(draw):
    size = draw(st.integers(2, 5))
    qs = st.floats(0.02, 0.98)
    worse, better = sorted(draw(st.tuples(qs, qs).filter(lambda q: abs(q[0] - q[1]) > 0.01)))
    return draw(priors(size)), better, worse, draw(priors(size))


def gain_of_the_second(joint):
    """How far P(X | both copies) is from P(X | better copy), at most."""
    both = joint / joint.sum(axis=0)
    better = joint.sum(axis=2) / joint.sum(axis=(0, 2))
    return np.abs(both - better[:, :, None])[:, joint.sum(axis=0) > 0].max()


@given(chains())
@settings(deadline=None, max_examples=200)
def test_the_algebra_of_the_chain(chain):
    """P(X | both) = P(X | better copy), whatever the prior; not so for the two wrong schemes."""
    prior, better, worse, pi = chain
    joint = twins.refresh_joint(prior, better, worse, pi)
    # the margins are what each copy is by itself
    for axis, q in ((2, better), (1, worse)):
        alone = prior[:, None] * twins.refresh_matrix(q, pi)
        assert np.abs(joint.sum(axis=axis) - alone).max() < 1e-12
    assert gain_of_the_second(joint) < 1e-12
    for wrong in (twins.shared_uniform_joint, twins.independent_refresh_joint):
        joint = wrong(prior, better, worse, pi)
        for axis, q in ((2, better), (1, worse)):
            alone = prior[:, None] * twins.refresh_matrix(q, pi)
            assert np.abs(joint.sum(axis=axis) - alone).max() < 1e-12
        assert gain_of_the_second(joint) > 1e-8


def test_two_differing_copies_of_one_uniform_give_the_truth_away():
    pi = np.array([0.5, 0.3, 0.2])
    joint = twins.shared_uniform_joint(pi, 0.8, 0.4, pi)
    posterior = joint[:, 0, 1] / joint[:, 0, 1].sum()
    assert posterior.tolist() == [1.0, 0.0, 0.0]
    ours = twins.refresh_joint(pi, 0.8, 0.4, pi)[:, 0, 1]
    assert ours[0] / ours.sum() < 0.91


@given(priors(4), st.floats(0.01, 0.99))
def test_an_indicator_has_the_privacy_of_a_number(pi, q):
    """With pi the column's own law, the best linear estimate recovers q^2 of the variance."""
    joint = pi[:, None] * twins.refresh_matrix(q, pi)
    for value in range(4):
        variance = pi[value] * (1 - pi[value])
        covariance = joint[value, value] - pi[value] * joint[:, value].sum()
        assert covariance**2 / variance**2 == pytest.approx(q**2, rel=1e-9)


def counted(codes, better, worse, size):
    joint = np.zeros((size, size, size))
    np.add.at(joint, (codes, better, worse), 1)
    return joint


LAW_ROWS = 300_000


@pytest.fixture(scope="module")
def law():
    """A prior that is not pi: the law holds whatever the values are."""
    size = len(COUNTS)
    codes = drawn(LAW_ROWS, (1, 2, 3, 4), seed=3)
    prior = np.bincount(codes, minlength=size) / LAW_ROWS
    better, worse = copies(codes, noise=[0.5, 2.0])
    return codes, better, worse, prior, np.array(COUNTS) / sum(COUNTS)


def schemes_of(law):
    """Ours and the two that must fall, with the margins all right."""
    codes, better, worse, _, pi = law
    rng = np.random.default_rng(0)
    uniform, replacement = rng.random(LAW_ROWS), rng.choice(len(pi), LAW_ROWS, p=pi)
    shared = [np.where(uniform < retention(v), codes, replacement) for v in (0.5, 2.0)]
    independent = [copies(codes, noise=[v], column=n)[0] for n, v in enumerate((0.5, 2.0))]
    return (better, worse), shared, independent


def test_the_joint_law_is_the_markov_chain(law):
    codes, _, _, prior, pi = law
    q1, q2 = retention(0.5), retention(2.0)
    expected = LAW_ROWS * twins.refresh_joint(prior, q1, q2, pi)
    ours, *wrong = schemes_of(law)
    assert worst_cell_score(counted(codes, *ours, len(pi)), expected) < 1
    for scheme, joint in zip(
        wrong, (twins.shared_uniform_joint, twins.independent_refresh_joint), strict=True
    ):
        found = counted(codes, *scheme, len(pi))
        assert worst_cell_score(found, expected) > 1
        assert worst_cell_score(found, LAW_ROWS * joint(prior, q1, q2, pi)) < 1
        for axis in (1, 2):  # each copy by itself is as it should be
            assert worst_cell_score(found.sum(axis=axis), expected.sum(axis=axis)) < 1


def test_the_worse_copy_says_nothing_beside_the_better_one(law):
    """X and the worse copy are independent among the rows with one value of the better copy."""
    codes, _, _, _, pi = law
    ours, *wrong = schemes_of(law)

    def dependence(better, worse):
        joint = counted(codes, better, worse, len(pi))
        # the worse copy given the better one, as it is in all rows together
        share = joint.sum(axis=0) / joint.sum(axis=(0, 2))[:, None]
        return worst_cell_score(joint, joint.sum(axis=2)[:, :, None] * share[None])

    assert dependence(*ours) < 1
    for scheme in wrong:
        assert dependence(*scheme) > 1


def test_columns_rows_and_keys_are_independent():
    rows, zeros = 200_000, np.zeros(200_001, dtype=int)
    pi = np.array(COUNTS) / sum(COUNTS)

    def pair_score(one, other):
        found = np.zeros((4, 4))
        np.add.at(found, (one[:rows], other[:rows]), 1)
        return worst_cell_score(found, rows * np.outer(law, law))

    law = twins.refresh_matrix(retention(1.0), pi)[0]
    base = copies(zeros, noise=[1.0])[0]
    column = copies(zeros, noise=[1.0], column=1)[0]
    key = copies(zeros, noise=[1.0], key=bytes(32))[0]
    for other in (column, key, base[1:]):
        assert pair_score(base, other) < 1
    # a negative control: one cell in fifty from the other column is found out
    mixed = np.where(np.arange(rows + 1) % 50 == 0, base, column)
    assert pair_score(base, mixed) > 1
