"""Rows whose noise is the sum of two others', by meeting in the middle.

If z_k = (z_i +- z_j) / sqrt 2, the cell of z_i +- z_j is that of sqrt 2 z_k. All pairs of some
rows are looked up among the cells of these rows. The rows are those closest to a plane: of n rows
m are kept, and if z_i and z_j are among them so is z_k, nearly always. So of s n such triples
s m^2 / n are met, and not s m^3 / n^2. Rounding leaves a sum beside its cell now and then.

By chance, the sum of two rows has the density of N(0, 2) along an axis, at most 1 / sqrt(4 pi),
and in the plane's direction n / m times as much.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.keyed import bits_of, strict

FINEST, COARSEST = 2.0**-19, 2.0**-6
PER_BLUR = 16.0
"""Cells are this many times as wide as what rounding does to a value, within these bounds."""

RARE = 0.01
"""As many axes are used as leave fewer matches by chance."""

CLOSED = 0.9
"""The share of the sums of two kept rows that are closer to the plane than those kept."""

TABLE_BITS = 20
"""Most sums are told from those wanted by so many bits of their cells."""

ZERO, ODD = np.uint64(0), np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(64 - TABLE_BITS)
WHOLE, WHOLE_BITS = 1.5 * 2.0**52, np.uint64(0x4338_0000_0000_0000)
SQRT2 = math.sqrt(2)


@dataclass(frozen=True)
class Sums:
    """Rows that were `tried`, those that are the sum of two others, how many are `by_chance`.

    `would_meet` is how many would be found if every row of the table were such a sum.
    """

    tried: int = 0
    matches: int = 0
    by_chance: float = 1.0
    would_meet: float = 0.0


def find_sums(z: Floats, rough: Floats, *, rows: int) -> Sums:
    """Look for white rows z (r, m), the closest of all `rows` to a plane, that are sums of others.

    `rough` (r,) is the deviation that rounding adds along each axis.
    """
    m = z.shape[1]
    cells = np.clip(PER_BLUR * rough, FINEST, None)
    axes = np.argsort(cells, kind="stable")
    axes = axes[cells[axes] <= COARSEST]
    crowd = 2 * max(rows / m, 1.0)  # of either sign, and in the direction of the plane
    factors = crowd * m**3 * np.cumprod(cells[axes] / math.sqrt(4 * math.pi))
    if not len(factors):
        return Sums()
    used = axes[: int(np.argmax(factors < RARE)) + 1] if (factors < RARE).any() else axes
    chance = float(factors[len(used) - 1])
    if chance > m:
        return Sums()
    found = _count_sums(np.ascontiguousarray(z[used] / cells[used, None]))
    inside = CLOSED * math.prod(1 - 1.6 * 2 * rough[used] / cells[used])
    return Sums(m, int(found), chance, m * (m / max(rows, m)) * inside)


@strict
def _count_sums(z: Any) -> Any:
    """Return how many sums and differences of two rows, z (r, m) in cells, are sqrt 2 of a third.

    Cells are known by a sum of whole numbers modulo 2^64, whose negative is that of the negatives.
    """
    axes, m = z.shape
    wanted, table = np.zeros(m, dtype=np.uint64), np.zeros(1 << TABLE_BITS, dtype=np.bool_)
    for axis in range(axes):
        _add_cells(SQRT2 * z[axis], 0.0, 1.0, axis, wanted)
    for k in range(m):
        wanted[k] = min(wanted[k], ZERO - wanted[k])
        table[(wanted[k] * ODD) >> SHIFT] = True
    wanted.sort()
    room, found = np.empty(m, dtype=np.uint64), 0
    for i in range(1, m):
        words = room[:i]
        for sign in (1.0, -1.0):
            words[:] = ZERO
            for axis in range(axes):
                _add_cells(z[axis, :i], z[axis, i], sign, axis, words)
            found += _look_up(words, table, wanted)
    return found


@strict
def _add_cells(values: Any, one: Any, sign: Any, axis: Any, words: Any) -> None:
    """Add the cells of one +- each value along an axis to their words."""
    factor = ODD
    for _ in range(axis):
        factor *= ODD
    for j in range(words.shape[0]):
        # a double beyond 2^52 is a whole number in its last bits
        words[j] += (bits_of((one + sign * values[j]) + WHOLE) - WHOLE_BITS) * factor


@strict
def _look_up(words: Any, table: Any, wanted: Any) -> Any:
    """Return how many words, or their negatives, are among those wanted."""
    found = 0
    for j in range(words.shape[0]):
        word = min(words[j], ZERO - words[j])
        if table[(word * ODD) >> SHIFT]:
            at = np.searchsorted(wanted, word)
            found += at < wanted.shape[0] and wanted[at] == word
    return found
