"""Arrow's types by the names that it prints: how a schema and a copy's metadata keep them."""

import re

import pyarrow as pa

_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=\w+, ordered=\d>")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), (-?\d+)\)")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=(.+)\]")


def type_named(name: str) -> pa.DataType | None:
    """Return the plain type that prints as `name`; None for nested and unknown ones.

    >>> type_named("decimal128(5, 2)"), type_named("timestamp[us, tz=UTC]"), type_named("no such")
    (Decimal128Type(decimal128(5, 2)), TimestampType(timestamp[us, tz=UTC]), None)
    """
    if found := _DICTIONARY.fullmatch(name):
        return type_named(found[1])
    if found := _DECIMAL.fullmatch(name):
        return getattr(pa, f"decimal{found[1]}")(int(found[2]), int(found[3]))
    if found := _ZONED.fullmatch(name):
        return pa.timestamp(found[1], tz=found[2])
    try:
        return pa.type_for_alias(name)
    except ValueError:
        return None
