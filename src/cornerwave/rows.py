"""A group of source rows, ready to be measured, recognised and perturbed.

Registration and release read the same table in the same way; what they must agree
on, to the bit, is here: the rows' ids and the bits that their values are known by.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cornerwave.noise.cipher import Words
from cornerwave.noise.stream import Ids, position_ids
from cornerwave.table.fingerprint import Fingerprint, bits_of_floats, bits_of_kept, row_ids
from cornerwave.table.numbers import to_floats
from cornerwave.table.read import Source
from cornerwave.table.schema import Schema
from cornerwave.vault.key import Key

GROUP_CELLS = 1 << 20
"""Numbers in a group, which is also a row group of a Parquet copy."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Secrets:
    """What a dataset's key gives: all that registration and release need to know."""

    noise: bytes
    row_ids: bytes
    fingerprint: bytes
    kept: bytes

    @classmethod
    def of(cls, key: Key) -> "Secrets":
        """Derive the secrets of a dataset from its key."""
        return cls(
            noise=key.derive("noise"),
            row_ids=key.derive("row ids"),
            fingerprint=key.derive("fingerprint"),
            kept=key.derive("kept"),
        )

    def __repr__(self) -> str:
        return "Secrets(<secret>)"


@dataclass(frozen=True)
class Group:
    """Some consecutive rows: the table itself, and its perturbed columns (N, rows)."""

    start: int
    table: pa.Table
    numbers: Floats
    ids: Ids

    @classmethod
    def of(cls, start: int, table: pa.Table, schema: Schema, secrets: Secrets) -> "Group":
        """Convert the rows that begin at `start`. Raises ColumnError for what cannot be."""
        numbers = np.empty((len(schema.perturbed), table.num_rows))
        for row, name in zip(numbers, schema.perturbed, strict=True):
            row[:] = to_floats(_whole(table, name), name)
        if schema.key is None:
            ids = position_ids(start, table.num_rows)
        else:
            ids = row_ids(_whole(table, schema.key), secrets.row_ids, schema.key)
        return cls(start, table, numbers, ids)

    def bits(self) -> list[Words]:
        """Return the bits of the perturbed values."""
        return [bits_of_floats(column) for column in self.numbers]

    def fingerprint(self, schema: Schema, secrets: Secrets) -> Fingerprint:
        """Return the fingerprint of these rows."""
        kept = [bits_of_kept(_whole(self.table, name), name, secrets.kept) for name in schema.kept]
        return Fingerprint.of(self.ids, [*self.bits(), *kept], secrets.fingerprint)


def group_rows(schema: Schema) -> int:
    """Return how many rows make a group: a power of two that depends on the columns alone."""
    rows = GROUP_CELLS // len(schema.perturbed)
    return max(1024, 1 << max(rows.bit_length() - 1, 0))


def numbered(source: Source, schema: Schema) -> Iterator[tuple[int, pa.Table]]:
    """Yield (first row, table) for all groups of a source."""
    start = 0
    for table in source.groups(schema.used, group_rows(schema)):
        yield start, table
        start += table.num_rows


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
