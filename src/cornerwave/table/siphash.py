"""A keyed 128-bit hash of texts: SipHash-2-4 (Aumasson and Bernstein 2012).

Whoever does not hold the key can neither compute nor predict it, so a row's id says
nothing about the row's key, and two keys meet in one id with probability 2^-128.
"""

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.noise.cipher import Words
from cornerwave.noise.stream import strict

_U = np.uint64
_V0, _V1 = _U(0x736F6D6570736575), _U(0x646F72616E646F6D ^ 0xEE)
_V2, _V3 = _U(0x6C7967656E657261), _U(0x7465646279746573)


def hash_texts(values: pa.Array, secret: bytes) -> Words:
    """Return the 128-bit keyed hash of each value's text, shape (rows, 2)."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    texts = values.cast(pa.large_string()) if not _is_bytes(values.type) else values
    texts = texts.cast(pa.large_binary())
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    hashes = np.empty((len(texts), 2), dtype=np.uint64)
    _fill_text_hashes(
        starts, content, np.array(struct.unpack("<QQ", secret[:16]), dtype=np.uint64), hashes
    )
    return hashes


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
        or pa.types.is_binary_view(type_)
    )


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
