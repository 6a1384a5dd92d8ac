"""What the machines of a cluster run: a job over the parts that they are given.

    parts ── rows, some at a time ── work ──> what it found, as (bucket, kind, bytes)

A job is all that travels to them: the columns, what is frozen, and secrets that were derived
for this one purpose. What they return is either what they found, or an error in our words: an
error of Python or Arrow would show its message, and a cell in it, in the cluster's pages.
"""

import io
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from cornerwave import errors
from cornerwave.columns import Schema, plain_type
from cornerwave.errors import ClusterError, CornerwaveError, Fault, SourceError
from cornerwave.keyed import Secrets
from cornerwave.privacy import RUN
from cornerwave.sources import ParquetPart, Source
from cornerwave.spine.rows import RowSecrets, group_rows, row_ids
from cornerwave.version import __version__

# --------------------------------------------------------------------------------------------------
# What a machine of a cluster found, as bytes, and what came back, read without running code.
#
# Machines hold derived secrets, the driver holds the vault's key: what they send is read by a
# reader that knows arrays, rows, values of cells and the classes of a survey or an audit, and
# nothing else.


_VALUES = {
    "collections": ("Counter",),
    "cornerwave.engines._on_worker": ("unpacked_table",),
    "cornerwave.engines._passes": ("Surveyed",),
    "cornerwave.privacy._distant_rows": ("DistantRows",),
    "cornerwave.privacy._row_order": ("RowOrder",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "numpy": ("ndarray", "dtype"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.numeric": ("_frombuffer",),
}
_ROOMS = (
    "cornerwave.audit.",
    "cornerwave.columns.",
    "cornerwave.moments",
    "cornerwave.reuse.",
    "cornerwave.spine.histories",
    "cornerwave.spine.person_counts",
    "cornerwave.spine.person_gaps",
    "cornerwave.spine.person_sample",
    "cornerwave.spine.person_values",
    "cornerwave.spine.sample",
    "cornerwave.spine.survey",
)


class _SurveyReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _VALUES.get(module, ()):
            return getattr(import_module(module), name)
        if module.startswith(_ROOMS) and "." not in name:
            class_ = getattr(import_module(module), name, None)
            if (
                isinstance(class_, type)
                and is_dataclass(class_)
                and not issubclass(class_, Secrets)
            ):
                return class_
        raise pickle.UnpicklingError("not part of a survey")


class _Packer(pickle.Pickler):
    def reducer_override(self, what: Any) -> Any:
        return (unpacked_table, (packed_table(what),)) if type(what) is pa.Table else NotImplemented


def packed(value: Any) -> bytes:
    """Return what a pass found as bytes."""
    sink = io.BytesIO()
    _Packer(sink, protocol=5).dump(value)
    return sink.getvalue()


def unpacked(content: bytes) -> Any:
    """Return what `packed` made. Raises ClusterError for anything else."""
    try:
        return _SurveyReader(io.BytesIO(content)).load()
    except Exception:  # whatever was sent: its words may quote a cell
        raise ClusterError("a machine of the cluster sent something else than a survey") from None


def packed_table(table: pa.Table) -> bytes:
    """Return rows as bytes, in exactly their types."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpacked_table(content: bytes) -> pa.Table:
    """Return the rows that `packed_table` packed. Raises ClusterError for anything else."""
    try:
        table = pa.ipc.open_stream(content).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError):
        raise ClusterError("a machine of the cluster sent something else than rows") from None
    return table


def packed_error(error: CornerwaveError) -> bytes:
    """Return an error as bytes: its words are ours, and hold no cell."""
    problem = {"kind": type(error).__name__, "message": str(error), "use": error.use}
    return json.dumps(problem).encode()


def unpacked_error(content: bytes) -> CornerwaveError:
    """Return the error that `packed_error` packed."""
    problem = json.loads(content)
    kind = getattr(errors, str(problem["kind"]), None)
    known = isinstance(kind, type) and issubclass(kind, CornerwaveError)
    error: CornerwaveError = (kind if known else ClusterError)(  # type: ignore[misc]
        str(problem["message"]), use=[str(choice) for choice in problem["use"]]
    )
    return error


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
    """How to read parts: the columns with their types, and what identifies rows.

    `rows` is how many the table has where parts are row groups of Parquet: their positions are
    known. Otherwise parts are rows of a frame. `columns` are those that are read.
    """

    schema: Schema
    types: pa.Schema
    secrets: RowSecrets
    rows: int | None
    columns: Sequence[str]

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
                [[word, _]] = row_ids(0, table.slice(0, 1), self.schema, self.secrets)
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


class _Sender(pickle.Pickler):
    """Sends secrets too, which are not pickled otherwise."""

    def reducer_override(self, what: Any) -> Any:
        if isinstance(what, Secrets):
            return type(what), tuple(what.reveal().values())
        return NotImplemented


def sent(job: Job) -> bytes:
    """Return a job as it travels."""
    sink = io.BytesIO()
    _Sender(sink, protocol=5).dump((__version__, job))
    return zlib.compress(sink.getvalue())


def on_worker(content: bytes, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run a job over parts. What goes wrong is reported in our words, or by its place alone."""
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
