"""What a copy looks like unless the owner chooses otherwise: like the table, where that is free.

Columns vary as much as those of the table (columns/_spread.py). Whole numbers, decimals, dates and
timestamps are rounded to their own step if

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

from cornerwave.columns import (
    AsLeft,
    Finish,
    chosen_in,
    ends_of,
    plain_type,
    spreads_of,
    step_of,
    wide_type,
)
from cornerwave.levels import Level
from cornerwave.spine.frozen import Frozen


def look(
    frozen: Frozen, level: Level, asked: Finish, *, raw: bool = False, spread: bool = False
) -> Finish:
    """Return how a copy at a level is finished; `asked` for this copy counts most.

    A `raw` one is neither rounded nor clipped but for what is asked; its names stay. One with the
    same `spread` as the table is drawn together first.
    """
    chosen = chosen_in(frozen.schema).counted(frozen.schema)
    if raw:
        return replace(asked, names=chosen.names)
    clip = {**chosen.clip, **asked.clip}
    together = _together(frozen, level) if spread else {}
    free = {
        name: str(type_)
        for place, name in enumerate(frozen.schema.perturbed)
        if frozen.schema.column(name).round is None
        if name not in chosen.round | asked.round
        if (type_ := _free_type(frozen, place, level, clip.get(name), together)) is not None
    }
    return Finish(
        round=chosen.round | asked.round | free.keys(),
        clip=clip,
        types={**free, **chosen.types, **asked.types},
        names=chosen.names,
        spread=together,
    )


def _together(frozen: Frozen, level: Level) -> AsLeft:
    """Return how columns are drawn together at a level, to vary as those of the table."""
    return spreads_of(
        dict(zip(frozen.schema.perturbed, frozen.centres, strict=True)),
        noise=level.noise,
        variance=np.diag(frozen.covariance),
        excess=np.diag(frozen.excess),
        rows=frozen.rows,
    )


def _free_type(
    frozen: Frozen, place: int, level: Level, clip: tuple[Any, Any] | None, together: AsLeft
) -> pa.DataType | None:
    """Return the type to which a column can be rounded at no cost to a miner, if any."""
    name = frozen.schema.perturbed[place]
    source = frozen.source_types.field(name).type
    type_ = wide_type(plain_type(source))
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
    limits = Finish(round=frozenset([name]), types={name: str(type_)}, spread=together).limits(
        name,
        source,
        mean=float(frozen.mean[place]),
        deviation=math.sqrt((1 + level.noise) * variance),  # of a copy: K + v K
        scale=frozen.scales[place],
    )
    return type_ if limits.clipped is None else None
