"""Which row is which, and whether this is still the same table.

    row id       the 128-bit keyed hash of the key column's text; or the row's position
    fingerprint  per column: sum over rows of MAC(row id, value, column)

MAC is AES-256 in CBC-MAC over two blocks, under secret keys, so nobody without
them can make another table with the same sums. Sums do not care about order, chunks
or threads; with positions as ids the rows' order still counts, since it is in the
ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ids, Words
from cornerwave.errors import ColumnError
from cornerwave.keyed import BlockFunction, room_for, strict
from cornerwave.table._encoded import hash_texts

CHUNK = 8192
"""Rows that are enciphered at once: enough to be worth the call, few enough for the cache."""

MISSING_BITS = np.uint64(0x7FF8_0000_0000_0000)  # every NaN, whatever its payload


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
    """How many rows a table has, and the two 64-bit lanes of each column's sum.

    `a + b` is the fingerprint of both parts of a table together.
    """

    rows: int
    sums: Words

    @classmethod
    def of(
        cls,
        ids: Ids,
        columns: Sequence[Words],
        secret: bytes,
    ) -> "Fingerprint":
        """Return the fingerprint of some rows, given 64 bits for each of their values."""
        encipher = BlockFunction(secret)
        masks_room, room, blocks = room_for(CHUNK), room_for(CHUNK), _blocks()
        sums = np.zeros((len(columns), 2), dtype=np.uint64)
        for start in range(0, len(ids), CHUNK):
            part = slice(start, start + CHUNK)
            masks = encipher(ids[part], masks_room).reshape(-1, 2)
            for index, values in enumerate(columns):
                _fill_blocks(masks, values[part], index, blocks)
                _add_lanes(encipher(blocks[: len(masks)], room), sums[index])
        return cls(len(ids), sums)

    def __add__(self, other: "Fingerprint") -> "Fingerprint":
        return Fingerprint(self.rows + other.rows, self.sums + other.sums)

    def __str__(self) -> str:
        return f"{self.rows:x}:{self.sums.astype('>u8').tobytes().hex()}"


def _blocks() -> Words:
    return np.empty((CHUNK, 2), dtype=np.uint64)


@strict
def _add_lanes(words: Any, total: Any) -> None:
    low, high = total[0], total[1]
    for row in range(words.shape[0] // 2):
        low += words[2 * row]
        high += words[2 * row + 1]
    total[0], total[1] = low, high


@strict
def _fill_blocks(masks: Any, values: Any, column: int, out: Any) -> None:
    for row in range(values.shape[0]):
        out[row, 0] = masks[row, 0] ^ values[row]
        out[row, 1] = masks[row, 1] ^ np.uint64(column)


def bits_of_floats(values: Floats) -> Words:
    """Return the bits of a column of floats, with one pattern for all that is missing."""
    bits = values.view(np.uint64)
    missing = np.isnan(values)
    return np.where(missing, MISSING_BITS, bits) if missing.any() else bits
