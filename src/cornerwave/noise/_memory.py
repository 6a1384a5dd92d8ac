"""Memory that is used again: the first touch of fresh pages costs as much as a normal.

What is larger than the cache goes to memory around it: a usual store of a line that is not in
the cache reads the line first, which takes as long again.
"""

import weakref
from collections import deque
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.keyed import finish_stores, store_around_cache, strict

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
