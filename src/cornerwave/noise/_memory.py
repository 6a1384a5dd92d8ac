"""Memory that is used again: the first touch of fresh pages costs as much as a normal."""

import weakref
from collections import deque

import numpy as np

from cornerwave.arrays import Floats


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
            array = self._free.popleft()
        except IndexError:
            array = np.empty(shape)
        if array.shape != shape:  # the last group of a table is smaller
            array = np.empty(shape)
        loan = _Loan(array)
        weakref.finalize(loan, self._free.append, array).atexit = False
        return np.asarray(loan)


class _Loan:
    """What a lent array and all of its views hold on to."""

    def __init__(self, array: Floats) -> None:
        self.__array_interface__ = array.__array_interface__
