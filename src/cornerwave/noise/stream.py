"""From a secret key to white noise (noise format 1).

    stream key = HKDF(dataset key, noise of the level)
    bits       = AES-256 under the stream key, of (128-bit row id xor column pair)
    normals    = Box-Muller of the two 64-bit halves: one for each column of the pair

So the noise of a cell is a function of the key, the level, the row's id and the
column: nothing about chunks, threads or order enters, and whoever sees the noise
of some rows learns nothing about that of others. The stream hangs on the level's
noise itself, so that no two levels share one whatever becomes of the ledger.

The arithmetic is IEEE double precision, additions, multiplications, one division
and one square root in a fixed order: the same bits on every machine. A change to
it is a new noise format; format 1 stays readable for ever.
"""

import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from llvmlite import ir
from numba.extending import intrinsic as numba_intrinsic
from numpy.typing import NDArray

from cornerwave.noise.cipher import BlockFunction, room_for

NOISE_FORMAT = 1
KEY_BYTES = 32

Ids = NDArray[np.uint64]
"""Row ids: shape (rows, 2), the low and the high half of 128 bits."""


def position_ids(start: int, rows: int) -> Ids:
    """Return the ids of rows that are known by their position in the table."""
    ids = np.empty((rows, 2), dtype=np.uint64)
    fill_positions(start, ids)
    return ids


class WhiteStreams:
    """The white noise of some levels, for blocks of at most `rows` rows.

    Each thread needs its own. Memory is asked for once: touching fresh pages costs
    more than the noise itself. What a method returns is valid until its next call.

    >>> streams = WhiteStreams(bytes(32), [0.5, 1.0], columns=3, rows=4)
    >>> streams.place(streams.positions(0, 4))
    >>> streams.normals(0.5).shape
    (3, 4)
    """

    def __init__(self, key: bytes, noise: Iterable[float], *, columns: int, rows: int) -> None:
        self.columns = columns
        self._functions = {level: BlockFunction(_stream_key(key, level)) for level in noise}
        self._ids = np.empty((rows, 2), dtype=np.uint64)
        self._cells = np.empty((rows * ((columns + 1) // 2), 2), dtype=np.uint64)
        self._words = room_for(len(self._cells))
        self._normals = np.empty(columns * rows)
        self.rows = 0

    def positions(self, start: int, rows: int) -> Ids:
        """Return the ids of rows known by their position."""
        fill_positions(start, self._ids[:rows])
        return self._ids[:rows]

    def place(self, ids: Ids) -> None:
        """Go to the rows with these ids."""
        self.rows = len(ids)
        fill_cell_ids(ids, self._placed)

    def normals(self, level: float) -> NDArray[np.float64]:
        """Return standard normals of a level at the current rows, shape (columns, rows)."""
        words = self._functions[level](self._placed, self._words)
        normals = self._normals[: self.columns * self.rows].reshape(self.columns, self.rows)
        fill_normals(words, normals)
        return normals

    @property
    def _placed(self) -> Ids:
        return self._cells[: self.rows * ((self.columns + 1) // 2)]


def _stream_key(key: bytes, level: float) -> bytes:
    info = b"cornerwave/1/white" + struct.pack("<d", level)
    return HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=info).derive(key)


# --- bits to normals -------------------------------------------------------------------
# Taylor series on short intervals, in Estrin's order: short dependency chains keep the
# vector units busy, and no branch lets LLVM vectorise. Truncation errors are below 1e-11,
# a thousandth of the grid that copies are written on.

_WORD = np.uint64
_ONE = _WORD(0x3FF0_0000_0000_0000)  # the bits of 1.0
_FRACTION = _WORD(0x000F_FFFF_FFFF_FFFF)
_HALF_SQRT2 = _WORD(0x3FE6_A09E_667F_3BCD)  # the bits of sqrt(1/2)
_TWO52 = _WORD(0x4330_0000_0000_0000)  # the bits of 2**52
_SIGN = _WORD(0x8000_0000_0000_0000)
_1, _2, _12, _52, _63, _ZERO = (_WORD(n) for n in (1, 2, 12, 52, 63, 0))
_EXPONENT_BIAS = 2.0**52 + 1023.0
_MINUS_2_LN2 = -1.3862943611198906
_PER_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
_HALF_PI = 1.5707963267948966
_PI = 3.141592653589793

# -2 log m = -4 atanh s = s (-4 - 4/3 s^2 - 4/5 s^4 - ...), with s = (m-1)/(m+1)
_L0, _L1, _L2, _L3, _L4, _L5, _L6 = (-4 / (2 * k + 1) for k in range(7))
_S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7 = ((-1) ** k / math.factorial(2 * k + 1) for k in range(8))
_C0, _C1, _C2, _C3, _C4, _C5, _C6 = ((-1) ** k / math.factorial(2 * k) for k in range(7))

strict = numba.njit(nogil=True, error_model="numpy", cache=True)
"""Compile without fast-math: LLVM then neither reorders nor fuses what is written.

Arrays that go in are C-contiguous: LLVM vectorises only what it knows to be.
"""

_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = numba_intrinsic
_inlined = numba.njit(inline="always", error_model="numpy")


@_intrinsic
def _float_of(_context: Any, _bits: Any) -> Any:
    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return numba.float64(numba.uint64), generate


@_intrinsic
def _bits_of(_context: Any, _value: Any) -> Any:
    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return numba.uint64(numba.float64), generate


@_inlined
def minus_2_log(u: Any) -> Any:
    """-2 log u of a positive normal double."""
    # u = m 2^e with sqrt(1/2) <= m < sqrt(2)
    shifted = _bits_of(u) + (_ONE - _HALF_SQRT2)
    m = _float_of((shifted & _FRACTION) + _HALF_SQRT2)
    e = _float_of((shifted >> _52) | _TWO52) - _EXPONENT_BIAS
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    t2 = t * t
    t4 = t2 * t2
    low = (_L0 + _L1 * t) + (_L2 + _L3 * t) * t2
    high = (_L4 + _L5 * t) + _L6 * t2
    return e * _MINUS_2_LN2 + s * (low + high * t4)


@_inlined
def exp_of(t: Any) -> Any:
    """e^t = 2^k e^r with |r| <= ln(2)/2, for |t| <= 700; beyond, that of the end."""
    t = min(max(t, -700.0), 700.0)
    k = np.rint(t * _PER_LN2)
    r = (t - k * _LN2_HIGH) - k * _LN2_LOW
    tail = 1.0 + r * (1 / 11 + r * (1 / 132))
    for n in range(10, 0, -1):
        tail = 1.0 + (r / n) * tail
    return tail * _float_of(_WORD(np.int64(k) + 1023) << _52)


@_inlined
def unit_of(word: Any) -> Any:
    """A number in (0, 1] from the top 52 bits of a word."""
    return 2.0 - _float_of((word >> _12) | _ONE)


@_inlined
def _radius(word: Any) -> Any:
    return math.sqrt(minus_2_log(unit_of(word)))


@_inlined
def _cos_sin(word: Any) -> Any:
    """Cosine and sine of an angle: two bits choose the quadrant, 52 the place within."""
    x = (_float_of(((word << _2) >> _12) | _ONE) - 1.5) * _HALF_PI
    t = x * x
    t2 = t * t
    t4 = t2 * t2
    sine = x * ((_S0 + _S1 * t) + (_S2 + _S3 * t) * t2 + (_S4 + _S5 * t) * t4)
    low = (_C0 + _C1 * t) + (_C2 + _C3 * t) * t2
    cosine = low + ((_C4 + _C5 * t) + _C6 * t2) * t4
    # A quarter turn swaps the two; a half turn flips both signs.
    swap = (_bits_of(sine) ^ _bits_of(cosine)) & (_ZERO - (word >> _63))
    flip = (word << _1) & _SIGN
    return (
        _float_of(_bits_of(cosine) ^ swap ^ flip ^ (word & _SIGN)),
        _float_of(_bits_of(sine) ^ swap ^ flip),
    )


@_inlined
def _sine(word: Any) -> Any:
    """Sine of an angle in a half turn: of the same law as that of any angle."""
    x = (_float_of((word >> _12) | _ONE) - 1.5) * _PI
    t = x * x
    t2 = t * t
    low = (_S0 + _S1 * t) + (_S2 + _S3 * t) * t2
    high = (_S4 + _S5 * t) + (_S6 + _S7 * t) * t2
    return x * (low + high * (t2 * t2))


@strict
def fill_normals(words: Any, out: Any) -> None:
    """Fill (columns, rows) with standard normals from two words per pair and row."""
    columns, rows = out.shape
    for pair in range(columns // 2):
        w = words[2 * pair * rows : 2 * (pair + 1) * rows]
        first, second = out[2 * pair], out[2 * pair + 1]
        for row in range(rows):
            radius = _radius(w[2 * row])
            cosine, sine = _cos_sin(w[2 * row + 1])
            first[row] = radius * cosine
            second[row] = radius * sine
    if columns % 2:
        w, last = words[(columns - 1) * rows :], out[columns - 1]
        for row in range(rows):
            last[row] = _radius(w[2 * row]) * _sine(w[2 * row + 1])


@strict
def fill_cell_ids(ids: Any, out: Any) -> None:
    """Fill out[pair * rows + row] with the row's id, its high half xor the pair."""
    rows = ids.shape[0]
    for pair in range(out.shape[0] // rows):
        for row in range(rows):
            out[pair * rows + row, 0] = ids[row, 0]
            out[pair * rows + row, 1] = ids[row, 1] ^ _WORD(pair)


@strict
def fill_positions(start: int, out: Any) -> None:
    """Fill out[row] with the position start + row."""
    for row in range(out.shape[0]):
        out[row, 0] = start + row
        out[row, 1] = 0
