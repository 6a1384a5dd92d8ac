"""What one pass learns of a table for recognising its values again; parts add up, to the bit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cornerwave import _core
from cornerwave.arrays import Floats, Ints, Words
from cornerwave.reuse._bottom import SIZE, Bottom
from cornerwave.reuse._cells import NONE, Cells, SeenCells
from cornerwave.reuse._order import Order

_U = np.uint64


@dataclass(frozen=True)
class ChosenRows:
    """The cells (columns, rows) of the rows whose key, or place, has the smallest hashes."""

    hashes: Words
    cells: Words
    numbers: Floats

    @classmethod
    def of(
        cls, by: Cells, columns: Sequence[Cells], known: "ChosenRows | None" = None
    ) -> "ChosenRows":
        """Sample some rows by the hash of their key or place, none above those that are known."""
        hashes, rows = by.hashes, np.arange(len(by.numbers))
        if known is not None and len(known.hashes) == SIZE:
            rows = np.flatnonzero(hashes <= known.hashes[-1])
        if len(rows) > SIZE:
            rows = rows[np.argpartition(hashes[rows], SIZE)[:SIZE]]
        taken = [column.take(rows) for column in columns]
        cells, numbers = np.stack([t.hashes for t in taken]), np.stack([t.numbers for t in taken])
        return cls(hashes[rows], cells, numbers)._smallest()

    @classmethod
    def nothing(cls, columns: int) -> "ChosenRows":
        """Return the sample of no rows."""
        none = np.zeros((columns, 0), dtype=np.uint64)
        return cls(np.empty(0, dtype=np.uint64), none, none.astype(np.float64))

    def __add__(self, other: "ChosenRows") -> "ChosenRows":
        return ChosenRows(
            np.concatenate([self.hashes, other.hashes]),
            np.concatenate([self.cells, other.cells], axis=1),
            np.concatenate([self.numbers, other.numbers], axis=1),
        )._smallest()

    def _smallest(self) -> "ChosenRows":
        order = np.argsort(self.hashes)[:SIZE]
        return ChosenRows(self.hashes[order], self.cells[:, order], self.numbers[:, order])


@dataclass(frozen=True)
class Learned:
    """What is known of some rows; `a + b` is what is known of both parts.

    `values` and `sums` are those of each used column, `rows` and `row_sum` those of the cells
    of a row that get noise, together; `keyed` is None without a key. Sampled rows have one
    column more, their place.
    """

    present: Ints
    values: tuple[Bottom, ...]
    sums: Words
    order: Order
    rows: Bottom
    row_sum: Words
    keyed: ChosenRows | None
    placed: ChosenRows

    @classmethod
    def of(
        cls,
        places: Ints,
        columns: Mapping[str, Cells],
        hidden: Sequence[str],
        keys: Cells | None,
        by_place: Cells,
        known: "Learned | None" = None,
    ) -> "Learned":
        """Learn from some rows, given their places, their cells and which columns get noise.

        `by_place` are the places as cells. What cannot matter beside rows that are `known` already
        may be left out.
        """
        cells = list(columns.values())
        placed = [*cells, by_place]
        known = known or cls.nothing(len(cells), keyed=keys is not None)
        # a hash of each row's cells, whatever the order of the columns
        whole = np.zeros(len(places), dtype=np.uint64)
        limits = [
            (v.below, w.below) for v, w in zip(known.values, known.order.windows, strict=True)
        ]
        seen = [
            SeenCells.of(column, whole if name in hidden else NONE, *limit)
            for (name, column), limit in zip(columns.items(), limits, strict=True)
        ]
        _core.mix_words(whole)
        return cls(
            present=np.array([each.present for each in seen], dtype=np.int64),
            values=tuple(each.values for each in seen),
            sums=np.array([each.total for each in seen], dtype=np.uint64),
            order=Order.of(places, cells, seen),
            rows=Bottom.of(whole, below=known.rows.below),
            row_sum=whole.sum(dtype=np.uint64, keepdims=True),
            keyed=None if keys is None else ChosenRows.of(keys, placed, known.keyed),
            placed=ChosenRows.of(by_place, placed, known.placed),
        )

    @classmethod
    def nothing(cls, columns: int, *, keyed: bool) -> "Learned":
        """Return what is known of no rows."""
        return cls(
            present=np.zeros(columns, dtype=np.int64),
            values=(Bottom.nothing(),) * columns,
            sums=np.zeros(columns, dtype=np.uint64),
            order=Order.nothing(columns),
            rows=Bottom.nothing(),
            row_sum=np.zeros(1, dtype=np.uint64),
            keyed=ChosenRows.nothing(columns + 1) if keyed else None,
            placed=ChosenRows.nothing(columns + 1),
        )

    def __add__(self, other: "Learned") -> "Learned":
        both = self.keyed is not None and other.keyed is not None
        return Learned(
            present=self.present + other.present,
            values=tuple(a + b for a, b in zip(self.values, other.values, strict=True)),
            sums=self.sums + other.sums,
            order=self.order + other.order,
            rows=self.rows + other.rows,
            row_sum=self.row_sum + other.row_sum,
            keyed=self.keyed + other.keyed if both else None,  # type: ignore[operator]
            placed=self.placed + other.placed,
        )


# --------------------------------------------------------------------------------------------------
# The numbers of a column in some rows, chosen by the hashes of their keys, or of their places.
#
# Two tables choose the same rows. So it shows that one table is computed from the other, though
# no value of it is the same: see `_relations`.


PRESENT = 0.5
"""Of the sampled cells, at least so many must be numbers."""
DIFFERENT = 8
"""Different numbers in the sample, at least: flags and codes agree by design, as the years of a
panel do."""


@dataclass(frozen=True)
class Numbers:
    """A column in the sampled rows, less `centre` and over `scale`: NaN where it has no number.

    `keyed` is None without a key.
    """

    centre: float
    scale: float
    keyed: Floats | None
    placed: Floats

    @classmethod
    def of(cls, keyed: Floats | None, placed: Floats) -> "Numbers | None":
        """Return what is kept of a column; None if it has too few numbers."""
        known = placed[np.isfinite(placed)]
        if len(known) < PRESENT * len(placed) or len(np.unique(known)) < DIFFERENT:
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # then the scale is not finite
            centre, scale = float(np.median(known)), float(known.std())
        if not (math.isfinite(centre) and 0 < scale < math.inf):
            return None
        made = cls(centre, scale, None, np.empty(0))
        on_grid = None if keyed is None else made._on(keyed)
        return replace(made, keyed=on_grid, placed=made._on(placed))

    def with_rows(
        self, keyed: Floats | None, placed: Floats, by_key: Ints | None, by_place: Ints
    ) -> "Numbers":
        """Return the column with further rows, given which of all the samples have now."""
        held, placed = self.keyed, np.concatenate([self.placed, self._on(placed)])[by_place]
        if held is not None and keyed is not None and by_key is not None:
            held = np.concatenate([held, self._on(keyed)])[by_key]
        return replace(self, keyed=held, placed=placed)

    def _on(self, numbers: Floats) -> Floats:
        finite = np.where(np.isfinite(numbers), numbers, np.nan)
        return (finite - self.centre) / self.scale
