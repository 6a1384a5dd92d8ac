"""Where the survey and the recipe run: `local` in threads of this process, `spark` on a cluster.

An engine has one verb: run this work over the parts of a table, and return what it found. It
adds nothing to what happens to a row, so every engine makes the same copies, to the bit.

local        groups of rows side by side in threads, results in order; copies are files
spark        parts of a table on the machines of a cluster; copies are directories of files
batches      rows that come to a registered table
differences  two editions of a table, compared
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cornerwave.survey import Survey, Surveyor
    from cornerwave.table import Source


def opened_frame(what: Any) -> Any:
    """Return a frame of Spark as a source, and anything else as it is."""
    if not type(what).__module__.startswith("pyspark."):  # or importing Spark would take long
        return what
    from cornerwave.engines.spark import is_spark_frame, of_frame

    return of_frame(what) if is_spark_frame(what) else what


def is_here(source: "Source") -> bool:
    """Whether this process can read the rows of a source: those of Spark's frames it cannot."""
    return not hasattr(source, "frame")


def survey_with(source: "Source", spark: Any) -> "Callable[..., tuple[Surveyor, Survey]]":
    """Return what surveys a source: a cluster if it is a frame of Spark, or a session is given."""
    from cornerwave.engines import local

    if spark is None and is_here(source):
        return local.survey_table
    from functools import partial

    from cornerwave.engines.spark import survey_on_spark

    return partial(survey_on_spark, spark=spark)
