"""The kinds of arrays that the whole package speaks of, each defined here once.

And memory for them that is used again: the first touch of fresh pages costs as much as a normal.
"""

import math
import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

Words = NDArray[np.uint64]
"""64-bit words, as ciphers and hashes take and give them."""

LARGEST_WORD = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
"""All 64 bits set: no word is larger."""

Ids = NDArray[np.uint64]
"""Row ids: shape (rows, 2), the low and the high half of 128 bits."""

Bytes = NDArray[np.uint8]

Codes = NDArray[np.int32]
"""Categories by number; -1 is missing, and stays so."""


def part_ends(numbers: Floats, parts: int) -> Floats:
    """Return the values that part numbers, NaN left out, into parts of as many each.

    >>> part_ends(np.array([1.0, np.nan, 2.0, 3.0, 4.0]), 4)
    array([1., 2., 3.])
    """
    here = np.sort(numbers[~np.isnan(numbers)])
    if not len(here):
        return np.zeros(parts - 1)
    # the lower one of the two values next to each quantile
    return here[np.floor(np.arange(1, parts) / parts * (len(here) - 1)).astype(np.int64)]


def places_among(ascending: Any, wanted: Any) -> Ints:
    """Return the place of each of some values among ascending ones; -1 for one that is not there.

    >>> places_among(np.array([2, 3, 7]), np.array([7, 5, 2]))
    array([ 2, -1,  0])
    """
    if not len(ascending):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[places] == wanted, places, -1)


def lengths_of(starts: Ints, rows: int) -> Ints:
    """Return how long the runs are that begin at some of the rows.

    >>> lengths_of(np.array([0, 3, 4]), 6)
    array([3, 1, 2])
    """
    return np.diff(np.append(starts, rows))


def runs_of(units: Ids) -> tuple[Ids, Ints]:
    """Return the unit of each run of rows that follow each other, and which run each row is in.

    >>> runs_of(np.array([[1, 2], [1, 2], [7, 2]], dtype=np.uint64))[1]
    array([0, 0, 1])
    """
    first = np.ones(len(units), dtype=np.bool_)
    one, two = units.T
    np.not_equal(one[1:], one[:-1], out=first[1:])
    first[1:] |= two[1:] != two[:-1]
    starts = np.flatnonzero(first)
    return units[starts], np.repeat(np.arange(len(starts)), lengths_of(starts, len(units)))


def normal_shares(z: Floats) -> Floats:
    """Return P(N(0, 1) < z) for each of some numbers.

    >>> normal_shares(np.array([-np.inf, 0.0, np.inf])).tolist()
    [0.0, 0.5, 1.0]
    """
    # 1 - Phi(-z), by the complement: exact to the last digits far down
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(-z / math.sqrt(2)), dtype=np.float64) / 2


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
