"""Keys from keys (HKDF), and AES-256 as a keyed function of single 128-bit blocks.

On distinct inputs, one block each, it is a pseudorandom function: no mode of operation
is wanted, so ECB is the right one here. The processor does it in about a nanosecond
per 64 bits, and Python's lock is free meanwhile.
"""

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from cornerwave.arrays import Words

KEY_BYTES = 32


def expand(secret: bytes, purpose: str, context: bytes = b"") -> bytes:
    """Return 32 secret bytes for one purpose; no purpose reveals another."""
    info = f"cornerwave/1/{purpose}/".encode() + context
    return HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=info).derive(secret)


class BlockFunction:
    """A secret random-looking function of 128-bit blocks. Each thread needs its own."""

    def __init__(self, key: bytes) -> None:
        self._aes = Cipher(AES256(key), modes.ECB()).encryptor()  # noqa: S305

    def __call__(self, blocks: Words, out: NDArray[np.uint8]) -> Words:
        """Return the images of (n, 2) words, made inside `out`, flat."""
        if not len(blocks):
            return out[:0].view(np.uint64)
        content: Any = blocks
        room: Any = out
        size = self._aes.update_into(memoryview(content).cast("B"), room)
        return out[:size].view(np.uint64)


def room_for(blocks: int) -> NDArray[np.uint8]:
    """Return memory for the images of so many blocks; AES asks for 15 bytes to spare."""
    return np.empty(16 * blocks + 15, dtype=np.uint8)
