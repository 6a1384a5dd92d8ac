"""What a copy says about itself: inside a Parquet or Arrow file, beside a CSV, or given.

It came with a file from outside, so nobody relies on it before every field has the type and the
range that a release writes: `FIELDS` and `COLUMN_FIELDS` are the one place where they are checked,
and a field that a release writes is listed there. Fields that nobody knows are left alone.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave.columns import CATEGORY, KEPT, KEY, MARGINAL, ORDERS, PERTURBED, TRANSFORMS, UNIFORM
from cornerwave.errors import SourceError
from cornerwave.sources import (
    Address,
    File,
    arrow_schema,
    files_of,
    format_of,
    kind_of,
    opened,
    readable,
    stored_files,
)

METADATA_KEY = b"cornerwave"

Test = Callable[[Any], bool]
Located = TypeVar("Located", Path, Address)


def metadata_path(path: Located) -> Located:
    """Return the file with the metadata of a CSV copy."""
    return path.with_name(path.name + ".meta.json")


def read_metadata(path: Path | Address) -> dict[str, Any] | None:
    """Return what a copy says about itself; None if it says nothing.

    The files of a folder say the same, or are different batches of one dataset at one level.
    Raises SourceError if they are not, or if the copy or what it says cannot be read.
    """
    try:
        texts = dict.fromkeys(_metadata_text(file) for file in files_of(path)[0])
    except SourceError:
        raise
    except OSError as error:
        reason = error.strerror or "it is damaged"
        raise SourceError(f"{path.name} cannot be read: {reason}") from None
    except (pa.ArrowException, ValueError):
        raise SourceError(f"{path.name} or its metadata is damaged") from None
    told = [parse_metadata(text, path.name) if text else None for text in texts]
    return told[0] if len(told) == 1 else _of_batches(told, path.name)


def _of_batches(told: Sequence[dict[str, Any] | None], name: str) -> dict[str, Any]:
    """Return what batches of one dataset at one level say together. Raises SourceError."""
    stated = [own for own in told if own is not None]
    alike = [{f: v for f, v in own.items() if f not in _OF_BATCH} for own in stated]
    batches = {own.get("batch") for own in stated}
    if any(own != alike[0] for own in alike) or len(batches - {None}) < len(told):
        fields = ("dataset", "noise", "edition", "batch")
        differ = [f for f in fields if len({own.get(f) for own in stated}) > 1]
        what = f"differ in their {' and '.join(differ)}" if differ else "have different metadata"
        raise SourceError(
            f"the files of {name} {what}: they are not one copy. Open each copy by itself, "
            "or put the files of each into a folder of their own"
        )
    return {
        **alike[0],
        "rows": sum(own.get("rows", 0) for own in stated),
        "edition": max(own.get("edition", 1) for own in stated),
    }


_OF_BATCH = ("batch", "edition", "rows")
"""Fields in which the batches of a dataset differ."""


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
    _check(told, FIELDS, f"the metadata of {name} is damaged")
    for column, own in told.get("columns", {}).items():
        where = f"the metadata of {name} is damaged: column {column!r}"
        if not isinstance(column, str) or not isinstance(own, Mapping):
            raise SourceError(f"{where} is not described by fields")
        _check(own, COLUMN_FIELDS, where)
    return dict(told)


def _check(told: Mapping[Any, Any], fields: Mapping[str, tuple[Test, str]], where: str) -> None:
    for field, (is_valid, allowed) in fields.items():
        if field in told and not is_valid(told[field]):
            raise SourceError(f"{where}: {field!r} must be {allowed}")


def _metadata_text(file: File) -> bytes | None:
    format_ = format_of(file.name) if kind_of(file) == "typed" else "csv"
    if format_ == "parquet":
        return (papq.read_schema(readable(file)).metadata or {}).get(METADATA_KEY)
    if format_ == "arrow":
        return (arrow_schema(file).metadata or {}).get(METADATA_KEY)
    if not isinstance(file, Path):
        return _stored_text(metadata_path(file.address))
    beside = metadata_path(file)  # a CSV's metadata lies beside it
    return beside.read_bytes() if beside.is_file() else None


def _stored_text(address: Address) -> bytes | None:
    try:
        return opened(stored_files(address)[0][0]).read()
    except SourceError:  # there is none
        return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _number(least: float, most: float) -> Test:
    def is_number(value: Any) -> bool:
        is_one = isinstance(value, int | float) and not isinstance(value, bool)
        return is_one and least <= value <= most

    return is_number


def _whole(least: int = 0, most: int = 2**63 - 1) -> Test:
    return lambda value: type(value) is int and least <= value <= most


def _one_of(*values: Any) -> Test:
    return lambda value: any(type(value) is type(v) and value == v for v in values)


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)


def _are_bounds(value: Any) -> bool:
    is_bound = _or_none(_number(-sys.float_info.max, sys.float_info.max))
    if not (isinstance(value, list | tuple) and len(value) == 2 and all(map(is_bound, value))):
        return False
    low, high = value
    return low is None or high is None or bool(low <= high)


def _are_numbers(value: Any) -> bool:
    is_one = _number(-_MOST, _MOST)
    return isinstance(value, Mapping) and all(map(is_one, value.values()))


def _are_knots(value: Any) -> bool:
    is_one = _number(-_MOST, _MOST)
    is_list = isinstance(value, list | tuple) and len(value) > 1 and all(map(is_one, value))
    return is_list and list(value) == sorted(value) and value[0] < value[-1]


_LEAST, _MOST = 1e-300, 1e300
_TINY = 1e-150
"""What is divided by is larger, so that nothing overflows, not even by its square."""
_MOST_SCORES = 1 << 16
_SHARE = _number(0.0, 1.0), "a number from 0 to 1"
FIELDS: dict[str, tuple[Test, str]] = {
    "dataset": (_is_text, "text"),
    "noise": (_number(_LEAST, _MOST), "a finite number greater than 0"),
    "privacy": _SHARE,
    "retention": (_number(_TINY, 1.0), "a number greater than 0, at most 1"),
    "rows": (_whole(), "a number of rows"),
    "edition": (_whole(1), "the number of an edition"),
    "batch": (_whole(1), "the number of a batch"),
    "order": (_one_of(None, *ORDERS), f"{', '.join(ORDERS)} or null"),
    "noise_format": (_whole(1), "the number of a format"),
    "missing": (_are_texts, "a list of marks for missing values in the source"),
    "columns": (lambda value: isinstance(value, Mapping), "a table of columns"),
}
"""Every field of a copy: whether a value is allowed, and which are."""
_ROLES = (PERTURBED, CATEGORY, KEPT, KEY)
COLUMN_FIELDS: dict[str, tuple[Test, str]] = {
    "hidden": _SHARE,
    "excess": (_or_none(_are_numbers), "a number for each column, or null"),
    "role": (_one_of(*_ROLES), f"one of {', '.join(_ROLES)}"),
    "pseudonym": (_one_of(None, False, True), "true, false or null"),
    "type": (_is_text, "the name of a type"),
    "source": (_is_text, "the name of a column"),
    "marks": (_are_texts, "a list of marks for missing values in the source"),
    "unit": (_or_none(_is_text), "text, or null"),
    "transform": (_one_of(None, *TRANSFORMS), f"{', '.join(TRANSFORMS)} or null"),
    "scores": (_or_none(_whole(2, _MOST_SCORES)), "a number of scores of at least 2, or null"),
    "knots": (_or_none(_are_knots), "ascending numbers, or null"),
    "base": (_one_of(None, MARGINAL, UNIFORM), f"{MARGINAL}, {UNIFORM} or null"),
    "categories": (_or_none(_whole()), "a number of values, or null"),
    "together": (_or_none(_are_texts), "a list of columns, or null"),
    "rounded": (_or_none(_number(_TINY, _MOST)), "a step greater than 0, or null"),
    "clipped": (_or_none(_are_bounds), "two bounds, the lower one first, or null"),
    "missing": (_one_of(None, "hidden", "shown"), "hidden or shown"),
    "pooled": (_one_of(None, False, True), "true, false or null"),
    "about": (lambda value: isinstance(value, str), "text"),
}
"""Every field of a column of a copy."""
