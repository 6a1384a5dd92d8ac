"""What one pass learns about a table. Everything adds up, in any order and any parts:

    survey of all rows = survey of some rows + survey of the others        (to the bit)

    moments      exact sums: mean and K of the numbers, on their scales
    tallies      how many rows hold each value of a category
    fingerprint  keyed sums that recognise the table again
    marks        keyed samples that recognise its values in another table
    sample       the rows whose MAC is smallest
    units        of some of these rows all columns, to see which rows belong together
    persons      some units whose rows belong together, with all of their rows
    followed     how columns follow from others
    first        the first rows, to see whether rows that come later are in their order

So a table can be surveyed by threads, or by the machines of a cluster, and what is frozen
afterwards does not depend on how.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from cornerwave.arrays import LARGEST_WORD, Floats, Ids, Ints, Words
from cornerwave.columns import (
    MISSING_BITS,
    Encoded,
    Fingerprint,
    Followed,
    Knots,
    RankDraws,
    Scale,
    Schema,
    ShownPart,
    Summed,
    Tally,
    check_number,
    distances_in,
    gaps_beside,
    is_number,
    is_text,
    one_chunk,
    part_words,
    quantiles,
    rank_scale,
    shown_numbers,
    shown_parts,
    sum_step,
    taken,
    tally,
    to_floats,
    type_named,
)
from cornerwave.moments import Moments
from cornerwave.privacy import FIRST, UnitColumns
from cornerwave.reuse import Cells, Learned, TableMarks, kept_of
from cornerwave.spine.person_counts import Holders, Nesting, all_holders, holders_of
from cornerwave.spine.person_sample import (
    PersonSample,
    unit_hashes,
    unit_limit,
)
from cornerwave.spine.person_values import PersonValues, SeenConstant
from cornerwave.spine.rows import Group, RowSecrets, row_order, row_times, shows_order
from cornerwave.spine.sample import Sample, hash_limit, knot_weights, rank_draws, row_hashes

SAMPLE_ROWS = 1 << 20
"""Rows whose values represent a column's distribution: a quantile has the standard error
sqrt(q (1 - q) / 2^20), at most 0.0005."""
JOINT_ROWS, LEAST_JOINT_ROWS, JOINT_CELLS = 1 << 16, 1 << 15, 1 << 22
"""Rows that second moments across all columns are measured on: fewer of a wide table. A
correlation has the standard error 2^-8, or 2^-7.5."""
MOST_PARTS = 64
"""Parts of columns that copies show, such as how texts end, at most: fewer of each of many."""
UNIT_ROWS, LEAST_UNIT_ROWS, UNIT_CELLS = 1 << 16, 1 << 10, 1 << 22
"""Rows that are looked at to see which belong together: fewer of a wide table."""


@dataclass(frozen=True)
class Survey:
    """What is known of some rows of a table; `a + b` is what is known of both parts.

    `complete` are the moments of the rows that miss no number, None if none is missing;
    `sample` holds many rows of the columns whose distribution must be known, `joint` some rows
    of all columns: the numbers, those shown as they are as numbers, the cells of all others, and
    the parts of those that are shown.
    """

    moments: Moments
    complete: Moments | None
    fingerprint: Fingerprint
    marks: Learned
    tallies: Mapping[tuple[str, ...], Tally]
    sample: Sample
    joint: Sample
    units: Sample
    first: Sample
    persons: PersonSample | None = None
    holders: Mapping[tuple[str, ...], Holders] = field(default_factory=dict)
    """Which values of categories one person alone holds, if the table has a unit."""
    constants: PersonValues | None = None
    """Columns that are constant in each person: of all persons."""
    seen_constant: SeenConstant | None = None
    """Those that are, in the rows that were seen so far."""
    outer_constants: PersonValues | None = None
    """Those that are constant in each household, if persons belong to households."""
    nesting: Nesting | None = None
    """Which households persons are in, if they belong to some."""
    followed: Mapping[str, Followed] = field(default_factory=dict)
    """What derived columns show beside those that they follow."""
    summed: Mapping[str, Summed] = field(default_factory=dict)
    """How many rows of totals are not the sum of their parts."""

    @property
    def whole(self) -> Moments:
        """The moments of the rows that miss no number."""
        return self.moments if self.complete is None else self.complete

    def __add__(self, other: "Survey") -> "Survey":
        # None stands for the moments of all rows: both are written out once one part has a gap
        gaps = self.complete is not None or other.complete is not None
        return Survey(
            moments=self.moments + other.moments,
            complete=self.whole + other.whole if gaps else None,
            fingerprint=self.fingerprint + other.fingerprint,
            marks=self.marks + other.marks,
            tallies={names: tally + other.tallies[names] for names, tally in self.tallies.items()},
            sample=self.sample + other.sample,
            joint=self.joint + other.joint,
            units=self.units + other.units,
            first=self.first + other.first,
            persons=_both(self.persons, other.persons),
            holders={
                names: all_holders(self.holders.get(names, {}), other.holders.get(names, {}))
                for names in {**self.holders, **other.holders}
            },
            seen_constant=_both(self.seen_constant, other.seen_constant),
            nesting=_both(self.nesting, other.nesting),
            followed={
                name: self.followed.get(name, Followed()) + other.followed.get(name, Followed())
                for name in {**self.followed, **other.followed}
            },
            summed={
                name: self.summed.get(name, Summed()) + other.summed.get(name, Summed())
                for name in {**self.summed, **other.summed}
            },
        )

    def trimmed(self) -> "Survey":
        """Return the same without the rows too many, each sample in the order of its hashes."""
        return replace(
            self,
            sample=self.sample.trimmed(),
            joint=self.joint.trimmed(),
            units=self.units.trimmed(),
        )

    def without_rows(self) -> "Survey":
        """Return the same without the sampled rows."""
        return replace(
            self,
            sample=self.sample.without_rows(),
            joint=self.joint.without_rows(),
            units=self.units.without_rows(),
        )


Part = TypeVar("Part", PersonSample, Nesting, SeenConstant)


def _both(one: Part | None, other: Part | None) -> Part | None:
    return one if other is None else other if one is None else one + other


@dataclass(frozen=True)
class Surveyor:
    """Surveys rows of a table with decided columns, on known scales; `start` is the first place.

    `looks_for_constants` if it is not known which columns are constant in each person.
    """

    schema: Schema
    scales: tuple[Scale, ...]
    secrets: RowSecrets
    start: int = 0
    looks_for_constants: bool = False

    @property
    def sampled(self) -> list[str]:
        """The columns whose distribution must be known: those that hide missing values."""
        schema = self.schema
        return [name for name in schema.perturbed if schema.column(name).hide_missing]

    @property
    def texts(self) -> list[str]:
        """The columns that copies show as they are and whose values are texts."""
        types = {name: type_named(self.schema.column(name).type) for name in self.schema.unchanged}
        return [name for name, type_ in types.items() if type_ is None or not is_number(type_)]

    @property
    def parts(self) -> dict[str, Sequence[ShownPart]]:
        """The parts that are sampled of each column that copies show as it is."""
        names = self.schema.unchanged
        room = max(2, MOST_PARTS // max(1, len(names)))
        return {
            name: shown_parts(type_named(self.schema.column(name).type), room) for name in names
        }

    @property
    def joint_rows(self) -> int:
        """How many rows are sampled of all columns."""
        # memory is bounded by cells, and a correlation by rows: neither less than LEAST_JOINT_ROWS
        columns = len(self.schema.perturbed) + len(self.schema.encoded)
        return min(JOINT_ROWS, max(LEAST_JOINT_ROWS, JOINT_CELLS // max(1, columns)))

    @property
    def person_rows(self) -> int:
        """How many rows of sampled persons there are, of all columns."""
        return self.joint_rows

    def of(self, ids: Ids, table: pa.Table, places: Ints, known: Survey | None = None) -> Survey:
        """Survey some rows, given their ids and their places in the table.

        If they are to be added to what is `known` of others, and to nothing before that, what
        cannot matter there is left out. Raises SourceError for values that cannot be used.
        """
        schema, group = self.schema, Group.of(ids, table, self.schema, self.secrets)
        # moments, samples and the noise itself live on the scales of the columns;
        # of persons: a value that they have in several rows has one rank
        draws = rank_draws(self.secrets, group.outers)
        numbers = on_scales(self.scales, schema.perturbed, group.numbers, draws)
        fingerprint, hashes = group.recognised(self.secrets)
        sampled = [schema.perturbed.index(name) for name in self.sampled]
        chosen = hashes if sampled else hashes[:0]  # a sample of no columns needs no rows
        below = (known.sample.limit, known.joint.limit) if known else (LARGEST_WORD, LARGEST_WORD)
        unit_limit = known.units.limit if known else LARGEST_WORD
        moments = Moments.of_columns(numbers, schema.perturbed)
        derived = self._derived(table)
        return Survey(
            moments=moments,
            complete=_complete(numbers, moments, schema),
            fingerprint=fingerprint,
            marks=self._learned(group, places, known.marks if known else None),
            tallies={names: tally(group.columns_of(names)) for names in schema.categories},
            sample=Sample.of(
                chosen, [numbers[row] for row in sampled], [], most=SAMPLE_ROWS, below=below[0]
            ),
            joint=self._joint(hashes, numbers, group, derived, below[1]),
            units=self._units(hashes, group, unit_limit),
            first=self._first(places, numbers, group),
            holders=self._holders(group),
            persons=self._persons(hashes, numbers, places, group, known.persons if known else None),
            seen_constant=self._constants(group, known.seen_constant if known else None),
            nesting=None if group.nest is None else Nesting.of(group.nest),
            followed={
                name: self._followed(name, encoded, group) for name, encoded in derived.items()
            }
            | {
                name: gaps_beside(group.encoded[other], self._number(name, group))
                for name, other in schema.present_if.items()
            },
            summed={
                name: self._summed(name, parts, table)
                for name, parts in schema.totals.items()
                if name in table.column_names
            },
        )

    def _summed(self, name: str, parts: Sequence[str], table: pa.Table) -> Summed:
        total, *values = (to_floats(one_chunk(table.column(n)), n) for n in (name, *parts))
        decimals = self.schema.column(name).decimals
        return Summed.of(total, values, sum_step(table.schema.field(name).type, decimals))

    def _derived(self, table: pa.Table) -> dict[str, Encoded]:
        """Return the derived columns of some rows by their values; a batch may lack some."""
        names = [c.name for c in self.schema.derived if c.name in table.column_names]
        return {name: Encoded.of_category(one_chunk(table.column(name)), name) for name in names}

    def _followed(self, name: str, encoded: Encoded, group: Group) -> Followed:
        source = str(self.schema.column(name).follows)
        if source in group.encoded:
            return Followed.of_category(encoded, group.encoded[source])
        return Followed.of_number(encoded, group.numbers[self.schema.perturbed.index(source)])

    @property
    def plain(self) -> list[str]:
        """The numbers that are sampled as they are, beside those on their scales."""
        wanted = {column.follows for column in self.schema.derived} | {*self.schema.relative}
        wanted |= {part for parts in self.schema.totals.values() for part in parts}
        return [name for name in self.schema.perturbed if name in wanted]

    def _joint(
        self,
        hashes: Words,
        numbers: Floats,
        group: Group,
        derived: Mapping[str, Encoded],
        below: np.uint64,
    ) -> Sample:
        """Sample rows of all columns; what is shown is worked out for the sampled rows alone."""
        # a row is sampled by its MAC, whatever part it comes in: so samples of parts add up
        limit = hash_limit(hashes, self.joint_rows, below)
        rows = np.flatnonzero(hashes <= limit)
        shown = {
            name: taken(one_chunk(group.table.column(name)), rows) for name in self.schema.unchanged
        }
        parts = [
            words
            for name, named_parts in self.parts.items()
            for words in part_words(shown[name], named_parts, self.secrets.texts)
        ]
        plain = [self._plain(name, group)[rows] for name in self.plain]
        return Sample.of(
            hashes[rows],
            [*(each[rows] for each in numbers), *map(shown_numbers, shown.values()), *plain],
            [
                *(each[rows] for each in group.cells),
                *(self._words(name, derived, rows) for name in self._names_derived),
                *parts,
            ],
            most=self.joint_rows,
            below=limit,
        )

    def _number(self, name: str, group: Group) -> Floats:
        """Return a number as it is perturbed, perhaps a distance, but on its own scale."""
        return np.asarray(group.numbers[self.schema.perturbed.index(name)])

    def _plain(self, name: str, group: Group) -> Floats:
        """Return a number as the table has it, and not as a distance."""
        if name in self.schema.relative:
            return to_floats(one_chunk(group.table.column(name)), name)
        return np.asarray(group.numbers[self.schema.perturbed.index(name)])

    @property
    def _names_derived(self) -> list[str]:
        return [column.name for column in self.schema.derived]

    def _words(self, name: str, derived: Mapping[str, Encoded], rows: Ints) -> Words:
        """Return the words of a derived column in some rows; one that is not there is missing."""
        words = np.full(len(rows), MISSING_BITS, dtype=np.uint64)
        if name in derived:
            encoded = derived[name]
            replace(encoded, codes=encoded.codes[rows]).fill_bits(
                self.secrets.texts, MISSING_BITS, words
            )
        return words

    def plain_numbers(self, survey: Survey) -> dict[str, Floats]:
        """Return the numbers of the joint sample that are sampled as they are."""
        numbers = survey.joint.ordered.numbers
        return dict(zip(self.plain, numbers[len(numbers) - len(self.plain) :], strict=True))

    def derived_words(self, survey: Survey) -> dict[str, Words]:
        """Return the words of derived columns in the joint sample."""
        cells, first = survey.joint.ordered.cells, len(self.schema.encoded)
        return dict(zip(self._names_derived, cells[first:], strict=False))

    def _holders(self, group: Group) -> dict[tuple[str, ...], Holders]:
        if self.schema.unit is None:
            return {}
        persons = group.outers[:, 0]
        return {
            names: holders_of(group.columns_of(names), persons) for names in self.schema.categories
        }

    def _persons(
        self,
        hashes: Words,
        numbers: Floats,
        places: Ints,
        group: Group,
        known: PersonSample | None,
    ) -> PersonSample | None:
        """Sample units, with the same columns of their rows as the joint sample."""
        if self.schema.unit is None:
            return None
        chosen = unit_hashes(group.outers, self.secrets.sample)
        limit = unit_limit(chosen, self.person_rows, known)
        rows = np.flatnonzero(chosen <= limit)
        shown = [
            shown_numbers(taken(one_chunk(group.table.column(name)), rows))
            for name in self.schema.unchanged
        ]
        when = row_times(group.table, self.schema)
        times = [] if when is None else [when[rows]]
        units = chosen[rows]
        if group.nest is not None:
            units = unit_hashes(np.ascontiguousarray(group.units[rows]), self.secrets.sample)
        return PersonSample.of(
            units,
            hashes[rows],
            [*(each[rows] for each in numbers), *shown, *times],
            [each[rows] for each in group.cells],
            self.person_rows,
            None if group.nest is None else chosen[rows],
            limit,
            self._order(group.table, places, rows) if self.follows else None,
        )

    def _constants(self, group: Group, known: SeenConstant | None) -> SeenConstant | None:
        """Return which columns are constant in each person, of those that were so far."""
        schema = self.schema
        if not self.looks_for_constants or schema.unit is None or schema.relative:
            return None
        known = known or SeenConstant.nothing(schema.perturbed)
        return known.of(schema.perturbed, group.units, group.numbers, self.secrets.texts)

    def _order(self, table: pa.Table, places: Ints, rows: Ints) -> Floats:
        """Return in which order some rows of persons follow each other."""
        keys = [] if self.schema.key is None else [self.schema.key]
        return row_order(table.select(keys).take(rows), places[rows], self.schema)

    @property
    def follows(self) -> bool:
        """Whether copies show in which order rows of a person follow each other without a time."""
        schema = self.schema
        return schema.time is None and len(schema.categories) > 0 and shows_order(schema)

    def _first(self, places: Ints, numbers: Floats, group: Group) -> Sample:
        """Return the first rows of a table, if copies show its order: the smallest places."""
        # rows come in the order of their places, so the first ones are a prefix of a part
        first = places - self.start < FIRST
        count = np.count_nonzero(first) if self.schema.order is None else 0
        kept, categories = len(self.schema.kept), sum(map(len, self.schema.categories))
        cells = group.cells[kept : kept + categories, :count]
        return Sample.of(
            places[:count].astype(np.uint64), [*numbers[:, :count]], [*cells], most=FIRST
        )

    @property
    def unit_columns(self) -> UnitColumns:
        """The columns that are looked at to see which rows belong together."""
        return UnitColumns.of(self.schema)

    @property
    def unit_rows(self) -> int:
        """How many rows are looked at for that."""
        return min(UNIT_ROWS, max(LEAST_UNIT_ROWS, UNIT_CELLS // max(1, self.unit_columns.count)))

    def _units(self, hashes: Words, group: Group, below: np.uint64) -> Sample:
        """Sample rows of all columns: what is hashed for nothing else, only in sampled rows."""
        columns, most = self.unit_columns, self.unit_rows
        hashes = hashes if columns.count else hashes[:0]
        limit = hash_limit(hashes, most, below)
        rows = np.flatnonzero(hashes <= limit)
        # of other categories floats are whole numbers there
        hashed = {
            name: words
            for (name, column), words in zip(group.encoded.items(), group.cells, strict=True)
            if is_text(column.values.type) or name in self.schema.units
        }
        known = dict(zip(self.schema.perturbed, group.words, strict=False)) | hashed
        numbers, cells = columns.of_rows(group.table, rows, self.secrets.texts, known)
        return Sample.of(hashes[rows], numbers, cells, most=most, below=limit)

    def check(self, survey: Survey) -> None:
        """Raise ColumnError as soon as a category is seen to have too many values."""
        for names, counts in survey.tallies.items():
            check_number(names, counts, survey.moments.rows)
        for name, each in survey.followed.items():
            each.check_number(name)

    def marks(self, survey: Survey) -> TableMarks:
        """Return the marks by which a vault recognises these values again."""
        return kept_of(survey.marks, self.marked, shown=self.shown)

    @property
    def marked(self) -> list[str]:
        """The columns that have marks: all that are used, but a key that copies do not show."""
        schema = self.schema
        groups = [name for names in schema.categories for name in names]
        return [*schema.perturbed, *groups, *self.shown]

    @property
    def shown(self) -> list[str]:
        """The columns that copies show as they are."""
        return self.schema.unchanged

    def _learned(self, group: Group, places: Ints, known: Learned | None = None) -> Learned:
        numbers, texts = self.secrets.mark_numbers, self.secrets.mark_texts
        cells = {
            name: Cells.of_numbers(
                self._plain(name, group), numbers, unit=self.schema.column(name).unit
            )
            for name in self.schema.perturbed
        }
        for name in self.marked:
            if name in group.encoded:
                cells[name] = Cells.of_encoded(group.encoded[name], numbers=numbers, texts=texts)
        keys, key = None, self.schema.key
        if key is not None:
            keys = Cells.of_array(one_chunk(group.table.column(key)), numbers=numbers, texts=texts)
            cells[key] = keys
        marked = {name: cells[name] for name in self.marked}
        hidden = [name for name in self.marked if name not in self.shown]
        by_place = Cells.of_places(places, self.secrets.sample)
        return Learned.of(places, marked, hidden, keys, by_place, known)


def _complete(numbers: Floats, moments: Moments, schema: Schema) -> Moments | None:
    if (moments.present == moments.rows).all():
        return None
    # K of complete rows is a covariance of something; K by pairs may not be one
    missing = np.isnan(numbers).any(axis=0)
    return Moments.of_columns(numbers[:, ~missing], schema.perturbed)


@dataclass(frozen=True)
class Sampler:
    """Samples the columns whose scale depends on their distribution, before the survey."""

    schema: Schema
    secrets: RowSecrets

    @property
    def columns(self) -> list[str]:
        """The columns that are perturbed on the scale of their ranks."""
        schema = self.schema
        return [name for name in schema.perturbed if schema.column(name).transform == "rank"]

    def of(self, ids: Ids, table: pa.Table) -> Sample:
        """Sample some rows."""
        arrays = distances_in(table, self.columns, self.schema.relative)
        hashes = row_hashes(ids, self.secrets.sample)
        return Sample.of(hashes, arrays, [], most=SAMPLE_ROWS)

    def nothing(self) -> Sample:
        """Return a sample of no rows: what others are added to."""
        return Sample.nothing(len(self.columns), 0, SAMPLE_ROWS)

    def scales(self, sample: Sample | None) -> tuple[Scale, ...]:
        """Return the scale of each perturbed column. Raises ColumnError if ranks cannot serve.

        A table without rows has none; the survey refuses it.
        """
        if sample is None or not len(sample.ordered.hashes):
            return tuple(
                Scale(self.schema.column(name).transform) for name in self.schema.perturbed
            )
        rows = sample.ordered
        # keyed weights: copies reveal the knots, which must not be exact functions of the rows
        ranked = dict(zip(self.columns, rows.numbers, strict=True))
        return tuple(
            rank_scale(
                ranked[name],
                name,
                knot_weights(self.secrets, rows.hashes, name),
                coarse=self.schema.column(name).hide_missing,
            )
            if name in ranked
            else Scale(self.schema.column(name).transform)
            for name in self.schema.perturbed
        )


def quantiles_of(surveyor: Surveyor, survey: Survey) -> dict[str, Knots]:
    """Return the quantiles of the columns that hide missing values, where they vary."""
    rows, secrets = survey.sample.ordered, surveyor.secrets
    knots_of = {
        name: quantiles(values, knot_weights(secrets, rows.hashes, name))
        for name, values in zip(surveyor.sampled, rows.numbers, strict=True)
    }
    return {name: knots for name, knots in knots_of.items() if knots and knots[0][0] < knots[-1][0]}


def no_rows(surveyor: Surveyor, rows: int | None = None) -> Survey:
    """Return the survey of a table without rows: what others are added to.

    If the table is known to have so many `rows`, samples are hardly larger than they will be.
    """
    schema = surveyor.schema
    numbers, cells = len(schema.perturbed), sum(map(len, schema.categories))
    nothing, units = Moments.of_columns(np.empty((numbers, 0))), surveyor.unit_columns
    return Survey(
        moments=nothing,
        complete=None,
        fingerprint=Fingerprint.nothing(),
        marks=Learned.nothing(len(surveyor.marked), keyed=schema.key is not None),
        tallies={names: Counter() for names in schema.categories},
        sample=Sample.nothing(len(surveyor.sampled), 0, SAMPLE_ROWS, rows),
        joint=Sample.nothing(
            numbers + len(schema.unchanged) + len(surveyor.plain),
            len(schema.encoded) + len(schema.derived) + sum(map(len, surveyor.parts.values())),
            surveyor.joint_rows,
            rows,
        ),
        units=Sample.nothing(
            len(units.numbers), units.count - len(units.numbers), surveyor.unit_rows, rows
        ),
        first=Sample.nothing(numbers, cells, FIRST),
    )


def on_scales(
    scales: Sequence[Scale], names: Sequence[str], numbers: Floats, draws: RankDraws | None = None
) -> Floats:
    """Return columns (N, rows) on their scales; the same array if these are their own."""
    if all(scale.name is None for scale in scales):
        return numbers
    columns = zip(scales, numbers, names, strict=True)
    return np.stack([scale.forward(row, name, draws) for scale, row, name in columns])
