"""Some rows of a table, far apart, that are compared at all lags and mirrors (see `_ties`).

Of a table of more than DISTANT_CELLS cells some stretches of rows are kept, chosen by a hash of
their place: the same from any parts, in any order.
"""

from collections.abc import Iterable, Sequence
from copy import copy

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import MISSING_BITS, Encoded, is_number, one_chunk, to_floats
from cornerwave.errors import ColumnError
from cornerwave.passes import in_threads
from cornerwave.privacy._ties import GONE, Blocks, Cells, Ties, find_ties, left_by_ties, mixed

DISTANT_CELLS, LEAST_DISTANT = 1 << 24, 1 << 17
"""So many cells of a table are kept, four bytes each, but at least so many rows."""
STRETCH = 1 << 10
"""Rows of a larger table are kept in stretches of so many, chosen by a hash of their place."""

_HASH = bytes(16)
"""The hash only separates values of one table: nothing is secret about it."""
_U = np.uint64


class DistantRows:
    """Some rows of a table in four bytes a cell, in which to look for lags that reveal columns."""

    def __init__(
        self, columns: Sequence[str], *, rows: int | None = None, most: int | None = None
    ) -> None:
        """`rows` is how many the whole table has, if that is known before the first is seen;
        `most` is how many of them are kept."""
        self.columns = list(columns)
        self._most = most or max(LEAST_DISTANT, DISTANT_CELLS // max(1, len(self.columns)))
        self._stride, self._rows, self._total = 1, 0, 0  # _total is the place behind the last row
        while rows is not None and _expected(rows, self._stride) > self._most:
            self._stride *= 2
        self._parts: list[tuple[int, Cells]] = []

    @property
    def parts(self) -> list[tuple[int, Cells]]:
        """The stretches that are kept: the number of the first row, and (columns, rows)."""
        return list(self._parts)

    def none(self) -> "DistantRows":
        """Return none of the rows, of which as few would be kept."""
        empty = copy(self)
        empty._parts, empty._rows, empty._total = [], 0, 0
        return empty

    def copied(self) -> "DistantRows":
        """Return the same rows, apart from what is taken later."""
        twin = copy(self)
        twin._parts = list(self._parts)
        return twin

    def of(self, start: int, table: pa.Table) -> list[tuple[int, Cells]]:
        """Return what is kept of the rows of a table that begin at `start`, to be taken later."""
        if not self.columns or not table.num_rows:
            return []
        spans = _chosen(start, start + table.num_rows, self._stride)
        if not spans:
            return []
        # all of them at once: a call for each stretch would take longer than what it does
        some = pa.concat_tables([table.slice(here - start, there - here) for here, there in spans])
        ends = np.cumsum([there - here for here, there in spans])
        parts = np.split(_cells(some, self.columns), ends[:-1], axis=1)
        return list(zip((here for here, _ in spans), parts, strict=True))

    def take(self, parts: Iterable[tuple[int, Cells]]) -> None:
        """Take over what `of` kept of some rows, in any order."""
        for start, cells in parts:
            self._keep(start, cells)
        while self._rows > self._most:
            self._stride, self._rows = 2 * self._stride, 0
            parts, self._parts = self._parts, []
            for start, cells in parts:
                self._keep(start, cells)

    def _keep(self, start: int, cells: Cells) -> None:
        stop = start + cells.shape[1]
        self._total = max(self._total, stop)
        for here, there in _chosen(start, stop, self._stride):
            some = cells[:, here - start : there - start]
            # copied, or all rows of what it is a part of would stay in memory with it
            whole = some.shape == cells.shape and cells.base is None
            self._parts.append((here, cells if whole else some.copy()))
            self._rows += there - here

    def found(
        self,
        numbers: Sequence[str],
        categories: Sequence[str],
        *,
        hide_missing: Sequence[str] = (),
        alpha: float,
    ) -> dict[str, Ties]:
        """Return the columns that rows at some lag, or in mirrored places, reveal beyond chance."""
        asked = [(name, None) for name in numbers if name in self.columns]
        more = [(name, name in hide_missing) for name in categories if name in self.columns]
        if not self._rows or not (asked or more):
            return {}
        parts = sorted(self._parts, key=lambda part: part[0])
        # places in a batch begin where the table before it ends: lags are looked for from there
        rows = np.concatenate([np.arange(at, at + each.shape[1]) for at, each in parts])
        blocks = Blocks.of(rows - rows[0], self._span)
        alpha /= len(asked) + len(more)

        def look(each: tuple[str, bool | None]) -> Ties:
            place = self.columns.index(each[0])
            cells = np.concatenate([part[place] for _, part in parts])
            return find_ties(cells, each[1], blocks, alpha)

        with in_threads(look, [*asked, *more], None) as found:
            ties = list(found)
        return {name: each for (name, _), each in zip([*asked, *more], ties, strict=True) if each}

    def left_hidden(self, ties: Ties, privacy: Floats) -> Floats:
        """Return the share that the best smoother over the rows found leaves at each privacy."""
        return left_by_ties(ties, self._span, privacy)

    @property
    def _span(self) -> int:
        """How many rows there are from the first one that is kept to the last."""
        return self._total - min((start for start, _ in self._parts), default=0)


def _expected(rows: int, stride: int) -> int:
    """Return how many of so many rows are kept at a stride."""
    return sum(there - here for here, there in _chosen(0, rows, stride))


def _chosen(start: int, stop: int, stride: int) -> list[tuple[int, int]]:
    """Return where the rows lie that are kept of some: their first, and the one behind the last."""
    if stride == 1:
        return [(start, stop)]
    number = np.arange(start // STRETCH, -(-stop // STRETCH))
    kept = number[mixed(number.astype(np.uint64) + _U(1)) & _U(stride - 1) == 0] * STRETCH
    return [(max(start, at), min(stop, at + STRETCH)) for at in kept.tolist()]


def _cells(table: pa.Table, columns: Sequence[str]) -> Cells:
    """Return cells in four bytes: numbers in single precision, of all else hashes."""
    out = np.full((len(columns), table.num_rows), GONE)
    for name, words in zip(columns, out, strict=True):
        column = one_chunk(table.column(name))
        try:
            words[:] = (
                _of_numbers(column, name) if is_number(column.type) else _hashed(column, name)
            )
        except ColumnError:  # reading the column for the survey states why it cannot be used
            continue
    return out


def _of_numbers(column: pa.Array, name: str) -> Cells:
    if pa.types.is_integer(column.type):  # ranks need no more than doubles have
        column = column.cast(pa.float64(), safe=False)
    with np.errstate(over="ignore"):
        numbers = to_floats(column, name).astype(np.float32) + np.float32(0)  # -0 is 0
    return np.where(np.isnan(numbers), GONE, numbers.view(np.uint32))


def _hashed(column: pa.Array, name: str) -> Cells:
    words = np.empty(len(column), dtype=np.uint64)
    Encoded.of_category(column, name).fill_bits(_HASH, MISSING_BITS, words)
    hashes = np.minimum(words >> _U(32), _U(GONE - 1)).astype(np.uint32)
    return np.where(words == MISSING_BITS, GONE, hashes)
