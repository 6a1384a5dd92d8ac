"""Whether rows that come are in the order of rows that are there, such as people month by month.

A ledger keeps the first rows of each edition, a byte a cell: of a number in which of PARTS parts
of its column it lies, of all else a part of its hash. They are compared as rows of one table
would be in which editions lie APART rows apart (see `_distant_rows`): at every shift, and mirrored.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Bytes, Floats, Words, part_ends
from cornerwave.columns import MISSING_BITS
from cornerwave.privacy._distant_rows import DistantRows
from cornerwave.privacy._row_order import ALPHA, MATTERS, RevealedByOrder, revealed_from_afar
from cornerwave.privacy._ties import GONE, Cells

FIRST, MOST_EDITIONS = 1 << 12, 32
"""The first rows of an edition, and the editions of which they are kept: the first and the last."""
APART = 2 * FIRST
"""Editions lie so far apart that none is shifted into the next."""
WHERE = "rows in the same places of other editions"
PARTS = 255
"""Parts of a number; 0 is missing."""


@dataclass(frozen=True)
class FirstRows:
    """The first rows of editions, each (columns, rows); `ends` part the columns of numbers."""

    ends: Floats
    editions: tuple[Bytes, ...]

    @classmethod
    def of(cls, numbers: Floats, cells: Words) -> "FirstRows":
        """Return those of the first edition, in the order of its rows."""
        ends = np.array([part_ends(row, PARTS) for row in numbers]).reshape(len(numbers), PARTS - 1)
        return cls(ends, ()).with_edition(numbers, cells)

    def with_edition(self, numbers: Floats, cells: Words) -> "FirstRows":
        """Return them with those of one more edition."""
        parts = [
            np.where(np.isnan(row), 0, np.searchsorted(ends, row, side="left") + 1)
            for row, ends in zip(numbers, self.ends, strict=True)
        ]
        parts += [np.where(row == MISSING_BITS, 0, row % np.uint64(PARTS) + 1) for row in cells]
        rows = numbers.shape[1] if len(numbers) else cells.shape[1]
        new = np.array(parts, dtype=np.uint8).reshape(len(parts), rows)
        first, rest = self.editions[:1], self.editions[1:]
        return replace(self, editions=(*first, *rest[2 - MOST_EDITIONS :], new))

    def revealed(self, numbers: Sequence[str], categories: Sequence[str]) -> list[RevealedByOrder]:
        """Return the columns that rows of several editions in one order reveal, most first."""
        names = [*numbers, *categories]
        rows = DistantRows(names)
        rows.take((APART * n, self._cells(edition)) for n, edition in enumerate(self.editions))
        ties_of = rows.found(numbers, categories, alpha=ALPHA)
        shares = [
            replace(revealed_from_afar(rows, n, ties), where=WHERE) for n, ties in ties_of.items()
        ]
        return sorted((each for each in shares if each.share > MATTERS), key=lambda r: -r.share)

    def _cells(self, edition: Bytes) -> Cells:
        """Return the first rows of an edition as cells: numbers as floats, by which they rank."""
        numbers, others = np.split(edition, [len(self.ends)])
        as_floats = numbers.astype(np.float32).view(np.uint32)
        cells = np.concatenate([as_floats, others.astype(np.uint32)])
        return np.where(edition == 0, GONE, cells)

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps."""
        out, sizes = io.BytesIO(), [edition.shape[1] for edition in self.editions]
        np.savez(out, ends=self.ends, sizes=sizes, rows=np.concatenate(self.editions, axis=1))
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "FirstRows":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            at = np.cumsum(kept["sizes"])[:-1]
            return cls(kept["ends"], tuple(np.split(kept["rows"], at, axis=1)))
