"""Several sources read one after the other as one table: what was registered, then each batch."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from cornerwave.table._parquet import ENCODED_TEXT
from cornerwave.table._sources import Source
from cornerwave.table._types import is_text, plain_type


def in_a_row(parts: Sequence[Source], *, unique: Collection[str] = ()) -> Source:
    """Return sources with the same columns as one; columns in `unique` hardly repeat a value."""
    if len(parts) == 1:
        return parts[0]

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in part.batches(columns):
                yield _alike(batch, unique)

    kind, first = parts[0].frame_kind, parts[0].first
    return Source(parts[0].schema, read, frame_kind=kind, first=first, parts=tuple(parts))


def _alike(batch: pa.RecordBatch, unique: Collection[str]) -> pa.RecordBatch:
    """Return a batch in types that no file decides: text may come with its values apart."""
    fields = [pa.field(field.name, _type(field, unique)) for field in batch.schema]
    wanted = pa.schema(fields)
    return batch if batch.schema.equals(wanted) else batch.cast(wanted)


def _type(field: pa.Field, unique: Collection[str]) -> pa.DataType:
    plain = plain_type(field.type)
    return ENCODED_TEXT if is_text(plain) and field.name not in unique else plain
