"""Everything that is keyed.

expand         keys from keys (HKDF)
BlockFunction  AES-256 of single blocks: the only source of random bits; masks, to have it quicker
hash_bytes     SipHash: a keyed 128-bit hash of texts; hash_words for texts in words
hash_key       the key of NH, a universal hash of rows, to be enciphered
Secrets        what keys give, safe from messages and pickles
sign, is_signed, public_key_of, fingerprint_of    Ed25519
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
from cornerwave.keyed._signatures import (
    SIGNATURES,
    fingerprint_of,
    is_signed,
    public_key_of,
    sign,
)

__all__ = [
    "KEY_BYTES",
    "SIGNATURES",
    "BlockFunction",
    "Secrets",
    "expand",
    "fingerprint_of",
    "hash_bytes",
    "hash_key",
    "hash_words",
    "is_signed",
    "masks",
    "public_key_of",
    "room_for",
    "sign",
]
