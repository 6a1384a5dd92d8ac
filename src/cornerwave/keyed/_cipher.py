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

from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES, AES256
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from cornerwave.arrays import Words
from cornerwave.keyed._strict import strict

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
