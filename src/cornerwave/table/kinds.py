"""Questions about Arrow's types that all rooms ask."""

import pyarrow as pa


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of a column's values, whether or not they stand apart.

    >>> plain_type(pa.dictionary(pa.int8(), pa.string())), plain_type(pa.int64())
    (DataType(string), DataType(int64))
    """
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which a column's values are told apart: views are large text."""
    plain = plain_type(type_)
    return pa.large_string() if pa.types.is_string_view(plain) else plain


def is_text(type_: pa.DataType) -> bool:
    """Say whether a column holds text, of whatever width or view."""
    plain, types = plain_type(type_), pa.types
    return bool(
        types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
    )
