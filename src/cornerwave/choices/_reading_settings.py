"""How the cells of a source are spelled: what the owner stated, or what was detected.

    [reading]
    delimiter = ";"
    encoding = "cp1252"
    decimal = ","
    thousands = "."
    date_format = ["%d.%m.%Y"]
    missing = ["?", "NA", "-9"]
    sheet = "2020"
    table = "public.people"      # or query = "SELECT ..."
    order_by = ["id"]

None means: detect it. What was detected is frozen with a dataset, so that a later release reads the
table in the same way; the identity of a dataset does not depend on it, as values are values.
Each setting is declared once, as the choices are.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypedDict, Unpack

from cornerwave.choices._declared import Choice, declared
from cornerwave.errors import ColumnError, SourceError, nearest
from cornerwave.kinds import JsonObject, Kind, Text

COMMAS, POINT, UTF_8 = ",", ".", "utf-8"
SPACES = "\u0020\u00a0\u202f"
"""A space, and those that do not break a line; as a thousands separator they are one."""
THOUSANDS = ("", ".", ",", " ", "'", "’", "_")

_DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
_DIRECTIVES = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "(?:0?[1-9]|1[0-2])",
    "d": "(?P<day>0?[1-9]|[12][0-9]|3[01])",
    "H": "(?:[01]?[0-9]|2[0-3])",
    "I": "(?:0?[1-9]|1[0-2])",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9]",
    "p": "[AaPp][Mm]",
    "b": "[A-Za-z]{3}",
    "B": "[A-Za-z]{3,9}",
}
_ONE_DIGIT = {"m": "(?:0[1-9]|1[0-2])", "d": "(?P<day>0[1-9]|[12][0-9]|3[01])"}
"""Without a separator a day and a month have two digits."""


class Texts(Kind):
    """One text, or several."""

    allowed = "text in quotes, or a list of it"

    def accepts(self, value: Any) -> bool:
        """Whether it is text, or a list of it."""
        return isinstance(value, str) or (
            isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
        )

    def parsed(self, value: Any) -> Any:
        """Return all of them."""
        return (value,) if isinstance(value, str) else tuple(value)


_TEXT, TEXTS = Text("text in quotes", printable=False), Texts()


def _setting(help: str, metavar: str = "NAME", kind: Kind = _TEXT, **about: Any) -> Any:
    """Declare a setting as a field of `ReadingSettings`."""
    return declared(help, kind=kind, default=None, metavar=metavar, **about)


class ReadingArguments(TypedDict, total=False):
    """The settings as `Vault.register` takes them: a key that is absent, or None, is not stated."""

    delimiter: str | None
    encoding: str | None
    decimal: str | None
    thousands: str | None
    date_format: str | Iterable[str] | None
    missing: str | Iterable[str] | None
    sheet: str | None
    table: str | None
    query: str | None
    order_by: str | Iterable[str] | None
    column_missing: Mapping[str, str | Iterable[str]] | None


@dataclass(frozen=True)
class ReadingSettings:
    """How cells are spelled; None where that is to be found.

    `column_missing` are columns, or wildcards, with what means a missing value there instead
    of `missing`; with None, `missing` does. A schema file states it with the columns.
    """

    delimiter: str | None = _setting("Character between fields: , ; | tab space", "C")
    encoding: str | None = _setting("Encoding, such as cp1252")
    decimal: str | None = _setting("Decimal point of numbers, . or , as in 1,5", "C")
    thousands: str | None = _setting("Separator of thousands in numbers, such as . or a space", "C")
    date_format: tuple[str, ...] | None = _setting("Format of dates: %d.%m.%Y", "FORMAT", TEXTS)
    missing: tuple[str, ...] | None = _setting(
        "Cells that mean a missing value, such as ? or NA, and sentinel codes such as -9",
        "A,B,...",
        TEXTS,
    )
    sheet: str | None = _setting("Sheet of a workbook")
    table: str | None = _setting("Table of a database")
    query: str | None = _setting("Query that returns the rows of a database", "SQL")
    order_by: tuple[str, ...] | None = _setting("Order of rows in a database", "COLUMN", TEXTS)
    column_missing: tuple[tuple[str, tuple[str, ...] | None], ...] | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and not re.match(r"[^\w\s\"'.+-]$|[\t ]$", self.delimiter):
            raise SourceError(
                "the delimiter must be one character, such as ',', ';', '|', a tab or a space"
            )
        if self.decimal not in (None, POINT, ","):
            raise SourceError("decimal must be '.' or ','")
        if self.thousands not in (None, *THOUSANDS):
            raise SourceError("thousands must be one of . , ' _ or a space, or empty for none")
        if self.thousands and self.thousands == (self.decimal or POINT):
            raise SourceError("decimal and thousands must be different characters")
        check_date_formats(self.date_format or ())

    @classmethod
    def of(cls, **given: Unpack[ReadingArguments]) -> "ReadingSettings":
        """Return what an owner stated; None is not stated. Raises SourceError for what cannot be.

        >>> ReadingSettings.of(delimiter="tab", encoding="Latin-1").encoding
        'iso8859-1'
        """
        return cls._of(given)

    @classmethod
    def _of(cls, given: Mapping[str, object]) -> "ReadingSettings":
        stated: Any = {name: value for name, value in given.items() if value is not None}
        for name, value in stated.items():
            if name in SETTINGS:
                stated[name] = SETTINGS[name].kind.parsed(value)
        if "delimiter" in stated:
            stated["delimiter"] = _DELIMITERS.get(stated["delimiter"], stated["delimiter"])
        if "encoding" in stated:
            stated["encoding"] = _codec(stated["encoding"])
        if "column_missing" in stated:
            marks = stated["column_missing"].items()
            stated["column_missing"] = tuple((name, TEXTS.parsed(each)) for name, each in marks)
        return cls(**stated)

    @classmethod
    def from_table(cls, given: Mapping[str, object], where: str) -> "ReadingSettings":
        """Return the settings of a schema file. Raises SourceError."""
        if unknown := sorted(set(given) - set(SETTINGS)):
            raise SourceError(f"{where}: unknown setting {unknown[0]!r}; use {', '.join(SETTINGS)}")
        for name, value in given.items():
            if not SETTINGS[name].kind.accepts(value):
                raise SourceError(f"{where}: {name} must be {SETTINGS[name].kind.allowed}")
        try:
            return cls._of(given)
        except SourceError as error:
            raise SourceError(f"{where}: {error}") from None

    @property
    def spells_numbers(self) -> bool:
        """Whether numbers are spelled otherwise than by 1234.5."""
        return bool(self.thousands) or self.decimal == ","

    @property
    def stated(self) -> list[str]:
        """The settings that have a value."""
        return [name for name, value in asdict(self).items() if value is not None]

    def only(self, names: Iterable[str]) -> "ReadingSettings":
        """Return some of the settings."""
        return ReadingSettings(**{name: getattr(self, name) for name in names})

    def for_columns(self, names: Sequence[str]) -> "ReadingSettings":
        """Return the settings for a table of these columns, without wildcards.

        A column's own name counts first, then the first wildcard that fits. Raises ColumnError.
        """
        stated = dict(self.column_missing or ())
        wild = [name for name in stated if is_wildcard(name, names)]
        if unknown := [name for name in stated if name not in names and name not in wild]:
            close = nearest(unknown[0], names)
            raise ColumnError(f"the table has no column {unknown[0]!r}{close}")
        entry = {n: n if n in stated else next((w for w in wild if fits(n, w)), "") for n in names}
        marks = {name: stated[by] for name, by in entry.items() if stated.get(by) is not None}
        return replace(self, column_missing=tuple(marks.items()) or None)

    def of_column(self, name: str) -> "ReadingSettings":
        """Return how the cells of one column are spelled."""
        if self.column_missing is None:
            return self
        missing = dict(self.column_missing).get(name, self.missing)
        return replace(self, missing=missing, column_missing=None)

    def to_json(self) -> JsonObject:
        """Return the settings as they are kept."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "ReadingSettings":
        """Return what `to_json` gave."""
        names = [name for name, each in SETTINGS.items() if each.kind is TEXTS]
        lists = {name: None if kept[name] is None else tuple(kept[name]) for name in names}
        by_column = kept["column_missing"]
        columns = by_column and tuple((name, tuple(marks)) for name, marks in by_column)
        return cls(**{**kept, **lists, "column_missing": columns})

    def lines(self) -> Iterator[str]:
        """Yield the settings as lines of a schema file; those of single columns are with them."""
        for name, value in asdict(self).items():
            if value is not None and name != "column_missing":
                yield f"{name} = {toml_text(value)}"


SETTINGS: dict[str, Choice] = {
    each.name: replace(each.metadata["choice"], name=each.name, key=each.name)
    for each in fields(ReadingSettings)
    if each.metadata
}
"""Every setting that an owner can state for the whole table, by its name."""


def check_date_formats(formats: Iterable[str]) -> None:
    """Raise SourceError for a format that is not valid, or two that read one cell in two ways."""
    shapes: dict[str, str] = {}
    for each in formats:
        if not all(re.search(part, each) for part in ("%d", "%[mbB]", "%[yY]")):
            raise SourceError(
                f"the date format {each!r} needs a day, a month and a year, as in '%d.%m.%Y'"
            )
        date_pattern(each)  # refuses what is not known
        # day and month look alike, and so do short and long names of months: of each shape one
        shape = re.sub("%[dm]", "%d", re.sub("%[bB]", "%b", each))
        if shape in shapes:
            raise SourceError(
                f"the date formats {shapes[shape]!r} and {each!r} read the same cell in two ways; "
                "give one of them"
            )
        shapes[shape] = each


@cache
def date_pattern(format_: str) -> str:
    """Return a pattern of the cells that have a format. Raises SourceError.

    >>> bool(re.match(date_pattern("%d.%m.%Y"), "31.12.2020"))
    True
    """
    parts = re.findall("%(.)|([^%]+|%$)", format_)
    pattern = []
    for at, (directive, literal) in enumerate(parts):
        if not directive:
            pattern.append(re.escape(literal))
        elif directive not in _DIRECTIVES:
            raise SourceError(
                f"the date format {format_!r} has %{directive}; it can have "
                f"{' '.join('%' + each for each in _DIRECTIVES)}"
            )
        else:
            # without a separator, 1112020 could be 1 November or 11 January: two digits are needed
            beside = any(
                0 <= near < len(parts) and parts[near][0] and parts[near][0] not in "bBp"
                for near in (at - 1, at + 1)
            )
            pattern.append((_ONE_DIGIT if beside else {}).get(directive, _DIRECTIVES[directive]))
    return f"^{''.join(pattern)}$"


def _codec(name: str) -> str:
    """Return Python's name of an encoding. Raises SourceError."""
    try:
        codec = codecs.lookup(name)
        text = "a,1\n".encode(codec.name).decode(codec.name)
    except Exception:  # bytes to bytes, not meant for text, no such name, a NUL in it
        text = ""
    if text != "a,1\n":
        raise SourceError(
            f"the encoding {name!r} is not known; common ones are utf-8, cp1252, latin-1, utf-16"
        )
    return codec.name


# --------------------------------------------------------------------------------------------------
# Schema files: names that match several columns, and values as TOML writes them.


def is_wildcard(name: str, columns: Collection[str]) -> bool:
    """Whether a name has a * in it to match others, and is not the name of a column."""
    return "*" in name and name not in columns


def fits(column: str, wildcard: str) -> bool:
    """Whether a wildcard matches a column; nothing but * is special.

    >>> fits("item_1", "item_*"), fits("item_1", "item_?")
    (True, False)
    """
    # in brackets [ and ? stand for themselves
    return fnmatchcase(column, wildcard.replace("[", "[[]").replace("?", "[?]"))


def toml_text(value: Any) -> str:
    """Return a value as a TOML file has it.

    >>> print(toml_text(["it is so", True, 2.5]))
    ["it is so", true, 2.5]
    """
    if isinstance(value, str):
        # TOML's strings are JSON's, but for DEL, which must be spelled out
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_text, value))}]"
    return str(value)


def toml_comment(text: str) -> str:
    """Return text that cannot end a comment's line."""
    return toml_text(text)[1:-1].replace('\\"', '"')
