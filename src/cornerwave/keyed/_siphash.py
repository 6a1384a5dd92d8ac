"""A keyed 128-bit hash of texts: SipHash-2-4 (Aumasson and Bernstein 2012).

Whoever does not hold the key can neither compute nor predict it, so a row's id says
nothing about the row's key, and two keys meet in one id with probability 2^-128.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Ints, Words
from cornerwave.keyed._strict import strict

_U = np.uint64
_V0, _V1 = _U(0x736F6D6570736575), _U(0x646F72616E646F6D ^ 0xEE)
_V2, _V3 = _U(0x6C7967656E657261), _U(0x7465646279746573)


def hash_bytes(starts: Ints, content: NDArray[np.uint8], secret: bytes) -> Words:
    """Return the 128-bit keyed hash of content[starts[i] : starts[i + 1]], shape (n, 2)."""
    hashes = np.empty((len(starts) - 1, 2), dtype=np.uint64)
    key = np.array(struct.unpack("<QQ", secret[:16]), dtype=np.uint64)
    _fill_text_hashes(starts, content, key, hashes)
    return hashes


@strict
def _turn(word: Any, by: int) -> Any:
    return (word << _U(by)) | (word >> _U(64 - by))


@strict
def _rounds(v0: Any, v1: Any, v2: Any, v3: Any, count: int) -> Any:
    for _ in range(count):
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
def _absorb(v0: Any, v1: Any, v2: Any, v3: Any, word: Any) -> Any:
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3 ^ word, 2)
    return v0 ^ word, v1, v2, v3


@strict
def _squeeze(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ _U(0xEE), v3, 4)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _rounds(v0, v1 ^ _U(0xDD), v2, v3, 4)
    return low, v0 ^ v1 ^ v2 ^ v3


@strict
def _fill_text_hashes(starts: Any, content: Any, key: Any, out: Any) -> None:
    """Fill out[row] with the hash of content[starts[row] : starts[row + 1]]."""
    for row in range(out.shape[0]):
        v0, v1, v2, v3 = _V0 ^ key[0], _V1 ^ key[1], _V2 ^ key[0], _V3 ^ key[1]
        at, stop = starts[row], starts[row + 1]
        tail = _U(stop - at) << _U(56)
        while stop - at >= 8:
            word = _U(0)
            for byte in range(8):
                word |= _U(content[at + byte]) << _U(8 * byte)
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
            at += 8
        for byte in range(stop - at):
            tail |= _U(content[at + byte]) << _U(8 * byte)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, tail)
        out[row, 0], out[row, 1] = _squeeze(v0, v1, v2, v3)
