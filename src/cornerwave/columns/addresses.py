"""Letters by their address, for compiled functions that read and write text.

An array that is handed from one compiled function to another is counted in and out, with two
atomic additions: five times as long as it takes to look at a cell. An address is a number.
The caller sees to it that it lies within an array that is alive.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic as numba_intrinsic

_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = numba_intrinsic
_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


@_intrinsic
def byte_at(_context: Any, _address: Any) -> Any:
    """The byte at an address."""

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _BYTE.as_pointer()))

    return numba.uint8(numba.int64), generate


@_intrinsic
def word_at(_context: Any, _address: Any) -> Any:
    """The 8 bytes from an address on, the first one lowest."""

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _WORD.as_pointer()), align=1)

    return numba.uint64(numba.int64), generate


@_intrinsic
def put_byte(_context: Any, _address: Any, _byte: Any) -> Any:
    """Write a byte."""

    def generate(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _BYTE.as_pointer()))
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.uint8), generate


@_intrinsic
def put_word(_context: Any, _address: Any, _word: Any) -> Any:
    """Write 8 bytes, the lowest first."""

    def generate(context: Any, builder: Any, _s: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], _WORD.as_pointer()), align=1)
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.uint64), generate


@_intrinsic
def zeros_before(_context: Any, _word: Any) -> Any:
    """How many bits are 0 before the highest that is 1."""

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return numba.int64(numba.uint64), generate


@_intrinsic
def zeros_after(_context: Any, _word: Any) -> Any:
    """How many bits are 0 after the lowest that is 1."""

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return numba.int64(numba.uint64), generate


@_intrinsic
def wide_product(_context: Any, _high: Any, _low: Any, _factor: Any) -> Any:
    """The upper and the middle 64 bits of the product of 128 bits and 64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, half = ir.IntType(128), ir.Constant(ir.IntType(128), 64)
        high, low, factor = (builder.zext(each, wide) for each in args)
        carried = builder.lshr(builder.mul(low, factor), half)
        product = builder.add(builder.mul(high, factor), carried)
        halves = [builder.trunc(each, _WORD) for each in (builder.lshr(product, half), product)]
        return context.make_tuple(builder, signature.return_type, halves)

    pair: Any = numba.types.UniTuple
    return pair(numba.uint64, 2)(numba.uint64, numba.uint64, numba.uint64), generate
