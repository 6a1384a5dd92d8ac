"""The digits of whole numbers as text, eight at a time."""

from typing import Any

import numpy as np

from cornerwave.arrays import Ints, Words
from cornerwave.keyed import bits_of, strict, widest_vectors

_WORD = np.uint64
_0, _1, _3, _7, _10, _24, _52, _63, _1E8 = (_WORD(n) for n in (0, 1, 3, 7, 10, 24, 52, 63, 10**8))
_TENS = np.array([10**n for n in range(20)], dtype=np.uint64)
_EIGHT_ZEROS = _WORD(0x3030_3030_3030_3030)


def whole_texts(numbers: Ints) -> tuple[Words, Words]:
    """Return the text of each number in 3 words, (3, numbers), first bytes lowest; and its length.

    Numbers are not negative.
    """
    words = np.empty((3, len(numbers)), dtype=np.uint64)
    lengths = np.empty(len(numbers), dtype=np.uint64)
    _fill_texts(numbers, lengths, words[0], words[1], words[2])
    return words, lengths


@strict
def _fill_texts(numbers: Any, lengths: Any, first: Any, second: Any, third: Any) -> None:
    """Fill in 24 digits of each number without its leading zeros."""
    widest_vectors()
    for row in range(numbers.shape[0]):
        number, length = _WORD(numbers[row]), _1
        for power in range(1, 19):
            length += _WORD(number >= _TENS[power])
        upper, low = _parted(number)
        top, middle = _parted(upper)
        one, two, three = eight_digits(top), eight_digits(middle), eight_digits(low)
        lengths[row], zeros = length, _24 - length
        bits, words = (zeros & _7) << _3, zeros >> _3
        one = one if words == _0 else (two if words == _1 else three)
        two = two if words == _0 else (three if words == _1 else _0)
        three = three if words == _0 else _0
        first[row] = one >> bits | (two << _1) << (_63 - bits)
        second[row] = two >> bits | (three << _1) << (_63 - bits)
        third[row] = three >> bits


@strict
def _parted(number: Any) -> Any:
    """Return number // 10^8 and the rest: by a float, which is one off at most."""
    upper = _WORD(np.int64(np.float64(np.int64(number)) * 1e-8))
    upper -= _WORD(np.int64(number - upper * _1E8) < 0)
    upper += _WORD(number - upper * _1E8 >= _1E8)
    return upper, number - upper * _1E8


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
