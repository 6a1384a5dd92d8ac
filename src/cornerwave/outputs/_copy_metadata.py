"""Where a copy's metadata lies: inside a Parquet or Arrow file, or beside a CSV."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as papq

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
from cornerwave.spec import CopyMetadata

METADATA_KEY = b"cornerwave"
Located = TypeVar("Located", Path, Address, Path | Address)


def metadata_path(path: Located) -> Located:
    """Return the file with the metadata of a CSV copy."""
    return path.with_name(path.name + ".meta.json")


def read_metadata(path: Path | Address) -> CopyMetadata | None:
    """Return what a copy states about itself; None if it states nothing.

    The files of a folder state the same, or are different batches of one dataset at one level.
    Raises SourceError if they are not, or if the copy or its metadata cannot be read.
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
    read = [CopyMetadata.parse(text, path.name) if text else None for text in texts]
    return read[0] if len(read) == 1 else _of_batches(read, path.name)


def _of_batches(read: Sequence[CopyMetadata | None], name: str) -> CopyMetadata:
    """Return what batches of one dataset at one level state together. Raises SourceError."""
    stated = [each for each in read if each is not None]
    alike = [replace(each, batch=None, edition=None, rows=None) for each in stated]
    batches = {each.batch for each in stated}
    if any(each != alike[0] for each in alike) or len(batches - {None}) < len(read):
        fields = ("dataset", "noise", "edition", "batch")
        differ = [f for f in fields if len({getattr(each, f) for each in stated}) > 1]
        what = f"differ in their {' and '.join(differ)}" if differ else "have different metadata"
        raise SourceError(
            f"the files of {name} {what}: they are not one copy. Open each copy by itself, "
            "or put the files of each into a folder of their own"
        )
    return replace(
        alike[0],
        rows=sum(each.rows or 0 for each in stated),
        edition=max(each.edition or 1 for each in stated),
    )


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
