"""Everything that is keyed, or that must be the same to the bit on every machine.

expand         keys from keys (HKDF)
BlockFunction  AES-256 of single blocks: the only source of random bits; masks, to have it quicker
hash_bytes     SipHash: a keyed 128-bit hash of texts; hash_words for texts in words
fill_row_blocks NH: a universal hash of rows, to be enciphered
Secrets        what keys give, safe from messages and pickles
strict         arithmetic without fast-math, and the functions made of it
widest_vectors for the loops that take most of the time
"""

from cornerwave.keyed._cipher import (
    KEY_BYTES,
    BlockFunction,
    Secrets,
    expand,
    fill_row_blocks,
    hash_bytes,
    hash_key,
    hash_words,
    masks,
    room_for,
)
from cornerwave.keyed._strict import (
    bits_of,
    cos_sin_of,
    exp_of,
    finish_stores,
    float_of,
    minus_2_log,
    sine_of,
    square_of,
    store_around_cache,
    strict,
    unit_of,
    whole_sums,
    widest_vectors,
)

__all__ = [
    "KEY_BYTES",
    "BlockFunction",
    "Secrets",
    "bits_of",
    "cos_sin_of",
    "exp_of",
    "expand",
    "fill_row_blocks",
    "finish_stores",
    "float_of",
    "hash_bytes",
    "hash_key",
    "hash_words",
    "masks",
    "minus_2_log",
    "room_for",
    "sine_of",
    "square_of",
    "store_around_cache",
    "strict",
    "unit_of",
    "whole_sums",
    "widest_vectors",
]
