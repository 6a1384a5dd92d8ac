"""A copy of linked tables as its recipient sees it: open all, ask one, or join two.

    copies = LinkedCopy.open("partner.zip")
    copies["visits"].mean()
    copies.joined("visits", "patients").regression("cost", on=["risk"])

Joined are the rows of one table, with the columns of the other beside them. Let i be the rows of a
table, and p(i) the row that the person of i has in the other. The noise of a person is one vector
over all tables, so columns of the two have noise in common:

    Cov(Y_i, Y_p(i)) = K + v N         N is stated in the metadata of the table
    Cov(Y_p(i))      = K + v S         S = K_p + excess, the shape of the noise of the other table

K is that of the joined rows, in which a person counts as often as they have rows, and K_p that of
the other table alone, from its copy. So K is not C / (1 + v) but C - v N and C - v S. Categories of
a person are those of one donor in both tables, with as many rows. Standard errors come from leaving
out groups of persons, in both tables at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Flags
from cornerwave.columns import places_of
from cornerwave.errors import ColumnError, SourceError, nearest
from cornerwave.miner._copy import Copy
from cornerwave.miner._covariance import gather, undo
from cornerwave.miner._distribution import Distribution
from cornerwave.miner._estimates import Estimate, Estimates, Of, number_blocks
from cornerwave.miner._jackknife import GROUPS, held, labelled_alike, without_rows
from cornerwave.miner._metadata import RANK, CopyColumn
from cornerwave.outputs import LinkedFile, linked_files
from cornerwave.sources import DatabaseAddress, Source
from cornerwave.spec import CopyMetadata


@dataclass(frozen=True)
class Side:
    """One of two tables to join: its copy, and what its columns are called in the joined one."""

    table: str
    copy: Copy
    names: Mapping[str, str]

    @property
    def unit(self) -> str:
        """The column that names persons. Raises SourceError for a copy without it."""
        if self.copy.unit is None:
            raise SourceError(
                f"the copy of {self.table!r} does not show whose row is which, so that it cannot "
                "be joined; ask its owner for one with pseudonyms"
            )
        return self.copy.unit

    @cached_property
    def units(self) -> pa.Array:
        """The pseudonym of each row."""
        batches = [batch.column(0) for batch in self.copy.source.batches([self.unit])]
        return pa.chunked_array(batches, pa.string()).combine_chunks()

    def without(self, rows: Flags) -> "Side":
        """Return the table without some rows."""
        return replace(self, copy=replace(self.copy, source=without_rows(self.copy.source, rows)))


NoiseBetween = Mapping[tuple[str, str], float]
"""N, by a column of the first table and one of the other, as they are called there."""


@dataclass(frozen=True)
class JoinedCopy(Copy):
    """The rows of a table's copy with the columns of another beside them, joined by person.

    Answers are of the population, by persons; a table itself is asked through its own copy.
    """

    child: Side = field(kw_only=True, repr=False)
    parent: Side = field(kw_only=True, repr=False)
    between: NoiseBetween = field(kw_only=True, repr=False)

    @cached_property
    def parts(self) -> "list[JoinedCopy]":
        """The same without each of some groups of persons."""
        child, parent = (
            replace(side, copy=replace(side.copy, source=held(side.copy.source)))
            for side in (self.child, self.parent)
        )
        persons = pc.unique(pa.chunked_array([self.parent.units, self.child.units]))
        count = min(GROUPS, len(persons))
        if count < 2:
            raise ColumnError("all rows belong together, so nothing can be estimated")
        dealt = np.random.default_rng(len(persons)).permutation(len(persons)) % count
        of_child, of_parent = (
            dealt[places_of(side.units, persons)] for side in (self.child, self.parent)
        )
        return [
            join(
                child.without(of_child == group),
                parent.without(of_parent == group),
                self.between,
            )
            for group in range(count)
        ]

    def _answer(
        self, ask: Callable[[Copy, Of], Estimates], of: Of, *, absent: float | None = None
    ) -> Estimates:
        """Return what is asked, with standard errors from groups of persons.

        Raises ColumnError for figures of the table.
        """
        if of != "population":
            raise ColumnError(
                "a joined copy answers for the population; for figures of a table itself ask the "
                "copy of that table"
            )
        asked = ask(self, of)
        values = np.stack([labelled_alike(asked, ask(part, of), absent) for part in self.parts])
        # the jackknife: (G - 1) / G times the sum of squares
        error = np.sqrt((len(values) - 1) * values.var(axis=0))
        return replace(asked, standard_error=np.where(np.isnan(asked.value), np.nan, error))

    def _original_mean(self, column: str, of: Of) -> Estimate:
        known = self.columns.get(column)
        if known is not None and known.transform is not None:
            raise self._of_one_table("original_mean")
        return super()._original_mean(column, of)

    def distribution(self, column: str, **_: object) -> Distribution:
        """Raise ColumnError: a distribution is that of one table."""
        raise self._of_one_table("distribution")

    def _of_one_table(self, what: str) -> ColumnError:
        return ColumnError(
            f"{what}() of a joined copy is not available: ask the copy of "
            f"{self.child.table!r} or of {self.parent.table!r}"
        )


def join(child: Side, parent: Side, between: NoiseBetween) -> JoinedCopy:
    """Return the rows of one table with the columns of the other.

    Raises SourceError if persons have several rows there, or one of the two does not name persons.
    """
    if len(pc.unique(parent.units)) < len(parent.units):
        raise SourceError(
            f"{parent.table!r} has several rows of some persons, so that its columns cannot stand "
            f"beside the rows of {child.table!r}; join the other way round, or compute means of "
            "persons"
        )
    columns = {**_of_child(child, parent, between), **_of_parent(child, parent, between)}
    return JoinedCopy(
        _source(child, parent),
        child.copy.level,
        _replaced_together(columns),
        child.copy.edition,
        child.copy.unit,
        child=child,
        parent=parent,
        between=between,
    )


def _source(child: Side, parent: Side) -> Source:
    """Return the rows of one table, each with the row of its person in the other, or gaps."""
    source, other = child.copy.source, parent.copy.source
    called = {new: old for old, new in parent.names.items()}
    fields = [other.schema.field(old).with_name(new) for new, old in called.items()]
    schema = pa.schema([*source.schema, *(each.with_nullable(True) for each in fields)])

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        mine = [name for name in columns if name not in called]
        theirs = [name for name in columns if name in called]
        taken = _table(other, [called[name] for name in theirs])
        place = pc.index_in(child.units, value_set=parent.units)
        start = 0
        for batch in source.open(mine or [child.unit]):
            here = place.slice(start, batch.num_rows)
            start += batch.num_rows
            arrays = {name: batch.column(name) for name in mine}
            for name in theirs:
                arrays[name] = taken[called[name]].take(here)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))

    return Source(schema, read, path=source.path)


def _table(source: Source, columns: Sequence[str]) -> dict[str, pa.Array]:
    """Return whole columns of a source."""
    batches = list(source.batches(columns)) if columns else []
    return {
        name: pa.chunked_array([batch.column(name) for batch in batches]).combine_chunks()
        for name in columns
    }


def _of_child(child: Side, parent: Side, between: NoiseBetween) -> dict[str, CopyColumn]:
    """Return the columns of the first table: within it, noise is shaped like its covariances."""
    columns = {}
    for name, column in child.copy.columns.items():
        known = {parent.names[b]: N for (a, b), N in between.items() if a == name}
        columns[name] = replace(column, noise_with=known)
    return columns


def _of_parent(child: Side, parent: Side, between: NoiseBetween) -> dict[str, CopyColumn]:
    """Return the columns of the other table, whose noise is known."""
    shape, columns = _shape(parent.copy), {}
    for name, column in parent.copy.columns.items():
        within = {parent.names[b]: S for b, S in shape.get(name, {}).items()}
        across = {a: N for (a, b), N in between.items() if b == name}
        columns[parent.names[name]] = replace(
            column,
            name=parent.names[name],
            noise_with={**within, **across},
        )
    return columns


def _replaced_together(columns: Mapping[str, CopyColumn]) -> dict[str, CopyColumn]:
    """Return columns whose categories are one draw: a person has one donor in all tables."""
    drawn = tuple(
        n for n, column in columns.items() if not column.is_number and column.retention < 1
    )
    together = drawn if len(drawn) > 1 else ()
    return {
        name: replace(column, together=together) if name in drawn else column
        for name, column in columns.items()
    }


def _shape(copy: Copy) -> dict[str, dict[str, float]]:
    """Return S = K + excess of the noisy numbers of a copy: the covariance of noise for v = 1."""
    noisy = [c for c in copy.columns.values() if c.noise and c.transform != RANK]
    if not noisy:
        return {}
    moments = gather(number_blocks(copy.source, noisy), [column.name for column in noisy])
    K = undo(moments.covariance, noisy)
    return {
        a.name: {b.name: float(K[i, j]) + a.excess.get(b.name, 0.0) for j, b in enumerate(noisy)}
        for i, a in enumerate(noisy)
    }


# --------------------------------------------------------------------------------------------------
# All tables of a copy.


@dataclass(frozen=True)
class LinkedTable:
    """The copy of one of several tables, and what it states about itself."""

    copy: Copy
    stated: CopyMetadata

    @classmethod
    def of(cls, file: LinkedFile) -> "LinkedTable":
        """Open a file, which is there as long as the copy."""
        copy = Copy.open(file.path)
        source = copy.source

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            assert file.path is not None  # holds what the file was unpacked to
            yield from source.open(columns)

        return cls(replace(copy, source=replace(source, open=read)), file.stated)


class LinkedCopy(Mapping[str, Copy]):
    """Copies of linked tables, by name: all of one release."""

    def __init__(self, tables: Mapping[str, LinkedTable]) -> None:
        self._tables = dict(tables)

    @classmethod
    def open(cls, place: str | Path | DatabaseAddress) -> "LinkedCopy":
        """Open a folder, a .zip or a .duckdb file with a copy of each table.

        In PostgreSQL it is a schema, postgresql://HOST/DATABASE#SCHEMA, read in one snapshot.

        Raises SourceError if it is not a copy of linked tables, or not all of one release.
        """
        files = linked_files(place)
        return cls({table: LinkedTable.of(file) for table, file in files.items()})

    def __getitem__(self, table: str) -> Copy:
        """Return the copy of one table."""
        return self._table(table).copy

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def joined(self, table: str, other: str) -> JoinedCopy:
        """Return the rows of a table with the columns of another that has a row for each person.

        Columns of the other that the table has too are called OTHER.COLUMN. Rows of persons who are
        not in the other have gaps there.
        """
        one, two = self._table(table), self._table(other)
        if table == other:
            raise SourceError("a join needs two tables")
        taken = one.copy.source.schema.names
        names = {name: f"{other}.{name}" if name in taken else name for name in two.copy.columns}
        child = Side(table, one.copy, {name: name for name in one.copy.columns})
        return join(child, Side(other, two.copy, names), _between(one, two, other))

    def _table(self, name: str) -> LinkedTable:
        if name not in self._tables:
            close = nearest(name, list(self._tables))
            raise SourceError(f"there is no table {name!r}{close}; tables: {', '.join(self)}")
        return self._tables[name]

    def __repr__(self) -> str:
        return f"LinkedCopy({', '.join(self)})"


def _between(one: LinkedTable, two: LinkedTable, other: str) -> NoiseBetween:
    """Return what the metadata of a table states of its noise with that of another.

    Raises SourceError if it does not state it.
    """
    noise = {}
    theirs = {f"{other}.{c.source or name}": name for name, c in two.stated.columns.items()}
    noisy = [name for name, column in two.copy.columns.items() if column.noise]
    for name, column in one.copy.columns.items():
        stated = one.stated.column(name).noise_with or {}
        known = {theirs[key]: N for key, N in stated.items() if key in theirs}
        if column.noise and (lacking := [each for each in noisy if each not in known]):
            raise SourceError(
                f"the metadata does not state how the noise of {name!r} depends on that of "
                f"{lacking[0]!r} of {other!r}: only a table with one row for each person can be "
                "joined to another"
            )
        noise.update({(name, each): N for each, N in known.items()})
    return noise
