"""Values as TOML writes them down, for schema files that are drafted or shown."""

import json
from typing import Any


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
