"""What schema files have that TOML has not: names that stand for several columns, and how values
are written down in a draft."""

import json
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any


def is_wildcard(name: str, columns: Collection[str]) -> bool:
    """Whether a name stands for others: it has a * in it, and is no column's own name."""
    return "*" in name and name not in columns


def fits(column: str, wildcard: str) -> bool:
    """Whether a wildcard stands for a column; nothing but * is special.

    >>> fits("item_1", "item_*"), fits("item_1", "item_?")
    (True, False)
    """
    return fnmatchcase(column, wildcard.replace("[", "[[]").replace("?", "[?]"))


def toml_text(value: Any) -> str:
    """Return a value as it stands in a TOML file.

    >>> print(toml_text(["it is so", True, 2.5]))
    ["it is so", true, 2.5]
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    return str(value)


def toml_comment(text: str) -> str:
    """Return text that cannot end a comment's line."""
    return toml_text(text)[1:-1].replace('\\"', '"')
