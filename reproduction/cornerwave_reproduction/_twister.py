"""Known rows reveal their noise, and the noise reveals the state of a Mersenne Twister.

The scheme that falls draws uniform doubles u = (a 2^26 + b) / 2^53 from MT19937, two
outputs each, row by row, and adds  sqrt(v) L z  with z = Phi^-1(u), K = L L'. An
adversary who knows some true rows computes  z = L^-1 (y - x) / sqrt(v)  and so u to
about 45 bits: all 27 bits of `a` and many of `b`.

Every output bit of the twister is a sum modulo 2 of bits of its first state. The known
bits of outputs at known places give equations

    A s = b   over GF(2),   s: 624 words of 32 bits, of which 31 bits never matter,

one per bit, packed 64 to a word. They are solved a word of columns at a time, with
tables of the sums of 8 pivot rows (the method of the four Russians). The state gives
all the noise, and the noise all the rows.

Against noise from a keyed cryptographic function the same bits contradict each other:
there is no state, and nothing is stripped.
"""

from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.keyed import strict
from cornerwave.noise import factor

WORDS, SHIFT = 624, 397
STATE_BITS = 32 * WORDS
UNUSED_BITS = 31
FIRST_BITS, DOUBLE_BITS = 27, 53
"""Bits of a double that its first output makes, and that both make."""

ENOUGH = 60_000
"""Equations that determine 19937 bits of state, though many follow from others."""

_PACKED = STATE_BITS // 64
_MATRIX = 0x9908B0DF
_BYTE = np.uint64(255)
_8, _16, _24, _32, _40, _48, _56 = (np.uint64(8 * byte) for byte in range(1, 8))
_NORMAL = NormalDist()


def strip_twister(
    copy: Any, *, noise: float, covariance: Any, leaked: Any, truth: Any
) -> Floats | None:
    """Recover the twister's state from leaked rows; return the copy without its noise.

    copy: (T, N); noise: v; covariance: K (N, N); leaked: (n,) ascending positions;
    truth: (n, N). Rows in one stretch suffice from about 700 / N on, scattered ones from
    about 1200 / N; more if a column is small beside its mean, which hides bits. Returns
    None unless exactly one state fits and it predicts the noise of every leaked row.
    """
    copy, truth = np.asarray(copy, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    lower = np.sqrt(noise) * factor(np.atleast_2d(covariance)).lower
    leaked = np.asarray(leaked, dtype=np.int64)
    uniform, slack = _uniforms(copy[leaked], truth, lower)
    places = leaked[:, None] * copy.shape[1] + np.arange(copy.shape[1])
    state = _state(places.ravel(), uniform.ravel(), slack.ravel())
    if state is None:
        return None
    predicted = seeded(state).random(copy.shape)
    if not np.allclose(predicted[leaked], uniform, rtol=0, atol=1e-6):
        return None
    return np.asarray(copy - normals(predicted) @ lower.T)


def normals(uniform: Floats) -> Floats:
    """Return the normal quantile of each double in [0, 1), shape for shape.

    >>> normals(np.array([0.5])).round(12).tolist()
    [0.0]
    """
    middles = np.clip(uniform + 2.0**-54, 2.0**-54, 1 - 2.0**-53)
    return np.reshape([_NORMAL.inv_cdf(u) for u in middles.ravel()], uniform.shape)


def _uniforms(rows: Floats, truth: Floats, lower: Floats) -> tuple[Floats, Floats]:
    """Return the uniforms behind known rows, and how far rounding may have moved each."""
    # Columns in units of their noise, or the inverse of a large one drowns a small one.
    size = np.sqrt((lower**2).sum(axis=1))
    scale = np.where(size > 0, size, 1.0)
    inverse = np.linalg.pinv(lower / scale[:, None]) / scale
    white = (rows - truth) @ inverse.T
    slack = (np.abs(rows) + np.abs(truth)) @ np.abs(inverse).T * 2.0**-52 + 2.0**-50
    return np.reshape([_NORMAL.cdf(z) for z in white.ravel()], white.shape), slack


def _state(places: Any, uniform: Floats, slack: Floats) -> NDArray[np.uint32] | None:
    """Return the first state from uniforms known to within `slack`."""
    # A bit is known if both ends of the interval agree on it and on all bits above it.
    low, high = (_bits_of(uniform + side) for side in (-slack, slack))
    agreed = DOUBLE_BITS - np.frexp(low ^ high)[1].astype(np.int64)
    used = np.searchsorted(np.cumsum(agreed), ENOUGH) + 1
    known = (low[:used, None] >> np.arange(DOUBLE_BITS - 1, -1, -1)) & 1
    outputs = 2 * places[:used, None] + np.arange(2)
    first = np.minimum(agreed[:used], FIRST_BITS)
    rows = equations(
        outputs.ravel(), top_bits=np.column_stack([first, agreed[:used] - first]).ravel()
    )
    return solve(rows, known[np.arange(DOUBLE_BITS) < agreed[:used, None]])


def _bits_of(uniform: Floats) -> Ints:
    whole = np.floor(np.clip(uniform, 0.0, 1 - 2.0**-DOUBLE_BITS) * 2.0**DOUBLE_BITS)
    return whole.astype(np.int64)


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
    # Below the rank every row is 0 = right-hand side: a 1 there is a contradiction.
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


# Plain loops on purpose: array expressions take Numba far longer to compile.


@strict
def _add(row: Any, other: Any, start: int) -> None:
    """Add a row of packed bits to another, from the given word on."""
    for at in range(start, row.shape[0]):
        row[at] ^= other[at]


@strict
def _twist(state: Any, k: int, fresh: Any) -> None:
    """Replace word k of a state whose bits are packed sums: far ^ (following >> 1) ^ matrix."""
    current, following, far = state[k], state[(k + 1) % WORDS], state[(k + SHIFT) % WORDS]
    fresh[:] = far
    for bit in range(32):
        if bit < 31:  # bit 30 comes from the current word, the lower ones from the following
            _add(fresh[bit], current[31] if bit == 30 else following[bit + 1], 0)
        if _MATRIX >> bit & 1:
            _add(fresh[bit], following[0], 0)
    state[k] = fresh


@strict
def fill_equations(state: Any, tempering: Any, places: Any, top_bits: Any, out: Any) -> None:
    """Run the twister on sums of bits; write the tempered top bits of the wanted outputs."""
    fresh = np.empty((32, state.shape[2]), dtype=np.uint64)
    wanted = row = 0
    for place in range(places[-1] + 1):
        _twist(state, place % WORDS, fresh)
        if place == places[wanted]:
            for top in range(top_bits[wanted]):
                for bit in range(32):
                    if tempering[31 - top] >> bit & 1:
                        _add(out[row, : state.shape[2]], fresh[bit], 0)
                row += 1
            wanted += 1


@strict
def _fill_table(rows: Any, pivots: Any, first: int, rank: int, word: int, table: Any) -> None:
    """Fill table[byte, bits] with the sum, from the word on, of the pivot rows of those bits."""
    table[:] = 0
    for pivot in range(first, rank):
        byte, bit = divmod(pivots[pivot] % 64, 8)
        tail = rows[pivot, word:]
        for bits in range(256):
            if bits >> bit & 1:
                for at in range(len(tail)):
                    table[byte, bits, at] ^= tail[at]


@strict
def _clear_below(rows: Any, rank: int, word: int, mask: Any, table: Any) -> None:
    """Add to each row from the rank on the pivot rows of its masked bits of a word."""
    for below in range(rank, rows.shape[0]):
        bits = rows[below, word] & mask
        if bits == 0:
            continue
        tail = rows[below, word:]
        b0, b1, b2, b3 = bits & _BYTE, bits >> _8 & _BYTE, bits >> _16 & _BYTE, bits >> _24 & _BYTE
        b4, b5, b6, b7 = bits >> _32 & _BYTE, bits >> _40 & _BYTE, bits >> _48 & _BYTE, bits >> _56
        for at in range(len(tail)):  # from 0: only then does LLVM know the index and vectorise
            low = table[0, b0, at] ^ table[1, b1, at] ^ table[2, b2, at] ^ table[3, b3, at]
            high = table[4, b4, at] ^ table[5, b5, at] ^ table[6, b6, at] ^ table[7, b7, at]
            tail[at] ^= low ^ high


@strict
def _reduced(value: Any, rows: Any, pivots: Any, first: int, rank: int, word: int) -> Any:
    """Return a word with the bits of the pivots from first to rank cleared."""
    for pivot in range(first, rank):
        if value >> np.uint64(pivots[pivot] % 64) & np.uint64(1):
            value ^= rows[pivot, word]
    return value


@strict
def _take_pivot(rows: Any, row: int, pivots: Any, first: int, rank: int, word: int) -> int:
    """Make a row the pivot number `rank` of a word; return the bit that it clears."""
    for pivot in range(first, rank):
        if rows[row, word] >> np.uint64(pivots[pivot] % 64) & np.uint64(1):
            _add(rows[row], rows[pivot], word)
    bit = 0
    while not rows[row, word] >> np.uint64(bit) & np.uint64(1):
        bit += 1
    for pivot in range(first, rank):
        if rows[pivot, word] >> np.uint64(bit) & np.uint64(1):
            _add(rows[pivot], rows[row], word)
    for at in range(word, rows.shape[1]):
        rows[row, at], rows[rank, at] = rows[rank, at], rows[row, at]
    pivots[rank] = word * 64 + bit
    return bit


@strict
def eliminate(rows: Any, pivots: Any) -> int:
    """Bring packed rows to echelon form in place; return the rank and fill the pivot columns."""
    count, width = rows.shape
    table = np.empty((8, 256, width), dtype=np.uint64)
    rank = 0
    for word in range(width - 1):
        first, mask, row = rank, np.uint64(0), rank
        # Only rows that give a pivot are touched whole; for the others one word decides.
        while row < count and ~mask != 0:
            if _reduced(rows[row, word], rows, pivots, first, rank, word) != 0:
                bit = _take_pivot(rows, row, pivots, first, rank, word)
                mask |= np.uint64(1) << np.uint64(bit)
                rank += 1
            row += 1
        # The rest by table: one look per byte of the word instead of one sum per pivot.
        _fill_table(rows, pivots, first, rank, word, table)
        _clear_below(rows, rank, word, mask, table)
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
