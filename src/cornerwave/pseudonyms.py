"""What stands for the key of a row in copies: a pseudonym that only the owner can make.

    pseudonym(row) = the first 20 characters of base32(AES(row id))        100 bits, lower case

Keys of real tables are seldom arbitrary: they are numbered by time, or begin with the person or
the place, so that rows next to each other in the order of the key are alike, and averaging a copy
over them takes the noise away. AES of distinct ids looks like distinct random blocks, whatever is
known about the keys: neither the order nor a prefix of pseudonyms says anything about a row, and
who knows all keys of the table, and all copies, still cannot compute a pseudonym.

The key of AES is the dataset's own: the same for all copies, batches and editions, another for
every other dataset. AES is a permutation, but 28 of its bits are left out: among n rows two have
one pseudonym with probability n^2 / 2^101, 4e-15 for 10^8 rows.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids
from cornerwave.keyed import BlockFunction, room_for, strict

LENGTH = 20
"""Characters of a pseudonym, of 5 bits each."""
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz234567", dtype=np.uint8)
_U = np.uint64


def pseudonyms(ids: Ids, secret: bytes) -> pa.Array:
    """Return the pseudonyms of rows as a column of text."""
    blocks = BlockFunction(secret)(ids, room_for(len(ids))).reshape(-1, 2)
    letters = np.empty((len(ids), LENGTH), dtype=np.uint8)
    _spell(blocks.byteswap(), _ALPHABET, letters)
    ends = np.arange(0, LENGTH * len(ids) + 1, LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(letters))


@strict
def _spell(blocks: Any, alphabet: Any, out: Any) -> None:
    """Write the first 100 bits of blocks, two words each with the first bit on top."""
    for row in range(out.shape[0]):
        first = blocks[row, 0]  # 12 characters are bits 0 to 59, the other 8 from bit 60 on
        then = (first << _U(60)) | (blocks[row, 1] >> _U(4))
        for place in range(12):
            out[row, place] = alphabet[(first >> (_U(59) - _U(5) * _U(place))) & _U(31)]
        for place in range(8):
            out[row, 12 + place] = alphabet[(then >> (_U(59) - _U(5) * _U(place))) & _U(31)]
