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

from cornerwave import _core
from cornerwave.arrays import Ints, Words

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
        # XTS has no state here: each call begins with the first mask
        how: Cipher[Any] = (
            Cipher(AES(key + _MASK_KEY), modes.XTS(_TWEAK))
            if masked
            else Cipher(AES256(key), modes.ECB())  # noqa: S305
        )
        self._aes = how.encryptor()

    def __call__(self, blocks: Words, out: NDArray[np.uint8]) -> Words:
        """Return the images of (n, 2) words, made inside `out`, flat."""
        for start in range(0, len(blocks), MOST_BLOCKS):
            content: Any = blocks[start : start + MOST_BLOCKS]
            room: Any = out[16 * start :]
            self._aes.update_into(memoryview(content).cast("B"), room)
        return out[: 16 * len(blocks)].view(np.uint64)


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
    _core.double_masks(found)
    return found


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
        """Return the secrets by name. Anyone who sees them can strip the noise from every copy."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"

    def __reduce__(self) -> str:
        raise TypeError("secrets are not pickled by accident; an engine sends what reveal() gives")


# --------------------------------------------------------------------------------------------------
# A keyed 128-bit hash of texts: SipHash-2-4 (Aumasson and Bernstein 2012).
#
# Nobody without the key can compute or predict it, so a row's id reveals
# nothing about the row's key, and two keys meet in one id with probability 2^-128.


def hash_bytes(starts: Ints, content: NDArray[np.uint8], secret: bytes, out: Words) -> None:
    """Fill out (n, 2) with the 128-bit keyed hash of content[starts[i] : starts[i + 1]]."""
    _core.hash_texts(starts, content, _key_of(secret), out)


def hash_words(words: Words, lengths: Words, secret: bytes, out: Words) -> None:
    """Fill out with that of short texts in words (most, n), first bytes lowest, the rest zeros."""
    _core.hash_words(words, lengths, _key_of(secret), out)


def _key_of(secret: bytes) -> Words:
    return np.array(struct.unpack("<QQ", secret[:16]), dtype=np.uint64)


# --------------------------------------------------------------------------------------------------
# A keyed universal hash of rows of 64-bit words: NH (Black, Halevi, Krawczyk et al. 1999).
#
#     NH(x) = sum over words of (low(x_i) + k_2i mod 2^32) (high(x_i) + k_2i+1 mod 2^32)   mod 2^64
#
# For two different rows of one length and any difference d, NH(x) - NH(y) = d with probability
# at most 2^-32 over the key. Two of them, with keys of their own, are two lanes of 64 bits: they
# differ by a given pair with probability at most 2^-64. So row id + NH(x), lane by lane, is the
# same for two different pairs of id and row with probability at most 2^-64. It is no secret
# function by itself: anyone who sees it learns about the key. It goes through a cipher first.


def hash_key(secret: bytes, words: int) -> Words:
    """Return the key of rows of so many words: four halves for each."""
    counters = np.zeros((words, 2), dtype=np.uint64)
    counters[:, 0] = np.arange(words)
    return BlockFunction(secret)(counters, room_for(words)).reshape(-1, 2).copy()
