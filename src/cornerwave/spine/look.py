"""What a copy looks like unless the owner chooses otherwise: like the table, where that is free.

Whole numbers, decimals, dates and timestamps are rounded to their own step if

    noise deviation >= step,   and the type's ends lie out of the noise's reach.

Then rounding adds step^2/12 to the variance and nothing else that a miner would notice (see
miner/_covariance.py); otherwise they stay floats. The type is wide enough for the noise: an
8-bit age becomes a 64-bit one. What the owner chose at registration, or for one release, counts.
"""

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa

from cornerwave.columns import Finish, chosen_in, ends_of, plain_type, step_of, wide_type
from cornerwave.levels import Level
from cornerwave.spine.frozen import Frozen


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
