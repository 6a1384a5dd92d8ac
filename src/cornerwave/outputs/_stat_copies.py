"""A copy as a file of Stata (.dta, format 118) or SPSS (.sav), written some rows at a time.

    numbers         doubles; whole ones beyond 2^53, and infinite ones, are refused
    dates, times    days, seconds or milliseconds since the program's own beginning, with its format
    moments         of a zone in UTC, which these programs do not name
    text            as wide as its longest; an empty one is missing, as these programs mean it
    labelled        numbers with the labels that the values had in the source

How wide texts are stands before the first row, so rows wait, packed, in a temporary file without a
name. The bytes depend on the rows and the metadata alone: the headers state no time.

Formats: https://www.stata.com/help.cgi?dta, and the PSPP developers' guide, 'System File Format'.
"""

import re
import struct
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as paipc

from cornerwave.columns import is_text, one_chunk, plain_type
from cornerwave.errors import OutputError
from cornerwave.outputs._workbook import check_exact, is_plain_number
from cornerwave.spec import CopyMetadata

_OTHER = "write it as .parquet or .csv"
_NUMBER, _WHOLE, _TEXT = "number", "whole", "text"
_DAY, _MOMENT, _CLOCK = "day", "moment", "clock"
"""Kinds of variables."""


@dataclass
class Variable:
    """A column of a file: its kind, the codes of its labelled texts, and its longest text."""

    name: str
    kind: str
    description: str
    codes: Mapping[str, float] = field(default_factory=dict)
    width: int = 1


class StatCopy(ABC):
    """A file in the making."""

    ending: ClassVar[str]
    names: ClassVar[re.Pattern[str]]
    named: ClassVar[str]
    ignores_case: ClassVar[bool]
    longest_text: ClassVar[int]
    longest_label: ClassVar[int]
    missing: ClassVar[float]
    units: ClassVar[Mapping[str, tuple[float, float]]]
    """Of a kind, what a day, or a microsecond, is counted as, and where the count begins."""

    def __init__(self, file: BinaryIO, schema: pa.Schema, stated: CopyMetadata) -> None:
        self.check(schema.names)
        self._file, self._rows = file, 0
        self.variables = [self._variable(each, stated) for each in schema]
        self._waiting = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `discard`

    @classmethod
    def check(cls, names: Sequence[str]) -> None:
        """Raise OutputError for columns that cannot be called so in this kind of file."""
        lower = [name.lower() for name in names]
        for name in names:
            if not cls.names.fullmatch(name) or len(name.encode()) > 64 or name in _RESERVED:
                raise OutputError(
                    f"{name!r} cannot be the name of a variable in a {cls.ending} file: {cls.named}"
                    "; give it another name in copies",
                    use=("released_as",),
                )
            if cls.ignores_case and lower.count(name.lower()) > 1:
                raise OutputError(
                    f"{name!r} differs from another column only in case, and variables of a "
                    f"{cls.ending} file may not; give it another name in copies",
                    use=("released_as",),
                )

    def _variable(self, part: pa.Field, stated: CopyMetadata) -> Variable:
        kind, types = plain_type(part.type), pa.types
        about = stated.column(part.name)
        if is_text(kind):
            codes = about.codes or {}
            fits = all(self._fits(label, code) for label, code in codes.items())
            return Variable(part.name, _TEXT, about.description or "", codes if fits else {})
        if types.is_date(kind):
            return Variable(part.name, _DAY, about.description or "")
        if types.is_timestamp(kind):
            return Variable(part.name, _MOMENT, about.description or "")
        if types.is_time(kind):
            return Variable(part.name, _CLOCK, about.description or "")
        if not (types.is_boolean(kind) or is_plain_number(kind)):
            raise OutputError(
                f"{part.name!r} is {kind}, which a {self.ending} file does not hold; {_OTHER}"
            )
        is_broken = types.is_floating(kind) or types.is_decimal(kind)
        return Variable(part.name, _NUMBER if is_broken else _WHOLE, about.description or "")

    def _fits(self, label: str, code: float) -> bool:
        whole = float(code).is_integer() and abs(code) < 2**31 - 128
        return whole and len(label.encode()) <= self.longest_label

    def encode(self, group: pa.Table) -> tuple[list[int], pa.RecordBatch]:
        """Return the widths of a group's texts, and its cells: doubles, and bytes of text."""
        cells = [
            self._cells(each, one_chunk(group.column(place)))
            for place, each in enumerate(self.variables)
        ]
        widths = [
            int(pc.max(pc.binary_length(column)).as_py() or 0) if is_bytes(column.type) else 8
            for column in cells
        ]
        return widths, pa.record_batch(cells, names=group.schema.names)

    def append(self, encoded: tuple[list[int], pa.RecordBatch]) -> None:
        """Let an encoded group wait."""
        widths, batch = encoded
        for each, width in zip(self.variables, widths, strict=True):
            each.width = max(each.width, width)
            if is_bytes(batch.schema.field(each.name).type) and width > self.longest_text:
                raise OutputError(
                    f"{each.name!r} has texts of more than {self.longest_text:,} bytes, which a "
                    f"{self.ending} file does not hold; {_OTHER}"
                )
        with paipc.new_stream(self._waiting, batch.schema, options=_PACKED) as stream:
            stream.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> None:
        """Write the whole file."""
        for part in self.file(self._rows, self._written()):
            self._file.write(part)
        self._waiting.close()

    def discard(self) -> None:
        """Forget what waits."""
        self._waiting.close()

    @abstractmethod
    def file(self, rows: int, written: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the parts of a file of so many rows."""

    @abstractmethod
    def layout(self) -> np.dtype[Any]:
        """Return how a row lies in the file."""

    def _written(self) -> Iterator[bytes]:
        """Yield the rows as they lie in the file."""
        layout, pad = self.layout(), self.padding
        self._waiting.seek(0)
        for _ in iter(lambda: self._waiting.peek(1), b""):
            with paipc.open_stream(self._waiting) as stream:
                for batch in stream:
                    rows = np.empty(batch.num_rows, dtype=layout)
                    for place, cells in enumerate(batch.columns):
                        rows[f"f{place}"] = _array(cells, layout[place].itemsize, pad, self.missing)
                    yield rows.tobytes()

    padding: ClassVar[bytes]

    def _cells(self, variable: Variable, column: pa.Array) -> pa.Array:
        name, types = variable.name, pa.types
        if types.is_dictionary(column.type):
            return self._cells(variable, column.dictionary).take(column.indices)
        if variable.codes:
            keys = pa.array(variable.codes, pa.string())
            places = pc.index_in(column.cast(pa.string()), value_set=keys)
            if places.null_count > column.null_count:
                raise OutputError(f"{name!r} has a value without a code; {_OTHER}")
            return pa.array(list(variable.codes.values()), pa.float64()).take(places)
        if variable.kind == _TEXT:
            if pc.any(pc.match_substring(column, "\0")).as_py():
                raise OutputError(f"{name!r} has texts with NUL characters; {_OTHER}")
            return column.cast(pa.large_binary())
        if variable.kind in (_NUMBER, _WHOLE):
            check_exact(name, column, f"a {self.ending} file")
            plain = column.cast(pa.int64()) if types.is_duration(column.type) else column
            numbers = (plain.cast(pa.int8()) if types.is_boolean(plain.type) else plain).cast(
                pa.float64()
            )
            if pc.any(pc.greater(pc.abs(numbers), 8.9e307)).as_py():
                raise OutputError(f"{name!r} has numbers beyond 8.9e307; {_OTHER}")
            return numbers
        if variable.kind == _DAY:
            counted = column.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
        else:
            unit = (
                pa.time64("us") if variable.kind == _CLOCK else pa.timestamp("us", column.type.tz)
            )
            micros = column.cast(unit, safe=False).cast(pa.int64())
            counted = micros.cast(pa.float64(), safe=False)
        step, start = self.units[variable.kind]
        return pc.add(pc.multiply(counted, step), start)


_PACKED = paipc.IpcWriteOptions(compression="lz4")
_STATA = "_all _b byte _coef _cons double float if in int long _n _N _pred _rc _skip strL using"
_SPSS = "ALL AND BY EQ GE GT LE LT NE NOT OR TO WITH with"
_RESERVED = frozenset(f"{_STATA} {_SPSS}".split(" "))
"""Words that one of the programs does not take as a name."""


def is_bytes(type_: pa.DataType) -> bool:
    """Whether cells wait as bytes of text."""
    return bool(pa.types.is_large_binary(type_))


def _array(cells: pa.Array, width: int, pad: bytes, missing: float) -> Any:
    if not is_bytes(cells.type):
        values = cells.fill_null(missing).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(values), missing, values)
    return np.array([(cell or b"").ljust(width, pad) for cell in cells.to_pylist()], f"S{width}")


class StataCopy(StatCopy):
    """A file of Stata 14 or later."""

    ending = ".dta"
    names = re.compile(r"(?!str\d+$)[^\W\d]\w{0,31}")
    named = "letters, digits and _, at most 32, not a digit first"
    longest_text, longest_label, padding, ignores_case = 2_045, 32_000, b"\0", False
    missing = 2.0**1023
    units: ClassVar = {
        _DAY: (1.0, 3_653.0),
        _MOMENT: (1e-3, 3_653 * 86_400e3),
        _CLOCK: (1e-3, 0.0),
    }
    _FORMATS: ClassVar = {_DAY: "%td", _MOMENT: "%tc", _CLOCK: "%tcHH:MM:SS", _NUMBER: "%10.0g"}

    def layout(self) -> np.dtype[Any]:
        """Return how a row lies in the file."""
        return np.dtype([(f"f{i}", f"S{w}" if w else "<f8") for i, w in enumerate(self._widths())])

    def _widths(self) -> list[int]:
        return [0 if v.codes or v.kind != _TEXT else v.width for v in self.variables]

    def file(self, rows: int, written: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the parts of a file of so many rows."""
        many, widths = len(self.variables), self._widths()
        formats = [f"%{w}s" if w else self._FORMATS.get(v.kind, "%12.0g")
                   for v, w in zip(self.variables, widths, strict=True)]  # fmt: skip
        labels = [f"labels_{i}" if v.codes else "" for i, v in enumerate(self.variables, 1)]
        head = b"<stata_dta><header><release>118</release><byteorder>LSF</byteorder>" + b"".join(
            (
                b"<K>" + struct.pack("<H", many) + b"</K>",
                b"<N>" + struct.pack("<Q", rows) + b"</N>",
                b"<label>\0\0</label><timestamp>\0</timestamp></header>",
            )
        )
        parts = [
            _tagged("variable_types", struct.pack(f"<{many}H", *(w or 65_526 for w in widths))),
            _tagged("varnames", b"".join(_fixed(v.name, 129) for v in self.variables)),
            _tagged("sortlist", bytes(2 * (many + 1))),
            _tagged("formats", b"".join(_fixed(each, 57) for each in formats)),
            _tagged("value_label_names", b"".join(_fixed(each, 129) for each in labels)),
            _tagged(
                "variable_labels",
                b"".join(_fixed(shortened(v.description, 80), 321) for v in self.variables),
            ),
            _tagged("characteristics", b""),
        ]
        data = self.layout().itemsize * rows + len("<data></data>")
        tables = _tagged(
            "value_labels",
            b"".join(
                _label_table(name, v.codes)
                for name, v in zip(labels, self.variables, strict=True)
                if name
            ),
        )
        sizes = [*map(len, parts), data, len("<strls></strls>"), len(tables)]
        at = len(head) + 14 * 8 + len("<map></map>")
        places = [0, len(head), *(at + sum(sizes[:n]) for n in range(len(sizes) + 1))]
        end = places[-1] + len("</stata_dta>")
        yield head + _tagged("map", struct.pack("<14Q", *places, end)) + b"".join(parts)
        yield b"<data>"
        yield from written
        yield b"</data><strls></strls>" + tables + b"</stata_dta>"


def _tagged(name: str, content: bytes) -> bytes:
    return f"<{name}>".encode() + content + f"</{name}>".encode()


def _fixed(text: str, size: int) -> bytes:
    return text.encode().ljust(size, b"\0")


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters.

    >>> shortened("Age in years", 5)
    'Age …'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _label_table(name: str, codes: Mapping[str, float]) -> bytes:
    ordered = sorted((int(code), label.encode() + b"\0") for label, code in codes.items())
    starts = np.cumsum([0, *(len(label) for _, label in ordered)])
    values = [code for code, _ in ordered]
    text = b"".join(label for _, label in ordered)
    table = struct.pack("<ii", len(ordered), len(text))
    table += struct.pack(f"<{len(ordered)}i", *starts[:-1].tolist())
    table += struct.pack(f"<{len(ordered)}i", *values) + text
    return b"<lbl>" + struct.pack("<i", len(table)) + _fixed(name, 132) + table + b"</lbl>"


class SpssCopy(StatCopy):
    """A system file of SPSS."""

    ending = ".sav"
    names = re.compile(r"[^\W\d_]([\w.$#@]*[\w$#@])?")
    named = "letters, digits and _ . $ # @, at most 64 bytes, a letter first"
    longest_text, longest_label, padding, ignores_case = 255, 120, b" ", True
    missing = -sys.float_info.max
    units: ClassVar = {
        _DAY: (86_400.0, 141_428 * 86_400.0),
        _MOMENT: (1e-6, 141_428 * 86_400.0),
        _CLOCK: (1e-6, 0.0),
    }
    _FORMATS: ClassVar = {
        _DAY: (20, 11, 0),
        _MOMENT: (22, 23, 2),
        _CLOCK: (21, 11, 2),
        _NUMBER: (5, 12, 4),
    }

    def layout(self) -> np.dtype[Any]:
        """Return how a row lies in the file."""
        kinds = [f"S{8 * each}" if text else "<f8" for text, each in self._segments()]
        return np.dtype([(f"f{place}", kind) for place, kind in enumerate(kinds)])

    def _segments(self) -> list[tuple[bool, int]]:
        """Return of each variable whether it is text, and how many times 8 bytes it takes."""
        texts = [v.kind == _TEXT and not v.codes for v in self.variables]
        pairs = zip(texts, self.variables, strict=True)
        return [(text, -(-v.width // 8) if text else 1) for text, v in pairs]

    def file(self, rows: int, written: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the parts of a file of so many rows."""
        segments = [each for _, each in self._segments()]
        yield struct.pack(
            "<4s60siiiiid9s8s64s3x",
            *(b"$FL2", b"@(#) SPSS DATA FILE".ljust(60), 2, sum(segments), 0, 0),
            *(min(rows, 2**31 - 1), 100.0, b"01 Jan 80", b"00:00:00", b" " * 64),
        )
        yield b"".join(self._variable_records())
        firsts = np.cumsum([1, *segments])[:-1].tolist()
        for first, variable in zip(firsts, self.variables, strict=True):
            if variable.codes:
                yield _labels(variable.codes, first)
        yield struct.pack("<12i", *(7, 3, 4, 8), *(24, 0, 0, -1, 1, 1, 2, 65_001))
        ends = self.missing, -self.missing, np.nextafter(self.missing, 0.0)
        yield struct.pack("<4i3d", 7, 4, 8, 3, *ends)
        pairs = [f"V{place}={v.name}" for place, v in enumerate(self.variables, 1)]
        yield _extension(13, "\t".join(pairs).encode())
        yield struct.pack("<4i2q", 7, 16, 8, 2, 1, rows)
        yield _extension(20, b"UTF-8") + struct.pack("<ii", 999, 0)
        yield from written

    def _variable_records(self) -> Iterator[bytes]:
        for place, (v, (text, segments)) in enumerate(
            zip(self.variables, self._segments(), strict=True), 1
        ):
            kind, width, decimals = (
                (1, v.width, 0) if text else self._FORMATS.get(v.kind, (5, 12, 0))
            )
            shown = kind << 16 | width << 8 | decimals
            name, label = (
                f"V{place}".encode().ljust(8),
                shortened(v.description, 250).encode()[:255],
            )
            yield struct.pack("<6i", 2, v.width if text else 0, bool(label), 0, shown, shown) + name
            if label:
                label = label.decode(errors="ignore").encode()
                yield struct.pack("<i", len(label)) + label.ljust(-(-len(label) // 4) * 4)
            yield (struct.pack("<6i", 2, -1, 0, 0, 0, 0) + b" " * 8) * (segments - 1)


def _extension(subtype: int, content: bytes) -> bytes:
    return struct.pack("<4i", 7, subtype, 1, len(content)) + content


def _labels(codes: Mapping[str, float], variable: int) -> bytes:
    ordered = sorted((float(code), label.encode()) for label, code in codes.items())
    cells = [
        struct.pack("<dB", code, len(label)) + label.ljust(-(-(len(label) + 1) // 8) * 8 - 1)
        for code, label in ordered
    ]
    return struct.pack("<ii", 3, len(cells)) + b"".join(cells) + struct.pack("<iii", 4, 1, variable)


STAT_COPIES: Mapping[str, type[StatCopy]] = {"dta": StataCopy, "sav": SpssCopy}
"""What writes each format."""
