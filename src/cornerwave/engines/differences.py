"""Two editions of a table, row by row, by their keys, in bounded memory.

    old ── groups ──┐                              ┌── pairs of rows that differ
                    ├── rows that have met by key ─┤
    new ── groups ──┘   others wait, or in a file  └── rows that came, rows that went

Both tables are read side by side. Rows in about the same order meet while they are in memory.
If many wait, or the order is another, all of them are put into buckets by the hash of their key,
which are joined one by one; what does not fit into memory is in a file without a name. Threads
read the groups, put rows into buckets and join them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa

from cornerwave.engines._row_words import Differing, RowWords, matching
from cornerwave.engines._waiting_rows import WaitingRows
from cornerwave.engines.local import in_threads
from cornerwave.neighbours import RowOrder
from cornerwave.rows import RowSecrets, numbered
from cornerwave.table import Fingerprint, Progress, Schema, Source, silent

__all__ = ["Differences", "Differing", "RowWords"]

WAITING_WORDS = 1 << 24
"""Words of rows that wait in memory for their counterpart."""
SCATTERED, FEW = 0.25, 4096
"""Fewer rows than this share of so many that have met: the tables are in different orders."""


class Differences:
    """Reads two editions, and yields what differs; afterwards it has their fingerprints."""

    def __init__(
        self,
        schema: Schema,
        secrets: RowSecrets,
        folder: Path,
        order: RowOrder,
        progress: Progress = silent,
    ) -> None:
        """`folder` is for files with rows in them; `order` looks at the rows of the new table."""
        self._schema, self._secrets, self._folder = schema, secrets, folder
        self._order, self._progress = order, progress
        self.old = self.new = Fingerprint.nothing()
        self._values = len(schema.perturbed) + len(schema.encoded)
        self._nothing = RowWords.nothing(self._values)
        self._most = max(1024, WAITING_WORDS // (4 + self._values))
        self._scattered = False

    def between(self, old: Source, new: Source) -> Iterator[Differing]:
        """Yield what differs between two sources, in no particular order."""
        waiting = {False: self._nothing, True: self._nothing}
        with (
            WaitingRows(self._folder, self._values) as apart,
            self._reading(old, new, apart) as read,
        ):
            for is_new, rows, part in read:
                self._count(is_new, part)
                if rows is None:  # they wait apart already
                    continue
                waiting[is_new] = waiting[is_new].then(rows)
                if is_new:
                    yield self._met(waiting)
                if self._scattered or max(map(len, waiting.values())) > self._most:
                    for which, some in waiting.items():
                        apart.take(which, some)
                        waiting[which] = self._nothing
            for which, some in waiting.items():
                apart.take(which, some)
            yield from apart.differing()

    def _both(self, old: Source, new: Source) -> Iterator[tuple[bool, int, pa.Table]]:
        """Yield (whether it is new, first row, rows) of both tables in turns."""
        before = numbered(old, self._schema)
        after = self._order.passing(numbered(new, self._schema))
        for pair in zip_longest(before, after):
            for is_new, group in zip((False, True), pair, strict=True):
                if group is not None:
                    yield is_new, *group

    def _reading(
        self, old: Source, new: Source, apart: WaitingRows
    ) -> AbstractContextManager[Iterator[tuple[bool, RowWords | None, Fingerprint]]]:
        """Give the rows of each group; once the order is known to be another, they wait apart."""

        def read(item: tuple[bool, int, pa.Table]) -> tuple[bool, RowWords | None, Fingerprint]:
            is_new, start, table = item
            rows, part = RowWords.with_fingerprint(start, table, self._schema, self._secrets)
            if not self._scattered:
                return is_new, rows, part
            apart.take(is_new, rows)
            return is_new, None, part

        return in_threads(read, self._both(old, new), None)

    def _count(self, is_new: bool, part: Fingerprint) -> None:
        if is_new:
            self.new = self.new + part
        else:
            self.old = self.old + part
        self._progress(part.rows)

    def _met(self, waiting: dict[bool, RowWords]) -> Differing:
        """Return the rows that have met and differ; leave those that have not."""
        old, new = waiting[False], waiting[True]
        nothing = self._nothing
        if not len(old) or not len(new):
            return Differing(nothing, nothing, nothing, nothing)
        if len(old) == len(new) and np.array_equal(old.ids, new.ids):
            waiting[False] = waiting[True] = nothing
            rows = np.flatnonzero(old.macs != new.macs)
            return Differing(old.take(rows), new.take(rows), nothing, nothing)
        matches = matching(old.ids, new.ids)
        here = np.flatnonzero(matches >= 0)
        there = matches[here]
        # in another order hardly any rows meet by chance: then looking for them is in vain
        self._scattered = len(here) < SCATTERED * min(len(old), len(new)) and len(new) > FEW
        alone = np.ones(len(new), dtype=bool)
        alone[there] = False
        waiting[False], waiting[True] = old.take(matches < 0), new.take(alone)
        rows = np.flatnonzero(old.macs[here] != new.macs[there])
        return Differing(old.take(here[rows]), new.take(there[rows]), nothing, nothing)
