"""A keyed 128-bit hash of texts: SipHash-2-4 (Aumasson and Bernstein 2012).

Whoever does not hold the key can neither compute nor predict it, so a row's id says
nothing about the row's key, and two keys meet in one id with probability 2^-128.

Texts are hashed TILE at a time, word by word, so that vector units do several at once; long
ones, whose neighbours would have to wait for them, one by one.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Ints, Words
from cornerwave.keyed._strict import strict, widest_vectors

_U = np.uint64
_V0, _V1 = _U(0x736F6D6570736575), _U(0x646F72616E646F6D ^ 0xEE)
_V2, _V3 = _U(0x6C7967656E657261), _U(0x7465646279746573)

TILE, LONG = 256, 64
"""Texts that are hashed side by side, and the bytes from which on one makes a tile too long."""


def hash_bytes(starts: Ints, content: NDArray[np.uint8], secret: bytes, out: Words) -> None:
    """Fill out (n, 2) with the 128-bit keyed hash of content[starts[i] : starts[i + 1]]."""
    first, end = int(starts[0]), int(starts[-1])
    words = np.zeros((end - first) // 8 + 1, dtype="<u8")
    words.view(np.uint8)[: end - first] = content[first:end]
    words = words.astype(np.uint64, copy=False)
    _fill_text_hashes(starts - first, words, _key_of(secret), out)


def hash_words(words: Words, lengths: Words, secret: bytes, out: Words) -> None:
    """Fill out with that of short texts in words (most, n), first bytes lowest, the rest zeros."""
    _fill_word_hashes(words, lengths, _key_of(secret), out)


def _key_of(secret: bytes) -> Words:
    return np.array(struct.unpack("<QQ", secret[:16]), dtype=np.uint64)


@strict
def _turn(word: Any, by: int) -> Any:
    return (word << _U(by)) | (word >> _U(64 - by))


@strict
def _two_rounds(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    for _ in range(2):
        v0 += v1
        v1 = _turn(v1, 13) ^ v0
        v0 = _turn(v0, 32)
        v2 += v3
        v3 = _turn(v3, 16) ^ v2
        v0 += v3
        v3 = _turn(v3, 21) ^ v0
        v2 += v1
        v1 = _turn(v1, 17) ^ v2
        v2 = _turn(v2, 32)
    return v0, v1, v2, v3


@strict
def _word(words: Any, at: int, stop: int, length: int) -> Any:
    """Return the 8 bytes at a place; at the end those that are left, the length above them."""
    at, last = min(at, stop), words.shape[0] - 1
    whole, shift = at >> 3, _U(8 * (at & 7))
    word = words[min(whole, last)] >> shift
    word |= (words[min(whole + 1, last)] << _U(1)) << (_U(63) - shift)
    half = _U(4 * min(stop - at, 8))
    word &= ((_U(1) << half) << half) - _U(1)
    return word | (_U(0) if stop - at >= 8 else _U(length) << _U(56))


@strict
def _absorb(v0: Any, v1: Any, v2: Any, v3: Any, words: Any, there: Any) -> None:
    """Take a word into each state that there is one for."""
    for i in range(words.shape[0]):
        a, b, c, d = _two_rounds(v0[i], v1[i], v2[i], v3[i] ^ words[i])
        mask = there[i]
        v0[i] = ((a ^ words[i]) & mask) | (v0[i] & ~mask)
        v1[i] = (b & mask) | (v1[i] & ~mask)
        v2[i] = (c & mask) | (v2[i] & ~mask)
        v3[i] = (d & mask) | (v3[i] & ~mask)


@strict
def _squeeze(v0: Any, v1: Any, v2: Any, v3: Any, out: Any) -> None:
    """Fill out[row] with the hash of each state: four rounds before either half of it."""
    widest_vectors()
    for i in range(out.shape[0]):
        a, b, c, d = _two_rounds(v0[i], v1[i], v2[i] ^ _U(0xEE), v3[i])
        a, b, c, d = _two_rounds(a, b, c, d)
        v0[i] = a ^ b ^ c ^ d
        a, b, c, d = _two_rounds(a, b ^ _U(0xDD), c, d)
        a, b, c, d = _two_rounds(a, b, c, d)
        v1[i] = a ^ b ^ c ^ d
    for i in range(out.shape[0]):
        out[i, 0], out[i, 1] = v0[i], v1[i]


@strict
def _begin(room: Any, key: Any) -> None:
    room[0], room[1], room[2], room[3] = _V0 ^ key[0], _V1 ^ key[1], _V2 ^ key[0], _V3 ^ key[1]


@strict
def _fill_word_hashes(words: Any, lengths: Any, key: Any, out: Any) -> None:
    """Fill out[row] with the hash of a text of so many bytes in words[:, row]."""
    room = np.empty((6, TILE), dtype=np.uint64)
    for start in range(0, out.shape[0], TILE):
        some = slice(start, min(start + TILE, out.shape[0]))
        sizes, rows = lengths[some], out[some].shape[0]
        v0, v1, v2, v3 = room[0, :rows], room[1, :rows], room[2, :rows], room[3, :rows]
        own, there = room[4, :rows], room[5, :rows]
        _begin(room, key)
        for number in range(sizes.max() // _U(8) + _U(1)):
            given = words[number, some]
            for i in range(rows):
                last = sizes[i] >> _U(3)
                own[i] = given[i] | (sizes[i] << _U(56) if _U(number) == last else _U(0))
                there[i] = _U(0) - _U(_U(number) <= last)
            _absorb(v0, v1, v2, v3, own, there)
        _squeeze(v0, v1, v2, v3, out[some])


@strict
def _fill_text_hashes(starts: Any, words: Any, key: Any, out: Any) -> None:
    """Fill out[row] with the hash of the text from starts[row] to the next."""
    room, row, rows = np.empty((6, TILE), dtype=np.uint64), 0, out.shape[0]
    while row < rows:
        end, longest = row + 1, starts[row + 1] - starts[row]
        while end < min(row + TILE, rows) and longest < LONG > starts[end + 1] - starts[end]:
            longest = max(longest, starts[end + 1] - starts[end])
            end += 1
        _fill_tile(starts[row : end + 1], words, longest // 8 + 1, key, room, out[row:end])
        row = end


@strict
def _fill_tile(starts: Any, words: Any, most: int, key: Any, room: Any, out: Any) -> None:
    """Fill out[row] with the hashes of some texts, of at most so many words."""
    rows = out.shape[0]
    v0, v1, v2, v3 = room[0, :rows], room[1, :rows], room[2, :rows], room[3, :rows]
    own, there = room[4, :rows], room[5, :rows]
    _begin(room, key)
    for number in range(most):
        for i in range(rows):
            start, stop = starts[i], starts[i + 1]
            own[i] = _word(words, start + 8 * number, stop, stop - start)
            there[i] = _U(0) - _U(start + 8 * number <= stop)
        _absorb(v0, v1, v2, v3, own, there)
    _squeeze(v0, v1, v2, v3, out)
