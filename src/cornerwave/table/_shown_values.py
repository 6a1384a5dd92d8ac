"""What the values of a column that copies show reveal beside being equal: order, and beginnings."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cornerwave.arrays import Floats, Ints
from cornerwave.errors import ColumnError
from cornerwave.table._types import is_number, plain_type, to_floats, value_type

_TAIL = r"[-_/ .:|#][^-_/ .:|#]*$"
"""The last part of an identifier such as P00012-03, with what separates it."""
SHORT_TAIL, MOST_DIGITS = 2, 15


def taken(column: pa.Array, rows: Ints) -> pa.Array:
    """Return some rows of a column."""
    places = pa.array(rows)
    try:
        return column.take(places)
    except pa.ArrowNotImplementedError:  # views of texts
        return column.cast(value_type(column.type)).take(places)


def heads(texts: pa.Array) -> pa.Array:
    """Return texts without their last part, or without the last two letters if they have none.

    >>> heads(pa.array(["P00012-03", "AB1234"])).to_pylist()
    ['P00012', 'AB12']
    """
    spelled = _spelled(texts)
    without = pc.replace_substring_regex(spelled, _TAIL, "")
    shorter = pc.utf8_slice_codeunits(spelled, 0, -SHORT_TAIL)
    return pc.if_else(pc.equal(without, spelled), shorter, without)


def shown_numbers(column: pa.Array) -> Floats:
    """Return a column as numbers: of a text its digits, NaN where there are none.

    >>> shown_numbers(pa.array(["P00012-03", "none", None])).tolist()
    [1203.0, nan, nan]
    """
    if is_number(plain_type(column.type)):
        return _floats(column)
    digits = pc.replace_substring_regex(_spelled(column), r"[^0-9]+", "")
    digits = pc.utf8_slice_codeunits(digits, 0, MOST_DIGITS)
    number = pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.float64())
    return np.asarray(number.fill_null(np.nan).to_numpy(zero_copy_only=False))


def _floats(column: pa.Array) -> Floats:
    """Return numbers: the nearest that a float holds, NaN where one is infinite."""
    try:
        return to_floats(column, "")
    except ColumnError:
        found = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.where(np.isfinite(found), found, np.nan)


def _spelled(column: pa.Array) -> pa.Array:
    """Return a column as texts; empty where it has none."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.string())
    except pa.ArrowException:  # such as bytes that are no text
        return pa.nulls(len(column), pa.string())
