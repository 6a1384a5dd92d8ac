import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave._core import fill_normals
from cornerwave.noise import NOISE_FORMAT, WhiteStreams, position_ids
from tests import twins
from tests.processor import same_lines_of
from tests.scores import (
    normal_distance_score,
    worst_correlation_score,
    worst_covariance_score,
)

KEY = bytes(range(32))
LEVEL = 0.5

# Noise format 1, for ever: key 00 01 .. 1f, noise 0.5, three columns, four rows.
GOLDEN_START = 2**40
GOLDEN = [
    [
        "0x1.286740c2b1e97p-3",
        "0x1.516b8d37751fap+0",
        "-0x1.8f86edf4a77ecp-3",
        "0x1.c18988da11635p+0",
    ],
    [
        "0x1.5b9de777c2291p+0",
        "0x1.99f7ac1a683a8p-2",
        "0x1.0b6940a326f5bp-1",
        "-0x1.f177fad3f7dfbp-2",
    ],
    [
        "0x1.8ecca874733c1p-2",
        "0x1.682c3f2acc277p+0",
        "-0x1.b35d579fa03eep-9",
        "0x1.d30bf592ffcc4p-5",
    ],
]

# An id of two full halves, noise 0.001, five columns: three pairs, the last of one.
GOLDEN_HASHED = [
    [
        "0x1.842e3827496bdp-3",
        "-0x1.9bf2dcc73af5fp-1",
        "0x1.eeb2b4288a752p+0",
        "-0x1.a6b323681910fp+0",
        "0x1.7af87b01ae329p+0",
    ],
    [
        "-0x1.c99af2db4a558p-1",
        "-0x1.664b52b739b64p-1",
        "-0x1.5edae94002106p-1",
        "0x1.18a4a8ca37891p+0",
        "0x1.94f3d6863fe9fp+1",
    ],
]

REPORT = """
import hashlib
import numpy as np
from cornerwave.algorithms import on_demand, parallel
from cornerwave.noise import Reader, Reading, WhiteStreams, position_ids, steps

streams = WhiteStreams(bytes(range(32)), [0.5], columns=5, rows=4099)
streams.place(position_ids(2**33, 4099))
print(hashlib.sha256(streams.normals(0.5).tobytes()).hexdigest())
noise = [2.0, 0.5, 1.0, 0.7, 3.0]
reader = Reader(Reading(steps(noise), [2, 3, 4]), bytes(32), columns=3, rows=1001)
for index, white in reader.white(position_ids(0, 1001)):
    print(index, hashlib.sha256(white.tobytes()).hexdigest())
X = np.arange(3003.0).reshape(1001, 3) % 7
K = [[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 0.5]]
copies = parallel(X, noise=[0.5, 2.0], covariance=K, unsafe_seed=1)
given = dict(zip([0.5, 2.0], copies))
copies += on_demand(X, noise=[1.0, 0.1], given=given, covariance=K, unsafe_seed=2)
print(hashlib.sha256(b"".join(np.ascontiguousarray(c).tobytes() for c in copies)).hexdigest())
wide = np.arange(22022.0).reshape(2002, 11) % 7
K = np.minimum.outer(np.arange(1.0, 12.0), np.arange(1.0, 12.0)) / 3
[copy] = parallel(wide, noise=[0.5], covariance=K, unsafe_seed=3)
print(hashlib.sha256(np.ascontiguousarray(copy).tobytes()).hexdigest())
"""


def normals(key=KEY, level=LEVEL, *, ids, columns):
    streams = WhiteStreams(key, [level], columns=columns, rows=len(ids))
    streams.place(ids)
    return streams.normals(level).copy()


def test_golden_vectors():
    """If this fails, copies released earlier can no longer be made again."""
    found = normals(ids=position_ids(GOLDEN_START, 4), columns=3)
    assert [[float(v).hex() for v in row] for row in found] == GOLDEN
    assert NOISE_FORMAT == 1


def test_golden_vectors_of_hashed_ids_and_pairs():
    ids = np.array([[2**64 - 1, 2**63 + 5], [0x0123456789ABCDEF, 1]], dtype=np.uint64)
    found = normals(bytes(32), 1e-3, ids=ids, columns=5)
    assert [float(v).hex() for v in found[:, 0]] == GOLDEN_HASHED[0]
    assert [float(v).hex() for v in found[:, 1]] == GOLDEN_HASHED[1]


@given(
    st.binary(min_size=32, max_size=32),
    st.floats(min_value=5e-324, max_value=1e308),
    st.integers(1, 7),
    st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 2), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=150)
def test_equals_box_muller_from_aes_bits(key, level, columns, ids):
    ids = np.array(ids, dtype=np.uint64)
    found = normals(key, level, ids=ids, columns=columns)
    assert np.abs(found - twins.normals(key, level, ids, columns)).max() < 1e-10


def test_every_quadrant_and_both_ends_of_the_words():
    """Chosen words instead of the cipher's: the corners a sample does not visit."""
    tops = [0, 1 << 12, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 0x4AFB0CCC06219000]
    angles = [q << 62 | rest for q in range(4) for rest in (0, (1 << 61), (1 << 62) - 1, 1 << 10)]
    words = np.array([(t, a) for t in tops for a in angles], dtype=np.uint64)
    pair = np.empty((2, len(words)))
    unmasked = np.zeros(words.size, dtype=np.uint64)
    fill_normals(words.ravel(), unmasked, pair)
    single = np.empty((1, len(words)))
    fill_normals(words.ravel(), unmasked, single)
    u = 1.0 - (words[:, 0] >> np.uint64(12)).astype(float) / 2**52
    radius = np.sqrt(-2 * np.log(u))
    within = ((words[:, 1] >> np.uint64(10)) % np.uint64(2**52)).astype(float) / 2**52 - 0.5
    quarter = (words[:, 1] >> np.uint64(63)).astype(float)
    half = ((words[:, 1] >> np.uint64(62)) & np.uint64(1)).astype(float)
    angle = np.pi / 2 * (within + quarter + 2 * half)
    assert np.abs(pair - radius * [np.cos(angle), np.sin(angle)]).max() < 1e-10
    turn = ((words[:, 1] >> np.uint64(12)).astype(float) / 2**52 - 0.5) * np.pi
    assert np.abs(single[0] - radius * np.sin(turn)).max() < 1e-10
    assert np.isfinite(pair).all()
    assert np.abs(pair).max() > 8.4  # the largest radius: sqrt(2 * 52 * ln 2)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(1, 6))
@settings(deadline=None, max_examples=50)
def test_white_noise_is_the_same_for_any_chunking(sizes, columns):
    rows = sum(sizes)
    whole = normals(ids=position_ids(5, rows), columns=columns)
    streams = WhiteStreams(KEY, [1.0, LEVEL], columns=columns, rows=max(sizes))
    start = 0
    for size in sizes:
        streams.place(streams.positions(5 + start, size))
        streams.normals(1.0)
        assert np.array_equal(streams.normals(LEVEL), whole[:, start : start + size])
        start += size


def test_a_column_does_not_depend_on_those_after_it():
    """But for the last of an odd number, which has a word of its own."""
    ids = position_ids(0, 50)
    wide = normals(ids=ids, columns=6)
    for columns in (2, 4):
        assert np.array_equal(normals(ids=ids, columns=columns), wide[:columns])
    assert np.array_equal(normals(ids=ids, columns=5)[:4], wide[:4])


def test_rows_may_come_in_any_order():
    ids = np.random.default_rng(0).integers(0, 2**64, size=(100, 2), dtype=np.uint64)
    shuffled = np.random.default_rng(1).permutation(100)
    assert np.array_equal(
        normals(ids=ids, columns=3)[:, shuffled], normals(ids=ids[shuffled], columns=3)
    )


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_white_noise_is_standard_normal_and_independent(columns):
    rows = 200_000
    found = normals(ids=position_ids(0, rows), columns=columns)
    assert normal_distance_score(found[:, :40_000]) < 1
    assert worst_covariance_score(found.T, np.eye(columns)) < 1
    # kurtosis: a squared normal's square varies sqrt(7) times as much as a normal's
    assert worst_covariance_score((found.T**2 - 1) / np.sqrt(2), np.eye(columns)) < np.sqrt(7)
    # what must fail does fail: a variance 3 % off, a tail cut at 2.5
    assert worst_covariance_score(found.T * 1.03, np.eye(columns)) > 1
    assert normal_distance_score(found[:, :40_000] * 1.1) > 1
    assert normal_distance_score(np.random.default_rng(0).uniform(-1.7, 1.7, 40_000)) > 1


def test_levels_keys_columns_and_neighbouring_rows_are_independent():
    rows = 100_000
    ids = position_ids(0, rows + 1)
    base = normals(ids=ids, columns=4).T
    level = normals(level=np.nextafter(LEVEL, 1), ids=ids, columns=4).T
    key = normals(bytes([1, *range(1, 32)]), ids=ids, columns=4).T
    high = normals(ids=ids + np.array([0, 2], dtype=np.uint64), columns=4).T
    for other in (level, key, high):
        assert worst_correlation_score(base, other) < 1
        assert worst_correlation_score(base**2, other**2) < 1
    assert worst_correlation_score(base[:-1], base[1:]) < 1
    # a negative control: a twentieth of shared noise is found out
    assert worst_correlation_score(base, 0.05 * base + level) > 1


def test_the_pair_is_in_the_high_half_of_the_id():
    """Row (low, high) at pair 1 is row (low, high ^ 1) at pair 0: ids must not be chosen so."""
    one = np.array([[7, 0]], dtype=np.uint64)
    other = np.array([[7, 1]], dtype=np.uint64)
    assert np.array_equal(normals(ids=one, columns=4)[2:], normals(ids=other, columns=2))


def test_bit_identical_on_all_processors():
    """Without AVX and FMA the compiler makes other code, which must give the same bits."""
    assert len(same_lines_of(REPORT)) == 6
