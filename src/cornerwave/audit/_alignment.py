"""Source and copies side by side, in blocks of the same rows.

Rows are matched by position, or by a key column. Each file is read ahead by a thread of
its own and never held whole; only a copy whose keys are in another order than the
source's is read into memory and sorted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._blocks import (
    BLOCK_ROWS,
    AlignedCategories,
    AlignedRows,
    BlockReading,
    side_by_side,
)
from cornerwave.audit._chance import LEAST_AUDITED
from cornerwave.audit._membership import Persons, rows_at
from cornerwave.audit._stated import Stated, by_source_names
from cornerwave.choices import SHUFFLE
from cornerwave.columns import (
    MOST_UNITS,
    AsLeft,
    Relative,
    SameSpread,
    category_type,
    is_number,
    is_text,
    one_chunk,
)
from cornerwave.errors import ColumnError, SourceError
from cornerwave.passes import Found, Pass, Result, add_up
from cornerwave.sources import Progress, Source, open_source, silent


@dataclass(frozen=True)
class Aligned:
    """A source and its copies, row by row; `columns` are the numeric columns they share,
    `categories` the groups of columns that were refreshed, most of one column each.

    `names` are the shortest distinct ends of the copies' paths, `stated` is their metadata,
    `sorted_copies` names those whose rows were reordered. `logarithmic` columns are compared
    on the scale log(1+x); numbers `apart` are judged each by itself, for the reason given;
    `left_out` states why a column cannot be compared. Rows are matched by the `key`, if there is
    one. `persons` is which rows belong together, if any do; of one row of each, `whole` is
    all rows.
    """

    source: Source
    copies: tuple[Source, ...]
    names: tuple[str, ...]
    columns: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    stated: Stated
    apart: Mapping[str, str] = field(default_factory=dict)
    sorted_copies: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    persons: Persons | None = None
    whole: "Aligned | None" = None

    @classmethod
    def of(
        cls,
        source: Any,
        copies: Sequence[Any],
        *,
        key: str | None = None,
        unit: str | Sequence[str] | None = None,
        privacy: Sequence[float] | None = None,
        is_matched: bool = False,
    ) -> Self:
        """Open the files or frames; raise SourceError or ColumnError if they do not fit.

        Copies that are matched have their rows in the order of the source already.
        """
        truth = open_source(source)
        opened = [_opened_like(truth, copy) for copy in copies]
        names = _short_names([str(copy.path or f"frame {i + 1}") for i, copy in enumerate(opened)])
        stated = Stated.of(opened, privacy)
        _check_matching(truth, opened, stated, key)
        units = _units_of(truth, stated, unit)
        kinds = _Kinds.of([truth, *opened], stated, (key, *units))
        bases = stated.relative([*kinds.numbers, *kinds.apart]).values()
        wanted = [
            *kinds.numbers,
            *kinds.apart,
            *bases,
            *(n for group in kinds.categories for n in group),
        ]
        changed: list[str] = []
        for i, copy in enumerate(opened):
            if key is not None and not is_matched and not _same_order(truth, copy, key):
                shown = [each for each in units if each in copy.schema.names]
                opened[i] = _sorted_like(truth, copy, [*wanted, *shown], key)
                changed.append(names[i])
        return cls(
            source=truth,
            copies=tuple(opened),
            names=names,
            columns=kinds.numbers,
            categories=kinds.categories,
            stated=stated,
            apart=kinds.apart,
            sorted_copies=tuple(changed),
            left_out=kinds.left_out,
            key=key,
            persons=Persons.nested(truth, units) if units else None,
        )

    def one_row_each(self) -> "Aligned":
        """Return one row of each person, chosen by chance: their noise is independent.

        Raises SourceError if there are too few persons.
        """
        if self.persons is None:
            return self
        if self.persons.count < LEAST_AUDITED:
            raise SourceError(
                f"{self.source.name} has {self.persons.count:,} values of {self.persons.unit!r}; "
                f"an audit needs at least {LEAST_AUDITED} persons"
            )
        places = self.persons.one_row_each
        held = {each.name: getattr(self, each.name) for each in fields(Aligned)}
        held["source"] = rows_at(self.source, places)
        held["copies"] = tuple(rows_at(copy, places) for copy in self.copies)
        return Aligned(**{**held, "whole": self})

    @cached_property
    def logarithmic(self) -> tuple[str, ...]:
        """The columns that are compared on the scale log(1+x)."""
        return tuple(name for name in self.columns if self.stated.logarithmic(name))

    @cached_property
    def reading(self) -> BlockReading:
        """How rows of source and copies are compared."""
        return self.reading_of((self.source, *self.copies))

    def reading_of(self, tables: Sequence[Source]) -> BlockReading:
        """Return how rows of some of the tables are compared."""
        lowest = {name: self.stated.lowest_logarithm(name) for name in self.logarithmic}
        names = [name for group in self.categories for name in group]
        types = {name: category_type(self.source.schema.field(name).type) for name in names}
        known = list(zip(self.copies, self.spreads, strict=True))
        spreads = [
            next((spread for copy, spread in known if copy is table), {}) for table in tables
        ]
        relative = {n: base for n, base in self.relative.items() if n in self.columns}
        return BlockReading(self.columns, lowest, types, tuple(spreads), relative)

    @cached_property
    def totals(self) -> dict[str, tuple[str, ...]]:
        """The columns that copies state to be the sum of others, and of which."""
        return self.stated.totals(self.source.schema.names)

    @cached_property
    def relative(self) -> Relative:
        """The numbers that are compared as their distances from others, as copies state."""
        return self.stated.relative([*self.columns, *self.apart])

    @cached_property
    def spreads(self) -> tuple[AsLeft, ...]:
        """How each copy states that it drew numbers together, but for those on ranks."""
        columns = [name for name in self.columns if not self.stated.on_ranks(name)]
        return tuple(
            {
                name: spread
                for name in columns
                if (spread := self.stated.spread(i, name)) is not None
            }
            for i in range(len(self.copies))
        )

    @cached_property
    def factors(self) -> Floats:
        """By what each copy states that it drew numbers together, (M, N); 1 if it did not."""
        return self._of_spreads(lambda spread: spread.factor, 1.0)

    @cached_property
    def origins(self) -> Floats:
        """What the noise left where each copy shows 0, (M, N)."""
        return self._of_spreads(lambda spread: float(spread.undone(np.zeros(1))[0]), 0.0)

    def _of_spreads(self, of: Callable[[SameSpread], float], otherwise: float) -> Floats:
        values = [
            [of(spreads[name]) if name in spreads else otherwise for name in self.columns]
            for spreads in self.spreads
        ]
        return np.array(values).reshape(len(self.copies), len(self.columns))

    def run(
        self,
        plan: Callable[[AlignedRows], Pass[AlignedRows, Found, Result]],
        tables: Sequence[Source] | None = None,
        *,
        progress: Progress = silent,
    ) -> Result:
        """Run a pass over the numbers of tables, by default all, planned by their first rows.

        Raises SourceError where one table ends before another, or if there are no rows.
        """
        tables = (self.source, *self.copies) if tables is None else tables
        parts = self.raw_blocks(tables)
        if (first := next(parts, None)) is None:
            raise SourceError(f"{tables[0].name} holds no rows")
        rows = self.reading_of(tables).rows
        pass_ = plan(rows(first))
        total = add_up(pass_, chain([first], parts), rows, seen=lambda block: progress(block.rows))
        return pass_.finish(total)

    def run_categories(
        self,
        pass_: Pass[AlignedCategories, Found, Result],
        progress: Progress = silent,
        places: Ints | None = None,
    ) -> Result:
        """Run a pass over the categories of source and copies; of all rows, or of those at some
        `places`, which then count from 0.
        """
        blocks = self._category_blocks(places)
        seen = add_up(pass_, blocks, lambda block: block, seen=lambda block: progress(block.rows))
        return pass_.finish(seen)

    def blocks(self) -> Iterator[list[Floats]]:
        """Yield, for the same rows, the columns (N, rows) of the source and of each copy.

        Raises SourceError where one table ends before another.
        """
        for _, _, block in self.raw_blocks((self.source, *self.copies)):
            yield self.scaled(block)

    def raw_blocks(self, tables: Sequence[Source]) -> Iterator[tuple[int, int, list[Floats]]]:
        """Yield blocks of columns as tables have them, off the logarithmic scale: their number,
        the place of their first row, and (N, rows) of each table.
        """
        start, reading = 0, self.reading
        blocks = side_by_side(
            tables,
            lambda source: map(reading.matrix, source.groups(reading.read, BLOCK_ROWS)),
            lambda matrix: matrix.shape[1],
        )
        for number, block in enumerate(blocks):
            yield number, start, block
            start += block[0].shape[1]

    def scaled(self, matrices: list[Floats]) -> list[Floats]:
        """Return matrices (N, rows) on the scales that they are compared on."""
        return self.reading.scaled(matrices)

    def _category_blocks(self, places: Ints | None) -> Iterator[AlignedCategories]:
        """Yield, for the same rows, the encoded categories of the source and of each copy."""
        reading = self.reading
        names = list(reading.categories)
        blocks = side_by_side(
            (self.source, *self.copies),
            lambda source: map(reading.encodings, source.groups(names, BLOCK_ROWS)),
            lambda encodings: len(encodings[names[0]].codes),
        )
        start = first = 0
        for tables in blocks:
            block = AlignedCategories(start, tables)
            end = first + block.rows
            if places is not None:
                block = block.at(places[(places >= first) & (places < end)] - first)
            yield block
            start, first = start + block.rows, end

    def values_at(
        self, name: str, places: Ints, table: Source | None = None
    ) -> tuple[list[Any], Ints]:
        """Return the distinct values of a column in some rows, and their codes.

        Of the source, or of another of the tables.
        """
        parts, start = [], 0
        for group in (table or self.source).groups([name], BLOCK_ROWS):
            end = start + group.num_rows
            inside = places[(places >= start) & (places < end)] - start
            parts.append(group.column(name).take(pa.array(inside)))
            start = end
        column = one_chunk(pa.chunked_array([c for part in parts for c in part.chunks]))
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), codes.astype(np.int64)

    def unscaled(self, rows: Floats) -> Floats:
        """Return rows (n, N) as the tables have them, off the logarithmic scale."""
        if not self.logarithmic:
            return rows
        where = [name in self.logarithmic for name in self.columns]
        return np.where(where, np.expm1(np.where(where, rows, 0.0)), rows)


def _opened_like(truth: Source, copy: Any) -> Source:
    """Open a copy, by the source's names.

    Text in the source is text in a copy whose file has no types too, even if it is all digits, and
    a boolean is one, even if it is 0 or 1.
    """
    opened = by_source_names(open_source(copy), truth.schema.names)
    # codes such as 0815 stay texts
    shared = [field_.name for field_ in opened.schema if field_.name in truth.schema.names]
    found = {name: truth.schema.field(name).type for name in shared}
    fixed = {name: pa.string() for name, type_ in found.items() if is_text(type_)}
    fixed |= {name: type_ for name, type_ in found.items() if pa.types.is_boolean(type_)}
    if opened.path is None or all(opened.schema.field(name).type == t for name, t in fixed.items()):
        return opened
    fields = zip(open_source(copy).schema.names, opened.schema, strict=True)
    types = {name: fixed.get(field_.name, field_.type) for name, field_ in fields}
    return by_source_names(open_source(copy, types, opened.reading), truth.schema.names)


@dataclass(frozen=True)
class _Kinds:
    """What each column is compared as: a number, a category, a number apart, or why not at all."""

    numbers: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    apart: Mapping[str, str]
    left_out: Mapping[str, str]

    @classmethod
    def of(cls, tables: Sequence[Source], stated: Stated, names: Sequence[str | None]) -> "_Kinds":
        """Sort the columns that all tables have, given the names of key and units; raise
        ColumnError if none can be compared.
        """
        key = names[0]
        for table in tables:
            if key is not None and key not in table.schema.names:
                raise ColumnError(f"{table.name} has no column {key!r} to align the rows by")
        held = [set(table.schema.names) for table in tables]
        everywhere = set.intersection(*held)
        shared = [n for n in tables[0].schema.names if n in everywhere and n not in names]
        hidden = [n for n in shared if any(about.pseudonym for about in stated.each(n))]
        totals = stated.totals(shared)
        derived = stated.derived(shared) | {n: " + ".join(of) for n, of in totals.items()}
        comparable = [name for name in shared if name not in {*hidden, *derived}]
        categories = stated.categories(comparable, tables)
        refreshed = {name for group in categories for name in group}
        numbers = [
            name
            for name in shared
            if name in comparable
            and name not in refreshed
            and all(is_number(table.schema.field(name).type) for table in tables)
        ]
        apart = {name: why for name in numbers if (why := stated.apart(name))}
        reasons = {name: stated.not_comparable(name) for name in numbers if name not in apart}
        left_out = {name: why for name, why in reasons.items() if why}
        left_out |= {name: f"{name} has pseudonyms in copies" for name in hidden}
        left_out |= {
            name: f"{name} follows from {of}, which is judged" for name, of in derived.items()
        }
        left_out |= {
            name: f"{name} is not a number, or not a category, in every file"
            for name in shared
            if name in comparable and name not in {*numbers, *refreshed}
        }
        compared = tuple(name for name in numbers if name not in {*left_out, *apart})
        if not compared and not categories and not apart:
            files = ", ".join(table.name for table in tables)
            why = f"{files} share no column of numbers or categories; columns are matched by name"
            raise ColumnError(
                f"nothing to compare: {next(iter(left_out.values()))}" if left_out else why
            )
        # what columns of some copies reveal is not measured
        unshared = sorted(set().union(*held[1:]) - everywhere)
        left_out |= {name: f"{name} is not in every file" for name in unshared}
        return cls(compared, tuple(categories), apart, left_out)


def _check_matching(
    truth: Source, copies: Sequence[Source], stated: Stated, key: str | None
) -> None:
    """Raise SourceError if rows cannot be matched, as files state: if positions match rows of
    different orders, or the key is one that copies have pseudonyms of.
    """
    source = Stated.of([truth])
    orders = [each.order == SHUFFLE for each in (*source.copies, *stated.copies)]
    if key is None and len(set(orders)) > 1:
        raise SourceError(
            f"the rows of {[truth, *copies][orders.index(True)].name} were shuffled, so their "
            "positions match no other order; match the rows by a key column, or give the vault "
            "that shuffled them",
            use=("key", "vault"),
        )
    for i, copy in enumerate(copies):
        if key is None or source.is_pseudonym(0, key) or not stated.is_pseudonym(i, key):
            continue
        raise SourceError(
            f"{copy.name} has pseudonyms in place of {key!r}, which match no key of "
            f"{truth.name}; give the vault that made them, or match rows that were not "
            "shuffled by position",
            use=("vault",),
        )


def _units_of(truth: Source, stated: Stated, unit: str | Sequence[str] | None) -> list[str]:
    """Return the columns that name the person of each row: as given, else as copies state.

    Of persons in households two, the household first.
    """
    given = [unit] if isinstance(unit, str) else list(unit or ())
    names = given or stated.units
    if len(names) > MOST_UNITS:
        raise ColumnError(
            f"{', '.join(map(repr, names))}: an audit takes at most two units, the outer one first"
        )
    for name in names:
        if name not in truth.schema.names:
            raise ColumnError(f"{truth.name} has no column {name!r}, which rows of a person share")
    return names


def _short_names(paths: list[str]) -> tuple[str, ...]:
    """Return file names without endings, or as much of the paths as is distinct.

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
    column = table.column(key)
    try:
        return one_chunk(pc.cast(column, pa.string()))
    except pa.ArrowException:
        raise ColumnError(
            f"rows cannot be aligned by {key!r}, a column of type {column.type}; "
            "align them by a column of text or whole numbers"
        ) from None


def _sorted_like(source: Source, copy: Source, columns: Sequence[str], key: str) -> Source:
    """Return the copy with its rows in the order of the source, in memory."""
    keys = [_texts(part, key) for part in source.groups([key], BLOCK_ROWS)]
    batches = list(copy.batches([*columns, key]))
    if not keys or not batches:
        raise SourceError(f"{copy.name if keys else source.name} has no rows")
    table, wanted = pa.Table.from_batches(batches), pa.concat_arrays(keys)
    held = _texts(table, key)
    for name, keys in ((source.name, wanted), (copy.name, held)):
        if len(pc.unique(keys)) < len(keys) or keys.null_count:
            raise ColumnError(
                f"{name}: {key!r} has duplicate or missing values; align by a column of unique keys"
            )
    places = pc.index_in(wanted, value_set=held)
    if places.null_count or len(wanted) != len(held):
        raise SourceError(
            f"{copy.name} and {source.name} do not have the same keys in {key!r}: "
            "they are not copies of the same rows"
        )
    frame = open_source(table.take(places).select(list(columns)))
    return Source(frame.schema, frame.open, copy.path)
