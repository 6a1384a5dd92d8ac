"""The schema file: the owner's choices for many columns, in TOML.

    min_count = 5
    together = [["city", "district"]]

    [[column]]
    name = "wage"
    do = "perturb"            # perturb, category, key, keep or drop
    transform = "log1p"       # or "rank"; for numbers
    base = "uniform"          # for categories, instead of their own frequencies
    hide_missing = true
    hidden = true             # for a key that tells the rows apart but does not leave

Every column of the source must stand there: nothing is released without a decision.
"""

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cornerwave.errors import ColumnError
from cornerwave.table.schema import TRANSFORMS, UNIFORM, Choices, listed

_DOES = ("perturb", "category", "key", "keep", "drop")
_OPTIONS = {"name", "do", "transform", "base", "hide_missing", "hidden"}


def read_choices(path: Path, columns: Sequence[str]) -> Choices:
    """Read a schema file for a source with these columns. Raises ColumnError."""
    content = _parsed(path)
    entries = content.get("column", [])
    if unknown := set(content) - {"column", "min_count", "together"}:
        raise ColumnError(f"{path.name}: {sorted(unknown)[0]!r} is not known")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ColumnError(f"{path.name}: write columns as [[column]] tables")
    for entry in entries:
        _check_entry(entry, path)
    _check_whole_table(content, path)
    named = [entry["name"] for entry in entries]
    if repeated := sorted(name for name, count in Counter(named).items() if count > 1):
        raise ColumnError(f"{path.name} has more than one decision for {listed(repeated)}")
    if missing := [name for name in columns if name not in named]:
        raise ColumnError(f"{path.name} has no decision for {listed(missing)}")
    return _choices(entries, content)


def _choices(entries: list[dict[str, Any]], content: dict[str, Any]) -> Choices:
    def names(**wanted: Any) -> tuple[str, ...]:
        return tuple(
            entry["name"]
            for entry in entries
            if all(entry.get(option) == value for option, value in wanted.items())
        )

    keys = names(do="key")
    if len(keys) > 1:
        raise ColumnError(f"{listed(keys)}: a table has one key")
    return Choices(
        key=keys[0] if keys else None,
        keep=names(do="keep"),
        drop=names(do="drop") + names(do="key", hidden=True),
        categorical=names(do="category"),
        uniform=names(base=UNIFORM),
        together=tuple(tuple(group) for group in content.get("together", [])),
        hide_missing=names(hide_missing=True),
        transform={e["name"]: e["transform"] for e in entries if e.get("transform")},
        min_count=content.get("min_count", 0),
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise ColumnError(f"{path} cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise ColumnError(f"{path.name} is not TOML: {error}") from None


def _check_whole_table(content: dict[str, Any], path: Path) -> None:
    min_count, together = content.get("min_count", 0), content.get("together", [])
    if type(min_count) is not int or min_count < 0:
        raise ColumnError(f"{path.name}: min_count is a number of rows, 0 or more")
    if not isinstance(together, list) or not all(
        isinstance(group, list) and all(isinstance(name, str) for name in group)
        for group in together
    ):
        raise ColumnError(f'{path.name}: together lists lists of names, as in [["a", "b"]]')


def _check_entry(entry: dict[str, Any], path: Path) -> None:
    if not isinstance(entry.get("name"), str):
        raise ColumnError(f"{path.name}: a [[column]] without a name")
    where = f"{path.name}, column {entry['name']!r}"
    if unknown := set(entry) - _OPTIONS:
        raise ColumnError(f"{where}: {sorted(unknown)[0]!r} is not known")
    if entry.get("do") not in _DOES:
        raise ColumnError(f"{where}: say what to do: {', '.join(_DOES)}")
    if entry.get("transform") not in (None, *TRANSFORMS):
        raise ColumnError(f"{where}: transform is one of {', '.join(TRANSFORMS)}")
    if entry.get("base") not in (None, "marginal", UNIFORM):
        raise ColumnError(f"{where}: base is marginal or uniform")
    for option in ("hide_missing", "hidden"):
        if not isinstance(entry.get(option, False), bool):
            raise ColumnError(f"{where}: {option} is true or false, without quotes")
    if entry.get("hidden") and entry["do"] != "key":
        raise ColumnError(f'{where}: hidden is for a key; to leave a column out, say do = "drop"')
