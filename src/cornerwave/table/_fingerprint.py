"""Which row is which, and whether this is still the same table.

    row id       the 128-bit keyed hash of the key column's text; or the row's position
    fingerprint  sum over rows of AES(row id + NH(row))        in two lanes, modulo 2^64 each

NH is a universal hash of a row's values, 64 bits each, under one secret key, and is added lane
by lane; AES-256 uses another key. Sums do not care about order, chunks or threads; with
positions as ids the rows' order still counts, since it is in the ids.

Why it is sound. All rows of a dataset have one number of values, which NH needs, and their ids
differ. Let two tables differ in r pairs of id and row; equal pairs cancel. Any one of the r
meets another in the input of AES with probability at most (r - 1) 2^-64. If it meets none, its
image is random and independent of all others, and the sums are equal with probability 2^-128
(2^-126 if a pair stands there twice), plus what tells AES from a random function. So whoever
does not know the keys, and sees no sum, offers another table that passes with probability at
most r 2^-64: 2^-36 if he changed all of 10^8 rows, 2^-63 if he changed one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids, Words
from cornerwave.errors import ColumnError
from cornerwave.keyed import BlockFunction, expand, fill_row_blocks, hash_key, room_for, strict
from cornerwave.table._encoded import hash_texts

CHUNK = 4096
"""Rows that are hashed and enciphered at once: they stay in the nearest caches."""


def key_ids(keys: pa.Array, secret: bytes, name: str) -> Ids:
    """Return the row ids of a key column; raise ColumnError if one is missing or has no text."""
    if pa.types.is_dictionary(keys.type):  # where a missing value may be one of the values
        keys = keys.dictionary_decode()
    if keys.null_count:
        raise ColumnError(
            f"the key column {name!r} has {keys.null_count} missing values; every row needs its key"
        )
    try:
        return hash_texts(keys, secret)
    except pa.ArrowException:
        raise ColumnError(f"{name!r}: a column of type {keys.type} cannot be the key") from None


@dataclass(frozen=True)
class Fingerprint:
    """How many rows a table has, and the two 64-bit lanes of the sum over them.

    `a + b` is the fingerprint of both parts of a table together.
    """

    rows: int
    sums: Words

    @classmethod
    def of(cls, ids: Ids, words: Words, secret: bytes) -> "Fingerprint":
        """Return the fingerprint of some rows, given 64 bits for each value (values, rows)."""
        return macs(ids, words, secret)[0]

    @classmethod
    def nothing(cls) -> "Fingerprint":
        """Return the fingerprint of no rows."""
        return cls(0, np.zeros(2, dtype=np.uint64))

    @classmethod
    def read(cls, text: str) -> "Fingerprint":
        """Return the fingerprint that was written as this text."""
        rows, _, sums = text.partition(":")
        return cls(int(rows, 16), np.frombuffer(bytes.fromhex(sums), ">u8").astype(np.uint64))

    def __add__(self, other: "Fingerprint") -> "Fingerprint":
        return Fingerprint(self.rows + other.rows, self.sums + other.sums)

    def __str__(self) -> str:
        return f"{self.rows:x}:{self.sums.astype('>u8').tobytes().hex()}"


def macs(ids: Ids, words: Words, secret: bytes) -> tuple[Fingerprint, Words]:
    """Return the fingerprint of some rows, and 64 bits of each row's MAC, to choose samples by.

    `words` are 64 bits for each value (values, rows).
    """
    encipher = BlockFunction(expand(secret, "rows"))
    key = hash_key(expand(secret, "values"), len(words))
    blocks, room = np.empty((CHUNK, 2), dtype=np.uint64), room_for(CHUNK)
    sums, found = np.zeros(2, dtype=np.uint64), np.empty(len(ids), dtype=np.uint64)
    for start in range(0, len(ids), CHUNK):
        rows = min(CHUNK, len(ids) - start)
        fill_row_blocks(ids, words, start, key, blocks[:rows])
        _take(encipher(blocks[:rows], room), sums, found[start : start + rows])
    return Fingerprint(len(ids), sums), found


@strict
def _take(images: Any, sums: Any, out: Any) -> None:
    """Add up both lanes of the images, and keep the first."""
    low, high = sums[0], sums[1]
    for row in range(out.shape[0]):
        low += images[2 * row]
        high += images[2 * row + 1]
        out[row] = images[2 * row]
    sums[0], sums[1] = low, high
