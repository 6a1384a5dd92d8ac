"""Categories that change between editions: one clock for all values of a cell.

The events of a cell are those of its first value (see _refresh.py), whatever it becomes: a cell
that was kept stays kept, and one that was replaced stays replaced, and moves whenever the cell
itself does, as other rows moved that had the history that it has shown (_moves_of_cells.py):

    S_0 = R_k,       S_e ~ M_e(. | S_{e-1}, S_{e-2}, ...)        if edition e changed the cell

Draws are keyed by row, column, edition and event, and look at nothing of the row's but which cells
changed: whether a cell returns to an earlier value is not seen in what replaces it, which returns
as often as others do.

So given which cells changed, copies of all editions show with probability q = 1/sqrt(1+v) the
history of a cell, else one that does not depend on it: they reveal what one of them reveals, as far
as the next value depends on the last ones alone. Someone who recognises by other means which cells
were replaced still finds nothing in these: at least 1 - q stays hidden. Copies of more noise are
those of less with further events, in all editions at once, so they add nothing.

What an edition changed is kept as codes under a keyed pad: they are cells only with the key.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornerwave.arrays import Codes, Flags, Ids, Ints, Words, places_among
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.noise._moves_of_cells import CategoryMoves, last_states
from cornerwave.noise._refresh import MISSING, Refresher


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

    def states(self, hashes: Words, codes: Codes) -> list[Codes]:
        """Return the last states of each category of some rows, given their codes by now."""
        before = self.before(hashes)
        found = []
        for place, own in enumerate(codes):
            history = _History.of([(had[place], moved[place]) for had, moved in before], own)
            found.append(last_states(np.stack(history.values)))
        return found

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
        for moved, edition in zip(history.moved, self._editions, strict=True):
            now, here = was[-1].copy(), np.flatnonzero(moved)
            earlier = np.stack([each[:, here] for each in was])
            now[:, here] = self._moved(edition, refresher, earlier, events[:, here], ids[here])
            was.append(now)
        return np.where((codes == MISSING) | (events == 0), codes, was[-1])

    def _moved(
        self, edition: int, refresher: Refresher, earlier: Codes, events: Codes, ids: Ids
    ) -> Codes:
        """Return what replaced cells show after a move, given what they showed so far.

        earlier: (moments, levels, rows).
        """
        ids, column = np.ascontiguousarray(ids), refresher.column
        out: Codes = earlier[-1].copy()
        moves, key = self._editions[edition].moves[column], moves_key(self._key, edition)
        for event in np.unique(events[events > 0]).tolist():
            info = struct.pack("<II", column, event)
            words = BlockFunction(expand(key, "moves", info))(ids, room_for(len(ids)))[::2]
            for level, here in enumerate(events == event):
                rows = np.flatnonzero(here)
                states = last_states(earlier[:, level, rows])
                out[level, rows] = moves.drawn(states, words[rows], refresher.bounds)
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
