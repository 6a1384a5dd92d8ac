"""A copy of linked tables as its recipient sees it: open all, ask one, or join two.

copies = LinkedCopy.open("partner.zip")
copies["visits"].mean()
copies.joined("visits", "patients").regression("cost", on=["risk"])
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from cornerwave.errors import SourceError, nearest
from cornerwave.miner._copy import Copy
from cornerwave.miner._joined import JoinedCopy, NoiseBetween, Side, join
from cornerwave.outputs import LinkedFile, linked_files
from cornerwave.sources import DatabaseAddress
from cornerwave.spec import CopyMetadata


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
