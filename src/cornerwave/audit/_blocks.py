"""Blocks of the same rows of source and copies: numbers and categories, on the scales that they
are compared on.

Each file is read ahead by a thread of its own and never held whole.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.columns import AsLeft, Encoded, Relative, one_chunk, to_floats, value_type
from cornerwave.errors import ColumnError, SourceError
from cornerwave.moments import LARGEST_COMPARED
from cornerwave.sources import Source

BLOCK_ROWS = 1 << 16

Encodings = Mapping[str, Encoded]

Block = TypeVar("Block")


@dataclass(frozen=True)
class AlignedRows:
    """The same rows of some tables, (N, rows) each: as they are, and on the scales that they are
    compared on. `number` counts blocks, `start` is the place of the first row.
    """

    number: int
    start: int
    raw: list[Floats]
    scaled: list[Floats]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.raw[0].shape[1])


@dataclass(frozen=True)
class AlignedCategories:
    """The same rows of source and copies as encoded categories, by column."""

    start: int
    tables: Sequence[Encodings]

    def at(self, rows: Ints) -> "AlignedCategories":
        """Return some of the rows."""
        tables = [
            {name: replace(encoded, codes=encoded.codes[rows]) for name, encoded in table.items()}
            for table in self.tables
        ]
        return AlignedCategories(self.start, tables)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.tables[0].values())).codes)


@dataclass(frozen=True)
class BlockReading:
    """How rows of a table are compared: its `numbers`, and the types of its `categories`.

    `lowest` has the numbers on the scale log(1+x), and where a value of -1 lies there; `spreads`
    how each of the tables that are read drew numbers together, which is undone. Numbers that are
    `relative` to others are compared as their distances. It travels to any machine, which then
    makes the same blocks.
    """

    numbers: tuple[str, ...]
    lowest: Mapping[str, float]
    categories: Mapping[str, pa.DataType]
    spreads: tuple[AsLeft, ...] = ()
    relative: Relative = field(default_factory=dict)

    @property
    def read(self) -> list[str]:
        """The columns that the numbers are read from."""
        bases = [self.relative[name] for name in self.numbers if name in self.relative]
        return list(dict.fromkeys([*self.numbers, *bases]))

    def matrix(self, group: pa.Table) -> Floats:
        """Return the numbers of some rows, (N, rows). Raises ColumnError if they do not fit."""
        matrix = np.empty((len(self.numbers), group.num_rows))
        for row, name in zip(matrix, self.numbers, strict=True):
            row[:] = _floats(one_chunk(group.column(name)), name)
            if (base := self.relative.get(name)) is not None:
                row -= _floats(one_chunk(group.column(base)), base)
            if name not in self.lowest and _size(row) > LARGEST_COMPARED:
                raise ColumnError(
                    f"{name!r} holds values beyond {LARGEST_COMPARED:g}, too large to be compared: "
                    "divide them in every file"
                )
            if name in self.lowest and (row < -1).any():
                raise ColumnError(
                    f"{name!r} holds values below -1, but a copy states that it was perturbed on "
                    "the scale log(1+x): its metadata does not fit the table"
                )
        return matrix

    def encodings(self, group: pa.Table) -> Encodings:
        """Return the categories of some rows, their values as the types that the source has."""
        return {
            name: Encoded.of(_as(one_chunk(group.column(name)), type_), name)
            for name, type_ in self.categories.items()
        }

    def scaled(self, matrices: list[Floats]) -> list[Floats]:
        """Return the matrix (N, rows) of each table on the scales that they are compared on."""
        transformed = self._transformed(matrices)
        if not any(self.spreads):
            return transformed
        pairs = zip(transformed, self.spreads, strict=True)
        return [self._as_left(matrix, spreads) for matrix, spreads in pairs]

    def _as_left(self, matrix: Floats, spreads: AsLeft) -> Floats:
        """Return the matrix (N, rows) of a table as the noise left it."""
        if not spreads:
            return matrix
        pairs = zip(self.numbers, matrix, strict=True)
        return np.array([spreads[n].undone(row) if n in spreads else row for n, row in pairs])

    def _transformed(self, matrices: list[Floats]) -> list[Floats]:
        if not self.lowest:
            return matrices
        where = np.array([name in self.lowest for name in self.numbers])[:, None]
        lowest = np.array([self.lowest.get(name, 0.0) for name in self.numbers])[:, None]
        all_scaled = []
        for matrix in matrices:
            ended = where & (matrix <= -1)  # far down every value becomes -1
            inside = np.where(ended, 0.0, matrix)
            scaled = np.log1p(inside, out=matrix.copy(), where=where)
            all_scaled.append(np.where(ended, lowest, scaled))
        return all_scaled

    def rows(self, part: tuple[int, int, list[Floats]]) -> AlignedRows:
        """Return a block of numbers, given its number, its place and the matrix of each table."""
        return AlignedRows(*part, self.scaled(part[2]))


def side_by_side(
    sources: Sequence[Source],
    read: Callable[[Source], Iterator[Block]],
    length: Callable[[Block], int],
) -> Iterator[list[Block]]:
    """Yield blocks of the same rows; raise SourceError where one table ends before another."""
    with ThreadPoolExecutor(len(sources)) as pool:
        streams = [_ahead(read(source), pool) for source in sources]
        done = 0
        for block in zip_longest(*streams):
            lengths = [0 if part is None else length(part) for part in block]
            if len(set(lengths)) > 1:
                raise SourceError(_lengths_differ(sources, done, lengths))
            done += lengths[0]
            yield list(block)


def _size(values: Floats) -> float:
    """Return the largest absolute value of those that are there."""
    ends = np.fmin.reduce(values, initial=0.0), np.fmax.reduce(values, initial=0.0)
    return float(max(-ends[0], ends[1]))


def _as(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return values cast to a type, or as they are if the cast fails."""
    if value_type(array.type) == type_:
        return array
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if pa.types.is_floating(plain.type):
        plain = pc.if_else(pc.is_nan(plain), None, plain)
    try:
        return plain.cast(type_, safe=not pa.types.is_temporal(type_))
    except pa.ArrowException:
        return plain


def _floats(array: pa.Array, name: str) -> Floats:
    """Return a column as floats with NaN for missing; whole columns of doubles at once."""
    if array.type == pa.float64() and not array.null_count:
        values: Floats = array.to_numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            whole = bool(np.isfinite(values.sum()))
        if whole:
            return values
    if pa.types.is_integer(array.type):  # a rounded copy may exceed 2^53
        array = array.cast(pa.float64(), safe=False)
    return to_floats(array, name)


def _ahead(items: Iterator[Block], pool: ThreadPoolExecutor) -> Iterator[Block]:
    """Yield the items while the next one is being made."""
    coming: Future[Block | None] = pool.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = pool.submit(next, items, None)
        yield item


def _lengths_differ(sources: Sequence[Source], done: int, lengths: list[int]) -> str:
    shortest, longest = lengths.index(min(lengths)), lengths.index(max(lengths))
    return (
        f"{sources[shortest].name} ends after {done + lengths[shortest]:,} rows, "
        f"{sources[longest].name} has more: they are not copies of the same rows"
    )
