"""Cells of text: as Arrow takes them, as values, and which types fit all of them.

Cells are spelled as the reading settings state:

    numbers   1.234,5  ->  1234.5         only if all cells are numbers: 1.5 is not one where a
                                          comma is the decimal point
    dates     31.12.2020  ->  2020-12-31  cell by cell
    missing   ?  ->  null                 with or without spaces around it

Everything else is left as it is.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from cornerwave import _core
from cornerwave.choices import POINT, SPACES, ReadingSettings, date_pattern
from cornerwave.columns import is_text
from cornerwave.errors import SourceError

ISO_DAY, ISO_TIME = "%Y-%m-%d", "%Y-%m-%d %H:%M:%S"

MARKERS = (
    *("?", "??", "-", "--", "---", ".", "..", "*", "n/a", "na", "n.a.", "#n/a", "#na", "nan"),
    *("null", "none", "nil", "missing", "unknown", "not available", "not applicable"),
    *("unbekannt", "keine angabe", "k.a.", "k. a.", "inconnu", "desconocido", "sconosciuto"),
)
"""What often marks a missing value, in small letters."""
LEVELS = frozenset(["none", "nil", "not applicable"])
"""Those that are as often a value: no garage, no side effect."""


@cache
def null_spellings() -> pa.Array:
    """Return what is missing in a column that is not text."""
    # not made on import: an array imports pandas where it is installed
    return pa.array(pacsv.ConvertOptions().null_values)


def unmarked(text: pa.Array, reading: ReadingSettings) -> pa.Array:
    """Return cells of text without those that mark a missing value."""
    if not reading.missing:
        return text
    marks = pa.array(sorted({mark.strip() for mark in reading.missing}), pa.string())
    return pc.if_else(pc.is_in(pc.utf8_trim_whitespace(text), value_set=marks), None, text)


def present(text: pa.Array, reading: ReadingSettings) -> pa.Array:
    """Return the cells that are not missing, were the column not one of text."""
    values = unmarked(text, reading).drop_null()
    return pc.filter(values, pc.invert(pc.is_in(values, value_set=null_spellings())))


def markers_in(text: pa.Array) -> dict[str, int]:
    """Return what often marks a missing value, as it is spelled, and how often it is there."""
    short = pc.filter(text, pc.less_equal(pc.binary_length(text), 20)).drop_null()
    trimmed = pc.utf8_trim_whitespace(short)
    marks = pa.array(MARKERS)
    marked = pc.filter(trimmed, pc.is_in(pc.utf8_lower(trimmed), value_set=marks))
    counts = marked.value_counts()
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
    """Return numbers with a point and no thousands separator; None if one is not a number."""
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
    moments = None
    for format_ in reading.date_format or ():
        parsed = dates_in(values, format_)
        moments = parsed if moments is None else pc.coalesce(moments, parsed)
        if moments.null_count == values.null_count:
            return moments
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
    """Return cells of text as values. Raises ArrowInvalid or SourceError if one is not valid."""
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


# --------------------------------------------------------------------------------------------------
# Whether all cells of a column are plain numbers, in one look at their bytes.
#
#     whole      -?(0|[1-9][0-9]*)        of at most 18 digits
#     decimal    whole(.[0-9]+)?([eE][+-]?[0-9]+)?
#
# Most columns of most tables are; all others take the slower tests, type by type.


OTHER, DECIMAL, WHOLE = 0, 1, 2


def plain_numbers(cells: pa.Array) -> tuple[int, int]:
    """Return what all cells of text are at least, and how many there are; none is WHOLE.

    A cell without text is missing.
    """
    _, offsets, data = cells.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[cells.offset : cells.offset + len(cells) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return _core.kind_of_cells(bounds, content)


# --------------------------------------------------------------------------------------------------
# The types of columns, from all of their rows.
#
# Guessing from the first rows fails where row 100,000 has the first decimal point. So
# every batch of text is tested for the types that fit it, and a column has the narrowest
# type that fits all of its batches; if none does it is text. A type fits if Arrow's CSV
# reader accepts it, and numbers, dates and times have one spelling only, unless a reading
# states another:
#
#     numbers     7, -7, 1.5, 1e3; not 007, which is a code
#     dates       2024-02-29, 2024-02-29 12:30:00, 2024-02-29T12:30:00+02:00
#     times       12:30, 12:30:00, 12:30:00.5
#     booleans    true, True, TRUE, false, False, FALSE; not 0 and 1, which are numbers


NULL, TEXT = pa.null(), pa.string()
INTEGER, LONG, FLOAT, BOOLEAN = pa.int64(), pa.decimal128(38, 0), pa.float64(), pa.bool_()
TIME, FINE_TIME = pa.time32("s"), pa.time64("us")

NUMBERS = (INTEGER, LONG, FLOAT)
_MOMENTS = (
    pa.date32(),
    *(pa.timestamp(unit, tz=zone) for unit in ("us", "ns") for zone in (None, "UTC")),
    TIME,
    FINE_TIME,
)
_DATES = (pa.date32(), pa.timestamp("us"), pa.timestamp("ns"))
_NARROWEST_FIRST = (*NUMBERS, BOOLEAN, *_MOMENTS)
_IMPLIED = {INTEGER: NUMBERS, LONG: (LONG, FLOAT)}
"""What also fits a batch that one of these fits, without testing it."""

_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_LONG = r"^[+-]?(0|[1-9][0-9]{0,37})$"
_NO_FLOAT = r"^[+-]?(0[0-9]+|[0-9]{39,})$"
"""Codes such as 007, and whole numbers too long to be anything but identifiers."""
_CODE = r"^[+-]?0[0-9]+$"
_BOOLEANS = r"^(true|True|TRUE|false|False|FALSE)$"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]"

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}.*)?$"

FEW_TO_TRY = 16
MARKED_CELLS = 1 << 16
"""Cells of a text column among which marks for missing values are looked for."""
MOSTLY = 0.9
"""A text column of which this share are numbers or dates probably has stray cells."""


class TypeGuess:
    """What a column can be, given the cells seen so far."""

    def __init__(self, reading: ReadingSettings | None = None) -> None:
        self._reading = reading or ReadingSettings()
        self._number = number_pattern(self._reading) if self._reading.spells_numbers else NUMBER
        # 20201231 is a number unless the owner states that it is a date
        formats = [each.replace("%", "") for each in self._reading.date_format or ()]
        self._tries_dates_first = any(each.isalnum() for each in formats)
        self._fitting: tuple[pa.DataType, ...] = _NARROWEST_FIRST
        self._cells = 0
        self._seen = 0
        self._numbers = 0
        self._moments = 0
        self._is_text = False
        self._markers: Counter[str] = Counter()

    @property
    def type(self) -> pa.DataType:
        """The narrowest type that fits all cells."""
        if not self._fitting:
            return TEXT
        return self._fitting[0] if self._cells else NULL

    @property
    def markers(self) -> Counter[str]:
        """What may mark a missing value in a column of text, and how often it does."""
        return self._markers if self.type == TEXT else Counter()

    @property
    def note(self) -> str | None:
        """A note on a column that is text because of a few cells, or has odd ones."""
        marks = ", ".join(map(repr, sorted(self.markers)))
        for count, what in ((self._numbers, "numbers"), (self._moments, "dates")):
            stray = self._cells - count
            if self.type == TEXT and not self._is_text and 0 < stray <= (1 - MOSTLY) * self._cells:
                return (
                    f"all but {stray:,} of {self._cells:,} cells are {what}: "
                    "correct or blank the others, "
                    + (f"declare {marks} as missing, " if marks else "")
                    + "or the column is treated as a category"
                )
        if marks:
            return f"{marks} may be codes of missing values: declare those that are as missing"
        return None

    def take(self, text: pa.Array) -> bool:
        """Look at some more cells; return whether all are numbers, spelled plainly."""
        self._seen += len(text)
        if self._is_text:
            self._mark(text)
            return False
        kind, count = plain_numbers(text)
        if self._tries_dates_first or (kind == DECIMAL and self._reading.spells_numbers):
            kind = OTHER
        if kind == OTHER:
            self._take_any(text)
        elif count:
            self._fit([FLOAT] if kind == DECIMAL else list(NUMBERS))
            self._cells += count
            self._numbers += count
        return kind != OTHER

    def _mark(self, text: pa.Array) -> None:
        if not self._is_text or self._seen <= MARKED_CELLS:
            self._markers.update(markers_in(unmarked(text, self._reading)))

    def _take_any(self, text: pa.Array) -> None:
        values = present(text, self._reading)
        if len(values) == 0:
            return
        fitting = self._types_of(values)
        if not fitting:
            self._mark(text)
        self._fit(fitting)
        self._count(values, fitting)

    def _types_of(self, values: pa.Array) -> list[pa.DataType]:
        """Return the types that fit all of the values, the narrowest first."""
        if (parsed := parsed_dates(values, self._reading)) is not None:
            fitting = [t for t in _DATES if t != pa.date32() or is_days(parsed)]
            return fitting if self._tries_dates_first else fitting + self._numbers_in(values)
        dates = as_dates(values, self._reading)
        return self._numbers_in(values) + _fitting(values, (BOOLEAN,)) + _fitting(dates, _MOMENTS)

    def _numbers_in(self, values: pa.Array) -> list[pa.DataType]:
        numbers = as_numbers(values, self._reading)
        return [] if numbers is None else _fitting(numbers, NUMBERS)

    def _fit(self, fitting: Sequence[pa.DataType]) -> None:
        self._fitting = tuple(type_ for type_ in self._fitting if type_ in fitting)

    def _count(self, values: pa.Array, fitting: list[pa.DataType]) -> None:
        self._cells += len(values)
        if fitting:
            self._numbers += len(values) if fitting[0] in NUMBERS else 0
            self._moments += len(values) if fitting[0] in _MOMENTS else 0
            return
        trimmed = trim(values)
        self._numbers += count_matching(trimmed, self._number)
        self._moments += count_matching(as_dates(trimmed, self._reading), MOMENT)
        # A column of words, or one with a code in it, is text; no further cell changes that.
        few = max(self._numbers, self._moments) < self._cells / 2
        self._is_text = few or count_matching(trimmed, _CODE) > 0


def _fitting(values: pa.Array, types: Sequence[pa.DataType]) -> list[pa.DataType]:
    """Return those of some types that fit all of the values, the narrowest first."""
    few: pa.Array = values.slice(0, FEW_TO_TRY)
    fitting: list[pa.DataType] = []
    for type_ in types:
        if type_ in fitting or (_fits(few, type_) and _fits(values, type_)):
            fitting += [t for t in _IMPLIED.get(type_, (type_,)) if t not in fitting]
    return fitting


def _fits(values: pa.Array, type_: pa.DataType) -> bool:
    return _TESTS[type_](values) if type_ in _TESTS else _casts(values, type_)


def _casts(values: pa.Array, type_: pa.DataType) -> bool:
    try:
        pc.cast(values, type_)
    except pa.ArrowInvalid:
        return False
    return True


def _is_whole(values: pa.Array) -> bool:
    trimmed = trim(values)
    return _all_match(trimmed, _WHOLE) and _casts(trimmed, INTEGER)


def _is_float(values: pa.Array) -> bool:
    trimmed = trim(values)
    return _casts(trimmed, FLOAT) and not count_matching(trimmed, _NO_FLOAT)


_TESTS: dict[pa.DataType, Callable[[pa.Array], bool]] = {
    INTEGER: _is_whole,
    LONG: lambda values: _all_match(trim(values), _LONG),
    FLOAT: _is_float,
    BOOLEAN: lambda values: bool(pc.all(pc.match_substring_regex(values, _BOOLEANS)).as_py()),
    TIME: lambda values: _all_match(values, f"^{_CLOCK})?$"),
    FINE_TIME: lambda values: _all_match(values, f"^{_CLOCK}(\\.[0-9]{{1,6}})?)?$"),
}


def _all_match(values: pa.Array, pattern: str) -> bool:
    return count_matching(values, pattern) == len(values)
