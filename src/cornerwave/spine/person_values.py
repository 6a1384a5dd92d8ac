"""Which columns are constant in each person: of all persons, not of sampled ones.

A column that is constant in each person has the same noise in all of their rows, so one change
that a sample does not see would be bare. Values of persons are kept as keyed hashes, by a word for
the person. They add up: whatever parts a table comes in, a column that changes in any person is
found.

    a column is constant     iff     max over rows of a person = min over them, in all persons
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cornerwave.arrays import LARGEST_WORD, Flags, Floats, Ids, Ints, Words, places_among
from cornerwave.keyed import BlockFunction, expand, room_for

MOST_VALUES = 1 << 22
"""Values of persons that are kept by the way, while the table is read for something else."""


@dataclass(frozen=True)
class PersonValues:
    """Which values persons have in columns that are constant in each, by a word for the person.

    `values` (columns, persons) are keyed hashes: a ledger keeps them, and holds no cell. 0 is
    missing, and may stand beside a value. `varying` are columns that are not constant: no noise but
    that of rows hides how they change.
    """

    columns: tuple[str, ...]
    units: Words
    values: Words
    varying: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, columns: Sequence[str], units: Ids, values: Floats, secret: bytes
    ) -> "PersonValues":
        """Return those of some rows, given the ids of their units; NaN is missing."""
        # of rows with the values of the row before, one is enough
        words, bits = units[:, 0] ^ units[:, 1], (values + 0.0).view(np.uint64)
        new = np.ones(len(words), dtype=np.bool_)
        new[1:] = (words[1:] != words[:-1]) | (bits[:, 1:] != bits[:, :-1]).any(axis=0)
        values, words = values[:, new], words[new]
        hashed = np.empty(values.shape, dtype=np.uint64)
        for place, name in enumerate(columns):
            hashed[place] = _hashed(values[place], expand(secret, "constant", name.encode()))
        return _merged(tuple(columns), words, hashed, frozenset())

    def __add__(self, other: "PersonValues") -> "PersonValues":
        return _merged(
            self.columns,
            np.concatenate([self.units, other.units]),
            np.concatenate([self.values, other.values], axis=1),
            self.varying | other.varying,
        )

    def trimmed(self) -> "PersonValues":
        """Return the same: all persons are needed."""
        return self

    def only(self, columns: Sequence[str]) -> "PersonValues":
        """Return the values of some of the columns."""
        places = [self.columns.index(name) for name in columns]
        return PersonValues(tuple(columns), self.units, self.values[places])

    def filled_by(self, other: "PersonValues") -> int:
        """Return how many persons have a value there, and none here, though they are here."""
        here = places_among(self.units, other.units)
        new = (other.values != 0).any(axis=0) & (here >= 0)
        return int(np.count_nonzero(new & (self.values[:, here] == 0).any(axis=0)))

    def to_bytes(self) -> bytes:
        """Return what a ledger keeps."""
        out, names = io.BytesIO(), np.array(self.columns, dtype=np.str_)
        np.savez(out, columns=names, units=self.units, values=self.values)
        return out.getvalue()

    @classmethod
    def read(cls, content: bytes) -> "PersonValues":
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as kept:
            return cls(tuple(kept["columns"].tolist()), kept["units"], kept["values"])


@dataclass(frozen=True)
class SeenConstant:
    """Columns that are constant in each person, in all rows that were seen so far.

    Beside the other columns of a survey they cost little, as most columns vary at once; where they
    take too much room none are known, and the table has to be looked at once more.
    """

    values: PersonValues

    @classmethod
    def nothing(cls, columns: Sequence[str]) -> "SeenConstant":
        """Return columns of which no row was seen."""
        none = np.empty((0, 2), dtype=np.uint64)
        return cls(PersonValues.of(columns, none, np.empty((len(columns), 0)), b""))

    def of(
        self, names: Sequence[str], units: Ids, numbers: Floats, secret: bytes
    ) -> "SeenConstant":
        """Return those of some rows, of the columns that are constant in the rows seen before."""
        words = units[:, 0] ^ units[:, 1]
        places = [names.index(name) for name in self.values.columns]
        # most columns vary already among rows that follow each other
        same = words[1:] == words[:-1]
        places = [k for k in places if not _varies(numbers[k], same)]
        new = np.ones(len(words), dtype=np.bool_)
        np.logical_not(same, out=new[1:])
        for values in numbers[places].view(np.uint64):
            new[1:] |= values[1:] != values[:-1]
        rows = np.flatnonzero(new) if places else np.empty(0, dtype=np.int64)
        rows = rows.take(np.argsort(words.take(rows)))
        same = words.take(rows[1:]) == words.take(rows[:-1])
        places = [k for k in places if not _varies(numbers[k].take(rows), same)]
        # without columns nobody is known
        rows = rows if places else rows[:0]
        columns, values = [names[k] for k in places], numbers[places].take(rows, axis=1)
        values = PersonValues.of(columns, units.take(rows, axis=0), values, secret)
        return SeenConstant(values)._less_what_varies()

    def __add__(self, other: "SeenConstant") -> "SeenConstant":
        names = [name for name in self.values.columns if name in other.values.columns]
        both = self.values.only(names) + other.values.only(names)
        return SeenConstant(both)._less_what_varies()

    def _less_what_varies(self) -> "SeenConstant":
        names = [name for name in self.values.columns if name not in self.values.varying]
        if not names or len(names) * len(self.values.units) > MOST_VALUES:
            return SeenConstant.nothing(())
        return SeenConstant(self.values.only(names))

    def only(self, columns: Sequence[str]) -> PersonValues | None:
        """Return the values of some columns; None if they are not known, or one is not constant."""
        known = set(columns) <= set(self.values.columns)
        return self.values.only(columns) if known else None


def _varies(values: Floats, same: Flags) -> bool:
    """Whether rows that follow each other have two values, in what is the same person."""
    differ = (values[1:] != values[:-1]) & same
    differ &= ~np.isnan(values[1:]) & ~np.isnan(values[:-1])
    return bool(differ.any())


def constant_columns(starts: Ints, numbers: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns (columns, rows) that are constant from each start to the next."""
    x = numbers[: len(names)]
    if not x.shape[1]:
        return ()
    low, high = (f.reduceat(x, starts, axis=1) for f in (np.fmin, np.fmax))
    varies = np.flatnonzero((high > low).any(axis=1)).tolist()
    return tuple(name for place, name in enumerate(names) if place not in varies)


def _merged(
    columns: tuple[str, ...], units: Words, values: Words, varying: frozenset[str]
) -> PersonValues:
    order = np.argsort(units, kind="stable")
    units, values = units[order], values[:, order]
    first = np.flatnonzero(np.append(True, units[1:] != units[:-1])[: len(units)])
    if len(first) < len(units):
        # 0 is missing: it is below every value, and is left out of the least one
        high = np.maximum.reduceat(values, first, axis=1)
        low = np.minimum.reduceat(np.where(values == 0, LARGEST_WORD, values), first, axis=1)
        differ = np.flatnonzero(((high > 0) & (low < high)).any(axis=1))
        varying |= {columns[i] for i in differ.tolist()}
        units, values = units[first], high
    return PersonValues(columns, units, values, varying)


def _hashed(values: Floats, secret: bytes) -> Words:
    """Return a keyed hash of each number, which is never 0; 0 for NaN."""
    blocks = np.zeros((len(values), 2), dtype=np.uint64)
    blocks[:, 0] = (values + 0.0).view(np.uint64)  # -0 is 0
    words = BlockFunction(secret)(blocks, room_for(len(blocks)))[::2]
    return np.where(np.isnan(values), np.uint64(0), np.maximum(words, np.uint64(1)))
