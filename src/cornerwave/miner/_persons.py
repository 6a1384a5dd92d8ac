"""Standard errors for rows that belong to persons, who are the independent records.

Formulas of this package take rows to be independent. A person's rows are not, and neither is their
noise, so an estimate is computed again without each of G groups of persons (the jackknife):

    Var(estimate) = (G - 1) / G  sum over g of (estimate without g - their mean)^2

That is the variance for the population. Noise is shaped like the data, within persons and between
them, so given the table it is as many times that of independent rows:

    Var(estimate | table) = Var_rows(estimate | table) Var(estimate) / Var_rows(estimate)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ints
from cornerwave.errors import ColumnError
from cornerwave.miner._estimates import Estimates
from cornerwave.sources import Source

GROUPS = 64
"""Groups of persons: a standard error is then known to about a tenth."""

HELD_CELLS = 1 << 24
"""So many cells of a copy are held in memory while it is read again and again."""


@dataclass(frozen=True)
class PersonGroups:
    """A copy's rows in groups of whole persons: `groups` (rows,), `count` of them."""

    source: Source
    groups: Ints
    count: int

    @classmethod
    def of(cls, source: Source, unit: str) -> "PersonGroups":
        """Read which person each row belongs to. Raises ColumnError if there are fewer than two."""
        columns = [batch.column(0) for batch in source.batches([unit])]
        parts = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
        encoded = pa.chunked_array(parts).combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        alone = np.flatnonzero(codes < 0)  # a row without a value is a person itself
        codes[alone] = len(encoded.dictionary) + np.arange(len(alone))
        persons = int(codes.max(initial=-1)) + 1
        count = min(GROUPS, persons)
        if count < 2:
            raise ColumnError(f"{unit!r}: all rows belong together, so nothing can be estimated")
        dealt = np.random.default_rng(persons).permutation(persons) % count
        return cls(_held(source), dealt[codes], count)

    def without(self, group: int) -> Source:
        """Return the copy without the rows of one group."""

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            start = 0
            for batch in self.source.open(columns):
                end = start + batch.num_rows
                yield batch.filter(pa.array(self.groups[start:end] != group))
                start = end

        return replace(self.source, open=read, parts=(), rows=None)


def _held(source: Source) -> Source:
    """Return a source that holds what was read, if that is not too much."""
    held: dict[tuple[str, ...], list[pa.RecordBatch]] = {}

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        asked = tuple(columns)
        if asked in held:
            yield from held[asked]
            return
        kept: list[pa.RecordBatch] | None = []
        cells = 0
        for batch in source.open(columns):
            cells += batch.num_rows * max(len(asked), 1)
            kept = None if kept is None or cells > HELD_CELLS else [*kept, batch]
            yield batch
        if kept is not None:
            held[asked] = kept

    return replace(source, open=read, parts=())


def by_person(
    groups: PersonGroups,
    asked: Estimates,
    for_population: Estimates,
    estimate: Callable[[Source], Estimates],
    *,
    absent: float | None = None,
) -> Estimates:
    """Return estimates with standard errors from persons.

    `estimate` answers for a part of the copy; a label that a part lacks is `absent` there, or as
    in all rows if None.
    """
    parts = [_beside(asked, estimate(groups.without(g)), absent) for g in range(groups.count)]
    values = np.stack(parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = (groups.count - 1) * values.var(axis=0)
        ratio = variance / for_population.standard_error**2
        error = np.where(
            for_population.standard_error > 0,
            asked.standard_error * np.sqrt(ratio),
            np.sqrt(variance),
        )
    return replace(asked, standard_error=error)


def _beside(whole: Estimates, part: Estimates, absent: float | None) -> Floats:
    """Return the values of a part in the places that their labels have in the whole."""
    if part.labels == whole.labels:
        return part.value
    values = whole.value.copy() if absent is None else np.full(whole.value.shape, absent)
    places = [
        [known.index(label) for label in labels]
        for known, labels in zip(whole.labels, part.labels, strict=True)
    ]
    values[np.ix_(*places)] = part.value
    return values
