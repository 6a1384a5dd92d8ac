"""What machines of a cluster do to register a table: samples, surveys and keys, which add up.

rows ── survey, ids ── by bucket ──> the sum of some surveys, ascending keys of a range
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from cornerwave.arrays import Ids
from cornerwave.editions import Ranges
from cornerwave.engines._on_worker import FOUND, IDS, KEYS, Batches, Note, Table, notes_in
from cornerwave.engines._packed import packed, packed_runs, unpacked, unpacked_table
from cornerwave.engines._passes import SampleWork, SurveyWork, order_of, repeated_ids
from cornerwave.neighbours import CELLS, RowOrder, SeenOrder
from cornerwave.survey import Sampler, Survey, Surveyor
from cornerwave.table import Scale, Schema

SUMS = 16
"""Sums that surveys are added up to."""
KEY_RANGES = 1 << 8
"""Ranges of ids, by their first bits."""
RUN_CELLS = CELLS >> 4
"""Cells of a part without positions of which the order is looked at."""


@dataclass(frozen=True, repr=False)
class SampleJob:
    """Samples the columns whose scale depends on their distribution."""

    table: Table

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the sample of all parts."""
        work = SampleWork(Sampler(self.table.schema, self.table.row_secrets))
        found = None
        for start, rows in self.table.groups(batches):
            own = work(start, rows)
            found = own if found is None else found + own
        if found is not None:
            yield _some_bucket(found.parts[0].hashes), FOUND, packed(found)


@dataclass(frozen=True, repr=False)
class SampleSum:
    """Adds up samples."""

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the sum of all samples."""
        found = []
        for note in notes_in(batches):
            if note[1] == FOUND:
                found.append(unpacked(note[2]))
            else:
                yield note
        if found:
            yield 0, FOUND, packed(reduce(add, found))


@dataclass(frozen=True, repr=False)
class SurveyJob:
    """Surveys rows; their ids go by ranges to where they are sorted and compared."""

    table: Table
    scales: tuple[Scale, ...]
    surveyor: type[Surveyor]
    ranges: Ranges | None

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield ids, and the survey of all parts."""
        table, keyed = self.table, self.table.schema.key is not None
        surveyor = self.surveyor(table.schema, self.scales, table.row_secrets)
        work, total, bucket = SurveyWork(surveyor, self.ranges), None, 0
        order, outside = _order_of(table.schema, table.rows), Counter[str]()
        for start, rows in table.groups(batches):
            found = work(start, rows)
            order.add(start, rows)
            outside.update(found.outside)
            work.known = total = found.survey if total is None else total + found.survey
            bucket = bucket or _some_bucket(found.ids[:, 0])
            surveyor.check(total)
            if keyed:
                yield from _by_range(found.ids)
        if total is not None:
            yield bucket, FOUND, _packed_survey(total, order, outside)


@dataclass(frozen=True, repr=False)
class SurveySum:
    """Adds up surveys, sorts keys, and counts those that are repeated."""

    schema: Schema
    rows: int | None

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield the keys of each range, how many are repeated, and the sum of all surveys."""
        ids: dict[int, list[Ids]] = {}
        surveys, order, outside = [], _order_of(self.schema, self.rows), Counter[str]()
        for note in notes_in(batches):
            if note[1] == IDS:
                own = np.frombuffer(note[2], dtype=np.uint64).reshape(-1, 2)
                ids.setdefault(note[0], []).append(own)
            elif note[1] == FOUND:
                survey, seen, beyond = unpacked_survey(note[2])
                surveys.append(survey)
                outside.update(beyond)
                order.take(seen)
            else:
                yield note
        for bucket in sorted(ids):
            yield from _sorted(bucket, np.concatenate(ids.pop(bucket)))
        if surveys:
            yield 0, FOUND, _packed_survey(reduce(add, surveys), order, outside)


def _packed_survey(survey: Survey, order: RowOrder, outside: Counter[str]) -> bytes:
    sample, joint = survey.sample.trimmed(), survey.joint.trimmed()
    survey = replace(survey, sample=sample, joint=joint, units=survey.units.trimmed())
    seen = order.seen
    return packed((survey, packed_runs(seen.runs), list(seen.distant), outside))


def _order_of(schema: Schema, rows: int | None) -> RowOrder:
    cells = RUN_CELLS if rows is None else CELLS
    # the rows of a frame have no places: none of them lie a known number of rows apart
    return order_of(schema, is_placed=rows is not None, rows=rows, cells=cells)


def unpacked_survey(content: bytes) -> tuple[Survey, SeenOrder, Counter[str]]:
    """Return what a job sent: a survey, what was seen of the rows' order, numbers far out."""
    survey, runs, distant, outside = unpacked(content)
    seen = SeenOrder([(start, unpacked_table(rows)) for start, rows in runs], distant)
    return survey, seen, outside


def _some_bucket(hashes: Any) -> int:
    """Return one of few buckets, by chance but always the same for the same rows."""
    return int(hashes[0]) % SUMS if len(hashes) else 0


def _by_range(ids: Ids) -> Iterator[Note]:
    """Yield ids by the first bits of their first word: equal ones meet, and ranges ascend."""
    which = (ids[:, 0] >> np.uint64(56)).astype(np.uint8)  # a byte: sorted by counting
    order = np.argsort(which, kind="stable")
    buckets, firsts = np.unique(which[order], return_index=True)
    for bucket, part in zip(buckets, np.split(ids[order], firsts[1:]), strict=True):
        yield int(bucket), IDS, part.tobytes()


def _sorted(bucket: int, ids: Ids) -> Iterator[Note]:
    """Yield the first words of the ids of a range, ascending, and how many ids are repeated."""
    words = np.sort(ids[:, 0])
    yield bucket, KEYS, words.tobytes()
    if repeated := repeated_ids(ids, words):
        yield bucket, IDS, str(repeated).encode()
