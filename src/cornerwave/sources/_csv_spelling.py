"""How a CSV file is spelled, found in its first records.

    encoding    a byte order mark; else UTF-8; else what chardet makes of the lines that are not
    delimiter   the one that cuts every record into as many fields as the header, and most of them
    numbers     the decimal point and thousands separator that make most columns numbers
    dates       formats that fit all cells of a column, if no other reading of them fits too

What fits in two ways is not guessed: the columns stay text, with a note.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from cornerwave.choices import COMMAS, POINT, UTF_8, ReadingSettings, date_pattern
from cornerwave.errors import SourceError
from cornerwave.sources._text_cells import (
    WHOLE,
    as_numbers,
    count_matching,
    dates_in,
    number_pattern,
    plain_numbers,
    present,
    trim,
)

SAMPLE_BYTES, SAMPLE_ROWS = 1 << 16, 2_000
DELIMITERS = (COMMAS, ";", "\t", "|")
MOSTLY = 0.5
"""Records of a damaged file that must have as many fields as the header."""

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_USUAL = "windows-1252"
_SURER, _SURE = 1.5, 0.01
"""Another encoding must be this much more likely than the usual one, and this likely.

Chosen by hand on 27 texts of three or four lines, of which 22 come out right with them; so what
was guessed is always reported.
"""

_NUMBERS = tuple(
    ReadingSettings(decimal=decimal, thousands=thousands)
    for decimal, thousands in (
        (POINT, ""),
        (",", ""),
        (POINT, ","),
        (",", "."),
        (POINT, " "),
        (",", " "),
        (POINT, "'"),
        (",", "'"),
    )
)
_DATES = tuple(
    day.replace("-", separator)
    for day, separators in (
        ("%d-%m-%Y", ".-/"),
        ("%m-%d-%Y", "-/"),
        ("%Y-%m-%d", "./"),
        ("%d-%b-%Y", "- "),
        ("%d-%B-%Y", " "),
        ("%d%b%Y", "-"),
        ("%b %d, %Y", "-"),
        ("%d-%m-%y", "."),
    )
    for separator in separators
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATE_FORMATS = tuple(day + clock for clock in _CLOCKS for day in _DATES)


# --- encoding and delimiter ---------------------------------------------------------------


def encoding_at_start(sample: bytes) -> str:
    """Return the encoding that the first bytes of a file show; UTF-8 if they show none."""
    for mark, name in _MARKS.items():
        if sample.startswith(mark):
            return name
    if b"\0" not in sample[:1000]:
        return UTF_8
    encoding = _likely(sample[: len(sample) // 4 * 4])
    return encoding if encoding and encoding.startswith(("utf-16", "utf-32")) else UTF_8


def encoding_of_lines(lines: Iterable[bytes], name: str) -> str:
    """Return the encoding of a file that is not UTF-8, from the lines that are not ASCII."""
    kept, size, is_utf_8, is_not = [], 0, False, False
    for line in lines:
        if not line.isascii():
            fits = _decodes(line, UTF_8)
            is_utf_8, is_not = is_utf_8 or fits, is_not or not fits
            kept.append(line)
            size += len(line)
            if size > SAMPLE_BYTES:
                break
    if is_utf_8 and is_not:
        raise SourceError(
            f"{name} is not text of one encoding: some lines are UTF-8 and others are not; "
            "convert it, or name the encoding",
            use=("encoding",),
        )
    encoding = _likely(b"".join(kept))
    if encoding is None:
        raise SourceError(
            f"{name} is not text of an encoding that could be detected; name it", use=("encoding",)
        )
    return encoding


def _decodes(text: bytes, encoding: str) -> bool:
    try:
        text.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return False
    return True


def _likely(text: bytes) -> str | None:
    """Return the likely encoding of bytes: Windows-1252 unless another is clearly more so.

    None for what is not text.
    """
    import chardet  # takes a while to import, and is seldom needed

    era = chardet.EncodingEra
    guesses = chardet.detect_all(text, ignore_threshold=True, encoding_era=era.MODERN_WEB)
    names = {str(each["encoding"]).lower(): each["confidence"] for each in guesses}
    chances = {name: chance for name, chance in names.items() if _decodes(text, name)}
    best = max(chances, key=lambda name: chances[name], default=None)
    if best is None:
        return None
    usual = chances.get(_USUAL, 0.0)
    unsure = chances[best] < _SURE or chances[best] < _SURER * usual
    return codecs.lookup(_USUAL if unsure and _decodes(text, _USUAL) else best).name


def delimiter_of(text: str, *, whole: bool, name: str) -> str:
    """Return what separates the fields of the first records. Raises SourceError if two fit.

    `text` ends within a record unless it is the `whole` file.
    """
    fitting: dict[str, int] = {}
    nearly: dict[str, float] = {}
    for delimiter in DELIMITERS:
        widths = [len(record) for record in _records(text, delimiter, whole=whole)]
        if widths and widths[0] > 1:
            share = sum(width == widths[0] for width in widths) / len(widths)
            nearly[delimiter] = share
            if share == 1:
                fitting[delimiter] = widths[0]
    if fitting:
        best = [each for each in fitting if fitting[each] == max(fitting.values())]
        if len(best) > 1:
            raise SourceError(
                f"{name}: the fields may be separated by {' or by '.join(map(repr, best))}; "
                "name the delimiter",
                use=("delimiter",),
            )
        return best[0]
    likely = max(nearly, key=lambda each: nearly[each], default=COMMAS)
    return likely if nearly.get(likely, 0.0) > MOSTLY else COMMAS


def _records(text: str, delimiter: str, *, whole: bool) -> list[list[str]]:
    """Return the fields of each record, without empty lines."""
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        records = [record for record in reader if record]
    except csv.Error:  # a field is too long, a NUL
        return []
    return records if whole or len(records) < 2 else records[:-1]


# --- numbers and dates ---------------------------------------------------------------------


def sample_of(text: str, *, delimiter: str, names: Sequence[str], whole: bool) -> pa.RecordBatch:
    """Return the cells of the first records, without the header and a record that is cut."""
    records = _records(text, delimiter, whole=whole)[1 : SAMPLE_ROWS + 1]
    fitting = [record for record in records if len(record) == len(names)]
    columns = zip(*fitting, strict=True) if fitting else [()] * len(names)
    cells = [pa.array([cell or None for cell in column], pa.string()) for column in columns]
    return pa.record_batch(cells, names=list(names))


def spelled(
    sample: pa.RecordBatch, given: ReadingSettings
) -> tuple[ReadingSettings, dict[str, str]]:
    """Return a reading with what the text of some records shows, and notes on columns."""
    first = sample.slice(0, SAMPLE_ROWS)  # a sheet gives more
    pairs = zip(first.schema.names, first.columns, strict=True)
    cells = {name: present(column, given.of_column(name)) for name, column in pairs}
    texts = {name: text for name, text in cells.items() if len(text)}
    notes = dict(_one_column(texts, given))
    if given.decimal is None or given.thousands is None:
        given = _with_numbers(texts, given, notes)
    if given.date_format is None:
        given = replace(given, date_format=tuple(_date_formats(texts, notes)))
    return given, notes


def _one_column(texts: Mapping[str, pa.Array], given: ReadingSettings) -> Iterator[tuple[str, str]]:
    """Yield a note on the only column of a file if spaces would cut it into several.

    They are not taken for a delimiter: first and last names would become two columns.
    """
    if len(texts) == 1 and given.delimiter is not None:
        for name, text in texts.items():
            widths = {len(cell.split(" ")) for cell in [name, *text.to_pylist()]}
            if len(widths) == 1 and min(widths) > 1:
                yield (
                    name,
                    f"each cell, and the name, has {min(widths)} parts: if spaces separate the "
                    "columns, state it (delimiter)",
                )


def _with_numbers(
    texts: Mapping[str, pa.Array], given: ReadingSettings, notes: dict[str, str]
) -> ReadingSettings:
    allowed = [
        replace(given, decimal=each.decimal, thousands=each.thousands)
        for each in _NUMBERS
        if given.decimal in (None, each.decimal) and given.thousands in (None, each.thousands)
    ] or [replace(given, decimal=given.decimal or POINT, thousands=given.thousands or "")]
    undecided = {name: text for name, text in texts.items() if plain_numbers(text)[0] != WHOLE}
    numeric = {each: _number_columns(undecided, each) for each in allowed}
    # a column that is a number anyway stays one
    able = [each for each in allowed if numeric[each] >= numeric[allowed[0]]]
    most = max(len(numeric[each]) for each in able)
    best = [each for each in able if len(numeric[each]) == most]
    if len({each.decimal for each in best}) == 1 or best[0] == allowed[0]:
        return best[0]
    for name in numeric[best[0]] - numeric[allowed[0]]:
        notes[name] = (
            "numbers whose comma may be a decimal point or a thousands separator: "
            "state which (decimal, thousands)"
        )
    return allowed[0]


def _number_columns(texts: Mapping[str, pa.Array], reading: ReadingSettings) -> set[str]:
    pattern = number_pattern(reading)
    return {
        name
        for name, text in texts.items()
        if count_matching(trim(text.slice(0, 20)), pattern) == len(text.slice(0, 20))
        and count_matching(trim(text), pattern) == len(text)
        and as_numbers(text, reading) is not None
    }


def _date_formats(texts: Mapping[str, pa.Array], notes: dict[str, str]) -> Iterator[str]:
    """Yield the formats that are the only ones to fit a column, once each."""
    sure: dict[str, None] = {}
    unsure: dict[str, list[str]] = {}
    for name, text in texts.items():
        fitting = _fitting(text)
        if len(fitting) == 1:
            sure[fitting[0]] = None
        elif fitting:
            unsure[name] = fitting
    clashing = {each for each in sure if any(_swapped(each) == other for other in sure)}
    for name, fitting in unsure.items():
        if sum(each in sure and each not in clashing for each in fitting) != 1:
            notes[name] = (
                "dates whose day and month cannot be distinguished: name their format "
                "(date_format), or they stay text"
            )
    yield from (each for each in sure if each not in clashing)


def _fitting(text: pa.Array) -> list[str]:
    """Return the formats that all cells have."""
    first, few = trim(text)[0].as_py(), text.slice(0, 20)
    fitting = [each for each in DATE_FORMATS if re.match(date_pattern(each), first)]
    fitting = [each for each in fitting if dates_in(few, each).null_count == 0]
    fitting = [each for each in fitting if dates_in(text, each).null_count == 0]
    # May is short and long
    return [each for each in fitting if "%B" not in each or each.replace("%B", "%b") not in fitting]


def _swapped(format_: str) -> str:
    """Return a format with day and month the other way round."""
    return re.sub("%[dm]", lambda match: "%m" if match[0] == "%d" else "%d", format_)
