"""Names in a schema file that stand for several columns, such as item_*."""

from collections.abc import Collection
from fnmatch import fnmatchcase


def is_wildcard(name: str, columns: Collection[str]) -> bool:
    """Whether a name stands for others: it has a * in it, and is no column's own name."""
    return "*" in name and name not in columns


def fits(column: str, wildcard: str) -> bool:
    """Whether a wildcard stands for a column; nothing but * is special.

    >>> fits("item_1", "item_*"), fits("item_1", "item_?")
    (True, False)
    """
    return fnmatchcase(column, wildcard.replace("[", "[[]").replace("?", "[?]"))
