"""The rows that a survey sampled, as coordinates of what copies hide and as what they show.

Numbers are coordinates themselves, on their scales and with draws where they are missing in
secret; the frequent values of a category are indicators. What rare values of a category reveal of
other coordinates is one coordinate for each of these: their mean over the rows that share the
value, of rows other than its own. What copies show without noise are features: kept columns,
a key that is released as it is, and visible gaps; parts of these, and differences of two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats, Ints, Words, lengths_of
from cornerwave.choices import UNIFORM
from cornerwave.columns import (
    MISSING_BITS,
    Categories,
    calendar_parts,
    chain,
    is_number,
    listed,
    plain_type,
    total_of,
    type_named,
    unit_of,
)
from cornerwave.errors import ColumnError
from cornerwave.moments import Moments
from cornerwave.noise import PersonNoise, hat_matrix
from cornerwave.privacy import (
    MOST_VALUES,
    NUMBERS,
    Computed,
    Coordinate,
    GroupMeans,
    JointSample,
    OpenColumn,
    PersonRows,
    indicators,
    standardised,
    sum_alone,
)
from cornerwave.spine.linked import Linked
from cornerwave.spine.missing import Draws, fill_missing
from cornerwave.spine.person_curves import less_time
from cornerwave.spine.person_sample import PersonSample, with_means
from cornerwave.spine.survey import Survey, Surveyor

MOST_INDICATORS, MOST_RARE, ROWS_PER_COORDINATE = 160, 96, 5
"""So many indicators, and coordinates for rare values, at most, with so many rows for each."""

PERSONS = "persons"
"""The block of all categories of a table with a unit."""

MOST_REACH = 1.5
"""What chance in the means of few rows hides of a correlation is put right up to this factor."""

MOST_OF_PERSONS, MOST_SHOWN = 24, 4
"""Indicators of all categories of sampled persons, and of a column that copies show."""

MOST_COMPUTED = 16
"""Values of a derived column that count by themselves; the others count together."""

MOST_DIFFERENT, ALIKE = 8, 8.0
"""Numbers whose differences are looked at: not further apart, nor wider, than by this factor."""


@dataclass(frozen=True)
class NoisyNumbers:
    """The numbers that get noise: with draws where values are missing in secret.

    `numbers` are those of the sampled rows; `covariance` is K of all rows, and what the draws
    change of it in the sample: they may lie where no value does, as logarithms of 0 would.
    """

    numbers: Floats
    covariance: Floats
    with_draws: bool

    @classmethod
    def of(cls, surveyor: Surveyor, survey: Survey, draws: Draws | None) -> "NoisyNumbers":
        """Return them for a table, given the distribution of its draws."""
        sample, schema = survey.joint.ordered, surveyor.schema
        numbers, K = sample.numbers[: len(schema.perturbed)], survey.moments.covariance
        if draws is None:
            return cls(numbers, K, with_draws=False)
        ids = np.column_stack([sample.hashes, np.zeros_like(sample.hashes)])
        drawn = fill_missing(numbers, ids, schema, draws, surveyor.secrets.sample)
        # K is exact over all rows; what draws change of it is measured in the sampled ones
        before, after = (Moments.of_columns(each).covariance for each in (numbers, drawn))
        return cls(drawn, np.asarray(K + (after - before)), with_draws=True)

    def excess(self, shape: Floats) -> Floats:
        """Return by how much the shape of the noise exceeds K, on the scale of the deviations."""
        deviation = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        scale = np.where(deviation > 0, deviation, 1.0)
        return np.asarray((shape - self.covariance) / np.outer(scale, scale))


def sampled_rows(
    surveyor: Surveyor,
    survey: Survey,
    categories: Sequence[Categories],
    shown: NoisyNumbers,
    shape: Floats,
) -> JointSample:
    """Return the sampled rows, for noise of a shape."""
    groups = {
        "+".join(each.columns): _codes(_cells(surveyor, survey, each.columns))
        for each in categories
    }
    # of persons one event replaces all categories: one noise, one block
    block_of = (lambda name: PERSONS) if surveyor.schema.unit else (lambda name: name)
    coordinates = [
        Coordinate(name, NUMBERS, values)
        for name, values in zip(surveyor.schema.perturbed, shown.numbers, strict=True)
    ]
    # a coordinate needs rows: of few rows fewer values get an indicator
    room = len(survey.joint.ordered.hashes) // ROWS_PER_COORDINATE - len(coordinates)
    each_has = max(1, min(MOST_INDICATORS, room) // max(1, len(categories)))
    for each, (name, codes) in zip(categories, groups.items(), strict=True):
        missing = _missing(surveyor, survey, each)
        even = len(each.counts) if each.base == UNIFORM else None
        coordinates += indicators(name, block_of(name), codes, missing, most=each_has, values=even)
    rare = [
        made
        for name, codes in groups.items()
        if codes.max(initial=0) >= each_has
        for made in _rare_values(block_of(name), codes, coordinates)
    ]
    rare.sort(key=lambda made: -float(np.nanvar(made.values)))  # those that reveal most
    return JointSample(
        [*coordinates, *rare[: max(0, min(MOST_RARE, room))]],
        shown.excess(shape),
        list(_features(surveyor, survey, categories, shown)),
        survey.moments.rows,
        [
            *_computed(surveyor, survey, categories, shown.numbers),
            *_sums(surveyor, survey, shown.numbers, shape),
        ],
    )


def _computed(
    surveyor: Surveyor, survey: Survey, categories: Sequence[Categories], shown: Floats
) -> Iterator[Computed]:
    """Yield what copies compute from noisy columns, as the values of the sampled rows."""
    group_of = {name: each for each in categories for name in each.columns}
    for name, words in surveyor.derived_words(survey).items():
        source = str(surveyor.schema.column(name).follows)
        codes = _codes(words[None])
        if source in group_of:
            group, number = group_of[source], None
            of, gone = "+".join(group.columns), _missing(surveyor, survey, group)
        else:
            of, number = source, shown[surveyor.schema.perturbed.index(source)]
            gone = np.isnan(number)
        # what stands beside a visible gap is no more than the gap
        for each in indicators(name, name, codes, gone, most=MOST_COMPUTED):
            yield Computed(name, each.values, (of,), number)


def _sums(surveyor: Surveyor, survey: Survey, shown: Floats, shape: Floats) -> Iterator[Computed]:
    """Yield the columns that copies show as sums: of a distance and its base, or of their parts."""
    schema, plain = surveyor.schema, surveyor.plain_numbers(survey)
    sums = {name: (name,) for name in schema.relative} | schema.totals
    for name, parts in sums.items():
        # of a part that is a distance, that and what it is from
        of = dict.fromkeys(part for each in parts for part in chain(each, schema.relative))
        sources = tuple(of)
        at = [schema.perturbed.index(source) for source in sources]
        back = [surveyor.scales[place].backward for place in at]
        values = total_of([plain[part] for part in parts])
        alone = sum_alone(values, shown[at], shape[np.ix_(at, at)], back)
        yield Computed(name, values, sources, alone=alone)


def sampled_persons(
    surveyor: Surveyor,
    survey: Survey,
    categories: Sequence[Categories],
    noise: PersonNoise | None,
    linked: Linked | None = None,
) -> list[PersonRows]:
    """Return the rows of sampled persons, for their noise; none for a table without a unit.

    Who knows the order of a person's rows knows their times, and what these do to everybody. Who
    does not, as copies do not show them, estimates times and whatever follows them.
    """
    schema, sample = surveyor.schema, survey.persons
    if sample is None or noise is None:
        return []
    others_show = linked.beside if linked else ()
    if schema.time is None:
        rows = _person_rows(surveyor, survey, sample, categories, noise, schema.perturbed)
        return [replace(rows, beside=others_show), *_in_order(surveyor, survey, categories, noise)]
    ordered, names = sample.in_order_of(sample.numbers[-1]), schema.perturbed
    others = [name for name in names if name != schema.time]
    rows = _person_rows(surveyor, survey, ordered, categories, noise, others, in_time=True)
    persons = [replace(rows, beside=others_show)]
    if schema.time not in schema.unchanged:
        # of a time that copies do not show nothing is promised
        shown = names if schema.column(schema.time).shown else others
        persons.append(_person_rows(surveyor, survey, sample, categories, noise, shown))
    return persons


def _in_order(
    surveyor: Surveyor, survey: Survey, categories: Sequence[Categories], noise: PersonNoise
) -> list[PersonRows]:
    """Return the categories of sampled persons row after row, if copies show that order.

    What somebody sees of a row who knows its place: what others have there, and the rows beside it.
    """
    sample = survey.persons
    if sample is None or sample.order is None or sample.outers is not None or not categories:
        return []
    ordered = sample.in_order_of(sample.order)
    return [_person_rows(surveyor, survey, ordered, categories, noise, (), in_time=True)]


def _person_rows(
    surveyor: Surveyor,
    survey: Survey,
    sample: PersonSample,
    categories: Sequence[Categories],
    noise: PersonNoise,
    names: Sequence[str],
    *,
    in_time: bool = False,
) -> PersonRows:
    """Return the rows of sampled persons with some of the numbers, and categories."""
    schema = surveyor.schema
    times = None if schema.time is None else sample.numbers[-1]
    numbers = sample.numbers[: None if times is None else -1]
    x = numbers[: len(schema.perturbed)] - survey.moments.mean[:, None]
    cells = dict(zip(schema.encoded, sample.cells, strict=False))
    coded = {
        "+".join(each.columns): _codes(np.array([cells[name] for name in each.columns]))
        for each in categories
    }
    most = max(1, MOST_OF_PERSONS // max(1, len(coded)))
    none = np.zeros(len(sample.units), dtype=np.bool_)
    gaps = {
        "+".join(each.columns): _gone(np.array([cells[name] for name in each.columns]), each)
        for each in categories
    }
    shown = [*np.isnan(x), *numbers[len(x) :], *(each for each in gaps.values() if each.any())]
    kept = {name: _codes(cells[name][None]) for name in schema.kept}
    shown += [
        each.values
        for name, codes in kept.items()
        for each in indicators(name, name, codes, none, most=MOST_SHOWN)
    ]
    chosen = [schema.perturbed.index(name) for name in names]
    x = with_means(x[chosen], sample.starts)
    if in_time and times is not None:  # what time does to everybody is nobody's secret
        sizes = lengths_of(sample.starts, len(times))
        x = less_time(x, hat_matrix(times, noise.knots), sample.starts, sizes)
    drawn = {
        name: with_means(
            np.array(
                [
                    # where every value is frequent, none is left for the last one
                    each.values
                    for each in indicators(name, name, codes, gaps[name], most=most)
                    if np.nan_to_num(each.values).any()
                ]
            ).reshape(-1, len(none)),
            sample.starts,
        )
        for name, codes in coded.items()
    }
    order = sample.order if times is None else times
    by_place = {
        name: alike
        for name, rows in drawn.items()
        if order is not None and (alike := shown_by_place(rows, sample.starts, order)).any()
    }
    if in_time:
        shown += [each for alike in by_place.values() for each in alike if each.any()]
    return PersonRows(
        names=names,
        numbers=x,
        categories=drawn,
        shown=np.nan_to_num(np.array(shown, dtype=np.float64).reshape(len(shown), len(none))),
        starts=sample.starts,
        noise=noise.only(chosen),
        times=times,
        in_time=in_time,
        codes=list(kept.values()),
        persons=sample.units[sample.starts],
        outers=None if sample.outers is None else sample.outer_starts,
        by_place=by_place,
    )


def _features(
    surveyor: Surveyor, survey: Survey, categories: Sequence[Categories], shown: NoisyNumbers
) -> Iterator[OpenColumn]:
    """Yield what copies show without noise."""
    schema, sample = surveyor.schema, survey.joint.ordered
    for name, values in zip(schema.perturbed, shown.numbers, strict=True):
        if not schema.column(name).hide_missing and np.isnan(values).any():
            yield OpenColumn.gaps(name, np.isnan(values).astype(np.int64))
    for each in categories:
        if (missing := _missing(surveyor, survey, each)).any():
            yield OpenColumn.gaps("+".join(each.columns), missing.astype(np.int64))
    numbers = sample.numbers[len(schema.perturbed) :]
    open_columns = []
    for name, column_values in zip(schema.unchanged, numbers, strict=False):
        known = None if np.isnan(column_values).all() else column_values
        if name == schema.key:  # no two rows have one: its order can reveal, and its parts
            open_columns.append(OpenColumn.coded(name, column_values, known))
        else:
            open_columns.append(OpenColumn(name, _codes(_cells(surveyor, survey, [name])), known))
    yield from open_columns
    yield from _parts(surveyor, survey, [f.name for f in open_columns if f.values > MOST_VALUES])
    types = {name: type_named(schema.column(name).type) for name in schema.unchanged}
    yield from _differences([f for f in open_columns if f.name not in surveyor.texts], types)


def _parts(surveyor: Surveyor, survey: Survey, columns: Sequence[str]) -> Iterator[OpenColumn]:
    """Yield the parts of some columns that copies show, each once: of few values each is known."""
    schema, sample = surveyor.schema, survey.joint.ordered
    named = [(name, part) for name, parts in surveyor.parts.items() for part in parts]
    words = sample.cells[len(sample.cells) - len(named) :]
    seen: set[bytes] = set()
    for (name, part), words_of_part in zip(named, words, strict=True):
        codes = _codes(words_of_part[None])
        distinct = int(codes.max(initial=0)) + 1
        varies = 1 < distinct < len(codes) or (part.is_number and distinct > 1)
        if name in columns and varies and (mark := codes.tobytes()) not in seen:
            seen.add(mark)
            numbers = words_of_part.view(np.float64) if part.is_number else None
            yield OpenColumn(part.name, codes, numbers).as_part((name,))
    for name, words_of_part in zip(
        schema.unchanged, sample.numbers[len(schema.perturbed) :], strict=False
    ):
        type_ = type_named(schema.column(name).type)
        if name in columns and type_ is not None and is_number(type_):
            for called, values in calendar_parts(words_of_part, type_):
                yield OpenColumn.coded(called, values, values).as_part((name,))


def _differences(
    shown: Sequence[OpenColumn], types: Mapping[str, "pa.DataType | None"]
) -> Iterator[OpenColumn]:
    """Yield the differences of numbers of like size, and of dates and times."""
    sized = [(f.name, *_in_seconds(f, types[f.name])) for f in shown if f.numbers is not None]
    for (a, x, unit), (b, y, other) in combinations(sized[:MOST_DIFFERENT], 2):
        # numbers of other sizes have a difference that is one of them over again
        spread = sorted(float(np.nanstd(each)) for each in (x, y))
        apart = abs(float(np.nanmedian(x)) - float(np.nanmedian(y)))
        if unit == other and apart <= ALIKE * spread[1] <= ALIKE**2 * spread[0]:
            values = y - x
            if not np.isnan(values).all():
                yield OpenColumn.coded("difference", values, values).as_part((a, b))


def _in_seconds(feature: OpenColumn, type_: "pa.DataType | None") -> tuple[Floats, str]:
    """Return dates and times in seconds, other numbers as they are, and which of these."""
    assert feature.numbers is not None
    if type_ is None or unit_of(type_) is None:
        return feature.numbers, "numbers"
    if pa.types.is_date(plain_type(type_)):
        return feature.numbers * 86_400, "moments"
    return feature.numbers, "moments" if pa.types.is_timestamp(plain_type(type_)) else "times"


def _cells(surveyor: Surveyor, survey: Survey, columns: Sequence[str]) -> Words:
    """Return the cells of some encoded columns in the sampled rows (columns, rows)."""
    cells = dict(zip(surveyor.schema.encoded, survey.joint.ordered.cells, strict=False))
    return np.array([cells[name] for name in columns])


def _missing(
    surveyor: Surveyor, survey: Survey, group: Categories
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return where a category shows that it is missing."""
    return _gone(_cells(surveyor, survey, group.columns), group)


def _gone(cells: Words, group: Categories) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return where a category shows that it is missing, given its cells (columns, rows)."""
    return np.asarray((cells == MISSING_BITS).any(axis=0) & (not group.hides_missing))


def _codes(cells: Words) -> Ints:
    """Return rows of cells (columns, rows) as codes."""
    rows = np.ascontiguousarray(cells.T).view(f"V{8 * len(cells)}").ravel()
    distinct = cells[0] if len(cells) == 1 else rows  # numbers are sorted faster than bytes
    return np.asarray(np.unique(distinct, return_inverse=True)[1]).ravel()


def _rare_values(
    block: str, codes: Ints, coordinates: Sequence[Coordinate]
) -> Iterator[Coordinate]:
    """Yield what the values of a category reveal of coordinates of others, where it is not chance.

    The mean of few rows is uncertain: the coordinate correlates less with what it stands for than
    the value itself, by a factor that the share between groups states.
    """
    others = [each for each in coordinates if each.block != block]
    if not others:
        return
    Z = standardised(np.array([each.values for each in others]))
    means = GroupMeans.of(Z, codes)
    for mean, share, values in zip(means.means, means.between.tolist(), Z, strict=True):
        both = ~np.isnan(values)
        if share <= 0 or not np.std(mean[both]) > 0:
            continue
        # a perfect mean would correlate by sqrt(share between groups); this one by `seen`
        seen = float(np.corrcoef(mean[both], values[both])[0, 1])
        reach = min(MOST_REACH, max(1.0, np.sqrt(share) / max(seen, 1e-3)))
        yield Coordinate(None, block, mean, reach=reach)


# --------------------------------------------------------------------------------------------------
# Categories that everybody has alike at the same place of their histories, such as the year.
#
# An event replaces the history of a person by that of a donor with as many rows, row by row, in the
# order of time. What a donor has for sure in the same place is no secret: with z an indicator, i
# its row's place among the m rows of its person, copies show E[z | i, m] whatever the noise. The
# share 1 - MSW / Var of z is that, if rows at each place are enough; of few rows, by i alone.


LEAST_AT_PLACE, SLIGHT = 50, 0.02
"""Rows at one place, to know what categories have there; a smaller share is chance."""

LEAST_SECRET = 0.05
"""A category of which less than this share differs between persons at a place is refused."""

MOST_NAMED = 6


def shown_by_place(drawn: Floats, starts: Ints, order: Floats) -> Floats:
    """Return E[z | i, m] - E[z] of the indicators z (k, rows) of a category, 0 if that is chance.

    Rows are sorted by person, `starts` is where each begins; `order` is that of a person's rows.
    """
    codes = _places(starts, order)
    counts = np.bincount(codes)
    means = np.array([(np.bincount(codes, weights=z) / counts)[codes] for z in drawn])
    # of all indicators or none: they add up to 1, and what donors have of them does
    if any(
        _within(z, mean, len(counts)) < (1 - SLIGHT) * z.var()
        for z, mean in zip(drawn, means, strict=True)
    ):
        means = np.where(counts[codes] < LEAST_AT_PLACE, drawn.mean(axis=1, keepdims=True), means)
        return np.asarray(means - drawn.mean(axis=1, keepdims=True))
    return np.zeros_like(drawn)


def check_places(persons: Sequence[PersonRows]) -> None:
    """Raise ColumnError for categories that everybody runs through in the same order of times."""
    columns: list[str] = []
    for rows in (each for each in persons if each.in_time and each.times is not None):
        codes = _places(rows.starts, np.arange(rows.numbers.shape[1]))
        counts = np.bincount(codes)
        for name, drawn in rows.categories.items():
            within = sum(
                _within(z, (np.bincount(codes, weights=z) / counts)[codes], len(counts))
                for z in drawn
            )
            if within < LEAST_SECRET * drawn.var(axis=1).sum():
                columns.append(name)
    if columns:
        more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
        it, them = ("it", "it is") if len(columns) == 1 else ("them", "they are")
        raise ColumnError(
            f"every person has the same values of {listed(columns[:MOST_NAMED])}{more} in the same "
            f"order in time, so that the history of any other person shows {it} unchanged: noise "
            f"cannot hide {it}. Drop {it}, or keep {it} as {them}",
            use=("drop", "keep"),
        )


def _places(starts: Ints, order: Floats | Ints) -> Ints:
    """Return codes of (i, m), the place of each row and the number of rows, or of i alone."""
    sizes = lengths_of(starts, len(order))
    many, place = np.repeat(sizes, sizes), np.empty(len(order), dtype=np.int64)
    in_order = np.lexsort((order, np.repeat(starts, sizes)))
    place[in_order] = np.arange(len(order)) - np.repeat(starts, sizes)
    of_both = place + (1 + int(place.max(initial=0))) * many
    codes = np.unique(of_both, return_inverse=True)[1]
    few = np.bincount(codes, minlength=1)[codes] < LEAST_AT_PLACE
    return np.asarray(np.unique(np.where(few, place, of_both), return_inverse=True)[1])


def _within(z: Floats, means: Floats, groups: int) -> float:
    """Return MSW, the variance about the means of groups."""
    return float(((z - means) ** 2).sum() / max(1, len(z) - groups))
