"""Everything that files show in some rows, put together for the attacks on whole copies.

Numbers and categories kept rows independently of each other, every so many of all: common rows
are used. Added are the numbers that are judged apart, clipped ones as they are and those on
the scale of ranks by their scores, and columns that no other check looks at: keys, and text of too
many values for a category.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cornerwave import sizes
from cornerwave.arrays import Floats, Ints
from cornerwave.audit._alignment import Aligned
from cornerwave.audit._apart import ApartEvidence
from cornerwave.audit._blocks import BLOCK_ROWS
from cornerwave.audit._category_checks import CategoryEvidence
from cornerwave.audit._guesses import CategoriesRead
from cornerwave.audit._numbers import NumbersRead
from cornerwave.audit._whole import MOST_WHOLE_ROWS, ShownCategories, ShownNumbers, WholeEvidence
from cornerwave.choices import CATEGORY, KEEP_ORDER, PERTURBED, SHUFFLE
from cornerwave.columns import is_number, one_chunk, to_floats, to_values, total_of, unit_of

# --------------------------------------------------------------------------------------------------
# Rows that are close to each other in a column without noise, where a table is too long for all.
#
# Of kept rows, one in so many, neighbours in the order of a key are far apart, and of a small group
# hardly two are kept. So some intervals of such a column are chosen, by the quantiles of the kept
# rows, and all rows inside them are read. Groups of equal values stay whole, and rows as close as
# in the table. Rows of one strip have much in common: errors are measured from strip to strip.


MOST_STRIPS, MOST_COLUMNS = 16, 3
"""Intervals of a column, and columns that are looked at like this."""

FEWEST_ALIKE = 8
"""A column of which fewer of the kept rows show a value together, as a rule, has strips."""


def with_strips(evidence: WholeEvidence, aligned: Aligned, rows: int) -> WholeEvidence:
    """Return the evidence with strips of each column that has no noise and too many
    values for the rows that were kept.
    """
    names = list(_fine(evidence))[:MOST_COLUMNS] if evidence.sampled else []
    if not names:
        return evidence
    room = sizes.KEPT_CODES // ((1 + len(aligned.copies)) * max(len(aligned.categories), 1))
    # rows of each column's strips, within memory
    each = min(MOST_WHOLE_ROWS, room // len(names))
    strips = {name: _rows_of(aligned, name, evidence.places, rows, each) for name in names}
    every = np.unique(np.concatenate([places for places, _ in strips.values()]))
    everything = gather_rows(evidence, aligned, every)
    return replace(
        evidence,
        strips={
            name: replace(everything.taken(np.searchsorted(every, places)), clusters=strip)
            for name, (places, strip) in strips.items()
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
    # quantiles of the kept rows show where intervals hold enough rows
    edges = _edges(np.sort(np.concatenate(known)), most / rows)
    inside_rows, strips = [], []
    for places, block in _blocks(aligned, name):
        # odd places between edges are inside an interval
        among = np.searchsorted(edges, block, side="right")
        inside = among % 2 == 1
        inside_rows.append(places[inside])
        strips.append(among[inside] // 2)
    return np.concatenate(inside_rows)[: 2 * most], np.concatenate(strips)[: 2 * most]


def _edges(ordered: Any, share: float) -> Any:
    """Return the ends of intervals, one after the other, that hold a share of ordered values."""
    n = len(ordered)
    wide = max(int(n * share) // MOST_STRIPS, 1)
    count = max(min(MOST_STRIPS, int(n * share) // wide), 1)
    starts = (np.arange(count) * (n - wide - 1)) // max(count - 1, 1)
    low, high = ordered[starts], ordered[starts + wide]
    # intervals that touch would share groups of equal values
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


def gather_rows(evidence: WholeEvidence, aligned: Aligned, places: Ints) -> WholeEvidence:
    """Return the evidence of some rows, read from all files."""
    numbers = np.empty((1 + len(aligned.copies), 0, len(places)))
    if aligned.columns:
        start, taken = 0, []
        for block in aligned.blocks():
            end = start + block[0].shape[1]
            inside = places[(places >= start) & (places < end)] - start
            taken.append(np.stack([part[:, inside] for part in block]))
            start = end
        numbers = np.concatenate(taken, axis=2)
    shown = {}
    if aligned.categories:
        shown = {each.name: each for each in CategoriesRead.of(aligned, places=places).shown}
    judged, kept = ([shown[each.name] for each in part] for part in evidence.categories)
    return replace(
        evidence,
        names=aligned.columns,
        numbers=numbers,
        perturbed=evidence.perturbed[: len(aligned.columns)],
        categories=(judged, kept),
        places=places,
        weights=_weights(aligned, places),
        ordered=False,
        keys={name: aligned.values_at(name, places) for name in evidence.keys},
    )


def gather_everything(
    aligned: Aligned,
    rows: int,
    *,
    numbers: NumbersRead | None,
    categories: CategoryEvidence | None,
    lone: ApartEvidence | None,
) -> WholeEvidence:
    """Return what source and copies show in the rows that all kinds kept."""
    shown = _numbers(aligned, numbers, lone)
    bare, judged = (categories.bare, categories.judged) if categories else ((), ())
    owed = [each for each in bare if CATEGORY in aligned.stated.roles(each.columns[0])]
    chosen = all(each.order in (KEEP_ORDER, SHUFFLE) for each in aligned.stated.copies)
    evidence = WholeEvidence.of(
        shown,
        ShownCategories(
            [*judged, *owed],
            [each for each in bare if each not in owed],
            categories.every if categories else 1,
        ),
        aligned.stated,
        rows,
        ordered=not (chosen or aligned.sorted_copies),
    )
    known = [aligned.key, *(categories.boundless if categories else ())]
    texts = [name for name in known if name is not None and name in aligned.source.schema.names]
    keys = {name: aligned.values_at(name, evidence.places) for name in texts}
    held = [name for name in shown.names if name in aligned.source.schema.names]
    types = {name: aligned.source.schema.field(name).type for name in held}
    units = {name: unit for name, type_ in types.items() if (unit := unit_of(type_))}
    evidence = with_strips(replace(evidence, keys=keys, units=units), aligned, rows)
    if aligned.whole is None:
        return evidence
    # one row of each person is a sample of all rows
    return replace(evidence, weights=_weights(aligned, evidence.places), sampled=True)


def _weights(aligned: Aligned, places: Ints) -> Floats | None:
    """Return how many rows each of some rows represents, where they are one of each person."""
    if aligned.whole is None or aligned.persons is None:
        return None
    return np.asarray(aligned.persons.weights[places])


def _numbers(
    aligned: Aligned, numbers: NumbersRead | None, lone: ApartEvidence | None
) -> ShownNumbers:
    """Return all numbers in the rows that were kept of each kind."""
    parts = []
    if numbers is not None:
        owed = [n for n in aligned.columns if PERTURBED in aligned.stated.roles(n)]
        perturbed = [
            kind == "perturbed" or (name in owed and kind != "constant")
            for name, kind in zip(aligned.columns, numbers.kinds, strict=True)
        ]
        kept = numbers.first.kept
        rows = np.stack(aligned.scaled(list(kept.cells)))
        parts.append(ShownNumbers(aligned.columns, np.array(perturbed), rows, kept.every))
    if lone is not None:
        noisy, rows = lone.deviation > 0, _on_scale(lone)
        parts.append(ShownNumbers(lone.aligned.columns, noisy, rows, lone.kept.every))
    if not parts:
        empty = np.empty((1 + len(aligned.copies), 0, 0))
        return ShownNumbers((), np.zeros(0, dtype=bool), empty, 1)
    if shown := _sums(aligned, numbers, lone):
        parts.append(shown)
    every = max(part.every for part in parts)
    return ShownNumbers(
        tuple(name for part in parts for name in part.names),
        np.concatenate([part.perturbed for part in parts]),
        np.concatenate([part.values[:, :, :: every // part.every] for part in parts], axis=1),
        every,
    )


def _sums(
    aligned: Aligned, numbers: NumbersRead | None, lone: ApartEvidence | None
) -> ShownNumbers | None:
    """Return the columns that are sums as tables show them, if there are any: b + d, and totals.

    A copy has to hide them too, and not their distances or parts alone.
    """
    kept = [numbers.first.kept] if numbers is not None else []
    names = [aligned.columns] if numbers is not None else []
    if lone is not None:
        kept, names = [*kept, lone.kept], [*names, lone.aligned.columns]
    every = max((each.every for each in kept), default=1)
    cells = {
        name: each.cells[:, n, :: every // each.every]
        for each, columns in zip(kept, names, strict=True)
        for n, name in enumerate(columns)
    }
    shown = to_values(cells, aligned.relative)
    sums = {n: shown[n] for n, base in aligned.relative.items() if {n, base} <= cells.keys()}
    sums |= {
        n: total_of([shown[part] for part in parts])
        for n, parts in aligned.totals.items()
        if {*parts} <= {n for n in shown if n in sums or n not in aligned.relative}
    }
    if not sums:
        return None
    values = np.stack(list(sums.values()), axis=1)
    varies = np.nanstd(values[0], axis=1) > 0
    return ShownNumbers([as_shown(name) for name in sums], varies, values, every)


def as_shown(name: str) -> str:
    """Return what a column is called where it is not its distance from another that is meant."""
    return f"{name} (as shown)"


def _on_scale(lone: ApartEvidence) -> Floats:
    """Return numbers that are judged apart, (1 + M, N, n), those on ranks by their scores.

    A value that many rows hold has the score of their middle: no more is hidden by it.
    """
    raw = lone.kept.cells
    values = np.stack(lone.aligned.scaled(list(raw)))
    for n, name in enumerate(lone.aligned.columns):
        if name in lone.ranked and lone.deviation[n] > 0:
            scale = lone.ranked[name]
            values[0, n] = scale.forward(raw[0, n], name)
            for i in range(1, len(raw)):
                values[i, n] = scale.undone(raw[i, n])
                if spread := lone.aligned.stated.spread(i - 1, name):
                    values[i, n] = spread.undone(values[i, n])
    return values
