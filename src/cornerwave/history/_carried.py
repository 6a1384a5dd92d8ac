"""The noise of rows that changed, at the wanted levels.

    W_0 = L U_0,    W_e = M_e W_{e-1} + B_e U_e   in the columns that edition e changed

U_e is the white path of edition e: the same streams and the same order of levels as U_0, under
a key of the edition's own. So the noise of a row is a function of the key, its id, the level
and which editions changed which of its columns; a row that none changed has the noise of the
first edition, bit for bit. The arithmetic is strict, every sum from left to right.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cornerwave.arrays import Flags, Floats, Ids
from cornerwave.history._transition import Transition
from cornerwave.keyed import expand, strict
from cornerwave.noise import Reader, Reading, shape_white, step_onto


def edition_key(key: bytes, edition: int) -> bytes:
    """Return the key of the fresh path of an edition, from that of the dataset's noise."""
    return expand(key, "edition", struct.pack("<Q", edition))


class HistoryReader:
    """Computes the noise of changed rows, at most `rows` at a time. Each thread needs its own.

    `transitions` holds the frozen numbers of editions by their number, `factor` is L.
    """

    def __init__(
        self,
        reading: Reading,
        key: bytes,
        *,
        factor: Floats,
        transitions: Mapping[int, Transition],
        rows: int,
    ) -> None:
        columns = len(factor)
        self._factor, self._transitions = factor, dict(sorted(transitions.items()))
        self._first = Reader(reading, key, columns=columns, rows=rows)
        self._later = {
            edition: Reader(reading, edition_key(key, edition), columns=columns, rows=rows)
            for edition in self._transitions
        }

    def noise(self, ids: Ids, changed: Mapping[int, Flags]) -> Iterator[tuple[int, Floats]]:
        """Yield (index, W) for each wanted level; W has the shape (columns, rows).

        `changed` says for some of the editions which cells they changed: (columns, rows).
        """
        editions = [edition for edition in self._transitions if edition in changed]
        rows = {edition: np.flatnonzero(changed[edition].any(axis=0)) for edition in editions}
        editions = [edition for edition in editions if len(rows[edition])]
        fresh = [self._later[edition].white(ids[rows[edition]]) for edition in editions]
        # all readers follow one plan, so they reach the levels in the same order
        for (index, white), *later in zip(self._first.white(ids), *fresh, strict=True):
            noise = np.empty(white.shape)
            shape_white(self._factor, white, noise)
            for edition, (_, path) in zip(editions, later, strict=True):
                here, rule = rows[edition], self._transitions[edition]
                cells = np.ascontiguousarray(changed[edition][:, here])
                before = np.ascontiguousarray(noise[:, here])
                noise[:, here] = _carried(rule, before, path, cells)
            yield index, noise


def _carried(rule: Transition, before: Floats, path: Floats, changed: Flags) -> Floats:
    after = before.copy()
    carry_over(rule.carry, rule.fresh, before, path, changed, after)
    return after


@strict
def carry_over(carry: Any, fresh: Any, before: Any, path: Any, changed: Any, after: Any) -> None:
    """Fill the changed cells of `after` with carry @ before + fresh @ path, (columns, rows)."""
    columns, rows = before.shape
    total = np.empty(rows)
    for i in range(columns):
        for row in range(rows):
            total[row] = carry[i, 0] * before[0, row]
        for j in range(1, columns):
            for row in range(rows):
                total[row] = total[row] + carry[i, j] * before[j, row]
        for j in range(i + 1):
            for row in range(rows):
                total[row] = total[row] + fresh[i, j] * path[j, row]
        for row in range(rows):
            if changed[i, row]:
                after[i, row] = total[row]


def add_noise_on_grid(x: Floats, noise: Floats, grid: Floats) -> Floats:
    """Return x + noise, both (columns, rows), as whole numbers of each column's grid steps."""
    out = noise.copy()
    for values, step, copy in zip(x, grid, out, strict=True):
        step_onto(np.ascontiguousarray(values), step, copy)
    return out
