"""Keys from keys (HKDF), and AES-256 as a keyed function of single 128-bit blocks.

On distinct inputs, one block each, it is a pseudorandom function: no mode of operation
is wanted, so ECB is the right one here. The processor does it in about a nanosecond
per 64 bits, and Python's lock is free meanwhile.

OpenSSL uses the vector AES of newer processors for XTS, at half of that time, but not for ECB:

    XTS of block j of a call:   AES(x ^ m_j) ^ m_j

The masks m_j are public here: they come from a key and a tweak of zeros. Whoever masks what
goes in, and unmasks what comes out, has AES of single blocks, to the bit. That pays where both
are done in loops that run anyway.
"""

import struct
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES, AES256
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from cornerwave.arrays import Ints, Words
from cornerwave.keyed._strict import strict, widest_vectors

KEY_BYTES = 32
MOST_BLOCKS = 1 << 20
"""Blocks of one call in XTS."""
_MASK_KEY, _TWEAK = bytes(KEY_BYTES), bytes(16)


def expand(secret: bytes, purpose: str, context: bytes = b"") -> bytes:
    """Return 32 secret bytes for one purpose; no purpose reveals another."""
    info = f"cornerwave/1/{purpose}/".encode() + context
    return HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=info).derive(secret)


class BlockFunction:
    """A secret random-looking function of 128-bit blocks. Each thread needs its own.

    `masked`: of blocks that are masked, and its images are.
    """

    def __init__(self, key: bytes, *, masked: bool = False) -> None:
        how = _masked(key) if masked else Cipher(AES256(key), modes.ECB())  # noqa: S305
        self._aes = how.encryptor()

    def __call__(self, blocks: Words, out: NDArray[np.uint8]) -> Words:
        """Return the images of (n, 2) words, made inside `out`, flat."""
        for start in range(0, len(blocks), MOST_BLOCKS):
            content: Any = blocks[start : start + MOST_BLOCKS]
            room: Any = out[16 * start :]
            self._aes.update_into(memoryview(content).cast("B"), room)
        return out[: 16 * len(blocks)].view(np.uint64)


def _masked(key: bytes) -> Cipher[Any]:
    # the mode has no state: each call begins with the first mask
    return Cipher(AES(key + _MASK_KEY), modes.XTS(_TWEAK))


def masks(blocks: int) -> Words:
    """Return what the blocks of a call of a masked function are masked by, flat."""
    size = 1 << max(10, (min(blocks, MOST_BLOCKS) - 1).bit_length())
    found = _first_masks(size)
    return found[: 2 * blocks] if blocks <= size else np.resize(found, 2 * blocks)


@lru_cache
def _first_masks(size: int) -> Words:
    first = np.frombuffer(_TWEAK, dtype=np.uint64).reshape(1, 2)
    found = np.empty(2 * size, dtype=np.uint64)
    found[:2] = BlockFunction(_MASK_KEY)(first, room_for(1))
    _double(found)
    return found


@strict
def _double(masks: Any) -> None:
    """Fill in each mask from the one before it: times x in the field of 2^128 elements."""
    one, top = np.uint64(1), np.uint64(63)
    for at in range(2, masks.shape[0], 2):
        low, high = masks[at - 2], masks[at - 1]
        masks[at] = (low << one) ^ (np.uint64(0x87) * (high >> top))
        masks[at + 1] = (high << one) | (low >> top)


def room_for(blocks: int) -> NDArray[np.uint8]:
    """Return memory for the images of so many blocks; AES asks for 15 bytes to spare."""
    return np.empty(16 * blocks + 15, dtype=np.uint8)


# --------------------------------------------------------------------------------------------------
# Secrets that cannot leave by accident: not in a message, not in a pickle.


@dataclass(frozen=True, repr=False)
class Secrets:
    """Some 32-byte secrets, each for one purpose; a subclass names them.

    An engine that must send them to another process calls `reveal`, and rebuilds them there.
    """

    def reveal(self) -> dict[str, bytes]:
        """Return the secrets by name. Whoever sees them can strip the noise from every copy."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"

    def __reduce__(self) -> str:
        raise TypeError("secrets are not pickled by accident; an engine sends what reveal() gives")


# --------------------------------------------------------------------------------------------------
# A keyed 128-bit hash of texts: SipHash-2-4 (Aumasson and Bernstein 2012).
#
# Whoever does not hold the key can neither compute nor predict it, so a row's id says
# nothing about the row's key, and two keys meet in one id with probability 2^-128.
#
# Texts are hashed TILE at a time, word by word, so that vector units do several at once; long
# ones, whose neighbours would have to wait for them, one by one.


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


# --------------------------------------------------------------------------------------------------
# A keyed universal hash of rows of 64-bit words: NH (Black, Halevi, Krawczyk et al. 1999).
#
#     NH(x) = sum over words of (low(x_i) + k_2i mod 2^32) (high(x_i) + k_2i+1 mod 2^32)   mod 2^64
#
# For two different rows of one length and any difference d, NH(x) - NH(y) = d with probability
# at most 2^-32 over the key. Two of them, with keys of their own, are two lanes of 64 bits: they
# differ by a given pair with probability at most 2^-64. So row id + NH(x), lane by lane, is the
# same for two different pairs of id and row with probability at most 2^-64. It is no secret
# function by itself: whoever sees it learns about the key. It goes through a cipher first.


_HALF, _LOW = _U(32), _U(0xFFFF_FFFF)
STRIP = 512
"""Rows whose lanes stay in the nearest cache."""


def hash_key(secret: bytes, words: int) -> Words:
    """Return the key of rows of so many words: four halves for each."""
    counters = np.zeros((words, 2), dtype=np.uint64)
    counters[:, 0] = np.arange(words)
    return BlockFunction(secret)(counters, room_for(words)).reshape(-1, 2).copy()


@strict
def fill_row_blocks(ids: Any, words: Any, start: int, key: Any, blocks: Any) -> None:
    """Fill blocks with the ids of rows from `start` on, and the hashes of (words, rows) added."""
    low, high = np.empty(STRIP, dtype=np.uint64), np.empty(STRIP, dtype=np.uint64)
    for first in range(0, blocks.shape[0], STRIP):
        rows = min(STRIP, blocks.shape[0] - first)
        at = start + first
        for row in range(rows):
            low[row], high[row] = ids[at + row, 0], ids[at + row, 1]
        for word in range(words.shape[0]):
            _add_hashes(words[word, at : at + rows], key[word], low, high)
        for row in range(rows):
            blocks[first + row, 0], blocks[first + row, 1] = low[row], high[row]


@strict
def _add_hashes(column: Any, key: Any, low: Any, high: Any) -> None:
    a, b = key[0] & _LOW, key[0] >> _HALF
    c, d = key[1] & _LOW, key[1] >> _HALF
    for row in range(column.shape[0]):
        one, two = column[row] & _LOW, column[row] >> _HALF
        low[row] += ((one + a) & _LOW) * ((two + b) & _LOW)
        high[row] += ((one + c) & _LOW) * ((two + d) & _LOW)
