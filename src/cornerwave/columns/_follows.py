"""Columns that follow from another one: a band of a number, the label or the group of a category.

    number      f(x) = the value of the interval that x lies in      one interval for each value
    category    f(c) = the value of the rows that hold c             one to one, or many to one

Registration learns f, and checks it on all rows. A copy has f of its own number or category, as it
is released: a function of the copy alone, which reveals nothing beyond what it follows.

What f reveals by itself is its limits, which lie between two cells. A limit is the number of fewest
decimal places there, and none is finer than a thousandth of the spread: it reveals that no row
on its other side has the value, as a definition of the bands would, and no cell. Values that too
few rows hold are pooled: neighbouring ones into one interval, and into the next one if they are too
few together.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.columns._categories import (
    MOST_CATEGORIES,
    OTHER,
    Categories,
    KeptValues,
    packed,
    unpacked,
)
from cornerwave.columns._encoded import Encoded, Tally, counted_as, stored, stored_type, tally
from cornerwave.columns._types import category_type, is_text, to_floats
from cornerwave.errors import ColumnError

FINEST = 1000
"""No limit is finer than the spread of a number over this, as a power of ten."""


@dataclass(frozen=True)
class Span:
    """The rows that hold a value: how many, and between which numbers they lie."""

    rows: int
    least: float
    greatest: float

    def __add__(self, other: "Span") -> "Span":
        return Span(
            self.rows + other.rows,
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )


@dataclass(frozen=True)
class Followed:
    """What some rows show of a column beside the one that it follows; `a + b` is that of both.

    Of a number: the span of each value, and how many rows without a number hold it. Of a category:
    how many rows hold each pair of both columns.
    """

    spans: Mapping[Any, Span] = field(default_factory=dict)
    without: Tally = field(default_factory=Counter)
    pairs: Tally = field(default_factory=Counter)

    @classmethod
    def of_number(cls, column: Encoded, numbers: Floats) -> "Followed":
        """Look at some rows of a column that follows a number."""
        values = [*counted_as(column.values), None]
        codes = np.where(column.codes < 0, len(values) - 1, column.codes)
        missing = np.isnan(numbers)
        order = np.flatnonzero(~missing)
        order = order[np.argsort(codes[order], kind="stable")]
        ascending, x = codes[order], numbers[order]
        starts = np.flatnonzero(np.diff(ascending, prepend=-1))
        spans: dict[Any, Span] = {}
        if len(starts):
            ends = (np.minimum.reduceat(x, starts), np.maximum.reduceat(x, starts))
            rows = np.diff(starts, append=len(ascending))
            for code, *span in zip(ascending[starts].tolist(), rows, *ends, strict=True):
                spans[values[code]] = Span(int(span[0]), float(span[1]), float(span[2]))
        counts = np.bincount(codes[missing], minlength=len(values)).tolist()
        return cls(spans, Counter({(v,): n for v, n in zip(values, counts, strict=True) if n}))

    @classmethod
    def of_category(cls, column: Encoded, source: Encoded) -> "Followed":
        """Look at some rows of a column that follows a category."""
        return cls(pairs=tally([source, column]))

    def __add__(self, other: "Followed") -> "Followed":
        spans = dict(self.spans)
        for value, span in other.spans.items():
            spans[value] = spans[value] + span if value in spans else span
        return Followed(spans, self.without + other.without, self.pairs + other.pairs)

    def check_number(self, name: str) -> None:
        """Raise ColumnError if there are too many values."""
        if max(len(self.spans), len(self.pairs)) > MOST_CATEGORIES:
            raise ColumnError(
                f"{name!r}: more than {MOST_CATEGORIES:,} different values, too many for a column "
                "that is derived; drop it",
                use=("drop",),
            )


@dataclass(frozen=True)
class Derived:
    """f: the value of each interval between `limits`, or of each of the `known` categories.

    The last of the `values` is that of rows that miss the number or category.
    """

    column: str
    source: str
    limits: tuple[float, ...]
    known: pa.Array | None
    values: pa.Array

    def of(self, source: pa.Array) -> pa.Array:
        """Return the column for what a copy has in the one that it follows."""
        if pa.types.is_dictionary(source.type):
            source = source.dictionary_decode()
        if self.known is None:
            x = to_floats(source, self.source)
            places = np.searchsorted(self.limits, x, side="right")
            places[np.isnan(x)] = len(self.values) - 1
        else:
            matches = pc.index_in(source.cast(self.known.type), value_set=self.known)
            places = matches.fill_null(len(self.values) - 1).to_numpy(zero_copy_only=False)
        made = self.values.take(pa.array(places))
        return made.dictionary_encode() if made.type == pa.string() else made

    def to_json(self) -> dict[str, Any]:
        """Return what is kept in the ledger."""
        return {
            "column": self.column,
            "source": self.source,
            "limits": list(self.limits),
            "known": None if self.known is None else packed(self.known),
            "values": packed(self.values),
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Derived":
        """Return what `to_json` wrote."""
        known: KeptValues | None = kept["known"]
        return cls(
            kept["column"],
            kept["source"],
            tuple(kept["limits"]),
            None if known is None else unpacked(known),
            unpacked(kept["values"]),
        )


def derived_from_number(
    name: str,
    source: str,
    followed: Followed,
    *,
    type_: pa.DataType,
    sample: tuple[Floats, Ints],
    min_count: int,
) -> Derived:
    """Fix how a column follows a number; `sample` has numbers of some rows, and codes of values.

    Raises ColumnError if it does not follow.
    """
    spans = sorted(followed.spans.items(), key=lambda each: (each[1].least, each[1].greatest))
    overlap = any(a.greatest >= b.least for (_, a), (_, b) in pairwise(spans))
    if overlap or len(followed.without) > 1:
        lost = _misfits(*sample)
        raise _not_following(name, source, "each of its values must have an interval", lost)
    if not spans:
        raise ColumnError(f"{source!r}: no values at all, so {name!r} cannot follow; drop both")
    other = OTHER if is_text(category_type(type_)) else None
    bands = _pooled(spans, other, min_count)
    finest = _finest(sample[0])
    limits = [
        limit_between(below.greatest, above.least, finest)
        for (_, below), (_, above) in pairwise(bands)
    ]
    gone = next(iter(followed.without), (None,))[0]
    if 0 < followed.without[(gone,)] < min_count:
        gone = None
    values = _values([*(value for value, _ in bands), gone], type_)
    return Derived(name, source, tuple(limits), None, values)


def derived_from_category(
    name: str, source: str, followed: Followed, *, type_: pa.DataType, categories: Categories
) -> Derived:
    """Fix how a column follows a category, as that is pooled. Raises ColumnError if it does not."""
    of: dict[Any, Tally] = {}
    for (given, value), rows in followed.pairs.items():
        of.setdefault(given, Counter())[value] += rows
    if any(len(values) > 1 for values in of.values()):
        rows = sum(followed.pairs.values())
        fit = sum(max(values.values()) for values in of.values())
        raise _not_following(name, source, "rows with one value must agree", 1 - fit / rows)
    known = categories.values[categories.columns.index(source)]
    other = OTHER if is_text(category_type(type_)) else None
    held = [next(iter(of[given])) if given in of else other for given in stored(known).to_pylist()]
    gone = next(iter(of.get(None, ())), None)
    return Derived(name, source, (), known, _values([*held, gone], type_))


def _values(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    kind = category_type(type_, values)
    return pa.array(list(values), type=stored_type(kind)).view(kind)


def _not_following(name: str, source: str, rule: str, share: float) -> ColumnError:
    about = f"about {share:.1%}" if share >= 0.0005 else "less than 0.1%"
    return ColumnError(
        f"{name!r} does not follow from {source!r}: {about} of the rows do not fit ({rule}). "
        "Correct these rows, or leave follows out: the column is then hidden by itself",
    )


def _pooled(bands: list[tuple[Any, Span]], other: Any, min_count: int) -> list[tuple[Any, Span]]:
    """Return ascending bands of which each has enough rows; neighbours that are rare are one."""
    joined: list[tuple[Any, Span]] = []
    rare: list[bool] = []
    for value, span in bands:
        few = span.rows < min_count
        if few and rare and rare[-1]:
            joined[-1] = (other, joined[-1][1] + span)
            continue
        joined.append((other if few else value, span))
        rare.append(few)
    enough: list[tuple[Any, Span]] = []
    first: Span | None = None
    for value, span in joined:
        if span.rows >= min_count or len(joined) == 1:
            enough.append((value, span if first is None else span + first))
            first = None
        elif enough:  # too few even together: in the interval before
            enough[-1] = (enough[-1][0], enough[-1][1] + span)
        else:
            first = span
    return enough or [(other, joined[0][1])]


def _finest(numbers: Floats) -> float:
    """Return the step that no limit is finer than."""
    known = numbers[~np.isnan(numbers)]
    spread = float(np.subtract(*np.quantile(known, [0.9, 0.1]))) if len(known) else 0.0
    return 10.0 ** math.floor(math.log10(spread / FINEST)) if spread > 0 else 0.0


def limit_between(below: float, above: float, finest: float = 0.0) -> float:
    """Return the number of fewest decimal places that is above one number, and not another.

    One that is finer than a step is the nearest multiple of it instead.

    >>> limit_between(24.0, 25.0), limit_between(0.123, 0.1301), limit_between(1480.0, 2210.0)
    (25.0, 0.13, 2000.0)
    >>> limit_between(7.12301, 7.12302, finest=0.01)
    7.12
    """
    largest = max(abs(below), abs(above), above - below)
    places = -math.ceil(math.log10(largest)) if largest > 0 else 0
    while True:
        scale = 10.0**places
        limit = math.floor(above * scale) / scale
        if below < limit <= above:
            return limit
        if finest and 1 / scale <= finest * (1 + 1e-9):
            return round((below + above) / 2 * scale) / scale
        if places > 300 or 1 / scale < math.ulp(largest):
            return above
        places += 1


def _misfits(numbers: Floats, codes: Ints) -> float:
    """Return the share of sampled rows outside the best intervals between neighbouring values."""
    known = ~np.isnan(numbers)
    x, codes = numbers[known], np.unique(codes[known], return_inverse=True)[1]
    if not len(x):
        return 0.0
    middle = [float(np.median(x[codes == code])) for code in range(int(codes.max()) + 1)]
    place = np.argsort(np.argsort(middle, kind="stable"))[codes]
    order = np.argsort(x, kind="stable")
    x, place = x[order], place[order]
    last = np.append(np.diff(x) > 0, True)
    limits = []
    for band in range(len(middle) - 1):
        # rows up to here that belong above, and rows beyond that belong here or below
        above = np.cumsum(place > band)
        wrong = above + (np.count_nonzero(place <= band) - np.cumsum(place <= band))
        limits.append(x[last][np.argmin(wrong[last])])
    expected = np.searchsorted(np.maximum.accumulate(limits) if limits else [], x, side="left")
    return float(np.mean(expected != place))
