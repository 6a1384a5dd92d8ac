"""Numbers that are the sum of others in all rows, as a payment of principal, interest and fees.

What is looked for, by the sampled rows and to the step of the total (columns/_sum_of.py):

    t = a                   one column twice: the later one is a sum of one part
    t = a + b               all pairs
    t = a + b + c + ...     of numbers next to each other in the table, as accountants write them

A part must vary and count: of t = a + 0 the other one would be a copy. Parts are no sums, so that
each sum is drafted from what has noise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import LEAST_ROWS, misfits, plain_type, sum_step, to_floats, unit_of
from cornerwave.errors import ColumnError
from cornerwave.inspection._columns import ColumnReport

MOST_NUMBERS, MOST_IN_A_ROW = 60, 8
"""Of so many numbers all pairs are tried; so many next to each other are added up."""
FIRST_LOOK = 64
"""Rows that most candidates fail in."""
SLIGHT = 1e-9
"""Sums that are off by more than this share are none."""
LEAST_VARIED = 5
"""A part has another value than its most frequent one in so many rows: in fewer it is chance."""


@dataclass(frozen=True)
class _Addends:
    """The numbers of sampled rows, their types, and how finely they are rounded."""

    values: Mapping[str, Floats]
    types: Mapping[str, pa.DataType]
    steps: Mapping[str, float]

    @classmethod
    def of(cls, columns: Sequence[ColumnReport], rows: pa.Table) -> "_Addends":
        values = {}
        for each in columns:
            if each.do == "perturb" and each.name in rows.column_names:
                try:
                    values[each.name] = to_floats(rows.column(each.name).combine_chunks(), "")
                except ColumnError:  # registration refuses it
                    continue
        types = {name: rows.schema.field(name).type for name in values}
        known = {each.name: each for each in columns if each.name in values}
        steps = {name: sum_step(type_, known[name].decimals) for name, type_ in types.items()}
        return cls(values, types, steps)

    def is_sum(self, total: str, parts: Sequence[str]) -> bool:
        """Whether a column is the sum of others in all rows."""
        x, many = self.values[total], [self.values[part] for part in parts]
        step = self.steps[total]
        if misfits(x[:FIRST_LOOK], [part[:FIRST_LOOK] for part in many], step).any():
            return False
        return not misfits(x, many, step).any()

    def varies(self, name: str) -> bool:
        """Whether a column has another value than its most frequent one in some rows."""
        values = self.values[name]
        _, held = np.unique(values[~np.isnan(values)], return_counts=True)
        return len(held) > 1 and int(held.sum() - held.max()) >= LEAST_VARIED


def with_totals_drafted(
    columns: Sequence[ColumnReport], rows: pa.Table
) -> tuple[ColumnReport, ...]:
    """Return columns of which some are sums of others, by the sampled rows."""
    if rows.num_rows < LEAST_ROWS:
        return tuple(columns)
    numbers = _Addends.of(columns, rows)
    varied = [name for name in numbers.values if numbers.varies(name)]
    sums: dict[str, tuple[str, ...]] = {}
    for total, parts in _candidates(numbers, varied):
        taken = {part for of in sums.values() for part in of}
        if total not in {*sums, *taken} and not {*parts} & {*sums}:
            sums[total] = parts
    return tuple(
        replace(each, do="derive", sum_of=(_written(sums[each.name]), _why(sums[each.name])))
        if each.name in sums
        else each
        for each in columns
    )


def _written(parts: Sequence[str]) -> str:
    return " + ".join(parts)


def _why(parts: Sequence[str]) -> str:
    return "in all rows looked at" if len(parts) > 1 else "it is that column in all rows looked at"


def _candidates(numbers: _Addends, varied: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield columns with what they are the sum of: first those that are there twice."""
    twice: set[str] = set()
    for one, other in combinations(varied, 2):
        same = unit_of(numbers.types[one]) == unit_of(numbers.types[other])
        alike = plain_type(numbers.types[one]) == plain_type(numbers.types[other])
        if same and alike and one not in twice and numbers.is_sum(other, (one,)):
            twice.add(other)
            yield other, (one,)
    plain = [n for n in varied if n not in twice and unit_of(numbers.types[n]) is None]
    yield from _in_a_row(numbers, plain)
    if 2 < len(plain) <= MOST_NUMBERS:
        heads = np.array([numbers.values[name][:FIRST_LOOK] for name in plain])
        for i, j in combinations(range(len(plain)), 2):
            # whole totals may be rounded; a missing one goes with anything in a first look
            unlike = np.abs(heads - (heads[i] + heads[j])) > 0.5 + SLIGHT * np.abs(heads)
            for at in np.flatnonzero(~unlike.any(axis=1)):
                if at not in (i, j) and numbers.is_sum(plain[at], (plain[i], plain[j])):
                    yield plain[at], (plain[i], plain[j])


def _in_a_row(numbers: _Addends, plain: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield sums of three numbers or more that are next to each other, the longest first."""
    for many in range(min(MOST_IN_A_ROW, len(plain) - 1), 2, -1):
        for start in range(len(plain) - many + 1):
            parts = tuple(plain[start : start + many])
            beside = (*plain[max(0, start - 1) : start], *plain[start + many : start + many + 1])
            for total in beside:
                if numbers.is_sum(total, parts):
                    yield total, parts
