"""Where the survey and the recipe run: `local` in threads of this process, `spark` on a cluster.

An engine has one verb: run a `Pass` over a table, and return what all rows show. It
adds nothing to what happens to a row, so every engine makes the same copies, to the bit.

local        groups of rows side by side in threads, results in order; copies are files
spark        parts of a table on the machines of a cluster; copies are directories of files
spark_audit  an audit by frames of Spark: its passes on a cluster
sorted_keys  the keys of a table's rows, none of them twice
differences  two editions of a table, compared
"""

from typing import TYPE_CHECKING, Any, TypeVar

from cornerwave.engines._checks import batch_order, check_order
from cornerwave.engines._passes import BatchSurveyor, SamplePass, constants_of, survey_batch
from cornerwave.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from cornerwave.columns import Scale, Schema
    from cornerwave.engines._passes import Engine
    from cornerwave.engines.sorted_keys import KeepKeys
    from cornerwave.passes import Pass
    from cornerwave.sources import Progress, Source
    from cornerwave.spine.frozen import Frozen
    from cornerwave.spine.histories import HistoryRows
    from cornerwave.spine.person_gaps import FoundGaps
    from cornerwave.spine.rows import RowSecrets
    from cornerwave.spine.survey import Survey, Surveyor

__all__ = [
    "BatchSurveyor",
    "SamplePass",
    "batch_order",
    "check_order",
    "constants_of",
    "survey_batch",
]

Result = TypeVar("Result")


def opened_frame(what: Any) -> Any:
    """Return a frame of Spark as a source, and anything else as it is."""
    if not type(what).__module__.startswith("pyspark."):  # or importing Spark would take long
        return what
    from cornerwave.engines.spark import is_spark_frame, of_frame

    return of_frame(what) if is_spark_frame(what) else what


def is_here(source: "Source") -> bool:
    """Whether this process can read the rows of a source: those of Spark's frames it cannot."""
    return not any(hasattr(part, "frame") for part in (source, *source.parts))


def engine_for(
    source: "Source",
    schema: "Schema",
    types: "pa.Schema",
    secrets: "RowSecrets",
    *,
    keep_keys: "KeepKeys | None",
    spark: Any = None,
    at_once: int | None = None,
) -> "Engine":
    """Return what surveys a table: a cluster for a frame of Spark, or if a session is given.

    `types` are those of the registered columns, `keep_keys` is called if the rows have a key,
    `at_once` are the rows of a block in this process.
    """
    if spark is None and is_here(source):
        from cornerwave.engines.local import Threads

        return Threads(source, schema, secrets, keep_keys=keep_keys, at_once=at_once)
    from cornerwave.engines.spark import Cluster

    return Cluster(source, schema, types, secrets, spark, keep_keys, surveys=True)


def fingerprint_of(
    source: "Source", frozen: "Frozen", secrets: "RowSecrets", progress: "Progress"
) -> str:
    """Return the fingerprint of a table. Raises SourceChanged for rows that cannot be its own."""
    from cornerwave.engines._passes import FingerprintPass, registered_rows

    engine = engine_for(source, frozen.schema, frozen.source_types, secrets, keep_keys=None)
    with registered_rows():
        return str(engine.run(FingerprintPass(frozen.schema, secrets), progress))


def history_rows(
    source: "Source",
    frozen: "Frozen",
    secrets: "RowSecrets",
    ends: "Sequence[int]",
    whole: str | None,
) -> "HistoryRows":
    """Return the categories of all persons of a table.

    The rows of each edition end at `ends`; `whole` is the fingerprint of all, None if the pass
    that writes will look whether the same histories come from the registered table. Raises
    SourceChanged for rows that cannot be those of the registered table.
    """
    from cornerwave.engines._passes import HistoryPass

    pass_ = HistoryPass(frozen, secrets, tuple(ends), whole)
    return _of_registered(pass_, source, frozen, secrets, ends)


def found_gaps(
    source: "Source",
    frozen: "Frozen",
    secrets: "RowSecrets",
    ends: "Sequence[int]",
    whole: str,
) -> "FoundGaps":
    """Return what draws for hidden gaps of persons depend on, of a table with this fingerprint.

    The rows of each edition end at `ends`. Raises SourceChanged for another table.
    """
    from cornerwave.engines._passes import GapPass

    pass_ = GapPass(frozen, secrets, tuple(ends), whole)
    return _of_registered(pass_, source, frozen, secrets, ends)


def _of_registered(
    pass_: "Pass[Any, Any, Result]",
    source: "Source",
    frozen: "Frozen",
    secrets: "RowSecrets",
    ends: "Sequence[int]",
) -> "Result":
    """Return what a pass over the registered rows shows that has to know their editions."""
    from cornerwave.engines._passes import registered_rows

    engine = engine_for(source, frozen.schema, frozen.source_types, secrets, keep_keys=None)
    if len(ends) > 1 and not engine.is_placed:
        raise SourceError(
            "rows of a frame have no places, by which to know the editions of persons"
        )
    with registered_rows():
        return engine.run(pass_)


def survey_source(
    source: "Source",
    schema: "Schema",
    secrets: "RowSecrets",
    *,
    keep_keys: "KeepKeys",
    spark: Any = None,
    progress: "Progress",
    scales: "Mapping[str, Scale] | None" = None,
) -> "tuple[Surveyor, Survey]":
    """Survey a table: on a cluster if it is a frame of Spark, or if a session is given.

    `scales` are those of columns that other tables have fixed.
    """
    from cornerwave.engines._passes import survey_rows

    types = source.schema
    engine = engine_for(source, schema, types, secrets, keep_keys=keep_keys, spark=spark)
    return survey_rows(engine, schema, secrets, progress, scales)
