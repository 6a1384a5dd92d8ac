"""Registration: one pass over the table that fixes all that its noise will depend on.

read -> decide -> measure and recognise -> factor -> freeze
"""

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from cornerwave.arrays import Floats, Ids, Words
from cornerwave.errors import ColumnError, CornerwaveWarning, SourceError
from cornerwave.frozen import Draws, Frozen, on_scales
from cornerwave.moments import Moments, factor
from cornerwave.rows import Group, Secrets, group_rows, numbered
from cornerwave.table import Schema, Source, listed, to_floats
from cornerwave.table.categories import Categories, freeze
from cornerwave.table.encoded import Tally, tally
from cornerwave.table.fingerprint import Fingerprint, marks
from cornerwave.table.rare import check_number, check_telling
from cornerwave.table.scale import Knots, Scale, Thinned, quantiles, rank_scale
from cornerwave.vault.key import Key

ROWS_PER_WEIGHT = 10
"""Complete rows for each number, at least, to go by them in draws for hidden values."""

IDS_IN_MEMORY = 1 << 23
"""Row ids that are compared at once when looking for duplicates."""


@dataclass(frozen=True)
class Registration:
    """What a pass over a table found: what is frozen, and the marks of its columns."""

    frozen: Frozen
    marks: tuple[tuple[str, str], ...]


def measure(
    source: Source,
    schema: Schema,
    *,
    key: Key,
    mark_secret: bytes,
    progress: Callable[[int], None] = lambda rows: None,
) -> Registration:
    """Read the table once and freeze what was found; `key` is the dataset's.

    Warns about singular columns. Raises SourceError for a table that cannot be perturbed.
    """
    secrets = Secrets.of(key)
    scales, laws = find_scales(source, schema)
    found = _Found.nothing(schema)
    with _Duplicates(schema.key) as duplicates:
        for start, table in numbered(source, schema):
            group = Group.of(start, table, schema, secrets)
            numbers = on_scales(scales, schema.perturbed, group.numbers)
            found.take(group, numbers, secrets, mark_secret)
            found.category_marks += group.category_marks(start, schema, mark_secret)
            duplicates.add(group.ids)
            progress(table.num_rows)
        duplicates.check()
    _check_size(found.moments, schema)
    for names, tallied in found.tallies.items():
        check_telling(names, tallied, schema)
    shape = factor(found.moments.covariance)
    shape.warn(schema.perturbed)
    categories = tuple(
        freeze(names, tallied, schema, source.schema) for names, tallied in found.tallies.items()
    )
    _warn_of(categories, schema)
    frozen = Frozen.of(
        schema,
        source.schema,
        scales,
        found.moments,
        shape,
        categories,
        found.shows_missing(schema, categories),
        str(found.fingerprint),
        found.draws(laws) if found.complete is not None else None,
    )
    return Registration(frozen, _marks(schema, found))


@dataclass
class _Found:
    """What has been found in the rows read so far."""

    moments: Moments
    complete: Moments | None
    fingerprint: Fingerprint
    marks: Words
    category_marks: Words
    tallies: dict[tuple[str, ...], Tally]

    @classmethod
    def nothing(cls, schema: Schema) -> "_Found":
        columns = len(schema.perturbed)
        others = len(schema.kept) + sum(map(len, schema.categories))
        hides = any(schema.column(name).hide_missing for name in schema.perturbed)
        return cls(
            moments=Moments.of(np.empty((0, columns))),
            complete=Moments.of(np.empty((0, columns))) if hides else None,
            fingerprint=Fingerprint(0, np.zeros((columns + others, 2), dtype=np.uint64)),
            marks=np.zeros((columns, 2), dtype=np.uint64),
            category_marks=np.zeros((sum(map(len, schema.categories)), 2), dtype=np.uint64),
            tallies={names: Counter() for names in schema.categories},
        )

    def take(self, group: Group, numbers: Floats, secrets: Secrets, mark_secret: bytes) -> None:
        self.moments += Moments.of(numbers.T, group.names)
        if self.complete is not None:
            whole = ~np.isnan(numbers).any(axis=0)
            self.complete += Moments.of(numbers[:, whole].T, group.names)
        self.fingerprint += group.fingerprint(secrets)
        self.marks += marks(group.bits(), mark_secret)
        for names, tallied in self.tallies.items():
            tallied += tally(group.columns_of(names))
            check_number(names, tallied, self.moments.rows)

    def draws(self, quantiles: Mapping[str, Knots]) -> Draws:
        """Return the law of draws for hidden values, by complete rows if there are enough."""
        enough = self.complete is not None and self.complete.rows >= ROWS_PER_WEIGHT * (
            1 + len(self.moments.mean)
        )
        found = self.complete if enough and self.complete is not None else self.moments
        return Draws(found.mean, found.covariance, quantiles)

    def shows_missing(self, schema: Schema, frozen: Sequence[Categories]) -> tuple[str, ...]:
        """Name the columns that have missing values and do not hide them."""
        present = zip(schema.perturbed, self.moments.present, strict=True)
        numbers = [name for name, count in present if count < self.moments.rows]
        shown = [name for name in numbers if not schema.column(name).hide_missing]
        open_ = [each.columns for each in frozen if not each.hides_missing]
        return (*shown, *(names[0] for names in open_ if (None,) in self.tallies[names]))


def find_scales(source: Source, schema: Schema) -> tuple[tuple[Scale, ...], Mapping[str, Knots]]:
    """Return the scale of each perturbed column, and quantiles of those that hide missing values.

    Reads the table if either asks for it.
    """
    columns = [schema.column(name) for name in schema.perturbed]
    sampled = [c.name for c in columns if c.transform == "rank" or c.hide_missing]
    values: dict[str, Floats] = {}
    if sampled:
        sample = Thinned(len(sampled))
        for table in source.groups(sampled, group_rows(schema)):
            arrays = [table.column(name).combine_chunks() for name in sampled]
            sample.add([to_floats(c, name) for c, name in zip(arrays, sampled, strict=True)])
        values = {name: sample.column(place) for place, name in enumerate(sampled)}
    scales = {
        c.name: rank_scale(values[c.name], c.name) if c.transform == "rank" else Scale(c.transform)
        for c in columns
    }
    hidden = [c.name for c in columns if c.hide_missing]
    laws = {name: quantiles(scales[name].forward(values[name], name)) for name in hidden}
    varying = {name: law for name, law in laws.items() if law and law[0][0] < law[-1][0]}
    return tuple(scales.values()), varying


def _check_size(moments: Moments, schema: Schema) -> None:
    if moments.rows < 2:
        raise SourceError(f"a table needs at least 2 rows to be perturbed, this has {moments.rows}")
    for name, present in zip(schema.perturbed, moments.present, strict=True):
        if present < 2:
            raise ColumnError(f"{name!r} has fewer than 2 values; drop it")
    vanishing = (moments.deviation == 0) & (moments.lowest < moments.highest)
    for name in np.array(schema.perturbed)[vanishing]:
        raise ColumnError(
            f"{str(name)!r}: values so close together that their variance vanishes in floating "
            "point, and noise with it; multiply them, or drop the column"
        )


def _warn_of(categories: Sequence[Categories], schema: Schema) -> None:
    """Say what an owner may not expect of categories."""
    for each in categories:
        if len(each.counts) == 1:
            message = f"{listed(each.columns)}: one value alone, so it leaves as it is"
            warnings.warn(message, CornerwaveWarning, stacklevel=4)
        hidden = len(each.columns) > 1 or schema.column(each.columns[0]).hide_missing
        if each.hides_missing and not hidden:
            message = (
                f"{listed(each.columns)}: pooled values leave as missing, so those that are "
                "missing already are refreshed with them"
            )
            warnings.warn(message, CornerwaveWarning, stacklevel=4)


def _marks(schema: Schema, found: _Found) -> tuple[tuple[str, str], ...]:
    """Return (mark, column) by which these values would be recognised.

    Constant columns are left out: two tables may well share one.
    """
    varies = dict(zip(schema.perturbed, found.moments.deviation > 0, strict=True))
    for names, tallied in found.tallies.items():
        for place, name in enumerate(names):
            varies[name] = len({values[place] for values in tallied}) > 1
    sums = np.concatenate([found.marks, found.category_marks])
    marked = zip(varies.items(), sums, strict=True)
    return tuple(
        (total.astype(">u8").tobytes().hex(), name) for (name, varying), total in marked if varying
    )


class _Duplicates:
    """Looks for two rows with one id, in little memory: ids wait in a file without a name."""

    def __init__(self, key_column: str | None) -> None:
        self._key_column = key_column
        self._file: BinaryIO | None = None
        self._count = 0

    def __enter__(self) -> "_Duplicates":
        if self._key_column is not None:
            self._file = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def add(self, ids: Ids) -> None:
        """Take the ids of some rows."""
        if self._file:
            self._file.write(ids.tobytes())
            self._count += len(ids)

    def check(self) -> None:
        """Raise ColumnError if an id stands twice."""
        if not self._file or not self._count:
            return
        self._file.flush()
        ids = np.memmap(self._file, dtype=np.uint64, mode="r").reshape(-1, 2)
        parts = -(-self._count // IDS_IN_MEMORY)
        repeated = sum(self._repeated(ids, part, parts) for part in range(parts))
        if repeated:
            raise ColumnError(
                f"the key column {self._key_column!r} is not unique: {repeated} rows repeat a key"
            )

    def _repeated(self, ids: Ids, part: int, parts: int) -> int:
        chosen = [
            chunk[chunk[:, 0] % np.uint64(parts) == part]
            for chunk in np.array_split(ids, max(1, len(ids) // IDS_IN_MEMORY))
        ]
        mine = np.concatenate(chosen).view("V16")
        return len(mine) - len(np.unique(mine))
