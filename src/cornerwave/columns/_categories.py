"""The values of category columns, by number, and how often each occurs.

A group of columns that is refreshed together is one category column whose values are
the combinations that occur; a missing cell is part of its combination. Values held by
fewer than `min_count` rows are pooled into one, which is called '(other)' in a text
column and is missing in any other.
"""

import base64
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import _core
from cornerwave.arrays import Codes, Flags, Ints, Words, places_among
from cornerwave.choices import UNIFORM
from cornerwave.columns._encoded import (
    Encoded,
    Tally,
    combined,
    hash_texts,
    stored,
    stored_type,
)
from cornerwave.columns._schema import Schema, listed
from cornerwave.columns._types import MISSING_BITS, category_type, is_text
from cornerwave.errors import ColumnError, SourceChanged, warn
from cornerwave.noise import MISSING, thresholds


class KeptCategories(TypedDict):
    """`Categories` as the ledger keeps them."""

    columns: list[str]
    values: list[str]
    combinations: list[list[int]]
    counts: list[int]
    base: str
    hides_missing: bool
    pooled: bool


@dataclass(frozen=True)
class Categories:
    """The frozen values of a group of columns.

    `values[c]` are the distinct values of column c; `combinations` (m, columns) number
    the m values of the group, -1 for missing within; `counts` are how often each occurs.
    The last one represents all that were pooled if `pooled`.
    """

    columns: tuple[str, ...]
    values: tuple[pa.Array, ...]
    combinations: Ints
    counts: tuple[int, ...]
    base: str
    hides_missing: bool
    pooled: bool

    @cached_property
    def bounds(self) -> Words:
        """The bounds that a draw from pi is compared with."""
        return thresholds([1] * len(self.counts) if self.base == UNIFORM else self.counts)

    def draws_missing(self, column: str) -> bool:
        """Whether a draw may leave a column without a value."""
        if column not in self.columns:
            return False
        return bool((self.combinations[:, self.columns.index(column)] == MISSING).any())

    def encode(self, columns: Sequence[Encoded]) -> Codes:
        """Return the group's codes of some rows. Raises SourceChanged for an unknown value."""
        combinations, rows = _numbered(columns)
        translated = [
            _translated(encoded, values)[codes]
            for encoded, values, codes in zip(columns, self.values, combinations.T, strict=True)
        ]
        group_codes, known = self._places(np.stack(translated, axis=1))
        if not known.all() and not known[rows].all():
            raise SourceChanged(f"{listed(self.columns)}: a value that was not there before")
        if not self.hides_missing:
            group_codes[(combinations < 0).any(axis=1)] = MISSING
        return group_codes.astype(np.int32).take(rows, mode="wrap")  # -1 is the last one

    def codes_of(self, words: Words, secret: bytes) -> Codes:
        """Return the group's codes of cells, given the words of each column (columns, rows).

        Words are keyed hashes of texts. An unknown value that is not pooled has any code.
        """
        translated = []
        for values, of_column in zip(self.values, words, strict=True):
            hashes = hash_texts(values, secret)[:, 0]
            order = np.argsort(hashes)
            places = places_among(hashes[order], of_column)
            coded = np.where(places < 0, _UNKNOWN, np.append(order, MISSING)[places])
            translated.append(np.where(of_column == MISSING_BITS, MISSING, coded))
        codes, _ = self._places(np.stack(translated, axis=1))
        if not self.hides_missing:
            codes[(words == MISSING_BITS).any(axis=0)] = MISSING
        return codes.astype(np.int32)

    def decode(self, codes: Codes) -> list[pa.Array]:
        """Return the columns of the group for codes of some rows; text with its values apart."""
        combinations = np.vstack([self.combinations, np.full(len(self.columns), MISSING)])
        arrays = []
        for column, values in zip(combinations.T, self.values, strict=True):
            places, occurring = _places_of(np.ascontiguousarray(column), codes, len(values))
            missing = places < 0
            indices = pa.array(places, mask=missing if missing.any() else None)
            present = values.take(pa.array(occurring))
            kept_apart = pa.DictionaryArray.from_arrays(indices, present, safe=False)
            is_text = values.type == pa.string()
            arrays.append(kept_apart if is_text else kept_apart.dictionary_decode())
        return arrays

    def to_json(self) -> KeptCategories:
        """Return what is kept in the ledger."""
        return {
            "columns": list(self.columns),
            "values": [packed(values) for values in self.values],
            "combinations": self.combinations.tolist(),
            "counts": list(self.counts),
            "base": self.base,
            "hides_missing": self.hides_missing,
            "pooled": self.pooled,
        }

    def cases(self) -> list[tuple[Any, ...]]:
        """Return the values of the group as a tally has them; None is missing."""
        values = [[*stored(column).to_pylist(), None] for column in self.values]
        return [
            tuple(column[code] for column, code in zip(values, codes, strict=True))
            for codes in self.combinations.tolist()
        ]

    def hashed_values(self) -> list[str]:
        """Return what distinguishes the values from any others, whatever library wrote them."""
        return [hash_texts(values, bytes(16)).tobytes().hex() for values in self.values]

    @classmethod
    def from_json(cls, kept: KeptCategories) -> "Categories":
        """Return what `to_json` wrote."""
        columns = tuple(kept["columns"])
        combinations = np.array(kept["combinations"], dtype=np.int64).reshape(-1, len(columns))
        return cls(
            columns=columns,
            values=tuple(unpacked(text) for text in kept["values"]),
            combinations=combinations,
            counts=tuple(kept["counts"]),
            base=kept["base"],
            hides_missing=kept["hides_missing"],
            pooled=kept["pooled"],
        )

    def _places(self, rows: Ints) -> tuple[Ints, Flags]:
        """Return the group's code of combinations of the columns' own, and which are allowed.

        Unknown ones are pooled, or not allowed.
        """
        known = np.zeros(len(self.combinations), dtype=np.int64)
        wanted = np.zeros(len(rows), dtype=np.int64)
        # Column by column, each step numbered anew: a product of all columns would overflow.
        for frozen, given, values in zip(self.combinations.T, rows.T, self.values, strict=True):
            radix = len(values) + 2
            distinct, known = np.unique(known * radix + frozen + 2, return_inverse=True)
            places = places_among(distinct, wanted * radix + given + 2)
            wanted = np.where(wanted >= 0, places, -1)
        is_known = wanted >= 0
        codes = np.where(is_known, np.argsort(known)[wanted], len(known) - 1)
        incomplete = (rows == MISSING).any(axis=1)
        return codes, is_known | self.pooled | (incomplete & (not self.hides_missing))


_UNKNOWN = -2


def _numbered(columns: Sequence[Encoded]) -> tuple[Ints, Ints | Codes]:
    """Return combinations of the columns' codes, and for each row which of them it holds.

    Those of one column are its values and, in the last place, which is also -1, missing.
    """
    if len(columns) > 1:
        return combined(columns)
    return np.append(np.arange(len(columns[0].values)), MISSING)[:, None], columns[0].codes


def _places_of(values: Ints, codes: Codes, number: int) -> tuple[Codes, Ints]:
    """Number values[codes] by their first appearance; return the numbers, and which occur.

    A list of these values alone reveals nothing that the rows do not.
    """
    places = np.empty(len(codes), dtype=np.int32)
    occurring = np.empty(number, dtype=np.int64)
    numbers = np.full(number, MISSING, dtype=np.int32)
    count = _core.number_by_appearance(values, codes, numbers, occurring, places)
    return places, occurring[:count]


KeptValues = str
"""Values as the ledger keeps them."""


def packed(values: pa.Array) -> KeptValues:
    """Return values as the ledger keeps them."""
    batch = pa.record_batch([values], names=["values"])
    with pa.BufferOutputStream() as stream:
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        return base64.b64encode(stream.getvalue()).decode()


def unpacked(text: KeptValues) -> pa.Array:
    """Return what `packed` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text))) as reader:
        return reader.read_all().column("values").combine_chunks()


def _translated(encoded: Encoded, values: pa.Array) -> Ints:
    """Return the frozen code of each of a column's values; -2 is unknown, the last is missing."""
    try:
        same_type = encoded.values.cast(values.type)
    except pa.ArrowException:
        raise SourceChanged(f"{encoded.name!r}: other kinds of values than before") from None
    places = pc.index_in(same_type, value_set=values).fill_null(_UNKNOWN)
    return np.append(places.to_numpy(zero_copy_only=False).astype(np.int64), MISSING)


def freeze_categories(
    names: tuple[str, ...],
    tally: Tally,
    schema: Schema,
    types: pa.Schema,
    held: Tally | None = None,
) -> Categories:
    """Fix the values of a group of columns and how often they occur.

    Values are rare by how many persons have them, if `held` states that, else by their rows.
    Raises ColumnError if there is nothing to draw from.
    """
    kinds = [
        category_type(types.field(name).type, (case[place] for case in tally))
        for place, name in enumerate(names)
    ]
    other = tuple(OTHER if is_text(kind) else None for kind in kinds)
    hides = len(names) > 1 or schema.column(names[0]).hide_missing
    counted = {c: n for c, n in tally.items() if hides or None not in c}
    if not counted:
        raise ColumnError(f"{listed(names)}: no values at all; drop it")
    if any(value != value for case in counted for value in case):
        raise ColumnError(f"{listed(names)}: NaN is among the values; make it missing")
    held = tally if held is None else held
    rare = rare_values({c: held[c] for c in counted}, schema.min_count, other)
    if rare and other == (None,) and other in tally and not hides:
        # What is pooled leaves as missing: the two must be one value, or each reveals the other.
        hides, counted = True, dict(tally)
        rare = rare_values(held, schema.min_count, other)
    frequent = {c: n for c, n in counted.items() if c not in rare and not (rare and c == other)}
    ordered = sorted(frequent, key=lambda c: (-frequent[c], in_order(c)))
    counts = [frequent[c] for c in ordered]
    if rare:
        ordered.append(other)
        counts.append(sum(counted.values()) - sum(counts))
    values = tuple(_distinct(ordered, place, kind) for place, kind in enumerate(kinds))
    return Categories(
        columns=names,
        values=values,
        combinations=_combinations(ordered, values),
        counts=tuple(counts),
        base=schema.column(names[0]).base,
        hides_missing=hides,
        pooled=bool(rare),
    )


def _distinct(ordered: Sequence[tuple[Any, ...]], place: int, kind: pa.DataType) -> pa.Array:
    values = dict.fromkeys(c[place] for c in ordered if c[place] is not None)
    return pa.array(list(values), type=stored_type(kind)).view(kind)


def _combinations(ordered: Sequence[tuple[Any, ...]], values: Sequence[pa.Array]) -> Ints:
    numbers = [{v: i for i, v in enumerate(stored(array).to_pylist())} for array in values]
    rows = [[n.get(v, MISSING) for n, v in zip(numbers, c, strict=True)] for c in ordered]
    return np.array(rows, dtype=np.int64).reshape(len(ordered), len(values))


# --------------------------------------------------------------------------------------------------
# Values that few rows hold: they are pooled, or they identify people.


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


def pooled(tally: Tally, min_count: int) -> Tally:
    """Return a tally in which all values to pool are one."""
    present = {c: n for c, n in tally.items() if None not in c or len(c) > 1}
    rare = rare_values(present, min_count, (OTHER,))
    left: Tally = Counter({c: n for c, n in tally.items() if c not in rare})
    if rare:
        left[(OTHER,)] += sum(tally[c] for c in rare)
    return left


def check_number(names: tuple[str, ...], tally: Tally, rows: int) -> None:
    """Raise ColumnError if a group has more values than a category can have."""
    if len(tally) > MOST_CATEGORIES:
        what = "it looks like an identifier" if len(names) == 1 else "too many combinations"
        raise ColumnError(
            f"{listed(names)}: more than {MOST_CATEGORIES:,} different values in {rows:,} rows: "
            f"{what}. {_instead(names)}",
            use=_choices(names),
        )


def check_identifying(names: tuple[str, ...], tally: Tally, schema: Schema) -> None:
    """Refuse a category that identifies people; warn of combinations that do.

    Judges what is left after pooling; the tally is one of persons in a table with a unit.
    Raises ColumnError unless the owner declared the columns to be categories.
    """
    left = pooled(tally, schema.min_count)
    present = sum(count for value, count in left.items() if None not in value)
    alone = sum(count == 1 for value, count in left.items() if None not in value)
    if not identifies(alone, present):
        if len(names) > 1 and alone:
            warn(
                f"{listed(names)} together: {_identifying(alone)}; a minimum count pools "
                f"{'it' if alone == 1 else 'them'}",
                stacklevel=3,
            )
        return
    if not all(schema.column(name).declared for name in names):
        raise ColumnError(
            f"{listed(names)}: {alone:,} of {present:,} values are held by one "
            f"{'row' if schema.unit is None else 'person'} alone, so "
            f"{'it identifies' if len(names) == 1 else 'together they identify'} people. "
            f"{_instead(names)}, pool rare values, or declare "
            f"{'it a category' if len(names) == 1 else 'them categories'} all the same",
            use=(*_choices(names), "min_count", "categorical"),
        )


def _identifying(alone: int) -> str:
    """Say how many combinations identify a row.

    >>> _identifying(1)
    '1 combination is held by one row alone and identifies it wherever it appears'
    >>> _identifying(2)
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
