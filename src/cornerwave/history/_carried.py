"""The noise of rows that changed, at the wanted levels.

    W_0 = L U_0,         W_e = A_e W_{e-1} + H_e Z_{e-1} + B_e U_e
    Z_0 = 0.4 W_0,       Z_e = A_e Z_{e-1} + H_e Z_{e-1} + 0.27 B_e U_e

in the columns that edition e changed; the others keep theirs.

U_e is the white path of edition e: the same streams and the same order of levels as U_0, under
a key of the edition's own. So the noise of a row is a function of the key, its id, the level
and which editions changed it by which of their rules; a row that none changed has the noise of
the first edition, bit for bit. The arithmetic is strict, every sum from left to right.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ids, Ints
from cornerwave.history._transition import LASTING, LASTING_FIRST, Transition
from cornerwave.keyed import expand, strict
from cornerwave.noise import Reader, Reading, shape_white, step_onto


def edition_key(key: bytes, edition: int) -> bytes:
    """Return the key of the fresh path of an edition, from that of the dataset's noise."""
    return expand(key, "edition", struct.pack("<Q", edition))


class HistoryReader:
    """Computes the noise of changed rows, at most `rows` at a time. Each thread needs its own.

    `rules` holds the frozen rules of editions by their number, `factor` is L.
    """

    def __init__(
        self,
        reading: Reading,
        key: bytes,
        *,
        factor: Floats,
        rules: Mapping[int, Sequence[Transition]],
        rows: int,
    ) -> None:
        columns = len(factor)
        self._factor, self._rules = factor, dict(sorted(rules.items()))
        self._first = Reader(reading, key, columns=columns, rows=rows)
        self._later = {
            edition: Reader(reading, edition_key(key, edition), columns=columns, rows=rows)
            for edition in self._rules
        }

    def noise(self, ids: Ids, kinds: Mapping[int, Ints]) -> Iterator[tuple[int, Floats]]:
        """Yield (index, W) for each wanted level; W has the shape (columns, rows).

        `kinds` says for some editions which of its rules each row follows; -1 is none.
        """
        rows_of = {edition: np.flatnonzero(kinds[edition] >= 0) for edition in sorted(kinds)}
        changed = {edition: rows for edition, rows in rows_of.items() if len(rows)}
        fresh = [self._later[edition].white(ids[rows]) for edition, rows in changed.items()]
        # all readers follow one plan, so they reach the levels in the same order
        for (index, white), *later in zip(self._first.white(ids), *fresh, strict=True):
            noise = np.empty(white.shape)
            shape_white(self._factor, white, noise)
            lasting = LASTING_FIRST * noise
            for (edition, rows), (_, path) in zip(changed.items(), later, strict=True):
                self._carry(edition, kinds[edition], rows, path, noise, lasting)
            yield index, noise

    def _carry(
        self, edition: int, kinds: Ints, rows: Ints, path: Floats, noise: Floats, lasting: Floats
    ) -> None:
        kinds = kinds[rows]
        for kind in np.flatnonzero(np.bincount(kinds)):
            rule, own = self._rules[edition][int(kind)], np.flatnonzero(kinds == kind)
            here, columns = rows[own], np.array(rule.columns, dtype=np.int64)
            before, kept = noise.take(here, axis=1), lasting.take(here, axis=1)
            fresh = path[columns].take(own, axis=1)
            for share, old, out in ((1.0, before, noise), (LASTING, kept, lasting)):
                after = np.empty(fresh.shape)
                carry_over(rule.carry, old, rule.recall, kept, share * rule.fresh, fresh, after)
                out[columns[:, None], here] = after


@strict
def carry_over(
    carry: Any, before: Any, recall: Any, lasting: Any, fresh: Any, path: Any, after: Any
) -> None:
    """Fill `after` (c, rows) with carry @ before + recall @ lasting + fresh @ path."""
    for i in range(after.shape[0]):
        after[i] = 0.0
        _add_terms(carry[i], before, before.shape[0], after[i])
        _add_terms(recall[i], lasting, lasting.shape[0], after[i])
        _add_terms(fresh[i], path, i + 1, after[i])  # lower triangular


@strict
def _add_terms(weights: Any, noise: Any, terms: int, out: Any) -> None:
    """Add the first terms of weights @ noise to out, four in one pass, from left to right."""
    fours = terms // 4 * 4
    for j in range(0, fours, 4):
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        wa, wb, wc, wd = noise[j], noise[j + 1], noise[j + 2], noise[j + 3]
        for row in range(out.shape[0]):
            out[row] = out[row] + a * wa[row] + b * wb[row] + c * wc[row] + d * wd[row]
    for j in range(fours, terms):
        a, wa = weights[j], noise[j]
        for row in range(out.shape[0]):
            out[row] = out[row] + a * wa[row]


def add_noise_on_grid(x: Floats, noise: Floats, grid: Floats) -> Floats:
    """Return x + noise, both (columns, rows), as whole numbers of each column's grid steps."""
    out = noise.copy()
    for values, step, copy in zip(x, grid, out, strict=True):
        step_onto(np.ascontiguousarray(values), step, copy)
    return out
