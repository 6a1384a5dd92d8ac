"""THE SPINE: read -> check -> perturb -> write -> record.

A copy is a pure function of the source's rows, the dataset's key and the ledger's
levels. So the ledger line comes first; the file is made from it, and can be made
again, bit for bit, by anybody who holds the key. One pass over the source makes all
copies of a batch and recomputes the fingerprint; nothing is published unless it is
the registered one.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cornerwave.errors import SourceChanged, SourceError
from cornerwave.levels import Level
from cornerwave.noise.path import steps
from cornerwave.noise.reading import BLOCK_CELLS, Reader, Reading, available_threads
from cornerwave.noise.stream import strict
from cornerwave.rows import Group, Secrets, group_rows, numbered
from cornerwave.table.fingerprint import Fingerprint
from cornerwave.table.read import Source
from cornerwave.table.schema import PERTURBED
from cornerwave.vault.frozen import Frozen
from cornerwave.vault.key import Key
from cornerwave.version import __version__

Floats = NDArray[np.float64]


class Sink(Protocol):
    """Where a copy goes, group by group."""

    def write(self, group: pa.Table) -> None:
        """Take the next rows."""


@dataclass(frozen=True)
class Order:
    """Which copies to make: the dataset, its levels in ledger order, and those wanted."""

    dataset: str
    frozen: Frozen
    noise: tuple[float, ...]
    wanted: tuple[Level, ...]

    @property
    def copy_schema(self) -> pa.Schema:
        """The columns of a copy: numbers as floats, in the source's order."""
        types = self.frozen.source_types
        return pa.schema([_field(column, types) for column in self.frozen.schema.shown])

    def metadata(self, level: Level) -> dict[str, Any]:
        """Return what a copy says of itself; nothing in it comes from single rows."""
        return {
            "dataset": self.dataset,
            "noise": level.noise,
            "privacy": level.privacy,
            "rows": self.frozen.rows,
            "version": __version__,
            "noise_format": self.frozen.noise_format,
            "columns": {
                column.name: {"role": column.role, "unit": column.unit}
                for column in self.frozen.schema.shown
            },
        }


def make_copies(
    source: Source,
    order: Order,
    sinks: Sequence[Sink],
    *,
    key: Key,
    threads: int | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> None:
    """Write each wanted copy into its sink, in one pass over the source.

    `key` is the dataset's. Raises SourceChanged if the table is not the registered one:
    then nothing of what was written may be shown to anybody.
    """
    schema, secrets = order.frozen.schema, Secrets.of(key)
    fingerprint: Fingerprint | None = None
    try:
        with _Workshop(order, secrets, sinks, threads or available_threads()) as workshop:
            for part in workshop.run(numbered(source, schema)):
                fingerprint = part if fingerprint is None else fingerprint + part
                progress(part.rows)
    except SourceError as error:
        raise SourceChanged(f"not the table that was registered: {error}") from None
    if str(fingerprint) != order.frozen.fingerprint:
        raise SourceChanged(_difference(fingerprint, order.frozen))


class _Workshop:
    """Threads that perturb groups side by side, while each sink is written in order."""

    def __init__(self, order: Order, secrets: Secrets, sinks: Sequence[Sink], threads: int) -> None:
        self._order, self._secrets, self._sinks = order, secrets, sinks
        self._threads = threads
        path = steps(order.noise)
        self._reading = Reading(path, [order.noise.index(level.noise) for level in order.wanted])
        self._readers: SimpleQueue[Reader] = SimpleQueue()
        self._writes: list[Future[None]] = []
        columns = len(order.frozen.schema.perturbed)
        self._block_rows = min(max(1, BLOCK_CELLS // columns), group_rows(order.frozen.schema))
        for _ in range(threads):
            self._readers.put(
                Reader(self._reading, secrets.noise, columns=columns, rows=self._block_rows)
            )

    def __enter__(self) -> "_Workshop":
        self._pool = ThreadPoolExecutor(self._threads)
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, groups: Any) -> Any:
        """Yield the fingerprint of each group whose copies have been handed to the sinks."""
        under_way: deque[Future[tuple[Fingerprint, list[pa.Table]]]] = deque()
        for start, table in groups:
            under_way.append(self._pool.submit(self._perturb, start, table))
            if len(under_way) > self._threads:
                yield self._hand_over(under_way.popleft())
        while under_way:
            yield self._hand_over(under_way.popleft())
        self._finish_writes()

    def _hand_over(self, made: Future[tuple[Fingerprint, list[pa.Table]]]) -> Fingerprint:
        fingerprint, copies = made.result()
        self._finish_writes()
        self._writes = [
            self._pool.submit(sink.write, copy)
            for sink, copy in zip(self._sinks, copies, strict=True)
        ]
        return fingerprint

    def _finish_writes(self) -> None:
        for write in self._writes:
            write.result()

    def _perturb(self, start: int, table: pa.Table) -> tuple[Fingerprint, list[pa.Table]]:
        try:
            return self._perturbed(start, table)
        except pa.ArrowException:  # its words may quote a cell
            raise SourceError("a column no longer holds the kind of value it held") from None

    def _perturbed(self, start: int, table: pa.Table) -> tuple[Fingerprint, list[pa.Table]]:
        frozen = self._order.frozen
        group = Group.of(start, table, frozen.schema, self._secrets)
        fingerprint = group.fingerprint(frozen.schema, self._secrets)
        reader = self._readers.get()
        try:
            copies = perturb(group, reader, frozen, self._block_rows)
        finally:
            self._readers.put(reader)
        return fingerprint, [
            _copy_table(self._order, group, copies[self._order.noise.index(level.noise)])
            for level in self._order.wanted
        ]


def perturb(group: Group, reader: Reader, frozen: Frozen, block_rows: int) -> dict[int, Floats]:
    """Return the perturbed columns (N, rows) of a group for each wanted level, on the grid."""
    copies: dict[int, Floats] = {}
    rows = group.numbers.shape[1]
    for start in range(0, rows, block_rows):
        ids = group.ids[start : start + block_rows]
        for index, white in reader.white(ids):
            if index not in copies:
                copies[index] = np.empty_like(group.numbers)
            add_on_grid(group.numbers, frozen.factor, white, frozen.grid, copies[index], start)
    return copies


@strict
def add_on_grid(x: Any, factor: Any, white: Any, grid: Any, out: Any, start: int) -> None:
    """Fill out[:, start:] with x + factor @ white, both as whole numbers of grid steps.

    The value in steps is whole, so rounding the noise rounds their sum: a copy on the
    grid is a function of the raw copy, and its low bits tell nothing. A column with
    grid 0 is constant and stays as it is.
    """
    columns, rows = white.shape
    for i in range(columns):
        xi, oi = x[i, start : start + rows], out[i, start : start + rows]
        step = grid[i]
        if step == 0.0:
            for row in range(rows):
                oi[row] = xi[row]
            continue
        per_step = 1.0 / step
        weight, w = factor[i, 0], white[0]
        for row in range(rows):
            oi[row] = weight * w[row]
        for k in range(1, i + 1):
            weight, w = factor[i, k], white[k]
            for row in range(rows):
                oi[row] += weight * w[row]
        for row in range(rows):
            oi[row] = (np.rint(xi[row] * per_step) + np.rint(oi[row] * per_step)) * step


def _copy_table(order: Order, group: Group, numbers: Floats) -> pa.Table:
    schema = order.frozen.schema
    perturbed = dict(zip(schema.perturbed, numbers, strict=True))
    arrays = [
        pa.array(perturbed[column.name], from_pandas=True)
        if column.role == PERTURBED
        else group.table.column(column.name)
        for column in schema.shown
    ]
    return pa.table(arrays, names=[column.name for column in schema.shown]).cast(order.copy_schema)


def _field(column: Any, types: pa.Schema) -> pa.Field:
    if column.role != PERTURBED:
        return pa.field(column.name, types.field(column.name).type)
    return pa.field(column.name, pa.float64())


def _difference(found: Fingerprint | None, frozen: Frozen) -> str:
    rows = found.rows if found else 0
    if rows != frozen.rows:
        what = f"it has {rows:,} rows, {frozen.rows:,} were registered"
    elif frozen.schema.key is None:
        what = "a value differs, or rows changed places"
    else:
        what = "a value differs"
    return (
        f"not the table that was registered: {what}. The same noise on other values would give "
        "the difference away, so nothing was written. Restore the registered table"
    )
