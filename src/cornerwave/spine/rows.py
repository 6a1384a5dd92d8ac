"""A group of source rows, ready to be surveyed, recognised and perturbed.

Registration and release read the same table in the same way; what they must agree on, to
the bit, is here: the rows' ids, and the bits that their values are recognised by.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from cornerwave import _core, sizes
from cornerwave.arrays import Flags, Floats, Ids, Ints, Words, runs_of
from cornerwave.choices import SHUFFLE
from cornerwave.columns import (
    MISSING_BITS,
    Encoded,
    Fingerprint,
    Schema,
    fill_floats,
    hash_texts,
    is_number,
    is_text,
    key_ids,
    macs,
    one_chunk,
    to_distances,
    to_floats,
    value_type,
)
from cornerwave.keyed import BlockFunction, Secrets, expand, room_for
from cornerwave.noise import position_ids
from cornerwave.sources import Source


@dataclass(frozen=True, repr=False)
class RowSecrets(Secrets):
    """What recognises rows and values again. They belong to the vault, not to a dataset:
    a dataset's own key depends on what they recognise."""

    ids: bytes
    units: bytes
    fingerprint: bytes
    texts: bytes
    sample: bytes
    mark_numbers: bytes
    mark_texts: bytes
    ranks: bytes

    @classmethod
    def of(cls, derive: Callable[[str], bytes]) -> "RowSecrets":
        """Derive them, each for one purpose."""
        return cls(
            ids=derive("row ids"),
            units=derive("unit ids"),
            fingerprint=derive("fingerprint"),
            texts=derive("texts"),
            sample=derive("sample"),
            mark_numbers=derive("marks of numbers"),
            mark_texts=derive("marks of texts"),
            ranks=derive("ranks"),
        )


def row_ids(start: int, table: pa.Table, schema: Schema, secrets: RowSecrets) -> Ids:
    """Return the ids of the rows that begin at `start`: by their key, else by position."""
    if schema.key is None:
        return position_ids(start, table.num_rows)
    return key_ids(_whole(table, schema.key), secrets.ids, schema.key)


@dataclass(frozen=True)
class Nest:
    """Which household some rows belong to, by its id, and what names their persons in there.

    `known` are the rows that have both a household and a person.
    """

    outers: Ids
    names: Ids
    known: Flags

    @classmethod
    def of(cls, ids: Ids, table: pa.Table, schema: Schema, secrets: RowSecrets) -> "Nest | None":
        """Return that of some rows; None for a table without two units."""
        if schema.outer_unit is None or schema.unit is None:
            return None
        known = np.ones(len(ids), dtype=np.bool_)
        for name in schema.nested:
            known &= _decoded(table, name).is_valid().to_numpy(zero_copy_only=False)
        outers, names = (_named_ids(name, ids, table, secrets) for name in schema.nested)
        return cls(outers, names, known)

    def persons(self, secrets: RowSecrets) -> Ids:
        """Return the ids of persons: AES(AES(household) + name), one for each pair of both."""
        function = BlockFunction(expand(secrets.units, "pairs"))
        room = room_for(len(self.names))
        inside = function(np.ascontiguousarray(self.outers), room).reshape(-1, 2) ^ self.names
        return function(np.ascontiguousarray(inside), room_for(len(inside))).reshape(-1, 2)


def unit_ids(
    ids: Ids,
    table: pa.Table,
    schema: Schema,
    secrets: RowSecrets,
    encoded: Encoded | None = None,
) -> Ids:
    """Return the ids of the units that rows belong to; a row without one is a unit of its own.

    Of two units those of the inner one: of persons, each in a household. `encoded` is their column,
    if that was encoded already.
    """
    nest = Nest.of(ids, table, schema, secrets)
    if nest is not None:
        return nest.persons(secrets)
    assert schema.unit is not None
    return _named_ids(schema.unit, ids, table, secrets, encoded)


def outer_ids(ids: Ids, table: pa.Table, schema: Schema, secrets: RowSecrets) -> Ids:
    """Return the ids of the outer units that rows belong to, as households; of persons without."""
    assert schema.unit is not None
    return _named_ids(schema.outer_unit or schema.unit, ids, table, secrets)


def _named_ids(
    name: str, ids: Ids, table: pa.Table, secrets: RowSecrets, encoded: Encoded | None = None
) -> Ids:
    if encoded is None and pa.types.is_dictionary(table.schema.field(name).type):
        encoded = Encoded.of(_whole(table, name), name)
    if encoded is not None and _are_hashed_once(encoded):
        return _units_of(ids, encoded, secrets)
    column = _decoded(table, name)
    named = key_ids(column.drop_null(), secrets.units, name)
    if not column.null_count:
        return named
    missing = column.is_null().to_numpy(zero_copy_only=False)
    units = np.empty_like(ids)
    units[~missing] = named
    return _with_lone_rows(units, ids, missing, secrets)


def _are_hashed_once(column: Encoded) -> bool:
    """Whether to hash distinct units alone: of others a value may have several texts."""
    type_ = column.values.type
    has_one_text = is_text(type_) or pa.types.is_integer(type_)
    return has_one_text and len(column.values) <= len(column.codes)


def _units_of(ids: Ids, column: Encoded, secrets: RowSecrets) -> Ids:
    """Return the ids of the units of rows, of which each distinct one is hashed once."""
    hashed = hash_texts(column.values, secrets.units)
    missing = column.codes < 0
    if not missing.any():
        return hashed.take(column.codes, axis=0)
    units = np.vstack([hashed, np.zeros((1, 2), dtype=np.uint64)])[column.codes]
    return _with_lone_rows(units, ids, missing, secrets)


def _with_lone_rows(units: Ids, ids: Ids, missing: Flags, secrets: RowSecrets) -> Ids:
    """Fill in the ids of rows without a unit: each is a unit of its own."""
    alone = np.ascontiguousarray(ids[missing])
    units[missing] = BlockFunction(secrets.units)(alone, room_for(len(alone))).reshape(-1, 2)
    return units


def row_times(table: pa.Table, schema: Schema) -> Floats | None:
    """Return when rows were, NaN where that is missing; None for a table without a time."""
    return None if schema.time is None else to_floats(_whole(table, schema.time), schema.time)


def row_order(table: pa.Table, places: Ints, schema: Schema) -> Floats:
    """Return in which order rows of a person follow each other, if copies show it, else zeros.

    That of their times; else of the key, if it is a number or ends in one: rows with a key may come
    in any order. Those without a key follow each other as in the file.
    """
    times = row_times(table, schema)
    if times is not None:
        return times
    if not shows_order(schema):
        return np.zeros(table.num_rows)
    if schema.key is None:
        return places.astype(np.float64)
    keys = _whole(table, schema.key)
    if pa.types.is_integer(keys.type):
        # beyond 2^53 neighbours are equal, and follow each other by their ids
        return np.asarray(keys.cast(pa.float64(), safe=False), dtype=np.float64)
    if is_number(keys.type):
        return to_floats(keys, schema.key)
    text = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        return np.zeros(table.num_rows)
    ends = pc.struct_field(pc.extract_regex(text, r"(?P<number>[0-9]{1,15})$"), "number")
    return np.asarray(ends.cast(pa.float64()).fill_null(0.0), dtype=np.float64)


def shows_order(schema: Schema) -> bool:
    """Whether copies show in which order rows without a time follow each other."""
    return schema.order != SHUFFLE or schema.key in schema.unchanged


@dataclass(frozen=True)
class Group:
    """Some rows: their table, ids, numbers (N, rows) and encoded categories and kept columns.

    A number that is relative to another one is there as its distance.

    `words` (N + encoded, rows) has 64 bits for each value: first those of the numbers, in the
    same memory, then those of the cells that are encoded. `units` are the ids of the persons that
    rows belong to, or those of the rows themselves in a table without a unit; `nest` states the
    households of these in a table with two units.
    """

    table: pa.Table
    ids: Ids
    units: Ids
    words: Words
    numbers: Floats
    encoded: Mapping[str, Encoded]
    nest: Nest | None = None

    @classmethod
    def of(cls, ids: Ids, table: pa.Table, schema: Schema, secrets: RowSecrets) -> "Group":
        """Convert some rows. Raises ColumnError for a value that cannot be used."""
        number = len(schema.perturbed)
        words = np.empty((number + len(schema.encoded), table.num_rows), dtype=np.uint64)
        numbers = words[:number].view(np.float64)
        for row, name in zip(numbers, schema.perturbed, strict=True):
            at = 0
            for piece in table.column(name).chunks:
                fill_floats(piece, name, row[at : at + len(piece)])
                at += len(piece)
        to_distances(numbers, schema.perturbed, schema.relative)
        encoded = encoded_cells(table, schema, schema.encoded)
        nest, units = Nest.of(ids, table, schema, secrets), ids
        if nest is not None:
            units = nest.persons(secrets)
        elif schema.unit is not None:
            units = unit_ids(ids, table, schema, secrets, encoded[schema.unit])
        return cls(table, ids, units, words, numbers, encoded, nest)

    @property
    def outers(self) -> Ids:
        """The ids of what is independent: of households, of persons without these, of rows."""
        return self.units if self.nest is None else self.nest.outers

    def recognised(self, secrets: RowSecrets) -> tuple[Fingerprint, Words]:
        """Return the fingerprint of these rows, and 64 bits of each row's MAC.

        Fills in the words of encoded cells: each is hashed once.
        """
        for row, column in zip(self.cells, self.encoded.values(), strict=True):
            column.fill_bits(secrets.texts, MISSING_BITS, row)
        return macs(self.ids, self.words, secrets.fingerprint)

    @property
    def cells(self) -> Words:
        """The words of the encoded cells."""
        return self.words[len(self.numbers) :]

    def fingerprint(self, secrets: RowSecrets) -> Fingerprint:
        """Return the fingerprint of these rows."""
        return self.recognised(secrets)[0]

    def unchanged(self, name: str) -> pa.Array:
        """Return a column that is released as it is: its values alone, in one piece.

        A column may share memory with rows that are not in the table, and hold values under
        its missing ones; an Arrow file would contain both.
        """
        column = _whole(self.table, name)
        plain = column.cast(value_type(column.type))
        missing = plain.is_null().to_numpy(zero_copy_only=False)
        return plain.take(pa.array(np.arange(len(plain)), mask=missing))

    def columns_of(self, names: Sequence[str]) -> list[Encoded]:
        """Return some encoded columns."""
        return [self.encoded[name] for name in names]


def encoded_cells(table: pa.Table, schema: Schema, names: Sequence[str]) -> dict[str, Encoded]:
    """Return columns of some rows by their values. Raises ColumnError for what has no text."""
    as_they_are = (*schema.kept, *schema.units)
    return {
        name: (Encoded.of if name in as_they_are else Encoded.of_category)(
            _whole(table, name), name
        )
        for name in names
    }


def group_rows(schema: Schema) -> int:
    """Return how many rows make a group: a power of two that depends on the columns alone."""
    rows = sizes.GROUP_CELLS // max(1, len(schema.perturbed) + len(schema.categories))
    return max(1024, 1 << max(rows.bit_length() - 1, 0))


def numbered(
    source: Source,
    schema: Schema,
    rows: int | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield (first row, table) for all groups of a source, or for so many `rows` each.

    They have the used columns, or those that are named.
    """
    start = source.first
    for table in source.groups(columns or schema.used, rows or group_rows(schema)):
        yield start, _joined(table)
        start += table.num_rows


def _decoded(table: pa.Table, name: str) -> pa.Array:
    """Return a column without a dictionary, where a missing value may be one of the values."""
    column = _whole(table, name)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _joined(table: pa.Table) -> pa.Table:
    """Return rows with each column of distinct values in one piece: to join its lists takes long,
    and a column is looked at several times."""
    for place, column in enumerate(table.columns):
        if column.num_chunks > 1 and pa.types.is_dictionary(column.type):
            table = table.set_column(place, table.field(place), one_chunk(column))
    return table


def _whole(table: pa.Table, name: str) -> pa.Array:
    return one_chunk(table.column(name))


# --------------------------------------------------------------------------------------------------
# What replaces the key of a row in copies: a pseudonym that only the owner can make.
#
#     pseudonym(row) = the first 20 characters of base32(AES(row id))        100 bits, lower case
#
# Keys of real tables are seldom arbitrary: they are numbered by time, or begin with the person or
# the place, so that rows next to each other in the order of the key are alike, and averaging a copy
# over them takes the noise away. AES of distinct ids looks like distinct random blocks, whatever is
# known about the keys: neither the order nor a prefix of pseudonyms reveals anything about a row,
# and who knows all keys of the table, and all copies, still cannot compute a pseudonym.
#
# The key of AES is the dataset's own: the same for all copies, batches and editions, another for
# every other dataset. AES is a permutation, but 28 of its bits are left out: among n rows two have
# one pseudonym with probability n^2 / 2^101, 4e-15 for 10^8 rows.


LENGTH = 20
"""Characters of a pseudonym, of 5 bits each."""


def pseudonyms(ids: Ids, secret: bytes) -> pa.Array:
    """Return the pseudonyms of rows as a column of text."""
    blocks = BlockFunction(secret)(ids, room_for(len(ids))).reshape(-1, 2)
    letters = np.empty((len(ids), LENGTH), dtype=np.uint8)
    _core.spell_pseudonyms(blocks, letters)
    ends = np.arange(0, LENGTH * len(ids) + 1, LENGTH, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(ends), pa.py_buffer(letters))


def pseudonyms_of_units(units: Ids, secret: bytes) -> pa.DictionaryArray:
    """Return the pseudonyms of rows' units, each once: in the order in which they first occur."""
    # any other order, as that of the source, would show more than the rows of the copy do
    firsts, of_row = runs_of(units)
    apart = pseudonyms(np.ascontiguousarray(firsts), secret).dictionary_encode()
    return pa.DictionaryArray.from_arrays(apart.indices.take(pa.array(of_row)), apart.dictionary)
