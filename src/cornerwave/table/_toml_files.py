"""The two files that an owner writes, in TOML: a schema file and a batch file.

A schema file holds the choices for all columns of a table:

    min_count = 5
    together = [["city", "district"]]
    order = "shuffle"         # or "keep"; if the order of the rows tells a column

    [reading]                 # how the cells of a text file are spelled
    delimiter = ";"           # also encoding, decimal, thousands, date_format, missing, sheet

    [[column]]
    name = "wage"
    do = "perturb"            # perturb, category, key, keep or drop
    transform = "log1p"       # or "rank"; for numbers
    base = "uniform"          # for categories, instead of their own frequencies
    hide_missing = true
    hidden = true             # for a key that identifies the rows but is not released

It must decide every column of the source. A batch file lists copies to release:

    [[copy]]
    to = "partner"
    privacy = 0.3             # or noise
    out = "partner.parquet"   # beside the batch file; optional
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cornerwave.errors import ColumnError, CornerwaveError, LevelError
from cornerwave.levels import Level, Privacy, asked_for
from cornerwave.table._reading_settings import ReadingSettings
from cornerwave.table._schema import (
    MARGINAL,
    ORDERS,
    TRANSFORMS,
    UNIFORM,
    Choices,
    listed,
    repeated,
)

_DOES = ("perturb", "category", "key", "keep", "drop")
_COLUMN_OPTIONS = ("name", "do", "transform", "base", "hide_missing", "hidden")
_COPY_OPTIONS = ("to", "privacy", "noise", "out")


def read_choices(path: Path, columns: Sequence[str]) -> Choices:
    """Read a schema file for a source with these columns. Raises ColumnError."""
    content = _parsed(path, ColumnError)
    _check_known(content, ("column", "min_count", "together", "order", "reading"), path.name)
    entries = _tables(content, "column", path, ColumnError)
    for entry in entries:
        _check_entry(entry, path)
    _check_whole_table(content, path)
    named = [entry["name"] for entry in entries]
    if twice := repeated(named):
        raise ColumnError(f"{path.name} has more than one decision for {listed(twice)}")
    if missing := [name for name in columns if name not in named]:
        raise ColumnError(f"{path.name} has no decision for {listed(missing)}")
    return _choices(entries, content)


def schema_reading(path: Path, said: ReadingSettings | None = None) -> ReadingSettings:
    """Return how a schema file says that cells are spelled. Raises ColumnError, SourceError."""
    given = _parsed(path, ColumnError).get("reading", {})
    if said is not None and said.said:
        raise ColumnError("a schema file says everything; leave out the other choices")
    if not isinstance(given, dict):
        raise ColumnError(f"{path.name}: write reading as a [reading] table")
    return ReadingSettings.from_table(given, f"{path.name}, [reading]")


def read_batch(path: Path) -> list[tuple[str, Level | Privacy, Path | None]]:
    """Return (recipient, level, file) for each copy in a batch file; None without a file.

    Raises LevelError.
    """
    copies = _tables(_parsed(path, LevelError), "copy", path, LevelError)
    if not copies:
        raise LevelError(f"{path.name} has no copies; add [[copy]] tables with to, privacy and out")
    return [_copy(copy, f"{path.name}, copy {i}", path) for i, copy in enumerate(copies, start=1)]


def _copy(copy: dict[str, Any], where: str, path: Path) -> tuple[str, Level | Privacy, Path | None]:
    _check_known(copy, _COPY_OPTIONS, where, LevelError)
    if not isinstance(copy.get("to"), str):
        raise LevelError(f"{where}: 'to' must be the name of a recipient")
    if not isinstance(copy.get("out", ""), str):
        raise LevelError(f"{where}: 'out' must be the name of a file")
    try:
        level = asked_for(noise=copy.get("noise"), privacy=copy.get("privacy"))
    except LevelError as error:
        raise LevelError(f"{where}: {error}") from None
    return copy["to"], level, path.parent / copy["out"] if "out" in copy else None


def _parsed(path: Path, error: type[CornerwaveError]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise error(f"{path} cannot be read") from None
    except tomllib.TOMLDecodeError as fault:
        raise error(f"{path.name} is not TOML: {fault}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists
        raise error(f"{path.name} cannot be read: a value is too long or too deep") from None


def _tables(
    content: dict[str, Any], name: str, path: Path, error: type[CornerwaveError]
) -> list[dict[str, Any]]:
    found = content.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise error(f"{path.name}: write each {name} as a [[{name}]] table")
    return found


def _check_known(
    given: dict[str, Any],
    known: Sequence[str],
    where: str,
    error: type[CornerwaveError] = ColumnError,
) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise error(f"{where}: unknown option {unknown[0]!r}; use {', '.join(known)}")


def _choices(entries: list[dict[str, Any]], content: dict[str, Any]) -> Choices:
    def names(**wanted: Any) -> tuple[str, ...]:
        return tuple(
            entry["name"]
            for entry in entries
            if all(entry.get(option) == value for option, value in wanted.items())
        )

    keys = names(do="key")
    if len(keys) > 1:
        raise ColumnError(f"{listed(keys)}: a table has one key; choose one of them")
    return Choices(
        key=keys[0] if keys else None,
        keep=names(do="keep"),
        drop=names(do="drop") + names(do="key", hidden=True),
        perturb=names(do="perturb"),
        categorical=names(do="category"),
        uniform=names(base=UNIFORM),
        together=tuple(tuple(group) for group in content.get("together", [])),
        hide_missing=names(hide_missing=True),
        transform={e["name"]: e["transform"] for e in entries if e.get("transform")},
        min_count=content.get("min_count", 0),
        order=content.get("order"),
    )


def _check_whole_table(content: dict[str, Any], path: Path) -> None:
    min_count, together = content.get("min_count", 0), content.get("together", [])
    if type(min_count) is not int or min_count < 0:
        raise ColumnError(f"{path.name}: min_count must be a number of rows, 0 or more")
    if not isinstance(together, list) or not all(
        isinstance(group, list) and all(isinstance(name, str) for name in group)
        for group in together
    ):
        raise ColumnError(f'{path.name}: together must be lists of names, as in [["a", "b"]]')
    if "order" in content and content["order"] not in ORDERS:
        raise ColumnError(f"{path.name}: order must be {' or '.join(ORDERS)}")


def _check_entry(entry: dict[str, Any], path: Path) -> None:
    if not isinstance(entry.get("name"), str):
        raise ColumnError(f"{path.name}: a [[column]] table has no name")
    where = f"{path.name}, column {entry['name']!r}"
    _check_known(entry, _COLUMN_OPTIONS, where)
    if entry.get("do") not in _DOES:
        raise ColumnError(f"{where}: 'do' must be one of {', '.join(_DOES)}")
    for option, allowed in (("transform", TRANSFORMS), ("base", (MARGINAL, UNIFORM))):
        if entry.get(option) not in (None, *allowed):
            raise ColumnError(f"{where}: {option} must be {' or '.join(allowed)}")
    for option in ("hide_missing", "hidden"):
        if not isinstance(entry.get(option, False), bool):
            raise ColumnError(f"{where}: {option} must be true or false, without quotes")
    if entry.get("hidden") and entry["do"] != "key":
        raise ColumnError(f'{where}: hidden is for a key; to leave a column out, use do = "drop"')
