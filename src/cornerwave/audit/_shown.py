"""What source and copies show of each category, as codes, in rows spread over the table.

All rows are counted once for the distribution of the truth. The checks and the attack
look at single rows again and again, so only as many rows are kept as fit into a fixed
amount of memory: all of them, or every second, fourth, eighth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cornerwave.arrays import Codes, Floats, Ints
from cornerwave.columns import MOST_CATEGORIES, Encoded, cases

KEPT_CELLS = 1 << 23
"""Cells that are kept of all tables together."""

ABSENT = -1
"""The code of a cell that is missing in the source and in every copy: nothing is hidden there."""


@dataclass(frozen=True)
class CategoryCodes:
    """A category in the kept rows: `codes` (1 + M, rows) of the source and of each copy.

    A code is a position in `values`, whose parts are None if missing. `counts` says in
    how many of all rows the source holds each value, without those that are ABSENT.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    codes: Codes
    counts: Ints

    @property
    def name(self) -> str:
        """The names of its columns, joined."""
        return "+".join(self.columns)

    @property
    def pi(self) -> Floats:
        """The share of rows of the source that hold each value."""
        return np.asarray(self.counts / max(self.counts.sum(), 1))

    @property
    def variance(self) -> float:
        """The variance of all indicators together: 1 - sum of pi^2."""
        return max(1.0 - float((self.pi**2).sum()), 1e-300)

    @property
    def truth(self) -> Codes:
        """The codes of the source."""
        return np.asarray(self.codes[0])

    @property
    def bare(self) -> bool:
        """Whether every copy shows what the source holds."""
        return bool((self.codes[1:] == self.codes[0]).all())

    @property
    def constant(self) -> bool:
        """Whether the source holds a single value."""
        return bool((self.counts > 0).sum() < 2)

    def of_rows(self, rows: slice | Ints) -> "CategoryCodes":
        """Return the category in some of the kept rows."""
        return replace(self, codes=self.codes[:, rows])


class Collected:
    """Takes blocks of encoded categories (`add`), and gives what they show."""

    def __init__(self, categories: Sequence[tuple[str, ...]], tables: int) -> None:
        self._categories = [_Numbering(columns) for columns in categories]
        self._room = max(KEPT_CELLS // (tables * len(categories)), 1)
        self.rows = 0
        self._kept, self.every = 0, 1

    def add(self, tables: Sequence[Mapping[str, Encoded]]) -> None:
        """Take the same rows of the source and of each copy."""
        rows = len(next(iter(tables[0].values())).codes)
        start = -self.rows % self.every
        for category in self._categories:
            category.add(tables, slice(start, None, self.every))
        self.rows += rows
        self._kept += len(range(start, rows, self.every))
        while self._kept > self._room:
            for category in self._categories:
                category.thin()
            self._kept, self.every = (self._kept + 1) // 2, 2 * self.every

    def shown(self) -> list[CategoryCodes]:
        """Return all categories except those with too many values."""
        return [category.shown() for category in self._categories if not category.boundless]

    @property
    def boundless(self) -> list[str]:
        """The names of columns with more values than a category may have."""
        return ["+".join(category.columns) for category in self._categories if category.boundless]


class _Numbering:
    """Gives each value of a category a code, across blocks and tables."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._counts = np.zeros(0, dtype=np.int64)
        self._parts: list[Codes] = []

    @property
    def boundless(self) -> bool:
        return len(self._numbers) > MOST_CATEGORIES

    def add(self, tables: Sequence[Mapping[str, Encoded]], chosen: slice) -> None:
        if self.boundless:
            return
        codes = [self._numbered([table[name] for name in self.columns]) for table in tables]
        counts = np.bincount(codes[0], minlength=len(self._numbers))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self._parts.append(np.stack([own[chosen] for own in codes]))

    def thin(self) -> None:
        if self._parts:
            self._parts = [np.ascontiguousarray(np.concatenate(self._parts, axis=1)[:, ::2])]

    def shown(self) -> CategoryCodes:
        values, counts = tuple(self._numbers), self._counts.copy()
        codes = np.concatenate(self._parts, axis=1)
        missing = np.array([None in value for value in values])[codes]
        # Gaps that every table has in the same rows are not hidden, so they are not judged.
        if (missing == missing[0]).all():
            codes[missing] = ABSENT
            counts[[None in value for value in values]] = 0
        return CategoryCodes(self.columns, values, codes, counts)

    def _numbered(self, columns: Sequence[Encoded]) -> Codes:
        found, rows = cases(columns)
        occur = np.zeros(len(found), dtype=bool)
        occur[rows] = True
        # Only values that occur get a number: an encoding may list others.
        numbers = [
            self._numbers.setdefault(case, len(self._numbers)) if occurs else ABSENT
            for case, occurs in zip(found, occur.tolist(), strict=True)
        ]
        return np.array(numbers, dtype=np.int32)[rows]
