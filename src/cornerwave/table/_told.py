"""What a copy says about itself: inside a Parquet or Arrow file, beside a CSV, or given.

It came with a file from outside, so nobody relies on it before every field that anybody
reads has the type and the range that a release writes. Fields that nobody knows are left alone.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.errors import SourceError
from cornerwave.table._places import Address
from cornerwave.table._schema import CATEGORY, KEPT, KEY, MARGINAL, PERTURBED, TRANSFORMS, UNIFORM
from cornerwave.table._sources import arrow_schema, format_of, kind_of
from cornerwave.table._stores import File, opened, readable, stored_files

METADATA_KEY = b"cornerwave"

Test = Callable[[Any], bool]
Located = TypeVar("Located", Path, Address)


def metadata_path(path: Located) -> Located:
    """Return the file with the metadata of a CSV copy."""
    return path.with_name(path.name + ".meta.json")


def read_metadata(path: Path | Address) -> dict[str, Any] | None:
    """Return what a copy says about itself; None if it says nothing.

    Raises SourceError if the copy, or what it says, cannot be read.
    """
    try:
        text = _metadata_text(path)
    except OSError as error:
        reason = error.strerror or "it is damaged"
        raise SourceError(f"{path.name} cannot be read: {reason}") from None
    except (pa.ArrowException, ValueError):
        raise SourceError(f"{path.name} or its metadata is damaged") from None
    return parse_metadata(text, path.name) if text else None


def parse_metadata(text: bytes, name: str) -> dict[str, Any]:
    """Return the metadata of a copy of this name from its JSON. Raises SourceError."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise SourceError(f"{name} or its metadata is damaged") from None
    return check_metadata(told, name)


def check_metadata(told: Any, name: str) -> dict[str, Any]:
    """Return metadata as given if its known fields are usable. Raises SourceError if not."""
    if not isinstance(told, Mapping):
        raise SourceError(f"the metadata of {name} is damaged: it is not a list of fields")
    _check(told, _FIELDS, f"the metadata of {name} is damaged")
    for column, own in told.get("columns", {}).items():
        where = f"the metadata of {name} is damaged: column {column!r}"
        if not isinstance(column, str) or not isinstance(own, Mapping):
            raise SourceError(f"{where} is not described by fields")
        _check(own, _COLUMN_FIELDS, where)
    return dict(told)


def _check(told: Mapping[Any, Any], fields: Mapping[str, tuple[Test, str]], where: str) -> None:
    for field, (is_valid, allowed) in fields.items():
        if field in told and not is_valid(told[field]):
            raise SourceError(f"{where}: {field!r} must be {allowed}")


def _metadata_text(path: Path | Address) -> bytes | None:
    file = _one_file(path)
    format_ = format_of(file.name) if kind_of(file) == "typed" else "csv"
    if format_ == "parquet":
        return (papq.read_schema(readable(file)).metadata or {}).get(METADATA_KEY)
    if format_ == "arrow":
        return (arrow_schema(file).metadata or {}).get(METADATA_KEY)
    if isinstance(path, Address):
        return _stored_text(metadata_path(path))
    path.stat()  # a CSV's metadata lies beside it, but the copy must be there
    beside = metadata_path(path)
    return beside.read_bytes() if beside.is_file() else None


def _one_file(path: Path | Address) -> File:
    if isinstance(path, Path):  # each file of a directory says the same
        return next(iter(sorted(path.glob("*.parquet"))), path) if path.is_dir() else path
    return stored_files(path)[0][0]


def _stored_text(address: Address) -> bytes | None:
    try:
        return opened(_one_file(address)).read()
    except SourceError:  # there is none
        return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _number(least: float, most: float) -> Test:
    def is_number(value: Any) -> bool:
        is_one = isinstance(value, int | float) and not isinstance(value, bool)
        return is_one and least <= value <= most

    return is_number


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _one_of(*values: Any) -> Test:
    return lambda value: any(value is None if v is None else value == v for v in values)


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)


def _are_bounds(value: Any) -> bool:
    is_bound = _or_none(_number(-math.inf, math.inf))
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(is_bound, value))


def _are_numbers(value: Any) -> bool:
    is_one = _number(-_MOST, _MOST)
    return isinstance(value, Mapping) and all(map(is_one, value.values()))


_LEAST, _MOST = 1e-300, 1e300
_SHARE = _number(0.0, 1.0), "a number from 0 to 1"
_FIELDS: dict[str, tuple[Test, str]] = {
    "dataset": (_is_text, "text"),
    "noise": (_number(_LEAST, _MOST), "a finite number greater than 0"),
    "privacy": _SHARE,
    "retention": _SHARE,
    "rows": (_whole, "a number of rows"),
    "edition": (_whole, "the number of an edition"),
    "batch": (_whole, "the number of a batch"),
    "missing": (_are_texts, "a list of marks for missing values in the source"),
    "columns": (lambda value: isinstance(value, Mapping), "a table of columns"),
}
_ROLES = (PERTURBED, CATEGORY, KEPT, KEY)
_COLUMN_FIELDS: dict[str, tuple[Test, str]] = {
    "hidden": _SHARE,
    "excess": (_or_none(_are_numbers), "a number for each column, or null"),
    "role": (_one_of(*_ROLES), f"one of {', '.join(_ROLES)}"),
    "type": (_is_text, "the name of a type"),
    "source": (_is_text, "the name of a column"),
    "unit": (_or_none(_is_text), "text, or null"),
    "transform": (_one_of(None, *TRANSFORMS), f"{', '.join(TRANSFORMS)} or null"),
    "base": (_one_of(None, MARGINAL, UNIFORM), f"{MARGINAL}, {UNIFORM} or null"),
    "categories": (_or_none(_whole), "a number of values, or null"),
    "together": (_or_none(_are_texts), "a list of columns, or null"),
    "rounded": (_or_none(_number(0.0, _MOST)), "a step, or null"),
    "clipped": (_or_none(_are_bounds), "two bounds, or null"),
    "missing": (_one_of(None, "hidden", "shown"), "hidden or shown"),
    "pooled": (_one_of(None, False, True), "true, false or null"),
}
