"""What a ledger keeps of a table's rows, to see whether rows that come belong to the same units.

Of a sample of rows, 32 bits of a hash of each cell and, of a number, also in which of 256 parts
of its column it lies: nothing is kept that tells a value more closely. Samples add up.
"""

import io
from dataclasses import dataclass, replace

import numpy as np

from cornerwave.arrays import Floats, Words
from cornerwave.table import CATEGORY, MISSING_BITS, PERTURBED, Column
from cornerwave.units._find import Looked, Unit, find_meetings
from cornerwave.units._look import UnitColumns, called, is_fraction, is_time

MOST_ROWS, MOST_CELLS = 1 << 12, 1 << 18
"""Rows that are kept: fewer of a wide table."""
PARTS = 256
_U = np.uint64


@dataclass(frozen=True)
class UnitRows:
    """Some of the `rows` of a table: their hashes, and their words (columns, rows).

    `ends` are those of the parts of each column of numbers. A word has the part in its upper
    half, 0 if there is none, and the hash in its lower; 0 is missing.
    """

    rows: int
    hashes: Words
    words: Words
    ends: Floats

    @classmethod
    def of(
        cls,
        hashes: Words,
        numbers: Floats,
        cells: Words,
        *,
        rows: int,
        like: "UnitRows | None" = None,
    ) -> "UnitRows":
        """Return the sampled rows of a table of `rows`, in parts `like` those of others."""
        ends = like.ends if like else np.array([_ends(row) for row in numbers])
        ends = ends.reshape(len(numbers), PARTS - 1)
        words = [_of_numbers(row, own) for row, own in zip(numbers, ends, strict=True)]
        words += [_of_cells(row) for row in cells]
        shape = len(words), len(hashes)
        return cls(rows, hashes, np.array(words, dtype=np.uint64).reshape(shape), ends)

    def __add__(self, other: "UnitRows") -> "UnitRows":
        """Return the sampled rows of both tables."""
        hashes = np.concatenate([self.hashes, other.hashes])
        words = np.concatenate([self.words, other.words], axis=1)
        return replace(self, rows=self.rows + other.rows, hashes=hashes, words=words)

    @property
    def fewest(self) -> "UnitRows":
        """As many of the rows as are kept: those of the smallest hashes."""
        most = min(MOST_ROWS, MOST_CELLS // max(1, len(self.words)))
        order = np.argsort(self.hashes, kind="stable")[:most]
        return replace(self, hashes=self.hashes[order], words=self.words[:, order])

    def meetings(self, new: "UnitRows", columns: UnitColumns) -> list[Unit]:
        """Return which columns name units that these rows share with others that come."""
        is_new = np.repeat([False, True], [len(self.hashes), len(new.hashes)])
        words = np.concatenate([self.words, new.words], axis=1)
        return find_meetings(_looked(words, columns), is_new, rows=self.rows)

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps."""
        out = io.BytesIO()
        rows = np.array(self.rows)
        np.savez(out, rows=rows, hashes=self.hashes, words=self.words, ends=self.ends)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "UnitRows":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            return cls(int(kept["rows"]), kept["hashes"], kept["words"], kept["ends"])


def _looked(words: Words, columns: UnitColumns) -> list[Looked]:
    """Return the columns of some rows."""
    numbers = {c.name: own for c, own in zip(columns.numbers, words, strict=False)}
    found = [
        _sorted(column, numbers[column.name], noisy=True)
        for column in columns.numbers
        if column.role == PERTURBED
    ]
    rest = words[len(columns.numbers) :]
    for column, own in zip(columns.cells, rest, strict=False):
        noisy = column.role == CATEGORY
        if column.name in numbers:
            part = numbers[column.name] >> _U(32) << _U(32)
            own = np.where(own == 0, own, part | own)
            found.append(replace(_sorted(column, own, noisy=noisy), is_category=True))
        else:
            found.append(Looked.of_cells(column.name, own, own == 0, noisy=noisy))
    for part, own in zip(columns.parts, rest[len(columns.cells) :], strict=True):
        found.append(Looked.of_cells(called(*part), own, own == 0, noisy=False))
    return found


def _sorted(column: Column, words: Words, *, noisy: bool) -> Looked:
    """Return a column of numbers, in the order of their parts."""
    each = Looked.of_cells(column.name, words, words == 0, noisy=noisy, is_time=is_time(column))
    return replace(each, ordered=True, is_category=False, names=not is_fraction(column))


def _ends(numbers: Floats) -> Floats:
    """Return the values that part a column into parts of as many rows each."""
    here = numbers[~np.isnan(numbers)]
    if not len(here):
        return np.zeros(PARTS - 1)
    return np.quantile(here, np.arange(1, PARTS) / PARTS, method="lower")


def _of_numbers(numbers: Floats, ends: Floats) -> Words:
    parts = np.searchsorted(ends, numbers, side="left").astype(np.uint64) + _U(1)
    words = (parts << _U(32)) | _short((numbers + 0.0).view(np.uint64))  # -0 is 0
    return np.where(np.isnan(numbers), _U(0), words)


def _of_cells(cells: Words) -> Words:
    return np.where(cells == MISSING_BITS, _U(0), _short(cells))


def _short(words: Words) -> Words:
    """Return 32 bits of each word, mixed from all of its bits; never 0."""
    words = (words ^ (words >> _U(33))) * _U(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> _U(33))) * _U(0xC4CEB9FE1A85EC53)
    return np.asarray(np.maximum(words >> _U(32), _U(1)))
