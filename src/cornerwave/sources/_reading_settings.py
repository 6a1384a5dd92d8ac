"""How the cells of a source are spelled: what the owner said, or what was found.

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

None means: find it. What was found is frozen with a dataset, so that a later release reads the
table in the same way; the identity of a dataset does not depend on it, as values are values.
"""

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from cornerwave.columns import fits, is_text, is_wildcard, toml_text
from cornerwave.errors import ColumnError, SourceError, nearest

COMMAS, POINT, UTF_8 = ",", ".", "utf-8"
SPACES = "\u0020\u00a0\u202f"
"""A space, and those that do not break a line; as a thousands separator they are one."""
THOUSANDS = ("", ".", ",", " ", "'", "’", "_")

_LISTS = ("date_format", "missing", "order_by")
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


@dataclass(frozen=True)
class ReadingSettings:
    """How cells are spelled; None where that is to be found.

    `column_missing` are columns, or wildcards, with what stands for missing values there instead
    of `missing`; with None, `missing` does. In a schema file it is said with the columns.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: tuple[str, ...] | None = None
    missing: tuple[str, ...] | None = None
    sheet: str | None = None
    table: str | None = None
    query: str | None = None
    order_by: tuple[str, ...] | None = None
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
    def of(
        cls,
        *,
        delimiter: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        date_format: str | Iterable[str] | None = None,
        missing: str | Iterable[str] | None = None,
        sheet: str | None = None,
        table: str | None = None,
        query: str | None = None,
        order_by: str | Iterable[str] | None = None,
        column_missing: Mapping[str, str | Iterable[str]] | None = None,
    ) -> "ReadingSettings":
        """Return what an owner said. Raises SourceError for what cannot be.

        >>> ReadingSettings.of(delimiter="tab", encoding="Latin-1").encoding
        'iso8859-1'
        """
        return cls(
            delimiter=_DELIMITERS.get(delimiter or "", delimiter),
            encoding=None if encoding is None else _codec(encoding),
            decimal=decimal,
            thousands=thousands,
            date_format=_texts(date_format),
            missing=_texts(missing),
            sheet=sheet,
            table=table,
            query=query,
            order_by=_texts(order_by),
            column_missing=None
            if column_missing is None
            else tuple((name, _texts(marks)) for name, marks in column_missing.items()),
        )

    @classmethod
    def from_table(cls, given: Mapping[str, Any], where: str) -> "ReadingSettings":
        """Return the settings of a schema file. Raises SourceError."""
        known = [field.name for field in fields(cls) if field.name != "column_missing"]
        if unknown := sorted(set(given) - set(known)):
            raise SourceError(f"{where}: unknown setting {unknown[0]!r}; use {', '.join(known)}")
        for name, value in given.items():
            lists = name in _LISTS and isinstance(value, list)
            if not all(isinstance(each, str) for each in (value if lists else [value])):
                raise SourceError(f"{where}: {name} must be text in quotes")
        try:
            return cls.of(**given)
        except SourceError as error:
            raise SourceError(f"{where}: {error}") from None

    @property
    def spells_numbers(self) -> bool:
        """Whether numbers are spelled otherwise than by 1234.5."""
        return bool(self.thousands) or self.decimal == ","

    @property
    def said(self) -> list[str]:
        """The settings that have a value."""
        return [name for name, value in asdict(self).items() if value is not None]

    def only(self, names: Iterable[str]) -> "ReadingSettings":
        """Return some of the settings."""
        return ReadingSettings(**{name: getattr(self, name) for name in names})

    def for_columns(self, names: Sequence[str]) -> "ReadingSettings":
        """Return the settings for a table of these columns, without wildcards.

        A column's own name counts first, then the first wildcard that fits. Raises ColumnError.
        """
        said = dict(self.column_missing or ())
        wild = [name for name in said if is_wildcard(name, names)]
        if unknown := [name for name in said if name not in names and name not in wild]:
            close = nearest(unknown[0], names)
            raise ColumnError(f"the table has no column {unknown[0]!r}{close}")
        entry = {n: n if n in said else next((w for w in wild if fits(n, w)), "") for n in names}
        own = {name: said[by] for name, by in entry.items() if said.get(by) is not None}
        return replace(self, column_missing=tuple(own.items()) or None)

    def of_column(self, name: str) -> "ReadingSettings":
        """Return how the cells of one column are spelled."""
        if self.column_missing is None:
            return self
        missing = dict(self.column_missing).get(name, self.missing)
        return replace(self, missing=missing, column_missing=None)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as they are kept."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "ReadingSettings":
        """Return what `to_json` gave."""
        lists = {name: None if kept[name] is None else tuple(kept[name]) for name in _LISTS}
        own = kept["column_missing"]
        columns = own and tuple((name, tuple(marks)) for name, marks in own)
        return cls(**{**kept, **lists, "column_missing": columns})

    def lines(self) -> Iterator[str]:
        """Yield the settings as lines of a schema file; those of single columns stand with them."""
        for name, value in asdict(self).items():
            if value is not None and name != "column_missing":
                yield f"{name} = {toml_text(value)}"


def check_date_formats(formats: Iterable[str]) -> None:
    """Raise SourceError for a format that is none, or two that read one cell in two ways."""
    shapes: dict[str, str] = {}
    for each in formats:
        if not all(re.search(part, each) for part in ("%d", "%[mbB]", "%[yY]")):
            raise SourceError(
                f"the date format {each!r} needs a day, a month and a year, as in '%d.%m.%Y'"
            )
        date_pattern(each)
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
            beside = any(
                0 <= near < len(parts) and parts[near][0] and parts[near][0] not in "bBp"
                for near in (at - 1, at + 1)
            )
            pattern.append((_ONE_DIGIT if beside else {}).get(directive, _DIRECTIVES[directive]))
    return f"^{''.join(pattern)}$"


def _texts(given: str | Iterable[str] | None) -> tuple[str, ...] | None:
    return given if given is None else (given,) if isinstance(given, str) else tuple(given)


def _codec(name: str) -> str:
    """Return Python's name of an encoding. Raises SourceError."""
    try:
        found = codecs.lookup(name)
        text = "a,1\n".encode(found.name).decode(found.name)
    except Exception:  # bytes to bytes, not meant for text, no such name, a NUL in it
        text = ""
    if text != "a,1\n":
        raise SourceError(
            f"the encoding {name!r} is not known; common ones are utf-8, cp1252, latin-1, utf-16"
        )
    return found.name


# --------------------------------------------------------------------------------------------------
# Cells that are spelled as a reading says, as text that Arrow takes, and as values.
#
#     numbers   1.234,5  ->  1234.5         only if all cells are numbers: 1.5 is none where a
#                                           comma is the decimal point
#     dates     31.12.2020  ->  2020-12-31  cell by cell
#     missing   ?  ->  null                 with or without spaces around it
#
# Everything else is left as it is.


ISO_DAY, ISO_TIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"

MARKERS = (
    *("?", "??", "-", "--", "---", ".", "..", "*", "n/a", "na", "n.a.", "#n/a", "#na", "nan"),
    *("null", "none", "nil", "missing", "unknown", "not available", "not applicable"),
    *("unbekannt", "keine angabe", "k.a.", "k. a.", "inconnu", "desconocido", "sconosciuto"),
)
"""What often stands for a missing value, in small letters."""
LEVELS = frozenset(["none", "nil", "not applicable"])
"""Those that are as often a value: no garage, no side effect."""


@cache
def null_spellings() -> pa.Array:
    """Return what is missing in a column that is not text."""
    # not made on import: an array imports pandas where it is installed
    return pa.array(pacsv.ConvertOptions().null_values)


def unmarked(text: pa.Array, reading: ReadingSettings) -> pa.Array:
    """Return cells of text without those that stand for a missing value."""
    if not reading.missing:
        return text
    marks = pa.array(sorted({mark.strip() for mark in reading.missing}), pa.string())
    return pc.if_else(pc.is_in(pc.utf8_trim_whitespace(text), value_set=marks), None, text)


def present(text: pa.Array, reading: ReadingSettings) -> pa.Array:
    """Return the cells that are not missing, were the column not one of text."""
    values = unmarked(text, reading).drop_null()
    return pc.filter(values, pc.invert(pc.is_in(values, value_set=null_spellings())))


def markers_in(text: pa.Array) -> dict[str, int]:
    """Return what often stands for a missing value, as it is spelled, and how often it is there."""
    short = pc.filter(text, pc.less_equal(pc.binary_length(text), 20)).drop_null()
    trimmed = pc.utf8_trim_whitespace(short)
    marks = pa.array(MARKERS)
    found = pc.filter(trimmed, pc.is_in(pc.utf8_lower(trimmed), value_set=marks))
    counts = found.value_counts()
    return {each["values"].as_py(): each["counts"].as_py() for each in counts}


def number_pattern(reading: ReadingSettings) -> str:
    """Return a pattern of the numbers of a reading."""
    whole = "[0-9]+"
    if reading.thousands:
        spaces = SPACES if reading.thousands == " " else re.escape(reading.thousands)
        whole = f"([0-9]+|[1-9][0-9]{{0,2}}([{spaces}][0-9]{{3}})+)"
    point = re.escape(reading.decimal or POINT)
    return rf"^[+-]?({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"


def as_numbers(values: pa.Array, reading: ReadingSettings) -> pa.Array | None:
    """Return numbers without a thousands separator and with a point; None if some are none."""
    trimmed = trim(values)
    if not reading.spells_numbers:
        return trimmed
    if count_matching(trimmed, number_pattern(reading)) < len(trimmed) - trimmed.null_count:
        return None
    if reading.thousands:
        spaces = SPACES if reading.thousands == " " else re.escape(reading.thousands)
        trimmed = pc.replace_substring_regex(trimmed, f"[{spaces}]", "")
    return pc.replace_substring(trimmed, reading.decimal or POINT, POINT)


def parsed_dates(values: pa.Array, reading: ReadingSettings) -> pa.Array | None:
    """Return cells as timestamps; None unless all of them have a date format."""
    found = None
    for format_ in reading.date_format or ():
        own = dates_in(values, format_)
        found = own if found is None else pc.coalesce(found, own)
        if found.null_count == values.null_count:
            return found
    return None


def is_days(moments: pa.Array) -> bool:
    """Return whether timestamps are days without a time of day."""
    seconds = pc.cast(moments, pa.int64())
    days = pc.multiply(pc.divide(seconds, 86_400), 86_400)
    return bool(pc.all(pc.equal(seconds, days)).as_py() in (True, None))


def as_dates(values: pa.Array, reading: ReadingSettings) -> pa.Array:
    """Return cells that have a date format as ISO dates, and the others as they are."""
    for format_ in reading.date_format or ():
        parsed = dates_in(values, format_)
        clock = re.search("%[HI]", format_)
        spelled = pc.strftime(parsed, format=ISO_TIME if clock else ISO_DAY)
        values = pc.coalesce(spelled, values)
    return values


def dates_in(values: pa.Array, format_: str) -> pa.Array:
    """Return cells as timestamps; null where they do not have a format, to the letter."""
    trimmed = trim(values)
    pattern = date_pattern(format_)
    fitting = pc.if_else(pc.match_substring_regex(trimmed, pattern), trimmed, None)
    parsed = pc.strptime(fitting, format=format_, unit="s", error_is_null=True)
    # strptime takes February 31 for a day of March
    day = pc.struct_field(pc.extract_regex(fitting, pattern), "day")
    return pc.if_else(pc.equal(pc.day(parsed), pc.cast(day, pa.int64())), parsed, None)


def typed(text: pa.Array, type_: pa.DataType, reading: ReadingSettings) -> pa.Array:
    """Return cells of text as values. Raises ArrowInvalid or SourceError if one is none."""
    text = unmarked(text, reading)
    if is_text(type_):
        return text
    text = pc.if_else(pc.is_in(text, value_set=null_spellings()), None, text)
    if pa.types.is_null(type_):
        return pc.cast(pa.nulls(len(text)) if text.null_count == len(text) else text, type_)
    if pa.types.is_boolean(type_):
        return pc.cast(text, type_)
    if pa.types.is_temporal(type_):
        parsed = None if pa.types.is_time(type_) else parsed_dates(text, reading)
        if parsed is not None:
            return pc.cast(parsed, type_)
        return _moments(as_dates(text, reading), type_)
    numbers = as_numbers(text, reading)
    if numbers is None:
        raise SourceError("a cell is not spelled as a number")
    return pc.cast(numbers, type_)


def _moments(text: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_time(type_):
        return pc.cast(text, type_)
    moments = pc.binary_join_element_wise("1970-01-01", text, " ")  # Arrow casts no time of day
    return pc.cast(pc.cast(moments, pa.timestamp("us")), type_)


def trim(values: pa.Array) -> pa.Array:
    """Return numbers without the spaces around them, which the reader accepts: `39, 40`."""
    return pc.ascii_trim(values, " \t")


def count_matching(values: pa.Array, pattern: str) -> int:
    """Return how many cells match."""
    return int(pc.sum(pc.match_substring_regex(values, pattern)).as_py() or 0)
