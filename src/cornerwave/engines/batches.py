"""Rows that come to a registered table: surveyed on its scales."""

from cornerwave.editions import Ranges
from cornerwave.engines._passes import (
    Engine,
    SurveyWork,
    check_order,
    check_units,
    order_of,
)
from cornerwave.errors import ColumnError
from cornerwave.neighbours import RowOrder
from cornerwave.survey import Survey, Surveyor, no_rows
from cornerwave.table import Progress, Schema, silent


class BatchSurveyor(Surveyor):
    """Surveys new rows: what all columns tell of each other was measured at registration."""

    @property
    def joint_rows(self) -> int:
        """How many rows are sampled of all columns."""
        return SAMPLED


SAMPLED = 1 << 13
AT_ONCE = 1 << 16
"""Rows of a batch in a group: batches are small, and all threads should have some."""


def survey_batch(
    engine: Engine, surveyor: Surveyor, ranges: Ranges, *, progress: Progress = silent
) -> Survey:
    """Survey new rows of a table on an engine; `ranges` counts those beyond the scales.

    Raises SourceError, also if two rows have one key, if their order tells a column, or if rows
    belong together.
    """
    schema, survey = surveyor.schema, no_rows(surveyor)
    order = batch_order(schema)
    work = SurveyWork(surveyor, ranges, order)
    with engine.run(work) as parts:
        for part in engine.repeated(parts, schema.key):
            before = survey.moments.rows
            work.known = survey = survey + part.survey
            ranges.outside.update(part.outside)
            order.take(part.seen)
            progress(survey.moments.rows - before)
    check_batch_order(order, schema)
    check_units(surveyor, survey)
    return survey


def batch_order(schema: Schema) -> RowOrder:
    """Return what looks at the order of new rows: at fewer than of a table that is registered."""
    return order_of(schema, cells=0)


def check_batch_order(order: RowOrder, schema: Schema) -> None:
    """Raise ColumnError if the order of new rows tells a column, and copies show the order."""
    try:
        check_order(order, schema)
    except ColumnError as error:
        why = str(error).partition(". Shuffle")[0]
        raise ColumnError(f"{why}. Put the rows into a random order") from None
