"""Arithmetic that gives the same bits on every machine.

IEEE double precision: additions, multiplications, one division and one square root, in a
fixed order. Logarithm, exponential and sine are Taylor series on short intervals, in Estrin's
order: short dependency chains keep the vector units busy, and without branches LLVM can
vectorise. Truncation errors are below 1e-11, a thousandth of the grid that copies are
written on.
"""

import math
from collections.abc import Callable
from functools import partial, update_wrapper
from threading import RLock
from typing import Any

import numpy as np

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


class _Compiled:
    """A function that is compiled when it is first called, or called by one that is.

    Importing Numba takes longer than many a command that never needs it.
    """

    def __init__(self, function: Callable[..., Any], how: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._function, self._how, self._made = function, how, None

    def __call__(self, *args: Any) -> Any:
        return (self._made or self.ready())(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ready(), name)

    def ready(self) -> Any:
        """Return what Numba made of it, and of all that it calls."""
        with _COMPILING:
            known = self._function.__globals__
            for name in self._function.__code__.co_names:
                if isinstance(known.get(name), _Compiled):
                    known[name] = known[name].ready()
            self._made = self._made or self._how(self._function)
            return self._made


_COMPILING = RLock()


def strict(function: Callable[..., Any]) -> Any:
    """Compile without fast-math: LLVM then neither reorders nor fuses what is written.

    Arrays that go in are C-contiguous: LLVM vectorises only what it knows to be.
    """
    return _Compiled(function, _compile)


def whole_sums(function: Callable[..., Any]) -> Any:
    """Compile sums of whole numbers below 2^53: exact in any order, so LLVM may choose one."""
    return _Compiled(function, partial(_compile, fastmath={"reassoc", "contract", "nsz"}))


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    import numba

    compiled = partial(numba.njit, nogil=True, error_model="numpy", **options)
    try:
        return compiled(cache=True)(function)
    except RuntimeError:  # package and home are both read-only: nowhere to keep what was compiled
        return compiled()(function)


def _inlined(function: Callable[..., Any]) -> Any:
    def compile_(function: Callable[..., Any]) -> Any:
        import numba

        return numba.njit(inline="always", error_model="numpy")(function)

    return _Compiled(function, compile_)


def _intrinsic(function: Callable[..., Any]) -> Any:
    def compile_(function: Callable[..., Any]) -> Any:
        from numba.extending import intrinsic

        return intrinsic(function)

    return _Compiled(function, compile_)


@_intrinsic
def float_of(_context: Any, _bits: Any) -> Any:
    import numba
    from llvmlite import ir

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return numba.float64(numba.uint64), generate


@_intrinsic
def bits_of(_context: Any, _value: Any) -> Any:
    import numba
    from llvmlite import ir

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return numba.uint64(numba.float64), generate


@_intrinsic
def widest_vectors(_context: Any) -> Any:
    """Let LLVM use the widest vectors of the processor in the function that calls this.

    On processors with AVX-512 it takes half of the width by default. Vector units do the same
    operations on each number whatever their width, so bits do not change.
    """
    import numba

    def generate(context: Any, builder: Any, _s: Any, _args: Any) -> Any:
        # llvmlite knows the attributes without a value alone, and writes any as it is
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return numba.void(), generate


@_intrinsic
def store_around_cache(_context: Any, _target: Any, _source: Any) -> Any:
    """Copy 64 bytes between addresses; the target's is a multiple of 64, and is not cached.

    A usual store reads the line into the cache first, to change it there.
    """
    import numba
    from llvmlite import ir

    def generate(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        line = ir.VectorType(ir.DoubleType(), 8).as_pointer()
        target, source = (builder.inttoptr(address, line) for address in args)
        store = builder.store(builder.load(source, align=8), target, align=64)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return numba.void(numba.uintp, numba.uintp), generate


@_intrinsic
def finish_stores(_context: Any) -> Any:
    """Wait for stores around the cache: they are in no order with others until then."""
    import numba

    def generate(context: Any, builder: Any, _s: Any, _args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return numba.void(), generate


@_inlined
def minus_2_log(u: Any) -> Any:
    """-2 log u of a positive normal double."""
    # u = m 2^e with sqrt(1/2) <= m < sqrt(2)
    shifted = bits_of(u) + (_ONE - _HALF_SQRT2)
    m = float_of((shifted & _FRACTION) + _HALF_SQRT2)
    e = float_of((shifted >> _52) | _TWO52) - _EXPONENT_BIAS
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
    return tail * float_of(_WORD(np.int64(k) + 1023) << _52)


@_inlined
def unit_of(word: Any) -> Any:
    """A number in (0, 1] from the top 52 bits of a word."""
    return 2.0 - float_of((word >> _12) | _ONE)


@_inlined
def square_of(word: Any) -> Any:
    """The squared radius of Box and Muller, -2 log u."""
    return minus_2_log(unit_of(word))


@_inlined
def cos_sin_of(word: Any) -> Any:
    """Cosine and sine of an angle: two bits choose the quadrant, 52 the place within."""
    x = (float_of(((word << _2) >> _12) | _ONE) - 1.5) * _HALF_PI
    t = x * x
    t2 = t * t
    t4 = t2 * t2
    sine = x * ((_S0 + _S1 * t) + (_S2 + _S3 * t) * t2 + (_S4 + _S5 * t) * t4)
    low = (_C0 + _C1 * t) + (_C2 + _C3 * t) * t2
    cosine = low + ((_C4 + _C5 * t) + _C6 * t2) * t4
    # A quarter turn swaps the two; a half turn flips both signs.
    swap = (bits_of(sine) ^ bits_of(cosine)) & (_ZERO - (word >> _63))
    flip = (word << _1) & _SIGN
    return (
        float_of(bits_of(cosine) ^ swap ^ flip ^ (word & _SIGN)),
        float_of(bits_of(sine) ^ swap ^ flip),
    )


@_inlined
def sine_of(word: Any) -> Any:
    """Sine of an angle in a half turn: of the same law as that of any angle."""
    x = (float_of((word >> _12) | _ONE) - 1.5) * _PI
    t = x * x
    t2 = t * t
    low = (_S0 + _S1 * t) + (_S2 + _S3 * t) * t2
    high = (_S4 + _S5 * t) + (_S6 + _S7 * t) * t2
    return x * (low + high * (t2 * t2))
