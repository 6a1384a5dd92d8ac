"""The digits of whole numbers as text, eight at a time."""

from typing import Any

import numpy as np

from cornerwave.arrays import Ints, Words
from cornerwave.keyed import bits_of, strict

_WORD = np.uint64
_1, _10, _52, _1E8 = (_WORD(n) for n in (1, 10, 52, 10**8))
_TENS = np.array([10**n for n in range(20)], dtype=np.uint64)
_EIGHT_ZEROS = _WORD(0x3030_3030_3030_3030)


def whole_texts(numbers: Ints) -> tuple[Ints, Ints, Words]:
    """Return where the text of each number starts and ends, and all bytes, first ones lowest.

    Numbers are not negative. Each has 24 bytes, and its text is at their end.
    """
    words = np.empty((len(numbers), 3), dtype=np.uint64)
    ends = np.arange(24, 24 * len(numbers) + 24, 24)
    starts = np.empty(len(numbers), dtype=np.int64)
    _fill_texts(numbers, starts, words)
    return starts, ends, words.reshape(-1)


@strict
def _fill_texts(numbers: Any, starts: Any, words: Any) -> None:
    for row in range(numbers.shape[0]):
        number = _WORD(numbers[row])
        upper = number // _1E8
        top = upper // _1E8
        words[row, 0] = eight_digits(top)
        words[row, 1] = eight_digits(upper - top * _1E8)
        words[row, 2] = eight_digits(number - upper * _1E8)
        starts[row] = 24 * (row + 1) - count_digits(max(number, _1))


@strict
def count_digits(number: Any) -> Any:
    """Return how many digits a number has: its bits times log10(2) = 1233 / 4096, or one more."""
    size = np.int64(bits_of(np.float64(number)) >> _52) - 1022
    count = (size * 1233) >> 12
    return count + np.int64(number >= _TENS[_WORD(count)])


@strict
def eight_digits(number: Any) -> Any:
    """Return 8 digits as 8 letters: halves, quarters and eighths of a word, all at once."""
    upper = number * _WORD(109951163) >> _WORD(40)  # / 10^4
    halves = upper | (number - upper * _WORD(10_000)) << _WORD(32)
    upper = (halves * _WORD(10486) >> _WORD(20)) & _WORD(0x7F_0000_007F)  # / 100
    quarters = upper | (halves - upper * _WORD(100)) << _WORD(16)
    upper = (quarters * _WORD(103) >> _10) & _WORD(0xF_000F_000F_000F)  # / 10
    return (upper | (quarters - upper * _10) << _WORD(8)) + _EIGHT_ZEROS
