"""What copies show of the persons of some rows, as someone sees it who knows which rows are theirs.

Of a copy: the rows, the person's means, and the value of a category that most of the rows show.

Anyone who holds copies of linked tables joins them by what names a person there. Of each person
they have the row, or the mean of the rows, that the copy of every other table shows: numbers as
they are, categories by how often each value occurs, and how many rows there are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats
from cornerwave.audit._fits import standard
from cornerwave.audit._membership import History
from cornerwave.choices import KEY, UNIT
from cornerwave.columns import is_category, is_number, one_chunk, places_of, to_floats
from cornerwave.sources import Source
from cornerwave.spec import CopyMetadata

MOST_LINKED = 48
"""Coordinates of a copy that estimate a column, its own and those closest to it in the copy."""

VALUE, MEAN, CHANGE = "value", "mean", "change"
GROUP, APART = "group", "apart"
GROUP_THEN, APART_THEN = "group at a time", "apart at a time"
"""What is estimated (see `_linked`)."""


@dataclass(frozen=True)
class LinkedView:
    """What an adversary sees: coordinates (k, n) by column, and the votes of categories."""

    history: History
    columns: Mapping[str, Floats]
    votes: Mapping[str, Floats]
    beside: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """What copies of other tables show of the persons (k, persons), NaN where nothing."""
    outer_votes: Mapping[str, Floats] = field(default_factory=dict)
    """The votes of households."""

    def near(self, name: str) -> list[str]:
        """Return a column, then the others, closest first, as many as have room."""
        target = standard(_filled(self.columns[name]))
        closeness = {
            other: float(np.abs(target @ standard(_filled(rows)).T).max(initial=0.0))
            for other, rows in self.columns.items()
            if other != name
        }
        names, room = [name], MOST_LINKED - len(self.columns[name])
        for other in sorted(closeness, key=lambda each: -closeness[each]):
            if (room := room - len(self.columns[other])) >= 0:
                names.append(other)
        return names

    def features(self, name: str, kind: str, *, ordered: bool) -> Floats:
        """Return what a column is estimated from, (d, n); for means of persons, (d, persons), and
        of households, (d, households).

        If rows are `ordered`, those around each count, and its place.
        """
        names, history = self.near(name), self.history
        rows = np.vstack([_filled(self.columns[each]) for each in names])
        target = _filled(self.columns[name])
        one_of_m = 1 / history.sizes
        means = history.means(rows)
        votes = [self.votes[each] for each in names if each in self.votes]
        # 1/m beside the means: those of few rows have more noise, and are shrunk more
        of_person = [means, means * one_of_m, one_of_m[None], *votes]
        if len(self.beside):
            of_person += [_filled(self.beside), np.isfinite(self.beside[-1:])]
        if history.outer is not None:
            votes = [self.outer_votes[each] for each in names if each in self.outer_votes]
            of_outer = np.vstack([history.of_households(rows), *votes])
            if kind == GROUP:
                return standard(of_outer)
            of_person.append(of_outer[:, history.household])
        if kind == APART:
            of_person.append(means[:, history.other_person])
        if kind in (MEAN, APART):
            return standard(np.vstack(of_person))
        few = history.spread(one_of_m[None])
        # the row, the person, and row j of the change
        parts = [rows, rows * few, history.spread(np.vstack(of_person)), rows[:, history.other]]
        if history.in_time:
            parts += [history.shifted(rows, -1)]
        if history.moment is not None:
            together = history.at_one_time(rows)
            parts += [together, rows[:, history.other_row]]
            parts += [history.shifted(together, by) for by in (-1, 1)]
            parts += [history.spread(means[:, history.other_person])]
        if ordered:
            place, last = history.place, np.repeat(history.sizes, history.sizes) - 1
            parts += [
                history.shifted(rows, 1),
                *(history.shifted(target, by) for by in (-2, -1, 2)),
            ]
            parts += [np.stack([place, place * few[0], place == 0, place == last])]
        return standard(np.vstack(parts))


def _filled(rows: Floats) -> Floats:
    """Return rows (k, n) about their means, 0 where they are missing."""
    held = np.isfinite(rows)
    count = np.maximum(held.sum(axis=1, keepdims=True), 1)
    centre = np.where(held, rows, 0.0).sum(axis=1, keepdims=True) / count
    return np.where(held, rows - centre, 0.0)


def vote(history: History, rows: Floats) -> Floats:
    """Return the coordinates (k, persons) of the value that most of a person's rows show."""
    means = np.nan_to_num(history.means(rows), nan=-np.inf)
    return np.asarray(means == means.max(axis=0), dtype=np.float64)


# --------------------------------------------------------------------------------------------------
# What other tables show.


MOST_VALUES = 8
"""Values of a category that count by themselves: the most frequent ones."""


@dataclass(frozen=True)
class PersonsBeside:
    """What names persons in copies, and what other tables show of them (k, persons)."""

    persons: pa.Array
    shown: Floats

    @classmethod
    def of(cls, tables: Sequence[tuple[Source, CopyMetadata]]) -> "PersonsBeside":
        """Read copies of tables; those that do not name persons add nothing."""
        parts = [part for each in tables if (part := _of_table(*each)) is not None]
        if not parts:
            return cls(pa.array([], pa.string()), np.empty((0, 0)))
        every = pc.unique(pa.chunked_array([names for names, _ in parts]))
        shown = []
        for names, means in parts:
            at = places_of(every, names)
            shown.append(np.where(at >= 0, means[:, at], np.nan))
        return cls(every, np.vstack(shown))

    def at(self, persons: pa.Array) -> Floats:
        """Return what is shown of some persons (k, n), NaN where nothing is."""
        if not len(self.persons):
            return np.empty((0, len(persons)))
        at = places_of(persons, self.persons)
        return np.where(at >= 0, self.shown[:, at], np.nan)


def _of_table(source: Source, stated: CopyMetadata) -> tuple[pa.Array, Floats] | None:
    """Return the persons of a copy, and the means (k, persons) of what it shows of them."""
    roles = {name: about.role for name, about in stated.columns.items()}
    names = source.schema.names
    unit = next((n for n in names if roles.get(n) == UNIT or n == stated.unit), None)
    if unit is None:
        return None
    columns = [name for name in names if name != unit and roles.get(name) != KEY]
    table = pa.Table.from_batches(source.batches([unit, *columns]))
    encoded = one_chunk(table[unit]).cast(pa.string()).dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    known = codes >= 0
    who, persons = codes[known], len(encoded.dictionary)
    count = np.maximum(np.bincount(who, minlength=persons), 1)
    rows = [row[known] for name in columns for row in _coordinates(one_chunk(table[name]), name)]
    means = [np.bincount(who, np.nan_to_num(row), minlength=persons) / count for row in rows]
    return encoded.dictionary, np.vstack([*means, np.log(count), 1 / count])


def _coordinates(column: pa.Array, name: str) -> list[Floats]:
    """Return a column as numbers: a number less its mean, or a category value by value."""
    if is_number(column.type):
        values = to_floats(column, name)
        return [values - np.nanmean(values)] if np.isfinite(values).any() else []
    if not is_category(column.type):
        return []
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    frequent = sorted(pc.value_counts(plain).to_pylist(), key=lambda each: -each["counts"])
    return [
        pc.equal(plain, pa.scalar(each["values"], plain.type))
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
        .astype(np.float64)
        for each in frequent[:MOST_VALUES]
        if each["values"] is not None
    ]
