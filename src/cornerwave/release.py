"""THE SPINE: read -> check -> perturb -> write -> record.

A copy is a pure function of the source's rows, the dataset's key and the ledger's
levels. So the ledger line comes first; the file is made from it, and can be made
again, bit for bit, by anybody who holds the key. One pass over the source makes all
copies of a batch and recomputes the fingerprint; nothing is published unless it is
the registered one.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ids
from cornerwave.errors import SourceChanged, SourceError
from cornerwave.frozen import Frozen
from cornerwave.levels import Level, retention
from cornerwave.missing import fill_missing
from cornerwave.noise import (
    BLOCK_CELLS,
    Reader,
    Reading,
    add_on_grid,
    available_threads,
    refresh,
    steps,
)
from cornerwave.rows import Group, Secrets, group_rows, numbered
from cornerwave.table import CATEGORY, ENCODED_TEXT, PERTURBED, Column, Finish, Source, plain_type
from cornerwave.table.fingerprint import Fingerprint
from cornerwave.vault.key import Key
from cornerwave.version import __version__


class Sink(Protocol):
    """Where a copy goes, group by group."""

    def write(self, group: pa.Table) -> None:
        """Take the next rows."""


@dataclass(frozen=True)
class Wanted:
    """A copy that is wanted: its level, and what is done to it after the noise."""

    level: Level
    finish: Finish = field(default_factory=Finish)


@dataclass(frozen=True)
class Order:
    """Which copies to make: the dataset, its levels in ledger order, and those wanted."""

    dataset: str
    frozen: Frozen
    noise: tuple[float, ...]
    wanted: tuple["Wanted", ...]

    def copy_schema(self, wanted: "Wanted") -> pa.Schema:
        """Return the columns of a copy, in the source's order; numbers are floats or rounded.

        Text that was refreshed has its distinct values apart on the way to the sinks.
        """
        types = self.frozen.source_types
        return pa.schema(
            [_field(column, types, wanted.finish) for column in self.frozen.schema.shown]
        )

    def metadata(self, wanted: "Wanted") -> dict[str, Any]:
        """Return what a copy says of itself; nothing in it comes from single rows."""
        level = wanted.level
        return {
            "dataset": self.dataset,
            "noise": level.noise,
            "privacy": level.privacy,
            "retention": retention(level.noise),
            "rows": self.frozen.rows,
            "version": __version__,
            "noise_format": self.frozen.noise_format,
            "columns": {
                column.name: describe(column, self.frozen, wanted)
                for column in self.frozen.schema.shown
            },
        }


def describe(column: Column, frozen: Frozen, wanted: Wanted) -> dict[str, Any]:
    """Return what a recipient needs to know about a column to reckon with its noise."""
    type_ = frozen.source_types.field(column.name).type
    plain = str(plain_type(type_))
    told: dict[str, Any] = {"role": column.role, "type": plain, "unit": column.unit}
    if column.role == PERTURBED:
        place = frozen.schema.perturbed.index(column.name)
        told["transform"] = column.transform
        told |= wanted.finish.describe(
            column.name,
            type_,
            mean=float(frozen.mean[place]),
            deviation=float(np.sqrt((1 + wanted.level.noise) * frozen.covariance[place, place])),
            scale=frozen.scales[place],
        )
    if column.role in (PERTURBED, CATEGORY):
        told["missing"] = "hidden" if column.hide_missing else "shown"
    for categories in frozen.categories:
        if column.name in categories.columns:
            # what is pooled in a column that is no text leaves as missing, a value like the others
            as_missing = categories.pooled and bool((categories.combinations[-1] < 0).all())
            told["missing"] = "hidden" if categories.hides_missing or as_missing else "shown"
            told["base"] = categories.base
            told["pooled"] = categories.pooled
            told["categories"] = len(categories.counts)
            told["together"] = list(categories.columns) if len(categories.columns) > 1 else None
    return told


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
        self._reading = Reading(
            path, [order.noise.index(wanted.level.noise) for wanted in order.wanted]
        )
        self._readers: SimpleQueue[Reader] = SimpleQueue()
        self._writes: list[Future[None]] = []
        columns = len(order.frozen.schema.perturbed)
        self._block_rows = min(
            max(1, BLOCK_CELLS // max(1, columns)), group_rows(order.frozen.schema)
        )
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
        order, frozen = self._order, self._order.frozen
        group = Group.of(start, table, frozen.schema, self._secrets)
        fingerprint = group.fingerprint(self._secrets)
        x = fill_missing(frozen.scaled(group.numbers), group.ids, frozen, self._secrets.missing)
        reader = self._readers.get()
        try:
            numbers = perturb(x, group.ids, reader, frozen, self._block_rows)
        finally:
            self._readers.put(reader)
        distinct = sorted({wanted.level.noise for wanted in order.wanted})
        refreshed = refresh_categories(group, frozen, distinct, self._secrets.noise)
        return fingerprint, [
            _copy_table(
                order,
                wanted,
                group,
                frozen.unscaled(numbers[order.noise.index(wanted.level.noise)]),
                refreshed[distinct.index(wanted.level.noise)],
            )
            for wanted in order.wanted
        ]


def perturb(
    x: Floats, ids: Ids, reader: Reader, frozen: Frozen, block_rows: int
) -> dict[int, Floats]:
    """Return columns x (N, rows) with the noise of each level that is read, on the grid."""
    columns, rows = x.shape
    copies = {index: np.empty_like(x) for index in reader.wanted}
    for start in range(0, rows if columns else 0, block_rows):
        for index, white in reader.white(ids[start : start + block_rows]):
            add_on_grid(x, frozen.factor, white, frozen.grid, copies[index], start)
    return copies


def refresh_categories(
    group: Group, frozen: Frozen, noise: Sequence[float], key: bytes
) -> list[dict[str, pa.Array]]:
    """Return the refreshed category columns of a group, by name, for each noise."""
    copies: list[dict[str, pa.Array]] = [{} for _ in noise]
    for place, categories in enumerate(frozen.categories):
        codes = refresh(
            categories.encode(group.columns_of(categories.columns)),
            group.ids,
            noise=noise,
            bounds=categories.bounds,
            key=key,
            column=place,
        )
        for copy, own in zip(copies, codes, strict=True):
            copy.update(zip(categories.columns, categories.decode(own), strict=True))
    return copies


def _copy_table(
    order: Order,
    wanted: Wanted,
    group: Group,
    numbers: Floats,
    categories: Mapping[str, pa.Array],
) -> pa.Table:
    schema, types = order.frozen.schema, order.frozen.source_types
    made: dict[str, Any] = {
        name: wanted.finish.apply(name, values, types.field(name).type)
        for name, values in zip(schema.perturbed, numbers, strict=True)
    }
    made |= categories
    names = [column.name for column in schema.shown]
    arrays = [made[name] if name in made else group.table.column(name) for name in names]
    return pa.table(arrays, names=names).cast(order.copy_schema(wanted))


def _field(column: Column, types: pa.Schema, finish: Finish) -> pa.Field:
    type_ = types.field(column.name).type
    if column.role == PERTURBED:
        return pa.field(column.name, finish.type_of(column.name, type_))
    plain = plain_type(type_)
    apart = column.role == CATEGORY and plain == pa.string()
    return pa.field(column.name, ENCODED_TEXT if apart else plain)


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
