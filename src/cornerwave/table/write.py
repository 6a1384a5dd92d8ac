"""Writing a copy: it appears whole, under its name, or not at all.

A copy grows in a hidden file beside its place, readable by the owner alone, and is
moved there when it is complete and known to be right. What a killed process leaves
behind is removed by the next one that writes there.
"""

import base64
import errno
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as paipc
import pyarrow.parquet as papq

from cornerwave.errors import OutputError, OutputExists
from cornerwave.table.kinds import plain_type
from cornerwave.table.read import ARROW, ENDINGS, PARQUET

METADATA_KEY = b"cornerwave"


class CopyFile:
    """A copy on its way to `path`; `publish` or `discard` ends it."""

    def __init__(self, path: Path, schema: pa.Schema, metadata: Mapping[str, Any]) -> None:
        self.path = path
        self._metadata = metadata
        self._is_csv = not path.name.lower().endswith((*PARQUET, *ARROW))
        self._schema = _fitting(path, schema).with_metadata(
            {METADATA_KEY: json.dumps(metadata).encode()}
        )
        self._file: Any = None
        self._writer: Any = None
        with _telling(path):
            _remove_leftovers(path)
            self._descriptor, self._part = _create_hidden(path)
            try:
                self._file = _stream(os.fdopen(os.dup(self._descriptor), "wb"), path)
                self._writer = _writer(self._file, path, self._schema)
            except BaseException:
                self.discard()
                raise

    def write(self, group: pa.Table) -> None:
        """Append a group of rows."""
        with _telling(self.path):
            self._writer.write_table(group.cast(self._schema))

    def finish(self) -> None:
        """Bring every byte to the disk."""
        with _telling(self.path):
            self._writer.close()
            self._file.close()
            os.fsync(self._descriptor)

    def publish(self) -> None:
        """Make the finished copy visible."""
        with _telling(self.path):
            if self._is_csv:
                _write_beside(self.path, self._metadata)
            self._part.chmod(0o666 & ~_umask())
            self._part.replace(self.path)
            _sync_directory(self.path.parent)

    def discard(self) -> None:
        """Leave no trace of a copy that was not published."""
        with suppress(OSError):
            self._part.unlink()
        for end in (self._writer, self._file):
            with suppress(Exception):  # on a full disk even closing fails
                end.close()
        with suppress(OSError):
            os.close(self._descriptor)


def check_output(path: Path, *, force: bool = False) -> None:
    """Raise OutputError unless a copy can be written to this place."""
    if not path.name.lower().endswith(ENDINGS):
        raise OutputError(f"{path}: the ending must be one of {', '.join(ENDINGS)}")
    check_place(path, force=force)


def check_place(path: Path, *, force: bool = False) -> None:
    """Raise OutputError unless a file, of whatever kind, can be written to this place."""
    with _telling(path):  # a directory that may not be looked into
        exists, is_directory, has_place = path.exists(), path.is_dir(), path.parent.is_dir()
    if is_directory:
        raise OutputExists(f"{path} is a directory")
    if exists and not force:
        raise OutputExists(f"{path} exists; choose another name, or --force to replace it")
    if not has_place:
        raise OutputError(f"there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"no permission to write in {path.parent}")


def metadata_path(path: Path) -> Path:
    """Return where the metadata of a CSV copy lies."""
    return path.with_name(path.name + ".meta.json")


def _stream(file: BinaryIO, path: Path) -> Any:
    return pa.CompressedOutputStream(file, "gzip") if path.name.lower().endswith(".gz") else file


def _writer(file: Any, path: Path, schema: pa.Schema) -> Any:
    name = path.name.lower()
    if name.endswith(PARQUET):
        # Text whose distinct values stand apart is written as it comes, and read as text.
        writer = papq.ParquetWriter(file, schema, store_schema=False, **parquet_settings(schema))
        told = base64.b64encode(plain(schema).serialize())
        writer.add_key_value_metadata({**schema.metadata, "ARROW:schema": told})
        return writer
    if name.endswith(ARROW):
        return paipc.new_file(file, schema, options=paipc.IpcWriteOptions(compression="zstd"))
    return pacsv.CSVWriter(file, schema)


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the columns as recipients see them: in none do distinct values stand apart."""
    columns = [column.with_type(plain_type(column.type)) for column in schema]
    return pa.schema(columns, metadata=schema.metadata)


def _fitting(path: Path, schema: pa.Schema) -> pa.Schema:
    """Return the columns as they are handed to the writer of this kind of file."""
    name = path.name.lower()
    if name.endswith(PARQUET):
        return schema
    if name.endswith(ARROW):
        return plain(schema)
    is_view = pa.types.is_string_view  # Arrow's CSV writer takes none
    return pa.schema([c.with_type(pa.string()) if is_view(c.type) else c for c in plain(schema)])


def parquet_settings(schema: pa.Schema) -> dict[str, Any]:
    """Return the writer's settings: the bytes of noisy floats compress best side by side."""
    floats = [field.name for field in schema if pa.types.is_floating(field.type)]
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [name for name in schema.names if name not in floats],
        "use_byte_stream_split": floats,
    }


def _create_hidden(path: Path) -> tuple[int, Path]:
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # as long as this process lives
        if os.fstat(descriptor).st_nlink:
            return descriptor, part
        os.close(descriptor)  # taken for a leftover before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove hidden files of this copy whose writer is gone."""
    for part in path.parent.glob(f".{_escaped(path.name)}.{'[0-9a-f]' * 16}.part"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def write_text(path: Path, text: str) -> None:
    """Write a text so that it appears whole, or not at all."""
    with _telling(path):
        _remove_leftovers(path)
        _write_whole(path, text, beside=path)


def _write_beside(path: Path, metadata: Mapping[str, Any]) -> None:
    _write_whole(metadata_path(path), json.dumps(metadata, indent=2) + "\n", beside=path)


def _write_whole(path: Path, text: str, *, beside: Path) -> None:
    """Write a text by way of a hidden file of `beside`."""
    descriptor, part = _create_hidden(beside)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            part.chmod(0o666 & ~_umask())
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    """Turn the system's errors into one line about the copy."""
    try:
        yield
    except OSError as error:
        reasons = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "the disk quota is used up",
            errno.EFBIG: "the file would be larger than allowed",
            errno.EACCES: "no permission",
            errno.EROFS: "the file system is read-only",
        }
        reason = reasons.get(error.errno or 0, error.strerror or "the system refused")
        raise OutputError(f"{path} cannot be written: {reason}") from None
    except pa.ArrowException:
        # Arrow's own words quote cells
        raise OutputError(
            f"{path} cannot be written: a column does not fit this kind of file; try another "
            "ending (.parquet or .arrow)"
        ) from None


def read_metadata(path: Path) -> dict[str, Any] | None:
    """Return what a copy says of itself; None if it says nothing."""
    name = path.name.lower()
    text: bytes | None = None
    if name.endswith(PARQUET):
        text = (papq.read_schema(path).metadata or {}).get(METADATA_KEY)
    elif name.endswith(ARROW):
        with pa.memory_map(str(path)) as file:
            text = (paipc.open_file(file).schema.metadata or {}).get(METADATA_KEY)
    elif metadata_path(path).is_file():
        text = metadata_path(path).read_bytes()
    return dict(json.loads(text)) if text else None
