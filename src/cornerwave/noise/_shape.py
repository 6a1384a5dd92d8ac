"""The product of the factor and white noise, by tiles, in one order of sums.

    W = L U,   L lower triangular:   W_i = ((L_i0 U_0 + L_i1 U_1) + L_i2 U_2) + ... + L_ii U_i

From left to right whatever the machine, the blocks and the threads, so it is no BLAS. Four
terms at a time; those beyond the diagonal are 0 and change nothing. From the fifth column on,
four rows of L at a time share what they read.

A tile is (first, last, start): rows first to last of a block that begins at `start` of out.
"""

import weakref
from collections import deque
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.keyed import finish_stores, store_around_cache, strict, widest_vectors

TILE_ROWS = 1024
"""Rows that go through one step after the other: few enough for the fastest cache."""


@strict
def tile_of(array: Any, i: int, tile: Any) -> Any:
    """Return the rows of a tile in a column of all rows."""
    first, last, start = tile
    return array[i, start + first : start + last]


@strict
def four_tiles(array: Any, i: int, tile: Any) -> Any:
    """Return the rows of a tile in columns i to i + 3."""
    one, two = tile_of(array, i, tile), tile_of(array, i + 1, tile)
    return one, two, tile_of(array, i + 2, tile), tile_of(array, i + 3, tile)


@strict
def four_terms(factor: Any, white: Any, i: int, k: int, tile: Any) -> Any:
    """Return terms k to k + 3 of column i as (weight, rows of a tile); 0 beyond the diagonal."""
    first, last, _ = tile
    a, b, c, d = _weights(factor, i, k)
    wa, wb = white[k, first:last], white[min(k + 1, i), first:last]
    wc, wd = white[min(k + 2, i), first:last], white[min(k + 3, i), first:last]
    return (a, wa), (b, wb), (c, wc), (d, wd)


@strict
def _weights(factor: Any, i: int, k: int) -> Any:
    b = factor[i, k + 1] if k + 1 <= i else 0.0
    c = factor[i, k + 2] if k + 2 <= i else 0.0
    d = factor[i, k + 3] if k + 3 <= i else 0.0
    return factor[i, k], b, c, d


@strict
def begin_shaped(factor: Any, white: Any, i: int, tile: Any, out: Any) -> None:
    """Fill a tile of column i with the first four terms of factor @ white."""
    widest_vectors()
    (a, wa), (b, wb), (c, wc), (d, wd) = four_terms(factor, white, i, 0, tile)
    oi = tile_of(out, i, tile)
    if i == 0:
        for row in range(oi.shape[0]):
            oi[row] = a * wa[row]
    else:
        for row in range(oi.shape[0]):
            oi[row] = a * wa[row] + b * wb[row] + c * wc[row] + d * wd[row]


@strict
def add_shaped(factor: Any, white: Any, tile: Any, out: Any) -> None:
    """Add all terms of factor @ white but the first four to a tile."""
    columns = white.shape[0]
    for i in range(4, columns, 4):
        for k in range(4, i, 4):
            if i + 4 <= columns:
                _add_four_by_four(factor, white, i, k, tile, out)
            else:
                for j in range(i, columns):
                    _add_four(factor, white, j, k, tile, out)
        for j in range(i, min(i + 4, columns)):
            _add_four(factor, white, j, i, tile, out)


@strict
def _add_four(factor: Any, white: Any, i: int, k: int, tile: Any, out: Any) -> None:
    widest_vectors()
    (a, wa), (b, wb), (c, wc), (d, wd) = four_terms(factor, white, i, k, tile)
    oi = tile_of(out, i, tile)
    for row in range(oi.shape[0]):
        oi[row] = oi[row] + a * wa[row] + b * wb[row] + c * wc[row] + d * wd[row]


@strict
def _add_four_by_four(factor: Any, white: Any, i: int, k: int, tile: Any, out: Any) -> None:
    widest_vectors()
    (a0, wa), (b0, wb), (c0, wc), (d0, wd) = four_terms(factor, white, i, k, tile)
    a1, b1, c1, d1 = _weights(factor, i + 1, k)
    a2, b2, c2, d2 = _weights(factor, i + 2, k)
    a3, b3, c3, d3 = _weights(factor, i + 3, k)
    o0, o1, o2, o3 = four_tiles(out, i, tile)
    for row in range(o0.shape[0]):
        a, b, c, d = wa[row], wb[row], wc[row], wd[row]
        o0[row] = o0[row] + a0 * a + b0 * b + c0 * c + d0 * d
        o1[row] = o1[row] + a1 * a + b1 * b + c1 * c + d1 * d
        o2[row] = o2[row] + a2 * a + b2 * b + c2 * c + d2 * d
        o3[row] = o3[row] + a3 * a + b3 * b + c3 * c + d3 * d


@strict
def shape_white(factor: Any, white: Any, out: Any) -> None:
    """Fill out (columns, rows) with factor @ white, by the same sums as a copy's noise."""
    rows = white.shape[1]
    for first in range(0, rows, TILE_ROWS):
        tile = (first, min(first + TILE_ROWS, rows), 0)
        for i in range(white.shape[0]):
            begin_shaped(factor, white, i, tile, out)
        add_shaped(factor, white, tile, out)


# --------------------------------------------------------------------------------------------------
# Memory that is used again: the first touch of fresh pages costs as much as a normal.
#
# What is larger than the cache goes to memory around it: a usual store of a line that is not in
# the cache reads the line first, which takes as long again.


CACHE_BYTES = 1 << 25
"""Copies that take more than this together have left the cache before anybody reads them."""


class Memory:
    """Lends arrays of floats, and takes each back when nobody looks at it any more.

    >>> memory = Memory()
    >>> memory.lend((2, 3)).shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._free: deque[Floats] = deque()

    def lend(self, shape: tuple[int, int]) -> Floats:
        """Return an array with whatever it holds; views of it keep it from coming back."""
        try:
            own = self._free.popleft()
        except IndexError:
            own = np.empty(shape)
        if own.shape != shape:  # the last group of a table is smaller
            own = np.empty(shape)
        loan = _Loan(own)
        weakref.finalize(loan, self._free.append, own).atexit = False
        return np.asarray(loan)


class _Loan:
    """What a lent array and all of its views hold on to."""

    def __init__(self, own: Floats) -> None:
        self.__array_interface__ = own.__array_interface__


@strict
def write_around_cache(values: Any, tile: Any, out: Any, start: int) -> None:
    """Copy a tile of values to out[:, start:], which nobody reads soon."""
    first, rows = tile[0] + tile[2], tile[1] - tile[0]
    for i in range(values.shape[0]):
        source = values.ctypes.data + 8 * (i * values.shape[1] + first)
        target = out.ctypes.data + 8 * (i * out.shape[1] + start)
        head = min(-(target // 8) % 8, rows)  # up to the first whole line of 8 floats
        tail = head + (rows - head) // 8 * 8
        for row in range(head):
            out[i, start + row] = values[i, first + row]
        for at in range(8 * head, 8 * tail, 64):
            store_around_cache(target + at, source + at)
        for row in range(tail, rows):
            out[i, start + row] = values[i, first + row]
    finish_stores()
