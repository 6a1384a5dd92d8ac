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
from cornerwave.noise import factor

WORDS, SHIFT = 624, 397
STATE_BITS = 32 * WORDS
UNUSED_BITS = 31
FIRST_BITS, DOUBLE_BITS = 27, 53
"""Bits of a double that its first output makes, and that both make."""

ENOUGH = 60_000
"""Equations that determine 19937 bits of state, though many follow from others."""

AT_ONCE = 256
"""Equations that are looked at together: they stay in the nearest caches."""

_PACKED = STATE_BITS // 64
_MATRIX = 0x9908B0DF
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


def _twist(state: Words, k: int) -> Words:
    """Replace word k of a state whose bits are packed sums: far ^ (following >> 1) ^ matrix."""
    current, following, far = state[k], state[(k + 1) % WORDS], state[(k + SHIFT) % WORDS]
    fresh: Words = far.copy()
    fresh[:30] ^= following[1:31]
    fresh[30] ^= current[31]  # the highest bit of all is the current word's
    fresh[[bit for bit in range(32) if _MATRIX >> bit & 1]] ^= following[0]
    state[k] = fresh
    return fresh


def fill_equations(
    state: Words, tempering: NDArray[np.uint32], places: Ints, top_bits: Ints, out: Words
) -> None:
    """Run the twister on sums of bits; write the tempered top bits of the wanted outputs."""
    summed = [[bit for bit in range(32) if int(mask) >> bit & 1] for mask in tempering[::-1]]
    wanted = row = 0
    for place in range(int(places[-1]) + 1):
        fresh = _twist(state, place % WORDS)
        if place == places[wanted]:
            for top in range(int(top_bits[wanted])):
                out[row, :_PACKED] = np.bitwise_xor.reduce(fresh[summed[top]], axis=0)
                row += 1
            wanted += 1


def eliminate(rows: Words, pivots: Ints) -> int:
    """Bring packed rows to echelon form in place; return the rank and fill the pivot columns."""
    rank = 0
    for word in range(rows.shape[1] - 1):
        first = rank
        # Only rows that give a pivot are touched whole; for the others one word decides.
        for start in range(rank, len(rows), AT_ONCE):
            rank = _take_pivots(rows, pivots, first, rank, max(start, rank), word)
            if rank - first == 64:
                break
        # The rest by table: one look per byte of the word instead of one sum per pivot.
        _clear_below(rows, pivots, first, rank, word)
    return rank


def _take_pivots(rows: Words, pivots: Ints, first: int, rank: int, start: int, word: int) -> int:
    """Take the pivots of a word that some rows from `start` on give; return the rank then."""
    values = rows[start : start + AT_ONCE, word].copy()
    for pivot in range(first, rank):
        _clear(values, int(pivots[pivot]), rows[pivot, word])
    while rank - first < 64 and len(found := np.flatnonzero(values)):
        row = start + int(found[0])
        own = rows[row, word:].copy()
        for pivot in range(first, rank):
            if int(own[0]) >> int(pivots[pivot]) % 64 & 1:
                own ^= rows[pivot, word:]
        value = int(own[0])
        pivots[rank] = 64 * word + (value & -value).bit_length() - 1
        for pivot in range(first, rank):  # each pivot's bit is in its own row alone
            if int(rows[pivot, word]) >> int(pivots[rank]) % 64 & 1:
                rows[pivot, word:] ^= own
        rows[row, word:] = rows[rank, word:]
        rows[rank, word:] = own
        values[: row - start + 1] = 0  # these are done
        _clear(values, int(pivots[rank]), own[0])
        rank += 1
    return rank


def _clear(values: Words, pivot: int, word: np.uint64) -> None:
    """Add a pivot's word to those values that have its bit."""
    values ^= (values >> np.uint64(pivot % 64) & np.uint64(1)) * word


def _clear_below(rows: Words, pivots: Ints, first: int, rank: int, word: int) -> None:
    """Add to each row from the rank on the pivot rows of its bits of a word."""
    width = rows.shape[1] - word
    table = np.zeros((8, 256, width), dtype=np.uint64)  # [byte, bits]: the sum of their pivot rows
    row_of = {int(pivots[pivot]) % 64: pivot for pivot in range(first, rank)}
    for bit in range(64):
        sums, size = table[bit // 8], 1 << bit % 8
        sums[size : 2 * size] = sums[:size]
        if bit in row_of:
            sums[size : 2 * size] ^= rows[row_of[bit], word:]
    mask = np.uint64(sum(1 << bit for bit in row_of))
    room = np.empty((AT_ONCE, width), dtype=np.uint64)
    for start in range(rank, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE, word:]
        bytes_ = np.ascontiguousarray(some[:, 0] & mask).astype("<u8").view(np.uint8)
        for byte, own in enumerate(bytes_.reshape(-1, 8).T):
            some ^= table[byte].take(own, axis=0, out=room[: len(some)], mode="clip")


def substitute(rows: Words, pivots: Ints, bits: NDArray[np.uint8]) -> None:
    """Solve an echelon form from the bottom; columns without a pivot are 0."""
    solved = np.zeros(rows.shape[1], dtype=np.uint64)
    solved[-1] = 1
    for row, pivot in zip(rows[::-1], pivots[::-1].tolist(), strict=True):
        total = int(np.bitwise_xor.reduce(row & solved))
        bits[pivot] = total.bit_count() & 1
        solved[pivot // 64] |= np.uint64(int(bits[pivot]) << pivot % 64)
