"""Registration: one pass over the table that fixes all that its noise will depend on.

read -> decide -> measure and recognise -> factor -> freeze
"""

import hashlib
import hmac
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from cornerwave.errors import ColumnError, SourceError
from cornerwave.moments import Moments, factor
from cornerwave.noise.cipher import Words
from cornerwave.noise.stream import Ids
from cornerwave.rows import Group, Secrets, numbered
from cornerwave.table.categories import Tally, check_number, freeze, tally
from cornerwave.table.fingerprint import Fingerprint, marks
from cornerwave.table.read import Source
from cornerwave.table.schema import Schema
from cornerwave.vault.frozen import Frozen
from cornerwave.vault.key import Key

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
    found = _Found.nothing(schema)
    with _Duplicates(schema.key) as duplicates:
        for start, table in numbered(source, schema):
            group = Group.of(start, table, schema, secrets)
            found.take(group, secrets, mark_secret)
            duplicates.add(group.ids)
            progress(table.num_rows)
        duplicates.check()
    _check_size(found.moments, schema)
    shape = factor(found.moments.covariance)
    shape.warn(schema.perturbed)
    categories = tuple(
        freeze(names, tallied, schema, source.schema) for names, tallied in found.tallies.items()
    )
    frozen = Frozen.of(
        schema, source.schema, found.moments, shape, categories, str(found.fingerprint)
    )
    return Registration(frozen, _marks(schema, found, mark_secret))


@dataclass
class _Found:
    """What has been found in the rows read so far."""

    moments: Moments
    fingerprint: Fingerprint
    marks: Words
    tallies: dict[tuple[str, ...], Tally]

    @classmethod
    def nothing(cls, schema: Schema) -> "_Found":
        columns = len(schema.perturbed)
        others = len(schema.kept) + sum(map(len, schema.categories))
        return cls(
            moments=Moments.of(np.empty((0, columns))),
            fingerprint=Fingerprint(0, np.zeros((columns + others, 2), dtype=np.uint64)),
            marks=np.zeros((columns, 2), dtype=np.uint64),
            tallies={names: Counter() for names in schema.categories},
        )

    def take(self, group: Group, secrets: Secrets, mark_secret: bytes) -> None:
        self.moments += Moments.of(group.numbers.T)
        self.fingerprint += group.fingerprint(secrets)
        self.marks += marks(group.bits(), mark_secret)
        for names, tallied in self.tallies.items():
            tallied += tally(group.columns_of(names))
            check_number(names, tallied, self.moments.rows)


def _check_size(moments: Moments, schema: Schema) -> None:
    if moments.rows < 2:
        raise SourceError(f"a table needs at least 2 rows to be perturbed, this has {moments.rows}")
    for name, present in zip(schema.perturbed, moments.present, strict=True):
        if present < 2:
            raise ColumnError(f"{name!r} has fewer than 2 values; drop it")


def _marks(schema: Schema, found: _Found, secret: bytes) -> tuple[tuple[str, str], ...]:
    """Return (mark, column) by which these values would be recognised.

    Constant columns are left out: two tables may well share one. A table without
    numbers is known by how often each of its values occurs.
    """
    columns = zip(schema.perturbed, found.marks, found.moments.deviation, strict=True)
    varying = [(total, name) for name, total, deviation in columns if deviation > 0]
    if varying:
        return tuple((total.astype(">u8").tobytes().hex(), name) for total, name in varying)
    counts = [sorted((str(c), n) for c, n in tallied.items()) for tallied in found.tallies.values()]
    mark = hmac.new(secret, json.dumps(counts).encode(), hashlib.sha256).hexdigest()[:32]
    return ((mark, schema.categories[0][0]),) if counts else ()


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
