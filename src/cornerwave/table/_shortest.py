"""The shortest decimal number that is read back as the same double, by Schubfach.

    v = c 2^q;  k = floor(log10 2^q);  the multiple of 10^k nearest to v that rounds to v,
    or of 10^(k+1) if there is one

R. Giulietti, "The Schubfach way to render doubles" (2020). Half the text of a CSV copy's time
is this step, and Arrow's takes three times as long. Products with powers of ten are 128-bit
numbers of which all lost bits are kept as one sticky bit, so every comparison is exact.
"""

from typing import Any

import numpy as np

from cornerwave.keyed import bits_of, strict
from cornerwave.table._addresses import byte_at, high_product, put_byte, put_word, zeros_before
from cornerwave.table._whole_texts import count_digits, eight_digits

LONGEST, ROOM = 24, 32
"""Letters of the longest double, -2.2250738585072014e-308, and bytes that writing it may touch."""

_WORD, _LEAST, _MOST = np.uint64, -292, 325
_0, _1, _2, _4, _10, _40, _52 = (_WORD(n) for n in (0, 1, 2, 4, 10, 40, 52))
_1E8, _1E16 = _WORD(10**8), _WORD(10**16)
_HIDDEN, _INFINITE = _WORD(1 << 52), _WORD(2047 << 52)
_TENS = np.array([10**n for n in range(20)], dtype=np.uint64)
_ZERO, _POINT, _MINUS, _PLUS, _E = (np.uint8(ord(letter)) for letter in "0.-+e")
_EIGHT_ZEROS = _WORD(0x3030_3030_3030_3030)
_ZEROS, _INF = (_WORD(int.from_bytes(text, "little")) for text in (b"0.000000", b"inf"))


def _power(k: int) -> tuple[int, int]:
    """Return 10^k as 128 bits, rounded up, the first of them 1."""
    shift = 127 - (k * 1741647 >> 19)
    top: int = 10 ** max(k, 0) << max(shift, 0)
    bottom: int = 10 ** max(-k, 0) << max(-shift, 0)
    return divmod(-(-top // bottom), 1 << 64)


_POWERS = np.array([_power(k) for k in range(_LEAST, _MOST)], dtype=np.uint64)


@strict
def _product(place: Any, factor: Any) -> Any:
    """The upper bits of a power of ten times a number; the last is 1 if any below it is."""
    middle = _POWERS[place, 0] * factor
    carried = middle + high_product(_POWERS[place, 1], factor)
    upper = high_product(_POWERS[place, 0], factor) + _WORD(carried < middle)
    return upper | _WORD(carried > _1)


@strict
def _shortest(bits: Any) -> Any:
    """Return digits and a power of ten for the bits of a positive double."""
    fraction, exponent = bits & (_HIDDEN - _1), np.int64(bits >> _52)
    c = fraction | _HIDDEN if exponent else fraction
    q = max(np.int64(1), exponent) - 1075
    if -53 < q <= 0 and (c >> _WORD(-q)) << _WORD(-q) == c:
        return c >> _WORD(-q), 0
    closer = fraction == _0 and exponent > 1  # the double below is nearer than the one above
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    shift = _WORD(q + ((-k * 1741647) >> 19) + 1)
    place, odd, four = -k - _LEAST, c & _1, c * _4
    least = _product(place, (four - _2 + _WORD(closer)) << shift) + odd
    value = _product(place, four << shift)
    most = _product(place, (four + _2) << shift) - odd
    s = value // _4
    tens = s // _10
    if tens:
        below, above = least <= _40 * tens, _40 * tens + _40 <= most
        if below != above:
            return tens + _WORD(above), k + 1
    below, above = least <= _4 * s, _4 * s + _4 <= most
    if below != above:
        return s + _WORD(above), k
    middle = _4 * s + _2
    return s + _WORD(value > middle or (value == middle and s & _1 == _1)), k


@strict
def put_float(at: Any, value: Any) -> Any:
    """Write a double as text at an address; return where it ends. NaN is written as nothing.

    Bytes up to `at` + ROOM may change.
    """
    if value != value:
        return at
    bits = bits_of(value)
    if bits >> _WORD(63):
        put_byte(at, _MINUS)
        at, bits = at + 1, bits & _WORD((1 << 63) - 1)
    if bits == _0 or bits >= _INFINITE:
        put_word(at, _ZEROS if bits == _0 else _INF)
        return at + (1 if bits == _0 else 3)
    digits, power = _shortest(bits)
    count = count_digits(digits)
    return _put_decimal(at, digits * _TENS[17 - count], count + power)


@strict
def _put_decimal(at: Any, digits: Any, whole: Any) -> Any:
    """Write 17 digits, `whole` before the point; with an exponent below 1e-6 and from 1e15 on."""
    if -6 < whole <= 0:
        put_word(at, _ZEROS)
        _, used = _put_digits(at + 2 - whole, digits)
        return at + 2 - whole + used
    count = whole if 0 < whole <= 15 else 1
    head, used = _put_digits(at + 1, digits)
    if count < 8:
        size = _WORD(8 * count)
        before = head & ((_1 << size) - _1)
        put_word(at, before | _WORD(_POINT) << size | (head ^ before) << _WORD(8))
    else:
        for place in range(at, at + count):
            put_byte(place, byte_at(place + 1))
        put_byte(at + count, _POINT)
    at += used + 1 if used > count else count
    return at if count == whole else _put_exponent(at, whole - 1)


@strict
def _put_digits(at: Any, digits: Any) -> Any:
    """Write 17 digits; return the first 8 letters, and how many digits there are before zeros."""
    first = digits // _1E16
    rest = digits - first * _1E16
    middle = rest // _1E8
    upper, lower = eight_digits(middle), eight_digits(rest - middle * _1E8)
    put_byte(at, _ZERO + np.uint8(first))
    put_word(at + 1, upper)
    put_word(at + 9, lower)
    if lower != _EIGHT_ZEROS:
        used = 17 - (zeros_before(lower ^ _EIGHT_ZEROS) >> 3)
    else:
        used = 9 - (zeros_before(upper ^ _EIGHT_ZEROS) >> 3)
    return first + _WORD(_ZERO) | upper << _WORD(8), used


@strict
def _put_exponent(at: Any, exponent: Any) -> Any:
    size = abs(exponent)
    put_byte(at, _E)
    put_byte(at + 1, _PLUS if exponent >= 0 else _MINUS)
    first = at + 2 - (size < 100) - (size < 10)  # where the hundreds would stand
    for place, ten in ((first, 100), (first + 1, 10), (first + 2, 1)):
        if place >= at + 2:
            put_byte(place, _ZERO + np.uint8(size // ten % 10))
    return first + 3
