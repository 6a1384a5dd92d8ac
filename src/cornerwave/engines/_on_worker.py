"""What the machines of a cluster run: a job over the parts that they are given.

    parts ── rows, some at a time ── work ──> what it found, as (bucket, kind, bytes)

A job is all that travels to them: the columns, what is frozen, and secrets that were derived
for this one purpose. What they return is either what they found, or an error in our words: an
error of Python or Arrow would show its message, and a cell in it, in the cluster's pages.
"""

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from cornerwave.engines._packed import packed_error
from cornerwave.errors import ClusterError, CornerwaveError, Fault, SourceError
from cornerwave.neighbours import RUN
from cornerwave.rows import RowSecrets, group_rows, row_ids
from cornerwave.table import ParquetPart, Schema, Source, plain_type
from cornerwave.version import __version__

Batches = Iterable[pa.RecordBatch]
Rows = Iterator[tuple[int, pa.Table]]
Note = tuple[int, int, bytes]
"""A bucket, a kind, and bytes."""

ERROR, FOUND, IDS, KEYS, ROWS = range(5)
NOTES = pa.schema([("bucket", pa.int64()), ("kind", pa.int32()), ("found", pa.binary())])
AT_ONCE = 1 << 8
"""Notes that are sent together."""
LARGE = 1 << 20
"""Bytes of a note that is sent by itself."""


@dataclass(frozen=True, repr=False)
class Table:
    """How to read parts: the columns with their types, and what tells rows apart.

    `rows` is how many the table has where parts are row groups of Parquet: their positions are
    known. Otherwise parts are rows of a frame. `columns` are those that are read.
    """

    schema: Schema
    types: pa.Schema
    secrets: Mapping[str, bytes]
    rows: int | None
    columns: Sequence[str]

    @property
    def row_secrets(self) -> RowSecrets:
        """The secrets that recognise rows."""
        return RowSecrets(**self.secrets)

    def parts(self, batches: Batches) -> Iterator[tuple[int | None, Rows]]:
        """Yield the rows of each part with its number, if it has one."""
        if self.rows is None:
            yield None, self._of_frame(batches)
            return
        for batch in batches:
            for content in batch.column(0).to_pylist():
                part: ParquetPart = pickle.loads(content)  # noqa: S301  the driver sent it
                yield part.number, self._of_part(part)

    def groups(self, batches: Batches) -> Rows:
        """Yield the rows of all parts."""
        for _, rows in self.parts(batches):
            yield from rows

    def _of_part(self, part: ParquetPart) -> Rows:
        check_seen(Path(part.file))
        start = part.first
        for table in part.source(self.types).groups(self.columns, group_rows(self.schema)):
            yield start, table
            start += table.num_rows

    def _of_frame(self, batches: Batches) -> Rows:
        """Yield rows; their numbers are none of the table's, but no two have the same."""
        source = Source(self.types, lambda _: (self._typed(batch) for batch in batches))
        start = 0
        for table in source.groups(self.columns, group_rows(self.schema)):
            if not start:
                [[word, _]] = row_ids(0, table.slice(0, 1), self.schema, self.row_secrets)
                start = (int(word) >> 2) // RUN * RUN
            yield start, table
            start += table.num_rows

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows in the types of the source: a frame has them in those of Spark."""
        columns = []
        for name, column in zip(self.columns, batch.columns, strict=True):
            try:
                columns.append(column.cast(plain_type(self.types.field(name).type)))
            except pa.ArrowException:  # its words may quote a cell
                raise SourceError(f"column {name!r} no longer holds values of its kind") from None
        return pa.RecordBatch.from_arrays(columns, names=[*self.columns])


def check_seen(place: Path) -> None:
    """Raise ClusterError unless this machine sees a place that all machines must see."""
    if not place.exists():
        raise ClusterError(
            f"a machine of the cluster does not see {place}; tables and copies must lie where all "
            "of its machines see them, under the same path"
        )


class Job(Protocol):
    """What a machine does with the parts that it is given."""

    def run(self, batches: Batches) -> Iterator[Note]:
        """Yield what is found."""


def sent(job: Job) -> bytes:
    """Return a job as it travels."""
    return zlib.compress(pickle.dumps((__version__, job), protocol=5))


def on_worker(content: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run a job over parts. What goes wrong is either told in our words, or by its place alone."""
    held: list[Note] = []
    try:
        for note in _run(content, batches):
            held.append(note)
            if len(held) == AT_ONCE or len(note[2]) > LARGE:
                yield _batch(held)
                held = []
    except Fault:
        raise
    except CornerwaveError as error:
        held = [(0, ERROR, packed_error(error))]
    if held:
        yield _batch(held)


def _batch(notes: Sequence[Note]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, type_)
            for column, type_ in zip(zip(*notes, strict=True), NOTES.types, strict=True)
        ],
        schema=NOTES,
    )


def _run(content: bytes, batches: Batches) -> Iterator[Note]:
    try:
        version, job = pickle.loads(zlib.decompress(content))  # noqa: S301  the driver sent it
        if version != __version__:
            raise ClusterError(
                f"the machines have Cornerwave {__version__}, and this is {version}: install the "
                "same version on all of them"
            )
        yield from job.run(batches)
    except CornerwaveError:
        raise
    except Exception as error:
        fault = Fault(f"internal fault ({type(error).__name__})")
        raise fault.with_traceback(error.__traceback__) from None


def notes_in(batches: Batches) -> Iterator[Note]:
    """Yield the notes that came from other jobs."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in NOTES.names]
        yield from zip(*columns, strict=True)
