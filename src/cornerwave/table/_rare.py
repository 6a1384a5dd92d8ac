"""Values that few rows hold: they are pooled, or they identify people."""

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cornerwave.errors import ColumnError, CornerwaveWarning
from cornerwave.table._encoded import Tally
from cornerwave.table._schema import Schema, listed

MOST_CATEGORIES = 1 << 16
IDENTIFYING = 0.5
"""A category identifies people if this share of its values is held by one row alone,"""
FEW_ROWS = 20
"""in a table of at least this many rows."""
OTHER = "(other)"


def rare_values(
    counted: Mapping[tuple[Any, ...], int], min_count: int, other: tuple[Any, ...]
) -> set[tuple[Any, ...]]:
    """Return the values to pool: the rare ones, and further ones until the pool is not rare.

    Rows that hold what the pool is called are in it anyway.
    """
    rarest = sorted(counted.keys() - {other}, key=lambda c: (counted[c], in_order(c)))
    held = counted.get(other, 0)
    rare: set[tuple[Any, ...]] = set()
    for value in rarest:
        pool_is_fine = held >= min_count or (held == 0 and not rare)
        if counted[value] >= min_count and pool_is_fine:
            break
        rare.add(value)
        held += counted[value]
    return rare


def in_order(values: tuple[Any, ...]) -> tuple[tuple[bool, str], ...]:
    """Return what combinations of values are sorted by; a missing one is not the text 'None'."""
    return tuple((value is None, str(value)) for value in values)


def pooled(found: Tally, min_count: int) -> Tally:
    """Return a tally in which all values to pool are one."""
    present = {c: n for c, n in found.items() if None not in c or len(c) > 1}
    rare = rare_values(present, min_count, (OTHER,))
    left: Tally = Counter({c: n for c, n in found.items() if c not in rare})
    if rare:
        left[(OTHER,)] += sum(found[c] for c in rare)
    return left


def check_number(names: tuple[str, ...], found: Tally, rows: int) -> None:
    """Raise ColumnError if a group has more values than a category can have."""
    if len(found) > MOST_CATEGORIES:
        what = "it looks like an identifier" if len(names) == 1 else "too many combinations"
        raise ColumnError(
            f"{listed(names)}: more than {MOST_CATEGORIES:,} different values in {rows:,} rows: "
            f"{what}. {_instead(names)}",
            use=_choices(names),
        )


def check_identifying(names: tuple[str, ...], found: Tally, schema: Schema) -> None:
    """Refuse a category that identifies people; warn of combinations that do.

    Judges what is left after pooling. Raises ColumnError unless the owner declared the
    columns to be categories.
    """
    left = pooled(found, schema.min_count)
    present = sum(count for value, count in left.items() if None not in value)
    alone = sum(count == 1 for value, count in left.items() if None not in value)
    if not identifies(alone, present):
        if len(names) > 1 and alone:
            warnings.warn(
                f"{listed(names)} together: {_combinations(alone)}; a minimum count pools "
                f"{'it' if alone == 1 else 'them'}",
                CornerwaveWarning,
                stacklevel=3,
            )
        return
    if not all(schema.column(name).declared for name in names):
        raise ColumnError(
            f"{listed(names)}: {alone:,} of {present:,} values are held by one row alone, so "
            f"{'it identifies' if len(names) == 1 else 'together they identify'} people. "
            f"{_instead(names)}, pool rare values, or declare "
            f"{'it a category' if len(names) == 1 else 'them categories'} all the same",
            use=(*_choices(names), "min_count", "categorical"),
        )


def _combinations(alone: int) -> str:
    """Say how many combinations identify a row.

    >>> _combinations(1)
    '1 combination is held by one row alone and identifies it wherever it appears'
    >>> _combinations(2)
    '2 combinations are held by one row alone and identify it wherever they appear'
    """
    if alone == 1:
        return "1 combination is held by one row alone and identifies it wherever it appears"
    return f"{alone:,} combinations are held by one row alone and identify it wherever they appear"


def identifies(alone: int, present: int) -> bool:
    """Whether values held by one row alone are so many that a category identifies people."""
    return present >= FEW_ROWS and alone >= IDENTIFYING * present


def _instead(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        return "Do not refresh them together"
    return "Drop it, make it the key"


def _choices(names: tuple[str, ...]) -> tuple[str, ...]:
    return ("together",) if len(names) > 1 else ("drop", "key")
