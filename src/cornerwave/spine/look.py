"""What a copy looks like, and what it states about its columns.

Unless the owner chooses otherwise it looks like the table, where that is free.

Columns vary as much as those of the table (columns/_finish.py). Whole numbers, decimals, floats
of so many decimals, dates and timestamps are rounded to their own step if

    noise deviation >= step,   and the type's ends lie out of the noise's reach.

Then rounding adds step^2/12 to the variance and nothing else that a miner would notice (see
miner/_covariance.py); otherwise they stay floats. The type is wide enough for the noise: an
8-bit age becomes a 64-bit one. Perturbed on ranks, a column of a copy is distributed as that of the
table, and is rounded at any noise: a miner takes the ranks of what is rounded for those of the
rest. What the owner chose at registration, or for one release, counts.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from cornerwave.choices import CATEGORY, DERIVED, KEY, PERTURBED, UNIT
from cornerwave.columns import (
    AsLeft,
    Categories,
    Column,
    Finish,
    Total,
    bases_first,
    chain,
    chosen_in,
    decimal_type,
    ends_of,
    plain_type,
    spreads_of,
    step_of,
    sum_step,
    unit_of,
    wide_type,
)
from cornerwave.levels import Level
from cornerwave.sources import ENCODED_TEXT
from cornerwave.spec import ColumnMetadata, CopySpec
from cornerwave.spine.frozen import Frozen


def look(frozen: Frozen, level: Level, asked: Finish, *, raw: bool = False) -> Finish:
    """Return how a copy at a level is finished; `asked` for this copy counts most.

    A `raw` one has the numbers as the noise left them, neither rounded nor clipped but for what is
    asked; its names stay.
    """
    chosen = chosen_in(frozen.schema).counted(frozen.schema)
    if raw:
        return replace(
            asked,
            names=chosen.names,
            descriptions={**chosen.descriptions, **asked.descriptions},
        )
    clip = {**chosen.clip, **asked.clip}
    together = same_spread(frozen, level)
    free = {
        name: str(type_)
        for place, name in enumerate(frozen.schema.perturbed)
        if frozen.schema.column(name).round is None
        if name not in chosen.round | asked.round
        if (type_ := _free_type(frozen, place, level, clip.get(name), together)) is not None
    }
    # one that is rounded below a base that is not would be out of order
    for name in bases_first(frozen.schema.relative):
        base = frozen.schema.relative[name]
        if name in free and base not in chosen.round | asked.round | free.keys():
            del free[name]
    free_types = {name: type_ for name, type_ in free.items() if name not in chosen.decimals}
    return Finish(
        round=chosen.round | asked.round | free.keys(),
        clip=clip,
        types={**free_types, **chosen.types, **asked.types},
        names=chosen.names,
        decimals=chosen.decimals,
        spread=together,
        descriptions={**chosen.descriptions, **asked.descriptions},
    )


def same_spread(frozen: Frozen, level: Level) -> AsLeft:
    """Return how columns are drawn together at a level, to vary as those of the table."""
    return spreads_of(
        dict(zip(frozen.schema.perturbed, frozen.spreads, strict=True)),
        noise=level.noise,
        variance=np.diag(frozen.covariance),
    )


def _free_type(
    frozen: Frozen, place: int, level: Level, clip: tuple[Any, Any] | None, together: AsLeft
) -> pa.DataType | None:
    """Return the type to which a column can be rounded at no cost to a miner, if any."""
    name = frozen.schema.perturbed[place]
    source = frozen.source_types.field(name).type
    decimals = frozen.schema.column(name).decimals
    type_ = wide_type(plain_type(source)) if decimals is None else decimal_type(decimals)
    step = step_of(type_)
    transform, spread = frozen.schema.column(name).transform, together.get(name)
    if step is None or (transform is not None and not (transform == "rank" and spread)):
        return None
    variance = float(frozen.covariance[place, place])
    shape = variance + float(frozen.excess[place, place])
    # noise narrower than a step would leave most rounded values as they were
    size = math.sqrt(level.noise * shape) * (1.0 if spread is None else spread.factor)
    if transform is None and 0 < size < step:
        return None
    low, high = clip or (None, None)
    least, most = ends_of(type_, low, high)
    if least > most:
        return None
    rounded = Finish(round=frozenset([name]), types={name: str(type_)}, spread=together)
    limits = rounded.limits(name, source, reach=_reach(name, frozen, level, rounded))
    return type_ if limits.clipped is None else None


def _reach(name: str, frozen: Frozen, level: Level, finish: Finish) -> tuple[float, float]:
    """Return between which numbers those of a copy lie; of a distance with those of its base."""
    lowest = highest = 0.0
    for part in chain(name, frozen.schema.relative):
        place = frozen.schema.perturbed.index(part)
        low, high = finish.reach(
            part,
            mean=float(frozen.mean[place]),
            # of a copy: K + v K
            deviation=math.sqrt((1 + level.noise) * float(frozen.covariance[place, place])),
            scale=frozen.scales[place],
        )
        lowest, highest = lowest + low, highest + high
    return lowest, highest


def totals(frozen: Frozen, finish: Finish) -> list[Total]:
    """Return the columns of a copy that are sums of others, rounded as their parts are."""
    return [
        Total.of(name, parts, frozen.source_types, finish)
        for name, parts in frozen.schema.totals.items()
    ]


# --------------------------------------------------------------------------------------------------
# What a recipient needs to know about a column.


def describe(column: Column, frozen: Frozen, wanted: CopySpec) -> ColumnMetadata:
    """Return what a recipient needs to know about a column to allow for its noise."""
    type_ = frozen.source_types.field(column.name).type
    schema, finish = frozen.schema, wanted.finish
    is_pseudonym = column.name in (schema.pseudonym, *schema.unit_pseudonyms)
    released = finish.type_of(column.name, type_) if column.name in finish.round else type_
    marks = dict(frozen.reading.column_missing or ()) if frozen.reading else {}
    shares = frozen.hidden.at(wanted.level)
    about = ColumnMetadata(
        role=column.role,
        type=str(pa.string() if is_pseudonym else plain_type(released)),
        unit=column.unit,
        pseudonym=is_pseudonym if column.role in (KEY, UNIT) else None,
        source=column.name if column.name in finish.names else None,
        marks=marks.get(column.name),
        hidden=next((h for names, h in shares.items() if column.name in names.split("+")), None),
        description=finish.descriptions.get(column.name),
        codes=frozen.label_codes.get(column.name),
    )
    if column.role == PERTURBED:
        return _describe_number(about, column, frozen, wanted)
    if column.sum_of is not None:
        shown = field_of(column, frozen, finish)
        parts = frozen.schema.totals[column.name]
        [total] = [each for each in totals(frozen, finish) if each.column == column.name]
        return replace(
            about,
            type=str(shown.type),
            unit=unit_of(plain_type(type_)),
            sum_of=tuple(map(finish.name_of, parts)),
            rounded=sum_step(shown.type, total.finish.decimals.get(column.name)) or None,
        )
    if column.role == DERIVED:
        [derived] = [each for each in frozen.derived if each.column == column.name]
        return replace(about, follows=finish.name_of(derived.source), limits=derived.limits or None)
    for categories in frozen.categories:
        if column.name in categories.columns:
            return _describe_category(about, categories, finish)
    return about


def _describe_number(
    about: ColumnMetadata, column: Column, frozen: Frozen, wanted: CopySpec
) -> ColumnMetadata:
    place, finish = frozen.schema.perturbed.index(column.name), wanted.finish
    # copies reveal the knots anyway, and they are no exact averages
    knots = tuple(value for value, _ in frozen.scales[place].knots)
    limits = finish.limits(
        column.name,
        frozen.source_types.field(column.name).type,
        reach=_reach(column.name, frozen, wanted.level, finish),
    )
    cut = frozen.ranges.get(column.name)
    return replace(
        about,
        transform=column.transform,
        scores=len(knots) or None,
        knots=knots or None,
        excess=_excess(place, frozen, finish),
        noise_with=frozen.noise_with.get(column.name) or None,
        missing="hidden" if column.hide_missing else "shown",
        spread=finish.spread.get(column.name),
        rounded=limits.rounded,
        clipped=cut if cut is not None and column.name in finish.spread else limits.clipped,
        present_if=column.present_if and finish.name_of(column.present_if),
        relative_to=column.relative_to and finish.name_of(column.relative_to),
    )


def _describe_category(
    about: ColumnMetadata, categories: Categories, finish: Finish
) -> ColumnMetadata:
    # pooled values of a column that is not text are released as missing: one more value
    as_missing = categories.pooled and bool((categories.combinations[-1] < 0).all())
    together = tuple(finish.name_of(name) for name in categories.columns)
    return replace(
        about,
        missing="hidden" if categories.hides_missing or as_missing else "shown",
        base=categories.base,
        pooled=categories.pooled,
        categories=len(categories.counts),
        together=together if len(together) > 1 else None,
    )


def _excess(place: int, frozen: Frozen, finish: Finish) -> dict[str, float] | None:
    """Return by how much the noise exceeds the table's covariances, per unit of noise."""
    names = [finish.name_of(name) for name in frozen.schema.perturbed]
    excess = dict(zip(names, frozen.excess[place].tolist(), strict=True))
    return {name: value for name, value in excess.items() if value} or None


def field_of(column: Column, frozen: Frozen, finish: Finish) -> pa.Field:
    """Return the name and the type of a column in copies, and whether it may have gaps."""
    type_ = frozen.source_types.field(column.name).type
    gaps = column.name in frozen.missing  # without any, Parquet takes and needs less
    if column.role == PERTURBED:
        type_ = finish.type_of(column.name, type_)
        return pa.field(finish.name_of(column.name), type_, nullable=gaps)
    if column.name == frozen.schema.pseudonym:
        return pa.field(finish.name_of(column.name), pa.string(), nullable=False)
    if column.name in frozen.schema.unit_pseudonyms:  # many rows have one
        return pa.field(finish.name_of(column.name), ENCODED_TEXT, nullable=False)
    plain = plain_type(type_)
    if column.sum_of is not None:
        parts = frozen.schema.totals[column.name]
        made = Total.of(column.name, parts, frozen.source_types, finish).type_of(type_)
        return pa.field(finish.name_of(column.name), made)
    if column.role == DERIVED:
        [kind] = [each.values.type for each in frozen.derived if each.column == column.name]
        return pa.field(finish.name_of(column.name), ENCODED_TEXT if kind == pa.string() else kind)
    if column.role != CATEGORY:
        return pa.field(finish.name_of(column.name), plain)
    gaps = gaps or any(each.draws_missing(column.name) for each in frozen.categories)
    kind = ENCODED_TEXT if plain == pa.string() else plain
    return pa.field(finish.name_of(column.name), kind, nullable=gaps)
