"""A group of source rows, ready to be measured, recognised and perturbed.

Registration and release read the same table in the same way; what they must agree
on, to the bit, is here: the rows' ids and the bits that their values are known by.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ids, Words
from cornerwave.noise import position_ids
from cornerwave.table import Schema, Source, to_floats
from cornerwave.table.encoded import Encoded, one_chunk
from cornerwave.table.fingerprint import MISSING_BITS, Fingerprint, bits_of_floats, row_ids
from cornerwave.vault.key import Key

GROUP_CELLS = 1 << 20
"""Numbers in a group, which is also a row group of a Parquet copy."""


@dataclass(frozen=True)
class Secrets:
    """What a dataset's key gives: all that registration and release need to know."""

    noise: bytes
    row_ids: bytes
    fingerprint: bytes
    texts: bytes
    missing: bytes

    @classmethod
    def of(cls, key: Key) -> "Secrets":
        """Derive the secrets of a dataset from its key."""
        return cls(
            noise=key.derive("noise"),
            row_ids=key.derive("row ids"),
            fingerprint=key.derive("fingerprint"),
            texts=key.derive("texts"),
            missing=key.derive("missing"),
        )

    def __repr__(self) -> str:
        return "Secrets(<secret>)"


@dataclass(frozen=True)
class Group:
    """Some consecutive rows: their table, ids, numbers (N, rows) and encoded categories.

    `names` are those of the numbers.
    """

    table: pa.Table
    ids: Ids
    names: Sequence[str]
    numbers: Floats
    encoded: Mapping[str, Encoded]

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
        others = [*schema.kept, *(name for group in schema.categories for name in group)]
        encoded = {name: Encoded.of(_whole(table, name), name) for name in others}
        return cls(table, ids, schema.perturbed, numbers, encoded)

    def bits(self) -> list[Words]:
        """Return the bits of the perturbed values."""
        return [bits_of_floats(column) for column in self.numbers]

    def fingerprint(self, secrets: Secrets) -> Fingerprint:
        """Return the fingerprint of these rows."""
        others = [column.bits(secrets.texts, MISSING_BITS) for column in self.encoded.values()]
        return Fingerprint.of(self.ids, [*self.bits(), *others], secrets.fingerprint)

    def category_marks(self, start: int, schema: Schema, secret: bytes) -> Words:
        """Return sums by which the vault recognises category columns, whatever the dataset.

        Few values in any order say little, so a row's key or position is part of it.
        """
        if schema.key is None:
            ids = position_ids(start, len(self.ids))
        else:
            ids = row_ids(_whole(self.table, schema.key), secret, schema.key)
        names = [name for group in schema.categories for name in group]
        bits = [column.bits(secret, MISSING_BITS) for column in self.columns_of(names)]
        return Fingerprint.of(ids, bits, secret, tell_columns_apart=False).sums

    def columns_of(self, names: Sequence[str]) -> list[Encoded]:
        """Return some encoded columns."""
        return [self.encoded[name] for name in names]


def group_rows(schema: Schema) -> int:
    """Return how many rows make a group: a power of two that depends on the columns alone."""
    rows = GROUP_CELLS // max(1, len(schema.perturbed) + len(schema.categories))
    return max(1024, 1 << max(rows.bit_length() - 1, 0))


def numbered(source: Source, schema: Schema) -> Iterator[tuple[int, pa.Table]]:
    """Yield (first row, table) for all groups of a source."""
    start = 0
    for table in source.groups(schema.used, group_rows(schema)):
        yield start, table
        start += table.num_rows


def _whole(table: pa.Table, name: str) -> pa.Array:
    return one_chunk(table.column(name))
