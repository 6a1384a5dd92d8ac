"""Writing a copy: it appears whole, under its name, or not at all.

A copy grows in a hidden file beside its place, readable by the owner alone, and is
moved there when it is complete, known to be right and on the disk. Bytes go there while
further ones are made. What a killed process leaves behind is removed by the next one that
writes there.

The bytes depend on the rows, the metadata and the format, not on the file's name.
"""

import fcntl
import filecmp
import glob
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from cornerwave.errors import OutputError, OutputExists, SourceError
from cornerwave.outputs._copy_metadata import METADATA_KEY, metadata_path, read_metadata
from cornerwave.outputs._formats import writer_of, written_schema
from cornerwave.outputs._table_copies import TableCopy, check_table
from cornerwave.outputs._uploads import (
    StoredCopy,
    check_address,
    digest_at,
    exists,
    is_stored,
    put_bytes,
    text_beside,
)
from cornerwave.sources import Address, DatabaseAddress, Place, format_of

# --------------------------------------------------------------------------------------------------
# Names that a power loss does not take back: a new entry of a directory is on the disk.


def sync_directory(directory: Path) -> None:
    """Bring the entries of a directory to the disk: what was made in it, moved or removed."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Make a directory, and those above it that are missing, so that they stay."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    for each in missing:
        sync_directory(each.parent)


SYNC_BYTES = 1 << 24
"""Bytes of a growing file that are brought to the disk at a time."""


def copy_at(
    place: Place, schema: pa.Schema, metadata: Mapping[str, Any]
) -> "CopyFile | StoredCopy | TableCopy":
    """Return a copy on its way to a place."""
    if isinstance(place, DatabaseAddress):
        return TableCopy(place, schema, metadata)
    if isinstance(place, Address):
        return StoredCopy(place, schema, metadata)
    return CopyFile(place, schema, metadata)


class CopyFile:
    """A copy on its way to `path`, in the `format` of its ending.

    `publish` or `discard` ends it.
    """

    def __init__(self, path: Path, schema: pa.Schema, metadata: Mapping[str, Any]) -> None:
        self.path = path
        self.format = format_of(path)
        self._metadata = metadata
        self._schema = written_schema(self.format, schema).with_metadata(
            {METADATA_KEY: json.dumps(metadata).encode()}
        )
        self._file: Any = None
        self._writer: Any = None
        with writing(path):
            _remove_leftovers(path)
            self._descriptor, self._part = _create_hidden(path)
            self._behind = _Behind(self._descriptor)
            try:
                self._file = os.fdopen(os.dup(self._descriptor), "wb")
                self._writer = writer_of(self.format, self._file, self._schema)
            except BaseException:
                self.discard()
                raise

    def encode(self, group: pa.Table) -> Any:
        """Return a group of rows as it will be written; threads may do so side by side."""
        with writing(self.path):
            return self._writer.encode(group.cast(self._schema))

    def append(self, encoded: Any) -> None:
        """Write an encoded group after those before it."""
        with writing(self.path):
            self._writer.append(encoded)
            self._behind.follow()

    def write(self, group: pa.Table) -> None:
        """Write the next group of rows."""
        self.append(self.encode(group))

    def finish(self, *, force: bool = True) -> None:
        """Bring every byte to the disk. Unless `force`, raises OutputExists for another file."""
        with writing(self.path):
            self._writer.close()
            self._file.close()
            self._behind.wait()
            os.fsync(self._descriptor)
            is_other = not force and _differs(self._part, self.path)
        if is_other:
            raise exists(self.path)

    def publish(self) -> None:
        """Make the finished copy visible."""
        with writing(self.path):
            if self.format in ("csv", "csv.gz"):
                _write_beside(self.path, self._metadata)
            _reveal(self._part, self.path)
            sync_directory(self.path.parent)

    def discard(self) -> None:
        """Leave no trace of a copy that was not published."""
        with suppress(OSError):
            self._part.unlink()
        for end in (self._writer, self._file):
            with suppress(Exception):  # on a full disk even closing fails
                end.close()
        self._behind.end()
        with suppress(OSError):
            os.close(self._descriptor)


class _Behind:
    """Brings the bytes of a growing file to the disk, in a thread behind the one that writes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._followed = descriptor, 0
        self._thread = ThreadPoolExecutor(1)  # starts when there is much to bring
        self._last: Future[None] | None = None

    def follow(self) -> None:
        """Begin with what is new, unless that is little, or the last bytes are still on their way.

        Raises OSError if the disk did not take bytes before.
        """
        size = os.fstat(self._descriptor).st_size
        if size - self._followed >= SYNC_BYTES and (self._last is None or self._last.done()):
            self.wait()
            self._followed = size
            self._last = self._thread.submit(os.fdatasync, self._descriptor)

    def wait(self) -> None:
        """Wait for what was begun. Raises OSError, which the system reports only once."""
        if self._last is not None:
            self._last.result()

    def end(self) -> None:
        """Leave the file alone from now on."""
        self._thread.shutdown()


def check_output(
    path: Place, metadata: Mapping[str, Any] | None = None, *, force: bool = False
) -> None:
    """Raise OutputError unless a copy with this metadata can be written to this place.

    A file that says the same of itself may be the same copy, which `CopyFile.finish` tells.
    """
    format_of(path)
    if isinstance(path, DatabaseAddress):
        return check_table(path, force=force)
    if isinstance(path, Address):
        check_address(path)
        return None if force else _check_stored(path, metadata or {})
    return check_place(path, force=force or (metadata is not None and _says(path, metadata)))


def _check_stored(address: Address, metadata: Mapping[str, Any]) -> None:
    """Raise OutputExists if another copy, or what belongs to one, is at an address."""
    if is_stored(address):
        if not _says(address, metadata):
            raise exists(address)
    elif "csv" in format_of(address):
        there = digest_at(beside := metadata_path(address))
        if there not in (None, hashlib.sha256(text_beside(metadata)).digest()):
            raise exists(beside)


def _says(path: Path | Address, metadata: Mapping[str, Any]) -> bool:
    """Whether there is a copy at this place that says this about itself."""
    try:
        is_there = isinstance(path, Address) or path.is_file()
        return is_there and read_metadata(path) == json.loads(json.dumps(metadata))
    except (SourceError, OSError):
        return False


def check_place(path: Path | Address, *, force: bool = False) -> None:
    """Raise OutputError unless a file of any kind can be written to this place."""
    if isinstance(path, Address):
        check_address(path)
        return
    with writing(path):  # a directory that may not be looked into
        is_there, is_directory, has_place = path.exists(), path.is_dir(), path.parent.is_dir()
    if is_directory:
        raise OutputExists(f"{path} is a directory")
    if is_there and not force:
        raise exists(path)
    if not has_place:
        raise OutputError(f"there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"no permission to write in {path.parent}")


def write_text(path: Path | Address, text: str, *, force: bool = True) -> None:
    """Write a text so that it appears whole, or not at all.

    Unless `force`, raises OutputExists for a file that says anything else.
    """
    if isinstance(path, Address):
        put_bytes(path, text.encode(), force=force)
        return
    with writing(path):
        is_other = path.exists() and path.read_bytes() != text.encode()
    if is_other and not force:
        raise exists(path)
    with writing(path):
        _remove_leftovers(path)
        _write_whole(path, text, beside=path)


# --- hidden files -----------------------------------------------------------------------


def _create_hidden(path: Path) -> tuple[int, Path]:
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # as long as this process lives
        if os.fstat(descriptor).st_nlink:
            return descriptor, part
        os.close(descriptor)  # removed as a leftover before it was locked


def _differs(part: Path, path: Path) -> bool:
    return path.exists() and not filecmp.cmp(part, path, shallow=False)


def _remove_leftovers(path: Path) -> None:
    """Remove hidden files of this copy whose writer is gone."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


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
            _reveal(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _reveal(part: Path, path: Path) -> None:
    """Move a hidden file to its place, with the permissions of any new file."""
    mask = os.umask(0o077)
    os.umask(mask)
    part.chmod(0o666 & ~mask)
    part.replace(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report a copy that cannot be written, in our own words: Arrow's quote cells."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "the system refused"
        raise OutputError(f"{path} cannot be written: {reason}") from None
    except pa.ArrowException:
        raise OutputError(
            f"{path} cannot be written: a column does not fit this format; try another "
            "ending (.parquet or .arrow)"
        ) from None
