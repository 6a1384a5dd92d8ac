"""MT19937 as linear algebra: its state from bits of its outputs.

Every output bit of the Mersenne Twister is a sum modulo 2 of bits of its first
state. Knowing the top bits of outputs at known places gives equations

    A s = b   over GF(2),   s: 624 words of 32 bits, of which 31 bits never matter,

one per bit, packed 64 to a word. They are solved a word of columns at a time, with
tables of the sums of 8 pivot rows (the method of the four Russians). Bits that did
not come from a Mersenne Twister contradict each other, and there is no solution.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Words
from cornerwave.keyed import strict

WORDS = 624
SHIFT = 397
STATE_BITS = 32 * WORDS
UNUSED_BITS = 31

_PACKED = STATE_BITS // 64
_MATRIX = 0x9908B0DF
_BYTE = np.uint64(255)
_8, _16, _24, _32, _40, _48, _56 = (np.uint64(8 * byte) for byte in range(1, 8))


def equations(places: Any, *, top_bits: Any) -> Words:
    """Return what the top bits of the outputs at `places` are sums of.

    places: (n,), ascending from 0; top_bits: (n,), how many bits of each are known.
    Returns (sum of top_bits, 313), most significant bit first; the last word is left
    for the right-hand side.
    """
    places, top_bits = np.asarray(places, dtype=np.int64), np.asarray(top_bits, dtype=np.int64)
    state = np.zeros((WORDS, 32, _PACKED), dtype=np.uint64)
    bits = np.arange(STATE_BITS)
    state[bits // 32, bits % 32, bits // 64] = np.uint64(1) << (bits % 64).astype(np.uint64)
    out = np.zeros((int(top_bits.sum()), _PACKED + 1), dtype=np.uint64)
    fill_equations(state, _tempering(), places, top_bits, out)
    return out


def solve(
    rows: Words, values: Any, *, unknowns: int = STATE_BITS - UNUSED_BITS
) -> NDArray[np.uint32] | None:
    """Return the first state (624,), or None if the equations contradict or do not suffice.

    rows: (n, 313) from `equations`, used as scratch; values: (n,) of 0 and 1.
    """
    rows[:, _PACKED] = np.asarray(values, dtype=np.uint64)
    pivots = np.empty(STATE_BITS, dtype=np.int64)
    rank = eliminate(rows, pivots)
    if rank < unknowns or rows[rank:, _PACKED].any():
        return None
    bits = np.zeros(STATE_BITS, dtype=np.uint8)
    substitute(rows[:rank], pivots[:rank], bits)
    return np.packbits(bits.reshape(WORDS, 32), axis=1, bitorder="little").view("<u4")[:, 0]


def seeded(state: NDArray[np.uint32]) -> np.random.Generator:
    """Return a generator that continues from a first state."""
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": state, "pos": WORDS}}
    return np.random.Generator(twister)


def _tempering() -> NDArray[np.uint32]:
    """Return, for each output bit, the mask of the state bits that it sums (32,)."""
    masks = np.zeros(32, dtype=np.uint32)
    for bit in range(32):
        y = 1 << bit
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        y ^= y >> 18
        for target in range(32):
            masks[target] |= np.uint32((y >> target & 1) << bit)
    return masks


@strict
def _add_bits(word: Any, mask: Any, out: Any) -> None:
    """Add the bits of a word of sums that the mask names."""
    for bit in range(32):
        if mask >> bit & 1:
            for at in range(word.shape[1]):
                out[at] ^= word[bit, at]


@strict
def fill_equations(state: Any, tempering: Any, places: Any, top_bits: Any, out: Any) -> None:
    """Run the twister on sums of bits; write the tempered top bits of the wanted outputs."""
    width = state.shape[2]
    fresh = np.empty((32, width), dtype=np.uint64)
    wanted = row = 0
    for place in range(places[-1] + 1):
        k = place % WORDS
        current, following, far = state[k], state[(k + 1) % WORDS], state[(k + SHIFT) % WORDS]
        for bit in range(32):
            fresh[bit] = far[bit]
            if bit < 31:
                fresh[bit] ^= current[31] if bit == 30 else following[bit + 1]
            if _MATRIX >> bit & 1:
                fresh[bit] ^= following[0]
        state[k] = fresh
        if place == places[wanted]:
            for top in range(top_bits[wanted]):
                _add_bits(fresh, tempering[31 - top], out[row])
                row += 1
            wanted += 1


@strict
def _fill_table(rows: Any, pivots: Any, first: int, rank: int, word: int, table: Any) -> None:
    """Fill table[byte, bits] with the sum of the pivot rows of those bits of that byte."""
    table[:, :, word:] = 0
    for pivot in range(first, rank):
        byte, bit = divmod(pivots[pivot] % 64, 8)
        for bits in range(256):
            if bits >> bit & 1:
                table[byte, bits, word:] ^= rows[pivot, word:]


@strict
def _clear(row: Any, bits: Any, table: Any, word: int) -> None:
    """Add to a row the pivot rows of these bits, from the given word on."""
    t0, t1 = table[0, bits & _BYTE], table[1, bits >> _8 & _BYTE]
    t2, t3 = table[2, bits >> _16 & _BYTE], table[3, bits >> _24 & _BYTE]
    t4, t5 = table[4, bits >> _32 & _BYTE], table[5, bits >> _40 & _BYTE]
    t6, t7 = table[6, bits >> _48 & _BYTE], table[7, bits >> _56]
    for at in range(word, row.shape[0]):
        low = t0[at] ^ t1[at] ^ t2[at] ^ t3[at]
        row[at] ^= low ^ t4[at] ^ t5[at] ^ t6[at] ^ t7[at]


@strict
def eliminate(rows: Any, pivots: Any) -> int:
    """Bring packed rows to echelon form in place; return the rank and fill the pivot columns."""
    count, width = rows.shape
    table = np.empty((8, 256, width), dtype=np.uint64)
    rank = 0
    for word in range(width - 1):
        first, mask = rank, np.uint64(0)
        row = rank
        while row < count and ~mask != 0:
            for pivot in range(first, rank):
                if rows[row, word] >> np.uint64(pivots[pivot] % 64) & np.uint64(1):
                    rows[row, word:] ^= rows[pivot, word:]
            if rows[row, word] != 0:
                bit = 0
                while not rows[row, word] >> np.uint64(bit) & np.uint64(1):
                    bit += 1
                for pivot in range(first, rank):
                    if rows[pivot, word] >> np.uint64(bit) & np.uint64(1):
                        rows[pivot, word:] ^= rows[row, word:]
                for at in range(word, width):
                    rows[row, at], rows[rank, at] = rows[rank, at], rows[row, at]
                pivots[rank] = word * 64 + bit
                mask |= np.uint64(1) << np.uint64(bit)
                rank += 1
            row += 1
        _fill_table(rows, pivots, first, rank, word, table)
        for below in range(row, count):
            _clear(rows[below], rows[below, word] & mask, table, word)
    return rank


@strict
def substitute(rows: Any, pivots: Any, bits: Any) -> None:
    """Solve an echelon form from the bottom; columns without a pivot are 0."""
    width = rows.shape[1]
    solved = np.zeros(width, dtype=np.uint64)
    solved[width - 1] = 1
    for row in range(rows.shape[0] - 1, -1, -1):
        total = np.uint64(0)
        for word in range(width):
            total ^= rows[row, word] & solved[word]
        for half in (32, 16, 8, 4, 2, 1):
            total ^= total >> np.uint64(half)
        value = total & np.uint64(1)
        bits[pivots[row]] = value
        solved[pivots[row] // 64] |= value << np.uint64(pivots[row] % 64)
