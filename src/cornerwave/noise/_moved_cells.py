"""Categories that change between editions: one clock for all values of a cell.

The events of a cell are those of its first value (see _refresh.py), whatever it becomes: a cell
that was kept stays kept, and one that was replaced stays replaced, and moves whenever the cell
itself does, as other rows moved:

    S_0 = R_k,       S_e ~ M_e(S_{e-1}, .)        if edition e changed the cell

M_e counts how the rows moved that edition e changed, from values that at least LEAST of them left;
from any other value S moves to a draw from pi that differs from it. A cell that returns to an
earlier value shows what it showed then, and one with a new value what it has not shown. Draws are
keyed by row, column, edition and event.

So given which cells changed, copies of all editions show with probability q = 1/sqrt(1+v) the
history of a cell, else one that does not depend on it: they reveal what one of them reveals, as far
as the next value depends on the last alone. Someone who recognises by other means which cells were
replaced still finds nothing in these: at least 1 - q stays hidden. Copies of more noise are
those of less with further events, in all editions at once, so they add nothing.

What an edition changed is kept as codes under a keyed pad: they are cells only with the key.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Codes, Flags, Ids, Ints, Words, places_among
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.noise._refresh import MISSING, Refresher, thresholds

ATTEMPTS = 4
"""Draws of a value that a cell has not shown yet."""
LEAST = 10
"""Rows that left a value: so few of them reveal little of the others, and each much of it."""


@dataclass(frozen=True)
class CategoryMoves:
    """Where the rows of each value moved, for values that LEAST rows left or more."""

    counts: Mapping[int, Mapping[int, int]]

    @classmethod
    def of(cls, before: Codes, after: Codes) -> "CategoryMoves":
        """Count the moves of some cells.

        >>> CategoryMoves.of(np.repeat([4, 5], [12, 3]), np.repeat([5, 6, 7], [8, 4, 3])).counts
        {4: {5: 8, 6: 4}}
        """
        pairs, counts = np.unique(np.stack([before, after]), axis=1, return_counts=True)
        moves: dict[int, dict[int, int]] = {}
        for one, other, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            moves.setdefault(one, {})[other] = count
        return cls({one: to for one, to in moves.items() if sum(to.values()) >= LEAST})

    def drawn(self, shown: Codes, words: Words, bounds: Words) -> Codes:
        """Return what cells that show some values show after a move, given random words."""
        out = other_values(shown, words, bounds)
        for value, to in self.counts.items():
            here = np.flatnonzero(shown == value)
            places = np.searchsorted(thresholds(list(to.values())), words[here], side="right")
            targets = np.array(list(to), dtype=np.int32)
            out[here] = targets[np.minimum(places, len(targets) - 1)]
        return out

    def to_json(self) -> list[Any]:
        """Return what is kept beside the chain."""
        return [[value, list(to.items())] for value, to in self.counts.items()]

    @classmethod
    def from_json(cls, kept: Sequence[Any]) -> "CategoryMoves":
        """Return what `to_json` wrote."""
        return cls({value: dict(map(tuple, to)) for value, to in kept})


def other_values(shown: Codes, words: Words, bounds: Words) -> Codes:
    """Return draws from pi that differ from what is shown; of a single value, that value."""
    ends = bounds.astype(np.float64) * 2.0**-64
    starts = np.append(0.0, ends[:-1])
    low, high = starts[shown], ends[shown]
    # a place in what is left of [0, 1) without the value, moved up behind it
    at = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (low + (1.0 - high))
    at = np.where(at < low, at, at + (high - low))
    return np.minimum(np.searchsorted(ends, at, side="right"), len(ends) - 1).astype(np.int32)


@dataclass(frozen=True)
class MovedRows:
    """Rows in which an edition changed a category: 64 bits of their ids, ascending.

    `moved` (categories, rows) are the cells that moved from one value to another. `padded` are
    their codes before that edition, and those of cells that went: the last ones that were there.
    """

    hashes: Words
    moved: Flags
    padded: NDArray[np.uint32]
    moves: tuple[CategoryMoves, ...]

    @classmethod
    def of(
        cls, hashes: Words, before: Codes, moved: Flags, moves: Sequence[CategoryMoves], key: bytes
    ) -> "MovedRows":
        """Put rows in the order of their ids; `key` is that of the edition."""
        order = np.argsort(hashes)
        hashes, before = hashes[order], np.ascontiguousarray(before[:, order])
        padded = before.view(np.uint32) ^ _pads(hashes, len(before), key)
        return cls(hashes, moved[:, order], padded, tuple(moves))

    def before(self, hashes: Words, key: bytes) -> tuple[Codes, Flags]:
        """Return the codes that rows had before, MISSING if that is not known, and what moved."""
        places = places_among(self.hashes, hashes)
        here = np.flatnonzero(places >= 0)
        codes = np.full((len(self.moves), len(hashes)), MISSING, dtype=np.int32)
        moved = np.zeros(codes.shape, dtype=np.bool_)
        padded = self.padded[:, places[here]] ^ _pads(hashes[here], len(codes), key)
        codes[:, here], moved[:, here] = padded.view(np.int32), self.moved[:, places[here]]
        return codes, moved

    def to_bytes(self) -> bytes:
        """Return what is kept beside the chain."""
        number, rows = self.moved.shape
        moves = [each.to_json() for each in self.moves]
        head = json.dumps({"categories": number, "rows": rows, "moves": moves}).encode()
        bits = np.packbits(self.moved).tobytes()
        words = self.hashes.astype("<u8").tobytes() + self.padded.astype("<u4").tobytes()
        return len(head).to_bytes(8, "little") + head + words + bits

    @classmethod
    def read(cls, content: bytes) -> "MovedRows":
        """Return what `to_bytes` wrote."""
        start = 8 + int.from_bytes(content[:8], "little")
        head = json.loads(content[8:start])
        number, rows = head["categories"], head["rows"]
        hashes = np.frombuffer(content, "<u8", rows, start).astype(np.uint64)
        start += 8 * rows
        padded = np.frombuffer(content, "<u4", number * rows, start).astype(np.uint32)
        bits = np.frombuffer(content, np.uint8, offset=start + 4 * number * rows)
        moved = np.unpackbits(bits, count=number * rows).astype(np.bool_)
        moves = tuple(map(CategoryMoves.from_json, head["moves"]))
        return cls(hashes, moved.reshape(number, rows), padded.reshape(number, rows), moves)


def _pads(hashes: Words, categories: int, key: bytes) -> NDArray[np.uint32]:
    """Return 32 random bits for each cell of some rows (categories, rows)."""
    blocks = np.zeros((len(hashes), 2), dtype=np.uint64)
    blocks[:, 0], function = hashes, BlockFunction(expand(key, "codes"))
    pads = np.empty((categories, len(hashes)), dtype=np.uint32)
    for category, pad in enumerate(pads):
        blocks[:, 1] = category
        pad[:] = function(blocks, room_for(len(blocks)))[::2]
    return pads


class MovedCells:
    """What all editions changed of categories, and what copies show of it.

    `editions` are the rows that each changed, by its number; `key` is that of the noise.
    """

    def __init__(self, editions: Mapping[int, MovedRows], key: bytes) -> None:
        self._editions, self._key = dict(sorted(editions.items())), key
        self._any = np.unique(
            np.concatenate([np.empty(0, np.uint64), *(r.hashes for r in editions.values())])
        )

    def of(self, ids: Ids) -> Ints:
        """Return which of some rows an edition changed."""
        return np.flatnonzero(places_among(self._any, ids[:, 0]) >= 0)

    def before(self, hashes: Words) -> list[tuple[Codes, Flags]]:
        """Return for each edition what some rows had before, and which cells it moved."""
        return [r.before(hashes, moves_key(self._key, e)) for e, r in self._editions.items()]

    def last(self, hashes: Words, categories: int) -> Codes:
        """Return the last codes that were there before an edition changed them (categories, rows).

        MISSING if no edition did.
        """
        codes = np.full((categories, len(hashes)), MISSING, dtype=np.int32)
        for before, _ in self.before(hashes):
            codes = np.where(before == MISSING, codes, before)
        return codes

    def shown(
        self, refresher: Refresher, codes: Codes, ids: Ids, before: Sequence[tuple[Codes, Flags]]
    ) -> Codes:
        """Return what copies show of one category in rows that editions changed (levels, rows).

        Given their codes, and those that they had `before` each edition.
        """
        place = refresher.column
        history = _History.of([(had[place], moved[place]) for had, moved in before], codes)
        drawn, events = refresher.events(history.first, ids)
        was = [drawn]
        for place, edition in enumerate(self._editions, 1):
            now, values = was[-1].copy(), history.values[place]
            seen = np.array([before == values for before in history.values[:place]])
            new = np.flatnonzero(history.moved[place - 1] & ~seen.any(axis=0))
            earlier = np.stack(was)[:, :, new]
            now[:, new] = self._moved(edition, refresher, earlier, events[:, new], ids[new])
            # of a value that a row had before: what it showed then
            again = np.flatnonzero(history.moved[place - 1] & seen.any(axis=0))
            now[:, again] = np.stack(was)[seen[:, again].argmax(axis=0), :, again].T
            was.append(now)
        return np.where((codes == MISSING) | (events == 0), codes, was[-1])

    def _moved(
        self, edition: int, refresher: Refresher, earlier: Codes, events: Codes, ids: Ids
    ) -> Codes:
        """Return what replaced cells show after a move, given what they showed so far.

        earlier: (moments, levels, rows). A new value of the cell is shown by a new one, if a few
        draws find any: else a copy would show who returns to a value, and who does not.
        """
        ids, column = np.ascontiguousarray(ids), refresher.column
        out: Codes = earlier[-1].copy()
        moves, key = self._editions[edition].moves[column], moves_key(self._key, edition)
        waits = events > 0
        for attempt in range(ATTEMPTS):
            for event in np.unique(events[waits]).tolist():
                info = struct.pack("<III", column, event, attempt)
                words = BlockFunction(expand(key, "moves", info))(ids, room_for(len(ids)))[::2]
                for level, here in enumerate(waits & (events == event)):
                    rows = np.flatnonzero(here)
                    shown = earlier[-1, level, rows]
                    out[level, rows] = moves.drawn(shown, words[rows], refresher.bounds)
            waits = waits & (earlier == out).any(axis=0)
        return out


@dataclass(frozen=True)
class _History:
    """The codes of one category in some rows: in edition 1 and after each change, as far as known.

    `values[0]`, `moved[0]`, `values[1]`, ...: which cells an edition moved lies between them.
    """

    values: list[Codes]
    moved: list[Flags]

    @classmethod
    def of(cls, editions: Sequence[tuple[Codes, Flags]], codes: Codes) -> "_History":
        """Return it for what was before each edition, and the codes of the last one."""
        values = [codes]
        for before, _ in reversed(editions):  # what was not there has the value of what came next
            values.insert(0, np.where(before == MISSING, values[0], before))
        return cls(values, [moved for _, moved in editions])

    @property
    def first(self) -> Codes:
        """The first value of each row, whose events are those of the cell."""
        return np.ascontiguousarray(self.values[0])


def moves_key(key: bytes, edition: int) -> bytes:
    """Return the key of how categories move in an edition, from that of the dataset's noise."""
    return expand(key, "moved categories", struct.pack("<Q", edition))
