"""What registration fixes for ever: the columns, K and its factor, the grid, the fingerprint.

The noise depends on all of it, and the same noise on anything else gives the difference
away. So it is computed once, kept exactly, and a dataset's key is derived from it: the same
table with the same choices is the same dataset, and anything else has independent noise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Floats
from cornerwave.columns import (
    Categories,
    Derived,
    Followed,
    Scale,
    Schema,
    Summed,
    Tally,
    centre_of,
    chain,
    check_identifying,
    derived_from_category,
    derived_from_number,
    freeze_categories,
    listed,
    presence_of,
    quantiles,
    ratio_of,
)
from cornerwave.errors import ColumnError, SourceError, warn
from cornerwave.levels import Level
from cornerwave.moments import Moments
from cornerwave.noise import COARSEST, PersonNoise, factor, grid_of, noise_shape
from cornerwave.privacy import (
    JointSample,
    PersonRows,
    close_pairs,
    hidden_at,
    measure_hidden,
    shares_of_persons,
)
from cornerwave.spine.coordinates import NoisyNumbers, check_places, sampled_persons, sampled_rows
from cornerwave.spine.frozen import BURIED, Frozen
from cornerwave.spine.linked import Linked, TableOfPersons
from cornerwave.spine.missing import Draws, has_many_complete_rows
from cornerwave.spine.person_counts import PersonCounts, persons_holding
from cornerwave.spine.person_curves import Floor, curve_noise
from cornerwave.spine.person_gaps import with_gaps_filled
from cornerwave.spine.person_sample import check_persons, nested_noise, person_noise
from cornerwave.spine.sample import knot_weights
from cornerwave.spine.survey import Survey, Surveyor

WORTH_SAYING = 0.1
"""The owner is warned of noise that missing values raise by more than this share."""


def freeze(
    surveyor: Surveyor, survey: Survey, types: pa.Schema, linked: Linked | None = None
) -> Frozen:
    """Fix what a survey of the whole table found; `types` are those of the source.

    A table that is linked with others has the noise of persons that they share. Warns about
    singular columns. Raises SourceError for a table that cannot be perturbed.
    """
    schema, moments = surveyor.schema, survey.moments
    _check_size(moments, schema)
    held = _held(surveyor, survey)
    for names, tally in held.items():
        check_identifying(names, tally, schema)
    draws = Draws.of(surveyor, survey)
    survey = with_gaps_filled(surveyor, survey, draws)
    shown = NoisyNumbers.of(surveyor, survey, draws)
    # S >= K, and its factor L with L L' = S: the noise of a row is sqrt(v) L times white noise
    shape = _noise_shape(survey, schema, shown)
    if linked is None and survey.persons is not None:
        check_persons(survey.persons, schema)
    # with a unit, of a row i of a person u: Phi(t) L_C P_u + L_R P_i, of covariance at least S
    persons = linked.noise if linked else _person_noise(survey, schema, shape)
    shape = shape if persons is None else persons.shape
    lower = factor(shape)
    lower.warn(schema.perturbed)
    categories = tuple(
        freeze_categories(names, tally, schema, types, held[names])
        for names, tally in survey.tallies.items()
    )
    _warn_of(categories, schema)
    for name, parts in schema.totals.items():
        survey.summed.get(name, Summed()).check(name, parts)
    people = PersonCounts.of(surveyor, survey)
    sampled = sampled_persons(surveyor, survey, categories, persons, linked)
    check_places(sampled)
    return Frozen(
        schema=schema,
        source_types=pa.schema([pa.field(field.name, field.type) for field in types]),
        rows=moments.rows,
        scales=surveyor.scales,
        mean=moments.mean,
        covariance=moments.covariance,
        excess=shape - moments.covariance,
        factor=lower.lower,
        grid=_grid(moments, schema, linked),
        categories=categories,
        missing=_shows_missing(survey, schema, categories),
        fingerprint=str(survey.fingerprint),
        draws=draws,
        hidden=measure_hidden(
            sampled_rows(surveyor, survey, categories, shown, shape),
            sampled,
        ),
        persons=persons,
        people=people,
        noise_with=linked.noise_with if linked else {},
        spreads=_spreads(moments, shape, surveyor.scales, people),
        derived=tuple(_derived(surveyor, survey, types, categories)),
        presence=tuple(_presence(schema, survey, categories)),
        ranges=dict(_ranges(surveyor, survey)),
    )


def _ranges(surveyor: Surveyor, survey: Survey) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield between which numbers copies show a column that is a distance on ranks, as its base.

    The outermost knots that the column itself would have on ranks (columns/_scale.py).
    """
    schema, hashes = surveyor.schema, survey.joint.ordered.hashes
    plain = surveyor.plain_numbers(survey)
    for name in schema.relative:
        if all(schema.column(part).transform == "rank" for part in chain(name, schema.relative)):
            weights = knot_weights(surveyor.secrets, hashes, f"{name} as shown")
            hidden = schema.column(name).hide_missing
            if knots := quantiles(plain[name], weights, coarse=hidden):
                yield name, (knots[0][0], knots[-1][0])


def _presence(
    schema: Schema, survey: Survey, categories: Sequence[Categories]
) -> Iterator[Derived]:
    """Yield beside which values of categories numbers are present. Raises ColumnError."""
    for name, source in schema.present_if.items():
        [group] = [each for each in categories if source in each.columns]
        yield presence_of(name, source, survey.followed.get(name, Followed()), group)


def _derived(
    surveyor: Surveyor, survey: Survey, types: pa.Schema, categories: Sequence[Categories]
) -> Iterator[Derived]:
    """Yield how columns follow from others. Raises ColumnError for one that does not."""
    numbers, words = surveyor.plain_numbers(survey), surveyor.derived_words(survey)
    for column in surveyor.schema.derived:
        name, source = column.name, str(column.follows)
        type_, followed = types.field(name).type, survey.followed.get(name, Followed())
        group = next((each for each in categories if source in each.columns), None)
        if group is not None:
            yield derived_from_category(name, source, followed, type_=type_, categories=group)
            continue
        codes = np.unique(words[name], return_inverse=True)[1]
        yield derived_from_number(
            name,
            source,
            followed,
            type_=type_,
            sample=(numbers[source], np.asarray(codes)),
            min_count=surveyor.schema.min_count,
        )


def _spreads(
    moments: Moments, shape: Floats, scales: Sequence[Scale], people: PersonCounts | None
) -> tuple[tuple[float, float], ...]:
    """Return around what copies are drawn together, 0 on ranks, and how much noise they allow for.

    The mean of a column, and its own variance in the noise beside that in the table; not exactly.
    """
    # rows of a person are as few as persons, if they are alike
    counts = moments.present if people is None else np.minimum(moments.present, people.persons)
    # the standard error of the mean: what the centre is rounded to (columns/_finish)
    errors = moments.deviation / np.sqrt(np.maximum(counts, 1))
    centres = zip(moments.mean.tolist(), errors.tolist(), scales, strict=True)
    variances = np.diag(moments.covariance)
    ratios = zip(variances.tolist(), (np.diag(shape) - variances).tolist(), strict=True)
    return tuple(
        (
            0.0 if scale.name == "rank" else centre_of(mean, error),
            ratio_of(variance, excess, rows=moments.rows),
        )
        for (mean, error, scale), (variance, excess) in zip(centres, ratios, strict=True)
    )


def _grid(moments: Moments, schema: Schema, linked: Linked | None) -> Floats:
    """Return the grid of each column; one that linked tables repeat has one grid in all."""
    grid = grid_of(deviation=moments.deviation, largest=moments.largest)
    shared = linked.grid if linked else {}
    return np.array(
        [shared.get(name, step) for name, step in zip(schema.perturbed, grid, strict=True)]
    )


def persons_of(surveyor: Surveyor, survey: Survey) -> TableOfPersons:
    """Return what linked tables need of one: sampled persons, and the noise it has by itself.

    Raises ColumnError for a unit that names few persons.
    """
    schema, moments = surveyor.schema, survey.moments
    assert survey.persons is not None
    _check_size(moments, schema)
    check_persons(survey.persons, schema, linked=True)
    draws = Draws.of(surveyor, survey)
    survey = with_gaps_filled(surveyor, survey, draws)
    assert survey.persons is not None
    shown = NoisyNumbers.of(surveyor, survey, draws)
    noise = _person_noise(survey, schema, _noise_shape(survey, schema, shown))
    assert noise is not None
    grid = grid_of(deviation=moments.deviation, largest=moments.largest)
    return TableOfPersons(schema.perturbed, survey.persons, noise, schema.time is not None, grid)


def rows_beside(
    surveyor: Surveyor, survey: Survey, types: pa.Schema, noise: PersonNoise
) -> PersonRows:
    """Return what copies of a linked table show of sampled persons, for those of the others."""
    held = _held(surveyor, survey)
    categories = [
        freeze_categories(names, tally, surveyor.schema, types, held[names])
        for names, tally in survey.tallies.items()
    ]
    survey = with_gaps_filled(surveyor, survey, Draws.of(surveyor, survey))
    return sampled_persons(surveyor, survey, categories, noise)[0]


def _person_noise(survey: Survey, schema: Schema, shape: Floats) -> PersonNoise | None:
    """Return the noise of persons, in time if rows have one; None without a unit."""
    sample, columns = survey.persons, len(schema.perturbed)
    if sample is None:
        return None
    varying, varying_in_outer = (
        [schema.perturbed.index(name) for name in (known.varying if known else ())]
        for known in (survey.constants, survey.outer_constants)
    )
    # H, B and R, alike at all times; with a time also what is alike in rows that are near in time
    by_row = (
        nested_noise(sample, columns, shape, varying, varying_in_outer)
        if schema.nested
        else person_noise(sample, columns, shape, varying)
    )
    if schema.time is None or not columns:
        return by_row
    when = [schema.perturbed.index(schema.time)] if schema.time in schema.perturbed else []
    floor = Floor(rows=[*when, *varying], persons=varying_in_outer)
    return curve_noise(sample, sample.numbers[-1], shape, by_row, floor)


def _held(surveyor: Surveyor, survey: Survey) -> Mapping[tuple[str, ...], Tally]:
    """Return how many rows hold each value of categories, or persons in a table with a unit."""
    sample = survey.persons
    if sample is None:
        return survey.tallies
    cells = dict(zip(surveyor.schema.encoded, sample.cells, strict=False))
    return {
        names: persons_holding(
            tally, survey.holders[names], np.array([cells[name] for name in names]), sample
        )
        for names, tally in survey.tallies.items()
    }


def pairs_worth_joining(
    surveyor: Surveyor, survey: Survey, frozen: Frozen
) -> list[tuple[str, str]]:
    """Return pairs of categories that are better refreshed together, the closest first."""
    if frozen.schema.unit is not None:  # all categories of a person are replaced together
        return []
    return close_pairs(_sample_of(frozen, surveyor, survey))


def hidden_of_rows(
    frozen: Frozen, surveyor: Surveyor, survey: Survey, level: Level, rows: int | None = None
) -> dict[str, float]:
    """Return what copies at a level hide of each column of other rows, from all columns together.

    As if categories were drawn from the frequencies of these rows, which are `rows` in all.
    """
    sample = _sample_of(frozen, surveyor, survey)
    return hidden_at(replace(sample, rows=rows or sample.rows), level)


def shares_of_all_persons(
    frozen: Frozen, surveyor: Surveyor, survey: Survey
) -> dict[str, tuple[float, ...]]:
    """Return what copies at privacy 0.01, 0.02, ... hide of the persons of a survey."""
    survey = with_gaps_filled(surveyor, survey, frozen.draws)
    return shares_of_persons(sampled_persons(surveyor, survey, frozen.categories, frozen.persons))


def _sample_of(frozen: Frozen, surveyor: Surveyor, survey: Survey) -> JointSample:
    shown = NoisyNumbers.of(surveyor, survey, frozen.draws)
    shape = frozen.covariance + frozen.excess
    return sampled_rows(surveyor, survey, frozen.categories, shown, shape)


def _noise_shape(survey: Survey, schema: Schema, shown: NoisyNumbers) -> Floats:
    """Return the shape of the noise: K, or more where missing values leave K uncertain.

    And more where what replaces them in secret varies more.
    """
    K = survey.moments.covariance
    if survey.complete is None:
        return K
    # S is above K by pairs and above K of complete rows, as matrices: either may be the truth
    complete = survey.complete.covariance if has_many_complete_rows(survey) else None
    shape = noise_shape(K, complete)
    if shown.with_draws:
        shape = noise_shape(shape, shown.covariance)
    # S_jj / K_jj - 1: a column of variance 0 has no noise, whatever it is divided by
    raised = np.diag(shape) / np.maximum(np.diag(K), 1e-300) - 1
    if (raised > WORTH_SAYING).any():
        pairs = zip(schema.perturbed, raised, strict=True)
        names = [name for name, more in pairs if more > WORTH_SAYING]
        warn(
            f"{listed(names)}: missing values leave the covariance of the columns uncertain, or "
            f"what stands in for them lies far from the others, {_so_much(raised.max())}",
            stacklevel=3,
        )
    return shape


def _so_much(more: float) -> str:
    """Return what noise that exceeds that of a complete table means for copies."""
    if 1 + more < BURIED:
        return f"so copies have up to {more:.0%} more noise there than those of a complete table"
    return (
        f"so privacy 0.5 would bury such a column: the noise has over {BURIED:g} times its "
        "variance. Drop it, or register the rows in which it is present by themselves"
    )


def _shows_missing(
    survey: Survey, schema: Schema, categories: Sequence[Categories]
) -> tuple[str, ...]:
    """Name the columns that have missing values and do not hide them."""
    present = zip(schema.perturbed, survey.moments.present, strict=True)
    numbers = [name for name, count in present if count < survey.moments.rows]
    open_gaps = {name for name in numbers if not schema.column(name).hide_missing}
    open_gaps |= schema.present_if.keys()
    # a distance is shown added to its base, and so with the gaps of that
    shown = [n for n in schema.perturbed if open_gaps & {*chain(n, schema.relative)}]
    open_ = [each.columns for each in categories if not each.hides_missing]
    return (*shown, *(names[0] for names in open_ if (None,) in survey.tallies[names]))


def _check_size(moments: Moments, schema: Schema) -> None:
    if moments.rows < 2:
        raise SourceError(f"a table needs at least 2 rows to be perturbed; it has {moments.rows}")
    for name, present in zip(schema.perturbed, moments.present, strict=True):
        if present < 2:
            raise ColumnError(f"{name!r} has fewer than 2 values; drop it")
    # squares of the differences underflow: K would be 0 for values that differ
    for name in np.array(schema.perturbed)[moments.vanishing]:
        raise ColumnError(
            f"{str(name)!r}: its values are so close together that their variance, and with it "
            "the noise, vanishes in floating point; multiply them, or drop the column"
        )
    grid = grid_of(deviation=moments.deviation, largest=moments.largest)
    for name in np.array(schema.perturbed)[grid > COARSEST * moments.deviation]:
        raise ColumnError(
            f"{str(name)!r}: its values lie so far from zero, and so close together, that floating "
            "point has no room for the noise; subtract a constant, or drop the column"
        )


def _warn_of(categories: Sequence[Categories], schema: Schema) -> None:
    """Warn of what an owner may not expect of categories."""
    for each in categories:
        if len(each.counts) == 1:
            has = "has" if len(each.columns) == 1 else "together have"
            message = f"{listed(each.columns)} {has} a single value, so copies show it unchanged"
            warn(message, stacklevel=4)
        hidden = len(each.columns) > 1 or schema.column(each.columns[0]).hide_missing
        if each.hides_missing and not hidden:
            message = (
                f"{listed(each.columns)}: pooled values are released as missing, so cells that "
                "are missing already are refreshed with them"
            )
            warn(message, stacklevel=4)
