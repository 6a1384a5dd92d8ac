"""What registration fixes for ever: the columns, K and its factor, the grid, the fingerprint.

The noise depends on all of it, and the same noise on anything else gives the difference
away. So it is computed once, kept exactly, and a dataset's key is derived from it: the same
table with the same choices is the same dataset, and anything else has independent noise.
"""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.arrays import Codes, Floats
from cornerwave.choices import ReadingSettings
from cornerwave.columns import (
    Categories,
    Column,
    Finish,
    Knots,
    RankDraws,
    Scale,
    Schema,
    Tally,
    check_identifying,
    chosen_in,
    ends_of,
    freeze_categories,
    is_text,
    listed,
    plain_type,
    step_of,
    wide_type,
)
from cornerwave.errors import ColumnError, SourceError, VaultError, warn
from cornerwave.levels import LATTICE, LINEAR, Level, Privacy
from cornerwave.moments import Moments
from cornerwave.noise import COARSEST, NOISE_FORMAT, PersonNoise, factor, grid_of, noise_shape
from cornerwave.privacy import (
    Hidden,
    JointSample,
    JointShares,
    MostRevealing,
    PersonRows,
    Remedy,
    Shown,
    close_pairs,
    hidden_at,
    measure_hidden,
    shares_of_persons,
)
from cornerwave.spine.coordinates import NoisyNumbers, sampled_persons, sampled_rows
from cornerwave.spine.holders import persons_holding
from cornerwave.spine.linked import Linked, TableOfPersons
from cornerwave.spine.missing import Draws, has_many_complete_rows
from cornerwave.spine.person_counts import PersonCounts
from cornerwave.spine.person_curves import curve_noise
from cornerwave.spine.person_sample import check_persons, person_noise
from cornerwave.spine.rows import Group
from cornerwave.spine.survey import Survey, Surveyor, on_scales

WORTH_SAYING = 0.1
"""The owner is warned of noise that missing values raise by more than this share."""


@dataclass(frozen=True)
class TableFamily:
    """The tables that a table is linked with: an id of all that was frozen of them, and names."""

    id: str
    table: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class Frozen:
    """A registered table, without a single one of its cells.

    Moments, factor and grid belong to the perturbed columns on their scales. The noise has the
    covariance v (`covariance` + `excess`): the excess is 0 unless values are missing. `missing`
    names the columns that have missing values and show it, `draws` is what stands in for
    those that hide theirs.
    """

    schema: Schema
    source_types: pa.Schema
    rows: int
    scales: tuple[Scale, ...]
    mean: Floats
    covariance: Floats
    excess: Floats
    factor: Floats
    grid: Floats
    categories: tuple[Categories, ...]
    missing: tuple[str, ...]
    fingerprint: str
    draws: Draws | None
    hidden: Hidden
    persons: PersonNoise | None = None
    """The noise of persons and of their rows, if the table has a unit."""
    people: PersonCounts | None = None
    """How many persons there are, and how many rows each, if the table has a unit."""
    family: TableFamily | None = None
    """The tables that it is linked with, if it is one of several."""
    noise_with: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By column, the covariance of its noise with that of columns of linked tables."""
    joint: JointShares = field(default_factory=lambda: JointShares({}))
    """What an adversary who knows how rows are distributed leaves of each column."""
    noise_format: int = NOISE_FORMAT
    reading: ReadingSettings | None = None
    """How the cells of the source are spelled: values do not depend on it, reading them does."""

    def scaled(self, numbers: Floats, draws: RankDraws | None = None) -> Floats:
        """Return perturbed columns (N, rows) on the scales that they are perturbed on."""
        return on_scales(self.scales, self.schema.perturbed, numbers, draws)

    def unscaled(self, numbers: Floats) -> Floats:
        """Return columns on their own scale again."""
        if all(scale.name is None for scale in self.scales):
            return numbers
        return np.stack([s.backward(row) for s, row in zip(self.scales, numbers, strict=True)])

    def codes(self, group: Group) -> Codes:
        """Return the codes of all categories of some rows (categories, rows)."""
        each = [c.encode(group.columns_of(c.columns)) for c in self.categories]
        return np.array(each, dtype=np.int32).reshape(len(each), len(group.ids))

    def left_by_joint(self, level: Level) -> dict[str, float]:
        """Return what the better of the linear and the joint adversary leaves of each column.

        Empty if the joint one was not measured, as of a table of few rows.
        """
        linear, joint = self.hidden.at(level), self.joint.at(level)
        return {name: min(share, joint.get(name, share)) for name, share in linear.items() if joint}

    def level_against(self, asked: Privacy) -> Level | None:
        """Return the least level that gives a privacy against its adversary, if one does."""
        level = self.hidden.level_of(asked.thousandths)
        if level is None or asked.against == LINEAR:
            return level
        place = self.joint.place_of(asked.thousandths)
        return None if place is None else max(level, Level(LATTICE[place - 1]))

    def to_json(self) -> str:
        """Return the exact text that is kept."""
        return _exact(self._kept())

    def identity(self) -> bytes:
        """Return all that the noise depends on, in a form that no version of a library changes.

        Not how copies look: released in another way, a table must have the same noise again.
        """
        kept = self._kept()
        kept.pop("people", None)
        kept.pop("noise_with", None)
        del kept["hidden"], kept["joint"], kept["reading"]
        del kept["independent_rows"], kept["few_rows"]
        kept["types"] = [[part.name, type_name(part.type)] for part in self.source_types]
        for column in kept["columns"]:
            for look in ("declared", "round", "clip", "released_type", "released_as", "as_is"):
                del column[look]
            column["type"] = type_name(self.source_types.field(column["name"]).type)
        for group, categories in zip(kept["categories"], self.categories, strict=True):
            group["values"] = categories.hashed_values()
        return _exact(kept).encode()

    def _kept(self) -> dict[str, Any]:
        return {
            "noise_format": self.noise_format,
            "columns": [asdict(column) for column in self.schema.columns],
            "together": self.schema.together,
            "min_count": self.schema.min_count,
            "order": self.schema.order,
            "independent_rows": self.schema.independent_rows,
            "few_rows": self.schema.few_rows,
            **({} if self.schema.time is None else {"time": self.schema.time}),
            "types": base64.b64encode(self.source_types.serialize()).decode(),
            "rows": self.rows,
            "scales": [asdict(scale) for scale in self.scales],
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "excess": self.excess.tolist(),
            "factor": self.factor.tolist(),
            "grid": self.grid.tolist(),
            "categories": [categories.to_json() for categories in self.categories],
            "missing": self.missing,
            "fingerprint": self.fingerprint,
            "draws": self.draws
            and {
                "mean": self.draws.mean.tolist(),
                "covariance": self.draws.covariance.tolist(),
                "quantiles": self.draws.quantiles,
            },
            "hidden": asdict(self.hidden),
            # nothing else of a table without a unit may change: its noise hangs on every byte
            **({} if self.persons is None else {"persons": self.persons.to_json()}),
            **({} if self.people is None else {"people": asdict(self.people)}),
            **({} if self.family is None else {"family": asdict(self.family)}),
            **({"noise_with": self.noise_with} if self.noise_with else {}),
            "joint": dict(self.joint.shares),
            "reading": self.reading and self.reading.to_json(),
        }

    @classmethod
    def from_json(cls, text: str) -> "Frozen":
        """Return what `to_json` wrote, bit for bit. Raises VaultError for another noise format."""
        kept = json.loads(text)
        if kept["noise_format"] != NOISE_FORMAT:
            raise VaultError(
                f"this dataset has noise of format {kept['noise_format']}, and this version of "
                f"Cornerwave makes format {NOISE_FORMAT}: its copies would have other noise"
            )
        columns = len(kept["mean"])
        return cls(
            schema=Schema(
                columns=tuple(_column(column) for column in kept["columns"]),
                together=tuple(tuple(group) for group in kept["together"]),
                min_count=kept["min_count"],
                order=kept["order"],
                independent_rows=kept["independent_rows"],
                few_rows=kept["few_rows"],
                time=kept.get("time"),
            ),
            source_types=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept["types"]))),
            rows=kept["rows"],
            scales=tuple(_scale(scale) for scale in kept["scales"]),
            mean=np.array(kept["mean"], dtype=np.float64),
            covariance=_square(kept["covariance"], columns),
            excess=_square(kept["excess"], columns),
            factor=_square(kept["factor"], columns),
            grid=np.array(kept["grid"], dtype=np.float64),
            categories=tuple(Categories.from_json(group) for group in kept["categories"]),
            missing=tuple(kept["missing"]),
            fingerprint=kept["fingerprint"],
            draws=kept["draws"] and _draws(kept["draws"], columns),
            hidden=_hidden(kept["hidden"]),
            persons=PersonNoise.from_json(kept["persons"]) if "persons" in kept else None,
            people=PersonCounts(**kept["people"]) if "people" in kept else None,
            family=_family(kept["family"]) if "family" in kept else None,
            noise_with=kept.get("noise_with", {}),
            joint=JointShares({name: tuple(own) for name, own in kept["joint"].items()}),
            noise_format=kept["noise_format"],
            reading=kept["reading"] and ReadingSettings.from_json(kept["reading"]),
        )


Kept = Mapping[str, Any]
"""An object in the JSON that a ledger keeps of a registration; a MAC vouches for its fields."""


def _family(kept: Kept) -> TableFamily:
    return TableFamily(kept["id"], kept["table"], tuple(kept["tables"]))


def _column(kept: Kept) -> Column:
    clip = kept["clip"]
    return Column(**{**kept, "clip": None if clip is None else tuple(clip)})


def _scale(kept: Kept) -> Scale:
    return Scale(kept["name"], _knots(kept["knots"]), kept["ends"] and tuple(kept["ends"]))


def type_name(type_: pa.DataType) -> str:
    """Return a type's name; all kinds of text, encoded or not, are one: files differ in them."""
    return "string" if is_text(plain_type(type_)) else str(plain_type(type_))


def _exact(kept: Mapping[str, object]) -> str:
    # a double is written with as many digits as bring the same double back
    return json.dumps(kept, allow_nan=False, sort_keys=True)


def _square(kept: Sequence[Sequence[float]], columns: int) -> Floats:
    return np.array(kept, dtype=np.float64).reshape(columns, columns)


def _draws(kept: Kept, columns: int) -> Draws:
    return Draws(
        mean=np.array(kept["mean"], dtype=np.float64),
        covariance=_square(kept["covariance"], columns),
        quantiles={name: _knots(knots) for name, knots in kept["quantiles"].items()},
    )


def _hidden(kept: Kept) -> Hidden:
    return Hidden(
        shares={name: tuple(shares) for name, shares in kept["shares"].items()},
        needed=tuple(kept["needed"]),
        strongest={name: _revealing(each) for name, each in kept["strongest"].items()},
        remedies=tuple(
            Remedy(**{**each, "columns": tuple(each["columns"])}) for each in kept["remedies"]
        ),
        bounds={name: _revealing(each) for name, each in kept["bounds"].items()},
        ceilings=kept["ceilings"],
    )


def _revealing(kept: Kept) -> MostRevealing:
    return MostRevealing(Shown(**kept["by"]), kept["share"])


def _knots(kept: Sequence[Sequence[float]]) -> Knots:
    return tuple((value, score) for value, score in kept)


def freeze(
    surveyor: Surveyor, survey: Survey, types: pa.Schema, linked: Linked | None = None
) -> Frozen:
    """Fix what a survey of the whole table found; `types` are those of the source.

    A table that is linked with others has the noise of persons that they share. Warns about
    singular columns. Raises SourceError for a table that cannot be perturbed.
    """
    schema, moments = surveyor.schema, survey.moments
    _check_size(moments, schema)
    held = _held(survey)
    for names, found in held.items():
        check_identifying(names, found, schema)
    draws = Draws.of(surveyor, survey)
    shown = NoisyNumbers.of(surveyor, survey, draws)
    # S >= K, and its factor L with L L' = S: the noise of a row is sqrt(v) L times white noise
    shape = _noise_shape(survey, schema, shown)
    if linked is None and survey.persons is not None:
        check_persons(survey.persons, schema)
    persons = linked.noise if linked else _person_noise(survey, schema, shape)
    shape = shape if persons is None else persons.shape
    lower = factor(shape)
    lower.warn(schema.perturbed)
    categories = tuple(
        freeze_categories(names, found, schema, types, held[names])
        for names, found in survey.tallies.items()
    )
    _warn_of(categories, schema)
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
            sampled_persons(surveyor, survey, categories, persons, linked),
        ),
        persons=persons,
        people=PersonCounts.of(surveyor, survey),
        noise_with=linked.noise_with if linked else {},
    )


def _grid(moments: Moments, schema: Schema, linked: Linked | None) -> Floats:
    """Return the grid of each column; one that linked tables repeat has one grid in all."""
    grid = grid_of(deviation=moments.deviation, largest=moments.largest)
    shared = linked.grid if linked else {}
    return np.array(
        [shared.get(name, own) for name, own in zip(schema.perturbed, grid, strict=True)]
    )


def persons_of(surveyor: Surveyor, survey: Survey) -> TableOfPersons:
    """Return what linked tables need of one: sampled persons, and the noise it has by itself.

    Raises ColumnError for a unit that names few persons.
    """
    schema, moments = surveyor.schema, survey.moments
    assert survey.persons is not None
    _check_size(moments, schema)
    check_persons(survey.persons, schema, linked=True)
    shown = NoisyNumbers.of(surveyor, survey, Draws.of(surveyor, survey))
    noise = _person_noise(survey, schema, _noise_shape(survey, schema, shown))
    assert noise is not None
    grid = grid_of(deviation=moments.deviation, largest=moments.largest)
    return TableOfPersons(schema.perturbed, survey.persons, noise, schema.time is not None, grid)


def rows_beside(
    surveyor: Surveyor, survey: Survey, types: pa.Schema, noise: PersonNoise
) -> PersonRows:
    """Return what copies of a linked table show of sampled persons, for those of the others."""
    held = _held(survey)
    categories = [
        freeze_categories(names, found, surveyor.schema, types, held[names])
        for names, found in survey.tallies.items()
    ]
    return sampled_persons(surveyor, survey, categories, noise)[0]


def _person_noise(survey: Survey, schema: Schema, shape: Floats) -> PersonNoise | None:
    """Return the noise of persons, in time if rows have one; None without a unit."""
    sample, columns = survey.persons, len(schema.perturbed)
    if sample is None:
        return None
    changing = survey.constants.varying if survey.constants else ()
    varying = [schema.perturbed.index(name) for name in changing]
    by_row = person_noise(sample, columns, shape, varying)
    if schema.time is None or not columns:
        return by_row
    when = [schema.perturbed.index(schema.time)] if schema.time in schema.perturbed else []
    return curve_noise(sample, sample.numbers[-1], shape, by_row, [*when, *varying])


def _held(survey: Survey) -> Mapping[tuple[str, ...], Tally]:
    """Return how many rows hold each value of categories, or persons in a table with a unit."""
    sample = survey.persons
    if sample is None:
        return survey.tallies
    return {
        names: persons_holding(found, survey.holders[names], sample)
        for names, found in survey.tallies.items()
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
    return shares_of_persons(sampled_persons(surveyor, survey, frozen.categories, frozen.persons))


def _sample_of(frozen: Frozen, surveyor: Surveyor, survey: Survey) -> JointSample:
    shown = NoisyNumbers.of(surveyor, survey, frozen.draws)
    shape = frozen.covariance + frozen.excess
    return sampled_rows(surveyor, survey, frozen.categories, shown, shape)


def _noise_shape(survey: Survey, schema: Schema, shown: NoisyNumbers) -> Floats:
    """Return the shape of the noise: K, or more where missing values leave K uncertain.

    And more where what stands in for them in secret varies more.
    """
    K = survey.moments.covariance
    if survey.complete is None:
        return K
    # S is above K by pairs and above K of complete rows, as matrices: either may be the truth
    complete = survey.complete.covariance if has_many_complete_rows(survey) else None
    shape = noise_shape(K, complete)
    if shown.with_draws:
        shape = noise_shape(shape, shown.covariance)
    raised = np.diag(shape) / np.maximum(np.diag(K), 1e-300) - 1
    if (raised > WORTH_SAYING).any():
        pairs = zip(schema.perturbed, raised, strict=True)
        names = [name for name, more in pairs if more > WORTH_SAYING]
        warn(
            f"{listed(names)}: missing values leave the covariance of the columns uncertain, or "
            "what stands in for them lies far from the others, so copies have up to "
            f"{raised.max():.0%} more noise there than those of a complete table",
            stacklevel=3,
        )
    return shape


def _shows_missing(
    survey: Survey, schema: Schema, categories: Sequence[Categories]
) -> tuple[str, ...]:
    """Name the columns that have missing values and do not hide them."""
    present = zip(schema.perturbed, survey.moments.present, strict=True)
    numbers = [name for name, count in present if count < survey.moments.rows]
    shown = [name for name in numbers if not schema.column(name).hide_missing]
    open_ = [each.columns for each in categories if not each.hides_missing]
    return (*shown, *(names[0] for names in open_ if (None,) in survey.tallies[names]))


def _check_size(moments: Moments, schema: Schema) -> None:
    if moments.rows < 2:
        raise SourceError(f"a table needs at least 2 rows to be perturbed; it has {moments.rows}")
    for name, present in zip(schema.perturbed, moments.present, strict=True):
        if present < 2:
            raise ColumnError(f"{name!r} has fewer than 2 values; drop it")
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


# --------------------------------------------------------------------------------------------------
# What a copy looks like unless the owner chooses otherwise: like the table, where that is free.
#
# Whole numbers, decimals, dates and timestamps are rounded to their own step if
#
#     noise deviation >= step,   and the type's ends lie out of the noise's reach.
#
# Then rounding adds step^2/12 to the variance and nothing else that a miner would notice (see
# miner/_covariance.py); otherwise they stay floats. The type is wide enough for the noise: an
# 8-bit age becomes a 64-bit one. What the owner chose at registration, or for one release, counts.


def look(frozen: Frozen, level: Level, asked: Finish, *, raw: bool = False) -> Finish:
    """Return how a copy at a level is finished; `asked` for this copy counts most.

    A `raw` one is neither rounded nor clipped but for what is asked; its names stay.
    """
    chosen = chosen_in(frozen.schema).counted(frozen.schema)
    if raw:
        return replace(asked, names=chosen.names)
    clip = {**chosen.clip, **asked.clip}
    free = {
        name: str(type_)
        for place, name in enumerate(frozen.schema.perturbed)
        if frozen.schema.column(name).round is None
        if name not in chosen.round | asked.round
        if (type_ := _free_type(frozen, place, level, clip.get(name))) is not None
    }
    return Finish(
        round=chosen.round | asked.round | free.keys(),
        clip=clip,
        types={**free, **chosen.types, **asked.types},
        names=chosen.names,
    )


def _free_type(
    frozen: Frozen, place: int, level: Level, clip: tuple[Any, Any] | None
) -> pa.DataType | None:
    """Return the type to which a column can be rounded at no cost to a miner, if any."""
    name = frozen.schema.perturbed[place]
    source = frozen.source_types.field(name).type
    type_ = wide_type(plain_type(source))
    step = step_of(type_)
    if step is None or frozen.schema.column(name).transform is not None:
        return None
    variance = float(frozen.covariance[place, place])
    shape = variance + float(frozen.excess[place, place])
    # noise narrower than a step would leave most rounded values as they were
    if 0 < math.sqrt(level.noise * shape) < step:
        return None
    low, high = clip or (None, None)
    least, most = ends_of(type_, low, high)
    if least > most:
        return None
    limits = Finish(round=frozenset([name]), types={name: str(type_)}).limits(
        name,
        source,
        mean=float(frozen.mean[place]),
        deviation=math.sqrt((1 + level.noise) * variance),  # of a copy: K + v K
        scale=frozen.scales[place],
    )
    return type_ if limits.clipped is None else None
