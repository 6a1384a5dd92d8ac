"""Cells that are spelled as the reading settings state, as text that Arrow takes, and as values.

    numbers   1.234,5  ->  1234.5         only if all cells are numbers: 1.5 is not one where a
                                          comma is the decimal point
    dates     31.12.2020  ->  2020-12-31  cell by cell
    missing   ?  ->  null                 with or without spaces around it

Everything else is left as it is.
"""

import re
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from cornerwave.choices import POINT, SPACES, ReadingSettings, date_pattern
from cornerwave.columns import is_text
from cornerwave.errors import SourceError

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
