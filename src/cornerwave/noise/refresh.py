"""Categories: the refresh process, the analogue of the path (DESIGN: refresh events).

In 'time' s = -ln q, with q = 1/sqrt(1+v) the share of cells that keep their value,
events arrive at rate 1, and each replaces the cell by a fresh draw from pi:

    T_k = E_1 + ... + E_k,  E_k ~ Exp(1),  R_k ~ pi
    copy at q  =  X if -ln q < T_1, else R_k for the last T_k <= -ln q

It is Markov in s: a noisier copy is the better one with further events, so a set of
copies says no more than its best. Event k of a cell is a keyed function of the row's
id and the column, so no order of levels enters, and no ledger. With pi the column's
own distribution, the best linear estimate of an indicator recovers q^2 of its
variance: numbers and categories have the same privacy p = v/(1+v).

Times are compared as 2 T_k <= ln(1+v), by the arithmetic of stream.py: the same on
every machine.
"""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from numpy.typing import NDArray

from cornerwave.noise.cipher import BlockFunction, Words, room_for
from cornerwave.noise.stream import KEY_BYTES, Ids, exp_of, minus_2_log, strict, unit_of

Codes = NDArray[np.int32]
"""Categories by number; -1 is missing, and stays so."""

MISSING = -1
BLOCK_ROWS = 8192


def retention(noise: float) -> float:
    """Return q, the share of cells that keep their value at a noise.

    >>> retention(3.0)
    0.5
    """
    return float(1.0 / np.sqrt(1.0 + noise))


def thresholds(counts: Sequence[int]) -> Words:
    """Return the bounds that divide 2^64 in proportion to the counts, exactly.

    >>> [hex(int(bound)) for bound in thresholds([1, 3])]
    ['0x4000000000000000', '0xffffffffffffffff']
    """
    total, reached, bounds = sum(counts), 0, []
    for count in counts:
        reached += count
        bounds.append(min((reached << 64) // total, (1 << 64) - 1))
    return np.array(bounds, dtype=np.uint64)


def refresh(
    codes: Codes,
    ids: Ids,
    *,
    noise: Sequence[float],
    bounds: Words,
    key: bytes,
    column: int,
) -> NDArray[np.int32]:
    """Return one row of refreshed codes per noise, shape (levels, rows)."""
    out = np.tile(codes, (len(noise), 1))
    horizons = np.array([_log_1p(level) for level in noise])
    events = _Events(key, column)
    for start in range(0, len(codes), BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        block = np.ascontiguousarray(out[:, part])
        _refresh_block(block, ids[part], horizons, bounds, events)
        out[:, part] = block
    return out


def _refresh_block(
    block: NDArray[np.int32], ids: Ids, horizons: Any, bounds: Words, events: "_Events"
) -> None:
    active = np.flatnonzero(block[0] != MISSING) if len(block) else np.empty(0, np.int64)
    times = np.zeros(block.shape[1])
    event = 0
    while len(active):
        words = events.words(event, ids if len(active) == len(ids) else ids[active])
        count = _apply_events(words, active, times, bounds, horizons, block)
        active = active[:count]
        event += 1


class _Events:
    """The random words of a column's events, event by event."""

    def __init__(self, key: bytes, column: int) -> None:
        self._key, self._column = key, column
        self._functions: list[BlockFunction] = []
        self._room = room_for(BLOCK_ROWS)

    def words(self, event: int, ids: Ids) -> Words:
        while event >= len(self._functions):
            info = struct.pack("<II", self._column, len(self._functions))
            expand = HKDFExpand(
                algorithm=SHA256(), length=KEY_BYTES, info=b"cornerwave/1/refresh" + info
            )
            self._functions.append(BlockFunction(expand.derive(self._key)))
        return self._functions[event](ids, self._room)


@strict
def _log_1p(noise: float) -> float:
    return float(-0.5 * minus_2_log(1.0 + noise))


@strict
def _category_of(word: Any, bounds: Any) -> int:
    """Return the first category whose bound lies above the word; the last one takes the rest."""
    low, high = 0, bounds.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if word < bounds[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@strict
def _apply_events(words: Any, active: Any, times: Any, bounds: Any, horizons: Any, out: Any) -> int:
    """Let one more event happen to each active row; keep those that may have another.

    Moves the rows that stay active to the front of `active` and returns how many.
    """
    latest = horizons.max()
    # Most first events come too late: no logarithm is needed to see that.
    late = exp_of(-0.5 * latest) * (1.0 - 1e-9)
    staying = 0
    for index in range(active.shape[0]):
        row = active[index]
        unit = unit_of(words[2 * index])
        if unit < late:
            continue
        time = times[row] + minus_2_log(unit)
        times[row] = time
        if time > latest:
            continue
        drawn = _category_of(words[2 * index + 1], bounds)
        for level in range(horizons.shape[0]):
            if time <= horizons[level]:
                out[level, row] = drawn
        active[staying] = row
        staying += 1
    return staying
