"""Values that few rows hold: they are pooled, or they identify people."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from cornerwave.arrays import Floats, Ints, Words
from cornerwave.columns._encoded import Encoded, Tally, hash_texts
from cornerwave.columns._schema import Schema, listed
from cornerwave.errors import ColumnError, warn

MOST_CATEGORIES = 1 << 16
IDENTIFYING = 0.5
"""A category identifies people if this share of its values is held by one row alone,"""
FEW_ROWS = 20
"""in a table of at least this many rows."""
OTHER = "(other)"


def rare_values(
    counted: Mapping[tuple[Any, ...], int], min_count: int, other: tuple[Any, ...]
) -> set[tuple[Any, ...]]:
    """Return the values to pool: the rare ones, and further ones until the pool is not rare.

    Rows that hold what the pool is called are in it anyway.
    """
    rarest = sorted(counted.keys() - {other}, key=lambda c: (counted[c], in_order(c)))
    held = counted.get(other, 0)
    rare: set[tuple[Any, ...]] = set()
    for value in rarest:
        pool_is_fine = held >= min_count or (held == 0 and not rare)
        if counted[value] >= min_count and pool_is_fine:
            break
        rare.add(value)
        held += counted[value]
    return rare


def in_order(values: tuple[Any, ...]) -> tuple[tuple[bool, str], ...]:
    """Return what combinations of values are sorted by; a missing one is not the text 'None'."""
    return tuple((value is None, str(value)) for value in values)


def pooled(found: Tally, min_count: int) -> Tally:
    """Return a tally in which all values to pool are one."""
    present = {c: n for c, n in found.items() if None not in c or len(c) > 1}
    rare = rare_values(present, min_count, (OTHER,))
    left: Tally = Counter({c: n for c, n in found.items() if c not in rare})
    if rare:
        left[(OTHER,)] += sum(found[c] for c in rare)
    return left


def check_number(names: tuple[str, ...], found: Tally, rows: int) -> None:
    """Raise ColumnError if a group has more values than a category can have."""
    if len(found) > MOST_CATEGORIES:
        what = "it looks like an identifier" if len(names) == 1 else "too many combinations"
        raise ColumnError(
            f"{listed(names)}: more than {MOST_CATEGORIES:,} different values in {rows:,} rows: "
            f"{what}. {_instead(names)}",
            use=_choices(names),
        )


def check_identifying(names: tuple[str, ...], found: Tally, schema: Schema) -> None:
    """Refuse a category that identifies people; warn of combinations that do.

    Judges what is left after pooling. Raises ColumnError unless the owner declared the
    columns to be categories.
    """
    left = pooled(found, schema.min_count)
    present = sum(count for value, count in left.items() if None not in value)
    alone = sum(count == 1 for value, count in left.items() if None not in value)
    if not identifies(alone, present):
        if len(names) > 1 and alone:
            warn(
                f"{listed(names)} together: {_combinations(alone)}; a minimum count pools "
                f"{'it' if alone == 1 else 'them'}",
                stacklevel=3,
            )
        return
    if not all(schema.column(name).declared for name in names):
        raise ColumnError(
            f"{listed(names)}: {alone:,} of {present:,} values are held by one row alone, so "
            f"{'it identifies' if len(names) == 1 else 'together they identify'} people. "
            f"{_instead(names)}, pool rare values, or declare "
            f"{'it a category' if len(names) == 1 else 'them categories'} all the same",
            use=(*_choices(names), "min_count", "categorical"),
        )


def _combinations(alone: int) -> str:
    """Say how many combinations identify a row.

    >>> _combinations(1)
    '1 combination is held by one row alone and identifies it wherever it appears'
    >>> _combinations(2)
    '2 combinations are held by one row alone and identify it wherever they appear'
    """
    if alone == 1:
        return "1 combination is held by one row alone and identifies it wherever it appears"
    return f"{alone:,} combinations are held by one row alone and identify it wherever they appear"


def identifies(alone: int, present: int) -> bool:
    """Whether values held by one row alone are so many that a category identifies people."""
    return present >= FEW_ROWS and alone >= IDENTIFYING * present


def _instead(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        return "Do not refresh them together"
    return "Drop it, make it the key"


def _choices(names: tuple[str, ...]) -> tuple[str, ...]:
    return ("together",) if len(names) > 1 else ("drop", "key")


# --------------------------------------------------------------------------------------------------
# How many different values a column has, and how many rows hold each, in little memory.
#
# Values are known by a hash. Up to `MOST_VALUES` of them are all followed, and every
# count is exact. Beyond that every second, fourth, eighth... value is followed, chosen
# by its hash, through all of its rows: a sample of values, not of rows, so that one
# which occurs twice is never taken for one that occurs once.


MOST_VALUES = MOST_CATEGORIES
_ANY_KEY = bytes(16)


class Distinct:
    """The values seen so far; one in `share` of them is followed."""

    def __init__(self) -> None:
        self.share = 1
        self._hashes = np.empty(0, dtype=np.uint64)
        self._counts = np.empty(0, dtype=np.int64)

    @property
    def exact(self) -> bool:
        """Whether all values are followed."""
        return self.share == 1

    @property
    def followed(self) -> int:
        """How many values are followed."""
        return len(self._hashes)

    @property
    def number(self) -> int:
        """How many different values there are; an estimate if not all are followed."""
        return self.followed * self.share

    def held_by_fewer_than(self, rows: int) -> int:
        """How many values so few rows hold; an estimate if not all are followed."""
        return int((self._counts < rows).sum()) * self.share

    def add_numbers(self, values: Floats) -> None:
        """Take some more cells of a column of numbers, none missing."""
        hashes = _mixed(values.view(np.uint64))
        self._add(hashes, np.ones(len(hashes), dtype=np.int64))

    def add_encoded(self, column: Encoded) -> None:
        """Take some more cells of any other column. Raises ColumnError for what has no text."""
        counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
        self._add(hash_texts(column.values, _ANY_KEY)[:, 0], counts)

    def _add(self, hashes: Words, counts: Ints) -> None:
        mine = (hashes % np.uint64(self.share) == 0) & (counts > 0)
        both = np.concatenate([self._hashes, hashes[mine]])
        weights = np.concatenate([self._counts, counts[mine]])
        self._hashes, places = np.unique(both, return_inverse=True)
        self._counts = _sums(places, weights, len(self._hashes))
        while self.followed > MOST_VALUES:
            self.share *= 2
            stay = self._hashes % np.uint64(self.share) == 0
            self._hashes, self._counts = self._hashes[stay], self._counts[stay]


def _sums(places: Any, weights: Ints, length: int) -> Ints:
    return np.bincount(places, weights=weights, minlength=length).astype(np.int64)


def _mixed(bits: Words) -> Words:
    """Spread the bits of numbers over 64 (the finalizer of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
