"""The engine of a cluster: Spark runs the same work where the parts of a table are.

    frame, or row groups ── mapInArrow ──> what machines found       collect: each part once
    survey               ── by bucket, then added up ──> driver      no key twice
    copies               ── files in a staging folder, a receipt for each part ──> driver

Whatever Spark tries again or runs twice, one result of each part is collected, and only files
that a receipt names become part of a copy. Works on classic clusters and on Spark Connect:
nothing here needs an RDD, an accumulator or a SparkContext.
"""

import json
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from cornerwave.choices import SHUFFLE
from cornerwave.columns import Fingerprint, Schema
from cornerwave.engines._checks import not_unique
from cornerwave.engines._jobs import (
    KEY_RANGES,
    BucketJob,
    CopyJob,
    CopyPlan,
    OrderedCopyJob,
    PassJob,
    PassSum,
)
from cornerwave.engines._on_worker import (
    ERROR,
    FOUND,
    IDS,
    KEYS,
    Job,
    Note,
    Table,
    sent,
    unpacked,
    unpacked_error,
)
from cornerwave.engines._passes import Block, seen_in
from cornerwave.engines._shuffle import bucket_count
from cornerwave.engines.sorted_keys import KeepKeys, KeyRanges
from cornerwave.errors import ClusterError, ColumnError, CornerwaveError, ExtraMissing, SourceError
from cornerwave.outputs import Folder, Written
from cornerwave.passes import Found, Pass, Result_co
from cornerwave.sources import TEXT_ENDINGS, Progress, Source, parquet_parts, silent
from cornerwave.spine.recipe import Fingerprints, Recipe
from cornerwave.spine.rows import RowSecrets

LARGEST_CLOSURE = 1 << 20
"""Spark writes what is larger to disks: of the machines, and of the driver."""
_ENVELOPE = 1 << 14
"""Bytes that are added to a job on its way."""
KEYS_AT_ONCE = 1 << 20
"""Keys, about, that the driver takes from a machine at once."""
_NOT_FOR_COPIES = ("sample", "mark_numbers", "mark_texts")
"""Secrets that recognise values across the tables of a vault: only registration needs them."""
_SETTINGS = ("spark.io.encryption.enabled", "spark.broadcast.UDFCompressionThreshold")


@dataclass(frozen=True)
class SparkSource(Source):
    """A frame of Spark, whose rows are known by a key column."""

    frame: Any = field(default=None, repr=False)


def is_spark_frame(what: Any) -> bool:
    """Return whether something is a frame of Spark, classic or Connect."""
    return type(what).__module__.startswith("pyspark.") and hasattr(what, "mapInArrow")


def of_frame(frame: Any) -> SparkSource:
    """Return a frame of Spark as a source. Raises SourceError for types that have no rows here."""

    def read(_: Sequence[str]) -> Iterator[pa.RecordBatch]:
        raise SourceError(
            "a frame of Spark is released by Spark alone; call write_spark with a directory"
        )

    with in_our_words():
        fields = frame.schema.fields
    return SparkSource(pa.schema([*map(_arrow_field, fields)]), read, frame=frame)


def _arrow_field(field: Any) -> pa.Field:
    """Return a column of a frame as Arrow has it: moments are in UTC, whatever the session's zone.

    Raises SourceError for types that are not read.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    type_ = field.dataType
    try:
        return pa.field(field.name, to_arrow_type(type_, timezone="UTC"))
    except Exception:  # Spark has several for this
        raise SourceError(
            f"column {field.name!r} has the type {type_.simpleString()} of Spark, which is not "
            "read; cast it in the frame, or leave it out"
        ) from None


@dataclass(frozen=True)
class Receipt:
    """What a machine reports to have written: a file of each copy."""

    part: int | None
    found: Fingerprints
    files: tuple[Written, ...]

    @classmethod
    def of(cls, content: bytes) -> "Receipt":
        """Read a receipt. Raises ClusterError if it is none."""
        try:
            receipt = json.loads(content)
            files = tuple(map(Written.of, receipt["files"]))
            table, histories = (Fingerprint.read(receipt[of]) for of in ("table", "histories"))
            return cls(receipt["part"], Fingerprints(table, histories), files)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise ClusterError("a machine of the cluster sent something else than a receipt") from (
                None
            )


def copies_on_spark(
    source: Source,
    recipe: Recipe,
    copies: Sequence[Folder],
    *,
    spark: Any = None,
    progress: Progress = silent,
) -> None:
    """Write each wanted copy to its folder, which takes the files that count, in their order.

    Raises SourceChanged if the table is not the registered one: then nothing of what was
    written may be shown to anybody.
    """
    frozen = recipe.frozen
    # no more secrets travel than copies are made of
    known = replace(recipe.row_secrets, **dict.fromkeys(_NOT_FOR_COPIES, b""))
    cluster = Cluster(source, frozen.schema, frozen.source_types, known, spark)
    plan = CopyPlan(
        dataset=recipe.dataset,
        frozen=frozen.to_json(),
        wanted=recipe.wanted,
        rows=known,
        noise=recipe.noise_secrets,
        folders=tuple(copy.made for copy in copies),
        metadata=tuple(copy.metadata for copy in copies),
        edition=recipe.edition,
        batch=recipe.batch,
        past=recipe.past,
        histories=recipe.histories,
        histories_taken=recipe.histories_taken,
        filled=recipe.filled,
    )
    if frozen.schema.order == SHUFFLE:
        buckets = bucket_count(frozen.rows, len(frozen.schema.used))
        first, last = BucketJob(cluster.table, plan, buckets), OrderedCopyJob(frozen.schema, plan)
        notes = cluster.collected(first, last, partitions=buckets)
    else:
        notes = cluster.collected(CopyJob(cluster.table, plan))
    receipts = [Receipt.of(found) for _, _, found in notes]
    # a frame has no numbers of parts, but its parts are collected in their order
    receipts.sort(key=lambda receipt: receipt.part or 0)
    found = Fingerprints()
    for receipt in receipts:
        found = found + receipt.found
        progress(receipt.found.table.rows)
    recipe.check(found)
    for number, copy in enumerate(copies):
        copy.take([receipt.files[number] for receipt in receipts])


@dataclass(frozen=True)
class Cluster:
    """Runs work over the parts of a source: rows of a frame, or row groups of Parquet."""

    source: Source
    schema: Schema
    types: pa.Schema
    secrets: RowSecrets
    spark: Any = None
    keep_keys: KeepKeys | None = None
    surveys: bool = False
    """Whether the table is surveyed: then dropped columns are read too."""

    def run(self, pass_: Pass[Block, Found, Result_co], progress: Progress = silent) -> Result_co:
        """Run a pass over all rows. Raises ColumnError if it compares keys, and rows have one."""
        total, repeated, job = pass_.nothing(), 0, PassJob(self.table, pass_)
        with KeyRanges() as keys:
            for bucket, kind, content in self._notes(
                job, PassSum(), partitions=self._ranges, some=True
            ):
                if kind == KEYS:
                    keys.add(bucket, content)
                elif kind == IDS:
                    repeated += int(content)
                elif kind == FOUND:
                    rows, part = found_in(content, type(total))
                    total = total + part
                    progress(rows)
            if repeated:
                raise not_unique(self.schema.key, repeated)
            is_keyed = pass_.compares_keys and self.schema.key is not None
            if is_keyed and self.keep_keys is not None:
                self.keep_keys(keys.ascending())
        return pass_.finish(total)

    @property
    def all_rows(self) -> int | None:
        """How many rows the table has; unknown of a frame."""
        return self.table.rows

    @property
    def is_placed(self) -> bool:
        """Whether rows have places: those of a frame have none."""
        return self.table.rows is not None

    @cached_property
    def table(self) -> Table:
        """How machines read the parts. Raises ColumnError for a frame without a key."""
        rows = None
        if not self._frames:
            rows = sum(part.rows for part in self._parts)
        elif self.schema.key is None:
            raise ColumnError(
                "the rows of a Spark frame have no fixed order; name the column that is their "
                "key, or write the table as Parquet and give its path",
                use=("key",),
            )
        return Table(self.schema, self.types, self.secrets, rows, self._columns)

    @property
    def _columns(self) -> list[str]:
        """The columns that are read."""
        return seen_in(self.source, self.schema) if self.surveys else self.schema.used

    @property
    def _ranges(self) -> int | None:
        """In how many parts keys come to the driver; None for a frame: Spark sees how many."""
        rows = self.table.rows
        return None if rows is None else min(KEY_RANGES, 1 + rows // KEYS_AT_ONCE)

    @cached_property
    def _frames(self) -> Sequence[Any]:
        """The frames whose rows these are; none for Parquet."""
        parts = self.source.parts or (self.source,)
        frames = [part.frame for part in parts if isinstance(part, SparkSource)]
        if frames and len(frames) < len(parts):
            raise SourceError(
                "some rows lie in frames of Spark and others in files, which are not read "
                "together; give one frame with all rows",
                use=("source",),
            )
        return frames

    @cached_property
    def _parts(self) -> Any:
        return parquet_parts(self.source, len(self._columns))

    @cached_property
    def _session(self) -> Any:
        if self._frames:
            return self._frames[0].sparkSession
        if self.spark is None:
            raise ClusterError(
                "there is no Spark session to read the table with; give one", use=("spark",)
            )
        return self.spark

    def collected(
        self, job: Job, then: Job | None = None, *, partitions: int | None = None
    ) -> list[Note]:
        """Run a job over all parts and, by its buckets, another over what it found.

        Returns the notes that the last one yields, those of each part once. Raises what machines
        report, ClusterError for any other failure.
        """
        return list(self._notes(job, then, partitions=partitions))

    def _notes(
        self, job: Job, then: Job | None, *, partitions: int | None = None, some: bool = False
    ) -> Iterator[Note]:
        """Yield notes: all at once or, if the last job is light, those of `some` of its parts."""
        contents = [sent(each) for each in (job, then) if each is not None]
        check_closures(self._session, sum(map(len, contents)))
        with in_our_words():
            frame = self._frame().mapInArrow(_task(contents[0]), _NOTES)
            if then is not None:
                by = (partitions, "bucket") if partitions else ("bucket",)
                frame = frame.repartition(*by).mapInArrow(_task(contents[1]), _NOTES)
            yield from _checked(frame.toLocalIterator() if some else frame.collect())

    def _frame(self) -> Any:
        """Return the rows of a frame, or a row of what to read for each part, one in a task."""
        if self._frames:
            names = [*map(quoted, self._columns)]
            return reduce(lambda a, b: a.unionAll(b), (f.select(*names) for f in self._frames))
        parts = [(bytearray(pickle.dumps(part)),) for part in self._parts]
        frame = self._session.createDataFrame(parts, "part binary")
        return frame.repartition(max(1, len(parts)))


def notes_of(frame: Any, job: Job) -> Iterator[Note]:
    """Yield the notes of a job over the rows of a frame, those of some parts at a time.

    Raises what machines report, ClusterError for any other failure.
    """
    content = sent(job)
    check_closures(frame.sparkSession, len(content))
    with in_our_words():
        yield from _checked(frame.mapInArrow(_task(content), _NOTES).toLocalIterator())


_NOTES = "bucket long, kind int, found binary"


def _checked(rows: Iterable[Any]) -> Iterator[Note]:
    """Yield notes that came back; raise the error that one of them is."""
    for row in rows:
        if row["kind"] == ERROR:
            raise unpacked_error(bytes(row["found"]))
        yield row["bucket"], row["kind"], bytes(row["found"])


def found_in(content: bytes, kind: type[Found]) -> tuple[int, Found]:
    """Return how many rows a part has, and what they show. Raises ClusterError for others."""
    match unpacked(content):
        case (int(rows), found) if isinstance(found, kind):
            return rows, found
    raise ClusterError("a machine of the cluster sent something else than a survey")


def _task(content: bytes) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what Spark runs; it takes Cornerwave from the machine that it runs on."""

    def cornerwave(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from cornerwave.engines._on_worker import on_worker

        yield from on_worker(content, batches)

    return cornerwave


def quoted(name: str) -> str:
    """Return the name of a column as SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def check_closures(session: Any, size: int) -> None:
    """Raise ClusterError if jobs of so many bytes would be written to disks in plain text."""
    with in_our_words():
        encrypted, limit = (session.conf.get(setting, None) for setting in _SETTINGS)
    most = LARGEST_CLOSURE
    if limit and str(limit).isdigit():
        most = min(most, int(limit))
    if size + _ENVELOPE <= most or str(encrypted).lower() == "true":
        return
    raise ClusterError(
        f"what the machines need, secrets among it, takes {size:,} bytes (values of categories, "
        f"and in a table with a unit their histories, take most of it). Spark writes more than "
        f"{most:,} bytes to disks in plain text unless spark.io.encryption.enabled is true; set "
        "it when the cluster's session is made"
    )


@contextmanager
def in_our_words() -> Iterator[None]:
    """Report what fails on a cluster, in our own words: those of Spark may quote a cell."""
    try:
        yield
    except CornerwaveError:
        raise
    except Exception as error:
        text = str(error)
        if missing := re.search(r"No module named '(\w+)", text):
            what = (
                f"the Python of its machines has no {missing[1]}; install Cornerwave there, and "
                "set PYSPARK_PYTHON to that Python"
            )
        elif "Fault: internal fault" in text:
            what = "its machines met a fault in Cornerwave; their logs name its place in the code"
        else:
            condition = getattr(error, "getCondition", lambda: None)()
            what = f"{condition or type(error).__name__}; see its logs"
        raise ClusterError(f"the cluster could not do the work: {what}") from None


# --- sessions of our own, for the command line ------------------------------------------

_READABLE = {
    ".orc": "orc",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".avro": "avro",
}


@contextmanager
def connected(master: str | None) -> Iterator[Any]:
    """Give a session of a cluster by its address, and end it: 'spark://...', 'yarn', 'sc://...'.

    Without an address it is the one that Spark is set up with. Raises ExtraMissing and
    ClusterError.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ExtraMissing(
            "this needs PySpark; install it with: pip install 'cornerwave[spark]'"
        ) from None
    builder: Any = SparkSession.builder
    with in_our_words():
        if master and master.startswith("sc://"):
            session = builder.remote(master).create()
        else:
            session = _configured(builder.appName("cornerwave"), master).getOrCreate()
            _use_this_python(session.sparkContext)
    try:
        yield session
    finally:
        session.stop()


def _configured(builder: Any, master: str | None) -> Any:
    # what Spark keeps on disks for a while, cells among it, is encrypted
    builder = builder.config("spark.io.encryption.enabled", "true")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    return builder.master(master) if master else builder


def _use_this_python(context: Any) -> None:
    """Let a local master, whose machine is this one, run the Python that runs now.

    Otherwise it is the first `python3` of the path, which knows Cornerwave only where an
    environment is activated.
    """
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def read_with(session: Any, what: str | Path) -> Any:
    """Return what a session reads: the path of Parquet as it is, else a frame.

    The frame of a file that Spark reads by its ending, or of a table in its catalogue.
    """
    path = Path(what)
    if path.is_dir() or path.name.lower().endswith((".parquet", ".pq", *TEXT_ENDINGS)):
        return path
    with in_our_words():
        if format_ := _READABLE.get(path.suffix.lower()):
            return session.read.format(format_).load(str(path.absolute()))
        return session.read.table(str(what))
