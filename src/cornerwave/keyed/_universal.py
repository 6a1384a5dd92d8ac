"""A keyed universal hash of rows of 64-bit words: NH (Black, Halevi, Krawczyk et al. 1999).

    NH(x) = sum over words of (low(x_i) + k_2i mod 2^32) (high(x_i) + k_2i+1 mod 2^32)   mod 2^64

For two different rows of one length and any difference d, NH(x) - NH(y) = d with probability
at most 2^-32 over the key. Two of them, with keys of their own, are two lanes of 64 bits: they
differ by a given pair with probability at most 2^-64. So row id + NH(x), lane by lane, is the
same for two different pairs of id and row with probability at most 2^-64. It is no secret
function by itself: whoever sees it learns about the key. It goes through a cipher first.
"""

from typing import Any

import numpy as np

from cornerwave.arrays import Words
from cornerwave.keyed._cipher import BlockFunction, room_for
from cornerwave.keyed._strict import strict

_U = np.uint64
_HALF, _LOW = _U(32), _U(0xFFFF_FFFF)
STRIP = 512
"""Rows whose lanes stay in the nearest cache."""


def hash_key(secret: bytes, words: int) -> Words:
    """Return the key of rows of so many words: four halves for each."""
    counters = np.zeros((words, 2), dtype=np.uint64)
    counters[:, 0] = np.arange(words)
    return BlockFunction(secret)(counters, room_for(words)).reshape(-1, 2).copy()


@strict
def fill_row_blocks(ids: Any, words: Any, start: int, key: Any, blocks: Any) -> None:
    """Fill blocks with the ids of rows from `start` on, and the hashes of (words, rows) added."""
    low, high = np.empty(STRIP, dtype=np.uint64), np.empty(STRIP, dtype=np.uint64)
    for first in range(0, blocks.shape[0], STRIP):
        rows = min(STRIP, blocks.shape[0] - first)
        at = start + first
        for row in range(rows):
            low[row], high[row] = ids[at + row, 0], ids[at + row, 1]
        for word in range(words.shape[0]):
            _add_hashes(words[word, at : at + rows], key[word], low, high)
        for row in range(rows):
            blocks[first + row, 0], blocks[first + row, 1] = low[row], high[row]


@strict
def _add_hashes(column: Any, key: Any, low: Any, high: Any) -> None:
    a, b = key[0] & _LOW, key[0] >> _HALF
    c, d = key[1] & _LOW, key[1] >> _HALF
    for row in range(column.shape[0]):
        one, two = column[row] & _LOW, column[row] >> _HALF
        low[row] += ((one + a) & _LOW) * ((two + b) & _LOW)
        high[row] += ((one + c) & _LOW) * ((two + d) & _LOW)
