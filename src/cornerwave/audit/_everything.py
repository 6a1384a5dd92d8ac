"""Everything that files show in some rows, put together for the attacks on whole copies.

Numbers and categories kept rows of their own accord, every so-and-so-many of all: their common rows
are used. Beside them stand the numbers that are judged apart, clipped ones as they are and those on
the scale of ranks by their scores, and columns that no other check looks at: keys, and text of too
many values for a category.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from cornerwave.arrays import Floats, Ints
from cornerwave.audit._alignment import BLOCK_ROWS, Aligned
from cornerwave.audit._apart import ApartEvidence
from cornerwave.audit._category_checks import CategoryEvidence
from cornerwave.audit._guesses import KEPT_CELLS, Collected
from cornerwave.audit._rows import RowKeeper
from cornerwave.audit._whole import MOST_ROWS, WholeEvidence
from cornerwave.columns import (
    CATEGORY,
    KEEP_ORDER,
    PERTURBED,
    SHUFFLE,
    Encoded,
    is_number,
    one_chunk,
    to_floats,
    unit_of,
)

# --------------------------------------------------------------------------------------------------
# Rows that are close to each other in a column without noise, where a table is too long for all.
#
# Every 32nd row of a table has no neighbours in the order of a key, and hardly two rows of a small
# group. So some intervals of such a column are chosen, by the quantiles of the rows that were kept,
# and all rows inside them are read. Groups of equal values stay whole, and rows as close as they
# are
# in the table. Rows of one strip have much in common: errors are measured from strip to strip.


MOST_STRIPS, MOST_COLUMNS = 16, 3
"""Intervals of a column, and columns that are looked at like this."""

FEWEST_ALIKE = 8
"""A column of which fewer of the kept rows show a value together, as a rule, has strips."""

Block = TypeVar("Block")


def with_strips(evidence: WholeEvidence, aligned: Aligned, rows: int) -> WholeEvidence:
    """Return the evidence with strips of each column that stands without noise and has too many
    values for the rows that were kept.
    """
    names = list(_fine(evidence))[:MOST_COLUMNS] if evidence.sampled else []
    if not names:
        return evidence
    room = KEPT_CELLS // ((1 + len(aligned.copies)) * max(len(aligned.categories), 1))
    each = min(MOST_ROWS, room // len(names))
    found = {name: _rows_of(aligned, name, evidence.places, rows, each) for name in names}
    every = np.unique(np.concatenate([places for places, _ in found.values()]))
    everything = _gather(evidence, aligned, every)
    return replace(
        evidence,
        strips={
            name: _of_rows(everything, np.searchsorted(every, places), strip)
            for name, (places, strip) in found.items()
            if len(np.unique(strip)) > 2
        },
    )


def _fine(evidence: WholeEvidence) -> Iterator[str]:
    """Yield the columns without noise of which hardly two of the kept rows are close."""
    most = evidence.rows / FEWEST_ALIKE
    yield from evidence.keys
    for each in evidence.categories[1]:
        if len(each.columns) == 1 and len(np.unique(each.truth)) > most:
            yield each.name
    for n in np.flatnonzero(~evidence.perturbed).tolist():
        if len(np.unique(evidence.numbers[0, n])) > most:
            yield evidence.names[n]


def _rows_of(aligned: Aligned, name: str, kept: Ints, rows: int, most: int) -> tuple[Ints, Ints]:
    """Return the rows inside some intervals of a column, and which interval each is in."""
    known = [block[np.isin(places, kept)] for places, block in _blocks(aligned, name)]
    edges = _edges(np.sort(np.concatenate(known)), most / rows)
    found, strips = [], []
    for places, block in _blocks(aligned, name):
        among = np.searchsorted(edges, block, side="right")
        inside = among % 2 == 1
        found.append(places[inside])
        strips.append(among[inside] // 2)
    return np.concatenate(found)[: 2 * most], np.concatenate(strips)[: 2 * most]


def _edges(ordered: Any, share: float) -> Any:
    """Return the ends of intervals, one after the other, that hold a share of ordered values."""
    n = len(ordered)
    wide = max(int(n * share) // MOST_STRIPS, 1)
    count = max(min(MOST_STRIPS, int(n * share) // wide), 1)
    starts = (np.arange(count) * (n - wide - 1)) // max(count - 1, 1)
    low, high = ordered[starts], ordered[starts + wide]
    apart = np.append(True, low[1:] > high[:-1]) & (high > low)
    return np.stack([low[apart], high[apart]], axis=1).ravel()


def _blocks(aligned: Aligned, name: str) -> Iterator[tuple[Ints, Any]]:
    """Yield the numbers of rows, and what they show in a column: floats, or texts."""
    start, number = 0, is_number(aligned.source.schema.field(name).type)
    for group in aligned.source.groups([name], BLOCK_ROWS):
        column = one_chunk(group.column(name))
        values = to_floats(column, name) if number else np.array(list(map(str, column.to_pylist())))
        yield np.arange(start, start + len(values)), values
        start += len(values)


def _gather(evidence: WholeEvidence, aligned: Aligned, places: Ints) -> WholeEvidence:
    """Return the evidence of some rows, read from all files."""
    numbers = np.empty((1 + len(aligned.copies), 0, len(places)))
    if aligned.columns:
        blocks = _parts(aligned.blocks(), lambda block: block[0].shape[1], places)
        taken = [np.stack([part[:, rows] for part in block]) for block, rows in blocks]
        numbers = np.concatenate(taken, axis=2)
    shown = {}
    if aligned.categories:
        collected = Collected(aligned.categories, 1 + len(aligned.copies))
        first = aligned.categories[0][0]
        for tables, rows in _parts(
            aligned.category_blocks(), lambda tables: len(tables[0][first].codes), places
        ):
            collected.add([_taken(table, rows) for table in tables])
        shown = {each.name: each for each in collected.shown()}
    judged, kept = ([shown[each.name] for each in part] for part in evidence.categories)
    return replace(
        evidence,
        names=aligned.columns,
        numbers=numbers,
        perturbed=evidence.perturbed[: len(aligned.columns)],
        categories=(judged, kept),
        places=places,
        ordered=False,
        keys={name: aligned.values_at(name, places) for name in evidence.keys},
    )


def _parts(
    blocks: Iterable[Block], length: Callable[[Block], int], places: Ints
) -> Iterator[tuple[Block, Ints]]:
    """Yield each block, and where in it the wanted rows are."""
    start = 0
    for block in blocks:
        end = start + length(block)
        yield block, places[(places >= start) & (places < end)] - start
        start = end


def _taken(table: Mapping[str, Encoded], rows: Ints) -> dict[str, Encoded]:
    return {name: replace(own, codes=own.codes[rows]) for name, own in table.items()}


def _of_rows(evidence: WholeEvidence, rows: Ints, strip: Ints) -> WholeEvidence:
    """Return the evidence of one column's strips."""
    judged, kept = ([each.of_rows(rows) for each in part] for part in evidence.categories)
    return replace(
        evidence,
        numbers=evidence.numbers[:, :, rows],
        categories=(judged, kept),
        places=evidence.places[rows],
        keys={name: (values, codes[rows]) for name, (values, codes) in evidence.keys.items()},
        clusters=strip,
    )


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
    owed = [each for each in bare if CATEGORY in aligned.stated.roles(each.columns[0])]
    chosen = all(each.order in (KEEP_ORDER, SHUFFLE) for each in aligned.stated.copies)
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
        owed = [n for n in aligned.columns if PERTURBED in aligned.stated.roles(n)]
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
