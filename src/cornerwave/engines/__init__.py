"""Where the survey and the recipe run: `local` in threads of this process, `spark` on a cluster.

An engine has one verb: run this work over the parts of a table, and return what it found. It
adds nothing to what happens to a row, so every engine makes the same copies, to the bit.

local        groups of rows side by side in threads, results in order; copies are files
spark        parts of a table on the machines of a cluster; copies are directories of files
sorted_keys  the keys of a table's rows, none of them twice
batches      rows that come to a registered table
differences  two editions of a table, compared
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cornerwave.engines.sorted_keys import KeepKeys
    from cornerwave.rows import RowSecrets
    from cornerwave.survey import Survey, Surveyor
    from cornerwave.table import Progress, Schema, Source


def opened_frame(what: Any) -> Any:
    """Return a frame of Spark as a source, and anything else as it is."""
    if not type(what).__module__.startswith("pyspark."):  # or importing Spark would take long
        return what
    from cornerwave.engines.spark import is_spark_frame, of_frame

    return of_frame(what) if is_spark_frame(what) else what


def is_here(source: "Source") -> bool:
    """Whether this process can read the rows of a source: those of Spark's frames it cannot."""
    return not hasattr(source, "frame")


def survey_source(
    source: "Source",
    schema: "Schema",
    secrets: "RowSecrets",
    *,
    keep_keys: "KeepKeys",
    spark: Any = None,
    progress: "Progress",
) -> "tuple[Surveyor, Survey]":
    """Survey a table: on a cluster if it is a frame of Spark, or if a session is given.

    `keep_keys` is called if the rows have a key, except for frames of Spark: theirs stay there.
    """
    if spark is None and is_here(source):
        from cornerwave.engines.local import survey_table

        return survey_table(source, schema, secrets, keep_keys=keep_keys, progress=progress)
    from cornerwave.engines.sorted_keys import sorted_keys
    from cornerwave.engines.spark import survey_on_spark

    found = survey_on_spark(source, schema, secrets, spark=spark, progress=progress)
    if schema.key is not None and is_here(source):
        keep_keys(sorted_keys(source, schema, secrets))
    return found
