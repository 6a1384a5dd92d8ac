"""A column as numbers into its distinct values, and how many rows hold each."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import _core, sizes
from cornerwave.arrays import Codes, Floats, Ids, Ints, Words
from cornerwave.columns._types import value_type
from cornerwave.errors import ColumnError
from cornerwave.keyed import BlockFunction, expand, hash_bytes, hash_key, hash_words, room_for
from cornerwave.noise import MISSING

Tally = Counter[tuple[Any, ...]]
"""How many rows hold each combination of values; None is missing."""
MOST_GRADES, LARGEST_GRADE = 20, 1e9
"""So many different numbers with fractions, of this size, are grades, and may be a category."""
AT_ONCE = 1 << 13
"""Texts that are made and hashed at once: they stay in the nearest caches."""


@dataclass(frozen=True)
class Encoded:
    """A column as numbers into its distinct values; -1 is missing."""

    name: str
    codes: Codes
    values: pa.Array

    @classmethod
    def of(cls, column: pa.Array, name: str) -> "Encoded":
        """Number the distinct values of a column. Raises ColumnError for what has no text."""
        try:
            encoded = _encoded(column)
        except pa.ArrowException:
            raise _without_text(name, column.type) from None
        codes = encoded.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        return cls(name, codes.astype(np.int32, copy=False), encoded.dictionary)

    @cached_property
    def counts(self) -> Ints:
        """How many rows hold each value."""
        return np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:]

    @classmethod
    def of_category(cls, column: pa.Array, name: str) -> "Encoded":
        """Number the distinct values of a category: floats are the whole numbers that they hold,
        as beside gaps, or grades such as 0.5. Raises ColumnError for many fractions.
        """
        return cls.of(_whole_numbers(column, name), name)

    def fill_bits(self, secret: bytes, missing: np.uint64, out: Words) -> None:
        """Fill in 64 bits that represent each cell. Raises ColumnError for what has no text."""
        try:
            hashes = hash_texts(self.values, secret)[:, 0]
        except pa.ArrowException:
            raise _without_text(self.name, self.values.type) from None
        np.append(hashes, missing).take(self.codes, out=out, mode="wrap")  # -1 is the last one


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece; distinct values that are kept apart are made one list."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        lists = [piece.dictionary for piece in column.chunks]
        # pieces of a row group mostly have one list: to compare is faster than to join
        if not all(each.equals(lists[0]) for each in lists[1:]):
            column = column.unify_dictionaries()
    return column.combine_chunks()


def places_of(column: pa.Array, among: pa.Array) -> Ints:
    """Return the place of each value of a column among others; -1 for one that is not there.

    >>> places_of(pa.array(["b", "x", None]), pa.array(["a", "b"]))
    array([ 1, -1, -1])
    """
    places = pc.index_in(column, value_set=among).fill_null(-1)
    if isinstance(places, pa.ChunkedArray):
        return np.asarray(places.to_numpy(), dtype=np.int64)
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def _without_text(name: str, type_: pa.DataType) -> ColumnError:
    return ColumnError(f"{name!r}: a column of type {type_} cannot leave; drop it")


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    """Return a column with its distinct values apart, as Parquet often has them already."""
    if pa.types.is_dictionary(column.type):
        if column.dictionary.null_count == 0 and column.type.value_type == pa.string():
            return column
        column = column.dictionary_decode()
    return column.cast(value_type(column.type)).dictionary_encode()


def _whole_numbers(column: pa.Array, name: str) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    floats = column.cast(pa.float64())
    floats = pc.if_else(pc.is_nan(floats), None, floats)
    try:
        return floats.cast(pa.int64())
    except pa.ArrowException:
        # a whole one among them has the text, and so the hash, that it has among whole ones alone
        grades = pc.unique(pc.add(floats, 0.0)).drop_null()
        if len(grades) <= MOST_GRADES and pc.max(pc.abs(grades)).as_py() <= LARGEST_GRADE:
            return pc.add(floats, 0.0)
    raise ColumnError(
        f"{name!r}: it holds fractions of more than {MOST_GRADES} different values, or numbers "
        "beyond 2^53, and is no category of numbers; perturb it, or make it text"
    )


def combined(columns: Sequence[Encoded]) -> tuple[Ints, Ints]:
    """Return combinations of the columns' codes, and for each row which of them it holds."""
    first = columns[0]
    combinations = np.arange(-1, len(first.values))[:, None]
    rows = first.codes.astype(np.int64) + 1
    for encoded in columns[1:]:
        radix = len(encoded.values) + 1
        distinct, rows = np.unique(rows * radix + encoded.codes + 1, return_inverse=True)
        before = combinations[distinct // radix]
        combinations = np.column_stack([before, distinct % radix - 1])
    return combinations, rows


def cases(columns: Sequence[Encoded]) -> tuple[list[tuple[Any, ...]], Ints]:
    """Return combinations of the columns' values, and for each row which of them it holds."""
    combinations, rows = combined(columns)
    values = [[*counted_as(encoded.values), None] for encoded in columns]
    distinct = [
        tuple(v[code] for v, code in zip(values, combination, strict=True))
        for combination in combinations.tolist()
    ]
    return distinct, rows


def tally(columns: Sequence[Encoded]) -> Tally:
    """Count the combinations of some rows."""
    if len(columns) == 1:
        return _tally_of_one(columns[0])
    distinct, rows = cases(columns)
    counted: Tally = Counter()
    held = np.bincount(rows, minlength=len(distinct)).tolist()
    for case, count in zip(distinct, held, strict=True):
        if count:
            counted[case] += count
    return counted


def _tally_of_one(column: Encoded) -> Tally:
    occurring = np.flatnonzero(column.counts)
    values = counted_as(column.values.take(pa.array(occurring)))
    counted: Tally = Counter()
    for value, count in zip(values, column.counts[occurring].tolist(), strict=True):
        counted[(value,)] += count
    if missing := len(column.codes) - int(column.counts.sum()):
        counted[(None,)] += missing
    return counted


def counted_as(values: pa.Array) -> list[Any]:
    """Return values as tallies have them: whole numbers as such, beside grades as alone."""
    listed: list[Any] = stored(values).to_pylist()
    if not pa.types.is_floating(values.type):
        return listed
    return [int(value) if value is not None and value.is_integer() else value for value in listed]


def stored(values: pa.Array) -> pa.Array:
    """Return values as what they are counted as."""
    return values.view(stored_type(values.type))


def stored_type(kind: pa.DataType) -> pa.DataType:
    """Return what dates and times are counted as: Python's have a shorter range, and no ns."""
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def hash_texts(values: pa.Array, secret: bytes) -> Words:
    """Return the 128-bit keyed hash of each value's text, shape (rows, 2)."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    hashes = np.empty((len(values), 2), dtype=np.uint64)
    for start in range(0, max(1, len(values)), AT_ONCE):
        _hash_some(values.slice(start, AT_ONCE), secret, hashes[start : start + AT_ONCE])
    return hashes


def _hash_some(values: pa.Array, secret: bytes, out: Words) -> None:
    if pa.types.is_integer(values.type) and values.type != pa.uint64() and not values.null_count:
        numbers = values.cast(pa.int64()).to_numpy()
        if numbers.min(initial=0) >= 0:
            # the text of each number in 3 words, and its length
            words = np.empty((3, len(numbers)), dtype=np.uint64)
            lengths = np.empty(len(numbers), dtype=np.uint64)
            _core.fill_whole_texts(numbers, lengths, words)
            hash_words(words, lengths, secret, out)
            return
    texts = values.cast(pa.large_string()) if not _is_bytes(values.type) else values
    texts = texts.cast(pa.large_binary())
    if not len(texts):  # may have no offsets at all
        return
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    hash_bytes(starts, content, secret, out)


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
        or pa.types.is_binary_view(type_)
    )


# --------------------------------------------------------------------------------------------------
# Which row is which, and whether this is still the same table.
#
#     row id       the 128-bit keyed hash of the key column's text; or the row's position
#     fingerprint  sum over rows of AES(row id + NH(row))        in two lanes, modulo 2^64 each
#
# NH is a universal hash of a row's values, 64 bits each, under one secret key, and is added lane
# by lane; AES-256 uses another key. Sums do not care about order, chunks or threads; with
# positions as ids the rows' order still counts, since it is in the ids.
#
# Why it is sound. All rows of a dataset have one number of values, which NH needs, and their ids
# differ. Let two tables differ in r pairs of id and row; equal pairs cancel. Any one of the r
# meets another in the input of AES with probability at most (r - 1) 2^-64. If it meets none, its
# image is random and independent of all others, and the sums are equal with probability 2^-128
# (2^-126 if a pair stands there twice), plus what distinguishes AES from a random
# function. So anyone who does not know the keys, and sees no sum, offers another table that passes
# with probability at most r 2^-64: 2^-36 if all of 10^8 rows are changed, 2^-63 if one is.


def key_ids(keys: pa.Array, secret: bytes, name: str) -> Ids:
    """Return the row ids of a key column; raise ColumnError if one is missing or has no text."""
    if pa.types.is_dictionary(keys.type):  # where a missing value may be one of the values
        keys = keys.dictionary_decode()
    if keys.null_count:
        raise ColumnError(
            f"the key column {name!r} has {keys.null_count} missing values; every row needs its key"
        )
    try:
        return hash_texts(keys, secret)
    except pa.ArrowException:
        raise ColumnError(f"{name!r}: a column of type {keys.type} cannot be the key") from None


@dataclass(frozen=True)
class Fingerprint:
    """How many rows a table has, and the two 64-bit lanes of the sum over them.

    `a + b` is the fingerprint of both parts of a table together.
    """

    rows: int
    sums: Words

    @classmethod
    def of(cls, ids: Ids, words: Words, secret: bytes) -> "Fingerprint":
        """Return the fingerprint of some rows, given 64 bits for each value (values, rows)."""
        return macs(ids, words, secret)[0]

    @classmethod
    def nothing(cls) -> "Fingerprint":
        """Return the fingerprint of no rows."""
        return cls(0, np.zeros(2, dtype=np.uint64))

    @classmethod
    def read(cls, text: str) -> "Fingerprint":
        """Return the fingerprint that was written as this text."""
        rows, _, sums = text.partition(":")
        return cls(int(rows, 16), np.frombuffer(bytes.fromhex(sums), ">u8").astype(np.uint64))

    def __add__(self, other: "Fingerprint") -> "Fingerprint":
        return Fingerprint(self.rows + other.rows, self.sums + other.sums)

    def __str__(self) -> str:
        return f"{self.rows:x}:{self.sums.astype('>u8').tobytes().hex()}"


def macs(ids: Ids, words: Words, secret: bytes) -> tuple[Fingerprint, Words]:
    """Return the fingerprint of some rows, and 64 bits of each row's MAC, to choose samples by.

    `words` are 64 bits for each value (values, rows).
    """
    ids, words = np.ascontiguousarray(ids), np.ascontiguousarray(words)
    encipher = BlockFunction(expand(secret, "rows"))
    key = hash_key(expand(secret, "values"), len(words))
    most = sizes.HASHED_ROWS
    blocks, room = np.empty((most, 2), dtype=np.uint64), room_for(most)
    sums, bits = np.zeros(2, dtype=np.uint64), np.empty(len(ids), dtype=np.uint64)
    for start in range(0, len(ids), most):
        rows = min(most, len(ids) - start)
        _core.fill_row_blocks(ids, words, start, key, blocks[:rows])
        _core.take_macs(encipher(blocks[:rows], room), sums, bits[start : start + rows])
    return Fingerprint(len(ids), sums), bits


# --------------------------------------------------------------------------------------------------
# How many different values a column has, and how many rows hold each, in little memory.
#
# Values are known by a hash. Up to `FOLLOWED_VALUES` of them are all followed, and every
# count is exact. Beyond that every second, fourth, eighth... value is followed, chosen
# by its hash, through all of its rows: a sample of values, not of rows, so that one
# which occurs twice is never taken for one that occurs once.


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

    @property
    def most_held(self) -> int:
        """How many rows hold the most frequent of the values that are followed."""
        return int(self._counts.max(initial=0))

    def beside(self, other: "Distinct") -> tuple[int, int, int]:
        """How many values both have, how many the other one alone, and how many of its rows.

        Estimates if not all values are followed: both follow those of the same hashes.
        """
        share = np.uint64(max(self.share, other.share))
        mine = self._hashes[self._hashes % share == 0]
        followed = other._hashes % share == 0
        here = np.isin(other._hashes[followed], mine)
        both, lone = np.count_nonzero(here), np.count_nonzero(~here)
        rows = other._counts[followed][~here].sum()
        return int(both) * int(share), int(lone) * int(share), int(rows) * int(share)

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
        self._counts = np.bincount(places, weights, len(self._hashes)).astype(np.int64)
        while self.followed > sizes.FOLLOWED_VALUES:
            self.share *= 2
            stay = self._hashes % np.uint64(self.share) == 0
            self._hashes, self._counts = self._hashes[stay], self._counts[stay]


def _mixed(bits: Words) -> Words:
    """Spread the bits of numbers over 64 (the finalizer of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
