"""Source and copies side by side, in blocks of the same rows.

Rows belong together by position, or by a key column. Files are read ahead, each by a
thread of its own, and never held whole; only a copy whose keys come in another order
than the source's is brought into memory and sorted.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cornerwave.errors import ColumnError, SourceError
from cornerwave.table.categories import Encoded, one_chunk
from cornerwave.table.numbers import is_number, to_floats
from cornerwave.table.read import Source, open_source
from cornerwave.table.schema import is_category
from cornerwave.table.write import read_metadata

BLOCK_ROWS = 1 << 16

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """A source and its copies, row by row; `columns` are the numeric ones they share,
    `categories` those of text, truth values and numbers that were refreshed.

    `names` calls the copies by the shortest ends of their paths that tell them apart,
    `noise` is what each says of itself (None where it says nothing), `sorted_copies`
    are those whose order had to be changed. `logarithmic` columns were perturbed on the
    scale log(1+x) and are compared on it; `left_out` ones cannot be compared, and why.
    """

    source: Source
    copies: tuple[Source, ...]
    names: tuple[str, ...]
    columns: tuple[str, ...]
    noise: tuple[float | None, ...]
    sorted_copies: tuple[str, ...] = ()
    logarithmic: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Any, copies: Sequence[Any], *, key: str | None = None) -> "Aligned":
        """Open the files or frames; raise SourceError or ColumnError if they do not fit."""
        truth, opened = open_source(source), [open_source(copy) for copy in copies]
        names = _short_names([str(copy.path or f"frame {i + 1}") for i, copy in enumerate(opened)])
        stated = [metadata_of(copy) for copy in opened]
        shared = shared_columns([truth, *opened], key)
        categories = category_columns([truth, *opened], stated, key)
        left_out = {
            name: why
            for name in shared
            if name not in categories and (why := _not_comparable(stated, name))
        }
        columns = tuple(name for name in shared if name not in {*left_out, *categories})
        if not columns:
            raise ColumnError(
                f"no number is left to audit: {next(iter(left_out.values()), 'all are categories')}"
            )
        noise = tuple(_stated_noise(told) for told in stated)
        changed: list[str] = []
        if key is not None:
            for i, copy in enumerate(opened):
                if not _same_order(truth, copy, key):
                    opened[i] = _sorted_like(truth, copy, [*columns, *categories], key)
                    changed.append(names[i])
        logarithmic = tuple(name for name in columns if "log1p" in _told(stated, name, "transform"))
        return cls(
            source=truth,
            copies=tuple(opened),
            names=names,
            columns=columns,
            noise=noise,
            sorted_copies=tuple(changed),
            logarithmic=logarithmic,
            left_out=left_out,
            categories=categories,
        )

    def blocks(self) -> Iterator[list[Floats]]:
        """Yield, for the same rows, the columns (N, rows) of the source and of each copy.

        Raises SourceError where one table ends before another.
        """
        yield from self.blocks_of([self.source, *self.copies])

    def blocks_of(self, sources: Sequence[Source]) -> Iterator[list[Floats]]:
        """Yield the same of some of the tables, each read ahead by a thread of its own."""
        yield from _blocks(sources, self.columns, self.logarithmic)

    def category_groups(self) -> Iterator[list[Mapping[str, Encoded]]]:
        """Yield, for the same rows, the encoded categories of the source and of each copy."""
        tables = [self.source, *self.copies]
        for groups in zip(*(t.groups(self.categories, BLOCK_ROWS) for t in tables), strict=True):
            yield [
                {name: Encoded.of(one_chunk(group.column(name)), name) for name in self.categories}
                for group in groups
            ]

    def unscaled(self, rows: Floats) -> Floats:
        """Return rows (n, N) as the tables have them, off the logarithmic scale."""
        if not self.logarithmic:
            return rows
        where = [name in self.logarithmic for name in self.columns]
        return np.where(where, np.expm1(np.where(where, rows, 0.0)), rows)


def _blocks(
    sources: Sequence[Source], columns: Sequence[str], logarithmic: Sequence[str]
) -> Iterator[list[Floats]]:
    with ThreadPoolExecutor(len(sources)) as pool:
        streams = [_ahead(_matrices(source, columns, logarithmic), pool) for source in sources]
        done = 0
        for block in zip_longest(*streams):
            lengths = [0 if part is None else part.shape[1] for part in block]
            if len(set(lengths)) > 1:
                raise SourceError(_lengths_differ(sources, done, lengths))
            done += lengths[0]
            yield list(block)


def shared_columns(sources: Sequence[Source], key: str | None) -> tuple[str, ...]:
    """Return the numeric columns that all tables have; raise ColumnError if there are none."""
    first = sources[0]
    for source in sources:
        if key is not None and key not in source.schema.names:
            raise ColumnError(f"{source.name} has no column {key!r} to align the rows by")
    shared = tuple(
        field.name
        for field in first.schema
        if field.name != key and all(_has_number(source, field.name) for source in sources)
    )
    if not shared:
        raise ColumnError(
            f"{', '.join(source.name for source in sources)} share no numeric column; "
            "columns belong together by their names"
        )
    return shared


def category_columns(
    sources: Sequence[Source], stated: Sequence[Mapping[str, Any]], key: str | None
) -> tuple[str, ...]:
    """Return the category columns that all tables have, by their type or as a copy says."""
    first = sources[0].schema
    shared = [
        part.name
        for part in first
        if part.name != key and all(part.name in source.schema.names for source in sources)
    ]
    return tuple(
        name
        for name in shared
        if "category" in _told(stated, name, "role")
        or (
            not _told(stated, name, "role")
            and all(is_category(source.schema.field(name).type) for source in sources)
        )
    )


def metadata_of(copy: Source) -> Mapping[str, Any]:
    """Return what a copy says of itself; nothing if it says nothing that can be read."""
    if copy.path is None or not copy.path.is_file():
        return {}
    try:
        return read_metadata(copy.path) or {}
    except (OSError, ValueError, TypeError, pa.ArrowException):
        return {}


def _stated_noise(told: Mapping[str, Any]) -> float | None:
    noise = told.get("noise")
    return float(noise) if isinstance(noise, int | float) and noise > 0 else None


def _told(stated: Sequence[Mapping[str, Any]], name: str, what: str) -> list[Any]:
    """Return what each copy that says anything of a column says of it."""
    columns = [told.get("columns") for told in stated]
    own = [each.get(name) for each in columns if isinstance(each, Mapping)]
    return [each.get(what) for each in own if isinstance(each, Mapping)]


def _not_comparable(stated: Sequence[Mapping[str, Any]], name: str) -> str | None:
    """Say why the noise of a column cannot be had as copy minus source, if it cannot."""
    if "rank" in _told(stated, name, "transform"):
        return f"{name} was perturbed on the scale of its ranks, which a copy does not hold"
    if any(_told(stated, name, "clipped")):
        return f"{name} was clipped, which cuts its noise off"
    return None


def _has_number(source: Source, name: str) -> bool:
    return name in source.schema.names and is_number(source.schema.field(name).type)


def _matrices(
    source: Source, columns: Sequence[str], logarithmic: Sequence[str]
) -> Iterator[Floats]:
    for group in source.groups(columns, BLOCK_ROWS):
        matrix = np.empty((len(columns), group.num_rows))
        for row, name in zip(matrix, columns, strict=True):
            row[:] = _floats(_whole(group.column(name)), name)
            if name in logarithmic:
                np.log1p(row, out=row)
        yield matrix


def _floats(array: pa.Array, name: str) -> Floats:
    """Return a column as floats with NaN for missing; whole columns of doubles at once."""
    if array.type == pa.float64() and not array.null_count:
        values: Floats = array.to_numpy()
        with np.errstate(invalid="ignore", over="ignore"):
            whole = bool(np.isfinite(values.sum()))
        if whole:
            return values
    return to_floats(array, name)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _ahead(items: Iterator[Floats], pool: ThreadPoolExecutor) -> Iterator[Floats]:
    """Yield the items while the next one is being made."""
    coming: Future[Floats | None] = pool.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = pool.submit(next, items, None)
        yield item


def _lengths_differ(sources: Sequence[Source], done: int, lengths: list[int]) -> str:
    shortest, longest = lengths.index(min(lengths)), lengths.index(max(lengths))
    return (
        f"{sources[shortest].name} ends after {done + lengths[shortest]:,} rows, "
        f"{sources[longest].name} goes on: they are not copies of the same rows"
    )


def _short_names(paths: list[str]) -> tuple[str, ...]:
    """Return file names without endings, or as much of the paths as tells them apart.

    >>> _short_names(["a/x.csv", "a/y.csv"]), _short_names(["a/x.csv", "b/x.csv"])
    (('x', 'y'), ('a/x.csv', 'b/x.csv'))
    """
    parts = [Path(path).parts for path in paths]
    tries = [[Path(path).name.split(".")[0] or path for path in paths]]
    tries += [["/".join(part[-n:]) for part in parts] for n in range(1, max(map(len, parts)) + 1)]
    names = next((names for names in tries if len(set(names)) == len(set(paths))), tries[-1])
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    )


def _same_order(source: Source, copy: Source, key: str) -> bool:
    pairs = zip_longest(source.groups([key], BLOCK_ROWS), copy.groups([key], BLOCK_ROWS))
    return all(
        one is not None and other is not None and _texts(one, key).equals(_texts(other, key))
        for one, other in pairs
    )


def _texts(table: pa.Table, key: str) -> pa.Array:
    return _whole(pc.cast(table.column(key), pa.string()))


def _sorted_like(source: Source, copy: Source, columns: Sequence[str], key: str) -> Source:
    """Return the copy with its rows in the source's order, in memory."""
    table = pa.Table.from_batches(list(copy.batches([*columns, key])))
    wanted = pa.concat_arrays([_texts(part, key) for part in source.groups([key], BLOCK_ROWS)])
    held = _texts(table, key)
    for name, keys in ((source.name, wanted), (copy.name, held)):
        if len(pc.unique(keys)) < len(keys) or keys.null_count:
            raise ColumnError(f"{name}: {key!r} repeats or is missing in places; it cannot align")
    places = pc.index_in(wanted, value_set=held)
    if places.null_count or len(wanted) != len(held):
        raise SourceError(
            f"{copy.name} and {source.name} do not have the same keys in {key!r}: "
            "they are not copies of the same rows"
        )
    frame = open_source(table.take(places).select(list(columns)))
    return Source(frame.schema, frame.open, copy.path)
