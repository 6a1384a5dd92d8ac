"""Standard errors for rows that belong to persons, who are the independent records.

Formulas of this package take rows to be independent. A person's rows are not, and neither is their
noise. By how much a variance grows through that is measured in the copy: an estimate is computed
again without each of G groups of rows, of whole persons or chosen by chance (the jackknife),

    J = (G - 1) / G  sum over g of (estimate without g - their mean)^2
    Var(estimate) = Var_rows(estimate)  J(persons) / J(rows)

Noise is shaped like the data, within persons and between them, so it grows like the sampling error:
the ratio serves for the table as for the population.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Flags, Floats, Ints
from cornerwave.errors import ColumnError
from cornerwave.miner._estimates import Estimates
from cornerwave.sources import Source

GROUPS = 64
"""Groups of persons: a standard error is then known to about a tenth."""

HELD_CELLS = 1 << 24
"""So many cells of a copy are held in memory while it is read again and again."""


@dataclass(frozen=True)
class PersonGroups:
    """A copy's rows in `count` groups (rows,): of whole `persons`, and of `rows` by chance."""

    source: Source
    persons: Ints
    rows: Ints
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
        random = np.random.default_rng(persons)
        dealt = random.permutation(persons) % count
        return cls(held(source), dealt[codes], random.permutation(len(codes)) % count, count)

    def without(self, group: int, groups: Ints) -> Source:
        """Return the copy without the rows of one of some groups."""
        return without_rows(self.source, groups == group)


def without_rows(source: Source, left_out: Flags) -> Source:
    """Return a source without some of its rows."""

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in source.open(columns):
            end = start + batch.num_rows
            yield batch.filter(pa.array(~left_out[start:end]))
            start = end

    return replace(source, open=read, parts=(), rows=None)


def held(source: Source) -> Source:
    """Return a source that holds what was read, if that is not too much."""
    known: dict[tuple[str, ...], list[pa.RecordBatch]] = {}

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        asked = tuple(columns)
        if asked in known:
            yield from known[asked]
            return
        kept: list[pa.RecordBatch] | None = []
        cells = 0
        for batch in source.open(columns):
            cells += batch.num_rows * max(len(asked), 1)
            kept = None if kept is None or cells > HELD_CELLS else [*kept, batch]
            yield batch
        if kept is not None:
            known[asked] = kept

    return replace(source, open=read, parts=())


def by_person(
    groups: PersonGroups,
    asked: Estimates,
    estimate: Callable[[Source], Estimates],
    *,
    absent: float | None = None,
) -> Estimates:
    """Return estimates with standard errors from persons.

    `estimate` answers for a part of the copy; a label that a part lacks is `absent` there, or as
    in all rows if None.
    """
    of_persons, of_rows = (
        np.stack(
            [
                labelled_alike(asked, estimate(groups.without(g, by)), absent)
                for g in range(groups.count)
            ]
        ).var(axis=0)
        for by in (groups.persons, groups.rows)
    )
    ratio = np.divide(of_persons, of_rows, out=np.ones_like(of_rows), where=of_rows > 0)
    return replace(asked, standard_error=asked.standard_error * np.sqrt(ratio))


def labelled_alike(whole: Estimates, part: Estimates, absent: float | None) -> Floats:
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
