"""Everything that is keyed.

expand         keys from keys (HKDF)
BlockFunction  AES-256 of single blocks: the only source of random bits; masks, to have it quicker
hash_bytes     SipHash: a keyed 128-bit hash of texts; hash_words for texts in words
hash_key       the key of NH, a universal hash of rows, to be enciphered
Secrets        what keys give, safe from messages and pickles
"""

from cornerwave.keyed._cipher import (
    KEY_BYTES,
    BlockFunction,
    Secrets,
    expand,
    hash_bytes,
    hash_key,
    hash_words,
    masks,
    room_for,
)

__all__ = [
    "KEY_BYTES",
    "BlockFunction",
    "Secrets",
    "expand",
    "hash_bytes",
    "hash_key",
    "hash_words",
    "masks",
    "room_for",
]
