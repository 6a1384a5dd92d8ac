"""Samples of rows that are the same whatever parts a table comes in.

    sample = the rows whose keyed hash is smallest        so sample(a) + sample(b) = sample(a and b)

Hashes are keyed: nobody outside can choose rows that are sampled, or say which ones are. The same
hashes give each row its keyed uniform number, for ranks and for the weights of knots.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cornerwave.arrays import LARGEST_WORD, Floats, Ids, Ints, Words
from cornerwave.columns import RankDraws, exponentials
from cornerwave.keyed import BlockFunction, expand, room_for
from cornerwave.spine.rows import RowSecrets

SPARE = 1.25
"""So many times the rows that a sample is to have are kept at most."""


@dataclass(frozen=True)
class Sampled:
    """Some rows: their keyed hashes, numbers and cells (columns, rows)."""

    hashes: Words
    numbers: Floats
    cells: Words

    def take(self, rows: Ints) -> "Sampled":
        """Return some of the rows."""
        return Sampled(self.hashes[rows], self.numbers[:, rows], self.cells[:, rows])

    def up_to(self, limit: np.uint64) -> "Sampled":
        """Return the rows whose hash is not above a limit."""
        low = self.hashes <= limit
        return self if low.all() else self.take(np.flatnonzero(low))


@dataclass(frozen=True)
class Sample:
    """The `most` rows whose keyed hash is smallest, and some more: none above `limit` is one.

    The rows too many are dropped only when they become many, from each part by itself.
    """

    parts: tuple[Sampled, ...]
    most: int
    limit: np.uint64 = LARGEST_WORD

    @classmethod
    def of(
        cls,
        hashes: Words,
        numbers: Sequence[Floats],
        cells: Sequence[Words],
        *,
        most: int,
        below: np.uint64 = LARGEST_WORD,
    ) -> "Sample":
        """Sample some rows of columns by the rows' keyed hashes, none of them above `below`."""
        limit = hash_limit(hashes, most, below)
        rows = np.flatnonzero(hashes <= limit)
        kept = Sampled(
            hashes[rows],
            np.array([column[rows] for column in numbers]).reshape(len(numbers), len(rows)),
            np.array([c[rows] for c in cells], dtype=np.uint64).reshape(len(cells), len(rows)),
        )
        return cls((kept,), most, limit)

    @classmethod
    def nothing(cls, numbers: int, cells: int, most: int, rows: int | None = None) -> "Sample":
        """Sample none of a table, which may be known to have so many rows in all."""
        none, limit = np.empty(0, dtype=np.uint64), expected_limit(rows, most)
        return cls.of(none, [np.empty(0)] * numbers, [none] * cells, most=most, below=limit)

    def __add__(self, other: "Sample") -> "Sample":
        limit = min(self.limit, other.limit)
        parts = [
            part if each.limit == limit else part.up_to(limit)
            for each in (self, other)
            for part in each.parts
        ]
        if sum(len(part.hashes) for part in parts) > SPARE * self.most:
            limit = np.partition(np.concatenate([p.hashes for p in parts]), self.most)[self.most]
            parts = [part.up_to(limit) for part in parts]
        return Sample(tuple(parts), self.most, limit)

    def trimmed(self) -> "Sample":
        """Return the same sample without the rows too many, to be sent."""
        rows = self.ordered
        full = len(rows.hashes) == self.most
        return Sample((rows,), self.most, rows.hashes[-1] if full else self.limit)

    def without_rows(self) -> "Sample":
        """Return none of the rows, of which as few would be kept."""
        return Sample((), self.most, self.limit)

    @property
    def ordered(self) -> Sampled:
        """The sampled rows in the order of their hashes, whatever parts they came in."""
        hashes = np.concatenate([part.hashes for part in self.parts])
        rows = np.argsort(hashes)[: self.most]
        if len(self.parts) == 1 and np.array_equal(rows, np.arange(len(hashes))):
            return self.parts[0]
        return Sampled(
            hashes[rows],
            _gathered([part.numbers for part in self.parts], rows),
            _gathered([part.cells for part in self.parts], rows),
        )


def hash_limit(hashes: Words, most: int, below: np.uint64) -> np.uint64:
    """Return `below`, or a lower hash that at least `most` hashes are not above, and few more.

    Of n evenly spread ones, `most` and eight deviations are expected below the first guess.
    """
    limit = expected_limit(len(hashes), most)
    if len(hashes) <= most or below <= limit:
        return below
    enough = np.count_nonzero(hashes <= limit) >= most
    return limit if enough else min(np.uint64(np.partition(hashes, most - 1)[most - 1]), below)


def expected_limit(rows: int | None, most: int) -> np.uint64:
    """Return a hash that at least `most` of so many rows are not above: but for once in 10^15."""
    # the count below a limit is binomial with deviation sqrt(most) at most; 64 for small samples
    share = (most + 8 * math.sqrt(most) + 64) / max(rows or 0, 1)
    return LARGEST_WORD if share >= 1 else np.uint64(int(share * 2.0**64))


def _gathered(parts: "Sequence[np.ndarray[Any, Any]]", rows: Ints) -> Any:
    """Return some rows of parts (columns, rows), one column at a time: samples are large."""
    out = np.empty((len(parts[0]), len(rows)), dtype=parts[0].dtype)
    for place, column in enumerate(zip(*parts, strict=True)):
        out[place] = np.concatenate(column)[rows]
    return out


def row_hashes(ids: Ids, secret: bytes) -> Words:
    """Return a keyed hash of each row, to choose a sample by."""
    return BlockFunction(secret)(ids, room_for(len(ids)))[::2].copy()


def rank_draws(secrets: RowSecrets, ids: Ids) -> RankDraws:
    """Return what chooses among the ranks that a value spans, for some rows."""

    def draws(column: str) -> Floats:
        return _uniforms(ids, expand(secrets.ranks, "column", column.encode()))

    return draws


def knot_weights(secrets: RowSecrets, hashes: Words, column: str) -> Floats:
    """Return the weights of sampled rows, by their keyed hashes, in the knots of a column."""
    # exponential weights are those of the Bayesian bootstrap: a knot varies by its standard error
    ids = np.column_stack([hashes, np.zeros_like(hashes)])
    return exponentials(_uniforms(ids, expand(secrets.ranks, "knots", column.encode())))


def _uniforms(ids: Ids, secret: bytes) -> Floats:
    """Return a keyed number from (0, 1] for each row."""
    words = row_hashes(ids, secret)
    # 53 bits are exact as a double; one more keeps 0 out, whose logarithm is taken
    return np.asarray(((words >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
