"""The two files that an owner writes, in TOML: a schema file and a batch file.

A schema file holds the choices for a table and for each of its columns. Its keys, and which values
they may have, are those of the declarations in `choices`:

    min_count = 5

    [reading]                 # how the cells of a text file are spelled
    delimiter = ";"

    [[column]]
    name = "wage"
    do = "perturb"            # perturb, category, key, keep or drop
    clip = [0, inf]

    [[column]]
    name = "item_*"           # all columns that are not named themselves, by the first that fits
    do = "category"

It must decide every column of the source. One for linked tables has a [[table]] for each, with its
name and these keys ([[table.column]]); above them may be the `unit` of all, and `orphans`.
A batch file lists copies to release:

    [[copy]]
    to = "partner"
    privacy = 0.3             # or noise
    out = "partner.parquet"   # beside the batch file; optional
"""

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from cornerwave.choices import (
    DECIDE,
    DECLARED,
    DOES,
    DROPPED,
    HIDDEN,
    KEPT,
    KEY,
    UNIT,
    VALUES,
    Choice,
    Choices,
    ReadingSettings,
    fits,
    is_wildcard,
    toml_text,
)
from cornerwave.columns import DAYS, Column, Schema, listed, repeated
from cornerwave.errors import ColumnError, CornerwaveError, LevelError, nearest_name
from cornerwave.kinds import ListOf, Text
from cornerwave.levels import Level, Privacy, asked_for
from cornerwave.sources import Place, place_of

TomlTable = dict[str, Any]
"""A table of a TOML file, or a part of one; its keys are checked before they are used."""

_MISSING = Choice(
    "Cells that mean a missing value in this column",
    VALUES,
    kind=ListOf(Text(printable=False), 'a list of texts, as in ["-9", "?"]'),
    key="missing",
)
_OF_TABLE = [choice for choice in DECLARED.values() if not choice.is_of_column]
_OF_COLUMN = [choice for choice in DECLARED.values() if choice.is_of_column]
_BY_COLUMN_KEY = {choice.key: choice for choice in (*_OF_COLUMN, HIDDEN, _MISSING)}
_COLUMN_KEYS = ("name", *_BY_COLUMN_KEY)
_TABLE_KEYS = ("unit", "column", *dict.fromkeys(choice.key for choice in _OF_TABLE), "reading")
_COPY_KEYS = ("to", "privacy", "noise", "out")
ORPHANS = "orphans"
"""What a schema file for linked tables calls the choice to allow persons without a row in one."""
ALONE = "a schema file states all choices; leave out the others"
"""Why a schema file and other choices do not go together."""


@dataclass(frozen=True)
class InlineSchema:
    """What a schema file holds, stated in another file; messages call it by its name."""

    content: TomlTable
    name: str


SchemaPlace = str | Path | InlineSchema
"""Where a schema file is: a file of its own, or a part of another one."""


def read_choices(schema: SchemaPlace, columns: Sequence[str]) -> Choices:
    """Read a schema file for a source with these columns. Raises ColumnError."""
    content, path = _content(schema)
    if "table" in content:
        raise ColumnError(
            f"{path.name} is for several linked tables; name them all, as in patients=FILE"
        )
    return _read(content, path, columns)


@dataclass(frozen=True)
class TableInFile:
    """What a schema file for linked tables states of one of them."""

    content: TomlTable
    path: Path
    unit: str | None = None
    """That of the file, for a table that has such a column and states none."""

    @property
    def reading(self) -> ReadingSettings:
        """How its cells are spelled."""
        return _reading_of(self.content, self.path)

    def choices(self, columns: Sequence[str]) -> Choices:
        """Return the choices for a source with these columns."""
        shared = {} if self.unit is None or self.unit not in columns else {"unit": self.unit}
        return _read({**shared, **self.content}, self.path, columns)


def read_linked(schema: SchemaPlace, tables: Sequence[str]) -> dict[str, TableInFile]:
    """Read a schema file for linked tables: a [[table]] with a name for each. Raises ColumnError.

    The unit of a table is that of the file, if it states none itself.
    """
    content, path = _content(schema)
    _check_known(content, ("unit", ORPHANS, "table"), path.name)
    tables_in_file = dict[str, TableInFile]()
    for each in _tables(content, "table", path, ColumnError):
        name = each.get("name")
        if not isinstance(name, str) or name in tables_in_file or "/" in name:
            raise ColumnError(f"{path.name}: every [[table]] has a name of its own, without /")
        keys = {key: value for key, value in each.items() if key != "name"}
        within = path.with_name(f"{path.name}, {name}")
        tables_in_file[name] = TableInFile(keys, within, content.get("unit"))
    if unknown := sorted(set(tables) ^ set(tables_in_file)):
        raise ColumnError(f"{path.name} and the named tables differ in {listed(unknown)}")
    return tables_in_file


def orphans_in(schema: SchemaPlace) -> bool:
    """Whether a schema file for linked tables allows persons without a row in one of them."""
    content, path = _content(schema)
    allowed = content.get(ORPHANS, False)
    if not isinstance(allowed, bool):
        raise ColumnError(f"{path.name}: {ORPHANS} must be true or false, without quotes")
    return allowed


@dataclass(frozen=True)
class DraftedChoices:
    """What a schema file states of each column, some of which may be undecided, and of the table.

    By the keys of the file. `differs` states in words which columns only one of the two has.
    """

    columns: Mapping[str, TomlTable]
    table: TomlTable
    reading: ReadingSettings
    differs: tuple[str, ...] = ()


def read_draft(text: str, name: str, columns: Sequence[str]) -> DraftedChoices:
    """Read a schema file of which the owner may have to decide some columns.

    Raises ColumnError, SourceError.
    """
    content, path = _parsed_text(text, name, ColumnError), Path(name)
    entries = {entry["name"]: entry for entry in _entries(content, path, columns)}
    table = {choice.key: content[choice.key] for choice in _OF_TABLE if choice.key in content}
    known = {column: entries[column] for column in columns if column in entries}
    differs = tuple(_differences(list(entries), columns))
    return DraftedChoices(known, table, _reading_of(content, path), differs)


def _differences(named: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Yield which columns a table has that a schema file does not decide, and the other way."""
    new = [name for name in columns if name not in named]
    gone = [name for name in named if name not in columns]
    if new:
        yield f"it has no decision for {listed(new)}"
    if gone:
        yield f"the table has no column {listed(gone)}"
    for name in new if gone else ():
        # of nearly one spelling: renamed since the last wave
        if (close := nearest_name(name, gone)) is not None:
            yield f"{name!r} may be {close!r} under another name"


def _read(content: TomlTable, path: Path, columns: Sequence[str]) -> Choices:
    entries = _entries(content, path, columns)
    named = [entry["name"] for entry in entries]
    if differs := list(_differences(named, columns)):
        raise ColumnError(
            f"{path.name} was made for another table: {'; '.join(differs)}. Change the file, or "
            "draft another one with inspect"
        )
    if undecided := [entry["name"] for entry in entries if entry["do"] == DECIDE]:
        raise ColumnError(
            f"{path.name}: still to decide: {listed(undecided)}; set 'do' to one of "
            f"{', '.join(DOES.values())}"
        )
    return _choices(entries, content)


def _entries(content: TomlTable, path: Path, columns: Sequence[str]) -> list[TomlTable]:
    """Return the checked entries of a schema file, one for each column that is named."""
    _check_known(content, _TABLE_KEYS, path.name)
    entries = _tables(content, "column", path, ColumnError)
    for entry in entries:
        _check_entry(entry, path)
    for choice in _OF_TABLE:
        if choice.key in content:
            choice.check(content[choice.key], f"{path.name}: ", choice.key)
    if "unit" in content:
        entries = _with_unit(entries, content["unit"], path)
    if twice := repeated(entry["name"] for entry in entries):
        raise ColumnError(f"{path.name} has more than one decision for {listed(twice)}")
    return _expanded(entries, columns, path)


def _with_unit(entries: list[TomlTable], unit: Any, path: Path) -> list[TomlTable]:
    """Return entries with the unit that is named for the whole table."""
    units = [unit] if isinstance(unit, str) else unit
    if not isinstance(units, list) or not all(isinstance(each, str) for each in units):
        raise ColumnError(
            f"{path.name}: unit must be the name of a column, or a list of two, the outer one first"
        )
    others = [entry for entry in entries if entry["name"] not in units]
    here = {entry["name"]: entry for entry in entries}
    return [*others, *({**here.get(u, {}), "name": u, "do": DOES[UNIT]} for u in units)]


def schema_reading(schema: SchemaPlace, given: ReadingSettings | None = None) -> ReadingSettings:
    """Return how a schema file states that cells are spelled. Raises ColumnError, SourceError."""
    if given is not None and given.stated:
        raise ColumnError(ALONE)
    return _reading_of(*_content(schema))


def _reading_of(content: TomlTable, path: Path) -> ReadingSettings:
    table = content.get("reading", {})
    if not isinstance(table, dict):
        raise ColumnError(f"{path.name}: write reading as a [reading] table")
    reading = ReadingSettings.from_table(table, f"{path.name}, [reading]")
    entries = _tables(content, "column", path, ColumnError)
    for entry in entries:
        _check_entry(entry, path)
    if not any("missing" in entry for entry in entries):
        return reading
    marks = [(e["name"], tuple(e["missing"]) if "missing" in e else None) for e in entries]
    return replace(reading, column_missing=tuple(marks))


def _expanded(entries: list[TomlTable], columns: Sequence[str], path: Path) -> list[TomlTable]:
    """Return an entry for each column that wildcards match; a column's own entry counts first.

    A name with * in it that is a column's name is not a wildcard.
    """
    wild = [entry for entry in entries if is_wildcard(entry["name"], columns)]
    decided = [entry for entry in entries if entry not in wild]
    taken = {entry["name"] for entry in decided}
    for entry in wild:
        matching = [name for name in columns if fits(name, entry["name"])]
        if not matching:
            raise ColumnError(f"{path.name}: {entry['name']!r} matches no column of the table")
        decided += [{**entry, "name": name} for name in matching if name not in taken]
        taken |= set(matching)
    return decided


def schema_text(schema: Schema, reading: ReadingSettings | None = None) -> str:
    """Return a schema file that states what was decided, and how the cells are spelled."""
    lines = [f"{key} = {toml_text(value)}" for key, value in table_keys(schema)]
    marks = dict(reading.column_missing or ()) if reading else {}
    for column in schema.columns:
        lines += ["", "[[column]]", *(f"{key} = {toml_text(v)}" for key, v in column_keys(column))]
        if column.name in marks:
            lines.append(f"missing = {toml_text(marks[column.name])}")
    if reading is not None and reading.stated:
        lines += ["", "[reading]", *reading.lines()]
    return "\n".join(lines) + "\n"


def table_keys(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield the keys of the table; a flag only if it was chosen, units if their order counts."""
    if schema.nested:
        yield "unit", list(schema.nested)
    for choice in _OF_TABLE:
        value = getattr(schema, choice.key)
        if value is not None and (not choice.is_flag or value == choice.value):
            yield choice.key, value


def column_keys(column: Column) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a column that are not the usual ones."""
    yield "name", column.name
    yield "do", DOES[column.role]
    if column.is_hidden_key:
        yield HIDDEN.key, True
    for choice in _OF_COLUMN:
        # roles are stated; what is called unit in a column is what its numbers are measured in
        value = getattr(column, choice.name, None) if choice.key != "do" else None
        if choice.gives != VALUES and value:
            yield choice.key, choice.value
        elif choice.gives == VALUES and value is not None:
            yield choice.key, _bounds(value, column) if choice.name == "clip" else value


def _bounds(clip: tuple[Any, Any], column: Column) -> list[Any]:
    """Return bounds as they are written: an open one is infinite, a day is a date."""
    ends = [_open if end is None else end for end, _open in zip(clip, _OPEN, strict=True)]
    if column.unit == DAYS:
        return [date(1970, 1, 1) + timedelta(int(e)) if e % 1 == 0 else e for e in ends]
    return ends


_OPEN = (-math.inf, math.inf)


def read_batch(path: Path) -> list[tuple[str, Level | Privacy, Place | None]]:
    """Return (recipient, level, file) for each copy in a batch file; None without a file.

    Raises LevelError.
    """
    copies = _tables(parsed_toml(path, LevelError), "copy", path, LevelError)
    if not copies:
        raise LevelError(f"{path.name} has no copies; add [[copy]] tables with to, privacy and out")
    return [_copy(copy, f"{path.name}, copy {i}", path) for i, copy in enumerate(copies, start=1)]


def _copy(copy: TomlTable, where: str, path: Path) -> tuple[str, Level | Privacy, Place | None]:
    _check_known(copy, _COPY_KEYS, where, LevelError)
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


def _content(schema: SchemaPlace) -> tuple[TomlTable, Path]:
    """Return what a schema file holds, and what messages call it."""
    if isinstance(schema, InlineSchema):
        return schema.content, Path(schema.name)
    return parsed_toml(Path(schema), ColumnError), Path(schema)


def parsed_toml(path: Path, error: type[CornerwaveError]) -> TomlTable:
    """Return the content of a TOML file. Raises the error, with the line of a fault."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):  # not UTF-8, or a name with a NUL
        raise error(f"{path} cannot be read") from None
    return _parsed_text(text, path.name, error)


def _parsed_text(text: str, name: str, error: type[CornerwaveError]) -> TomlTable:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise error(f"{name} is not TOML: {fault}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists
        raise error(f"{name} cannot be read: a value is too long or too deep") from None


def _tables(
    content: TomlTable, name: str, path: Path, error: type[CornerwaveError]
) -> list[TomlTable]:
    tables = content.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise error(f"{path.name}: write each {name} as a [[{name}]] table")
    return tables


def _check_known(
    given: TomlTable,
    known: Sequence[str],
    where: str,
    error: type[CornerwaveError] = ColumnError,
) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise error(f"{where}: unknown option {unknown[0]!r}; use {', '.join(known)}")


def _choices(entries: list[TomlTable], content: TomlTable) -> Choices:
    """Return choices from entries and keys that are of their kinds."""
    keys = _chosen(DECLARED["key"], entries)
    if len(keys) > 1:
        raise ColumnError(f"{listed(keys)}: a table has one key; choose one of them")
    chosen: TomlTable = {}
    for choice in _OF_COLUMN:
        if choice.gives == VALUES:
            parsed = choice.kind.parsed
            of = {e["name"]: parsed(e[choice.key]) for e in entries if choice.key in e}
            chosen[choice.name] = of
        else:
            chosen[choice.name] = _chosen(choice, entries)
    units = _chosen(DECLARED["unit"], entries)
    as_is = chosen["key_as_is"]
    chosen |= {"key": keys[0] if keys else None, "key_as_is": bool({*as_is} & {*keys})}
    chosen |= {"unit": units}
    chosen["keep"] += tuple(name for name in units if name in as_is)
    chosen["drop"] += _chosen(HIDDEN, entries)
    for choice in _OF_TABLE:
        if choice.key in content:
            value = content[choice.key]
            chosen[choice.name] = value == choice.value if choice.is_flag else choice.normal(value)
    return Choices(**chosen)


def _chosen(choice: Choice, entries: list[TomlTable]) -> tuple[str, ...]:
    """Return the columns whose entries make a choice."""
    return tuple(entry["name"] for entry in entries if entry.get(choice.key) == choice.value)


_INSTEAD = {
    HIDDEN.key: f'to leave a column out, use do = "{DOES[DROPPED]}"',
    DECLARED["key_as_is"].key: f'to release a column unchanged, use do = "{DOES[KEPT]}"',
}
"""What to do where a key of the file is for the column that identifies the rows."""


def _check_entry(entry: TomlTable, path: Path) -> None:
    if not isinstance(entry.get("name"), str):
        raise ColumnError(f"{path.name}: a [[column]] table has no name")
    where = f"{path.name}, column {entry['name']!r}: "
    _check_known(entry, _COLUMN_KEYS, where.removesuffix(": "))
    if "do" not in entry:
        raise ColumnError(f"{where}do must be {_BY_COLUMN_KEY['do'].kind.allowed}")
    for key, choice in _BY_COLUMN_KEY.items():
        if key in entry:
            choice.check(entry[key], where, key)
    if "as" in entry and "*" in entry["name"]:
        raise ColumnError(f"{where}one name cannot be given to several columns")
    for key, instead in _INSTEAD.items():
        if entry.get(key) and entry["do"] not in (DOES[KEY], DOES[UNIT]):
            raise ColumnError(f"{where}{key} is for a key or unit; {instead}")
