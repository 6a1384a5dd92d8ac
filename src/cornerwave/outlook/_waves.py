"""What differs between two tables of the same columns, such as two waves of a survey, in words.

By what registration fixed of each, so that neither is read again and no cell is shown: the mean
of a number on the column's own scale in deviations of the earlier table, a category's values, and
its total variation 1/2 sum |p - p'|.
"""

from collections.abc import Iterator

from cornerwave.columns import Categories
from cornerwave.document import count
from cornerwave.outlook._outlook import centre_and_spread, in_units
from cornerwave.spine.frozen import Frozen

SHIFTED = 0.25
"""A mean that moved by so many deviations is named, and a spread that changed by such a share."""
MOVED = 0.1
"""So is a category of which such a share of the rows has other values."""
POOLED = object()
"""The value of all rare ones."""


def is_same_survey(one: Frozen, other: Frozen) -> bool:
    """Whether two tables have the same columns, and the same happens to them."""
    does = [{column.name: column.role for column in each.schema.columns} for each in (one, other)]
    return does[0] == does[1]


def changed_since(former: Frozen, now: Frozen) -> Iterator[str]:
    """Yield in words what differs from an earlier table of the same columns."""
    for name in now.schema.perturbed:
        before, after = (centre_and_spread(each, name) for each in (former, now))
        if before is None or after is None or not before[1] > 0:
            continue
        shift, ratio = (after[0] - before[0]) / before[1], after[1] / before[1]
        if abs(shift) > SHIFTED:
            higher = "higher" if shift > 0 else "lower"
            yield f"{name} is {abs(shift):.1f} deviations {higher} on average"
        if not 1 / (1 + SHIFTED) < ratio < 1 + SHIFTED:
            yield f"{name} varies {in_units(ratio)} times as much"
    known = {each.columns: each for each in former.categories}
    for each in now.categories:
        if each.columns in known:
            yield from _changed_values(known[each.columns], each)


def _changed_values(former: Categories, now: Categories) -> Iterator[str]:
    before, after, name = _shares(former), _shares(now), " and ".join(now.columns)
    if new := len(after.keys() - before.keys()):
        yield f"{name} has {count(new, 'value')} that it had not"
    if gone := len(before.keys() - after.keys()):
        yield f"{name} lacks {count(gone, 'value')} that it had"
    every = before.keys() | after.keys()
    moved = sum(abs(before.get(v, 0.0) - after.get(v, 0.0)) for v in every) / 2
    if moved > MOVED:
        yield f"{name} has other values in {moved:.0%} of the rows"


def _shares(category: Categories) -> dict[tuple[object, ...], float]:
    """Return the share of the rows that has each value; pooled ones are one value."""
    values = [part.to_pylist() for part in category.values]
    cells: list[tuple[object, ...]] = [
        tuple(None if code < 0 else part[code] for part, code in zip(values, codes, strict=True))
        for codes in category.combinations.tolist()
    ]
    if category.pooled:
        cells[-1] = (POOLED,)
    total = sum(category.counts)
    return {cell: number / total for cell, number in zip(cells, category.counts, strict=True)}
