"""A copy as an Excel workbook: one sheet, written some rows at a time.

    numbers         as they are; whole ones beyond 2^53, and infinite ones, are refused
    dates, times    days since 1899-12-30 with a format; those before 1 March 1900 as ISO text, for
                    Excel counts from there, and believes that 1900 was a leap year
    moments         of a zone in UTC, which a workbook does not name
    text            in its cell, never a formula, whatever it begins with; an empty one is missing
    durations       microseconds, as in CSV

The bytes depend on the rows alone: no time, no name of a program or a person. Cells without a
reference follow each other (ECMA-376, part 1, 18.3.1.4), so that any thread can write any rows.
"""

import io
import re
import zipfile
from functools import reduce
from typing import IO, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.columns import is_text, one_chunk, plain_type
from cornerwave.errors import OutputError
from cornerwave.outputs._formats import csv_text

MOST_ROWS, MOST_COLUMNS, LONGEST_TEXT = (1 << 20) - 1, 1 << 14, 32_767
"""What a sheet holds below its line of names, and a cell."""
MOST_BYTES = (1 << 31) - 1
"""Of a sheet before it is packed: more needs an extension that older programs do not read."""
EXACT = 1 << 53
"""Whole numbers up to this one are doubles, as all numbers of a workbook are."""

TEXT = pa.large_string()
_EPOCH, _FIRST, _END = 25_569.0, 61.0, 2_958_466.0
"""The days of Excel on which 1970 begins, March 1900, and the year 10000."""
_EMPTY = "<c/>"
_NOT_XML = r"[\x00-\x08\x0b-\x1f\x7f\x{fffe}\x{ffff}]"

_OTHER = "; write it as .parquet or .csv"
_AT = (1980, 1, 1, 0, 0, 0)
_SHEET = "xl/worksheets/sheet1.xml"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_DAY, _MOMENT, _TIME = 1, 2, 3
_FORMATS = {_DAY: "yyyy\\-mm\\-dd", _MOMENT: "yyyy\\-mm\\-dd\\ hh:mm:ss.000", _TIME: "hh:mm:ss.000"}
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships'
    '+xml"/><Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_KIND}.sheet.main+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_KIND}.styles+xml"/>'
    f'<Override PartName="/{_SHEET}" ContentType="{_KIND}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
    f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
    '<sheet name="copy" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_OFFICE}/styles" Target="styles.xml"/></Relationships>',
    "xl/styles.xml": f'<styleSheet xmlns="{_MAIN}"><numFmts count="{len(_FORMATS)}">'
    + "".join(f'<numFmt numFmtId="{163 + n}" formatCode="{f}"/>' for n, f in _FORMATS.items())
    + '</numFmts><fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    f'<cellXfs count="{1 + len(_FORMATS)}"><xf xfId="0"/>'
    + "".join(f'<xf xfId="0" numFmtId="{163 + n}" applyNumberFormat="1"/>' for n in _FORMATS)
    + '</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/>'
    "</cellStyles></styleSheet>",
}


class Workbook:
    """A workbook in the making."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        if len(schema) > MOST_COLUMNS:
            raise OutputError(f"a workbook holds at most {MOST_COLUMNS:,} columns{_OTHER}")
        self._ahead: Any = _Ahead(file)
        self._archive = zipfile.ZipFile(self._ahead, "w", zipfile.ZIP_DEFLATED)
        for name, text in _PARTS.items():
            with self._part(name) as part:
                part.write((_HEAD + text).encode())
        self._sheet = self._part(_SHEET)
        self._rows = self._size = 0
        names = [_texts(pa.array([name]))[0].as_py() for name in schema.names]
        head = f'{_HEAD}<worksheet xmlns="{_MAIN}"><sheetData><row>{"".join(names)}</row>'
        self._write(head.encode())

    def _part(self, name: str) -> IO[bytes]:
        about = zipfile.ZipInfo(name, _AT)
        about.compress_type, about.create_system = zipfile.ZIP_DEFLATED, 0
        return self._archive.open(about, "w")

    def encode(self, group: pa.Table) -> tuple[int, Any]:
        """Return how many rows a group has, and their text. Raises OutputError."""
        cells = [_cells(name, one_chunk(group.column(name))) for name in group.schema.names]
        if pc.any(reduce(pc.and_, [pc.equal(each, _EMPTY) for each in cells])).as_py():
            raise OutputError(
                "a row has no value in any column, and programs leave out such rows of a workbook"
                f"{_OTHER}"
            )
        ends = [pa.scalar(text, pa.large_string()) for text in ("<row>", "</row>", "")]
        rows = pc.binary_join_element_wise(ends[0], *cells, ends[1], ends[2])
        return len(group), _content(rows)

    def append(self, encoded: tuple[int, Any]) -> None:
        """Write an encoded group. Raises OutputError for more rows than a sheet holds."""
        rows, content = encoded
        self._rows += rows
        if self._rows > MOST_ROWS:
            raise OutputError(too_many(self._rows))
        self._write(content)

    def close(self) -> None:
        """Write what follows the last row."""
        self._write(b"</sheetData></worksheet>")
        self._sheet.close()
        self._archive.close()

    def discard(self) -> None:
        """Write no more: an archive that is forgotten would write its end."""
        self._ahead.given_up = True
        self._sheet.close()
        self._archive.close()

    def _write(self, content: Any) -> None:
        self._size += len(content)
        if self._size > MOST_BYTES:
            raise OutputError(f"the copy has too many cells for a workbook{_OTHER}")
        self._sheet.write(content)


def too_many(rows: int) -> str:
    """Return why a copy of so many rows is not written."""
    return f"a workbook holds at most {MOST_ROWS:,} rows, and the copy has {rows:,}{_OTHER}"


class _Ahead(io.RawIOBase):
    """A file that is only written ahead: what is packed has the same bytes at every place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.given_up = file, False

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        return len(content) if self.given_up else self._file.write(content)


def _content(rows: pa.Array) -> Any:
    """Return the text of all rows, one after the other."""
    if not len(rows):
        return b""
    _, offsets, data = rows.buffers()
    bounds = memoryview(offsets).cast("q")
    return memoryview(data)[bounds[rows.offset] : bounds[rows.offset + len(rows)]]


def _cells(name: str, column: pa.Array) -> pa.Array:
    """Return the text of the cells of a column. Raises OutputError."""
    if pa.types.is_dictionary(column.type):
        return _cells(name, column.dictionary).take(column.indices).fill_null(_EMPTY)
    kind, types = plain_type(column.type), pa.types
    if is_text(kind):
        if (pc.max(pc.utf8_length(column)).as_py() or 0) > LONGEST_TEXT:
            raise OutputError(
                f"{name!r} has texts of more than {LONGEST_TEXT:,} characters, which a cell of a "
                f"workbook does not hold{_OTHER}"
            )
        cells = _texts(column)
    elif types.is_boolean(kind):
        cells = _between('<c t="b"><v>', pc.cast(column, pa.int8()), "</v></c>")
    elif types.is_temporal(kind) and not types.is_duration(kind):
        cells = _moments(column)
    elif is_plain_number(kind):
        check_exact(name, column, "a workbook")
        cells = _between("<c><v>", _numbers(column), "</v></c>")
    else:
        raise OutputError(f"{name!r} is {kind}, which a workbook does not hold{_OTHER}")
    return cells.fill_null(_EMPTY)


def is_plain_number(kind: pa.DataType) -> bool:
    """Whether values of a type are numbers, or counted as such."""
    types = pa.types
    is_counted = types.is_duration(kind) or types.is_decimal(kind) or types.is_null(kind)
    return bool(types.is_integer(kind) or types.is_floating(kind) or is_counted)


def check_exact(name: str, column: pa.Array, where: str) -> None:
    """Raise OutputError for numbers that are not doubles."""
    kind, types = column.type, pa.types
    if types.is_floating(kind) and pc.any(pc.is_inf(column)).as_py():
        raise OutputError(f"{name!r} holds infinite numbers, which {where} does not hold{_OTHER}")
    if types.is_integer(kind) or types.is_duration(kind):
        ends = pc.min_max(column.cast(pa.int64()) if types.is_duration(kind) else column).as_py()
        if any(abs(end) > EXACT for end in ends.values() if end is not None):
            raise OutputError(
                f"{name!r} holds whole numbers beyond 2^53, which {where} would round{_OTHER}"
            )


def _numbers(column: pa.Array) -> pa.Array:
    """Return numbers as text that is read back as the same ones; NaN is missing."""
    if pa.types.is_float64(column.type):
        lines = bytes(csv_text(pa.table({"": column}))).decode().split("\n")[:-1]
        return pa.array([line if line not in ("", "nan") else None for line in lines], TEXT)
    if pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(TEXT)


def _moments(column: pa.Array) -> pa.Array:
    """Return dates, times of day and moments as days; as ISO text where Excel has none."""
    kind, types = column.type, pa.types
    if types.is_date(kind):
        days, style = column.cast(pa.date32()).cast(pa.int32()).cast(pa.float64()), _DAY
    else:
        unit = pa.time64("us") if types.is_time(kind) else pa.timestamp("us", kind.tz)
        micros = column.cast(unit, safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
        days, style = pc.divide(micros, 86_400e6), _TIME if types.is_time(kind) else _MOMENT
    if style == _TIME:
        return _between(f'<c s="{style}"><v>', _numbers(days), "</v></c>")
    serial = pc.add(days, _EPOCH)
    known = _between(f'<c s="{style}"><v>', _numbers(serial), "</v></c>")
    plain = column if style == _DAY else column.cast(pa.timestamp("us"), safe=False)
    inside = pc.and_(pc.greater_equal(serial, _FIRST), pc.less(serial, _END))
    return pc.if_else(inside, known, _texts(plain.cast(TEXT)))


def _between(before: str, column: pa.Array, after: str) -> pa.Array:
    parts = (pa.scalar(before, TEXT), column.cast(TEXT), pa.scalar(after, TEXT))
    return pc.binary_join_element_wise(*parts, pa.scalar("", TEXT))


def _texts(column: pa.Array) -> pa.Array:
    """Return texts as cells; what XML does not hold is spelled _x0001_, as Excel does."""
    texts = column.cast(TEXT)
    texts = pc.replace_substring_regex(texts, "_(x[0-9A-Fa-f]{4})", r"_x005F_\1")
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        texts = pc.replace_substring(texts, plain, entity)
    if pc.any(pc.match_substring_regex(texts, _NOT_XML)).as_py():
        plain_ones = texts.to_pylist()
        texts = pa.array([None if text is None else _escaped(text) for text in plain_ones], TEXT)
    return _between('<c t="inlineStr"><is><t xml:space="preserve">', texts, "</t></is></c>")


def _escaped(text: str) -> str:
    return re.sub("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]", lambda m: f"_x{ord(m[0]):04X}_", text)
