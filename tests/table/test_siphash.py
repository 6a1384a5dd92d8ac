import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cornerwave.columns import hash_texts
from tests import twins

KEY = bytes(range(16))

# Key 00..0f, input 00 01 .. of each length, 128 bits of output: as OpenSSL 3 gives them.
OPENSSL = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    17: "473d06e8738db89854c066c47ae47740",
    63: "5150d1772f50834a503e069a973fbd7c",
}


def rows_of(values, key=KEY):
    return [tuple(map(int, row)) for row in hash_texts(values, key)]


@pytest.mark.parametrize("length", OPENSSL)
def test_official_vectors(length):
    text = bytes(range(length))
    expected = np.frombuffer(bytes.fromhex(OPENSSL[length]), dtype="<u8")
    assert rows_of(pa.array([text])) == [tuple(map(int, expected))]
    assert twins.siphash_128(KEY, text) == tuple(map(int, expected))


@given(
    st.binary(min_size=16, max_size=32),
    st.lists(st.binary(max_size=40), min_size=1, max_size=6),
)
@settings(deadline=None)
def test_equals_the_twin(key, texts):
    assert rows_of(pa.array(texts), key) == [twins.siphash_128(key, text) for text in texts]


def test_many_texts_of_all_lengths_side_by_side():
    rng = np.random.default_rng(3)
    lengths = rng.choice(
        [0, 5, 8, 11, 16, 63, 64, 300], size=9000, p=[0.1] * 4 + [0.3, 0.1, 0.1, 0.1]
    )
    texts = [bytes([n % 251]) * length for n, length in enumerate(lengths.tolist())]
    found = rows_of(pa.array(texts))
    for row in [*range(600), *range(8100, 8300), 8999]:  # over the ends of tiles, and of parts
        assert found[row] == twins.siphash_128(KEY, texts[row])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9))
@settings(deadline=None)
def test_any_whole_number_hashes_as_its_text(numbers):
    for values in (numbers, [abs(number) % 2**63 for number in numbers]):
        assert rows_of(pa.array(values)) == rows_of(pa.array(list(map(str, values))))


def test_whole_numbers_of_every_length_hash_as_their_text():
    ends = [end for power in range(19) for end in (10**power - 1, 10**power)] + [
        2**53 + 1,
        2**63 - 1,
    ]
    assert rows_of(pa.array(ends)) == rows_of(pa.array(list(map(str, ends))))
    assert rows_of(pa.array(ends[1:]).slice(3)) == rows_of(pa.array(list(map(str, ends[4:]))))


def test_whole_numbers_on_either_side_of_where_they_are_parted():
    """They are parted by floats, which may be one off."""
    rng = np.random.default_rng(4)
    numbers = [
        int(number)
        for part in (10**8, 10**16)
        for most in (2**40, 2**53, 2**63)
        for multiple in rng.integers(0, most // part + 1, 300) * part
        for number in (multiple - 1, multiple, multiple + 1)
        if 0 <= number < 2**63
    ]
    assert rows_of(pa.array(numbers)) == rows_of(pa.array(list(map(str, numbers))))


def test_long_texts():
    for length in (255, 256, 257, 1000):
        text = b"x" * length
        assert rows_of(pa.array([text])) == [twins.siphash_128(KEY, text)]


@given(st.lists(st.text(max_size=12), min_size=1, max_size=9), st.integers(0, 9), st.integers(0, 9))
@settings(deadline=None)
def test_slices_and_dictionaries_hash_as_their_values(texts, start, length):
    expected = [twins.siphash_128(KEY, text.encode()) for text in texts]
    part = slice(start, start + length)
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.array(texts, type_)
        assert rows_of(array) == expected
        assert rows_of(array.slice(start, length)) == expected[part]
    coded = pa.array(texts).dictionary_encode()
    assert rows_of(coded) == expected
    assert rows_of(coded.slice(start, length)) == expected[part]
    assert rows_of(pa.concat_arrays([coded, coded])) == expected * 2


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64(), pa.decimal128(38, 0)], ids=str
)
def test_whole_numbers_hash_as_their_text_whatever_their_type(type_):
    numbers = pa.array([0, 7, 100]).cast(pa.int64()).cast(type_)
    assert rows_of(numbers) == rows_of(pa.array(["0", "7", "100"]))


def test_bytes_of_any_kind():
    texts = [b"\xff\x00", b"ab"]
    expected = [twins.siphash_128(KEY, text) for text in texts]
    for type_ in (pa.binary(), pa.large_binary(), pa.binary(2), pa.binary_view()):
        assert rows_of(pa.array(texts, type_)) == expected


def test_other_keys_give_other_hashes():
    values = pa.array([str(number) for number in range(100)])
    assert not set(rows_of(values)) & set(rows_of(values, bytes(16)))
    assert len(set(rows_of(values))) == 100


def test_no_rows():
    assert hash_texts(pa.array([], pa.string()), KEY).shape == (0, 2)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_no_texts_may_have_no_offsets(kind):
    """Arrow lets an array of no texts be without the one offset that it would have."""
    nothing = pa.py_buffer(b"")
    texts = pa.Array.from_buffers(kind, 0, [None, nothing, nothing])
    assert hash_texts(texts, bytes(32)).shape == (0, 2)
