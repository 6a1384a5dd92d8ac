"""The passes over a table, whichever engine runs them.

sample   columns whose scale depends on their distribution         (if there are any)
survey   everything that registration learns; no key twice, what the order of the rows reveals, and
         whether rows belong together
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Ids, Ints, Words
from cornerwave.columns import (
    Encoded,
    Fingerprint,
    Scale,
    Schema,
    one_chunk,
    to_floats,
    with_distances,
)
from cornerwave.editions import Ranges
from cornerwave.engines._checks import (
    batch_order,
    check_declared_unit,
    check_order,
    check_units,
    order_of,
)
from cornerwave.errors import SourceChanged, SourceError, SourceLost
from cornerwave.passes import Adding, Found, Pass, Result_co, one_thread
from cornerwave.privacy import RowOrder
from cornerwave.sources import Progress, Source, silent
from cornerwave.spine.frozen import Frozen
from cornerwave.spine.histories import CHANGED, HistoryRows, row_words, taken_from
from cornerwave.spine.person_gaps import FoundGaps
from cornerwave.spine.person_values import PersonValues, constant_columns
from cornerwave.spine.recipe import Fingerprints
from cornerwave.spine.rows import (
    Group,
    RowSecrets,
    encoded_cells,
    outer_ids,
    row_ids,
    row_order,
    row_times,
    unit_ids,
)
from cornerwave.spine.sample import Sample, rank_draws
from cornerwave.spine.survey import Sampler, Survey, Surveyor, no_rows


@dataclass(frozen=True)
class Block:
    """Some rows of a table, the place of the first and the ids of all."""

    start: int
    ids: Ids
    table: pa.Table

    @classmethod
    def of(cls, start: int, table: pa.Table, schema: Schema, secrets: RowSecrets) -> "Block":
        """Return the rows that begin at `start`."""
        return cls(start, row_ids(start, table, schema, secrets), table)

    @property
    def places(self) -> Ints:
        """The places of the rows."""
        return np.arange(self.start, self.start + len(self.ids))


class Engine(Protocol):
    """Where passes over a table are run."""

    @property
    def all_rows(self) -> int | None:
        """How many rows the table has, if that is known before the first is read."""

    @property
    def is_placed(self) -> bool:
        """Whether rows have places, by which they lie a known number of rows apart."""

    def run(self, pass_: Pass[Block, Found, Result_co], progress: Progress = silent) -> Result_co:
        """Run a pass over all rows. Raises ColumnError if it compares keys, and rows have one."""


@dataclass(frozen=True, repr=False)
class SamplePass(Pass[Block, Sample, tuple[Scale, ...]]):
    """Finds the scales that depend on the distribution of their column."""

    sampler: Sampler

    def nothing(self) -> Sample:
        """Return a sample of no rows."""
        return self.sampler.nothing()

    def of(self, block: Block, known: Sample) -> Sample:
        """Sample some rows."""
        return self.sampler.of(block.ids, block.table)

    def finish(self, total: Sample) -> tuple[Scale, ...]:
        """Return the scales of the numbers."""
        return self.sampler.scales(total)


@dataclass(frozen=True)
class Surveyed:
    """What a survey shows of some rows, and their order.

    `outside` are numbers beyond the ends of their scale, by their column: of new rows alone.
    """

    survey: Survey
    order: RowOrder
    outside: Counter[str]

    def __add__(self, other: "Surveyed") -> "Surveyed":
        return Surveyed(
            self.survey + other.survey, self.order + other.order, self.outside + other.outside
        )

    def trimmed(self) -> "Surveyed":
        """Return the same without the rows too many, to be sent."""
        return Surveyed(self.survey.trimmed(), self.order.trimmed(), self.outside)


@dataclass(frozen=True, repr=False)
class SurveyPass(Pass[Block, Surveyed, Surveyed]):
    """Surveys rows; those of a batch have the `ranges` that numbers are expected in.

    `rows` is how many there are, if that is known before the first is read.
    """

    surveyor: Surveyor
    order: RowOrder
    ranges: Ranges | None = None
    rows: int | None = None
    compares_keys = True

    def nothing(self) -> Surveyed:
        """Return the survey of no rows."""
        return Surveyed(no_rows(self.surveyor, self.rows), self.order, Counter())

    def of(self, block: Block, known: Surveyed) -> Surveyed:
        """Survey some rows."""
        self.surveyor.check(known.survey)  # far too many values show early
        survey = self.surveyor.of(block.ids, block.table, block.places, known.survey)
        outside = self.ranges.beyond(block.table) if self.ranges else Counter[str]()
        placed = with_distances(block.table, self.surveyor.schema.relative)
        return Surveyed(survey, known.order.of(block.start, placed), outside)

    def outline(self, total: Surveyed) -> Surveyed:
        """Return it without sampled rows: blocks under way would keep those of earlier sums."""
        return replace(total, survey=total.survey.without_rows())

    def finish(self, total: Surveyed) -> Surveyed:
        """Return the survey of all rows.

        Raises ColumnError if the order of the rows reveals a column and the schema does not state
        what happens to it, or if rows belong together.
        """
        self.surveyor.check(total.survey)
        with one_thread("blas"):  # products of a single column: others would wait busily
            check_order(total.order, self.surveyor.schema, is_batch=self.ranges is not None)
            check_units(self.surveyor, total.survey)
            if self.ranges is None:
                check_declared_unit(self.surveyor, total.survey)
        return total


def survey_rows(
    engine: Engine,
    schema: Schema,
    secrets: RowSecrets,
    progress: Progress = silent,
    known: Mapping[str, Scale] | None = None,
) -> tuple[Surveyor, Survey]:
    """Survey a whole table on an engine; the scales of some columns may be `known`.

    Raises SourceError, also if two rows have one key, if the order of the rows reveals a
    column and the schema does not state what happens to it, or if rows belong together.
    """
    sampler = Sampler(schema, secrets)
    scales = engine.run(SamplePass(sampler)) if sampler.columns else sampler.scales(None)
    fixed = known or {}
    scales = tuple(fixed.get(n, scale) for n, scale in zip(schema.perturbed, scales, strict=True))
    surveyor = Surveyor(schema, scales, secrets, looks_for_constants=True)
    order = order_of(schema, is_placed=engine.is_placed, rows=engine.all_rows)
    survey = engine.run(SurveyPass(surveyor, order, rows=engine.all_rows), progress).survey
    if (sample := survey.persons) is not None:
        names = constant_columns(sample.starts, sample.numbers, schema.perturbed)
        seen = survey.seen_constant.only(names) if survey.seen_constant and names else None
        constants = seen or constants_of(engine, names, schema, secrets)
        survey = replace(survey, constants=constants, seen_constant=None)
        if schema.nested:
            names = constant_columns(sample.outer_starts, sample.numbers, schema.perturbed)
            outer = constants_of(engine, names, schema, secrets, outer=True)
            survey = replace(survey, outer_constants=outer)
    if survey.nesting is not None:
        survey.nesting.check(schema)
    return surveyor, survey.trimmed()  # sorted once, and not each time that it is used


def constants_of(
    engine: Engine,
    names: Sequence[str],
    schema: Schema,
    secrets: RowSecrets,
    *,
    outer: bool = False,
) -> PersonValues | None:
    """Return the values of columns that may be constant in each person; None without any.

    Or in each household, if `outer`.
    """
    return engine.run(ConstantPass(tuple(names), schema, secrets, outer)) if names else None


@dataclass(frozen=True, repr=False)
class ConstantPass(Adding[Block, PersonValues]):
    """Looks whether columns are constant in each person: in all persons, not in sampled ones."""

    names: tuple[str, ...]
    schema: Schema
    secrets: RowSecrets
    outer: bool = False

    @property
    def reads(self) -> list[str]:
        """The columns that it looks at."""
        named = (self.schema.key, *self.schema.units, *self.names)
        return [name for name in named if name is not None]

    def nothing(self) -> PersonValues:
        """Return the values of no rows."""
        none = np.empty((0, 2), dtype=np.uint64)
        nothing = np.empty((len(self.names), 0))
        return PersonValues.of(self.names, none, nothing, self.secrets.texts)

    def of(self, block: Block, known: PersonValues) -> PersonValues:
        """Return those of some rows."""
        named = outer_ids if self.outer else unit_ids
        units = named(block.ids, block.table, self.schema, self.secrets)
        values = np.array(
            [to_floats(one_chunk(block.table.column(name)), name) for name in self.names]
        )
        return PersonValues.of(self.names, units, values, self.secrets.texts)


def seen_in(source: Source, schema: Schema) -> list[str]:
    """Return the columns of a source that a survey reads; a batch may be without dropped ones."""
    return [name for name in schema.looked_at if name in source.schema.names]


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

    A connection that was lost on the way to them reveals nothing about them.
    """
    try:
        yield
    except SourceLost:
        raise
    except SourceError as error:
        raise SourceChanged(f"this is not the registered table: {error}") from None


@dataclass(frozen=True, repr=False)
class FingerprintPass(Pass[Block, Fingerprints, Fingerprint]):
    """Recognises a table: all columns that have a part in its fingerprint."""

    schema: Schema
    rows: RowSecrets

    @property
    def reads(self) -> list[str]:
        """The columns that it looks at."""
        return self.schema.used

    def nothing(self) -> Fingerprints:
        """Return the fingerprint of no rows."""
        return Fingerprints()

    def of(self, block: Block, known: Fingerprints) -> Fingerprints:
        """Return the fingerprint of some rows."""
        group = Group.of(block.ids, block.table, self.schema, self.rows)
        return Fingerprints(group.fingerprint(self.rows))

    def finish(self, total: Fingerprints) -> Fingerprint:
        """Return the fingerprint of all rows."""
        return total.table


@dataclass(frozen=True, repr=False)
class HistoryPass(Adding[Block, HistoryRows]):
    """Collects the categories of all persons; `ends` is where the rows of each edition end.

    With histories of another table, what replaces a person would be another one, and the
    difference of two copies would show who was replaced. So either all columns are read, and have
    to have the fingerprint `whole`; or, where the same rows are read again by the pass that writes,
    only what is taken. What is taken has a fingerprint of its own, and the pass that writes takes
    the same from its rows: it ends well only if the whole table has the registered fingerprint
    (`Recipe.check`), and if the same was taken from it. A table that changed between the two passes
    cannot pass both, whether it was another one before or after, or changed and changed back.
    """

    frozen: Frozen
    rows: RowSecrets
    ends: tuple[int, ...]
    whole: str | None

    @property
    def reads(self) -> list[str]:
        """The columns that it looks at: all that have a part in the fingerprint, or a few."""
        schema = self.frozen.schema
        if self.whole is not None:
            return schema.used
        return [name for name in (schema.key, schema.time) if name is not None] + self._encoded

    @property
    def _encoded(self) -> list[str]:
        """The categories, and the unit."""
        schema = self.frozen.schema
        return [name for name in schema.encoded if name not in schema.kept]

    def nothing(self) -> HistoryRows:
        """Return no rows."""
        return HistoryRows()

    def of(self, block: Block, known: HistoryRows) -> HistoryRows:
        """Collect those of some rows."""
        schema, fingerprint = self.frozen.schema, Fingerprint.nothing()
        if self.whole is None:
            cells: Mapping[str, Encoded] = encoded_cells(block.table, schema, self._encoded)
        else:
            group = Group.of(block.ids, block.table, schema, self.rows)
            cells, fingerprint = group.encoded, group.fingerprint(self.rows)
        assert schema.unit is not None
        units = unit_ids(block.ids, block.table, schema, self.rows, cells[schema.unit])
        editions = np.searchsorted(self.ends, block.places, side="right")
        words = row_words(block.ids)
        times = row_times(block.table, schema)
        order = row_order(block.table, block.places, schema)
        codes = self.frozen.codes(cells)
        taken = taken_from(block.ids, units, times, codes, self.rows.fingerprint)
        outers: tuple[Ids, ...] = ()
        if schema.nested:
            outers = (outer_ids(block.ids, block.table, schema, self.rows),)
        return HistoryRows(((words, units, editions, order, codes),), fingerprint, taken, outers)

    def finish(self, total: HistoryRows) -> HistoryRows:
        """Return those of all rows. Raises SourceChanged for another table."""
        is_whole = self.whole is None or str(total.fingerprint) == self.whole
        if not is_whole or total.taken.rows != self.ends[-1]:
            raise SourceChanged(CHANGED)
        return total


@dataclass(frozen=True, repr=False)
class GapPass(Adding[Block, FoundGaps]):
    """Collects what draws for hidden gaps of persons depend on; editions end at `ends`.

    All columns are read, and have to have the fingerprint `whole`: draws that follow another table
    would differ from those of other copies, and show which they are.
    """

    frozen: Frozen
    rows: RowSecrets
    ends: tuple[int, ...]
    whole: str

    def nothing(self) -> FoundGaps:
        """Return what draws depend on without rows."""
        return FoundGaps()

    def of(self, block: Block, known: FoundGaps) -> FoundGaps:
        """Collect that of some rows."""
        schema, draws = self.frozen.schema, self.frozen.draws
        assert draws is not None
        group = Group.of(block.ids, block.table, schema, self.rows)
        editions = np.searchsorted(self.ends, block.places, side="right")
        x = self.frozen.scaled(group.numbers, rank_draws(self.rows, group.outers))
        gaps = FoundGaps.of(group.ids, group.units, editions, x, schema, draws)
        return replace(gaps, fingerprint=group.fingerprint(self.rows))

    def finish(self, total: FoundGaps) -> FoundGaps:
        """Return that of all rows. Raises SourceChanged for another table."""
        if str(total.fingerprint) != self.whole:
            raise SourceChanged(CHANGED)
        return total


# --------------------------------------------------------------------------------------------------
# Rows that come to a registered table: surveyed on its scales.


class BatchSurveyor(Surveyor):
    """Surveys new rows: what all columns reveal of each other was measured at registration."""

    @property
    def joint_rows(self) -> int:
        """How many rows are sampled of all columns."""
        return SAMPLED

    @property
    def person_rows(self) -> int:
        """How many rows of sampled persons there are: they are added to those that are there."""
        return SAMPLED_OF_PERSONS


SAMPLED, SAMPLED_OF_PERSONS = 1 << 13, 1 << 15


def survey_batch(
    engine: Engine,
    surveyor: Surveyor,
    ranges: Ranges,
    *,
    constant: Sequence[str] = (),
    outer_constant: Sequence[str] = (),
    progress: Progress = silent,
) -> Survey:
    """Survey new rows of a table on an engine; `ranges` counts those beyond the scales.

    Some columns are `constant` in each person, some of these in each household.

    Raises SourceError, also if two rows have one key, if their order reveals a column, or if rows
    belong together.
    """
    schema = surveyor.schema
    order = batch_order(schema, is_placed=engine.is_placed, rows=engine.all_rows)
    surveyed = engine.run(SurveyPass(surveyor, order, ranges), progress)
    ranges.outside.update(surveyed.outside)
    constants = constants_of(engine, constant, schema, surveyor.secrets)
    outer = constants_of(engine, outer_constant, schema, surveyor.secrets, outer=True)
    return replace(surveyed.survey, constants=constants, outer_constants=outer)
