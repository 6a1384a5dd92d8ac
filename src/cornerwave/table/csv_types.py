"""The types of a CSV's columns, from all of its rows.

Guessing from the first rows breaks where row 100,000 has the first decimal point.
So each batch of text is asked for the narrowest type that fits it, and the types of
all batches are joined:

    nothing < integer < long integer < float < text     nothing < date < timestamp < text
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

NULL, TEXT = pa.null(), pa.string()
INTEGER, LONG, FLOAT, BOOLEAN = pa.int64(), pa.decimal128(38, 0), pa.float64(), pa.bool_()
DATE, TIMESTAMP, ZONED = pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC")
FINE, FINE_ZONED = pa.timestamp("ns"), pa.timestamp("ns", tz="UTC")

_NARROWEST_FIRST = (INTEGER, LONG, FLOAT, BOOLEAN, DATE, TIMESTAMP, ZONED, FINE, FINE_ZONED)
_TRIMMED = (INTEGER, FLOAT)
"""Types whose values the reader takes with spaces around them, as in `39, 40`."""
_WIDER = {
    (INTEGER, LONG): LONG,
    (INTEGER, FLOAT): FLOAT,
    (LONG, FLOAT): FLOAT,
    (DATE, TIMESTAMP): TIMESTAMP,
    (DATE, FINE): FINE,
    (TIMESTAMP, FINE): FINE,
    (ZONED, FINE_ZONED): FINE_ZONED,
}
_TOO_LONG = r"^\s*[+-]?[0-9]{39,}\s*$"
"""Whole numbers that Arrow's longest decimal cannot hold, and silently wraps."""
_NULL_SPELLINGS = pa.array(pacsv.ConvertOptions().null_values)


def infer_types(
    read: Callable[[], Iterator[pa.RecordBatch]], names: Sequence[str]
) -> Mapping[str, pa.DataType]:
    """Return the type of each column, given a way to read all of them as text."""
    types = dict.fromkeys(names, NULL)
    for batch in read():
        for name in names:
            if types[name] != TEXT:
                types[name] = _join(types[name], _narrowest(batch.column(name)))
    return types


def _narrowest(text: pa.Array) -> pa.DataType:
    values = pc.filter(text, pc.invert(pc.is_in(text, value_set=_NULL_SPELLINGS)))
    values = values.drop_null()
    if len(values) == 0:
        return NULL
    if pc.any(pc.match_substring_regex(values, _TOO_LONG)).as_py():
        return TEXT
    for type_ in _NARROWEST_FIRST:
        if _fits(values, type_):
            return type_
    return TEXT


def _fits(values: pa.Array, type_: pa.DataType) -> bool:
    try:
        pc.cast(pc.utf8_trim_whitespace(values) if type_ in _TRIMMED else values, type_)
    except pa.ArrowInvalid:
        return False
    return True


def _join(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other or other == NULL:
        return one
    if one == NULL:
        return other
    return _WIDER.get((one, other)) or _WIDER.get((other, one)) or TEXT
