"""A copy as a file, on this machine or in a store.

On this machine it grows in a hidden file beside its place, readable by the owner alone, and is
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
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as papq

from cornerwave import sizes
from cornerwave.errors import OutputError, OutputExists, SourceError
from cornerwave.outputs._destination import RowDestination, Sink, Written, exists, writing
from cornerwave.outputs._formats import Writer, writer_of, written_schema
from cornerwave.outputs._stat_copies import STAT_COPIES, StatCopy
from cornerwave.outputs._table_copies import TableCopy
from cornerwave.outputs._uploads import digest_at, is_stored, remove, upload_to
from cornerwave.outputs._workbook import MOST_ROWS, Workbook, too_many
from cornerwave.sources import (
    METADATA_KEY,
    Address,
    DatabaseAddress,
    File,
    Place,
    Source,
    arrow_schema,
    files_of,
    format_of,
    kind_of,
    opened,
    readable,
    stored_files,
)
from cornerwave.spec import CopyMetadata

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


def copy_at(
    place: Place, schema: pa.Schema, metadata: CopyMetadata, *, force: bool = False
) -> RowDestination:
    """Return a copy that this process writes to a place."""
    if isinstance(place, DatabaseAddress):
        return TableCopy(place, schema, metadata, force=force)
    return CopyFile(place, schema, metadata, force=force)


@dataclass(eq=False, repr=False)
class CopyFile(RowDestination):
    """A copy as a file in the `format` of its ending; those of
    Parquet and Arrow state their metadata, those of all others lie beside it.
    """

    place: Path | Address

    def __post_init__(self) -> None:
        self.format = format_of(self.place)
        self._columns = stating(written_schema(self.format, self.schema), self.metadata)
        text = json.dumps(self.metadata.to_json(), indent=2) + "\n"
        self._beside = None if self.format in ("parquet", "arrow") else text.encode()
        self._sink: Sink | None = None
        self._writer: Any = None

    def check(self) -> None:
        """Raise OutputError unless the copy can be written.

        A file that states the same may be the same copy: `finish` compares the bytes.
        """
        check_place(self.place, force=True)
        if self.format == "xlsx" and (self.metadata.rows or 0) > MOST_ROWS:
            raise OutputError(too_many(self.metadata.rows or 0))
        if self.format in STAT_COPIES:
            STAT_COPIES[self.format].check(self.schema.names)
        if self.force:
            return
        if _is_there(self.place):
            if not self._is_stated_there():
                raise exists(self.place)
        elif self._beside is not None and isinstance(self.place, Address):
            there = digest_at(beside := metadata_path(self.place))
            if there not in (None, hashlib.sha256(self._beside).digest()):
                raise exists(beside)

    def _is_stated_there(self) -> bool:
        """Whether the copy at this place has this metadata."""
        try:
            stated = read_metadata(self.place)
            return stated is not None and stated.to_json() == self.metadata.to_json()
        except (SourceError, OSError):
            return False

    def open(self) -> None:
        """Begin."""
        with writing(self.place):
            self._sink = _sink_at(self.place)
            self._writer = self._new_writer(self._sink.file)

    def _new_writer(self, file: BinaryIO) -> Writer:
        if self.format == "xlsx":
            return Workbook(file, self._columns)
        if self.format in STAT_COPIES:
            return STAT_COPIES[self.format](file, self._columns, self.metadata)
        return writer_of(self.format, file, self._columns)

    def encode(self, group: pa.Table) -> Any:
        """Return a group of rows as it will be written; threads may do so side by side."""
        with writing(self.place):
            return self._writer.encode(group.cast(self._columns))

    def append(self, encoded: Any) -> None:
        """Write an encoded group after those before it."""
        with writing(self.place):
            self._writer.append(encoded)
            self._opened.follow()

    def finish(self) -> None:
        """Bring every byte to the disk or the store. Raises OutputExists for another file."""
        with writing(self.place):
            self._writer.close()
            self._opened.settle()
            if not self.force and self._opened.differs():
                raise exists(self.place)

    def publish(self) -> None:
        """Make the finished copy visible."""
        with writing(self.place):
            if self._beside is None:
                self._opened.show(force=self.force)
            else:
                self._publish_both(self._beside)

    def _publish_both(self, metadata: bytes) -> None:
        """Show the metadata and then the copy, or neither."""
        beside: Path | Address = metadata_path(self.place)
        # on a disk, metadata without their copy are replaced; in a store, by force alone
        is_new = _put(beside, metadata, force=self.force or isinstance(beside, Path))
        try:
            self._opened.show(force=self.force)
        except BaseException:
            if is_new:
                beside.unlink() if isinstance(beside, Path) else remove(beside)
            raise

    def hand_over(self) -> Written:
        """Return what shows the finished file, written by a machine of a cluster, in its folder."""
        with writing(self.place):
            return self._opened.hand_over()

    def discard(self) -> None:
        """Leave no trace of a copy that was not published."""
        if isinstance(self._writer, Workbook | StatCopy):
            self._writer.discard()
        if self._sink is not None:
            with suppress(Exception):  # a store may be away
                self._sink.abort()

    @property
    def _opened(self) -> Sink:
        assert self._sink is not None
        return self._sink


def check_place(path: Path | Address, *, force: bool = False) -> None:
    """Raise OutputError unless a file of any kind can be written to this place."""
    if isinstance(path, Address):
        if path.scheme == "https":
            raise OutputError(f"{path} cannot be written: https:// addresses are only read")
        return
    with writing(path):
        if path.is_dir():
            raise OutputExists(f"{path} is a directory")
    if not force and _is_there(path):
        raise exists(path)
    check_parent(path)


def check_parent(path: Path) -> None:
    """Raise OutputError unless something can be made beside this place."""
    with writing(path):  # a directory that may not be looked into
        has_place = path.parent.is_dir()
    if not has_place:
        raise OutputError(f"there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"no permission to write in {path.parent}")


def write_text(path: Path | Address, text: str, *, force: bool = True) -> None:
    """Write a text so that it appears whole, or not at all.

    Unless `force`, raises OutputExists for a file with other contents.
    """
    _put(path, text.encode(), force=force)


def _put(place: Path | Address, content: bytes, *, force: bool) -> bool:
    """Write a short file; return whether there was none. Unless `force`, raises OutputExists."""
    is_new = not _is_there(place)
    with writing(place):
        sink = _sink_at(place)
        try:
            sink.file.write(content)
            sink.settle()
            if not force and sink.differs():
                raise exists(place)
            sink.show(force=force)
        finally:
            sink.abort()
    return is_new


def _is_there(place: Path | Address) -> bool:
    with writing(place):
        return place.exists() if isinstance(place, Path) else is_stored(place)


def _sink_at(place: Path | Address) -> Sink:
    return HiddenFile(place) if isinstance(place, Path) else upload_to(place)


# --- hidden files -----------------------------------------------------------------------


class HiddenFile(Sink):
    """A file beside its place; a thread brings its bytes to the disk behind the one that writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        _remove_leftovers(path)
        self._descriptor, self._part = _create_hidden(path)
        self.file = open(self._descriptor, "wb", closefd=False)  # noqa: SIM115
        self._thread = ThreadPoolExecutor(1)  # starts when there is much to bring
        self._followed = 0
        self._last: Future[None] | None = None

    def follow(self) -> None:
        """Begin with what is new, unless that is little, or the last bytes are still on their way.

        Raises OSError if the disk did not take bytes before.
        """
        size = os.fstat(self._descriptor).st_size
        if size - self._followed >= sizes.SYNC_BYTES and (self._last is None or self._last.done()):
            self.wait()
            self._followed = size
            self._last = self._thread.submit(os.fdatasync, self._descriptor)

    def wait(self) -> None:
        """Wait for what was begun. Raises OSError, which the system reports only once."""
        if self._last is not None:
            self._last.result()

    def settle(self) -> None:
        """Bring every byte to the disk."""
        self.file.close()
        self.wait()
        os.fsync(self._descriptor)

    def differs(self) -> bool:
        """Whether there is a file with other bytes at the place."""
        return self._path.exists() and not filecmp.cmp(self._part, self._path, shallow=False)

    def show(self, *, force: bool) -> None:
        """Move the file to its place, with the permissions of any new file."""
        self._part.chmod(0o666 & ~umask())
        self._part.replace(self._path)
        sync_directory(self._path.parent)

    def hand_over(self) -> Written:
        """Show the file in the folder that all machines see."""
        self.show(force=True)
        return Written(self._path.name)

    def abort(self) -> None:
        """Remove the file unless it was shown."""
        with suppress(OSError):
            self._part.unlink()
        with suppress(OSError):  # on a full disk even closing fails
            self.file.close()
        self._thread.shutdown()
        with suppress(OSError):
            os.close(self._descriptor)


def hidden_beside(path: Path) -> Path:
    """Return a name for what grows beside a place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")


def leftovers_beside(path: Path, *endings: str) -> list[Path]:
    """Return what grows beside a place, or did so until its process was killed."""
    name = f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.part"
    return [part for end in ("", *endings) for part in path.parent.glob(name + end)]


def umask() -> int:
    """Return the permissions that new files do not have."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _create_hidden(path: Path) -> tuple[int, Path]:
    while True:
        part = hidden_beside(path)
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # as long as this process lives
        if os.fstat(descriptor).st_nlink:
            return descriptor, part
        os.close(descriptor)  # removed as a leftover before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove hidden files of this copy whose writer is gone."""
    for part in leftovers_beside(path):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


# --------------------------------------------------------------------------------------------------
# Where a copy's metadata lies: inside a Parquet or Arrow file, in the schema of an Arrow table, in
# the attributes of a pandas frame, or beside a CSV.


def stating(schema: pa.Schema, metadata: CopyMetadata) -> pa.Schema:
    """Return the schema of a table that states how it was made."""
    return schema.with_metadata({METADATA_KEY: json.dumps(metadata.to_json()).encode()})


def metadata_of(source: Source) -> CopyMetadata | None:
    """Return what a copy states about itself, wherever it lies; None if it states nothing.

    Raises SourceError if its metadata are damaged.
    """
    if isinstance(source.path, Address) or (isinstance(source.path, Path) and source.path.exists()):
        return read_metadata(source.path)
    inside = (source.schema.metadata or {}).get(METADATA_KEY)
    return CopyMetadata.parse(inside, source.name) if inside else None


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
