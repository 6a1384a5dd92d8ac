"""Categories: the refresh process, the analogue of the path (DESIGN: refresh events).

In 'time' s = -ln q, with q = 1/sqrt(1+v) the share of cells that keep their value,
events arrive at rate 1, and each replaces the cell by a fresh draw from pi:

    T_k = E_1 + ... + E_k,  E_k ~ Exp(1),  R_k ~ pi
    copy at q  =  X if -ln q < T_1, else R_k for the last T_k <= -ln q

It is Markov in s: a noisier copy is the better one with further events, so a set of
copies reveals no more than its best. Event k of a cell is a keyed function of the row's
id, the column and the first value of the cell, so no order of levels enters; what a value
that changes in a later edition shows is in _moved_cells.py. With pi the column's own
distribution, the best linear estimate of an indicator recovers q^2 of its variance: numbers
and categories have the same privacy p = v/(1+v).

Times are compared as 2 T_k <= ln(1+v), by strict arithmetic: the same on every machine.
"""

import struct
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Codes, Floats, Ids, Ints, Words
from cornerwave.keyed import BlockFunction, expand, masks, room_for

MISSING = -1
BLOCK_ROWS, STRETCH_ROWS = 1 << 14, 1 << 17
"""Rows that are enciphered at once, and rows that go through one event after the other."""


def thresholds(counts: Sequence[int]) -> Words:
    """Return the bounds that divide 2^64 in proportion to the counts, exactly.

    >>> [hex(int(bound)) for bound in thresholds([1, 3])]
    ['0x4000000000000000', '0xffffffffffffffff']
    """
    total, reached, bounds = sum(counts), 0, []
    for count in counts:
        reached += count
        # floor(2^64 c / n) of cumulative counts c, in whole numbers: the same on every machine
        bounds.append(min((reached << 64) // total, (1 << 64) - 1))
    return np.array(bounds, dtype=np.uint64)


def ln_1_plus(noise: Sequence[float]) -> Floats:
    """Return ln(1+v) = -2 ln q of each level: an event has happened if 2 T_k is not above it."""
    return np.array([_core.log_1p(level) for level in noise])


def refresh(
    codes: Codes,
    ids: Ids,
    *,
    noise: Sequence[float],
    bounds: Words,
    key: bytes,
    column: int,
) -> Codes:
    """Return one row of refreshed codes per noise, shape (levels, rows)."""
    return Refresher(key, column, noise=noise, bounds=bounds).refreshed(codes, ids)


class RefreshRoom:
    """Memory that refreshers use in turn, so that it stays in the cache. Each thread needs one."""

    def __init__(self) -> None:
        self.cells, self.words = np.empty((BLOCK_ROWS, 2), np.uint64), room_for(BLOCK_ROWS)
        self.masks = masks(BLOCK_ROWS)
        self.rows, self.times = np.empty(STRETCH_ROWS, np.int64), np.empty(STRETCH_ROWS)

    def let_happen(
        self,
        rows: Ints,
        words: Callable[[int, Ints], Words],
        draws: Callable[[int], tuple[Words, Codes]],
        horizons: Floats,
        out: Codes,
        *,
        happened: Callable[[int, Ints, Floats], None] | None = None,
    ) -> None:
        """Let events happen to rows, one after the other, until the last horizon has passed.

        `words` returns the masked random words of an event, two for each of some rows: the first
        is its E_k, the second chooses R_k among `draws`. To whom an event has `happened`, and when,
        is said after each, in memory that is used again.
        """
        times, event = self.times[:0], 0
        # Event by event over many rows, not block by block: few rows have a fifth or sixth.
        while len(rows):
            staying, among = 0, draws(event)
            for start in range(0, len(rows), BLOCK_ROWS):
                part = rows[start : start + BLOCK_ROWS]
                staying += _core.apply_events(
                    words(event, part),
                    self.masks,
                    part,
                    times[start : start + BLOCK_ROWS],
                    *among,
                    horizons,
                    out,
                    self.rows[staying:],
                    self.times[staying:],
                )
            rows, times = self.rows[:staying], self.times[:staying]
            if happened is not None:
                happened(event, rows, times)
            event += 1


class Refresher:
    """Refreshes one column at some levels. Each thread needs its own."""

    def __init__(
        self,
        key: bytes,
        column: int,
        *,
        noise: Sequence[float],
        bounds: Words,
        room: RefreshRoom | None = None,
    ) -> None:
        self._key, self.column, self._room = key, column, room or RefreshRoom()
        self._horizons = ln_1_plus(noise)
        self.bounds, self._guide = bounds, _guide(bounds)
        self._functions: list[BlockFunction] = []  # one for each event: a key costs 10 us

    def refreshed(self, codes: Codes, ids: Ids) -> Codes:
        """Return one row of refreshed codes per level, shape (levels, rows)."""
        out = np.tile(codes, (len(self._horizons), 1))
        self._refresh(codes, ids, out)
        return out

    def events(self, codes: Codes, ids: Ids) -> tuple[Codes, Codes]:
        """Return what was drawn last at each level, and how many events have happened by then."""
        drawn, events = np.zeros((2, len(self._horizons), len(codes)), dtype=np.int32)
        self._refresh(codes, ids, drawn)
        self._refresh(codes, ids, events, counting=True)
        return drawn, events

    def _refresh(self, codes: Codes, ids: Ids, out: Codes, *, counting: bool = False) -> None:
        """Let events happen until the last horizon has passed for all rows.

        `counting` writes the number of the event in place of what it draws.
        """
        codes, ids = np.ascontiguousarray(codes), np.ascontiguousarray(ids)
        for start in range(0, len(codes) if len(out) else 0, STRETCH_ROWS):
            stretch = codes[start : start + STRETCH_ROWS]
            rows = np.arange(start, start + len(stretch))
            rows = rows[stretch != MISSING] if stretch.min() < 0 else rows
            self._room.let_happen(
                rows,
                partial(self._words, ids=ids, codes=codes),
                lambda event: _number(event + 1) if counting else (self.bounds, self._guide),
                self._horizons,
                out,
            )

    def _words(self, event: int, rows: Ints, *, ids: Ids, codes: Codes) -> Words:
        while event >= len(self._functions):
            info = struct.pack("<II", self.column, len(self._functions))
            self._functions.append(BlockFunction(expand(self._key, "refresh", info), masked=True))
        cells = self._room.cells[: len(rows)]
        # the first value is part of the block: cells of one row and column that differ in it have
        # independent events
        _core.fill_value_blocks(ids, codes, rows, self._room.masks, cells)
        return self._functions[event](cells, self._room.words)


class EventClock:
    """The times at which persons exchange what all of their categories show. Not for threads."""

    def __init__(self, key: bytes) -> None:
        self._key, self._room = expand(key, "persons"), RefreshRoom()
        self._functions: list[BlockFunction] = []

    def times(self, ids: Ids, until: float) -> tuple[Ints, Ints, Floats]:
        """Return events at rate 1: whose each is, its number from 0 and its time 2 T_k.

        Those `until` a time are among them, as ln(1+v).
        """
        ids, nothing = np.ascontiguousarray(ids), np.zeros((1, len(ids)), np.int32)
        found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]

        def happened(event: int, rows: Ints, times: Floats) -> None:
            found.append((rows.copy(), np.full(len(rows), event), times.copy()))

        for start in range(0, len(ids), STRETCH_ROWS):
            rows = np.arange(start, min(start + STRETCH_ROWS, len(ids)))
            words = partial(self._words, ids=ids)
            until_then = np.array([until])
            self._room.let_happen(
                rows, words, lambda _: _number(0), until_then, nothing, happened=happened
            )
        who, number, when = (np.concatenate(each) for each in zip(*found, strict=True))
        return who, number, when

    def _words(self, event: int, rows: Ints, *, ids: Ids) -> Words:
        while event >= len(self._functions):
            info = struct.pack("<I", len(self._functions) + 1)
            self._functions.append(BlockFunction(expand(self._key, "refresh", info), masked=True))
        # masked, since the cipher is XTS: what it enciphers is the person's id itself
        cells = ids[rows] ^ self._room.masks[: 2 * len(rows)].reshape(-1, 2)
        return self._functions[event](cells, self._room.words)


def _number(event: int) -> tuple[Words, Codes]:
    """Return bounds, and their guide, by which every draw is the number of the event."""
    # all words lie below the last bound
    bounds = np.array([0] * event + [2**64 - 1], dtype=np.uint64)
    return bounds, _guide(bounds)


def _guide(bounds: Words) -> Codes:
    """Return the category of the first word of each of 2^k equal shares of all words.

    Between it and that of the next share lies the category of any word of a share.
    """
    bits = min(max(len(bounds).bit_length() + 4, 6), 12)
    firsts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    categories = np.searchsorted(bounds, firsts, side="right")
    return np.append(categories, len(bounds)).clip(max=len(bounds) - 1).astype(np.int32)
