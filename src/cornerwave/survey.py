"""What one pass learns about a table. Everything adds up, in any order and any parts:

    survey of all rows = survey of some rows + survey of the others        (to the bit)

    moments      exact sums: mean and K of the numbers, on their scales
    tallies      how many rows hold each value of a category
    fingerprint  keyed sums that recognise the table again
    marks        keyed samples that recognise its values in another table
    sample       the rows whose keyed hash is smallest

So a table can be surveyed by threads, or by the machines of a cluster, and what is frozen
afterwards does not depend on how.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ids, Ints, Words
from cornerwave.keyed import BlockFunction, room_for
from cornerwave.marks import Cells, Learned, TableMarks, kept_of
from cornerwave.moments import Moments
from cornerwave.rows import Group, RowSecrets
from cornerwave.table import (
    Fingerprint,
    Knots,
    Scale,
    Schema,
    Tally,
    check_number,
    one_chunk,
    quantiles,
    rank_scale,
    tally,
    to_floats,
)

SAMPLE_ROWS = 1 << 20
"""Rows whose values stand for a column's distribution."""


@dataclass(frozen=True)
class Sample:
    """The values (columns, rows) of the rows whose keyed hash is smallest, ordered by it."""

    hashes: Words
    values: Floats

    @classmethod
    def of(cls, ids: Ids, values: Floats, secret: bytes) -> "Sample":
        """Sample some rows by the keyed hash of their ids."""
        hashes = BlockFunction(secret)(ids, room_for(len(ids)))[::2].copy()
        return cls(hashes, values)._smallest()

    def __add__(self, other: "Sample") -> "Sample":
        return Sample(
            np.concatenate([self.hashes, other.hashes]),
            np.concatenate([self.values, other.values], axis=1),
        )._smallest()

    def _smallest(self) -> "Sample":
        order = np.argsort(self.hashes, kind="stable")[:SAMPLE_ROWS]
        return Sample(self.hashes[order], self.values[:, order])


@dataclass(frozen=True)
class Survey:
    """What is known of some rows of a table; `a + b` is what is known of both parts.

    `complete` are the moments of rows that miss no number, if a column hides its missing
    values; `sample` holds the columns that need their distribution known.
    """

    moments: Moments
    complete: Moments | None
    fingerprint: Fingerprint
    marks: Learned
    tallies: Mapping[tuple[str, ...], Tally]
    sample: Sample

    def __add__(self, other: "Survey") -> "Survey":
        both = self.complete is not None and other.complete is not None
        return Survey(
            moments=self.moments + other.moments,
            complete=self.complete + other.complete if both else None,  # type: ignore[operator]
            fingerprint=self.fingerprint + other.fingerprint,
            marks=self.marks + other.marks,
            tallies={names: found + other.tallies[names] for names, found in self.tallies.items()},
            sample=self.sample + other.sample,
        )


@dataclass(frozen=True)
class Surveyor:
    """Surveys rows of a table with decided columns, on known scales."""

    schema: Schema
    scales: tuple[Scale, ...]
    secrets: RowSecrets

    @property
    def sampled(self) -> list[str]:
        """The columns whose distribution must be known: those that hide missing values."""
        schema = self.schema
        return [name for name in schema.perturbed if schema.column(name).hide_missing]

    def of(self, ids: Ids, table: pa.Table, places: Ints) -> Survey:
        """Survey some rows, given their ids and their places in the table.

        Raises SourceError for values that cannot be used.
        """
        schema, group = self.schema, Group.of(ids, table, self.schema)
        numbers = on_scales(self.scales, schema.perturbed, group.numbers)
        sampled = [schema.perturbed.index(name) for name in self.sampled]
        return Survey(
            moments=Moments.of_columns(numbers, schema.perturbed),
            complete=_complete(numbers, schema) if sampled else None,
            fingerprint=group.fingerprint(self.secrets),
            marks=self._learned(group, places),
            tallies={names: tally(group.columns_of(names)) for names in schema.categories},
            sample=Sample.of(ids, numbers[sampled], self.secrets.sample),
        )

    def check(self, survey: Survey) -> None:
        """Raise ColumnError as soon as a category is seen to have too many values."""
        for names, found in survey.tallies.items():
            check_number(names, found, survey.moments.rows)

    def marks(self, survey: Survey) -> TableMarks:
        """Return the marks by which a vault recognises these values again."""
        return kept_of(survey.marks, self.marked, shown=self.shown)

    @property
    def marked(self) -> list[str]:
        """The columns that have marks: all that are used, but a key that is not shown."""
        schema = self.schema
        groups = [name for names in schema.categories for name in names]
        return [*schema.perturbed, *groups, *self.shown]

    @property
    def shown(self) -> list[str]:
        """The columns that copies show as they are."""
        key = [name for name in (self.schema.key,) if name and self.schema.column(name).shown]
        return [*self.schema.kept, *key]

    def _learned(self, group: Group, places: Ints) -> Learned:
        numbers, texts = self.secrets.mark_numbers, self.secrets.mark_texts
        cells = {
            name: Cells.of_numbers(row, numbers, unit=self.schema.column(name).unit)
            for name, row in zip(self.schema.perturbed, group.numbers, strict=True)
        }
        for name, column in group.encoded.items():
            cells[name] = Cells.of_encoded(column, numbers=numbers, texts=texts)
        keys, key = None, self.schema.key
        if key is not None:
            keys = Cells.of_array(one_chunk(group.table.column(key)), numbers=numbers, texts=texts)
            cells[key] = keys
        marked = {name: cells[name] for name in self.marked}
        hidden = [name for name in self.marked if name not in self.shown]
        return Learned.of(places, marked, hidden, keys)


def _complete(numbers: Floats, schema: Schema) -> Moments:
    whole = ~np.isnan(numbers).any(axis=0)
    return Moments.of_columns(numbers[:, whole], schema.perturbed)


@dataclass(frozen=True)
class Sampler:
    """Samples the columns whose scale depends on their distribution, before the survey."""

    schema: Schema
    secrets: RowSecrets

    @property
    def columns(self) -> list[str]:
        """The columns that are perturbed on the scale of their ranks."""
        schema = self.schema
        return [name for name in schema.perturbed if schema.column(name).transform == "rank"]

    def of(self, ids: Ids, table: pa.Table) -> Sample:
        """Sample some rows."""
        arrays = [to_floats(one_chunk(table.column(name)), name) for name in self.columns]
        return Sample.of(ids, np.array(arrays), self.secrets.sample)

    def scales(self, sample: Sample | None) -> tuple[Scale, ...]:
        """Return the scale of each perturbed column. Raises ColumnError if ranks cannot serve."""
        ranked = {} if sample is None else dict(zip(self.columns, sample.values, strict=True))
        return tuple(
            rank_scale(ranked[name], name)
            if name in ranked
            else Scale(self.schema.column(name).transform)
            for name in self.schema.perturbed
        )


def laws_of(surveyor: Surveyor, survey: Survey) -> dict[str, Knots]:
    """Return the quantiles of the columns that hide missing values, where they vary."""
    found = zip(surveyor.sampled, survey.sample.values, strict=True)
    laws = {name: quantiles(values) for name, values in found}
    return {name: law for name, law in laws.items() if law and law[0][0] < law[-1][0]}


def no_rows(surveyor: Surveyor) -> Survey:
    """Return the survey of a table without rows: what others are added to."""
    schema = surveyor.schema
    numbers, cells = len(schema.perturbed), sum(map(len, schema.categories))
    nothing = Moments.of_columns(np.empty((numbers, 0)))
    columns = numbers + len(schema.kept) + cells
    return Survey(
        moments=nothing,
        complete=nothing if surveyor.sampled else None,
        fingerprint=Fingerprint(0, np.zeros((columns, 2), dtype=np.uint64)),
        marks=Learned.nothing(len(surveyor.marked), keyed=schema.key is not None),
        tallies={names: Counter() for names in schema.categories},
        sample=Sample(np.empty(0, dtype=np.uint64), np.empty((len(surveyor.sampled), 0))),
    )


def on_scales(scales: Sequence[Scale], names: Sequence[str], numbers: Floats) -> Floats:
    """Return columns (N, rows) on their scales; the same array if these are their own."""
    if all(scale.name is None for scale in scales):
        return numbers
    columns = zip(scales, numbers, names, strict=True)
    return np.stack([scale.forward(row, name) for scale, row, name in columns])
