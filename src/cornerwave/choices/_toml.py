"""Schema files: names that match several columns, and values as TOML writes them."""

import json
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any


def is_wildcard(name: str, columns: Collection[str]) -> bool:
    """Whether a name has a * in it to match others, and is not the name of a column."""
    return "*" in name and name not in columns


def fits(column: str, wildcard: str) -> bool:
    """Whether a wildcard matches a column; nothing but * is special.

    >>> fits("item_1", "item_*"), fits("item_1", "item_?")
    (True, False)
    """
    return fnmatchcase(column, wildcard.replace("[", "[[]").replace("?", "[?]"))


def toml_text(value: Any) -> str:
    """Return a value as a TOML file has it.

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
