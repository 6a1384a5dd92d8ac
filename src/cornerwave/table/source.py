"""A source of rows: a schema, and a way to read its columns again and again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from cornerwave.errors import ColumnError, SourceError

Batches = Iterator[pa.RecordBatch]
Progress = Callable[[int], None]
"""Called with the number of rows that have been dealt with since the last call."""


def silent(_rows: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Source:
    """A table that can be read again and again, always in the same order.

    `path` is where it lies (None for a frame in memory), `frame_kind` what a frame
    should be turned back into; `notes` say what is odd about a column, by its name.
    """

    schema: pa.Schema
    open: Callable[[Sequence[str]], Batches] = field(repr=False)
    path: Path | None = None
    frame_kind: Any = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def batches(self, columns: Sequence[str]) -> Batches:
        """Yield the named columns, batch by batch; raise SourceError if they cannot be read."""
        if missing := [name for name in columns if name not in self.schema.names]:
            raise ColumnError(f"the table has no column {', '.join(map(repr, missing))}")
        try:
            yield from self.open(columns)
        except (pa.ArrowException, UnicodeDecodeError, EOFError):
            # Arrow's own words quote cells; they must not be seen, not even as a cause.
            raise SourceError(f"{self.name} cannot be read to its end: it is damaged") from None
        except OSError as error:
            raise unreadable(self.name, error) from None

    def groups(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield tables of exactly `rows` rows, the last one of what is left."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in self.batches(columns):
            while count + batch.num_rows >= rows:
                take = rows - count
                yield pa.Table.from_batches([*held, batch.slice(0, take)])
                held, count, batch = [], 0, batch.slice(take)
            if batch.num_rows:
                held.append(batch)
                count += batch.num_rows
        if held:
            yield pa.Table.from_batches(held)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return self.path.name if self.path else "the frame"


def unreadable(name: str, error: OSError) -> SourceError:
    """Return the error for a file that the system does not let us read."""
    return SourceError(f"{name} cannot be read: {error.strerror or 'it is damaged'}")
