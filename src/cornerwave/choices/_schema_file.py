"""The two files that an owner writes, in TOML: a schema file and a batch file.

A schema file holds the choices for all columns of a table:

    min_count = 5
    together = [["city", "district"]]
    order = "shuffle"         # or "keep"; if the order of the rows tells a column
    independent_rows = true   # if no two rows belong together, though they seem to
    few_rows = true           # accept a table of fewer than 100 rows; below 500, without a warning

    [reading]                 # how the cells of a text file are spelled
    delimiter = ";"           # also encoding, decimal, thousands, date_format, missing, sheet

    [[column]]
    name = "wage"
    do = "perturb"            # perturb, category, key, keep or drop
    transform = "log1p"       # or "rank"; for numbers
    base = "uniform"          # for categories, instead of their own frequencies
    hide_missing = true
    missing = ["-9"]          # cells that stand for missing values here, instead of [reading]'s
    hidden = true             # for a key that identifies the rows but is not released
    as_is = true              # for a key that is released as it is, instead of as a pseudonym
    round = true              # whole numbers, dates, ... as in the table; false: never
    clip = [0, inf]           # no value of a copy lies outside
    type = "int64"            # of the rounded numbers in copies, if not the table's
    as = "pay"                # the column's name in copies

    [[column]]
    name = "item_*"           # all columns that are not named themselves, by the first that fits
    do = "category"

It must decide every column of the source. A batch file lists copies to release:

    [[copy]]
    to = "partner"
    privacy = 0.3             # or noise
    out = "partner.parquet"   # beside the batch file; optional
"""

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from cornerwave.columns import (
    CATEGORY,
    DAYS,
    DROPPED,
    KEPT,
    KEY,
    MARGINAL,
    ORDERS,
    PERTURBED,
    TRANSFORMS,
    UNIFORM,
    Choices,
    Column,
    Schema,
    fits,
    is_wildcard,
    listed,
    repeated,
    toml_text,
)
from cornerwave.errors import ColumnError, CornerwaveError, LevelError
from cornerwave.levels import Level, Privacy, asked_for
from cornerwave.sources import Place, ReadingSettings, place_of

_DOES = ("perturb", "category", "key", "keep", "drop")
_ROLES = {PERTURBED: "perturb", CATEGORY: "category", KEY: "key", KEPT: "keep", DROPPED: "drop"}
_LOOKS = ("round", "clip", "type", "as")
_FLAGS = ("hide_missing", "hidden", "as_is")
_COLUMN_OPTIONS = ("name", "do", "transform", "base", *_FLAGS, "missing", *_LOOKS)
_SAID_OF_ROWS = ("order", "independent_rows", "few_rows")
_TABLE_OPTIONS = ("column", "min_count", "together", *_SAID_OF_ROWS, "reading")
DECIDE = "decide"
"""What a draft says of a column that the owner has to decide."""
_COPY_OPTIONS = ("to", "privacy", "noise", "out")


def read_choices(path: Path, columns: Sequence[str]) -> Choices:
    """Read a schema file for a source with these columns. Raises ColumnError."""
    content = _parsed(path, ColumnError)
    _check_known(content, _TABLE_OPTIONS, path.name)
    entries = _tables(content, "column", path, ColumnError)
    for entry in entries:
        _check_entry(entry, path)
    _check_whole_table(content, path)
    if twice := repeated(entry["name"] for entry in entries):
        raise ColumnError(f"{path.name} has more than one decision for {listed(twice)}")
    entries = _expanded(entries, columns, path)
    named = [entry["name"] for entry in entries]
    if missing := [name for name in columns if name not in named]:
        raise ColumnError(f"{path.name} has no decision for {listed(missing)}")
    if undecided := [entry["name"] for entry in entries if entry["do"] == DECIDE]:
        raise ColumnError(
            f"{path.name}: still to decide: {listed(undecided)}; set 'do' to one of "
            f"{', '.join(_DOES)}"
        )
    return _choices(entries, content)


def schema_reading(path: Path, said: ReadingSettings | None = None) -> ReadingSettings:
    """Return how a schema file says that cells are spelled. Raises ColumnError, SourceError."""
    content = _parsed(path, ColumnError)
    given = content.get("reading", {})
    if said is not None and said.said:
        raise ColumnError("a schema file says everything; leave out the other choices")
    if not isinstance(given, dict):
        raise ColumnError(f"{path.name}: write reading as a [reading] table")
    found = ReadingSettings.from_table(given, f"{path.name}, [reading]")
    entries = _tables(content, "column", path, ColumnError)
    for entry in entries:
        _check_entry(entry, path)
    if not any("missing" in entry for entry in entries):
        return found
    own = [(e["name"], tuple(e["missing"]) if "missing" in e else None) for e in entries]
    return replace(found, column_missing=tuple(own))


def _expanded(
    entries: list[dict[str, Any]], columns: Sequence[str], path: Path
) -> list[dict[str, Any]]:
    """Return an entry for each column that wildcards stand for; a column's own entry counts first.

    A name with * in it that is a column's name is no wildcard.
    """
    wild = [entry for entry in entries if is_wildcard(entry["name"], columns)]
    own = [entry for entry in entries if entry not in wild]
    taken = {entry["name"] for entry in own}
    for entry in wild:
        found = [name for name in columns if fits(name, entry["name"])]
        if not found:
            raise ColumnError(f"{path.name}: {entry['name']!r} stands for no column of the table")
        own += [{**entry, "name": name} for name in found if name not in taken]
        taken |= set(found)
    return own


def schema_text(schema: Schema, reading: ReadingSettings | None = None) -> str:
    """Return a schema file that says what was decided, and how the cells are spelled."""
    lines = [f"min_count = {schema.min_count}", f"together = {toml_text(schema.together)}"]
    if schema.order is not None:
        lines.append(f"order = {toml_text(schema.order)}")
    if schema.independent_rows:
        lines.append("independent_rows = true")
    if schema.few_rows:
        lines.append("few_rows = true")
    marks = dict(reading.column_missing or ()) if reading else {}
    for column in schema.columns:
        lines += ["", "[[column]]", *(f"{o} = {toml_text(v)}" for o, v in _said(column))]
        if column.name in marks:
            lines.append(f"missing = {toml_text(marks[column.name])}")
    if reading is not None and reading.said:
        lines += ["", "[reading]", *reading.lines()]
    return "\n".join(lines) + "\n"


def _said(column: Column) -> Iterator[tuple[str, Any]]:
    """Yield the options of a column that are not the usual ones."""
    yield "name", column.name
    yield "do", _ROLES[column.role]
    days = column.unit == DAYS
    said = {
        "transform": column.transform,
        "base": UNIFORM if column.base == UNIFORM else None,
        "hide_missing": column.hide_missing or None,
        "hidden": True if column.role == KEY and not column.shown else None,
        "as_is": column.as_is or None,
        "round": column.round,
        "clip": column.clip and [_end(end, place, days) for place, end in enumerate(column.clip)],
        "type": column.released_type,
        "as": column.released_as,
    }
    yield from ((option, value) for option, value in said.items() if value is not None)


def _end(end: float | None, place: int, days: bool) -> Any:
    """Return a bound as it is written: an open one is infinite, a day is a date."""
    if end is None:
        return (-math.inf, math.inf)[place]
    return date(1970, 1, 1) + timedelta(int(end)) if days and end == int(end) else end


def read_batch(path: Path) -> list[tuple[str, Level | Privacy, Place | None]]:
    """Return (recipient, level, file) for each copy in a batch file; None without a file.

    Raises LevelError.
    """
    copies = _tables(_parsed(path, LevelError), "copy", path, LevelError)
    if not copies:
        raise LevelError(f"{path.name} has no copies; add [[copy]] tables with to, privacy and out")
    return [_copy(copy, f"{path.name}, copy {i}", path) for i, copy in enumerate(copies, start=1)]


def _copy(
    copy: dict[str, Any], where: str, path: Path
) -> tuple[str, Level | Privacy, Place | None]:
    _check_known(copy, _COPY_OPTIONS, where, LevelError)
    if not isinstance(copy.get("to"), str):
        raise LevelError(f"{where}: 'to' must be the name of a recipient")
    if not isinstance(copy.get("out", ""), str):
        raise LevelError(f"{where}: 'out' must be the name of a file")
    try:
        level = asked_for(noise=copy.get("noise"), privacy=copy.get("privacy"))
    except LevelError as error:
        raise LevelError(f"{where}: {error}") from None
    out = copy.get("out")
    if out is not None:
        out = place_of(out if "://" in out else str(path.parent / out))
    return copy["to"], level, out


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
        key_as_is=bool(names(do="key", as_is=True)),
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
        independent_rows=content.get("independent_rows", False),
        few_rows=content.get("few_rows", False),
        round={e["name"]: e["round"] for e in entries if "round" in e},
        clip={e["name"]: _opened(e["clip"]) for e in entries if "clip" in e},
        released_type={e["name"]: e["type"] for e in entries if "type" in e},
        released_as={e["name"]: e["as"] for e in entries if "as" in e},
    )


def _opened(ends: Sequence[Any]) -> tuple[Any, Any]:
    """Return a pair of bounds; an infinite one is open."""
    low, high = (None if isinstance(e, float) and math.isinf(e) else e for e in ends)
    return low, high


def _check_whole_table(content: dict[str, Any], path: Path) -> None:
    min_count, together = content.get("min_count", 0), content.get("together", [])
    if type(min_count) is not int or min_count < 0:
        raise ColumnError(f"{path.name}: min_count must be a number of rows, 0 or more")
    if not isinstance(together, list) or not all(
        isinstance(group, list) and all(isinstance(name, str) for name in group)
        for group in together
    ):
        raise ColumnError(f'{path.name}: together must be lists of names, as in [["a", "b"]]')
    if not isinstance(content.get("independent_rows", False), bool):
        raise ColumnError(f"{path.name}: independent_rows must be true or false, without quotes")
    if "order" in content and content["order"] not in ORDERS:
        raise ColumnError(f"{path.name}: order must be {' or '.join(ORDERS)}")
    if not isinstance(content.get("few_rows", False), bool):
        raise ColumnError(f"{path.name}: few_rows must be true or false, without quotes")


def _check_entry(entry: dict[str, Any], path: Path) -> None:
    if not isinstance(entry.get("name"), str):
        raise ColumnError(f"{path.name}: a [[column]] table has no name")
    where = f"{path.name}, column {entry['name']!r}"
    _check_known(entry, _COLUMN_OPTIONS, where)
    if entry.get("do") not in (*_DOES, DECIDE):
        raise ColumnError(f"{where}: 'do' must be one of {', '.join(_DOES)}")
    for option, allowed in (("transform", TRANSFORMS), ("base", (MARGINAL, UNIFORM))):
        if entry.get(option) not in (None, *allowed):
            raise ColumnError(f"{where}: {option} must be {' or '.join(allowed)}")
    for option in (*_FLAGS, "round"):
        if not isinstance(entry.get(option, False), bool):
            raise ColumnError(f"{where}: {option} must be true or false, without quotes")
    for option in ("type", "as"):
        if not isinstance(entry.get(option, ""), str) or entry.get(option) == "":
            raise ColumnError(f"{where}: {option} must be a text that is not empty")
    marks = entry.get("missing", [])
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        raise ColumnError(f'{where}: missing must be a list of texts, as in ["-9", "?"]')
    clip = entry.get("clip", [0, 1])
    if not isinstance(clip, list) or len(clip) != 2 or clip[0] == math.inf or clip[1] == -math.inf:
        raise ColumnError(f"{where}: clip must be two bounds, as in [0, inf]")
    if "as" in entry and "*" in entry["name"]:
        raise ColumnError(f"{where}: one name cannot be given to several columns")
    if entry.get("hidden") and entry["do"] != "key":
        raise ColumnError(f'{where}: hidden is for a key; to leave a column out, use do = "drop"')
    if entry.get("as_is") and entry["do"] != "key":
        raise ColumnError(f'{where}: as_is is for a key; to release it unchanged, use do = "keep"')
