"""The passes over a table, whichever engine runs them.

sample   columns whose scale depends on their distribution         (if there are any)
survey   everything that registration learns; parts add up
check    no key twice, what the order of the rows tells, and whether rows belong together
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids, Words
from cornerwave.columns import KEEP_ORDER, SHUFFLE, Scale, Schema, listed
from cornerwave.editions import Ranges
from cornerwave.errors import ColumnError, CornerwaveWarning, SourceChanged, SourceError, SourceLost
from cornerwave.privacy import WAYS_OUT, RowOrder, SeenOrder, Told, find_units
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.rows import RowSecrets, row_ids
from cornerwave.spine.survey import Sample, Sampler, Survey, Surveyor, no_rows

Found = TypeVar("Found")
Found_co = TypeVar("Found_co", covariant=True)


class Work(Protocol[Found_co]):
    """What is done with a group of rows: a pure function."""

    def __call__(self, start: int, table: pa.Table) -> Found_co:
        """Return what is found in the rows that begin at `start`."""


class Engine(Protocol):
    """Where groups of rows of a table are dealt with."""

    def run(self, work: Work[Found]) -> AbstractContextManager[Iterator[Found]]:
        """Run this work over all rows; give what it found, in parts that add up to the whole."""

    def repeated(self, found: Iterator["Surveyed"], key: str | None) -> Iterator["Surveyed"]:
        """Pass on what a survey found; raise ColumnError at the end if rows have one key."""


@dataclass(frozen=True)
class Surveyed:
    """What a survey found in some rows: their ids, and what was seen of their order."""

    ids: Ids
    survey: Survey
    seen: SeenOrder
    outside: Counter[str] = field(default_factory=Counter)
    """Numbers beyond the ends of their scale, by their column: of new rows alone."""


@dataclass(frozen=True, repr=False)
class SampleWork:
    """Samples columns whose scale depends on their distribution."""

    sampler: Sampler

    def __call__(self, start: int, table: pa.Table) -> Sample:
        """Sample some rows."""
        ids = row_ids(start, table, self.sampler.schema, self.sampler.secrets)
        return self.sampler.of(ids, table)


@dataclass(repr=False)
class SurveyWork:
    """Surveys rows.

    Rows far down need not be looked at for what those before have settled: whoever adds up what
    was found may set `known`, and the `order` that runs are for. The sum is the same.
    """

    surveyor: Surveyor
    ranges: Ranges | None = None
    order: RowOrder | None = None
    known: Survey | None = None

    def __call__(self, start: int, table: pa.Table) -> Surveyed:
        """Survey some rows."""
        ids = row_ids(start, table, self.surveyor.schema, self.surveyor.secrets)
        places = np.arange(start, start + len(ids))
        survey = self.surveyor.of(ids, table, places, self.known)
        outside = self.ranges.beyond(table) if self.ranges else Counter[str]()
        seen = self.order.kept(start, table) if self.order else SeenOrder()
        return Surveyed(ids, survey, seen, outside)


def survey_rows(
    engine: Engine, schema: Schema, secrets: RowSecrets, progress: Progress = silent
) -> tuple[Surveyor, Survey]:
    """Survey a whole table on an engine.

    Raises SourceError, also if two rows have one key, if the order of the rows tells a
    column and the schema does not say what happens to it, or if rows belong together.
    """
    surveyor = Surveyor(schema, _scales(engine, schema, secrets), secrets)
    survey, order = no_rows(surveyor), order_of(schema)
    work = SurveyWork(surveyor, order=order)
    with engine.run(work) as parts:
        for part in engine.repeated(parts, schema.key):
            before = survey.moments.rows
            work.known = survey = survey + part.survey
            surveyor.check(survey)
            order.take(part.seen)
            progress(survey.moments.rows - before)
    check_order(order, schema)
    check_units(surveyor, survey)
    return surveyor, survey


def seen_in(source: Source, schema: Schema) -> list[str]:
    """Return the columns of a source that a survey reads; a batch may lack dropped ones."""
    return [name for name in schema.looked_at if name in source.schema.names]


def check_units(surveyor: Surveyor, survey: Survey) -> None:
    """Raise ColumnError if rows belong together, unless the owner says that they do not."""
    columns, rows = surveyor.unit_columns, survey.units.ordered
    if not columns.count:
        return
    found = find_units(columns.looked(rows.numbers, rows.cells), rows=survey.moments.rows)
    if found:
        error = ColumnError(f"{found[0]}. {WAYS_OUT}", use=("independent_rows",))
        error.add_note("In Python: independent_rows=True")
        raise error


def _scales(engine: Engine, schema: Schema, secrets: RowSecrets) -> tuple[Scale, ...]:
    """Return the scales of the numbers; reads the table if one depends on its distribution."""
    sampler = Sampler(schema, secrets)
    sample: Sample | None = None
    if sampler.columns:
        with engine.run(SampleWork(sampler)) as parts:
            for part in parts:
                sample = part if sample is None else sample + part
    return sampler.scales(sample)


def repeated_ids(ids: Ids, words: Words | None = None) -> int:
    """Return how many rows have the id of another: few have its first word.

    `words` are these, ascending, if they are known.
    """
    words = np.sort(ids[:, 0]) if words is None else words
    twice = words[1:][words[1:] == words[:-1]]
    if not len(twice):
        return 0
    some = np.ascontiguousarray(ids[np.isin(ids[:, 0], twice)]).view("V16")
    return len(some) - len(np.unique(some))


@contextmanager
def registered_rows() -> Iterator[None]:
    """Raise SourceChanged for rows that cannot be those of the registered table.

    A connection that was lost on the way to them says nothing about them.
    """
    try:
        yield
    except SourceLost:
        raise
    except SourceError as error:
        raise SourceChanged(f"this is not the registered table: {error}") from None


def not_unique(key: str | None, repeated: int) -> ColumnError:
    """Return what is said of rows that have one key."""
    return ColumnError(f"the key column {key!r} is not unique: {repeated} rows repeat a key")


def ordered_columns(schema: Schema) -> list[str]:
    """Return the columns to look at in the order of the rows, or in that of a key as it is."""
    categories = [name for group in schema.categories for name in group]
    is_looked_at = schema.order != KEEP_ORDER or schema.key in schema.unchanged
    return [*schema.perturbed, *categories, *schema.unchanged] if is_looked_at else []


def order_of(schema: Schema, *, is_placed: bool = True, **known: Any) -> RowOrder:
    """Return what looks at the order of a table's rows, as far as copies will show it.

    Rows far apart are compared if copies keep their order by default, and if they have places.
    """
    shows = is_placed and schema.order not in (SHUFFLE, KEEP_ORDER)
    noisy = [*schema.perturbed, *(name for group in schema.categories for name in group)]
    return RowOrder(ordered_columns(schema), distant=noisy if shows else (), **known)


def check_order(order: RowOrder, schema: Schema) -> None:
    """Raise ColumnError if the order of the rows tells a column, unless that is dealt with.

    Warns of what a key that is released as it is tells, by the order of its values.
    """
    told = [] if schema.order == KEEP_ORDER else _told(order, schema)
    if told and schema.order != SHUFFLE:
        raise ColumnError(
            f"the order of the rows tells {listed([each.column for each in told])}: {told[0]}. "
            "Shuffle the rows of the copies or, if recipients need the order as in a time "
            "series, keep it",
            use=("shuffle", "keep_order"),
        )
    for name in schema.unchanged:
        is_key = name == schema.key
        if (told or is_key) and (again := _told(order, schema, sorted_by=name)):
            remedy = (
                "Release the key as a pseudonym, as is the default, or drop it: it still "
                "identifies the rows"
                if is_key
                else "Shuffling does not help against that; drop the column"
            )
            warnings.warn(
                f"{name!r} is released unchanged, and rows sorted by it reveal "
                f"{listed([each.column for each in again])}: {again[0]}. {remedy}",
                CornerwaveWarning,
                stacklevel=5,
            )


def _told(order: RowOrder, schema: Schema, sorted_by: str | None = None) -> list[Told]:
    """Return the columns that neighbours tell, in the file or sorted by a column, most first."""
    categories = [name for group in schema.categories for name in group]
    hidden = [name for name in categories if schema.column(name).hide_missing]
    return order.told(schema.perturbed, categories, hide_missing=hidden, sorted_by=sorted_by)


# --------------------------------------------------------------------------------------------------
# Rows that come to a registered table: surveyed on its scales.


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
