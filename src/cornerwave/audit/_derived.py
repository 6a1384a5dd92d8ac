"""Columns that copies recompute from another one, as a copy states: are they a function of it?

    copy's column = f(copy's other column),    f as the table has it

If they are, they reveal nothing beyond the column that they follow, whose noise is checked. A band
of the table's age beside a noisy age would be the table's. Nothing here is left to chance.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.audit._alignment import BLOCK_ROWS, Aligned
from cornerwave.audit._chance import Check, Family
from cornerwave.choices import DERIVED
from cornerwave.columns import OTHER, one_chunk, to_floats
from cornerwave.sources import Source

Values = Mapping[Any, Counter[Any]]


@dataclass(frozen=True)
class DerivedEvidence:
    """How often a derived column of a copy is not what the table has beside that value."""

    wrong: Mapping[tuple[int, str], tuple[str, float]]

    @classmethod
    def of(cls, aligned: Aligned) -> "DerivedEvidence":
        """Compare the derived columns of all copies with the table's."""
        misfits: dict[tuple[int, str], tuple[str, float]] = {}
        table = (aligned.whole or aligned).source
        for i, copy in enumerate((aligned.whole or aligned).copies):
            for name, about in aligned.stated.copies[i].columns.items():
                source = about.follows
                both = {name, source}
                if about.role != DERIVED or source is None:
                    continue
                if both <= {*table.schema.names} & {*copy.schema.names}:
                    known = _function(table, name, source, about.limits)
                    misfits[i, name] = source, _misfits(copy, name, source, about.limits, known)
        return cls(misfits)


def _cases(
    table: Source, name: str, source: str, limits: Sequence[float] | None
) -> Iterator[Counter[tuple[Any, Any]]]:
    """Yield how many rows have each pair: the interval or value of the source, and the column's."""
    for group in table.groups([name, source], BLOCK_ROWS):
        values, of = one_chunk(group.column(name)), one_chunk(group.column(source))
        if limits is not None:
            x = to_floats(of, source)
            places = np.searchsorted(limits, x, side="right")
            of = pa.array(np.where(np.isnan(x), -1, places))
        yield Counter(
            zip(map(_plain, of.to_pylist()), map(_plain, values.to_pylist()), strict=True)
        )


def _plain(value: Any) -> Any:
    """Return a value as files of all kinds have it: 1.0 is 1, NaN is missing."""
    if isinstance(value, float):
        return None if value != value else int(value) if value.is_integer() else value
    return value


def _function(table: Source, name: str, source: str, limits: Sequence[float] | None) -> Values:
    """Return what a table has beside each interval or value of the source, and how often."""
    held: dict[Any, Counter[Any]] = defaultdict(Counter)
    for counted in _cases(table, name, source, limits):
        for (given, value), rows in counted.items():
            held[given][value] += rows
    return held


def _misfits(
    copy: Source, name: str, source: str, limits: Sequence[float] | None, known: Values
) -> float:
    """Return the share of rows with another value than most, or than most of the table.

    What is pooled in the copy may have another one than in the table.
    """
    wrong = rows = 0
    for given, values in _function(copy, name, source, limits).items():
        count, [(value, most)] = values.total(), values.most_common(1)
        fits = given not in known or value in (known[given].most_common(1)[0][0], OTHER, None)
        rows += count
        wrong += count - most if fits else count
    return wrong / max(rows, 1)


def derived(evidence: DerivedEvidence, alpha: float) -> Iterator[Check]:
    """A derived column is what the table has beside the copy's own value, in every row."""
    for (copy, name), (source, share) in evidence.wrong.items():
        note = f"{name} does not follow from {source} of the copy in {share:.1%} of the rows"
        yield Check.of((copy,), share, 0.0, note)


DERIVED_FAMILIES = (
    Family(
        "derived",
        "columns that follow from others are a function of what the copy has there",
        derived,
        by_chance=False,
    ),
)
