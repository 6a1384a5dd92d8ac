"""Everything that files show in some rows, put together for the attacks on whole copies.

Numbers and categories kept rows of their own accord, every so-and-so-many of all: their common rows
are used. Beside them stand the numbers that are judged apart, clipped ones as they are and those on
the scale of ranks by their scores, and columns that no other check looks at: keys, and text of too
many values for a category.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cornerwave.arrays import Floats
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._apart import ApartEvidence
from cornerwave.audit._category_checks import CategoryEvidence
from cornerwave.audit._kept_rows import RowKeeper
from cornerwave.audit._strips import with_strips
from cornerwave.audit._whole import WholeEvidence
from cornerwave.table import KEEP_ORDER, SHUFFLE, unit_of


def gather_everything(
    aligned: Aligned,
    rows: int,
    *,
    numbers: tuple[Sequence[str], RowKeeper] | None,
    categories: tuple[CategoryEvidence, Sequence[str]] | None,
    lone: ApartEvidence | None,
) -> WholeEvidence:
    """Return what source and copies show in the rows that all kinds kept.

    `numbers` are the kind of each column and its kept rows, `categories` what was read of them
    and the names of those with too many values.
    """
    names, perturbed, values, every = _numbers(aligned, numbers, lone)
    bare, judged = (categories[0].bare, categories[0].judged) if categories else ([], [])
    owed = [each for each in bare if "category" in aligned.stated.told(each.columns[0], "role")]
    chosen = all(told.get("order") in (KEEP_ORDER, SHUFFLE) for told in aligned.stated.copies)
    evidence = WholeEvidence.of(
        (names, np.array(perturbed, dtype=bool), values, every),
        (
            [*judged, *owed],
            [each for each in bare if each not in owed],
            categories[0].every if categories else 1,
        ),
        aligned.stated,
        rows,
        ordered=not (chosen or aligned.sorted_copies),
    )
    known = [aligned.key, *(categories[1] if categories else ())]
    texts = [name for name in known if name is not None and name in aligned.source.schema.names]
    keys = {name: aligned.values_at(name, evidence.places) for name in texts}
    types = {name: aligned.source.schema.field(name).type for name in names}
    units = {name: unit for name, type_ in types.items() if (unit := unit_of(type_))}
    return with_strips(replace(evidence, keys=keys, units=units), aligned, rows)


def _numbers(
    aligned: Aligned,
    numbers: tuple[Sequence[str], RowKeeper] | None,
    lone: ApartEvidence | None,
) -> tuple[list[str], list[bool], Floats, int]:
    """Return the names of all numbers, which of them have noise, their rows, and how far apart."""
    names: list[str] = []
    perturbed: list[bool] = []
    parts: list[tuple[Floats, int]] = []
    if numbers is not None:
        owed = [n for n in aligned.columns if "perturbed" in aligned.stated.told(n, "role")]
        names += aligned.columns
        perturbed += [
            kind == "perturbed" or (name in owed and kind != "constant")
            for name, kind in zip(aligned.columns, numbers[0], strict=True)
        ]
        parts.append((numbers[1].everything(aligned.scaled), numbers[1].every))
    if lone is not None:
        names += lone.aligned.columns
        perturbed += [bool(deviation > 0) for deviation in lone.deviation]
        parts.append((_on_scale(lone), lone.keeper.every))
    if not parts:
        return [], [], np.empty((1 + len(aligned.copies), 0, 0)), 1
    every = max(own for _, own in parts)
    rows = [values[:, :, :: every // own] for values, own in parts]
    return names, perturbed, np.concatenate(rows, axis=1), every


def _on_scale(lone: ApartEvidence) -> Floats:
    """Return numbers that are judged apart, (1 + M, N, n), those on ranks by their scores.

    A value that many rows hold has the score of their middle: no more is hidden by it.
    """
    raw = lone.keeper.raw
    found = np.stack(lone.aligned.scaled(list(raw)))
    for n, name in enumerate(lone.aligned.columns):
        if name in lone.ranked and lone.deviation[n] > 0:
            scale = lone.ranked[name]
            found[0, n] = scale.forward(raw[0, n], name)
            for i in range(1, len(raw)):
                found[i, n] = scale.undone(raw[i, n])
    return found
