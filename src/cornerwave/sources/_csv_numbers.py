"""Whether all cells of a CSV column are plain numbers, in one look at their bytes.

    whole      -?(0|[1-9][0-9]*)        of at most 18 digits
    decimal    whole(.[0-9]+)?([eE][+-]?[0-9]+)?

Most columns of most tables are; all others take the slower tests, type by type.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.columns.addresses import byte_at, word_at, zeros_after
from cornerwave.keyed import strict

OTHER, DECIMAL, WHOLE = 0, 1, 2

_MOST_DIGITS = 18
_MINUS, _PLUS, _POINT, _ZERO, _NINE = (ord(letter) for letter in "-+.09")
_E = ord("e")
_ZEROS, _TO_BIT_7, _BITS_7 = (np.uint64(int(each * 8, 16)) for each in ("30", "76", "80"))


def plain_numbers(cells: pa.Array) -> tuple[int, int]:
    """Return what all cells of text are at least, and how many there are; none is WHOLE.

    A cell without text is missing.
    """
    _, offsets, data = cells.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[cells.offset : cells.offset + len(cells) + 1]
    letters, size = (data.address, data.size) if data else (0, 0)
    kind, count = _kind_of_all(bounds, letters, letters + size - 8)
    return int(kind), int(count)


@strict
def _kind_of_all(bounds: Any, letters: Any, last: Any) -> Any:
    """`letters` is the address of the first letter, `last` one after which there is a word."""
    kind, count = WHOLE, 0
    for cell in range(len(bounds) - 1):
        if bounds[cell] < bounds[cell + 1]:
            kind = min(kind, _kind(letters + bounds[cell], letters + bounds[cell + 1], last))
            count += 1
            if kind == OTHER:
                break
    return kind, count


@strict
def _kind(at: Any, end: Any, last: Any) -> Any:
    at += byte_at(at) == _MINUS
    begin = at
    at = _after_digits(at, end, last)
    if at == begin or at - begin > _MOST_DIGITS or (byte_at(begin) == _ZERO and at - begin > 1):
        return OTHER
    if at == end:
        return WHOLE
    if byte_at(at) == _POINT:
        begin = at + 1
        at = _after_digits(begin, end, last)
        if at == begin:
            return OTHER
    if at < end and byte_at(at) | 32 == _E:
        begin = at + 1
        begin += begin < end and (byte_at(begin) == _MINUS or byte_at(begin) == _PLUS)
        at = _after_digits(begin, end, last)
        if at == begin:
            return OTHER
    return DECIMAL if at == end else OTHER


@strict
def _after_digits(at: Any, end: Any, last: Any) -> Any:
    """Return where a run of digits ends, looking at 8 letters at once while there are as many."""
    while at <= last:
        # A digit is 0 to 9 without the bits of "0"; what is more carries into its bit 7.
        values = word_at(at) ^ _ZEROS
        others = (values + _TO_BIT_7 | values) & _BITS_7
        count = zeros_after(others) >> 3
        at += count
        if count < 8 or at >= end:
            return min(at, end)
    while at < end and _ZERO <= byte_at(at) <= _NINE:
        at += 1
    return at
