"""Two editions of a table, row by row, by their keys, in bounded memory.

    old ── MACs of all rows ──┐               ┌── rows of old ──┐
                              ├── those alone ┤                 ├── changed, came, went
    new ── MACs of all rows ──┘               └── rows of new ──┘

A row that has its MAC in both tables is the same in both: two rows that differ have one with
probability below 2^-62 (table/_fingerprint). MACs meet where the rows are at the same place,
else in buckets: 16 bytes a row. Rows whose MAC is alone are read again and joined by their ids.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave import sizes
from cornerwave.arrays import Flags, Floats, Ids, Ints, Words, places_among
from cornerwave.columns import Fingerprint, Schema, with_distances
from cornerwave.engines._shuffle import Buckets
from cornerwave.errors import ColumnError, SourceChanged
from cornerwave.passes import in_threads
from cornerwave.privacy import RowOrder
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.rows import Group, RowSecrets, numbered, row_ids
from cornerwave.spine.survey import Survey, Surveyor, no_rows

Numbered = tuple[int, pa.Table]
"""Some rows of a table, and the number of the first before them."""
MacsAt = tuple[int, Words]
"""The MACs of some rows, and the number of the first before them."""

ENOUGH = 1 << 15
"""Rows that differ and are worth being surveyed by themselves."""

_1, _NEAR = np.uint64(1), np.uint64(0xFFFF)


@dataclass(frozen=True)
class RowWords:
    """Some rows: their ids (rows, 2) and words (values, rows).

    A word is 64 bits of a value: a number itself, a keyed hash of any other cell.
    """

    ids: Ids
    words: Words

    @classmethod
    def of(cls, records: Words) -> "RowWords":
        """Return the rows that waited in buckets: of each the id, then the words."""
        return cls(records[:, :2].copy(), np.ascontiguousarray(records[:, 2:].T))

    def __len__(self) -> int:
        return len(self.ids)

    def numbers(self, count: int) -> Floats:
        """Return the first `count` values of each row, which are numbers."""
        return self.words[:count].view(np.float64)


@dataclass(frozen=True)
class Differing:
    """Some rows that differ: pairs of rows that changed, rows that came and rows that went."""

    old: RowWords
    new: RowWords
    came: RowWords
    went: RowWords


@dataclass(frozen=True)
class Unmatched:
    """Which rows of a table are not in the other, and the sum of their MACs modulo 2^64."""

    rows: Flags
    macs: int


@dataclass(frozen=True)
class Compared:
    """The fingerprints of two editions, and which rows of each are not in the other."""

    old: Fingerprint
    new: Fingerprint
    alone: tuple[Unmatched, Unmatched]


def compare(
    old: Source,
    new: Source,
    schema: Schema,
    secrets: RowSecrets,
    folder: Path,
    order: RowOrder,
    progress: Progress = silent,
) -> Compared:
    """Find which rows differ. `folder` is for a file of MACs; `order` looks at the new rows."""

    def recognised(some: Numbered | None) -> tuple[Fingerprint, MacsAt]:
        if some is None:  # the other table has more rows
            return Fingerprint.nothing(), (0, np.empty(0, dtype=np.uint64))
        start, table = some
        ids = row_ids(start, table, schema, secrets)
        part, macs = Group.of(ids, table, schema, secrets).recognised(secrets)
        return part, (start, macs)

    def work(pair: Sequence[Numbered | None]) -> list[Fingerprint]:
        parts, macs = zip(*map(recognised, pair), strict=True)
        for is_new, macs_of_one in zip((False, True), _elsewhere(*macs), strict=True):
            buckets.take(is_new, macs_of_one)
        return list(parts)

    prints = [Fingerprint.nothing(), Fingerprint.nothing()]
    placed = ((start, with_distances(t, schema.relative)) for start, t in numbered(new, schema))
    pairs = zip_longest(numbered(old, schema), order.passing(placed))
    with Buckets(folder, 2) as buckets:
        with in_threads(work, pairs, None) as parts:
            for both in parts:
                prints = [whole + part for whole, part in zip(prints, both, strict=True)]
                progress(sum(part.rows for part in both))
        rows = [np.zeros(each.rows, dtype=bool) for each in prints]
        sums = [0, 0]
        for records in buckets.joined(_alone):
            for number, macs_of_one in enumerate(records):
                rows[number][macs_of_one[:, 1].astype(np.int64)] = True
                sums[number] += int(macs_of_one[:, 0].sum())
    alone = (Unmatched(rows[0], sums[0]), Unmatched(rows[1], sums[1]))
    return Compared(prints[0], prints[1], alone)


class DifferingRows:
    """Rows that are in one of two editions alone: read again, surveyed, and joined by their ids."""

    def __init__(self, surveyor: Surveyor, folder: Path, progress: Progress = silent) -> None:
        """`folder` is for a file of rows."""
        schema = surveyor.schema
        self._surveyor, self._progress = surveyor, progress
        self._buckets = Buckets(folder, 2 + len(schema.perturbed) + len(schema.encoded))
        self._old = np.empty(0, dtype=np.uint64)

    def __enter__(self) -> "DifferingRows":
        return self

    def __exit__(self, *_: object) -> None:
        self._buckets.close()

    def read_old(self, source: Source, alone: Unmatched) -> None:
        """Read the rows of the old edition. Raises SourceChanged."""

        def work(rows: pa.Table) -> tuple[Words, int]:
            ids = self._ids(rows)
            return ids[:, 0].copy(), self._wait(False, ids, rows)

        total, hashes = 0, [self._old]
        with in_threads(work, self._chosen(source, alone), None) as parts:
            for part_hashes, macs in parts:
                hashes.append(part_hashes)
                total += macs
        self._old = np.sort(np.concatenate(hashes))
        _check_again(alone, total)

    def survey_new(
        self, source: Source, alone: Unmatched, look: Callable[[pa.Table], None]
    ) -> tuple[Survey, Survey]:
        """Read the rows of the new edition, after the old; `look` sees them too.

        Return the survey of those that changed, and of those that came. Raises SourceChanged.
        """

        def work(some: tuple[bool, int, Ids, pa.Table]) -> tuple[bool, Survey, int]:
            is_came, first, ids, rows = some
            survey = self._surveyor.of(ids, rows, np.arange(first, first + len(ids)))
            return is_came, survey, self._wait(True, ids, rows)

        total = 0
        surveys = [no_rows(self._surveyor), no_rows(self._surveyor)]
        with in_threads(work, self._in_two(source, alone, look), None) as parts:
            for is_came, part, macs in parts:
                surveys[is_came] = surveys[is_came] + part
                total += macs
        _check_again(alone, total)
        changed, came = surveys
        return changed, came

    def _in_two(
        self, source: Source, alone: Unmatched, look: Callable[[pa.Table], None]
    ) -> Iterator[tuple[bool, int, Ids, pa.Table]]:
        """Yield rows that changed and rows that came: which they are, as if they were neighbours.

        What lies between them is known already.
        """
        before = [0, 0]
        for table in self._chosen(source, alone):
            ids = self._ids(table)
            came = places_among(self._old, ids[:, 0]) < 0
            for is_came, chosen in ((False, ~came), (True, came)):
                if chosen.any():
                    rows = table.filter(pa.array(chosen))
                    look(rows)
                    yield is_came, before[is_came], ids[chosen], rows
                    before[is_came] += len(rows)

    def joined(self) -> Iterator[Differing]:
        """Yield which rows changed, came and went, of several buckets at a time."""
        pending: list[tuple[Words, ...]] = []
        for one in self._buckets.joined(_differing):
            pending.append(one)
            if sum(map(len, chain(*pending))) > sizes.CHANGED_ROWS:
                yield _together(pending)
                pending = []
        if pending:
            yield _together(pending)

    def _chosen(self, source: Source, alone: Unmatched) -> Iterator[pa.Table]:
        """Yield the rows that are not in the other table, those of several groups at a time."""
        held: list[pa.Table] = []
        for start, table in numbered(source, self._surveyor.schema):
            chosen = alone.rows[start : start + table.num_rows]
            if len(chosen) < table.num_rows:
                raise _changed()
            held += [table.filter(pa.array(chosen))] if chosen.any() else []
            if sum(map(len, held)) >= ENOUGH:
                yield pa.concat_tables(held)
                held = []
            self._progress(table.num_rows)
        if held:
            yield pa.concat_tables(held)

    def _ids(self, rows: pa.Table) -> Ids:
        return row_ids(0, rows, self._surveyor.schema, self._surveyor.secrets)

    def _wait(self, is_new: bool, ids: Ids, rows: pa.Table) -> int:
        """Let rows wait for those of the other edition; return the sum of their MACs."""
        group = Group.of(ids, rows, self._surveyor.schema, self._surveyor.secrets)
        _, macs = group.recognised(self._surveyor.secrets)
        self._buckets.take(is_new, np.vstack([ids.T, group.words]))
        return int(macs.sum())


def _check_again(alone: Unmatched, macs: int) -> None:
    """Raise SourceChanged unless the rows that were read again are those of before."""
    if (macs - alone.macs) % 2**64:
        raise _changed()


def _changed() -> SourceChanged:
    return SourceChanged("a table changed while it was read; nothing was done. Repeat the command")


def _elsewhere(old: MacsAt, new: MacsAt) -> tuple[Words, Words]:
    """Return the rows of two groups without those that are equal at one place: MAC and place."""
    both = min(len(old[1]), len(new[1])) if old[0] == new[0] else 0
    differ = old[1][:both] != new[1][:both]
    return _columns(*old, differ), _columns(*new, differ)


def _columns(start: int, macs: Words, chosen: Flags) -> Words:
    """Return MACs and places of the rows that are chosen, and of those after them."""
    columns = np.stack([macs, np.arange(start, start + len(macs), dtype=np.uint64)])
    if chosen.all():
        return columns
    return columns[:, np.append(chosen, np.ones(len(macs) - len(chosen), dtype=bool))]


def _alone(old: Words, new: Words) -> tuple[Words, Words]:
    """Return the rows whose MAC is in one table alone, or twice in one.

    The lowest bit of a MAC is replaced by from which table it is.
    """
    macs = np.concatenate([old[:, 0] & ~_1, new[:, 0] | _1])
    ascending = np.sort(macs)
    alone = ascending[~_paired(ascending)]
    near = np.zeros(1 << 16, dtype=bool)  # most rows are seen at once to be none of them
    near[alone >> _1 & _NEAR] = True
    rows = np.flatnonzero(near[macs >> _1 & _NEAR])
    rows = rows[places_among(alone, macs[rows]) >= 0]
    cut = np.searchsorted(rows, len(old))
    return old[rows[:cut]], new[rows[cut:] - len(old)]


def _paired(ascending: Words) -> Flags:
    """Return which of some ascending MACs are there once in either table."""
    steps = ascending[1:] ^ ascending[:-1]
    pairs, near = steps == _1, steps <= _1
    pairs[1:] &= ~near[:-1]  # no third of the same
    pairs[:-1] &= ~near[1:]
    paired = np.zeros(len(ascending), dtype=bool)
    paired[:-1] |= pairs
    paired[1:] |= pairs
    return paired


def _differing(old: Words, new: Words) -> tuple[Words, Words, Words, Words]:
    """Return which of some rows changed, old and new ones, which came and which went."""
    partners, repeated = _partners(old, new)
    if repeated:
        raise ColumnError("the key column of the new table is not unique: a key is there twice")
    changed, came = partners >= 0, np.ones(len(new), dtype=bool)
    came[partners[changed]] = False
    return old[changed], new[partners[changed]], new[came], old[~changed]


def _together(parts: list[tuple[Words, ...]]) -> Differing:
    old, new, came, went = (RowWords.of(np.concatenate(rows)) for rows in zip(*parts, strict=True))
    return Differing(old, new, came, went)


def _partners(old: Words, new: Words) -> tuple[Ints, int]:
    """Return for each old row which new one has its id, two words in front; -1 for none.

    And how many new rows found that another has their partner.
    """
    places = pc.index_in(_as_bytes(new), value_set=_as_bytes(old)).fill_null(-1).to_numpy()
    known = np.flatnonzero(places >= 0)
    partners = np.full(len(old), -1, dtype=np.int64)
    partners[places[known]] = known
    return partners, len(known) - int(np.count_nonzero(partners >= 0))


def _as_bytes(rows: Words) -> pa.Array:
    """Return the ids of some rows, two words in front, as 16 bytes each."""
    ids = np.ascontiguousarray(rows[:, :2])
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(ids), [None, pa.py_buffer(ids)])
